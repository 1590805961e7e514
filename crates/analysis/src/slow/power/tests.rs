use super::super::tests::normal;
use super::*;
use crate::slow::RobustSpread;
use nodegauge_measure::stats;

const PRACTICAL: Fraction = Fraction(0.04);
const GROUPS: usize = 400;
/// Limit for 5 of 100 nodes: the mean of the binomial distribution plus two standard deviations.
const MAX_MISTAKEN: usize = 29;
const MIN_GOOD: usize = 380;

/// Returns the runs of nodes of one kind with these spreads between nodes and between runs.
fn runs_of(
    random: &mut fastrand::Rng,
    nodes: usize,
    runs: usize,
    spread: SpreadComponents,
) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    for _ in 0..nodes {
        let node = spread.nodes.unwrap_or_default() * normal(random);
        let finish_run = spread.runs.unwrap_or_default();
        all.push((0..runs).map(|_| node + finish_run * normal(random)).collect());
    }
    all
}

fn better_median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Counts the verdicts good, undecided and unknown on a new node with this loss. References from 400 simulated groups
/// judge the node.
fn counts(
    nodes: usize,
    runs: usize,
    own: usize,
    spread: SpreadComponents,
    loss: f64,
) -> [usize; 3] {
    let mut random = fastrand::Rng::with_seed(17);
    let mut counts = [0; 3];
    for _ in 0..GROUPS {
        let group = runs_of(&mut random, nodes, runs, spread);
        let peers =
            PeerSpread { spread: SpreadComponents::from_nodes(&group), nodes, runs: nodes * runs };
        let medians: Vec<f64> = group.iter().map(|of| stats::median(of)).collect();
        let median = RobustSpread::from_values(&medians).unwrap().median;
        let new =
            better_median(&runs_of(&mut random, 1, own, spread)[0]) - distance(Fraction(loss));
        let power = peers.detection_power(PRACTICAL, Fraction(0.5), own);
        counts[match power.peer_verdict((new - median).exp()) {
            PeerVerdict::Good => 0,
            PeerVerdict::Undecided => 1,
            PeerVerdict::Unknown => 2,
        }] += 1;
    }
    counts
}

fn of_nodes(spread: f64) -> SpreadComponents {
    SpreadComponents { nodes: Some(spread), runs: None }
}

#[test]
fn node_with_the_sought_loss_is_called_good_in_at_most_29_of_400_groups() {
    let both = SpreadComponents { nodes: Some(0.01), runs: Some(0.015) };
    let cases = [
        (12, 1, 1, of_nodes(0.02)),
        (12, 1, 2, of_nodes(0.02)),
        (8, 1, 1, of_nodes(0.015)),
        (64, 1, 1, of_nodes(0.03)),
        (12, 4, 1, both),
        (12, 4, 2, both),
        (3, 4, 2, SpreadComponents { nodes: None, runs: Some(0.015) }),
        (1, 12, 2, SpreadComponents { nodes: None, runs: Some(0.02) }),
        (64, 9, 9, SpreadComponents { nodes: Some(0.0), runs: Some(0.06) }),
    ];
    for (nodes, runs, own, spread) in cases {
        let [good, ..] = counts(nodes, runs, own, spread, 0.1);
        assert!(good <= MAX_MISTAKEN, "{nodes} x {runs}, {own}: {good} {spread:?}");
    }
}

#[test]
fn good_nodes_are_called_good_if_the_spread_permits() {
    let both = SpreadComponents { nodes: Some(0.01), runs: Some(0.01) };
    for (nodes, runs, own, spread) in [
        (12, 1, 1, of_nodes(0.02)),
        (64, 1, 1, of_nodes(0.025)),
        (12, 4, 2, both),
        (1, 12, 2, SpreadComponents { nodes: None, runs: Some(0.02) }),
    ] {
        let [good, ..] = counts(nodes, runs, own, spread, 0.0);
        assert!(good >= MIN_GOOD, "{nodes} x {runs}, {own}: {good} {spread:?}");
    }
}

#[test]
fn wide_spread_needs_the_reported_number_of_runs() {
    let wide = SpreadComponents { nodes: None, runs: Some(0.17) };
    for (nodes, runs) in [(12, 4), (3, 4), (1, 12)] {
        for loss in [0.0, 0.1] {
            assert_eq!(counts(nodes, runs, 1, wide, loss), [0, 0, GROUPS], "{nodes} x {runs}");
            assert_eq!(counts(nodes, runs, 2, wide, loss), [0, 0, GROUPS], "{nodes} x {runs}");
        }
    }
    let peers =
        PeerSpread { spread: SpreadComponents { nodes: Some(0.0), ..wide }, nodes: 12, runs: 48 };
    let needed = peers.detection_power(PRACTICAL, Fraction(0.36), 1).needed.unwrap().runs;
    let [good, ..] = counts(12, needed, needed, wide, 0.0);
    assert!(good >= MIN_GOOD, "{needed}: {good}");
    let [slow, ..] = counts(12, needed, needed, wide, 0.1);
    assert!(slow <= MAX_MISTAKEN, "{needed}: {slow}");
}

#[test]
fn quantiles_of_the_better_median_match_order_statistics() {
    let near = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 0.01, "{found} {expected}");
    };
    near(better_median_quantile(1, 0.05), 1.6449);
    // Case of the better of two runs.
    near(better_median_quantile(2, 0.05), normal_quantile(1.0 - 0.95f64.sqrt()));
    near(worse_median_quantile(2, 0.1), -normal_quantile(0.1f64.sqrt()).abs() + 2.0 * 0.4783);
    near(better_median_quantile(3, 0.05), 1.1022);
    // At the transition, the formula for many runs agrees with the exact values.
    for runs in [EXACT - 1, EXACT] {
        let exact = better_median_quantile(runs, 0.05);
        let next = better_median_quantile(runs + 2, 0.05);
        assert!(next < exact && exact - next < 0.02, "{runs}: {exact} {next}");
    }
}

#[test]
fn power_is_printed_with_the_sufficient_number_of_runs() {
    let of = |spread, nodes, runs| PeerSpread { spread, nodes, runs };
    let precise = of(SpreadComponents { nodes: Some(0.008), runs: Some(0.003) }, 64, 128);
    let power = precise.detection_power(PRACTICAL, Fraction(0.04), 1);
    assert_eq!(power.in_words(), "would find a loss of 6 %");
    assert_eq!(power.peer_verdict(0.961), PeerVerdict::Good);
    let files = precise.detection_power(Fraction(0.2), Fraction(0.2), 1);
    assert_eq!(files.sought, Fraction(0.2));
    let wide = of(SpreadComponents { nodes: Some(0.0), runs: Some(0.17) }, 3, 12);
    let lacking = wide.detection_power(PRACTICAL, Fraction(0.64), 2);
    assert!(!lacking.suffices() && lacking.peer_verdict(5.0) == PeerVerdict::Unknown);
    assert_eq!(
        lacking.in_words(),
        "cannot find a loss of 10 %, only one of 38 %; 99 runs of each of 8 nodes would suffice"
    );
    let different = of(SpreadComponents { nodes: Some(0.15), runs: Some(0.01) }, 64, 256);
    let words = different.detection_power(PRACTICAL, Fraction(0.4), 1).in_words();
    assert!(
        words.ends_with("; no number of runs would suffice, because the nodes differ"),
        "{words}"
    );
    let unknown = of(SpreadComponents { nodes: None, runs: None }, 1, 1);
    assert_eq!(
        unknown.detection_power(PRACTICAL, Fraction(0.04), 1).in_words(),
        "cannot find a loss of 10 %: the spread of good nodes is unknown"
    );
}
