//! Sockets of a machine, and the socket of each rank.

use super::RankMap;
use crate::cpus;
use nodegauge_machine::{CpuId, Topology};

/// Sockets with CPUs that this process may use.
pub(super) struct Sockets {
    /// CPUs of each socket.
    pub(super) cpus: Vec<Vec<CpuId>>,
    /// Socket of each core, in the order in which ranks fill the cores.
    pub(super) fill_order: Vec<usize>,
    /// All CPUs with the indices of their sockets, in the order in which threads use them: the first hardware threads
    /// of all cores, then the second, and so on.
    pub(super) cpu_order: Vec<(usize, CpuId)>,
}

impl Sockets {
    pub(super) fn from_topology(topology: &Topology) -> Self {
        let cpus = cpus::cpus_by_object(topology, |thread| Some(thread.socket));
        let mut cores = Vec::new();
        for core in cpus::cpus_by_object(topology, |thread| Some(thread.core)) {
            let socket = cpus.iter().position(|of| of.contains(&core[0])).unwrap_or(0);
            cores.push((socket, core));
        }
        let max = cores.iter().map(|(_, core)| core.len()).max().unwrap_or(0);
        let mut cpu_order = Vec::new();
        for sibling in 0..max {
            for (socket, core) in &cores {
                cpu_order.extend(core.get(sibling).map(|cpu| (*socket, *cpu)));
            }
        }
        Self { fill_order: cores.iter().map(|(socket, _)| *socket).collect(), cpu_order, cpus }
    }

    /// Returns the index of the socket of each rank.
    pub(super) fn rank_sockets(&self, map: RankMap, ranks: u32, threads: u32) -> Vec<usize> {
        if map == RankMap::Even {
            return self.distribute_evenly(ranks, threads);
        }
        let count = self.cpus.len();
        (0..ranks as usize)
            .map(|rank| match map {
                RankMap::Block | RankMap::Core => {
                    self.fill_order[rank * threads as usize % self.fill_order.len()]
                }
                RankMap::Cyclic => rank % count,
                RankMap::Spread | RankMap::Even => rank * count / ranks as usize,
            })
            .collect()
    }

    /// Distributes blocks of consecutive ranks over the sockets. The lengths of the blocks differ by at most one,
    /// with longer blocks first. A socket with too few usable CPUs gets as many ranks as fit, and the other sockets
    /// get the rest.
    fn distribute_evenly(&self, ranks: u32, threads: u32) -> Vec<usize> {
        let threads = threads.max(1) as usize;
        let max: Vec<usize> = self.cpus.iter().map(|cpus| cpus.len() / threads).collect();
        let mut blocks = vec![0_usize; self.cpus.len()];
        for _ in 0..ranks {
            let all = 0..blocks.len();
            let free = all.clone().filter(|socket| blocks[*socket] < max[*socket]);
            // If no socket has CPUs for a whole rank, its threads are on several sockets.
            let shortest = free.min_by_key(|socket| blocks[*socket]);
            let Some(next) = shortest.or_else(|| all.min_by_key(|socket| blocks[*socket])) else {
                break;
            };
            blocks[next] += 1;
        }
        let mut sockets = Vec::new();
        for (socket, length) in blocks.into_iter().enumerate() {
            sockets.extend(std::iter::repeat_n(socket, length));
        }
        sockets
    }
}
