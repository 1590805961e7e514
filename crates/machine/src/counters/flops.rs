//! The floating-point operations of a program, as its cores count them.
//!
//! The counters are the calling thread's and of every process and thread that it starts from then on, which the
//! kernel adds up; they are outside the kernel, which every user may count of his own programs.

use super::open::{Count, INHERITED, open, read, refused};
use super::{DEVICES, Event, TrafficDirection, encoded, table};
use crate::host;
use crate::processor::{self, Identity};
use crate::root::SysRoot;
use serde::Deserialize;
use std::fs::File;
use std::io;

/// A row of the table: what of a family of processors counts operations.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlopFamily {
    name: String,
    vendor: String,
    families: Vec<u32>,
    models: Vec<u32>,
    /// Terms of an event, and operations a count.
    events: Vec<(String, f64)>,
}

/// An event of the cores' PMU with the operations that a count of it is.
#[derive(Debug, Clone, PartialEq)]
struct Weighed {
    event: Event,
    operations: f64,
}

/// The PMU of cores that are all alike.
const CORES: &str = "cpu";

/// Counters of operations, counting.
#[derive(Debug)]
pub struct FlopCounters {
    family: String,
    events: Vec<(Weighed, File)>,
}

impl FlopCounters {
    /// Starts to count what this thread, and what it starts from now on, computes.
    ///
    /// # Errors
    /// When the processor is not known to count operations, or the kernel refuses; the reason in words, with
    /// its remedy.
    pub fn start(root: &SysRoot) -> Result<Self, String> {
        let (family, found) = find(root)?;
        let mut events = Vec::with_capacity(found.len());
        for weighed in found {
            let file = open(&weighed.event, 0, -1, INHERITED)
                .map_err(|error| refused(root, &weighed.event, &error))?;
            events.push((weighed, file));
        }
        Ok(Self { family, events })
    }

    /// The events, in words.
    pub fn family(&self) -> &str {
        &self.family
    }

    /// Operations until now; `None` where a counter never was ours.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn operations(&self) -> io::Result<Option<f64>> {
        let counts = self.events.iter().map(|(of, file)| Ok((of.operations, read(file)?)));
        Ok(sum(&counts.collect::<io::Result<Vec<_>>>()?))
    }
}

/// Operations of counts, each scaled to the time that it should have counted where the kernel shared its counter
/// out among events.
fn sum(counts: &[(f64, Count)]) -> Option<f64> {
    let one = |(operations, count): &(f64, Count)| {
        let counted = (count.running > 0).then_some(count.running as f64)?;
        Some(count.value as f64 * (count.enabled as f64 / counted).max(1.0) * operations)
    };
    counts.iter().map(one).sum()
}

/// What counts operations on this machine.
fn find(root: &SysRoot) -> Result<(String, Vec<Weighed>), String> {
    let chip = processor::read(root);
    let kind: Option<u32> = root.value(&format!("{DEVICES}/{CORES}/type"));
    let Some(kind) = kind else {
        let remedy = "count elsewhere and give --point NAME,FLOPS,BYTES,SECONDS";
        return Err(match host::hypervisor(root, &chip) {
            Some(name) if !name.is_empty() => {
                format!("this {name} guest is shown no performance counters; {remedy}")
            }
            Some(_) => format!("this guest is shown no performance counters; {remedy}"),
            None => format!("the kernel shows no counters of cores that are all alike; {remedy}"),
        });
    };
    let unknown = || "how this processor counts operations is not known".to_owned();
    let identity = chip.identity.as_ref();
    let family = table().flops.iter().find(|family| family.is_for(identity)).ok_or_else(unknown)?;
    let weighed = |(terms, operations): &(String, f64)| {
        let (config, _) = encoded(root, CORES, terms, 1.0)?;
        let (pmu, direction) = (CORES.to_owned(), TrafficDirection::Both);
        let event = Event { pmu, kind, config, cpu: 0, direction, bytes: 1.0 };
        Some(Weighed { event, operations: *operations })
    };
    let events: Option<Vec<Weighed>> = family.events.iter().map(weighed).collect();
    Ok((family.name.clone(), events.ok_or_else(unknown)?))
}

impl FlopFamily {
    fn is_for(&self, identity: Option<&Identity>) -> bool {
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

    fn counts(of: &[(f64, u64)]) -> Vec<(f64, Count)> {
        let count = |value| Count { value, enabled: 1, running: 1 };
        of.iter().map(|(operations, value)| (*operations, count(*value))).collect()
    }

    /// What other programs counted and made of it, on processors that they name: no such counters were at
    /// hand.
    #[test]
    fn counts_of_known_processors_are_the_operations_that_were_said() {
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
        let rate = sum(&skylake).unwrap() / 1.4446;
        assert!((rate / 515.0941e6 - 1.0).abs() < 1e-4, "{rate:e}");
        // The same on an EPYC 7702, whose counter counts operations: 580.7757 MFLOP/s in 0.3444 s.
        let rate = sum(&counts(&[(1.0, 200_000_000)])).unwrap() / 0.3444;
        assert!((rate / 580.7757e6 - 1.0).abs() < 1e-3, "{rate:e}");
    }

    #[test]
    fn counters_that_share_time_are_scaled_and_one_that_never_counted_is_none() {
        let half = Count { value: 100, enabled: 20, running: 10 };
        assert_eq!(sum(&[(4.0, half), (1.0, Count { running: 20, ..half })]), Some(900.0));
        assert_eq!(sum(&[(4.0, half), (1.0, Count { running: 0, ..half })]), None);
    }

    fn on(cpuinfo: &str, pmu: bool) -> Result<(String, Vec<Weighed>), String> {
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
    fn events_are_those_of_the_processor() {
        let chip = |vendor: &str, family: u32, model: u32, flags: &str| {
            format!(
                "vendor_id : {vendor}\ncpu family : {family}\nmodel : {model}\nmodel name : x\nstepping : 1\nflags : fpu {flags}"
            )
        };
        let told = |cpuinfo: String| {
            let (_, events) = on(&cpuinfo, true).unwrap();
            events.iter().map(|of| (of.event.config[0], of.operations)).collect::<Vec<_>>()
        };
        let intel = [(0x3c7, 1.0), (0x4c7, 2.0), (0x18c7, 4.0), (0x60c7, 8.0), (0x80c7, 16.0)];
        assert_eq!(told(chip("GenuineIntel", 6, 143, "")), intel);
        assert_eq!(told(chip("AuthenticAMD", 25, 17, "")), [(0xf03, 1.0)]);
        assert_eq!(told(chip("AuthenticAMD", 23, 49, "")), [(0xf03, 1.0)]);
        assert_eq!(told(chip("AuthenticAMD", 23, 1, "")), [(0xff03, 1.0)]);
        // Haswell has no such event, and another stands under its number.
        let refusal = on(&chip("GenuineIntel", 6, 63, ""), true).unwrap_err();
        assert_eq!(refusal, "how this processor counts operations is not known");
        let refusal = on(&chip("GenuineIntel", 6, 143, "hypervisor"), false).unwrap_err();
        assert!(refusal.contains("guest is shown no performance counters; count"), "{refusal}");
        assert_eq!(refusal.lines().count(), 1);
    }
}
