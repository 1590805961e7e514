//! The compiled functions of one kernel with one instruction set: every combination of element type,
//! kind of store, unroll, pages side by side and prefetch that is compiled in.
//!
//! Unrolls 1 to 8 exist without prefetch; with prefetch only unroll 4, where a step covers whole
//! cache lines for every vector. Pages are walked side by side line by line: more lines of one page
//! at a time take part of the gain away. Loops for resident sets are of `f64` and without prefetch,
//! which finds nothing to do there, and store past the caches only what they do not read.

use super::entry::{Args, VectorSet, Way};
use super::isa::Isa;
use super::pass::{Body, Pass};
use super::shape::{Element, Shape};
use super::table::Kernel;
use super::vector::{Scalar, Vector};

/// A compiled function and what it is.
#[derive(Debug)]
pub(super) struct Build {
    pub kernel: Kernel,
    pub element: Element,
    /// Its shape, as [`Shape::built`] makes it.
    pub shape: Shape,
    /// Whether it is for resident sets.
    pub resident: bool,
    /// The function; the processor must have its instruction set.
    pub run: unsafe fn(&Args, Way) -> f64,
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
>() -> Build
where
    I: VectorSet,
    V: Vector,
    B: Body,
{
    Build {
        kernel: B::SPEC.kernel,
        element: V::Scalar::ELEMENT,
        shape: Shape::built(I::ISA, NT, U as u8, SIDE, P),
        resident: RESIDENT,
        run: I::enter::<Pass<V, B, RESIDENT, NT, U, SIDE, P>>,
    }
}

/// Whether a kernel has loops with a kind of store: one that stores nothing has one kind only.
pub(super) const fn stores<B: Body>(isa: Isa, nontemporal: bool) -> bool {
    !nontemporal || (isa.has_nontemporal() && B::SPEC.writes.is_some())
}

/// For passes over long arrays.
pub(super) const fn passes<I, V, B, const NT: bool>() -> &'static [Build]
where
    I: VectorSet,
    V: Vector + 'static,
    B: Body + 'static,
{
    if !(B::SPEC.in_passes() && stores::<B>(I::ISA, NT)) {
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

/// What there is without prefetch: unrolled, and with pages side by side.
const fn unprefetched<I, V, B, const RESIDENT: bool, const NT: bool>() -> [Build; 5]
where
    I: VectorSet,
    V: Vector,
    B: Body,
{
    [
        build::<I, V, B, RESIDENT, NT, 1, false, 0>(),
        build::<I, V, B, RESIDENT, NT, 2, false, 0>(),
        build::<I, V, B, RESIDENT, NT, 4, false, 0>(),
        build::<I, V, B, RESIDENT, NT, 8, false, 0>(),
        build::<I, V, B, RESIDENT, NT, 1, true, 0>(),
    ]
}

/// For resident sets.
pub(super) const fn residents<I, B, const NT: bool>() -> &'static [Build]
where
    I: VectorSet,
    B: Body + 'static,
{
    let stores = stores::<B>(I::ISA, NT) && (!NT || B::SPEC.write_allocates());
    if !(B::SPEC.is_resident() && stores) {
        return &[];
    }
    const { &unprefetched::<I, I::F64, B, true, NT>() }
}
