//! Clock for a setup that excludes the time in which the kernel provides new memory. That time depends on what ran
//! before on the machine, and on a virtual machine also on its host; it can exceed the time of the computation.

use crate::context::{ThreadContext, Threads};
use nodegauge_measure::Failure;
use nodegauge_os::{is_end_requested, monotonic_nanos};

/// Clock of a setup.
#[derive(Debug)]
pub(crate) struct SetupClock {
    begun_nanos: u64,
    provided_nanos: u64,
}

impl SetupClock {
    /// Starts the clock.
    pub fn start() -> Self {
        Self { begun_nanos: monotonic_nanos(), provided_nanos: 0 }
    }

    /// Runs `touch` on each thread; it must write to each page of the thread's memory. The clock does not count
    /// this time.
    ///
    /// # Errors
    /// Fails if a thread fails, or if the user ends the run.
    pub fn touch_untimed(
        &mut self,
        threads: &mut impl Threads,
        touch: impl Fn(&ThreadContext<'_>) + Sync,
    ) -> Result<(), Failure> {
        let begun = monotonic_nanos();
        threads.run_and_collect(touch)?;
        self.provided_nanos += monotonic_nanos() - begun;
        if is_end_requested() { Err(Failure::missing("interrupted")) } else { Ok(()) }
    }

    /// Returns the seconds since the start, without the time for which memory was provided.
    pub fn seconds(&self) -> f64 {
        (monotonic_nanos() - self.begun_nanos - self.provided_nanos) as f64 * 1e-9
    }

    /// Returns the seconds for which memory was provided, which the clock does not count.
    pub fn provided_seconds(&self) -> f64 {
        self.provided_nanos as f64 * 1e-9
    }
}
