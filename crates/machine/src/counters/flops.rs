//! Floating-point operations of a program, counted by the cores.
//!
//! The counters include the calling thread and all processes and threads that it starts afterwards; the kernel adds up
//! their counts. The counters exclude the work of the kernel; therefore every user may count the operations of their
//! own programs.

use super::open::{TimedCount, USER_ONLY_INHERITED, access_denied_reason, open, read};
use super::{DEVICES, PmuEvent, TrafficDirection, event_code, table};
use crate::UnavailableReason;
use crate::host;
use crate::processor::{self, ProcessorIdentity};
use crate::root::SysRoot;
use serde::Deserialize;
use std::fs::File;
use std::io;

/// Row of the table: events that count operations on a family of processors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlopFamily {
    name: String,
    vendor: String,
    families: Vec<u32>,
    models: Vec<u32>,
    /// Names of the events, each with the number of operations per count.
    events: Vec<(String, f64)>,
}

/// Event of the cores' PMU, with the number of operations per count.
#[derive(Debug, Clone, PartialEq)]
struct WeightedEvent {
    event: PmuEvent,
    operations: f64,
}

/// Name of the PMU of the cores if all cores are of one kind.
const CORES: &str = "cpu";

/// Open counters of floating-point operations.
#[derive(Debug)]
pub struct FlopCounters {
    family: String,
    events: Vec<(WeightedEvent, File)>,
}

impl FlopCounters {
    /// Starts to count the operations of this thread and of all threads and processes that it starts afterwards.
    ///
    /// # Errors
    /// Fails if the events of this processor are unknown, or the kernel denies access. The text contains the reason and
    /// the remedy.
    pub fn start(root: &SysRoot) -> Result<Self, UnavailableReason> {
        let (family, found) = find(root)?;
        let mut events = Vec::with_capacity(found.len());
        for weighed in found {
            let file = open(&weighed.event, 0, -1, USER_ONLY_INHERITED)
                .map_err(|error| access_denied_reason(root, &weighed.event, &error))?;
            events.push((weighed, file));
        }
        Ok(Self { family, events })
    }

    /// Returns the name of the processor family.
    pub fn family(&self) -> &str {
        &self.family
    }

    /// Returns the number of operations since the start; `None` if a counter never ran.
    ///
    /// # Errors
    /// Fails if a counter cannot be read.
    pub fn operations(&self) -> io::Result<Option<f64>> {
        let counts = self.events.iter().map(|(of, file)| Ok((of.operations, read(file)?)));
        Ok(sum(&counts.collect::<io::Result<Vec<_>>>()?))
    }
}

/// Sums the operations of all events. If a counter ran only for a part of the time because the kernel multiplexed
/// it, its count is scaled to the whole time.
fn sum(counts: &[(f64, TimedCount)]) -> Option<f64> {
    let mut sum = 0.0;
    for (operations, count) in counts {
        if count.running == 0 {
            return None;
        }
        let scale = (count.enabled as f64 / count.running as f64).max(1.0);
        sum += count.value as f64 * scale * operations;
    }
    Some(sum)
}

/// Returns the events that count operations on this machine.
fn find(root: &SysRoot) -> Result<(String, Vec<WeightedEvent>), UnavailableReason> {
    let chip = processor::read(root);
    let kind: Option<u32> = root.value(&format!("{DEVICES}/{CORES}/type"));
    let Some(kind) = kind else {
        let remedy = "count the operations on another machine, and pass them with --point NAME,FLOPS,BYTES,SECONDS";
        return Err(UnavailableReason(match host::hypervisor(root, &chip) {
            Some(name) if !name.is_empty() => {
                format!("performance counters are not available in this {name} guest; {remedy}")
            }
            Some(_) => format!("performance counters are not available in this guest; {remedy}"),
            None => format!("the kernel provides no PMU `cpu` for all cores; {remedy}"),
        }));
    };
    family_events(root, kind, chip.identity.as_ref()).ok_or_else(|| {
        UnavailableReason(
            "the events that count operations on this processor are unknown".to_owned(),
        )
    })
}

/// Returns the name of the processor's family in the table and its events. `kind` is the type number of the PMU.
fn family_events(
    root: &SysRoot,
    kind: u32,
    identity: Option<&ProcessorIdentity>,
) -> Option<(String, Vec<WeightedEvent>)> {
    let family = table().flops.iter().find(|family| family.is_for(identity))?;
    let mut events = Vec::new();
    for (terms, operations) in &family.events {
        let (config, _) = event_code(root, CORES, terms, 1.0)?;
        let pmu = CORES.to_owned();
        let direction = TrafficDirection::Both;
        let event = PmuEvent { pmu, kind, config, cpu: 0, direction, bytes: 1.0 };
        events.push(WeightedEvent { event, operations: *operations });
    }
    Some((family.name.clone(), events))
}

impl FlopFamily {
    fn is_for(&self, identity: Option<&ProcessorIdentity>) -> bool {
        identity.is_some_and(|identity| {
            identity.vendor == self.vendor
                && self.families.contains(&identity.family)
                && (self.models.is_empty() || self.models.contains(&identity.model))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(f64, u64)]) -> Vec<(f64, TimedCount)> {
        let count = |value| TimedCount { value, enabled: 1, running: 1 };
        of.iter().map(|(operations, value)| (*operations, count(*value))).collect()
    }

    /// Compares the sum with published counts and results of other programs. The counters of these processors were
    /// not available for tests.
    #[test]
    fn flop_counts_match_published_results() {
        // suanPan's manual, perf stat on an i7-1185G7: "roughly 114 GFLOPS" in 39.43 s.
        let tiger_lake = counts(&[
            (1.0, 122_202_329),
            (2.0, 17_075_053),
            (4.0, 3_849_289),
            (8.0, 563_539_901_688),
        ]);
        let rate = sum(&tiger_lake).unwrap() / 39.428_329_959;
        assert!((rate / 114e9 - 1.0).abs() < 0.005, "{rate:e}");
        // likwid-perfctr -g FLOPS_DP on a Xeon Gold 6140: 515.0941 MFLOP/s in 1.4446 s.
        let skylake = counts(&[(1.0, 740_794_589), (2.0, 1_663_849), (4.0, 0)]);
        let skylake_rate = sum(&skylake).unwrap() / 1.4446;
        assert!((skylake_rate / 515.0941e6 - 1.0).abs() < 1e-4, "{skylake_rate:e}");
        // likwid-perfctr -g FLOPS_DP on an EPYC 7702, whose counter counts operations: 580.7757 MFLOP/s in 0.3444 s.
        let scalar_rate = sum(&counts(&[(1.0, 200_000_000)])).unwrap() / 0.3444;
        assert!((scalar_rate / 580.7757e6 - 1.0).abs() < 1e-3, "{scalar_rate:e}");
    }

    #[test]
    fn multiplexed_flop_counts_are_scaled() {
        let half = TimedCount { value: 100, enabled: 20, running: 10 };
        assert_eq!(sum(&[(4.0, half), (1.0, TimedCount { running: 20, ..half })]), Some(900.0));
        assert_eq!(sum(&[(4.0, half), (1.0, TimedCount { running: 0, ..half })]), None);
    }

    fn find_on(
        cpuinfo: &str,
        pmu: bool,
    ) -> Result<(String, Vec<WeightedEvent>), UnavailableReason> {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        write("proc/cpuinfo", cpuinfo);
        if pmu {
            write(&format!("{DEVICES}/cpu/type"), "4\n");
            write(&format!("{DEVICES}/cpu/format/event"), "config:0-7,32-35\n");
            write(&format!("{DEVICES}/cpu/format/umask"), "config:8-15\n");
        }
        find(&SysRoot::recorded(folder.path()))
    }

    #[test]
    fn flop_events_match_processor() {
        let chip = |vendor: &str, family: u32, model: u32, flags: &str| {
            format!(
                "vendor_id : {vendor}\ncpu family : {family}\nmodel : {model}\nmodel name : x\nstepping : 1\nflags : fpu {flags}"
            )
        };
        let reported = |cpuinfo: String| {
            let (_, events) = find_on(&cpuinfo, true).unwrap();
            events.iter().map(|of| (of.event.config[0], of.operations)).collect::<Vec<_>>()
        };
        let intel = [(0x3c7, 1.0), (0x4c7, 2.0), (0x18c7, 4.0), (0x60c7, 8.0), (0x80c7, 16.0)];
        assert_eq!(reported(chip("GenuineIntel", 6, 143, "")), intel);
        assert_eq!(reported(chip("AuthenticAMD", 25, 17, "")), [(0xf03, 1.0)]);
        assert_eq!(reported(chip("AuthenticAMD", 23, 49, "")), [(0xf03, 1.0)]);
        assert_eq!(reported(chip("AuthenticAMD", 23, 1, "")), [(0xff03, 1.0)]);
        // Haswell does not have this event; on Haswell, the number denotes another event.
        let refusal = find_on(&chip("GenuineIntel", 6, 63, ""), true).unwrap_err();
        assert_eq!(refusal.0, "the events that count operations on this processor are unknown");
        let guest = chip("GenuineIntel", 6, 143, "hypervisor");
        let guest_refusal = find_on(&guest, false).unwrap_err().0;
        assert!(
            guest_refusal.starts_with("performance counters are not available in this "),
            "{guest_refusal}"
        );
        assert_eq!(guest_refusal.lines().count(), 1);
    }
}
