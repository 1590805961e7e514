//! Targets of measurement: a [`Point`](crate::point::StreamPoint) of this process, or one that several processes
//! share. The protocols (tuner, stream, sweep) treat both alike.

use crate::config::RankConfig;
use crate::kernels::{Element, Kernel, KernelShape, Loop};
use crate::traffic::Counted;
use nodegauge_arena::location::Share;
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
    /// CPUs of each thread; an empty list leaves that thread unbound.
    pub places: Vec<Vec<CpuId>>,
    /// Number of arrays, as required by the kernels of a pass.
    pub arrays: usize,
    /// Number of elements per array.
    pub elements: u64,
    /// Element type.
    pub element: Element,
    /// Pages.
    pub pages: RequestedPages,
    /// Layout.
    pub layout: ArrayLayout,
    /// Memory policy of the arrays.
    pub policy: MemoryPolicy,
    /// Kernels in the order of a pass, each with its native loop.
    pub kernels: Vec<(Kernel, KernelShape)>,
    /// Number of parts of the arrays for trials of loops.
    pub trial_parts: u64,
}

impl TargetConfig {
    /// True if threads and arrays are the same; the loops may differ.
    pub(crate) fn is_arranged_like(&self, other: &Self) -> bool {
        *self == Self { kernels: self.kernels.clone(), ..other.clone() }
    }

    /// Returns the arrays of the configuration.
    pub(crate) fn arrays_config(&self) -> ArraysConfig {
        let Self { elements, element, pages, layout, .. } = *self;
        ArraysConfig { count: self.arrays, elements, element, pages, layout }
    }

    /// Returns the bytes of all arrays together.
    pub(crate) fn bytes(&self) -> u64 {
        self.arrays as u64 * self.elements * self.element.bytes()
    }

    /// Checks that enough huge pages are reserved for the arrays of `processes` processes, if the arrays require huge
    /// pages.
    pub(crate) fn check_pages(&self, processes: u64) -> Result<(), ArenaError> {
        Ok(self.arrays_config().check(processes)?)
    }
}

/// Configuration under measurement. Every method fails if a thread of a team, or a process, fails.
pub trait Target {
    /// Returns the requested configuration; with several processes, that of the first.
    fn config(&self) -> &TargetConfig;

    /// Returns the number of processes that measure at the same time, each with its own arrays.
    fn processes(&self) -> u64 {
        1
    }

    /// Returns the loops of a pass, in order.
    fn loops(&self) -> &[Loop];

    /// Sets other loops for the same arrays: native or compiled ones.
    ///
    /// # Errors
    /// Fails for loops of another element type, for loops that require more arrays, and for loops that are not
    /// available in the processes of the target.
    fn set_loops(&mut self, loops: Vec<Loop>) -> Result<(), ArenaError>;

    /// Returns the current core-to-core latency of the team, seconds; NaN if there is none.
    ///
    /// # Errors
    /// As all methods.
    fn round_trip(&mut self) -> Result<f64, ArenaError> {
        Ok(f64::NAN)
    }

    /// Runs one pass over all kernels. If the values have grown too large, the arrays are checked and filled again
    /// first.
    ///
    /// # Errors
    /// As all methods.
    fn pass(&mut self) -> Result<Sample, ArenaError>;

    /// Runs each kernel once over a part of the arrays, for trials of loops. The times are comparable only with those
    /// of other trials. Parts take turns, so that none is found in a cache. The next pass fills the arrays again.
    ///
    /// # Errors
    /// As all methods.
    fn trial(&mut self) -> Result<Sample, ArenaError> {
        self.pass()
    }

    /// Runs each kernel once over a part of the arrays; returns `None` if the target has no parts. The next pass
    /// fills the arrays again.
    ///
    /// # Errors
    /// As all methods.
    fn part(&mut self, _part: ArrayShare) -> Result<Option<Sample>, ArenaError> {
        Ok(None)
    }

    /// Compares every element of the arrays with the expected values. The first wrong value is kept and returned by
    /// [`seen`](Target::seen).
    ///
    /// # Errors
    /// As all methods.
    fn check(&mut self) -> Result<(), ArenaError>;

    /// Sets other kernels or other native loops for the same arrays.
    ///
    /// # Errors
    /// Fails if the loops do not exist.
    fn reshape(&mut self, kernels: Vec<(Kernel, KernelShape)>) -> Result<(), ArenaError>;

    /// Asks the operating system for placement and pages. It walks page tables and is therefore expensive.
    ///
    /// # Errors
    /// As all methods.
    fn seen(&mut self) -> Result<Seen, ArenaError>;

    /// Counts the traffic of each kernel with the memory controllers; returns the reason if that is not possible, and
    /// `None` for a target that does not count.
    ///
    /// # Errors
    /// As all methods.
    fn traffic(&mut self) -> Result<Option<Result<Counted, Unavailable>>, ArenaError> {
        Ok(None)
    }
}

/// Observed placement and pages, and results of the checks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Seen {
    /// CPUs of each thread.
    pub affinity: Vec<ObservedAffinity>,
    /// Share of the arrays on pages of each size; keys are bytes, shares are 0 to 1.
    pub pages: Option<BTreeMap<u64, Fraction>>,
    /// NUMA nodes of sampled pages of each thread's share of each array; empty if the kernel does not report them,
    /// and for several processes.
    #[serde(default)]
    pub shares: Vec<Share>,
    /// Share of each array on each NUMA node.
    pub nodes: Vec<Option<BTreeMap<NodeId, Fraction>>>,
    /// First check that failed, in words.
    pub wrong: Option<String>,
    /// Number of checks of all arrays.
    pub checks: u32,
    /// Observation of each of several processes.
    pub ranks: Vec<RankSeen>,
}

/// Request and observation of one of several processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankSeen {
    /// Configuration in the record, without rates.
    pub config: RankConfig,
    /// Requested memory policy.
    pub policy: MemoryPolicy,
    /// NUMA nodes on which its pages are expected; `None` if any node will do.
    pub expected: Option<Vec<u32>>,
}
