//! Conditions of this node that would distort a measurement, most severe first, each with a remedy.
//!
//! Every check is based on a value that was read. A check whose file is missing or unreadable reports nothing; an
//! empty list therefore does not prove that the node has no problems. A finding states the cost of a condition only
//! if the cost was measured.

mod cpus;
mod devices;
mod errors;
mod load;
mod memory;
mod shape;

use crate::catalog::{self, ProcessorEntry};
use crate::root::SysRoot;
use crate::topology::{Topology, TopologySource};
use crate::{host, processor};
use nodegauge_measure::record::{Finding, Machine, Severity};

/// Identifier of the finding that other processes use the CPUs.
pub const OTHER_LOAD: &str = "other-load";

/// Data that the checks examine.
struct ExaminedNode<'a> {
    topology: &'a Topology,
    root: &'a SysRoot,
    machine: &'a Machine,
}

impl ExaminedNode<'_> {
    /// Returns the CPUs that this process may use, in the order of the topology.
    fn allowed(&self) -> Vec<u32> {
        self.topology.allowed_threads().map(|thread| thread.cpu.0).collect()
    }

    /// Returns the catalog entry of the processor.
    fn processor(&self) -> Option<ProcessorEntry> {
        let identity = processor::read(self.root).identity;
        catalog::find(self.machine.processor.model.as_deref(), identity.as_ref())
    }
}

/// Problem that a check has found.
#[derive(Debug, PartialEq)]
struct DetectedProblem {
    text: String,
    /// Advice, with a command to type if there is one.
    remedy: String,
    /// Severity, if it differs from the default of the check.
    severity: Option<Severity>,
    /// Cost of the condition, if it was measured.
    cost: Option<&'static str>,
}

/// Creates a finding with the check's default severity.
fn found(text: impl Into<String>, remedy: impl Into<String>) -> DetectedProblem {
    DetectedProblem { text: text.into(), remedy: remedy.into(), severity: None, cost: None }
}

/// Check: its identifier, its default severity, and its function.
type DoctorCheck = (&'static str, Severity, fn(&ExaminedNode<'_>) -> Option<DetectedProblem>);

/// Checks of the node on which the program runs. Findings of the same severity are reported in this order.
const LIVE_CHECKS: [DoctorCheck; 35] = {
    use Severity::{Critical, Info, Warning};
    [
        (OTHER_LOAD, Warning, load::other_load_problem),
        ("steal-time", Warning, load::steal_problem),
        ("cpu-quota", Critical, cpus::cpu_quota_problem),
        ("governor-not-performance", Warning, cpus::governor_problem),
        ("clock-low", Warning, cpus::low_clock_problem),
        ("clock-capped", Warning, cpus::clock_cap_problem),
        ("virtual-machine", Warning, cpus::virtual_machine_problem),
        ("cpus-restricted", Warning, cpus::restricted_cpus_problem),
        ("cpus-offline", Warning, cpus::switched_off_cpus_problem),
        ("container", Info, cpus::container_problem),
        ("turbo-off", Info, cpus::turbo_problem),
        ("smt-siblings", Info, cpus::smt_problem),
        ("cache-share", Warning, shape::resctrl_problem),
        ("memory-limit", Warning, memory::memory_limit_problem),
        ("process-memory-limit", Warning, memory::process_limit_problem),
        ("thp-never", Warning, memory::huge_pages_off_problem),
        ("swap-in-use", Info, memory::swap_problem),
        ("numa-balancing", Warning, memory::numa_balancing_problem),
        ("fragmented-memory", Warning, memory::fragmented_memory_problem),
        ("reboot-helps", Info, memory::degraded_memory_problem),
        ("dirty-pages", Warning, memory::dirty_pages_problem),
        ("channels-empty", Warning, memory::empty_channels_problem),
        ("channels-unequal", Warning, memory::unequal_channels_problem),
        ("dimm-speed-low", Info, memory::module_speed_problem),
        ("zone-reclaim", Info, memory::zone_reclaim_problem),
        ("device-memory-errors", Warning, devices::memory_errors_problem),
        ("device-far", Warning, devices::far_devices_problem),
        ("device-link", Warning, devices::link_problem),
        ("device-throttled", Warning, devices::throttled_devices_problem),
        ("device-in-use", Warning, devices::devices_in_use_problem),
        ("device-hidden", Info, devices::hidden_devices_problem),
        ("memory-grows", Info, memory::changing_memory_size_problem),
        ("no-huge-pages", Info, memory::no_reserved_pages_problem),
        ("not-root", Info, not_root),
        ("perf-restricted", Info, perf_restricted),
    ]
};

/// Checks of any machine, including machines that are only described.
const DESCRIBED_CHECKS: [DoctorCheck; 6] = {
    use Severity::{Info, Warning};
    [
        ("memory-restricted", Warning, shape::forbidden_memory_problem),
        ("core-classes", Info, shape::speed_classes_problem),
        ("no-cores", Info, shape::unknown_cores_problem),
        ("memory-side-cache", Info, shape::side_caches_problem),
        ("memory-kinds", Info, shape::memory_kinds_problem),
        ("theoretical-unknown", Info, memory::unknown_theoretical_bandwidth_problem),
    ]
};

/// Examines the node. On a live node this takes about 25 ms, during which other load is observed. For a described
/// machine, the state is unknown; only gaps in the description and unusual properties are reported.
pub fn examine(topology: &Topology, root: &SysRoot, machine: &Machine) -> Vec<Finding> {
    let node = ExaminedNode { topology, root, machine };
    let is_live = topology.source == TopologySource::Live;
    let live: &[DoctorCheck] = if is_live { &LIVE_CHECKS } else { &[] };
    let checked = live
        .iter()
        .chain(&DESCRIBED_CHECKS)
        .filter_map(|(id, severity, check)| Some((*id, *severity, check(&node)?)));
    let mut found: Vec<(&'static str, Severity, DetectedProblem)> = checked.collect();
    if is_live {
        found.extend(errors::ledger_problems(&node));
    }
    let mut findings: Vec<Finding> = found.into_iter().map(finding).collect();
    // The sort is stable, so that findings of the same severity stay in the order of the checks.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Returns the finding of a check, with the check's default severity unless the check has set another.
fn finding((id, severity, found): (&'static str, Severity, DetectedProblem)) -> Finding {
    Finding {
        id: id.to_owned(),
        severity: found.severity.unwrap_or(severity),
        text: found.text,
        remedy: found.remedy,
        cost: found.cost.map(str::to_owned),
    }
}

fn not_root(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    if host::is_root(node.root) != Some(false) {
        return None;
    }
    let modules = if node.machine.memory.dimms.is_empty() {
        "read the memory modules from firmware, "
    } else {
        ""
    };
    Some(found(
        format!("not root: cannot {modules}reserve huge pages, or drop file caches"),
        "run as root for these, e.g. with sudo; everything else works without root",
    ))
}

fn perf_restricted(node: &ExaminedNode<'_>) -> Option<DetectedProblem> {
    let level: i32 = node.root.value("proc/sys/kernel/perf_event_paranoid")?;
    (host::is_root(node.root) == Some(false) && level >= 2).then(|| {
        found(
            format!(
                "kernel.perf_event_paranoid is {level}: the counters of the memory controllers cannot be read"
            ),
            "sudo sysctl kernel.perf_event_paranoid=0",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn described_machine_has_no_state_findings() {
        let topology = Topology::load(&TopologySource::Synthetic(
            "Package:4 NUMANode:1 Core:4 PU:1".to_owned(),
        ))
        .unwrap();
        let root = SysRoot::live();
        let machine = crate::describe(&topology, &root, &crate::DescribeOptions::default());
        let ids: Vec<String> =
            examine(&topology, &root, &machine).into_iter().map(|finding| finding.id).collect();
        assert_eq!(ids, ["theoretical-unknown"]);
    }

    #[test]
    fn ids_of_checks_are_distinct() {
        let checks = LIVE_CHECKS.iter().chain(&DESCRIBED_CHECKS);
        let mut ids: Vec<&str> = checks.map(|(id, ..)| *id).collect();
        ids.extend(errors::IDS);
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), LIVE_CHECKS.len() + DESCRIBED_CHECKS.len() + errors::IDS.len());
        let plain = |id: &str| id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        assert!(ids.iter().all(|id| plain(id)), "{ids:?}");
    }
}
