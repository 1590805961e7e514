//! Targets of measurement, pass by pass: a [`Point`](crate::point::StreamPoint) of this process, or one that several
//! processes share. The protocols above (tuner, stream, sweep) treat both alike.

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
    /// Number of arrays: as many as the kernels of a pass need.
    pub arrays: usize,
    /// Elements per array.
    pub elements: u64,
    /// Their type.
    pub element: Element,
    /// Pages.
    pub pages: RequestedPages,
    /// Layout.
    pub layout: ArrayLayout,
    /// Memory policy of the arrays.
    pub policy: MemoryPolicy,
    /// Kernels in the order of a pass, each with its native loop.
    pub kernels: Vec<(Kernel, KernelShape)>,
    /// Parts into which trials of loops cut the arrays.
    pub trial_parts: u64,
}

impl TargetConfig {
    /// True if threads and arrays are the same, whatever the loops.
    pub(crate) fn is_arranged_like(&self, other: &Self) -> bool {
        *self == Self { kernels: self.kernels.clone(), ..other.clone() }
    }

    /// Arrays of the configuration.
    pub(crate) fn arrays_config(&self) -> ArraysConfig {
        let Self { elements, element, pages, layout, .. } = *self;
        ArraysConfig { count: self.arrays, elements, element, pages, layout }
    }

    /// Bytes of all arrays together.
    pub(crate) fn bytes(&self) -> u64 {
        self.arrays as u64 * self.elements * self.element.bytes()
    }

    /// Checks that enough huge pages are reserved for the arrays of `processes` such processes, if the
    /// arrays are to be on huge pages.
    pub(crate) fn check_pages(&self, processes: u64) -> Result<(), ArenaError> {
        Ok(self.arrays_config().check(processes)?)
    }
}

/// One configuration under measurement. Every method fails when a member of a team, or a process, does.
pub trait Target {
    /// Returns the requested configuration; with several processes, that of the first.
    fn config(&self) -> &TargetConfig;

    /// Returns the number of processes that measure at once, each with arrays of its own.
    fn processes(&self) -> u64 {
        1
    }

    /// The loops of a pass, in its order.
    fn loops(&self) -> &[Loop];

    /// Puts other loops in the place of those of the configuration, for the same arrays: native ones,
    /// or what a compiler made.
    ///
    /// # Errors
    /// Loops for other elements or for more arrays, or that cannot be had where they are to run.
    fn set_loops(&mut self, loops: Vec<Loop>) -> Result<(), ArenaError>;

    /// The core-to-core latency of where the team runs now, seconds; NaN where there is none.
    ///
    /// # Errors
    /// As all methods.
    fn round_trip(&mut self) -> Result<f64, ArenaError> {
        Ok(f64::NAN)
    }

    /// Runs one pass over all kernels. Arrays whose values have grown too far are checked and filled
    /// anew before.
    ///
    /// # Errors
    /// As all methods.
    fn pass(&mut self) -> Result<Sample, ArenaError>;

    /// Runs each kernel once over a part of the arrays, for trials of loops: times are comparable among
    /// trials only. Parts take turns, so that none is found in a cache. The next pass fills the arrays
    /// anew.
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

    /// Checks every element of the arrays against the replay; the first that is wrong is kept and
    /// [`seen`](Target::seen).
    ///
    /// # Errors
    /// As all methods.
    fn check(&mut self) -> Result<(), ArenaError>;

    /// Chooses other kernels or other native loops for the same arrays.
    ///
    /// # Errors
    /// No such loops.
    fn reshape(&mut self, kernels: Vec<(Kernel, KernelShape)>) -> Result<(), ArenaError>;

    /// Asks the kernel what was got. Walks page tables: ask once.
    ///
    /// # Errors
    /// As all methods.
    fn seen(&mut self) -> Result<Seen, ArenaError>;

    /// Lets the memory controllers count what each kernel moves; the reason where they cannot, `None`
    /// for what is not counted at all.
    ///
    /// # Errors
    /// As all methods.
    fn traffic(&mut self) -> Result<Option<Result<Counted, Unavailable>>, ArenaError> {
        Ok(None)
    }
}

/// Observation: what the kernel granted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Seen {
    /// CPUs of each thread.
    pub affinity: Vec<ObservedAffinity>,
    /// Share of the arrays on pages of each size, bytes to 0..1.
    pub pages: Option<BTreeMap<u64, Fraction>>,
    /// NUMA nodes of sampled pages of each thread's share of each array; empty if the kernel does not report them,
    /// and for several processes.
    #[serde(default)]
    pub shares: Vec<Share>,
    /// Share of each array on each NUMA node.
    pub nodes: Vec<Option<BTreeMap<NodeId, Fraction>>>,
    /// The first check that failed, in words.
    pub wrong: Option<String>,
    /// Number of checks of all arrays.
    pub checks: u32,
    /// Each of several processes.
    pub ranks: Vec<RankSeen>,
}

/// Request and observation of one of several processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankSeen {
    /// As the record has it, without its rates.
    pub config: RankConfig,
    /// The memory policy that was asked for.
    pub policy: MemoryPolicy,
    /// Nodes on which its pages are to be; `None` where anything will do.
    pub expected: Option<Vec<u32>>,
}
