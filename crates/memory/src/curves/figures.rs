//! From samples to measurements: one regime for all cells of a run, so that a regime does not become
//! a step in a curve, and every reason for doubt.

use crate::arrays::Pages;
use crate::curves::Site;
use crate::mapping::PagedMapping;
use crate::point::Sample;
use nodegauge_machine::NodeId;
use nodegauge_measure::BytesPerSec;
use nodegauge_measure::Seconds;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{
    Category, Disturbed, Finding, Limit, Measurement, Quoted, RegimeSamples, Severity, Status,
    Traffic, Validity,
};
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::samples::{self, RegimeGroup as Group, Sorted};
use nodegauge_measure::stats::{Better, Summary};
use nodegauge_placement::{MemoryPolicy, numa};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Samples of a cell that say something of a regime.
const ENOUGH: usize = 3;
/// More disturbed samples than this share make a figure suspect.
const DISTURBED_TOO_MANY: f64 = 0.5;
/// When fewer of the pages than this are of the asked size, the figure is not of those pages.
const PAGES_GOT_ENOUGH: f64 = 0.9;

/// What a figure is.
pub(crate) struct Figure {
    /// `ladder`, `latency`, ...
    pub test: &'static str,
    /// The measurement's name.
    pub name: String,
    /// `B/s` or `s`.
    pub unit: Unit,
    /// What a sample's seconds are divided into (bytes of a pass, for `B/s`), or multiplied with.
    pub amount: f64,
    /// Whether the value is the best sample, or the median.
    pub quoted: Quoted,
    /// Bytes that move over bytes that count; `None` for times.
    pub traffic: Option<(f64, &'static str)>,
    /// Whether main memory's theoretical bandwidth is its limit.
    pub limited: bool,
    /// Its configuration.
    pub config: Map<String, Value>,
    /// Doubts that are known already.
    pub validity: Validity,
}

/// Samples of all cells, sorted.
pub(crate) struct Judged {
    cells: Vec<(Vec<Sample>, Sorted)>,
    /// The regime that the run's figures are of; `None` without core-to-core latencies.
    regime: Option<Regime>,
    /// Round trips of all regimes met, fastest first.
    trips: Vec<f64>,
}

impl Judged {
    /// Sorts samples and chooses the regime in which most cells were measured; of several, the one
    /// with most samples.
    pub(crate) fn new(samples: Vec<Vec<Sample>>) -> Self {
        let cells: Vec<(Vec<Sample>, Sorted)> = samples
            .into_iter()
            .map(|samples| {
                let sorted = samples::sort(&samples);
                (samples, sorted)
            })
            .collect();
        let trips: Vec<f64> = cells
            .iter()
            .flat_map(|(samples, sorted)| {
                sorted.groups.iter().flat_map(|group| &group.passes).flat_map(|pass| {
                    let (before, after) = samples[*pass].round_trips;
                    [before, after]
                })
            })
            .collect();
        let regimes = regime::regimes(&trips);
        let in_regime = |regime: &Regime| -> (usize, usize) {
            let passes: Vec<usize> = cells
                .iter()
                .map(|(_, sorted)| {
                    let of = |group: &&Group| regime.contains(group.round_trip);
                    sorted.groups.iter().filter(of).map(|group| group.passes.len()).sum()
                })
                .collect();
            (passes.iter().filter(|n| **n >= ENOUGH).count(), passes.iter().sum())
        };
        let regime = regimes.iter().copied().max_by_key(in_regime);
        let trips = regimes.iter().map(|regime| (regime.from * regime.to).sqrt()).collect();
        Self { cells, regime, trips }
    }

    /// Samples that count of a cell: those of the run's regime, else those of the cell's own; and
    /// whether they are of the run's.
    fn group(&self, cell: usize) -> Option<(&Group, bool)> {
        let (_, sorted) = &self.cells[cell];
        let of_run = sorted
            .groups
            .iter()
            .find(|group| self.regime.is_none_or(|regime| regime.contains(group.round_trip)));
        match of_run {
            Some(group) => Some((group, true)),
            None => sorted.headline().map(|group| (group, self.regime.is_none())),
        }
    }

    /// Seconds of number `part` in each counted sample of a cell.
    pub(crate) fn seconds(&self, cell: usize, part: usize) -> Vec<f64> {
        let (samples, _) = &self.cells[cell];
        let passes = self.group(cell).map(|(group, _)| group.passes.as_slice()).unwrap_or_default();
        passes.iter().map(|pass| samples[*pass].seconds[part]).collect()
    }

    /// The measurement of number `part` of a cell; `None` for a cell without a counted sample.
    pub(crate) fn measurement(
        &self,
        cell: usize,
        part: usize,
        figure: Figure,
        site: &Site<'_>,
    ) -> Option<Measurement> {
        let (samples, sorted) = &self.cells[cell];
        let (group, of_run) = self.group(cell)?;
        let Figure { mut config, mut validity, .. } = figure;
        let rate = figure.unit == Unit::BytesPerSecond;
        let better = if rate { Better::Higher } else { Better::Lower };
        let value_of = |seconds: f64| match rate {
            true => figure.amount / seconds,
            false => figure.amount * seconds,
        };
        let of = |passes: &[usize]| -> Vec<f64> {
            passes.iter().map(|pass| value_of(samples[*pass].seconds[part])).collect()
        };
        let values = of(&group.passes);
        let summary = Summary::of(&values, better)?;
        let quoted = match figure.quoted {
            Quoted::Best => summary.best,
            _ => summary.median,
        };
        if !of_run {
            let trip = Seconds(group.round_trip);
            let reason = format!(
                "measured only while a cache line took {trip} between the cpus and back, unlike most of the run"
            );
            validity.add(Status::Suspect, reason);
        }
        let disturbed = sorted.disturbed.len().saturating_sub(1);
        let all = sorted.counted() + disturbed;
        if sorted.desperate {
            let reason = "nearly every sample was disturbed, so disturbed ones count too";
            validity.add(Status::Suspect, reason);
        } else if disturbed as f64 > DISTURBED_TOO_MANY * all as f64 {
            validity.add(Status::Suspect, format!("{disturbed} of {all} samples were disturbed"));
        }
        let theoretical = site.machine.memory.theoretical.as_ref().filter(|_| figure.limited);
        let limit = theoretical.map(|theoretical| Limit {
            value: theoretical.value,
            basis: theoretical.basis.clone(),
            fraction: quoted / theoretical.value,
        });
        if let Some(limit) = limit.as_ref().filter(|limit| limit.fraction > 1.0) {
            validity.add(
                Status::Invalid,
                format!(
                    "{} is above the theoretical {} ({}): part of the set lies in a cache, or the \
                     theoretical figure does not belong to this memory",
                    BytesPerSec(quoted),
                    BytesPerSec(limit.value),
                    limit.basis
                ),
            );
        }
        let trip = Some(group.round_trip).filter(|trip| trip.is_finite());
        config.insert("round_trip_s".to_owned(), json!(trip));
        let valid = validity.status != Status::Invalid;
        let mut regimes: Vec<RegimeSamples> = sorted
            .groups
            .iter()
            .filter_map(|group| {
                let samples = of(&group.passes);
                Some(RegimeSamples {
                    round_trip_s: group.round_trip,
                    share: group.passes.len() as f64 / sorted.counted() as f64,
                    summary: Summary::of(&samples, better)?,
                    samples,
                })
            })
            .collect();
        if regimes.len() < 2 {
            regimes.clear();
        }
        Some(Measurement {
            gauge: "memory".to_owned(),
            test: figure.test.to_owned(),
            name: figure.name,
            unit: figure.unit,
            value: valid.then_some(quoted),
            quoted: figure.quoted,
            traffic: figure
                .traffic
                .filter(|_| valid)
                .map(|(factor, basis)| Traffic { value: quoted * factor, basis: basis.to_owned() }),
            summary: Some(summary),
            samples: values,
            disturbed: sorted
                .disturbed
                .iter()
                .map(|(pass, causes)| Disturbed {
                    value: value_of(samples[*pass].seconds[part]),
                    reason: causes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
                })
                .collect(),
            regimes,
            config,
            category: Category::Variant,
            limit,
            validity,
        })
    }

    /// What the run found out about the machine: CPUs that were moved.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        if self.trips.len() < 2 {
            return Vec::new();
        }
        let trips: Vec<String> = self.trips.iter().map(|trip| Seconds(*trip).to_string()).collect();
        vec![Finding {
            id: "cpus-moved".to_owned(),
            severity: Severity::Warning,
            text: format!(
                "the cpus were moved during the run: a cache line took {} between them and back",
                trips.join(" or ")
            ),
            remedy: "compare figures of one regime only; each is in the record".to_owned(),
            cost: None,
        }]
    }
}

/// The pages of a mapping, asked and got, and a doubt when they are not what was asked.
pub(crate) fn pages(mapping: &PagedMapping) -> (Value, Validity) {
    let asked = mapping.pages_asked();
    let got: Option<BTreeMap<u64, f64>> = mapping.pages_got().ok();
    let mut validity = Validity::valid();
    if let Some(got) = &got {
        let huge: f64 = got.iter().filter(|(size, _)| **size >= 2 << 20).map(|(_, s)| s).sum();
        if asked != Pages::Base && huge < PAGES_GOT_ENOUGH {
            let reason = format!(
                "asked for {asked} pages, but only {:.0} % of the memory lies on huge pages",
                huge * 100.0
            );
            validity.add(Status::Suspect, reason);
        }
    }
    let got = got.map(|got| {
        got.into_iter().map(|(size, share)| (size.to_string(), json!(share))).collect::<Map<_, _>>()
    });
    (json!({"asked": asked.name(), "got": got}), validity)
}

/// Pages that are asked about a mapping: enough that a share of a per cent shows.
const ASKED: usize = 1000;

/// Share (0 to 1) of a mapping on each NUMA node, from a sample of its pages; `None` when the kernel
/// does not say.
pub(crate) fn node_shares(mapping: &PagedMapping) -> Option<BTreeMap<NodeId, f64>> {
    let (start, length) = mapping.range();
    let counts = numa::pages_by_node(start, length, ASKED).ok()?.nodes;
    let total: u64 = counts.values().sum();
    let share = |n: u64| n as f64 / total as f64;
    (total > 0).then(|| counts.into_iter().map(|(node, n)| (node, share(n))).collect())
}

/// Where a mapping was asked to be and where it is, as the record has it.
pub(crate) fn nodes(mapping: &PagedMapping, policy: &MemoryPolicy) -> Value {
    let got = node_shares(mapping).map(|shares| {
        shares.into_iter().map(|(node, share)| (node.to_string(), json!(share))).collect()
    });
    json!({"asked": policy.to_string(), "got": got.map(Value::Object)})
}

/// A JSON object as a map.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The CPUs of each worker, as the record has them.
pub(crate) fn places(observed: &[nodegauge_placement::display::ObservedAffinity]) -> Vec<Vec<u32>> {
    observed.iter().map(|o| o.cpus.iter().map(|cpu| cpu.0).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64, trip: f64) -> Sample {
        Sample {
            seconds: vec![seconds],
            round_trips: (trip, trip),
            causes: Vec::new(),
            each: Vec::new(),
        }
    }

    #[test]
    fn all_cells_are_of_the_regime_that_most_of_them_saw() {
        let (near, far) = (90e-9, 380e-9);
        // The first cell was faster in the far regime, which the second met only once.
        let first: Vec<Sample> = std::iter::once(sample(9.0, near))
            .chain((0..6).flat_map(|_| [sample(2.0, near), sample(1.0, far)]))
            .collect();
        let mut second = vec![sample(4.0, near); 8];
        second.push(sample(1.5, far));
        let judged = Judged::new(vec![first, second]);
        assert_eq!(judged.seconds(0, 0), [2.0; 6]);
        assert_eq!(judged.seconds(1, 0), [4.0; 7]);
        assert_eq!(judged.findings().len(), 1);
    }

    #[test]
    fn a_cell_without_the_runs_regime_still_has_its_samples() {
        let (near, far) = (90e-9, 380e-9);
        let judged = Judged::new(vec![
            vec![sample(1.0, near); 9],
            vec![sample(2.0, near); 9],
            vec![sample(3.0, far); 5],
        ]);
        assert_eq!(judged.seconds(2, 0), [3.0; 4]);
        assert!(!judged.group(2).unwrap().1 && judged.group(0).unwrap().1);
    }
}
