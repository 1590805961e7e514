//! CXL memory behind NUMA nodes: the PCI devices that contain it, with their links. The kernel lists a region of CXL
//! memory as a DAX device with the number of its NUMA node; the region names the decoders of the devices over which
//! it is interleaved (Linux, `Documentation/ABI/testing/sysfs-bus-cxl`).

use crate::ids::NumaNodeId;
use crate::pci;
use crate::root::SysRoot;
use nodegauge_measure::record::PciLink;
use std::path::Path;

/// Folder in which the kernel lists devices with memory that programs can map.
const DAX: &str = "sys/bus/dax/devices";
/// Folder in which the kernel lists ports, decoders, regions and devices of CXL.
const BUS: &str = "sys/bus/cxl/devices";

/// Returns the links of the devices that contain the memory of a NUMA node, in the order of the region; empty if
/// the region of the memory or a link is unknown.
pub(crate) fn links(root: &SysRoot, node: NumaNodeId) -> Vec<PciLink> {
    let Some(region) = region(root, node) else { return Vec::new() };
    let ways: usize = root.value(&format!("{BUS}/{region}/interleave_ways")).unwrap_or(0);
    let mut links = Vec::new();
    for target in 0..ways {
        let decoder = root.text(&format!("{BUS}/{region}/target{target}"));
        let Some(address) = decoder.and_then(|decoder| device(root, &decoder)) else {
            return Vec::new();
        };
        links.push(pci::link(root, &address, None));
    }
    links
}

/// Returns the name of the region that contains the memory of a NUMA node, e.g. `region0`.
fn region(root: &SysRoot, node: NumaNodeId) -> Option<String> {
    for name in root.names(DAX) {
        let number = root.value::<u32>(&format!("{DAX}/{name}/target_node"));
        if number != Some(node.0) {
            continue;
        }
        let path = std::fs::canonicalize(root.path(&format!("{DAX}/{name}"))).ok()?;
        return component(&path, is_region);
    }
    None
}

/// Returns the address of the PCI device to which a decoder of an endpoint belongs.
fn device(root: &SysRoot, decoder: &str) -> Option<String> {
    let decoder = std::fs::canonicalize(root.path(&format!("{BUS}/{decoder}"))).ok()?;
    let memory = std::fs::canonicalize(decoder.parent()?.join("uport")).ok()?;
    component(memory.parent()?, |name| name.contains(':') && name.contains('.'))
}

/// Returns the last component of a path that has this property.
fn component(path: &Path, has_property: fn(&str) -> bool) -> Option<String> {
    let mut names = path.iter().rev().filter_map(|name| name.to_str());
    names.find(|name| has_property(name)).map(str::to_owned)
}

/// True for the name of a region, e.g. `region0`.
fn is_region(name: &str) -> bool {
    let number = name.strip_prefix("region");
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn write(tree: &Path, file: &str, text: &str) {
        let path = tree.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(tree: &Path, name: &str, target: &str) {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(tree.join(target), path).unwrap();
    }

    /// Writes a tree with two CXL devices whose memory is interleaved in NUMA node 2. The paths match Linux 6.8.
    fn two_devices(tree: &Path) {
        let region = "sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0";
        write(tree, &format!("{region}/dax_region0/dax0.0/target_node"), "2\n");
        write(tree, &format!("{region}/interleave_ways"), "2\n");
        link(tree, "sys/bus/dax/devices/dax0.0", &format!("{region}/dax_region0/dax0.0"));
        link(tree, "sys/bus/cxl/devices/region0", region);
        for (index, width) in [16, 8].into_iter().enumerate() {
            let function =
                format!("sys/devices/pci0000:{index}c/0000:{index}c:00.0/0000:{index}d:00.0");
            write(tree, &format!("{function}/mem{index}/serial"), "0x1\n");
            write(tree, &format!("{function}/current_link_speed"), "32.0 GT/s PCIe\n");
            write(tree, &format!("{function}/current_link_width"), &format!("{width}\n"));
            link(tree, &format!("sys/bus/pci/devices/0000:{index}d:00.0"), &function);
            let endpoint =
                format!("sys/devices/platform/ACPI0017:00/root0/port{index}/endpoint{index}");
            write(tree, &format!("{endpoint}/decoder{index}.0/mode"), "ram\n");
            link(tree, &format!("{endpoint}/uport"), &format!("{function}/mem{index}"));
            let decoder = format!("decoder{index}.0");
            link(tree, &format!("sys/bus/cxl/devices/{decoder}"), &format!("{endpoint}/{decoder}"));
            write(tree, &format!("{region}/target{index}"), &format!("{decoder}\n"));
        }
    }

    #[test]
    fn links_of_interleaved_devices_are_found_from_the_numa_node() {
        let folder = tempfile::tempdir().unwrap();
        two_devices(folder.path());
        let root = SysRoot::recorded(folder.path());
        let widths: Vec<_> =
            links(&root, NumaNodeId(2)).into_iter().map(|link| link.width).collect();
        assert_eq!(widths, [Some(16), Some(8)]);
        assert!(links(&root, NumaNodeId(1)).is_empty());
    }

    #[test]
    fn links_are_unknown_if_one_device_cannot_be_found() {
        let folder = tempfile::tempdir().unwrap();
        two_devices(folder.path());
        fs::remove_file(folder.path().join("sys/bus/cxl/devices/decoder1.0")).unwrap();
        assert!(links(&SysRoot::recorded(folder.path()), NumaNodeId(2)).is_empty());
    }
}
