//! Options of a run for the arrays and the loops.

use crate::kernels::{self, Element, Kernel, KernelShape, Prefetch, SideBySide, Stores};
use crate::size::SizeSpec;
use crate::tuner::Constraints;
use nodegauge_arena::RequestedPages;
use nodegauge_measure::Fraction;
use nodegauge_measure::schedule::Budget;
use nodegauge_placement::MemoryPolicy;
use std::time::Duration;

/// Options of a run for the arrays and the loops: request of the user, or defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOptions {
    /// Length of the arrays.
    pub size: SizeSpec,
    /// Maximum share of the available memory for the arrays, 0 to 1.
    pub memory_fraction: Fraction,
    /// Type of the elements.
    pub element: Element,
    /// Padding in elements between contiguous arrays, as in stream.c; `None` for staggered arrays.
    pub offset: Option<u64>,
    /// Kernels, in the order of a pass.
    pub kernels: Vec<Kernel>,
    /// Kind of store; `None` to choose it by measurement.
    pub stores: Option<Stores>,
    /// Kind of pages; `None` for the largest pages available without a reservation.
    pub pages: Option<RequestedPages>,
    /// Software prefetch; `None` to choose it by measurement.
    pub prefetch: Option<Prefetch>,
    /// Number of 4 KiB pages that loops traverse alternately (side by side); `None` to choose it by measurement.
    pub side_by_side: Option<SideBySide>,
    /// Memory policy of the arrays.
    pub policy: MemoryPolicy,
    /// Time budget of the whole run.
    pub budget: Budget,
    /// Loops that an earlier [`tune`](crate::tune) chose for some kernels; these kernels use them.
    pub loops: Vec<(Kernel, KernelShape)>,
    /// Exact number of passes after the warm-up, regardless of the time.
    pub samples: Option<usize>,
}

impl StreamOptions {
    /// Returns the number of arrays that the kernels of a pass need.
    pub(crate) fn arrays(&self) -> usize {
        kernels::arrays_of(self.kernels.iter().copied())
    }

    /// Returns the constraints on the loops.
    pub(crate) fn constraints(&self) -> Constraints {
        let Self { stores, prefetch, side_by_side, .. } = *self;
        Constraints { stores, prefetch, side_by_side }
    }
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            size: SizeSpec::Auto,
            memory_fraction: Fraction(0.8),
            element: Element::F64,
            offset: None,
            kernels: kernels::STREAM.to_vec(),
            stores: None,
            pages: None,
            prefetch: None,
            side_by_side: None,
            policy: MemoryPolicy::Default,
            budget: Duration::from_secs(10).into(),
            loops: Vec::new(),
            samples: None,
        }
    }
}
