//! Comparison of two settings, A and B: the differences between them and, for each measurement that both have, the
//! ratio, its confidence interval and a verdict. The comparison is a pure function from records to a [`Comparison`].
//!
//! A side, A or B, is one run, or several runs of the same setting that are pooled. Measurements that differ in size,
//! type of elements, category or regime of a virtual machine are not compared; the result then contains the reason. The
//! arithmetic of ratios is in [`crate::ratio`].

mod figures;
mod judge;
mod pairing;
mod settings;
mod several;
mod table;
pub mod threshold;

pub use figures::{RegimeFigures, SideFigures, split_by_regime};
pub use pairing::UnpairedFigure;
pub use settings::Difference;
pub(crate) use settings::relevant_command;
pub use several::{RunComparison, SharedFigure, compare_runs};
pub use threshold::Threshold;

use crate::ratio::{SOUGHT_CHANGE, SpreadBasis};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::{Processor, Record, SCHEMA};
use nodegauge_measure::{Bytes, Fraction, Unit};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// A or B: one of the two compared settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    /// Text with which the user selected the runs: an identifier, `latest`, a label, a file or a command.
    pub asked: String,
    /// Runs of this setting.
    pub runs: Vec<Record>,
    /// Other saved runs of the node, newest first. Runs with the same settings are used to estimate the spread between
    /// runs.
    pub others: Vec<Record>,
}

/// Maximum number of blocks for `compare --run`; a block consists of the runs A B B A.
pub const MAX_BLOCKS: u64 = 1000;

/// Label of the interleaved runs of `compare --run`; its value identifies the comparison and the command.
pub const TURNS_LABEL: &str = "turns";

/// Label of interleaved runs; its value names the command of the run by what differs from the other command.
pub const COMPARED_LABEL: &str = "compared";

/// Label of imported runs; its value is the name of the file with the output of the other program.
pub const IMPORT_LABEL: &str = "import";

/// Design of the comparison: order of the runs, and treatment of suspect figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ComparisonDesign {
    /// True if the runs of A and B were interleaved: runs 2k and 2k + 1 of A and of B form a block A B B A.
    pub is_interleaved: bool,
    /// True if suspect figures count like valid ones.
    pub accept_suspect: bool,
}

/// Verdict on a pair of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// B is better than A by more than the noise.
    Faster,
    /// B is worse than A by more than the noise.
    Slower,
    /// B is higher than A by more than the noise, for a unit in which neither direction is better.
    Higher,
    /// B is lower than A by more than the noise, for a unit in which neither direction is better.
    Lower,
    /// The confidence interval of the ratio contains 1.
    #[serde(rename = "within noise")]
    WithinNoise,
    /// The spread between runs is unknown, or a figure is suspect.
    #[serde(rename = "cannot tell")]
    CannotTell,
    /// The figures do not describe the same quantity.
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

/// Reason why a pair is not comparable or why its verdict is uncertain, or a remark on the pair. In JSON, text and
/// remedy are one string.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PairReason {
    /// Description of the reason.
    pub text: String,
    /// Action that removes the reason, e.g. a command; `None` if there is none.
    pub remedy: Option<String>,
}

impl From<String> for PairReason {
    fn from(text: String) -> Self {
        Self { text, remedy: None }
    }
}

impl fmt::Display for PairReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.remedy {
            Some(remedy) => write!(f, "{}: {remedy}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl Serialize for PairReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Pair of figures: the same measurement of A and B.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// Gauge of the measurement.
    pub gauge: String,
    /// Test of the measurement.
    pub test: String,
    /// Name of the figures.
    pub name: String,
    /// Name for display: `8 KiB` for a figure with the name `8192`.
    #[serde(skip)]
    pub name_in_words: String,
    /// Unit of the figures.
    pub unit: Unit,
    /// Keys, with values, that distinguish the measurement from others with the same name, e.g. message bytes or
    /// threads.
    pub at: Map<String, Value>,
    /// Text for the keys in [`Pair::at`], which is appended to the name: ` 8 B`, `, threads 4`.
    #[serde(skip)]
    keys_in_words: String,
    /// Message, block or array size; `None` if the measurement has no size.
    #[serde(skip)]
    pub size: Option<Bytes>,
    /// Figures of A.
    pub a: SideFigures,
    /// Figures of B.
    pub b: SideFigures,
    /// Name of the compared statistic of the samples, as in records.
    pub statistic: &'static str,
    /// Value of B divided by the value of A; `null` if they are not comparable.
    pub ratio: Option<f64>,
    /// 95 % confidence interval of the ratio; `null` if the spread between runs is unknown.
    pub ci95: Option<[f64; 2]>,
    /// Smallest relative change that nine of ten comparisons like this one would detect.
    pub visible: Option<f64>,
    /// Data from which the spread between runs was estimated.
    pub basis: Option<SpreadBasis>,
    /// Number of blocks, or of runs of A and of B each, with which nine of ten comparisons would detect a change of 3
    /// %.
    pub needed: Option<u64>,
    /// Median of B divided by the median of A; `null` without samples or if they are not comparable.
    pub median_ratio: Option<f64>,
    /// Verdict on the pair.
    pub verdict: Verdict,
    /// Reason why a figure is suspect, if this prevents a verdict; `null` otherwise. With this field, a reader can
    /// distinguish a node that was too busy to be judged from a slow node and from an unknown spread between runs.
    pub suspect: Option<String>,
    /// Reasons why the pair is not comparable or the verdict is uncertain, and remarks.
    pub reasons: Vec<PairReason>,
}

/// Summary of a compared run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRun {
    /// Identifier of the run.
    pub id: String,
    /// Start of the run.
    pub started: String,
    /// Arguments of the command, without the name of the program.
    pub command: Vec<String>,
    /// Host name of the node.
    pub host: Option<String>,
    /// Processor of the node.
    pub processor: Processor,
    /// True if everything was measured.
    pub complete: bool,
}

/// Runs of A or B in the result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedSide {
    /// Text with which the user selected the runs.
    pub asked: String,
    /// Runs of A or B.
    pub runs: Vec<ComparedRun>,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Schema of the compared records: [`SCHEMA`].
    pub schema: &'static str,
    /// Runs of A; ratios are B divided by A.
    pub a: ComparedSide,
    /// Runs of B; ratios are B divided by A.
    pub b: ComparedSide,
    /// Differences between the settings of A and B.
    pub differences: Vec<Difference>,
    /// Measurements that both A and B have, in the order of A.
    pub pairs: Vec<Pair>,
    /// Measurements that only A has.
    pub only_a: Vec<UnpairedFigure>,
    /// Measurements that only B has.
    pub only_b: Vec<UnpairedFigure>,
    /// Remarks on the whole comparison.
    pub notices: Vec<String>,
}

/// Compares two settings, each with one or several runs.
pub fn compare(a: &Side, b: &Side, design: ComparisonDesign, registry: &Registry) -> Comparison {
    let (points, [only_a, only_b]) = pairing::pair(&a.runs, &b.runs, registry);
    let pair_judge = judge::PairJudge::new(a, b, design);
    let pairs: Vec<Pair> = points.iter().map(|point| pair_judge.judge(point, registry)).collect();
    let mut notices = notices(a, b, [&only_a[..], &only_b[..]]);
    notices.extend(missed_changes(&pairs));
    Comparison {
        schema: SCHEMA,
        differences: settings::differences(
            &[&a.runs, &b.runs],
            &points,
            pair_judge.has_same_command,
            registry,
        ),
        pairs,
        notices,
        only_a,
        only_b,
        a: runners(a),
        b: runners(b),
    }
}

impl ComparedRun {
    fn from_record(record: &Record) -> Self {
        Self {
            id: record.id.clone(),
            started: record.started.clone(),
            command: record.command.clone(),
            host: record.machine.host.clone(),
            processor: record.machine.processor.clone(),
            complete: record.complete,
        }
    }
}

fn runners(side: &Side) -> ComparedSide {
    ComparedSide {
        asked: side.asked.clone(),
        runs: side.runs.iter().map(ComparedRun::from_record).collect(),
    }
}

/// Returns a notice if the comparison may miss a change of [`SOUGHT_CHANGE`], with the number of blocks or runs that
/// would be sufficient.
fn missed_changes(pairs: &[Pair]) -> Option<String> {
    let blind: Vec<&Pair> =
        pairs.iter().filter(|pair| pair.visible.is_some_and(|min| min > SOUGHT_CHANGE)).collect();
    let widest = blind.iter().max_by_key(|pair| pair.needed)?;
    let needed = widest.needed?;
    let how = match widest.basis? {
        SpreadBasis::Blocks if needed > MAX_BLOCKS => {
            format!("more than {MAX_BLOCKS} blocks (longer runs vary less: --budget)")
        }
        SpreadBasis::Blocks => format!("--blocks {needed}"),
        _ => format!("{needed} runs of A and of B"),
    };
    let title = widest.title();
    let of = match (blind.len(), pairs.len()) {
        (1, _) => format!("; {title} needs"),
        (n, all) if n == all => format!(" of all {n} figures; {title}, which varies most, needs"),
        (n, all) => format!(" of {n} of {all} figures; {title}, which varies most, needs"),
    };
    let sought = Fraction(SOUGHT_CHANGE).in_whole_percent();
    Some(format!(
        "a change of {sought} may be missed in more than one of ten such comparisons{of} {how}"
    ))
}

fn notices(a: &Side, b: &Side, [only_a, only_b]: [&[UnpairedFigure]; 2]) -> Vec<String> {
    let mut notices = Vec::new();
    let shared_run_count = judge::shared_run_count(a, b);
    match (shared_run_count, a.runs.len() == b.runs.len() && shared_run_count == a.runs.len()) {
        (0, _) => {}
        (_, true) => notices.push("A and B are the same runs".to_owned()),
        (n, false) => notices.push(format!("runs in both A and B: {n}")),
    }
    for (name, side) in [("A", a), ("B", b)] {
        let cut = side.runs.iter().filter(|run| !run.complete).count();
        if cut > 0 {
            notices.push(format!("interrupted runs of {name}: {cut}"));
        }
    }
    for (name, other, own, theirs) in [("A", "B", only_a, only_b), ("B", "A", only_b, only_a)] {
        if own.iter().any(|of| of.is_compared_with_mpi(theirs)) {
            notices.push(format!(
                "messages of A and B are not compared: {name} used nodegauge's own transport, {other} an MPI library"
            ));
        }
    }
    notices
}

/// Joins the distinct values in order of first appearance.
pub(crate) fn join_distinct(values: impl Iterator<Item = Option<String>>) -> String {
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
    pub fn verdict_counts(&self) -> BTreeMap<&'static str, usize> {
        let mut tally = BTreeMap::new();
        for pair in &self.pairs {
            *tally.entry(pair.verdict.name()).or_insert(0) += 1;
        }
        tally
    }

    /// Returns the comparison as CSV with one line per pair, in base units.
    pub fn to_csv(&self) -> String {
        table::render(&self.pairs)
    }
}

impl Pair {
    /// Returns the title of the pair: `triad`, `latency 8 B`, `triad, threads 4`.
    pub fn title(&self) -> String {
        format!("{}{}", self.name_in_words, self.keys_in_words)
    }

    /// Returns the text that distinguishes the pair from others with the same name: `8 B`, `threads 4`; empty if no
    /// text is needed.
    pub fn keys_in_words(&self) -> &str {
        self.keys_in_words.trim_start_matches([',', ' '])
    }
}

#[cfg(test)]
mod tests;
