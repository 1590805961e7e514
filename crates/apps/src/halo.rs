//! Communication of ranks during a solution: components of nodes that neighbours own, and sums.

mod mpi;
mod shared;

pub(crate) use mpi::MpiRanks;
pub(crate) use shared::SharedHalo;

use crate::array::SharedArray;
use crate::context::ThreadContext;
use crate::elasticity::Subdomain;
use crate::order::Numbering;

/// Communication with the other ranks, called by the threads of one rank.
pub(crate) trait Halo: Sync {
    /// Copies the components of nodes that other ranks own to the end of `vector`.
    ///
    /// # Safety
    /// Every thread of every rank calls this, and no other code uses the vector during the call. All ranks synchronise
    /// between two calls.
    unsafe fn exchange(&self, context: &ThreadContext<'_>, vector: &SharedArray<f64>);
    /// Returns the sum of `x` over all ranks, in a fixed order; each thread of a rank passes the same `x`.
    fn sum(&self, context: &ThreadContext<'_>, x: f64) -> f64;
    /// Returns the number of bytes that an exchange moves on this rank.
    fn bytes(&self) -> usize;
}

/// Communication with the other ranks before the mesh is divided.
pub(crate) trait Ranks {
    /// Halo of one rank with its part of the mesh.
    type Halo<'h>: Halo + 'h
    where
        Self: 'h;
    /// True if `said` is true on any rank; all ranks call this.
    fn any(&self, context: &ThreadContext<'_>, said: bool) -> bool;
    /// Returns the communication of the rank with this part and these rows.
    fn halo(&self, part: &Subdomain, rows: &Numbering) -> Self::Halo<'_>;
}

/// A single rank without others.
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
