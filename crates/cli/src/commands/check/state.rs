//! State between two checks: the counters of hardware errors, and the last measured verdict.

use crate::args::check::CheckArgs;
use crate::failure::Failure;
use crate::output::{self, Sink};
use crate::session;
use humantime::format_duration;
use nodegauge_fleet::check::NodeVerdict;
use nodegauge_machine::ledger::LedgerReading;
use nodegauge_measure::record;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Schema of the state.
pub(super) const SCHEMA: &str = "nodegauge-check-state/1";

/// Content of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CheckState {
    pub(super) schema: String,
    /// Time of the last check, RFC 3339.
    pub(super) checked: String,
    /// Counters at that time.
    pub(super) ledger: LedgerReading,
    /// Last verdict of a check that measured.
    pub(super) measured: Option<MeasuredVerdict>,
}

/// Verdict of a check that measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct MeasuredVerdict {
    /// Time of the check, RFC 3339.
    pub(super) at: String,
    pub(super) level: u8,
    pub(super) verdict: NodeVerdict,
    pub(super) reason: Option<String>,
    /// Identifier of the boot.
    pub(super) boot: Option<String>,
}

impl MeasuredVerdict {
    /// Describes the verdict with its age.
    pub(super) fn in_words(&self) -> String {
        let age = record::time_of(&self.at).and_then(|time| time.elapsed().ok());
        let minutes = |time: Duration| Duration::from_secs(time.as_secs() / 60 * 60);
        let age = age.map_or("at an unknown time".to_owned(), |elapsed| match minutes(elapsed) {
            Duration::ZERO => "less than 1min ago".to_owned(),
            whole => format!("{} ago", format_duration(whole)),
        });
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        format!("measured {}{reason} at level {}, {age}", self.verdict, self.level)
    }
}

/// File of the state.
pub(super) struct State(PathBuf);

impl State {
    /// Returns the file: as given, or next to the history.
    pub(super) fn of(args: &CheckArgs, host: &str) -> Result<Self, Failure> {
        if let Some(path) = &args.state {
            return Ok(Self(path.clone()));
        }
        let history = session::store_path(&args.db)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        let name: String =
            host.chars().map(|c| if is_plain(c) { c } else { '-' }).take(128).collect();
        Ok(Self(history.with_file_name(format!("check-{name}.json"))))
    }

    /// Reads the state of the last check; `None` if there is none, or one that this version cannot read.
    pub(super) fn read(&self) -> Option<CheckState> {
        let bytes = nodegauge_os::read_file(&self.0, nodegauge_os::LONGEST_TEXT).ok()?;
        serde_json::from_slice(&bytes).ok().filter(|state: &CheckState| state.schema == SCHEMA)
    }

    /// Replaces the state.
    pub(super) fn write(&self, state: &CheckState) -> Result<(), Failure> {
        Sink::File(self.0.clone()).write(&output::json(state)?)
    }
}
