//! Placement of threads: conversion of a request into the CPUs of each thread.
//!
//! The module performs no system calls. By default, each core has one thread, which is bound to the first hardware
//! thread of the core that this process may use. If there are fewer threads than cores, the threads are spread evenly.
//! Without a binding policy, places are used in order, as in OpenMP. Notices report effects that the user did not
//! request.

use crate::bind::Binding;
use crate::cores::{ChosenCores, CoreChoice};
use crate::cpus;
use crate::error::PlacementError;
use crate::kmp::{KmpAffinity, KmpKind, KmpOrder};
use crate::per_cache::cpus_per_cache;
use crate::places::{Place, PlaceName, PlacesSpec};
use nodegauge_machine::topology::HardwareThread;
use nodegauge_machine::{CpuId, NumaNodeId, Topology};
use nodegauge_measure::quantity::{count_in_words, number_form};
use std::collections::BTreeSet;

/// Request of the user, from options or from environment variables
/// ([`PlacementEnvironment`](crate::PlacementEnvironment)).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacementRequest {
    /// Number of threads.
    pub threads: Option<u32>,
    /// Places of the threads.
    pub places: Option<PlacesSpec>,
    /// Binding policy of the threads.
    pub bind: Option<Binding>,
    /// Parsed `KMP_AFFINITY`, which replaces places and binding policy.
    pub kmp: Option<KmpAffinity>,
    /// Number of threads per last-level cache, which replaces places and binding policy.
    pub per_cache: Option<u32>,
    /// Class of cores that threads use.
    pub cores: Option<CoreChoice>,
    /// Maximum number of threads if `threads` is absent.
    pub max_threads: Option<u32>,
}

/// Placement of all threads of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Places of the threads, by thread number.
    pub threads: Vec<ThreadPlace>,
    /// Binding policy. For `KMP_AFFINITY` and `--per-cache`, this is the equivalent policy.
    pub bind: Binding,
    /// Canonical text of the places for the record: `cores`, `0:96:2`, `per-cache 2`, `KMP_AFFINITY=scatter`, or
    /// `none` if threads are not bound.
    pub places: String,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// Place of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Thread number, beginning with 0.
    pub thread: u32,
    /// CPUs on which the thread may run, in numeric order; at least one CPU.
    pub cpus: Vec<CpuId>,
}

impl ThreadPlace {
    /// Returns the numbers of the cores on which the thread may run, sorted and without duplicates.
    pub fn cores(&self, topology: &Topology) -> Vec<u32> {
        self.numbers(topology, |thread| topology.cores.get(thread.core).copied())
    }

    /// Returns the numbers of the last-level caches of these cores; empty on a machine without such caches.
    pub fn llcs(&self, topology: &Topology) -> Vec<u32> {
        self.numbers(topology, |thread| topology.llcs.get(thread.llc?).copied())
    }

    /// Returns the numbers of the sockets on which the thread may run.
    pub fn sockets(&self, topology: &Topology) -> Vec<u32> {
        self.numbers(topology, |thread| topology.sockets.get(thread.socket).copied())
    }

    /// Returns the numbers of the NUMA nodes that are nearest to the thread's CPUs.
    pub fn numa_nodes(&self, topology: &Topology) -> Vec<u32> {
        self.numa_node_ids(topology).into_iter().map(|node| node.0).collect()
    }

    /// Returns the NUMA nodes that are nearest to the thread's CPUs.
    pub fn numa_node_ids(&self, topology: &Topology) -> Vec<NumaNodeId> {
        let nodes = self.numbers(topology, |thread| Some(topology.nodes.get(thread.node?)?.id.0));
        nodes.into_iter().map(NumaNodeId).collect()
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
    /// Returns the CPUs of all threads in numeric order.
    pub fn cpus(&self) -> Vec<CpuId> {
        cpus::sort_and_deduplicate(
            self.threads.iter().flat_map(|thread| thread.cpus.iter().copied()),
        )
    }

    /// Returns the CPUs to which each thread is bound; a thread with an empty list is not bound.
    pub fn thread_cpus(&self) -> Vec<Vec<CpuId>> {
        if self.bind == Binding::None {
            return vec![Vec::new(); self.threads.len()];
        }
        self.threads.iter().map(|thread| thread.cpus.clone()).collect()
    }

    /// Creates a placement; `cpus` has one entry per thread, in thread order.
    pub fn new(bind: Binding, places: impl Into<String>, cpus: Vec<Vec<CpuId>>) -> Self {
        let threads = (0..).zip(cpus).map(|(thread, cpus)| ThreadPlace { thread, cpus }).collect();
        Self { threads, bind, places: places.into(), notices: Vec::new() }
    }
}

/// Places the threads of a request.
///
/// # Errors
/// Fails when two parts of the request both determine the CPUs of threads, when there are more threads than hardware
/// threads that this process may use, or when places, caches or `KMP_AFFINITY` do not fit the machine.
pub fn plan(topology: &Topology, request: &PlacementRequest) -> Result<Placement, PlacementError> {
    // A `KMP_AFFINITY` with only modifiers, such as verbose, does not place threads.
    let kmp = request.kmp.as_ref().filter(|kmp| kmp.kind.is_some());
    refuse_conflicts(request, kmp)?;
    if topology.allowed_threads().next().is_none() {
        return Err(PlacementError::no_cpus());
    }
    if let Some(choice) = &request.cores {
        return on_chosen_cores(topology, choice, request);
    }
    match (request.per_cache, kmp) {
        (Some(per_cache), _) => {
            check_threads(topology, request.threads)?;
            let cpus = cpus_per_cache(topology, per_cache, request.threads)?;
            let single = cpus.into_iter().map(|cpu| vec![cpu]).collect();
            let notices = outside_caches(topology).into_iter().collect();
            let placement =
                Placement::new(Binding::Spread, format!("per-cache {per_cache}"), single);
            Ok(Placement { notices, ..placement })
        }
        (None, Some(kmp)) => by_kmp(topology, kmp, request.threads, request.max_threads),
        (None, None) => by_places(topology, request),
    }
}

/// Places threads on the cores that the user has chosen.
fn on_chosen_cores(
    topology: &Topology,
    choice: &CoreChoice,
    request: &PlacementRequest,
) -> Result<Placement, PlacementError> {
    let ChosenCores { topology: chosen, notice } = choice.restrict(topology)?;
    choice.check_threads(&chosen, request.threads)?;
    let placed = by_places(&chosen, request)?;
    if choice.is_all() || topology.core_classes.is_empty() {
        return Ok(placed);
    }
    if placed.bind == Binding::None {
        let cpus = vec![cpus::allowed_cpus(topology); placed.threads.len()];
        let text =
            format!("--cores {choice} sets only the number of threads: threads are not bound");
        return Ok(Placement { notices: vec![text], ..Placement::new(placed.bind, "none", cpus) });
    }
    let mut placement = in_own_words(&chosen, placed);
    placement.notices.splice(0..0, notice);
    Ok(placement)
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
    if request.cores.is_some()
        && let Some(other) = given.clone().find(|name| *name != BIND)
    {
        return Err(PlacementError::conflict("threads go", "--cores", other));
    }
    match (given.next(), given.next()) {
        (Some(first @ (PER_CACHE | KMP)), Some(second)) => {
            Err(PlacementError::conflict("threads go", first, second))
        }
        _ => Ok(()),
    }
}

fn check_threads(topology: &Topology, threads: Option<u32>) -> Result<(), PlacementError> {
    let usable = topology.allowed_threads().count();
    match threads {
        Some(0) => Err(PlacementError::no_threads()),
        Some(threads) if threads as usize > usable => Err(PlacementError::new(format!(
            "cannot place {threads} threads: this process may use {}",
            cpus::usable_in_words(topology),
        ))
        .hint(format!("use {usable} or fewer, e.g. --threads {usable}"))),
        _ => Ok(()),
    }
}

fn by_kmp(
    topology: &Topology,
    kmp: &KmpAffinity,
    threads: Option<u32>,
    max_threads: Option<u32>,
) -> Result<Placement, PlacementError> {
    let limit = max_threads.unwrap_or(u32::MAX);
    // A proclist may contain CPUs several times.
    let usable = u32::try_from(topology.allowed_threads().count()).unwrap_or(u32::MAX);
    let default = kmp.default_threads(topology).min(limit).min(usable);
    let threads = threads.unwrap_or(default);
    check_threads(topology, Some(threads))?;
    let bind = match kmp.kind {
        Some(KmpKind::Ordered(KmpOrder::Compact, _) | KmpKind::Explicit(_)) => Binding::Close,
        Some(KmpKind::Ordered(..)) => Binding::Spread,
        Some(KmpKind::None | KmpKind::Disabled) | None => Binding::None,
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
        Some(spec) => (spec.to_string(), spec.resolve(topology)?, Binding::Close),
        None => {
            let bind = request.bind.unwrap_or(Binding::Spread);
            let (words, places) = default_places(topology, request.threads, bind, &mut notices);
            (words, places, Binding::Spread)
        }
    };
    let threads = match request.threads {
        Some(threads) => threads,
        None => {
            let limit = request.max_threads.unwrap_or(u32::MAX);
            // Places may share CPUs.
            let all = places.iter().flat_map(|place| place.cpus().iter().copied());
            let count = places.len().min(cpus::sort_and_deduplicate(all).len());
            u32::try_from(count).unwrap_or(u32::MAX).min(limit)
        }
    };
    check_threads(topology, Some(threads))?;
    let bind = request.bind.unwrap_or(policy);
    let name = PlaceName::LlCaches;
    if matches!(&request.places, Some(PlacesSpec::Abstract { name: given, .. }) if *given == name) {
        notices.extend(outside_caches(topology).filter(|_| bind != Binding::None));
    }
    if bind == Binding::None {
        if request.places.is_some() {
            notices.push(format!("places {words} have no effect: threads are not bound"));
        }
        let cpus = vec![cpus::allowed_cpus(topology); threads as usize];
        return Ok(Placement { notices, ..Placement::new(bind, "none", cpus) });
    }
    let fewer = (threads as usize) < places.len();
    if request.places.is_some() && request.bind.is_none() && fewer {
        let placed = match threads {
            1 => "1 thread on the first".to_owned(),
            _ => format!("{threads} threads on the first {threads}"),
        };
        notices.push(format!(
            "bind close: {placed} of {} places, as OpenMP does when places are given without a policy",
            places.len()
        ));
    }
    if threads as usize > places.len() && bind != Binding::Primary {
        let places = count_in_words(places.len(), "place");
        notices.push(format!("{threads} threads share {places}"));
    }
    let cpus = bind
        .assign(threads, places.len())
        .into_iter()
        .map(|place| match place.and_then(|index| places.get(index)) {
            Some(place) => place.cpus().to_vec(),
            None => cpus::allowed_cpus(topology),
        })
        .collect();
    Ok(Placement { notices, ..Placement::new(bind, words, cpus) })
}

/// Returns the notice about CPUs that belong to no last-level cache, although the machine has such caches.
fn outside_caches(topology: &Topology) -> Option<String> {
    let outside = topology.allowed_threads().filter(|thread| thread.llc.is_none());
    let outside: Vec<CpuId> = outside.map(|thread| thread.cpu).collect();
    if topology.llcs.is_empty() || outside.is_empty() {
        return None;
    }
    let level = topology.caches.iter().rfind(|cache| cache.contains_data())?.level;
    let noun = number_form(outside.len(), "CPU", "CPUs");
    let has = number_form(outside.len(), "has", "have");
    Some(format!(
        "no thread is placed on {noun} {}, which {has} no L{level} cache",
        cpus::format_ranges(&outside)
    ))
}

/// Returns the default places with their text. The places are the first hardware threads of the cores, or all
/// hardware threads if there are more threads than cores. If all threads share the first place, the places are
/// whole cores. If there are several classes of cores (performance and efficiency cores, big.LITTLE), only cores of
/// the fastest classes are used, as few as have enough cores: all threads have equal work, so that the slowest
/// core determines the time. Threads that are not bound may use the cores of every class.
fn default_places(
    topology: &Topology,
    threads: Option<u32>,
    bind: Binding,
    notices: &mut Vec<String>,
) -> (String, Vec<Place>) {
    let cores = cpus::cpus_by_object(topology, |thread| Some(thread.core));
    if bind == Binding::Primary {
        let places = cores.into_iter().filter_map(Place::new);
        return (PlaceName::Cores.name().to_owned(), places.collect());
    }
    let wanted = threads.map_or(0, |threads| threads as usize);
    let slowest = slowest_class(topology, &cores, wanted);
    let (used, left_out): (Vec<Vec<CpuId>>, Vec<Vec<CpuId>>) =
        cores.iter().cloned().partition(|core| efficiency(topology, core) >= slowest);
    let classes: BTreeSet<_> = used.iter().map(|core| efficiency(topology, core)).collect();
    let are_unequal = classes.len() > 1;
    if bind == Binding::None {
        if are_unequal || !left_out.is_empty() {
            let text = "cores differ in speed: threads are not bound and may run on every core";
            notices.push(text.to_owned());
        }
        return (PlaceName::Cores.name().to_owned(), single_cpus(first_cpus(&cores)));
    }
    if are_unequal {
        notices.push(
            "cores differ in speed: threads have equal work, so that the slowest cores determine the time"
                .to_owned(),
        );
    }
    if !left_out.is_empty() {
        notices.push(format!(
            "cores differ in speed: threads use {} ({}) of {} cores, not the slower {} ({}); to use all, add --cores all",
            match used.len() {
                1 => "the fastest".to_owned(),
                count => format!("the {count} fastest"),
            },
            cpus::format_ranges(&first_cpus(&used)),
            cores.len(),
            number_form(left_out.len(), "one", "ones"),
            cpus::format_ranges(&first_cpus(&left_out)),
        ));
        let words: Vec<String> = used.iter().map(|core| format!("{{{}}}", core[0])).collect();
        return (words.join(","), single_cpus(first_cpus(&used)));
    }
    if wanted > cores.len() {
        let all = topology.allowed_threads().map(|thread| thread.cpu);
        return (PlaceName::Threads.name().to_owned(), single_cpus(all));
    }
    (PlaceName::Cores.name().to_owned(), single_cpus(first_cpus(&cores)))
}

/// Returns the CPU of the first hardware thread of each core.
fn first_cpus(cores: &[Vec<CpuId>]) -> Vec<CpuId> {
    cores.iter().map(|core| core[0]).collect()
}

/// Returns one place per CPU.
fn single_cpus(cpus: impl IntoIterator<Item = CpuId>) -> Vec<Place> {
    cpus.into_iter().filter_map(|cpu| Place::new(vec![cpu])).collect()
}

/// Returns the fastest class for which it and the faster classes together have `wanted` cores; the slowest class if all
/// classes together have fewer.
fn slowest_class(topology: &Topology, cores: &[Vec<CpuId>], wanted: usize) -> Option<usize> {
    let mut classes: Vec<Option<usize>> =
        cores.iter().map(|core| efficiency(topology, core)).collect();
    classes.sort_unstable();
    let last = classes.len().saturating_sub(wanted.max(1));
    classes.get(last).copied().flatten()
}

/// Returns the speed class of a core.
fn efficiency(topology: &Topology, core: &[CpuId]) -> Option<usize> {
    topology.thread(*core.first()?)?.speed_class
}

/// Replaces the text of the places of a placement on chosen cores by a text that describes the same CPUs on the
/// whole machine.
fn in_own_words(chosen: &Topology, placement: Placement) -> Placement {
    let cores = cpus::cpus_by_object(chosen, |thread| Some(thread.core));
    let places: Vec<Vec<CpuId>> = if placement.places == PlaceName::Threads.name() {
        chosen.allowed_threads().map(|thread| vec![thread.cpu]).collect()
    } else if placement.places == PlaceName::Cores.name() && placement.bind == Binding::Primary {
        cores
    } else if placement.places == PlaceName::Cores.name() {
        cores.iter().map(|core| vec![core[0]]).collect()
    } else {
        return placement;
    };
    let words: Vec<String> =
        places.iter().map(|place| format!("{{{}}}", cpus::join_with_commas(place))).collect();
    Placement { places: words.join(","), ..placement }
}

#[cfg(test)]
mod tests;
