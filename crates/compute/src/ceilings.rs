//! Peaks for a roofline: register-only loops with fused multiply-adds, with vectors without fused multiply-adds, and
//! with scalar arithmetic; and DGEMM with the fastest library. They are measured interleaved.

use crate::GAUGE;
use crate::choose::{self, Trial, TrialPlaces, TrialResult};
use crate::config::{DgemmConfig, LoopRate, PeakConfig, ThreadsConfig};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::roofline::{self, CeilingsRequest, RooflineThreads};
use nodegauge_gauge::series::Series;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_kernels::Isa;
use nodegauge_lu::peak::{self, Burst, Peak, PeakLoop};
use nodegauge_lu::{Multiplier, dgemm};
use nodegauge_measure::record::{Measurement, QuotedStatistic, doubt};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{Budget, RunLimits, Turn, policy};
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome, Unit};
use nodegauge_placement::Placement;
use nodegauge_team::{Team, TeamError};
use std::time::Duration;

/// Share of the time for choosing a library, in addition to the four initial measurements of each library.
const CHOICE_SHARE: f64 = 0.1;
/// Time of one DGEMM measurement. It is long enough for several products even with a slow library.
const PRODUCTS: Duration = Duration::from_millis(60);

/// Planned peaks of one or more groups of threads, measured one group after another.
pub(crate) struct CeilingsPlan {
    parts: Vec<PlannedPart>,
    budget: Duration,
    /// Time budget of the whole run, which includes the peaks.
    whole: Budget,
    samples: Option<usize>,
}

/// Planned peaks of one group of threads.
struct PlannedPart {
    placement: Placement,
    /// Suffix of the group's figure names.
    suffix: &'static str,
    /// Share of the total time for the group.
    share: f64,
}

impl PlannedPart {
    fn from_part(part: &RooflineThreads<'_>) -> Self {
        Self { placement: part.placement.clone(), suffix: part.suffix, share: part.share }
    }
}

impl CeilingsPlan {
    pub(crate) fn new(ask: &CeilingsRequest<'_>) -> Self {
        let parts = ask.parts.iter().map(PlannedPart::from_part).collect();
        Self { parts, budget: ask.budget, whole: ask.whole, samples: ask.samples }
    }
}

/// Returns the name of the peak that a loop measures.
fn peak_name(kernel: &PeakLoop) -> &'static str {
    let [fma, simd, scalar, _] = roofline::PEAK_NAMES;
    match (kernel.isa, kernel.fused) {
        (Isa::Scalar, _) => scalar,
        (_, true) => fma,
        (_, false) => simd,
    }
}

impl PlannedRun for CeilingsPlan {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost { time: Some(self.budget), memory: None }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        let names = self.parts.iter().flat_map(|part| {
            roofline::PEAK_NAMES.iter().map(|name| format!("{name}{}", part.suffix))
        });
        vec![
            PossibleFigures::new(
                roofline::GAUGE,
                roofline::PEAK_TEST,
                names,
                &[Unit::FlopsPerSecond],
            )
            .with_known_limit(true),
        ]
    }

    /// Measures all groups with the same library, because environment variables that are set for one library affect
    /// libraries that are loaded later.
    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let Self { parts, budget, whole, samples } = *self;
        let Some(first) = parts.first() else { return Ok(Outcome::default()) };
        let mut found = Outcome::default();
        observer.begin_phase("comparing BLAS libraries");
        let limits = RunLimits::new(budget, None);
        // The peaks are measured last, so they may use the rest of the budget.
        let of_whole = RunLimits { is_set_by_user: whole.is_set_by_user, samples, ..limits };
        let trial = Trial {
            root: &site.root,
            places: TrialPlaces(first.placement.thread_cpus()),
            time: budget.mul_f64(CHOICE_SHARE),
            end: choose::trial_end(&of_whole),
            interrupted: &|| observer.is_interrupted(),
        };
        let library = choose::choose_fastest_kernels(&[], &trial, &mut found.notices)?
            .and_then(|mut all| all.pop());
        let Some(library) = library else {
            let text = "interrupted while BLAS libraries were compared";
            found.notices.push(Notice::new(NoticeId::Interrupted, GAUGE, text));
            found.stop = Some(StopReason::Interrupted);
            return Ok(found);
        };
        let multiplier = library.load()?;
        // The time spent on choosing a library is subtracted from the budget; at least half of the budget remains.
        let left = budget.saturating_sub(limits.elapsed()).max(budget.div_f64(2.0));
        for PlannedPart { placement, suffix, share } in &parts {
            let is_late = of_whole.must_be_kept() && limits.elapsed() >= budget;
            if is_late && !found.measurements.is_empty() {
                let of = if *suffix == roofline::ONE_THREAD_SUFFIX { " of one thread" } else { "" };
                found.notices.push(Notice::no_time_left(GAUGE, &format!("the peaks{of}")));
            } else if !found.is_interrupted() {
                let with = PeakGroup { placement, suffix, library: (&library, &multiplier) };
                found
                    .extend(with.measure(RunLimits::new(left.mul_f64(*share), samples), observer)?);
            }
        }
        found.set_run_time(&limits, Duration::ZERO);
        Ok(found)
    }
}

/// Number of rounds after the warm-up that measure all loops.
const FULL_ROUNDS: usize = 3;

/// True if a loop is so much slower than the fastest of its kind that it is no longer measured, to save time for the
/// others.
fn is_behind(peaks: &[Peak], cell: usize) -> bool {
    let Some(own) = peaks.get(cell) else { return false };
    let kind = peak_name(&own.kernel);
    let of_kind = peaks.iter().filter(|peak| peak_name(&peak.kernel) == kind);
    let best = of_kind.map(|peak| peak.best_rate().0).fold(0.0, f64::max);
    own.best_rate().0 < best * (1.0 - doubt::BEST_RULE.max_distance.0)
}

/// Group of threads whose peaks are measured.
struct PeakGroup<'a> {
    placement: &'a Placement,
    suffix: &'static str,
    library: (&'a TrialResult, &'a Multiplier),
}

impl PeakGroup<'_> {
    /// Measures loops and DGEMM interleaved.
    fn measure(&self, limits: RunLimits, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let Self { placement, suffix, library: (library, multiplier) } = self;
        let of_double = peak::loops().into_iter().filter(|kernel| kernel.element == "f64");
        let loops = of_double.chain(peak::loops_without_fma());
        let mut peaks: Vec<Peak> =
            loops.map(|kernel| Peak { kernel, bursts: Vec::new() }).collect();
        let mut team = Team::start(&placement.thread_cpus())?;
        let details = team.observed_affinities().iter().map(ToString::to_string).collect();
        observer.begin_phase("measuring register-only peaks and DGEMM, interleaved");
        let mut series = Series::new(policy::CURVES, limits, peaks.len() + 1);
        let mut cells = |turn: Turn| -> Result<Vec<Sample>, TeamError> {
            if turn.round > FULL_ROUNDS && is_behind(&peaks, turn.cell) {
                return Ok(Vec::new());
            }
            let rate = match peaks.get_mut(turn.cell) {
                Some(of) => {
                    let burst = peak::run_burst(&mut team, &of.kernel)?;
                    of.bursts.push(burst);
                    burst.rate
                }
                None => dgemm::best_rate(&dgemm::measure(&mut team, multiplier, PRODUCTS)?),
            };
            Ok(vec![Sample::from_times(vec![1.0 / rate.0])])
        };
        series.run(&mut cells, observer, None)?;
        let judged = series.samples_by_regime(&[]);
        let on = ThreadsConfig::from_placement(placement);
        let figure = |name: &str, cell: usize| {
            let name = format!("{name}{suffix}");
            let m =
                Measurement::new(roofline::GAUGE, roofline::PEAK_TEST, name, Unit::FlopsPerSecond);
            series.figure(&judged, (cell, 0), m, QuotedStatistic::Best, &|seconds| 1.0 / seconds)
        };
        let mut measurements = Vec::new();
        let [fma, simd, scalar, dgemm] = roofline::PEAK_NAMES;
        for name in [fma, simd, scalar] {
            let of_name: Vec<(usize, &Peak)> =
                peaks.iter().enumerate().filter(|(_, of)| peak_name(&of.kernel) == name).collect();
            let best =
                of_name.iter().max_by(|(_, a), (_, b)| a.best_rate().0.total_cmp(&b.best_rate().0));
            let Some((cell, fastest)) = best.copied() else { continue };
            let rates = of_name.iter().map(|(_, of)| LoopRate::from_peak(of)).collect();
            let config = peak_config(fastest, &on, rates);
            measurements.extend(figure(name, cell).map(|m| m.with_config(&config)));
        }
        let in_registers = measurements.iter().filter_map(|m: &Measurement| m.value);
        let limit = in_registers.reduce(f64::max);
        let products = figure(dgemm, peaks.len())
            .map(|m| m.with_config(&DgemmConfig::from_trial(library, on)));
        measurements.extend(products.map(|m| match limit {
            Some(peak) => m.with_limit(peak, "the highest register-only peak"),
            None => m,
        }));
        let mut outcome = Outcome { measurements, details, ..Outcome::default() };
        series.store_end(&mut outcome);
        Ok(outcome)
    }
}

/// Returns the configuration of the fastest loop for the record.
fn peak_config(peak: &Peak, on: &ThreadsConfig, loops: Vec<LoopRate>) -> PeakConfig {
    let burst: Burst = peak.best_burst();
    PeakConfig {
        on: on.clone(),
        element: Some(peak.kernel.element.to_owned()),
        isa: Some(peak.kernel.isa_name().to_owned()),
        clock_hz: burst.clock,
        flops_per_cycle: burst.flops_per_cycle(on.threads.unwrap_or(1) as usize),
        loops: Some(loops),
        theoretical: None,
    }
}
