//! Targets of a measurement: a [`Point`](crate::point::StreamPoint) in this process, or a target that consists of
//! points in several processes. The measurement protocols (tuner, stream, sweep) do not distinguish the two.

use crate::config::RankConfig;
use crate::kernels::{Element, Kernel, KernelShape, Loop};
use crate::traffic::Counted;
use nodegauge_arena::location::{self, Share};
use nodegauge_arena::{ArenaError, ArrayLayout, ArrayShare, ArraysConfig, RequestedPages};
use nodegauge_machine::{CpuId, NodeId, Unavailable};
use nodegauge_measure::Fraction;
use nodegauge_measure::samples::Sample;
use nodegauge_placement::MemoryPolicy;
use nodegauge_placement::display::ObservedAffinity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Configuration of a point.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TargetConfig {
    /// CPUs of each thread; a thread with an empty list is not bound.
    pub places: Vec<Vec<CpuId>>,
    /// Number of arrays, as required by the kernels of a pass.
    pub arrays: usize,
    /// Number of elements per array.
    pub elements: u64,
    /// Type of the array elements.
    pub element: Element,
    /// Kind of pages of the arrays.
    pub pages: RequestedPages,
    /// Layout of the arrays relative to each other.
    pub layout: ArrayLayout,
    /// Memory policy of the arrays.
    pub policy: MemoryPolicy,
    /// Kernels in the order of a pass, each with its native loop.
    pub kernels: Vec<(Kernel, KernelShape)>,
    /// Size of the caches that may hold data of the arrays after a pass, bytes; 0 if it is unknown.
    pub cache_bytes: u64,
}

impl TargetConfig {
    /// True if `other` has the same threads and arrays; the loops may differ.
    pub(crate) fn is_arranged_like(&self, other: &Self) -> bool {
        *self == Self { kernels: self.kernels.clone(), ..other.clone() }
    }

    /// Returns the configuration of the arrays.
    pub(crate) fn arrays_config(&self) -> ArraysConfig {
        let Self { elements, element, pages, layout, .. } = *self;
        ArraysConfig { count: self.arrays, elements, element, pages, layout }
    }

    /// Returns the bytes of all arrays together.
    pub(crate) fn bytes(&self) -> u64 {
        self.arrays as u64 * self.elements * self.element.bytes()
    }

    /// Returns the reason why the interleaving of the arrays over the nodes of the policy cannot be judged if the arrays
    /// are on pages of these sizes; `None` if it can, or if the arrays are not interleaved.
    pub(crate) fn too_few_pages(&self, pages: Option<&BTreeMap<u64, Fraction>>) -> Option<String> {
        let MemoryPolicy::Interleave(nodes) = &self.policy else { return None };
        location::too_few_pages(self.bytes(), pages?, nodes.len())
    }

    /// Checks that enough huge pages are reserved for the arrays of `processes` processes, if the arrays require huge
    /// pages.
    pub(crate) fn check_pages(&self, processes: u64) -> Result<(), ArenaError> {
        Ok(self.arrays_config().check(processes)?)
    }

    /// Checks that the nodes to which the arrays are bound have enough huge pages for `processes` processes that are
    /// bound to them.
    pub(crate) fn check_bound_pages(&self, processes: usize) -> Result<(), ArenaError> {
        Ok(self.arrays_config().check_bound(&self.policy, processes as u64)?)
    }
}

/// Configuration that is set up and can be measured. Every method fails if a thread of a team or a process fails.
pub trait Target {
    /// Returns the requested configuration; with several processes, the configuration of the first process.
    fn config(&self) -> &TargetConfig;

    /// Returns the number of processes that measure simultaneously, each with its own arrays.
    fn processes(&self) -> u64 {
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
    fn round_trip(&mut self) -> Result<f64, ArenaError> {
        Ok(f64::NAN)
    }

    /// Runs one pass over all kernels. If the values have grown too large, the arrays are checked and filled again
    /// first.
    ///
    /// # Errors
    /// Fails if a thread or a process fails.
    fn pass(&mut self) -> Result<Sample, ArenaError>;

    /// Runs each kernel once over a part of the arrays; returns `None` if the target has no parts. The next pass
    /// fills the arrays again.
    ///
    /// # Errors
    /// Fails if a thread or a process fails.
    fn part(&mut self, _part: ArrayShare) -> Result<Option<Sample>, ArenaError> {
        Ok(None)
    }

    /// Compares every element of the arrays with the expected values. The first wrong value is kept and returned by
    /// [`seen`](Target::seen).
    ///
    /// # Errors
    /// Fails if a thread or a process fails.
    fn check(&mut self) -> Result<(), ArenaError>;

    /// Sets other kernels or other native loops for the same arrays.
    ///
    /// # Errors
    /// Fails if the loops do not exist.
    fn reshape(&mut self, kernels: Vec<(Kernel, KernelShape)>) -> Result<(), ArenaError>;

    /// Queries the actual placement and pages from the operating system. The query is expensive, because the kernel
    /// walks page tables.
    ///
    /// # Errors
    /// Fails if a thread or a process fails.
    fn seen(&mut self) -> Result<Seen, ArenaError>;

    /// Counts the traffic of each kernel with the counters of the memory controllers. Returns the reason if this is not
    /// possible, and `None` if this kind of target cannot count traffic.
    ///
    /// # Errors
    /// Fails if a thread or a process fails.
    fn traffic(&mut self) -> Result<Option<Result<Counted, Unavailable>>, ArenaError> {
        Ok(None)
    }
}

/// Observed placement and pages of a target, and results of the checks of its arrays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Seen {
    /// CPUs on which each thread may run.
    pub affinity: Vec<ObservedAffinity>,
    /// Share of the arrays on pages of each size; keys are bytes, shares are 0 to 1.
    pub pages: Option<BTreeMap<u64, Fraction>>,
    /// NUMA nodes of sampled pages of each thread's share of each array; empty if the kernel does not report them,
    /// and for several processes.
    #[serde(default)]
    pub shares: Vec<Share>,
    /// Share of each array on each NUMA node.
    pub nodes: Vec<Option<BTreeMap<NodeId, Fraction>>>,
    /// Description of the first wrong value; `None` if all checks passed.
    pub wrong: Option<String>,
    /// Number of checks of all arrays.
    pub checks: u32,
    /// Observations of the processes; empty for a single process.
    pub ranks: Vec<RankSeen>,
}

/// Request and observation of one of several processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankSeen {
    /// Configuration of the rank for the record, without rates.
    pub config: RankConfig,
    /// Requested memory policy of the process.
    pub policy: MemoryPolicy,
    /// NUMA nodes on which the pages are expected; `None` if they may be on any node.
    pub expected: Option<Vec<u32>>,
    /// Reason why the interleaving of the pages cannot be judged.
    #[serde(default)]
    pub unchecked: Option<String>,
}
