//! Evidence for figures of memory: comparison with the theoretical bandwidth, and reasons for doubt.

use crate::{NumaConfig, RequestedPages};
use nodegauge_measure::record::{Finding, Machine, Measurement, Severity};
use nodegauge_measure::{Fraction, Seconds};
use std::collections::BTreeMap;

/// Minimum share of the memory on pages of the requested size. With a smaller share, a figure is not valid for that
/// page size.
const MIN_PAGES_GOT_SHARE: f64 = 0.9;

/// Minimum share of the memory that must be on a NUMA node for the bandwidth of this NUMA node to be part of the limit.
const MIN_NODE_SHARE: f64 = 0.01;

/// Sets the theoretical bandwidth of the NUMA nodes that contain the memory as the limit of a figure, if it is
/// known.
pub fn add_memory_limit(
    figure: Measurement,
    machine: &Machine,
    numa: Option<&NumaConfig>,
) -> Measurement {
    let got = numa.and_then(|numa| numa.got.as_ref());
    let holding = got.into_iter().flatten().filter(|(_, share)| share.0 > MIN_NODE_SHARE);
    let holding: Vec<u32> = holding.map(|(node, _)| *node).collect();
    match nodegauge_machine::node_bandwidth(machine, &holding) {
        Some(theoretical) => figure.with_theoretical_limit(&theoretical),
        None => figure,
    }
}

/// Returns the reason why figures are invalid if arrays contain a wrong value.
pub fn wrong_values_reason(wrong: &impl std::fmt::Display) -> String {
    format!("wrong values in the arrays: {wrong}")
}

/// Returns the reason why a figure is not valid for the requested kind of pages; `None` if enough of the memory is
/// on such pages. `memory` is the word for the memory in the message, e.g. `arrays`.
pub fn page_size_reason(
    asked: RequestedPages,
    got: &BTreeMap<u64, Fraction>,
    memory: &str,
) -> Option<String> {
    let huge: Fraction =
        got.iter().filter(|(size, _)| **size >= 2 << 20).map(|(_, share)| *share).sum();
    (asked != RequestedPages::Base && huge.0 < MIN_PAGES_GOT_SHARE).then(|| {
        let huge = huge.in_whole_percent();
        format!("{asked} pages requested, but huge pages contain only {huge} of the {memory}")
    })
}

/// Returns a finding if the run had several regimes, whose core-to-core round trips in seconds are `trips`. In a guest,
/// the cause is the hypervisor; on bare metal, a change of clock frequencies.
pub fn regime_finding(trips: &[f64], guest: bool) -> Option<Finding> {
    let words: Vec<String> = trips.iter().map(|trip| Seconds(*trip).to_string()).collect();
    let took = format!("core-to-core round trip of {}", words.join(" or "));
    let (id, text, remedy) = if guest {
        (
            "cpus-moved",
            format!("the hypervisor moved the CPUs during the run: {took}"),
            "compare only figures of the same regime; the record contains the figures of each regime",
        )
    } else {
        (
            "core-to-core-changed",
            format!(
                "{took} during the run: the clock frequency of the caches or of the cores changed"
            ),
            "fix the clock frequencies (governor performance, uncore frequency), or compare only \
             figures of the same regime",
        )
    };
    let finding = Finding {
        id: id.to_owned(),
        severity: Severity::Warning,
        text,
        remedy: remedy.to_owned(),
        cost: None,
    };
    (trips.len() > 1).then_some(finding)
}
