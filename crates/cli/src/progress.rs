//! Progress on standard error, and only when that is a terminal.

use crate::signals::Signals;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nodegauge_measure::Observer;
use std::io::IsTerminal;

/// Shows a bar on a terminal and nothing elsewhere.
pub(crate) struct Progress {
    bar: ProgressBar,
    signals: Signals,
}

/// Steps of the bar.
const STEPS: u64 = 1000;

impl Progress {
    /// A bar on standard error, unless `quiet` or not a terminal.
    pub(crate) fn new(quiet: bool, signals: Signals) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {elapsed} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, signals }
    }

    /// Takes the bar away.
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
    }

    fn progress(&mut self, share: f64, latest: &str) {
        self.bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        if !latest.is_empty() {
            self.bar.set_message(format!("{}: {latest}", self.bar.prefix()));
        }
    }

    fn interrupted(&self) -> bool {
        self.signals.received().is_some()
    }
}
