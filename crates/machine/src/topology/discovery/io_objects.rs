//! PCI devices of an hwloc description, with their distance to CPUs.

use crate::ids::{CpuId, NumaNodeId};
use crate::pci::{PciDevice, device_kind};
use hwlocality::Topology as Hwloc;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::{ObjectAttributes, PCIDeviceAttributes};
use hwlocality::object::types::{OSDeviceType, ObjectType};

/// Returns the devices of a description, in bus order.
pub(super) fn devices(hwloc: &Hwloc) -> Vec<PciDevice> {
    let one_node = hwloc.objects_with_type(ObjectType::NUMANode).count() == 1;
    let all = hwloc.objects_with_type(ObjectType::PCIDevice);
    let mut devices: Vec<PciDevice> = all.filter_map(|object| device(object, one_node)).collect();
    devices.sort_by(|a, b| a.address.cmp(&b.address));
    devices
}

fn device(object: &TopologyObject, one_node: bool) -> Option<PciDevice> {
    let Some(ObjectAttributes::PCIDevice(pci)) = object.attributes() else { return None };
    let vendor = pci.vendor_id();
    let device = pci.device_id();
    let inside: Vec<&TopologyObject> = object.io_children().collect();
    let fast_parts = inside.iter().filter(|part| is_fast(part));
    let others = inside.iter().filter(|part| !is_fast(part));
    let kind =
        device_kind(pci.class_id(), vendor, device, inside.iter().any(|part| is_fast(part)))?;
    // CUDA, OpenCL, RSMI and Level Zero report the size in KiB, each under a different name.
    let sizes =
        ["CUDAGlobalMemorySize", "OpenCLGlobalMemorySize", "RSMIVRAMSize", "LevelZeroHBMSize"];
    let kib = info(object, &sizes).and_then(|text| text.parse::<u64>().ok());
    let host = object.first_non_io_ancestor()?;
    let indices = host.cpuset().map(|set| set.iter_set().map(usize::from).collect::<Vec<_>>());
    let mut cpus: Vec<CpuId> =
        indices.unwrap_or_default().into_iter().map(|cpu| CpuId(cpu as u32)).collect();
    cpus.sort_unstable();
    let node = host.nodeset().and_then(|set| set.first_set()).map(|node| usize::from(node) as u32);
    // If a machine with several nodes has a device that is attached to the whole machine, the device is near to no
    // node.
    let somewhere = one_node || host.object_type() != ObjectType::Machine;
    let gigabytes = f64::from(pci.link_speed());
    Some(PciDevice {
        kind,
        address: address(pci),
        vendor,
        device,
        names: fast_parts.chain(others).filter_map(|part| name(part)).collect(),
        model: info(object, &["GPUModel"]),
        uuid: info(object, &["NVIDIAUUID", "AMDUUID", "LevelZeroUUID"]),
        bytes: kib.map(|kib| kib << 10),
        link_rate: (gigabytes > 0.0).then_some((gigabytes * 1e9) as u64),
        node: node.filter(|_| somewhere).map(NumaNodeId),
        cpus: if somewhere { cpus } else { Vec::new() },
        bridges: bridges(object),
    })
}

/// True if a part of the device is a network interface that bypasses the kernel.
fn is_fast(part: &TopologyObject) -> bool {
    match part.attributes() {
        Some(ObjectAttributes::OSDevice(os)) => os.device_type() == OSDeviceType::OpenFabrics,
        _ => false,
    }
}

/// Returns the first text that hwloc has under one of `names`, for a part of the device or for the device itself.
fn info(device: &TopologyObject, names: &[&str]) -> Option<String> {
    for object in device.io_children().chain([device]) {
        if let Some(text) = names.iter().find_map(|name| object.info(name)) {
            return Some(text.to_string_lossy().trim().to_owned());
        }
    }
    None
}

fn name(object: &TopologyObject) -> Option<String> {
    Some(object.name()?.to_string_lossy().into_owned())
}

fn address(pci: &PCIDeviceAttributes) -> String {
    let bus = pci.bus_id();
    let device = pci.bus_device();
    let function = pci.function();
    format!("{:04x}:{bus:02x}:{device:02x}.{function:x}", pci.domain())
}

/// Returns the PCI bridges above a device, beginning with the one nearest to the processor.
fn bridges(object: &TopologyObject) -> Vec<String> {
    use hwlocality::object::attributes::UpstreamAttributes::PCI;
    let mut bridges = Vec::new();
    for above in object.ancestors() {
        if let Some(ObjectAttributes::Bridge(bridge)) = above.attributes()
            && let Some(PCI(pci)) = bridge.upstream_attributes()
        {
            bridges.push(address(pci));
        }
    }
    bridges.reverse();
    bridges
}
