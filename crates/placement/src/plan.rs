//! Placement of threads: from a request to the CPUs of each thread.
//!
//! Pure. The default is one thread per core, bound to the core's first hardware thread that this
//! process may use; fewer threads are spread evenly. Without a policy, places are used in order, as
//! in OpenMP. Effects that the user did not request are reported as notices.

use crate::bind::Bind;
use crate::cpus;
use crate::error::PlacementError;
use crate::kmp::{KmpAffinity, KmpKind, KmpOrder};
use crate::per_cache::cpus_per_cache;
use crate::places::{Place, PlaceName, PlacesSpec};
use nodegauge_machine::topology::HardwareThread;
use nodegauge_machine::{CpuId, NodeId, Topology};
use nodegauge_measure::quantity::counted;

/// Request of the user, from options or [`Environment`](crate::Environment).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacementRequest {
    /// Number of threads.
    pub threads: Option<u32>,
    /// Places.
    pub places: Option<PlacesSpec>,
    /// Binding policy.
    pub bind: Option<Bind>,
    /// `KMP_AFFINITY`, instead of places and policy.
    pub kmp: Option<KmpAffinity>,
    /// Number of threads per last-level cache, instead of places and policy.
    pub per_cache: Option<u32>,
}

/// Placement of all threads of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Places of the threads, by thread number.
    pub threads: Vec<ThreadPlace>,
    /// Binding policy; for `KMP_AFFINITY` and `--per-cache`, the equivalent policy.
    pub bind: Bind,
    /// Canonical text of the places for the record: `cores`, `0:96:2`, `per-cache 2`,
    /// `KMP_AFFINITY=scatter`, or `none` for threads that are not bound.
    pub places: String,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// Place of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Thread number, from 0.
    pub thread: u32,
    /// CPUs on which the thread may run, in numeric order; not empty.
    pub cpus: Vec<CpuId>,
}

impl ThreadPlace {
    /// Returns the numbers of its cores; sorted, without duplicates.
    pub fn cores(&self, topology: &Topology) -> Vec<u32> {
        self.numbers(topology, |thread| topology.cores.get(thread.core).copied())
    }

    /// Returns the numbers of its last-level caches; empty on a machine without such caches.
    pub fn llcs(&self, topology: &Topology) -> Vec<u32> {
        self.numbers(topology, |thread| topology.llcs.get(thread.llc?).copied())
    }

    /// Returns the numbers of its sockets.
    pub fn sockets(&self, topology: &Topology) -> Vec<u32> {
        self.numbers(topology, |thread| topology.sockets.get(thread.socket).copied())
    }

    /// Returns the numbers of the nearest NUMA nodes.
    pub fn numa_nodes(&self, topology: &Topology) -> Vec<u32> {
        self.nodes(topology).into_iter().map(|node| node.0).collect()
    }

    /// Returns the nearest NUMA nodes.
    pub fn nodes(&self, topology: &Topology) -> Vec<NodeId> {
        let node = |thread: &HardwareThread| Some(topology.nodes.get(thread.node?)?.id.0);
        self.numbers(topology, node).into_iter().map(NodeId).collect()
    }

    fn numbers(
        &self,
        topology: &Topology,
        number: impl Fn(&HardwareThread) -> Option<u32>,
    ) -> Vec<u32> {
        let threads = self.cpus.iter().filter_map(|cpu| topology.thread(*cpu));
        let mut numbers: Vec<u32> = threads.filter_map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

impl Placement {
    /// Returns all CPUs of all threads, in numeric order.
    pub fn cpus(&self) -> Vec<CpuId> {
        cpus::sorted(self.threads.iter().flat_map(|thread| thread.cpus.iter().copied()))
    }

    /// Creates a placement with one entry of `cpus` per thread, in order.
    pub fn new(bind: Bind, places: impl Into<String>, cpus: Vec<Vec<CpuId>>) -> Self {
        let threads = (0..).zip(cpus).map(|(thread, cpus)| ThreadPlace { thread, cpus }).collect();
        Self { threads, bind, places: places.into(), notices: Vec::new() }
    }
}

/// Places the threads of a request.
///
/// # Errors
/// Fails when two parts of the request both decide where threads go, when there are more threads than
/// hardware threads that this process may use, and when places, caches or `KMP_AFFINITY` do not fit
/// the machine.
pub fn plan(topology: &Topology, request: &PlacementRequest) -> Result<Placement, PlacementError> {
    // Modifiers alone, such as verbose, do not place threads.
    let kmp = request.kmp.as_ref().filter(|kmp| kmp.kind.is_some());
    refuse_conflicts(request, kmp)?;
    if topology.allowed().next().is_none() {
        return Err(PlacementError::no_cpus());
    }
    match (request.per_cache, kmp) {
        (Some(per_cache), _) => {
            check_threads(topology, request.threads)?;
            let cpus = cpus_per_cache(topology, per_cache, request.threads)?;
            let single = cpus.into_iter().map(|cpu| vec![cpu]).collect();
            Ok(Placement::new(Bind::Spread, format!("per-cache {per_cache}"), single))
        }
        (None, Some(kmp)) => by_kmp(topology, kmp, request.threads),
        (None, None) => by_places(topology, request),
    }
}

fn refuse_conflicts(
    request: &PlacementRequest,
    kmp: Option<&KmpAffinity>,
) -> Result<(), PlacementError> {
    const PER_CACHE: &str = "--per-cache";
    const KMP: &str = "KMP_AFFINITY";
    const PLACES: &str = "--places";
    const BIND: &str = "--bind";
    let given = [
        (PER_CACHE, request.per_cache.is_some()),
        (KMP, kmp.is_some()),
        (PLACES, request.places.is_some()),
        (BIND, request.bind.is_some()),
    ];
    let mut given = given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name);
    match (given.next(), given.next()) {
        (Some(first @ (PER_CACHE | KMP)), Some(second)) => {
            Err(PlacementError::conflict("threads go", first, second))
        }
        _ => Ok(()),
    }
}

fn check_threads(topology: &Topology, threads: Option<u32>) -> Result<(), PlacementError> {
    let usable = topology.allowed().count();
    match threads {
        Some(0) => Err(PlacementError::no_threads()),
        Some(threads) if threads as usize > usable => Err(PlacementError::new(format!(
            "cannot place {threads} threads: this process may use {}",
            cpus::usable(topology),
        ))
        .hint(format!("ask for {usable} or fewer, e.g. --threads {usable}"))),
        _ => Ok(()),
    }
}

fn by_kmp(
    topology: &Topology,
    kmp: &KmpAffinity,
    threads: Option<u32>,
) -> Result<Placement, PlacementError> {
    let threads = threads.unwrap_or_else(|| kmp.default_threads(topology));
    check_threads(topology, Some(threads))?;
    let bind = match kmp.kind {
        Some(KmpKind::Ordered(KmpOrder::Compact, _) | KmpKind::Explicit(_)) => Bind::Close,
        Some(KmpKind::Ordered(..)) => Bind::Spread,
        Some(KmpKind::None | KmpKind::Disabled) | None => Bind::None,
    };
    let cpus = kmp.resolve(topology, threads)?;
    let mut placement = Placement::new(bind, format!("KMP_AFFINITY={kmp}"), cpus);
    placement.notices = kmp.notices();
    Ok(placement)
}

fn by_places(topology: &Topology, request: &PlacementRequest) -> Result<Placement, PlacementError> {
    check_threads(topology, request.threads)?;
    let mut notices = Vec::new();
    let (words, places, policy) = match &request.places {
        Some(spec) => (spec.to_string(), spec.resolve(topology)?, Bind::Close),
        None => {
            let bind = request.bind.unwrap_or(Bind::Spread);
            let (words, places) = default_places(topology, request.threads, bind, &mut notices);
            (words, places, Bind::Spread)
        }
    };
    let threads = match request.threads {
        Some(threads) => threads,
        None => u32::try_from(places.len()).unwrap_or(u32::MAX),
    };
    check_threads(topology, Some(threads))?;
    let bind = request.bind.unwrap_or(policy);
    if bind == Bind::None {
        if request.places.is_some() {
            notices.push(format!("places {words} have no effect: threads are not bound"));
        }
        let cpus = vec![cpus::allowed(topology); threads as usize];
        return Ok(Placement { notices, ..Placement::new(bind, "none", cpus) });
    }
    let fewer = (threads as usize) < places.len();
    if request.places.is_some() && request.bind.is_none() && fewer {
        notices.push(format!(
            "bind close: {threads} threads on the first of {} places, as OpenMP does when places are given without a policy",
            places.len()
        ));
    }
    if threads as usize > places.len() && bind != Bind::Primary {
        let places = counted(places.len(), "place");
        notices.push(format!("{threads} threads share {places}"));
    }
    let cpus = bind
        .assign(threads, places.len())
        .into_iter()
        .map(|place| match place.and_then(|index| places.get(index)) {
            Some(place) => place.cpus().to_vec(),
            None => cpus::allowed(topology),
        })
        .collect();
    Ok(Placement { notices, ..Placement::new(bind, words, cpus) })
}

/// Returns the default places, with their text: the first hardware thread of each core; all hardware
/// threads if there are more threads than cores; whole cores if all threads share the first place. If
/// the cores differ (performance and efficiency cores, big.LITTLE), only those of the fastest kind are
/// used, if there are enough of them: with equal shares, the slowest core would set the time.
fn default_places(
    topology: &Topology,
    threads: Option<u32>,
    bind: Bind,
    notices: &mut Vec<String>,
) -> (String, Vec<Place>) {
    let cores = cpus::grouped(topology, |thread| Some(thread.core));
    let places = |groups: Vec<Vec<CpuId>>| groups.into_iter().filter_map(Place::new).collect();
    let named = |name: PlaceName| name.name().to_owned();
    if bind == Bind::Primary {
        return (named(PlaceName::Cores), places(cores));
    }
    let first = |groups: &[Vec<CpuId>]| groups.iter().map(|core| vec![core[0]]).collect();
    let fastest = fastest(topology, &cores);
    let wanted = threads.map_or(0, |threads| threads as usize);
    if wanted <= fastest.len() && fastest.len() < cores.len() {
        let used = cpus::ranges(&fastest.iter().map(|core| core[0]).collect::<Vec<_>>());
        notices.push(format!(
            "the cores differ: threads use the {} fastest ({used}) of {} cores; to use all, add --places cores",
            fastest.len(),
            cores.len(),
        ));
        let words: Vec<String> = fastest.iter().map(|core| format!("{{{}}}", core[0])).collect();
        return (words.join(","), places(first(&fastest)));
    }
    if fastest.len() < cores.len() {
        notices.push(
            "the cores differ: threads have equal shares, so the slowest cores set the time"
                .to_owned(),
        );
    }
    if wanted > cores.len() {
        let single = topology.allowed().map(|thread| vec![thread.cpu]).collect();
        return (named(PlaceName::Threads), places(single));
    }
    (named(PlaceName::Cores), places(first(&cores)))
}

/// Returns the cores of the fastest kind; all cores if they do not differ.
fn fastest(topology: &Topology, cores: &[Vec<CpuId>]) -> Vec<Vec<CpuId>> {
    let efficiency = |core: &&Vec<CpuId>| {
        core.first().and_then(|cpu| topology.thread(*cpu)).and_then(|thread| thread.efficiency)
    };
    let most = cores.iter().filter_map(|core| efficiency(&core)).max();
    cores.iter().filter(|core| most.is_none() || efficiency(core) == most).cloned().collect()
}

#[cfg(test)]
mod tests;
