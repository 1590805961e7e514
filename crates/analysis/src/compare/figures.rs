//! Figures of A or B: the value of each run, and the samples that can be compared with those of the other setting.
//! Samples of different regimes of a virtual machine are never compared.

use crate::identity::NumberedMeasurement;
use crate::ratio::{self, SideRuns};
use nodegauge_measure::Seconds;
use nodegauge_measure::Unit;
use nodegauge_measure::keys::shared;
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::{Measurement, QuotedStatistic, Status};
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::stats;
use serde::Serialize;

/// Figures of A or B for one measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideFigures {
    /// Compared value, in the unit of the measurement: the value of the run, or the geometric mean of the values of
    /// several runs.
    pub value: Option<f64>,
    /// Median of the samples, or the geometric mean of the medians of several runs; `null` without samples.
    pub median: Option<f64>,
    /// Number of samples that count, summed over all runs.
    pub samples: usize,
    /// Number of runs.
    pub runs: usize,
    /// Worst status of the figure in these runs.
    pub status: Status,
}

impl SideFigures {
    /// Returns the figures of A or B, before samples of other regimes are excluded.
    pub(super) fn from_side(side: &[NumberedMeasurement<'_>]) -> Self {
        let all = side.iter().map(|(run, m)| (*run, split_by_regime(m).swap_remove(0)));
        let status = side.iter().map(|(_, m)| m.validity.status).max().unwrap_or(Status::Valid);
        Self {
            status,
            ..RegimeSelection(all.filter(|(_, part)| part.value > 0.0).collect()).figure()
        }
    }
}

/// Compared samples of A or B: for each run its number and its samples in one regime.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RegimeSelection(pub Vec<(usize, RegimeFigures)>);

/// Compared samples of A and B.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MatchedSamples {
    pub a: RegimeSelection,
    pub b: RegimeSelection,
    /// Samples of other runs with the same settings as A, and of those with the same settings as B.
    pub similar_runs: [RegimeSelection; 2],
    /// Remark about samples that were excluded.
    pub remark: Option<String>,
}

/// Samples of one run in one regime.
#[derive(Debug, Clone, PartialEq)]
pub struct RegimeFigures {
    /// Core-to-core round trip of the regime, seconds; `None` if regimes were not monitored.
    pub round_trip: Option<f64>,
    /// Value of the figure from these samples, in its unit; NaN without a result.
    pub value: f64,
    samples: Vec<f64>,
}

impl RegimeSelection {
    /// Returns the value of each run.
    pub fn values(&self) -> Vec<f64> {
        self.0.iter().map(|(_, part)| part.value).collect()
    }

    /// Returns the number of samples of all runs.
    pub fn sample_count(&self) -> usize {
        self.0.iter().map(|(_, part)| part.samples.len()).sum()
    }

    /// Returns the figures for display, with the status `Valid`.
    pub fn figure(&self) -> SideFigures {
        let sampled = self.0.iter().map(|(_, part)| &part.samples).filter(|all| !all.is_empty());
        SideFigures {
            value: geometric_mean(&self.values()),
            median: geometric_mean(
                &sampled.clone().map(|all| stats::median(all)).collect::<Vec<_>>(),
            ),
            samples: sampled.map(Vec::len).sum(),
            runs: self.0.len(),
            status: Status::Valid,
        }
    }

    /// Converts the runs to the input for a ratio; `similar_runs` contains other runs with the same settings.
    pub fn to_side_runs(
        &self,
        similar_runs: &Self,
        quoted: QuotedStatistic,
        unit: Unit,
    ) -> SideRuns {
        let parts = self.0.iter().map(|(_, part)| part);
        let run_spread: Vec<f64> =
            parts.map(|part| ratio::spread_in_run(&part.samples, quoted, unit)).collect();
        SideRuns {
            figures: self.values(),
            similar_runs: similar_runs.values(),
            run_spread: stats::median(&run_spread),
        }
    }

    /// Returns the ratio B / A of each block A B B A in which all four runs have a figure.
    pub fn block_ratios(&self, b: &Self) -> Vec<f64> {
        let blocks = self.0.last().map_or(0, |(run, _)| run / 2 + 1);
        (0..blocks)
            .filter_map(|block| Some(b.block_figure(block)? / self.block_figure(block)?))
            .collect()
    }

    /// Returns the mean figure of the two runs of a block; `None` if one has no figure.
    fn block_figure(&self, block: usize) -> Option<f64> {
        let runs = self.0.iter().filter(|(run, _)| run / 2 == block);
        let values: Vec<f64> = runs.map(|(_, part)| part.value).collect();
        (values.len() == 2).then(|| stats::geometric_mean(&values))
    }
}

/// Returns the geometric mean; `None` without values. A single value is returned unchanged, without rounding errors of
/// logarithms.
fn geometric_mean(values: &[f64]) -> Option<f64> {
    match values {
        [] => None,
        [one] => Some(*one),
        several => Some(stats::geometric_mean(several)),
    }
}

/// Returns the range of a figure within a run: from the times that stream.c printed, if there are any, otherwise from
/// the samples. Returns `None` for fewer than two passes.
fn range_within(m: &Measurement) -> Option<[f64; 2]> {
    if let (Some(times), Some(best)) = (m.read_key::<shared::times_s>(), m.value) {
        let slowest = best * times.least.0 / times.greatest.0;
        return slowest.is_finite().then_some([slowest, best]);
    }
    let min = m.samples.iter().copied().min_by(f64::total_cmp)?;
    let greatest = m.samples.iter().copied().max_by(f64::total_cmp)?;
    (m.samples.len() > 1).then_some([min, greatest])
}

/// True if the ranges of A and B do not overlap: each pass of A is faster than each pass of B, or each is slower.
pub(super) fn ranges_are_apart(sides: [&[NumberedMeasurement<'_>]; 2]) -> bool {
    match sides.map(runs_range) {
        [Some(a), Some(b)] => a[1] < b[0] || b[1] < a[0],
        _ => false,
    }
}

/// Returns the range over the passes of all runs; `None` if a run has fewer than two passes.
fn runs_range(side: &[NumberedMeasurement<'_>]) -> Option<[f64; 2]> {
    let within: Vec<[f64; 2]> = side.iter().map(|(_, m)| range_within(m)).collect::<Option<_>>()?;
    let min = within.iter().map(|range| range[0]).min_by(f64::total_cmp)?;
    let greatest = within.iter().map(|range| range[1]).max_by(f64::total_cmp)?;
    Some([min, greatest])
}

/// True if a figure has a positive result.
fn has_result(m: &Measurement) -> bool {
    m.validity.status != Status::Invalid && m.value.is_some_and(|x| x.is_finite() && x > 0.0)
}

/// Returns the runs of A or B that have a result.
///
/// Fails with the reason if no run has a result.
pub(super) fn usable_measurements<'a>(
    name: &str,
    side: &[NumberedMeasurement<'a>],
) -> Result<Vec<NumberedMeasurement<'a>>, String> {
    let usable: Vec<NumberedMeasurement<'a>> =
        side.iter().copied().filter(|(_, m)| has_result(m)).collect();
    if usable.is_empty() {
        let why = side.iter().find_map(|(_, m)| m.validity.reasons.first());
        return Err(match why {
            Some(reason) => format!("{name} has no valid figure: {reason}"),
            None => format!("{name} has no figure"),
        });
    }
    Ok(usable)
}

/// Returns the figures of A and B, and of other runs with the same settings. If `regimes_matter` is true, all figures
/// belong to the same regime.
///
/// Fails with the reason if A and B have no common regime.
pub(super) fn match_samples(
    [a, b]: [&[NumberedMeasurement<'_>]; 2],
    similar_runs: [&[NumberedMeasurement<'_>]; 2],
    regimes_matter: bool,
) -> Result<MatchedSamples, String> {
    // If the threads of two runs were on different CPUs, equal round trips do not prove a common regime.
    let first = a.first().and_then(|(_, m)| m.read_key::<shared::places>());
    let on_the_same_cpus = a.iter().chain(b).all(|(_, m)| m.read_key::<shared::places>() == first);
    let a = parts_by_run(a);
    let b = parts_by_run(b);
    let similar_runs = similar_runs.map(parts_by_run);
    let of_a = round_trips(&a);
    let of_b = round_trips(&b);
    let watched = !of_a.is_empty() && !of_b.is_empty();
    if !regimes_matter || !watched || !on_the_same_cpus {
        let remark = (regimes_matter && !(of_a.is_empty() && of_b.is_empty())).then(|| {
            "it is unknown whether A and B ran in the same regime of the virtual machine".to_owned()
        });
        let similar_runs = similar_runs.map(|side| chosen(&side, None));
        return Ok(MatchedSamples {
            a: chosen(&a, None),
            b: chosen(&b, None),
            similar_runs,
            remark,
        });
    }
    let regimes = regime::find_regimes(&[of_a.as_slice(), of_b.as_slice()].concat());
    // The regime with the most samples of A and B is selected; in case of a tie, the one with the shortest round trips.
    let mut max: Option<(usize, &Regime)> = None;
    for regime in &regimes {
        let Some(samples) = samples_in_common(&a, &b, regime) else { continue };
        if max.is_none_or(|(best, _)| samples > best) {
            max = Some((samples, regime));
        }
    }
    let Some((_, regime)) = max else {
        return Err(format!(
            "A and B ran in different regimes of a virtual machine: core-to-core round trip {} in A, {} in B",
            Seconds(stats::median(&of_a)),
            Seconds(stats::median(&of_b))
        ));
    };
    let [chosen_a, chosen_b] = [&a, &b].map(|side| chosen(side, Some(regime)));
    let total: usize =
        a.iter().chain(&b).flat_map(|(_, parts)| parts).map(|part| part.samples.len()).sum();
    let left_out = total - chosen_a.sample_count() - chosen_b.sample_count();
    let remark = (left_out > 0).then(|| {
        let verb = number_form(left_out, "is", "are");
        format!(
            "compared in the regime with core-to-core round trips of {}; {} of other regimes {verb} left out",
            regime.in_words(),
            count_in_words(left_out, "sample")
        )
    });
    let similar_runs = similar_runs.map(|side| chosen(&side, Some(regime)));
    Ok(MatchedSamples { a: chosen_a, b: chosen_b, similar_runs, remark })
}

/// Figure of each run, split by regime, with the number of the run.
type PartsByRun = Vec<(usize, Vec<RegimeFigures>)>;

fn parts_by_run(side: &[NumberedMeasurement<'_>]) -> PartsByRun {
    side.iter().map(|(run, m)| (*run, split_by_regime(m))).collect()
}

/// Returns the known round trips of all regimes.
fn round_trips(side: &PartsByRun) -> Vec<f64> {
    side.iter().flat_map(|(_, parts)| parts).filter_map(|part| part.round_trip).collect()
}

/// Returns the number of samples in a regime on the side that has fewer; `None` if a side has no run in the regime.
fn samples_in_common(a: &PartsByRun, b: &PartsByRun, regime: &Regime) -> Option<usize> {
    let [a, b] = [a, b].map(|side| chosen(side, Some(regime)));
    let runs = a.0.len().min(b.0.len());
    (runs > 0).then_some(a.sample_count().min(b.sample_count()))
}

/// Splits the samples of a figure by regime. The first regime is that of the figure's value.
pub fn split_by_regime(m: &Measurement) -> Vec<RegimeFigures> {
    let trip = m.read_key::<shared::round_trip_s>();
    let trip = trip.filter(|seconds| regime::is_cache_line_round_trip(*seconds));
    let value = m.value.unwrap_or(f64::NAN);
    let headline = RegimeFigures { round_trip: trip, value, samples: m.samples.clone() };
    let others =
        m.regimes.iter().filter(|regime| regime.samples != m.samples).map(|regime| RegimeFigures {
            round_trip: Some(regime.round_trip_s)
                .filter(|seconds| regime::is_cache_line_round_trip(*seconds)),
            value: m.quoted.statistic(&regime.samples, m.unit).unwrap_or(f64::NAN),
            samples: regime.samples.clone(),
        });
    std::iter::once(headline).chain(others).collect()
}

/// Returns the samples of each run in `regime`; without a regime, the samples behind the figure's value. Runs without
/// such samples are left out.
fn chosen(side: &[(usize, Vec<RegimeFigures>)], regime: Option<&Regime>) -> RegimeSelection {
    let mut found = Vec::new();
    for (run, parts) in side {
        let part = parts.iter().find(|part| part.is_in_regime(regime));
        found.extend(part.map(|part| (*run, part.clone())));
    }
    RegimeSelection(found)
}

impl RegimeFigures {
    /// True if the samples belong to this regime; always true without a regime.
    fn is_in_regime(&self, regime: Option<&Regime>) -> bool {
        let Some(regime) = regime else { return true };
        self.round_trip.is_some_and(|round_trip| regime.contains(round_trip))
    }
}
