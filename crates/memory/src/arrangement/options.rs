//! What can be asked of a run, and what follows from it on a machine.

use crate::arrays::Pages;
use crate::kernels::{self, Element, Kernel, Prefetch, Shape, SideBySide, Stores};
use crate::size::SizeSpec;
use crate::tuner::Constraints;
use nodegauge_machine::{NodeId, SysRoot};
use nodegauge_measure::Bytes;
use nodegauge_measure::record::{HugePages, Machine};
use nodegauge_placement::MemoryPolicy;
use std::time::Duration;

/// What can be asked of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOptions {
    /// Length of the arrays.
    pub size: SizeSpec,
    /// Largest share of the memory that can be had which the arrays may take, 0 to 1.
    pub memory_fraction: f64,
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
    pub pages: Option<Pages>,
    /// Software prefetch; `None` chooses by measuring.
    pub prefetch: Option<Prefetch>,
    /// Pages that loops walk side by side; `None` chooses by measuring.
    pub side_by_side: Option<SideBySide>,
    /// Memory policy of the arrays.
    pub policy: MemoryPolicy,
    /// Time for everything.
    pub budget: Duration,
    /// Whether the user asked for it: what cannot keep it is refused then.
    pub budget_asked: bool,
    /// Loops that were chosen before, by [`tune`](crate::tune): a kernel in the list has its loop.
    pub loops: Vec<(Kernel, Shape)>,
    /// Exactly this many passes after the warm-up, whatever the time.
    pub samples: Option<usize>,
}

impl StreamOptions {
    /// What is left open about the loops.
    pub(crate) fn constraints(&self) -> Constraints {
        let Self { stores, prefetch, side_by_side, .. } = *self;
        Constraints { stores, prefetch, side_by_side }
    }
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            size: SizeSpec::Auto,
            memory_fraction: 0.8,
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

/// Memory that the arrays of a run can have: reserved huge pages that are free, or what can be had
/// now, on the nodes to which a policy binds them.
pub(crate) fn available(machine: &Machine, pages: Option<Pages>, policy: &MemoryPolicy) -> Bytes {
    if let Some(page) = pages.and_then(Pages::reserved) {
        let free_in = |pools: &[HugePages]| -> Option<u64> {
            pools.iter().find(|huge| huge.bytes == page.0).map(|huge| huge.free * huge.bytes)
        };
        // The kernel's reservation knows no policy: a node's pool that is too small would end the
        // program at first touch.
        let free = match policy {
            MemoryPolicy::Bind(nodes) => {
                let of_node = |node: &NodeId| {
                    free_in(&nodegauge_machine::memory::huge_pages_of_node(&SysRoot::live(), *node))
                };
                nodes.iter().map(of_node).sum()
            }
            _ => machine.pages.as_ref().and_then(|pages| free_in(&pages.huge)),
        };
        // None reserved at all is refused with the reason by `PointConfig::check_pages`.
        if let Some(free) = free.filter(|free| *free > 0) {
            return Bytes(free);
        }
    }
    let anywhere = machine.memory.available.unwrap_or(0);
    let MemoryPolicy::Bind(nodes) = policy else { return Bytes(anywhere) };
    let of = |id: &NodeId| machine.numa_nodes.iter().find(|node| node.id == id.0)?.available;
    let there: Option<u64> = nodes.iter().map(of).sum();
    Bytes(there.map_or(anywhere, |there| there.min(anywhere)))
}

/// The pages to take when the user leaves the choice: transparent huge pages unless the kernel
/// has them switched off.
pub fn best_pages(machine: &Machine) -> Pages {
    match machine.pages.as_ref().and_then(|pages| pages.thp.as_deref()) {
        Some("never") | None => Pages::Base,
        Some(_) => Pages::Transparent,
    }
}
