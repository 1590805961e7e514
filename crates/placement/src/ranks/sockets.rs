//! Sockets of a machine, and the socket of each rank.

use super::RankMap;
use crate::cpus;
use nodegauge_machine::{CpuId, Topology};

/// Sockets that contain CPUs that this process may use.
pub(super) struct Sockets {
    /// CPUs of each socket.
    pub(super) cpus: Vec<Vec<CpuId>>,
    /// Socket of each core, in the order in which ranks fill the cores.
    pub(super) fill: Vec<usize>,
    /// All CPUs with the index of their socket, in this order: the first hardware thread of each core, then the second,
    /// and so on.
    pub(super) turns: Vec<(usize, CpuId)>,
}

impl Sockets {
    pub(super) fn of(topology: &Topology) -> Self {
        let cpus = cpus::grouped(topology, |thread| Some(thread.socket));
        let socket_of = |cpu: CpuId| cpus.iter().position(|of| of.contains(&cpu)).unwrap_or(0);
        let cores: Vec<(usize, Vec<CpuId>)> = cpus::grouped(topology, |thread| Some(thread.core))
            .into_iter()
            .map(|core| (socket_of(core[0]), core))
            .collect();
        let most = cores.iter().map(|(_, core)| core.len()).max().unwrap_or(0);
        let turn = |sibling: usize| {
            cores.iter().filter_map(move |(socket, core)| Some((*socket, *core.get(sibling)?)))
        };
        let turns = (0..most).flat_map(turn).collect();
        Self { fill: cores.iter().map(|(socket, _)| *socket).collect(), turns, cpus }
    }

    /// Returns the index of the socket of each rank.
    pub(super) fn of_ranks(&self, map: RankMap, ranks: u32, threads: u32) -> Vec<usize> {
        if map == RankMap::Even {
            return self.evenly(ranks, threads);
        }
        let count = self.cpus.len() as u64;
        let socket = |rank: u64| match map {
            RankMap::Block | RankMap::Core => {
                self.fill[(rank * u64::from(threads) % self.fill.len() as u64) as usize]
            }
            RankMap::Cyclic => (rank % count) as usize,
            RankMap::Spread | RankMap::Even => (rank * count / u64::from(ranks)) as usize,
        };
        (0..u64::from(ranks)).map(socket).collect()
    }

    /// Distributes the ranks in blocks of consecutive ranks, whose lengths differ by at most one, the longer blocks first.
    /// A socket with too few usable CPUs for its block has as many ranks as fit, and the other sockets have the rest.
    fn evenly(&self, ranks: u32, threads: u32) -> Vec<usize> {
        let fits = |socket: usize| self.cpus[socket].len() / threads.max(1) as usize;
        let mut blocks = vec![0_usize; self.cpus.len()];
        for _ in 0..ranks {
            let all = 0..blocks.len();
            let free = all.clone().filter(|socket| blocks[*socket] < fits(*socket));
            // If no socket has CPUs for a whole rank, its threads are on several sockets.
            let shortest = free.min_by_key(|socket| blocks[*socket]);
            let Some(next) = shortest.or_else(|| all.min_by_key(|socket| blocks[*socket])) else {
                break;
            };
            blocks[next] += 1;
        }
        let block = |(socket, length): (usize, usize)| std::iter::repeat_n(socket, length);
        blocks.into_iter().enumerate().flat_map(block).collect()
    }
}
