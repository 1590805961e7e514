use super::*;
use nodegauge_measure::stats::BetterDirection;
use std::collections::BTreeMap;

/// Returns `n` samples around `centre` with a relative spread; `memory` is the correlation of successive
/// samples.
fn drifting(seed: u64, n: usize, centre: f64, spread: f64, memory: f64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut drift = 0.0;
    (0..n)
        .map(|_| {
            // The Box-Muller transform converts uniform numbers to normal numbers.
            let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
            let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
            drift = memory * drift + (1.0 - memory * memory).sqrt() * normal;
            centre * (spread * drift).exp()
        })
        .collect()
}

fn runs(figures: &[f64], similar_runs: &[f64]) -> SideRuns {
    SideRuns { figures: figures.to_vec(), similar_runs: similar_runs.to_vec(), run_spread: 0.0 }
}

#[test]
fn single_run_needs_history() {
    let (a, b) = (runs(&[100.0], &[]), runs(&[110.0], &[]));
    assert_eq!(interval(&a, &b), None);
    assert_eq!(interval(&a, &SideRuns::default()), None);
    let ten = [99.0, 100.0, 101.0, 99.5, 100.5, 99.0, 100.0, 101.0, 99.5, 100.5];
    assert_eq!(interval(&runs(&[100.0], &ten[..9]), &b), None);
    assert_eq!(interval(&runs(&[100.0], &ten[..5]), &runs(&[110.0], &ten[..5])), None);
    let found = interval(&runs(&[100.0], &ten), &b).unwrap();
    let half = stats::student_quantile(UPPER_TAIL, 9.0) * 0.00752 * 2f64.sqrt();
    assert_eq!(found.basis, SpreadBasis::History);
    assert!((found.ci95[1].ln() - 1.1f64.ln() - half).abs() < 0.001, "{found:?}");
    // If one of ten runs was at another level, the next two runs may be at that level.
    let mut busy = ten;
    busy[3] = 50.0;
    assert!(interval(&runs(&[100.0], &busy), &runs(&[60.0], &[])).unwrap().ci95[1] > 1.0);
}

#[test]
fn three_runs_have_an_interval_without_earlier_runs() {
    let near = runs(&[100.0, 100.1, 99.9, 100.05, 99.95], &[]);
    let [low, high] = interval(&near, &near).unwrap().ci95;
    assert!(low > 0.998 && high < 1.002, "{low} {high}");
    let far = runs(&[90.0, 100.0, 110.0, 95.0, 105.0], &[]);
    let [far_low, far_high] = interval(&far, &far).unwrap().ci95;
    assert!(far_low < 0.92 && far_high > 1.08, "{far_low} {far_high}");
    // The spread within each run is a lower bound, even if the figures of the runs are equal by chance.
    let agreeing = SideRuns { run_spread: 0.05, ..near };
    assert!(interval(&agreeing, &agreeing).unwrap().ci95[1] > 1.05);
    // By Welch's formula, nearly all degrees of freedom are those of the setting with the larger spread.
    let wide = [80.0, 125.0, 80.0, 125.0, 80.0, 125.0];
    let welch = interval(&runs(&[100.0, 100.001, 99.999], &[]), &runs(&wide, &[])).unwrap();
    let half = stats::student_quantile(UPPER_TAIL, 5.0) * 1.25f64.ln() / 5f64.sqrt();
    assert!((welch.ci95[1].ln() - half).abs() < 1e-4, "{welch:?}");
}

#[test]
fn linear_drift_cancels_in_blocks() {
    // The rates decrease by 2 % from run to run, in the order A B B A.
    let rate = |turn: usize| 100.0 * 0.98f64.powi(turn as i32);
    let ratio = |block: usize| {
        let of = |turn: usize| rate(4 * block + turn);
        ((of(1) * of(2)) / (of(0) * of(3))).sqrt()
    };
    let found = block_interval(&[ratio(0), ratio(1), ratio(2)]).unwrap();
    assert!((found.ci95[0] - 1.0).abs() < 1e-9 && (found.ci95[1] - 1.0).abs() < 1e-9, "{found:?}");
    assert_eq!(block_interval(&[1.1, 1.1]), None);
    assert!(block_interval(&[1.1, 1.11, 1.09]).unwrap().ci95[0] > 1.0);
}

#[test]
fn deviation_includes_correlation_of_samples() {
    let unit = Unit::BytesPerSecond;
    let deviation = |memory| {
        let of = |seed| {
            spread_in_run(&drifting(seed, 200, 1.0, 0.01, memory), QuotedStatistic::Mean, unit)
        };
        stats::mean(&(0..20).map(of).collect::<Vec<_>>())
    };
    // For independent samples, the result is the textbook value. For correlated samples, the true value is sqrt((1 + m)
    // / (1 - m)) times the textbook value; the block bootstrap detects most of this increase.
    let textbook = 0.01 / 200f64.sqrt();
    assert!((deviation(0.0) / textbook - 1.0).abs() < 0.15, "{}", deviation(0.0) / textbook);
    assert!(deviation(0.8) / textbook > 2.0, "{}", deviation(0.8) / textbook);
    assert_eq!(block_length(&drifting(3, 200, 1.0, 0.01, 0.0)), 1);
    assert!(block_length(&drifting(3, 200, 1.0, 0.01, 0.9)) > 6);
    assert_eq!(block_length(&[1.0; 50]), 1);
    assert_eq!(block_length(&[]), 1);
    assert_eq!(spread_in_run(&[1.0], QuotedStatistic::Mean, unit), 0.0);
    assert!(spread_in_run(&[1.0, 1.1], QuotedStatistic::Mean, unit) > 0.0);
    assert_eq!(unit.direction(), Some(BetterDirection::Higher));
}

/// Returns the best rates of successive valid runs of one command in chronological order. They were recorded in a
/// virtual machine with two Sapphire Rapids CPUs on a busy host.
fn recorded() -> BTreeMap<String, Vec<f64>> {
    let text = include_str!("../../tests/data/same-command-runs.json");
    serde_json::from_str(text).unwrap()
}

/// Number of comparisons drawn from the runs of a series.
const DRAWN: usize = 1000;

/// Number of false verdicts on runs with equal commands, and number of all comparisons.
#[derive(Debug, Default)]
struct Reported {
    reported: usize,
    of: usize,
}

impl Reported {
    fn add(&mut self, interval: &RatioInterval) {
        self.reported += usize::from(interval.ci95[0] > 1.0 || interval.ci95[1] < 1.0);
        self.of += 1;
    }

    fn share(&self) -> f64 {
        self.reported as f64 / self.of as f64
    }
}

/// Returns `n` runs drawn at random from recorded runs.
fn drawn(random: &mut fastrand::Rng, runs: &[f64], n: usize) -> Vec<f64> {
    (0..n).map(|_| runs[random.usize(..runs.len())]).collect()
}

/// Returns the ratios of five blocks A B B A of runs drawn from recorded runs. The figures of B are multiplied by
/// `faster`.
fn blocks(random: &mut fastrand::Rng, runs: &[f64], faster: f64) -> Vec<f64> {
    let block = |block_runs: &[f64]| {
        faster * (block_runs[1] * block_runs[2] / (block_runs[0] * block_runs[3])).sqrt()
    };
    drawn(random, runs, 4 * 5).chunks(4).map(block).collect()
}

#[test]
fn equal_commands_differ_in_at_most_1_of_20_comparisons() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut reported: BTreeMap<&str, Reported> = BTreeMap::new();
    for runs in recorded().values() {
        for _ in 0..DRAWN {
            let turns = block_interval(&blocks(&mut random, runs, 1.0)).unwrap();
            reported.entry("by turns").or_default().add(&turns);
            for n in [3, 5] {
                let mut side =
                    || SideRuns { figures: drawn(&mut random, runs, n), ..SideRuns::default() };
                reported
                    .entry("several runs")
                    .or_default()
                    .add(&interval(&side(), &side()).unwrap());
            }
            // A and B have two runs each, with a history of random length.
            let mut all = runs.clone();
            random.shuffle(&mut all);
            let (two, similar_runs) = all.split_at(2);
            let similar_runs = &similar_runs[..random.usize(MIN_RELATED_RUNS..=similar_runs.len())];
            let side = |at: usize| SideRuns {
                figures: vec![two[at]],
                similar_runs: similar_runs.to_vec(),
                run_spread: 0.0,
            };
            reported.entry("history").or_default().add(&interval(&side(0), &side(1)).unwrap());
        }
    }
    for (design, outcomes) in reported {
        assert!(outcomes.share() <= 0.05 && outcomes.of > 1000, "{design}: {outcomes:?}");
    }
}

/// Number of simulated comparisons per case.
const SIMULATED: u64 = 1000;

/// Returns the ratios of `n` blocks A B B A. The runs have a relative spread of `spread`, and one of ten runs is slowed
/// down by up to `disturbed`. B is faster by `faster`.
fn simulated(seed: u64, n: usize, spread: f64, disturbed: f64, faster: f64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let figures: Vec<f64> = drifting(seed, 4 * n, 1.0, spread, 0.0)
        .into_iter()
        .map(|figure| {
            let slow = if random.f64() < 0.1 { disturbed * random.f64() } else { 0.0 };
            figure * (1.0 - slow)
        })
        .collect();
    let block = |of: &[f64]| (1.0 + faster) * (of[1] * of[2] / (of[0] * of[3])).sqrt();
    figures.chunks(4).map(block).collect()
}

/// Returns the share of simulated comparisons with a verdict; a comparison has `n(seed)` blocks.
fn found(spread: f64, disturbed: f64, faster: f64, n: impl Fn(u64) -> usize) -> f64 {
    let mut reported = Reported::default();
    for seed in 0..SIMULATED {
        let blocks = simulated(seed, n(seed), spread, disturbed, faster);
        reported.add(&block_interval(&blocks).unwrap());
    }
    reported.share()
}

#[test]
fn reported_number_of_blocks_detects_a_change_of_three_percent() {
    assert_eq!(needed(0.0, 4.0, 5), Some(5));
    assert_eq!(needed(f64::INFINITY, 4.0, 5), None);
    // On a quiet node, where runs differ by 1.4 %, the default of five blocks is sufficient.
    assert!(found(0.014, 0.0, SOUGHT_CHANGE, |_| 5) >= 0.9);
    for (spread, disturbed) in [(0.014, 0.0), (0.02, 0.0), (0.03, 0.0), (0.06, 0.0), (0.014, 0.2)] {
        // Five blocks of other runs determine the number of blocks.
        let reported = |seed: u64| {
            let pilot = simulated(SIMULATED + seed, 5, spread, disturbed, 0.0);
            block_interval(&pilot).unwrap().needed.unwrap() as usize
        };
        let [hit, false_alarm] =
            [SOUGHT_CHANGE, 0.0].map(|faster| found(spread, disturbed, faster, reported));
        // In 12 % of the cases (0.9 to the power of 20), none of the twenty runs in five blocks is disturbed.
        let (min, least_detected) = if disturbed == 0.0 { (0.88, 0.9) } else { (0.8, 0.85) };
        assert!(hit >= min, "spread {spread}, disturbed {disturbed}: found in {hit}");
        assert!(false_alarm <= 0.07, "spread {spread}, disturbed {disturbed}: {false_alarm}");
        // If five blocks seldom detect the change, the message recommends more blocks.
        if found(spread, disturbed, SOUGHT_CHANGE, |_| 5) < 0.5 {
            let more = (0..SIMULATED).filter(|seed| reported(*seed) > 5).count();
            assert!(
                more as f64 >= least_detected * SIMULATED as f64,
                "{spread} {disturbed}: {more}"
            );
        }
    }
}

#[test]
fn smallest_visible_loss_is_detected_in_recorded_runs() {
    let mut random = fastrand::Rng::with_seed(2);
    let mut as_reported = Reported::default();
    for (_, runs) in recorded() {
        for _ in 0..DRAWN {
            let same = blocks(&mut random, &runs, 1.0);
            let min = block_interval(&same).unwrap().visible;
            let shifted = |faster: f64| same.iter().map(|ratio| ratio * faster).collect::<Vec<_>>();
            as_reported.add(&block_interval(&shifted(1.0 + min)).unwrap());
        }
    }
    assert!(as_reported.share() > 0.88, "{as_reported:?}");
}
