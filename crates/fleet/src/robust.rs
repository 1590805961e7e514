//! Robust statistics of alike nodes: medians, deviations, and the spread between nodes apart from that between runs.
//!
//! All functions take logarithms of performance, so that a deviation is relative and a node that is twice as slow has
//! the same distance for a rate and for a time. Median and MAD tolerate slow nodes up to half of the group (Rousseeuw
//! and Croux, "Alternatives to the Median Absolute Deviation", 1993).

use nodegauge_measure::stats;

/// Factor that makes the MAD of a normal distribution its standard deviation: 1 / 0.6745.
const NORMAL: f64 = 1.482_6;
/// Smallest spread that is used as a divisor, so that identical values give finite deviations.
const SMALLEST: f64 = 1e-9;
/// Minimum number of alike nodes for a judgement by the group alone.
pub const LEAST_NODES: usize = 8;

/// Median and spread of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Robust {
    /// Median.
    pub median: f64,
    /// Standard deviation, estimated from the median absolute deviation.
    pub spread: f64,
}

impl Robust {
    /// Returns median and spread; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let median = stats::median(values);
        let deviations: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
        Some(Self { median, spread: NORMAL * stats::median(&deviations) })
    }

    /// Returns the deviation of a value from the median in units of the spread: the robust z.
    pub fn z(&self, value: f64) -> f64 {
        (value - self.median) / self.spread.max(SMALLEST)
    }
}

/// Returns the robust z beyond which fewer than one of a thousand good nodes lie, in a group of `nodes`.
///
/// For a large group this is 3.25, at which the normal distribution leaves 0.06 %. The spread of a small group is
/// itself uncertain, so that its limit is wider. The formula fits the 99.94 % quantiles of simulated normal groups of 8
/// to 512 nodes: 8.3, 7.0 (10), 5.1 (16), 4.1 (32), 3.6 (64), 3.4 (128), 3.3 (512).
pub fn limit(nodes: usize) -> f64 {
    let n = nodes.max(LEAST_NODES) as f64;
    3.25 + 21.0 / n + 150.0 / (n * n)
}

/// Spread between nodes, and spread between runs of one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Components {
    /// Standard deviation between nodes, without that of runs.
    pub nodes: Option<f64>,
    /// Standard deviation between runs of one node; `None` if no node has two runs.
    pub runs: Option<f64>,
}

impl Components {
    /// Estimates both from the runs of each node. The spread between runs comes from the deviations of runs from the
    /// mean of their node, the spread between nodes from the medians of the nodes, less the part that the spread of
    /// runs adds to them (the method of moments for a random effect, with robust estimates).
    pub fn of(nodes: &[Vec<f64>]) -> Self {
        let mut deviations = Vec::new();
        for runs in nodes.iter().filter(|runs| runs.len() > 1) {
            let count = runs.len() as f64;
            let mean = stats::mean(runs);
            let scale = (count / (count - 1.0)).sqrt();
            deviations.extend(runs.iter().map(|run| (run - mean).abs() * scale));
        }
        let of_runs = (!deviations.is_empty()).then(|| NORMAL * stats::median(&deviations));
        let medians: Vec<f64> = nodes.iter().map(|runs| stats::median(runs)).collect();
        let total = Robust::of(&medians).filter(|_| medians.len() > 1);
        let counts: f64 = nodes.iter().map(|runs| 1.0 / runs.len() as f64).sum();
        let share = counts / nodes.len().max(1) as f64;
        let of_nodes = total.map(|total| {
            let added = of_runs.map_or(0.0, |spread| spread.powi(2) * share);
            (total.spread.powi(2) - added).max(0.0).sqrt()
        });
        Self { nodes: of_nodes, runs: of_runs }
    }

    /// Returns the standard deviation of a single run of any node.
    pub fn of_a_run(&self) -> Option<f64> {
        let nodes = self.nodes?;
        Some((nodes.powi(2) + self.runs.unwrap_or(0.0).powi(2)).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a sample of the normal distribution.
    fn normal(random: &mut fastrand::Rng) -> f64 {
        let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * random.f64()).cos()
    }

    #[test]
    fn the_limit_leaves_fewer_than_one_good_node_of_a_thousand() {
        let mut random = fastrand::Rng::with_seed(7);
        for nodes in [8, 16, 64, 500] {
            let mut beyond = 0;
            let groups = 60_000 / nodes;
            for _ in 0..groups {
                let values: Vec<f64> = (0..nodes).map(|_| normal(&mut random)).collect();
                let of = Robust::of(&values).unwrap();
                beyond += values.iter().filter(|x| of.z(**x) < -limit(nodes)).count();
            }
            let share = beyond as f64 / (groups * nodes) as f64;
            assert!(share < 0.0012, "{nodes} nodes: {share}");
        }
    }

    #[test]
    fn spreads_of_nodes_and_of_runs_are_told_apart() {
        let mut random = fastrand::Rng::with_seed(3);
        let nodes: Vec<Vec<f64>> = (0..400)
            .map(|_| {
                let node = 0.02 * normal(&mut random);
                (0..3).map(|_| node + 0.005 * normal(&mut random)).collect()
            })
            .collect();
        let found = Components::of(&nodes);
        assert!((found.nodes.unwrap() / 0.02 - 1.0).abs() < 0.15, "{found:?}");
        assert!((found.runs.unwrap() / 0.005 - 1.0).abs() < 0.1, "{found:?}");
        let single: Vec<Vec<f64>> = nodes.iter().map(|runs| vec![runs[0]]).collect();
        assert_eq!(Components::of(&single).runs, None);
        assert_eq!(Components::of(&[vec![1.0]]).nodes, None);
    }

    #[test]
    fn equal_values_have_no_spread_and_a_finite_z() {
        let of = Robust::of(&[2.0; 9]).unwrap();
        assert_eq!(of.spread, 0.0);
        assert!(of.z(2.0) == 0.0 && of.z(1.0) < -limit(9) && of.z(1.0).is_finite());
    }
}
