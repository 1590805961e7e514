//! What ranks do together while they solve: components of nodes that neighbours have, and sums.

use crate::array::Array;
use crate::elasticity::{Mesh, Subdomain};
use crate::order::Numbering;
use crate::seat::Seat;
use nodegauge_measure::Failure;
use nodegauge_os::{CacheLine, Mapping};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The other ranks, as the threads of one see them.
pub(crate) trait Halo: Sync {
    /// Brings the components of nodes that other ranks have to the end of `vector`; every thread calls it.
    fn exchange(&self, seat: &Seat<'_>, vector: &Array<f64>);
    /// The sum of `x` over all ranks, in a fixed order; each thread of a rank calls it with the same `x`.
    fn sum(&self, seat: &Seat<'_>, x: f64) -> f64;
    /// Bytes that an exchange moves on this rank.
    fn bytes(&self) -> usize;
}

/// No other ranks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alone;

impl Halo for Alone {
    fn exchange(&self, _: &Seat<'_>, _: &Array<f64>) {}
    fn sum(&self, _: &Seat<'_>, x: f64) -> f64 {
        x
    }
    fn bytes(&self) -> usize {
        0
    }
}

/// Memory that ranks of one node share: three lines for each rank, two for its part of a sum and one by which it
/// gives up, and a vector of the whole mesh, of which pages are touched where ranks meet.
#[derive(Debug)]
pub(crate) struct SharedHalo {
    memory: Mapping,
    ranks: usize,
}

/// Lines of a rank.
const LINES: usize = 3;
/// Bytes of a line.
const LINE: usize = size_of::<CacheLine<AtomicU64>>();

impl SharedHalo {
    /// Memory for so many ranks, made before they are forked.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub fn map(mesh: Mesh, ranks: usize) -> Result<Self, Failure> {
        let memory = Mapping::shared(LINES * ranks * LINE + mesh.count() * 24);
        let memory = memory.map_err(|error| {
            Failure::missing(format!("cannot map memory that ranks share: {error}"))
        })?;
        Ok(Self { memory, ranks })
    }

    /// What rank `rank` does with it.
    pub fn of_rank(&self, rank: usize, subdomain: &Subdomain, rows: &Numbering) -> RankHalo<'_> {
        let global = |row: &usize| {
            let node = subdomain.node(rows.nodes[*row] as usize);
            let whole = Subdomain::whole(subdomain.mesh);
            (*row, whole.local(node))
        };
        // Nodes of the rank beside one of another.
        let is_sent = |row: &usize| {
            let node = subdomain.node(rows.nodes[*row] as usize);
            subdomain.neighbours(node).any(|(_, other)| !subdomain.owns(other))
        };
        RankHalo {
            shared: self,
            rank,
            sent: (0..rows.owned()).filter(is_sent).map(|row| global(&row)).collect(),
            received: (rows.owned()..rows.nodes.len()).map(|row| global(&row)).collect(),
            sums: AtomicUsize::new(0),
        }
    }

    /// The three components of a node of the mesh.
    fn components(&self, node: usize) -> *mut [f64; 3] {
        self.memory.at(LINES * self.ranks * LINE + 24 * node, 24).as_ptr().cast()
    }

    /// Tells the others, who look behind a barrier, that this rank cannot go on.
    pub fn give_up(&self, rank: usize) {
        self.line(rank, 2).store(1, Ordering::Relaxed);
    }

    /// Whether a rank gave up.
    pub fn is_given_up(&self) -> bool {
        (0..self.ranks).any(|rank| self.line(rank, 2).load(Ordering::Relaxed) != 0)
    }

    /// A line of a rank: 0 and 1 for sums of even and of odd number, 2 by which it gives up.
    fn line(&self, rank: usize, line: usize) -> &AtomicU64 {
        let at = (line * self.ranks + rank) * LINE;
        &self.memory.view::<CacheLine<AtomicU64>>(at).0
    }
}

/// A rank of one thread among those of its node.
#[derive(Debug)]
pub(crate) struct RankHalo<'a> {
    shared: &'a SharedHalo,
    rank: usize,
    /// Rows and the nodes of the mesh that they are.
    sent: Vec<(usize, usize)>,
    received: Vec<(usize, usize)>,
    /// Sums so far: whoever is ahead writes the other line.
    sums: AtomicUsize,
}

impl Halo for RankHalo<'_> {
    fn exchange(&self, seat: &Seat<'_>, vector: &Array<f64>) {
        for (row, node) in &self.sent {
            // SAFETY: the node is this rank's to write; others read it behind the barrier, and before they
            // meet again in a sum, as between any two exchanges.
            unsafe {
                self.shared.components(*node).write(vector.at(3 * row).cast::<[f64; 3]>().read());
            }
        }
        seat.barrier_of_all();
        for (row, node) in &self.received {
            // SAFETY: as above; the row at the end of the vector is this thread's alone.
            unsafe {
                vector.at(3 * row).cast::<[f64; 3]>().write(self.shared.components(*node).read());
            }
        }
    }

    fn sum(&self, seat: &Seat<'_>, x: f64) -> f64 {
        let number = self.sums.fetch_add(1, Ordering::Relaxed) % 2;
        self.shared.line(self.rank, number).store(x.to_bits(), Ordering::Relaxed);
        seat.barrier_of_all();
        let part = |rank| self.shared.line(rank, number).load(Ordering::Relaxed);
        (0..self.shared.ranks).map(|rank| f64::from_bits(part(rank))).sum()
    }

    fn bytes(&self) -> usize {
        // Each is read and written.
        2 * 24 * (self.sent.len() + self.received.len())
    }
}
