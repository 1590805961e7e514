//! `apps trapezoid`: pi by the trapezoid rule, a program that computes and needs no memory: by threads of one
//! process, and by ranks under each policy of placement, which it is not to mind.

pub mod rule;
pub(crate) mod view;

use crate::config::{TrapezoidConfig, WorkersConfig};
use crate::{GAUGE, WorkerPool, Workers, WorkersOptions, paired};
use nodegauge_analysis::expect::Figures;
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::{Measurement, Quoted, Validity};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::samples::{OneRegime, Sample};
use nodegauge_measure::schedule::{Limits, Schedule, policy};
use nodegauge_measure::{Failure, FlopsPerSec, Notice, Observer, Outcome, Seconds, Unit};
use nodegauge_team::Interrupt;
use rule::Rule;
use std::f64::consts::PI;
use std::hint::black_box;
use std::time::Duration;

/// `test` of its figures.
pub const TEST: &str = "trapezoid";
/// Points of a sample at least, in as many sums as that takes: the shortest of the standard's sums is some
/// hundred microseconds, in which a core's interrupt is much.
const POINTS_A_SAMPLE: u64 = 20_000_000;
/// Intervals at most: their number is exact in a `f64`.
pub const MOST_POINTS: u64 = 1 << 50;

/// Options of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct TrapezoidOptions {
    /// Intervals, at least one each.
    pub points: Vec<u64>,
    /// Time for everything.
    pub budget: Duration,
    /// Exactly this many rounds after the warm-up, whatever the time.
    pub samples: Option<usize>,
}

/// A planned run.
pub struct TrapezoidPlan {
    workers: Vec<Workers>,
    options: TrapezoidOptions,
    notices: Vec<Notice>,
}

impl TrapezoidPlan {
    /// Time for everything unless the user says otherwise.
    pub const BUDGET: Duration = Duration::from_secs(45);
    /// Intervals unless the user says otherwise.
    pub const POINTS: [u64; 3] = [1_000_000, 10_000_000, 1_000_000_000];

    /// Plans a run of the requested workers.
    ///
    /// # Errors
    /// Workers that this node cannot have, and numbers of intervals that are not counted exactly.
    pub fn new(
        site: &Site,
        requested: &WorkersOptions,
        options: TrapezoidOptions,
    ) -> Result<Self, Failure> {
        let mut notices = Vec::new();
        let workers = requested.compared(&site.topology, &mut notices)?;
        Self::of(workers, options, notices)
    }

    /// Plans a run of `workers`, of which the first are what others are held against.
    fn of(
        workers: Vec<Workers>,
        options: TrapezoidOptions,
        notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        match options.points.iter().find(|points| !(1..=MOST_POINTS).contains(*points)) {
            Some(points) => {
                Err(Failure::usage(format!("a sum over {points} intervals: expected 1 to 2^50"))
                    .hint("e.g. --n 1e6,1e9"))
            }
            None => Ok(Self { workers, options, notices }),
        }
    }
}

impl Planned for TrapezoidPlan {
    fn foreseen(&self) -> Foreseen {
        Foreseen { time: Some(self.options.budget), memory: None }
    }

    fn figures(&self, _: &Site) -> Vec<Figures> {
        let units = &[Unit::FlopsPerSecond, Unit::Factor];
        vec![Figures::new(GAUGE, TEST, ["rate", "efficiency", "relative"], units)]
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let Self { workers, options, notices } = *self;
        let rule = Rule::detect();
        observer.phase("starting threads");
        let mut pool = WorkerPool::start(&workers)?;
        let limits = Limits::new(options.budget, options.samples);
        let cells: Vec<TrapezoidCell<'_>> = options
            .points
            .iter()
            .flat_map(|points| (0..workers.len()).map(|at| (*points, at)))
            .map(|(points, at)| TrapezoidCell { points, at, workers: &workers[at], error: 0.0 })
            .collect();
        let mut run = TrapezoidRun { rule, cells, first: workers.len() };
        let mut schedule = Schedule::new(policy::APPS, limits, run.cells.len());
        observer.phase("summing up interleaved");
        let rate = |sample: &Sample| run_rate(options.points.last(), sample);
        let latest = |samples: &[Vec<Sample>]| {
            let last = samples.iter().rev().find_map(|cell| cell.last());
            last.and_then(rate).map_or_else(String::new, |rate| rate.to_string())
        };
        let ended = schedule.run(observer, Some(&latest), |turn| run.turn(&mut pool, turn.cell));
        let (stop, failure) = match ended {
            Ok(stop) => (Some(stop), None),
            Err(failure) if schedule.samples.iter().all(Vec::is_empty) => return Err(failure),
            Err(failure) => (None, Some(failure)),
        };
        let mut measurements = run.figures(site, &schedule.samples, &pool, stop);
        measurements.retain(|m| m.value.is_some() || !m.validity.reasons.is_empty());
        let mut outcome = Outcome { measurements, notices, stop, failure, ..Outcome::default() };
        outcome.notices.extend(limits.overrun(GAUGE, Duration::ZERO));
        outcome.details = pool.details();
        Ok(outcome)
    }
}

/// The rate of the longest sum, for the user to see.
fn run_rate(points: Option<&u64>, sample: &Sample) -> Option<FlopsPerSec> {
    Some(FlopsPerSec(*points? as f64 * rule::FLOPS / sample.seconds.first()?))
}

/// A sum by some workers.
struct TrapezoidCell<'a> {
    points: u64,
    /// Number of the workers.
    at: usize,
    workers: &'a Workers,
    /// The greatest distance of a sum from pi; NaN is greater than any.
    error: f64,
}

impl TrapezoidCell<'_> {
    /// Sums in a sample.
    fn sums(&self) -> u64 {
        POINTS_A_SAMPLE.div_ceil(self.points)
    }
}

struct TrapezoidRun<'a> {
    rule: Rule,
    cells: Vec<TrapezoidCell<'a>>,
    /// Kinds of workers: so many cells are of one number of points.
    first: usize,
}

impl TrapezoidRun<'_> {
    /// A sample: sums one after another, each of which ends when all have met.
    fn turn(&mut self, pool: &mut WorkerPool<'_>, cell: usize) -> Result<Vec<Sample>, Failure> {
        let (rule, cell) = (self.rule, &mut self.cells[cell]);
        let (points, sums) = (cell.points, cell.sums());
        // SAFETY: the job computes, and meets the others at their own barrier.
        let (mut sample, timed) = unsafe {
            pool.sample(cell.at, Interrupt::never(), |member, laps| {
                laps.time(|| {
                    let mut share = 0.0;
                    for _ in 0..sums {
                        share = rule.share(black_box(points), member.index, member.count);
                        member.barrier();
                    }
                    // What is no number has none in JSON.
                    share.to_bits()
                })
            })
        }?;
        let sum: f64 = timed.made.into_iter().map(f64::from_bits).sum();
        let error = (sum - PI).abs();
        cell.error = [cell.error, error].into_iter().max_by(f64::total_cmp).unwrap_or(error);
        sample.seconds.iter_mut().for_each(|seconds| *seconds /= sums as f64);
        Ok(vec![sample])
    }

    fn figures(
        &self,
        site: &Site,
        samples: &[Vec<Sample>],
        pool: &WorkerPool<'_>,
        stop: Option<Stop>,
    ) -> Vec<Measurement> {
        let known = site.round_trips.between(&pool.places());
        let judged = OneRegime::new(samples.to_vec(), &known);
        let guest = site.machine.virtualisation.is_some();
        let mut all = Vec::new();
        for (number, cell) in self.cells.iter().enumerate() {
            let Some(timed) = judged.of(number) else { continue };
            let flops = cell.points as f64 * rule::FLOPS;
            let mut config = TrapezoidConfig {
                on: WorkersConfig::of(cell.workers),
                n: Some(cell.points),
                isa: Some(self.rule.isa_name().to_owned()),
                sums: Some(cell.sums()),
                error: Some(cell.error).filter(|error| error.is_finite()),
                error_allowed: Some(rule::allowed(cell.points)),
                stopped: stop.map(|stop| stop.to_string()),
                ..TrapezoidConfig::default()
            };
            let mut validity = cell.validity();
            for doubt in judged.doubts(number, 0, guest) {
                validity.suspect(doubt);
            }
            let figure = |name: &str, unit| Measurement::new(GAUGE, TEST, name, unit);
            let rate = figure("rate", Unit::FlopsPerSecond);
            let rate = rate.timed(Quoted::Median, timed, 0, &|seconds| flops / seconds);
            config.seconds = rate.summary.as_ref().map(|summary| Seconds(flops / summary.median));
            all.push(rate.config(&config).judged(validity));
            // The first workers, and of ranks under policies the first of those.
            let row = number - cell.at;
            let under_policy = |at: &usize| self.cells[*at].workers.policy().is_some();
            let reference = (row..row + self.first).find(under_policy);
            let relative = under_policy(&number).then_some(reference).flatten();
            for (name, of) in [("efficiency", Some(row)), ("relative", relative)] {
                let Some(of) = of.filter(|of| *of != number) else { continue };
                let base = &self.cells[of];
                let (mut ratios, enough) = paired::ratios(samples, of, number);
                if name == "efficiency" {
                    let share = base.workers.count() as f64 / cell.workers.count() as f64;
                    ratios.iter_mut().for_each(|ratio| *ratio *= share);
                }
                let mut cell_validity = cell.validity();
                for wrong in base.validity().reasons {
                    cell_validity.invalid(wrong);
                }
                if !enough {
                    cell_validity
                        .suspect("few rounds were undisturbed, so disturbed ones count too");
                }
                config.against = Some(base.workers.in_words());
                let ratio = figure(name, Unit::Factor).sampled(Quoted::Median, ratios);
                all.push(ratio.config(&config).judged(cell_validity));
            }
        }
        all
    }
}

impl TrapezoidCell<'_> {
    /// Returns the validity: every sum must be pi.
    fn validity(&self) -> Validity {
        let mut validity = Validity::valid();
        let allowed = rule::allowed(self.points);
        if self.error.total_cmp(&allowed).is_gt() {
            validity.invalid(format!(
                "a sum over {} by {} is {:.1e} off pi, where {allowed:.1e} is explained: the loop or this machine computes wrongly",
                counted(self.points as usize, "interval"),
                self.workers.in_words(),
                self.error
            ));
        }
        validity
    }
}

#[cfg(test)]
mod tests;
