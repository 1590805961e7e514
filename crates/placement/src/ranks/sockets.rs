//! Sockets of a machine, in the order in which ranks fill them.

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
}
