//! Checks of the ledger: hardware errors and throttling since boot.

use super::{DetectedProblem, ExaminedNode, found};
use crate::ledger::LedgerReading;
use nodegauge_measure::record::{EventCount, HardwareEvent, Ledger, Severity};

/// Identifier of the finding that memory modules had errors.
pub const MEMORY_ERRORS: &str = "memory-errors";
/// Identifier of the finding that the processor reported errors.
pub const MACHINE_CHECKS: &str = "machine-checks";
/// Identifier of the finding that the processor was too hot.
pub const THERMAL_THROTTLING: &str = "thermal-throttled";
/// Identifier of the finding that links had errors.
pub const LINK_ERRORS: &str = "pcie-errors";
/// Identifier of the finding that a link has lost lanes.
pub const NARROW_LINKS: &str = "pcie-lanes";
/// Identifier of the finding that a link runs at a low rate.
pub const SLOW_LINKS: &str = "pcie-rate";
/// Identifier of the finding that network ports had errors.
pub const NETWORK_ERRORS: &str = "network-errors";

/// Identifiers of all findings of this module.
#[cfg(test)]
pub(super) const IDS: [&str; 7] = [
    MEMORY_ERRORS,
    MACHINE_CHECKS,
    THERMAL_THROTTLING,
    LINK_ERRORS,
    NARROW_LINKS,
    SLOW_LINKS,
    NETWORK_ERRORS,
];

/// Maximum number of components named in a text.
const MAX_NAMED: usize = 4;

/// Finding about events: its identifier, its severity, the kinds of events, and the remedy.
type EventRow = (&'static str, Severity, &'static [HardwareEvent], &'static str);

const ROWS: [EventRow; 5] = {
    use HardwareEvent::{
        MachineCheck, MachineCheckCorrected, MemoryCorrected, MemoryUncorrected, Network,
        PcieCorrected, PcieFatal, PcieNonfatal, ThermalThrottle,
    };
    use Severity::{Info, Warning};
    [
        (
            MEMORY_ERRORS,
            Warning,
            &[MemoryUncorrected, MemoryCorrected],
            "replace the module if its number of errors increases; `ras-mc-ctl --errors` shows when the errors occurred",
        ),
        (
            MACHINE_CHECKS,
            Warning,
            &[MachineCheck, MachineCheckCorrected],
            "read the decoded errors: `journalctl -k --grep mce`, `ras-mc-ctl --errors`",
        ),
        (
            THERMAL_THROTTLING,
            Info,
            &[ThermalThrottle],
            "check fans, air flow and heat sinks if the number increases under load",
        ),
        (
            LINK_ERRORS,
            Info,
            &[PcieFatal, PcieNonfatal, PcieCorrected],
            "reseat the card and check its riser if the number increases; `sudo lspci -vv` shows which errors",
        ),
        (
            NETWORK_ERRORS,
            Info,
            &[Network],
            "check cable and port if the number increases, e.g. with `ibqueryerrors`",
        ),
    ]
};

/// Returns the findings of the ledger.
pub(super) fn ledger_problems(
    node: &ExaminedNode<'_>,
) -> Vec<(&'static str, Severity, DetectedProblem)> {
    let ledger = LedgerReading::read(node.root).ledger(node.root, None);
    let mut all = Vec::new();
    for (id, severity, kinds, remedy) in ROWS {
        let events: Vec<&EventCount> =
            ledger.since_boot.iter().filter(|event| kinds.contains(&event.kind)).collect();
        if events.is_empty() {
            continue;
        }
        let worst = events.iter().filter_map(|event| uncorrected_severity(event.kind)).max();
        let text = format!("since boot: {}", worst_events(&events));
        all.push((id, severity, DetectedProblem { severity: worst, ..found(text, remedy) }));
    }
    all.extend(narrow_links(node, &ledger).map(|found| (NARROW_LINKS, Severity::Warning, found)));
    // A setting of the firmware may limit the rate on purpose.
    all.extend(slow_links(node, &ledger).map(|found| (SLOW_LINKS, Severity::Info, found)));
    all
}

/// Returns the severity of events that were not corrected; `None` for other events.
fn uncorrected_severity(kind: HardwareEvent) -> Option<Severity> {
    match kind {
        HardwareEvent::MemoryUncorrected | HardwareEvent::MachineCheck => Some(Severity::Critical),
        HardwareEvent::PcieFatal | HardwareEvent::PcieNonfatal => Some(Severity::Warning),
        _ => None,
    }
}

/// Describes the worst events, ordered by severity and count, and the number of other events.
fn worst_events(events: &[&EventCount]) -> String {
    let mut sorted = events.to_vec();
    // Uncorrected errors come first; `HardwareEvent` is in the order of severity.
    sorted.sort_by_key(|event| (event.kind, std::cmp::Reverse(event.events)));
    let mut words: Vec<String> = sorted.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    if sorted.len() > MAX_NAMED {
        words.push(format!("{} more", sorted.len() - MAX_NAMED));
    }
    words.join("; ")
}

/// Reports links that have lost lanes.
fn narrow_links(node: &ExaminedNode<'_>, ledger: &Ledger) -> Option<DetectedProblem> {
    reduced(node, &ledger.narrow_links, |link| &link.address)
}

/// Reports links that run at a lower rate than both ends support.
fn slow_links(node: &ExaminedNode<'_>, ledger: &Ledger) -> Option<DetectedProblem> {
    reduced(node, &ledger.slow_links, |link| &link.address)
}

/// Reports links with reduced width or rate, except those of accelerators, which have their own check.
fn reduced<T: ToString>(
    node: &ExaminedNode<'_>,
    links: &[T],
    address_of: fn(&T) -> &String,
) -> Option<DetectedProblem> {
    let mut words = Vec::new();
    for link in links {
        let mut accelerators = node.machine.devices.iter().filter(|device| device.is_accelerator());
        if !accelerators.any(|device| device.address == *address_of(link)) {
            words.push(link.to_string());
        }
    }
    (!words.is_empty()).then(|| {
        found(
            words.join("; "),
            "reseat the card, check risers and the slot's settings in the firmware (bifurcation, rate); `sudo lspci -vv` shows LnkSta and LnkCap",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DescribeOptions, SysRoot, Topology, TopologySource, describe};

    fn found_in(tree: &str) -> Vec<(&'static str, Severity, DetectedProblem)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ledgers/");
        let root = SysRoot::recorded(format!("{folder}{tree}"));
        let source = TopologySource::Synthetic("Package:1 NUMANode:1 Core:2 PU:1".to_owned());
        let topology = Topology::load(&source).unwrap();
        let machine = describe(&topology, &root, &DescribeOptions::default());
        ledger_problems(&ExaminedNode { topology: &topology, root: &root, machine: &machine })
    }

    #[test]
    fn memory_error_finding_names_slot() {
        let all = found_in("rome-ghes");
        let [(id, severity, finding)] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((*id, *severity, finding.severity), (MEMORY_ERRORS, Severity::Warning, None));
        assert!(finding.text.starts_with("since boot: 41 corrected memory errors: P1-DIMMD1 (mc0"));
    }

    #[test]
    fn link_errors_and_lost_lanes_are_findings() {
        let all = found_in("h100-links");
        let ids: Vec<&str> = all.iter().map(|(id, ..)| *id).collect();
        assert_eq!(ids, [LINK_ERRORS, NETWORK_ERRORS, NARROW_LINKS, SLOW_LINKS]);
        let (_, _, errors) = &all[0];
        assert_eq!(errors.severity, Some(Severity::Warning));
        assert!(errors.text.starts_with("since boot: 1 uncorrected PCIe error: 0000:1d:00.0"));
        assert_eq!(all[2].2.text, "0000:1b:00.0 uses 8 of 16 PCIe lanes");
        assert_eq!(all[3].2.text, "0000:1c:00.0 runs at 8 of 16 GT/s");
    }

    #[test]
    fn zero_or_missing_counters_are_not_findings() {
        assert!(found_in("kvm-guest").is_empty());
        assert!(found_in("nonexistent").is_empty());
    }
}
