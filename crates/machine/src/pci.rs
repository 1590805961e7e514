//! Which devices of the PCI bus compute or send messages, and what they are near to: from the kernel's
//! files, or from the I/O objects of an hwloc description.

use crate::ids::{CpuId, NodeId};
use crate::root::{SysRoot, keyed, list};
use nodegauge_measure::record::DeviceKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Where the kernel shows the devices of the bus, by their addresses.
const BUS: &str = "sys/bus/pci/devices";
/// Folders of a device in which the kernel shows what it calls it: of graphics, of accelerators.
const NAMES: [&str; 3] = ["drm", "accel", "mic"];
/// The same of networks past the kernel: verbs, Slingshot.
const FAST: [&str; 2] = ["infiniband", "cxi"];
/// Base classes of networks, displays, processors and accelerators; no other device is looked at any closer.
const CLASSES: [u16; 4] = [0x02, 0x03, 0x0b, 0x12];
/// Makers of devices that compute and have a display's class; others' are the displays of servers' consoles.
const COMPUTE: [u16; 3] = [NVIDIA, AMD, INTEL];

/// Numbers of Xeon Phi coprocessors.
const XEON_PHI: RangeInclusive<u16> = 0x2250..=0x2262;
/// Where NVIDIA's driver shows its devices, by their addresses.
pub(crate) const NVIDIA_GPUS: &str = "proc/driver/nvidia/gpus";

pub(crate) const NVIDIA: u16 = 0x10de;
pub(crate) const AMD: u16 = 0x1002;
pub(crate) const INTEL: u16 = 0x8086;

/// A device as placement sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciDevice {
    /// What it is for.
    pub kind: DeviceKind,
    /// Its place on the bus, e.g. `0000:1b:00.0`.
    pub address: String,
    /// Number of its maker.
    pub vendor: u16,
    /// Number of its make.
    pub device: u16,
    /// What the system calls it.
    pub names: Vec<String>,
    /// What a driver calls it, where a description says so.
    pub model: Option<String>,
    /// Number that tells it from all others, where a description says so.
    pub uuid: Option<String>,
    /// Bytes of its memory, where a description says so.
    pub bytes: Option<u64>,
    /// What its link carries, B/s, where a description says so.
    pub link_rate: Option<u64>,
    /// The NUMA node that it is near to.
    pub node: Option<NodeId>,
    /// The CPUs that it is near to, in numeric order; empty where that is not known.
    pub cpus: Vec<CpuId>,
    /// The bridges above it, the nearest to the processor first.
    pub bridges: Vec<String>,
}

impl PciDevice {
    /// Its numbers as lists of devices write them.
    pub fn identification(&self) -> String {
        identification(self.vendor, self.device)
    }

    /// Whether it computes.
    pub fn computes(&self) -> bool {
        self.kind != DeviceKind::Network
    }

    /// Whether both are behind one port of the processor, so that messages between them need not pass it.
    pub(crate) fn shares_switch(&self, other: &Self) -> bool {
        self.bridges.first().is_some_and(|port| other.bridges.first() == Some(port))
    }

    /// Whether `cpus` hold one that it is near to; `None` where that is not known.
    pub fn is_near(&self, cpus: &[CpuId]) -> Option<bool> {
        (!self.cpus.is_empty()).then(|| cpus.iter().any(|cpu| self.cpus.contains(cpu)))
    }
}

/// What a device is for, by its class and numbers, and whether programs can send through it past the kernel;
/// `None` for one that is not of interest here.
pub(crate) fn kind(class: u16, (vendor, device): (u16, u16), fast: bool) -> Option<DeviceKind> {
    match class {
        // Displays, processing accelerators.
        0x0300..=0x0380 if COMPUTE.contains(&vendor) => Some(DeviceKind::Gpu),
        0x1200 if vendor == AMD => Some(DeviceKind::Gpu),
        0x1200 => Some(DeviceKind::Coprocessor),
        // Coprocessors, among them those for encryption, which are not meant.
        0x0b40 if vendor == INTEL && XEON_PHI.contains(&device) => Some(DeviceKind::Coprocessor),
        // InfiniBand and fabrics; Ethernet where it is fast.
        0x0207 | 0x0208 => Some(DeviceKind::Network),
        0x0200 | 0x0280 if fast => Some(DeviceKind::Network),
        _ => None,
    }
}

/// Numbers of maker and make, as lists of devices write them.
fn identification(vendor: u16, device: u16) -> String {
    format!("{vendor:04x}:{device:04x}")
}

/// The devices that the kernel below `root` shows, in the order of the bus, in which drivers number them.
pub fn listed(root: &SysRoot) -> Vec<PciDevice> {
    root.names(BUS).into_iter().filter_map(|address| read(root, address)).collect()
}

/// The path of a file of the device at `address`.
pub(crate) fn file(address: &str, name: &str) -> String {
    format!("{BUS}/{address}/{name}")
}

fn read(root: &SysRoot, address: String) -> Option<PciDevice> {
    let text = |name: &str| root.text(&file(&address, name));
    let number = |name: &str| u32::from_str_radix(text(name)?.strip_prefix("0x")?, 16).ok();
    let class = (number("class")? >> 8) as u16;
    // Functions that a device lends to guests are not devices more.
    if !CLASSES.contains(&(class >> 8)) || root.exists(&file(&address, "physfn")) {
        return None;
    }
    let vendor = number("vendor")? as u16;
    let device = number("device")? as u16;
    let names = |folders: &[&str]| -> Vec<String> {
        folders.iter().flat_map(|folder| root.names(&file(&address, folder))).collect()
    };
    let fast = names(&FAST);
    let kind = kind(class, (vendor, device), !fast.is_empty())?;
    let names = [fast, names(&NAMES)].concat();
    let cpus = text("local_cpulist").and_then(|cpus| list(&cpus)).unwrap_or_default();
    // -1 where firmware does not say.
    let node = text("numa_node").and_then(|node| node.parse().ok()).map(NodeId);
    Some(PciDevice {
        kind,
        vendor,
        device,
        names,
        model: None,
        uuid: None,
        bytes: None,
        link_rate: None,
        node,
        cpus: cpus.into_iter().map(CpuId).collect(),
        bridges: bridges(root, &address),
        address,
    })
}

/// The NUMA nodes that are the memory of devices, with the devices' addresses.
pub(crate) fn memory_nodes(root: &SysRoot) -> BTreeMap<NodeId, String> {
    let node = |address: String| {
        let status = root.text(&format!("{NVIDIA_GPUS}/{address}/numa_status"))?;
        Some((NodeId(keyed(&status, "Node")? as u32), address.to_lowercase()))
    };
    root.names(NVIDIA_GPUS).into_iter().filter_map(node).collect()
}

/// The bridges above a device, as its folder lies in those of them:
/// `devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:1b:00.0`.
fn bridges(root: &SysRoot, address: &str) -> Vec<String> {
    let path = std::fs::canonicalize(root.path(&format!("{BUS}/{address}"))).unwrap_or_default();
    let names = path.iter().filter_map(|name| name.to_str());
    let above = names.skip_while(|name| !(name.starts_with("pci") && name.contains(':'))).skip(1);
    above.take_while(|name| *name != address).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_by_class_and_maker() {
        let of = |class, vendor, device, fast| kind(class, (vendor, device), fast);
        assert_eq!(of(0x0302, NVIDIA, 0x2335, false), Some(DeviceKind::Gpu));
        assert_eq!(of(0x1200, AMD, 0x74a1, false), Some(DeviceKind::Gpu));
        assert_eq!(of(0x1200, 0x1da3, 0x1020, false), Some(DeviceKind::Coprocessor));
        assert_eq!(of(0x0b40, INTEL, 0x2250, false), Some(DeviceKind::Coprocessor));
        assert_eq!(of(0x0207, 0x15b3, 0x1021, true), Some(DeviceKind::Network));
        assert_eq!(of(0x0200, 0x15b3, 0x1021, true), Some(DeviceKind::Network));
        // A console's display, an engine for encryption, a guest's Ethernet, an NVSwitch.
        assert_eq!(of(0x0300, 0x1a03, 0x2000, false), None);
        assert_eq!(of(0x0b40, INTEL, 0x4940, false), None);
        assert_eq!(of(0x0200, 0x1af4, 0x1000, false), None);
        assert_eq!(of(0x0680, NVIDIA, 0x1ac2, false), None);
    }
}
