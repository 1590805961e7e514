//! Tests of verdicts on runs with noise: recorded runs, blocks of alternating runs, suspect runs.

use super::*;

/// Returns the Triad figures of eight runs with the same setting, in B/s, with the round trips. They were recorded half
/// a minute apart in a virtual machine with two Zen 5 CPUs on a shared host.
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
fn recorded_runs_that_are_pooled_are_told_from_a_faster_setting() {
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
