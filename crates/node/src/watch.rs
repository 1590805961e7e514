//! `nodegauge watch`: short samples over a day. Each sample runs in separate processes, so a failure affects only that
//! sample.

mod grid;
mod series;

use crate::caller::{Caller, CommandEnd};
use crate::saving;
use crate::signals::Signals;
use crate::started::{command_job, run_for_record};
use grid::TimeGrid;
use humantime::format_duration;
use nodegauge_gauge::MeasuredNode;
use nodegauge_gauge::view::Page;
use nodegauge_history::HistoryFile;
use nodegauge_machine::OTHER_LOAD;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{self, Measurement, Record, Severity, Status};
use nodegauge_measure::{Failure, legible};
use nodegauge_os::{Wait, WaitEnd, wait_until, wait_whole_time};
use nodegauge_report::conclusion;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::program::ProgramJob;
use series::SampleSeries;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Commands of one sample.
const COMMANDS: [&[&str]; 2] = [&["stream"], &["memory", "latency"]];
/// Time that a command needs in addition to its budget: start, reading of the topology, exit.
const OVERHEAD: Duration = Duration::from_secs(1);
/// Time limit of a measurement as a multiple of its budget, at least [`MIN_TIMEOUT`].
const TIMEOUT_FACTOR: u32 = 20;
/// Minimum time limit of a measurement. On a busy node, the set-up alone may take a minute.
const MIN_TIMEOUT: Duration = Duration::from_secs(300);
/// Divisor of the interval between samples that gives the maximum wait for other load to end.
const WAIT_DIVISOR: u32 = 10;
/// Interval at which time, signals and load are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Options of a series of samples.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    /// Time between the starts of two samples.
    pub every: Duration,
    /// Duration of the whole series.
    pub duration: Duration,
    /// Budget of each measurement of a sample.
    pub budget: Duration,
    /// Labels of the records; the first label identifies the series.
    pub labels: Vec<(String, String)>,
    /// True to start a new series even if a saved series is not complete.
    pub starts_new_series: bool,
    /// True to measure while other programs use the node.
    pub measures_when_busy: bool,
    /// True to print errors only.
    pub is_quiet: bool,
    /// History that receives the runs.
    pub history: HistoryFile,
}

impl WatchRequest {
    /// Checks that a sample ends before the next one is due.
    ///
    /// # Errors
    /// Fails if the interval is too short.
    pub fn validate_interval(&self) -> Result<(), Failure> {
        let min = (self.budget + OVERHEAD) * COMMANDS.len() as u32;
        if self.every >= min {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "--every {} is shorter than a sample of {}: a run of stream and a run of memory latency, {} each",
            format_duration(self.every),
            format_duration(min),
            format_duration(self.budget + OVERHEAD),
        ))
        .hint(format!(
            "--every {} or more",
            format_duration(Duration::from_secs(min.as_secs_f64().ceil() as u64)),
        )))
    }

    /// Takes samples on this node until the series ends.
    ///
    /// # Errors
    /// Fails if the history cannot be written, if the series has already ended, or if no sample was taken.
    pub fn run(&self, site: MeasuredNode, caller: &Caller) -> Result<CommandEnd, Failure> {
        let series = SampleSeries::new(self, &site)?;
        let signals = Signals::listen()?;
        if !self.measures_when_busy {
            // With `--when-busy measure`, the priority is not lowered, because a process with low priority would be
            // slowed down by other load.
            nodegauge_os::lower_priority();
        }
        let mut watch = Watch::new(self, site, signals, series.labels.clone(), caller)?;
        watch.print(&series.in_words(self));
        let mut grid = TimeGrid::new(series.start, self.every);
        let end = series.start + self.duration;
        let mut due = if series.samples == 0 { series.start } else { grid.next(SystemTime::now()) };
        while due < end && watch.wait(&mut due, &mut grid) {
            // The series may have ended while the machine was suspended.
            if SystemTime::now() >= end {
                break;
            }
            watch.sample();
            due = grid.next(SystemTime::now());
        }
        watch.end(&series.labels[0])
    }
}

/// State of a running `watch` command.
struct Watch<'a> {
    request: &'a WatchRequest,
    caller: &'a Caller,
    site: MeasuredNode,
    signals: Signals,
    labels: Vec<(String, String)>,
    jobs: Vec<(CommandLine, ProgramJob<'static>)>,
    /// Runs that have not been saved yet, because the history could not be written.
    unsaved: Vec<Record>,
    /// Headline figures of all samples, without their raw samples.
    headlines: Vec<(&'static str, Measurement)>,
    samples: usize,
    skipped: usize,
    failed: usize,
    invalid: bool,
}

impl<'a> Watch<'a> {
    fn new(
        request: &'a WatchRequest,
        site: MeasuredNode,
        signals: Signals,
        labels: Vec<(String, String)>,
        caller: &'a Caller,
    ) -> Result<Self, Failure> {
        let limit = (request.budget * TIMEOUT_FACTOR).max(MIN_TIMEOUT);
        // The budget may be exceeded on a busy machine: a late sample is better than a missing one.
        let budget = [
            "--budget".to_owned(),
            request.budget.as_secs_f64().to_string(),
            "--exceed-budget".to_owned(),
        ];
        let mut jobs = Vec::new();
        for words in COMMANDS {
            let rest = words[1..].iter().map(|word| (*word).to_owned()).chain(budget.clone());
            let command = CommandLine::new(words[0].to_owned(), rest);
            let job = command_job(&command, &request.history, limit, caller)?;
            jobs.push((command, job));
        }
        Ok(Self {
            request,
            caller,
            site,
            signals,
            labels,
            jobs,
            unsaved: Vec::new(),
            headlines: Vec::new(),
            samples: 0,
            skipped: 0,
            failed: 0,
            invalid: false,
        })
    }

    /// Prints a line, unless the user wants errors only.
    fn print(&self, line: &str) {
        if !self.request.is_quiet {
            self.caller.outputs.print_or_end(line);
        }
    }

    /// Waits until the next sample is due; returns false if a signal ends the command. If the clock is set or the
    /// machine was suspended, `due` is adapted.
    fn wait(&self, due: &mut SystemTime, grid: &mut TimeGrid) -> bool {
        let interrupted = || self.signals.is_received();
        loop {
            let now = SystemTime::now();
            let left = due.duration_since(now).unwrap_or_default();
            if left > self.request.every {
                *due = grid.next(now);
                continue;
            }
            // The clock may have been set meanwhile, so the due time is computed again.
            let wait =
                Wait::within(left.min(POLL_INTERVAL)).every(POLL_INTERVAL).unless(&interrupted);
            if wait_whole_time(&wait) == WaitEnd::Interrupted {
                return false;
            }
            if left.is_zero() {
                return true;
            }
        }
    }

    /// Waits for other load to end; returns the load if it does not.
    fn wait_until_idle(&self) -> Option<String> {
        let interrupted = || self.signals.is_received();
        let wait = Wait::within(self.request.every / WAIT_DIVISOR)
            .every(POLL_INTERVAL)
            .unless(&interrupted);
        let mut load = None;
        let is_quiet = wait_until(&wait, || {
            load = self.other_load();
            load.is_none().then_some(())
        });
        if is_quiet.is_ok() { None } else { load }
    }

    /// Returns the current load of other programs if it would disturb a sample.
    fn other_load(&self) -> Option<String> {
        let MeasuredNode { topology, machine, root, .. } = &self.site;
        let mut found = nodegauge_machine::examine(topology, root, machine);
        found.retain(|one| one.id == OTHER_LOAD && one.severity == Severity::Critical);
        found.into_iter().next().map(|load| load.text)
    }

    /// Takes a sample and prints its figures in one line.
    fn sample(&mut self) {
        let now = record::now_rfc3339();
        let time = now.trim_end_matches('Z').replace('T', " ");
        if !self.request.measures_when_busy
            && let Some(load) = self.wait_until_idle()
        {
            self.skipped += 1;
            self.print(&format!("{time}  skipped: {load}\n"));
            return;
        }
        let mut lines = Vec::new();
        let mut failed = false;
        for (command, job) in std::mem::take(&mut self.jobs) {
            if !self.signals.is_received() {
                match run_for_record(&command, &job, &self.signals, self.caller) {
                    Ok(Some(run)) => {
                        lines.push(in_words(&run, self.caller));
                        self.keep_headlines(&run);
                        self.save(run);
                    }
                    Ok(None) => {}
                    Err(failure) => {
                        failed = true;
                        lines.push(format!(
                            "{} failed: {}",
                            command.program(),
                            failure.single_line()
                        ));
                    }
                }
            }
            self.jobs.push((command, job));
        }
        self.samples += usize::from(!lines.is_empty() && !failed);
        self.failed += usize::from(failed);
        if !lines.is_empty() {
            self.print(&format!("{time}  {}\n", lines.join(", ")));
        }
    }

    /// Stores the headline figures of a run for the conclusion.
    fn keep_headlines(&mut self, run: &Record) {
        for (title, m) in conclusion::headline_figures(run, self.caller.gauges) {
            let mut figure = Measurement::new(&m.gauge, &m.test, &m.name, m.unit);
            figure.value = m.value;
            figure.validity = m.validity.clone();
            self.headlines.push((title, figure));
        }
    }

    /// Saves a run, and earlier runs that could not be saved.
    fn save(&mut self, mut run: Record) {
        run.labels.extend(self.labels.iter().cloned());
        self.invalid |= run.measurements.iter().any(|m| m.validity.status == Status::Invalid);
        self.unsaved.push(run);
        if let Err(failure) = self.save_all() {
            let kept = count_in_words(self.unsaved.len(), "run");
            self.caller
                .outputs
                .print_error(&format!("{}; {kept} will be saved later", failure.single_line()));
        }
    }

    fn save_all(&mut self) -> Result<(), Failure> {
        // The history is opened for every sample, because during a day the file may be moved, or the disk may be
        // unavailable for a while.
        let mut store = self.request.history.open()?;
        while let Some(run) = self.unsaved.first() {
            store.save(run)?;
            self.unsaved.remove(0);
        }
        Ok(())
    }

    /// Prints a summary and writes runs that could not be saved to a file in the current folder.
    fn end(mut self, (key, value): &(String, String)) -> Result<CommandEnd, Failure> {
        let figures: Vec<(&'static str, &Measurement)> =
            self.headlines.iter().map(|(title, m)| (*title, m)).collect();
        let conclusion = conclusion::series_conclusion(self.samples, &figures);
        if !self.request.is_quiet && conclusion.is_some() {
            self.caller.outputs.show(&Page { conclusion, ..Page::default() });
        }
        let page = format!(": nodegauge report --trend '{key}={value}'");
        let page = if self.samples > 0 { page.as_str() } else { "" };
        self.print(&format!("{:11}{}{page}\n", "watched", self.tally()));
        if !self.unsaved.is_empty()
            && let Err(failure) = self.save_all()
        {
            let folders = [PathBuf::new(), std::env::temp_dir()];
            let file = saving::write_to_first_folder(&self.unsaved, &folders, self.caller.outputs)?;
            return Err(Failure::missing(format!(
                "{}; {} are in {}",
                failure.single_line(),
                count_in_words(self.unsaved.len(), "run"),
                legible::path(&file),
            ))
            .hint(saving::import_command(&file, &self.request.history).to_string()));
        }
        Ok(match self.signals.received_signal() {
            Some(signal) => CommandEnd::Signal(signal),
            None if self.samples == 0 && self.failed == 0 => {
                let skipped = count_in_words(self.skipped, "sample");
                let text = format!(
                    "no sample was taken: {skipped} skipped because other programs used the node"
                );
                return Err(Failure::unmet(text).hint("--when-busy measure"));
            }
            None if self.invalid || self.failed > 0 => CommandEnd::Unmet,
            None => CommandEnd::Met,
        })
    }

    /// Formats the numbers of taken, skipped and failed samples.
    fn tally(&self) -> String {
        let mut words = count_in_words(self.samples, "sample");
        for (number, what) in [(self.skipped, "skipped"), (self.failed, "failed")] {
            if number > 0 {
                words.push_str(&format!(", {number} {what}"));
            }
        }
        words
    }
}

/// Describes the headline figures of a run, e.g. `memory 33.1 GB/s`.
fn in_words(run: &Record, caller: &Caller) -> String {
    let mut figures = Vec::new();
    for head in caller.gauges.iter().flat_map(|gauge| gauge.headlines(run)) {
        let Some(m) = head.figure else { continue };
        let doubt = match m.validity.status {
            Status::Valid => String::new(),
            status => format!(" ({})", status.name()),
        };
        figures.push(format!("{} {}{doubt}", head.title, m.in_words()));
    }
    let cut = if run.complete { "" } else { "interrupted: " };
    let figures = if figures.is_empty() { "no result".to_owned() } else { figures.join(", ") };
    format!("{cut}{figures}")
}
