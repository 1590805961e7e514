//! What really moves between caches and memory, as the memory controllers count it: which PMU of the
//! kernel counts that on this processor (pure, from its files), and reading it ([`MemoryCounters`]).
//!
//! The kernel's files say how an event is encoded, and often what one count is worth; where they do
//! not, `data/counters.toml` does, with its source. A machine that is not in it is not counted.

mod flops;
mod open;

pub use flops::FlopCounters;
pub use open::{CounterReading, CycleCounter, MemoryCounters, MemoryTraffic};

use crate::host;
use crate::processor::{self, Identity};
use crate::root::{SysRoot, list};
use serde::Deserialize;
use std::sync::OnceLock;

/// Where the kernel shows its PMUs.
const DEVICES: &str = "sys/bus/event_source/devices";

/// Which way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficDirection {
    /// From memory.
    Read,
    /// To memory.
    Write,
    /// Either; the counter does not tell.
    Both,
}

/// One event of one PMU, to be opened on one CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The PMU's name.
    pub pmu: String,
    /// The PMU's number, for `perf_event_attr.type`.
    pub kind: u32,
    /// `config`, `config1`, `config2`.
    pub config: [u64; 3],
    /// The CPU that stands for the PMU's domain.
    pub cpu: u32,
    /// What it counts.
    pub direction: TrafficDirection,
    /// Bytes a count.
    pub bytes: f64,
}

/// All events that together count the traffic of the node's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterPlan {
    /// The family of PMUs, e.g. `AMD UMC`.
    pub family: String,
    /// The events.
    pub events: Vec<Event>,
}

/// A row of the table.
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
            .expect("the embedded table parses: a test reads it")
    })
}

/// The events that count this machine's memory traffic.
///
/// # Errors
/// When the kernel shows no PMU for it, or one that is not known; in words, with what can be done.
pub(crate) fn find(root: &SysRoot) -> Result<CounterPlan, String> {
    let chip = processor::read(root);
    let pmus = root.names(DEVICES);
    for family in table().family.iter().filter(|family| family.is_for(chip.identity.as_ref())) {
        let mut events = Vec::new();
        let of_family: Vec<&String> =
            pmus.iter().filter(|pmu| is_instance(pmu, &family.pmu)).collect();
        let whole = of_family.iter().all(|pmu| match of_pmu(root, family, pmu) {
            Some(more) => {
                events.extend(more);
                true
            }
            // A controller that is not counted would make the sum too low.
            None => false,
        });
        if whole && !events.is_empty() {
            return Ok(CounterPlan { family: family.name.clone(), events });
        }
    }
    Err(absent(root, &pmus, host::hypervisor(root, &chip)))
}

/// Why there is nothing to count with.
fn absent(root: &SysRoot, pmus: &[String], hypervisor: Option<String>) -> String {
    let seen = |prefix: &str| pmus.iter().any(|pmu| pmu.starts_with(prefix));
    if let Some(hypervisor) = hypervisor {
        let name = if hypervisor.is_empty() { "virtual machine".to_owned() } else { hypervisor };
        return format!("this {name} guest is shown no counters of memory controllers");
    }
    if pmus.is_empty() {
        return "the kernel shows no performance counters".to_owned();
    }
    if table().family.iter().any(|family| seen(&family.pmu)) {
        return "the memory controllers' counters are of a kind that is not known".to_owned();
    }
    let vendor = processor::read(root).identity.map(|identity| identity.vendor);
    let remedy = match vendor.as_deref() {
        Some("GenuineIntel") => "; as root, modprobe intel_uncore; or use a newer kernel",
        Some("AuthenticAMD") => "; as root, modprobe amd_uncore; or use a newer kernel",
        _ => "",
    };
    format!("the kernel shows no counters of memory controllers{remedy}")
}

/// Whether a PMU is of this kind: `uncore_imc` or `uncore_imc_0`, not `uncore_imc_free_running_0`.
fn is_instance(pmu: &str, kind: &str) -> bool {
    pmu.strip_prefix(kind).is_some_and(|rest| {
        rest.strip_prefix('_').unwrap_or(rest).chars().all(|c| c.is_ascii_digit())
    })
}

impl CounterFamily {
    fn is_for(&self, identity: Option<&Identity>) -> bool {
        let Some(vendor) = &self.vendor else { return true };
        identity.is_some_and(|identity| {
            identity.vendor == *vendor
                && (self.families.is_empty() || self.families.contains(&identity.family))
                && (self.models.is_empty() || self.models.contains(&identity.model))
        })
    }
}

/// The events of one PMU, on each CPU that stands for one of its domains; `None` when they are not all
/// there.
fn of_pmu(root: &SysRoot, family: &CounterFamily, pmu: &str) -> Option<Vec<Event>> {
    let kind: u32 = root.value(&format!("{DEVICES}/{pmu}/type"))?;
    let cpus = list(&root.text(&format!("{DEVICES}/{pmu}/cpumask"))?)?;
    let write = family.bytes_write.unwrap_or(family.bytes);
    let wanted: Vec<(&Vec<Vec<String>>, TrafficDirection, f64)> = match family.both.is_empty() {
        true => vec![
            (&family.read, TrafficDirection::Read, family.bytes),
            (&family.write, TrafficDirection::Write, write),
        ],
        false => vec![(&family.both, TrafficDirection::Both, family.bytes)],
    };
    let mut events = Vec::new();
    for (choices, direction, bytes) in wanted {
        let there = choices.iter().find_map(|names| {
            names.iter().map(|name| encoded(root, pmu, name, bytes)).collect::<Option<Vec<_>>>()
        })?;
        for (config, bytes) in there {
            events.extend(cpus.iter().map(|cpu| Event {
                pmu: pmu.to_owned(),
                kind,
                config,
                cpu: *cpu,
                direction,
                bytes,
            }));
        }
    }
    (!events.is_empty()).then_some(events)
}

/// Encoding and bytes a count of an alias or of terms; `None` when the PMU does not have them.
fn encoded(root: &SysRoot, pmu: &str, name: &str, bytes: f64) -> Option<([u64; 3], f64)> {
    let format = |term: &str| root.text(&format!("{DEVICES}/{pmu}/format/{term}"));
    if name.contains('=') {
        return Some((encode(name, format)?, bytes));
    }
    let alias = format!("{DEVICES}/{pmu}/events/{name}");
    let config = encode(&root.text(&alias)?, format)?;
    let scale: Option<f64> = root.value(&format!("{alias}.scale"));
    let unit = root.text(&format!("{alias}.unit"));
    let bytes = match (scale, unit.as_deref()) {
        (Some(scale), Some("MiB")) => scale * f64::from(1 << 20),
        (Some(scale), Some("B" | "Bytes" | "bytes")) => scale,
        // The worth of an unknown unit is not guessed.
        (Some(_), Some(_)) => return None,
        (Some(_), None) | (None, _) => bytes,
    };
    Some((config, bytes))
}

/// The configuration words of `terms` such as `event=0x0a,rdwrmask=0x1`, as `format` places each term:
/// `config:0-7,32-35`. `None` for a term without a place or a value that does not fit it.
fn encode(terms: &str, format: impl Fn(&str) -> Option<String>) -> Option<[u64; 3]> {
    let mut config = [0u64; 3];
    for term in terms.split(',').map(str::trim).filter(|term| !term.is_empty()) {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let value = match value.trim().strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => value.trim().parse().ok()?,
        };
        // A term may name a configuration word itself.
        if let Some(word) = word_of(name) {
            config[word] |= value;
            continue;
        }
        let format = format(name)?;
        let (word, ranges) = format.trim().split_once(':')?;
        let word = word_of(word)?;
        let mut left = value;
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
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

fn word_of(name: &str) -> Option<usize> {
    ["config", "config1", "config2"].iter().position(|known| *known == name)
}

#[cfg(test)]
mod tests;
