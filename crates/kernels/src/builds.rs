//! Compiled functions of one kernel with one instruction set: every combination of element type, kind of store, unroll
//! factor, pages side by side and prefetch that the program contains.
//!
//! Without prefetch, there are unroll factors from 1 to 8. With prefetch, the only unroll factor is 4, with which an
//! iteration covers whole cache lines for every vector. Loops with pages side by side access one line of each page per
//! iteration; with several lines of a page, the gain would be smaller. Loops for resident sets (data that stays in a
//! cache) exist only for `f64` and without prefetch, which has no effect on such data. They use non-temporal stores
//! only for arrays that they do not read.

use super::entry::{AccessOrder, LoopArgs, VectorSet};
use super::isa::Isa;
use super::pass::{KernelBody, PassLoops};
use super::shape::{Element, KernelShape};
use super::table::Kernel;
use super::vector::{Scalar, Vector};

/// Compiled function with the parameters of its loop.
#[derive(Debug)]
pub(super) struct LoopBuild {
    pub kernel: Kernel,
    pub element: Element,
    /// Shape of the loop, as [`KernelShape::built`] returns it.
    pub shape: KernelShape,
    /// True if the function is for resident sets, i.e. if it traverses data in a cache repeatedly.
    pub resident: bool,
    /// Compiled function; it may run only on a processor with the instruction set of `shape`.
    pub run: unsafe fn(&LoopArgs, AccessOrder) -> f64,
}

const fn build<
    I,
    V,
    B,
    const RESIDENT: bool,
    const NT: bool,
    const U: usize,
    const SIDE: bool,
    const P: u8,
>() -> LoopBuild
where
    I: VectorSet,
    V: Vector,
    B: KernelBody,
{
    LoopBuild {
        kernel: B::SPEC.kernel,
        element: V::Scalar::ELEMENT,
        shape: KernelShape::built(I::ISA, NT, U as u8, SIDE, P),
        resident: RESIDENT,
        run: I::enter::<PassLoops<V, B, RESIDENT, NT, U, SIDE, P>>,
    }
}

/// True if a kernel has loops with this kind of store. A kernel without stores has only loops with regular stores.
pub(super) const fn has_stores<B: KernelBody>(isa: Isa, nontemporal: bool) -> bool {
    !nontemporal || (isa.has_nontemporal_stores() && B::SPEC.writes.is_some())
}

/// Returns the loops for passes over long arrays.
pub(super) const fn passes<I, V, B, const NT: bool>() -> &'static [LoopBuild]
where
    I: VectorSet,
    V: Vector + 'static,
    B: KernelBody + 'static,
{
    if !(B::SPEC.has_pass_loops() && has_stores::<B>(I::ISA, NT)) {
        return &[];
    }
    if !I::PREFETCHES {
        return const { &unprefetched::<I, V, B, false, NT>() };
    }
    const {
        let [one, two, four, eight, side] = unprefetched::<I, V, B, false, NT>();
        &[
            one,
            two,
            four,
            eight,
            side,
            build::<I, V, B, false, NT, 4, false, 1>(),
            build::<I, V, B, false, NT, 4, false, 2>(),
        ]
    }
}

/// Returns the loops without prefetch: four unroll factors, and a loop with pages side by side.
const fn unprefetched<I, V, B, const RESIDENT: bool, const NT: bool>() -> [LoopBuild; 5]
where
    I: VectorSet,
    V: Vector,
    B: KernelBody,
{
    [
        build::<I, V, B, RESIDENT, NT, 1, false, 0>(),
        build::<I, V, B, RESIDENT, NT, 2, false, 0>(),
        build::<I, V, B, RESIDENT, NT, 4, false, 0>(),
        build::<I, V, B, RESIDENT, NT, 8, false, 0>(),
        build::<I, V, B, RESIDENT, NT, 1, true, 0>(),
    ]
}

/// Returns the loops for resident sets.
pub(super) const fn residents<I, B, const NT: bool>() -> &'static [LoopBuild]
where
    I: VectorSet,
    B: KernelBody + 'static,
{
    let stores = has_stores::<B>(I::ISA, NT) && (!NT || B::SPEC.write_allocates());
    if !(B::SPEC.has_resident_loops() && stores) {
        return &[];
    }
    const { &unprefetched::<I, I::F64, B, true, NT>() }
}
