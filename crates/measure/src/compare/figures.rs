//! The figures of a side: what is quoted, the samples, and which of them may stand beside those of
//! the other side. Samples of different regimes of a virtual machine never do.

use crate::Seconds;
use crate::ratio::{Runs, Statistic};
use crate::record::{Measurement, Quoted, Status};
use crate::regime::{self, Regime};
use crate::stats;
use serde::Serialize;

/// The figures of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What is compared: the statistic that the field quotes (STREAM the best), the median of it over
    /// several runs.
    pub value: Option<f64>,
    /// The median of the samples, and of that over several runs; `null` without samples.
    pub median: Option<f64>,
    /// Samples that count, of all runs.
    pub samples: usize,
    /// Runs.
    pub runs: usize,
    /// The worst status of the runs.
    pub status: Status,
}

impl Figure {
    /// Of a side before it is known what of it can be compared.
    pub(super) fn of(side: &[&Measurement]) -> Self {
        let quoted: Vec<f64> = side.iter().filter_map(|m| m.value).collect();
        let runs = Runs(side.iter().map(|m| m.samples.clone()).collect());
        Self {
            value: (!quoted.is_empty()).then(|| stats::median(&quoted)),
            median: runs.centre(Statistic::Median),
            samples: runs.samples(),
            runs: side.len(),
            status: side.iter().map(|m| m.validity.status).max().unwrap_or(Status::Valid),
        }
    }

    /// Shows the figures that are compared: a statistic of the samples, or what is quoted.
    pub(super) fn take(&mut self, chosen: &Chosen, statistic: Option<Statistic>) {
        self.value = match statistic {
            Some(statistic) => chosen.runs.centre(statistic),
            None => chosen.quoted,
        };
        self.median = statistic.and_then(|_| chosen.runs.centre(Statistic::Median));
        self.samples = chosen.runs.samples();
        self.runs = chosen.runs.0.len();
    }
}

/// What of its samples a measurement quotes.
pub(super) fn statistic(m: &Measurement) -> Statistic {
    match m.quoted {
        Quoted::Best => m.unit.direction().map_or(Statistic::Median, Statistic::Best),
        Quoted::Mean => Statistic::Mean,
        Quoted::Median | Quoted::HarmonicMean | Quoted::GeometricMean | Quoted::Single => {
            Statistic::Median
        }
    }
}

/// The name of a statistic, as JSON has it.
pub(super) fn name(statistic: Statistic) -> &'static str {
    match statistic {
        Statistic::Best(_) => "best",
        Statistic::Median => "median",
        Statistic::Mean => "mean",
    }
}

/// What of a side is compared.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Chosen {
    pub quoted: Option<f64>,
    pub runs: Runs,
}

/// What of both sides is compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matched {
    pub a: Chosen,
    pub b: Chosen,
    /// Which part of a side was left out.
    pub remark: Option<String>,
}

/// The samples of one run in one regime.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    /// `None` where regimes were not watched.
    round_trip: Option<f64>,
    quoted: f64,
    samples: Vec<f64>,
}

/// The figures of both sides that are of one regime, where `regimes_matter`.
///
/// # Errors
/// Why there are none, in words.
pub(super) fn matched(
    a: &[&Measurement],
    b: &[&Measurement],
    regimes_matter: bool,
) -> Result<Matched, String> {
    for (name, side) in [("A", a), ("B", b)] {
        if let Some(m) = side.iter().find(|m| !usable(m)) {
            let why = m.validity.reasons.first().map_or("no result", String::as_str);
            if side.iter().all(|m| !usable(m)) {
                return Err(format!("{name} has no valid result: {why}"));
            }
        }
    }
    // Between other CPUs, other round trips say nothing of regimes.
    let first = a.first().and_then(|m| m.config.get("places"));
    let on_the_same_cpus = a.iter().chain(b).all(|m| m.config.get("places") == first);
    let [a, b] = [a, b].map(|side| {
        side.iter().filter(|m| usable(m)).map(|m| parts(m)).collect::<Vec<Vec<Part>>>()
    });
    let trips: Vec<f64> = a.iter().chain(&b).flatten().filter_map(|part| part.round_trip).collect();
    let watched =
        [&a, &b].iter().all(|side| side.iter().flatten().any(|part| part.round_trip.is_some()));
    if !regimes_matter || !watched || !on_the_same_cpus {
        let remark = (regimes_matter && !trips.is_empty()).then(|| {
            "whether both sides met the same regime of the virtual machine is not known".to_owned()
        });
        return Ok(Matched { a: chosen(&a, None), b: chosen(&b, None), remark });
    }
    let regimes = regime::regimes(&trips);
    // The regime that both met most; a tie goes to the first, which is the one of short ways.
    let met = |side: &[Vec<Part>], regime: &Regime| chosen(side, Some(regime)).runs.samples();
    let most = regimes
        .iter()
        .map(|regime| (met(&a, regime).min(met(&b, regime)), regime))
        .filter(|(n, _)| *n > 0)
        .reduce(|best, next| if next.0 > best.0 { next } else { best });
    let Some((_, regime)) = most else {
        let median = |side: &[Vec<Part>]| {
            let trips: Vec<f64> =
                side.iter().flatten().filter_map(|part| part.round_trip).collect();
            Seconds(stats::median(&trips))
        };
        return Err(format!(
            "different regimes of a virtual machine: a cache line took {} from core to core and back \
             on A, {} on B",
            median(&a),
            median(&b)
        ));
    };
    let all =
        |side: &[Vec<Part>]| side.iter().flatten().map(|part| part.samples.len()).sum::<usize>();
    let (of_a, of_b) = (chosen(&a, Some(regime)), chosen(&b, Some(regime)));
    let left_out = all(&a) + all(&b) - of_a.runs.samples() - of_b.runs.samples();
    let remark = (left_out > 0).then(|| {
        format!(
            "compared in the regime in which a cache line takes {} to {} from core to core and back; \
             {left_out} samples of others are left out",
            Seconds(regime.from),
            Seconds(regime.to)
        )
    });
    Ok(Matched { a: of_a, b: of_b, remark })
}

fn usable(m: &Measurement) -> bool {
    m.validity.status != Status::Invalid
        && m.value.is_some_and(|value| value.is_finite() && value > 0.0)
}

/// The samples of a run by regime, the headline's first.
fn parts(m: &Measurement) -> Vec<Part> {
    let trip = m.config.get("round_trip_s").and_then(serde_json::Value::as_f64);
    let trip = trip.filter(|trip| regime::is_of_a_line(*trip));
    let headline =
        Part { round_trip: trip, quoted: m.value.unwrap_or(f64::NAN), samples: m.samples.clone() };
    let others = m.regimes.iter().filter(|regime| regime.samples != m.samples).map(|regime| Part {
        round_trip: Some(regime.round_trip_s).filter(|trip| regime::is_of_a_line(*trip)),
        quoted: regime.summary.best,
        samples: regime.samples.clone(),
    });
    std::iter::once(headline).chain(others).collect()
}

/// What each run of a side has in a regime, or its headline; runs without are left out.
fn chosen(side: &[Vec<Part>], regime: Option<&Regime>) -> Chosen {
    let fits = |part: &&Part| match regime {
        None => true,
        Some(regime) => part.round_trip.is_some_and(|trip| regime.contains(trip)),
    };
    let parts: Vec<&Part> = side.iter().filter_map(|run| run.iter().find(fits)).collect();
    let quoted: Vec<f64> = parts.iter().map(|part| part.quoted).collect();
    Chosen {
        quoted: (!quoted.is_empty()).then(|| stats::median(&quoted)),
        runs: Runs(parts.iter().map(|part| part.samples.clone()).collect()),
    }
}

/// What is to be kept in mind of the runs of a side: those without a result, and doubts.
pub(super) fn doubts(name: &str, side: &[&Measurement]) -> Vec<String> {
    let mut doubts = Vec::new();
    let failed = side.iter().filter(|m| !usable(m)).count();
    if failed > 0 {
        doubts.push(format!("{failed} of {} runs of {name} have no valid result", side.len()));
    }
    let suspect: Vec<&&Measurement> =
        side.iter().filter(|m| m.validity.status == Status::Suspect).collect();
    if let Some(reason) = suspect.first().and_then(|m| m.validity.reasons.first()) {
        doubts.push(format!("{name} is suspect: {reason}"));
    }
    doubts
}
