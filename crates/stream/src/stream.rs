//! STREAM: the sustainable bandwidth of main memory, after McCalpin's benchmark.
//!
//! The plan fixes the arrays and the threads. The tuner chooses the loops that the user did not set. Passes of all
//! kernels, in STREAM's order, are then repeated until the figures are stable or the time is used up. The arrays are
//! checked before any result is returned. This module prints nothing.

use crate::arrangement::{self, PreparedTarget, TargetSetup};
pub use crate::arrangement::{Arrangement, ArrayOptions, StreamOptions, plan};
use crate::kernels::Kernel;
use crate::mixes::{self, SavedMixes};
use crate::prediction::{self, ArraysCost};
use crate::ranks::{SharedStreamCoordinator, StreamCoordinator};
use crate::result::{self, StreamEvidence};
use crate::target::Target;
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_arena::ArenaError;
use nodegauge_gauge::series::Series;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{PredictedTime, RunLimits, Turn, policy};
use nodegauge_measure::{BytesPerSec, Failure, Observer, Outcome};
use nodegauge_placement::{RankPlace, cpus};
use std::time::Duration;

/// Plan for one configuration, which is measured until its figures are stable.
pub struct StreamPlan {
    arrangement: Arrangement,
    joined: Option<SharedStreamCoordinator>,
    mixes: Option<SavedMixes>,
}

impl StreamPlan {
    /// Default time budget of `stream`.
    pub const BUDGET: Duration = Duration::from_secs(10);

    /// Plans a run. `joined` contains ranks that a launcher has started; without it, the run starts the ranks itself.
    pub fn new(arrangement: Arrangement, joined: Option<SharedStreamCoordinator>) -> Self {
        Self { arrangement, joined, mixes: None }
    }

    /// Sets the mixes of reads and writes that an earlier run measured on this machine.
    pub fn with_mixes(self, mixes: Option<SavedMixes>) -> Self {
        Self { mixes, ..self }
    }
}

impl PlannedRun for StreamPlan {
    fn expected_cost(&self) -> ExpectedCost {
        self.arrangement.expected_cost(1)
    }

    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        self.arrangement.possible_figures(site)
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let Self { mut arrangement, joined, mixes } = *self;
        let limits = arrangement.limits();
        let fixed = PredictedTime::default();
        let cost = ArraysCost::ONE_SET;
        prediction::admit(site, &mut arrangement, cost, policy::STREAM, fixed, &limits, observer)?;
        let coordinator = match (&arrangement.ranks, joined) {
            (Some(plan), None) => Some(StreamCoordinator::start(plan.ranks.len(), observer)?),
            (_, joined) => joined,
        };
        let ranks = arrangement.ranks.as_ref();
        let ranks = ranks.map(|plan| plan.ranks.iter().map(detail).collect::<Vec<_>>());
        let mut set_up = |planned: &Arrangement| planned.prepare_target(site, coordinator.as_ref());
        let mut outcome = measure(site, arrangement, limits, &mut set_up, observer)?;
        outcome.notices.extend(mixes::notice(&outcome.measurements, mixes.as_ref()));
        if let Some(ranks) = ranks {
            outcome.details = ranks;
        }
        Ok(outcome)
    }
}

/// Function that sets up the target (arrays and team) of an arrangement.
type SetUp<'a> = dyn FnMut(&Arrangement) -> Result<Box<dyn Target>, ArenaError> + 'a;

/// Measures the target that `set_up` returns for an arrangement, within `limits`.
pub(crate) fn measure(
    site: &MeasuredNode,
    mut arrangement: Arrangement,
    limits: RunLimits,
    set_up: &mut SetUp<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    let mut set_up = TargetSetup { make: set_up, target: |it| &mut **it, count: 1, may_grow: true };
    let mut ready = set_up.run(&arrangement, &limits, observer)?;
    let until = limits.time_at_share(policy::STREAM.choice_share);
    let chosen = arrangement.choose(&mut *ready.target, until, observer)?;
    let ready = arrangement.check_size(site, ready, &mut set_up, limits, observer)?;
    let PreparedTarget { mut target, setup_time, check } = ready;
    let shown = arrangement::shown_kernel_index(target.loops());
    let kernel = target.loops()[shown].kernel();
    observer.begin_phase("measuring");
    // The reserve is for the check of every element after the passes, which takes about half as long as filling the
    // arrays.
    let limits = RunLimits { reserve: setup_time / 2, ..limits };
    let mut series = Series::new(policy::STREAM, limits, 1);
    let bytes = result::counted_bytes(&*target, shown);
    let latest = |samples: &[Vec<Sample>]| latest(&samples[0], shown, kernel, bytes);
    let mut turn = |_: Turn| target.run_pass().map(|pass| vec![pass]);
    series.run(&mut turn, observer, Some(&latest))?;
    let mut traffic = None;
    if !series.has_ended() && series.failure().is_none() {
        traffic = target.count_traffic()?;
    }
    // A failed target cannot check its arrays.
    if series.failure().is_none() {
        target.check()?;
    }
    let seen = target.observe()?;
    let stop = series.stop_reason();
    let evidence = StreamEvidence {
        chosen: chosen.as_ref(),
        traffic: traffic.as_ref(),
        check,
        lost: series.cell_failure(0),
        unchecked: series.failure(),
        ..StreamEvidence::new(
            site,
            &arrangement,
            &*target,
            &seen,
            &series.schedule.samples[0],
            stop,
        )
    };
    let mut outcome = result::outcome(&evidence);
    series.store_end(&mut outcome);
    outcome.notices = arrangement.notices;
    Ok(outcome)
}

/// Returns a text for the progress display: the best rate of Triad or of the first kernel so far.
fn latest(samples: &[Sample], shown: usize, kernel: Kernel, bytes: f64) -> String {
    let fastest = samples.iter().map(|s| s.seconds[shown]).fold(f64::INFINITY, f64::min);
    format!("{kernel} {}", BytesPerSec(bytes / fastest))
}

/// Describes the CPUs and the memory policy of a rank, for the lines of `-v`.
fn detail(place: &RankPlace) -> String {
    let cpus = cpus::format_ranges(&place.placement.cpus());
    format!("rank {}: cpus {cpus}, memory {}", place.rank.unwrap_or(0), place.memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedTarget;
    use crate::size::SizeSpec;
    use nodegauge_machine::{SysRoot, Topology, TopologySource};
    use nodegauge_measure::NoticeId;
    use nodegauge_measure::progress::SilentObserver;
    use nodegauge_measure::record::{Machine, Status};
    use nodegauge_placement::PlacementRequest;

    /// Simulates a run of `budget` seconds with a pass time of `pass` seconds and a cache of `cache` times the size of
    /// the arrays. Returns the outcome and the elapsed seconds.
    fn run(size: SizeSpec, budget: f64, pass: f64, cache: f64) -> (Outcome, f64) {
        let source =
            TopologySource::Synthetic("Package:1 L3Cache:1(size=2MB) Core:2 PU:1".to_owned());
        let topology = Topology::load(&source).unwrap();
        let mut machine = Machine::default();
        machine.memory.available = Some(1 << 40);
        let site = MeasuredNode::new(topology, machine, SysRoot::live());
        let budget = Duration::from_secs_f64(budget).into();
        let mut options = StreamOptions { budget, ..StreamOptions::default() };
        options.arrays.size = size;
        let arrangement =
            Arrangement::new(&site, &PlacementRequest::default(), options, Vec::new()).unwrap();
        let arrays = (3 * arrangement.elements() * 8) as f64;
        let limits = arrangement.limits();
        let mut set_up = |planned: &Arrangement| {
            Ok(SimulatedTarget::set_up(&planned.configs[0], pass / 4.0 / arrays, cache * arrays))
        };
        let ended = measure(&site, arrangement, limits, &mut set_up, &mut SilentObserver);
        let outcome = Outcome::finish_run(ended, &SilentObserver).unwrap();
        (outcome, limits.elapsed().as_secs_f64())
    }

    #[test]
    fn run_keeps_its_budget_or_has_a_notice() {
        for pass in [0.001, 0.05, 0.2] {
            for budget in [5.0, 20.0, 60.0] {
                let (outcome, took) = run(SizeSpec::Auto, budget, pass, 0.0);
                let reported = outcome.notices.iter().any(|notice| notice.id == NoticeId::Budget);
                let kept = took <= budget + f64::max(1.0, 0.1 * budget);
                assert!(kept && !reported, "{budget} s with passes of {pass}: {took}");
                assert_eq!(outcome.measurements.len(), 4);
            }
        }
        // The set-up alone takes ten times as long as a pass, and the minimum number of passes takes additional time.
        let (outcome, took) = run(SizeSpec::Auto, 5.0, 4.0, 0.0);
        assert!(took < 45.0, "{took}");
        assert!(outcome.notices.iter().any(|notice| notice.id == NoticeId::Budget));
    }

    #[test]
    fn arrays_in_a_cache_are_doubled_or_suspect() {
        let bytes =
            |outcome: &Outcome| outcome.measurements[0].config["array_bytes"].as_u64().unwrap();
        let status = |outcome: &Outcome| outcome.measurements[0].validity.status;
        let (honest, _) = run(SizeSpec::Auto, 10.0, 0.001, 0.0);
        // Half of the arrays fits in the cache, and the whole arrays do not. Half of the doubled arrays does not fit.
        let (small, _) = run(SizeSpec::Auto, 10.0, 0.001, 0.9);
        assert_eq!((bytes(&small), status(&small)), (2 * bytes(&honest), Status::Valid));
        assert!(small.notices.iter().any(|notice| notice.id == NoticeId::Contradicted));
        let (chosen, _) = run(SizeSpec::TimesLlc(4.0), 10.0, 0.001, 0.9);
        assert_eq!(status(&chosen), Status::Suspect);
        assert!(
            chosen.measurements[0].validity.reasons[0].contains("a cache holds part of the arrays")
        );
        assert_eq!(chosen.measurements[0].traffic, None);
    }
}
