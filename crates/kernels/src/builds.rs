//! The compiled functions of one kernel with one instruction set: every combination of element type,
//! kind of store, unroll and prefetch that is compiled in.
//!
//! Unrolls 1 to 8 exist without prefetch; with prefetch only unroll 4, where a step covers whole
//! cache lines for every vector. Loops for resident sets are of `f64` and without prefetch, which
//! finds nothing to do there, and store past the caches only what they do not read.

use super::entry::{Ahead, Args, InstructionSet};
use super::pass::{Body, Pass};
use super::shape::{Element, Prefetch, Shape, Stores};
use super::table::Kernel;
use super::vector::{Scalar, Vector};

/// A compiled function and what it is.
#[derive(Debug)]
pub(super) struct Build {
    pub kernel: Kernel,
    pub element: Element,
    /// Its shape; the distances of its prefetch are 0, they are arguments.
    pub shape: Shape,
    /// Whether it is for resident sets.
    pub resident: bool,
    /// The function; the processor must have its instruction set.
    pub run: unsafe fn(&Args, Ahead) -> f64,
}

const fn build<I, V, B, const RESIDENT: bool, const NT: bool, const U: usize, const P: u8>() -> Build
where
    I: InstructionSet,
    V: Vector,
    B: Body,
{
    Build {
        kernel: B::SPEC.kernel,
        element: V::Scalar::ELEMENT,
        shape: Shape {
            isa: I::ISA,
            stores: if NT { Stores::NonTemporal } else { Stores::Regular },
            unroll: U as u8,
            prefetch: Prefetch::with_distances(P),
        },
        resident: RESIDENT,
        run: I::enter::<Pass<V, B, RESIDENT, NT, U, P>>,
    }
}

/// Whether a kernel has loops with a kind of store: one that stores nothing has one kind only.
const fn stores<I: InstructionSet, B: Body>(nontemporal: bool) -> bool {
    !nontemporal || (I::ISA.has_nontemporal() && B::SPEC.writes.is_some())
}

/// For passes over long arrays.
pub(super) const fn passes<I, V, B, const NT: bool>() -> &'static [Build]
where
    I: InstructionSet,
    V: Vector + 'static,
    B: Body + 'static,
{
    match B::SPEC.in_passes() && stores::<I, B>(NT) {
        true if I::PREFETCHES => {
            const {
                &[
                    build::<I, V, B, false, NT, 1, 0>(),
                    build::<I, V, B, false, NT, 2, 0>(),
                    build::<I, V, B, false, NT, 4, 0>(),
                    build::<I, V, B, false, NT, 8, 0>(),
                    build::<I, V, B, false, NT, 4, 1>(),
                    build::<I, V, B, false, NT, 4, 2>(),
                ]
            }
        }
        true => {
            const {
                &[
                    build::<I, V, B, false, NT, 1, 0>(),
                    build::<I, V, B, false, NT, 2, 0>(),
                    build::<I, V, B, false, NT, 4, 0>(),
                    build::<I, V, B, false, NT, 8, 0>(),
                ]
            }
        }
        false => &[],
    }
}

/// For resident sets.
pub(super) const fn residents<I, B, const NT: bool>() -> &'static [Build]
where
    I: InstructionSet,
    B: Body + 'static,
{
    let stores = stores::<I, B>(NT) && (!NT || B::SPEC.write_allocates());
    if !(B::SPEC.is_resident() && stores) {
        return &[];
    }
    const {
        &[
            build::<I, I::F64, B, true, NT, 1, 0>(),
            build::<I, I::F64, B, true, NT, 2, 0>(),
            build::<I, I::F64, B, true, NT, 4, 0>(),
            build::<I, I::F64, B, true, NT, 8, 0>(),
        ]
    }
}
