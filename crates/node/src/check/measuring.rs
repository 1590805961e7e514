//! Measurements of a check: commands of nodegauge that run as child processes. A command is repeated if one of its
//! figures is below the bound, or if it cannot exclude a loss worth acting on.

use super::sizing::{DataSize, SizedData, SizingProbeResult, probe};
use super::{Check, Examination, unknown};
use crate::started::{command_job, run_for_record};
use nodegauge_arena::names::LATENCY;
use nodegauge_fleet::check::{self, CheckedFigure, FigureBound, NodeVerdict, Remark};
use nodegauge_fleet::figures::NodeFigure;
use nodegauge_history::Store;
use nodegauge_machine::OTHER_LOAD;
use nodegauge_measure::Failure;
use nodegauge_measure::figure_names::stream::TEST as STREAM;
use nodegauge_measure::record::{Finding, Machine, Measurement, Record};
use nodegauge_placement::rank_variables;
use nodegauge_toolchain::CommandLine;
use std::path::PathBuf;
use std::time::Duration;

/// Measuring command of a check, with its share of the time.
struct Part {
    words: &'static [&'static str],
    /// Test of the figures; `None` if the command measures several tests.
    test: Option<&'static str>,
    share: f64,
}

impl Part {
    /// True if the command measures figures of this test.
    fn measures(&self, test: &str) -> bool {
        self.test.is_none_or(|own| own == test)
    }

    /// Returns the part of the command whose size the check chooses; `None` if the command uses its default sizes.
    fn sized(&self) -> Option<SizedData> {
        match self.test {
            Some(STREAM) => Some(SizedData::Arrays),
            Some(LATENCY) => Some(SizedData::Set),
            _ => None,
        }
    }
}

/// Commands of level 2. The remaining time is for repeated measurements.
const MEMORY: [Part; 2] = [
    Part { words: &["stream"], test: Some(STREAM), share: 0.32 },
    Part { words: &["memory", LATENCY], test: Some(LATENCY), share: 0.18 },
];
/// Command of level 3: all gauges, each with a share of the budget.
const EVERYTHING: [Part; 1] = [Part { words: &["run", "--quick"], test: None, share: 0.42 }];

/// Time that a command needs in addition to its budget: start, reading of the topology, exit.
const OVERHEAD: Duration = Duration::from_millis(600);
/// Grace period for a command that exceeds its time limit.
const GRACE: Duration = Duration::from_millis(1600);
/// Shortest budget of a measurement.
const MIN_BUDGET: Duration = Duration::from_millis(500);
/// Maximum number of earlier runs of this node from which a bound is computed.
const OWN_RUNS: u32 = 20;

impl Check<'_> {
    /// Measures the figures of the level, and repeats commands with figures that are low or undecided.
    pub(super) fn measure(&mut self, examination: &Examination) {
        let parts: &[Part] = if self.request.level == 2 { &MEMORY } else { &EVERYTHING };
        let is_sized = parts.iter().any(|part| part.sized().is_some());
        let probed = is_sized.then(|| probe(&examination.machine, self.deadline)).flatten();
        let measured_cache = probed.and_then(|probed| probed.cache);
        let machine = Machine { measured_cache, ..examination.machine.clone() };
        let whole = self.deadline.remaining_time().saturating_sub(GRACE);
        self.own_runs = self.trusted_history();
        let mut failed = Vec::new();
        let mut measured: Vec<(&Part, DataSize)> = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            if self.signals.is_received() {
                return;
            }
            if let Some((group, test)) = self.group.as_ref().zip(part.test)
                && group.figures.iter().all(|figure| figure.key.test != test)
            {
                let text = format!("{}: not in the reference, not measured", part.words.join(" "));
                self.notes.push(text);
                continue;
            }
            let budget = whole.mul_f64(part.share).saturating_sub(OVERHEAD).max(MIN_BUDGET);
            let others: f64 = parts[at + 1..].iter().map(|later| later.share).sum();
            let max = self
                .deadline
                .remaining_time()
                .saturating_sub(GRACE + OVERHEAD + whole.mul_f64(others));
            let size = match (part.sized(), probed) {
                (Some(what), Some(SizingProbeResult { rates, .. })) => {
                    let reference = part.test.and_then(|test| self.reference_size(test));
                    DataSize::new(what, reference, &machine, &rates, max)
                }
                _ => DataSize::DEFAULT,
            };
            self.note_size(part, size);
            measured.push((part, size));
            match self.record(part, size, budget) {
                Ok(record) => self.add(&record, size, examination),
                Err(remark) => failed.push(remark),
            }
        }
        let again: Vec<(&Part, DataSize)> =
            measured.into_iter().filter(|(part, _)| self.has_low_figure(part)).collect();
        for (at, (part, size)) in again.iter().enumerate() {
            let rest = (again.len() - at) as u32;
            let left = self.deadline.remaining_time().saturating_sub(GRACE) / rest;
            // The repetition takes as long as the first measurement if the remaining time permits.
            let budget = left.saturating_sub(OVERHEAD).min(whole.mul_f64(part.share));
            if budget < MIN_BUDGET || self.signals.is_received() {
                break;
            }
            if let Ok(record) = self.record(part, *size, budget) {
                self.add(&record, *size, examination);
            }
        }
        let findings = [&examination.findings[..], &self.findings].concat();
        let cause = check::likely_cause(self.group.as_ref(), &examination.machine, &findings);
        let low_clock = self.clock.as_ref().filter(|clock| clock.is_worse_than_bound());
        let cause = cause.or_else(|| low_clock.map(|clock| clock.key.short_name().to_owned()));
        let remarks = self.figures.iter().filter_map(|figure| figure.remark(cause.as_deref()));
        // A bad figure is reported before its causes, i.e. before the clock and the parts.
        let mut judged: Vec<Remark> = remarks.collect();
        judged.extend(self.clock.as_ref().and_then(|clock| clock.remark(None)));
        judged.extend(failed);
        // These are findings of a measurement that the examination did not make. The examination has already judged
        // other load.
        let found = check::judge_findings(&self.findings, OTHER_LOAD);
        judged.extend(found.into_iter().filter(|remark| remark.verdict == NodeVerdict::Bad));
        let bounded = self.figures.iter().any(|figure| figure.bound.is_some());
        if !bounded && judged.is_empty() {
            let text = "no reference and fewer than five earlier runs: give --reference";
            judged.push(unknown("no reference", text));
        }
        self.measured = bounded;
        self.remarks.splice(0..0, judged);
    }

    /// True if a figure of the command is below its bound or cannot exclude a loss worth acting on. Every command
    /// reports the clock, so a low clock is measured again only once.
    fn has_low_figure(&self, part: &Part) -> bool {
        let clock =
            self.clock.iter().filter(|clock| clock.measured.len() < check::MAX_MEASUREMENTS);
        let figures = self.figures.iter().filter(|figure| part.measures(&figure.key.test));
        figures.chain(clock).any(CheckedFigure::needs_repetition)
    }

    /// Adds a note for a size that is smaller than the usual one.
    fn note_size(&mut self, part: &Part, size: DataSize) {
        let Some((given, usual)) = size.given.zip(size.usual) else { return };
        let command = part.words.join(" ");
        let why = if size.is_reduced { ", which would take too long" } else { "" };
        let of = if size.is_reduced { "" } else { " (from the reference)" };
        self.notes.push(format!("{command}: size {given}{of} instead of {usual}{why}"));
        self.sizes.push(given);
    }

    /// Runs a command and returns its record.
    fn record(&mut self, part: &Part, size: DataSize, budget: Duration) -> Result<Record, Remark> {
        let limit = self.deadline.remaining_time().saturating_sub(GRACE);
        if limit < MIN_BUDGET {
            return Err(unknown("deadline", format!("no time for {}", part.words.join(" "))));
        }
        let options = ["--budget".to_owned(), format!("{:.1}", budget.as_secs_f64())];
        let exceed = ["--exceed-budget", "--label", "check=yes"].map(str::to_owned);
        let rest = part.words[1..].iter().map(|word| (*word).to_owned());
        let size = size.given.map(|size| ["--size".to_owned(), format!("{}B", size.0)]);
        let rest = rest.chain(options).chain(exceed).chain(size.into_iter().flatten());
        let command = CommandLine::new(part.words[0].to_owned(), rest);
        let mut job = command_job(&command, &self.request.history, limit, self.caller)
            .map_err(not_measured)?;
        // The commands of a rank measure only its own node, so they must not see the variables of the launcher.
        job.environment.extend(rank_variables().map(|name| (name.to_owned(), None)));
        let record = match run_for_record(&command, &job, &self.signals, self.caller) {
            Ok(Some(record)) => record,
            Ok(None) => return Err(unknown("interrupted", "nothing was measured")),
            Err(_) if self.deadline.remaining_time() <= GRACE => {
                let text = format!("{} did not end in time", part.words.join(" "));
                return Err(unknown("deadline", text));
            }
            Err(failure) => return Err(not_measured(failure)),
        };
        if self.request.is_saved {
            let history = self.request.history.open();
            let saved = history.and_then(|mut store| store.save(&record).map_err(Failure::from));
            if let Err(failure) = saved {
                self.notes.push(format!("run not saved: {}", failure.single_line()));
            }
        }
        Ok(record)
    }

    /// Adds the figures of a record to the figures of the check.
    fn add(&mut self, record: &Record, size: DataSize, examination: &Examination) {
        let selection = self.caller.headlines();
        for figure in selection.figures_in_record(record) {
            let known = self.figures.iter_mut().find(|checked| checked.key == figure.key);
            if let Some(checked) = known {
                checked.measured.push(figure);
                continue;
            }
            let key = figure.key.clone();
            let bound = self.bound(&figure, &key.test, &record.id, examination, |run| {
                selection.figures_in_record(run)
            });
            self.figures.push(CheckedFigure {
                key,
                measured: vec![figure],
                bound,
                is_reduced: size.is_reduced,
            });
        }
        if let Some(figure) = record_clock(record) {
            self.add_clock(figure, &record.id, examination);
        }
        self.add_findings(&record.findings, examination);
        self.note_failures(record);
    }

    /// Adds the clock of a record.
    fn add_clock(&mut self, figure: NodeFigure, id: &str, examination: &Examination) {
        if let Some(clock) = &mut self.clock {
            clock.measured.push(figure);
            return;
        }
        let key = figure.key.clone();
        let bound = self
            .bound(&figure, STREAM, id, examination, |run| record_clock(run).into_iter().collect());
        let measured = vec![figure];
        self.clock = Some(CheckedFigure { key, measured, bound, is_reduced: false });
    }

    /// Adds the findings of a record that are not among those of the examination, e.g. a low clock.
    fn add_findings(&mut self, findings: &[Finding], examination: &Examination) {
        for finding in findings {
            let mut known = examination.findings.iter().chain(&self.findings);
            if known.all(|one| one.id != finding.id) {
                self.findings.push(finding.clone());
            }
        }
    }

    /// Adds notes for the figures of a record that have no result.
    fn note_failures(&mut self, record: &Record) {
        let invalid = record.measurements.iter().filter(|m: &&Measurement| m.value.is_none());
        for m in invalid.take(2) {
            let reason = m.validity.reasons.first().map_or("no result", String::as_str);
            self.notes.push(format!("{} {}: {reason}", m.test, m.name_in_words()));
        }
    }

    /// Returns the history whose runs of this node determine the bounds; `None` if there is a reference. The runs
    /// affect the verdict, so the file must belong to the caller or to root.
    fn trusted_history(&mut self) -> Option<PathBuf> {
        if self.request.reference.is_some() {
            return None;
        }
        let path = self.request.history.path().ok()?;
        match nodegauge_os::check_trusted(&path) {
            Ok(()) => return Some(path),
            Err(why) if why.is_absent() => {}
            Err(why) => {
                self.notes.push(format!("earlier runs not read: {}: {why}", path.display()))
            }
        }
        None
    }

    /// Returns the bound of a figure from the reference. Without a reference, it is computed from earlier runs of this
    /// test on this node with the same size.
    fn bound(
        &self,
        figure: &NodeFigure,
        test: &str,
        id: &str,
        examination: &Examination,
        figures_of: impl Fn(&Record) -> Vec<NodeFigure>,
    ) -> Option<FigureBound> {
        let NodeFigure { key, size, .. } = figure;
        if self.request.reference.is_some() {
            return FigureBound::from_reference(self.group.as_ref()?, key);
        }
        let names = self.caller.registry.former_names();
        let store = Store::open_to_read(self.own_runs.as_ref()?, names).ok()??;
        let host = examination.machine.host.as_deref();
        let runs = store.own_runs(host, test, None, OWN_RUNS + 1).ok()?;
        let mut values = Vec::new();
        for run in runs.iter().filter(|run| run.id != id) {
            for one in figures_of(run) {
                if one.key == *key && one.size == *size && one.doubt.is_none() {
                    values.push(one.value);
                }
            }
        }
        let bound = FigureBound::from_own_runs(key, &values)?;
        Some(FigureBound { size: *size, ..bound })
    }
}

/// Returns the clock in a record as a figure.
fn record_clock(record: &Record) -> Option<NodeFigure> {
    record.machine.processor.measured_hz.map(|clock| NodeFigure::clock(clock.0))
}

/// Returns the remark for a command that failed.
fn not_measured(failure: Failure) -> Remark {
    unknown("not measured", failure.single_line())
}
