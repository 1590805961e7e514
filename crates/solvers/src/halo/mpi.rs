//! Halo exchange and sums by MPI, between ranks started by an MPI launcher.

use super::{Halo, Ranks, too_few_points};
use crate::array::SharedArray;
use crate::context::ThreadContext;
use crate::elasticity::{Mesh, Subdomain};
use crate::order::Numbering;
use nodegauge_measure::Failure;
use nodegauge_team::mpi::{Exchange, Exchanges, World};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// All MPI ranks, and the division of the mesh among the ranks.
#[derive(Debug)]
pub(crate) struct MpiMeshRanks<'a> {
    world: &'a World,
    parts: Vec<Subdomain>,
}

impl<'a> MpiMeshRanks<'a> {
    /// Creates the communication of the ranks of `world`; `grid` is the number of ranks along x, y and z.
    ///
    /// # Errors
    /// Fails if the mesh has too few points, so that a rank would have none.
    pub fn new(world: &'a World, mesh: Mesh, grid: [usize; 3]) -> Result<Self, Failure> {
        let parts: Option<Vec<Subdomain>> =
            (0..world.count).map(|rank| Subdomain::for_rank(mesh, rank, grid)).collect();
        let parts = parts.ok_or_else(|| too_few_points(world.count))?;
        Ok(Self { world, parts })
    }

    /// Returns the rank that owns a mesh point.
    fn owner(&self, node: [usize; 3]) -> usize {
        let owner = self.parts.iter().position(|part| part.owns(node));
        owner.unwrap_or_else(|| unreachable!("every node of the mesh belongs to a rank"))
    }
}

impl Ranks for MpiMeshRanks<'_> {
    type Halo<'h>
        = MpiHalo<'h>
    where
        Self: 'h;

    fn any(&self, _: &ThreadContext<'_>, condition: bool) -> bool {
        self.world.sum(f64::from(condition)) > 0.0
    }

    fn halo(&self, part: &Subdomain, rows: &Numbering) -> MpiHalo<'_> {
        let whole = Subdomain::whole_mesh(part.mesh);
        // Nodes to send, per receiving rank, in the order of the mesh. Sender and receiver use the same order.
        let mut sent: BTreeMap<usize, BTreeSet<(usize, usize)>> = BTreeMap::new();
        let mut received = sent.clone();
        for row in 0..rows.owned_count() {
            let node = part.node(rows.nodes[row] as usize);
            for (_, other) in part.neighbours(node).filter(|(_, other)| !part.owns(*other)) {
                sent.entry(self.owner(other)).or_default().insert((whole.local_number(node), row));
            }
        }
        for row in rows.owned_count()..rows.nodes.len() {
            let node = part.node(rows.nodes[row] as usize);
            received.entry(self.owner(node)).or_default().insert((whole.local_number(node), row));
        }
        let neighbours = sent.into_iter().map(|(rank, nodes)| Neighbour {
            rank,
            sent: node_rows(nodes).collect(),
            // Adjacency is symmetric: ranks that send mesh points also receive mesh points.
            received: received.remove(&rank).into_iter().flat_map(node_rows).collect(),
        });
        MpiHalo::new(self.world, neighbours.collect())
    }
}

/// Returns the matrix rows of mesh points, three per mesh point.
fn node_rows(nodes: BTreeSet<(usize, usize)>) -> impl Iterator<Item = usize> {
    nodes.into_iter().map(|(_, row)| row)
}

/// Communication by MPI of a rank with one thread.
#[derive(Debug)]
pub(crate) struct MpiHalo<'a> {
    world: &'a World,
    neighbours: Vec<Neighbour>,
    /// Buffers for components that are sent to and received from the neighbours. The lock is never contended, because
    /// the rank has only one thread.
    exchanges: Mutex<Exchanges>,
}

/// Rows that this rank exchanges with another rank.
#[derive(Debug)]
struct Neighbour {
    rank: usize,
    sent: Vec<usize>,
    received: Vec<usize>,
}

impl Neighbour {
    /// Returns buffers for the components that are exchanged.
    fn exchange(&self) -> Exchange {
        Exchange {
            partner: self.rank,
            sent: vec![0.0; 3 * self.sent.len()],
            received: vec![0.0; 3 * self.received.len()],
        }
    }

    /// Returns the number of components that are exchanged.
    fn numbers(&self) -> usize {
        3 * (self.sent.len() + self.received.len())
    }
}

impl<'a> MpiHalo<'a> {
    fn new(world: &'a World, neighbours: Vec<Neighbour>) -> Self {
        let exchanges = Exchanges::new(neighbours.iter().map(Neighbour::exchange).collect());
        Self { world, neighbours, exchanges: Mutex::new(exchanges) }
    }
}

impl Halo for MpiHalo<'_> {
    unsafe fn exchange(&self, _: &ThreadContext<'_>, vector: &SharedArray<f64>) {
        let mut exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        for (neighbour, exchange) in self.neighbours.iter().zip(exchanges.all()) {
            for (row, components) in neighbour.sent.iter().zip(exchange.sent.chunks_exact_mut(3)) {
                // SAFETY: guaranteed by the caller: only this thread uses the vector.
                components.copy_from_slice(unsafe { vector.slice(3 * row..3 * row + 3) });
            }
        }
        self.world.exchange(&mut exchanges);
        for (neighbour, exchange) in self.neighbours.iter().zip(exchanges.all()) {
            let received = exchange.received.chunks_exact(3);
            for (row, components) in neighbour.received.iter().zip(received) {
                // SAFETY: as above.
                unsafe { vector.slice_mut(3 * row..3 * row + 3) }.copy_from_slice(components);
            }
        }
    }

    fn sum(&self, _: &ThreadContext<'_>, x: f64) -> f64 {
        self.world.sum(x)
    }

    fn bytes(&self) -> usize {
        // Every exchanged number is read once and written once.
        2 * 8 * self.neighbours.iter().map(Neighbour::numbers).sum::<usize>()
    }
}
