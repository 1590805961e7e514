//! Data of AMD GPUs from the files of the amdgpu driver in sysfs: memory, clocks, power, partitions, errors, other
//! processes. The files are described in Linux' Documentation/gpu/amdgpu and in the sources of drivers/gpu/drm/amd.

use super::some_state;
use crate::pci::{PciDevice, sysfs_file};
use crate::root::{SysRoot, number_after_key};
use nodegauge_measure::record::{Device, DeviceState};
use nodegauge_measure::{Hertz, Watts};

/// Folder of the driver's compute interface.
const KFD: &str = "sys/class/kfd/kfd";

/// Files of the kernel for one device.
struct DeviceFiles<'a> {
    root: &'a SysRoot,
    /// Address of the device on the PCI bus.
    address: &'a str,
}

impl DeviceFiles<'_> {
    /// Returns the text of a file; `None` if it is empty.
    fn text(&self, name: &str) -> Option<String> {
        self.root.non_empty_text(&sysfs_file(self.address, name))
    }

    /// Returns the power in a file that contains microwatts.
    fn watts(&self, name: &str) -> Option<Watts> {
        let microwatts: f64 = self.text(name)?.parse().ok()?;
        Some(Watts(microwatts / 1e6))
    }
}

/// Adds the data that amdgpu reports.
pub(super) fn add_driver_data(device: &mut Device, pci: &PciDevice, root: &SysRoot) {
    let files = DeviceFiles { root, address: &pci.address };
    device.name = files.text("product_name").or(device.name.take());
    device.uuid = files.text("unique_id").or(device.uuid.take());
    let memory = device.memory.get_or_insert_default();
    memory.bytes =
        files.text("mem_info_vram_total").and_then(|bytes| bytes.parse().ok()).or(memory.bytes);
    if let Some(errors) = files.text("ras/umc_err_count") {
        // The file exists only if the memory has ECC.
        memory.ecc = Some(true);
        memory.corrected_errors = number_after_key(&errors, "ce");
        memory.uncorrected_errors = number_after_key(&errors, "ue");
    }
    let sensors =
        root.names(&sysfs_file(&pci.address, "hwmon")).into_iter().next().unwrap_or_default();
    let core_levels = files.text("pp_dpm_sclk").map(|text| levels(&text));
    let memory_levels = files.text("pp_dpm_mclk").map(|text| levels(&text));
    let partition: Vec<String> = ["current_compute_partition", "current_memory_partition"]
        .into_iter()
        .filter_map(|name| files.text(name))
        .collect();
    device.state = some_state(DeviceState {
        hz: core_levels.and_then(|(now, _)| now),
        most_hz: core_levels.and_then(|(_, max)| max),
        memory_hz: memory_levels.and_then(|(now, _)| now),
        most_memory_hz: memory_levels.and_then(|(_, max)| max),
        throttled_by: Vec::new(),
        watts: files.watts(&format!("hwmon/{sensors}/power1_cap")),
        most_watts: files.watts(&format!("hwmon/{sensors}/power1_cap_max")),
        partition: (!partition.is_empty()).then(|| partition.join("/")),
        others: other_processes(pci, root),
    });
}

/// Returns the clock of the active level and of the last level, from a list with lines such as `1: 1600Mhz *`.
fn levels(text: &str) -> (Option<Hertz>, Option<Hertz>) {
    let now = text.lines().find(|line| line.trim_end().ends_with('*'));
    (now.and_then(level_clock), text.lines().last().and_then(level_clock))
}

/// Returns the clock in a line such as `1: 1600Mhz *`.
fn level_clock(line: &str) -> Option<Hertz> {
    let (_, value) = line.split_once(": ")?;
    let digits = value.trim_end_matches([' ', '*']).to_lowercase();
    let megahertz: f64 = digits.strip_suffix("mhz")?.trim().parse().ok()?;
    Some(Hertz(megahertz * 1e6))
}

/// Returns the number of other processes that have allocated memory of the device, as the compute interface of the
/// driver reports it.
fn other_processes(pci: &PciDevice, root: &SysRoot) -> Option<u32> {
    let nodes = format!("{KFD}/topology/nodes");
    let gpu = root.names(&nodes).into_iter().find_map(|node| {
        let properties = root.text(&format!("{nodes}/{node}/properties"))?;
        let domain = number_after_key(&properties, "domain")?;
        let at = number_after_key(&properties, "location_id")?;
        let bus = at >> 8 & 0xff;
        let slot = at >> 3 & 0x1f;
        let function = at & 7;
        let address = format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}");
        (address == pci.address).then(|| root.text(&format!("{nodes}/{node}/gpu_id")))?
    })?;
    let own = std::process::id().to_string();
    let mut others = 0;
    for process in root.names(&format!("{KFD}/proc")) {
        let bytes: Option<u64> = root.value(&format!("{KFD}/proc/{process}/vram_{gpu}"));
        if process != own && bytes.is_some_and(|bytes| bytes > 0) {
            others += 1;
        }
    }
    Some(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_clock_level_is_read() {
        assert_eq!(
            levels("0: 500Mhz\n1: 800Mhz *\n2: 1700Mhz "),
            (Some(Hertz(800e6)), Some(Hertz(1700e6)))
        );
        assert_eq!(levels("0: 1600Mhz *"), (Some(Hertz(1600e6)), Some(Hertz(1600e6))));
        assert_eq!(levels(""), (None, None));
    }
}
