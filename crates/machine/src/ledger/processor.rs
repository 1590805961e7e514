//! Machine checks and throttling of the processor.

use super::{SourceReader, is_numbered};
use crate::root::list;
use nodegauge_measure::record::HardwareEvent;
use std::collections::BTreeSet;

/// Lines of `/proc/interrupts`: exceptions and deferred errors, which were not corrected, and interrupts about
/// corrected errors. Polls (`MCP`) are not errors.
const LINES: [(&str, HardwareEvent, &str); 3] = [
    ("MCE:", HardwareEvent::MachineCheck, "exceptions"),
    ("DFR:", HardwareEvent::MachineCheck, "deferred errors"),
    ("THR:", HardwareEvent::MachineCheckCorrected, "threshold interrupts"),
];

/// Reads the numbers of machine-check interrupts, summed over CPUs.
pub(super) fn read_machine_checks(reader: &mut SourceReader<'_>) {
    let Some(text) = reader.text("proc/interrupts") else { return };
    // The lines are the last ones of a file that has a line for each interrupt and a column for each CPU.
    for line in text.lines().rev().take(64) {
        let line = line.trim_start();
        let known = LINES.iter().find(|(name, ..)| line.starts_with(name));
        let Some((name, kind, component)) = known else { continue };
        let columns = line[name.len()..].split_whitespace();
        let sum = columns.map_while(|column| column.parse::<u64>().ok()).sum();
        reader.push(*kind, (*component).to_owned(), sum, None);
    }
}

const CPUS: &str = "sys/devices/system/cpu";

/// Reads the numbers of throttling events. Events of cores are summed. All CPUs of a package count the same events
/// of the package, so that only one CPU per package is read for these.
pub(super) fn read_throttling(reader: &mut SourceReader<'_>) {
    let mut cpus = reader.root.names(CPUS);
    cpus.retain(|name| is_numbered(name, &["cpu"]));
    let packages = one_per_package(reader, &cpus);
    let files = [
        (HardwareEvent::ThermalThrottle, "core", "core_throttle_count", &cpus),
        (HardwareEvent::ThermalThrottle, "package", "package_throttle_count", &packages),
        (HardwareEvent::PowerThrottle, "package", "package_power_limit_count", &packages),
    ];
    for (kind, scope, file, of) in files {
        let mut found: Vec<u64> = Vec::new();
        for cpu in of {
            match reader.number(&format!("{CPUS}/{cpu}/thermal_throttle/{file}")) {
                Some(value) => found.push(value),
                // All CPUs have the file or none.
                None if found.is_empty() => break,
                None => {}
            }
        }
        if !found.is_empty() {
            reader.push(kind, format!("processor {scope}s"), found.iter().sum(), None);
        }
    }
}

/// Returns one CPU of each package; all CPUs if the kernel does not report packages.
fn one_per_package(reader: &mut SourceReader<'_>, cpus: &[String]) -> Vec<String> {
    let mut known: BTreeSet<u32> = BTreeSet::new();
    let mut one_each = Vec::new();
    for cpu in cpus {
        let number = cpu.strip_prefix("cpu").and_then(|id| id.parse().ok());
        if number.is_some_and(|number| known.contains(&number)) {
            continue;
        }
        let listed = reader.text(&format!("{CPUS}/{cpu}/topology/package_cpus_list"));
        known.extend(listed.and_then(|text| list(&text)).unwrap_or_default());
        one_each.push(cpu.clone());
    }
    one_each
}
