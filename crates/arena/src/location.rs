//! NUMA nodes of the pages of arrays: read from the kernel after first touch, and compared with the memory policy. Only
//! `observe` and `range_shares` query the kernel; all other functions are pure.

use crate::NumaConfig;
use crate::arrays::{ArrayShare, Arrays};
use nodegauge_kernels::Array;
use nodegauge_machine::NumaNodeId;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::{Bytes, Fraction};
use nodegauge_placement::{MemoryPolicy, numa};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of sampled pages of all arrays together. It gives a resolution of half a percent. The kernel needs a few
/// tenths of a microsecond per page.
const SAMPLED_PAGES: usize = 6000;
/// Number of sampled pages of a range of memory.
const SAMPLED_RANGE_PAGES: usize = SAMPLED_PAGES / 3;
/// Minimum number of sampled pages per thread and array.
const MIN_PAGES_PER_SHARE: usize = 8;
/// Minimum share of the pages on the expected NUMA nodes; with a smaller share, figures are suspect. If a tenth of the
/// pages is on other NUMA nodes, figures are affected. Pages at the boundaries between two threads' shares are fewer
/// than that.
const MIN_HELD_SHARE: f64 = 0.9;
/// Minimum share of a thread's pages on the expected NUMA nodes; a thread with a smaller share is listed in the record.
const MIN_THREAD_HELD_SHARE: f64 = 0.5;

/// Number of pages on each NUMA node.
pub type NumaPageCounts = BTreeMap<NumaNodeId, u64>;

/// Share of pages on each NUMA node, 0 to 1.
pub type NumaShares = BTreeMap<NumaNodeId, Fraction>;

/// Number of sampled pages on each NUMA node, for one thread's share of one array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareLocation {
    /// Index of the array.
    pub array: usize,
    /// Index of the thread that touched the share first.
    pub thread: usize,
    /// Number of pages on each NUMA node.
    pub nodes: NumaPageCounts,
}

/// Queries the kernel for the NUMA nodes of the shares of `threads` threads. The result is empty if the kernel does
/// not report them.
pub fn observe(arrays: &Arrays, threads: usize) -> Vec<ShareLocation> {
    let sample = (SAMPLED_PAGES / (arrays.count() * threads.max(1))).max(MIN_PAGES_PER_SHARE);
    let mut shares = Vec::new();
    for thread in 0..threads {
        let args = arrays.share(ArrayShare { index: thread, count: threads });
        let bytes = args.n * arrays.element().bytes() as usize;
        for (array, start) in args.at.into_iter().take(arrays.count()).enumerate() {
            let Ok(pages) = numa::count_pages_by_numa_node(start.addr().get(), bytes, sample)
            else {
                return Vec::new();
            };
            if !pages.nodes.is_empty() {
                shares.push(ShareLocation { array, thread, nodes: pages.nodes });
            }
        }
    }
    shares
}

/// Returns the share of a range of memory on each NUMA node, 0 to 1; `None` if the kernel does not report it.
pub fn range_shares(start: usize, length: usize) -> Option<NumaShares> {
    let nodes = numa::count_pages_by_numa_node(start, length, SAMPLED_RANGE_PAGES).ok()?.nodes;
    (!nodes.is_empty()).then(|| fractions(&nodes))
}

/// Returns the share of an array on each NUMA node, 0 to 1; `None` if the kernel does not report it.
pub fn array_shares(shares: &[ShareLocation], array: usize) -> Option<NumaShares> {
    let nodes = sum(shares, |share| share.array == array);
    (!nodes.is_empty()).then(|| fractions(&nodes))
}

fn sum(shares: &[ShareLocation], chosen: impl Fn(&ShareLocation) -> bool) -> NumaPageCounts {
    let mut nodes = NumaPageCounts::new();
    for (node, n) in shares.iter().filter(|share| chosen(share)).flat_map(|share| &share.nodes) {
        *nodes.entry(*node).or_default() += n;
    }
    nodes
}

/// Compares the NUMA nodes of `arrays` arrays with a policy. The memory of a thread is expected on the NUMA nodes
/// of the policy; if the policy names none, on the NUMA nodes of the thread in `thread_nodes`. Threads without NUMA
/// nodes are not checked.
pub fn numa_config(
    shares: &[ShareLocation],
    arrays: usize,
    policy: &MemoryPolicy,
    thread_nodes: &[Vec<NumaNodeId>],
    nodes_of_machine: usize,
) -> NumaConfig {
    let got = fractions(&sum(shares, |_| true));
    let arrays: Vec<Option<NumaShares>> =
        (0..arrays).map(|array| array_shares(shares, array)).collect();
    let mut astray = Vec::new();
    let mut there = 0;
    let mut all = 0;
    for (thread, own) in thread_nodes.iter().enumerate() {
        let nodes = sum(shares, |share| share.thread == thread);
        let wanted = wanted_nodes(policy, own);
        let total: u64 = nodes.values().sum();
        if wanted.is_empty() || total == 0 {
            continue;
        }
        let right: u64 = wanted.iter().filter_map(|node| nodes.get(node)).sum();
        if (right as f64) < MIN_THREAD_HELD_SHARE * total as f64 {
            astray.push(thread);
        }
        there += right;
        all += total;
    }
    let held = match policy {
        MemoryPolicy::Interleave(nodes) => {
            let nodes: Vec<u32> = nodes.iter().map(|node| node.0).collect();
            Some(evenness(&numbered(&got), &nodes))
        }
        _ => (all > 0).then(|| Fraction(there as f64 / all as f64)),
    };
    let config = unchecked_numa_config(policy, &arrays, nodes_of_machine);
    NumaConfig {
        got: (!got.is_empty()).then(|| numbered(&got)),
        held,
        threads_astray: astray,
        ..config
    }
}

/// Returns the NUMA nodes of the arrays without a comparison, e.g. for several processes, each of which has its own
/// policy.
pub fn unchecked_numa_config(
    policy: &MemoryPolicy,
    arrays: &[Option<NumaShares>],
    nodes_of_machine: usize,
) -> NumaConfig {
    let known = arrays.iter().flatten().count() as f64;
    let mut got = NumaShares::new();
    for (node, share) in arrays.iter().flatten().flatten() {
        *got.entry(*node).or_default() += *share / known;
    }
    let named = Array::ALL.into_iter().zip(arrays);
    let named = named.filter_map(|(array, shares)| Some((array.name(), shares.as_ref()?)));
    let each = named.map(|(array, shares)| (array.to_owned(), numbered(shares)));
    NumaConfig {
        asked: policy.to_string(),
        got: (!got.is_empty()).then(|| numbered(&got)),
        arrays: arrays.iter().flatten().any(|array| differ(array, &got)).then(|| each.collect()),
        nodes: Some(nodes_of_machine),
        ..NumaConfig::default()
    }
}

/// Returns the NUMA nodes on which the pages of a thread should be if its own NUMA nodes are `own`; empty if all
/// NUMA nodes are correct.
fn wanted_nodes(policy: &MemoryPolicy, own: &[NumaNodeId]) -> Vec<NumaNodeId> {
    let mut wanted = match policy {
        MemoryPolicy::Default | MemoryPolicy::Local => own.to_vec(),
        MemoryPolicy::Interleave(_) => Vec::new(),
        named => named.numa_nodes().unwrap_or_default(),
    };
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// True if the two shares of any NUMA node differ by more than 1 % of all pages.
fn differ(one: &NumaShares, other: &NumaShares) -> bool {
    one.keys().chain(other.keys()).any(|node| {
        let [a, b] = [one, other].map(|shares| shares.get(node).copied().unwrap_or_default());
        (a - b).0.abs() > 0.01
    })
}

fn fractions(nodes: &NumaPageCounts) -> NumaShares {
    let total: u64 = nodes.values().sum();
    nodes.iter().map(|(node, n)| (*node, Fraction(*n as f64 / total as f64))).collect()
}

fn numbered(shares: &NumaShares) -> BTreeMap<u32, Fraction> {
    shares.iter().map(|(node, share)| (node.0, *share)).collect()
}

/// Returns how evenly pages are distributed over the NUMA nodes, 0 to 1: the share of pages that would stay in place if
/// the distribution were made even.
pub fn evenness(got: &BTreeMap<u32, Fraction>, nodes: &[u32]) -> Fraction {
    let each = Fraction(1.0 / nodes.len().max(1) as f64);
    nodes.iter().map(|node| got.get(node).copied().unwrap_or_default().min(each)).sum()
}

/// Returns the reason if `bytes` bytes of memory have too few pages to check that they are interleaved
/// over `nodes` NUMA nodes; `None` if they have enough. One NUMA node may have one page of each size more than another.
/// These additional pages must not exceed the tolerated share of the pages of a NUMA node.
pub fn too_few_pages_reason(
    bytes: u64,
    pages: &BTreeMap<u64, Fraction>,
    nodes: usize,
) -> Option<String> {
    let unequal: f64 =
        pages.iter().map(|(size, share)| (share.0 * bytes as f64).min(*size as f64)).sum();
    let each = bytes as f64 / nodes.max(1) as f64;
    if nodes < 2 || unequal <= (1.0 - MIN_HELD_SHARE) * each {
        return None;
    }
    let (size, share) = pages.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let count = count_in_words((share.0 * bytes as f64 / *size as f64).ceil() as usize, "page");
    Some(format!("too few pages for {nodes} NUMA nodes ({count} of {})", Bytes(*size)))
}

/// Returns the reason why the pages do not follow the policy; `None` if they do.
pub fn policy_violation(numa: &NumaConfig, policy: &MemoryPolicy) -> Option<String> {
    let held = numa.held.filter(|held| held.0 < MIN_HELD_SHARE)?;
    let astray = format!("{} of the pages", Fraction(1.0 - held.0).in_whole_percent());
    let asked = &numa.asked;
    let what = match policy {
        MemoryPolicy::Interleave(_) => {
            format!("memory {asked} requested, but {astray} are not evenly distributed")
        }
        MemoryPolicy::Default | MemoryPolicy::Local => {
            format!("{astray} are not on the NUMA node of the thread that uses them")
        }
        _ => format!("memory {asked} requested, but {astray} are on other NUMA nodes"),
    };
    let share = |(node, share): (&u32, &Fraction)| {
        format!("{} on NUMA node {node}", share.in_whole_percent())
    };
    let got: Vec<String> = numa.got.iter().flatten().map(share).collect();
    Some(format!("{what} ({})", got.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayLayout, ArraysConfig, RequestedPages};
    use nodegauge_kernels::Element;
    use serde_json::json;

    fn nodes(counts: &[(u32, u64)]) -> NumaPageCounts {
        counts.iter().map(|(node, n)| (NumaNodeId(*node), *n)).collect()
    }

    /// Returns the same numbers of pages for each of three arrays; `threads` has the numbers per NUMA node for each
    /// thread.
    fn alike(threads: &[&[(u32, u64)]]) -> Vec<ShareLocation> {
        let each = threads.iter().enumerate();
        each.flat_map(|(thread, counts)| {
            (0..3).map(move |array| ShareLocation { array, thread, nodes: nodes(counts) })
        })
        .collect()
    }

    fn truth(
        shares: &[ShareLocation],
        policy: &MemoryPolicy,
        thread_nodes: &[Vec<NumaNodeId>],
    ) -> NumaConfig {
        numa_config(shares, 3, policy, thread_nodes, 2)
    }

    const THREAD_NODES: [&[u32]; 2] = [&[0], &[1]];

    fn thread_nodes(of: &[&[u32]]) -> Vec<Vec<NumaNodeId>> {
        of.iter().map(|nodes| nodes.iter().map(|node| NumaNodeId(*node)).collect()).collect()
    }

    #[test]
    fn memory_is_expected_on_numa_node_of_thread() {
        let right = truth(
            &alike(&[&[(0, 10)], &[(1, 10)]]),
            &MemoryPolicy::Local,
            &thread_nodes(&THREAD_NODES),
        );
        assert_eq!(
            (right.held, policy_violation(&right, &MemoryPolicy::Local)),
            (Some(Fraction(1.0)), None)
        );
        assert_eq!(right.got.as_ref().unwrap()[&0], Fraction(0.5));
        // The totals are as expected, but the pages of each thread are on the node of the other thread, because the
        // wrong thread touched them first.
        let crossed = truth(
            &alike(&[&[(1, 10)], &[(0, 10)]]),
            &MemoryPolicy::Local,
            &thread_nodes(&THREAD_NODES),
        );
        assert_eq!(
            (crossed.held, crossed.threads_astray.clone()),
            (Some(Fraction(0.0)), vec![0, 1])
        );
        assert_eq!(crossed.got, right.got);
        assert_eq!(
            policy_violation(&crossed, &MemoryPolicy::Local).unwrap(),
            "100 % of the pages are not on the NUMA node of the thread that uses them (50 % on NUMA node 0, 50 % on NUMA node 1)"
        );
        // All pages are on the first node, so that the pages of the second thread are misplaced.
        let piled = truth(
            &alike(&[&[(0, 10)], &[(0, 10)]]),
            &MemoryPolicy::Default,
            &thread_nodes(&THREAD_NODES),
        );
        assert_eq!((piled.held, piled.threads_astray.clone()), (Some(Fraction(0.5)), vec![1]));
        assert!(policy_violation(&piled, &MemoryPolicy::Default).is_some());
    }

    #[test]
    fn unbound_threads_have_no_expected_numa_node() {
        let shares = alike(&[&[(0, 10)], &[(0, 10)]]);
        let truth = truth(&shares, &MemoryPolicy::Default, &thread_nodes(&[&[], &[]]));
        assert_eq!((truth.held, policy_violation(&truth, &MemoryPolicy::Default)), (None, None));
    }

    #[test]
    fn memory_is_expected_on_numa_nodes_of_policy() {
        let shares = alike(&[&[(0, 3), (1, 7)], &[(1, 10)]]);
        let of = |policy: MemoryPolicy| truth(&shares, &policy, &thread_nodes(&THREAD_NODES));
        let breaks = |policy: MemoryPolicy| policy_violation(&of(policy.clone()), &policy);
        let bound = of(MemoryPolicy::Bind(vec![NumaNodeId(1)]));
        assert_eq!(bound.held, Some(Fraction(0.85)));
        assert_eq!(
            breaks(MemoryPolicy::Bind(vec![NumaNodeId(1)])).unwrap(),
            "memory bind:1 requested, but 15 % of the pages are on other NUMA nodes (15 % on NUMA node 0, 85 % on NUMA node 1)"
        );
        assert_eq!(breaks(MemoryPolicy::Bind(vec![NumaNodeId(0), NumaNodeId(1)])), None);
        assert!(breaks(MemoryPolicy::Preferred(NumaNodeId(0))).is_some());
        let both = MemoryPolicy::Interleave(vec![NumaNodeId(0), NumaNodeId(1)]);
        assert!((of(both.clone()).held.unwrap() - Fraction(0.65)).0.abs() < 1e-9);
        let even = truth(
            &alike(&[&[(0, 5), (1, 5)], &[(0, 6), (1, 4)]]),
            &both,
            &thread_nodes(&THREAD_NODES),
        );
        assert_eq!(
            (even.held.map(|held| (held.0 * 100.0).round()), policy_violation(&even, &both)),
            (Some(95.0), None)
        );
        let far = truth(&alike(&[&[(3, 10)]]), &both, &thread_nodes(&[&[0]]));
        assert_eq!(far.held, Some(Fraction(0.0)));
    }

    #[test]
    fn arrays_with_unknown_location_are_ignored() {
        let on = |node| Some(NumaShares::from([(NumaNodeId(node), Fraction(1.0))]));
        let numa = unchecked_numa_config(&MemoryPolicy::Default, &[None, on(0), on(1)], 2);
        assert_eq!(numa.got, Some(BTreeMap::from([(0, Fraction(0.5)), (1, Fraction(0.5))])));
        assert_eq!(numa.arrays.unwrap().into_keys().collect::<Vec<_>>(), ["b", "c"]);
        let unknown = unchecked_numa_config(&MemoryPolicy::Default, &[None, None], 2);
        assert_eq!((unknown.got, unknown.arrays), (None, None));
    }

    #[test]
    fn interleaving_of_few_pages_is_not_checked() {
        let sizes = |pairs: &[(u64, f64)]| {
            pairs.iter().map(|(size, share)| (*size, Fraction(*share))).collect::<BTreeMap<_, _>>()
        };
        let (huge, base) = (sizes(&[(2 << 20, 1.0)]), sizes(&[(4096, 1.0)]));
        assert_eq!(
            too_few_pages_reason(4 << 20, &huge, 4).as_deref(),
            Some("too few pages for 4 NUMA nodes (2 pages of 2 MiB)")
        );
        assert_eq!(
            too_few_pages_reason(1 << 20, &huge, 2).as_deref(),
            Some("too few pages for 2 NUMA nodes (1 page of 2 MiB)")
        );
        // More than ten pages per node are enough, as are base pages, and a single node needs none.
        assert_eq!(too_few_pages_reason(42 << 20, &huge, 2), None);
        assert!(too_few_pages_reason(38 << 20, &huge, 2).is_some());
        assert_eq!(too_few_pages_reason(4 << 20, &base, 4), None);
        assert_eq!(too_few_pages_reason(2 << 20, &huge, 1), None);
        // Base pages at the ends of huge pages count with their bytes.
        let mixed = sizes(&[(4096, 0.01), (2 << 20, 0.99)]);
        assert_eq!(too_few_pages_reason(400 << 20, &mixed, 4), None);
        assert!(too_few_pages_reason(40 << 20, &mixed, 4).is_some());
    }

    #[test]
    fn arrays_with_different_locations_are_listed() {
        let mut shares = alike(&[&[(0, 10)]]);
        let config = |location_shares: &[ShareLocation], nodes| {
            let config = numa_config(
                location_shares,
                3,
                &MemoryPolicy::Default,
                &thread_nodes(&[&[0]]),
                nodes,
            );
            serde_json::to_value(config).unwrap()
        };
        let json = config(&shares, 1);
        assert_eq!(json, json!({"asked": "default", "got": {"0": 1.0}, "held": 1.0, "nodes": 1}));
        shares[2].nodes = nodes(&[(1, 10)]);
        let unequal = config(&shares, 2);
        assert_eq!(unequal["arrays"], json!({"a": {"0": 1.0}, "b": {"0": 1.0}, "c": {"1": 1.0}}));
        assert!((unequal["held"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9);
        // The fourth array is listed by name.
        shares.push(ShareLocation { array: 3, thread: 0, nodes: nodes(&[(0, 10)]) });
        let four =
            super::numa_config(&shares, 4, &MemoryPolicy::Default, &thread_nodes(&[&[0]]), 2);
        let arrays: Vec<String> = four.arrays.unwrap().into_keys().collect();
        assert_eq!(arrays, ["a", "b", "c", "d"]);
        assert_eq!(four.held, Some(Fraction(0.75)));
    }

    #[test]
    fn only_written_arrays_have_locations() {
        let arrays = Arrays::allocate(ArraysConfig {
            count: 4,
            elements: 1 << 18,
            element: Element::F64,
            pages: RequestedPages::Base,
            layout: ArrayLayout::Staggered,
        })
        .unwrap();
        // Before first touch, no page is on any node.
        if numa::count_pages_by_numa_node(arrays.address_range().0, 1, 1).is_err() {
            return;
        }
        assert_eq!(observe(&arrays, 2), []);
        let args = arrays.share(ArrayShare { index: 0, count: 1 });
        // Reading maps the kernel's zero page, which is on no node.
        for array in &args.at {
            for at in (0..1 << 18).step_by(512) {
                // SAFETY: each array has 2^18 elements, and no other thread uses them.
                let value = unsafe { array.cast::<f64>().add(at).read_volatile() };
                assert_eq!(value, 0.0);
            }
        }
        assert_eq!(observe(&arrays, 2), []);
        for array in &args.at {
            // SAFETY: each array has 2^18 elements of 8 bytes, and no other thread uses them.
            unsafe { array.write_bytes(1, (1 << 18) * 8) };
        }
        let shares = observe(&arrays, 2);
        assert_eq!(shares.len(), 8);
        let truth = truth(&shares, &MemoryPolicy::Default, &[Vec::new(), Vec::new()]);
        let got = truth.got.unwrap();
        assert!((got.values().copied().sum::<Fraction>().0 - 1.0).abs() < 1e-9);
        let bound = MemoryPolicy::Bind(got.keys().map(|node| NumaNodeId(*node)).collect());
        if got.len() == 1 {
            assert_eq!(
                super::numa_config(&shares, 4, &bound, &[vec![], vec![]], 2).held,
                Some(Fraction(1.0))
            );
        }
    }
}
