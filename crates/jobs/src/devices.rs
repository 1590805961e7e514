//! Devices of a process, and their distance to the CPUs on which its threads run. A device belongs to a process if a
//! variable of the process selects the device, or if the process has opened the device file.

use crate::document::JobDevice;
use nodegauge_machine::devices::visible_devices;
use nodegauge_machine::pci::PciDevice;
use nodegauge_machine::{CpuId, SysRoot, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of open files that are examined. Programs with more open files have network connections, not devices.
const MAX_FILES: usize = 4096;
/// Folder in which the kernel lists the device files of InfiniBand.
const VERBS: &str = "sys/class/infiniband_verbs";

/// Returns the devices of a process. They are found by the device files that the process has open and by its variables;
/// `ran_on` contains the CPUs on which its threads ran.
pub(crate) fn process_devices(
    root: &SysRoot,
    topology: &Topology,
    files: &BTreeSet<String>,
    variables: &BTreeMap<String, String>,
    ran_on: &BTreeSet<u32>,
) -> Vec<JobDevice> {
    let cpus: Vec<CpuId> = ran_on.iter().map(|cpu| CpuId(*cpu)).collect();
    let mut open: Vec<(&PciDevice, String)> = Vec::new();
    for file in files {
        if let Some(device) = file_device(root, topology, file) {
            open.push((device, format!("has /dev/{file} open")));
        }
    }
    // A driver opens all accelerators that the process may use, and numbers only these accelerators.
    let opened: Vec<&PciDevice> = topology
        .accelerators()
        .filter(|device| open.iter().any(|(known, _)| known.address == device.address))
        .collect();
    let usable = if opened.is_empty() { topology.accelerators().collect() } else { opened };
    let mut found = Vec::new();
    if let Some(visible) = visible_devices(&usable, variables, root) {
        let basis = format!("{}={}", visible.variable, visible.value);
        for device in visible.devices {
            found.push(job_device(device, &cpus, basis.clone()));
        }
        open.retain(|(device, _)| !device.is_accelerator());
    }
    found.extend(open.into_iter().map(|(device, basis)| job_device(device, &cpus, basis)));
    found.dedup_by(|a, b| a.address == b.address);
    found
}

fn job_device(device: &PciDevice, cpus: &[CpuId], basis: String) -> JobDevice {
    let name = device.names.first().cloned().or_else(|| device.model.clone());
    JobDevice {
        address: device.address.clone(),
        name: name.unwrap_or_else(|| device.pci_ids()),
        is_network: !device.is_accelerator(),
        numa_node: device.node.map(|node| node.0),
        near: device.is_near(cpus).filter(|_| !cpus.is_empty()),
        basis,
    }
}

/// Returns the device files that a process has open, as paths below `/dev`; empty if `/proc/PID/fd` cannot be read.
pub(crate) fn open_device_files(root: &SysRoot, pid: u32) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let Ok(entries) = std::fs::read_dir(root.path(&format!("proc/{pid}/fd"))) else { return found };
    for entry in entries.flatten().take(MAX_FILES) {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        found
            .extend(target.to_str().and_then(|path| path.strip_prefix("/dev/")).map(str::to_owned));
    }
    found
}

/// Returns the device that a device file belongs to.
fn file_device<'t>(root: &SysRoot, topology: &'t Topology, file: &str) -> Option<&'t PciDevice> {
    if let Some(verbs) = file.strip_prefix("infiniband/") {
        let name = root.text(&format!("{VERBS}/{verbs}/ibdev"))?;
        return device_by_name(topology, &name);
    }
    if let Some(node) = file.strip_prefix("dri/") {
        return device_by_name(topology, node);
    }
    let minor: u32 = file.strip_prefix("nvidia")?.parse().ok()?;
    topology.accelerators().find(|device| {
        nodegauge_machine::devices::nvidia_device_number(root, &device.address) == Some(minor)
    })
}

fn device_by_name<'t>(topology: &'t Topology, name: &str) -> Option<&'t PciDevice> {
    topology.devices.iter().find(|device| device.names.iter().any(|known| known == name))
}
