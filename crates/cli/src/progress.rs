//! Progress on standard error: a bar on a terminal; elsewhere, a plain line every 30 s for the log of a job.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nodegauge_gauge::cpus::CpuWatch;
use nodegauge_gauge::view::wrap;
use nodegauge_measure::Observer;
use nodegauge_node::signals::Signals;
use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Progress display: a bar on a terminal, and periodic lines elsewhere.
pub(crate) struct Progress {
    bar: ProgressBar,
    log: Option<Log>,
    estimate: Estimate,
    /// Current phase.
    phase: String,
    /// Latest figures in the current phase.
    latest: String,
    started: Instant,
    signals: Signals,
    /// CPUs of this process, which are read from time to time.
    cpus: Option<CpuWatch>,
}

/// Number of steps of the progress bar.
const STEPS: u64 = 1000;
/// Width of the progress bar in columns.
const BAR: usize = 20;

impl Progress {
    /// Creates the progress display of `command`, with the user's `budget` if any; it shows nothing if `quiet`.
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
        if let Ok(style) = ProgressStyle::with_template(&format!("{{bar:{BAR}}} {{prefix}}{{msg}}"))
        {
            bar.set_style(style.progress_chars("=> "));
        }
        let log = (!on_terminal && !quiet)
            .then(|| Log { command: command.to_owned(), lines: Cell::new(0) });
        Self {
            bar,
            log,
            estimate: Estimate { budget, ..Estimate::default() },
            phase: String::new(),
            latest: String::new(),
            started: Instant::now(),
            signals,
            cpus: None,
        }
    }

    /// Reads the CPUs of this process from time to time, until [`Self::take_watch`] is called.
    pub(crate) fn watch(&mut self, cpus: CpuWatch) {
        self.cpus = Some(cpus);
    }

    /// Ends the watch that [`Self::watch`] began, and returns it with the states of the CPUs.
    pub(crate) fn take_watch(&mut self) -> Option<CpuWatch> {
        self.cpus.take()
    }

    /// Sets the predicted time of the run.
    pub(crate) fn set_predicted_time(&mut self, time: Option<Duration>) {
        self.estimate.expected_time = time.filter(|time| !time.is_zero());
    }

    /// Removes the progress bar from the terminal.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Draws the bar or prints a line if one is due. The bar never moves back.
    fn show(&self) {
        let elapsed = self.started.elapsed();
        let Some(log) = &self.log else {
            if self.bar.is_hidden() {
                return;
            }
            let position = self.estimate.total_share(elapsed) * STEPS as f64;
            self.bar.set_position(self.bar.position().max(position as u64));
            self.bar.set_prefix(self.estimate.words(elapsed));
            let before = BAR + format!(" {}, ", self.bar.prefix()).len() + 1;
            let room = crate::output::error_width().saturating_sub(before);
            let words = message(&self.phase, &self.latest, room);
            self.bar.set_message(if words.is_empty() { words } else { format!(", {words}") });
            return;
        };
        if log.is_due(elapsed) {
            let latest = if self.latest.is_empty() { &self.phase } else { &self.latest };
            let times = self.estimate.words(elapsed);
            crate::output::print_note(&format!("{}: {times}, {latest}", log.command));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Observer for Progress {
    fn begin_phase(&mut self, what: &str) {
        self.phase = what.to_owned();
        self.latest.clear();
        self.estimate.begin_phase(self.started.elapsed());
        self.show();
    }

    fn report_progress(&mut self, share: f64, latest: &str) {
        self.estimate.share = share.clamp(0.0, 1.0);
        if !latest.is_empty() {
            self.latest = latest.to_owned();
        }
        self.show();
    }

    /// True if a signal was received. Also updates the display, because this function is called frequently, even while
    /// reference programs run.
    fn is_interrupted(&self) -> bool {
        self.show();
        self.cpus.iter().for_each(CpuWatch::read_if_due);
        self.signals.is_received()
    }
}

/// Returns the phase and the latest figures, or only the figures if both are longer than `room`.
fn message(phase: &str, latest: &str, room: usize) -> String {
    let both = format!("{phase}: {latest}");
    let shown = match latest {
        "" => phase,
        _ if both.chars().count() > room => latest,
        _ => &both,
    };
    fitting(shown, room)
}

/// Returns as many words of a text as fit in `room` characters, so that the bar stays on one line of the terminal.
fn fitting(text: &str, room: usize) -> String {
    let first = wrap(text, room).into_iter().next().unwrap_or_default();
    let first = first.trim_end_matches([',', ':', ';']);
    first.chars().take(room).collect()
}

/// Estimate of the total time of a run: the user's budget, else the predicted time of the plan, else the time at which
/// the current phase would end. A later estimate replaces the previous one only if it is shorter, because an estimate
/// that grows does not help the user to plan.
#[derive(Default)]
struct Estimate {
    /// Budget that the user gave.
    budget: Option<Duration>,
    /// Predicted time of the plan.
    expected_time: Option<Duration>,
    /// Elapsed time of the run at the start of the current phase.
    began: Duration,
    /// Completed share of the current phase, 0 to 1.
    share: f64,
    /// Minimum estimate from the shares of the phases so far.
    by_share: Cell<Option<Duration>>,
}

impl Estimate {
    /// Minimum share of a phase that must be complete before its end is estimated.
    const MIN_SHARE: f64 = 0.02;

    fn begin_phase(&mut self, elapsed: Duration) {
        self.began = elapsed;
        self.share = 0.0;
    }

    /// Returns the estimated total time.
    fn total(&self, elapsed: Duration) -> Option<Duration> {
        if self.share >= Self::MIN_SHARE {
            let rest = (elapsed - self.began).mul_f64((1.0 - self.share) / self.share);
            self.by_share.set(self.by_share.get().into_iter().chain([elapsed + rest]).min());
        }
        self.budget.or(self.expected_time).or(self.by_share.get())
    }

    /// Returns the elapsed share of the estimated total time, at most 1; 0 if the time is unknown.
    fn total_share(&self, elapsed: Duration) -> f64 {
        let total = self.total(elapsed);
        total.map_or(0.0, |total| (elapsed.as_secs_f64() / total.as_secs_f64()).min(1.0))
    }

    /// Describes the elapsed time and the estimate, e.g. `40 s of about 60 s`.
    fn words(&self, elapsed: Duration) -> String {
        let end = match self.total(elapsed).filter(|total| *total > elapsed) {
            Some(total) if self.budget.is_some() => format!(" of {} s", whole_seconds(total)),
            Some(total) => format!(" of about {} s", whole_seconds(total)),
            None => String::new(),
        };
        format!("{} s{end}", whole_seconds(elapsed))
    }
}

/// Returns a time in seconds, rounded.
fn whole_seconds(time: Duration) -> f64 {
    time.as_secs_f64().round()
}

/// Progress as plain lines in a pipe or a file.
struct Log {
    command: String,
    /// Number of intervals that have passed, with or without a line.
    lines: Cell<u64>,
}

impl Log {
    /// Time between two lines, and until the first line.
    const INTERVAL: Duration = Duration::from_secs(30);

    /// True once per interval, except in the first one.
    fn is_due(&self, elapsed: Duration) -> bool {
        let due = elapsed.as_secs() / Self::INTERVAL.as_secs();
        self.lines.replace(due) != due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(time: f64) -> Duration {
        Duration::from_secs_f64(time)
    }

    fn estimate(budget: Option<f64>, share: f64) -> Estimate {
        Estimate { budget: budget.map(seconds), began: seconds(20.0), share, ..Estimate::default() }
    }

    #[test]
    fn progress_log_has_one_line_per_half_minute() {
        let log = Log { command: "stream".to_owned(), lines: Cell::new(0) };
        let due: Vec<f64> = [1.0, 29.9, 30.4, 59.0, 61.0, 61.1]
            .into_iter()
            .filter(|time| log.is_due(seconds(*time)))
            .collect();
        assert_eq!(due, [30.4, 61.0]);
    }

    #[test]
    fn progress_is_cut_at_whole_words() {
        let text = "35 combinations of file and block: 64 KiB in 4 KiB, freread 1.2 GB/s";
        assert_eq!(fitting(text, 100), text);
        assert_eq!(fitting(text, 52), "35 combinations of file and block: 64 KiB in 4 KiB");
        assert_eq!(fitting(text, 36), "35 combinations of file and block");
        assert_eq!(fitting("preconditioner", 5), "preco");
        let of = |room| message("35 combinations", "64 KiB in 4 KiB", room);
        assert_eq!(
            (of(40).as_str(), of(20).as_str()),
            ("35 combinations: 64 KiB in 4 KiB", "64 KiB in 4 KiB")
        );
        assert_eq!(message("", "", 40), "");
    }

    #[test]
    fn estimated_time_never_rises() {
        let known = estimate(Some(60.0), 0.4);
        assert_eq!(known.words(seconds(30.4)), "30 s of 60 s");
        assert_eq!(known.words(seconds(61.0)), "61 s");
        let mut phases = estimate(None, 0.5);
        assert_eq!(phases.words(seconds(40.0)), "40 s of about 60 s");
        // The estimate of a later phase is not shown if it is longer.
        phases.begin_phase(seconds(50.0));
        phases.share = 0.05;
        assert_eq!(phases.words(seconds(52.0)), "52 s of about 60 s");
        assert_eq!(phases.words(seconds(100.0)), "100 s");
        for share in [0.0, 0.001] {
            assert_eq!(estimate(None, share).words(seconds(90.0)), "90 s");
        }
        let expected_time = Estimate { expected_time: Some(seconds(50.0)), ..estimate(None, 0.5) };
        assert_eq!(expected_time.words(seconds(24.0)), "24 s of about 50 s");
        assert_eq!(expected_time.words(seconds(51.0)), "51 s");
    }

    #[test]
    fn progress_share_is_at_most_one() {
        assert_eq!(estimate(None, 0.0).total_share(seconds(40.0)), 0.0);
        let expected_time = Estimate { expected_time: Some(seconds(80.0)), ..estimate(None, 0.0) };
        assert_eq!(expected_time.total_share(seconds(40.0)), 0.5);
        assert_eq!(expected_time.total_share(seconds(90.0)), 1.0);
    }
}
