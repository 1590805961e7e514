//! Data of NVIDIA GPUs, from the driver's files in `/proc/driver/nvidia` and from the NVML library.

use super::nvml::{self, CurrentAndMax, GpuState, NvmlReading};
use super::{catalog, some_state};
use crate::pci::NVIDIA_GPUS_FOLDER;
use crate::root::SysRoot;
use nodegauge_measure::record::{Device, DeviceState, TheoreticalValue};
use nodegauge_measure::{BytesPerSec, Hertz};

/// Number of transfers per cycle of the memory clock that NVML reports: two, because the memory has double data
/// rate.
const TRANSFERS_PER_CYCLE: f64 = 2.0;

/// Adds the data of the driver's files.
pub(super) fn add_driver_data(device: &mut Device, root: &SysRoot) {
    let name = driver_value(root, &device.address, "information", "Model");
    let uuid = driver_value(root, &device.address, "information", "GPU UUID");
    device.name = name.or(device.name.take());
    // The driver shows question marks until the device is used for the first time.
    device.uuid = uuid.filter(|uuid| !uuid.contains('?'));
}

/// Returns a value from a file of the driver about a device. The file has lines of the form `KEY: VALUE`.
pub(super) fn driver_value(root: &SysRoot, address: &str, file: &str, key: &str) -> Option<String> {
    let text = root.text(&format!("{NVIDIA_GPUS_FOLDER}/{address}/{file}"))?;
    text.lines().find_map(|line| {
        let value = line.strip_prefix(key)?.trim_start().strip_prefix(':')?;
        Some(value.trim().to_owned())
    })
}

/// Adds the data of the NVML library about the devices of this machine, if the library is available.
pub(super) fn add_nvml_data(devices: &mut [Device], root: &SysRoot) {
    if root.is_live() && devices.iter().any(|device| device.driver.as_deref() == Some("nvidia")) {
        // If NVML does not respond, the data stay unknown; the kernel's files then show why a device is unusable.
        add_reading(devices, &nvml::read().unwrap_or_default());
    }
}

fn add_reading(devices: &mut [Device], reading: &NvmlReading) {
    for device in devices {
        if let Some(gpu) = reading.gpu_state(&device.address) {
            add_state(device, gpu);
            device.driver_version = device.driver_version.take().or_else(|| reading.driver.clone());
        }
    }
}

fn add_state(device: &mut Device, gpu: &GpuState) {
    device.name = gpu.name.clone().or(device.name.take());
    device.uuid = gpu.uuid.clone().or(device.uuid.take());
    let memory = device.memory.get_or_insert_default();
    memory.bytes = gpu.memory.map(|(bytes, _)| bytes).or(memory.bytes);
    memory.ecc = gpu.ecc.or(memory.ecc);
    memory.corrected_errors = gpu.corrected.or(memory.corrected_errors);
    memory.uncorrected_errors = gpu.uncorrected.or(memory.uncorrected_errors);
    let known = catalog::find_by_ids(&device.identification)
        .or_else(|| catalog::find(device.name.as_deref()?));
    let clock = gpu.memory_clock.map(|clock| clock.max);
    let sheet = known.map(|known| format!("; catalog: {}", BytesPerSec(known.bandwidth().value)));
    let driver = gpu.bus_bits.zip(clock).map(|(bits, hz)| TheoreticalValue {
        value: f64::from(bits) / 8.0 * hz.0 * TRANSFERS_PER_CYCLE,
        basis: "driver".to_owned(),
        detail: Some(format!(
            "{bits} bit x {:.0} MHz x {TRANSFERS_PER_CYCLE} transfers/cycle{}",
            hz.0 / 1e6,
            sheet.unwrap_or_default()
        )),
        at_most: false,
    });
    memory.theoretical = driver.or(memory.theoretical.take()).or_else(|| Some(known?.bandwidth()));
    let (now, max) = current_and_max(gpu.clock);
    let (memory_now, memory_max) = current_and_max(gpu.memory_clock);
    let own = std::process::id();
    let others = gpu.processes.as_ref();
    device.state = some_state(DeviceState {
        hz: now,
        most_hz: max,
        memory_hz: memory_now,
        most_memory_hz: memory_max,
        throttled_by: gpu.clock_limit_reasons().into_iter().map(str::to_owned).collect(),
        watts: gpu.power_limit_w,
        most_watts: None,
        partition: (gpu.mig == Some(true)).then(|| "MIG".to_owned()),
        others: others.map(|all| all.iter().filter(|(process, _)| *process != own).count() as u32),
    });
}

fn current_and_max(clock: Option<CurrentAndMax<Hertz>>) -> (Option<Hertz>, Option<Hertz>) {
    (clock.map(|clock| clock.now), clock.map(|clock| clock.max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Watts;
    use nodegauge_measure::record::DeviceKind;

    #[test]
    fn nvml_state_is_added_to_devices() {
        let text = r#"{"kind": "gpu", "address": "0000:1b:00.0", "identification": "10de:2335"}"#;
        let mut devices: Vec<Device> = vec![serde_json::from_str(text).unwrap()];
        assert_eq!(devices[0].kind, DeviceKind::Gpu);
        let clock = |now, max| Some(CurrentAndMax { now: Hertz(now), max: Hertz(max) });
        let gpu = GpuState {
            pci: "0000:1b:00.0".to_owned(),
            name: Some("NVIDIA H200".to_owned()),
            memory: Some((150_754_820_096, 0)),
            bus_bits: Some(6144),
            memory_clock: clock(3201e6, 3201e6),
            clock: clock(345e6, 1980e6),
            clock_limits: Some(0x04),
            ecc: Some(true),
            corrected: Some(0),
            uncorrected: Some(1),
            power_limit_w: Some(Watts(700.0)),
            processes: Some(vec![(std::process::id(), None), (1, Some(5))]),
            mig: Some(true),
            ..GpuState::default()
        };
        let reading = NvmlReading {
            driver: Some("550.54.15".to_owned()),
            gpus: vec![gpu],
            unresponsive: Vec::new(),
        };
        add_reading(&mut devices, &reading);
        let device = &devices[0];
        let memory = device.memory.as_ref().unwrap();
        // The computed bandwidth of 6144 bit at 6.402 GT/s is higher than the 4.8 TB/s in the data sheet.
        let theoretical = memory.theoretical.as_ref().unwrap();
        assert_eq!((theoretical.value, theoretical.basis.as_str()), (4.916_736e12, "driver"));
        assert_eq!((memory.ecc, memory.uncorrected_errors), (Some(true), Some(1)));
        let state = device.state.as_ref().unwrap();
        assert_eq!(
            (state.others, state.throttled_by.join(" ")),
            (Some(1), "power limit".to_owned())
        );
        assert_eq!((state.partition.as_deref(), state.watts), (Some("MIG"), Some(Watts(700.0))));
        assert_eq!(device.driver_version.as_deref(), Some("550.54.15"));
    }
}
