//! One figure with its evidence.

use crate::interference::Cause;
use crate::keys::{self, shared};
use crate::quantity::Bytes;
use crate::samples::{RegimeGroup, Sample, Sorted};
use crate::stats::{self, Better, Summary};
use crate::unit::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What may be called what, after the STREAM licence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// The unmodified original.
    Standard,
    /// nodegauge's own kernels: "based on a variant of the STREAM benchmark code".
    Variant,
    /// Another program's figure.
    Reference,
    /// Messages over the program's own shared memory or sockets, without MPI.
    Transport,
}

/// Which statistic of its samples a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Quoted {
    /// The best sample.
    #[serde(rename = "best")]
    Best,
    /// The median.
    #[default]
    #[serde(rename = "median")]
    Median,
    /// The arithmetic mean.
    #[serde(rename = "mean")]
    Mean,
    /// The harmonic mean: of rates over equal work, the rate of the whole.
    #[serde(rename = "harmonic mean")]
    HarmonicMean,
    /// The geometric mean, of factors.
    #[serde(rename = "geometric mean")]
    GeometricMean,
    /// A figure that is no statistic of samples: measured once, or printed by another program.
    #[serde(rename = "single")]
    Single,
}

/// Whether a figure may be believed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Yes.
    Valid,
    /// With the reasons kept in mind.
    Suspect,
    /// No: it is not a result.
    Invalid,
}

impl Status {
    /// The name, as the record has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }
}

/// Whether a figure may be believed, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Validity {
    /// The verdict.
    pub status: Status,
    /// Each reason in words; empty when valid.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Nothing against it.
    pub fn valid() -> Self {
        Self { status: Status::Valid, reasons: Vec::new() }
    }

    /// Adds a reason and lowers the verdict to `status` if it was better. The reason that decides
    /// stands first.
    pub fn add(&mut self, status: Status, reason: impl Into<String>) {
        if status > self.status {
            self.status = status;
            self.reasons.insert(0, reason.into());
        } else {
            self.reasons.push(reason.into());
        }
    }

    /// Adds a reason for doubt.
    pub fn suspect(&mut self, reason: impl Into<String>) {
        self.add(Status::Suspect, reason);
    }

    /// Adds a reason why the figure is no result.
    pub fn invalid(&mut self, reason: impl Into<String>) {
        self.add(Status::Invalid, reason);
    }
}

/// What a figure is held against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// In the measurement's unit.
    pub value: f64,
    /// Where it comes from.
    pub basis: String,
    /// Measured value over limit.
    pub fraction: f64,
}

/// Data that crosses the memory bus, as opposed to the bytes that the benchmark counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// In the measurement's unit.
    pub value: f64,
    /// `no write-allocate`, `write-allocate` or `counters`.
    pub basis: String,
}

/// Samples taken in one regime of a machine whose CPUs are moved under it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegimeSamples {
    /// Median core-to-core round trip that identifies the regime, seconds.
    pub round_trip_s: f64,
    /// Share of all clean samples that fell into this regime, 0 to 1.
    pub share: f64,
    /// Their statistics.
    pub summary: Summary,
    /// The samples, in order of time.
    pub samples: Vec<f64>,
}

/// One figure with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// `memory`, `compute`, `messages`, `files`, `apps`.
    pub gauge: String,
    /// E.g. `stream`.
    pub test: String,
    /// E.g. `triad`.
    pub name: String,
    /// The unit of value, samples and limit.
    pub unit: Unit,
    /// What the field quotes; `null` when there is no result.
    pub value: Option<f64>,
    /// Which statistic of the samples `value` is.
    pub quoted: Quoted,
    /// Statistics of the samples that count.
    pub summary: Option<Summary>,
    /// The samples that count, in order of time; with several regimes those of the headline's.
    pub samples: Vec<f64>,
    /// When each of them was over, seconds since the program began; empty where it was not noted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_at_s: Vec<f64>,
    /// Core-to-core round trip before and after each of them, seconds; empty where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_round_trip_s: Vec<[Option<f64>; 2]>,
    /// Samples that something interfered with, with the reason; the warm-up is the first.
    #[serde(default)]
    pub disturbed: Vec<Disturbed>,
    /// Every regime met, fastest first; empty when only one was seen or regimes were not watched.
    #[serde(default)]
    pub regimes: Vec<RegimeSamples>,
    /// Configuration as asked and as got.
    pub config: Map<String, Value>,
    /// What crosses the memory bus; `null` when not known.
    pub traffic: Option<Traffic>,
    /// Standard, variant or reference.
    pub category: Category,
    /// What it is held against; `null` when not known.
    pub limit: Option<Limit>,
    /// Whether it may be believed.
    pub validity: Validity,
}

/// A sample that something interfered with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbed {
    /// The sample, in the measurement's unit.
    pub value: f64,
    /// What interfered.
    pub reason: String,
    /// What it counts for all the same.
    #[serde(default)]
    pub counts: Counts,
    /// When it was over, seconds since the program began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<f64>,
    /// Core-to-core round trip before and after, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_s: Option<[Option<f64>; 2]>,
}

/// What a sample counts for that something interfered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Counts {
    /// Nothing: the warm-up, and what is of no regime or of another one than the figure.
    #[default]
    Nothing,
    /// The best alone: what interferes only makes slower.
    Best,
    /// Everything, for lack of samples that nothing interfered with: it is among them.
    All,
}

/// The round trips of a sample as the record has them.
fn round_trips((before, after): (f64, f64)) -> [Option<f64>; 2] {
    [before, after].map(|trip| Some(trip).filter(|trip| trip.is_finite()))
}

/// `config.engine` of a figure that was published elsewhere.
pub const PUBLISHED: &str = "published";

impl Quoted {
    /// This statistic of samples, of which `unit` says which end is good; `None` without samples.
    pub fn of(self, samples: &[f64], unit: Unit) -> Option<f64> {
        let n = samples.len() as f64;
        let summary = Summary::of(samples, unit.better())?;
        Some(match self {
            Self::Best => summary.best,
            Self::Median => summary.median,
            Self::Mean => samples.iter().sum::<f64>() / n,
            Self::HarmonicMean => n / samples.iter().map(|x| 1.0 / x).sum::<f64>(),
            Self::GeometricMean => stats::geometric_mean(samples),
            Self::Single => samples[samples.len() - 1],
        })
    }

    /// The name, as the record has it.
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

/// A figure is made by [`Measurement::new`] and the setters, of which [`Measurement::judged`] comes
/// last: an invalid figure has no value.
impl Measurement {
    /// A variant's figure of which nothing is known yet.
    pub fn new(gauge: &str, test: &str, name: impl Into<String>, unit: Unit) -> Self {
        Self {
            gauge: gauge.to_owned(),
            test: test.to_owned(),
            name: name.into(),
            unit,
            value: None,
            quoted: Quoted::Single,
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

    /// Whose figure it is.
    pub fn category(mut self, category: Category) -> Self {
        self.category = category;
        self
    }

    /// A value that is no statistic of samples known here.
    pub fn value(mut self, quoted: Quoted, value: f64) -> Self {
        (self.quoted, self.value) = (quoted, Some(value));
        self
    }

    /// Samples, of which the value is the statistic `quoted`.
    pub fn sampled(mut self, quoted: Quoted, samples: Vec<f64>) -> Self {
        self.quoted = quoted;
        self.value = quoted.of(&samples, self.unit);
        self.summary = Summary::of(&samples, self.unit.better());
        self.samples = samples;
        self
    }

    /// Part number `part` of timed samples of one regime, each time made a value by `value_of`; with
    /// what was disturbed and what other regimes say. The best is of all samples of the regime,
    /// everything else of those that count.
    pub fn timed(
        self,
        quoted: Quoted,
        (samples, sorted, group): (&[Sample], &Sorted, &RegimeGroup),
        part: usize,
        value_of: &dyn Fn(f64) -> f64,
    ) -> Self {
        let mut timed = self.sampled(quoted, group.values(samples, part, value_of));
        if let Some(summary) = &mut timed.summary {
            summary.best = group.best(samples, part, timed.unit.better(), value_of);
            timed.value = timed.value.map(|value| match quoted {
                Quoted::Best => summary.best,
                _ => value,
            });
        }
        let counted = || group.counted(part).iter().map(|i| &samples[*i]);
        timed.samples_at_s = counted().map(|sample| sample.at).collect();
        let trips: Vec<_> = counted().map(|sample| round_trips(sample.round_trips)).collect();
        if trips.iter().flatten().any(Option::is_some) {
            timed.samples_round_trip_s = trips;
        }
        timed.disturbed = sorted.disturbed((samples, group), part, value_of);
        timed.regimes = sorted.regimes(samples, part, timed.unit.better(), value_of);
        timed
    }

    /// The configuration, as asked and as got, in place of any before.
    pub fn config(mut self, config: &impl crate::keys::Config) -> Self {
        self.config = config.to_map();
        self
    }

    /// The configuration by its struct; keys that are absent or of another shape are `None`.
    pub fn read_config<C: crate::keys::Config>(&self) -> C {
        C::of_map(&self.config)
    }

    /// The value of one key; `None` if it is absent or of another type.
    pub fn read_key<K: keys::SharedKey>(&self) -> Option<K::Value>
    where
        K::Value: serde::de::DeserializeOwned,
    {
        K::Value::deserialize(self.config.get(K::KEY.name)?).ok()
    }

    /// What the value is held against, in its unit; the value comes before.
    pub fn limit(mut self, value: f64, basis: impl Into<String>) -> Self {
        self.limit = self.value.map(|measured| Limit {
            value,
            basis: basis.into(),
            fraction: measured / value,
        });
        self
    }

    /// Holds it against a theoretical figure. One that is known as "at most" and proves to be too low is no
    /// limit: nothing is known then.
    pub fn within(self, figure: &super::Figure) -> Self {
        match figure.at_most {
            true if self.value > Some(figure.value) => self,
            true => self.limit(figure.value, format!("at most, {}", figure.basis)),
            false => self.limit(figure.value, figure.basis.clone()),
        }
    }

    /// What crosses the memory bus, in the measurement's unit.
    pub fn traffic(mut self, traffic: Option<Traffic>) -> Self {
        self.traffic = traffic;
        self
    }

    /// Whether it may be believed; an invalid figure loses its value.
    pub fn judged(mut self, validity: Validity) -> Self {
        if validity.status == Status::Invalid {
            self.value = None;
            self.traffic = None;
        }
        self.validity = validity;
        self
    }

    /// A figure that could not be had, with the reason.
    pub fn missing(self, reason: impl Into<String>) -> Self {
        let mut validity = Validity::valid();
        validity.add(Status::Invalid, reason);
        self.judged(validity)
    }

    /// The name, for people: a size with its unit where it is one, in bytes.
    pub fn name_in_words(&self) -> String {
        let sizes = self.config.iter().filter(|(key, _)| keys::is_size(key));
        let size = sizes.filter_map(|(_, value)| value.as_u64());
        size.map(Bytes)
            .find(|size| size.0.to_string() == self.name)
            .map_or_else(|| self.name.clone(), |size| size.to_string())
    }

    /// The value with its unit, for people.
    pub fn in_words(&self) -> String {
        self.value.map_or_else(|| "-".to_owned(), |value| self.unit.in_words(value))
    }

    /// Whether it is a figure published elsewhere, shown beside those of this run: never a result of
    /// the run, and nothing that a condition on its results may meet.
    pub fn is_published(&self) -> bool {
        self.category == Category::Reference
            && self.read_key::<shared::engine>().as_deref() == Some(PUBLISHED)
    }

    /// Whether conditions must name its test to be about it: messages without an MPI never pass for an
    /// MPI's.
    pub fn needs_scope(&self) -> bool {
        self.category == Category::Transport
    }
}

impl Sorted {
    /// What each regime says of a part whose time makes `value`, when more than one was met.
    pub fn regimes(
        &self,
        samples: &[Sample],
        part: usize,
        better: Better,
        value: &dyn Fn(f64) -> f64,
    ) -> Vec<RegimeSamples> {
        if self.groups.len() < 2 {
            return Vec::new();
        }
        let of_group = |group: &RegimeGroup| {
            let values = group.values(samples, part, value);
            let mut summary = Summary::of(&values, better)?;
            summary.best = group.best(samples, part, better, value);
            Some(RegimeSamples {
                round_trip_s: group.round_trip,
                share: group.all.len() as f64 / self.in_regimes() as f64,
                summary,
                samples: values,
            })
        };
        self.groups.iter().filter_map(of_group).collect()
    }

    /// The samples of a part that something interfered with, in order of time, with the reasons in
    /// words; the figure is of the regime `group`.
    fn disturbed(
        &self,
        (samples, group): (&[Sample], &RegimeGroup),
        part: usize,
        value: &dyn Fn(f64) -> f64,
    ) -> Vec<Disturbed> {
        let words = |causes: &mut dyn Iterator<Item = &Cause>| {
            causes.map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let aside = self
            .set_aside
            .iter()
            .map(|(i, causes)| (*i, Counts::Nothing, words(&mut causes.iter())));
        let in_groups = self.groups.iter().flat_map(|other| {
            let counts = match other.disturbed(samples, part) {
                _ if other != group => Counts::Nothing,
                (_, true) => Counts::All,
                (_, false) => Counts::Best,
            };
            let reasons = other
                .all
                .iter()
                .map(move |i| (*i, counts, words(&mut samples[*i].causes_of(part))));
            reasons.filter(|(.., reason)| !reason.is_empty())
        });
        let mut all: Vec<(usize, Counts, String)> = aside.chain(in_groups).collect();
        all.sort_by_key(|(i, ..)| *i);
        let disturbed = |(i, counts, reason): (usize, Counts, String)| Disturbed {
            value: value(samples[i].seconds[part]),
            reason,
            counts,
            at_s: Some(samples[i].at),
            round_trip_s: Some(round_trips(samples[i].round_trips))
                .filter(|trips| trips.iter().any(Option::is_some)),
        };
        all.into_iter().map(disturbed).collect()
    }
}
