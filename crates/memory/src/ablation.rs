//! What each choice is worth on this node (`explain`): steps from an unbound run with regular stores
//! on 4 KiB pages and arrays one after another, to the best that `stream` does, one choice at a time.
//!
//! All steps are measured by turns in random order; a round in which anything interfered, or whose
//! passes saw different regimes, is left out whole. The factor of a step is the geometric mean over
//! rounds of its rate over that of the step before, so the factors multiply to the factor of the
//! whole, exactly.

use crate::GAUGE;
use crate::arrangement::{self, Arrangement};
use crate::arrays::{Layout, Pages};
use crate::config::ExplainConfig;
use crate::kernels::{self, Kernel, Prefetch, Shape, SideBySide, Stores};
use crate::point::{Point, PointConfig, Sample};
use crate::result;
use crate::target::Target;
use crate::tuner::{self, Breadth, Constraints};
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_machine::Topology;
use nodegauge_measure::record::{Measurement, Quoted, Validity};
use nodegauge_measure::samples::clean_rounds;
use nodegauge_measure::schedule::{Schedule, policy};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer, Outcome, Unit, stats};
use nodegauge_placement::Placement;
use std::time::Duration;

/// The test of its figures.
pub const TEST: &str = "explain";
/// The figure that is the product of all others.
pub const WHOLE: &str = "whole";
/// Fewer rounds than this say nothing.
const FEWEST_ROUNDS: usize = 3;
/// Steps at most: baseline, threads, binding, layout, pages, stores, loop, pages side by side.
const MOST_STEPS: u64 = 8;

/// A planned ablation: the best that `stream` does on a placement, taken apart.
pub struct AblationPlan(Arrangement);

impl AblationPlan {
    /// Time for everything unless the user says otherwise: the steps share it.
    pub const BUDGET: Duration = Duration::from_secs(20);
    /// The share of the memory for each step: every step has arrays of its own.
    pub const SHARE: f64 = 1.0 / MOST_STEPS as f64;

    /// Plans it.
    pub fn new(arrangement: Arrangement) -> Self {
        Self(arrangement)
    }
}

impl Planned for AblationPlan {
    fn foreseen(&self) -> Foreseen {
        self.0.foreseen(MOST_STEPS)
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let mut arrangement = self.0;
        let limits = arrangement.limits();
        observer.phase("choosing the best loops");
        let asked = arrangement.options.constraints();
        let prefetch = asked.prefetch.or(Some(Prefetch::Off));
        let constraints = Constraints { prefetch, ..asked };
        let shapes = tuner::candidates(constraints, Breadth::Likely);
        let mut best = arrangement.point(observer)?;
        let deadline = limits.at(policy::EXPLAIN.choose);
        let chosen = tuner::choose(&mut best, &shapes, deadline, || observer.interrupted())?;
        arrangement.notices.push(arrangement::chosen_notice(&chosen));

        let (placement, notices) = (&arrangement.placement, &mut arrangement.notices);
        let steps = steps(best.config(), placement, &site.topology, notices);
        observer.phase(&format!("preparing {} steps", steps.len()));
        let mut points = Vec::new();
        for step in &steps[..steps.len() - 1] {
            points.push(Point::prepare(step.config.clone())?);
        }
        points.push(best);

        observer.phase("measuring all steps by turns");
        let mut schedule = Schedule::new(policy::EXPLAIN, limits, points.len());
        let pass = |point: &mut Point| point.pass().map(|sample| vec![sample]);
        let stop = schedule.run(observer, None, |turn| pass(&mut points[turn.cell]))?;
        let mut wrong = None;
        for point in &mut points {
            point.check()?;
            wrong = wrong.or_else(|| point.wrong.as_ref().map(ToString::to_string));
        }
        let bound = |point: &Point| point.config().places.iter().all(|place| !place.is_empty());
        let bound: Vec<bool> = points.iter().map(bound).collect();
        let kernels: Vec<Kernel> = best_kernels(&steps);
        let rounds = schedule.rounds();
        let measured = Measured {
            steps: &steps,
            bytes: (0..kernels.len()).map(|i| result::counted(&points[0], i)).collect(),
            kernels,
            rounds: &rounds,
            clean: clean_rounds(&rounds, &bound, FEWEST_ROUNDS),
            wrong,
            follows_rule: arrangement.size.follows_rule,
            array_bytes: Bytes(arrangement.elements() * arrangement.options.element.bytes()),
        };
        Ok(Outcome {
            measurements: measured.figures(),
            notices: arrangement.notices,
            stop: Some(stop),
            ..Outcome::default()
        })
    }
}

/// One choice more than the step before.
struct Step {
    /// Stable name, e.g. `binding`; `baseline` for the first.
    name: &'static str,
    /// What changes with this step, in words.
    what: String,
    config: PointConfig,
}

fn best_kernels(steps: &[Step]) -> Vec<Kernel> {
    steps[0].config.kernels.iter().map(|(kernel, _)| *kernel).collect()
}

/// What was measured of all steps.
struct Measured<'a> {
    /// Baseline first.
    steps: &'a [Step],
    /// In the order of a pass.
    kernels: Vec<Kernel>,
    /// Bytes that each kernel counts.
    bytes: Vec<f64>,
    /// All rounds, one sample of each step.
    rounds: &'a [Vec<Sample>],
    /// Those in which nothing interfered; `None` when they are too few.
    clean: Option<Vec<&'a [Sample]>>,
    /// The first wrong value found in any step's arrays.
    wrong: Option<String>,
    /// Whether the arrays follow STREAM's rule; `None` when caches are not known.
    follows_rule: Option<bool>,
    array_bytes: Bytes,
}

impl Measured<'_> {
    /// One figure a step of the explained kernel, Triad when it ran, else the last; and [`WHOLE`],
    /// their product. None without a counted round.
    fn figures(&self) -> Vec<Measurement> {
        let rounds = match &self.clean {
            Some(clean) => clean.clone(),
            None => self.rounds.iter().map(Vec::as_slice).collect(),
        };
        if rounds.is_empty() {
            return Vec::new();
        }
        let triad = self.kernels.iter().position(|kernel| *kernel == Kernel::Triad);
        let explained = triad.unwrap_or(self.kernels.len() - 1);
        let name = |i: usize| self.kernels[i].name().to_owned();
        let factors = |from: usize, to: usize, kernel: usize| -> Vec<f64> {
            let factor =
                |round: &&[Sample]| round[from].seconds[kernel] / round[to].seconds[kernel];
            rounds.iter().map(factor).collect()
        };
        let rate = |step: usize| {
            let of = |round: &&[Sample]| self.bytes[explained] / round[step].seconds[explained];
            stats::geometric_mean(&rounds.iter().map(of).collect::<Vec<f64>>())
        };
        let last = self.steps.len() - 1;
        let validity = self.validity();
        let figure = |figure: &str, factors: Vec<f64>, to: usize, config: ExplainConfig| {
            let config = ExplainConfig {
                engine: Some("native".to_owned()),
                kernel: Some(name(explained)),
                to: Some(rate(to)),
                ..config
            };
            Measurement::new(GAUGE, TEST, figure, Unit::Factor)
                .sampled(Quoted::GeometricMean, factors)
                .config(&config)
                .judged(validity.clone())
        };
        let of_step = |(before, step): (usize, &Step)| {
            let to = before + 1;
            let mean = |kernel| stats::geometric_mean(&factors(before, to, kernel));
            let config = ExplainConfig {
                what: Some(step.what.clone()),
                factors: Some((0..self.kernels.len()).map(|i| (name(i), mean(i).into())).collect()),
                ..ExplainConfig::default()
            };
            figure(step.name, factors(before, to, explained), to, config)
        };
        let mut figures: Vec<Measurement> =
            self.steps[1..].iter().enumerate().map(of_step).collect();
        let config = ExplainConfig {
            baseline: Some(self.steps[0].what.clone()),
            from: Some(rate(0)),
            rounds: Some(rounds.len() as u64),
            rounds_left_out: Some((self.rounds.len() - rounds.len()) as u64),
            array_bytes: Some(self.array_bytes.0),
            ..ExplainConfig::default()
        };
        figures.push(figure(WHOLE, factors(0, last, explained), last, config));
        figures
    }

    fn validity(&self) -> Validity {
        let mut validity = Validity::valid();
        if let Some(wrong) = &self.wrong {
            let reason = format!("the arrays do not hold what they must: {wrong}");
            validity.invalid(reason);
        }
        if self.follows_rule == Some(false) {
            let reason =
                "the arrays are smaller than STREAM's rule asks for, and may lie in a cache";
            validity.suspect(reason);
        }
        if self.clean.is_none() {
            let reason = "nearly every round was disturbed, so disturbed ones count too";
            validity.suspect(reason);
        }
        validity
    }
}

/// The steps, each one choice away from the one before; the last is `best`.
fn steps(
    best: &PointConfig,
    placement: &Placement,
    topology: &Topology,
    notices: &mut Vec<Notice>,
) -> Vec<Step> {
    // What a compiler makes of the plain loop: the widest vectors, unrolled a little.
    let plain = Shape {
        isa: kernels::available_isas()[0],
        stores: Stores::Regular,
        unroll: 4,
        side_by_side: SideBySide::ONE,
        prefetch: Prefetch::Off,
    };
    let all_cpus = topology.allowed().count();
    let threads = placement.threads.len();
    let baseline = PointConfig {
        places: vec![Vec::new(); all_cpus],
        layout: Layout::Sequential { offset: 0 },
        pages: Pages::Base,
        kernels: best.kernels.iter().map(|(kernel, _)| (*kernel, plain)).collect(),
        ..best.clone()
    };
    let what = format!(
        "{all_cpus} unbound threads, regular stores, 4 KiB pages, arrays one after another"
    );
    let mut steps = vec![Step { name: "baseline", what, config: baseline }];
    let mut add = |name, what: String, change: &dyn Fn(&mut PointConfig)| {
        let before = &steps[steps.len() - 1].config;
        let mut config = before.clone();
        change(&mut config);
        if config == *before {
            let text = format!("{name}: nothing to vary here");
            notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
        } else {
            steps.push(Step { name, what, config });
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
        c.kernels.iter_mut().for_each(|(_, shape)| shape.side_by_side = SideBySide::ONE);
    });
    add("side_by_side", "pages walked side by side where it wins".to_owned(), &|c| {
        c.kernels.clone_from(&best.kernels);
    });
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::Status;

    fn config() -> PointConfig {
        let shape = Shape {
            isa: kernels::available_isas()[0],
            stores: Stores::Regular,
            unroll: 4,
            side_by_side: SideBySide::ONE,
            prefetch: Prefetch::Off,
        };
        PointConfig {
            places: vec![Vec::new()],
            elements: 8,
            element: kernels::Element::F64,
            pages: Pages::Base,
            layout: Layout::Staggered,
            policy: nodegauge_placement::MemoryPolicy::Default,
            kernels: vec![(Kernel::Copy, shape), (Kernel::Triad, shape)],
            trial_parts: 1,
        }
    }

    #[test]
    fn factors_of_steps_multiply_to_the_whole() {
        let steps = ["baseline", "binding", "loop"].map(|name| Step {
            name,
            what: String::new(),
            config: config(),
        });
        let round = |seconds: [f64; 3]| -> Vec<Sample> {
            seconds.iter().map(|s| Sample::of_times(vec![1.0, *s])).collect()
        };
        let rounds = [round([3.0, 2.0, 1.1]), round([2.5, 2.1, 1.0])];
        let measured = Measured {
            steps: &steps,
            kernels: vec![Kernel::Copy, Kernel::Triad],
            bytes: vec![16.0, 24.0],
            rounds: &rounds,
            clean: None,
            wrong: None,
            follows_rule: None,
            array_bytes: Bytes(64),
        };
        let figures = measured.figures();
        let values: Vec<f64> = figures.iter().filter_map(|m| m.value).collect();
        assert!((values[0] * values[1] / values[2] - 1.0).abs() < 1e-12, "{values:?}");
        let config: ExplainConfig = figures[2].read_config();
        let (from, to) = (config.from.unwrap(), config.to.unwrap());
        assert!((to / from / values[2] - 1.0).abs() < 1e-12);
        assert_eq!((config.rounds, config.rounds_left_out), (Some(2), Some(0)));
        assert!(figures.iter().all(|m| m.validity.status == Status::Suspect));
        let config: ExplainConfig = figures[0].read_config();
        assert_eq!(config.factors.unwrap()["copy"], 1.0);
    }
}
