//! Judgement of nodes of one kind: which are slow, and which loss would have been detected. All functions are pure.
//!
//! All functions use logarithms of performance, so that deviations are relative, and a node that is twice as slow has
//! the same distance for a rate and for a time. The spread is estimated by Qn, a quantile of the distances of all
//! pairs. Qn tolerates slow nodes up to half of the group. For normally distributed values it has an efficiency of 82
//! %; the median absolute deviation has 37 % (Rousseeuw and Croux, "Alternatives to the Median Absolute Deviation",
//! Journal of the American Statistical Association 88, 1993).

mod group;
pub mod power;
pub mod practical;

pub use group::{GroupVerdict, NodeGroupStatistics, log_performance, value_from_log_performance};

use nodegauge_measure::stats;
use std::f64::consts::FRAC_PI_2;

/// Factor that converts Qn to the standard deviation, for many normally distributed values.
const QN_FACTOR: f64 = 2.2219;
/// Factors of Qn for 2 to 9 values, in addition to [`QN_FACTOR`] (Croux and Rousseeuw, "Time-efficient algorithms for
/// two highly robust estimators of scale", Computational Statistics 1, 1992).
const SMALL_SAMPLE_FACTORS: [f64; 8] = [0.399, 0.994, 0.512, 0.844, 0.611, 0.857, 0.669, 0.872];
/// Maximum number of values whose pairs are compared. From more values, this number is taken, evenly spaced in
/// ascending order, so that the quantiles are unchanged.
const MAX_VALUES: usize = 256;
/// Minimum spread that is used as a divisor, so that identical values give finite deviations.
const MIN_SPREAD: f64 = 1e-9;
/// Maximum number of nodes in a group whose slow nodes are excluded before the spread is estimated.
const MAX_SMALL_GROUP: usize = 64;
/// Minimum number of nodes of one kind for a judgement by comparison within the group.
pub const MIN_NODES: usize = 8;

/// Median and spread of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RobustSpread {
    /// Median of the values, in logarithms of performance.
    pub median: f64,
    /// Standard deviation of the values, in logarithms of performance, estimated by Qn.
    pub spread: f64,
}

impl RobustSpread {
    /// Returns median and spread; `None` without values.
    pub fn from_values(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        Some(Self { median: stats::median(values), spread: spread(values) })
    }

    /// Returns the robust z: the deviation of a value from the median in units of the spread.
    pub fn z(&self, value: f64) -> f64 {
        (value - self.median) / self.spread.max(MIN_SPREAD)
    }
}

/// Returns the standard deviation estimated by Qn; for three values, the standard deviation itself; 0 for fewer than
/// two values.
fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len().min(MAX_VALUES);
    if n < 2 {
        return 0.0;
    }
    let taken: Vec<f64> = (0..n).map(|i| sorted[i * (sorted.len() - 1) / (n - 1)]).collect();
    let mut distances = Vec::with_capacity(n * (n - 1) / 2);
    for (i, high) in taken.iter().enumerate() {
        distances.extend(taken[..i].iter().map(|low| high - low));
    }
    if n == 3 {
        // Qn of three values is their smallest distance, which varies by a factor of forty.
        let squares: f64 = distances.iter().map(|distance| distance.powi(2)).sum();
        return (squares / 6.0).sqrt();
    }
    let half = n / 2 + 1;
    let rank = half * (half - 1) / 2;
    let (_, distance, _) = distances.select_nth_unstable_by(rank - 1, f64::total_cmp);
    let count = n as f64;
    let factor = match n {
        2..=9 => SMALL_SAMPLE_FACTORS[n - 2],
        _ if n % 2 == 1 => count / (count + 1.4),
        _ => count / (count + 3.8),
    };
    QN_FACTOR * factor * *distance
}

/// Returns the robust z that fewer than one of a thousand good nodes exceed, in a group of `nodes` nodes.
///
/// For a large group it is 3.25, which 0.06 % of a normal distribution exceed. In a small group the spread itself is
/// uncertain, so the limit is wider. The formula fits the 99.94 % quantiles of simulated normal groups of 8 to 400
/// nodes: 5.8 (8), 4.8 (10), 3.9 (16), 3.6 (24), 3.3 (64), 3.25 (400).
pub fn z_limit(nodes: usize) -> f64 {
    let n = nodes.max(MIN_NODES) as f64;
    3.25 + 9.1 / n + 20.0 / n.powi(2) + 560.0 / n.powi(3)
}

/// Spread between nodes, and spread between runs of one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpreadComponents {
    /// Standard deviation between nodes, without the contribution of the spread between runs.
    pub nodes: Option<f64>,
    /// Standard deviation between runs of one node; `None` if fewer than half of the nodes have two runs. In this case
    /// the repeated runs are mostly those of slow nodes and do not represent the others.
    pub runs: Option<f64>,
}

impl SpreadComponents {
    /// Estimates both components from the runs of each node. The spread between runs is estimated from the deviations
    /// of runs from the mean of their node, the spread between nodes from the medians of the nodes, minus the part due
    /// to the spread of runs (the method of moments for a random effect, with robust estimates).
    pub fn from_nodes(nodes: &[Vec<f64>]) -> Self {
        let repeated: Vec<&Vec<f64>> = nodes.iter().filter(|runs| runs.len() > 1).collect();
        let mut deviations = Vec::new();
        for runs in &repeated {
            let count = runs.len() as f64;
            let mean = stats::mean(runs);
            let scale = (count / (count - 1.0)).sqrt();
            deviations.extend(runs.iter().map(|run| (run - mean) * scale));
        }
        let is_typical = !repeated.is_empty() && 2 * repeated.len() >= nodes.len();
        let of_runs = is_typical.then(|| spread(&deviations));
        let medians: Vec<f64> = nodes.iter().map(|runs| stats::median(runs)).collect();
        let total = (medians.len() > 1).then(|| spread(&without_slow_nodes(&medians)));
        let shares: f64 = nodes.iter().map(|runs| median_variance(runs.len() as f64)).sum();
        let share = shares / nodes.len().max(1) as f64;
        let of_nodes = total.map(|total| {
            let added = of_runs.map_or(0.0, |spread| spread.powi(2) * share);
            (total.powi(2) - added).max(0.0).sqrt()
        });
        Self { nodes: of_nodes, runs: of_runs }
    }

    /// Returns the standard deviation of a single run of any node; `None` if both components are unknown. If only one
    /// component is known, e.g. for a single node, the result is this component.
    pub fn run_deviation(&self) -> Option<f64> {
        let known = self.nodes.or(self.runs)?;
        match self.nodes.zip(self.runs) {
            Some((nodes, runs)) => Some(nodes.hypot(runs)),
            None => Some(known),
        }
    }
}

/// Returns the values without those of slow nodes, in ascending order. The lowest value is removed as long as it is
/// more than three spreads of the remaining values below their median. One slow node of twelve enlarges Qn by a fifth;
/// in large groups, a few slow nodes have no effect.
fn without_slow_nodes(values: &[f64]) -> Vec<f64> {
    let mut kept = values.to_vec();
    kept.sort_by(f64::total_cmp);
    let min = values.len() / 2 + 1;
    let mut slow = 0;
    while values.len() <= MAX_SMALL_GROUP && kept.len() - slow > min {
        let Some(of) = RobustSpread::from_values(&kept[slow + 1..]) else { break };
        if of.z(kept[slow]) >= -3.0 {
            break;
        }
        slow += 1;
    }
    kept.split_off(slow)
}

/// Returns the variance of the median of `runs` normally distributed values with variance 1. For many values, it
/// approaches pi/2 divided by their number; the other terms fit the exact variances for few values (3: 0.449, 4: 0.298,
/// 5: 0.287; Sarhan and Greenberg, "Contributions to Order Statistics", 1962).
fn median_variance(runs: f64) -> f64 {
    let few = if runs % 2.0 == 0.0 { 1.27 } else { 0.47 };
    (FRAC_PI_2 / (runs + few)).min(1.0 / runs.min(2.0))
}

#[cfg(test)]
mod tests;
