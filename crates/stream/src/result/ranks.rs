//! Ranks in the record: places and rates of each rank, and checks of the location of its memory. All functions are
//! pure.

use super::StreamEvidence;
use crate::config::{RankConfig, StreamConfig};
use crate::target::RankObservations;
use nodegauge_arena::{NumaConfig, location};
use nodegauge_measure::Fraction;
use nodegauge_measure::stats::{BetterDirection, Summary};
use nodegauge_placement::MemoryPolicy;
use nodegauge_placement::cpus::number_ranges;

/// Maximum share of pages outside the requested NUMA nodes.
const MAX_MISPLACED_SHARE: f64 = 0.02;
/// Maximum deviation of a NUMA node's share of interleaved pages from an even share.
const MAX_SKEW: f64 = 0.1;

/// Adds the processes to the configuration of kernel number `i`.
pub(crate) fn add_to_config(evidence: &StreamEvidence<'_>, i: usize, config: &mut StreamConfig) {
    let seen = &evidence.seen.ranks;
    if seen.is_empty() {
        return;
    }
    let asked = evidence.target.config();
    let bytes = (asked.kernels[i].0.counted_bytes(asked.element) * asked.elements) as f64;
    let passes = evidence
        .sorted
        .headline()
        .map(|group| group.counted_indices(i).to_vec())
        .unwrap_or_default();
    let mut ranks = Vec::new();
    for rank in seen {
        let number = rank.config.rank as usize;
        let own = passes.iter().filter_map(|pass| evidence.samples[*pass].per_process.get(number));
        let rates: Vec<f64> = own.map(|seconds| bytes / seconds[i]).collect();
        let summary = Summary::from_samples(&rates, BetterDirection::Higher);
        let (best, median) = summary.map(|summary| (summary.best, summary.median)).unzip();
        ranks.push(RankConfig { best, median, ..rank.config.clone() });
    }
    config.processes = Some(seen.len() as u64);
    config.threads_per_rank = Some(asked.places.len() as u64);
    config.ranks = Some(ranks);
}

/// Compares the pages of each rank with the policy of this rank. `together` contains the NUMA nodes of the pages of all
/// ranks.
pub(crate) fn numa(ranks: &[RankObservations], together: NumaConfig) -> NumaConfig {
    let held: Vec<Fraction> = ranks.iter().filter_map(policy_share).collect();
    let mean = held.iter().copied().sum::<Fraction>() / held.len() as f64;
    let unchecked = ranks.iter().find_map(|rank| rank.unchecked.clone());
    NumaConfig {
        asked: policies_in_words(ranks),
        held: (!held.is_empty()).then_some(mean),
        unchecked: unchecked.filter(|_| held.is_empty()),
        ..together
    }
}

/// Returns the policies of the ranks: the common one, or each policy with its ranks.
fn policies_in_words(ranks: &[RankObservations]) -> String {
    let policies = ranks.iter().map(|rank| (rank.policy.to_string(), rank.config.rank));
    let groups = grouped(policies);
    match &groups[..] {
        [(policy, _)] => policy.clone(),
        several => {
            let words = several
                .iter()
                .map(|(policy, numbers)| format!("{policy} ({})", ranks_in_words(numbers)));
            words.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Returns the share of a rank's pages on the NUMA nodes that its policy requires; `None` if this is unknown.
fn policy_share(rank: &RankObservations) -> Option<Fraction> {
    let expected = rank.expected.as_ref()?;
    let got = rank.config.memory_got.as_ref()?;
    match rank.policy {
        _ if rank.unchecked.is_some() => None,
        MemoryPolicy::Interleave(_) => Some(location::evenness(got, expected)),
        _ => Some(expected.iter().filter_map(|node| got.get(node)).copied().sum()),
    }
}

/// Groups rank numbers by a text, in order of appearance.
fn grouped(texts: impl Iterator<Item = (String, u32)>) -> Vec<(String, Vec<u32>)> {
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for (text, number) in texts {
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, numbers)) => numbers.push(number),
            None => groups.push((text, vec![number])),
        }
    }
    groups
}

/// Returns numbers of ranks as text, e.g. `ranks 0-3`.
fn ranks_in_words(numbers: &[u32]) -> String {
    let several = if numbers.len() > 1 { "ranks" } else { "rank" };
    format!("{several} {}", number_ranges(numbers.iter().copied()))
}

/// Returns the reasons why figures are suspect because pages of ranks are not on the requested NUMA nodes.
pub(crate) fn doubts(ranks: &[RankObservations]) -> Vec<String> {
    let doubts = ranks.iter().filter_map(|rank| Some((doubt(rank)?, rank.config.rank)));
    let mut words = Vec::new();
    for (doubt, numbers) in grouped(doubts) {
        let which = ranks_in_words(&numbers);
        words.push(format!("{which}: pages are not on the requested NUMA nodes: {doubt}"));
    }
    words
}

fn doubt(rank: &RankObservations) -> Option<String> {
    let expected = rank.expected.as_ref()?;
    let got = rank.config.memory_got.as_ref()?;
    let on = |node: &u32| got.get(node).copied().unwrap_or_default().0;
    let there: f64 = expected.iter().map(on).sum();
    let nodes = number_ranges(expected.iter().copied());
    if there < 1.0 - MAX_MISPLACED_SHARE {
        let astray = Fraction(1.0 - there).in_whole_percent();
        let noun = if expected.len() > 1 { "NUMA nodes" } else { "NUMA node" };
        return Some(format!("{astray} of the pages are not on {noun} {nodes}"));
    }
    let even = 1.0 / expected.len() as f64;
    let interleaved =
        matches!(rank.policy, MemoryPolicy::Interleave(_)) && rank.unchecked.is_none();
    let node =
        expected.iter().find(|node| (on(node) - even).abs() > MAX_SKEW).filter(|_| interleaved)?;
    let share = Fraction(on(node)).in_whole_percent();
    Some(format!(
        "NUMA node {node} has {share} of the pages, which are interleaved over NUMA nodes {nodes}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::NumaNodeId;

    fn rank(
        number: u32,
        policy: MemoryPolicy,
        expected: &[u32],
        got: &[(u32, f64)],
    ) -> RankObservations {
        let memory_got = Some(got.iter().map(|(node, share)| (*node, Fraction(*share))).collect());
        RankObservations {
            config: RankConfig { rank: number, memory_got, ..RankConfig::default() },
            policy,
            expected: Some(expected.to_vec()),
            unchecked: None,
        }
    }

    #[test]
    fn pages_of_each_rank_are_compared_with_its_own_policy() {
        let bind = |node| MemoryPolicy::Bind(vec![NumaNodeId(node)]);
        let together = || NumaConfig { asked: "bind:0".to_owned(), ..NumaConfig::default() };
        let ranks = [
            rank(0, bind(0), &[0], &[(0, 1.0)]),
            rank(1, bind(0), &[0], &[(0, 1.0)]),
            rank(2, bind(1), &[1], &[(1, 1.0)]),
        ];
        let right = numa(&ranks, together());
        assert_eq!(right.asked, "bind:0 (ranks 0-1), bind:1 (rank 2)");
        assert_eq!(right.held, Some(Fraction(1.0)));
        let crossed = [ranks[0].clone(), rank(1, bind(1), &[1], &[(0, 1.0)])];
        assert_eq!(numa(&crossed, together()).held, Some(Fraction(0.5)));
        // Ranks that are not bound and have no nodes are not compared.
        let free =
            RankObservations { expected: None, ..rank(0, MemoryPolicy::Local, &[], &[(1, 1.0)]) };
        let free = numa(&[free], together());
        assert_eq!((free.asked.as_str(), free.held, free.unchecked), ("local", None, None));
        // Two pages cannot be even on four nodes.
        let nodes = MemoryPolicy::Interleave((0..4).map(NumaNodeId).collect());
        let few = RankObservations {
            unchecked: Some("too few pages".to_owned()),
            ..rank(0, nodes, &[0, 1, 2, 3], &[(0, 0.5), (1, 0.5)])
        };
        assert_eq!(doubts(std::slice::from_ref(&few)), [""; 0]);
        let few = numa(&[few], together());
        assert_eq!((few.held, few.unchecked.as_deref()), (None, Some("too few pages")));
    }

    #[test]
    fn misplaced_pages_are_reported_with_their_ranks() {
        let both = || MemoryPolicy::Interleave(vec![NumaNodeId(0), NumaNodeId(1)]);
        let held = [
            rank(0, MemoryPolicy::Bind(vec![NumaNodeId(0)]), &[0], &[(0, 1.0)]),
            rank(1, MemoryPolicy::Local, &[1], &[(1, 0.99), (0, 0.01)]),
            rank(2, both(), &[0, 1], &[(0, 0.52), (1, 0.48)]),
            RankObservations { expected: None, ..rank(3, MemoryPolicy::Local, &[], &[(1, 1.0)]) },
            RankObservations {
                config: RankConfig::default(),
                ..rank(4, MemoryPolicy::Local, &[0], &[])
            },
        ];
        assert_eq!(doubts(&held), [""; 0]);
        let broken = [
            rank(0, MemoryPolicy::Bind(vec![NumaNodeId(0)]), &[0], &[(0, 1.0)]),
            rank(1, MemoryPolicy::Local, &[1], &[(0, 1.0)]),
            rank(2, MemoryPolicy::Local, &[1], &[(0, 1.0)]),
            rank(5, both(), &[0, 1], &[(0, 0.9), (1, 0.1)]),
        ];
        assert_eq!(
            doubts(&broken),
            [
                "ranks 1-2: pages are not on the requested NUMA nodes: 100 % of the pages are not on NUMA node 1",
                "rank 5: pages are not on the requested NUMA nodes: NUMA node 0 has 90 % of the pages, which are interleaved over NUMA nodes 0-1"
            ]
        );
    }
}
