//! Targets of a measurement: a [`StreamTarget`] in this process, or a target that consists of points in several
//! processes. The measurement protocols (tuner, stream, sweep) do not distinguish the two.

use crate::config::RankConfig;
use crate::kernels::{Kernel, KernelShape, Loop};
use nodegauge_arena::{ArenaError, ArrayShare};
use nodegauge_machine::UnavailableReason;
use nodegauge_measure::samples::Sample;
pub use nodegauge_passes::TargetConfig;
use nodegauge_passes::point::{PointObservations, StreamTarget};
use nodegauge_passes::traffic::CountedTraffic;
use nodegauge_placement::MemoryPolicy;

/// Configuration that is set up and can be measured. Every method fails if a thread of a team or a process fails.
pub trait Target {
    /// Returns the requested configuration; with several processes, the configuration of the first process.
    fn config(&self) -> &TargetConfig;

    /// Returns the number of processes that measure simultaneously, each with its own arrays.
    fn process_count(&self) -> u64 {
        1
    }

    /// Returns the loops of a pass, in order.
    fn loops(&self) -> &[Loop];

    /// Sets other loops (native or compiled) for the same arrays.
    ///
    /// # Errors
    /// Fails for loops of another element type, for loops that require more arrays, and for loops that are not
    /// available in the processes of the target.
    fn set_loops(&mut self, loops: Vec<Loop>) -> Result<(), ArenaError>;

    /// Measures the core-to-core latency of the team, seconds; returns NaN if the team has a single thread.
    ///
    /// # Errors
    /// Fails if a thread or a process fails.
    fn measure_round_trip(&mut self) -> Result<f64, ArenaError> {
        Ok(f64::NAN)
    }

    /// Runs one pass over all kernels. If the values have grown too large, the arrays are checked and filled again
    /// first.
    ///
    /// # Errors
    /// Fails if a thread or a process fails.
    fn run_pass(&mut self) -> Result<Sample, ArenaError>;

    /// Runs each kernel once over a part of the arrays; returns `None` if the target has no parts. The next pass
    /// fills the arrays again.
    ///
    /// # Errors
    /// Fails if a thread or a process fails.
    fn run_part(&mut self, _part: ArrayShare) -> Result<Option<Sample>, ArenaError> {
        Ok(None)
    }

    /// Compares every element of the arrays with the expected values. The first wrong value is kept and returned by
    /// [`observe`](Target::observe).
    ///
    /// # Errors
    /// Fails if a thread or a process fails.
    fn check(&mut self) -> Result<(), ArenaError>;

    /// Sets other kernels or other native loops for the same arrays.
    ///
    /// # Errors
    /// Fails if the loops do not exist.
    fn set_kernels(&mut self, kernels: Vec<(Kernel, KernelShape)>) -> Result<(), ArenaError>;

    /// Queries the actual placement and pages from the operating system. This is expensive, because the kernel walks
    /// the page tables.
    ///
    /// # Errors
    /// Fails if a thread or a process fails.
    fn observe(&mut self) -> Result<TargetObservations, ArenaError>;

    /// Counts the traffic of each kernel with the counters of the memory controllers. Returns the reason if the
    /// counters cannot be read, and `None` if this kind of target does not support counting.
    ///
    /// # Errors
    /// Fails if a thread or a process fails.
    fn count_traffic(
        &mut self,
    ) -> Result<Option<Result<CountedTraffic, UnavailableReason>>, ArenaError> {
        Ok(None)
    }
}

/// Observed placement and pages of a target, and results of the checks of its arrays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TargetObservations {
    /// Observation of all processes together.
    pub combined: PointObservations,
    /// Observations of each process; empty for a single process.
    pub ranks: Vec<RankObservations>,
}

/// Request and observation of one of several processes.
#[derive(Debug, Clone, PartialEq)]
pub struct RankObservations {
    /// Configuration of the rank for the record, without rates.
    pub config: RankConfig,
    /// Requested memory policy of the process.
    pub policy: MemoryPolicy,
    /// NUMA nodes on which the pages are expected; `None` if they may be on any NUMA node.
    pub expected: Option<Vec<u32>>,
    /// Reason why interleaved pages cannot be checked.
    pub unchecked: Option<String>,
}

impl Target for StreamTarget {
    fn config(&self) -> &TargetConfig {
        self.config()
    }

    fn loops(&self) -> &[Loop] {
        self.loops()
    }

    fn set_loops(&mut self, loops: Vec<Loop>) -> Result<(), ArenaError> {
        self.set_loops(loops)
    }

    fn measure_round_trip(&mut self) -> Result<f64, ArenaError> {
        self.measure_round_trip()
    }

    fn run_pass(&mut self) -> Result<Sample, ArenaError> {
        self.run_pass()
    }

    fn run_part(&mut self, part: ArrayShare) -> Result<Option<Sample>, ArenaError> {
        self.run_part(part).map(Some)
    }

    fn check(&mut self) -> Result<(), ArenaError> {
        self.check()
    }

    fn set_kernels(&mut self, kernels: Vec<(Kernel, KernelShape)>) -> Result<(), ArenaError> {
        self.set_kernels(kernels)
    }

    fn observe(&mut self) -> Result<TargetObservations, ArenaError> {
        Ok(TargetObservations { combined: self.observations(), ranks: Vec::new() })
    }

    fn count_traffic(
        &mut self,
    ) -> Result<Option<Result<CountedTraffic, UnavailableReason>>, ArenaError> {
        self.count_traffic().map(Some)
    }
}
