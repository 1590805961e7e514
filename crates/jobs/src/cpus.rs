//! Table of the CPUs of a topology. It finds the position of a CPU in constant time, because a job has thousands of
//! threads.

use nodegauge_machine::Topology;
use nodegauge_machine::topology::HardwareThread;
use std::collections::{BTreeSet, HashMap};

/// Topology with its CPUs by number.
pub(crate) struct CpuTable<'t> {
    pub(crate) topology: &'t Topology,
    threads: HashMap<u32, &'t HardwareThread>,
}

impl<'t> CpuTable<'t> {
    pub(crate) fn new(topology: &'t Topology) -> Self {
        let threads = topology.threads.iter().map(|thread| (thread.cpu.0, thread)).collect();
        Self { topology, threads }
    }

    pub(crate) fn thread(&self, cpu: u32) -> Option<&'t HardwareThread> {
        self.threads.get(&cpu).copied()
    }

    /// Returns the operating-system number of the core of a CPU.
    pub(crate) fn core_number(&self, cpu: u32) -> Option<u32> {
        self.topology.cores.get(self.thread(cpu)?.core).copied()
    }

    /// Returns the number of the last-level cache of a CPU.
    pub(crate) fn llc_number(&self, cpu: u32) -> Option<u32> {
        self.topology.llcs.get(self.thread(cpu)?.llc?).copied()
    }

    /// Returns the operating-system number of the socket of a CPU.
    pub(crate) fn socket_number(&self, cpu: u32) -> Option<u32> {
        self.topology.sockets.get(self.thread(cpu)?.socket).copied()
    }

    /// Returns the operating-system number of the NUMA node of a CPU.
    pub(crate) fn numa_node_number(&self, cpu: u32) -> Option<u32> {
        Some(self.topology.nodes.get(self.thread(cpu)?.node?)?.id.0)
    }

    /// Returns the cores of these CPUs, as indices into the topology.
    pub(crate) fn cores(&self, cpus: &BTreeSet<u32>) -> BTreeSet<usize> {
        cpus.iter().filter_map(|cpu| Some(self.thread(*cpu)?.core)).collect()
    }

    /// Returns the numbers of the sockets of these CPUs.
    pub(crate) fn sockets(&self, cpus: &BTreeSet<u32>) -> BTreeSet<u32> {
        cpus.iter().filter_map(|cpu| self.socket_number(*cpu)).collect()
    }
}
