//! Deadline of a check. This process ends at the deadline even if a system call does not return.

use crate::caller::Outputs;
use nodegauge_os::{Wait, wait_whole_time};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time before the deadline at which all work must have ended, so that the verdict is printed in time.
const MARGIN: Duration = Duration::from_millis(100);
/// Time after the deadline at which the process ends, even if output is incomplete.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);

/// Time at which the verdict must be printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(pub(super) Instant);

impl Deadline {
    /// Returns the time until all work must have ended, [`MARGIN`] before the deadline; zero afterwards.
    pub(super) fn remaining_time(self) -> Duration {
        self.0.saturating_duration_since(Instant::now()).saturating_sub(MARGIN)
    }
}

/// Exit code with which this process ends at the deadline; `None` until there is a verdict.
#[derive(Debug, Clone, Default)]
pub(super) struct ExitDecision(Arc<Mutex<Option<u8>>>);

impl ExitDecision {
    /// Sets the exit code. Does not return if the deadline is already ending this process.
    pub(super) fn decide(&self, code: u8) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
    }

    /// Starts a thread that ends this process at the deadline. Without a verdict, the thread prints `line` and exits
    /// with the code `unknown`. With a verdict, it waits somewhat longer for output that is still being written. Child
    /// processes end with this process.
    pub(super) fn watch(
        &self,
        deadline: Deadline,
        line: String,
        unknown: u8,
        outputs: &'static dyn Outputs,
    ) {
        let ending = self.clone();
        // If no thread can be started (`ulimit -u`), no child process can be started either, so nothing is measured.
        let _ = std::thread::Builder::new().spawn(move || {
            wait_whole_time(&Wait::until(deadline.0));
            let decided = ending.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(verdict) = *decided else {
                outputs.print_within(&format!("{line}\n"), OUTPUT_GRACE);
                nodegauge_os::end_process(unknown);
            };
            drop(decided);
            wait_whole_time(&Wait::until(deadline.0 + OUTPUT_GRACE));
            outputs.note_within("an output was not written before the deadline", OUTPUT_GRACE);
            nodegauge_os::end_process(verdict);
        });
    }
}
