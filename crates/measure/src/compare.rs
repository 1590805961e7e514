//! Two settings side by side: for each measurement that both have the ratio, its confidence interval
//! and a verdict, and before that what differs between the settings. Pure: records in, a
//! [`Comparison`] out.
//!
//! A side is one run, or several runs of the same setting that are pooled. What is not the same
//! thing (another size, type of element, category or regime of a virtual machine) is not compared,
//! and why is said. The arithmetic of ratios is in [`crate::ratio`].

mod figures;
mod pairing;
mod settings;
mod table;
pub mod threshold;

pub use figures::Figure;
pub use settings::{Difference, machine_changes};
pub use threshold::Threshold;

use crate::expect;
use crate::keys::{self, Registry, Role};
use crate::ratio::{self, NoInterval, Statistic};
use crate::record::{Measurement, Record, SCHEMA};
use crate::stats::Better;
use crate::{Bytes, Unit};
use figures::{Chosen, Matched};
use pairing::Point;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One of the two settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// What the user called it: an identifier, `latest`, a label, a file.
    pub asked: String,
    /// Its runs.
    pub runs: Vec<Record>,
}

/// What is said of a pair of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// B is better than A by more than noise.
    Faster,
    /// B is worse than A by more than noise.
    Slower,
    /// B is more than A, of a unit of which nobody can say whether more is better.
    Higher,
    /// B is less than A, of such a unit.
    Lower,
    /// The interval of the ratio holds 1.
    #[serde(rename = "within noise")]
    WithinNoise,
    /// There are too few samples for an interval.
    #[serde(rename = "no confidence")]
    NoConfidence,
    /// The two are not of the same thing.
    #[serde(rename = "not comparable")]
    NotComparable,
}

impl Verdict {
    /// In words, as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::WithinNoise => "within noise",
            Self::NoConfidence => "no confidence",
            Self::NotComparable => "not comparable",
        }
    }
}

/// The same measurement on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// The gauge.
    pub gauge: String,
    /// The test.
    pub test: String,
    /// The name.
    pub name: String,
    /// The unit of the figures.
    pub unit: Unit,
    /// What tells it from others of this name: message bytes, threads.
    pub at: Map<String, Value>,
    /// The same in words, behind the name: ` 8 B`, `, threads 4`.
    #[serde(skip)]
    place: String,
    /// Message, block or array size, where it has one.
    #[serde(skip)]
    pub size: Option<Bytes>,
    /// The figures of A.
    pub a: Figure,
    /// The figures of B.
    pub b: Figure,
    /// Of what of the samples: `best`, `median` or `mean`, which is what the field quotes of them;
    /// `quoted` of figures without samples.
    pub statistic: &'static str,
    /// B over A; `null` when they are not comparable.
    pub ratio: Option<f64>,
    /// 95 % confidence interval of the ratio.
    pub ci95: Option<[f64; 2]>,
    /// Median of B over median of A; `null` without samples or when they are not comparable.
    pub median_ratio: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
    /// Why it is not comparable or not certain, and what to keep in mind.
    pub reasons: Vec<String>,
}

/// A run of a side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Its identifier.
    pub id: String,
    /// When it started.
    pub started: String,
    /// Where.
    pub host: Option<String>,
    /// Whether all was measured.
    pub complete: bool,
}

/// A side in the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Runners {
    /// What the user called it.
    pub asked: String,
    /// Its runs.
    pub runs: Vec<Run>,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The first side, which is 1.
    pub a: Runners,
    /// The second side.
    pub b: Runners,
    /// What differs between the settings.
    pub differences: Vec<Difference>,
    /// What was measured on both sides, in the order of A.
    pub pairs: Vec<Pair>,
    /// What was measured on A alone.
    pub only_a: Vec<String>,
    /// What was measured on B alone.
    pub only_b: Vec<String>,
    /// What to keep in mind of all of it.
    pub notices: Vec<String>,
}

/// Compares two settings.
pub fn compare(a: &Side, b: &Side, registry: &Registry) -> Comparison {
    let (points, others) = pairing::pair(&a.runs, &b.runs, registry);
    let differences = settings::differences(&a.runs, &b.runs, &points, registry);
    Comparison {
        schema: SCHEMA,
        pairs: {
            let watched = regimes_matter(a, b);
            points.iter().map(|point| judge(point, watched, registry)).collect()
        },
        differences,
        only_a: others.0,
        only_b: others.1,
        notices: notices(a, b),
        a: runners(a),
        b: runners(b),
    }
}

fn runners(side: &Side) -> Runners {
    let run = |record: &Record| Run {
        id: record.id.clone(),
        started: record.started.clone(),
        host: record.machine.host.clone(),
        complete: record.complete,
    };
    Runners { asked: side.asked.clone(), runs: side.runs.iter().map(run).collect() }
}

fn notices(a: &Side, b: &Side) -> Vec<String> {
    let mut notices = Vec::new();
    let shared = a.runs.iter().filter(|run| b.runs.iter().any(|other| other.id == run.id)).count();
    match (shared, a.runs.len() == b.runs.len() && shared == a.runs.len()) {
        (0, _) => {}
        (_, true) => notices.push("both sides are the same".to_owned()),
        (n, false) => notices.push(format!("{n} of the runs are on both sides")),
    }
    for (name, side) in [("A", a), ("B", b)] {
        let cut = side.runs.iter().filter(|run| !run.complete).count();
        if cut > 0 {
            notices.push(format!("{cut} of the runs of {name} were interrupted"));
        }
    }
    notices
}

/// Whether round trips from core to core tell regimes apart: of virtual machines on processors of one
/// model. On bare metal bound threads stay where they are, and round trips differ with the setting.
fn regimes_matter(a: &Side, b: &Side) -> bool {
    let mut all = a.runs.iter().chain(&b.runs).map(|run| &run.machine);
    let model = all.clone().next().and_then(|machine| machine.processor.model.as_ref());
    all.all(|machine| machine.virtualisation.is_some() && machine.processor.model.as_ref() == model)
}

/// The verdict on a measurement that both sides have.
fn judge(point: &Point<'_>, regimes_matter: bool, registry: &Registry) -> Pair {
    let first = point.a[0];
    let mut pair = Pair {
        gauge: first.gauge.clone(),
        test: first.test.clone(),
        name: first.name.clone(),
        unit: first.unit,
        place: point.place.clone(),
        at: point.at.clone(),
        size: expect::size_of(first),
        a: Figure::of(&point.a),
        b: Figure::of(&point.b),
        statistic: QUOTED,
        ratio: None,
        ci95: None,
        median_ratio: None,
        verdict: Verdict::NotComparable,
        reasons: obstacles(point, registry),
    };
    if !pair.reasons.is_empty() {
        return pair;
    }
    let Matched { a, b, remark } = match figures::matched(&point.a, &point.b, regimes_matter) {
        Ok(matched) => matched,
        Err(reason) => {
            pair.reasons.push(reason);
            return pair;
        }
    };
    pair.reasons.extend(remark);
    for (name, side) in [("A", &point.a), ("B", &point.b)] {
        pair.reasons.extend(figures::doubts(name, side));
    }
    settle(&mut pair, figures::statistic(first), a, b);
    pair
}

/// The name of a figure that comes without samples.
const QUOTED: &str = "quoted";

/// Ratio, interval and verdict from samples, or from what is quoted where there are none.
fn settle(pair: &mut Pair, statistic: Statistic, a: Chosen, b: Chosen) {
    let interval = ratio::ci95(&a.runs, &b.runs, statistic);
    let sampled = interval != Err(NoInterval::NoSamples);
    pair.a.take(&a, sampled.then_some(statistic));
    pair.b.take(&b, sampled.then_some(statistic));
    let over = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| b / a);
    pair.ratio = over(pair.a.value, pair.b.value).filter(|ratio| ratio.is_finite());
    pair.verdict = Verdict::NoConfidence;
    if sampled {
        pair.statistic = figures::name(statistic);
        pair.median_ratio = over(pair.a.median, pair.b.median);
    }
    match interval {
        Err(NoInterval::NoSamples) => {
            pair.reasons.insert(0, "no samples: no confidence".to_owned())
        }
        Err(NoInterval::TooFew(n)) => {
            let (samples, runs) = (ratio::LEAST_SAMPLES, ratio::LEAST_RUNS);
            let needed = format!("an interval needs {samples} samples or {runs} runs");
            pair.reasons.insert(0, format!("{n} samples on a side: {needed}"));
        }
        Ok([low, high]) => {
            pair.ci95 = Some([low, high]);
            pair.verdict = match (pair.unit.direction(), low > 1.0, high < 1.0) {
                (_, false, false) => Verdict::WithinNoise,
                (Some(Better::Higher), true, _) | (Some(Better::Lower), _, true) => Verdict::Faster,
                (Some(_), ..) => Verdict::Slower,
                (None, true, _) => Verdict::Higher,
                (None, ..) => Verdict::Lower,
            };
        }
    }
}

/// Why the two are not of the same thing; empty when they are.
fn obstacles(point: &Point<'_>, registry: &Registry) -> Vec<String> {
    let differ = |what: &str, of: &dyn Fn(&Measurement) -> Option<String>| {
        let [a, b] = [&point.a, &point.b].map(|side| distinct(side.iter().map(|m| of(m))));
        match (a.as_str(), b.as_str()) {
            ("", _) | (_, "") => None,
            (a, b) if a == b => None,
            (a, b) => Some(format!("{what}: {a} against {b}")),
        }
    };
    let mut reasons = Vec::new();
    reasons.extend(differ("unit", &|m| Some(m.unit.to_string())));
    reasons.extend(differ("category", &|m| {
        serde_json::to_value(m.category).ok()?.as_str().map(str::to_owned)
    }));
    let first = point.a[0];
    let identities = first.config.keys().filter_map(|name| {
        let key = registry.key(&first.gauge, &first.test, name)?;
        matches!(key.role, Role::Size | Role::Identity).then_some(key)
    });
    for key in identities {
        reasons.extend(differ(key.words, &|m| {
            let value = m.config.get(key.name)?;
            let bytes = value.as_u64().filter(|_| keys::is_size(key.name));
            // In full: a size that is rounded may look like the other.
            bytes.map(expect::exact_bytes).or_else(|| pairing::scalar(value))
        }));
    }
    reasons
}

/// Distinct values in order of appearance, joined.
pub(crate) fn distinct(values: impl Iterator<Item = Option<String>>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for value in values.flatten() {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen.join(" | ")
}

impl Comparison {
    /// How many pairs have each verdict.
    pub fn tally(&self) -> BTreeMap<&'static str, usize> {
        let mut tally = BTreeMap::new();
        for pair in &self.pairs {
            *tally.entry(pair.verdict.name()).or_insert(0) += 1;
        }
        tally
    }

    /// A line a pair as CSV, in base units.
    pub fn to_csv(&self) -> String {
        table::render(&self.pairs)
    }
}

impl Pair {
    /// What it is called: `triad`, `latency 8 B`, `triad, threads 4`.
    pub fn title(&self) -> String {
        format!("{}{}", self.name, self.place)
    }

    /// What tells it from others of its name: `8 B`, `threads 4`; empty where nothing needs to.
    pub fn place(&self) -> &str {
        self.place.trim_start_matches([',', ' '])
    }
}

#[cfg(test)]
mod tests;
