//! Parts of a node: processor, cores, memory modules, channels, NUMA nodes, devices and their links. The parts of a
//! node are compared with those of a good node of its kind.
//!
//! Nodes of one kind have the same [`NodeKind`]. Nodes of one kind with different [`Inventory`] are variants: a site
//! may have many nodes with more memory, but a single node with less memory has lost a module.

use nodegauge_analysis::facts::{self, Fact, rounded_memory};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{DeviceKind, Machine, PciLink, product_name};
use nodegauge_measure::{Bytes, TransfersPerSec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Properties that nodes must share to be compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct NodeKind {
    /// Product name of the processor; `None` if it is unknown, as in reports of other programs.
    pub processor: Option<String>,
    /// Number of processor packages; 0 if it is unknown.
    pub sockets: u32,
    /// Hypervisor; `None` on bare metal.
    #[serde(default, rename = "virtual")]
    pub virtualisation: Option<String>,
}

impl NodeKind {
    /// Returns the kind of a machine.
    pub fn from_machine(machine: &Machine) -> Self {
        Self {
            processor: facts::PROCESSOR.text(machine),
            sockets: machine.processor.sockets,
            virtualisation: machine.virtualisation.clone(),
        }
    }

    /// Describes the kind: `2 x AMD EPYC 9654 96-Core Processor`.
    pub fn in_words(&self) -> String {
        let processor = self.processor.as_deref();
        let processor = processor.map_or_else(|| "unknown processor".to_owned(), product_name);
        let count = if self.sockets > 1 { format!("{} x ", self.sockets) } else { String::new() };
        let guest = self.virtualisation.as_ref().map(|name| format!(", {name} guest"));
        format!("{count}{processor}{}", guest.unwrap_or_default())
    }
}

/// Parts of a node, and firmware settings that change them. Unknown counts are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// Number of physical cores.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Number of hardware threads.
    #[serde(default)]
    pub threads: Option<u32>,
    /// Number of NUMA nodes.
    #[serde(default)]
    pub numa_nodes: Option<u32>,
    /// Memory in bytes, rounded to two significant digits of its size in GiB, because the kernel reserves a varying
    /// part.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Number of memory modules.
    #[serde(default)]
    pub dimms: Option<u32>,
    /// Number of populated memory channels.
    #[serde(default)]
    pub channels: Option<u32>,
    /// Transfers per second and channel, in millions.
    #[serde(default)]
    pub memory_mt_per_s: Option<u32>,
    /// Accelerators and network adapters by product name.
    #[serde(default)]
    pub devices: BTreeMap<String, DeviceCount>,
}

/// Devices of one product.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceCount {
    /// Number of these devices.
    pub count: u32,
    /// True for accelerators, false for network adapters.
    pub computes: bool,
    /// Smallest number of lanes among the links of these devices.
    #[serde(default)]
    pub link_width: Option<u32>,
}

/// Property in which a node differs from a good node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InventoryDifference {
    /// Short word for a reason of 20 characters, e.g. `DIMM`.
    pub word: &'static str,
    /// Name of the property, e.g. `memory modules`.
    pub what: String,
    /// Value of good nodes.
    pub expected: String,
    /// Value of the node.
    pub found: String,
    /// True if the node has less than expected.
    pub is_less: bool,
}

impl InventoryDifference {
    /// Compares two counts, the expected one first; `None` if they are equal or if one is unknown.
    fn from_counts(
        word: &'static str,
        what: &str,
        [expected, found]: [Option<u32>; 2],
    ) -> Option<Self> {
        let (expected, found) =
            expected.zip(found).filter(|(expected, found)| expected != found)?;
        Some(Self {
            word,
            what: what.to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
            is_less: found < expected,
        })
    }

    /// Compares two counts of a fact. A memory speed is a count of MT/s and is printed with this unit.
    fn from_fact(fact: Fact, expected: Option<u32>, found: Option<u32>) -> Option<Self> {
        let difference = Self::from_counts(fact.part_name(), fact.name, [expected, found])?;
        if fact.name != facts::MEMORY_SPEED.name {
            return Some(difference);
        }
        Some(Self {
            expected: megatransfers(expected?).to_string(),
            found: megatransfers(found?).to_string(),
            ..difference
        })
    }

    /// Describes the difference: `memory modules 23, expected 24`.
    pub fn in_words(&self) -> String {
        format!("{} {}, expected {}", self.what, self.found, self.expected)
    }
}

impl Inventory {
    /// Returns the inventory of a machine.
    pub fn from_machine(machine: &Machine) -> Self {
        let memory = &machine.memory;
        let mut devices: BTreeMap<String, DeviceCount> = BTreeMap::new();
        for device in &machine.devices {
            let width = device.link.as_ref().and_then(|link: &PciLink| link.width);
            let computes = device.kind != DeviceKind::Network;
            let entry = devices.entry(device.title()).or_insert(DeviceCount {
                count: 0,
                computes,
                link_width: width,
            });
            entry.count += 1;
            entry.link_width = entry.link_width.zip(width).map(|(a, b)| a.min(b));
        }
        Self {
            cores: facts::CORES.count(machine),
            threads: facts::HARDWARE_THREADS.count(machine),
            numa_nodes: facts::NUMA_NODES.count(machine),
            memory_bytes: memory.bytes.map(rounded_memory),
            dimms: facts::MEMORY_MODULES.count(machine),
            channels: facts::MEMORY_CHANNELS.count(machine),
            memory_mt_per_s: memory.transfers_per_s.map(|rate| (rate.0 / 1e6).round() as u32),
            devices,
        }
    }

    /// Returns the properties in which the inventory `found` differs from this expected one, the most likely cause of a
    /// slow node first. A property that is unknown in either inventory is not a difference.
    pub fn differences(&self, found: &Self) -> Vec<InventoryDifference> {
        let counts = [
            (facts::MEMORY_MODULES, self.dimms, found.dimms),
            (facts::MEMORY_CHANNELS, self.channels, found.channels),
            (facts::MEMORY_SPEED, self.memory_mt_per_s, found.memory_mt_per_s),
            (facts::NUMA_NODES, self.numa_nodes, found.numa_nodes),
            (facts::CORES, self.cores, found.cores),
            (facts::HARDWARE_THREADS, self.threads, found.threads),
        ];
        let mut all: Vec<InventoryDifference> = Vec::new();
        for (fact, expected, here) in counts {
            all.extend(InventoryDifference::from_fact(fact, expected, here));
        }
        for (name, expected) in &self.devices {
            let present = found.devices.get(name);
            let n = present.map_or(0, |device| device.count);
            let word = if expected.computes { "GPU" } else { "NIC" };
            all.extend(InventoryDifference::from_counts(word, name, [expected.count, n].map(Some)));
            let lanes = format!("{name}: PCIe lanes");
            let widths = [expected.link_width, present.and_then(|device| device.link_width)];
            all.extend(InventoryDifference::from_counts("link", &lanes, widths));
        }
        let memory = self.memory_bytes.zip(found.memory_bytes).filter(|(a, b)| a != b);
        all.extend(memory.map(|(expected, here)| InventoryDifference {
            word: facts::MEMORY.part_name(),
            what: facts::MEMORY.name.to_owned(),
            expected: Bytes(expected).to_string(),
            found: Bytes(here).to_string(),
            is_less: here < expected,
        }));
        all
    }

    /// Describes the parts that distinguish variants: `192 cores, 2 NUMA nodes, 768 GiB in 24 DIMMs at 4800 MT/s`.
    pub fn in_words(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.cores.map(|n| count_in_words(n as usize, "core")));
        let smt = self.threads.filter(|n| Some(*n) != self.cores);
        parts.extend(smt.map(|n| count_in_words(n as usize, "thread")));
        parts.extend(self.numa_nodes.map(|n| count_in_words(n as usize, "NUMA node")));
        parts.extend(self.memory_bytes.map(|bytes| {
            let modules = self.dimms.map(|n| format!(" in {}", count_in_words(n as usize, "DIMM")));
            let modules = modules.unwrap_or_default();
            let speed = self.memory_mt_per_s.map(|n| format!(" at {n} MT/s")).unwrap_or_default();
            format!("{}{modules}{speed}", Bytes(bytes))
        }));
        for (name, device) in &self.devices {
            parts.push(format!("{} x {name}", device.count));
        }
        if parts.is_empty() { "unknown parts".to_owned() } else { parts.join(", ") }
    }
}

/// Converts millions of transfers per second to a rate.
fn megatransfers(count: u32) -> TransfersPerSec {
    TransfersPerSec(f64::from(count) * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_memory_module_is_the_first_difference() {
        let full = Inventory {
            cores: Some(96),
            dimms: Some(12),
            channels: Some(12),
            memory_bytes: Some(384 << 30),
            ..Inventory::default()
        };
        let lost = Inventory {
            dimms: Some(11),
            channels: Some(11),
            memory_bytes: Some(352 << 30),
            ..full.clone()
        };
        let words: Vec<&str> = full.differences(&lost).iter().map(|one| one.word).collect();
        assert_eq!(words, ["DIMM", "channel", "DIMM"]);
        assert_eq!(full.differences(&lost)[0].in_words(), "memory modules 11, expected 12");
        let rates =
            [4800, 4400].map(|rate| Inventory { memory_mt_per_s: Some(rate), ..full.clone() });
        let slower = rates[0].differences(&rates[1])[0].in_words();
        assert_eq!(slower, "memory speed 4400 MT/s, expected 4800 MT/s");
        // An unknown count is not a difference.
        assert!(full.differences(&Inventory { dimms: None, ..full.clone() }).is_empty());
    }
}
