//! Curves of latency and bandwidth of the memory system.
//!
//! There are seven modes: `ladder` (bandwidth by working set), `latency` (pointer chase by working set), `matrix` (from
//! each NUMA node to each other node, and from CPU to CPU), the family of curves `curves` (latency under load by ratio
//! of reads to writes), its parts `loaded` (latency under reads) and `mix` (bandwidths), and `scaling` (bandwidth by
//! the number of threads, and its prediction). Each mode has a module that plans the measurement; `run` contains the
//! code that all modes use to measure. The cells of a mode are measured interleaved.

pub mod cache_size;
mod cached;
mod ceilings;
pub mod config;
mod family;
mod gauge;
mod hwloc;
mod ladder;
mod latency;
mod levels;
mod lines;
mod loaded;
mod matrix;
mod memory_chase;
mod mix;
mod prediction;
mod run;
mod scaling;
mod thinned;
mod view;

pub use family::NodeChoice;
pub use gauge::CurveGauge;
pub use hwloc::hwloc_xml;
pub use mix::Mix;
pub use nodegauge_arena::GAUGE;
pub use nodegauge_chase::{ChaseOrder, Locality, TouchRates};

use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_arena::ArenaError;
use nodegauge_arena::RequestedPages;
use nodegauge_arena::supply::{available_memory, default_pages};
use nodegauge_chase::TIMES_LLC;
use nodegauge_gauge::roofline::ONE_THREAD_SUFFIX;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_machine::CpuId;
use nodegauge_measure::schedule::{Budget, PredictedTime, RunLimits};
use nodegauge_measure::stream_rule::CacheCapacity;
use nodegauge_measure::{Bytes, Failure, Fraction, Notice, NoticeId, Observer, Outcome, Unit};
use nodegauge_placement::{
    MemoryPolicy, Placement, PlacementOptions, PlacementRequest, TeamRequest,
};
use nodegauge_toolchain::CommandLine;
use prediction::CurveTimes;
use run::CurveRun;
use std::time::Duration;

/// Options for all curves.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveOptions {
    /// Kind of pages; `None` for an automatic choice.
    pub pages: Option<RequestedPages>,
    /// Memory policy of the threads.
    pub policy: MemoryPolicy,
    /// Largest working set of all threads together; `None` for four times the measured last-level caches in use.
    pub max_working_set: Option<Bytes>,
    /// Maximum share of the available memory to use, 0 to 1.
    pub memory_fraction: Fraction,
    /// Order in which a pointer chase visits the memory.
    pub order: ChaseOrder,
    /// Mixes of reads and writes for the family of curves.
    pub mixes: Vec<Mix>,
    /// NUMA nodes whose cores load the memory, for the family of curves.
    pub from: NodeChoice,
    /// NUMA nodes whose memory is loaded, for the family of curves.
    pub to: NodeChoice,
    /// Program to measure on the family of curves.
    pub program: Option<CommandLine>,
    /// True to also show kernels as points under the ceilings.
    pub show_kernels: bool,
    /// Suffix of the figure names of the ceilings.
    pub suffix: &'static str,
    /// Time budget of the whole run.
    pub budget: Budget,
    /// Time budget of the run that contains this curve; `None` if the curve is the whole run.
    pub run_budget: Option<Budget>,
    /// Exact number of rounds after the warm-up, regardless of the time.
    pub samples: Option<usize>,
}

impl Default for CurveOptions {
    fn default() -> Self {
        Self {
            pages: None,
            policy: MemoryPolicy::default(),
            max_working_set: None,
            memory_fraction: Fraction(0.5),
            order: ChaseOrder::default(),
            mixes: Mix::FAMILY.to_vec(),
            from: NodeChoice::FromOptions,
            to: NodeChoice::FromOptions,
            program: None,
            show_kernels: false,
            suffix: "",
            budget: Budget::default(),
            run_budget: None,
            samples: None,
        }
    }
}

/// Kind of curve, i.e. the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// Bandwidth of read, write, copy and triad by working set.
    Ladder,
    /// Idle latency by working set.
    Latency,
    /// Latency and bandwidth between NUMA nodes, and latency between CPUs.
    Matrix,
    /// Latency under increasing load.
    Loaded,
    /// Bandwidth by ratio of reads to writes.
    Mix,
    /// Latency under increasing load by ratio of reads to writes: the family of curves.
    Family,
    /// Bandwidth by the number of threads, measured and predicted.
    Scaling,
    /// Bandwidths of each memory level, for a roofline.
    Ceilings,
}

/// Interface of a mode: a planned measurement of a curve on a node.
trait Mode {
    /// Returns the memory that the measurement uses.
    fn memory(&self) -> Bytes;

    /// Returns the expected figures, if the plan determines them.
    fn figures(&self) -> Vec<PossibleFigures> {
        Vec::new()
    }

    /// Returns the predicted time from the start of the set-up.
    fn predicted(&self, times: &CurveTimes<'_>) -> PredictedTime;

    /// Measures the curve, and adds the results to the outcome of the run.
    fn measure(&self, run: &mut CurveRun<'_>) -> Result<(), ArenaError>;
}

/// Planned measurement of a curve, with the options of the run.
pub struct CurvePlan {
    curve: Curve,
    placement: Placement,
    options: CurveOptions,
    notices: Vec<Notice>,
    mode: Box<dyn Mode>,
}

impl CurvePlan {
    /// Default time budget of a curve.
    pub const BUDGET: Duration = Duration::from_secs(12);
    /// Default time budget of the family of curves.
    pub const FAMILY_BUDGET: Duration = Duration::from_secs(60);

    /// Plans a curve on the requested threads, with the requested memory policy. The latency curve is measured with one
    /// thread unless places are given. The matrix chooses its threads itself.
    ///
    /// Fails if the threads cannot be placed, and for the reasons of [`Self::with_placement`].
    pub fn new(
        curve: Curve,
        site: &MeasuredNode,
        placement: &PlacementOptions,
        options: CurveOptions,
    ) -> Result<Self, Failure> {
        let mut team = match curve {
            Curve::Matrix => TeamRequest::default(),
            _ => placement.team_request(&site.topology, "memory")?,
        };
        if curve == Curve::Latency && team.request == PlacementRequest::default() {
            team.request.threads = Some(1);
        }
        let notices = team.gauge_notices(GAUGE);
        let placed = nodegauge_placement::plan(&site.topology, &team.request)?;
        Self::with_placement(
            curve,
            site,
            placed,
            CurveOptions { policy: team.policy, ..options },
            notices,
        )
    }

    /// Plans a curve. `notices` are notices about the requested placement.
    ///
    /// Fails if the largest working set is below the minimum or exceeds the memory limit, or if the curve does not
    /// support the number of threads.
    pub fn with_placement(
        curve: Curve,
        site: &MeasuredNode,
        placement: Placement,
        options: CurveOptions,
        mut notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        if curve != Curve::Matrix {
            let placed = placement.notices.iter().map(|text| notice(NoticeId::Environment, text));
            nodegauge_measure::notice::add_new(&mut notices, placed);
        }
        let setup = CurveSetup { site, placement: &placement, options: &options };
        let mode = plan_mode(curve, setup, &mut notices)?;
        Ok(Self { curve, placement, options, notices, mode })
    }
}

/// Plans the measurement of a curve in its mode.
fn plan_mode(
    curve: Curve,
    setup: CurveSetup<'_>,
    notices: &mut Vec<Notice>,
) -> Result<Box<dyn Mode>, Failure> {
    Ok(match curve {
        Curve::Ladder => Box::new(ladder::plan(setup, notices)?),
        Curve::Latency => Box::new(latency::plan(setup, notices)?),
        Curve::Matrix => Box::new(matrix::plan(setup, notices)?),
        Curve::Loaded => Box::new(family::plan_loaded(setup, notices)?),
        Curve::Mix => Box::new(family::plan_mix(setup, notices)?),
        Curve::Family => Box::new(family::plan(setup, notices)?),
        Curve::Scaling => Box::new(scaling::plan(setup, notices)?),
        Curve::Ceilings => Box::new(ceilings::plan(setup, notices)?),
    })
}

impl PlannedRun for CurvePlan {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost { time: Some(self.options.budget.time), memory: Some(self.mode.memory()) }
    }

    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        let rate = &[Unit::BytesPerSecond];
        let both: &[Unit] = &[Unit::BytesPerSecond, Unit::Seconds];
        let limited = nodegauge_machine::node_bandwidth(&site.machine, &[]).is_some();
        let test = self.curve.test_name();
        vec![match self.curve {
            Curve::Ladder => PossibleFigures::new(GAUGE, test, ["65536"], rate)
                .with_name_rule(|name| name.parse::<u64>().is_ok()),
            Curve::Latency => PossibleFigures::new(GAUGE, test, ["65536"], &[Unit::Seconds])
                .with_name_rule(|name| name.parse::<u64>().is_ok()),
            Curve::Matrix => PossibleFigures::new(GAUGE, test, ["n0->n0", "cpu0->cpu1"], both)
                .with_name_rule(|name| name.contains("->"))
                .with_known_limit(limited),
            Curve::Loaded => PossibleFigures::new(GAUGE, test, loaded::figure_names(), both),
            Curve::Mix => PossibleFigures::new(GAUGE, test, mix::figure_names(), rate)
                .with_known_limit(limited),
            Curve::Family => {
                let mixes = self.options.mixes.iter().map(|mix| mix.name());
                let mut names = nodegauge_gauge::family::figure_names(mixes);
                let mut units = both;
                if self.options.program.is_some() {
                    names.extend(family::NAMES.map(str::to_owned));
                    units = &[Unit::BytesPerSecond, Unit::Seconds, Unit::Factor];
                }
                PossibleFigures::new(GAUGE, test, names, units)
                    .with_name_rule(nodegauge_gauge::family::is_point_name)
                    .with_known_limit(limited)
            }
            Curve::Scaling | Curve::Ceilings => return self.mode.figures(),
        }]
    }

    fn in_words(&self) -> String {
        let is_one = self.options.suffix == ONE_THREAD_SUFFIX;
        let of = if is_one { " of one thread" } else { "" };
        format!("the bandwidths{of}")
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let Self { curve, placement, mut options, mut notices, mut mode } = *self;
        let limits = RunLimits::from_budget(options.budget, options.samples);
        // Earlier curves of the run have used their own shares of the budget.
        let whole = options
            .run_budget
            .map_or(limits, |all| RunLimits::from_budget(all, options.samples).from_now());
        let shortened =
            prediction::admit(curve, site, &placement, &mut options, &mut mode, &whole, observer)?;
        notices.extend(shortened);
        let mut run = CurveRun {
            curve,
            setup: CurveSetup { site, placement: &placement, options: &options },
            limits,
            observer,
            outcome: Outcome { notices, ..Outcome::default() },
        };
        mode.measure(&mut run)?;
        Ok(run.outcome)
    }
}

/// Largest working set if no cache size is known. It is more than four times the cache of any desktop processor.
const UNKNOWN_CACHE: Bytes = Bytes::mib(512);
/// Minimum of the largest working set, for machines with small caches.
const MIN_LARGEST: Bytes = Bytes::mib(16);

/// Returns a working set that is larger than last-level caches of this total size; the measured size takes precedence
/// over the reported one.
pub fn memory_working_set(caches: CacheCapacity) -> Bytes {
    caches.bytes().map_or(UNKNOWN_CACHE, |bytes| Bytes(bytes.0 * TIMES_LLC).max(MIN_LARGEST))
}

/// Input for the plan of a mode: node, threads and options.
#[derive(Clone, Copy)]
pub(crate) struct CurveSetup<'a> {
    site: &'a MeasuredNode,
    placement: &'a Placement,
    options: &'a CurveOptions,
}

impl CurveSetup<'_> {
    fn threads(&self) -> u64 {
        self.placement.threads.len().max(1) as u64
    }

    /// Returns the total size of the last-level caches that the threads use, both reported and measured.
    fn caches(&self) -> CacheCapacity {
        self.site.cache_capacity(&self.placement.cpus())
    }

    /// Returns the total size of the last-level caches that the threads use, if known.
    fn llc(&self) -> Option<Bytes> {
        self.caches().bytes()
    }

    /// Returns the total size of the last-level caches, which a warm-up must fill; an assumed size if the size is
    /// unknown.
    fn held(&self) -> u64 {
        self.llc().map_or(64 << 20, |llc| llc.0)
    }

    /// Returns the largest working set: the requested size or, by default, a size that exceeds the last-level caches in
    /// use. Adds a notice if no cache size is known.
    fn largest(&self, notices: &mut Vec<Notice>) -> Bytes {
        if let Some(largest) = self.options.max_working_set {
            return largest;
        }
        let caches = self.caches();
        if caches.bytes().is_none() {
            let text = format!(
                "the size of the last-level cache is unknown: the largest working set is {UNKNOWN_CACHE}"
            );
            notices.push(notice(NoticeId::Assumed, text));
        }
        memory_working_set(caches)
    }

    /// True if a hypervisor reports the cache sizes.
    fn is_guest(&self) -> bool {
        self.site.machine.virtualisation.is_some()
    }

    /// Returns the size of the memory that may be used; unlimited if the available memory is unknown.
    fn usable(&self) -> Bytes {
        let options = self.options;
        let available = available_memory(&self.site.machine, options.pages, &options.policy);
        available.map_or(LARGEST_MAPPING, |bytes| {
            Bytes((bytes.as_f64() * options.memory_fraction.0) as u64)
        })
    }

    /// Returns the kind of pages to use.
    fn pages(&self) -> RequestedPages {
        self.options.pages.unwrap_or_else(|| default_pages(&self.site.machine))
    }

    /// Returns the hint on how to get a second thread.
    fn second_thread_hint(&self) -> &'static str {
        if self.site.topology.allowed_threads().count() < 2 {
            return "only one CPU is available: allow more CPUs, e.g. by taskset or in the request of the job";
        }
        "--threads 2"
    }

    /// Returns a CPU outside the placement. If the placement has a single thread, the core-to-core latency is measured
    /// between this thread and the CPU.
    fn spare(&self) -> Option<CpuId> {
        let used = self.placement.cpus();
        self.site
            .topology
            .allowed_threads()
            .map(|thread| thread.cpu)
            .find(|cpu| !used.contains(cpu))
    }
}

/// Maximum size of a mapping, used if the available memory is unknown.
const LARGEST_MAPPING: Bytes = Bytes(isize::MAX as u64);

fn notice(id: NoticeId, text: impl Into<String>) -> Notice {
    Notice::new(id, GAUGE, text)
}

/// Fails if the requested largest working set is below the minimum.
fn refuse_below(least: Bytes, given: Bytes) -> Result<(), Failure> {
    if given >= least {
        return Ok(());
    }
    let text = format!("the largest working set of {given} is below the minimum of {least}");
    Err(Failure::usage(text).hint(format!("give --size {} or more", least.exact_text())))
}

/// Creates the failure for insufficient memory.
fn too_large(what: &str, needed: Bytes, usable: Bytes) -> Failure {
    Failure::missing(format!(
        "{needed} is needed for {what}, but only {usable} of memory may be used"
    ))
    .hint("use a smaller --size, or a larger --memory-fraction")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::{SysRoot, Topology, TopologySource};
    use nodegauge_measure::record::Machine;
    use nodegauge_placement::PlacementRequest;

    /// Plans a curve with a working set of `size`, on a machine with this much available memory.
    fn planned(curve: Curve, size: Bytes, available: Option<u64>) -> Result<CurvePlan, Failure> {
        let source =
            TopologySource::Synthetic("Package:2 L3Cache:1(size=2MB) Core:2 PU:1".to_owned());
        let topology = Topology::load(&source).unwrap();
        let mut machine = Machine::default();
        machine.memory.available = available;
        let site = MeasuredNode::new(topology, machine, SysRoot::live());
        let threads = if curve == Curve::Latency { 1 } else { 4 };
        let request = PlacementRequest { threads: Some(threads), ..PlacementRequest::default() };
        let placement = nodegauge_placement::plan(&site.topology, &request).unwrap();
        let options = CurveOptions { max_working_set: Some(size), ..CurveOptions::default() };
        CurvePlan::with_placement(curve, &site, placement, options, Vec::new())
    }

    #[test]
    fn set_larger_than_memory_is_refused() {
        for curve in [Curve::Ladder, Curve::Latency, Curve::Matrix, Curve::Loaded, Curve::Mix] {
            planned(curve, Bytes::mib(64), Some(1 << 34)).unwrap();
            for size in [1 << 50, 1 << 62, 1 << 63, u64::MAX] {
                for available in [Some(1 << 34), Some(1 << 46)] {
                    let refused = planned(curve, Bytes(size), available).err().unwrap();
                    assert!(refused.to_string().contains("of memory may be used"), "{refused}");
                }
            }
            let unlimited = planned(curve, Bytes(u64::MAX), None).err().unwrap();
            assert!(unlimited.to_string().contains("of memory may be used"), "{unlimited}");
        }
        assert_eq!(ladder::sizes(u64::MAX, true).last(), Some(&(3 << 62)));
        assert_eq!(ladder::sizes(u64::MAX, false).last(), Some(&(3 << 62)));
    }

    #[test]
    fn hints_can_be_typed_and_lead_to_a_run() {
        let hint = |topology: &str, curve| {
            let topology = Topology::load(&TopologySource::Synthetic(topology.to_owned())).unwrap();
            let site = MeasuredNode::new(topology, Machine::default(), SysRoot::live());
            let request = PlacementRequest { threads: Some(1), ..PlacementRequest::default() };
            let placement = nodegauge_placement::plan(&site.topology, &request).unwrap();
            let options = CurveOptions::default();
            let plan = CurvePlan::with_placement(curve, &site, placement, options, Vec::new());
            plan.err().unwrap().to_string()
        };
        for curve in [Curve::Loaded, Curve::Family, Curve::Scaling] {
            let with_two = hint("Package:1 L3Cache:1(size=2MB) Core:2 PU:1", curve);
            assert!(with_two.ends_with("--threads 2"), "{with_two}");
            let with_one = hint("Package:1 L3Cache:1(size=2MB) Core:1 PU:1", curve);
            assert!(with_one.contains("only one CPU is available: allow more"), "{with_one}");
        }
        let small = planned(Curve::Ladder, Bytes(1024), None).err().unwrap().to_string();
        assert!(small.contains("give --size 16KiB or more"), "{small}");
    }

    #[test]
    fn largest_set_is_four_times_the_cache_capacity() {
        let reported = Some(Bytes::mib(384));
        let caches = CacheCapacity { reported, measured: Some(Bytes::mib(32)) };
        assert_eq!(memory_working_set(caches), Bytes::mib(128));
        assert_eq!(
            memory_working_set(CacheCapacity { reported, measured: None }),
            Bytes::mib(4 * 384)
        );
        let small = CacheCapacity { reported: Some(Bytes::mib(1)), measured: None };
        assert_eq!(memory_working_set(small), MIN_LARGEST);
        assert_eq!(memory_working_set(CacheCapacity::default()), UNKNOWN_CACHE);
    }
}
