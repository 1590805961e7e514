//! Machine checks and throttling of the processor.

use super::SourceReader;
use nodegauge_measure::record::HardwareEvent;

/// Lines of `/proc/interrupts`: exceptions and deferred errors, which were not corrected, and interrupts about a number
/// of corrected errors. Polls (`MCP`) are no errors.
const LINES: [(&str, HardwareEvent, &str); 3] = [
    ("MCE:", HardwareEvent::MachineCheck, "exceptions"),
    ("DFR:", HardwareEvent::MachineCheck, "deferred errors"),
    ("THR:", HardwareEvent::MachineCheckCorrected, "threshold interrupts"),
];

/// Reads the numbers of interrupts about machine checks, summed over CPUs.
pub(super) fn machine_checks(reader: &mut SourceReader<'_>) {
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

/// Reads the numbers of throttling events. Events of cores are summed. Each CPU of a package counts the events of the
/// package, so that the highest number counts.
pub(super) fn throttling(reader: &mut SourceReader<'_>) {
    let is_cpu = |name: &String| {
        name.strip_prefix("cpu")
            .is_some_and(|id| id.bytes().all(|b| b.is_ascii_digit()) && !id.is_empty())
    };
    let cpus: Vec<String> = reader.root.names(CPUS).into_iter().filter(is_cpu).collect();
    let files = [
        (HardwareEvent::ThermalThrottle, "core", "core_throttle_count"),
        (HardwareEvent::ThermalThrottle, "package", "package_throttle_count"),
        (HardwareEvent::PowerThrottle, "core", "core_power_limit_count"),
        (HardwareEvent::PowerThrottle, "package", "package_power_limit_count"),
    ];
    for (kind, scope, file) in files {
        let mut found: Vec<u64> = Vec::new();
        for cpu in &cpus {
            match reader.number(&format!("{CPUS}/{cpu}/thermal_throttle/{file}")) {
                Some(value) => found.push(value),
                // All CPUs have the file or none.
                None if found.is_empty() => break,
                None => {}
            }
        }
        let value = if scope == "core" {
            found.iter().sum()
        } else {
            found.iter().copied().max().unwrap_or(0)
        };
        if !found.is_empty() {
            reader.push(kind, format!("processor {scope}s"), value, None);
        }
    }
}
