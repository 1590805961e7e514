use super::*;

/// Returns a sample from the normal distribution.
pub(super) fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

#[test]
fn limit_excludes_fewer_than_12_good_nodes_of_10000() {
    let mut random = fastrand::Rng::with_seed(7);
    for nodes in [8, 16, 64, 500] {
        let mut beyond = 0;
        let groups = 60_000 / nodes;
        for _ in 0..groups {
            let values: Vec<f64> = (0..nodes).map(|_| normal(&mut random)).collect();
            let of = RobustSpread::from_values(&values).unwrap();
            beyond += values.iter().filter(|x| of.z(**x) < -z_limit(nodes)).count();
        }
        let share = beyond as f64 / (groups * nodes) as f64;
        assert!(share < 0.0012, "{nodes} nodes: {share}");
    }
}

#[test]
fn spread_of_nodes_is_separated_from_spread_of_runs() {
    let mut random = fastrand::Rng::with_seed(3);
    let nodes: Vec<Vec<f64>> = (0..400)
        .map(|_| {
            let node = 0.02 * normal(&mut random);
            (0..3).map(|_| node + 0.005 * normal(&mut random)).collect()
        })
        .collect();
    let found = SpreadComponents::from_nodes(&nodes);
    assert!((found.nodes.unwrap() / 0.02 - 1.0).abs() < 0.15, "{found:?}");
    assert!((found.runs.unwrap() / 0.005 - 1.0).abs() < 0.1, "{found:?}");
    let single: Vec<Vec<f64>> = nodes.iter().map(|runs| vec![runs[0]]).collect();
    assert_eq!(SpreadComponents::from_nodes(&single).runs, None);
    assert_eq!(SpreadComponents::from_nodes(&[vec![1.0]]).nodes, None);
    assert_eq!(SpreadComponents::from_nodes(&[vec![1.0]]).run_deviation(), None);
    let one = SpreadComponents::from_nodes(&[vec![1.0, 1.1, 0.9, 1.0]]);
    assert!(one.run_deviation().is_some_and(|spread| spread > 0.02), "{one:?}");
}

#[test]
fn repeated_runs_of_one_slow_node_do_not_widen_the_spread_of_runs() {
    let mut nodes: Vec<Vec<f64>> = (0..12).map(|i| vec![0.002 * f64::from(i % 3)]).collect();
    nodes[3] = vec![-0.37, 0.0];
    let found = SpreadComponents::from_nodes(&nodes);
    assert_eq!(found.runs, None);
    assert!(found.run_deviation().unwrap() < 0.01, "{found:?}");
}

#[test]
fn equal_values_have_finite_deviations() {
    let of = RobustSpread::from_values(&[2.0; 9]).unwrap();
    assert_eq!(of.spread, 0.0);
    assert!(of.z(2.0) == 0.0 && of.z(1.0) < -z_limit(9) && of.z(1.0).is_finite());
}

#[test]
fn spread_estimates_the_standard_deviation_despite_slow_nodes() {
    let mut random = fastrand::Rng::with_seed(5);
    for count in [5, 8, 12, 40, 1000] {
        let groups = 8_000 / count;
        let mut all: Vec<f64> = Vec::new();
        let mut slow: Vec<f64> = Vec::new();
        for _ in 0..groups {
            let mut values: Vec<f64> = (0..count).map(|_| normal(&mut random)).collect();
            all.push(spread(&values));
            values.iter_mut().take(count / 5).for_each(|value| *value -= 50.0);
            slow.push(spread(&values));
        }
        let [mean, with_slow] = [&all, &slow].map(|of| stats::median(of));
        assert!((mean - 1.0).abs() < 0.1, "{count}: {mean}");
        assert!(with_slow < 2.2, "{count}: {with_slow}");
    }
}

#[test]
fn variances_of_medians_match_published_tables() {
    for (runs, variance) in [(1.0, 1.0), (2.0, 0.5), (3.0, 0.449), (4.0, 0.298), (5.0, 0.287)] {
        let ratio = median_variance(runs) / variance;
        assert!((ratio - 1.0).abs() < 0.05, "{runs}: {ratio}");
    }
}
