//! What on this node would spoil a measurement, worst first, each with what to do about it.
//!
//! Every check rests on something that was read. A check whose file is missing or unreadable makes
//! no finding, and no finding is not a clean bill: it may also mean that nothing could be seen.
//! What a finding costs is said only where it was measured.

mod cpus;
mod load;
mod memory;

use crate::root::SysRoot;
use crate::topology::{Source, Topology};
use nodegauge_measure::record::{Finding, Machine, Severity};

pub use load::{CpuTimes, Sample};

/// What the checks look at.
struct Node<'a> {
    topology: &'a Topology,
    root: &'a SysRoot,
    machine: &'a Machine,
}

/// Examines the node; takes some 25 ms on a live one, to see what else runs. A machine that is
/// only described has no state: of it, only what its description lacks is said.
pub fn examine(topology: &Topology, root: &SysRoot, machine: &Machine) -> Vec<Finding> {
    let node = Node { topology, root, machine };
    let mut findings = Vec::new();
    if matches!(topology.source, Source::Live) {
        load::examine(&node, &mut findings);
        cpus::examine(&node, &mut findings);
        memory::examine(&node, &mut findings);
        rights(&node, &mut findings);
    }
    memory::theoretical(&node, &mut findings);
    // Stable: findings of one severity stay in the order of the checks.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// A finding; `remedy` is a command to type where there is one.
fn finding(
    id: &str,
    severity: Severity,
    text: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding { id: id.to_owned(), severity, text: text.into(), remedy: remedy.into(), cost: None }
}

/// The same finding with what it costs.
fn costing(finding: Finding, cost: &str) -> Finding {
    Finding { cost: Some(cost.to_owned()), ..finding }
}

/// A share, 0 to 1, as people read it.
fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value < 9.95 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}

/// What this user may not do.
fn rights(node: &Node<'_>, findings: &mut Vec<Finding>) {
    if crate::host::is_root(node.root) != Some(false) {
        return;
    }
    let modules = if node.machine.memory.dimms.is_empty() {
        "read the memory modules from firmware, "
    } else {
        ""
    };
    findings.push(finding(
        "not-root",
        Severity::Info,
        format!("not root: cannot {modules}reserve huge pages, or drop file caches"),
        "run as root for these, e.g. with sudo; everything else works without",
    ));
    if let Some(level) = node.root.value::<i32>("proc/sys/kernel/perf_event_paranoid")
        && level >= 2
    {
        findings.push(finding(
            "perf-restricted",
            Severity::Info,
            format!(
                "kernel.perf_event_paranoid is {level}: memory controllers' counters cannot be read"
            ),
            "sudo sysctl kernel.perf_event_paranoid=0",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_printed_as_people_read_them() {
        assert_eq!(percent(0.004), "0.4 %");
        assert_eq!(percent(0.0996), "10 %");
        assert_eq!(percent(1.0), "100 %");
    }

    #[test]
    fn a_described_machine_has_no_state_to_examine() {
        let topology =
            Topology::load(&Source::Synthetic("Package:4 NUMANode:1 Core:4 PU:1".to_owned()))
                .unwrap();
        let root = SysRoot::live();
        let machine = crate::describe(&topology, &root, &crate::Options::default());
        let ids: Vec<String> =
            examine(&topology, &root, &machine).into_iter().map(|finding| finding.id).collect();
        assert_eq!(ids, ["theoretical-unknown"]);
    }
}
