//! Where the pages of the arrays really are, asked of the kernel after first touch, and whether that
//! is where the memory policy wants them. The questions are `observe`; what follows from the answers
//! is pure.

use crate::arrays::Arrays;
use crate::keys::NumaConfig;
use nodegauge_machine::NodeId;
use nodegauge_placement::{MemoryPolicy, numa};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Pages that are asked about, of all arrays: enough that half a per cent shows. The kernel takes some
/// tenths of a microsecond for each.
const ASKED: usize = 6000;
/// Pages that are asked about each thread's share of each array, at least.
const LEAST_OF_A_SHARE: usize = 8;
/// From this share of pages on the policy holds. As for page sizes, a tenth elsewhere shows in the
/// figures; pages that two threads share at the ends of their parts may be fewer.
const HELD: f64 = 0.9;
/// A thread with less of its share than this where it should be is named.
const THREAD_HELD: f64 = 0.5;
/// The names of the arrays.
const ARRAYS: [&str; 3] = ["a", "b", "c"];

/// Pages on each node.
pub(crate) type Nodes = BTreeMap<NodeId, u64>;

/// Share of pages on each node, 0 to 1.
pub(crate) type Shares = BTreeMap<NodeId, f64>;

/// Where sampled pages of one thread's share of one array are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// 0 to 2.
    pub array: usize,
    /// The thread that touched it first.
    pub thread: usize,
    /// Pages on each node.
    pub nodes: Nodes,
}

/// Asks the kernel where the shares of `threads` threads are; empty when it does not say.
pub(crate) fn observe(arrays: &Arrays, threads: usize) -> Vec<Share> {
    let sample = (ASKED / (ARRAYS.len() * threads.max(1))).max(LEAST_OF_A_SHARE);
    let mut shares = Vec::new();
    for thread in 0..threads {
        let args = arrays.share(thread, threads);
        let bytes = args.n * arrays.element().bytes() as usize;
        for (array, start) in args.at.into_iter().take(ARRAYS.len()).enumerate() {
            let Ok(pages) = numa::pages_by_node(start.addr().get(), bytes, sample) else {
                return Vec::new();
            };
            if !pages.nodes.is_empty() {
                shares.push(Share { array, thread, nodes: pages.nodes });
            }
        }
    }
    shares
}

/// Share of a range of memory on each node, 0 to 1; `None` when the kernel does not say.
pub fn of_range((start, length): (usize, usize)) -> Option<BTreeMap<NodeId, f64>> {
    let nodes = numa::pages_by_node(start, length, ASKED / ARRAYS.len()).ok()?.nodes;
    (!nodes.is_empty()).then(|| fractions(&nodes))
}

/// Share of an array on each node, 0 to 1; `None` when the kernel does not say.
pub(crate) fn of_array(shares: &[Share], array: usize) -> Option<Shares> {
    let nodes = sum(shares, |share| share.array == array);
    (!nodes.is_empty()).then(|| fractions(&nodes))
}

fn sum(shares: &[Share], chosen: impl Fn(&Share) -> bool) -> Nodes {
    let mut nodes = Nodes::new();
    for (node, n) in shares.iter().filter(|share| chosen(share)).flat_map(|share| &share.nodes) {
        *nodes.entry(*node).or_default() += n;
    }
    nodes
}

/// Where the arrays are, held against a policy: memory of a thread belongs to the nodes that the policy
/// names, else to those in `homes` of the thread, of which nothing is expected where there are none.
pub(crate) fn config(
    shares: &[Share],
    policy: &MemoryPolicy,
    homes: &[Vec<NodeId>],
    nodes_of_machine: usize,
) -> NumaConfig {
    let got = fractions(&sum(shares, |_| true));
    let arrays = [0, 1, 2].map(|array| fractions(&sum(shares, |share| share.array == array)));
    let wanted = |thread: usize| match policy {
        MemoryPolicy::Default | MemoryPolicy::Local => homes[thread].clone(),
        MemoryPolicy::Interleave(_) => Vec::new(),
        named => named.nodes().unwrap_or_default(),
    };
    let mut astray = Vec::new();
    let (mut there, mut all) = (0, 0);
    for thread in 0..homes.len() {
        let (nodes, wanted) = (sum(shares, |share| share.thread == thread), wanted(thread));
        let total: u64 = nodes.values().sum();
        if wanted.is_empty() || total == 0 {
            continue;
        }
        let is_right = |(node, _): &(&NodeId, &u64)| wanted.contains(node);
        let right: u64 = nodes.iter().filter(is_right).map(|(_, n)| n).sum();
        if (right as f64) < THREAD_HELD * total as f64 {
            astray.push(thread);
        }
        there += right;
        all += total;
    }
    let held = match policy {
        MemoryPolicy::Interleave(nodes) => Some(evenness(&got, nodes)),
        _ => (all > 0).then(|| there as f64 / all as f64),
    };
    let config = of_arrays(policy, &arrays.map(Some), nodes_of_machine);
    NumaConfig {
        got: (!got.is_empty()).then(|| numbered(&got)),
        held,
        threads_astray: astray,
        ..config
    }
}

/// The same of several processes, of which each has a policy of its own: where the arrays are, overall.
pub(crate) fn of_arrays(
    policy: &MemoryPolicy,
    arrays: &[Option<Shares>; 3],
    nodes_of_machine: usize,
) -> NumaConfig {
    let arrays = arrays.clone().map(Option::unwrap_or_default);
    let mut got = Shares::new();
    for (node, share) in arrays.iter().flatten() {
        *got.entry(*node).or_default() += share / arrays.len() as f64;
    }
    let differs = |array: &Shares| {
        let of = |shares: &Shares, node| shares.get(node).copied().unwrap_or(0.0);
        array.keys().chain(got.keys()).any(|node| (of(array, node) - of(&got, node)).abs() > 0.01)
    };
    let each =
        ARRAYS.iter().zip(&arrays).map(|(name, array)| ((*name).to_owned(), numbered(array)));
    NumaConfig {
        asked: policy.to_string(),
        got: (!got.is_empty()).then(|| numbered(&got)),
        arrays: arrays.iter().any(differs).then(|| each.collect()),
        nodes: Some(nodes_of_machine),
        ..NumaConfig::default()
    }
}

fn fractions(nodes: &Nodes) -> Shares {
    let total: u64 = nodes.values().sum();
    nodes.iter().map(|(node, n)| (*node, *n as f64 / total as f64)).collect()
}

fn numbered(shares: &Shares) -> BTreeMap<u32, f64> {
    shares.iter().map(|(node, share)| (node.0, *share)).collect()
}

/// How evenly pages are spread over the nodes, 0 to 1: the share that would stay where it is.
fn evenness(got: &Shares, nodes: &[NodeId]) -> f64 {
    let each = 1.0 / nodes.len().max(1) as f64;
    nodes.iter().map(|node| got.get(node).copied().unwrap_or(0.0).min(each)).sum()
}

/// Why a policy did not hold; `None` where it did.
pub(crate) fn broken(numa: &NumaConfig, policy: &MemoryPolicy) -> Option<String> {
    let held = numa.held.filter(|held| *held < HELD)?;
    let astray = format!("{:.0} % of the pages", 100.0 * (1.0 - held));
    let asked = &numa.asked;
    let what = match policy {
        MemoryPolicy::Interleave(_) => {
            format!("asked for memory {asked}, but {astray} lie on one node too many")
        }
        MemoryPolicy::Default | MemoryPolicy::Local => {
            format!("{astray} do not lie on the node of the thread that uses them")
        }
        _ => format!("asked for memory {asked}, but {astray} lie elsewhere"),
    };
    let share = |(node, share): (&u32, &f64)| format!("{:.0} % on node {node}", share * 100.0);
    let got: Vec<String> = numa.got.iter().flatten().map(share).collect();
    Some(format!("{what} ({})", got.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::{Layout, Pages};
    use crate::kernels::Element;
    use serde_json::json;

    fn nodes(counts: &[(u32, u64)]) -> Nodes {
        counts.iter().map(|(node, n)| (NodeId(*node), *n)).collect()
    }

    /// All arrays alike: pages of each thread's share.
    fn alike(threads: &[&[(u32, u64)]]) -> Vec<Share> {
        let each = threads.iter().enumerate();
        each.flat_map(|(thread, counts)| {
            (0..3).map(move |array| Share { array, thread, nodes: nodes(counts) })
        })
        .collect()
    }

    fn truth(shares: &[Share], policy: &MemoryPolicy, homes: &[Vec<NodeId>]) -> NumaConfig {
        config(shares, policy, homes, 2)
    }

    const HOMES: [&[u32]; 2] = [&[0], &[1]];

    fn homes(of: &[&[u32]]) -> Vec<Vec<NodeId>> {
        of.iter().map(|nodes| nodes.iter().map(|node| NodeId(*node)).collect()).collect()
    }

    #[test]
    fn memory_of_each_thread_is_held_against_its_own_node() {
        let right = truth(&alike(&[&[(0, 10)], &[(1, 10)]]), &MemoryPolicy::Local, &homes(&HOMES));
        assert_eq!((right.held, broken(&right, &MemoryPolicy::Local)), (Some(1.0), None));
        assert_eq!(right.got.as_ref().unwrap()[&0], 0.5);
        // In sum nothing is wrong, but each has the other's: first touch by the wrong thread.
        let crossed =
            truth(&alike(&[&[(1, 10)], &[(0, 10)]]), &MemoryPolicy::Local, &homes(&HOMES));
        assert_eq!((crossed.held, crossed.threads_astray.clone()), (Some(0.0), vec![0, 1]));
        assert_eq!(crossed.got, right.got);
        assert_eq!(
            broken(&crossed, &MemoryPolicy::Local).unwrap(),
            "100 % of the pages do not lie on the node of the thread that uses them (50 % on node 0, 50 % on node 1)"
        );
        // All on the first node: the second thread's pages are astray.
        let piled =
            truth(&alike(&[&[(0, 10)], &[(0, 10)]]), &MemoryPolicy::Default, &homes(&HOMES));
        assert_eq!((piled.held, piled.threads_astray.clone()), (Some(0.5), vec![1]));
        assert!(broken(&piled, &MemoryPolicy::Default).is_some());
    }

    #[test]
    fn nothing_is_wanted_of_threads_that_are_not_bound() {
        let shares = alike(&[&[(0, 10)], &[(0, 10)]]);
        let truth = truth(&shares, &MemoryPolicy::Default, &homes(&[&[], &[]]));
        assert_eq!((truth.held, broken(&truth, &MemoryPolicy::Default)), (None, None));
    }

    #[test]
    fn policies_that_name_nodes_are_held_against_them() {
        let shares = alike(&[&[(0, 3), (1, 7)], &[(1, 10)]]);
        let of = |policy: MemoryPolicy| truth(&shares, &policy, &homes(&HOMES));
        let breaks = |policy: MemoryPolicy| broken(&of(policy.clone()), &policy);
        let bound = of(MemoryPolicy::Bind(vec![NodeId(1)]));
        assert_eq!(bound.held, Some(0.85));
        assert_eq!(
            breaks(MemoryPolicy::Bind(vec![NodeId(1)])).unwrap(),
            "asked for memory bind:1, but 15 % of the pages lie elsewhere (15 % on node 0, 85 % on node 1)"
        );
        assert_eq!(breaks(MemoryPolicy::Bind(vec![NodeId(0), NodeId(1)])), None);
        assert!(breaks(MemoryPolicy::Preferred(NodeId(0))).is_some());
        let both = MemoryPolicy::Interleave(vec![NodeId(0), NodeId(1)]);
        assert!((of(both.clone()).held.unwrap() - 0.65).abs() < 1e-9);
        let even = truth(&alike(&[&[(0, 5), (1, 5)], &[(0, 6), (1, 4)]]), &both, &homes(&HOMES));
        assert_eq!(
            (even.held.map(|held| (held * 100.0).round()), broken(&even, &both)),
            (Some(95.0), None)
        );
        let far = truth(&alike(&[&[(3, 10)]]), &both, &homes(&[&[0]]));
        assert_eq!(far.held, Some(0.0));
    }

    #[test]
    fn arrays_are_told_one_by_one_where_they_differ() {
        let mut shares = alike(&[&[(0, 10)]]);
        let config = |shares: &[Share], nodes| {
            let config = config(shares, &MemoryPolicy::Default, &homes(&[&[0]]), nodes);
            serde_json::to_value(config).unwrap()
        };
        let json = config(&shares, 1);
        assert_eq!(json, json!({"asked": "default", "got": {"0": 1.0}, "held": 1.0, "nodes": 1}));
        shares[2].nodes = nodes(&[(1, 10)]);
        let json = config(&shares, 2);
        assert_eq!(json["arrays"], json!({"a": {"0": 1.0}, "b": {"0": 1.0}, "c": {"1": 1.0}}));
        assert!((json["held"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_kernel_tells_where_touched_arrays_are() {
        let arrays = Arrays::map(1 << 18, Element::F64, Pages::Base, Layout::Staggered).unwrap();
        // Nothing was touched yet, so nothing is anywhere.
        if numa::pages_by_node(arrays.mapping().0, 1, 1).is_err() {
            return;
        }
        assert_eq!(observe(&arrays, 2), []);
        let args = arrays.share(0, 1);
        for array in &args.at[..ARRAYS.len()] {
            // SAFETY: each array has 2^18 elements of 8 bytes, and nobody else uses them.
            unsafe { array.write_bytes(1, (1 << 18) * 8) };
        }
        let shares = observe(&arrays, 2);
        assert_eq!(shares.len(), 6);
        let truth = truth(&shares, &MemoryPolicy::Default, &[Vec::new(), Vec::new()]);
        let got = truth.got.unwrap();
        assert!((got.values().sum::<f64>() - 1.0).abs() < 1e-9);
        let bound = MemoryPolicy::Bind(got.keys().map(|node| NodeId(*node)).collect());
        if got.len() == 1 {
            assert_eq!(super::config(&shares, &bound, &[vec![], vec![]], 2).held, Some(1.0));
        }
    }
}
