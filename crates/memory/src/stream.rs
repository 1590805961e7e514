//! STREAM: the sustainable bandwidth of main memory, after McCalpin's benchmark.
//!
//! A plan fixes the arrays and the threads; a trial chooses the loops the user left open; then
//! passes of all kernels, in STREAM's order, repeat until the figures are stable or the time is
//! spent; the arrays are checked; and only then is there a result. Prints nothing.

mod ranks;

pub use ranks::RanksStreamPlan;
pub(crate) use ranks::plan_ranks;

use crate::arrays::{Layout, Pages};
use crate::kernels::{self, Element, Kernel, Prefetch, Shape, Stores};
use crate::point::{Point, PointConfig, PointError, Sample};
use crate::result::{self, Evidence};
use crate::samples::{self, Sorted};
use crate::size::{self, Size, SizeError, SizeSpec, Surroundings};
use crate::target::Target;
use crate::tuner::{self, Breadth, Constraints};
use nodegauge_machine::{CpuId, NodeId, SysRoot, Topology};
use nodegauge_measure::record::{Finding, HugePages, Machine, Measurement};
use nodegauge_measure::repeat::{Stop, StopRule};
use nodegauge_measure::stats::Better;
use nodegauge_measure::{Bytes, Watch, clock};
use nodegauge_placement::{Bind, MemoryPolicy, Placement, PlacementError};
use std::time::{Duration, Instant};

/// What can be asked of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Length of the arrays.
    pub size: SizeSpec,
    /// Largest share of the memory that can be had which the arrays may take, 0 to 1.
    pub memory_fraction: f64,
    /// Type of the elements.
    pub element: Element,
    /// Lay the arrays one after another, padded by this many elements, as stream.c does; `None`
    /// staggers them.
    pub offset: Option<u64>,
    /// Kernels, in the order of a pass.
    pub kernels: Vec<Kernel>,
    /// Kind of store; `None` chooses by trial.
    pub stores: Option<Stores>,
    /// Pages; `None` takes the largest that can be had without a reservation.
    pub pages: Option<Pages>,
    /// Software prefetch; `None` chooses by trial.
    pub prefetch: Option<Prefetch>,
    /// Memory policy of the arrays.
    pub policy: MemoryPolicy,
    /// Time for everything.
    pub budget: Duration,
    /// Loops that were chosen before, by [`tune`](crate::tune): a kernel in the list needs no trial.
    pub loops: Vec<(Kernel, Shape)>,
    /// Exactly this many passes after the warm-up, whatever the time.
    pub samples: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            size: SizeSpec::Auto,
            memory_fraction: 0.8,
            element: Element::F64,
            offset: None,
            kernels: kernels::STREAM.to_vec(),
            stores: None,
            pages: None,
            prefetch: None,
            policy: MemoryPolicy::Default,
            budget: Duration::from_secs(10),
            loops: Vec::new(),
            samples: None,
        }
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The length of the arrays.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// Threads, arrays, pages.
    #[error(transparent)]
    Point(#[from] PointError),
    /// The threads.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The wished stores do not exist here.
    #[error("this processor has no {0} stores that nodegauge knows\nhint: use --stores regular")]
    NoSuchStores(Stores),
}

/// What a run found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// One a kernel, in the order of a pass; none when interrupted before the first sample.
    pub measurements: Vec<Measurement>,
    /// What was clamped, assumed or replaced.
    pub notices: Vec<String>,
    /// What the run found out about the machine.
    pub findings: Vec<Finding>,
    /// Why repetition ended.
    pub stop: Stop,
    /// Where each thread ran, one line a thread in the shape of `OMP_DISPLAY_AFFINITY`.
    pub affinity: Vec<String>,
}

/// Shortest time of repetition with the default budget: regimes of a virtual machine last seconds.
const LEAST_REPETITION: Duration = Duration::from_millis(2500);
/// Share of the budget that the trial may take.
const TRIAL_SHARE: f64 = 0.3;
/// Part of the budget kept for checking the arrays and ending.
const TAIL_SHARE: f64 = 0.05;
/// Passes at least.
const LEAST_PASSES: usize = 20;
/// Stable means within this share.
const TOLERANCE: f64 = 0.005;
/// Every so many passes the question whether to stop is asked anew.
const ASK_EVERY: usize = 5;

/// Plans a run: how long the arrays are and on which pages.
///
/// # Errors
/// When they do not fit.
pub fn plan(
    topology: &Topology,
    machine: &Machine,
    placement: &Placement,
    options: &Options,
) -> Result<(Size, PointConfig), StreamError> {
    let cpus: Vec<CpuId> = placement.threads.iter().flat_map(|t| t.cpus.clone()).collect();
    let around = Surroundings {
        llc: topology.llc_in_use(&cpus).map(|(bytes, count)| (Bytes(bytes), count)),
        available: available(machine, options.pages, &options.policy),
        fraction: options.memory_fraction,
    };
    let size = size::choose(options.size, options.element, &around)?;
    let shapes = candidates(options, Breadth::Likely)?;
    let config = PointConfig {
        places: masks(placement),
        elements: size.elements,
        element: options.element,
        pages: options.pages.unwrap_or_else(|| best_pages(machine)),
        layout: options.offset.map_or(Layout::Staggered, |offset| Layout::Sequential { offset }),
        policy: options.policy.clone(),
        kernels: options
            .kernels
            .iter()
            .map(|kernel| (*kernel, loop_for(*kernel, options, &shapes)))
            .collect(),
    };
    Ok((size, config))
}

/// Memory that the arrays of a run can have: reserved huge pages that are free, or what can be had
/// now, on the nodes to which a policy binds them.
pub(crate) fn available(machine: &Machine, pages: Option<Pages>, policy: &MemoryPolicy) -> Bytes {
    if let Some(page) = pages.and_then(Pages::reserved) {
        let free_in = |pools: &[HugePages]| -> Option<u64> {
            pools.iter().find(|huge| huge.bytes == page.0).map(|huge| huge.free * huge.bytes)
        };
        // The kernel's reservation knows no policy: a node's pool that is too small would end the
        // program at first touch.
        let free = match policy {
            MemoryPolicy::Bind(nodes) => {
                let of_node = |node: &NodeId| {
                    free_in(&nodegauge_machine::memory::huge_pages_of_node(&SysRoot::live(), *node))
                };
                nodes.iter().map(of_node).sum()
            }
            _ => machine.pages.as_ref().and_then(|pages| free_in(&pages.huge)),
        };
        // None reserved at all is refused with the reason when the arrays are mapped.
        if let Some(free) = free.filter(|free| *free > 0) {
            return Bytes(free);
        }
    }
    let anywhere = machine.memory.available.unwrap_or(0);
    let MemoryPolicy::Bind(nodes) = policy else { return Bytes(anywhere) };
    let free: Option<u64> =
        nodes.iter().map(|id| machine.numa_nodes.iter().find(|node| node.id == id.0)?.free).sum();
    Bytes(free.map_or(anywhere, |free| free.min(anywhere)))
}

/// The CPUs of each thread; an empty list leaves a thread unbound.
pub(crate) fn masks(placement: &Placement) -> Vec<Vec<CpuId>> {
    let bound = placement.bind != Bind::None;
    placement
        .threads
        .iter()
        .map(|thread| if bound { thread.cpus.clone() } else { Vec::new() })
        .collect()
}

/// The loops that the options leave to choose from.
pub(crate) fn candidates(options: &Options, breadth: Breadth) -> Result<Vec<Shape>, StreamError> {
    let constraints = Constraints { stores: options.stores, prefetch: options.prefetch };
    let shapes = tuner::candidates(constraints, breadth);
    match (shapes.is_empty(), options.stores) {
        (true, Some(stores)) => Err(StreamError::NoSuchStores(stores)),
        _ => Ok(shapes),
    }
}

/// The loop chosen before, else the first, for a start; kernels without stores have regular ones only.
fn loop_for(kernel: Kernel, options: &Options, shapes: &[Shape]) -> Shape {
    if let Some((_, shape)) = options.loops.iter().find(|(known, _)| *known == kernel) {
        return *shape;
    }
    let mut shape = shapes[0];
    if !kernel.writes() {
        shape.stores = Stores::Regular;
    }
    shape
}

/// The pages to take when the user leaves the choice: transparent huge pages unless the kernel
/// has them switched off.
pub fn best_pages(machine: &Machine) -> Pages {
    match machine.pages.as_ref().and_then(|pages| pages.thp.as_deref()) {
        Some("never") | None => Pages::Base,
        Some(_) => Pages::Transparent,
    }
}

/// A point whose arrays are mapped and whose loops are chosen.
pub(crate) struct Ready<S> {
    pub point: S,
    pub size: Size,
    /// What was clamped, and what the trial came to.
    pub notices: Vec<String>,
    /// How many loops the trial chose from; 0 without a trial.
    pub tried: usize,
}

/// Sets up what [`plan`] gave and chooses the loops that the options leave open, in at most
/// `trial_share` of the budget since `started`.
pub(crate) fn ready(
    (size, config): (Size, PointConfig),
    options: &Options,
    trial_share: f64,
    started: Instant,
    watch: &mut dyn Watch,
) -> Result<Ready<Point>, StreamError> {
    watch.phase(&format!(
        "preparing 3 arrays of {} on {} threads",
        Bytes(size.elements * options.element.bytes()),
        config.places.len()
    ));
    let point = Point::prepare(config)?;
    with_loops(point, size, options, trial_share, started, watch)
}

/// Chooses the loops that the options leave open, in at most `trial_share` of the budget since
/// `started`.
pub(crate) fn with_loops<S: Target>(
    mut point: S,
    size: Size,
    options: &Options,
    trial_share: f64,
    started: Instant,
    watch: &mut dyn Watch,
) -> Result<Ready<S>, StreamError> {
    let shapes = candidates(options, Breadth::Likely)?;
    let mut notices = size.notices.clone();
    let mut tried = 0;
    let open = |kernel: &Kernel| options.loops.iter().all(|(known, _)| known != kernel);
    if shapes.len() > 1 && options.kernels.iter().any(open) {
        watch.phase(&format!("trying {} loops for each kernel", shapes.len()));
        let begun = Instant::now();
        let deadline = started + options.budget.mul_f64(trial_share);
        let deadline = deadline.max(begun + Duration::from_millis(200));
        let chosen = tuner::choose(&mut point, &shapes, deadline, || {
            let gone = begun.elapsed().as_secs_f64();
            watch.progress(gone / (deadline - begun).as_secs_f64(), "");
            watch.interrupted()
        })?;
        tried = chosen.tried;
        notices.push(trial_in_words(&chosen, shapes.len()));
    }
    Ok(Ready { point, size, notices, tried })
}

/// Measures STREAM on one placement.
///
/// # Errors
/// No memory, pages or CPUs as asked.
pub fn run(
    topology: &Topology,
    machine: &Machine,
    placement: &Placement,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Outcome, StreamError> {
    let started = Instant::now();
    let config = plan(topology, machine, placement, options)?;
    let ready = ready(config, options, TRIAL_SHARE, started, watch)?;
    measure(ready, topology, machine, placement, options, started, watch)
}

/// Measures what is ready, until it is stable or the budget is spent.
fn measure<S: Target>(
    ready: Ready<S>,
    topology: &Topology,
    machine: &Machine,
    placement: &Placement,
    options: &Options,
    started: Instant,
    watch: &mut dyn Watch,
) -> Result<Outcome, StreamError> {
    let Ready { mut point, size, notices, tried } = ready;
    watch.phase("measuring");
    let (samples, stop) = repeat(&mut point, options, started, watch)?;
    let traffic = if stop == Stop::Interrupted { None } else { point.traffic()? };
    point.check()?;
    let seen = point.seen()?;
    let evidence = Evidence {
        machine,
        placement,
        target: &point,
        seen: &seen,
        size: &size,
        sorted: &samples::sort(&samples),
        samples: &samples,
        stop,
        loops_tried: tried,
        clock: clock::quality(),
        topology,
        traffic: traffic.as_ref(),
    };
    Ok(Outcome {
        measurements: result::measurements(&evidence),
        findings: result::findings(&evidence),
        notices,
        stop,
        affinity: seen.affinity.iter().map(ToString::to_string).collect(),
    })
}

/// Repeats passes until the stop rule, the budget or the user ends it.
fn repeat(
    point: &mut dyn Target,
    options: &Options,
    started: Instant,
    watch: &mut dyn Watch,
) -> Result<(Vec<Sample>, Stop), StreamError> {
    let usable = options.budget.mul_f64(1.0 - TAIL_SHARE);
    let rule = StopRule {
        least: LEAST_PASSES,
        exactly: options.samples,
        at_least: LEAST_REPETITION.min(options.budget.mul_f64(0.25)),
        at_most: usable.saturating_sub(started.elapsed()),
        tolerance: TOLERANCE,
    };
    let begun = Instant::now();
    let mut samples = vec![point.pass()?];
    loop {
        if watch.interrupted() {
            return Ok((samples, Stop::Interrupted));
        }
        samples.push(point.pass()?);
        let passes = samples.len() - 1;
        // However late it is, fewer passes than this say nothing.
        let late = begun.elapsed() >= rule.at_most && passes >= ASK_EVERY;
        let ask = passes.is_multiple_of(ASK_EVERY)
            || options.samples.is_some_and(|n| passes >= n)
            || late;
        if ask && let Some(stop) = decide(&rule, &samples, begun.elapsed(), point, watch) {
            return Ok((samples, stop));
        }
    }
}

/// Tells the user where things stand and asks the rule.
fn decide(
    rule: &StopRule,
    samples: &[Sample],
    elapsed: Duration,
    point: &dyn Target,
    watch: &mut dyn Watch,
) -> Option<Stop> {
    let sorted = samples::sort(samples);
    let kernels = &point.config().kernels;
    let figures: Vec<Vec<f64>> = match (sorted.headline(), rule.exactly) {
        // A wished number of passes counts all passes, disturbed ones too.
        (_, Some(_)) | (None, _) => vec![vec![1.0; samples.len() - 1]],
        (Some(group), None) => (0..kernels.len())
            .map(|i| Sorted::rates(samples, group, i, result::counted(point, i)))
            .collect(),
    };
    let slices: Vec<&[f64]> = figures.iter().map(Vec::as_slice).collect();
    let share = match rule.exactly {
        Some(exactly) => (samples.len() - 1) as f64 / exactly.max(1) as f64,
        None => elapsed.as_secs_f64() / rule.at_most.as_secs_f64().max(1e-3),
    };
    watch.progress(share.min(1.0), &latest(samples, point));
    rule.decide(&slices, elapsed, Better::Higher)
}

/// The best of the last kernel of STREAM's four so far, in words.
fn latest(samples: &[Sample], point: &dyn Target) -> String {
    let kernels = &point.config().kernels;
    let shown = kernels.iter().position(|(k, _)| *k == Kernel::Triad).unwrap_or(0);
    let fastest = samples.iter().map(|s| s.seconds[shown]).fold(f64::INFINITY, f64::min);
    let rate = nodegauge_measure::BytesPerSec(result::counted(point, shown) / fastest);
    format!("{} {rate}", kernels[shown].0)
}

/// What a trial over `all` loops came to.
pub(crate) fn trial_in_words(chosen: &tuner::ChosenLoops, all: usize) -> String {
    let loops = describe(&chosen.loops);
    match chosen.tried {
        0 => format!("not chosen by trial, for which there was no time: {loops}"),
        n if n < all => format!("chosen by trial among {n} loops, {all} had no time: {loops}"),
        _ => format!("chosen by trial: {loops}"),
    }
}

/// The chosen loops in words, kernels with the same loop together.
pub(crate) fn describe(chosen: &[(Kernel, Shape)]) -> String {
    let mut groups: Vec<(Shape, Vec<&str>)> = Vec::new();
    for (kernel, shape) in chosen {
        match groups.iter_mut().find(|(known, _)| known == shape) {
            Some((_, names)) => names.push(kernel.name()),
            None => groups.push((*shape, vec![kernel.name()])),
        }
    }
    groups
        .iter()
        .map(|(shape, names)| format!("{} with {shape}", names.join(", ")))
        .collect::<Vec<_>>()
        .join("; ")
}

impl From<Outcome> for nodegauge_measure::Outcome {
    fn from(found: Outcome) -> Self {
        use nodegauge_measure::{Notice, NoticeId};
        let notice = |text| Notice::new(NoticeId::Chosen, crate::GAUGE, text);
        Self {
            measurements: found.measurements,
            findings: found.findings,
            notices: found.notices.into_iter().map(notice).collect(),
            details: found.affinity,
            stop: Some(found.stop),
            failure: None,
        }
    }
}

impl From<StreamError> for nodegauge_measure::Failure {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Placement(_) => Self::usage(error),
            StreamError::Size(_) | StreamError::Point(_) | StreamError::NoSuchStores(_) => {
                Self::missing(error)
            }
        }
    }
}
