//! Examination of the node in a child process: machine description, hardware error counters and findings of the doctor,
//! without a measurement.

use super::{BUSY, Deadline, unknown};
use crate::signals::Signals;
use nodegauge_fleet::check::{self, Remark};
use nodegauge_history::rasdaemon;
use nodegauge_machine::ledger::LedgerReading;
use nodegauge_machine::{OTHER_LOAD, SysRoot, Topology};
use nodegauge_measure::Failure;
use nodegauge_measure::record::{EventCount, Finding, Ledger, Machine};
use nodegauge_toolchain::{ChildEnd, CommandLine, Job, KillReason};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Name of the hidden command that examines the node and prints the [`Examination`] as JSON. Its argument is the time
/// of the last check, in seconds since 1970.
pub const EXAMINE_NODE_COMMAND: &str = "examine-node";
/// Name of rasdaemon as a source of hardware errors.
pub(super) const RASDAEMON: &str = "rasdaemon";

/// Result of examining the node in a child process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Examination {
    pub(super) machine: Machine,
    pub(super) findings: Vec<Finding>,
    pub(super) reading: LedgerReading,
    pub(super) ledger: Ledger,
    /// Time since boot.
    pub(super) uptime: Option<Duration>,
    /// Events in the database of rasdaemon since the last check, or since boot.
    pub(super) rasdaemon: Vec<EventCount>,
    /// Reason why the database of rasdaemon cannot be read; `None` if it was read or does not exist.
    pub(super) rasdaemon_error: Option<String>,
}

impl Examination {
    /// Examines this node, which `topology` and `machine` describe. `since` is the time of the last check, in seconds
    /// since 1970.
    pub fn new(topology: &Topology, machine: Machine, since: u64) -> Self {
        let root = SysRoot::live();
        let findings = nodegauge_machine::examine(topology, &root, &machine);
        let reading = LedgerReading::read(&root);
        let uptime = root.text("proc/uptime").and_then(|text| text.split(' ').next()?.parse().ok());
        let uptime = uptime.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let boot = uptime.and_then(|uptime| SystemTime::now().checked_sub(uptime));
        let boot = boot.and_then(|boot| boot.duration_since(UNIX_EPOCH).ok());
        let since = since.max(boot.map_or(0, |boot| boot.as_secs()));
        let path = Path::new(rasdaemon::PATH);
        let events = if path.exists() { rasdaemon::events(path, since) } else { Ok(Vec::new()) };
        let (events, error) = match events {
            Ok(events) => (events, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Self {
            machine,
            findings,
            ledger: reading.ledger(&root, None),
            reading,
            uptime,
            rasdaemon: events,
            rasdaemon_error: error,
        }
    }

    /// Returns a remark if other programs use the node.
    pub(super) fn other_load_remark(&self) -> Option<Remark> {
        let conditions = check::judge_findings(&self.findings, OTHER_LOAD);
        conditions.into_iter().find(|remark| remark.reason == BUSY)
    }

    /// Examines the node in a child process until the deadline. `since` is the time of the last check.
    ///
    /// # Errors
    /// Returns a remark with the reason why the node is unknown.
    pub(super) fn from_child(
        deadline: Deadline,
        since: Option<SystemTime>,
        signals: &Signals,
    ) -> Result<Self, Remark> {
        let this = nodegauge_os::own_program()
            .map_err(|cause| not_examined(format!("cannot find nodegauge: {cause}")))?;
        let since = since.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let since = since.map_or(0, |since| since.as_secs()).to_string();
        let words = [EXAMINE_NODE_COMMAND.to_owned(), since];
        let command = CommandLine::new(this, words);
        let limit = deadline.remaining_time();
        let ended = nodegauge_toolchain::run(&Job::new(command, limit), &|| signals.is_received())
            .map_err(|cause| not_examined(Failure::from(cause).single_line()))?;
        match ended.end {
            ChildEnd::Killed(KillReason::TimedOut) => {
                let text = format!("level 1 timed out after {:.1} s", limit.as_secs_f64());
                return Err(unknown("deadline", text));
            }
            ChildEnd::Killed(_) => return Err(not_examined("interrupted".to_owned())),
            ChildEnd::Exited(_) => {}
        }
        serde_json::from_str(&ended.stdout).map_err(|_| {
            let first = ended.stderr.lines().next().unwrap_or("no output");
            not_examined(format!("level 1 failed: {first}"))
        })
    }
}

/// Returns the remark for a node that could not be examined.
fn not_examined(text: String) -> Remark {
    unknown("not examined", text)
}
