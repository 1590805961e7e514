//! From what was asked to the CPUs of each thread.
//!
//! Pure. By default one thread for each core, bound to the core's first hardware thread that
//! this process may use, fewer threads spread evenly. Places without a policy are taken in order,
//! as OpenMP does. What the answer does beyond the request is a notice.

use crate::bind::Bind;
use crate::cpus;
use crate::error::PlacementError;
use crate::kmp::{KmpAffinity, KmpKind, KmpOrder};
use crate::per_cache::cpus_per_cache;
use crate::places::{Place, PlaceName, PlacesSpec};
use nodegauge_machine::topology::HardwareThread;
use nodegauge_machine::{CpuId, NodeId, Topology};
use nodegauge_measure::quantity::counted;

/// What was asked for, by options or [`Environment`](crate::Environment).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// How many threads.
    pub threads: Option<u32>,
    /// The places.
    pub places: Option<PlacesSpec>,
    /// The policy.
    pub bind: Option<Bind>,
    /// `KMP_AFFINITY`, instead of places and policy.
    pub kmp: Option<KmpAffinity>,
    /// Threads on each last-level cache, instead of places and policy.
    pub per_cache: Option<u32>,
}

/// Where each thread goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The threads, by number.
    pub threads: Vec<ThreadPlace>,
    /// The policy; of `KMP_AFFINITY` and threads by cache, the one that says the same.
    pub bind: Bind,
    /// The places in canonical words for the record: `cores`, `0:96:2`, `per-cache 2`,
    /// `KMP_AFFINITY=scatter`, or `none` for threads that are not bound.
    pub places: String,
    /// What the user should know about the answer.
    pub notices: Vec<String>,
}

/// Where one thread goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Its number, from 0.
    pub thread: u32,
    /// The CPUs that it may run on, in numeric order; not empty.
    pub cpus: Vec<CpuId>,
}

impl ThreadPlace {
    /// The numbers of its cores; sorted, without repeats.
    pub fn cores(&self, topology: &Topology) -> Vec<u32> {
        self.numbers(topology, |thread| topology.cores.get(thread.core).copied())
    }

    /// The numbers of its last-level caches; empty on a machine without.
    pub fn llcs(&self, topology: &Topology) -> Vec<u32> {
        self.numbers(topology, |thread| topology.llcs.get(thread.llc?).copied())
    }

    /// The numbers of its sockets.
    pub fn sockets(&self, topology: &Topology) -> Vec<u32> {
        self.numbers(topology, |thread| topology.sockets.get(thread.socket).copied())
    }

    /// The numbers of the NUMA nodes nearest to it.
    pub fn numa_nodes(&self, topology: &Topology) -> Vec<u32> {
        self.nodes(topology).into_iter().map(|node| node.0).collect()
    }

    /// The NUMA nodes nearest to it.
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
    /// All CPUs of all threads, in numeric order.
    pub fn cpus(&self) -> Vec<CpuId> {
        cpus::sorted(self.threads.iter().flat_map(|thread| thread.cpus.iter().copied()))
    }

    /// Threads that go to these CPUs, in order.
    pub fn new(bind: Bind, places: impl Into<String>, cpus: Vec<Vec<CpuId>>) -> Self {
        let threads = (0..).zip(cpus).map(|(thread, cpus)| ThreadPlace { thread, cpus }).collect();
        Self { threads, bind, places: places.into(), notices: Vec::new() }
    }
}

/// Decides where each thread goes.
///
/// # Errors
/// When two parts of the request both say where threads go, when there are more threads than
/// hardware threads that this process may use, and when places, caches or `KMP_AFFINITY` do not fit
/// the machine.
pub fn plan(topology: &Topology, request: &Request) -> Result<Placement, PlacementError> {
    // Modifiers alone, such as verbose, place nothing.
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

fn refuse_conflicts(request: &Request, kmp: Option<&KmpAffinity>) -> Result<(), PlacementError> {
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

fn by_places(topology: &Topology, request: &Request) -> Result<Placement, PlacementError> {
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

/// The places when none are given, in words too: the first hardware thread of each core; all hardware
/// threads for more threads than cores; whole cores when all threads share the first. Of cores that
/// differ (performance and efficiency cores, big.LITTLE) those of the fastest kind, if they are enough: equal shares on
/// cores that are not equal would take the time of the slowest.
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
    let first = |cores: &[Vec<CpuId>]| cores.iter().map(|core| vec![core[0]]).collect();
    let fastest = fastest(topology, &cores);
    let wanted = threads.map_or(0, |threads| threads as usize);
    if wanted <= fastest.len() && fastest.len() < cores.len() {
        let used = cpus::ranges(&fastest.iter().map(|core| core[0]).collect::<Vec<_>>());
        notices.push(format!(
            "the cores differ: threads go to the {} of the fastest kind ({used}), of {}; for all of them add --places cores",
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
        let threads = topology.allowed().map(|thread| vec![thread.cpu]).collect();
        return (named(PlaceName::Threads), places(threads));
    }
    (named(PlaceName::Cores), places(first(&cores)))
}

/// The cores of the fastest kind; all where they do not differ.
fn fastest(topology: &Topology, cores: &[Vec<CpuId>]) -> Vec<Vec<CpuId>> {
    let efficiency = |core: &&Vec<CpuId>| {
        core.first().and_then(|cpu| topology.thread(*cpu)).and_then(|thread| thread.efficiency)
    };
    let most = cores.iter().filter_map(|core| efficiency(&core)).max();
    cores.iter().filter(|core| most.is_none() || efficiency(core) == most).cloned().collect()
}

#[cfg(test)]
mod tests;
