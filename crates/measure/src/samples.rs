//! Classification of timed samples: decides which samples count, and assigns each sample to a regime. A sample has one
//! or several parts, e.g. the kernels of a pass, which are judged separately.
//!
//! No other code decides which samples count. The code is pure: it reads no clock and makes no system calls.

mod one_regime;

pub use one_regime::{CellSamples, SamplesByRegime};

use crate::clock;
use crate::interference::Cause;
use crate::regime::{self, Regime};
use crate::stats::{self, BetterDirection};
use std::collections::BTreeMap;

/// Minimum number of samples for statistics of a regime.
pub const MIN_SAMPLES_IN_REGIME: usize = 3;
/// Minimum share of all samples that a regime needs to provide the headline figure.
const MIN_SHARE: f64 = 0.1;
/// Share of disturbed samples above which a figure is suspect.
pub const MAX_DISTURBED_SHARE: f64 = 0.5;

/// Result of one measurement of a cell: the times of its parts, e.g. of each kernel of a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Time of each part, seconds, from the start of the first thread to the end of the last thread.
    pub seconds: Vec<f64>,
    /// Time at the end of the sample, in seconds of [`clock::since_start`]; `None` if it was not recorded.
    pub at: Option<f64>,
    /// Core-to-core round trips before and after the sample, seconds; NaN if not measured.
    pub round_trips: (f64, f64),
    /// Interference that affects all parts or cannot be attributed to one part; empty if there was none.
    pub causes: Vec<Cause>,
    /// Interference with each part; empty if parts are not monitored individually.
    pub part_causes: Vec<Vec<Cause>>,
    /// Time of each part in each of several processes, seconds; empty if a single process measures.
    pub per_process: Vec<Vec<f64>>,
}

impl Sample {
    /// Returns a sample with these times that ends now; its other fields are empty.
    pub fn from_times(seconds: Vec<f64>) -> Self {
        Self { at: Some(clock::since_start()), ..Self::without_end(seconds) }
    }

    /// Returns a sample with these times and an unknown end, e.g. for another process that does not report the end; the
    /// other fields of the sample are empty.
    pub fn without_end(seconds: Vec<f64>) -> Self {
        Self {
            seconds,
            at: None,
            round_trips: (f64::NAN, f64::NAN),
            causes: Vec::new(),
            part_causes: Vec::new(),
            per_process: Vec::new(),
        }
    }

    /// Combines consecutive samples into one, with the total time of their first parts, the end of the last, and the
    /// round trips before the first and after the last. Interference is kept if a figure of these
    /// samples would be suspect because of it.
    pub fn from_consecutive(samples: &[Self]) -> Self {
        let seconds = samples.iter().filter_map(|sample| sample.seconds.first()).sum();
        let first = samples.first().map_or(f64::NAN, |sample| sample.round_trips.0);
        let last = samples.last().map_or(f64::NAN, |sample| sample.round_trips.1);
        let disturbed: Vec<&Self> =
            samples.iter().filter(|sample| !sample.is_undisturbed()).collect();
        let at = samples.last().and_then(|sample| sample.at);
        let mut whole = Self { at, round_trips: (first, last), ..Self::without_end(vec![seconds]) };
        if disturbed.len() as f64 > MAX_DISTURBED_SHARE * samples.len() as f64 {
            let one = disturbed[0];
            let of_parts = one.part_causes.iter().flatten();
            whole.causes = one.causes.iter().chain(of_parts).cloned().collect();
        }
        whole
    }

    /// True if the time of every part is known. The time of a part is not a finite number if it could not be measured,
    /// e.g. because two threads that exchange a cache line did not run at the same time.
    fn is_measured(&self) -> bool {
        self.seconds.iter().all(|seconds| seconds.is_finite())
    }

    /// True if interference affects a part.
    fn is_disturbed_in(&self, part: usize) -> bool {
        self.part_causes(part).next().is_some()
    }

    /// Returns the interference that affects a part.
    pub fn part_causes(&self, part: usize) -> impl Iterator<Item = &Cause> {
        self.causes.iter().chain(self.part_causes.get(part).into_iter().flatten())
    }

    /// True if no interference affected any part.
    pub fn is_undisturbed(&self) -> bool {
        self.causes.is_empty() && self.part_causes.iter().all(Vec::is_empty)
    }
}

/// Result of the assignment of samples to regimes.
#[derive(Debug, Clone)]
pub struct RegimeAssignment {
    /// Samples of each regime, fastest regime first.
    pub groups: Vec<RegimeGroup>,
    /// Indices of samples that belong to no regime, with the causes: the warm-up, and samples
    /// during which the regime changed.
    pub excluded: Vec<(usize, Vec<Cause>)>,
    /// Reason why no regime could be determined; `None` if regimes were determined.
    pub unknown_regime: Option<UnknownRegime>,
}

/// Reason why the regime of the samples is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownRegime {
    /// The round trips before and after each sample belong to different regimes.
    Changed,
    /// No two round trips are similar.
    Scattered,
}

/// Samples of one regime, and which of them count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RegimeGroup {
    /// Indices of the samples of the regime, in order of time. All of them count for the best,
    /// because interference only makes a sample slower.
    pub all: Vec<usize>,
    /// For each part, indices of the samples that count for all statistics except the best: the
    /// undisturbed samples, or all if too few are undisturbed.
    pub parts: Vec<Vec<usize>>,
    /// Median core-to-core round trip, seconds; NaN if not measured.
    pub round_trip: f64,
    /// Index of the regime; `None` if no regimes were detected.
    pub regime: Option<usize>,
}

impl RegimeGroup {
    /// Creates the group of the samples with the indices `all`.
    fn new(samples: &[Sample], all: Vec<usize>, min: usize, regime: Option<usize>) -> Self {
        let part_count = samples.first().map_or(0, |sample| sample.seconds.len());
        let mut parts = Vec::with_capacity(part_count);
        for part in 0..part_count {
            let mut clean = all.clone();
            clean.retain(|i| !samples[*i].is_disturbed_in(part));
            // If almost all samples are disturbed, there is still a result, which is marked as suspect.
            parts.push(if clean.len() < min { all.clone() } else { clean });
        }
        let trips: Vec<f64> = all
            .iter()
            .flat_map(|i| [samples[*i].round_trips.0, samples[*i].round_trips.1])
            .filter(|_| regime.is_some())
            .collect();
        Self { parts, all, round_trip: stats::median(&trips), regime }
    }

    /// Returns the geometric mean of the median rates of all parts, in executions per second.
    fn speed(&self, samples: &[Sample]) -> f64 {
        let mut medians = Vec::with_capacity(self.parts.len());
        for part in 0..self.parts.len() {
            medians.push(stats::median(&self.values(samples, part, &|seconds| 1.0 / seconds)));
        }
        stats::geometric_mean(&medians)
    }

    /// Returns the indices of the samples that count for a part.
    pub fn counted_indices(&self, part: usize) -> &[usize] {
        &self.parts[part]
    }

    /// Returns the values of the samples that count for a part; `value_of` converts seconds to a value.
    pub fn values(
        &self,
        samples: &[Sample],
        part: usize,
        value_of: &dyn Fn(f64) -> f64,
    ) -> Vec<f64> {
        self.counted_indices(part).iter().map(|i| value_of(samples[*i].seconds[part])).collect()
    }

    /// Returns the best value of a part among all samples, including disturbed samples.
    pub fn best(
        &self,
        samples: &[Sample],
        part: usize,
        better: BetterDirection,
        value_of: &dyn Fn(f64) -> f64,
    ) -> f64 {
        let values = self.all.iter().map(|i| value_of(samples[*i].seconds[part]));
        match better {
            BetterDirection::Higher => values.fold(f64::NEG_INFINITY, f64::max),
            BetterDirection::Lower => values.fold(f64::INFINITY, f64::min),
        }
    }

    /// Returns the number of disturbed samples of a part. The flag is true if they count, because
    /// too few samples are undisturbed.
    pub fn disturbed_count(&self, samples: &[Sample], part: usize) -> (usize, bool) {
        let disturbed = self.all.iter().filter(|i| samples[**i].is_disturbed_in(part)).count();
        (disturbed, disturbed > 0 && self.counted_indices(part).len() == self.all.len())
    }
}

/// Parameters of [`assign_regimes_with`].
#[derive(Debug, Clone, Copy)]
pub struct RegimeAssignmentParameters<'a> {
    /// Number of samples at the beginning that belong to the warm-up.
    pub warm_up: usize,
    /// Minimum number of undisturbed samples of a part in a regime. With fewer, the disturbed
    /// samples count as well.
    pub min: usize,
    /// Regimes of the whole run; `None` to detect the regimes in the given samples.
    pub regimes: Option<&'a [Regime]>,
}

/// Assigns `samples` to regimes. The first sample is the warm-up.
pub fn assign_regimes(samples: &[Sample]) -> RegimeAssignment {
    assign_regimes_with(
        samples,
        RegimeAssignmentParameters { warm_up: 1, min: MIN_SAMPLES_IN_REGIME, regimes: None },
    )
}

/// Assigns `samples` to regimes. The first sample is the warm-up. `known` are round trips of other
/// runs between the same CPUs.
pub fn assign_regimes_with_known(samples: &[Sample], known: &[f64]) -> RegimeAssignment {
    let trips = sample_trips(samples.iter().skip(1));
    let regimes = (!known.is_empty()).then(|| regime::find_regimes_with_known(&trips, known));
    let regimes = regimes.as_deref();
    assign_regimes_with(
        samples,
        RegimeAssignmentParameters { warm_up: 1, min: MIN_SAMPLES_IN_REGIME, regimes },
    )
}

/// Returns the round trips before and after each sample, in order of the samples, seconds.
fn sample_trips<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Vec<f64> {
    let mut trips = Vec::new();
    for sample in samples {
        let (before, after) = sample.round_trips;
        trips.extend([before, after]);
    }
    trips
}

/// Assigns `samples` to regimes with these parameters. Samples without a measured time belong to no regime. They are
/// not listed as excluded either, because they have no value.
pub fn assign_regimes_with(
    samples: &[Sample],
    known: RegimeAssignmentParameters<'_>,
) -> RegimeAssignment {
    let RegimeAssignmentParameters { warm_up, min, regimes } = known;
    let warm_up = warm_up.min(samples.len());
    let mut first: Vec<usize> = (0..samples.len()).filter(|i| samples[*i].is_measured()).collect();
    let after = first.split_off(first.partition_point(|i| *i < warm_up));
    let mut excluded: Vec<(usize, Vec<Cause>)> =
        first.into_iter().map(|i| (i, vec![Cause::WarmUp])).collect();
    let warm_ups = excluded.len();
    // Interference during a pass may also affect the round trips before and after the pass.
    let measured = || after.iter().map(|i| &samples[*i]);
    let clean = sample_trips(measured().filter(|sample| sample.is_undisturbed()));
    let trips = if clean.len() < 2 * min { sample_trips(measured()) } else { clean };
    let found = regimes.map_or_else(|| regime::find_regimes(&trips), <[Regime]>::to_vec);
    // If no two round trips are similar, no regime can be determined. The samples are then pooled and suspect.
    let scattered = found.is_empty() && trips.iter().any(|trip| trip.is_finite());
    let mut groups: Vec<RegimeGroup> = if found.is_empty() {
        vec![RegimeGroup::new(samples, after.clone(), min, None)]
    } else {
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); found.len()];
        for i in after.iter().copied() {
            let (start, end) = samples[i].round_trips;
            match regime::regime_index(&found, start, end) {
                Some(regime) => groups[regime].push(i),
                None => {
                    let causes = samples[i].causes.iter().cloned();
                    excluded.push((i, causes.chain([Cause::Moved]).collect()));
                }
            }
        }
        let groups = groups.into_iter().enumerate();
        groups.map(|(at, all)| RegimeGroup::new(samples, all, min, Some(at))).collect()
    };
    groups.retain(|group| !group.all.is_empty());
    let moved = groups.is_empty() && !after.is_empty();
    if moved {
        // The regime changed during every sample. The samples of different regimes are pooled, and the result is
        // suspect.
        excluded.truncate(warm_ups);
        groups.push(RegimeGroup::new(samples, after, min, None));
    }
    groups.sort_by(|x, y| y.speed(samples).total_cmp(&x.speed(samples)));
    let changed = moved.then_some(UnknownRegime::Changed);
    RegimeAssignment {
        groups,
        excluded,
        unknown_regime: changed.or(scattered.then_some(UnknownRegime::Scattered)),
    }
}

impl RegimeAssignment {
    /// Returns the total number of samples in all regimes.
    pub fn sample_count(&self) -> usize {
        self.groups.iter().map(|group| group.all.len()).sum()
    }

    /// Returns the samples of the headline figure: all samples of the fastest regime that has
    /// enough samples. If no regime has enough, it returns the regime with the most samples.
    pub fn headline(&self) -> Option<&RegimeGroup> {
        let min = MIN_SHARE * self.sample_count() as f64;
        let mut groups = self.groups.iter();
        groups
            .find(|group| group.all.len() >= MIN_SAMPLES_IN_REGIME && group.all.len() as f64 >= min)
            .or_else(|| self.groups.iter().max_by_key(|group| group.all.len()))
    }

    /// Returns the reason why interference makes the figure of a part suspect; `None` if it does
    /// not. `group` contains the samples of the figure's regime, and `what` is [`PASS_NOUN`] or
    /// [`SAMPLE_NOUN`]. In a `guest`, the hypervisor may be the cause.
    pub fn interference_doubt(
        &self,
        samples: &[Sample],
        group: &RegimeGroup,
        part: usize,
        what: NounForms,
        guest: bool,
    ) -> Option<String> {
        let NounForms { one, several } = what;
        let (disturbed, for_lack) = group.disturbed_count(samples, part);
        if let Some(unknown_regime) = self.unknown_regime {
            let why = match (unknown_regime, guest) {
                (UnknownRegime::Changed, true) => {
                    format!("the hypervisor moved the CPUs in every {one}")
                }
                (UnknownRegime::Changed, false) => {
                    format!("the clock frequency of the cores or caches changed in every {one}")
                }
                (UnknownRegime::Scattered, _) => {
                    "no two core-to-core round trips are similar".to_owned()
                }
            };
            return Some(format!("{why}, so {several} of different regimes are pooled"));
        }
        if for_lack {
            let all = group.all.len();
            let which = what.sentence_start(disturbed, all);
            return Some(format!("{which} disturbed, so disturbed {several} are included"));
        }
        let moved = self.excluded.iter().filter(|(_, causes)| causes.contains(&Cause::Moved));
        let disturbed = disturbed + moved.count();
        let all = group.counted_indices(part).len() + disturbed;
        (disturbed as f64 > MAX_DISTURBED_SHARE * all as f64)
            .then(|| format!("{} disturbed", what.sentence_start(disturbed, all)))
    }
}

/// Noun for samples in a message, in singular and plural.
#[derive(Debug, Clone, Copy)]
pub struct NounForms {
    /// Singular form, e.g. `pass`.
    pub one: &'static str,
    /// Plural form, e.g. `passes`.
    pub several: &'static str,
}

impl NounForms {
    /// Returns a number with its noun: `1 pass`, `2 passes`.
    pub fn with_count(self, count: usize) -> String {
        format!("{count} {}", if count == 1 { self.one } else { self.several })
    }

    /// Returns a number of samples out of all, as the beginning of a sentence in the past tense: `2
    /// of 3 passes were`, `1 of 3 passes was`, `the only pass was`.
    pub fn sentence_start(self, part: usize, all: usize) -> String {
        let Self { one, several } = self;
        match (part, all) {
            (1, 1) => format!("the only {one} was"),
            (1, _) => format!("1 of {all} {several} was"),
            _ => format!("{part} of {all} {several} were"),
        }
    }
}

/// Noun for samples that are passes over the arrays.
pub const PASS_NOUN: NounForms = NounForms { one: "pass", several: "passes" };
/// Noun for samples in general.
pub const SAMPLE_NOUN: NounForms = NounForms { one: "sample", several: "samples" };

/// Returns the numbers of the clean rounds. A round contains one sample of each cell. It is clean
/// if no watched cell was disturbed and all watched cells were in the same regime. If there are
/// several regimes, only rounds of the most frequent regime are returned.
///
/// Cells that are not watched have no effect, e.g. cells with unbound threads, which may share a
/// CPU or migrate.
pub fn undisturbed_round_numbers(rounds: &[Vec<Sample>], watched: &[bool]) -> Vec<usize> {
    let mut watched_rounds: Vec<Vec<&Sample>> = Vec::with_capacity(rounds.len());
    for round in rounds {
        let of_watched = round.iter().zip(watched).filter(|(_, watched)| **watched);
        watched_rounds.push(of_watched.map(|(sample, _)| sample).collect());
    }
    let mut trips = sample_trips(watched_rounds.iter().flatten().copied());
    trips.retain(|trip| trip.is_finite());
    let regimes = regime::find_regimes(&trips);
    let mut by_regime: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, round) in watched_rounds.iter().enumerate() {
        let regime = if trips.is_empty() { Some(0) } else { common_regime(round, &regimes) };
        if let Some(regime) = regime.filter(|_| round.iter().all(|sample| sample.is_undisturbed()))
        {
            by_regime.entry(regime).or_default().push(number);
        }
    }
    by_regime.into_values().max_by_key(Vec::len).unwrap_or_default()
}

/// Returns the index of the regime to which all these samples belong; `None` if they belong to
/// different regimes or to none.
fn common_regime(samples: &[&Sample], regimes: &[Regime]) -> Option<usize> {
    let mut seen = samples.iter().map(|sample| {
        let (before, after) = sample.round_trips;
        regime::regime_index(regimes, before, after)
    });
    let first = seen.next()??;
    seen.all(|regime| regime == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests;
