//! `nodegauge check`: determines whether this node is good, bad or unknown, within a deadline.
//!
//! This process only waits and judges. The examination and every measurement run in child processes with a time limit.
//! If one of them hangs or is stopped, the node becomes unknown, and the verdict is not delayed.

mod deadline;
mod examination;
mod measuring;
mod report;
mod sizing;
mod state;
mod vetting;

use crate::caller::{Caller, CommandEnd};
use crate::signals::Signals;
use deadline::{Deadline, ExitDecision};
use examination::RASDAEMON;
pub use examination::{EXAMINE_NODE_COMMAND, Examination};
use nodegauge_fleet::check::{self, CheckedFigure, NodeVerdict, Remark};
use nodegauge_fleet::reference::{Reference, ReferenceGroup};
use nodegauge_history::HistoryFile;
use nodegauge_machine::OTHER_LOAD;
use nodegauge_measure::record::{self, EventCount, Finding, Ledger, Severity, SourceState};
use nodegauge_measure::{Bytes, Failure};
pub use report::{CheckReport, ReportedFigure};
pub use sizing::{MEASURE_TOUCH_COMMAND, SizingProbeResult};
use state::{CheckState, MeasuredVerdict, SavedState, StateFile};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use vetting::Vetting;
pub use vetting::VettingRequest;

/// Maximum number of findings in the text output.
const MAX_FINDINGS: usize = 4;
/// Reason for a node that other programs are using.
const BUSY: &str = "busy";

/// Exit codes for the verdicts on a node. At the deadline, this process exits with one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerdictCodes {
    /// Code for a good node.
    pub good: u8,
    /// Code for a bad node.
    pub bad: u8,
    /// Code for a node that cannot be judged.
    pub unknown: u8,
}

impl VerdictCodes {
    /// Returns the code for a verdict.
    pub fn code(self, verdict: NodeVerdict) -> u8 {
        match verdict {
            NodeVerdict::Good => self.good,
            NodeVerdict::Bad => self.bad,
            NodeVerdict::Unknown => self.unknown,
        }
    }
}

/// Options of a check.
#[derive(Debug, Clone)]
pub struct CheckRequest {
    /// Extent: level 1 examines the node, level 2 also measures memory, level 3 measures everything.
    pub level: u8,
    /// Maximum time until the verdict is printed.
    pub time: Duration,
    /// File with the reference; without a reference, earlier runs of this node determine the bounds.
    pub reference: Option<PathBuf>,
    /// True to measure while other programs use the node.
    pub measures_when_busy: bool,
    /// Exit codes for the verdicts.
    pub codes: VerdictCodes,
    /// Vetting of the nodes of a job.
    pub vetting: Option<VettingRequest>,
    /// File that keeps the state between two checks; by default, it is next to the history.
    pub state: Option<PathBuf>,
    /// True to save the state and the measured runs.
    pub is_saved: bool,
    /// History with earlier runs of this node.
    pub history: HistoryFile,
}

/// Check with valid options, whose files have been found.
pub struct PreparedCheck {
    request: CheckRequest,
    caller: Caller,
    started: Instant,
    deadline: Deadline,
    vetting: Option<Vetting>,
    host: String,
    state: Result<StateFile, Failure>,
}

/// Outcome of a check.
pub enum CheckEnd {
    /// A signal ended the check.
    Signal(u8),
    /// The nodes of a job were vetted.
    Vetted(CommandEnd),
    /// Verdict on this node, which the caller prints.
    Checked(Box<CheckedNode>),
}

/// Verdict on this node, with the state for the next check.
pub struct CheckedNode {
    /// Verdict with all observations.
    pub report: CheckReport,
    next: Option<NextState>,
}

impl CheckedNode {
    /// Saves the state. If this fails, the failure is added to the notes of the report and returned. The verdict does
    /// not depend on it.
    pub fn save(&mut self, caller: &Caller) -> Option<String> {
        let failure = self.next.take()?.save(caller).err()?;
        let note = format!("state not saved: {}", failure.single_line());
        self.report.notes.push(note.clone());
        Some(note)
    }
}

/// Running check.
struct Check<'a> {
    request: &'a CheckRequest,
    caller: &'a Caller,
    deadline: Deadline,
    signals: Signals,
    /// Group of the reference to which this node belongs.
    group: Option<ReferenceGroup>,
    remarks: Vec<Remark>,
    notes: Vec<String>,
    figures: Vec<CheckedFigure>,
    events: Vec<EventCount>,
    /// Clock with all cores busy, which every measuring command reports.
    clock: Option<CheckedFigure>,
    /// Findings of measuring commands that are not among those of the examination.
    findings: Vec<Finding>,
    /// Sizes of arrays and working sets that are smaller than the usual ones.
    sizes: Vec<Bytes>,
    measured: bool,
    /// History with the runs of this node that determine the bounds; `None` if there is a reference.
    own_runs: Option<PathBuf>,
}

impl PreparedCheck {
    /// Prepares a check: starts its time and finds its files.
    ///
    /// # Errors
    /// Fails if the vetting options do not match the job, or if they name files that cannot be written.
    pub fn new(request: CheckRequest, caller: Caller) -> Result<Self, Failure> {
        let started = Instant::now();
        let deadline = Deadline(started + request.time);
        nodegauge_os::deny_writes_to_new_files();
        let vetting = match &request.vetting {
            Some(asked) => Some(Vetting::new(asked, caller.outputs)?),
            None => None,
        };
        let host = vetting.as_ref().map_or_else(host, |vetting| vetting.host().to_owned());
        let state = StateFile::from_request(&request, &host);
        Ok(Self { request, caller, started, deadline, vetting, host, state })
    }

    /// Returns the file with the state; `None` if no folder for it is known.
    pub fn state_path(&self) -> Option<&Path> {
        self.state.as_ref().ok().map(StateFile::path)
    }

    /// Runs the check. At the deadline, this process ends even if there is no verdict.
    ///
    /// # Errors
    /// Fails if signals cannot be received, or if the verdict of a rank cannot be sent to rank 0.
    pub fn run(self) -> Result<CheckEnd, Failure> {
        let signals = Signals::listen()?;
        let ending = ExitDecision::default();
        // A vetting has a separate deadline, because rank 0 waits for all ranks.
        if self.vetting.is_none() {
            self.end_at_deadline(&ending);
        }
        let mut check = Check {
            request: &self.request,
            caller: &self.caller,
            deadline: self.deadline,
            signals,
            group: None,
            remarks: Vec::new(),
            notes: Vec::new(),
            figures: Vec::new(),
            events: Vec::new(),
            clock: None,
            findings: Vec::new(),
            sizes: Vec::new(),
            measured: false,
            own_runs: None,
        };
        let next = check.run(&self.state);
        if let Some(signal) = check.signals.received_signal() {
            return Ok(CheckEnd::Signal(signal));
        }
        let report = check.report(&self.host, self.started);
        // From here on, only this thread prints the verdict.
        ending.decide(self.request.codes.code(report.verdict));
        let mut checked = CheckedNode { report, next };
        if let Some(vetting) = &self.vetting {
            let end = vetting.end(&checked.report, self.deadline, &check.signals, &self.caller);
            checked.save(&self.caller);
            return end.map(CheckEnd::Vetted);
        }
        Ok(CheckEnd::Checked(Box::new(checked)))
    }

    /// Ends this process at the deadline. If there is no verdict, the verdict is *unknown*.
    fn end_at_deadline(&self, ending: &ExitDecision) {
        let remark = Remark::new(
            NodeVerdict::Unknown,
            "deadline",
            format!("no verdict within {:.1} s", self.request.time.as_secs_f64()),
        );
        let line = check::verdict_line(&self.host, NodeVerdict::Unknown, Some(&remark), "");
        ending.watch(self.deadline, line, self.request.codes.unknown, self.caller.outputs);
    }
}

/// Returns the name of this host.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

impl Check<'_> {
    /// Examines the node and, from level 2 on, measures it. Returns the state to save.
    fn run(&mut self, state: &Result<StateFile, Failure>) -> Option<NextState> {
        let saved = state.as_ref().map_or(SavedState::Absent, StateFile::read);
        let previous = saved.known_state();
        let since = previous.and_then(|last| record::parse_rfc3339(&last.checked));
        let mut examination = match Examination::from_child(self.deadline, since, &self.signals) {
            Ok(examination) => examination,
            Err(remark) => {
                self.remarks.push(remark);
                return None;
            }
        };
        self.find_group(&examination);
        if let Some(group) = &self.group {
            self.remarks.extend(check::judge_parts(group, &examination.machine));
            if group.inventory.dimms.is_some() && examination.machine.memory.dimms.is_empty() {
                self.notes.push("memory modules: cannot be read, not compared".to_owned());
            }
        }
        self.judge_errors(&examination, previous);
        // Level 1 does not measure, so other load does not affect it.
        let conditions = check::judge_findings(&examination.findings, OTHER_LOAD);
        self.remarks.extend(conditions.into_iter().filter(|remark| remark.reason != BUSY));
        if self.request.level < 2 {
            self.judge_last(&examination, previous);
        } else if self.request.measures_when_busy {
            self.measure(&examination);
        } else {
            if examination.other_load_remark().is_some() {
                examination = self.wait_until_idle(examination, since);
            }
            match examination.other_load_remark() {
                Some(remark) => self.remarks.push(remark),
                None => self.measure(&examination),
            }
        }
        self.note_findings(&examination);
        self.next_state(state, saved, &examination)
    }

    /// Examines the node repeatedly until no other program uses it, for at most a tenth of the remaining time. A job
    /// may just be ending.
    fn wait_until_idle(
        &mut self,
        mut examination: Examination,
        since: Option<SystemTime>,
    ) -> Examination {
        let until = Instant::now() + self.deadline.remaining_time() / 10;
        while Instant::now() < until && !self.signals.is_received() {
            match Examination::from_child(self.deadline, since, &self.signals) {
                Ok(again) => examination = again,
                Err(_) => break,
            }
            if examination.other_load_remark().is_none() {
                break;
            }
        }
        examination
    }

    /// Finds the group of the reference for this node. If there is none, the node is unknown.
    fn find_group(&mut self, examination: &Examination) {
        let Some(path) = &self.request.reference else { return };
        // If a reference cannot be read, e.g. because its file system is not mounted, the node is unknown; otherwise
        // all nodes could be drained.
        match Reference::read_trusted(path) {
            Err(failure) => self.remarks.push(unknown("no reference", failure.single_line())),
            Ok(reference) => match reference.machine_group(&examination.machine) {
                Some(group) => self.group = Some(group.clone()),
                None => {
                    let text = reference.no_group_reason(&examination.machine);
                    self.remarks.push(unknown("other kind of node", text));
                }
            },
        }
    }

    /// Judges hardware errors since the last check, or since boot.
    fn judge_errors(&mut self, examination: &Examination, previous: Option<&CheckState>) {
        let ledger = &examination.ledger;
        let earlier = previous.filter(|state| examination.reading.is_from_same_boot(&state.ledger));
        let mut events = match earlier {
            Some(state) => examination.reading.since(&state.ledger).events,
            None => ledger.since_boot.clone(),
        };
        for event in &mut events {
            event.slot = component_slot(event, ledger);
        }
        let interval = match earlier {
            Some(state) => {
                record::parse_rfc3339(&state.checked).and_then(|time| time.elapsed().ok())
            }
            None => examination.uptime,
        };
        // rasdaemon counts the same errors, so its database is used only if the kernel has no counters.
        let edac = ledger.sources.first();
        let has_edac = edac.is_some_and(|source| source.state == SourceState::Read);
        if !has_edac {
            events.extend(examination.rasdaemon.iter().cloned());
        }
        self.remarks.extend(check::judge_errors(&events, interval));
        let when = if earlier.is_some() { "since the last check" } else { "since boot" };
        self.notes.extend(events.iter().take(MAX_FINDINGS).map(|event| format!("{when}: {event}")));
        self.notes.extend(ledger.narrow_links.iter().map(ToString::to_string));
        self.notes.extend(ledger.slow_links.iter().map(ToString::to_string));
        let unread = ledger.sources.iter().filter_map(|source| source.reason.as_ref());
        self.notes.extend(unread.map(|reason| format!("hardware errors: cannot read {reason}")));
        let mut states = ledger.sources.iter().map(|source| source.state);
        if !states.any(|state| matches!(state, SourceState::Read | SourceState::Unreadable)) {
            self.notes.push("hardware errors: this node has no counters".to_owned());
        }
        self.notes
            .extend(examination.rasdaemon_error.iter().map(|why| format!("{RASDAEMON}: {why}")));
        self.events = events;
    }

    /// Judges a node without a new measurement by the last measured verdict.
    fn judge_last(&mut self, examination: &Examination, previous: Option<&CheckState>) {
        let last = previous.and_then(|state| state.measured.as_ref());
        let Some(last) = last else {
            self.notes.push("never measured: nodegauge check --level 2".to_owned());
            if self.group.is_none() && self.remarks.is_empty() {
                let text =
                    "no reference and no earlier runs: give --reference, or measure with --level 2";
                self.remarks.push(unknown("no reference", text));
            }
            return;
        };
        let words = last.in_words();
        // The verdict is outdated after a reboot, because the node may have been repaired.
        let is_current = examination.reading.boot() == last.boot.as_deref();
        if last.verdict == NodeVerdict::Bad && is_current {
            let reason = last.reason.clone().unwrap_or_else(|| "bad".to_owned());
            self.remarks.push(Remark::new(NodeVerdict::Bad, reason, words));
        } else {
            self.notes.push(words);
        }
    }

    /// Adds at most [`MAX_FINDINGS`] findings to the notes: those that are at least warnings and that no remark
    /// contains.
    fn note_findings(&mut self, examination: &Examination) {
        let known: Vec<&String> = self.remarks.iter().map(|remark| &remark.text).collect();
        // The findings of measuring commands come first, because they are few and explain the figures.
        let all = self.findings.iter().chain(&examination.findings);
        let notable = all.filter(|finding| {
            finding.severity >= Severity::Warning && !known.contains(&&finding.text)
        });
        let texts: Vec<String> = notable
            .take(MAX_FINDINGS)
            .map(|finding| format!("{}: {}", finding.id, finding.text))
            .collect();
        self.notes.extend(texts);
    }

    /// Returns the state that is saved for the next check; `None` if it must not be saved, or if the file is unusable.
    fn next_state(
        &mut self,
        state: &Result<StateFile, Failure>,
        saved: SavedState,
        examination: &Examination,
    ) -> Option<NextState> {
        let is_saved = self.request.is_saved;
        let words = if is_saved { "state not read, state not saved" } else { "state not read" };
        let previous = match saved {
            SavedState::Absent => None,
            SavedState::Known(last) => Some(last),
            SavedState::Refused(why) => {
                self.notes.push(format!("{words}: {}", why.single_line()));
                return None;
            }
        };
        let file = match state {
            Ok(file) if is_saved => file.clone(),
            Ok(_) => return None,
            Err(why) => {
                self.notes.push(format!("{words}: {}", why.single_line()));
                return None;
            }
        };
        let (verdict, reason) = check::verdict(&self.remarks);
        let now = record::now_rfc3339();
        // An unknown verdict does not replace an earlier verdict, because it says nothing about the node.
        let measured =
            (self.measured && verdict != NodeVerdict::Unknown).then(|| MeasuredVerdict {
                at: now.clone(),
                level: self.request.level,
                verdict,
                reason: reason.map(|remark| remark.reason.clone()),
                boot: examination.reading.boot().map(str::to_owned),
            });
        let content = CheckState {
            schema: state::SCHEMA.to_owned(),
            checked: now,
            ledger: examination.reading.clone(),
            measured: measured.or_else(|| previous.and_then(|last| last.measured)),
        };
        // The folder of the history is created with the history.
        let history = self.request.state.is_none().then(|| self.request.history.clone());
        Some(NextState { file, content, history })
    }
}

/// State to be saved for the next check.
struct NextState {
    file: StateFile,
    content: CheckState,
    /// History whose folder contains the file; the folder is created together with the history.
    history: Option<HistoryFile>,
}

impl NextState {
    fn save(&self, caller: &Caller) -> Result<(), Failure> {
        if let Some(history) = &self.history {
            history.open()?;
        }
        self.file.write(&self.content, caller.outputs)
    }
}

/// Creates a remark that makes the verdict on the node unknown.
fn unknown(reason: &str, text: impl Into<String>) -> Remark {
    Remark::new(NodeVerdict::Unknown, reason, text)
}

/// Returns the slot of the component that an event concerns, according to the ledger.
fn component_slot(event: &EventCount, ledger: &Ledger) -> Option<String> {
    let known = ledger
        .since_boot
        .iter()
        .find(|known| known.kind == event.kind && known.component == event.component)?;
    known.slot.clone()
}
