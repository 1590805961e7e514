//! `nodegauge watch`: short samples over a day. Every sample runs in separate processes, so that a failure affects only
//! that sample.

mod grid;

use crate::args::{WatchArgs, WhenBusy};
use crate::failure::{Exit, Failure};
use crate::gauges::GAUGES;
use crate::output;
use crate::saving;
use crate::session;
use crate::signals::Signals;
use crate::started::{program_of, record_of};
use grid::TimeGrid;
use humantime::format_duration;
use nodegauge_gauge::Site;
use nodegauge_gauge::view::{Page, sentence};
use nodegauge_machine::{DescribeOptions, OTHER_LOAD, SysRoot};
use nodegauge_measure::legible;
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::{self, Measurement, Record, Severity, Status};
use nodegauge_report::conclusion;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::program::ProgramJob;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Commands of one sample.
const COMMANDS: [&[&str]; 2] = [&["stream"], &["memory", "latency"]];
/// Time that a command takes in addition to its budget, for its start, for reading the topology and for its exit.
const START: Duration = Duration::from_secs(1);
/// Time limit of a measurement as a multiple of its budget, and the minimum of that limit: on a busy node, the setup alone
/// may take a minute.
const HANGS: u32 = 20;
const HANGS_AFTER: Duration = Duration::from_secs(300);
/// The maximum wait for the end of other load is the interval between samples divided by this number.
const WAITS: u32 = 10;
/// Interval at which clock, signals and load are polled.
const LOOK: Duration = Duration::from_millis(250);
/// Default label of a series.
const LABEL: &str = "watch";

pub(crate) fn execute(args: &WatchArgs) -> Result<Exit, Failure> {
    let least = (args.budget + START) * COMMANDS.len() as u32;
    if args.every < least {
        return Err(Failure::usage(format!(
            "--every {} is shorter than a sample of {}: a run of stream and a run of memory latency, {} each",
            format_duration(args.every),
            format_duration(least),
            format_duration(args.budget + START),
        ))
        .hint(format!(
            "--every {} or more",
            format_duration(Duration::from_secs(least.as_secs_f64().ceil() as u64)),
        )));
    }
    let (topology, machine) = session::this_machine(&DescribeOptions::default())?;
    let site = Site::new(topology, machine, SysRoot::live());
    let series = MetricSeries::of(args, &site)?;
    let signals = Signals::listen()?;
    if args.when_busy == WhenBusy::Skip {
        // With `--when-busy measure`, the priority stays normal, because a low priority would reduce the measured
        // figures under other load.
        nodegauge_os::yield_to_others();
    }
    let mut watch = Watch::new(args, site, signals, series.labels.clone())?;
    watch.say(&series.in_words(args));
    let mut grid = TimeGrid::new(series.began, args.every);
    let end = series.began + args.whole;
    let mut due = if series.samples == 0 { series.began } else { grid.next(SystemTime::now()) };
    while due < end && watch.wait(&mut due, &mut grid) {
        // The machine may have been suspended until after the end of the series.
        if SystemTime::now() >= end {
            break;
        }
        watch.sample();
        due = grid.next(SystemTime::now());
    }
    watch.end(&series.labels[0])
}

/// Series of samples, identified by their first label.
struct MetricSeries {
    labels: Vec<(String, String)>,
    began: SystemTime,
    /// Number of saved runs of the series.
    samples: usize,
}

impl MetricSeries {
    /// Returns the saved series to continue, or a new one.
    fn of(args: &WatchArgs, site: &Site) -> Result<Self, Failure> {
        let now = SystemTime::now();
        let named = args.label.first();
        let (key, value) = named.map_or((LABEL, None), |(key, value)| (key.as_str(), Some(value)));
        // The history is opened for writing, so that an unwritable history is reported before anything is measured.
        let store = session::open_store(&args.db)?;
        let host = site.machine.host.as_deref();
        let saved = store.series(host, key, value.map(String::as_str))?.filter(|_| !args.anew);
        let began = |first: &str| record::time_of(first).unwrap_or(now);
        let saved = saved.map(|saved| (began(&saved.first), saved));
        let is_over = |run_began: SystemTime| run_began + args.whole <= now;
        let mut labels = args.label.clone();
        Ok(match (saved, named) {
            (Some((run_began, saved)), Some((label_key, label_value))) if is_over(run_began) => {
                return Err(Failure::usage(format!(
                    "--for {} of series {label_key}={label_value} has ended: {} since {}",
                    format_duration(args.whole),
                    counted(saved.runs, "run"),
                    saved.first,
                ))
                .hint("use a longer --for, another --label, or --anew"));
            }
            (Some((run_began, saved)), _) if !is_over(run_began) => {
                if labels.is_empty() {
                    labels.push((LABEL.to_owned(), saved.value));
                }
                Self { labels, began: run_began, samples: saved.runs }
            }
            _ => {
                if labels.is_empty() {
                    labels.push((LABEL.to_owned(), record::now_rfc3339()));
                }
                Self { labels, began: now, samples: 0 }
            }
        })
    }

    fn in_words(&self, args: &WatchArgs) -> String {
        let (key, value) = &self.labels[0];
        let end = record::rfc3339(self.began + args.whole).unwrap_or_default();
        let end = sentence::minute(&end);
        let goes_on = match self.samples {
            0 => String::new(),
            n => format!("; continues after {}", counted(n, "run")),
        };
        let every = format_duration(args.every);
        format!("{:11}{key}={value}: a sample every {every} until {end} UTC{goes_on}\n", "watch")
    }
}

/// State of a running `watch` command.
struct Watch<'a> {
    args: &'a WatchArgs,
    site: Site,
    signals: Signals,
    labels: Vec<(String, String)>,
    jobs: Vec<(CommandLine, ProgramJob<'static>)>,
    /// Runs that could not be saved yet.
    unsaved: Vec<Record>,
    /// Headline figures of all samples, without the samples that they consist of.
    headlines: Vec<(&'static str, Measurement)>,
    samples: usize,
    skipped: usize,
    failed: usize,
    invalid: bool,
}

impl<'a> Watch<'a> {
    fn new(
        args: &'a WatchArgs,
        site: Site,
        signals: Signals,
        labels: Vec<(String, String)>,
    ) -> Result<Self, Failure> {
        let limit = (args.budget * HANGS).max(HANGS_AFTER);
        // A sample that takes longer than planned, e.g. on a busy machine, is better than no sample.
        let budget = [
            "--budget".to_owned(),
            args.budget.as_secs_f64().to_string(),
            "--exceed-budget".to_owned(),
        ];
        let of = |words: &&[&str]| {
            let rest = words[1..].iter().map(|word| (*word).to_owned()).chain(budget.clone());
            let command = CommandLine::new(words[0].to_owned(), rest);
            Ok((command.clone(), program_of(&command, &args.db, limit)?))
        };
        let jobs = COMMANDS.iter().map(of).collect::<Result<_, Failure>>()?;
        Ok(Self {
            args,
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

    fn say(&self, line: &str) {
        if !self.args.quiet {
            output::print(line);
        }
    }

    /// Waits until a sample is due; returns false if the user ends the watch. If the clock is set back or the
    /// machine was suspended, only the time of the next sample changes.
    fn wait(&self, due: &mut SystemTime, grid: &mut TimeGrid) -> bool {
        loop {
            if self.signals.received().is_some() {
                return false;
            }
            let now = SystemTime::now();
            match due.duration_since(now) {
                Err(_) => return true,
                Ok(left) if left.is_zero() => return true,
                Ok(left) if left > self.args.every => *due = grid.next(now),
                Ok(left) => std::thread::sleep(left.min(LOOK)),
            }
        }
    }

    /// Waits for other load to end; returns the load if it does not.
    fn busy(&self) -> Option<String> {
        let until = SystemTime::now() + self.args.every / WAITS;
        loop {
            let Site { topology, machine, root, .. } = &self.site;
            let found = nodegauge_machine::examine(topology, root, machine);
            let is_load = |id: &str, severity| id == OTHER_LOAD && severity == Severity::Critical;
            let load = found.into_iter().find(|found| is_load(&found.id, found.severity))?;
            if SystemTime::now() >= until || self.signals.received().is_some() {
                return Some(load.text);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Takes a sample and prints a line with the figures.
    fn sample(&mut self) {
        let now = record::now_rfc3339();
        let time = now.trim_end_matches('Z').replace('T', " ");
        if self.args.when_busy == WhenBusy::Skip
            && let Some(load) = self.busy()
        {
            self.skipped += 1;
            self.say(&format!("{time}  skipped: {load}\n"));
            return;
        }
        let mut lines = Vec::new();
        let mut failed = false;
        for (command, job) in std::mem::take(&mut self.jobs) {
            if self.signals.received().is_none() {
                match record_of(&command, &job, &self.signals) {
                    Ok(Some(run)) => {
                        lines.push(in_words(&run));
                        self.keep_headlines(&run);
                        self.save(run);
                    }
                    Ok(None) => {}
                    Err(failure) => {
                        failed = true;
                        lines.push(format!(
                            "{} failed: {}",
                            command.program(),
                            failure.in_a_line()
                        ));
                    }
                }
            }
            self.jobs.push((command, job));
        }
        self.samples += usize::from(!lines.is_empty() && !failed);
        self.failed += usize::from(failed);
        if !lines.is_empty() {
            self.say(&format!("{time}  {}\n", lines.join(", ")));
        }
    }

    /// Keeps the headline figures of a run for the conclusion.
    fn keep_headlines(&mut self, run: &Record) {
        for (title, m) in conclusion::headline_figures(run, &GAUGES) {
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
            let kept = counted(self.unsaved.len(), "run");
            output::error(&format!("{}; {kept} will be saved later", failure.in_a_line()));
        }
    }

    fn save_all(&mut self) -> Result<(), Failure> {
        // The history is opened for every sample: during a day, the file may be moved, or the disk may be temporarily
        // unavailable.
        let mut store = session::open_store(&self.args.db)?;
        while let Some(run) = self.unsaved.first() {
            store.save(run)?;
            self.unsaved.remove(0);
        }
        Ok(())
    }

    /// Prints a summary and writes runs that could not be saved to a file in the current folder.
    fn end(mut self, (key, value): &(String, String)) -> Result<Exit, Failure> {
        let tallied =
            [(self.samples, "sample"), (self.skipped, "skipped"), (self.failed, "failed")];
        let tallied = tallied.iter().enumerate().filter(|(i, (n, _))| *i == 0 || *n > 0);
        let tallied = tallied.map(|(i, (n, what))| match i {
            0 => counted(*n, what),
            _ => format!("{n} {what}"),
        });
        let tallied = tallied.collect::<Vec<_>>().join(", ");
        let figures: Vec<(&'static str, &Measurement)> =
            self.headlines.iter().map(|(title, m)| (*title, m)).collect();
        let conclusion = conclusion::of_series(self.samples, &figures);
        if !self.args.quiet && conclusion.is_some() {
            output::show(&Page { conclusion, ..Page::default() });
        }
        let page = format!(": nodegauge report --trend '{key}={value}'");
        let page = if self.samples > 0 { page.as_str() } else { "" };
        self.say(&format!("{:11}{tallied}{page}\n", "watched"));
        if !self.unsaved.is_empty()
            && let Err(failure) = self.save_all()
        {
            let file = saving::keep(&self.unsaved, &[PathBuf::new(), std::env::temp_dir()])?;
            return Err(Failure::missing(format!(
                "{}; {} are in {}",
                failure.in_a_line(),
                counted(self.unsaved.len(), "run"),
                legible::path(&file),
            ))
            .hint(saving::import_command(&file, &self.args.db).to_string()));
        }
        Ok(match self.signals.received() {
            Some(signal) => Exit::Signal(signal),
            None if self.samples == 0 && self.failed == 0 => {
                let skipped = counted(self.skipped, "sample");
                let text = format!(
                    "no sample was taken: {skipped} skipped because other programs used the node"
                );
                return Err(Failure::unmet(text).hint("--when-busy measure"));
            }
            None if self.invalid || self.failed > 0 => Exit::Unmet,
            None => Exit::Success,
        })
    }
}

/// Returns the headline figures of a run, e.g. `memory 33.1 GB/s`.
fn in_words(run: &Record) -> String {
    let heads = GAUGES.iter().flat_map(|gauge| gauge.headlines(run));
    let figures = heads.filter_map(|head| {
        let m = head.figure?;
        let doubt = match m.validity.status {
            Status::Valid => String::new(),
            status => format!(" ({})", status.name()),
        };
        Some(format!("{} {}{doubt}", head.title, m.in_words()))
    });
    let figures: Vec<String> = figures.collect();
    let cut = if run.complete { "" } else { "interrupted: " };
    let figures = if figures.is_empty() { "no result".to_owned() } else { figures.join(", ") };
    format!("{cut}{figures}")
}
