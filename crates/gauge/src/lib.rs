//! Interface of a gauge, i.e. of the code that measures one component of the node: its name, plans that are checked
//! before anything is measured, runs that return an [`Outcome`], the configuration keys of the figures, and the view of
//! the figures in a record.
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
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_machine::{CpuId, SysRoot, Topology};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::SavedRoundTrips;
use nodegauge_measure::record::{Machine, Measurement, Record};
use nodegauge_measure::stream_rule::CacheCapacity;
use nodegauge_measure::{Bytes, Failure, FailureKind, Notice, NoticeId, Observer, Outcome, clock};
use nodegauge_placement::PlacementEnvironment;
use readers::Reader;
use roofline::{CeilingsRequest, NoPointReason, RooflinePoint};
use std::time::Duration;
use view::{AttainableValue, Section};

/// Node to be measured, with its state at the start of the run.
pub struct MeasuredNode {
    /// Processors, caches and NUMA nodes of the node.
    pub topology: Topology,
    /// Description of the node that is stored in the record; it includes the topology.
    pub machine: Machine,
    /// Directory that contains `/proc` and `/sys`.
    pub root: SysRoot,
    /// Core-to-core round trips from saved runs of this node.
    pub round_trips: SavedRoundTrips,
}

impl MeasuredNode {
    /// Creates a node without saved runs.
    pub fn new(topology: Topology, machine: Machine, root: SysRoot) -> Self {
        Self { topology, machine, root, round_trips: SavedRoundTrips::default() }
    }

    /// Returns the last-level caches that threads on these CPUs can use, as reported and as measured.
    pub fn cache_capacity(&self, cpus: &[CpuId]) -> CacheCapacity {
        let reported = self.topology.llc_bytes_and_count(cpus).map(|(bytes, _)| Bytes(bytes));
        CacheCapacity::new(reported, self.machine.measured_cache.as_ref())
    }

    /// Sets the memory that a plan may use: the given size, otherwise all memory of a described machine.
    #[must_use]
    pub fn with_plan_memory(mut self, given: Option<Bytes>) -> Self {
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

/// Expected time and memory of a run, as far as they are known in advance.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ExpectedCost {
    /// Expected time; `None` if it depends on the results.
    pub time: Option<Duration>,
    /// Expected memory consumption.
    pub memory: Option<Bytes>,
}

/// Planned run: the options have been checked, and nothing has been measured or written yet.
pub trait PlannedRun {
    /// Returns the expected resources of the run.
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost::default()
    }

    /// Returns the figures that the run may produce; empty if they are not known. An expectation (`--expect`) that
    /// applies to none of these figures is rejected before the run.
    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        let _ = site;
        Vec::new()
    }

    /// Describes the plan in a few words, for the notice that the plan was left out.
    fn in_words(&self) -> String {
        "a part of the figures".to_owned()
    }

    /// Runs the planned measurement.
    ///
    /// # Errors
    /// Fails if nothing could be measured. A later failure is stored in the outcome, together with the figures measured
    /// before the failure.
    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure>;
}

/// Several plans that run one after another.
#[derive(Default)]
pub struct PlanSequence {
    /// Plans in the order of execution.
    pub plans: Vec<Box<dyn PlannedRun>>,
    /// Time for all plans within the user's budget: a plan that would begin later is left out. `None` to run every
    /// plan.
    pub time: Option<Duration>,
}

impl PlannedRun for PlanSequence {
    fn expected_cost(&self) -> ExpectedCost {
        let all: Vec<ExpectedCost> = self.plans.iter().map(|plan| plan.expected_cost()).collect();
        ExpectedCost {
            time: all.iter().map(|one| one.time).sum(),
            memory: all.iter().filter_map(|one| one.memory).max(),
        }
    }

    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        self.plans.iter().flat_map(|plan| plan.possible_figures(site)).collect()
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
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
                // With figures at hand, a part that refuses to run is left out instead of ending the sequence.
                Err(refusal) if refusal.kind == FailureKind::Usage => {
                    let text = format!("a part of the run was left out: {}", refusal.single_line());
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
    pub earlier_figures: &'a [Measurement],
    /// Time budget of the gauge: its share of the budget of the command.
    pub budget: Option<Duration>,
    /// Requested number of samples, for a gauge that measures until its figures are stable.
    pub samples: Option<usize>,
    /// Thread settings from the environment variables of OpenMP programs.
    pub environment: &'a PlacementEnvironment,
    /// Function that returns the newest saved run of this node with the given test and figure name, without published
    /// figures and figures of other programs.
    pub newest: &'a dyn Fn(&str, &str) -> Option<Record>,
}

impl<'a> SummaryRequest<'a> {
    /// Returns a request of this depth without earlier figures, limits or saved runs.
    pub fn plain(depth: Depth, environment: &'a PlacementEnvironment) -> Self {
        Self {
            depth,
            earlier_figures: &[],
            budget: None,
            samples: None,
            environment,
            newest: &|_, _| None,
        }
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

/// Representative figure of a gauge; a placeholder if the record lacks the figure.
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
    /// Selects the figure with the highest `rank` among the figures that this run measured with `gauge`. The headline
    /// is a placeholder if `rank` returns `None` for all of them.
    pub fn from_record<K: PartialOrd>(
        title: &'static str,
        what: &'static str,
        record: &'r Record,
        gauge: &str,
        rank: impl Fn(&Measurement) -> Option<K>,
    ) -> Self {
        let own = record.measurements.iter();
        // For a run on several hosts, only the first host is described.
        let host = record.measurements.iter().find_map(Measurement::host);
        let own = own.filter(|m| m.host() == host && !m.is_published());
        let own = own.filter(|m| m.gauge == gauge && m.value.is_some());
        let ranked = own.filter_map(|m| Some((rank(m)?, m)));
        let last = ranked.reduce(|best, next| if next.0 >= best.0 { next } else { best });
        Self { title, what, figure: last.map(|(_, m)| m) }
    }
}

/// Runs the plan of a gauge as part of a larger run ([`run_part`]), and returns the outcome. If the part fails before
/// it has figures, the failure becomes a notice, so that the figures of the other gauges are kept.
pub fn run_part_with_notice(
    gauge: &dyn Gauge,
    planned: Result<Option<Box<dyn PlannedRun>>, Failure>,
    site: &MeasuredNode,
    observer: &mut dyn Observer,
) -> Outcome {
    let found = planned.and_then(|planned| match planned {
        Some(planned) => run_part(gauge, planned, site, observer),
        None => Ok(Outcome::default()),
    });
    with_failure_as_notice(gauge, found)
}

/// Runs the plan of a gauge as part of a larger run. Hardware errors during the run affect only the figures of this
/// gauge.
///
/// Fails if the plan fails.
pub fn run_part(
    gauge: &dyn Gauge,
    planned: Box<dyn PlannedRun>,
    site: &MeasuredNode,
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    let watch = LedgerWatch::begin(&site.root);
    let ended = planned.run(site, observer);
    let mut outcome = Outcome::finish_run(ended, observer)?;
    watch.end_part(&mut outcome, gauge);
    Ok(outcome)
}

/// Turns the failure of a part of a larger run into a notice, unless the part has figures.
pub fn with_failure_as_notice(gauge: &dyn Gauge, found: Result<Outcome, Failure>) -> Outcome {
    match found {
        Ok(mut outcome) => {
            // If the part has figures, its failure makes the larger run incomplete.
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

/// Creates the notice that a gauge measured nothing.
fn not_measured(gauge: &dyn Gauge, failure: &Failure) -> Notice {
    let text = format!("not measured: {}", failure.single_line());
    Notice::new(NoticeId::LeftOut, gauge.name(), text)
}

/// Interface of a gauge, which measures one component of the node, e.g. memory, compute, messages or files.
pub trait Gauge: Sync {
    /// Returns the gauge's name, which records contain as `gauge`.
    fn name(&self) -> &'static str;

    /// Returns the kinds of figures of the gauge, with their configuration keys.
    fn figure_kinds(&self) -> Vec<ConfigKind>;

    /// True if the gauge's measurements transfer data over links to devices, networks or disks, so that errors of these
    /// links affect the figures.
    fn uses_links(&self) -> bool {
        false
    }

    /// Plans the gauge's measurements for the command `run`; returns `None` if there are none on this node, which is
    /// the default.
    ///
    /// Fails if the run requires something that the node lacks, e.g. memory.
    fn summary_plan(
        &self,
        _site: &MeasuredNode,
        _ask: &SummaryRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        Ok(None)
    }

    /// Plans the gauge's measurements for a roofline: ceilings, and kernels below the ceilings. The figures have the
    /// gauge name [`roofline::GAUGE`]. Returns `None` if the gauge measures no ceilings.
    ///
    /// Fails for the reasons of [`Self::summary_plan`].
    fn ceilings_plan(
        &self,
        site: &MeasuredNode,
        ask: &CeilingsRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        let _ = (site, ask);
        Ok(None)
    }

    /// Returns the points that the gauge adds to a roofline from its saved figures. `newest` returns the newest saved
    /// run of this node that contains a figure with the given test and name, measured by nodegauge. A point has the
    /// validity of its figure. If the data of a run fits in the caches, the entry is the reason why the run has no
    /// point of main memory.
    fn roofline_points(
        &self,
        newest: &dyn Fn(&str, &str) -> Option<Record>,
    ) -> Vec<Result<RooflinePoint, NoPointReason>> {
        let _ = newest;
        Vec::new()
    }

    /// Returns the readers for the outputs of other programs that measure the same quantities as the gauge.
    fn readers(&self) -> Vec<&dyn Reader> {
        Vec::new()
    }

    /// Returns the gauge's representative figures for a short summary of a node, in display order. All of them were
    /// measured on this node. The default is an empty list.
    fn headlines<'r>(&self, _record: &'r Record) -> Vec<Headline<'r>> {
        Vec::new()
    }

    /// Returns the highest value that the cores of a headline figure can reach according to the record. Returns `None`
    /// if the record contains no such value, or if it is already the limit of the figure.
    fn reach(&self, record: &Record, figure: &Measurement) -> Option<AttainableValue> {
        let _ = (record, figure);
        None
    }

    /// Returns the first sentence of a page with figures of this gauge alone: the most important figure with its unit
    /// and its meaning, without a full stop. Suspect figures are marked. Returns `None` if nothing can be concluded.
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

    /// Plan with a predefined result.
    struct Known(Result<Outcome, Failure>);

    impl PlannedRun for Known {
        fn run(
            self: Box<Self>,
            _: &MeasuredNode,
            _: &mut dyn Observer,
        ) -> Result<Outcome, Failure> {
            self.0
        }
    }

    #[test]
    fn part_without_time_is_left_out_if_another_part_has_figures() {
        let topology = TopologySource::Synthetic("Core:2 PU:1".to_owned());
        let topology = Topology::load(&topology).unwrap();
        let site = MeasuredNode::new(topology, Machine::default(), SysRoot::live());
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
    fn plan_uses_the_given_memory_or_all_memory_of_a_described_machine() {
        let site = |source: MachineSource| {
            let topology = TopologySource::Synthetic("Core:2 PU:1".to_owned());
            let mut machine = Machine { source, ..Machine::default() };
            machine.memory.bytes = Some(1 << 30);
            MeasuredNode::new(Topology::load(&topology).unwrap(), machine, SysRoot::live())
        };
        let available = |source, given: Option<Bytes>| {
            site(source).with_plan_memory(given).machine.memory.available
        };
        let given = Some(Bytes::mib(1));
        assert_eq!(available(MachineSource::Synthetic, None), Some(1 << 30));
        assert_eq!(available(MachineSource::Synthetic, given), Some(1 << 20));
        assert_eq!(available(MachineSource::Live, None), None);
        assert_eq!(available(MachineSource::Live, given), Some(1 << 20));
    }
}
