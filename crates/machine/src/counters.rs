//! Traffic between caches and memory, as counted by the memory controllers. This module selects the PMU for the
//! processor, using only files of the kernel; [`MemoryCounters`] reads the counters.
//!
//! The kernel's files describe the encoding of an event, and often the number of bytes per count. Otherwise
//! `data/counters.toml` contains this number, with its source. Machines that are not in that table are not supported.

mod flops;
mod open;

pub use flops::FlopCounters;
pub use open::{CounterReading, CycleCounter, MemoryCounters, MemoryTraffic};

use crate::UnavailableReason;
use crate::host;
use crate::processor::{self, ProcessorIdentity};
use crate::root::{SysRoot, list};
use serde::Deserialize;
use std::sync::OnceLock;

/// Folder in which the kernel lists its PMUs.
const DEVICES: &str = "sys/bus/event_source/devices";

/// Direction of memory traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficDirection {
    /// Reads from memory.
    Read,
    /// Writes to memory.
    Write,
    /// Sum of reads and writes, for a counter that does not separate the two.
    Both,
}

/// Event of a PMU that is counted on one CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct PmuEvent {
    /// Name of the PMU.
    pub pmu: String,
    /// Type number of the PMU, for `perf_event_attr.type`.
    pub kind: u32,
    /// Values of the fields `config`, `config1` and `config2` of `perf_event_attr`.
    pub config: [u64; 3],
    /// CPU on which the kernel counts the event for a part of the machine, e.g. for the CPU's socket.
    pub cpu: u32,
    /// Direction of the counted traffic.
    pub direction: TrafficDirection,
    /// Number of bytes per count.
    pub bytes: f64,
}

/// Events that together count the memory traffic of the node.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterPlan {
    /// Family of PMUs, e.g. `AMD UMC`.
    pub family: String,
    /// Events of all controllers.
    pub events: Vec<PmuEvent>,
}

/// Row of the table of memory counters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CounterFamily {
    name: String,
    pmu: String,
    vendor: Option<String>,
    #[serde(default)]
    families: Vec<u32>,
    #[serde(default)]
    models: Vec<u32>,
    #[serde(default)]
    read: Vec<Vec<String>>,
    #[serde(default)]
    write: Vec<Vec<String>>,
    #[serde(default)]
    both: Vec<Vec<String>>,
    bytes: f64,
    bytes_write: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    family: Vec<CounterFamily>,
    flops: Vec<flops::FlopFamily>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        toml::from_str(include_str!("../data/counters.toml"))
            .expect("the embedded table is valid, as a test checks")
    })
}

/// Returns the events that count this machine's memory traffic.
///
/// # Errors
/// Fails if the kernel lists no PMU of the memory controllers, or only an unsupported one. The text contains the
/// remedy, if there is one.
pub(crate) fn find(root: &SysRoot) -> Result<CounterPlan, UnavailableReason> {
    let chip = processor::read(root);
    let pmus = root.names(DEVICES);
    for family in table().family.iter().filter(|family| family.is_for(chip.identity.as_ref())) {
        let mut events = Vec::new();
        let of_family: Vec<&String> =
            pmus.iter().filter(|pmu| is_instance(pmu, &family.pmu)).collect();
        let whole = of_family.iter().all(|pmu| match pmu_events(root, family, pmu) {
            Some(more) => {
                events.extend(more);
                true
            }
            // Without one of the controllers, the sum would be too low.
            None => false,
        });
        if whole && !events.is_empty() {
            return Ok(CounterPlan { family: family.name.clone(), events });
        }
    }
    Err(UnavailableReason(absence_reason(root, &pmus, host::hypervisor(root, &chip))))
}

/// Returns the reason why memory traffic cannot be counted.
fn absence_reason(root: &SysRoot, pmus: &[String], hypervisor: Option<String>) -> String {
    if let Some(hypervisor) = hypervisor {
        let name = if hypervisor.is_empty() { "virtual machine".to_owned() } else { hypervisor };
        return format!(
            "the counters of the memory controllers are not available in this {name} guest"
        );
    }
    if pmus.is_empty() {
        return "the kernel provides no performance counters".to_owned();
    }
    if table().family.iter().any(|family| pmus.iter().any(|pmu| pmu.starts_with(&family.pmu))) {
        return "the counters of these memory controllers are not supported".to_owned();
    }
    let vendor = processor::read(root).identity.map(|identity| identity.vendor);
    let remedy = match vendor.as_deref() {
        Some("GenuineIntel") => "; run modprobe intel_uncore as root, or use a newer kernel",
        Some("AuthenticAMD") => "; run modprobe amd_uncore as root, or use a newer kernel",
        _ => "",
    };
    format!("the kernel provides no counters of the memory controllers{remedy}")
}

/// True if a PMU is an instance of this kind. For `uncore_imc`, the instances are `uncore_imc` and `uncore_imc_0`, but
/// not `uncore_imc_free_running_0`.
fn is_instance(pmu: &str, kind: &str) -> bool {
    pmu.strip_prefix(kind).is_some_and(|rest| {
        rest.strip_prefix('_').unwrap_or(rest).chars().all(|c| c.is_ascii_digit())
    })
}

impl CounterFamily {
    fn is_for(&self, identity: Option<&ProcessorIdentity>) -> bool {
        let Some(vendor) = &self.vendor else { return true };
        identity.is_some_and(|identity| {
            identity.vendor == *vendor
                && (self.families.is_empty() || self.families.contains(&identity.family))
                && (self.models.is_empty() || self.models.contains(&identity.model))
        })
    }
}

/// Returns the events of one PMU, for each CPU on which the kernel counts a part of the machine. Returns `None` if an
/// event does not exist.
fn pmu_events(root: &SysRoot, family: &CounterFamily, pmu: &str) -> Option<Vec<PmuEvent>> {
    let kind: u32 = root.value(&format!("{DEVICES}/{pmu}/type"))?;
    let cpus = list(&root.text(&format!("{DEVICES}/{pmu}/cpumask"))?)?;
    let write = family.bytes_write.unwrap_or(family.bytes);
    let wanted: Vec<(&Vec<Vec<String>>, TrafficDirection, f64)> = if family.both.is_empty() {
        vec![
            (&family.read, TrafficDirection::Read, family.bytes),
            (&family.write, TrafficDirection::Write, write),
        ]
    } else {
        vec![(&family.both, TrafficDirection::Both, family.bytes)]
    };
    let mut events = Vec::new();
    for (choices, direction, bytes) in wanted {
        let there = choices.iter().find_map(|names| {
            names.iter().map(|name| event_code(root, pmu, name, bytes)).collect::<Option<Vec<_>>>()
        })?;
        for (config, bytes_per_count) in there {
            events.extend(cpus.iter().map(|cpu| PmuEvent {
                pmu: pmu.to_owned(),
                kind,
                config,
                cpu: *cpu,
                direction,
                bytes: bytes_per_count,
            }));
        }
    }
    (!events.is_empty()).then_some(events)
}

/// Returns the bits of the configuration that a term of the PMU's events occupies, e.g. `config:0-7`.
fn term_format(root: &SysRoot, pmu: &str, term: &str) -> Option<String> {
    root.text(&format!("{DEVICES}/{pmu}/format/{term}"))
}

/// Returns the encoding of an event and the number of bytes per count. The event is given as an alias or as terms.
/// Returns `None` if the PMU does not support the event.
fn event_code(root: &SysRoot, pmu: &str, name: &str, bytes: f64) -> Option<([u64; 3], f64)> {
    if name.contains('=') {
        return Some((encode(name, |term| term_format(root, pmu, term))?, bytes));
    }
    let alias = format!("{DEVICES}/{pmu}/events/{name}");
    let config = encode(&root.text(&alias)?, |term| term_format(root, pmu, term))?;
    let scale: Option<f64> = root.value(&format!("{alias}.scale"));
    let unit = root.text(&format!("{alias}.unit"));
    let bytes = match (scale, unit.as_deref()) {
        (Some(scale), Some("MiB")) => scale * f64::from(1 << 20),
        (Some(scale), Some("B" | "Bytes" | "bytes")) => scale,
        // A count in an unknown unit is rejected.
        (Some(_), Some(_)) => return None,
        (Some(_), None) | (None, _) => bytes,
    };
    Some((config, bytes))
}

/// Encodes `terms` such as `event=0x0a,rdwrmask=0x1` as configuration words; `format` returns the bits of each term,
/// such as `config:0-7,32-35`. Returns `None` if a term is unknown or its value does not fit.
fn encode(terms: &str, format: impl Fn(&str) -> Option<String>) -> Option<[u64; 3]> {
    let mut config = [0u64; 3];
    for term in terms.split(',').map(str::trim).filter(|term| !term.is_empty()) {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let value = match value.trim().strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => value.trim().parse().ok()?,
        };
        // A term can be the name of a configuration word.
        if let Some(word) = config_word(name) {
            config[word] |= value;
            continue;
        }
        let format = format(name)?;
        let (word, ranges) = format.trim().split_once(':')?;
        let word = config_word(word)?;
        let mut left = value;
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first: u32 = first.trim().parse().ok()?;
            let last: u32 = last.trim().parse().ok()?;
            let width = last.checked_sub(first)? + 1;
            if last > 63 {
                return None;
            }
            let mask = u64::MAX >> (64 - width);
            config[word] |= (left & mask) << first;
            left = left.checked_shr(width).unwrap_or(0);
        }
        if left != 0 {
            return None;
        }
    }
    Some(config)
}

fn config_word(name: &str) -> Option<usize> {
    ["config", "config1", "config2"].iter().position(|known| *known == name)
}

#[cfg(test)]
mod tests;
