//! Options of a run, and their consequences on a machine.

use crate::kernels::{self, Element, Kernel, KernelShape, Prefetch, SideBySide, Stores};
use crate::size::SizeSpec;
use crate::tuner::Constraints;
use nodegauge_arena::RequestedPages;
use nodegauge_measure::Fraction;
use nodegauge_placement::MemoryPolicy;
use std::time::Duration;

/// Options of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOptions {
    /// Length of the arrays.
    pub size: SizeSpec,
    /// Largest share of the memory that can be had which the arrays may take, 0 to 1.
    pub memory_fraction: Fraction,
    /// Type of the elements.
    pub element: Element,
    /// Lay the arrays one after another, padded by this many elements, as stream.c does; `None`
    /// staggers them.
    pub offset: Option<u64>,
    /// Kernels, in the order of a pass.
    pub kernels: Vec<Kernel>,
    /// Kind of store; `None` chooses by measuring.
    pub stores: Option<Stores>,
    /// Pages; `None` takes the largest that can be had without a reservation.
    pub pages: Option<RequestedPages>,
    /// Software prefetch; `None` chooses by measuring.
    pub prefetch: Option<Prefetch>,
    /// Pages that loops walk side by side; `None` chooses by measuring.
    pub side_by_side: Option<SideBySide>,
    /// Memory policy of the arrays.
    pub policy: MemoryPolicy,
    /// Time for everything.
    pub budget: Duration,
    /// True if the user asked for it: what cannot keep it is refused then.
    pub budget_asked: bool,
    /// Loops that were chosen before, by [`tune`](crate::tune): a kernel in the list has its loop.
    pub loops: Vec<(Kernel, KernelShape)>,
    /// Exactly this many passes after the warm-up, whatever the time.
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
            budget: Duration::from_secs(10),
            budget_asked: false,
            loops: Vec::new(),
            samples: None,
        }
    }
}
