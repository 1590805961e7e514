//! `nodegauge check`: is this node good, bad or unknown, within a deadline.
//!
//! This process only waits, judges and prints. The examination and every measurement run as child processes with a time
//! limit, so that a process that hangs or is stopped makes the node unknown, and never delays the verdict.

mod examination;
mod measuring;
mod sizing;
mod state;
mod vetting;

use crate::args::check::CheckArgs;
use crate::args::{Database, WhenBusy};
use crate::failure::{Exit, Failure};
use crate::files::refuse_one_file;
use crate::output::{self, Sink};
use crate::session;
use crate::signals::Signals;
pub(crate) use examination::print as print_examination;
use examination::{Examination, RASDAEMON};
use nodegauge_analysis::slow::power::Measured;
use nodegauge_fleet::check::{self, CheckedFigure, NodeVerdict, Remark};
use nodegauge_fleet::reference::{Reference, ReferenceGroup};
use nodegauge_gauge::view::{Block, Note, Section};
use nodegauge_machine::OTHER_LOAD;
use nodegauge_measure::record::{self, EventCount, Finding, Severity, SourceState};
use nodegauge_measure::{Bytes, Fraction, Unit};
use nodegauge_report::text;
use serde::Serialize;
pub(crate) use sizing::print as print_touch_rates;
use state::{CheckState, MeasuredVerdict, SavedState, State};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Time before the deadline at which everything must have ended, so that the verdict is printed in time.
const MARGIN: Duration = Duration::from_millis(100);
/// Time after the deadline at which the process ends, whatever is still to be written.
const LATE: Duration = Duration::from_millis(500);
/// Maximum number of findings in the text.
const FINDINGS: usize = 4;

/// Time until which the verdict must be printed.
#[derive(Debug, Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    /// Returns the time that is left.
    fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now()).saturating_sub(MARGIN)
    }
}

/// Result of a check, as the JSON document contains it.
#[derive(Debug, Clone, Serialize)]
struct CheckReport {
    schema: &'static str,
    host: String,
    /// Time of the check, RFC 3339.
    checked: String,
    level: u8,
    verdict: NodeVerdict,
    /// Reason with at most 20 characters; `null` for a good node.
    reason: Option<String>,
    /// Line with the verdict.
    line: String,
    /// Observations that decide the verdict.
    remarks: Vec<Remark>,
    /// Other observations.
    notes: Vec<String>,
    figures: Vec<ReportedFigure>,
    /// Hardware events since the last check, or since boot.
    events: Vec<EventCount>,
    seconds: f64,
}

/// A figure of the report.
#[derive(Debug, Clone, Serialize)]
struct ReportedFigure {
    name: String,
    unit: &'static str,
    /// Measurements in order of time.
    values: Vec<f64>,
    reference: Option<f64>,
    bound: Option<f64>,
    /// Share of the reference that the best measurement reaches.
    share: Option<Fraction>,
    basis: Option<String>,
    /// Smallest loss that is found in 95 of 100 nodes; `null` if it is unknown.
    loss_found: Option<Fraction>,
    /// Loss that a good node has not.
    loss_sought: Option<Fraction>,
    /// Measurements with which the sought loss would be found; `null` if it is found, or if none would suffice.
    needed: Option<Measured>,
}

/// Schema of the JSON document.
const SCHEMA: &str = "nodegauge-check/1";

/// A check while it runs.
struct Check<'a> {
    args: &'a CheckArgs,
    deadline: Deadline,
    signals: Signals,
    /// Group of the reference to which the node belongs.
    group: Option<ReferenceGroup>,
    remarks: Vec<Remark>,
    notes: Vec<String>,
    figures: Vec<CheckedFigure>,
    events: Vec<EventCount>,
    /// Clock with all cores busy, which every measuring command finds.
    clock: Option<CheckedFigure>,
    /// Findings of the measuring commands that the examination does not have.
    findings: Vec<Finding>,
    /// Sizes of arrays and working sets that are smaller than usual.
    sizes: Vec<Bytes>,
    measured: bool,
    /// History whose own runs are bounds.
    own_runs: Option<PathBuf>,
}

pub(crate) fn execute(args: &CheckArgs) -> Result<Exit, Failure> {
    let started = Instant::now();
    let deadline = Deadline(started + args.time());
    nodegauge_os::withhold_new_files();
    let vetting = args.vet.map(|keep| vetting::Vetting::new(args, keep)).transpose()?;
    let host = vetting.as_ref().map_or_else(host, |vetting| vetting.host().to_owned());
    let state = State::of(args, &host);
    protect_files(args, &state)?;
    let signals = Signals::listen()?;
    let ending = Arc::new(Ending::default());
    // A vetting has another end: the rank that collects waits for all ranks.
    if vetting.is_none() {
        end_at_deadline(args, deadline, &host, &ending);
    }
    let mut check = Check {
        args,
        deadline,
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
    let next = check.run(&state);
    if let Some(signal) = check.signals.received() {
        return Ok(Exit::Signal(signal));
    }
    let mut report = check.report(&host, started);
    let code = args.exit_code(report.verdict);
    // From here on, the verdict is printed by this thread only.
    ending.decide(code);
    if let Some(vetting) = vetting {
        let exit = vetting.end(&report, deadline, &check.signals);
        report.save(next);
        return exit;
    }
    show(args, report, next);
    Ok(Exit::Checked(code))
}

/// Prevents outputs from replacing an input, the history, or each other.
fn protect_files(args: &CheckArgs, state: &Result<State, Failure>) -> Result<(), Failure> {
    // Without a place for the history, there is none to protect.
    let _ = session::store_path(&args.db);
    let state = state.as_ref().ok().map(|state| state.path().to_owned());
    let json = args.json.as_deref().filter(|file| *file != "-").map(PathBuf::from);
    let files = [
        ("--state", state.clone()),
        ("--json", json),
        ("--exclude-file", args.exclude_file.clone()),
        ("--node-file", args.node_file.clone()),
    ];
    for (name, file) in files {
        let Some(file) = file else { continue };
        Sink::File(file.clone()).refuse_inputs()?;
        if let Some(state) = state.as_ref().filter(|_| name != "--state") {
            refuse_one_file(name, &file, "the state", state)?;
        }
    }
    Ok(())
}

/// Verdict of this process, which decides its exit code when it is ended at the deadline.
#[derive(Debug, Default)]
struct Ending(Mutex<Option<u8>>);

impl Ending {
    /// Sets the exit code. While the deadline ends this process, this function does not return.
    fn decide(&self, code: u8) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
    }
}

/// Ends this process at the deadline. If there is no verdict then, e.g. because the kernel does not return from a call,
/// the verdict is *unknown*. If there is one, what is still to be written gets a little more time. Child processes end with
/// this process.
fn end_at_deadline(args: &CheckArgs, deadline: Deadline, host: &str, ending: &Arc<Ending>) {
    let code = args.exit_code(NodeVerdict::Unknown);
    let remark = Remark::new(
        NodeVerdict::Unknown,
        "deadline",
        format!("no verdict within {:.1} s", args.time().as_secs_f64()),
    );
    let line = check::line(host, NodeVerdict::Unknown, Some(&remark), "");
    let ending = Arc::clone(ending);
    let wait = move || {
        let until = |time: Instant| time.saturating_duration_since(Instant::now());
        std::thread::sleep(until(deadline.0));
        let decided = ending.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(verdict) = *decided else {
            output::print_within(&format!("{line}\n"), LATE);
            nodegauge_os::leave(code);
        };
        drop(decided);
        std::thread::sleep(until(deadline.0 + LATE));
        output::note_within("an output was not written within the deadline", LATE);
        nodegauge_os::leave(verdict);
    };
    // Without another thread (`ulimit -u`), no child process can be started either, so that nothing is measured.
    let _ = std::thread::Builder::new().spawn(wait);
}

/// Returns the name of this host.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

/// Prints the verdict, and then saves the state and writes the requested document: neither may delay the verdict. An
/// output that cannot be written is a note, because the exit code must be that of the node.
fn show(args: &CheckArgs, mut report: CheckReport, next: Option<NextState>) {
    let sink = args.json.as_deref().map(Sink::from);
    if sink == Some(Sink::Stdout) {
        write_document(&Sink::Stdout, &report);
        if let Some(failure) = report.save(next) {
            output::note(&failure);
        }
        return;
    }
    note_failure(output::try_print(&format!("{}\n", report.line)));
    report.save(next);
    note_failure(output::try_print(&reasons(args, &report)));
    if let Some(sink) = &sink {
        write_document(sink, &report);
    }
}

/// Writes the JSON document.
fn write_document(sink: &Sink, report: &CheckReport) {
    note_failure(output::json(report).and_then(|text| sink.write(&text)));
}

/// Notes an output that cannot be written.
fn note_failure(written: Result<(), Failure>) {
    if let Err(failure) = written {
        output::note(&failure.in_a_line());
    }
}

/// Returns the lines below the verdict: its reasons, unless only the verdict is requested.
fn reasons(args: &CheckArgs, report: &CheckReport) -> String {
    if args.quiet || args.npd {
        return String::new();
    }
    let figures = report.figures.iter().map(|figure| Note::new("figure", figure.in_words()));
    let remarks =
        report.remarks.iter().map(|remark| Note::new(remark.verdict.name(), remark.text.as_str()));
    let notes = report.notes.iter().map(|note| Note::new("note", note.as_str()));
    let rows: Vec<Note> = figures.chain(remarks).chain(notes).collect();
    if std::io::stdout().is_terminal() {
        let section = Section { id: "check", blocks: rows.into_iter().map(Block::Note).collect() };
        return text::section(&section, output::style());
    }
    // Programs read one row per line.
    rows.iter().map(|row| format!("{:11}{}\n", row.label, row.text)).collect()
}

impl ReportedFigure {
    fn of(figure: &CheckedFigure) -> Self {
        let bound = figure.bound.as_ref();
        let origin = figure.key.is_clock().then(|| "all cores busy".to_owned());
        Self {
            name: figure.key.to_string(),
            unit: figure.key.unit.symbol(),
            values: figure.measured.iter().map(|one| one.value).collect(),
            reference: bound.map(|bound| bound.value),
            bound: bound.map(|bound| bound.bound),
            share: figure.share(),
            basis: bound.map(|bound| bound.basis.clone()).or(origin),
            loss_found: bound.and_then(|bound| bound.power.found),
            loss_sought: bound.map(|bound| bound.power.sought),
            needed: bound.and_then(|bound| bound.power.needed),
        }
    }

    fn in_words(&self) -> String {
        let values: Vec<String> = self.values.iter().map(|value| self.words_of(*value)).collect();
        let compared = match (self.share, self.reference, &self.basis) {
            (Some(share), Some(reference), Some(basis)) => {
                let share = share.floored().in_whole_percent();
                format!("{share} of {} ({basis})", self.words_of(reference))
            }
            (.., Some(basis)) => basis.clone(),
            _ => "nothing to compare with".to_owned(),
        };
        format!("{}: {}; {compared}", self.name, values.join(", "))
    }

    fn words_of(&self, value: f64) -> String {
        let unit: Option<Unit> = serde_json::from_value(self.unit.into()).ok();
        unit.map_or_else(|| format!("{value} {}", self.unit), |unit| unit.in_words(value))
    }
}

impl Check<'_> {
    /// Examines and, from level 2 on, measures the node. Returns what is to be saved.
    fn run(&mut self, state: &Result<State, Failure>) -> Option<NextState> {
        let saved = state.as_ref().map_or(SavedState::Absent, State::read);
        let previous = saved.known();
        let since = previous.and_then(|last| record::time_of(&last.checked));
        let mut examination = match Examination::take(self.deadline, since, &self.signals) {
            Ok(examination) => examination,
            Err(remark) => {
                self.remarks.push(remark);
                return None;
            }
        };
        self.find_group(&examination);
        if let Some(group) = &self.group {
            self.remarks.extend(check::lost_parts(group, &examination.machine));
            if group.inventory.dimms.is_some() && examination.machine.memory.dimms.is_empty() {
                self.notes.push("memory modules: not readable, not compared".to_owned());
            }
        }
        self.judge_errors(&examination, previous);
        let is_other_load = |remark: &Remark| remark.reason == BUSY;
        let conditions = check::conditions(&examination.findings, OTHER_LOAD);
        let is_busy = conditions.iter().any(is_other_load);
        // Level 1 does not measure, so that other load does not matter.
        self.remarks.extend(conditions.into_iter().filter(|remark| !is_other_load(remark)));
        if self.args.level >= 2 {
            if is_busy && self.args.when_busy == WhenBusy::Skip {
                examination = self.wait_until_idle(examination, since);
            }
            let busy = check::conditions(&examination.findings, OTHER_LOAD);
            match busy.into_iter().find(is_other_load) {
                Some(remark) if self.args.when_busy == WhenBusy::Skip => self.remarks.push(remark),
                _ => self.measure(&examination),
            }
        } else {
            self.judge_last(&examination, previous);
        }
        self.note_findings(&examination);
        self.next_state(state, saved, &examination)
    }

    /// Examines the node again while other programs use it, for a part of the time: a job may just have ended.
    fn wait_until_idle(
        &mut self,
        mut examination: Examination,
        since: Option<SystemTime>,
    ) -> Examination {
        let until = Instant::now() + self.deadline.left() / 10;
        while Instant::now() < until && self.signals.received().is_none() {
            match Examination::take(self.deadline, since, &self.signals) {
                Ok(again) => examination = again,
                Err(_) => break,
            }
            let again = check::conditions(&examination.findings, OTHER_LOAD);
            if again.iter().all(|remark| remark.reason != BUSY) {
                break;
            }
        }
        examination
    }

    /// Finds the group of the reference for this node. Without one, the node is unknown.
    fn find_group(&mut self, examination: &Examination) {
        let Some(path) = &self.args.reference else { return };
        let unknown = |reason, text| Remark::new(NodeVerdict::Unknown, reason, text);
        // An unreadable reference, e.g. on a file system that is not mounted, must not drain all nodes.
        match Reference::read_trusted(path) {
            Err(failure) => self.remarks.push(unknown("no reference", failure.in_a_line())),
            Ok(reference) => match reference.group_of(&examination.machine) {
                Some(group) => self.group = Some(group.clone()),
                None => {
                    let text = reference.no_group(&examination.machine);
                    self.remarks.push(unknown("other kind of node", text));
                }
            },
        }
    }

    /// Judges hardware errors since the last check, or since boot.
    fn judge_errors(&mut self, examination: &Examination, previous: Option<&CheckState>) {
        let ledger = &examination.ledger;
        let earlier = previous.filter(|state| examination.reading.is_of_same_boot(&state.ledger));
        let mut events = match earlier {
            Some(state) => examination.reading.since(&state.ledger).events,
            None => ledger.since_boot.clone(),
        };
        for event in &mut events {
            let same = |known: &&EventCount| {
                known.kind == event.kind && known.component == event.component
            };
            event.slot = ledger.since_boot.iter().find(same).and_then(|known| known.slot.clone());
        }
        let interval = match earlier {
            Some(state) => record::time_of(&state.checked).and_then(|time| time.elapsed().ok()),
            None => examination.uptime,
        };
        // rasdaemon counts the same errors; it matters where the kernel's counters are absent.
        let edac = ledger.sources.first();
        let has_edac = edac.is_some_and(|source| source.state == SourceState::Read);
        if !has_edac {
            events.extend(examination.rasdaemon.iter().cloned());
        }
        self.remarks.extend(check::errors(&events, interval));
        let when = if earlier.is_some() { "since the last check" } else { "since boot" };
        self.notes.extend(events.iter().take(FINDINGS).map(|event| format!("{when}: {event}")));
        self.notes.extend(ledger.narrow_links.iter().map(ToString::to_string));
        self.notes.extend(ledger.slow_links.iter().map(ToString::to_string));
        let unread = ledger.sources.iter().filter_map(|source| source.reason.as_ref());
        self.notes.extend(unread.map(|reason| format!("hardware errors: cannot read {reason}")));
        let is_counted = |state| ledger.sources.iter().any(|source| source.state == state);
        if !is_counted(SourceState::Read) && !is_counted(SourceState::Unreadable) {
            self.notes.push("hardware errors: this node has no counters of them".to_owned());
        }
        self.notes
            .extend(examination.rasdaemon_error.iter().map(|why| format!("{RASDAEMON}: {why}")));
        self.events = events;
    }

    /// Judges a node that is not measured now by its last measured verdict.
    fn judge_last(&mut self, examination: &Examination, previous: Option<&CheckState>) {
        let last = previous.and_then(|state| state.measured.as_ref());
        let Some(last) = last else {
            self.notes.push("never measured: nodegauge check --level 2".to_owned());
            if self.group.is_none() && self.remarks.is_empty() {
                let text = "nothing to compare with: give --reference, or measure with --level 2";
                self.remarks.push(Remark::new(NodeVerdict::Unknown, "no reference", text));
            }
            return;
        };
        let words = last.in_words();
        // A node that was started again may have been repaired.
        let is_current = examination.reading.boot() == last.boot.as_deref();
        if last.verdict == NodeVerdict::Bad && is_current {
            let reason = last.reason.clone().unwrap_or_else(|| "bad".to_owned());
            self.remarks.push(Remark::new(NodeVerdict::Bad, reason, words));
        } else {
            self.notes.push(words);
        }
    }

    /// Adds the doctor's findings to the notes.
    fn note_findings(&mut self, examination: &Examination) {
        let known: Vec<&String> = self.remarks.iter().map(|remark| &remark.text).collect();
        // Findings of the measuring commands are few and explain the figures.
        let all = self.findings.iter().chain(&examination.findings);
        let notable = all.filter(|finding| {
            finding.severity >= Severity::Warning && !known.contains(&&finding.text)
        });
        let texts: Vec<String> = notable
            .take(FINDINGS)
            .map(|finding| format!("{}: {}", finding.id, finding.text))
            .collect();
        self.notes.extend(texts);
    }

    /// Returns the state for the next check, unless nothing is to be saved.
    fn next_state(
        &mut self,
        state: &Result<State, Failure>,
        saved: SavedState,
        examination: &Examination,
    ) -> Option<NextState> {
        let is_saved = !self.args.no_save;
        let words = if is_saved { "state not read, state not saved" } else { "state not read" };
        let previous = match saved {
            SavedState::Absent => None,
            SavedState::Known(last) => Some(last),
            SavedState::Refused(why) => {
                self.notes.push(format!("{words}: {}", why.in_a_line()));
                return None;
            }
        };
        let file = match state {
            Ok(file) if is_saved => file.clone(),
            Ok(_) => return None,
            Err(why) => {
                self.notes.push(format!("{words}: {}", why.in_a_line()));
                return None;
            }
        };
        let (verdict, reason) = check::verdict(&self.remarks);
        let now = record::now_rfc3339();
        // An unknown verdict says nothing about the node and leaves the last one.
        let measured =
            (self.measured && verdict != NodeVerdict::Unknown).then(|| MeasuredVerdict {
                at: now.clone(),
                level: self.args.level,
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
        let history = self.args.state.is_none().then(|| self.args.db.clone());
        Some(NextState { file, content, history })
    }

    /// Returns the report of the check.
    fn report(&self, host: &str, started: Instant) -> CheckReport {
        let (verdict, reason) = check::verdict(&self.remarks);
        let shares = self.figures.iter().filter_map(|figure| {
            let share = figure.share()?;
            Some(format!("{} {}", figure.key, share.in_short()))
        });
        let shares: Vec<String> = shares.collect();
        let found = self.figures.iter().chain(&self.clock).filter_map(CheckedFigure::loss_found);
        let found = found.map(|loss| loss.0).reduce(f64::max);
        let found = found.map_or(String::new(), |loss| {
            format!("; finds a loss of {}", Fraction(loss).ceiled().in_short())
        });
        let sizes: String = self.sizes.iter().map(|size| format!(", {size}")).collect();
        let details = match (shares.is_empty(), &self.group) {
            (false, _) => format!("{} of the reference{found}{sizes}", shares.join(", ")),
            (true, Some(_)) => "parts as in the reference".to_owned(),
            (true, None) => "no hardware error".to_owned(),
        };
        let figures = self.figures.iter().chain(&self.clock).map(ReportedFigure::of).collect();
        CheckReport {
            schema: SCHEMA,
            host: host.to_owned(),
            checked: record::now_rfc3339(),
            level: self.args.level,
            verdict,
            reason: reason.map(|remark| remark.reason.clone()),
            line: check::line(host, verdict, reason, &details),
            remarks: self.remarks.clone(),
            notes: self.notes.clone(),
            figures,
            events: self.events.clone(),
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}

/// State to be saved for the next check.
struct NextState {
    file: State,
    content: CheckState,
    /// History next to which the file is, and which is created with its folder.
    history: Option<Database>,
}

impl NextState {
    fn save(&self) -> Result<(), Failure> {
        if let Some(history) = &self.history {
            session::open_store(history)?;
        }
        self.file.write(&self.content)
    }
}

impl CheckReport {
    /// Saves the state. A failure is a note, which is also returned: the verdict does not depend on it.
    fn save(&mut self, next: Option<NextState>) -> Option<String> {
        let failure = next?.save().err()?;
        let note = format!("state not saved: {}", failure.in_a_line());
        self.notes.push(note.clone());
        Some(note)
    }
}

/// Reason of a node that other programs use.
const BUSY: &str = "busy";
