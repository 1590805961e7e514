//! Two settings side by side: for each measurement that both have the ratio, its confidence interval
//! and a verdict, and before that what differs between the settings. Pure: records in, a
//! [`Comparison`] out.
//!
//! A side is one run, or several runs of the same setting that are pooled. What is not the same
//! thing (another size, type of element, category or regime of a virtual machine) is not compared,
//! and why is said. The arithmetic of ratios is in [`crate::ratio`].

mod figures;
mod judge;
mod pairing;
mod settings;
mod several;
mod table;
pub mod threshold;

pub use figures::{Figure, Part, parts};
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

/// One of the two settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    /// What the user called it: an identifier, `latest`, a label, a file, a command.
    pub asked: String,
    /// Its runs.
    pub runs: Vec<Record>,
    /// Other runs of its node, newest first. Those that are like its own in all that was asked tell how
    /// such runs differ.
    pub others: Vec<Record>,
}

/// The label by which runs by turns are found again.
pub const TURNS: &str = "turns";

/// How the runs were made, and what is taken for a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Design {
    /// Runs 2k and 2k + 1 of both sides are a block A B B A of runs by turns.
    pub blocks: bool,
    /// Suspect figures count like valid ones.
    pub accept_suspect: bool,
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
    /// Nothing tells how such runs differ, or a side is suspect.
    #[serde(rename = "cannot tell")]
    CannotTell,
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
            Self::CannotTell => "cannot tell",
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
    /// The same for people: `8 KiB` for 8192 bytes.
    #[serde(skip)]
    pub name_in_words: String,
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
    /// Which statistic of its samples a run quotes, as in the record.
    pub statistic: &'static str,
    /// B over A; `null` when they are not comparable.
    pub ratio: Option<f64>,
    /// 95 % confidence interval of the ratio; `null` where nothing tells how runs differ.
    pub ci95: Option<[f64; 2]>,
    /// Smallest relative change that would be found in nine of ten comparisons like this one.
    pub visible: Option<f64>,
    /// From what it is known how runs differ.
    pub basis: Option<Basis>,
    /// Median of B over median of A; `null` without samples or when they are not comparable.
    pub median_ratio: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
    /// Which side is suspect and why, where there is no verdict because of it.
    #[serde(skip)]
    pub suspect: Option<String>,
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
    pub only_a: Vec<Unpaired>,
    /// What was measured on B alone.
    pub only_b: Vec<Unpaired>,
    /// What to keep in mind of all of it.
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
    let run = |record: &Record| Run {
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
                "messages of {name} went over nodegauge's own transport, those of {other} through an MPI: they are never compared"
            ));
        }
    }
    notices
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
        format!("{}{}", self.name_in_words, self.place)
    }

    /// What tells it from others of its name: `8 B`, `threads 4`; empty where nothing needs to.
    pub fn place(&self) -> &str {
        self.place.trim_start_matches([',', ' '])
    }
}

#[cfg(test)]
mod tests;
