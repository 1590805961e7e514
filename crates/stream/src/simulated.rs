//! Simulated target for tests of measurement protocols. Only the simulated clock of time budgets advances.

use crate::kernels::{Element, Kernel, KernelShape, Loop};
use crate::target::{Target, TargetConfig, TargetObservations};
use nodegauge_arena::{ArenaError, ArrayShare};
use nodegauge_measure::clock;
use nodegauge_measure::samples::Sample;
use std::time::Duration;

/// Machine with an unreported cache: data that fits in this cache is traversed eight times as fast.
pub(crate) struct SimulatedTarget {
    config: TargetConfig,
    loops: Vec<Loop>,
    /// Time per byte for data that does not fit in the cache, seconds.
    byte_time: f64,
    /// Size of the cache, bytes.
    cache: f64,
}

impl SimulatedTarget {
    /// Creates the target; the set-up takes ten times as long as a pass.
    pub(crate) fn set_up(config: &TargetConfig, byte_time: f64, cache: f64) -> Box<dyn Target> {
        let config = config.clone();
        let loops = crate::point::native_loops(&config.kernels, Element::F64).unwrap();
        let target = Self { config, loops, byte_time, cache };
        clock::advance_clock(Duration::from_secs_f64(10.0 * target.seconds(1.0)));
        Box::new(target)
    }

    /// Returns the time of one traversal of a share of the arrays, seconds.
    fn seconds(&self, share: f64) -> f64 {
        let bytes = share * self.config.bytes() as f64;
        self.byte_time * bytes / if bytes < self.cache { 8.0 } else { 1.0 }
    }

    fn runs(&mut self, share: f64) -> Sample {
        let seconds = vec![self.seconds(share); self.loops.len()];
        clock::advance_clock(Duration::from_secs_f64(seconds.iter().sum()));
        Sample::from_times(seconds)
    }
}

impl Target for SimulatedTarget {
    fn config(&self) -> &TargetConfig {
        &self.config
    }
    fn loops(&self) -> &[Loop] {
        &self.loops
    }
    fn set_loops(&mut self, loops: Vec<Loop>) -> Result<(), ArenaError> {
        self.loops = loops;
        Ok(())
    }
    fn run_pass(&mut self) -> Result<Sample, ArenaError> {
        Ok(self.runs(1.0))
    }
    fn run_part(&mut self, part: ArrayShare) -> Result<Option<Sample>, ArenaError> {
        Ok(Some(self.runs(1.0 / part.count as f64)))
    }
    fn check(&mut self) -> Result<(), ArenaError> {
        self.runs(1.0);
        Ok(())
    }
    fn set_kernels(&mut self, _: Vec<(Kernel, KernelShape)>) -> Result<(), ArenaError> {
        Ok(())
    }
    fn observe(&mut self) -> Result<TargetObservations, ArenaError> {
        Ok(TargetObservations::default())
    }
}
