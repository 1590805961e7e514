//! Halo exchange and sums in memory that the ranks on one node share.

use super::{Halo, Ranks};
use crate::array::SharedArray;
use crate::context::ThreadContext;
use crate::elasticity::{Mesh, Subdomain};
use crate::order::Numbering;
use crate::sums::{SharedSums, Sums};
use nodegauge_measure::Failure;
use nodegauge_os::Mapping;

/// Memory that the ranks on one node share. It contains partial sums and a vector for the complete mesh; only the pages
/// of the vector with mesh points at boundaries between ranks are touched.
#[derive(Debug)]
pub(crate) struct SharedHalo {
    sums: SharedSums,
    vector: Mapping,
}

impl SharedHalo {
    /// Maps memory for `ranks` ranks; must be called before the ranks are forked.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    pub fn allocate(mesh: Mesh, ranks: usize) -> Result<Self, Failure> {
        let vector = Mapping::shared(mesh.point_count() * 24).map_err(|error| {
            Failure::missing(format!("cannot map memory that the ranks share: {error}"))
        })?;
        Ok(Self { sums: SharedSums::allocate(ranks)?, vector })
    }

    /// Returns the access of rank `rank` to the shared memory.
    pub fn rank_access(&self, rank: usize) -> SharedRank<'_> {
        SharedRank { shared: self, sums: self.sums.worker_access(rank) }
    }

    /// Returns the address of the three vector components of a mesh point.
    fn components(&self, node: usize) -> *mut [f64; 3] {
        self.vector.at(24 * node, 24).as_ptr().cast()
    }
}

/// Access to the shared memory for a rank with one thread.
#[derive(Debug)]
pub(crate) struct SharedRank<'a> {
    shared: &'a SharedHalo,
    sums: Sums<'a>,
}

impl Ranks for SharedRank<'_> {
    type Halo<'h>
        = RankHalo<'h>
    where
        Self: 'h;

    fn any(&self, context: &ThreadContext<'_>, condition: bool) -> bool {
        self.sums.add_up(0.0, condition, || context.wait_for_all()).1
    }

    fn halo(&self, subdomain: &Subdomain, rows: &Numbering) -> RankHalo<'_> {
        let whole = Subdomain::whole_mesh(subdomain.mesh);
        let mut sent = Vec::new();
        let mut received = Vec::new();
        for (row, local) in rows.nodes.iter().enumerate() {
            let node = subdomain.node(*local as usize);
            let of_row = (row, whole.local_number(node));
            if row >= rows.owned_count() {
                received.push(of_row);
            } else if subdomain.neighbours(node).any(|(_, other)| !subdomain.owns(other)) {
                // The mesh point is adjacent to a mesh point of another rank.
                sent.push(of_row);
            }
        }
        RankHalo { shared: self.shared, sums: &self.sums, sent, received }
    }
}

/// Communication of one rank through shared memory, for the part of the mesh that the rank owns.
#[derive(Debug)]
pub(crate) struct RankHalo<'a> {
    shared: &'a SharedHalo,
    sums: &'a Sums<'a>,
    /// Rows that the rank sends, each with the number of its mesh point in the complete mesh.
    sent: Vec<(usize, usize)>,
    received: Vec<(usize, usize)>,
}

impl Halo for RankHalo<'_> {
    unsafe fn exchange(&self, context: &ThreadContext<'_>, vector: &SharedArray<f64>) {
        for (row, node) in &self.sent {
            // SAFETY: only this rank writes the mesh point. Other ranks read the mesh point after the barrier and
            // before the next sum. That sum synchronises all ranks between two exchanges.
            unsafe {
                self.shared.components(*node).write(vector.at(3 * row).cast::<[f64; 3]>().read());
            }
        }
        context.wait_for_all();
        for (row, node) in &self.received {
            // SAFETY: as above; only this thread uses the row at the end of the vector.
            unsafe {
                vector.at(3 * row).cast::<[f64; 3]>().write(self.shared.components(*node).read());
            }
        }
    }

    fn sum(&self, context: &ThreadContext<'_>, x: f64) -> f64 {
        self.sums.add_up(x, false, || context.wait_for_all()).0
    }

    fn bytes(&self) -> usize {
        // Every exchanged number is read once and written once.
        2 * 24 * (self.sent.len() + self.received.len())
    }
}
