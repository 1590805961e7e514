//! Compiled loops. A loop is returned only if the processor has the required instruction set. Therefore every
//! [`Variant`] and every [`ResidentLoop`] can be run.

use super::bodies;
use super::builds::LoopBuild;
use super::entry::{AccessOrder, LoopArgs};
use super::isa::{self, Isa};
use super::shape::{Element, KernelShape, SideBySidePages, Stores};
#[cfg(target_arch = "aarch64")]
use super::sve;
use super::table::Kernel;
use std::cmp::Reverse;

/// All compiled loops, for all instruction sets of the target.
static BUILDS: &[&[&[LoopBuild]]] = &[
    bodies::all::<isa::Portable>(),
    #[cfg(target_arch = "x86_64")]
    bodies::all::<isa::Sse2>(),
    #[cfg(target_arch = "x86_64")]
    bodies::all::<isa::Avx>(),
    #[cfg(target_arch = "x86_64")]
    bodies::all::<isa::Avx512>(),
    #[cfg(target_arch = "aarch64")]
    bodies::all::<isa::Neon>(),
    #[cfg(target_arch = "aarch64")]
    sve::all(),
];

/// Compiled loop of a kernel that this processor can run. Only [`find`] creates it.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    build: &'static LoopBuild,
    shape: KernelShape,
}

impl Variant {
    /// Returns the kernel that the loop computes.
    pub fn kernel(&self) -> Kernel {
        self.build.kernel
    }

    /// Returns the type of the array elements.
    pub fn element(&self) -> Element {
        self.build.element
    }

    /// Returns the shape of the loop. For a kernel without stores, the kind of store is regular.
    pub fn shape(&self) -> KernelShape {
        self.shape
    }

    /// Runs the kernel on the share of one thread. Returns the sum for a kernel that sums, and 0 for other kernels.
    ///
    /// # Safety
    /// The pointers that the kernel uses must point to `n` elements each, aligned to the element size. The array
    /// written must be writable, and no other thread may use it. Each array read must be the array written, or must not
    /// overlap with it.
    #[inline]
    pub unsafe fn run(&self, args: &LoopArgs) -> f64 {
        // SAFETY: the instruction set was detected before the loop was returned; the caller guarantees the other
        // conditions.
        unsafe { (self.build.run)(args, AccessOrder::from_shape(self.shape)) }
    }
}

/// Compiled loop that traverses `f64` data in a cache repeatedly and that this processor can run. Only
/// [`resident_loops`] creates it.
#[derive(Debug, Clone, Copy)]
pub struct ResidentLoop {
    build: &'static LoopBuild,
    shape: KernelShape,
}

impl ResidentLoop {
    /// Returns the kernel that the loop computes.
    pub fn kernel(&self) -> Kernel {
        self.build.kernel
    }

    /// Returns the shape of the loop.
    pub fn shape(&self) -> KernelShape {
        self.shape
    }

    /// Runs `repeats` passes on the arrays of one thread. Returns the sum for a kernel that sums, and 0 for other
    /// kernels.
    ///
    /// # Safety
    /// Each array that the kernel uses must have `n` elements of `f64` and start at a multiple of
    /// [`CACHE_LINE_BYTES`](super::CACHE_LINE_BYTES); `n` must be a multiple of the number of elements per line. The
    /// arrays must not overlap. No other thread may write the arrays, or read the array that the kernel writes.
    #[inline]
    pub unsafe fn run(&self, args: &LoopArgs) -> f64 {
        // SAFETY: the instruction set was detected before the loop was returned; the caller guarantees the other
        // conditions.
        unsafe { (self.build.run)(args, AccessOrder::from_shape(self.shape)) }
    }
}

pub(super) fn builds() -> impl Iterator<Item = &'static LoopBuild> {
    BUILDS.iter().flat_map(|kernels| kernels.iter()).flat_map(|builds| builds.iter())
}

/// Returns the number of loops for passes over long arrays that this program contains, for all instruction sets of the
/// target.
pub fn compiled_count() -> usize {
    builds().filter(|build| !build.resident).count()
}

/// Returns the loop of a kernel with this shape. Returns `None` if this processor lacks the instruction set, or if the
/// program does not contain the loop. For a kernel without stores, the kind of store is ignored.
pub fn find(kernel: Kernel, element: Element, shape: KernelShape) -> Option<Variant> {
    let stores = if kernel.writes() { shape.stores } else { Stores::Regular };
    let shape = KernelShape { stores, ..shape };
    let side_by_side = match shape.side_by_side {
        SideBySidePages::ONE => SideBySidePages::ONE,
        _ => SideBySidePages::ABOVE_ONE,
    };
    let wanted =
        KernelShape { prefetch: shape.prefetch.without_distances(), side_by_side, ..shape };
    builds()
        .find(|build| {
            (build.kernel, build.element, build.resident) == (kernel, element, false)
                && build.shape == wanted
        })
        .filter(|build| build.shape.isa.is_available())
        .map(|build| Variant { build, shape })
}

/// Returns the shapes of a compiled loop for tests, with different numbers of pages side by side.
fn shapes(build: &LoopBuild) -> impl Iterator<Item = KernelShape> {
    let shape = build.shape;
    let pages: &[u8] =
        if shape.side_by_side == SideBySidePages::ABOVE_ONE { &[2, 4, 8] } else { &[1] };
    let known = pages.iter().filter_map(|pages| SideBySidePages::new(*pages));
    known.map(move |side_by_side| KernelShape { side_by_side, ..shape })
}

/// Returns the resident loops of a kernel with one kind of store that this processor can run. They are sorted by
/// vector width, widest first, and then by unroll factor, largest first.
pub fn resident_loops(kernel: Kernel, stores: Stores) -> Vec<ResidentLoop> {
    let mut found: Vec<ResidentLoop> = builds()
        .filter(|build| build.resident && build.kernel == kernel && build.shape.stores == stores)
        .filter(|build| build.shape.isa.is_available())
        .flat_map(|build| shapes(build).map(move |shape| ResidentLoop { build, shape }))
        .collect();
    found.sort_by_key(|loops| {
        let shape = loops.shape();
        (Reverse((shape.isa.vector_bits(), shape.unroll)), shape.side_by_side)
    });
    found
}

/// Returns the instruction sets of this processor for which there are loops, widest first.
pub fn available_isas() -> Vec<Isa> {
    let mut isas: Vec<Isa> = Isa::available().collect();
    isas.retain(|isa| builds().any(|build| build.shape.isa == *isa));
    isas.sort_by_key(|isa| Reverse(isa.vector_bits()));
    isas
}

/// Returns all loops for passes over long arrays that this processor can run, with an example distance for each kind of
/// prefetch.
#[cfg(test)]
pub(super) fn variants() -> impl Iterator<Item = Variant> {
    let passes = builds().filter(|build| !build.resident && build.shape.isa.is_available());
    passes.flat_map(|build| {
        use super::Prefetch;
        let prefetch = match build.shape.prefetch {
            Prefetch::Off => Prefetch::Off,
            Prefetch::Near(_) => Prefetch::Near(512),
            Prefetch::FarNear(..) => Prefetch::FarNear(4096, 512),
        };
        shapes(build).map(move |shape| Variant { build, shape: KernelShape { prefetch, ..shape } })
    })
}
