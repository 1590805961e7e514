//! Statistics of one figure over all nodes of one kind, with which each of these nodes is judged.

use super::power::{DetectionPower, PeerSpread, PeerVerdict};
use super::{MIN_NODES, RobustSpread, SpreadComponents, z_limit};
use nodegauge_measure::stats::BetterDirection;
use nodegauge_measure::{Fraction, stats};

/// Statistics of a figure over nodes of one kind, in logarithms of performance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeGroupStatistics {
    /// Median and spread of the nodes' medians.
    pub robust_spread: RobustSpread,
    /// Spread between nodes, and spread between runs.
    pub components: SpreadComponents,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of runs of all nodes.
    pub runs: usize,
    /// Smallest loss that matters in practice.
    pub practical_limit: Fraction,
    /// Robust z beyond which a node is slow; `None` for fewer nodes than [`MIN_NODES`], which cannot be compared with
    /// each other.
    pub limit: Option<f64>,
}

/// Result of comparing a node with its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupVerdict {
    /// The node is below its group by more than the statistical and the practical limit.
    Slow,
    /// The node is below its group by more than the practical limit, but the group has too few nodes for a statistical
    /// limit.
    Below,
    /// The node is within the limits, but a loss worth acting on is not excluded.
    Undecided,
    /// The group has too few nodes, or a loss worth acting on would not have been detected.
    Unknown,
    /// A loss worth acting on is excluded.
    Good,
}

/// Returns the logarithm of the performance for a positive value; larger is better.
pub fn log_performance(value: f64, better: BetterDirection) -> f64 {
    match better {
        BetterDirection::Higher => value.ln(),
        BetterDirection::Lower => -value.ln(),
    }
}

/// Inverse of [`log_performance`]: returns the value of a logarithm of performance.
pub fn value_from_log_performance(performance: f64, better: BetterDirection) -> f64 {
    match better {
        BetterDirection::Higher => performance.exp(),
        BetterDirection::Lower => (-performance).exp(),
    }
}

impl NodeGroupStatistics {
    /// Computes the statistics from the runs of each node, as logarithms of performance. Nodes without a run are
    /// ignored.
    pub fn from_nodes(nodes: &[Vec<f64>], practical_limit: Fraction) -> Self {
        let with: Vec<Vec<f64>> = nodes.iter().filter(|runs| !runs.is_empty()).cloned().collect();
        let medians: Vec<f64> = with.iter().map(|runs| stats::median(runs)).collect();
        Self {
            robust_spread: RobustSpread::from_values(&medians)
                .unwrap_or(RobustSpread { median: 0.0, spread: 0.0 }),
            components: SpreadComponents::from_nodes(&with),
            nodes: with.len(),
            runs: with.iter().map(Vec::len).sum(),
            practical_limit,
            limit: (with.len() >= MIN_NODES).then(|| z_limit(with.len())),
        }
    }

    /// Returns the performance of a node as a share of the median.
    pub fn share(&self, performance: f64) -> f64 {
        (performance - self.robust_spread.median).exp()
    }

    /// True if this performance is below the median by more than the practical limit.
    pub fn is_below(&self, performance: f64) -> bool {
        self.share(performance) < 1.0 - self.practical_limit.0
    }

    /// True if this performance is below the median by more than both limits.
    pub fn is_slow(&self, performance: f64) -> bool {
        let is_far = self.limit.is_some_and(|limit| self.robust_spread.z(performance) < -limit);
        is_far && self.is_below(performance)
    }

    /// Returns the loss beyond which a node is slow, as a share of the median.
    pub fn loss_limit(&self) -> Fraction {
        let statistical =
            self.limit.map_or(0.0, |limit| 1.0 - (-limit * self.robust_spread.spread).exp());
        Fraction(statistical.max(self.practical_limit.0))
    }

    /// Returns the power of the judgement of a node with this number of runs; `None` if the group has too few nodes.
    pub fn detection_power(&self, runs: usize) -> Option<DetectionPower> {
        self.limit?;
        let peers = PeerSpread { spread: self.components, nodes: self.nodes, runs: self.runs };
        Some(peers.detection_power(self.practical_limit, self.loss_limit(), runs))
    }

    /// Returns the verdict on a node with this performance. `power` is that of a judgement with the node's number of
    /// runs.
    pub fn verdict(&self, performance: f64, power: Option<&DetectionPower>) -> GroupVerdict {
        if self.is_slow(performance) {
            return GroupVerdict::Slow;
        }
        let Some(power) = power else {
            let is_below = self.is_below(performance);
            return if is_below { GroupVerdict::Below } else { GroupVerdict::Unknown };
        };
        match power.peer_verdict(self.share(performance)) {
            PeerVerdict::Good => GroupVerdict::Good,
            PeerVerdict::Undecided => GroupVerdict::Undecided,
            PeerVerdict::Unknown => GroupVerdict::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the verdicts on hosts. The first host has `share` of the performance of the others, which vary by
    /// `spread` in both directions.
    fn verdicts(nodes: usize, share: f64, spread: f64) -> Vec<GroupVerdict> {
        let runs: Vec<Vec<f64>> = (0..nodes)
            .map(|at| match at {
                0 => vec![share.ln()],
                _ => vec![spread * ((at * 7 % nodes) as f64 * 2.0 / nodes as f64 - 1.0)],
            })
            .collect();
        let group = NodeGroupStatistics::from_nodes(&runs, Fraction(0.04));
        let power = group.detection_power(1);
        runs.iter().map(|own| group.verdict(own[0], power.as_ref())).collect()
    }

    #[test]
    fn verdict_slow_needs_eight_nodes() {
        for (nodes, share, spread, first) in [
            (3, 0.5, 0.001, GroupVerdict::Below),
            (7, 0.95, 0.001, GroupVerdict::Below),
            (7, 0.97, 0.001, GroupVerdict::Unknown),
            (8, 0.5, 0.001, GroupVerdict::Slow),
            (8, 0.97, 0.001, GroupVerdict::Good),
            (8, 0.85, 0.2, GroupVerdict::Unknown),
            (40, 0.9, 0.002, GroupVerdict::Slow),
            (40, 0.92, 0.05, GroupVerdict::Undecided),
            (40, 0.99, 0.002, GroupVerdict::Good),
        ] {
            let found = verdicts(nodes, share, spread);
            assert_eq!(found[0], first, "{nodes} nodes, {share}, spread {spread}");
        }
    }

    #[test]
    fn performance_of_a_time_is_its_reciprocal() {
        let distance = log_performance(2e-6, BetterDirection::Lower)
            - log_performance(1e-6, BetterDirection::Lower);
        assert!((distance.exp() - 0.5).abs() < 1e-12);
        assert!(
            (value_from_log_performance(
                log_performance(3e-6, BetterDirection::Lower),
                BetterDirection::Lower
            ) / 3e-6
                - 1.0)
                .abs()
                < 1e-12
        );
    }
}
