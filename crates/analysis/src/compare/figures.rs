//! The figures of a side: what is quoted of each run, and which of its samples may stand beside those of
//! the other side. Samples of different regimes of a virtual machine never do.

use crate::identity::Numbered;
use crate::ratio::{self, Runs};
use nodegauge_measure::Seconds;
use nodegauge_measure::Unit;
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{Measurement, Quoted, Status};
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::stats;
use serde::Serialize;

/// The figures of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What is compared: the value that a run quotes, the geometric mean of it over several runs.
    pub value: Option<f64>,
    /// The median of the samples, the geometric mean of it over several runs; `null` without samples.
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
    pub(super) fn of(side: &[Numbered<'_>]) -> Self {
        let all = side.iter().map(|(run, m)| (*run, parts(m).swap_remove(0)));
        let status = side.iter().map(|(_, m)| m.validity.status).max().unwrap_or(Status::Valid);
        Self { status, ..Chosen(all.filter(|(_, part)| part.value > 0.0).collect()).figure() }
    }
}

/// What of a side is compared: of each run, by its number, one part.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Chosen(pub Vec<(usize, Part)>);

/// What of both sides is compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matched {
    pub a: Chosen,
    pub b: Chosen,
    /// Of other runs like them.
    pub like: [Chosen; 2],
    /// Which part of a side was left out.
    pub remark: Option<String>,
}

/// The samples of one run in one regime.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Core-to-core round trip, seconds; `None` where regimes were not watched.
    pub round_trip: Option<f64>,
    /// What is quoted of them; NaN for no result.
    pub value: f64,
    samples: Vec<f64>,
}

impl Chosen {
    /// What is quoted of each run.
    pub fn values(&self) -> Vec<f64> {
        self.0.iter().map(|(_, part)| part.value).collect()
    }

    /// What is shown of it; all of it is valid so far.
    pub fn figure(&self) -> Figure {
        let mean = |values: Vec<f64>| match values.as_slice() {
            [] => None,
            // A single figure is shown as it is, to the last digit.
            [one] => Some(*one),
            several => Some(stats::geometric_mean(several)),
        };
        let sampled = self.0.iter().map(|(_, part)| &part.samples).filter(|all| !all.is_empty());
        Figure {
            value: mean(self.values()),
            median: mean(sampled.clone().map(|all| stats::median(all)).collect()),
            samples: sampled.map(Vec::len).sum(),
            runs: self.0.len(),
            status: Status::Valid,
        }
    }

    /// As a side of a ratio, with runs like it.
    pub fn runs(&self, like: &Self, quoted: Quoted, unit: Unit) -> Runs {
        let within = |(_, part): &(usize, Part)| ratio::within(&part.samples, quoted, unit);
        let within: Vec<f64> = self.0.iter().map(within).collect();
        Runs { figures: self.values(), like: like.values(), within: stats::median(&within) }
    }

    /// B over A in each block A B B A of which all four runs have a figure.
    pub fn by_blocks(&self, b: &Self) -> Vec<f64> {
        let both = |side: &Self, block: usize| {
            let of_block: Vec<f64> = side
                .0
                .iter()
                .filter(|(run, _)| run / 2 == block)
                .map(|(_, part)| part.value)
                .collect();
            (of_block.len() == 2).then(|| stats::geometric_mean(&of_block))
        };
        let blocks = self.0.last().map_or(0, |(run, _)| run / 2 + 1);
        (0..blocks).filter_map(|block| Some(both(b, block)? / both(self, block)?)).collect()
    }
}

/// The runs of a side with a result.
///
/// # Errors
/// Why there is none, in words.
pub(super) fn usable<'a>(name: &str, side: &[Numbered<'a>]) -> Result<Vec<Numbered<'a>>, String> {
    let has_result = |m: &Measurement| {
        m.validity.status != Status::Invalid && m.value.is_some_and(|x| x.is_finite() && x > 0.0)
    };
    let usable: Vec<Numbered<'a>> = side.iter().copied().filter(|(_, m)| has_result(m)).collect();
    if usable.is_empty() {
        let why = side.iter().find_map(|(_, m)| m.validity.reasons.first());
        return Err(format!("{name} has no valid result: {}", why.map_or("no result", |why| why)));
    }
    Ok(usable)
}

/// The figures of both sides, and of runs like them, that are of one regime, where `regimes_matter`.
///
/// # Errors
/// Why there are none, in words.
pub(super) fn matched(
    [a, b]: [&[Numbered<'_>]; 2],
    like: [&[Numbered<'_>]; 2],
    regimes_matter: bool,
) -> Result<Matched, String> {
    // Between other CPUs, other round trips say nothing of regimes.
    let places = |m: &Measurement| m.read_key::<shared::places>();
    let first = a.first().and_then(|(_, m)| places(m));
    let on_the_same_cpus = a.iter().chain(b).all(|(_, m)| places(m) == first);
    let by_run = |side: &[Numbered<'_>]| -> Vec<(usize, Vec<Part>)> {
        side.iter().map(|(run, m)| (*run, parts(m))).collect()
    };
    let (a, b, like) = (by_run(a), by_run(b), like.map(by_run));
    let all = |side: &[(usize, Vec<Part>)]| -> Vec<Part> {
        side.iter().flat_map(|(_, parts)| parts).cloned().collect()
    };
    let trips = |side: &[(usize, Vec<Part>)]| -> Vec<f64> {
        all(side).iter().filter_map(|part| part.round_trip).collect()
    };
    let (of_a, of_b) = (trips(&a), trips(&b));
    let watched = !of_a.is_empty() && !of_b.is_empty();
    if !regimes_matter || !watched || !on_the_same_cpus {
        let remark = (regimes_matter && !(of_a.is_empty() && of_b.is_empty())).then(|| {
            "whether both sides met the same regime of the virtual machine is not known".to_owned()
        });
        let like = like.map(|side| chosen(&side, None));
        return Ok(Matched { a: chosen(&a, None), b: chosen(&b, None), like, remark });
    }
    let regimes = regime::regimes(&[of_a.as_slice(), of_b.as_slice()].concat());
    // The regime that both met most; a tie goes to the first, which is the one of short ways.
    let samples = |side: &Chosen| side.0.iter().map(|(_, part)| part.samples.len()).sum::<usize>();
    let met = |regime: &Regime| {
        let [a, b] = [&a, &b].map(|side| chosen(side, Some(regime)));
        let (n, runs) = (samples(&a).min(samples(&b)), a.0.len().min(b.0.len()));
        (runs > 0).then_some(n)
    };
    let most = regimes
        .iter()
        .filter_map(|regime| Some((met(regime)?, regime)))
        .reduce(|best, next| if next.0 > best.0 { next } else { best });
    let Some((_, regime)) = most else {
        let median = |trips: &[f64]| Seconds(stats::median(trips));
        return Err(format!(
            "different regimes of a virtual machine: a cache line took {} from core to core and back \
             on A, {} on B",
            median(&of_a),
            median(&of_b)
        ));
    };
    let [of_a, of_b] = [&a, &b].map(|side| chosen(side, Some(regime)));
    let met = all(&a).iter().chain(&all(&b)).map(|part| part.samples.len()).sum::<usize>();
    let left_out = met - samples(&of_a) - samples(&of_b);
    let remark = (left_out > 0).then(|| {
        format!(
            "compared in the regime in which a cache line takes {} to {} from core to core and back; \
             {left_out} samples of others are left out",
            Seconds(regime.from),
            Seconds(regime.to)
        )
    });
    let like = like.map(|side| chosen(&side, Some(regime)));
    Ok(Matched { a: of_a, b: of_b, like, remark })
}

/// The samples of a figure by regime, the headline's first.
pub fn parts(m: &Measurement) -> Vec<Part> {
    let trip = m.read_key::<shared::round_trip_s>();
    let trip = trip.filter(|trip| regime::is_of_a_line(*trip));
    let value = m.value.unwrap_or(f64::NAN);
    let headline = Part { round_trip: trip, value, samples: m.samples.clone() };
    let others = m.regimes.iter().filter(|regime| regime.samples != m.samples).map(|regime| Part {
        round_trip: Some(regime.round_trip_s).filter(|trip| regime::is_of_a_line(*trip)),
        value: m.quoted.of(&regime.samples, m.unit).unwrap_or(f64::NAN),
        samples: regime.samples.clone(),
    });
    std::iter::once(headline).chain(others).collect()
}

/// What each run of a side has in a regime, or its headline; runs without are left out.
fn chosen(side: &[(usize, Vec<Part>)], regime: Option<&Regime>) -> Chosen {
    let fits = |part: &&Part| match regime {
        None => true,
        Some(regime) => part.round_trip.is_some_and(|trip| regime.contains(trip)),
    };
    let of_run = |(run, parts): &(usize, Vec<Part>)| Some((*run, parts.iter().find(fits)?.clone()));
    Chosen(side.iter().filter_map(of_run).collect())
}
