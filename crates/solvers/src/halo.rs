//! Communication between ranks during a solve: exchange of vector components at boundaries (the halo), and sums.

mod mpi;
mod shared;

pub(crate) use mpi::MpiMeshRanks;
pub(crate) use shared::SharedHalo;

use crate::array::SharedArray;
use crate::context::ThreadContext;
use crate::elasticity::Subdomain;
use crate::order::Numbering;
use nodegauge_measure::Failure;

/// Communication with the other ranks, called by the threads of one rank.
pub(crate) trait Halo: Sync {
    /// Copies the components of mesh points that other ranks own to the end of `vector`.
    ///
    /// # Safety
    /// Every thread of every rank must call this method, and no other code may use the vector during the call. All
    /// ranks must synchronise between two calls.
    unsafe fn exchange(&self, context: &ThreadContext<'_>, vector: &SharedArray<f64>);
    /// Returns the sum of `x` over all ranks, which is formed in a fixed order. All threads of a rank must pass the
    /// same `x`.
    fn sum(&self, context: &ThreadContext<'_>, x: f64) -> f64;
    /// Returns the number of bytes that an exchange moves on this rank.
    fn bytes(&self) -> usize;
}

/// Communication between ranks before the mesh is divided among them.
pub(crate) trait Ranks {
    /// Communication of one rank after the mesh has been divided among the ranks.
    type Halo<'h>: Halo + 'h
    where
        Self: 'h;
    /// Returns true if `condition` is true on any rank. All ranks must call this method.
    fn any(&self, context: &ThreadContext<'_>, condition: bool) -> bool;
    /// Returns the communication of a rank. `part` is the part of the mesh that the rank owns, and `rows` is the
    /// numbering of its rows.
    fn halo(&self, part: &Subdomain, rows: &Numbering) -> Self::Halo<'_>;
}

/// Returns the failure for a mesh with fewer points than `ranks` ranks need.
pub(crate) fn too_few_points(ranks: usize) -> Failure {
    Failure::usage(format!("the mesh has too few points for {ranks} ranks"))
        .hint("use fewer --ranks, or more --elements")
}

/// Communication of a program with a single rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SingleRank;

impl Halo for SingleRank {
    unsafe fn exchange(&self, _: &ThreadContext<'_>, _: &SharedArray<f64>) {}
    fn sum(&self, _: &ThreadContext<'_>, x: f64) -> f64 {
        x
    }
    fn bytes(&self) -> usize {
        0
    }
}
