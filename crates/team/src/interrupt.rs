//! Interruption of a job by the user.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Default interval between two checks for an interrupt.
const INTERVAL: Duration = Duration::from_millis(20);

/// Returns a check for [`InterruptCheck::when`] that also sets `stop` if the run is interrupted. The threads of the job
/// read `stop` and end early.
pub fn stopping_check<'a>(
    interrupted: &'a dyn Fn() -> bool,
    stop: &'a AtomicBool,
) -> impl FnMut() -> bool + 'a {
    move || {
        let is_interrupted = interrupted();
        if is_interrupted {
            stop.store(true, Ordering::Relaxed);
        }
        is_interrupted
    }
}

/// Check for interrupts by the user while a job runs.
pub struct InterruptCheck<'a> {
    interval: Duration,
    ask: Option<&'a mut dyn FnMut() -> bool>,
    /// Panic in `ask`, which is resumed after the job has ended.
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> InterruptCheck<'a> {
    /// Creates a check that never interrupts.
    pub fn never() -> Self {
        Self { interval: INTERVAL, ask: None, panic: None }
    }

    /// Creates a check that calls `ask` at regular intervals in the thread that waits for the job. `ask` returns true
    /// if the user interrupts the run.
    pub fn when(ask: &'a mut dyn FnMut() -> bool) -> Self {
        Self { ask: Some(ask), ..Self::never() }
    }

    /// Sets the interval between two checks, which must be less than a second. Ranks that have died are detected at the
    /// same interval.
    #[must_use]
    pub fn every(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// Returns the interval between two checks.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// True if the user has interrupted the run.
    pub(crate) fn is_requested(&mut self) -> bool {
        self.ask.as_mut().is_some_and(|ask| ask())
    }

    /// Receives a message from the threads of a job, and calls `ask` while it waits. After an interrupt, the job
    /// itself must end early. This function does not unwind.
    pub(crate) fn receive<T>(&mut self, from: &Receiver<T>) -> Option<T> {
        loop {
            let Some(ask) = &mut self.ask else { return from.recv().ok() };
            match from.recv_timeout(self.interval) {
                Ok(received) => return Some(received),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(ask)) {
                self.ask = None;
                self.panic = Some(panic);
            }
        }
    }

    /// Resumes a panic in `ask`, after the job has ended.
    pub(crate) fn end(self) {
        if let Some(panic) = self.panic {
            resume_unwind(panic);
        }
    }
}
