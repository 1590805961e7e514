//! Tests of verdicts on runs with noise: recorded runs, blocks of interleaved runs, suspect runs.

use super::*;

/// Returns the Triad figures of eight runs with the same setting, in B/s, with their core-to-core round trips. The runs
/// were recorded half a minute apart in a virtual machine with two Zen 5 CPUs on a shared host.
fn eight_runs() -> Vec<Measurement> {
    #[derive(serde::Deserialize)]
    struct Recorded {
        round_trip_s: f64,
        triad_mb: Vec<f64>,
    }
    let text = include_str!("../../../tests/data/triad-eight-runs.json");
    let runs: Vec<Recorded> = serde_json::from_str(text).unwrap();
    runs.iter()
        .map(|run| {
            let samples: Vec<f64> = run.triad_mb.iter().map(|mb| mb * 1e6).collect();
            let mut m = triad(&samples);
            m.config.insert("round_trip_s".to_owned(), json!(run.round_trip_s));
            m
        })
        .collect()
}

#[test]
fn faster_setting_is_detected_in_pooled_runs() {
    let runs = eight_runs();
    let pooled = |pool: &[Measurement], factor: f64, name: &str| {
        let faster = |m: &Measurement| {
            let samples: Vec<f64> = m.samples.iter().map(|x| x * factor).collect();
            Measurement { config: m.config.clone(), ..triad(&samples) }
        };
        let records = pool.iter().enumerate();
        side(records.map(|(i, m)| record(&format!("{name}{i}"), vec![faster(m)])).collect())
    };
    let (a, b) = runs.split_at(4);
    let same = compare(&pooled(a, 1.0, "A"), &pooled(b, 1.0, "B"));
    assert_eq!(same.pairs[0].verdict, Verdict::WithinNoise, "{:?}", same.pairs[0].ci95);
    assert_eq!((same.pairs[0].a.runs, same.pairs[0].b.runs), (4, 4));
    let faster = compare(&pooled(a, 1.0, "A"), &pooled(b, 1.06, "B"));
    assert_eq!(faster.pairs[0].verdict, Verdict::Faster, "{:?}", faster.pairs[0].ci95);
    let slower = compare(&pooled(b, 1.06, "B"), &pooled(a, 1.0, "A"));
    assert_eq!(slower.pairs[0].verdict, Verdict::Slower, "{:?}", slower.pairs[0].ci95);
}

/// Returns a setting with one run per rate.
fn runs(name: &str, rates: impl IntoIterator<Item = f64>) -> Side {
    let run = |(i, rate): (usize, f64)| record(&format!("{name}{i}"), vec![triad(&[rate])]);
    side(rates.into_iter().enumerate().map(run).collect())
}

#[test]
fn runs_with_equal_figures_are_within_noise() {
    let pair = compare(&runs("A", [1e9; 3]), &runs("B", [1e9; 3])).pairs.remove(0);
    assert_eq!((pair.verdict, pair.ci95), (Verdict::WithinNoise, Some([1.0, 1.0])));
}

#[test]
fn interleaved_blocks_are_compared_by_ratios() {
    let design = ComparisonDesign { is_interleaved: true, ..ComparisonDesign::default() };
    // All rates decrease by 2 % from run to run, in the order A B B A; B is 10 % faster.
    let rate = |turn: &usize| 1e9 * 0.98f64.powi(*turn as i32);
    let compared = |turns_of_a: &[usize], turns_of_b: &[usize]| {
        let a = runs("A", turns_of_a.iter().map(rate));
        let b = runs("B", turns_of_b.iter().map(|turn| 1.1 * rate(turn)));
        super::super::compare(&a, &b, design, &registry()).pairs.remove(0)
    };
    // The last run of A belongs to an incomplete block.
    let pair = compared(&[0, 3, 4, 7, 8, 11, 12], &[1, 2, 5, 6, 9, 10]);
    assert_eq!((pair.verdict, pair.basis), (Verdict::Faster, Some(SpreadBasis::Blocks)));
    let [low, high] = pair.ci95.unwrap();
    assert!((low - 1.1).abs() < 1e-9 && (high - 1.1).abs() < 1e-9, "{low} {high}");
    assert!((pair.ratio.unwrap() - 1.1).abs() < 1e-9, "{:?}", pair.ratio);
    let two_blocks = compared(&[0, 3, 4, 7], &[1, 2, 5, 6]);
    assert_eq!((two_blocks.verdict, two_blocks.ci95), (Verdict::CannotTell, None));
}

#[test]
fn spread_uses_only_runs_of_the_same_setting() {
    let basis = |change: &dyn Fn(&mut Record)| {
        let [mut a, mut b] = sides(triad(&[1e9; 8]), triad(&[1.1e9; 8]));
        a.others.iter_mut().chain(&mut b.others).for_each(change);
        compare(&a, &b).pairs[0].basis
    };
    assert_eq!(basis(&|_| ()), Some(SpreadBasis::History));
    assert_eq!(basis(&|run| run.command.push("--label=x".to_owned())), Some(SpreadBasis::History));
    assert_eq!(basis(&|run| run.command.push("--threads=4".to_owned())), None);
    assert_eq!(basis(&|run| run.tool.version = "0.2.0".to_owned()), None);
    assert_eq!(basis(&|run| run.machine.kernel = Some("Linux 6.12".to_owned())), None);
    assert_eq!(basis(&|run| run.id = "A".to_owned()), None);
}

#[test]
fn suspect_runs_are_excluded_if_valid_runs_exist() {
    let suspect = |rate: f64| {
        let mut m = triad(&[rate]);
        m.validity.mark_suspect("the clock fell");
        vec![m]
    };
    let b = runs("B", [1.1e9; 3]);
    let compared = |a: &Side, accept_suspect| {
        let design = ComparisonDesign { accept_suspect, ..ComparisonDesign::default() };
        super::super::compare(a, &b, design, &registry()).pairs.remove(0)
    };
    let mut some = runs("A", [1e9; 4]);
    some.runs[3].measurements = suspect(2e9);
    let pair = compared(&some, false);
    assert_eq!((pair.verdict, pair.a.runs), (Verdict::Faster, 3));
    assert_eq!(texts(&pair), ["1 of 4 runs of A is suspect and left out: the clock fell"]);
    let accepted = compared(&some, true);
    assert_eq!((accepted.a.runs, accepted.suspect.as_ref()), (4, None));
    assert_eq!(texts(&accepted), ["A is suspect: the clock fell"]);
    let mut all = some;
    all.runs.iter_mut().for_each(|run| run.measurements = suspect(1e9));
    let doubted = compared(&all, false);
    assert_eq!((doubted.verdict, doubted.a.runs), (Verdict::CannotTell, 4));
    assert_eq!(doubted.suspect.as_deref(), Some("A is suspect: the clock fell"));
}
