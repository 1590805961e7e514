//! Effect of each choice on the bandwidth of this node (`explain`). The first step is an unbound run with regular
//! stores, 4 KiB pages and contiguous arrays. Each further step changes one choice; the last step has the best
//! configuration of `stream`.
//!
//! All steps are measured interleaved in random order. `memcpy` of the C library is measured with them and compared
//! with Copy. The factor of a step is its best rate (STREAM's statistic) divided by the best rate of the previous step.
//! The product of all factors is therefore exactly the total factor, and the rate of the last step is the rate that
//! `stream` measures. Consecutive passes, as in `stream`, are measured afterwards to confirm this. A round is excluded
//! if its passes belong to different regimes.

use crate::GAUGE;
use crate::arrangement::{self, Arrangement, PreparedTarget, TargetSetup};
use crate::config::{ExplainConfig, StreamAgreement};
use crate::kernels::{self, Kernel, KernelShape, Loop, Prefetch, SideBySidePages, Stores};
use crate::point::{StreamTarget, native_loops};
use crate::prediction::{self, ArraysCost};
use crate::result::unchecked_in_words;
use crate::size::ArraySize;
use crate::size::check::SizeCheck;
use crate::target::TargetConfig;
use crate::tuner::{self, LoopConstraints, SearchBreadth};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_analysis::ratio::bests::{self, Ratio};
use nodegauge_analysis::ratio::paired::{CountingRounds, SelectedRounds};
use nodegauge_arena::{ArrayLayout, RequestedPages};
use nodegauge_gauge::series::{Series, lost_in_words};
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_machine::Topology;
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Status, Validity};
use nodegauge_measure::samples;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{PredictedTime, RunLimits, Turn, policy};
use nodegauge_measure::{
    Bytes, BytesPerSec, Failure, Notice, NoticeId, Observer, Outcome, Seconds, Unit,
};
use nodegauge_placement::Placement;
use std::time::Duration;

/// Name of the test in records.
pub const TEST: &str = "explain";
/// Name of the total factor, the product of the factors of all steps.
pub const TOTAL_FACTOR: &str = "whole";
/// Names of the factors of single choices.
const STEPS: [&str; 7] =
    ["threads", "binding", "layout", "pages", "stores", "loop", "side_by_side"];
/// Name of the ratio of `memcpy` of the C library to Copy.
pub const MEMCPY: &str = "memcpy";
/// Minimum number of rounds from which a conclusion is drawn; STREAM's default number of passes. The best of fewer
/// rounds depends on chance.
pub(crate) const MIN_ROUNDS: usize = 10;
/// Safety factor for predicted times, which may be too low by a tenth.
const UNCERTAINTY: f64 = 1.1;
/// Number of cells whose loops are unknown until they have been chosen: the steps of stores, loop and pages side by
/// side, and `memcpy`.
const UNKNOWN_CELLS: usize = 4;
/// Maximum number of teams with their own arrays: baseline, threads, binding, layout, pages. The later steps change
/// only the loops.
const MAX_POINTS: u64 = 5;

/// Plan of `explain`: steps to the best configuration of `stream` on a placement.
pub struct AblationPlan(Arrangement);

impl AblationPlan {
    /// Default time budget of all steps together.
    pub const BUDGET: Duration = Duration::from_secs(30);
    /// Share of the memory for each set of arrays, because all sets exist simultaneously.
    pub const MEMORY_SHARE: f64 = 1.0 / MAX_POINTS as f64;

    /// Plans the steps to the configuration of `arrangement`.
    pub fn new(arrangement: Arrangement) -> Self {
        Self(arrangement)
    }
}

impl PlannedRun for AblationPlan {
    fn expected_cost(&self) -> ExpectedCost {
        self.0.expected_cost(MAX_POINTS)
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        vec![PossibleFigures::new(
            GAUGE,
            TEST,
            STEPS.into_iter().chain([TOTAL_FACTOR, MEMCPY]),
            &[Unit::Factor],
        )]
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let mut arrangement = self.0;
        let limits = arrangement.limits();
        let reported = admit(site, &mut arrangement, &limits, observer)?;
        observer.begin_phase("choosing the best loops");
        let asked = arrangement.options.arrays.constraints();
        let prefetch = asked.prefetch.or(Some(Prefetch::Off));
        let constraints = LoopConstraints { prefetch, ..asked };
        let shapes = tuner::candidate_shapes(constraints, SearchBreadth::Likely);
        let make = &mut |of: &Arrangement| of.prepare_stream_target();
        let mut set_up =
            TargetSetup { make, target: |it| it, count: MAX_POINTS as u32, may_grow: true };
        let mut best = set_up.run(&arrangement, &limits, observer)?;
        let deadline = limits.time_at_share(policy::EXPLAIN.choice_share);
        let begun_choosing = limits.elapsed();
        let chosen =
            tuner::choose(&mut best.target, &shapes, deadline, || observer.is_interrupted())?;
        let choosing = limits.elapsed() - begun_choosing;
        arrangement.notices.push(arrangement::loop_choice_notice(&chosen));
        let best = arrangement.check_size(site, best, &mut set_up, limits, observer)?;
        let PreparedTarget { target: best, check, .. } = best;

        let placement = &arrangement.placement;
        let steps = steps(best.config(), placement, &site.topology, &mut arrangement.notices);
        let begun = limits.elapsed();
        observer
            .begin_phase(&format!("preparing {}{reported}", count_in_words(steps.len(), "step")));
        let mut points = vec![best];
        let mut cells = Vec::new();
        for step in &steps {
            let known =
                points.iter().position(|point| point.config().is_arranged_like(&step.config));
            if known.is_none() {
                observer.check_interrupt()?;
                points.push(StreamTarget::prepare(step.config.clone())?);
            }
            let loops = native_loops(&step.config.kernels, step.config.element)?;
            cells.push((known.unwrap_or(points.len() - 1), loops));
        }
        let kernels: Vec<Kernel> =
            steps[0].config.kernels.iter().map(|(kernel, _)| *kernel).collect();
        let copy = kernels.iter().position(|kernel| *kernel == Kernel::Copy);
        cells.extend(copy.map(|_| (0, vec![Loop::Memcpy(points[0].config().element)])));

        let setup_time = limits.elapsed();
        let limits = RunLimits { reserve: (setup_time - begun) / 2, ..limits };
        observer.begin_phase("measuring all steps, interleaved");
        let mut series = Series::new(policy::EXPLAIN, limits, cells.len());
        let mut pass = |(point, loops): &(usize, Vec<Loop>)| {
            points[*point].set_loops(loops.clone())?;
            points[*point].run_pass().map(|sample| vec![sample])
        };
        let mut turn = |turn: Turn| pass(&cells[turn.cell]);
        series.run(&mut turn, observer, None)?;
        // A complete round is required for the factors, even if the run is late.
        series.remeasure(&series.unmeasured_cells(), 1, &mut turn, observer);
        let measuring = limits.elapsed() - setup_time;
        let mut alone = Series::new(policy::EXPLAIN_LAST_STEP, limits, 1);
        // The factors end at the first step that failed.
        let kept = (0..steps.len()).find(|step| series.cell_failure(*step).is_some());
        let kept = kept.unwrap_or(steps.len());
        if kept < 2
            && let Some(failure) = series.failure()
        {
            return Err(failure.clone());
        }
        if kept == steps.len() && !series.has_ended() {
            observer.begin_phase("measuring the last step in consecutive passes");
            alone.run(&mut |_: Turn| pass(&cells[steps.len() - 1]), observer, None)?;
        }
        let mut lost_points = Vec::new();
        for (cell, (point, _)) in cells.iter().enumerate() {
            lost_points.extend(series.cell_failure(cell).map(|_| *point));
        }
        let mut wrong = None;
        for (number, point) in points.iter_mut().enumerate() {
            // A failed target cannot check its arrays.
            if series.target_loss().is_none() && !lost_points.contains(&number) {
                point.check()?;
            }
            wrong = wrong.or_else(|| point.wrong.as_ref().map(ToString::to_string));
        }
        // The cell of memcpy follows the steps. It is compared with the last step.
        let lost_copy = copy.and_then(|_| series.cell_failure(steps.len()));
        let copy = copy.filter(|_| lost_copy.is_none() && kept == steps.len());
        let counted_cells: Vec<usize> = (0..kept).chain(copy.map(|_| steps.len())).collect();
        let bound: Vec<bool> =
            counted_cells.iter().map(|cell| is_bound(&points[cells[*cell].0])).collect();
        let mut bytes = Vec::new();
        for kernel in &kernels {
            let config = points[0].config();
            bytes.push((kernel.counted_bytes(config.element) * config.elements) as f64);
        }
        let rounds = series.schedule.complete_rounds(&counted_cells);
        let selected = SelectedRounds::from_rounds(&rounds, &bound, CountingRounds::OneRegime);
        let SelectedRounds { rounds: counts, has_enough_rounds: settled, .. } = selected;
        // The schedule has a warm-up round.
        let pace = Pace {
            fixed: setup_time.saturating_sub(choosing) + limits.reserve,
            round: measuring.div_f64((rounds.len() + 1) as f64),
            kept: counts.len() as f64 / rounds.len().max(1) as f64,
        };
        let is_short = counts.len() < MIN_ROUNDS && limits.samples.is_none();
        let enough = is_short.then(|| pace.enough());
        let failed = series.cell_failure(kept).zip(steps.get(kept));
        let measured = MeasuredSteps {
            enough,
            steps: &steps[..kept],
            bytes,
            copy,
            kernels,
            left_out: rounds.len() - counts.len(),
            rounds: counts,
            settled,
            alone: &alone.schedule.samples[0],
            wrong,
            lost: failed.map(|(failure, _)| failure),
            unchecked: series.target_loss(),
            size: arrangement.size.clone(),
            check,
            array_bytes: Bytes(arrangement.elements() * arrangement.options.arrays.element.bytes()),
        };
        let notices = &mut arrangement.notices;
        notices.extend(
            measured.memcpy_note().map(|text| Notice::new(NoticeId::Reference, GAUGE, text)),
        );
        let mut measurements = measured.figures();
        measurements.extend(failed.map(|(failure, step)| lost(step, failure)));
        measurements.extend(lost_copy.map(|failure| {
            let m = Measurement::new(GAUGE, TEST, MEMCPY, Unit::Factor);
            m.without_value(lost_in_words(failure)).with_category(Category::Reference)
        }));
        arrangement.notices.extend(not_concluded(steps.get(kept + 1..).unwrap_or_default()));
        let mut outcome = Outcome { measurements, ..Outcome::default() };
        outcome.notices = arrangement.notices;
        series.store_end(&mut outcome);
        Ok(outcome)
    }
}

/// True if all threads of a point are bound.
fn is_bound(point: &StreamTarget) -> bool {
    point.config().places.iter().all(|place| !place.is_empty())
}

/// Predicts the time of the steps to the configuration of `arrangement`, and shortens the arrays if the time is short.
/// The number of steps is not reduced, because the total factor is the product of all of them.
fn admit(
    site: &MeasuredNode,
    arrangement: &mut Arrangement,
    limits: &RunLimits,
    observer: &mut dyn Observer,
) -> Result<String, Failure> {
    // The steps that differ only in their loops are not known yet, but need no arrays of their own.
    let placement = &arrangement.placement;
    let steps = steps(&arrangement.configs[0], placement, &site.topology, &mut Vec::new());
    let cells = (steps.len() + UNKNOWN_CELLS) as u32;
    let cost = ArraysCost {
        sets: count_points(&steps) as u32,
        refills: 0,
        passes_before_rounds: 0,
        passes_per_round: cells,
    };
    let fixed = PredictedTime::default();
    prediction::admit(site, arrangement, cost, policy::EXPLAIN, fixed, limits, observer)
}

/// Returns an invalid figure for a step that failed.
fn lost(step: &Step, failure: &Failure) -> Measurement {
    let config = ExplainConfig {
        what: Some(step.what.clone()),
        step_options: Some(step.options.clone()),
        ..ExplainConfig::default()
    };
    let m = Measurement::new(GAUGE, TEST, step.name, Unit::Factor).with_config(&config);
    m.without_value(lost_in_words(failure))
}

/// Returns a notice that names the steps after a failed step, whose factors are unknown; `None` without such steps.
fn not_concluded(steps: &[Step]) -> Option<Notice> {
    if steps.is_empty() {
        return None;
    }
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    let text = format!("no factor for {}: a previous step failed", names.join(", "));
    Some(Notice::new(NoticeId::Failed, GAUGE, text))
}

/// Times of a run, from which the budget for enough rounds is predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pace {
    /// Time of the setup without the trial of loops, and of the final check.
    fixed: Duration,
    /// Time of a round.
    round: Duration,
    /// Share of the rounds that count, 0 to 1; the others belong to another regime.
    kept: f64,
}

impl Pace {
    /// Returns the budget for [`MIN_ROUNDS`] rounds that count. It includes the share for the trial of loops.
    fn enough(&self) -> Seconds {
        let rounds = (MIN_ROUNDS as f64 / self.kept.max(0.1)).ceil() + 1.0;
        let seconds = self.fixed.as_secs_f64() + rounds * self.round.as_secs_f64();
        let share = policy::EXPLAIN.measurement_share.0 - policy::EXPLAIN.choice_share.0;
        Seconds((UNCERTAINTY * seconds / share).ceil())
    }
}

/// Step that adds one choice to the previous step.
struct Step {
    /// Stable name, e.g. `binding`; `baseline` for the first step.
    name: &'static str,
    /// Description of the change that this step makes.
    what: String,
    /// Value of the option before and after the step, e.g. `4k` and `thp`; empty for the first step.
    options: Vec<String>,
    config: TargetConfig,
}

/// Samples of all steps.
struct MeasuredSteps<'a> {
    /// Steps in order, beginning with the baseline.
    steps: &'a [Step],
    /// Kernels in the order of a pass.
    kernels: Vec<Kernel>,
    /// Bytes that STREAM counts for each kernel.
    bytes: Vec<f64>,
    /// Index of Copy in `kernels`; `None` without Copy. With Copy, the cell after the steps contains the samples of
    /// `memcpy`.
    copy: Option<usize>,
    /// Rounds that count, with one sample per cell.
    rounds: Vec<&'a [Sample]>,
    /// Number of excluded rounds, which belong to another regime.
    left_out: usize,
    /// Budget for [`MIN_ROUNDS`] rounds that count; `None` if the run had enough rounds, or if the user set the
    /// number of rounds.
    enough: Option<Seconds>,
    /// True if the rounds that count belong to one regime.
    settled: bool,
    /// Consecutive passes of the last step; the first one is the warm-up.
    alone: &'a [Sample],
    /// First wrong value in the arrays of any step.
    wrong: Option<String>,
    /// Failure of the first step that was not measured; `None` if all steps were measured.
    lost: Option<&'a Failure>,
    /// Failure that prevented the final check of the arrays; `None` if they were checked.
    unchecked: Option<&'a Failure>,
    /// Size of the arrays of all processes together.
    size: ArraySize,
    /// Result of the size check; `None` if the check was not made.
    check: Option<SizeCheck>,
    array_bytes: Bytes,
}

impl MeasuredSteps<'_> {
    /// Returns the rates of a kernel in a cell, one per round, in bytes per second. `part` is the index of the
    /// kernel's time in a sample.
    fn rates(&self, cell: usize, part: usize, kernel: usize) -> Vec<f64> {
        let rounds = self.rounds.iter();
        rounds.map(|round| self.bytes[kernel] / round[cell].seconds[part]).collect()
    }

    fn kernel_name(&self, kernel: usize) -> String {
        self.kernels[kernel].name().to_owned()
    }

    /// Returns the ratio of the rates of a kernel in two steps, and the same ratio in each round.
    fn factor(&self, from: usize, to: usize, kernel: usize) -> Option<(Ratio, Vec<f64>)> {
        let before = self.rates(from, kernel, kernel);
        let after = self.rates(to, kernel, kernel);
        let by_round = before.iter().zip(&after).map(|(before, after)| after / before);
        Some((Ratio::from_bests(&before, &after)?, by_round.collect()))
    }

    /// Returns the best rate of the explained kernel in a step.
    fn best(&self, step: usize) -> Option<f64> {
        let kernel = self.explained();
        self.rates(step, kernel, kernel).into_iter().reduce(f64::max)
    }

    /// Returns the index of the explained kernel: Triad if it was measured, otherwise the last kernel.
    fn explained(&self) -> usize {
        let triad = self.kernels.iter().position(|kernel| *kernel == Kernel::Triad);
        triad.unwrap_or(self.kernels.len() - 1)
    }

    /// Returns the ratio of `memcpy` to Copy of the last step, the same ratio in each round, and the best rate of
    /// `memcpy`.
    fn memcpy(&self) -> Option<(Ratio, Vec<f64>, f64)> {
        let copy = self.copy?;
        let own = self.rates(self.steps.len() - 1, copy, copy);
        let theirs = self.rates(self.steps.len(), 0, copy);
        let ratio = Ratio::from_bests(&own, &theirs)?;
        let best = theirs.iter().copied().fold(0.0, f64::max);
        Some((ratio, own.iter().zip(&theirs).map(|(own, theirs)| theirs / own).collect(), best))
    }

    /// Returns a note if `memcpy` is significantly faster than the best loop for Copy; `None` if the figures are
    /// suspect.
    fn memcpy_note(&self) -> Option<String> {
        if self.validity().status != Status::Valid {
            return None;
        }
        // The best of a few rounds depends on chance.
        let (ratio, ..) = self.memcpy().filter(|_| self.rounds.len() >= MIN_ROUNDS)?;
        let [low, high] = ratio.interval.filter(|[low, _]| *low > 1.0)?;
        let significant_decimals = bests::significant_decimals([low, high]);
        Some(format!(
            "memcpy of the C library is faster than the best loop for copy by a factor of {:.significant_decimals$} \
             ({low:.significant_decimals$} to {high:.significant_decimals$})",
            ratio.value
        ))
    }

    /// Compares the last step with the best of consecutive passes with the same configuration, as `stream` measures
    /// them. Only passes of the most frequent regime count.
    fn agreement(&self) -> Option<StreamAgreement> {
        let sorted = samples::assign_regimes(self.alone);
        let group = sorted.headline()?;
        let kernel = self.explained();
        let passes = group.all.iter().map(|pass| self.alone[*pass].seconds[kernel]);
        let rates: Vec<f64> = passes.map(|seconds| self.bytes[kernel] / seconds).collect();
        let ratio = Ratio::from_bests(&self.rates(self.steps.len() - 1, kernel, kernel), &rates)?;
        Some(StreamAgreement {
            passes: rates.len(),
            rate: rates.into_iter().fold(0.0, f64::max),
            ratio: ratio.value,
            interval: ratio.interval,
        })
    }

    /// Returns the factor of each step for the explained kernel, the product of all factors ([`TOTAL_FACTOR`]), and
    /// [`MEMCPY`]; empty if no round counts.
    fn figures(&self) -> Vec<Measurement> {
        let explained = self.explained();
        let mut figures: Vec<Measurement> = Vec::new();
        for (before, step) in self.steps[1..].iter().enumerate() {
            let to = before + 1;
            let Some(join_step) = self.factor(before, to, explained) else { continue };
            let mut factors = serde_json::Map::new();
            for kernel in 0..self.kernels.len() {
                if let Some((ratio, _)) = self.factor(before, to, kernel) {
                    factors.insert(self.kernel_name(kernel), ratio.value.into());
                }
            }
            let config = ExplainConfig {
                what: Some(step.what.clone()),
                step_options: Some(step.options.clone()),
                factors: Some(factors),
                to: self.best(to).map(BytesPerSec),
                ..ExplainConfig::default()
            };
            figures.push(self.figure(step.name, join_step, config));
        }
        let last = self.steps.len() - 1;
        let config = ExplainConfig {
            baseline: Some(self.steps[0].what.clone()),
            from: self.best(0).map(BytesPerSec),
            to: self.best(last).map(BytesPerSec),
            stream: self.agreement(),
            rounds: Some(self.rounds.len() as u64),
            rounds_left_out: Some(self.left_out as u64),
            enough_budget_s: self.enough,
            array_bytes: Some(self.array_bytes.0),
            array_times_llc: self.size.times_llc,
            measured_cache_bytes: self.size.rule.measured().map(|bytes| bytes.0),
            reported_cache_bytes: self.size.rule.reported().map(|bytes| bytes.0),
            ..ExplainConfig::default()
        };
        let whole =
            self.factor(0, last, explained).map(|whole| self.figure(TOTAL_FACTOR, whole, config));
        // Without all steps, the product is not the total factor.
        figures.extend(whole.map(|m| match self.lost {
            Some(failure) => m.without_value(lost_in_words(failure)),
            None => m,
        }));
        figures.extend(self.memcpy().map(|(ratio, by_round, rate)| {
            let memcpy_config = ExplainConfig {
                engine: Some(MEMCPY.to_owned()),
                kernel: Some(Kernel::Copy.name().to_owned()),
                what: Some("memcpy of the C library relative to the best loop for copy".to_owned()),
                to: Some(BytesPerSec(rate)),
                ..ExplainConfig::default()
            };
            self.figure(MEMCPY, (ratio, by_round), memcpy_config).with_category(Category::Reference)
        }));
        figures
    }

    /// Returns a figure with its ratio and the ratios of the rounds. Its configuration has the native loops of the
    /// explained kernel, unless `config` has others.
    fn figure(
        &self,
        name: &str,
        (ratio, by_round): (Ratio, Vec<f64>),
        config: ExplainConfig,
    ) -> Measurement {
        let config = ExplainConfig {
            engine: config.engine.or(Some("native".to_owned())),
            kernel: config.kernel.or_else(|| Some(self.kernel_name(self.explained()))),
            interval: ratio.interval.map(Vec::from),
            ..config
        };
        Measurement::new(GAUGE, TEST, name, Unit::Factor)
            .with_samples(QuotedStatistic::Single, by_round)
            .with_value(QuotedStatistic::Single, ratio.value)
            .with_config(&config)
            .with_validity(self.validity())
    }

    fn validity(&self) -> Validity {
        let mut validity = Validity::valid();
        if let Some(wrong) = &self.wrong {
            let reason = format!("wrong values in the arrays: {wrong}");
            validity.mark_invalid(reason);
        }
        if let Some(failure) = self.unchecked {
            validity.mark_suspect(unchecked_in_words(failure));
        }
        if self.size.follows_rule == Some(false) {
            let reason =
                "the arrays are smaller than STREAM's rule requires and may fit in a cache";
            validity.mark_suspect(reason);
        }
        if let Some(doubt) = self.check.and_then(|check| check.cache_doubt()) {
            validity.mark_suspect(doubt);
        }
        if !self.settled {
            validity.mark_suspect(
                "too few rounds belong to one regime, so rounds of all regimes count",
            );
        }
        let rounds = self.rounds.len();
        if rounds < MIN_ROUNDS {
            let count = number_form(rounds, "counts", "count");
            validity.mark_suspect(format!(
                "only {} {count}: the best of fewer than {MIN_ROUNDS} depends on chance; {}",
                count_in_words(rounds, "round"),
                remedy(self.enough)
            ));
        }
        validity
    }
}

/// Returns the advice on how to measure enough rounds. `enough` is the budget that suffices, if it is known.
pub(crate) fn remedy(enough: Option<Seconds>) -> String {
    match enough {
        Some(enough) => format!("use --budget {:.0}", enough.0),
        // The user set the number of rounds, or an old version wrote the record.
        None => format!("use a larger --budget, or --samples {MIN_ROUNDS}"),
    }
}

/// Returns the number of different points (teams with their arrays) that the steps need.
fn count_points(steps: &[Step]) -> usize {
    let mut count = 0;
    for (i, step) in steps.iter().enumerate() {
        let is_known = steps[..i].iter().any(|other| other.config.is_arranged_like(&step.config));
        count += usize::from(!is_known);
    }
    count
}

/// Returns the steps from the baseline to `best`. Each step differs from the previous step in one choice.
fn steps(
    best: &TargetConfig,
    placement: &Placement,
    topology: &Topology,
    notices: &mut Vec<Notice>,
) -> Vec<Step> {
    // This loop resembles what compilers typically generate: the widest vectors, slightly unrolled.
    let plain = KernelShape {
        isa: kernels::available_isas()[0],
        stores: Stores::Regular,
        unroll: 4,
        side_by_side: SideBySidePages::ONE,
        prefetch: Prefetch::Off,
    };
    let all_cpus = topology.allowed_threads().count();
    let threads = placement.threads.len();
    let baseline = TargetConfig {
        places: vec![Vec::new(); all_cpus],
        layout: ArrayLayout::Sequential { offset: 0 },
        pages: RequestedPages::Base,
        kernels: best.kernels.iter().map(|(kernel, _)| (*kernel, plain)).collect(),
        ..best.clone()
    };
    let what = format!(
        "{}, regular stores, 4 KiB pages, arrays one after another",
        count_in_words(all_cpus, "unbound thread")
    );
    let mut steps = vec![Step { name: "baseline", what, options: Vec::new(), config: baseline }];
    let mut add =
        |name, options: [&str; 2], description: &str, change: &dyn Fn(&mut TargetConfig)| {
            let before = &steps[steps.len() - 1].config;
            let mut config = before.clone();
            change(&mut config);
            if config == *before {
                let text = format!("no step for {name}: it would not change the configuration");
                notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
            } else {
                let options = options.map(str::to_owned).into();
                steps.push(Step { name, what: description.to_owned(), options, config });
            }
        };
    if threads != all_cpus {
        let fewer = format!("{} instead of {all_cpus}", count_in_words(threads, "thread"));
        let [before, after] = [all_cpus, threads].map(|count| count.to_string());
        add("threads", [&before, &after], &fewer, &|c| {
            c.places = vec![Vec::new(); threads];
        });
    }
    let places = placement.places.to_string();
    let bound = format!("each thread bound to its place ({places})");
    add("binding", ["none", &places], &bound, &|c| c.places.clone_from(&best.places));
    let staggered = "arrays staggered, so that no two streams alias";
    add("layout", ["one after another", "staggered"], staggered, &|c| c.layout = best.layout);
    let [base, chosen] = [RequestedPages::Base, best.pages].map(|pages| pages.to_string());
    add("pages", [&base, &chosen], &format!("{chosen} pages"), &|c| c.pages = best.pages);
    let faster = "non-temporal stores where they are faster";
    add("stores", ["regular", "nontemporal where faster"], faster, &|c| {
        for ((_, shape), (_, fastest)) in c.kernels.iter_mut().zip(&best.kernels) {
            shape.stores = fastest.stores;
        }
    });
    let tried = "vector width and unroll chosen by trial for each kernel";
    add("loop", ["plain", "fastest in a trial"], tried, &|c| {
        c.kernels.clone_from(&best.kernels);
        c.kernels.iter_mut().for_each(|(_, shape)| shape.side_by_side = SideBySidePages::ONE);
    });
    let traversed = "pages side by side where that is faster";
    add("side_by_side", ["one page", "several where faster"], traversed, &|c| {
        c.kernels.clone_from(&best.kernels);
    });
    steps
}

#[cfg(test)]
mod tests;
