//! Access of this process to devices. A device is usable if it has a driver, this process may open its device files,
//! and no environment variable hides it.
//!
//! Sources: CUDA C++ Programming Guide on CUDA_VISIBLE_DEVICES; ROCm documentation on GPU isolation; oneAPI Level Zero
//! on ZE_AFFINITY_MASK.

use super::nvidia;
use crate::pci::{self, PciDevice};
use crate::root::SysRoot;
use nodegauge_measure::record::{Device, DeviceKind};
use nodegauge_os::mpi_abi::implementations;
use std::collections::BTreeMap;

/// Environment variables that restrict the visible devices of a vendor; the first variable that is set is used. The
/// last element is the variable with the value that makes the driver number devices in bus order, if its default
/// order may differ.
pub const VISIBILITY_VARIABLES: [(u16, &[&str], Option<&str>); 3] = [
    (pci::NVIDIA_VENDOR_ID, &["CUDA_VISIBLE_DEVICES"], Some("CUDA_DEVICE_ORDER=PCI_BUS_ID")),
    (pci::AMD_VENDOR_ID, &["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"], None),
    (pci::INTEL_VENDOR_ID, &["ZE_AFFINITY_MASK"], Some("ZE_ENABLE_PCI_ID_DEVICE_ORDER=1")),
];

/// Environment variables with the local rank that do not belong to a launcher in the table of MPI implementations.
/// Slurm's and Flux's are last, because an MPI launcher may run in one of their tasks. Fujitsu's launcher sets
/// `PLE_RANK_ON_NODE`.
const OTHER_LOCAL_RANK: [&str; 4] =
    ["PLE_RANK_ON_NODE", "PMI_LOCAL_RANK", "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"];

/// Returns the environment variables with the local rank of a process, in the order in which they are checked.
pub fn local_rank_variables() -> impl Iterator<Item = &'static str> {
    let launchers = implementations().flat_map(|implementation| implementation.variables);
    launchers.flat_map(|launcher| launcher.local_rank).copied().chain(OTHER_LOCAL_RANK)
}

/// Returns the environment of this process; empty for a recorded machine.
pub(crate) fn environment(root: &SysRoot) -> BTreeMap<String, String> {
    let text = root.bytes("proc/self/environ").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Adds to each device the reason why this process cannot use it.
pub(super) fn add_access_problems(devices: &mut [Device], on_bus: &[PciDevice], root: &SysRoot) {
    for (device, pci) in
        devices.iter_mut().zip(on_bus).filter(|(device, _)| device.is_accelerator())
    {
        device.hidden.extend(access_problem(device, pci, root));
    }
    let environment = environment(root);
    for (vendor, names, _) in VISIBILITY_VARIABLES {
        let set = names.iter().find_map(|name| Some((*name, environment.get(*name)?)));
        // Only the driver knows the device to which a MIG slice with its own number belongs.
        let set =
            set.filter(|(_, value)| !value.starts_with("MIG-") || value.starts_with("MIG-GPU-"));
        let Some((name, value)) = set else { continue };
        // Drivers number only the remaining devices.
        let mut left = Vec::new();
        for (device, pci) in devices.iter_mut().zip(on_bus) {
            if pci.vendor == vendor && pci.kind == DeviceKind::Gpu && device.hidden.is_empty() {
                left.push(device);
            }
        }
        let uuids: Vec<Option<&str>> = left.iter().map(|device| device.uuid.as_deref()).collect();
        let visible = visible_to(value, &uuids);
        for (at, device) in left.into_iter().enumerate() {
            if !visible.contains(&at) {
                device.hidden.push(format!("hidden by {name}={value}"));
            }
        }
    }
}

/// Devices that an environment variable makes visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleDevices<'d> {
    /// Name of the variable.
    pub variable: &'static str,
    /// Value of the variable.
    pub value: String,
    /// Devices in the order of the variable.
    pub devices: Vec<&'d PciDevice>,
}

/// Returns the usable devices that the environment variables of a process make visible; `None` if no
/// variable restricts them. `usable` is in bus order.
pub fn visible_devices<'d>(
    usable: &[&'d PciDevice],
    variables: &BTreeMap<String, String>,
    root: &SysRoot,
) -> Option<VisibleDevices<'d>> {
    for (vendor, names, _) in VISIBILITY_VARIABLES {
        let gpus: Vec<&PciDevice> = usable
            .iter()
            .copied()
            .filter(|pci| pci.vendor == vendor && pci.kind == DeviceKind::Gpu)
            .collect();
        let set = names.iter().find_map(|name| Some((*name, variables.get(*name)?)));
        let Some((variable, value)) = set.filter(|_| !gpus.is_empty()) else { continue };
        let of_driver: Vec<Option<String>> = gpus
            .iter()
            .map(|pci| {
                let own = pci.uuid.clone();
                own.or_else(|| nvidia::driver_value(root, &pci.address, "information", "GPU UUID"))
            })
            .collect();
        let uuids: Vec<Option<&str>> = of_driver.iter().map(Option::as_deref).collect();
        let devices = visible_to(value, &uuids).into_iter().map(|at| gpus[at]).collect();
        return Some(VisibleDevices { variable, value: value.clone(), devices });
    }
    None
}

/// Returns the number of NVIDIA's device file of the GPU at an address; `None` without NVIDIA's driver.
pub fn nvidia_device_number(root: &SysRoot, address: &str) -> Option<u32> {
    nvidia::driver_value(root, address, "information", "Device Minor")?.parse().ok()
}

/// Returns the indices of the devices that the value `list` of a variable makes visible; `uuids` are the UUIDs of
/// the devices. Entries are numbers (`0,2`), UUIDs (`GPU-5e0b...`), slices (`MIG-GPU-5e0b.../1/0`) and halves of
/// devices (`0.1`). The list ends at the first entry that matches no device.
fn visible_to(list: &str, uuids: &[Option<&str>]) -> Vec<usize> {
    list.split(',').map_while(|entry| position(entry.trim(), uuids)).collect()
}

/// Returns the index of the device that an entry of a visibility variable denotes, e.g. `2` or a UUID; `uuids` are the
/// UUIDs of the devices.
fn position(entry: &str, uuids: &[Option<&str>]) -> Option<usize> {
    let number = entry.split('.').next().unwrap_or(entry);
    if let Ok(number) = number.parse::<usize>() {
        return (number < uuids.len()).then_some(number);
    }
    let name = entry.strip_prefix("MIG-").unwrap_or(entry);
    let name = name.split('/').next().unwrap_or(name);
    if name.is_empty() {
        return None;
    }
    uuids.iter().position(|uuid| uuid.is_some_and(|uuid| uuid.starts_with(name)))
}

/// Returns the reason why this process cannot access a device; `None` if no reason is known.
pub(super) fn access_problem(device: &Device, pci: &PciDevice, root: &SysRoot) -> Option<String> {
    let file = match device.driver.as_deref() {
        None => return Some("the kernel has no driver for this device".to_owned()),
        Some("vfio-pci") => {
            return Some("the device is assigned to a virtual machine (vfio-pci)".to_owned());
        }
        Some("nvidia") => {
            let minor = nvidia::driver_value(root, &pci.address, "information", "Device Minor")?;
            format!("dev/nvidia{minor}")
        }
        Some("amdgpu") if !usable(root, "dev/kfd") => "dev/kfd".to_owned(),
        Some("amdgpu" | "i915" | "xe") => {
            let node = device.names.iter().find(|name| name.starts_with("renderD"))?;
            format!("dev/dri/{node}")
        }
        Some(_) => return None,
    };
    if !root.exists(&file) {
        return Some(format!("/{file} does not exist"));
    }
    (!usable(root, &file)).then(|| format!("/{file} cannot be opened"))
}

/// True if a device file exists and this process may open it, according to permissions and control groups.
fn usable(root: &SysRoot, file: &str) -> bool {
    nodegauge_os::may_read_and_write(&root.path(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_device_list_ends_at_invalid_entry() {
        let uuids = [Some("GPU-5e0b"), Some("GPU-77aa"), None];
        assert_eq!(visible_to("0,2", &uuids), [0, 2]);
        assert_eq!(visible_to("1, 0", &uuids), [1, 0]);
        assert_eq!(visible_to("1,7,0", &uuids), [1]);
        assert_eq!(visible_to("GPU-77", &uuids), [1]);
        assert_eq!(visible_to("MIG-GPU-5e0b/1/0", &uuids), [0]);
        assert_eq!(visible_to("0.1", &uuids), [0]);
        for none in ["", "-1", "NoDevFiles"] {
            assert!(visible_to(none, &uuids).is_empty(), "{none}");
        }
    }
}
