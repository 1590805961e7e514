//! Accelerators and adapters of fast networks: kind, attachment, distance to CPUs, state, and access by this process.
//!
//! The data come from the kernel's files or from a description; no vendor's library is required. If NVIDIA's
//! library is installed, it adds data. The devices are listed in bus order.

mod amd;
pub mod catalog;
mod nvidia;
#[allow(unsafe_code, reason = "NVIDIA's library is queried in a child process")]
pub mod nvml;
mod visible;

pub(crate) use visible::environment;
pub use visible::{
    VISIBILITY_VARIABLES, VisibleDevices, local_rank_variables, nvidia_device_number,
    visible_devices,
};

use crate::pci::{self, PciDevice};
use crate::root::SysRoot;
use crate::topology::{Topology, TopologySource};
use nodegauge_measure::BytesPerSec;
use nodegauge_measure::record::{
    Device, DeviceKind, DeviceMemory, DeviceState, NearbyNetworkAdapter, PciLink,
};

/// Possible paths of the file with device names.
const PCI_IDS: [&str; 3] =
    ["usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids", "usr/share/pci.ids"];

/// Describes the devices of `topology`. The files of a live machine are read below `root`. With `passive`, no vendor's
/// library is queried.
pub(crate) fn describe_devices(topology: &Topology, root: &SysRoot, passive: bool) -> Vec<Device> {
    let live = (topology.source == TopologySource::Live).then_some(root);
    let some = live.filter(|_| !topology.devices.is_empty());
    let names = some.and_then(|live_root| PCI_IDS.iter().find_map(|path| live_root.text(path)));
    let mut devices: Vec<Device> = topology
        .devices
        .iter()
        .map(|pci| {
            let mut device = described_by_bus(topology, pci);
            if let Some(live_root) = live {
                add_kernels_view(&mut device, pci, live_root);
            }
            let known = catalog::find_by_ids(&device.identification)
                .or_else(|| catalog::find(device.name.as_deref()?));
            device.name = device
                .name
                .take()
                .or_else(|| Some(known?.name.clone()))
                .or_else(|| name_in(names.as_deref()?, pci.vendor, Some(pci.device)));
            let memory = device.memory.take().unwrap_or_default();
            let memory = DeviceMemory {
                bytes: memory.bytes.or_else(|| Some(known?.bytes? as u64)),
                technology: memory.technology.or_else(|| Some(known?.memory.clone())),
                theoretical: memory.theoretical.or_else(|| Some(known?.bandwidth())),
                ..memory
            };
            device.memory = (memory != DeviceMemory::default()).then_some(memory);
            device
        })
        .collect();
    if let Some(live_root) = live {
        if !passive {
            nvidia::add_nvml_data(&mut devices, live_root);
        }
        visible::add_access_problems(&mut devices, &topology.devices, live_root);
    }
    devices
}

/// Returns the devices of a live machine that placement uses: computing devices that this process can access,
/// regardless of environment variables, and all devices that do not compute.
pub fn placement_devices(topology: &Topology, root: &SysRoot) -> Vec<PciDevice> {
    let described = describe_devices(topology, root, false);
    let mut reached = Vec::new();
    for (device, pci) in described.iter().zip(&topology.devices) {
        if !pci.is_accelerator() || visible::access_problem(device, pci, root).is_none() {
            reached.push(pci.clone());
        }
    }
    reached
}

/// Describes a device from its data on the PCI bus.
fn described_by_bus(topology: &Topology, pci: &PciDevice) -> Device {
    let node = topology.nodes.iter().find(|node| node.device.as_ref() == Some(&pci.address));
    let bytes = pci.bytes.or_else(|| node?.bytes);
    let memory = node.is_some() || bytes.is_some();
    Device {
        kind: pci.kind,
        address: pci.address.clone(),
        identification: pci.pci_ids(),
        vendor: vendor(pci.vendor).map(str::to_owned),
        name: pci.model.clone(),
        names: pci.names.clone(),
        uuid: pci.uuid.clone(),
        numa_node: pci.node.map(|id| id.0),
        cpus: pci.cpus.iter().map(|cpu| cpu.0).collect(),
        memory: memory.then(|| DeviceMemory {
            bytes,
            numa_node: node.map(|node| node.id.0),
            ..DeviceMemory::default()
        }),
        link: pci.link_rate.map(|rate| PciLink {
            bytes_per_s: Some(BytesPerSec(rate as f64)),
            ..PciLink::default()
        }),
        driver: None,
        driver_version: None,
        state: None,
        networks: if pci.is_accelerator() { networks(topology, pci) } else { Vec::new() },
        hidden: Vec::new(),
    }
}

/// Returns the network adapters behind the same port of the processor. If there are none, returns the adapters on the
/// same NUMA node.
fn networks(topology: &Topology, pci: &PciDevice) -> Vec<NearbyNetworkAdapter> {
    let mut behind = Vec::new();
    let mut on_node = Vec::new();
    for other in topology.devices.iter().filter(|other| other.kind == DeviceKind::Network) {
        let name = other.names.first().unwrap_or(&other.address).clone();
        if pci.shares_switch(other) {
            behind.push(NearbyNetworkAdapter { name, same_switch: true });
        } else if other.node.is_some() && other.node == pci.node {
            on_node.push(NearbyNetworkAdapter { name, same_switch: false });
        }
    }
    if behind.is_empty() { on_node } else { behind }
}

/// Adds the data of the kernel and its drivers.
fn add_kernels_view(device: &mut Device, pci: &PciDevice, root: &SysRoot) {
    let driver = std::fs::read_link(root.path(&pci::sysfs_file(&pci.address, "driver"))).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    device.driver_version =
        driver.as_ref().and_then(|driver| root.text(&format!("sys/module/{driver}/version")));
    device.link = link(root, pci).or(device.link.take());
    match driver.as_deref() {
        Some("nvidia") => nvidia::add_driver_data(device, root),
        Some("amdgpu") => amd::add_driver_data(device, pci, root),
        _ => {}
    }
    device.driver = driver;
}

/// Returns the link of a device; `None` if neither its present nor its maximum rate is known.
fn link(root: &SysRoot, pci: &PciDevice) -> Option<PciLink> {
    let link = pci::link(root, &pci.address, pci.bridges.last().map(String::as_str));
    (link.transfers_per_s.is_some() || link.most_transfers_per_s.is_some()).then_some(link)
}

/// Returns the name of a vendor of accelerators or network adapters; `None` for other vendors.
fn vendor(number: u16) -> Option<&'static str> {
    Some(match number {
        pci::NVIDIA_VENDOR_ID => "NVIDIA",
        pci::AMD_VENDOR_ID => "AMD",
        pci::INTEL_VENDOR_ID => "Intel",
        0x15b3 => "Mellanox",
        0x17db => "HPE",
        0x1d0f => "Amazon",
        0x14e4 => "Broadcom",
        0x434e => "Cornelis",
        0x1da3 => "Habana",
        _ => return None,
    })
}

/// Searches the text of `pci.ids` for the name of a device, or for the name of its vendor.
fn name_in(text: &str, vendor: u16, device: Option<u16>) -> Option<String> {
    let vendor = format!("{vendor:04x}  ");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&vendor));
    let own = lines.next()?.strip_prefix(&vendor)?;
    let Some(device) = device else { return Some(own.to_owned()) };
    let device = format!("\t{device:04x}  ");
    let mut devices = lines.take_while(|line| line.starts_with(['\t', '#']));
    devices.find_map(|line| line.strip_prefix(&device)).map(str::to_owned)
}

/// Returns the state; `None` if all its fields are unknown.
fn some_state(state: DeviceState) -> Option<DeviceState> {
    (state != DeviceState::default()).then_some(state)
}
