//! Power of a judgement: the loss that would have been detected in a node that is called good.
//!
//! A node is called good if a loss worth acting on ([`SOUGHT_LOSS`]) is excluded. This is a test of non-inferiority
//! (Schuirmann, "A Comparison of the Two One-Sided Tests Procedure", Journal of Pharmacokinetics and Biopharmaceutics
//! 15, 1987): of 100 nodes with this loss, 5 are called good. A judgement has power if, in addition, at least four of
//! five good nodes are called good; sample sizes are computed from such a condition (Montgomery, "Design and Analysis
//! of Experiments", operating characteristic; NIST/SEMATECH e-Handbook, 7.2.2.2). Without power no node is called good,
//! because good values would be due to chance.
//!
//! The value of a node has a prediction interval (Hahn and Meeker, "Statistical Intervals", 1991). Its width has three
//! causes: the variation of nodes and runs, the uncertainty of the peers' median, and the uncertainty of the spread,
//! which is estimated from few values.

use super::{MIN_NODES, SpreadComponents, median_variance};
use nodegauge_measure::Fraction;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::stats::normal_quantile;
use serde::{Deserialize, Serialize};
use std::f64::consts::{FRAC_PI_2, TAU};

/// Loss of performance that must be excluded for a good node, unless the smallest loss that matters for a figure is
/// larger.
pub const SOUGHT_LOSS: Fraction = Fraction(0.10);
/// Probability that a node with the sought loss is called good by mistake.
const FALSE_GOOD_PROBABILITY: f64 = 0.05;
/// Maximum probability that a good node is not called good; such a node is measured again.
const MISSED_GOOD_PROBABILITY: f64 = 0.2;
/// Maximum number of runs for which quantiles of a median are computed exactly.
const EXACT: usize = 40;
/// Maximum number of runs per node that is proposed.
const MAX_RUNS: usize = 10_000;

/// Spread of a figure over nodes of one kind, with the numbers of values from which it was estimated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeerSpread {
    /// Spreads in logarithms.
    pub spread: SpreadComponents,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of runs of all nodes.
    pub runs: usize,
}

/// Power of a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DetectionPower {
    /// Loss that must be excluded for a good node.
    pub sought: Fraction,
    /// Smallest loss that is detected in 95 of 100 nodes; `None` if the spread is unknown.
    pub found: Option<Fraction>,
    /// Largest loss that a node that is called good may have; `None` without power.
    pub good_within: Option<Fraction>,
    /// Measurements that would give power; `None` if there is power, or if no measurements would give it, because the
    /// nodes differ.
    pub needed: Option<NeededMeasurements>,
}

/// Measurements of nodes of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeededMeasurements {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of runs of each node.
    pub runs: usize,
    /// True if more nodes are required than have been measured.
    pub more_nodes: bool,
}

/// Verdict on a value that is not slow, by comparison with its peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerVerdict {
    /// The sought loss is excluded.
    Good,
    /// The value is neither slow nor far enough above the value of a node with the sought loss.
    Undecided,
    /// The judgement has no power.
    Unknown,
}

/// Half widths of an interval, in logarithms.
struct Widths {
    /// Distance above its expected value that the value of a node exceeds in one of twenty cases.
    above: f64,
    /// Distance below its expected value that the value of a node exceeds in one of five cases.
    below: f64,
}

impl Widths {
    fn sum(&self) -> f64 {
        self.above + self.below
    }
}

/// Quantiles for the parts of a width: the spreads between nodes and between runs, and the median of the peers.
#[derive(Debug, Clone, Copy)]
struct Quantiles {
    node: f64,
    run: f64,
    center: f64,
}

/// Returns the contribution of a spread of `count` values to the variance of their median.
fn center_part(spread: Option<f64>, count: usize) -> f64 {
    spread.unwrap_or_default().powi(2) * (FRAC_PI_2 / count.max(1) as f64).min(1.0)
}

impl PeerSpread {
    /// Returns the power of the judgement of a node by the better median of `runs` runs. `practical` is the smallest
    /// loss that matters, and `slow` the loss beyond which the node is slow, both as shares.
    pub fn detection_power(
        &self,
        practical: Fraction,
        slow: Fraction,
        runs: usize,
    ) -> DetectionPower {
        let sought = Fraction(SOUGHT_LOSS.0.max(practical.0));
        let Some(widths) = self.widths(runs, self.certainty(runs)) else {
            return DetectionPower { sought, found: None, good_within: None, needed: None };
        };
        let [margin, slow] = [sought, slow].map(distance);
        if widths.sum() > margin {
            let found = Some(share(widths.sum()));
            return DetectionPower {
                sought,
                found,
                good_within: None,
                needed: self.needed(margin),
            };
        }
        let within = slow.min(margin - widths.above);
        DetectionPower {
            sought,
            found: Some(share(within + widths.above)),
            good_within: Some(share(within)),
            needed: None,
        }
    }

    /// Returns the half widths of the interval of a node's value. The spread is estimated from `certainty` values.
    fn widths(&self, runs: usize, certainty: f64) -> Option<Widths> {
        let SpreadComponents { nodes, runs: of_runs } = self.spread;
        if nodes.is_none() && of_runs.is_none() {
            return None;
        }
        let mistaken = normal_quantile(FALSE_GOOD_PROBABILITY);
        let doubted = normal_quantile(MISSED_GOOD_PROBABILITY);
        let better = better_median_quantile(runs, FALSE_GOOD_PROBABILITY);
        // If the components are not separated, the spread may be due to nodes or due to runs. More runs reduce only the
        // latter.
        let of_node = if of_runs.is_none() { mistaken.max(better) } else { mistaken };
        let widened = widening(certainty, better.max(mistaken));
        let above = Quantiles { node: of_node, run: better, center: mistaken };
        let worse = worse_median_quantile(runs, MISSED_GOOD_PROBABILITY);
        let below = Quantiles { node: doubted, run: worse, center: doubted };
        Some(Widths { above: self.width(above) * widened, below: self.width(below) })
    }

    /// Returns the half width of an interval with these quantiles, in logarithms.
    fn width(&self, quantiles: Quantiles) -> f64 {
        let of_nodes = quantiles.node * self.spread.nodes.unwrap_or_default();
        let of_runs = quantiles.run * self.spread.runs.unwrap_or_default();
        let of_center = quantiles.center.powi(2) * self.center_variance();
        (of_nodes.powi(2) + of_runs.powi(2) + of_center).sqrt()
    }

    /// Returns the variance of the peers' median.
    fn center_variance(&self) -> f64 {
        center_part(self.spread.nodes, self.nodes) + center_part(self.spread.runs, self.runs)
    }

    /// Returns the effective number of values from which the spread of a node's value is estimated: one more than its
    /// degrees of freedom by the formula of Satterthwaite ("An Approximate Distribution of Estimates of Variance
    /// Components", Biometrics Bulletin 2, 1946).
    fn certainty(&self, runs: usize) -> f64 {
        let of_nodes = self.spread.nodes.unwrap_or_default().powi(2);
        let finish_run = self.spread.runs.unwrap_or_default().powi(2);
        let of_runs = finish_run * median_variance(runs.max(1) as f64);
        let freedom_of_nodes = self.nodes.saturating_sub(1).max(1) as f64;
        let freedom_of_runs = self.runs.saturating_sub(self.nodes).max(1) as f64;
        let all = of_nodes + of_runs;
        if all == 0.0 {
            return freedom_of_nodes.max(freedom_of_runs) + 1.0;
        }
        let parts = of_nodes.powi(2) / freedom_of_nodes + of_runs.powi(2) / freedom_of_runs;
        all.powi(2) / parts + 1.0
    }

    /// Returns the minimum number of runs per node with which the interval of a node's value is at most `margin` wide,
    /// in logarithms. The quantiles are those for the known values, as in the second stage of Stein's procedure ("A
    /// Two-Sample Test for a Linear Hypothesis Whose Power is Independent of the Variance", Annals of Mathematical
    /// Statistics 16, 1945). The spread of the later runs may be overestimated.
    fn needed(&self, margin: f64) -> Option<NeededMeasurements> {
        let spread = self.min_components();
        let nodes = if self.nodes > 1 { self.nodes.max(MIN_NODES) } else { 1 };
        let known = self.certainty(1);
        let later = Self { spread, nodes, runs: 0 };
        // More runs never make a judgement worse, except for the difference between odd and even numbers.
        let mut few = 0;
        let mut enough = MAX_RUNS;
        if !later.has_margin(enough, known, margin) {
            return None;
        }
        while enough - few > 1 {
            let middle = few.midpoint(enough);
            if later.has_margin(middle, known, margin) {
                enough = middle;
            } else {
                few = middle;
            }
        }
        Some(NeededMeasurements { nodes, runs: enough, more_nodes: nodes > self.nodes })
    }

    /// True if the interval of a node's value is at most `margin` wide, in logarithms, with `runs` runs per node.
    /// `known` is the number of values from which the spread is currently estimated.
    fn has_margin(&self, runs: usize, known: f64, margin: f64) -> bool {
        let later = Self { runs: self.nodes * runs, ..*self };
        // Of several nodes, the number of nodes determines how well the spread between nodes is known.
        let certainty = if self.nodes > 1 { self.nodes as f64 } else { later.certainty(runs) };
        let widths = later.widths(runs, known.min(certainty));
        widths.is_some_and(|widths| widths.sum() * overestimate(certainty) <= margin)
    }

    /// Returns the components with the smallest spread between nodes that is consistent with the values. The rest of
    /// the spread is attributed to runs, as is a spread whose components are not separated.
    fn min_components(&self) -> SpreadComponents {
        let SpreadComponents { nodes, runs } = self.spread;
        let Some((nodes, of_runs)) = nodes.zip(runs) else {
            return SpreadComponents { nodes: None, runs: runs.or(nodes) };
        };
        let each = (self.runs as f64 / self.nodes.max(1) as f64).max(1.0);
        let added = of_runs.powi(2) * median_variance(each);
        let total = (nodes.powi(2) + added) / overestimate(self.nodes as f64).powi(2);
        SpreadComponents { nodes: Some((total - added).max(0.0).sqrt()), runs }
    }
}

impl DetectionPower {
    /// True if a good node can be called good.
    pub fn suffices(&self) -> bool {
        self.good_within.is_some()
    }

    /// Returns the verdict on a value that is not slow; `share` is the value divided by the peers' median.
    pub fn peer_verdict(&self, share: f64) -> PeerVerdict {
        match self.good_within {
            None => PeerVerdict::Unknown,
            Some(within) if share >= 1.0 - within.0 => PeerVerdict::Good,
            Some(_) => PeerVerdict::Undecided,
        }
    }

    /// Describes the power: `would find a loss of 6 %`. Without power, the text contains the loss that is not found,
    /// the loss that is found, and the number of runs that would be sufficient.
    pub fn in_words(&self) -> String {
        let sought = self.sought.in_whole_percent();
        let Some(found) = self.found else {
            return format!("cannot find a loss of {sought}: the spread of good nodes is unknown");
        };
        if self.suffices() {
            return format!("would find a loss of {}", found.rounded_up().in_whole_percent());
        }
        let instead = if found.0 <= 0.99 {
            format!("only one of {}", found.rounded_up().in_whole_percent())
        } else {
            "and no other loss".to_owned()
        };
        let remedy = match self.needed {
            Some(needed) => format!("{} would suffice", needed.in_words()),
            None => "no number of runs would suffice, because the nodes differ".to_owned(),
        };
        format!("cannot find a loss of {sought}, {instead}; {remedy}")
    }
}

impl NeededMeasurements {
    /// Describes the measurements: `95 runs of each node`.
    fn in_words(&self) -> String {
        let runs = count_in_words(self.runs, "run");
        match self.nodes {
            1 => runs,
            nodes if self.more_nodes => format!("{runs} of each of {nodes} nodes"),
            _ => format!("{runs} of each node"),
        }
    }
}

/// Converts a loss to a distance in logarithms.
fn distance(loss: Fraction) -> f64 {
    -(1.0 - loss.0.clamp(0.0, 1.0)).ln()
}

/// Converts a distance in logarithms to a loss.
fn share(distance: f64) -> Fraction {
    Fraction(1.0 - (-distance).exp())
}

/// Returns the factor by which a quantile of the normal distribution is larger if the spread is estimated by Qn of `n`
/// values. It fits simulated quantiles (for 0.95: 1.19 for 8, 1.10 for 12, 1.05 for 24, 1.02 for 64 values). For other
/// quantiles it grows with the square of the quantile, as for Student's t (Abramowitz and Stegun, 26.7.5).
fn widening(n: f64, quantile: f64) -> f64 {
    let of_95 = 0.9 / n + 2.0 / n.powi(2) + 45.0 / n.powi(3);
    1.0 + of_95 * (quantile.powi(2) + 1.0) / (normal_quantile(FALSE_GOOD_PROBABILITY).powi(2) + 1.0)
}

/// Returns the 95 % quantile of Qn of `n` normally distributed values with variance 1. It fits simulated quantiles
/// (1.61 for 8, 1.47 for 12, 1.30 for 24, 1.12 for 128).
fn overestimate(n: f64) -> f64 {
    1.0 + 1.4 / n.max(1.0).sqrt() + 1.0 / n.max(1.0)
}

/// Returns the value that the better median of `runs` normally distributed values exceeds with the probability `tail`.
fn better_median_quantile(runs: usize, tail: f64) -> f64 {
    median_quantile(runs, runs / 2 + 1, tail)
}

/// Returns the distance below 0 that the better median of `runs` normally distributed values with variance 1 exceeds
/// with the probability `tail`.
fn worse_median_quantile(runs: usize, tail: f64) -> f64 {
    median_quantile(runs, runs - runs / 2, tail)
}

/// Returns the value that the value at position `rank` (ascending, from 1) of `runs` normally distributed values
/// exceeds with the probability `tail`.
fn median_quantile(runs: usize, rank: usize, tail: f64) -> f64 {
    let runs = runs.max(1);
    if runs > EXACT {
        let count = runs as f64;
        let off_center = rank as f64 - (count + 1.0) / 2.0;
        let shift = off_center * TAU.sqrt() / count;
        return shift + normal_quantile(tail) * median_variance(count).sqrt();
    }
    // The value at this position exceeds x if fewer than `rank` of the values are below x.
    let mut low = 0.0;
    let mut high = 1.0;
    for _ in 0..60 {
        let below: f64 = (low + high) / 2.0;
        if fewer_than(rank, runs, below) > tail { low = below } else { high = below }
    }
    let below: f64 = (low + high) / 2.0;
    if below > 0.5 { normal_quantile(1.0 - below) } else { -normal_quantile(below) }
}

/// Returns the probability that fewer than `count` of `all` independent events occur, each with this probability.
fn fewer_than(count: usize, all: usize, probability: f64) -> f64 {
    let mut term = (1.0 - probability).powi(all as i32);
    let mut sum = 0.0;
    for i in 0..count {
        sum += term;
        term *= (all - i) as f64 / (i + 1) as f64 * probability / (1.0 - probability);
    }
    sum
}

#[cfg(test)]
mod tests;
