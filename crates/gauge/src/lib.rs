//! Interface of a gauge, i.e. of the code that measures one component of the node: its name, plans that are checked
//! before anything is measured, runs that return an [`Outcome`], the configuration keys of the figures, and the display
//! of the figures in a record.
//!
//! Gauges implement [`Gauge`] and [`PlannedRun`] and are registered in a list in the crate of the command. All code
//! that runs gauges and shows, compares or exports records uses that list. The interface does not assume that a gauge
//! measures processors; a gauge can also measure a device with its own memory and queues.
#![forbid(unsafe_code)]

pub mod cpus;
pub mod family;
pub mod hosts;
pub mod ledger;
pub mod outputs;
pub mod readers;
pub mod roofline;
pub mod series;
mod shares;
mod throttle;
pub mod time;
pub mod view;

pub use shares::{BudgetShares, usual_times};

use ledger::LedgerWatch;
use nodegauge_analysis::expect::Figures;
use nodegauge_machine::{CpuId, SysRoot, Topology};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::SavedTrips;
use nodegauge_measure::record::{Machine, Measurement, Record};
use nodegauge_measure::stream_rule::CacheCapacity;
use nodegauge_measure::{Bytes, Failure, FailureKind, Notice, NoticeId, Observer, Outcome, clock};
use nodegauge_placement::Environment;
use readers::Reader;
use roofline::{CeilingsAsk, NoPoint, RooflinePoint};
use std::time::Duration;
use view::{Reach, Section};

/// Node that is measured, with the state of the node at the start of the run.
pub struct Site {
    /// Processors, caches and NUMA nodes of the node.
    pub topology: Topology,
    /// Description of the node that is stored in the record; it includes the topology.
    pub machine: Machine,
    /// Directory that contains `/proc` and `/sys`.
    pub root: SysRoot,
    /// Core-to-core round trips in saved runs of this node.
    pub round_trips: SavedTrips,
}

impl Site {
    /// Creates a site without saved runs.
    pub fn new(topology: Topology, machine: Machine, root: SysRoot) -> Self {
        Self { topology, machine, root, round_trips: SavedTrips::default() }
    }

    /// Returns the last-level caches that threads on these CPUs can use, as reported and as measured.
    pub fn cache_capacity(&self, cpus: &[CpuId]) -> CacheCapacity {
        let reported = self.topology.llc_in_use(cpus).map(|(bytes, _)| Bytes(bytes));
        CacheCapacity::new(reported, self.machine.measured_cache.as_ref())
    }

    /// Sets the memory available to a plan: the given size, or else all memory of a described machine.
    #[must_use]
    pub fn planned_with(mut self, given: Option<Bytes>) -> Self {
        let is_described = self.machine.is_described();
        let memory = &mut self.machine.memory;
        let all = memory.bytes.filter(|_| is_described);
        if let Some(planned) = given.map(|Bytes(bytes)| bytes).or(all) {
            memory.available = Some(planned);
            memory.cgroup_limit = None;
            memory.process_limit = None;
        }
        self
    }
}

/// Time and memory that a run is expected to need, as far as they are known in advance.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ExpectedCost {
    /// Expected time; `None` if it depends on the results.
    pub time: Option<Duration>,
    /// Expected memory consumption.
    pub memory: Option<Bytes>,
}

/// A planned run: the options have been checked, and nothing has been measured or written yet.
pub trait PlannedRun {
    /// Returns the expected resources of the run.
    fn foreseen(&self) -> ExpectedCost {
        ExpectedCost::default()
    }

    /// Returns the figures that the run may produce; empty if they are not known. An expectation (`--expect`) that
    /// applies to none of these figures is rejected before the run.
    fn figures(&self, site: &Site) -> Vec<Figures> {
        let _ = site;
        Vec::new()
    }

    /// Returns the words for the plan in a notice that it was left out.
    fn in_words(&self) -> String {
        "a part of the figures".to_owned()
    }

    /// Runs the planned measurement.
    ///
    /// # Errors
    /// Fails if nothing could be measured. A later failure is stored in the outcome, together with the figures measured
    /// before the failure.
    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure>;
}

/// Several plans, which run one after another.
#[derive(Default)]
pub struct PlanSequence {
    /// Plans in their order.
    pub plans: Vec<Box<dyn PlannedRun>>,
    /// Time of all plans, within the budget of the user: a plan that would begin later is left out. `None` if every
    /// plan runs.
    pub time: Option<Duration>,
}

impl PlannedRun for PlanSequence {
    fn foreseen(&self) -> ExpectedCost {
        let all: Vec<ExpectedCost> = self.plans.iter().map(|plan| plan.foreseen()).collect();
        ExpectedCost {
            time: all.iter().map(|one| one.time).sum(),
            memory: all.iter().filter_map(|one| one.memory).max(),
        }
    }

    fn figures(&self, site: &Site) -> Vec<Figures> {
        self.plans.iter().flat_map(|plan| plan.figures(site)).collect()
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let mut found = Outcome::default();
        let begun = clock::now();
        for plan in self.plans {
            if found.is_interrupted() {
                break;
            }
            let elapsed = clock::now().saturating_duration_since(begun);
            if self.time.is_some_and(|time| elapsed >= time) && !found.measurements.is_empty() {
                found.notices.push(Notice::no_time_left("", &plan.in_words()));
                continue;
            }
            match Outcome::finish_run(plan.run(site, observer), observer) {
                Ok(outcome) => found.extend(outcome),
                Err(failure) if found.measurements.is_empty() => return Err(failure),
                // Nothing is refused after the first figure: a part without time is left out.
                Err(refusal) if refusal.kind == FailureKind::Usage => {
                    let text = format!("a part was left out: {}", refusal.single_line());
                    found.notices.push(Notice::new(NoticeId::Budget, "", text));
                }
                Err(failure) => found.failure = found.failure.or(Some(failure)),
            }
        }
        Ok(found)
    }
}

/// Extent of a gauge's measurements in the command `run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// A short measurement: about one minute for all gauges together.
    Quick,
    /// Everything that a gauge measures by default.
    Full,
}

/// Input for the plan of a gauge in the command `run`.
pub struct SummaryRequest<'a> {
    /// Extent of the measurements.
    pub depth: Depth,
    /// Figures of the gauges that have already run.
    pub before: &'a [Measurement],
    /// Time budget of the gauge: its share of the budget of the command.
    pub budget: Option<Duration>,
    /// Requested number of samples, for a gauge that measures until its figures are stable.
    pub samples: Option<usize>,
    /// Thread settings from the environment variables of OpenMP programs.
    pub environment: &'a Environment,
    /// Function that returns the newest saved run of this node that measured a figure with the given test and name
    /// itself.
    pub newest: &'a dyn Fn(&str, &str) -> Option<Record>,
}

impl<'a> SummaryRequest<'a> {
    /// Returns a request of this depth without earlier figures, limits and saved runs.
    pub fn plain(depth: Depth, environment: &'a Environment) -> Self {
        Self { depth, before: &[], budget: None, samples: None, environment, newest: &|_, _| None }
    }
}

/// Level of detail of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Excerpt for the page of `run`: figures and the most important evidence.
    Brief,
    /// All evidence, as on the page of the gauge's own command.
    Full,
}

/// Representative figure of a gauge, or a placeholder if the record does not contain the figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headline<'r> {
    /// Part of the node that the figure describes, e.g. `floating point`.
    pub title: &'static str,
    /// Name of the figure, e.g. `Triad`.
    pub what: &'static str,
    /// The figure; `None` if the record does not contain it.
    pub figure: Option<&'r Measurement>,
}

impl<'r> Headline<'r> {
    /// Selects the figure with the highest `rank` among the figures of `gauge` that the record's run measured itself.
    /// The headline is a placeholder if `rank` returns `None` for all these figures.
    pub fn from_record<K: PartialOrd>(
        title: &'static str,
        what: &'static str,
        record: &'r Record,
        gauge: &str,
        rank: impl Fn(&Measurement) -> Option<K>,
    ) -> Self {
        let own = record.measurements.iter();
        // Of a run on several hosts, only the first is described.
        let host = record.measurements.iter().find_map(Measurement::host);
        let own = own.filter(|m| m.host() == host && !m.is_published());
        let own = own.filter(|m| m.gauge == gauge && m.value.is_some());
        let ranked = own.filter_map(|m| Some((rank(m)?, m)));
        let last = ranked.reduce(|best, next| if next.0 >= best.0 { next } else { best });
        Self { title, what, figure: last.map(|(_, m)| m) }
    }
}

/// Runs the plan of a gauge as part of a larger run ([`measured`]), and returns the outcome. A failure of a plan
/// without figures becomes a notice, so that the figures of the other gauges are kept.
pub fn attempted(
    gauge: &dyn Gauge,
    planned: Result<Option<Box<dyn PlannedRun>>, Failure>,
    site: &Site,
    observer: &mut dyn Observer,
) -> Outcome {
    let found = planned.and_then(|planned| match planned {
        Some(planned) => measured(gauge, planned, site, observer),
        None => Ok(Outcome::default()),
    });
    kept(gauge, found)
}

/// Runs the plan of a gauge as part of a larger run. Hardware errors during the run concern the figures of this gauge
/// only.
///
/// # Errors
/// Fails if the plan does.
pub fn measured(
    gauge: &dyn Gauge,
    planned: Box<dyn PlannedRun>,
    site: &Site,
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    let watch = LedgerWatch::begin(&site.root);
    let ended = planned.run(site, observer);
    let mut outcome = Outcome::finish_run(ended, observer)?;
    watch.end_part(&mut outcome, gauge);
    Ok(outcome)
}

/// Returns the outcome of a part of a larger run. The failure of a part without figures becomes a notice.
pub fn kept(gauge: &dyn Gauge, found: Result<Outcome, Failure>) -> Outcome {
    match found {
        Ok(mut outcome) => {
            // With figures, the failure makes the larger run incomplete.
            let nothing = outcome.measurements.is_empty();
            let failure = outcome.failure.take_if(|_| nothing);
            outcome.notices.extend(failure.map(|failure| not_measured(gauge, &failure)));
            outcome
        }
        Err(failure) => {
            Outcome { notices: vec![not_measured(gauge, &failure)], ..Outcome::default() }
        }
    }
}

/// Returns the notice that a gauge measured nothing.
fn not_measured(gauge: &dyn Gauge, failure: &Failure) -> Notice {
    let text = format!("not measured: {}", failure.single_line());
    Notice::new(NoticeId::LeftOut, gauge.name(), text)
}

/// A gauge measures one component of the node: memory, compute, messages, files, ...
pub trait Gauge: Sync {
    /// Returns the gauge's name, which records contain as `gauge`.
    fn name(&self) -> &'static str;

    /// Returns the kinds of figures of the gauge, with their configuration keys.
    fn kinds(&self) -> Vec<ConfigKind>;

    /// True if data of the gauge's figures pass links to devices, networks or disks, whose errors then concern these
    /// figures.
    fn uses_links(&self) -> bool {
        false
    }

    /// Plans the gauge's measurements for the command `run`; returns `None` if there are none on this node. By default,
    /// the gauge has none.
    ///
    /// # Errors
    /// Fails if something that the run requires is missing or does not fit.
    fn summary_plan(
        &self,
        _site: &Site,
        _ask: &SummaryRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        Ok(None)
    }

    /// Plans the gauge's measurements for a roofline: ceilings, and kernels below the ceilings. The figures have the
    /// gauge name [`roofline::GAUGE`]. Returns `None` if the gauge measures no ceilings.
    ///
    /// # Errors
    /// Fails under the same conditions as [`Self::summary_plan`].
    fn ceilings(
        &self,
        site: &Site,
        ask: &CeilingsAsk<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        let _ = (site, ask);
        Ok(None)
    }

    /// Returns the points that the gauge can add to a roofline from its saved figures. `newest` returns the newest
    /// saved run of this node that measured a figure with the given test and name itself. A point is as valid as its
    /// figure. A run whose set of data fits the caches gives a reason instead of a point of main memory.
    fn points(
        &self,
        newest: &dyn Fn(&str, &str) -> Option<Record>,
    ) -> Vec<Result<RooflinePoint, NoPoint>> {
        let _ = newest;
        Vec::new()
    }

    /// Returns the readers of the outputs of other programs that measure what the gauge measures.
    fn readers(&self) -> Vec<&dyn Reader> {
        Vec::new()
    }

    /// Returns the gauge's representative figures for a short summary of a node, in display order. All these figures
    /// were measured on the node itself. By default, the gauge has none.
    fn headlines<'r>(&self, _record: &'r Record) -> Vec<Headline<'r>> {
        Vec::new()
    }

    /// Returns the best value that the cores of a headline figure are known to reach, from the figures of the record;
    /// `None` if the record does not tell, or if the limit of the figure is this value.
    fn reach(&self, record: &Record, figure: &Measurement) -> Option<Reach> {
        let _ = (record, figure);
        None
    }

    /// Returns the sentence that the page of a record with figures of this gauge alone begins with: the most important
    /// figure with its unit and its meaning, without a full stop. Suspect figures are marked; `None` if nothing can be
    /// concluded.
    fn conclusion(&self, record: &Record) -> Option<String> {
        let _ = record;
        None
    }

    /// Returns the sections with the gauge's figures for the page of a record; empty if the record has no figures of
    /// the gauge. Figures of unknown kinds are shown in a plain table.
    fn view(&self, record: &Record, detail: Detail) -> Vec<Section>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::TopologySource;
    use nodegauge_measure::record::MachineSource;

    /// Plan with a known result.
    struct Known(Result<Outcome, Failure>);

    impl PlannedRun for Known {
        fn run(self: Box<Self>, _: &Site, _: &mut dyn Observer) -> Result<Outcome, Failure> {
            self.0
        }
    }

    #[test]
    fn part_refused_after_a_figure_is_omitted() {
        let topology = TopologySource::Synthetic("Core:2 PU:1".to_owned());
        let topology = Topology::load(&topology).unwrap();
        let site = Site::new(topology, Machine::default(), SysRoot::live());
        let run = |first: Result<Outcome, Failure>, second: Failure| {
            let parts: Vec<Box<dyn PlannedRun>> =
                vec![Box::new(Known(first)), Box::new(Known(Err(second)))];
            Box::new(PlanSequence { plans: parts, time: None })
                .run(&site, &mut nodegauge_measure::progress::SilentObserver)
        };
        let measured = || {
            let figure = Measurement::new("g", "t", "n", nodegauge_measure::Unit::Seconds);
            Ok(Outcome { measurements: vec![figure], ..Outcome::default() })
        };
        let refusal = || Failure::usage("--budget 1 is too short");
        let outcome = run(measured(), refusal()).unwrap();
        assert!(outcome.is_complete() && outcome.notices[0].id == NoticeId::Budget);
        assert!(outcome.notices[0].message.contains("--budget 1 is too short"));
        assert!(!run(measured(), Failure::missing("no memory")).unwrap().is_complete());
        assert_eq!(run(Ok(Outcome::default()), refusal()).unwrap_err(), refusal());
    }

    #[test]
    fn plan_uses_given_memory_or_all_of_a_described_machine() {
        let site = |source: MachineSource| {
            let topology = TopologySource::Synthetic("Core:2 PU:1".to_owned());
            let mut machine = Machine { source, ..Machine::default() };
            machine.memory.bytes = Some(1 << 30);
            Site::new(Topology::load(&topology).unwrap(), machine, SysRoot::live())
        };
        let available = |source, given: Option<Bytes>| {
            site(source).planned_with(given).machine.memory.available
        };
        let given = Some(Bytes::mib(1));
        assert_eq!(available(MachineSource::Synthetic, None), Some(1 << 30));
        assert_eq!(available(MachineSource::Synthetic, given), Some(1 << 20));
        assert_eq!(available(MachineSource::Live, None), None);
        assert_eq!(available(MachineSource::Live, given), Some(1 << 20));
    }
}
