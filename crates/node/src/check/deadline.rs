//! Deadline of a check, at which this process ends even if the kernel does not return from a call.

use crate::caller::Outputs;
use nodegauge_os::{Wait, wait_whole_time};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time before the deadline at which everything must have ended, so that the verdict is printed in time.
const MARGIN: Duration = Duration::from_millis(100);
/// Time after the deadline at which the process ends, whatever is still to be written.
const LATE: Duration = Duration::from_millis(500);

/// Time until which the verdict must be printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(pub(super) Instant);

impl Deadline {
    /// Returns the time that is left.
    pub(super) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now()).saturating_sub(MARGIN)
    }
}

/// Exit code of this process when it is ended at the deadline; `None` until there is a verdict.
#[derive(Debug, Clone, Default)]
pub(super) struct Ending(Arc<Mutex<Option<u8>>>);

impl Ending {
    /// Sets the exit code. While the deadline ends this process, this function does not return.
    pub(super) fn decide(&self, code: u8) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
    }

    /// Ends this process at the deadline. If there is no verdict then, prints `line` and exits with the code `unknown`.
    /// If there is one, what is still to be written gets a little more time. Child processes end with this process.
    pub(super) fn watch(
        &self,
        deadline: Deadline,
        line: String,
        unknown: u8,
        outputs: &'static dyn Outputs,
    ) {
        let ending = self.clone();
        // Without another thread (`ulimit -u`), no child process can be started either, so that nothing is measured.
        let _ = std::thread::Builder::new().spawn(move || {
            wait_whole_time(&Wait::until(deadline.0));
            let decided = ending.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(verdict) = *decided else {
                outputs.print_within(&format!("{line}\n"), LATE);
                nodegauge_os::leave(unknown);
            };
            drop(decided);
            wait_whole_time(&Wait::until(deadline.0 + LATE));
            outputs.note_within("an output was not written within the deadline", LATE);
            nodegauge_os::leave(verdict);
        });
    }
}
