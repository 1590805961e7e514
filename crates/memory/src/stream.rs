//! STREAM: the sustainable bandwidth of main memory, after McCalpin's benchmark.
//!
//! A plan fixes the arrays and the threads; the tuner chooses the loops that the user left open; then
//! passes of all kernels, in STREAM's order, repeat until the figures are stable or the time is
//! spent; the arrays are checked; and only then is there a result. Prints nothing.

pub use crate::arrangement::{Arrangement, StreamOptions, plan};
pub(crate) use crate::arrangement::{available, best_pages, masks};
use crate::kernels::{Kernel, Loop};
use crate::mixes::{self, SavedMixes};
use crate::ranks::{Coordinator, SharedCoordinator};
use crate::result::{self, Evidence};
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{Schedule, policy};
use nodegauge_measure::{BytesPerSec, Failure, Observer, Outcome};
use nodegauge_placement::{RankPlace, cpus};
use std::time::Duration;

/// One configuration, measured until it is stable.
pub struct StreamPlan {
    arrangement: Arrangement,
    joined: Option<SharedCoordinator>,
    mixes: Option<SavedMixes>,
}

impl StreamPlan {
    /// Time for everything unless the user says otherwise.
    pub const BUDGET: Duration = Duration::from_secs(10);

    /// Plans a run; `joined` are ranks that a launcher has started, else they are started when it
    /// runs.
    pub fn new(arrangement: Arrangement, joined: Option<SharedCoordinator>) -> Self {
        Self { arrangement, joined, mixes: None }
    }

    /// Beside what other mixes of reads and writes reached on this machine before.
    pub fn beside(self, mixes: Option<SavedMixes>) -> Self {
        Self { mixes, ..self }
    }
}

impl Planned for StreamPlan {
    fn foreseen(&self) -> Foreseen {
        self.arrangement.foreseen(1)
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let Self { mut arrangement, joined, mixes } = *self;
        let coordinator = match (&arrangement.ranks, joined) {
            (Some(plan), None) => Some(Coordinator::start(plan.ranks.len(), observer)?),
            (_, joined) => joined,
        };
        let limits = arrangement.limits();
        arrangement.announce(observer);
        let mut target = arrangement.target(site, coordinator.as_ref())?;
        let chosen =
            arrangement.choose(&mut *target, limits.at(policy::STREAM.choose), observer)?;
        observer.phase("measuring");
        let mut schedule = Schedule::new(policy::STREAM, limits, 1);
        let kernels: Vec<Kernel> = target.loops().iter().map(Loop::kernel).collect();
        let shown = kernels.iter().position(|kernel| *kernel == Kernel::Triad).unwrap_or(0);
        let shown = (shown, kernels[shown], result::counted(&*target, shown));
        let latest = |samples: &[Vec<Sample>]| latest(&samples[0], shown);
        let pass = |_| target.pass().map(|pass| vec![pass]);
        let stop = schedule.run(observer, Some(&latest), pass)?;
        let traffic = if stop == Stop::Interrupted { None } else { target.traffic()? };
        target.check()?;
        let seen = target.seen()?;
        let evidence = Evidence {
            chosen: chosen.as_ref(),
            traffic: traffic.as_ref(),
            ..Evidence::new(site, &arrangement, &*target, &seen, &schedule.samples[0], stop)
        };
        let mut outcome = result::outcome(&evidence);
        outcome.notices = arrangement.notices;
        outcome.notices.extend(mixes::notice(&outcome.measurements, mixes.as_ref()));
        if let Some(plan) = &arrangement.ranks {
            outcome.details = plan.ranks.iter().map(detail).collect();
        }
        Ok(outcome)
    }
}

/// Where a run stands, for its user: the best of Triad so far, or of the first kernel.
fn latest(samples: &[Sample], (shown, kernel, bytes): (usize, Kernel, f64)) -> String {
    let fastest = samples.iter().map(|s| s.seconds[shown]).fold(f64::INFINITY, f64::min);
    format!("{kernel} {}", BytesPerSec(bytes / fastest))
}

/// Where a rank is and what memory it asks for.
fn detail(place: &RankPlace) -> String {
    let cpus = cpus::ranges(&place.placement.cpus());
    format!("rank {}: cpus {cpus}, memory {}", place.rank.unwrap_or(0), place.memory)
}
