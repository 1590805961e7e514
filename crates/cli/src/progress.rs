//! Progress on standard error: a bar on a terminal; elsewhere, a plain line every 30 s, so that the log of a
//! job shows progress.

use crate::signals::Signals;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nodegauge_measure::Observer;
use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shows a bar on a terminal, and periodic lines elsewhere.
pub(crate) struct Progress {
    bar: ProgressBar,
    log: Option<Log>,
    started: Instant,
    signals: Signals,
}

/// Number of steps of the progress bar.
const STEPS: u64 = 1000;

impl Progress {
    /// Returns the progress of `command` with an optional `budget`; shows nothing if `quiet`.
    pub(crate) fn new(
        quiet: bool,
        signals: Signals,
        command: &str,
        budget: Option<Duration>,
    ) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let target = if on_terminal && !quiet {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {elapsed} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        let log = || Log { command: command.to_owned(), budget, ..Log::default() };
        let log = (!on_terminal && !quiet).then(log);
        Self { bar, log, started: Instant::now(), signals }
    }

    /// Removes the progress bar from the terminal.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Observer for Progress {
    fn phase(&mut self, what: &str) {
        self.bar.set_position(0);
        self.bar.set_message(what.to_owned());
        self.bar.set_prefix(what.to_owned());
        if let Some(log) = &mut self.log {
            (log.latest, log.began, log.share) = (what.to_owned(), self.started.elapsed(), 0.0);
        }
    }

    fn progress(&mut self, share: f64, latest: &str) {
        self.bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        if let Some(log) = &mut self.log {
            log.share = share.clamp(0.0, 1.0);
        }
        if !latest.is_empty() {
            self.bar.set_message(format!("{}: {latest}", self.bar.prefix()));
            if let Some(log) = &mut self.log {
                log.latest = latest.to_owned();
            }
        }
    }

    /// This function is called frequently, also while reference programs run; therefore it prints the progress lines.
    fn interrupted(&self) -> bool {
        let line = self.log.as_ref().and_then(|log| log.line(self.started.elapsed()));
        line.iter().for_each(|line| crate::output::note(line));
        self.signals.received().is_some()
    }
}

/// Progress as plain lines, for a pipe or a file.
#[derive(Default)]
struct Log {
    command: String,
    budget: Option<Duration>,
    /// Latest phase or figures.
    latest: String,
    /// Start of the phase, and the completed share of it.
    began: Duration,
    share: f64,
    /// Number of elapsed intervals, with or without a line.
    lines: Cell<u64>,
    /// Shown estimate of the total time. A later estimate replaces it only if it is shorter: a number that grows helps
    /// nobody to plan.
    end: Cell<Option<Duration>>,
}

impl Log {
    /// Time between two lines, and before the first line.
    const INTERVAL: Duration = Duration::from_secs(30);
    /// Minimum completed share of a phase from which the total time is estimated.
    const LEAST_SHARE: f64 = 0.02;

    /// Returns the line that is due at this time, if any, e.g. `stream: 40 s of 60 s, triad 33.1 GB/s`.
    fn line(&self, elapsed: Duration) -> Option<String> {
        let due = elapsed.as_secs() / Self::INTERVAL.as_secs();
        if self.lines.replace(due) == due {
            return None;
        }
        let seconds = |time: Duration| time.as_secs_f64().round();
        let rest = |share: f64| (elapsed - self.began).mul_f64((1.0 - share) / share);
        let by_share = (self.share >= Self::LEAST_SHARE).then(|| elapsed + rest(self.share));
        let earlier = self.end.get().or(self.budget);
        let estimate = earlier.into_iter().chain(by_share.filter(|_| self.budget.is_none())).min();
        self.end.set(estimate);
        let end = match estimate.filter(|estimate| *estimate > elapsed) {
            Some(estimate) if self.budget == Some(estimate) => {
                format!(" of {} s", seconds(estimate))
            }
            Some(estimate) => format!(" of about {} s", seconds(estimate)),
            None => String::new(),
        };
        Some(format!("{}: {} s{end}, {}", self.command, seconds(elapsed), self.latest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_line_each_half_minute() {
        let log = |budget, share| Log {
            command: "stream".to_owned(),
            budget,
            latest: "triad 33.1 GB/s".to_owned(),
            began: Duration::from_secs(20),
            share,
            ..Log::default()
        };
        let mut known = log(Some(Duration::from_secs(60)), 0.4);
        let at = |progress_log: &Log, time: f64| progress_log.line(Duration::from_secs_f64(time));
        assert_eq!(at(&known, 29.9), None);
        assert_eq!(at(&known, 30.4).unwrap(), "stream: 30 s of 60 s, triad 33.1 GB/s");
        assert_eq!(at(&known, 59.0), None);
        known.latest = "checking".to_owned();
        assert_eq!(at(&known, 61.0).unwrap(), "stream: 61 s, checking");
        assert_eq!(
            at(&log(None, 0.5), 40.0).unwrap(),
            "stream: 40 s of about 60 s, triad 33.1 GB/s"
        );
        // The estimate of a later phase is not shown if it is longer.
        let mut phases = log(None, 0.5);
        assert_eq!(at(&phases, 40.0).unwrap(), "stream: 40 s of about 60 s, triad 33.1 GB/s");
        phases.share = 0.05;
        assert_eq!(at(&phases, 100.0).unwrap(), "stream: 100 s, triad 33.1 GB/s");
        for share in [0.0, 0.001] {
            assert_eq!(at(&log(None, share), 90.0).unwrap(), "stream: 90 s, triad 33.1 GB/s");
        }
    }
}
