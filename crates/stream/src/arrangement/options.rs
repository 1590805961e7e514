//! Options of a run for the arrays and the loops.

use crate::kernels::{self, Element, Kernel, KernelShape, Prefetch, SideBySidePages, Stores};
use crate::size::SizeSpec;
use crate::tuner::LoopConstraints;
use nodegauge_arena::RequestedPages;
use nodegauge_measure::Fraction;
use nodegauge_measure::schedule::Budget;
use nodegauge_placement::MemoryPolicy;
use std::time::Duration;

/// Options of the user for kernels and arrays.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayOptions {
    /// Length of the arrays.
    pub size: SizeSpec,
    /// Maximum share of the available memory for the arrays, 0 to 1.
    pub memory_fraction: Fraction,
    /// Type of the elements.
    pub element: Element,
    /// Padding in elements between contiguous arrays, as in stream.c; `None` for staggered arrays.
    pub offset: Option<u64>,
    /// Kernels in any order; if empty, STREAM's four kernels.
    pub kernels: Vec<Kernel>,
    /// Kind of store; `None` to choose it by measurement.
    pub stores: Option<Stores>,
    /// Kind of pages; `None` for the largest pages available without a reservation.
    pub pages: Option<RequestedPages>,
    /// Software prefetch; `None` to choose it by measurement.
    pub prefetch: Option<Prefetch>,
    /// Number of 4 KiB pages that loops traverse alternately (side by side); `None` to choose it by measurement.
    pub side_by_side: Option<SideBySidePages>,
}

impl Default for ArrayOptions {
    fn default() -> Self {
        Self {
            size: SizeSpec::Auto,
            memory_fraction: Fraction(0.8),
            element: Element::F64,
            offset: None,
            kernels: Vec::new(),
            stores: None,
            pages: None,
            prefetch: None,
            side_by_side: None,
        }
    }
}

impl ArrayOptions {
    /// Returns the distinct kernels of a pass, in STREAM's order.
    pub fn pass_kernels(&self) -> Vec<Kernel> {
        let mut kernels = self.kernels.clone();
        if kernels.is_empty() {
            kernels.extend(kernels::STREAM);
        }
        kernels.sort();
        kernels.dedup();
        kernels
    }

    /// Returns the constraints on the loops.
    pub(crate) fn constraints(&self) -> LoopConstraints {
        let Self { stores, prefetch, side_by_side, .. } = *self;
        LoopConstraints { stores, prefetch, side_by_side }
    }
}

/// Options of a run: the user's options for the arrays, and the options that the plan derives.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOptions {
    /// Kernels, in the order of a pass, and their arrays.
    pub arrays: ArrayOptions,
    /// Memory policy of the arrays.
    pub policy: MemoryPolicy,
    /// Time budget of the whole run.
    pub budget: Budget,
    /// Loops that an earlier [`tune`](crate::tune) chose. The kernels in this list use them.
    pub loops: Vec<(Kernel, KernelShape)>,
    /// Exact number of passes after the warm-up, regardless of the time.
    pub samples: Option<usize>,
}

impl StreamOptions {
    /// Returns options for these arrays, with the kernels in the order of a pass.
    pub fn from_arrays(arrays: &ArrayOptions) -> Self {
        Self {
            arrays: ArrayOptions { kernels: arrays.pass_kernels(), ..arrays.clone() },
            policy: MemoryPolicy::Default,
            budget: Duration::from_secs(10).into(),
            loops: Vec::new(),
            samples: None,
        }
    }

    /// Returns the number of arrays that the kernels of a pass need.
    pub(crate) fn array_count(&self) -> usize {
        kernels::array_count(self.arrays.kernels.iter().copied())
    }
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self::from_arrays(&ArrayOptions::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_has_each_kernel_once_in_stream_order() {
        let asked = |kernels: &[Kernel]| {
            ArrayOptions { kernels: kernels.to_vec(), ..ArrayOptions::default() }.pass_kernels()
        };
        assert_eq!(asked(&[]), kernels::STREAM);
        assert_eq!(
            asked(&[Kernel::Triad, Kernel::Copy, Kernel::Triad]),
            [Kernel::Copy, Kernel::Triad]
        );
        let repeated = ArrayOptions {
            kernels: vec![Kernel::Triad, Kernel::Copy, Kernel::Triad],
            ..ArrayOptions::default()
        };
        assert_eq!(StreamOptions::from_arrays(&repeated).array_count(), 3);
    }
}
