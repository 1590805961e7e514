//! What each choice is worth on this node: steps from an unbound run with regular stores on 4 KiB
//! pages and arrays one after another, to the best that `stream` does, one choice at a time.
//!
//! All steps live side by side and run interleaved in random order; a round in which anything
//! interfered, or whose passes saw different regimes, is left out whole. The factor of a step is
//! the geometric mean over rounds of its rate over that of the step before, so the factors
//! multiply to the factor of the whole, exactly.

use crate::arrays::{Layout, Pages};
use crate::halving::Shuffler;
use crate::kernels::{Kernel, Prefetch, Shape, Stores};
use crate::point::{Point, PointConfig, PointError, Sample};
use crate::stream::{self, Options, StreamError};
use crate::tuner;
use nodegauge_machine::Topology;
use nodegauge_measure::record::{Category, Machine, Measurement, Status, Validity};
use nodegauge_measure::stats::{Better, Summary};
use nodegauge_measure::{Watch, regime, stats};
use nodegauge_placement::Placement;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// One step of the way, with its rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Stable name, e.g. `binding`; `baseline` for the first.
    pub name: &'static str,
    /// What changes with this step, in words.
    pub what: String,
    /// For each kernel, the rate in each counted round, bytes per second.
    pub rates: Vec<Vec<f64>>,
    /// For each kernel, the factor over the step before, for each counted round; ones for the
    /// first step.
    pub factors: Vec<Vec<f64>>,
}

impl Step {
    /// Geometric mean of the factor of kernel `i`.
    pub fn factor(&self, i: usize) -> f64 {
        stats::geometric_mean(&self.factors[i])
    }

    /// Geometric mean of the rate of kernel `i`, bytes per second.
    pub fn rate(&self, i: usize) -> f64 {
        stats::geometric_mean(&self.rates[i])
    }
}

/// The way from the baseline to the best.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The kernels, in the order of a pass.
    pub kernels: Vec<Kernel>,
    /// The steps, baseline first.
    pub steps: Vec<Step>,
    /// Rounds that count, and rounds left out because something interfered.
    pub rounds: (usize, usize),
    /// What could not be varied here, and other remarks.
    pub notices: Vec<String>,
    /// Whether everything was measured.
    pub complete: bool,
    /// The first wrong value found in any step's arrays.
    pub wrong: Option<String>,
    /// Whether rounds with interference or of several regimes had to be counted.
    pub desperate: bool,
    /// Whether the arrays follow STREAM's rule; `None` when caches are not known.
    pub follows_rule: Option<bool>,
    /// Bytes of one array.
    pub array_bytes: u64,
}

impl Explanation {
    /// The explained kernel: Triad when it ran, else the last.
    fn explained(&self) -> usize {
        self.kernels
            .iter()
            .position(|kernel| *kernel == Kernel::Triad)
            .unwrap_or(self.kernels.len() - 1)
    }

    /// One measurement a factor of the explained kernel, and `whole`, their product; the other
    /// kernels' factors are in each configuration. None without a counted round.
    pub fn measurements(&self) -> Vec<Measurement> {
        if self.rounds.0 == 0 {
            return Vec::new();
        }
        let i = self.explained();
        let mut validity = Validity::valid();
        if let Some(wrong) = &self.wrong {
            validity
                .add(Status::Invalid, format!("the arrays do not hold what they must: {wrong}"));
        }
        if self.follows_rule == Some(false) {
            let reason =
                "the arrays are smaller than STREAM's rule asks for, and may lie in a cache";
            validity.add(Status::Suspect, reason);
        }
        if self.desperate {
            let reason = "nearly every round was disturbed, so disturbed ones count too";
            validity.add(Status::Suspect, reason);
        }
        let (first, last) = (&self.steps[0], &self.steps[self.steps.len() - 1]);
        let whole: Vec<f64> =
            last.rates[i].iter().zip(&first.rates[i]).map(|(to, from)| to / from).collect();
        let make = |name: &str, samples: &[f64], config: Value| Measurement {
            gauge: "memory".to_owned(),
            test: "explain".to_owned(),
            name: name.to_owned(),
            unit: nodegauge_measure::Unit::Factor,
            value: Some(stats::geometric_mean(samples))
                .filter(|_| validity.status != Status::Invalid),
            summary: Summary::of(samples, Better::Higher),
            samples: samples.to_vec(),
            disturbed: Vec::new(),
            regimes: Vec::new(),
            config: match config {
                Value::Object(map) => map,
                _ => Map::new(),
            },
            quoted: nodegauge_measure::record::Quoted::GeometricMean,
            traffic: None,
            category: Category::Variant,
            limit: None,
            validity: validity.clone(),
        };
        let mut all: Vec<Measurement> = self.steps[1..]
            .iter()
            .map(|step| {
                let factors: Map<String, Value> = self
                    .kernels
                    .iter()
                    .enumerate()
                    .map(|(k, kernel)| (kernel.name().to_owned(), json!(step.factor(k))))
                    .collect();
                make(
                    step.name,
                    &step.factors[i],
                    json!({
                        "engine": "native",
                        "kernel": self.kernels[i].name(),
                        "what": step.what,
                        "to": step.rate(i),
                        "factors": factors,
                    }),
                )
            })
            .collect();
        all.push(make(
            "whole",
            &whole,
            json!({
                "engine": "native",
                "kernel": self.kernels[i].name(),
                "baseline": first.what,
                "from": first.rate(i),
                "to": last.rate(i),
                "rounds": self.rounds.0,
                "rounds_left_out": self.rounds.1,
                "array_bytes": self.array_bytes,
            }),
        ));
        all
    }
}

/// Rounds that are wanted: medians over fewer scatter too much.
const WISHED_ROUNDS: usize = 60;
/// Fewer rounds than this say nothing.
const FEWEST_ROUNDS: usize = 3;
/// Share of the budget for the trial that finds the best loops.
const TRIAL_SHARE: f64 = 0.25;

/// Takes the best apart.
///
/// # Errors
/// As for a run of STREAM.
pub fn run(
    topology: &Topology,
    machine: &Machine,
    placement: &Placement,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Explanation, StreamError> {
    let started = Instant::now();
    // Every step has arrays of its own: the memory is shared out before the size is chosen.
    let shared_out =
        Options { memory_fraction: options.memory_fraction / MOST_STEPS as f64, ..options.clone() };
    let (size, best) = stream::plan(topology, machine, placement, &shared_out)?;
    let mut notices: Vec<String> = size.notices.iter().map(|n| n.text.clone()).collect();
    watch.phase("choosing the best loops");
    let shapes = tuner::candidates(
        tuner::Constraints {
            stores: options.stores,
            prefetch: options.prefetch.or(Some(Prefetch::Off)),
        },
        tuner::Breadth::Likely,
    );
    let mut last = Point::prepare(best)?;
    let deadline = started + options.budget.mul_f64(TRIAL_SHARE);
    tuner::choose(&mut last, &shapes, deadline, || watch.interrupted())?;

    let configs = steps(last.config(), placement, topology, &mut notices);
    let names: Vec<(&'static str, String)> =
        configs.iter().map(|(name, what, _)| (*name, what.clone())).collect();
    watch.phase(&format!("preparing {} steps", configs.len()));
    let mut points = Vec::new();
    for (_, _, config) in &configs[..configs.len() - 1] {
        points.push(Point::prepare(config.clone())?);
    }
    points.push(last);

    watch.phase("measuring all steps by turns");
    let (rounds, complete) = rounds(&mut points, started, options, watch)?;
    let mut wrong = None;
    for point in &mut points {
        point.check()?;
        if let Some(found) = &point.wrong {
            wrong.get_or_insert_with(|| found.to_string());
        }
    }
    let bound: Vec<bool> =
        points.iter().map(|p| p.config().places.iter().all(|place| !place.is_empty())).collect();
    let cleaned = clean(&rounds, &bound);
    let desperate = cleaned.is_none();
    let counted = cleaned.unwrap_or_else(|| rounds.iter().map(Vec::as_slice).collect());
    let left_out = rounds.len() - counted.len();
    let kernels: Vec<Kernel> = points[0].config().kernels.iter().map(|(k, _)| *k).collect();
    let bytes: Vec<f64> =
        (0..kernels.len()).map(|i| crate::result::counted(&points[0], i)).collect();
    let steps = names
        .into_iter()
        .enumerate()
        .map(|(step, (name, what))| {
            let of = |f: &dyn Fn(&[Sample], usize) -> f64| -> Vec<Vec<f64>> {
                (0..kernels.len())
                    .map(|kernel| counted.iter().map(|round| f(round, kernel)).collect())
                    .collect()
            };
            Step {
                name,
                what,
                rates: of(&|round, k| bytes[k] / round[step].seconds[k]),
                factors: of(&|round, k| match step.checked_sub(1) {
                    Some(before) => round[before].seconds[k] / round[step].seconds[k],
                    None => 1.0,
                }),
            }
        })
        .collect();
    Ok(Explanation {
        kernels,
        steps,
        rounds: (counted.len(), left_out),
        notices,
        complete,
        wrong,
        desperate,
        follows_rule: size.follows_rule,
        array_bytes: points[0].arrays().array_bytes().0,
    })
}

/// Steps at most: baseline, threads, binding, layout, pages, stores, loop.
const MOST_STEPS: usize = 7;

/// The configurations of the steps, each one choice away from the one before; the last is `best`.
fn steps(
    best: &PointConfig,
    placement: &Placement,
    topology: &Topology,
    notices: &mut Vec<String>,
) -> Vec<(&'static str, String, PointConfig)> {
    // What a compiler makes of the plain loop: the widest vectors, unrolled a little.
    let plain = Shape {
        isa: crate::kernels::available_isas()[0],
        stores: Stores::Regular,
        unroll: 4,
        prefetch: Prefetch::Off,
    };
    let all_cpus = topology.allowed().count();
    let threads = placement.threads.len();
    let with = |base: &PointConfig, f: &dyn Fn(&mut PointConfig)| {
        let mut config = base.clone();
        f(&mut config);
        config
    };
    let baseline = with(best, &|c| {
        c.places = vec![Vec::new(); all_cpus];
        c.layout = Layout::Sequential { offset: 0 };
        c.pages = Pages::Base;
        c.kernels.iter_mut().for_each(|(_, shape)| *shape = plain);
    });
    let mut steps: Vec<(&'static str, String, PointConfig)> = vec![(
        "baseline",
        format!(
            "{all_cpus} unbound threads, regular stores, 4 KiB pages, arrays one after another"
        ),
        baseline,
    )];
    let mut add = |name, what: String, change: &dyn Fn(&mut PointConfig)| {
        let next = with(&steps[steps.len() - 1].2, change);
        if next == steps[steps.len() - 1].2 {
            notices.push(format!("{name}: nothing to vary here"));
        } else {
            steps.push((name, what, next));
        }
    };
    if threads != all_cpus {
        add("threads", format!("{threads} threads instead of {all_cpus}"), &|c| {
            c.places = vec![Vec::new(); threads];
        });
    }
    add("binding", format!("each thread bound to its place ({})", placement.places), &|c| {
        c.places.clone_from(&best.places);
    });
    add("layout", "arrays staggered, so that no two streams alias".to_owned(), &|c| {
        c.layout = best.layout;
    });
    add("pages", format!("{} pages", best.pages), &|c| c.pages = best.pages);
    add("stores", "non-temporal stores where they win".to_owned(), &|c| {
        for ((_, shape), (_, chosen)) in c.kernels.iter_mut().zip(&best.kernels) {
            shape.stores = chosen.stores;
        }
    });
    add("loop", "vector width and unroll chosen by trial for each kernel".to_owned(), &|c| {
        c.kernels.clone_from(&best.kernels);
    });
    steps
}

/// Runs rounds of one pass of every point, in an order of its own each time. The first round warms
/// up and is dropped.
fn rounds(
    points: &mut [Point],
    started: Instant,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<(Vec<Vec<Sample>>, bool), PointError> {
    let wished = options.samples.unwrap_or(WISHED_ROUNDS);
    let until = started + options.budget.mul_f64(0.95);
    let mut rounds = Vec::new();
    let mut order: Vec<usize> = (0..points.len()).collect();
    let mut shuffler = Shuffler::new(0x0065_7870);
    let mut warm = false;
    while rounds.len() < wished {
        let mut round: Vec<Option<Sample>> = vec![None; points.len()];
        shuffler.shuffle(&mut order);
        for i in &order {
            if watch.interrupted() {
                return Ok((rounds, false));
            }
            round[*i] = Some(points[*i].pass()?);
        }
        if std::mem::replace(&mut warm, true) {
            rounds.push(round.into_iter().flatten().collect());
        }
        let share = rounds.len() as f64 / wished as f64;
        let spent = 1.0
            - until.saturating_duration_since(Instant::now()).as_secs_f64()
                / options.budget.max(Duration::from_millis(1)).as_secs_f64();
        watch.progress(share.max(spent).min(1.0), "");
        // At least three rounds, or there is nothing to average.
        if options.samples.is_none() && Instant::now() >= until && rounds.len() >= FEWEST_ROUNDS {
            break;
        }
    }
    Ok((rounds, true))
}

/// The rounds in which nothing interfered with a bound step and all bound steps saw one regime: of
/// several regimes, the one that most rounds saw. `None` when fewer than three are left.
///
/// Unbound steps are left out of the question: their threads may share a CPU or wander, and that is
/// what the step is there to show.
fn clean<'a>(rounds: &'a [Vec<Sample>], bound: &[bool]) -> Option<Vec<&'a [Sample]>> {
    let of_bound = |round: &'a [Sample]| {
        round.iter().zip(bound).filter(|(_, bound)| **bound).map(|(sample, _)| sample)
    };
    let trips: Vec<f64> = rounds
        .iter()
        .flat_map(|round| of_bound(round))
        .flat_map(|sample| [sample.round_trips.0, sample.round_trips.1])
        .filter(|trip| trip.is_finite())
        .collect();
    let regimes = regime::regimes(&trips);
    let regime_of = |round: &'a [Sample]| -> Option<usize> {
        if trips.is_empty() {
            return Some(0);
        }
        let mut seen = of_bound(round)
            .map(|sample| regime::assign(&regimes, sample.round_trips.0, sample.round_trips.1));
        let first = seen.next()??;
        seen.all(|regime| regime == Some(first)).then_some(first)
    };
    let mut by_regime: BTreeMap<usize, Vec<&[Sample]>> = BTreeMap::new();
    for round in rounds {
        let quiet = of_bound(round).all(|sample| sample.causes.is_empty());
        if let (true, Some(regime)) = (quiet, regime_of(round)) {
            by_regime.entry(regime).or_default().push(round);
        }
    }
    by_regime.into_values().max_by_key(Vec::len).filter(|rounds| rounds.len() >= FEWEST_ROUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::interference::Cause;

    #[test]
    fn a_round_counts_when_all_its_bound_steps_saw_one_regime_in_peace() {
        let sample = |trip: f64, causes: Vec<Cause>| Sample {
            seconds: vec![1.0],
            round_trips: (trip, trip),
            causes,
            each: Vec::new(),
        };
        let (near, far, none) = (90e-9, 380e-9, f64::NAN);
        let preempted = || vec![Cause::Faults(99)];
        let round = |first: Vec<Cause>, trips: [f64; 2]| {
            vec![sample(none, first), sample(trips[0], vec![]), sample(trips[1], vec![])]
        };
        let mut rounds = vec![round(preempted(), [near, near]); 4];
        rounds.extend(vec![round(vec![], [near, far]); 3]);
        rounds.extend(vec![round(vec![], [far, far]); 2]);
        rounds[0][1].causes = preempted();
        let counted = clean(&rounds, &[false, true, true]).unwrap();
        let same = |(x, y): (&&[Sample], &Vec<Sample>)| std::ptr::eq(x.as_ptr(), y.as_ptr());
        assert!(counted.len() == 3 && counted.iter().zip(&rounds[1..4]).all(same));
        assert!(clean(&rounds[..3], &[false, true, true]).is_none());
    }

    #[test]
    fn factors_of_steps_multiply_to_the_whole() {
        let step = |rates: [f64; 2], before: [f64; 2]| Step {
            name: "x",
            what: String::new(),
            rates: vec![rates.to_vec()],
            factors: vec![rates.iter().zip(before).map(|(r, b)| r / b).collect()],
        };
        let (first, second, third) = ([10.0, 12.0], [13.0, 15.0], [30.0, 29.0]);
        let steps = [step(first, first), step(second, first), step(third, second)];
        let product: f64 = steps.iter().map(|s| s.factor(0)).product();
        assert!((product - steps[2].rate(0) / steps[0].rate(0)).abs() < 1e-12);
    }
}
