//! `apps trapezoid`: pi by the trapezoid rule, a compute-bound program without memory traffic, with threads of one
//! process and with ranks under every placement policy. The speed should not depend on the placement.

mod follow;
pub(crate) mod view;

pub use follow::follow;

use crate::config::{TrapezoidConfig, WorkersConfig};
use crate::{GAUGE, MpiRanks, WorkerPool, Workers, WorkersOptions, followers};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_analysis::ratio::paired::PairedRounds;
use nodegauge_gauge::series::Series;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Validity};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{
    Budget, Predictable, PredictedTime, RunLimits, Turn, TurnFailure, policy,
};
use nodegauge_measure::{Failure, FlopsPerSec, Notice, Observer, Outcome, Seconds, Unit};
pub(crate) use nodegauge_solvers::trapezoid::FLOPS_PER_POINT;
use nodegauge_solvers::trapezoid::{TrapezoidLoop, max_error};
use std::f64::consts::PI;
use std::time::Duration;

/// Name of the test in records.
pub const TEST: &str = "trapezoid";
/// Minimum number of points per sample; a sample repeats its sum until this number is reached. The shortest default sum
/// takes only some hundred microseconds, so a single interrupt would disturb it strongly.
const POINTS_PER_SAMPLE: u64 = 20_000_000;
/// Maximum number of intervals that an `f64` represents exactly.
pub const MAX_POINTS: u64 = 1 << 50;

/// Options of `apps trapezoid`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrapezoidOptions {
    /// Numbers of intervals of the sums; all numbers are at least 1.
    pub points: Vec<u64>,
    /// Time budget of the whole run, if the user set it. A run that would exceed it is refused.
    pub budget: Option<Duration>,
    /// Exact number of rounds after the warm-up, independent of the time.
    pub samples: Option<usize>,
}

/// Planned run of `apps trapezoid`.
pub struct TrapezoidPlan {
    workers: Vec<Workers>,
    options: TrapezoidOptions,
    notices: Vec<Notice>,
}

impl TrapezoidPlan {
    /// Default time budget of the whole run.
    pub const BUDGET: Duration = Duration::from_secs(45);
    /// Default numbers of intervals.
    pub const DEFAULT_POINTS: [u64; 3] = [1_000_000, 10_000_000, 1_000_000_000];

    /// Plans a run with the requested workers, or with the ranks that a launcher has started.
    ///
    /// # Errors
    /// Fails if this node does not have the workers, and if a number of intervals is out of range.
    pub fn new(
        site: &MeasuredNode,
        requested: &WorkersOptions,
        joined: Option<&MpiRanks>,
        options: TrapezoidOptions,
    ) -> Result<Self, Failure> {
        let mut notices = Vec::new();
        let workers = match joined {
            Some(ranks) => {
                requested.thread_and_launched_ranks(&site.topology, ranks, &mut notices)?
            }
            None => requested.threads_and_ranks(&site.topology, &mut notices)?,
        };
        Self::from_workers(workers, options, notices)
    }

    /// Plans a run with `workers`. The first kind of workers is the reference for the others.
    fn from_workers(
        workers: Vec<Workers>,
        options: TrapezoidOptions,
        notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        match options.points.iter().find(|points| !(1..=MAX_POINTS).contains(*points)) {
            Some(points) => Err(Failure::usage(format!(
                "invalid number of intervals {points}: expected 1 to 2^50"
            ))
            .hint("e.g. --n 1e6,1e9")),
            None => Ok(Self { workers, options, notices }),
        }
    }
}

impl PlannedRun for TrapezoidPlan {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost { time: Some(self.options.budget.unwrap_or(Self::BUDGET)), memory: None }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        let units = &[Unit::FlopsPerSecond, Unit::Factor];
        vec![PossibleFigures::new(GAUGE, TEST, ["rate", "efficiency", "relative"], units)]
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let Self { workers, mut options, mut notices } = *self;
        let rule = TrapezoidLoop::detect();
        observer.begin_phase("starting threads");
        let limits =
            RunLimits::from_budget(Budget::new(options.budget, Self::BUDGET), options.samples);
        let mut pool = WorkerPool::start(&workers)?;
        let cells: Vec<TrapezoidCell<'_>> = options
            .points
            .iter()
            .flat_map(|points| (0..workers.len()).map(|at| (*points, at)))
            .map(|(points, at)| TrapezoidCell { points, at, workers: &workers[at], error: 0.0 })
            .collect();
        let mut run = TrapezoidRun { rule, cells, kinds: workers.len() };
        let shared = SharedObserver::new(observer);
        if limits.samples.is_none() {
            (&mut &shared).begin_phase("predicting the time of a round");
            let is_default = options.points == Self::DEFAULT_POINTS;
            let mut predicted =
                run.predicted(&mut pool, is_default, &limits, &|| shared.is_interrupted())?;
            limits.admit(&mut predicted)?;
            let kept = predicted.rows.len();
            let left_out: Vec<String> =
                options.points.drain(kept..).map(|n| n.to_string()).collect();
            run.cells.truncate(kept * run.kinds);
            notices.extend(Notice::no_time_for(GAUGE, &left_out, " intervals"));
        }
        let mut series = Series::new(policy::APPS, limits, run.cells.len());
        (&mut &shared).begin_phase("measuring sums, interleaved");
        let longest = options.points.last().copied();
        series.run(
            &mut |turn: Turn| run.turn(&mut pool, turn.cell, &|| shared.is_interrupted()),
            &mut &shared,
            Some(&|samples: &[Vec<Sample>]| latest_rate(longest, samples)),
        )?;
        let mut measurements = run.figures(site, &series, &pool);
        measurements.retain(|m| m.value.is_some() || !m.validity.reasons.is_empty());
        let mut outcome = Outcome { measurements, notices, ..Outcome::default() };
        series.store_end(&mut outcome);
        outcome.details = pool.widest_team_affinities();
        Ok(outcome)
    }
}

/// Returns the rate of the longest sum, for the progress display.
fn latest_rate(points: Option<u64>, samples: &[Vec<Sample>]) -> String {
    let last = samples.iter().rev().find_map(|cell| cell.last());
    let seconds = last.and_then(|sample| sample.seconds.first());
    match (points, seconds) {
        (Some(points), Some(seconds)) => {
            FlopsPerSec(points as f64 * FLOPS_PER_POINT / seconds).to_string()
        }
        _ => String::new(),
    }
}

/// Measurement of sums with one number of intervals by one kind of workers.
struct TrapezoidCell<'a> {
    points: u64,
    /// Index of the kind of workers.
    at: usize,
    workers: &'a Workers,
    /// Largest difference between a sum and pi; NaN counts as the largest difference.
    error: f64,
}

impl TrapezoidCell<'_> {
    /// Returns the number of sums in a sample.
    fn sums(&self) -> u64 {
        POINTS_PER_SAMPLE.div_ceil(self.points)
    }
}

struct TrapezoidRun<'a> {
    rule: TrapezoidLoop,
    cells: Vec<TrapezoidCell<'a>>,
    /// Number of kinds of workers. This many consecutive cells have the same number of intervals.
    kinds: usize,
}

/// Predicted times of the sums, by number of intervals, for all workers together; known before the first round.
struct PredictedSums {
    rows: Vec<Duration>,
    is_default: bool,
}

impl Predictable for PredictedSums {
    fn predicted(&self) -> PredictedTime {
        let round: Duration = self.rows.iter().sum();
        let rounds = 1 + policy::APPS.sufficient_rounds() as u32;
        PredictedTime { min: 2 * round, likely: rounds * round }
    }

    /// Leaves out the largest of the default numbers of intervals.
    fn shorten(&mut self) -> bool {
        let can = self.is_default && self.rows.len() > 1;
        if can {
            self.rows.pop();
        }
        can
    }

    fn shortening_options(&self) -> &str {
        "fewer intervals (--n)"
    }
}

/// Measures a sample of `sums` consecutive sums. A sum ends when all workers have synchronised. Returns the sample,
/// which contains the time per sum, and the result of the last sum; `None` if interrupted.
fn sampled(
    rule: TrapezoidLoop,
    pool: &mut WorkerPool<'_>,
    cell: &TrapezoidCell<'_>,
    sums: u64,
    interrupted: &dyn Fn() -> bool,
) -> Result<Option<(Sample, f64)>, Failure> {
    let points = cell.points;
    followers::request_work(cell.workers, || follow::SumRequest { points, sums })?;
    rule.take_sample(pool, cell.at, points, sums, interrupted)
}

impl TrapezoidRun<'_> {
    /// Measures a sample of a cell; returns no sample if interrupted.
    fn turn(
        &mut self,
        pool: &mut WorkerPool<'_>,
        cell: usize,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Sample>, TurnFailure> {
        let cell = &mut self.cells[cell];
        let sampled = sampled(self.rule, pool, cell, cell.sums(), interrupted);
        let sampled = sampled.map_err(|failure| followers::turn_failure(cell.workers, failure))?;
        let Some((sample, sum)) = sampled else { return Ok(Vec::new()) };
        let error = (sum - PI).abs();
        cell.error = [cell.error, error].into_iter().max_by(f64::total_cmp).unwrap_or(error);
        Ok(vec![sample])
    }

    /// Predicts the time of a round from one sum of each cell. The prediction may be too short: if workers share CPUs,
    /// synchronisation takes most of the time of a sum. If a budget of the user does not permit all these sums, the
    /// sums measured so far predict the others. `is_default` is true if the user did not choose the numbers of
    /// intervals.
    fn predicted(
        &self,
        pool: &mut WorkerPool<'_>,
        is_default: bool,
        limits: &RunLimits,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<PredictedSums, Failure> {
        let mut rows = Vec::new();
        let mut predicted = 0.0;
        let mut summed = 0.0;
        for row in self.cells.chunks(self.kinds) {
            let mut round = 0.0;
            for cell in row {
                let work = (cell.points * cell.sums()) as f64;
                if summed > 0.0 && limits.must_end_prediction() {
                    round += predicted / summed * work;
                    continue;
                }
                let points = cell.points.min(POINTS_PER_SAMPLE);
                let short = TrapezoidCell { points, error: 0.0, ..*cell };
                // The first sum raises the clock frequency and is not counted.
                sampled(self.rule, pool, &short, 1, interrupted)?;
                let Some((sample, _)) = sampled(self.rule, pool, &short, 1, interrupted)? else {
                    break;
                };
                let longer = cell.points as f64 / points as f64;
                let time = sample.seconds[0] * longer * cell.sums() as f64;
                round += time;
                predicted += time;
                summed += work;
            }
            rows.push(Duration::from_secs_f64(round));
        }
        Ok(PredictedSums { rows, is_default })
    }

    fn figures(
        &self,
        site: &MeasuredNode,
        series: &Series,
        pool: &WorkerPool<'_>,
    ) -> Vec<Measurement> {
        let known = site.round_trips.for_places(&pool.widest_team_cpus());
        let judged = series.samples_by_regime(&known);
        let guest = site.machine.virtualisation.is_some();
        let mut all = Vec::new();
        let mut validities = vec![Validity::valid(); self.cells.len()];
        for (number, cell) in self.cells.iter().enumerate() {
            let flops = cell.points as f64 * FLOPS_PER_POINT;
            let mut config = TrapezoidConfig {
                on: WorkersConfig::from_workers(cell.workers),
                n: Some(cell.points),
                isa: Some(self.rule.isa_name().to_owned()),
                sums: Some(cell.sums()),
                error: Some(cell.error).filter(|error| error.is_finite()),
                error_allowed: Some(max_error(cell.points)),
                stopped: Some(series.stop_reason().to_string()),
                ..TrapezoidConfig::default()
            };
            let mut validity = cell.validity();
            for doubt in judged.doubts(number, 0, guest) {
                validity.mark_suspect(doubt);
            }
            let rate = Measurement::new(GAUGE, TEST, "rate", Unit::FlopsPerSecond);
            let rate =
                series.figure(&judged, (number, 0), rate, QuotedStatistic::Median, &|seconds| {
                    flops / seconds
                });
            let Some(rate) = rate else { continue };
            config.seconds = rate.summary.as_ref().map(|summary| Seconds(flops / summary.median));
            let rate =
                series.judge_figure(number, rate.with_config(&config).with_validity(validity));
            validities[number] = rate.validity.clone();
            all.push(rate);
            // The first kind of workers is the reference; ranks under a policy are also compared with the first policy.
            let row = number - cell.at;
            let of_row = &self.cells[row..row + self.kinds];
            let reference = of_row.iter().position(|other| other.workers.policy_number().is_some());
            let relative = cell.workers.policy_number().and(reference).map(|at| row + at);
            for (name, of) in [("efficiency", Some(row)), ("relative", relative)] {
                let Some(of) = of.filter(|of| *of != number) else { continue };
                if series.cell_failure(of).is_some() || series.cell_failure(number).is_some() {
                    continue;
                }
                let base = &self.cells[of];
                let mut paired =
                    PairedRounds::from_samples(&series.schedule.complete_rounds(&[of, number]));
                if name == "efficiency" {
                    paired =
                        paired.scaled_by(base.workers.count() as f64 / cell.workers.count() as f64);
                }
                let mut cell_validity = cell.validity();
                for wrong in base.validity().reasons {
                    cell_validity.mark_invalid(wrong);
                }
                paired.doubt().into_iter().for_each(|reason| cell_validity.mark_suspect(reason));
                config.against = Some(base.workers.in_words());
                let ratio = Measurement::new(GAUGE, TEST, name, Unit::Factor);
                let ratio = ratio.with_samples(QuotedStatistic::Median, paired.ratios().to_vec());
                let mut ratio = ratio.with_config(&config).with_validity(cell_validity);
                ratio.inherit_doubts(&validities[of], "baseline");
                ratio.inherit_doubts(&validities[number], "rate");
                all.push(ratio);
            }
        }
        all
    }
}

impl TrapezoidCell<'_> {
    /// Returns the validity: every sum must equal pi within the expected error.
    fn validity(&self) -> Validity {
        let mut validity = Validity::valid();
        let max = max_error(self.points);
        if self.error.total_cmp(&max).is_gt() {
            validity.mark_invalid(format!(
                "a sum over {} by {} deviates from pi by {:.1e}, expected at most {max:.1e}: the loop or this machine computes incorrectly",
                count_in_words(self.points as usize, "interval"),
                self.workers.in_words(),
                self.error
            ));
        }
        validity
    }
}

#[cfg(test)]
mod tests;
