//! STREAM: the sustainable bandwidth of main memory, after McCalpin's benchmark.
//!
//! A plan fixes the arrays and the threads; a trial chooses the loops the user left open; then
//! passes of all kernels, in STREAM's order, repeat until the figures are stable or the time is
//! spent; the arrays are checked; and only then is there a result. Prints nothing.

mod ranks;

pub use ranks::RanksStreamPlan;
pub(crate) use ranks::plan_ranks;

use crate::GAUGE;
use crate::arrays::{Layout, Pages};
use crate::kernels::{self, Element, Kernel, Loop, Prefetch, Shape, Stores};
use crate::point::{Point, PointConfig, PointError};
use crate::result::{self, Evidence};
use crate::size::{self, Size, SizeError, SizeSpec, Surroundings};
use crate::target::Target;
use crate::tuner::{self, Breadth, Constraints};
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_machine::{CpuId, NodeId, SysRoot, Topology};
use nodegauge_measure::record::{HugePages, Machine};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::samples::{self, Sample};
use nodegauge_measure::schedule::{Limits, Schedule, policy};
use nodegauge_measure::{Bytes, BytesPerSec, Failure, Notice, NoticeId, Observer, Outcome, clock};
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
    pub notices: Vec<Notice>,
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
    observer: &mut dyn Observer,
) -> Result<Ready<Point>, StreamError> {
    observer.phase(&format!(
        "preparing 3 arrays of {} on {} threads",
        Bytes(size.elements * options.element.bytes()),
        config.places.len()
    ));
    let point = Point::prepare(config)?;
    with_loops(point, size, options, trial_share, started, observer)
}

/// Chooses the loops that the options leave open, in at most `trial_share` of the budget since
/// `started`.
pub(crate) fn with_loops<S: Target>(
    mut point: S,
    size: Size,
    options: &Options,
    trial_share: f64,
    started: Instant,
    observer: &mut dyn Observer,
) -> Result<Ready<S>, StreamError> {
    let shapes = candidates(options, Breadth::Likely)?;
    let mut notices = size.notices.clone();
    let mut tried = 0;
    let open = |kernel: &Kernel| options.loops.iter().all(|(known, _)| known != kernel);
    if shapes.len() > 1 && options.kernels.iter().any(open) {
        observer.phase(&format!("trying {} loops for each kernel", shapes.len()));
        let begun = Instant::now();
        let deadline = started + options.budget.mul_f64(trial_share);
        let deadline = deadline.max(begun + Duration::from_millis(200));
        let chosen = tuner::choose(&mut point, &shapes, deadline, || {
            let gone = begun.elapsed().as_secs_f64();
            observer.progress(gone / (deadline - begun).as_secs_f64(), "");
            observer.interrupted()
        })?;
        tried = chosen.tried;
        let text = trial_in_words(&chosen, shapes.len());
        notices.push(Notice::new(NoticeId::Chosen, GAUGE, text));
    }
    Ok(Ready { point, size, notices, tried })
}

/// A run on one placement.
#[derive(Debug, Clone)]
pub struct StreamPlan {
    placement: Placement,
    options: Options,
    memory: Bytes,
    notices: Vec<Notice>,
}

impl StreamPlan {
    /// Plans a run.
    ///
    /// # Errors
    /// When the arrays do not fit, or there are no such loops.
    pub fn new(
        site: &Site,
        placement: Placement,
        options: Options,
        notices: Vec<Notice>,
    ) -> Result<Self, StreamError> {
        let (size, _) = plan(&site.topology, &site.machine, &placement, &options)?;
        let memory = Bytes(3 * size.elements * options.element.bytes());
        Ok(Self { placement, options, memory, notices })
    }
}

impl Planned for StreamPlan {
    fn foreseen(&self) -> Foreseen {
        Foreseen { time: Some(self.options.budget), memory: Some(self.memory) }
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let mut outcome = Outcome { notices: self.notices, ..Outcome::default() };
        outcome.extend(run(site, &self.placement, &self.options, observer)?);
        Ok(outcome)
    }
}

/// Measures STREAM on one placement.
///
/// # Errors
/// No memory, pages or CPUs as asked.
pub fn run(
    site: &Site,
    placement: &Placement,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Outcome, StreamError> {
    let started = Instant::now();
    let config = plan(&site.topology, &site.machine, placement, options)?;
    let ready = ready(config, options, policy::STREAM.choose, started, observer)?;
    measure(ready, &site.topology, &site.machine, placement, options, started, observer)
}

/// Measures what is ready, until it is stable or the budget is spent.
fn measure<S: Target>(
    ready: Ready<S>,
    topology: &Topology,
    machine: &Machine,
    placement: &Placement,
    options: &Options,
    started: Instant,
    observer: &mut dyn Observer,
) -> Result<Outcome, StreamError> {
    let Ready { mut point, size, notices, tried } = ready;
    observer.phase("measuring");
    let limits = Limits { started, budget: options.budget, samples: options.samples };
    let mut schedule = Schedule::new(policy::STREAM, limits, 1);
    let kernels: Vec<Kernel> = point.loops().iter().map(Loop::kernel).collect();
    let shown = kernels.iter().position(|kernel| *kernel == Kernel::Triad).unwrap_or(0);
    let shown = (shown, kernels[shown], result::counted(&point, shown));
    let latest = |samples: &[Vec<Sample>]| latest(&samples[0], shown);
    let stop = schedule.run(observer, Some(&latest), |_| point.pass().map(|pass| vec![pass]))?;
    let traffic = if stop == Stop::Interrupted { None } else { point.traffic()? };
    point.check()?;
    let seen = point.seen()?;
    let samples = &schedule.samples[0];
    let evidence = Evidence {
        machine,
        placement,
        target: &point,
        seen: &seen,
        size: &size,
        sorted: &samples::sort(samples),
        samples,
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
        details: seen.affinity.iter().map(ToString::to_string).collect(),
        stop: Some(stop),
        failure: None,
    })
}

/// Where a run stands, for its user: the best of Triad so far, or of the first kernel.
fn latest(samples: &[Sample], (shown, kernel, bytes): (usize, Kernel, f64)) -> String {
    let fastest = samples.iter().map(|s| s.seconds[shown]).fold(f64::INFINITY, f64::min);
    format!("{kernel} {}", BytesPerSec(bytes / fastest))
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

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Placement(_) => Self::usage(error),
            StreamError::Size(_) | StreamError::Point(_) | StreamError::NoSuchStores(_) => {
                Self::missing(error)
            }
        }
    }
}
