//! Progress reports of a gauge, and the user's request to end the run. The command shows the
//! progress on the terminal; a gauge prints nothing itself.

use crate::failure::Failure;
use std::cell::RefCell;

/// Receiver of the progress reports of a gauge.
pub trait Observer {
    /// Reports the start of a phase with a description, e.g. `preparing 3 arrays of 128 MiB`.
    fn begin_phase(&mut self, what: &str);
    /// Reports the elapsed share of the current phase, 0 to 1, and the latest figures as text.
    fn report_progress(&mut self, share: f64, latest: &str);
    /// True if the user requested the end of the run.
    fn is_interrupted(&self) -> bool;
    /// Returns an error if the user requested the end of the run. Setup code calls this method
    /// before each long step; the command reports an interruption instead of this error.
    ///
    /// # Errors
    /// Fails if the run is interrupted.
    fn check_interrupt(&self) -> Result<(), Failure> {
        if self.is_interrupted() { Err(Failure::missing("interrupted")) } else { Ok(()) }
    }
}

/// Observer that the loop of the schedule and the code that it calls share.
pub struct SharedObserver<'a>(RefCell<&'a mut dyn Observer>);

impl<'a> SharedObserver<'a> {
    /// Returns an observer that shares `observer`.
    pub fn new(observer: &'a mut dyn Observer) -> Self {
        Self(RefCell::new(observer))
    }

    /// True if the user requested the end of the run.
    pub fn is_interrupted(&self) -> bool {
        self.0.borrow().is_interrupted()
    }
}

impl Observer for &SharedObserver<'_> {
    fn begin_phase(&mut self, what: &str) {
        self.0.borrow_mut().begin_phase(what);
    }
    fn report_progress(&mut self, share: f64, latest: &str) {
        self.0.borrow_mut().report_progress(share, latest);
    }
    fn is_interrupted(&self) -> bool {
        SharedObserver::is_interrupted(self)
    }
}

/// Observer that shows nothing and never interrupts, for tests and benchmarks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentObserver;

impl Observer for SilentObserver {
    fn begin_phase(&mut self, _: &str) {}
    fn report_progress(&mut self, _: f64, _: &str) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}
