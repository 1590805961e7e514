//! Devices of a node on the page of `machine`: one paragraph per group of identical devices, and a table of their
//! locations.

use nodegauge_gauge::view::{ColumnList, Section, Table};
use nodegauge_machine::number_ranges;
use nodegauge_measure::legible::join_lines;
use nodegauge_measure::record::{Device, DeviceKind, DeviceState, Machine};
use nodegauge_measure::{Bytes, BytesPerSec, Hertz};

/// Adds one paragraph per group of identical devices, with compute devices before network adapters.
pub(crate) fn add_notes(section: &mut Section, machine: &Machine) {
    let mut alike: Vec<(&Device, String, usize)> = Vec::new();
    for device in &machine.devices {
        let words = in_words(device);
        let known =
            alike.iter_mut().find(|(first, text, _)| first.kind == device.kind && *text == words);
        match known {
            Some((.., count)) => *count += 1,
            None => alike.push((device, words, 1)),
        }
    }
    alike.sort_by_key(|(device, ..)| device.kind);
    for (device, words, count) in alike {
        let text = if count > 1 { format!("{count} x {words}") } else { words };
        section.push_lines(label(device.kind), text);
    }
}

/// Describes the compute devices in short form, e.g. `8 x NVIDIA H200`; `None` if there are none.
pub(crate) fn brief_description(machine: &Machine) -> Option<String> {
    let mut titles: Vec<(String, usize)> = Vec::new();
    for title in machine.devices.iter().filter(|device| device.is_accelerator()).map(Device::title)
    {
        match titles.iter_mut().find(|(known, _)| *known == title) {
            Some((_, count)) => *count += 1,
            None => titles.push((title, 1)),
        }
    }
    let each = titles.into_iter().map(|(title, count)| format!("{count} x {title}"));
    Some(each.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}

fn label(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Gpu | DeviceKind::Coprocessor => "device",
        DeviceKind::Network => "network",
    }
}

/// Describes a device: name, memory with theoretical bandwidth, link, driver and state.
fn in_words(device: &Device) -> String {
    let mut lines = vec![device.title()];
    if device.is_accelerator() {
        lines[0] += &format!(": {}", memory(device));
    }
    let parts = [
        device.link.as_ref().map(|link| link.in_words()),
        device.driver.as_ref().map(|driver| match &device.driver_version {
            Some(version) => format!("driver {driver} {version}"),
            None => format!("driver {driver}"),
        }),
        device.memory.as_ref().and_then(|memory| {
            let ecc = format!("ECC {}", if memory.ecc? { "on" } else { "off" });
            Some(match (memory.corrected_errors, memory.uncorrected_errors) {
                (Some(corrected), Some(lost)) => {
                    format!("{ecc}, {corrected} corrected and {lost} uncorrected errors")
                }
                _ => ecc,
            })
        }),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    lines.extend((!parts.is_empty()).then(|| parts.join("; ")));
    lines.extend(device.state.as_ref().map(state).filter(|state| !state.is_empty()));
    join_lines(lines)
}

fn memory(device: &Device) -> String {
    let Some(memory) = &device.memory else { return "memory unknown".to_owned() };
    let size = memory.bytes.map_or("memory of unknown size".to_owned(), |b| Bytes(b).to_string());
    let technology = memory.technology.as_ref().map(|kind| format!(" {kind}")).unwrap_or_default();
    let rate = memory.theoretical.as_ref().map_or("bandwidth unknown".to_owned(), |figure| {
        let detail = figure.detail.as_ref().map(|from| format!(": {from}")).unwrap_or_default();
        format!("{} theoretical ({}{detail})", BytesPerSec(figure.value), figure.basis)
    });
    format!("{size}{technology}, {rate}")
}

/// Describes a clock frequency and its maximum; `None` if the frequency is unknown.
fn clock(what: &str, now: Option<Hertz>, max: Option<Hertz>) -> Option<String> {
    let max = max.map(|max| format!(" of {max}")).unwrap_or_default();
    now.map(|now| format!("{what} {now}{max}"))
}

/// Describes the state of a device: clocks, power limit, reasons for throttling, and partition.
fn state(state: &DeviceState) -> String {
    let parts = [
        clock("clock", state.hz, state.most_hz),
        clock("memory clock", state.memory_hz, state.most_memory_hz),
        state.watts.map(|watts| {
            let max = state.most_watts.filter(|max| *max != watts);
            let max = max.map(|max| format!(" of {max}")).unwrap_or_default();
            format!("power limit {watts}{max}")
        }),
        (!state.throttled_by.is_empty())
            .then(|| format!("throttled by: {}", state.throttled_by.join(", "))),
        state.partition.as_ref().map(|partition| format!("partition {partition}")),
        state
            .others
            .filter(|others| *others > 0)
            .map(|others| format!("other processes: {others}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Returns the table of device locations; `None` if there are no devices.
pub(crate) fn table(machine: &Machine) -> Option<Table> {
    if machine.devices.is_empty() {
        return None;
    }
    let computing = machine.devices.iter().filter(|device| device.is_accelerator());
    let networks = machine.devices.iter().filter(|device| !device.is_accelerator());
    let numbered = computing.enumerate().map(|(number, device)| (number.to_string(), device));
    let named = networks.map(|device| (device.names.first().cloned().unwrap_or_default(), device));
    let columns = ColumnList::<(String, &Device)>::new()
        .left("device", |(name, _)| name.clone())
        .left("address", |(_, device)| device.address.clone())
        .right_or_dash("node", |(_, device)| Some(device.numa_node?.to_string()))
        .left("cpus", |(_, device)| match device.cpus.as_slice() {
            [] => "-".to_owned(),
            cpus => number_ranges(cpus),
        })
        .left("network", |(_, device)| {
            let near = device.networks.iter().map(|near| {
                format!("{}{}", near.name, if near.same_switch { " (switch)" } else { "" })
            });
            near.collect::<Vec<_>>().join(", ")
        })
        .left("not usable", |(_, device)| device.hidden.join(", "));
    Some(columns.table(numbered.chain(named)))
}
