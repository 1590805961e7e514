use super::*;
use crate::Unit;
use crate::record::{Disturbed, Limit};
use crate::samples::{PASSES, SAMPLES};

fn sampled(quoted: Quoted, samples: &[f64]) -> Measurement {
    Measurement::new("messages", "mpi", "latency", Unit::Seconds).sampled(quoted, samples.to_vec())
}

fn rate(quoted: Quoted, samples: &[f64]) -> Measurement {
    Measurement::new("memory", "mix", "1:1", Unit::BytesPerSecond).sampled(quoted, samples.to_vec())
}

#[test]
fn a_mean_of_few_scattered_batches_is_suspect() {
    // Batches of 8 B over Open MPI on a busy node: the mean was printed as valid, with two to three times the latency of
    // the neighbouring sizes.
    let busy = [0.357e-6, 0.42e-6, 0.48e-6, 0.511e-6, 0.9e-6, 1.4e-6, 4.079e-6];
    let doubts = of_samples(&sampled(Quoted::Mean, &busy), SAMPLES);
    assert_eq!(doubts, ["the 95 % interval of the samples reaches more than 10 % from the mean"]);
    assert!(!of_samples(&sampled(Quoted::Median, &busy), SAMPLES).is_empty());
}

#[test]
fn fewer_samples_than_the_table_requires_are_too_few() {
    let even = [1.0, 1.01, 1.0, 1.0, 1.01, 1.0];
    for rule in DOUBT_RULES {
        for quoted in rule.quoted {
            let of = |n: usize| of_samples(&sampled(*quoted, &even[..n]), PASSES);
            assert_eq!(of(rule.least), Vec::<String>::new(), "{quoted:?}");
            let reason = of(rule.least - 1).remove(0);
            let begin = format!("{} passes count: too few, the ", rule.least - 1);
            assert!(reason.starts_with(&begin), "{reason}");
        }
    }
    let one = of_samples(&sampled(Quoted::Median, &even[..1]), PASSES).remove(0);
    assert!(one.starts_with("1 pass counts: too few, the median needs at least 6"), "{one}");
    assert!(of_samples(&sampled(Quoted::Median, &[]), PASSES).is_empty());
}

#[test]
fn single_values_and_factors_are_exempt() {
    for quoted in [Quoted::Single, Quoted::GeometricMean] {
        assert_eq!(rule_of(quoted), None);
        assert!(of_samples(&sampled(quoted, &[1.0, 9.0]), SAMPLES).is_empty());
    }
    // Every statistic either has a row or is exempt.
    let rows: usize = DOUBT_RULES.iter().map(|rule| rule.quoted.len()).sum();
    assert_eq!(rows, 4);
}

#[test]
fn a_best_that_no_other_sample_approaches_is_suspect() {
    let others = [50.0, 51.0, 52.0, 50.5];
    let of = |best: f64| [&others[..], &[best]].concat();
    assert!(of_samples(&rate(Quoted::Best, &of(57.0)), PASSES).is_empty());
    let doubts = of_samples(&rate(Quoted::Best, &of(60.0)), PASSES);
    assert_eq!(doubts, ["the second best of the passes is more than 10 % away"]);
    // For times, the least is the best.
    let times = sampled(Quoted::Best, &[1.0, 1.2, 1.2, 1.2, 1.2]);
    assert_eq!(of_samples(&times, PASSES).len(), 1);
}

#[test]
fn a_disturbed_sample_counts_for_the_best() {
    let mut m = rate(Quoted::Best, &[50.0, 50.0, 50.0, 50.0]);
    assert_eq!(of_samples(&m, PASSES).len(), 1);
    m.disturbed = vec![Disturbed { value: 49.0, counts: Counts::Best, ..Disturbed::default() }];
    assert!(of_samples(&m, PASSES).is_empty());
}

#[test]
fn a_rate_above_its_limit_is_suspect() {
    let above = |fraction: f64| {
        let mut m = rate(Quoted::Median, &[fraction * 10e9; 9]).limit(10e9, "read, interleaved");
        m.doubt_limit();
        m
    };
    assert_eq!(above(1.02).validity, super::super::Validity::valid());
    let m = above(1.07);
    assert_eq!(m.validity.status, Status::Suspect);
    let expected =
        "7 % above the limit of 10.00 GB/s (read, interleaved): the figure or the limit is wrong";
    assert_eq!(m.validity.reasons, [expected]);
    assert!(m.value.is_some());
    // A time above its limit is slow, and an invalid figure stays invalid.
    let mut slow = sampled(Quoted::Median, &[2.0; 9]).limit(1.0, "x");
    slow.doubt_limit();
    assert_eq!(slow.validity.status, Status::Valid);
    let mut invalid = above(1.0).missing("wrong result");
    invalid.limit = Some(Limit { value: 1.0, basis: String::new(), fraction: Fraction(9.0) });
    invalid.doubt_limit();
    assert_eq!(invalid.validity.reasons.len(), 1);
}

#[test]
fn reasons_have_their_evidence() {
    let cases = [
        ("the CPU quota of the control group throttled 144 of 147 periods", CauseEvidence::Counted),
        ("the hypervisor gave 12 % of the CPU time to other guests", CauseEvidence::Counted),
        ("3 corrected memory errors: mc0 during the run", CauseEvidence::Counted),
        (
            "other load took 36 % of the time of a thread during the solution",
            CauseEvidence::Inferred,
        ),
        ("the clock of this process ran at 0.100 of the rate of the TSC", CauseEvidence::Counted),
        ("12 of 20 passes were disturbed", CauseEvidence::Inferred),
        ("the only pass was disturbed, so disturbed passes are included", CauseEvidence::Inferred),
        ("too few undisturbed rounds, so disturbed rounds count too", CauseEvidence::Inferred),
        ("other programs used the cores in every batch", CauseEvidence::Inferred),
        ("only 1 pass in the budget: use a larger --budget", CauseEvidence::Symptom),
        ("4 samples count: too few, the median needs at least 6", CauseEvidence::Symptom),
        (
            "the 95 % interval of the samples reaches more than 10 % from the mean",
            CauseEvidence::Symptom,
        ),
        ("the second best of the passes is more than 10 % away", CauseEvidence::Symptom),
        ("the median of the passes is uncertain by more than 5 %", CauseEvidence::Symptom),
        ("arrays are 0.5 times the last-level caches in use", CauseEvidence::Stated),
    ];
    for (reason, evidence) in cases {
        assert_eq!(CauseEvidence::of(reason), evidence, "{reason}");
    }
}

#[test]
fn the_table_of_the_method_is_that_of_the_code() {
    let chapter = include_str!("../../../../../docs/method.md");
    for rule in DOUBT_RULES {
        let names: Vec<&str> = rule.quoted.iter().map(|quoted| quoted.name()).collect();
        let share = rule.beyond.in_whole_percent();
        let begin = format!("| {} | {} | ", names.join(", "), rule.least);
        let row = chapter.lines().find(|line| line.starts_with(&begin));
        assert!(row.is_some_and(|row| row.contains(&share)), "{begin}");
    }
}
