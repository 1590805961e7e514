//! Tests with machines of the literature and the placements that are published for them.

use crate::*;
use nodegauge_machine::{Topology, TopologySource};
use proptest::prelude::*;

/// Node of the T2K cluster.
pub(crate) const T2K: &str = "Package:4 NUMANode:1 Core:4 PU:1";
/// Node with 2 x EPYC 7H12, NPS4.
pub(crate) const ROME: &str =
    "Package:2 NUMANode:4 L3Cache:4(size=16777216) L2Cache:4 L1dCache:1 Core:1 PU:1";
/// Node with 2 x EPYC 9654, NPS1.
const GENOA: &str =
    "Package:2 NUMANode:1 L3Cache:12(size=33554432) L2Cache:8 L1dCache:1 Core:1 PU:1";
/// Node with 2 x EPYC 7F52, NPS1; each core has its own last-level cache.
const ROME_7F52: &str =
    "Package:2 NUMANode:1 L3Cache:16(size=16777216) L2Cache:1 L1dCache:1 Core:1 PU:1";
/// Coprocessor Xeon Phi 7110P.
pub(crate) const PHI: &str = "Package:1 NUMANode:1 L2Cache:61 L1dCache:1 Core:1 PU:4";

pub(crate) fn machine(description: &str) -> Topology {
    Topology::load(&TopologySource::Synthetic(description.to_owned())).unwrap()
}

/// Returns the CPU of each thread, if each thread has a single CPU.
fn cpus(placement: &Placement) -> Vec<u32> {
    let single = |thread: &ThreadPlace| match thread.cpus[..] {
        [cpu] => cpu.0,
        _ => panic!("thread {} is on {:?}", thread.thread, thread.cpus),
    };
    placement.threads.iter().map(single).collect()
}

fn placed(topology: &Topology, request: &PlacementRequest) -> Placement {
    plan(topology, request).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn genoa_with_half_the_threads_uses_every_other_core() {
    let genoa = machine(GENOA);
    let request = PlacementRequest {
        threads: Some(96),
        places: Some("0:96:2".parse().unwrap()),
        bind: Some(Binding::Spread),
        ..PlacementRequest::default()
    };
    let placement = placed(&genoa, &request);
    assert_eq!(cpus(&placement), (0..96).map(|k| 2 * k).collect::<Vec<_>>());
    assert_eq!((placement.places.as_str(), placement.bind), ("0:96:2", Binding::Spread));
    assert!(placement.notices.is_empty());
    let by_default =
        placed(&genoa, &PlacementRequest { threads: Some(96), ..PlacementRequest::default() });
    assert_eq!(cpus(&by_default), cpus(&placement));
}

#[test]
fn rome_per_cache_places_match_literature() {
    let rome = machine(ROME);
    for (threads, per_cache, step) in [(64, 2, 2), (32, 1, 4)] {
        let expected: Vec<u32> = (0..threads).map(|k| k * step).collect();
        let by_cache =
            PlacementRequest { per_cache: Some(per_cache), ..PlacementRequest::default() };
        assert_eq!(cpus(&placed(&rome, &by_cache)), expected);
        let by_cores = PlacementRequest {
            threads: Some(threads),
            places: Some("cores".parse().unwrap()),
            bind: Some(Binding::Spread),
            ..PlacementRequest::default()
        };
        assert_eq!(cpus(&placed(&rome, &by_cores)), expected);
        let first = &placed(&rome, &by_cache).threads[1];
        assert_eq!(first.llcs(&rome), [u32::from(per_cache == 1)]);
    }
}

#[test]
fn xeon_phi_places_match_literature() {
    let phi = machine(PHI);
    let with = |kmp: &str, threads| {
        let request = PlacementRequest {
            threads: Some(threads),
            kmp: Some(kmp.parse().unwrap()),
            ..PlacementRequest::default()
        };
        placed(&phi, &request)
    };
    let cores = |placement: &Placement| {
        let mut cores: Vec<u32> = placement.threads.iter().flat_map(|t| t.cores(&phi)).collect();
        cores.dedup();
        cores
    };
    let scatter = with("scatter", 60);
    assert_eq!(cores(&scatter), (0..60).collect::<Vec<_>>());
    assert_eq!((scatter.bind, scatter.places.as_str()), (Binding::Spread, "KMP_AFFINITY=scatter"));
    let compact = with("compact", 60);
    assert_eq!(cores(&compact), (0..15).collect::<Vec<_>>());
    assert_eq!(compact.bind, Binding::Close);
    assert_eq!(cores(&with("granularity=fine,balanced", 120)), (0..61).collect::<Vec<_>>());
}

#[test]
fn t2k_places_match_literature() {
    let t2k = machine(T2K);
    let all = placed(&t2k, &PlacementRequest::default());
    assert_eq!(cpus(&all), (0..16).collect::<Vec<_>>());
    assert_eq!((all.places.as_str(), all.bind), ("cores", Binding::Spread));
    let four = placed(&t2k, &PlacementRequest { threads: Some(4), ..PlacementRequest::default() });
    assert_eq!(cpus(&four), [0, 4, 8, 12]);
    assert_eq!(four.threads[2].sockets(&t2k), [2]);
    assert_eq!(four.threads[2].numa_nodes(&t2k), [2]);
    assert!(four.threads[2].llcs(&t2k).is_empty());
}

#[test]
fn per_cache_option_with_private_caches_equals_the_default() {
    let topology = machine(ROME_7F52);
    let by_cache =
        placed(&topology, &PlacementRequest { per_cache: Some(1), ..PlacementRequest::default() });
    assert_eq!(by_cache.threads.len(), 32);
    assert_eq!(cpus(&by_cache), cpus(&placed(&topology, &PlacementRequest::default())));
}

proptest! {
    #[test]
    fn default_placements_are_balanced(threads in 1u32..=64) {
        let topology = machine("Package:2 NUMANode:2 L3Cache:2 Core:4 PU:2");
        let placement = placed(&topology, &PlacementRequest { threads: Some(threads), ..PlacementRequest::default() });
        let cpus = cpus(&placement);
        let mut distinct = cpus.clone();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), threads as usize);
        for size in [8, 16, 32] {
            let mut uses = vec![0u32; 64 / size];
            cpus.iter().for_each(|cpu| uses[*cpu as usize / size] += 1);
            prop_assert!(uses.iter().max().unwrap() - uses.iter().min().unwrap() <= 1, "{uses:?}");
        }
        let cores: std::collections::BTreeSet<u32> = cpus.iter().map(|cpu| cpu / 2).collect();
        prop_assert_eq!(cores.len() as u32, threads.min(32));
    }
}
