//! A figure: a measured value with its samples, statistics, configuration and validity.

use crate::Fraction;
use crate::interference::Cause;
use crate::keys::{self, shared};
use crate::legible;
use crate::quantity::Bytes;
use crate::samples::{CellSamples, RegimeAssignment, RegimeGroup, Sample};
use crate::stats::{self, BetterDirection, Summary};
use crate::unit::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::cmp::Ordering;

/// Category of a figure, after the naming rules of the STREAM licence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Figure of the unmodified original program, e.g. STREAM.
    Standard,
    /// Figure of nodegauge's own kernels. The STREAM licence calls such a result "based on a variant of the STREAM
    /// benchmark code".
    Variant,
    /// Figure of another (reference) program.
    Reference,
    /// Figure of messages that nodegauge sends over shared memory or sockets, without MPI.
    Transport,
}

/// Statistic of the samples that is the value of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum QuotedStatistic {
    /// Best of the samples.
    #[serde(rename = "best")]
    Best,
    /// Median of the samples.
    #[default]
    #[serde(rename = "median")]
    Median,
    /// Arithmetic mean of the samples.
    #[serde(rename = "mean")]
    Mean,
    /// Harmonic mean of the samples. For rates over equal amounts of work it is the overall rate.
    #[serde(rename = "harmonic mean")]
    HarmonicMean,
    /// Geometric mean of the samples, for factors.
    #[serde(rename = "geometric mean")]
    GeometricMean,
    /// Single value without statistics: measured once, or reported by another program.
    #[serde(rename = "single")]
    Single,
}

/// Validity of a figure.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The figure is a valid result.
    Valid,
    /// The figure may be wrong, for the given reasons.
    Suspect,
    /// The figure is not a valid result, for the given reasons.
    Invalid,
}

impl Status {
    /// Returns the name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }
}

/// Validity of a figure, with reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Validity {
    /// Validity: valid, suspect or invalid.
    pub status: Status,
    /// Reasons for the status, as text; empty if the figure is valid.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Returns the validity of a valid figure.
    pub fn valid() -> Self {
        Self { status: Status::Valid, reasons: Vec::new() }
    }

    /// Adds a reason. The status changes to `status` if this is worse than the current status. The
    /// reason that last changed the status is the first in the list.
    pub fn add(&mut self, status: Status, reason: impl Into<String>) {
        // A reason may quote another program.
        let reason = legible::shorten_lines(&reason.into()).into_owned();
        if status > self.status {
            self.status = status;
            self.reasons.insert(0, reason);
        } else {
            self.reasons.push(reason);
        }
    }

    /// Adds a reason why the figure is suspect.
    pub fn mark_suspect(&mut self, reason: impl Into<String>) {
        self.add(Status::Suspect, reason);
    }

    /// Adds a reason why the figure is invalid.
    pub fn mark_invalid(&mut self, reason: impl Into<String>) {
        self.add(Status::Invalid, reason);
    }
}

/// Limit that a figure is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Value, in the unit of the measurement.
    pub value: f64,
    /// Source of the limit.
    pub basis: String,
    /// Measured value divided by the limit.
    pub fraction: Fraction,
}

/// Data that crosses the memory bus. It can be more than the bytes that the benchmark counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Value, in the unit of the measurement.
    pub value: f64,
    /// Source: `no write-allocate`, `write-allocate` or `counters`.
    pub basis: String,
}

/// Samples whose core-to-core round trips belong to one regime (docs/method.md, Regimes).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegimeSamples {
    /// Median core-to-core round trip that identifies the regime, seconds.
    pub round_trip_s: f64,
    /// Share of the samples in the regime, among all samples with a known regime, 0 to 1.
    pub share: Fraction,
    /// Statistics of the samples of the regime.
    pub summary: Summary,
    /// Samples of the regime, in order of time.
    pub samples: Vec<f64>,
}

/// A figure: a measured value with its samples, statistics, configuration and validity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Name of the gauge: `memory`, `compute`, `messages`, `files`, `apps`, ...
    pub gauge: String,
    /// Name of the test, e.g. `stream`.
    pub test: String,
    /// Name of the figure, e.g. `triad`.
    pub name: String,
    /// Unit of the value, the samples and the limit.
    pub unit: Unit,
    /// Value of the figure; `null` if there is no result.
    pub value: Option<f64>,
    /// Statistic of the samples from which `value` is computed.
    pub quoted: QuotedStatistic,
    /// Statistics of the samples that count; disturbed samples usually do not count.
    pub summary: Option<Summary>,
    /// Samples that count, in order of time. With several regimes, these are the samples of the regime that `value`
    /// describes.
    pub samples: Vec<f64>,
    /// End of each sample in `samples`, seconds since the start of the program; empty if not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_at_s: Vec<f64>,
    /// Core-to-core round trips before and after each sample in `samples`, seconds; empty if not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_round_trip_s: Vec<[Option<f64>; 2]>,
    /// Disturbed samples with their causes; the warm-up is the first.
    #[serde(default)]
    pub disturbed: Vec<DisturbedSample>,
    /// All detected regimes, fastest first; empty if there was only one or regimes were not monitored.
    #[serde(default)]
    pub regimes: Vec<RegimeSamples>,
    /// Requested and actual configuration of the measurement.
    pub config: Map<String, Value>,
    /// Data that crosses the memory bus; `null` if unknown.
    pub traffic: Option<Traffic>,
    /// Category: standard, variant, reference or transport.
    pub category: Category,
    /// Limit that the value is compared with; `null` if unknown.
    pub limit: Option<Limit>,
    /// Validity of the figure, with reasons.
    pub validity: Validity,
}

/// Sample that was disturbed, with the cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DisturbedSample {
    /// Value of the sample, in the unit of the measurement.
    pub value: f64,
    /// Cause of the interference.
    pub reason: String,
    /// Statistics in which the sample counts although it was disturbed.
    #[serde(default)]
    pub counts: SampleUse,
    /// End of the sample, seconds since the start of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<f64>,
    /// Core-to-core round trips before and after the sample, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_s: Option<[Option<f64>; 2]>,
}

/// Statistics in which a disturbed sample counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SampleUse {
    /// The sample counts in no statistic: it is the warm-up, has no known regime, or belongs to
    /// another regime than the figure.
    #[default]
    Nothing,
    /// The sample counts only for the best, because interference makes samples slower, never
    /// faster.
    Best,
    /// The sample counts in all statistics, because there are too few undisturbed samples.
    All,
}

/// Returns the round trips before and after a sample; `None` instead of NaN, as the record requires.
fn round_trips(sample: &Sample) -> [Option<f64>; 2] {
    let (before, after) = sample.round_trips;
    [before, after].map(|trip| Some(trip).filter(|trip| trip.is_finite()))
}

/// Value of `config.engine` for a figure that was published elsewhere.
pub const PUBLISHED_ENGINE: &str = "published";

impl QuotedStatistic {
    /// Returns this statistic of the samples; `None` without samples. `unit` determines whether the lowest or the
    /// highest sample is the best.
    pub fn statistic(self, samples: &[f64], unit: Unit) -> Option<f64> {
        let n = samples.len() as f64;
        let summary = Summary::from_samples(samples, unit.better())?;
        Some(match self {
            Self::Best => summary.best,
            Self::Median => summary.median,
            Self::Mean => samples.iter().sum::<f64>() / n,
            Self::HarmonicMean => n / samples.iter().map(|x| 1.0 / x).sum::<f64>(),
            Self::GeometricMean => stats::geometric_mean(samples),
            Self::Single => samples[samples.len() - 1],
        })
    }

    /// Returns the name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Median => "median",
            Self::Mean => "mean",
            Self::HarmonicMean => "harmonic mean",
            Self::GeometricMean => "geometric mean",
            Self::Single => "single",
        }
    }
}

/// Setters that build a figure, beginning with [`Measurement::new`]. [`Measurement::with_validity`]
/// must be the last setter, because it applies the rule of doubt to the samples, and removes the
/// value of an invalid figure.
impl Measurement {
    /// Compares the values of two figures of one unit; a figure without value counts as zero.
    pub fn cmp_value(&self, other: &Self) -> Ordering {
        self.value.unwrap_or(0.0).total_cmp(&other.value.unwrap_or(0.0))
    }

    /// Returns a figure without value, of category `Variant`.
    pub fn new(gauge: &str, test: &str, name: impl Into<String>, unit: Unit) -> Self {
        Self {
            gauge: gauge.to_owned(),
            test: test.to_owned(),
            name: name.into(),
            unit,
            value: None,
            quoted: QuotedStatistic::Single,
            summary: None,
            samples: Vec::new(),
            samples_at_s: Vec::new(),
            samples_round_trip_s: Vec::new(),
            disturbed: Vec::new(),
            regimes: Vec::new(),
            config: Map::new(),
            traffic: None,
            category: Category::Variant,
            limit: None,
            validity: Validity::valid(),
        }
    }

    /// Sets the category of the figure.
    pub fn with_category(mut self, category: Category) -> Self {
        self.category = category;
        self
    }

    /// Sets a value without samples.
    pub fn with_value(mut self, quoted: QuotedStatistic, value: f64) -> Self {
        self.quoted = quoted;
        self.value = Some(value);
        self
    }

    /// Sets the samples. The value becomes the statistic `quoted` of the samples.
    pub fn with_samples(mut self, quoted: QuotedStatistic, samples: Vec<f64>) -> Self {
        self.quoted = quoted;
        self.value = quoted.statistic(&samples, self.unit);
        self.summary = Summary::from_samples(&samples, self.unit.better());
        self.samples = samples;
        self
    }

    /// Sets the samples of the figure from timed passes of one regime. Each sample is the time of
    /// part number `part` of a pass; `value_of` converts it to a value. Disturbed samples and
    /// samples of other regimes are added as well. The best is chosen from all samples of the
    /// regime; the other statistics include only the samples that count.
    pub fn with_timed_samples(
        self,
        quoted: QuotedStatistic,
        cell: CellSamples<'_>,
        part: usize,
        value_of: &dyn Fn(f64) -> f64,
    ) -> Self {
        let CellSamples { samples, sorted, group } = cell;
        let mut timed = self.with_samples(quoted, group.values(samples, part, value_of));
        if let Some(summary) = &mut timed.summary {
            summary.best = group.best(samples, part, timed.unit.better(), value_of);
            timed.value = timed.value.map(|value| match quoted {
                QuotedStatistic::Best => summary.best,
                _ => value,
            });
        }
        let counted: Vec<&Sample> =
            group.counted_indices(part).iter().map(|i| &samples[*i]).collect();
        let ends: Option<Vec<f64>> = counted.iter().map(|sample| sample.at).collect();
        timed.samples_at_s = ends.unwrap_or_default();
        let trips: Vec<_> = counted.into_iter().map(round_trips).collect();
        if trips.iter().flatten().any(Option::is_some) {
            timed.samples_round_trip_s = trips;
        }
        timed.disturbed = sorted.disturbed(samples, group, part, value_of);
        timed.regimes = sorted.regimes(samples, part, timed.unit.better(), value_of);
        timed
    }

    /// Returns the disturbed samples, without the warm-up and without samples of other regimes.
    pub fn disturbed_samples(&self) -> impl Iterator<Item = &DisturbedSample> {
        let own = self.own_regime();
        let is_other =
            move |one: &DisturbedSample| own.is_some_and(|own| self.is_in_other_regime(one, own));
        self.all_disturbed_samples().filter(move |one| !is_other(one))
    }

    fn all_disturbed_samples(&self) -> impl Iterator<Item = &DisturbedSample> {
        let warm_up = Cause::WarmUp.to_string();
        self.disturbed.iter().filter(move |one| one.reason != warm_up)
    }

    /// Returns the number of samples that are not in the regime of the figure, including disturbed samples.
    pub fn other_regime_count(&self) -> usize {
        let Some(own) = self.own_regime() else { return 0 };
        let others = self.regimes.iter().enumerate().filter(|(i, _)| *i != own);
        let clean: usize = others.map(|(_, regime)| regime.samples.len()).sum();
        clean + self.all_disturbed_samples().filter(|one| self.is_in_other_regime(one, own)).count()
    }

    /// Returns the index of the figure's regime; `None` if there is only one regime.
    fn own_regime(&self) -> Option<usize> {
        self.regimes.iter().position(|regime| regime.samples == self.samples)
    }

    /// True if the round trips before and after a disturbed sample are known and belong to another
    /// regime than `own`, the figure's regime.
    fn is_in_other_regime(&self, sample: &DisturbedSample, own: usize) -> bool {
        let Some([Some(before), Some(after)]) = sample.round_trip_s else { return false };
        let trip = (before * after).sqrt();
        let distances = self.regimes.iter().map(|one| (one.round_trip_s / trip).ln().abs());
        let distances: Vec<f64> = distances.collect();
        let nearest = (0..distances.len()).min_by(|a, b| distances[*a].total_cmp(&distances[*b]));
        sample.counts == SampleUse::Nothing && nearest.is_some_and(|nearest| nearest != own)
    }

    /// Returns the undisturbed samples that count, with their indices.
    pub fn undisturbed_samples(&self) -> impl Iterator<Item = (usize, f64)> {
        self.samples.iter().copied().enumerate().filter(|(_, value)| !self.is_disturbed(*value))
    }

    /// True if a sample with this value is disturbed and counts. Such samples are contained in both
    /// the samples and the disturbed samples.
    fn is_disturbed(&self, value: f64) -> bool {
        self.disturbed.iter().any(|one| one.counts == SampleUse::All && one.value == value)
    }

    /// Sets the requested and actual configuration; replaces a configuration that was set before.
    pub fn with_config(mut self, config: &impl crate::keys::Config) -> Self {
        self.config = config.to_map();
        self
    }

    /// Returns the configuration as a struct; keys that are absent or have another type are `None`.
    pub fn read_config<C: crate::keys::Config>(&self) -> C {
        C::from_map(&self.config)
    }

    /// Returns the value of one key of the configuration; `None` if the key is absent or has another type.
    pub fn read_key<K: keys::SharedKey>(&self) -> Option<K::Value>
    where
        K::Value: serde::de::DeserializeOwned,
    {
        K::Value::deserialize(self.config.get(K::KEY.name)?).ok()
    }

    /// Returns the host that the figure describes, in a run on several hosts.
    pub fn host(&self) -> Option<&str> {
        self.config.get(<shared::host as keys::SharedKey>::KEY.name)?.as_str()
    }

    /// Sets the limit that the value is compared with, in the unit of the value. Must be called
    /// after the value was set.
    pub fn with_limit(mut self, value: f64, basis: impl Into<String>) -> Self {
        self.limit = self.value.map(|measured| Limit {
            value,
            basis: basis.into(),
            fraction: Fraction(measured / value),
        });
        self
    }

    /// Sets a theoretical figure as the limit. A figure that is marked `at_most` and is below the
    /// measured value is not set, because it is wrong.
    pub fn with_theoretical_limit(self, figure: &super::TheoreticalValue) -> Self {
        if !figure.at_most {
            return self.with_limit(figure.value, figure.basis.clone());
        }
        if self.value > Some(figure.value) {
            return self;
        }
        self.with_limit(figure.value, format!("upper bound, {}", figure.basis))
    }

    /// Sets the data that crosses the memory bus, in the unit of the measurement.
    pub fn with_traffic(mut self, traffic: Option<Traffic>) -> Self {
        self.traffic = traffic;
        self
    }

    /// Adds a reason why a complete figure is suspect or invalid; removes the value of an invalid
    /// figure.
    pub fn doubt(&mut self, status: Status, reason: impl Into<String>) {
        self.validity.add(status, reason);
        if self.validity.status == Status::Invalid {
            self.value = None;
            self.traffic = None;
        }
    }

    /// Adds the reasons of doubt that the gauge found, and applies the rule of doubt
    /// ([`super::doubt`]), which may add more reasons. Removes the value of an invalid figure.
    #[must_use]
    pub fn with_validity(mut self, found: Validity) -> Self {
        let earlier = std::mem::replace(&mut self.validity, found);
        for reason in earlier.reasons {
            if !self.validity.reasons.contains(&reason) {
                self.validity.add(earlier.status, reason);
            }
        }
        if !self.has_finite_numbers() {
            let reason = "the value or a sample is not a finite number";
            self.validity.add(Status::Invalid, reason);
            self.samples.clear();
            self.samples_at_s.clear();
            self.samples_round_trip_s.clear();
            self.disturbed.retain(|one| one.value.is_finite());
            self.summary = None;
            self.limit = None;
        }
        if self.validity.status == Status::Invalid {
            self.value = None;
            self.traffic = None;
        }
        self.apply_doubt_rule();
        self
    }

    /// True if the value and all samples can be written as JSON, which has no infinities.
    pub fn has_finite_numbers(&self) -> bool {
        let disturbed = self.disturbed.iter().map(|one| one.value);
        let numbers = self.value.into_iter().chain(disturbed);
        numbers.chain(self.samples.iter().copied()).all(f64::is_finite)
    }

    /// Marks the figure as invalid with the reason why it could not be measured.
    pub fn without_value(self, reason: impl Into<String>) -> Self {
        let mut validity = Validity::valid();
        validity.add(Status::Invalid, reason);
        self.with_validity(validity)
    }

    /// Returns the name for display. A name that is a number of bytes is displayed as a size with its unit.
    pub fn name_in_words(&self) -> String {
        let sizes = self.config.iter().filter(|(key, _)| keys::is_size(key));
        let size = sizes.filter_map(|(_, value)| value.as_u64());
        size.map(Bytes)
            .find(|size| size.0.to_string() == self.name)
            .map_or_else(|| self.name.clone(), |size| size.to_string())
    }

    /// Returns the value with its unit, for display.
    pub fn in_words(&self) -> String {
        self.value.map_or_else(|| "-".to_owned(), |value| self.unit.in_words(value))
    }

    /// True for a published figure that is shown for comparison. It is not a result of the run, and expectations ignore
    /// it.
    pub fn is_published(&self) -> bool {
        self.category == Category::Reference
            && self.read_key::<shared::engine>().as_deref() == Some(PUBLISHED_ENGINE)
    }

    /// True if the figure meets an expectation only if the expectation names the test. Otherwise,
    /// figures of messages without MPI could be mistaken for figures of an MPI library.
    pub fn needs_scope(&self) -> bool {
        self.category == Category::Transport
    }
}

impl RegimeAssignment {
    /// Returns for each regime the statistics and samples of part number `part` of the passes;
    /// empty if there is only one regime. `value` converts seconds to a value.
    pub fn regimes(
        &self,
        samples: &[Sample],
        part: usize,
        better: BetterDirection,
        value: &dyn Fn(f64) -> f64,
    ) -> Vec<RegimeSamples> {
        if self.groups.len() < 2 {
            return Vec::new();
        }
        let mut regimes = Vec::new();
        for group in &self.groups {
            let values = group.values(samples, part, value);
            let Some(mut summary) = Summary::from_samples(&values, better) else { continue };
            summary.best = group.best(samples, part, better, value);
            regimes.push(RegimeSamples {
                round_trip_s: group.round_trip,
                share: Fraction(group.all.len() as f64 / self.sample_count() as f64),
                summary,
                samples: values,
            });
        }
        regimes
    }

    /// Returns the disturbed samples of part number `part` of the passes in order of time, with
    /// their causes as text. `group` contains the samples of the figure's regime.
    fn disturbed(
        &self,
        samples: &[Sample],
        group: &RegimeGroup,
        part: usize,
        value: &dyn Fn(f64) -> f64,
    ) -> Vec<DisturbedSample> {
        let mut all: Vec<(usize, SampleUse, String)> = Vec::new();
        for (i, causes) in &self.excluded {
            all.push((*i, SampleUse::Nothing, in_words(causes)));
        }
        for other in &self.groups {
            let counts = match other.disturbed_count(samples, part) {
                _ if other != group => SampleUse::Nothing,
                (_, true) => SampleUse::All,
                (_, false) => SampleUse::Best,
            };
            for i in &other.all {
                let reason = in_words(samples[*i].part_causes(part));
                if !reason.is_empty() {
                    all.push((*i, counts, reason));
                }
            }
        }
        all.sort_by_key(|(i, ..)| *i);
        let mut disturbed = Vec::with_capacity(all.len());
        for (i, counts, reason) in all {
            let trips = round_trips(&samples[i]);
            disturbed.push(DisturbedSample {
                value: value(samples[i].seconds[part]),
                reason,
                counts,
                at_s: samples[i].at,
                round_trip_s: Some(trips).filter(|trips| trips.iter().any(Option::is_some)),
            });
        }
        disturbed
    }
}

/// Returns the causes of a disturbance as text.
fn in_words<'a>(causes: impl IntoIterator<Item = &'a Cause>) -> String {
    causes.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
