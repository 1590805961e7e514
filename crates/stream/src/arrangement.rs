//! Planned configuration of STREAM, for one process or for several ranks: the places of threads and arrays, the length
//! of the arrays, and the candidate loops.

mod options;
mod sizing;

pub use options::{ArrayOptions, StreamOptions};
pub(crate) use sizing::{PreparedTarget, TargetSetup, shown_kernel_index};

use crate::GAUGE;
use crate::kernels::{Kernel, KernelShape, Prefetch, Stores};
use crate::point::StreamTarget;
use crate::ranks::{RanksTarget, SharedStreamCoordinator};
use crate::size::{self, ArraySize, SizeConditions, SizeSpec};
use crate::target::Target;
use crate::target::TargetConfig;
use crate::tuner::{self, ChosenLoops, SearchBreadth};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_arena::ArenaError;
use nodegauge_arena::ArrayLayout;
use nodegauge_arena::supply::{available_memory, default_pages};
use nodegauge_gauge::{ExpectedCost, MeasuredNode};

use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::schedule::RunLimits;
use nodegauge_measure::stream_rule::CacheCapacity;
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer, Unit, clock, notice};
use nodegauge_placement::{MemoryPolicy, Placement, PlacementRequest, RankPlan};
use std::time::{Duration, Instant};

/// Minimum share of the budget for the choice of loops, if the set-up took longer than planned.
const MIN_CHOICE: f64 = 0.1;
/// Minimum time for the choice of loops.
pub(crate) const MIN_CHOICE_TIME: Duration = Duration::from_millis(200);

/// Planned configuration of STREAM.
#[derive(Debug, Clone)]
pub struct Arrangement {
    /// Places of the threads of all processes.
    pub(crate) placement: Placement,
    /// Places of the ranks; `None` for a run in one process.
    pub(crate) ranks: Option<RankPlan>,
    pub(crate) options: StreamOptions,
    /// Size of the arrays of all processes together.
    pub(crate) size: ArraySize,
    /// Configuration of each process.
    pub(crate) configs: Vec<TargetConfig>,
    /// Notices about options that were honoured, clamped or chosen.
    pub(crate) notices: Vec<Notice>,
}

impl Arrangement {
    /// Plans a run in one process with the threads of `request`. `notices` are notices about the request.
    ///
    /// # Errors
    /// Fails if threads or arrays do not fit, and if the requested loops do not exist.
    pub fn new(
        site: &MeasuredNode,
        request: &PlacementRequest,
        options: StreamOptions,
        mut notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        let placement = nodegauge_placement::plan(&site.topology, request)?;
        let (size, config) = plan(site, &placement, &options)?;
        notice::add_new(&mut notices, placement_notices(&placement.notices));
        notice::add_new(&mut notices, size.notices.iter().cloned());
        config.check_pages(1)?;
        config.check_bound_pages(1)?;
        Ok(Self { placement, ranks: None, options, size, configs: vec![config], notices })
    }

    /// Plans several ranks, each with its own arrays. The sizes `auto`, `4xLLC` and `60%` apply to the arrays of all
    /// ranks together and are divided evenly among the ranks. Any other size applies to the arrays of each rank.
    ///
    /// # Errors
    /// Fails if the arrays do not fit, and if the requested loops do not exist.
    pub fn for_ranks(
        site: &MeasuredNode,
        ranks: RankPlan,
        options: StreamOptions,
    ) -> Result<Self, Failure> {
        let count = ranks.ranks.len() as u64;
        let shared = matches!(
            options.arrays.size,
            SizeSpec::Auto | SizeSpec::TimesLlc(_) | SizeSpec::Share(_)
        );
        let placement = ranks.all_threads();
        // The available memory is that of the union of all policies: ranks bound to different nodes use the memory of
        // all these nodes.
        let mut together = StreamOptions { policy: whole_policy(&ranks), ..options.clone() };
        if !shared {
            together.arrays.memory_fraction = together.arrays.memory_fraction / count as f64;
        }
        let (mut size, config) = plan(site, &placement, &together)?;
        let elements = if shared { size.elements.div_ceil(count) } else { size.elements };
        if !shared {
            // STREAM's rule applies to the arrays of all ranks together.
            size =
                ArraySize::new(elements * count, options.arrays.element, size.rule, size.notices);
        }
        let mut configs: Vec<TargetConfig> = Vec::new();
        for place in &ranks.ranks {
            configs.push(TargetConfig {
                places: place.placement.thread_cpus(),
                elements,
                policy: place.memory.clone(),
                cache_bytes: config.cache_bytes / count,
                ..config.clone()
            });
        }
        configs[0].check_pages(count)?;
        for rank in &configs {
            let alike = configs.iter().filter(|other| other.policy == rank.policy).count();
            rank.check_bound_pages(alike)?;
        }
        let mut notices: Vec<Notice> = placement_notices(&ranks.notices).collect();
        notices.extend(size.notices.iter().cloned());
        Ok(Self { placement, ranks: Some(ranks), options, size, configs, notices })
    }

    /// Returns the number of elements per array in each process.
    pub(crate) fn elements(&self) -> u64 {
        self.configs[0].elements
    }

    /// Returns the kernels of a pass with their initial loops.
    pub(crate) fn kernels(&self) -> Vec<(Kernel, KernelShape)> {
        self.configs[0].kernels.clone()
    }

    /// True if the configuration is for one process and equals `config`, except for the loops.
    pub(crate) fn matches_config(&self, config: &TargetConfig) -> bool {
        let own = &self.configs[0];
        self.ranks.is_none()
            && *own == TargetConfig { kernels: own.kernels.clone(), ..config.clone() }
    }

    /// Returns the expected time and memory of a run with `copies` sets of the arrays.
    pub(crate) fn expected_cost(&self, copies: u64) -> ExpectedCost {
        let each: u64 = self.configs.iter().map(TargetConfig::bytes).sum();
        ExpectedCost { time: Some(self.options.budget.time), memory: Some(Bytes(copies * each)) }
    }

    /// Returns STREAM's figures for the planned kernels.
    pub(crate) fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        stream_figures(&self.options.arrays.kernels, site)
    }

    /// Returns the limits of time and samples. The time starts with this call.
    pub(crate) fn limits(&self) -> RunLimits {
        RunLimits::from_budget(self.options.budget, self.options.samples)
    }

    /// Prepares the configuration in this process.
    pub(crate) fn prepare_stream_target(&self) -> Result<StreamTarget, ArenaError> {
        StreamTarget::prepare(self.configs[0].clone())
    }

    /// Prepares the configuration in this process or in the ranks of `coordinator`.
    pub(crate) fn prepare_target(
        &self,
        site: &MeasuredNode,
        coordinator: Option<&SharedStreamCoordinator>,
    ) -> Result<Box<dyn Target>, ArenaError> {
        Ok(match self.ranks.as_ref().zip(coordinator) {
            Some((ranks, coordinator)) => {
                let configs = self.configs.clone();
                Box::new(RanksTarget::prepare(coordinator, &site.topology, ranks, configs)?)
            }
            None => Box::new(self.prepare_stream_target()?),
        })
    }

    /// Reports the start of the set-up to `observer`.
    pub(crate) fn announce(&self, observer: &mut dyn Observer) {
        let array = Bytes(self.elements() * self.options.arrays.element.bytes());
        let owners = match &self.ranks {
            Some(plan) if plan.ranks.len() == 1 => "in 1 rank".to_owned(),
            Some(plan) => format!("in each of {} ranks", plan.ranks.len()),
            None => format!("on {}", count_in_words(self.placement.threads.len(), "thread")),
        };
        let arrays = count_in_words(self.configs[0].arrays, "array");
        observer.begin_phase(&format!("preparing {arrays} of {array} {owners}"));
    }

    /// Chooses the loops that the options do not fix, until `deadline`. Returns `None` if the options fix all loops.
    pub(crate) fn choose(
        &mut self,
        target: &mut dyn Target,
        deadline: Instant,
        observer: &mut dyn Observer,
    ) -> Result<Option<ChosenLoops>, Failure> {
        let shapes = allowed_loops(&self.options, SearchBreadth::Likely)?;
        let loops = &self.options.loops;
        let kernels = &self.options.arrays.kernels;
        let is_open = kernels.iter().any(|kernel| loops.iter().all(|(known, _)| known != kernel));
        if shapes.len() < 2 || !is_open {
            return Ok(None);
        }
        observer.begin_phase(&format!("trying {} loops for each kernel", shapes.len()));
        let begun = clock::now();
        let least = self.options.budget.time.mul_f64(MIN_CHOICE).max(MIN_CHOICE_TIME);
        let deadline = deadline.max(begun + least);
        let chosen = tuner::choose(target, &shapes, deadline, || {
            let gone = (clock::now() - begun).as_secs_f64();
            observer.report_progress(gone / (deadline - begun).as_secs_f64(), "");
            observer.is_interrupted()
        })?;
        self.notices.push(loop_choice_notice(&chosen));
        Ok(Some(chosen))
    }
}

/// Converts the messages of a placement to notices.
fn placement_notices(texts: &[String]) -> impl Iterator<Item = Notice> {
    texts.iter().map(|text| Notice::new(NoticeId::Environment, GAUGE, text))
}

/// Returns a policy that covers the memory of all ranks: the NUMA nodes of all ranks if every rank is bound.
fn whole_policy(ranks: &RankPlan) -> MemoryPolicy {
    let mut all = Vec::new();
    for place in &ranks.ranks {
        match &place.memory {
            MemoryPolicy::Bind(nodes) => all.extend(nodes.iter().copied()),
            _ => return MemoryPolicy::Default,
        }
    }
    all.sort_unstable();
    all.dedup();
    MemoryPolicy::Bind(all)
}

/// Returns the size of all caches that may hold data of the threads between two passes: the last-level caches of their
/// CPUs, and the memory-side caches of their NUMA nodes.
pub(crate) fn caches_in_use(site: &MeasuredNode, placement: &Placement) -> CacheCapacity {
    let cpus = placement.cpus();
    let mut cache_bytes = 0;
    for node in &site.machine.numa_nodes {
        if cpus.iter().any(|cpu| node.cpus.contains(&cpu.0)) {
            cache_bytes += node.cache_bytes.unwrap_or(0);
        }
    }
    site.cache_capacity(&cpus).with_unmeasured(Bytes(cache_bytes))
}

/// Returns the properties of the machine that determine the length of the arrays.
fn size_conditions(
    site: &MeasuredNode,
    placement: &Placement,
    options: &StreamOptions,
) -> SizeConditions {
    SizeConditions {
        gauge: GAUGE,
        arrays: options.array_count(),
        caches: caches_in_use(site, placement),
        available: available_memory(&site.machine, options.arrays.pages, &options.policy),
        fraction: options.arrays.memory_fraction,
    }
}

/// Plans the length and the pages of the arrays for a team of threads.
///
/// # Errors
/// Fails if the arrays do not fit, and if the requested loops do not exist.
pub fn plan(
    site: &MeasuredNode,
    placement: &Placement,
    options: &StreamOptions,
) -> Result<(ArraySize, TargetConfig), Failure> {
    let machine = &site.machine;
    let conditions = size_conditions(site, placement, options);
    let size = size::choose(options.arrays.size, options.arrays.element, &conditions)?;
    let shapes = allowed_loops(options, SearchBreadth::Likely)?;
    let mut loops = Vec::new();
    for kernel in &options.arrays.kernels {
        loops.push((*kernel, loop_for(*kernel, options, &shapes)));
    }
    let config = TargetConfig {
        places: placement.thread_cpus(),
        arrays: options.array_count(),
        elements: size.elements,
        element: options.arrays.element,
        pages: options.arrays.pages.unwrap_or_else(|| default_pages(machine)),
        layout: options
            .arrays
            .offset
            .map_or(ArrayLayout::Staggered, |offset| ArrayLayout::Sequential { offset }),
        policy: options.policy.clone(),
        kernels: loops,
        cache_bytes: conditions.caches.bytes().map_or(0, |caches| caches.0),
    };
    Ok((size, config))
}

/// Returns the loops that the options allow.
pub(crate) fn allowed_loops(
    options: &StreamOptions,
    breadth: SearchBreadth,
) -> Result<Vec<KernelShape>, Failure> {
    let shapes = tuner::candidate_shapes(options.arrays.constraints(), breadth);
    match (options.arrays.prefetch, options.arrays.side_by_side, options.arrays.stores) {
        _ if !shapes.is_empty() => Ok(shapes),
        (Some(prefetch), Some(pages), _)
            if prefetch != Prefetch::Off && pages.above_one().is_some() =>
        {
            Err(Failure::insufficient(
                "loops with several pages side by side cannot use software prefetch",
            )
            .hint("leave out --prefetch, or give --side-by-side 1"))
        }
        (_, _, Some(stores)) => Err(Failure::missing(format!(
            "this processor has no {stores} stores that nodegauge supports"
        ))
        .hint("use --stores regular")),
        _ => Err(Failure::insufficient(
            "nodegauge has no loops with software prefetch for this processor",
        )
        .hint("leave out --prefetch")),
    }
}

/// Returns the initial loop of a kernel: the loop that an earlier run chose, otherwise the first candidate. Kernels
/// without stores have only loops of the kind "regular stores".
fn loop_for(kernel: Kernel, options: &StreamOptions, shapes: &[KernelShape]) -> KernelShape {
    if let Some((_, shape)) = options.loops.iter().find(|(known, _)| *known == kernel) {
        return *shape;
    }
    let mut shape = shapes[0];
    if !kernel.writes() {
        shape.stores = Stores::Regular;
    }
    shape
}

/// Joins the names of kernels.
fn names(kernels: &[Kernel]) -> String {
    kernels.iter().map(|kernel| kernel.name()).collect::<Vec<_>>().join(", ")
}

/// Returns the notice about the choice of loops: the loops, the lead of each over the second best, and the loops that
/// were not tried.
pub(crate) fn loop_choice_notice(chosen: &ChosenLoops) -> Notice {
    let tried = chosen.tried.len();
    let untried = chosen.untried.len();
    let among = match (tried, untried) {
        (0, _) => "default loops, no time for a trial".to_owned(),
        (_, 0) => format!("fastest of {tried} loops in a trial"),
        _ => format!("fastest of {tried} loops in a trial ({} exist)", tried + untried),
    };
    let mut parts = vec![format!("{among}: {}", loops_in_words(&chosen.loops))];
    let (ahead, undecided): (Vec<_>, Vec<_>) =
        chosen.leads.iter().partition(|(_, lead)| lead.is_significant());
    if !ahead.is_empty() {
        let mut each: Vec<String> = Vec::new();
        for (kernel, lead) in ahead {
            each.push(format!("{kernel} {:.2} x", lead.ratio));
        }
        parts.push(format!("lead over the second best: {}", each.join(", ")));
    }
    if !undecided.is_empty() {
        let kernels: Vec<Kernel> = undecided.iter().map(|(kernel, _)| *kernel).collect();
        parts.push(format!("not distinguishable from the second best: {}", names(&kernels)));
    }
    if !chosen.nontemporal_by_default.is_empty() {
        let kernels = names(&chosen.nontemporal_by_default);
        parts.push(format!(
            "non-temporal stores although regular stores led, because not all non-temporal loops were tried: {kernels}"
        ));
    }
    if tried > 0 && untried > 0 {
        parts.push(format!("not tried: {}", untried_in_words(&chosen.tried, &chosen.untried)));
    }
    Notice::new(NoticeId::Chosen, GAUGE, parts.join("; "))
}

/// Returns the properties of the untried loops that none of the tried loops has.
fn untried_in_words(tried: &[KernelShape], untried: &[KernelShape]) -> String {
    type Feature = fn(&KernelShape) -> String;
    let features: [(&str, Feature); 5] = [
        ("", |shape| format!("{} stores", shape.stores)),
        ("", |shape| shape.isa.to_string()),
        ("unroll ", |shape| shape.unroll.to_string()),
        ("pages side by side ", |shape| shape.side_by_side.to_string()),
        ("prefetch ", |shape| shape.prefetch.to_string()),
    ];
    let mut all = Vec::new();
    for (what, feature) in features {
        let mut missing: Vec<String> = untried.iter().map(feature).collect();
        missing.retain(|value| tried.iter().all(|shape| feature(shape) != *value));
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            all.push(format!("{what}{}", missing.join(", ")));
        }
    }
    if all.is_empty() {
        "other combinations of these properties".to_owned()
    } else {
        all.join("; ")
    }
}

/// Describes the chosen loops; kernels with the same loop share an entry.
pub(crate) fn loops_in_words(chosen: &[(Kernel, KernelShape)]) -> String {
    let mut groups: Vec<(KernelShape, Vec<&str>)> = Vec::new();
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

/// Returns STREAM's figures for `kernels`.
pub(crate) fn stream_figures(kernels: &[Kernel], site: &MeasuredNode) -> Vec<PossibleFigures> {
    let limited = nodegauge_machine::node_bandwidth(&site.machine, &[]).is_some();
    let names = kernels.iter().map(|kernel| kernel.name());
    vec![
        PossibleFigures::new(GAUGE, nodegauge_arena::names::STREAM, names, &[Unit::BytesPerSecond])
            .with_known_limit(limited),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::{SysRoot, Topology, TopologySource};
    use nodegauge_measure::record::Machine;
    use nodegauge_measure::record::NumaNode;
    use nodegauge_placement::Binding;

    #[test]
    fn cache_mode_memory_counts_as_a_cache() {
        let source = TopologySource::Synthetic(
            "Package:2 NUMANode:1 L3Cache:1(size=16MB) Core:2 PU:1".to_owned(),
        );
        let topology = Topology::load(&source).unwrap();
        let node = |id: u32, cache_bytes| NumaNode {
            id,
            cache_bytes,
            cpus: vec![2 * id, 2 * id + 1],
            ..NumaNode::default()
        };
        let numa_nodes = vec![node(0, Some(64 << 30)), node(1, None)];
        let machine = Machine { numa_nodes, ..Machine::default() };
        let site = MeasuredNode::new(topology, machine, SysRoot::live());
        let caches = |threads| {
            let request = PlacementRequest {
                threads: Some(threads),
                bind: Some(Binding::Close),
                ..PlacementRequest::default()
            };
            let placement = nodegauge_placement::plan(&site.topology, &request).unwrap();
            caches_in_use(&site, &placement).bytes().unwrap().0
        };
        assert_eq!(caches(2), (64 << 30) + 16_000_000);
        assert_eq!(caches(4), (64 << 30) + 32_000_000);
    }
}
