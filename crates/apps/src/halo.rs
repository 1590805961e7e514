//! Communication of ranks while they solve: components of nodes that neighbours own, and sums.

mod mpi;
mod shared;

pub(crate) use mpi::MpiRanks;
pub(crate) use shared::SharedHalo;

use crate::array::SharedArray;
use crate::context::ThreadContext;
use crate::elasticity::Subdomain;
use crate::order::Numbering;

/// The other ranks, as the threads of one see them.
pub(crate) trait Halo: Sync {
    /// Brings the components of nodes that other ranks have to the end of `vector`.
    ///
    /// # Safety
    /// Every thread of every rank calls it, and nothing else uses the vector meanwhile; between two calls all of
    /// them meet.
    unsafe fn exchange(&self, context: &ThreadContext<'_>, vector: &SharedArray<f64>);
    /// The sum of `x` over all ranks, in a fixed order; each thread of a rank calls it with the same `x`.
    fn sum(&self, context: &ThreadContext<'_>, x: f64) -> f64;
    /// Bytes that an exchange moves on this rank.
    fn bytes(&self) -> usize;
}

/// The other ranks before each has its part of the mesh.
pub(crate) trait Ranks {
    /// Halo of one rank with its part.
    type Halo<'h>: Halo + 'h
    where
        Self: 'h;
    /// True if one of them says so; all of them call it.
    fn any(&self, context: &ThreadContext<'_>, said: bool) -> bool;
    /// Returns the communication of the rank with this part and these rows.
    fn halo(&self, part: &Subdomain, rows: &Numbering) -> Self::Halo<'_>;
}

/// No other ranks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alone;

impl Halo for Alone {
    unsafe fn exchange(&self, _: &ThreadContext<'_>, _: &SharedArray<f64>) {}
    fn sum(&self, _: &ThreadContext<'_>, x: f64) -> f64 {
        x
    }
    fn bytes(&self) -> usize {
        0
    }
}
