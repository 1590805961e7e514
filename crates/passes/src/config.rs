//! Configuration of a stream point: threads, arrays, and the kernels of a pass.

use crate::kernels::{Element, Kernel, KernelShape};
use nodegauge_arena::location;
use nodegauge_arena::{ArenaError, ArrayLayout, ArraysConfig, RequestedPages};
use nodegauge_machine::CpuId;
use nodegauge_measure::Fraction;
use nodegauge_placement::MemoryPolicy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Configuration of a [`StreamTarget`](crate::point::StreamTarget).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Size of the caches that may contain array data after a pass, bytes; 0 if it is unknown.
    pub cache_bytes: u64,
}

impl TargetConfig {
    /// True if `other` has the same threads and arrays; the loops may differ.
    pub fn is_arranged_like(&self, other: &Self) -> bool {
        *self == Self { kernels: self.kernels.clone(), ..other.clone() }
    }

    /// Returns the configuration of the arrays.
    pub fn arrays_config(&self) -> ArraysConfig {
        let Self { elements, element, pages, layout, .. } = *self;
        ArraysConfig { count: self.arrays, elements, element, pages, layout }
    }

    /// Returns the bytes of all arrays together.
    pub fn bytes(&self) -> u64 {
        self.arrays as u64 * self.elements * self.element.bytes()
    }

    /// Returns the reason if the arrays have too few pages to check that they are interleaved; `None` if they
    /// have enough, or if the policy does not interleave.
    pub fn too_few_pages_reason(&self, pages: Option<&BTreeMap<u64, Fraction>>) -> Option<String> {
        let MemoryPolicy::Interleave(nodes) = &self.policy else { return None };
        location::too_few_pages_reason(self.bytes(), pages?, nodes.len())
    }

    /// Checks that enough huge pages are reserved for the arrays of `processes` processes, if the arrays require huge
    /// pages.
    ///
    /// # Errors
    /// Fails if too few pages are reserved.
    pub fn check_pages(&self, processes: u64) -> Result<(), ArenaError> {
        Ok(self.arrays_config().check(processes)?)
    }

    /// Checks that the NUMA nodes to which the arrays are bound have enough huge pages for the arrays of
    /// `processes` processes.
    ///
    /// # Errors
    /// Fails if a node has too few pages.
    pub fn check_bound_pages(&self, processes: usize) -> Result<(), ArenaError> {
        Ok(self.arrays_config().check_bound(&self.policy, processes as u64)?)
    }
}
