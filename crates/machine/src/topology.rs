//! Hardware threads of a node and the resources that the threads share, as plain data.
//!
//! hwloc discovers the topology of this machine, or reads it from an XML file or a synthetic description. The data
//! for placement and gauges are copied into [`Topology`], so that all other code works for any machine that can be
//! described. Numbers are those of the operating system (hwloc's `P#`). Last-level caches have hwloc's logical
//! index, because Linux may not number them.

use crate::ids::{CpuId, NumaNodeId};
pub use crate::pci::PciDevice;
use nodegauge_measure::Failure;
use nodegauge_measure::record::{Cache, MachineSource};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

mod core_kinds;
pub use core_kinds::SpeedClass;
#[allow(unsafe_code, reason = "hwloc runs in a child process, because some descriptions crash it")]
mod discovery;
mod memory_attributes;
pub use memory_attributes::{MemoryAccessSpeed, add_measured_attributes};

/// Maximum number of hardware threads per core, reached by SMT8 on POWER.
const MAX_SIBLINGS: usize = 8;

/// Source of the machine's topology.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TopologySource {
    /// Machine on which the program runs.
    #[default]
    Live,
    /// XML file written by `lstopo FILE.xml`.
    Xml(PathBuf),
    /// Synthetic description of hwloc, e.g. `Package:2 NUMANode:4 Core:8 PU:1`.
    Synthetic(String),
}

impl TopologySource {
    /// Returns the source in the form in which the record contains it.
    pub fn machine_source(&self) -> MachineSource {
        match self {
            Self::Live => MachineSource::Live,
            Self::Xml(_) => MachineSource::Xml,
            Self::Synthetic(_) => MachineSource::Synthetic,
        }
    }
}

impl FromStr for TopologySource {
    type Err = std::convert::Infallible;

    /// Parses `synthetic:DESCRIPTION`; any other text is the path of an XML file.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.strip_prefix("synthetic:") {
            Some(description) => Self::Synthetic(description.trim().to_owned()),
            None => Self::Xml(PathBuf::from(text)),
        })
    }
}

/// Hardware thread and its position. Indices of cores, caches, sockets and NUMA nodes refer to [`Topology`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareThread {
    /// Operating-system number.
    pub cpu: CpuId,
    /// Index into [`Topology::cores`].
    pub core: usize,
    /// Index into [`Topology::llcs`]; `None` if the machine has no cache beyond level 1.
    pub llc: Option<usize>,
    /// Index into [`Topology::sockets`].
    pub socket: usize,
    /// Index into [`Topology::nodes`] of the nearest NUMA node.
    pub node: Option<usize>,
    /// Number of the thread within its core, beginning with 0.
    pub index_in_core: u32,
    /// Speed class of the thread's core, on a machine with several kinds of cores; higher is faster. Kinds whose
    /// capacity or clock is within a tenth of the fastest kind belong to the class of that kind. `None` if all cores
    /// are of one class or their speed is unknown. Index into [`Topology::core_classes`].
    pub speed_class: Option<usize>,
    /// True if this process may run on the thread, according to its cpuset and affinity mask.
    pub allowed: bool,
}

/// NUMA node of a topology.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TopologyNumaNode {
    /// Operating-system number.
    pub id: NumaNodeId,
    /// Memory size that the kernel reports, bytes; `None` if a description does not contain it.
    pub bytes: Option<u64>,
    /// Hardware threads of the NUMA node, in numeric order.
    pub cpus: Vec<CpuId>,
    /// Further hardware threads of the NUMA node that a description names but does not describe, because they are
    /// offline or because the process that wrote it was not allowed to use them.
    pub absent_cpus: Vec<CpuId>,
    /// Kind of the memory, as hwloc names it: `DRAM`, `HBM`, `MCDRAM`, `NVM`, or its rank among the kinds of the
    /// machine, `tier 1`; `None` if unknown.
    pub kind: Option<String>,
    /// Size of the caches in front of the memory, such as HBM in cache mode, bytes; `None` if there are none.
    pub cache_bytes: Option<u64>,
    /// PCI address of the device to which the memory belongs, on coherent machines such as GH200; `None` for memory
    /// of the host.
    pub device: Option<String>,
    /// True if this process may not use the memory, because its cpuset does not contain the NUMA node.
    pub is_forbidden: bool,
}

impl TopologyNumaNode {
    /// True if programs on the host can allocate memory on this NUMA node. False for device memory, for NUMA nodes
    /// that this process may not use, and for NUMA nodes without memory, e.g. those that coherent machines reserve for
    /// slices of a device.
    pub fn is_host_memory(&self) -> bool {
        self.device.is_none() && self.has_usable_memory()
    }

    /// True if the NUMA node has memory that this process may use.
    pub fn has_usable_memory(&self) -> bool {
        self.bytes != Some(0) && !self.is_forbidden
    }
}

/// Cache of the highest level that some hardware threads have for data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCache {
    /// Index into [`Topology::caches`].
    pub entry: usize,
    /// Hardware threads, in numeric order.
    pub cpus: Vec<CpuId>,
}

/// Machine with the data that placement needs. Threads are in hwloc's logical order (by socket, then NUMA node, then
/// cache, then core), so that neighbouring threads share the most resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Source of the topology.
    #[serde(skip)]
    pub source: TopologySource,
    /// All hardware threads, in logical order.
    pub threads: Vec<HardwareThread>,
    /// Operating-system number of each core; unique only within a socket.
    pub cores: Vec<u32>,
    /// True if the description has no cores, so that each hardware thread counts as a core.
    pub lacks_cores: bool,
    /// hwloc's logical index of each last-level cache.
    pub llcs: Vec<u32>,
    /// Operating-system number of each socket.
    pub sockets: Vec<u32>,
    /// Classes of cores of equal speed, the slowest first; empty if all cores are of one class or their speed is
    /// unknown.
    pub core_classes: Vec<SpeedClass>,
    /// NUMA nodes in ascending order of their numbers.
    pub nodes: Vec<TopologyNumaNode>,
    /// Caches, beginning with level 1. Caches of one level that differ in size are separate entries, the smallest
    /// first.
    pub caches: Vec<Cache>,
    /// Data caches of the highest level that each hardware thread has; each hardware thread is in at most one.
    pub last_caches: Vec<LastCache>,
    /// Accelerators and the adapters of fast networks, in the order of the bus.
    pub devices: Vec<PciDevice>,
    /// Processor name that hwloc found.
    pub processor_model: Option<String>,
    /// Vendor, family and model numbers that hwloc found.
    pub identification: Option<(String, u32, u32)>,
}

/// Returns the version of hwloc's interface, e.g. `2.8` for hwloc 2.9.0.
pub fn hwloc_interface_version() -> String {
    let version = hwlocality::hwloc_api_version();
    format!("{}.{}", version >> 16, version >> 8 & 0xff)
}

impl Topology {
    /// Returns the topology of the machine that `source` specifies.
    ///
    /// # Errors
    /// Fails if hwloc cannot read the topology. A synthetic description is checked first, so that the error contains
    /// the position of the invalid character.
    pub fn load(source: &TopologySource) -> Result<Self, Failure> {
        discovery::load(source)
    }

    /// Returns this machine's topology as an XML text of hwloc, as `lstopo FILE.xml` writes it. Objects that hwloc
    /// lists only with plug-ins of device vendors are missing.
    ///
    /// # Errors
    /// Fails if hwloc cannot read the topology.
    pub fn live_xml() -> Result<String, Failure> {
        discovery::live_xml()
    }

    /// Returns the NUMA nodes on which programs of the host can allocate memory.
    pub fn host_numa_nodes(&self) -> impl Iterator<Item = &TopologyNumaNode> {
        self.nodes.iter().filter(|node| node.is_host_memory())
    }

    /// Returns the devices that compute, in bus order. Drivers number them in this order if all are of one model,
    /// or if `CUDA_DEVICE_ORDER=PCI_BUS_ID` is set.
    pub fn accelerators(&self) -> impl Iterator<Item = &PciDevice> {
        self.devices.iter().filter(|device| device.is_accelerator())
    }

    /// Returns the threads that this process may use, in logical order.
    pub fn allowed_threads(&self) -> impl Iterator<Item = &HardwareThread> {
        self.threads.iter().filter(|thread| thread.allowed)
    }

    /// Returns the thread with the operating-system number `cpu`.
    pub fn thread(&self, cpu: CpuId) -> Option<&HardwareThread> {
        let likely = self.likely_positions(cpu).filter_map(|position| self.threads.get(position));
        likely.chain(&self.threads).find(|thread| thread.cpu == cpu)
    }

    /// Returns the indices at which a CPU is found if the first threads of all cores are numbered before the second
    /// ones, for up to [`MAX_SIBLINGS`] threads per core. Most machines are numbered in this way, so that no search
    /// is necessary.
    fn likely_positions(&self, cpu: CpuId) -> impl Iterator<Item = usize> {
        let number = cpu.0 as usize;
        let threads = self.threads.len();
        (1..=MAX_SIBLINGS).filter(move |siblings| threads >= *siblings).map(move |siblings| {
            let cores = threads / siblings;
            number % cores * siblings + number / cores
        })
    }

    /// Returns the name of the speed class with this index into [`Self::core_classes`].
    pub fn speed_class_name(&self, class: usize) -> String {
        core_kinds::speed_class_name(class, &self.core_classes)
    }

    /// Returns the largest number of hardware threads per core.
    pub fn threads_per_core(&self) -> u32 {
        self.threads.iter().map(|thread| thread.index_in_core + 1).max().unwrap_or(1)
    }

    /// Returns the total size in bytes and the number of the last-level caches that the given threads can use;
    /// `None` if the sizes are unknown. The last-level cache of a thread is its data cache of the highest level.
    pub fn llc_bytes_and_count(&self, cpus: &[CpuId]) -> Option<(u64, usize)> {
        let wanted: BTreeSet<CpuId> = cpus.iter().copied().collect();
        let used: Vec<&LastCache> = self
            .last_caches
            .iter()
            .filter(|cache| cache.cpus.iter().any(|cpu| wanted.contains(cpu)))
            .collect();
        if used.is_empty() {
            return None;
        }
        let mut total = 0;
        for cache in &used {
            total += self.caches.get(cache.entry)?.bytes?;
        }
        Some((total, used.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::discovery::newer_xml_version;
    use super::*;

    fn synthetic(text: &str) -> Topology {
        Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap()
    }

    #[test]
    fn t2k_has_one_numa_node_per_socket() {
        let t2k = synthetic("Package:4 NUMANode:1 Core:4 PU:1");
        assert_eq!((t2k.sockets.len(), t2k.cores.len(), t2k.nodes.len()), (4, 16, 4));
        assert!(t2k.llcs.is_empty());
        assert_eq!(t2k.thread(CpuId(5)).map(|t| (t.socket, t.node)), Some((1, Some(1))));
        assert_eq!(t2k.nodes[0].bytes, None);
    }

    #[test]
    fn cpu_is_found_in_every_numbering() {
        let mut machine = synthetic("Package:2 Core:4 PU:2");
        let count = machine.threads.len() as u32;
        let numberings: [fn(u32, u32) -> u32; 4] = [
            |position, _| position,
            // The second threads of all cores follow the first.
            |position, threads| position / 2 + position % 2 * threads / 2,
            |position, threads| threads - 1 - position,
            // Numbers may have holes.
            |position, _| 3 * position + 5,
        ];
        for numbering in numberings {
            for position in 0..count {
                machine.threads[position as usize].cpu = CpuId(numbering(position, count));
            }
            for thread in &machine.threads {
                assert_eq!(machine.thread(thread.cpu), Some(thread));
            }
            assert_eq!(machine.thread(CpuId(1000)), None);
        }
    }

    #[test]
    fn rome_in_nps4_has_32_caches_on_8_numa_nodes() {
        let rome = synthetic(
            "Package:2 NUMANode:4 L3Cache:4(size=16777216) L2Cache:4 L1dCache:1 Core:1 PU:1",
        );
        assert_eq!((rome.threads.len(), rome.llcs.len(), rome.nodes.len()), (128, 32, 8));
        assert_eq!(rome.thread(CpuId(127)).map(|t| (t.llc, t.node)), Some((Some(31), Some(7))));
        let l3 = rome.caches.last().unwrap();
        assert_eq!((l3.level, l3.count, l3.cores), (3, 32, 4));
        assert_eq!(l3.bytes, Some(16 << 20));
        assert_eq!(rome.llc_bytes_and_count(&[CpuId(0), CpuId(3), CpuId(4)]), Some((32 << 20, 2)));
    }

    #[test]
    fn xeon_phi_has_four_threads_per_core_and_private_caches() {
        let phi = synthetic("Package:1 NUMANode:1 L2Cache:61 L1dCache:1 Core:1 PU:4");
        assert_eq!((phi.threads.len(), phi.threads_per_core(), phi.llcs.len()), (244, 4, 61));
        assert_eq!(phi.thread(CpuId(7)).map(|t| (t.core, t.index_in_core)), Some((1, 3)));
    }

    #[test]
    fn core_kinds_are_ranked() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/topologies/two-kinds.xml");
        let hybrid = Topology::load(&TopologySource::Xml(path.into())).unwrap();
        let ranks: Vec<_> = hybrid.threads.iter().map(|thread| thread.speed_class).collect();
        assert_eq!(ranks, [Some(0), Some(0), Some(1), Some(1)]);
        let nearly = described("five-kinds");
        let classes: Vec<_> = nearly.threads.iter().map(|thread| thread.speed_class).collect();
        // Clusters of five cores each: capacities 718 and 731, 997, 1017 and once 1024.
        let (slow, fast) = (Some(0), Some(1));
        assert_eq!(classes, [[slow; 5], [fast; 5], [slow; 5], [fast; 5]].concat());
        let alike = synthetic("Package:1 Core:4 PU:1");
        assert!(alike.threads.iter().all(|thread| thread.speed_class.is_none()));
    }

    fn described(name: &str) -> Topology {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/topologies");
        Topology::load(&TopologySource::Xml(format!("{folder}/{name}.xml").into())).unwrap()
    }

    #[test]
    fn gh200_has_numa_nodes_of_host_and_device() {
        let gh200 = described("gh200");
        assert_eq!((gh200.nodes.len(), gh200.host_numa_nodes().count()), (9, 1));
        assert_eq!(gh200.nodes[1].device.as_deref(), Some("0009:01:00.0"));
        assert!(gh200.threads.iter().all(|thread| thread.node == Some(0)));
        assert!(gh200.nodes[1..].iter().all(|node| node.cpus.is_empty()));
        let gpu = gh200.accelerators().next().unwrap();
        assert_eq!(
            (gpu.model.as_deref(), gpu.node),
            (Some("NVIDIA GH200 480GB"), Some(NumaNodeId(0)))
        );
        assert_eq!(gpu.is_near(&[CpuId(71)]), Some(true));
    }

    #[test]
    fn described_devices_have_numa_nodes() {
        let dgx = described("dgx-h100");
        let kinds: Vec<bool> = dgx.devices.iter().map(PciDevice::is_accelerator).collect();
        assert_eq!(kinds, [false, true].repeat(8));
        let gpu = dgx.accelerators().nth(4).unwrap();
        assert_eq!((gpu.address.as_str(), gpu.node), ("0000:9d:00.0", Some(NumaNodeId(1))));
        assert_eq!(
            (gpu.bytes, gpu.names.join(" ")),
            (Some(83_026_624 << 10), "cuda4 nvml4".to_owned())
        );
        assert_eq!(
            (gpu.bridges.clone(), gpu.pci_ids()),
            (vec!["0000:97:01.0".to_owned()], "10de:2330".to_owned())
        );
        assert_eq!(described("mi250x").accelerators().count(), 8);
        assert!(described("two-kinds").devices.is_empty());
    }

    #[test]
    fn live_topology_has_allowed_threads() {
        let live = Topology::load(&TopologySource::Live).unwrap();
        assert!(live.allowed_threads().count() >= 1);
        assert!(live.threads.iter().all(|thread| thread.core < live.cores.len()));
    }

    #[test]
    fn xml_version_of_hwloc_3_is_recognised() {
        assert_eq!(newer_xml_version("<topology version=\"3.0\">"), Some("3.0"));
        assert_eq!(newer_xml_version("<topology version=\"2.0\">"), None);
        assert_eq!(newer_xml_version("<topology  a='1' version = '3.1' >"), Some("3.1"));
        let commented = "<!-- <topology version=\"3.0\"> -->\n<topology version=\"2.0\">";
        assert_eq!(newer_xml_version(commented), None);
    }
}
