//! PCI devices that compute or send messages, with their distance to CPUs. The data come from the kernel's files or
//! from the I/O objects of an hwloc description.

use crate::ids::{CpuId, NumaNodeId};
use crate::root::{SysRoot, number_after_key};
use nodegauge_measure::TransfersPerSec;
use nodegauge_measure::record::{DeviceKind, PciLink};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Folder in which the kernel lists the devices of the bus by address.
pub(crate) const DEVICES_FOLDER: &str = "sys/bus/pci/devices";
/// Subfolders of a device that contain the kernel's names of graphics devices and accelerators.
const NAMES: [&str; 3] = ["drm", "accel", "mic"];
/// Subfolders of a device with the names of network interfaces that bypass the kernel: verbs and Slingshot.
const FAST_NETWORKS: [&str; 2] = ["infiniband", "cxi"];
/// Base classes of networks, displays, processors and accelerators. All other devices are ignored.
const CLASSES: [u16; 4] = [0x02, 0x03, 0x0b, 0x12];
/// Vendors whose display devices compute. Display devices of other vendors belong to server consoles.
const COMPUTE_VENDORS: [u16; 3] = [NVIDIA_VENDOR_ID, AMD_VENDOR_ID, INTEL_VENDOR_ID];

/// PCI device ids of Xeon Phi coprocessors.
const XEON_PHI: RangeInclusive<u16> = 0x2250..=0x2262;
/// Folder in which NVIDIA's driver lists its devices by address.
pub(crate) const NVIDIA_GPUS_FOLDER: &str = "proc/driver/nvidia/gpus";

pub(crate) const NVIDIA_VENDOR_ID: u16 = 0x10de;
pub(crate) const AMD_VENDOR_ID: u16 = 0x1002;
pub(crate) const INTEL_VENDOR_ID: u16 = 0x8086;

/// PCI device with the data that placement needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciDevice {
    /// Purpose of the device.
    pub kind: DeviceKind,
    /// Address on the bus, e.g. `0000:1b:00.0`.
    pub address: String,
    /// PCI vendor id.
    pub vendor: u16,
    /// PCI device id.
    pub device: u16,
    /// Names of the device in the operating system.
    pub names: Vec<String>,
    /// Name of the device in its driver, if a description contains it.
    pub model: Option<String>,
    /// UUID of the device, if a description contains it.
    pub uuid: Option<String>,
    /// Size of the device's memory in bytes, if a description contains it.
    pub bytes: Option<u64>,
    /// Rate of the device's link in B/s, if a description contains it.
    pub link_rate: Option<u64>,
    /// Nearest NUMA node.
    pub node: Option<NumaNodeId>,
    /// Nearest CPUs, in numeric order; empty if unknown.
    pub cpus: Vec<CpuId>,
    /// Bridges above the device, beginning with the one nearest to the processor.
    pub bridges: Vec<String>,
}

impl PciDevice {
    /// Returns the PCI vendor and device IDs in the notation of device lists, e.g. `10de:2335`.
    pub fn pci_ids(&self) -> String {
        identification(self.vendor, self.device)
    }

    /// True for an accelerator; false for a network adapter.
    pub fn is_accelerator(&self) -> bool {
        self.kind != DeviceKind::Network
    }

    /// True if both devices are behind the same port of the processor, so that messages between them need not pass
    /// through the processor.
    pub(crate) fn shares_switch(&self, other: &Self) -> bool {
        self.bridges.first().is_some_and(|port| other.bridges.first() == Some(port))
    }

    /// True if the device is near one of `cpus`; `None` if its CPUs are unknown.
    pub fn is_near(&self, cpus: &[CpuId]) -> Option<bool> {
        (!self.cpus.is_empty()).then(|| cpus.iter().any(|cpu| self.cpus.contains(cpu)))
    }
}

/// Returns the purpose of a device by its class and PCI IDs; `None` for devices that neither compute nor send
/// messages. `fast` is true if programs can send through the device without the kernel.
pub(crate) fn device_kind(class: u16, vendor: u16, device: u16, fast: bool) -> Option<DeviceKind> {
    match class {
        // Displays and processing accelerators.
        0x0300..=0x0380 if COMPUTE_VENDORS.contains(&vendor) => Some(DeviceKind::Gpu),
        0x1200 if vendor == AMD_VENDOR_ID => Some(DeviceKind::Gpu),
        0x1200 => Some(DeviceKind::Coprocessor),
        // The class also contains accelerators for encryption, which are not included.
        0x0b40 if vendor == INTEL_VENDOR_ID && XEON_PHI.contains(&device) => {
            Some(DeviceKind::Coprocessor)
        }
        // InfiniBand and other fabrics; Ethernet adapters are included only if programs can bypass the kernel.
        0x0207 | 0x0208 => Some(DeviceKind::Network),
        0x0200 | 0x0280 if fast => Some(DeviceKind::Network),
        _ => None,
    }
}

/// Formats PCI vendor and device IDs in the notation of device lists.
fn identification(vendor: u16, device: u16) -> String {
    format!("{vendor:04x}:{device:04x}")
}

/// Returns the devices that the kernel lists below `root`, in the order of the bus. Drivers number devices of one model
/// in this order.
pub fn list_devices(root: &SysRoot) -> Vec<PciDevice> {
    root.names(DEVICES_FOLDER).into_iter().filter_map(|address| read(root, address)).collect()
}

/// Returns the path of a file of the device at `address`.
pub(crate) fn sysfs_file(address: &str, name: &str) -> String {
    format!("{DEVICES_FOLDER}/{address}/{name}")
}

/// Returns the lanes of the device at `address`, from the file `name`; `None` if the device is not on PCI Express,
/// for which the kernel reports 0 or 255 lanes.
fn lanes(root: &SysRoot, address: &str, name: &str) -> Option<u32> {
    root.value::<u32>(&sysfs_file(address, name)).filter(|lanes| (1..=32).contains(lanes))
}

/// Returns the rate of a link in transfers per second and lane; `None` if it is unknown.
fn speed(root: &SysRoot, address: &str, name: &str) -> Option<TransfersPerSec> {
    let text = root.text(&sysfs_file(address, name))?;
    let rate: f64 = text.split(' ').next()?.parse().ok()?;
    Some(TransfersPerSec(rate * 1e9))
}

/// Returns the link of the device at `address`: current rate and width, and the maximum that both the device and
/// the port above it support. If the port is unknown, it is the maximum of the device.
pub(crate) fn link(root: &SysRoot, address: &str, port: Option<&str>) -> PciLink {
    let now = speed(root, address, "current_link_speed");
    let width = lanes(root, address, "current_link_width");
    let port_speed = port.and_then(|port| speed(root, port, "max_link_speed"));
    let port_lanes = port.and_then(|port| lanes(root, port, "max_link_width"));
    let max = speed(root, address, "max_link_speed");
    let most_width = lanes(root, address, "max_link_width");
    PciLink {
        transfers_per_s: now,
        width,
        most_transfers_per_s: max.map(|own| port_speed.map_or(own, |above| own.min(above))),
        most_width: most_width.map(|own| port_lanes.map_or(own, |above| own.min(above))),
        bytes_per_s: now.zip(width).map(|(now, width)| PciLink::bandwidth(now, width)),
    }
}

/// Returns the hexadecimal number in a file of the device at `address`.
fn number(root: &SysRoot, address: &str, name: &str) -> Option<u32> {
    let text = root.text(&sysfs_file(address, name))?;
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Returns the names in these subfolders of the device at `address`.
fn names(root: &SysRoot, address: &str, folders: &[&str]) -> Vec<String> {
    folders.iter().flat_map(|folder| root.names(&sysfs_file(address, folder))).collect()
}

fn read(root: &SysRoot, address: String) -> Option<PciDevice> {
    let class = (number(root, &address, "class")? >> 8) as u16;
    // Virtual functions for guests are not listed as separate devices.
    if !CLASSES.contains(&(class >> 8)) || root.exists(&sysfs_file(&address, "physfn")) {
        return None;
    }
    let vendor = number(root, &address, "vendor")? as u16;
    let device = number(root, &address, "device")? as u16;
    let fast = names(root, &address, &FAST_NETWORKS);
    let kind = device_kind(class, vendor, device, !fast.is_empty())?;
    let names = [fast, names(root, &address, &NAMES)].concat();
    let cpus = root.numbers(&sysfs_file(&address, "local_cpulist")).unwrap_or_default();
    // The value is -1 if the firmware does not report a node.
    let node = root.value(&sysfs_file(&address, "numa_node")).map(NumaNodeId);
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

/// Returns the NUMA nodes that consist of device memory, with the devices' addresses.
pub(crate) fn device_numa_nodes(root: &SysRoot) -> BTreeMap<NumaNodeId, String> {
    let mut nodes = BTreeMap::new();
    for address in root.names(NVIDIA_GPUS_FOLDER) {
        let status = root.text(&format!("{NVIDIA_GPUS_FOLDER}/{address}/numa_status"));
        if let Some(node) = status.and_then(|status| number_after_key(&status, "Node")) {
            nodes.insert(NumaNodeId(node as u32), address.to_lowercase());
        }
    }
    nodes
}

/// Returns the bridges above a device: the parent folders of its folder
/// `devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:1b:00.0`.
pub(crate) fn bridges(root: &SysRoot, address: &str) -> Vec<String> {
    let path = std::fs::canonicalize(root.path(&format!("{DEVICES_FOLDER}/{address}")))
        .unwrap_or_default();
    let names = path.iter().filter_map(|name| name.to_str());
    let above = names.skip_while(|name| !(name.starts_with("pci") && name.contains(':'))).skip(1);
    above.take_while(|name| *name != address).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_devices_are_classified_by_class_and_vendor() {
        let of = device_kind;
        assert_eq!(of(0x0302, NVIDIA_VENDOR_ID, 0x2335, false), Some(DeviceKind::Gpu));
        assert_eq!(of(0x1200, AMD_VENDOR_ID, 0x74a1, false), Some(DeviceKind::Gpu));
        assert_eq!(of(0x1200, 0x1da3, 0x1020, false), Some(DeviceKind::Coprocessor));
        assert_eq!(of(0x0b40, INTEL_VENDOR_ID, 0x2250, false), Some(DeviceKind::Coprocessor));
        assert_eq!(of(0x0207, 0x15b3, 0x1021, true), Some(DeviceKind::Network));
        assert_eq!(of(0x0200, 0x15b3, 0x1021, true), Some(DeviceKind::Network));
        // The display of a console, an encryption accelerator, the Ethernet adapter of a guest and an NVSwitch are
        // ignored.
        assert_eq!(of(0x0300, 0x1a03, 0x2000, false), None);
        assert_eq!(of(0x0b40, INTEL_VENDOR_ID, 0x4940, false), None);
        assert_eq!(of(0x0200, 0x1af4, 0x1000, false), None);
        assert_eq!(of(0x0680, NVIDIA_VENDOR_ID, 0x1ac2, false), None);
    }
}
