//! Evidence of figures of memory: the theoretical bandwidth above them, and reasons to doubt them.

use crate::{NumaConfig, RequestedPages};
use nodegauge_measure::record::{Finding, Machine, Measurement, Severity};
use nodegauge_measure::{Fraction, Seconds};
use std::collections::BTreeMap;

/// Minimum share of pages of the requested size for a figure to be valid for that size.
const PAGES_GOT_ENOUGH: f64 = 0.9;

/// Minimum share of the memory on a NUMA node for its bandwidth to count.
const TRIFLE: f64 = 0.01;

/// Compares a figure with the theoretical bandwidth of the nodes of its memory, if that is known.
pub fn limited(figure: Measurement, machine: &Machine, numa: Option<&NumaConfig>) -> Measurement {
    let got = numa.and_then(|numa| numa.got.as_ref());
    let holding = got.into_iter().flatten().filter(|(_, share)| share.0 > TRIFLE);
    let holding: Vec<u32> = holding.map(|(node, _)| *node).collect();
    match nodegauge_machine::bandwidth_of(machine, &holding) {
        Some(theoretical) => figure.within(&theoretical),
        None => figure,
    }
}

/// Reason why figures of a run with wrong values are invalid.
pub fn wrong_in_words(wrong: &impl std::fmt::Display) -> String {
    format!("the arrays do not hold what they must: {wrong}")
}

/// Reason why a figure does not represent the requested pages: too few of them; `lies` is the beginning of
/// the sentence.
pub fn small_pages(
    asked: RequestedPages,
    got: &BTreeMap<u64, Fraction>,
    lies: &str,
) -> Option<String> {
    let huge: Fraction =
        got.iter().filter(|(size, _)| **size >= 2 << 20).map(|(_, share)| *share).sum();
    (asked != RequestedPages::Base && huge.0 < PAGES_GOT_ENOUGH).then(|| {
        let huge = huge.in_whole_percent();
        format!("asked for {asked} pages, but only {huge} of the {lies} on huge pages")
    })
}

/// Finding that a run had several regimes with these round trips, with the cause where it is known: only a
/// hypervisor moves CPUs.
pub fn several_regimes(trips: &[f64], guest: bool) -> Option<Finding> {
    let words: Vec<String> = trips.iter().map(|trip| Seconds(*trip).to_string()).collect();
    let took = format!("a cache line took {} between the cpus and back", words.join(" or "));
    let (id, text, remedy) = if guest {
        (
            "cpus-moved",
            format!("the hypervisor moved the cpus during the run: {took}"),
            "compare figures of one regime only; each is in the record",
        )
    } else {
        (
            "core-to-core-changed",
            format!("during the run {took}: the clock of the caches changed, or that of the cores"),
            "fix the clocks (governor performance, uncore frequency); compare figures of one regime only",
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
