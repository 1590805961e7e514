//! Comparison of two settings: the differences between the settings, and for each measurement on both sides
//! the ratio, its confidence interval and a verdict. The comparison is a pure function from records to a
//! [`Comparison`].
//!
//! A side is one run, or several runs of the same setting that are pooled. Measurements that differ in size,
//! type of elements, category or regime of a virtual machine are not compared, and the result contains the
//! reason. The arithmetic of ratios is in [`crate::ratio`].

mod figures;
mod judge;
mod pairing;
mod settings;
mod several;
mod table;
pub mod threshold;

pub use figures::{RegimeFigures, SideFigures, parts};
pub use pairing::Unpaired;
pub use settings::{Difference, machine_changes};
pub use several::{Several, Shared, several};
pub use threshold::Threshold;

use crate::ratio::Basis;
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::{Record, SCHEMA};
use nodegauge_measure::{Bytes, Unit};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One of the two compared settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    /// Text by which the user selected it: an identifier, `latest`, a label, a file, a command.
    pub asked: String,
    /// Runs of the side.
    pub runs: Vec<Record>,
    /// Other runs of the node, newest first. Runs with the same settings are used to estimate the spread
    /// between runs.
    pub others: Vec<Record>,
}

/// Label of alternating runs.
pub const TURNS: &str = "turns";

/// Design of the comparison: order of the runs, and treatment of suspect figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Design {
    /// True if the sides alternated: runs 2k and 2k + 1 of both sides form a block A B B A.
    pub blocks: bool,
    /// True if suspect figures count like valid ones.
    pub accept_suspect: bool,
}

/// Verdict on a pair of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// B is better than A by more than noise.
    Faster,
    /// B is worse than A by more than noise.
    Slower,
    /// B is higher than A, and the unit has no better direction.
    Higher,
    /// B is lower than A, and the unit has no better direction.
    Lower,
    /// The interval of the ratio contains 1.
    #[serde(rename = "within noise")]
    WithinNoise,
    /// The spread between runs is unknown, or a side is suspect.
    #[serde(rename = "cannot tell")]
    CannotTell,
    /// The figures are not of the same quantity.
    #[serde(rename = "not comparable")]
    NotComparable,
}

impl Verdict {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::WithinNoise => "within noise",
            Self::CannotTell => "cannot tell",
            Self::NotComparable => "not comparable",
        }
    }
}

/// Pair of figures: one measurement on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// Gauge.
    pub gauge: String,
    /// Test.
    pub test: String,
    /// Name of the figures.
    pub name: String,
    /// Name for people: `8 KiB` for 8192 bytes.
    #[serde(skip)]
    pub name_in_words: String,
    /// Unit of the figures.
    pub unit: Unit,
    /// Keys that distinguish the measurement from others of this name: message bytes, threads.
    pub at: Map<String, Value>,
    /// Text of [`Pair::at`] that follows the name: ` 8 B`, `, threads 4`.
    #[serde(skip)]
    place: String,
    /// Message, block or array size, if there is one.
    #[serde(skip)]
    pub size: Option<Bytes>,
    /// Figures of A.
    pub a: SideFigures,
    /// Figures of B.
    pub b: SideFigures,
    /// Statistic of the samples that a run quotes, as in the record.
    pub statistic: &'static str,
    /// B divided by A; `null` if they are not comparable.
    pub ratio: Option<f64>,
    /// 95 % confidence interval of the ratio; `null` if the spread between runs is unknown.
    pub ci95: Option<[f64; 2]>,
    /// Smallest relative change that nine of ten comparisons like this one would detect.
    pub visible: Option<f64>,
    /// Source of the spread between runs.
    pub basis: Option<Basis>,
    /// Median of B divided by median of A; `null` without samples or if they are not comparable.
    pub median_ratio: Option<f64>,
    /// Verdict.
    pub verdict: Verdict,
    /// Suspect side with the reason, if it prevents a verdict.
    #[serde(skip)]
    pub suspect: Option<String>,
    /// Reasons why the pair is not comparable or the verdict is uncertain, and remarks.
    pub reasons: Vec<String>,
}

/// A run of a side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRun {
    /// Identifier.
    pub id: String,
    /// Start of the run.
    pub started: String,
    /// Host name.
    pub host: Option<String>,
    /// True if everything was measured.
    pub complete: bool,
}

/// A side in the result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Runners {
    /// Text by which the user selected it.
    pub asked: String,
    /// Runs of the side.
    pub runs: Vec<ComparedRun>,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Schema of the compared records: [`SCHEMA`].
    pub schema: &'static str,
    /// First side, the reference of the ratios.
    pub a: Runners,
    /// Second side.
    pub b: Runners,
    /// Differences between the settings.
    pub differences: Vec<Difference>,
    /// Measurements on both sides, in the order of A.
    pub pairs: Vec<Pair>,
    /// Measurements on A only.
    pub only_a: Vec<Unpaired>,
    /// Measurements on B only.
    pub only_b: Vec<Unpaired>,
    /// Remarks on the whole comparison.
    pub notices: Vec<String>,
}

/// Compares two settings.
pub fn compare(a: &Side, b: &Side, design: Design, registry: &Registry) -> Comparison {
    let (points, [only_a, only_b]) = pairing::pair(&a.runs, &b.runs, registry);
    let question = judge::Question::of(a, b, design);
    Comparison {
        schema: SCHEMA,
        differences: settings::differences(&[&a.runs, &b.runs], &points, question.same, registry),
        pairs: points.iter().map(|point| question.judge(point, registry)).collect(),
        notices: notices(a, b, [&only_a[..], &only_b[..]]),
        only_a,
        only_b,
        a: runners(a),
        b: runners(b),
    }
}

fn runners(side: &Side) -> Runners {
    let run = |record: &Record| ComparedRun {
        id: record.id.clone(),
        started: record.started.clone(),
        host: record.machine.host.clone(),
        complete: record.complete,
    };
    Runners { asked: side.asked.clone(), runs: side.runs.iter().map(run).collect() }
}

fn notices(a: &Side, b: &Side, [only_a, only_b]: [&[Unpaired]; 2]) -> Vec<String> {
    let mut notices = Vec::new();
    let shared = judge::shared(a, b);
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
    let with_mpi = |of: &Unpaired, other: &[Unpaired]| {
        of.without_mpi && other.iter().any(|mpi| !mpi.without_mpi && mpi.gauge == of.gauge)
    };
    for (name, other, own, theirs) in [("A", "B", only_a, only_b), ("B", "A", only_b, only_a)] {
        if own.iter().any(|of| with_mpi(of, theirs)) {
            notices.push(format!(
                "messages of {name} used nodegauge's own transport, messages of {other} an MPI library: they are not compared"
            ));
        }
    }
    notices
}

/// Joins the distinct values in order of appearance.
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
    /// Returns the number of pairs with each verdict.
    pub fn tally(&self) -> BTreeMap<&'static str, usize> {
        let mut tally = BTreeMap::new();
        for pair in &self.pairs {
            *tally.entry(pair.verdict.name()).or_insert(0) += 1;
        }
        tally
    }

    /// Returns the comparison as CSV, one line per pair, in base units.
    pub fn to_csv(&self) -> String {
        table::render(&self.pairs)
    }
}

impl Pair {
    /// Returns the title: `triad`, `latency 8 B`, `triad, threads 4`.
    pub fn title(&self) -> String {
        format!("{}{}", self.name_in_words, self.place)
    }

    /// Returns the text that distinguishes it from others of its name: `8 B`, `threads 4`; empty if not
    /// needed.
    pub fn place(&self) -> &str {
        self.place.trim_start_matches([',', ' '])
    }
}

#[cfg(test)]
mod tests;
