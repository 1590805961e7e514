//! Search space of the tuner: the teams, pages and loops that are useful on this machine. All functions are pure.

use crate::arrangement::{self, ArrayOptions, StreamOptions};
use crate::kernels::{Element, Kernel, KernelShape, Stores};
use crate::tuner::{self, SearchBreadth};
use nodegauge_arena::RequestedPages;
use nodegauge_arena::supply::default_pages;
use nodegauge_gauge::MeasuredNode;
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::Failure;
use nodegauge_measure::record::Machine;
use nodegauge_placement::places::PlaceName;
use nodegauge_placement::{Binding, Placement, PlacementRequest, PlacesSpec};

/// Setup: a team on its CPUs, and the kind of pages of its arrays. Each setup requires its own arrays.
#[derive(Debug, Clone, PartialEq)]
pub struct TeamSetup {
    /// Request for the team.
    pub request: PlacementRequest,
    /// Placement of the team on this machine.
    pub placement: Placement,
    /// Kind of pages of the arrays.
    pub pages: RequestedPages,
}

/// Search space of all settings that the user does not fix.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSpace {
    /// Teams and pages. The first entry is that of a run without tuning.
    pub setups: Vec<TeamSetup>,
    /// Loops, most promising first.
    pub shapes: Vec<KernelShape>,
}

/// Maximum number of cores for which every number of threads is tried.
const FEW_CORES: usize = 4;
/// Shares of the cores that are tried as numbers of threads, in addition to multiples of the last-level caches.
const SHARES: [(usize, usize); 3] = [(1, 4), (1, 2), (3, 4)];

impl SearchSpace {
    /// Returns the space of all settings that `request` and `options` do not fix. A request with any thread setting
    /// fixes the team.
    ///
    /// # Errors
    /// Fails if the request does not fit the machine, and if the processor does not have the requested stores.
    pub fn new(
        site: &MeasuredNode,
        request: &PlacementRequest,
        options: &StreamOptions,
    ) -> Result<Self, Failure> {
        let topology = &site.topology;
        let mut teams: Vec<(PlacementRequest, Placement)> = Vec::new();
        let mut seen: Vec<Vec<CpuId>> = Vec::new();
        let plain = nodegauge_placement::plan(topology, request)?;
        seen.push(plain.cpus());
        teams.push((with_places(request, &plain), plain));
        if *request == PlacementRequest::default() {
            for team in other_teams(topology) {
                // Teams that cannot be placed are omitted, e.g. if a cgroup excludes some CPUs of a cache.
                let Ok(placement) = nodegauge_placement::plan(topology, &team) else { continue };
                if !seen.contains(&placement.cpus()) {
                    seen.push(placement.cpus());
                    teams.push((team, placement));
                }
            }
        }
        let pages = match options.arrays.pages {
            Some(pages) => vec![pages],
            None => possible_pages(&site.machine),
        };
        let setups = teams
            .iter()
            .flat_map(|(team, placement)| {
                pages.iter().map(|pages| TeamSetup {
                    request: team.clone(),
                    placement: placement.clone(),
                    pages: *pages,
                })
            })
            .collect();
        Ok(Self { setups, shapes: arrangement::allowed_loops(options, SearchBreadth::Wide)? })
    }

    /// Returns the options for the arrays of one setup: its kind of pages, and its share of the memory, because the
    /// arrays of all setups exist simultaneously.
    pub fn setup_arrays(&self, setup: &TeamSetup, arrays: &ArrayOptions) -> ArrayOptions {
        ArrayOptions {
            pages: Some(setup.pages),
            memory_fraction: arrays.memory_fraction / self.setups.len() as f64,
            ..arrays.clone()
        }
    }

    /// Returns the most promising loop for each kind of store.
    pub fn promising_loops(&self) -> Vec<KernelShape> {
        let mut promising_loops = Vec::new();
        for kind in Stores::ALL {
            promising_loops.extend(self.shapes.iter().copied().find(|shape| shape.stores == *kind));
        }
        promising_loops
    }

    /// Returns every loop for an element type and a kernel that [`SearchSpace::shapes`] allows. An exhaustive search
    /// tries all of them.
    pub fn loops(&self, kernel: Kernel, element: Element) -> Vec<KernelShape> {
        tuner::existing_loops(kernel, element, &self.shapes)
    }
}

/// Returns a request with explicit places instead of a class of cores, which saved choices do not contain.
fn with_places(request: &PlacementRequest, placement: &Placement) -> PlacementRequest {
    match placement.places.parse() {
        Ok(places) if request.cores.is_some() => PlacementRequest {
            places: Some(places),
            bind: Some(placement.bind),
            cores: None,
            ..request.clone()
        },
        _ => request.clone(),
    }
}

/// Returns teams other than one thread per core.
fn other_teams(topology: &Topology) -> Vec<PlacementRequest> {
    let mut cores: Vec<usize> = topology.allowed_threads().map(|thread| thread.core).collect();
    cores.sort_unstable();
    cores.dedup();
    let cores = cores.len();
    let threads = topology.allowed_threads().count();
    let mut requests = Vec::new();
    if threads > cores {
        requests.push(team_on(PlaceName::Threads, threads, Binding::Close));
    }
    let most = largest_cache_cores(topology);
    let mut each = 1;
    while each < most {
        requests.push(PlacementRequest { per_cache: Some(each), ..PlacementRequest::default() });
        each = if each == 1 { 2 } else { each + 2 };
    }
    if cores <= FEW_CORES {
        requests.extend((1..cores).map(|n| team_on(PlaceName::Cores, n, Binding::Spread)));
    } else {
        for (part, whole) in SHARES {
            requests.push(team_on(PlaceName::Cores, cores * part / whole, Binding::Spread));
        }
        // Half of the node is also tried: for some kernels, one socket may saturate the memory.
        requests.push(team_on(PlaceName::Cores, cores / 2, Binding::Close));
    }
    requests
}

/// Returns the request for `count` threads, bound to places of this kind.
fn team_on(places: PlaceName, count: usize, bind: Binding) -> PlacementRequest {
    PlacementRequest {
        threads: Some(count as u32),
        places: Some(PlacesSpec::Abstract { name: places, count: None }),
        bind: Some(bind),
        ..PlacementRequest::default()
    }
}

/// Returns the maximum number of cores that share a last-level cache; 0 without caches.
fn largest_cache_cores(topology: &Topology) -> u32 {
    let mut counts: std::collections::BTreeMap<usize, Vec<usize>> = Default::default();
    for thread in topology.allowed_threads() {
        if let Some(llc) = thread.llc {
            let cores = counts.entry(llc).or_default();
            if !cores.contains(&thread.core) {
                cores.push(thread.core);
            }
        }
    }
    counts.values().map(Vec::len).max().unwrap_or(0) as u32
}

/// Returns the kinds of pages that are available now. The first is that of a run without tuning.
fn possible_pages(machine: &Machine) -> Vec<RequestedPages> {
    let mut pages = vec![default_pages(machine)];
    let pools = machine.pages.as_ref().map(|reserved| reserved.huge.as_slice()).unwrap_or_default();
    for kind in [RequestedPages::Huge2M, RequestedPages::Huge1G, RequestedPages::Base] {
        let reserved = |bytes: u64| pools.iter().any(|pool| pool.bytes == bytes && pool.free > 2);
        if kind.reserved_page_size().is_none_or(|size| reserved(size.0)) && !pages.contains(&kind) {
            pages.push(kind);
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::{SysRoot, TopologySource};

    fn space(text: &str, request: &PlacementRequest) -> SearchSpace {
        let topology = Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap();
        let site = MeasuredNode::new(topology, Machine::default(), SysRoot::live());
        SearchSpace::new(&site, request, &StreamOptions::default()).unwrap()
    }

    fn threads(space: &SearchSpace) -> Vec<usize> {
        space.setups.iter().map(|setup| setup.placement.threads.len()).collect()
    }

    #[test]
    fn candidate_teams_are_multiples_of_the_caches() {
        // This topology is that of 2 x EPYC 7H12 with 32 last-level caches of 4 cores each.
        let text = "Package:2 NUMANode:4 L3Cache:4 L2Cache:4 L1dCache:1 Core:1 PU:1";
        let space = space(text, &PlacementRequest::default());
        // The teams are all cores, 1 and 2 threads per cache, 3/4 of the cores, and half of the cores with binding
        // `close`. A quarter and a half of the cores with binding `spread` use the same CPUs as 1 and 2 threads per
        // cache.
        assert_eq!(threads(&space), [128, 32, 64, 96, 64]);
        assert!(space.setups.iter().all(|setup| setup.pages == RequestedPages::Base));
    }

    #[test]
    fn all_thread_counts_are_tried_on_few_cores() {
        assert_eq!(
            threads(&space("Package:1 Core:4 PU:2", &PlacementRequest::default())),
            [4, 8, 1, 2, 3]
        );
    }

    #[test]
    fn requested_thread_count_fixes_the_team() {
        let request = PlacementRequest { threads: Some(3), ..PlacementRequest::default() };
        assert_eq!(threads(&space("Package:1 Core:4 PU:2", &request)), [3]);
    }

    #[test]
    fn promising_loops_are_at_most_two_and_include_regular_stores() {
        let space = space("Package:1 Core:4 PU:1", &PlacementRequest::default());
        let kinds: Vec<Stores> = space.promising_loops().iter().map(|shape| shape.stores).collect();
        assert!(kinds.contains(&Stores::Regular) && kinds.len() <= 2);
    }
}
