use super::*;
use crate::Unit;
use crate::record::{DisturbedSample, Limit};

fn sampled(quoted: QuotedStatistic, samples: &[f64]) -> Measurement {
    Measurement::new("messages", "mpi", "latency", Unit::Seconds)
        .with_samples(quoted, samples.to_vec())
}

fn rate(quoted: QuotedStatistic, samples: &[f64]) -> Measurement {
    Measurement::new("memory", "mix", "1:1", Unit::BytesPerSecond)
        .with_samples(quoted, samples.to_vec())
}

#[test]
fn mean_of_few_scattered_samples_is_suspect() {
    // Latencies of batches of 8 B over Open MPI on a busy node. Their mean is two to three times the latency of the
    // neighbouring sizes.
    let busy = [0.357e-6, 0.42e-6, 0.48e-6, 0.511e-6, 0.9e-6, 1.4e-6, 4.079e-6];
    let doubts = samples_reason(&sampled(QuotedStatistic::Mean, &busy));
    assert_eq!(
        doubts.unwrap(),
        "the 95 % interval of the samples reaches more than 10 % from the mean"
    );
    assert!(samples_reason(&sampled(QuotedStatistic::Median, &busy)).is_some());
}

#[test]
fn too_few_samples_make_figure_suspect() {
    let even = [1.0, 1.01, 1.0, 1.0, 1.01, 1.0];
    for rule in DOUBT_RULES {
        for quoted in rule.quoted {
            let of = |n: usize| samples_reason(&sampled(*quoted, &even[..n]));
            assert_eq!(of(rule.min), None, "{quoted:?}");
            let reason = of(rule.min - 1).unwrap();
            let begin = format!("{} samples count: too few, the ", rule.min - 1);
            assert!(reason.starts_with(&begin), "{reason}");
        }
    }
    let one = samples_reason(&sampled(QuotedStatistic::Median, &even[..1])).unwrap();
    assert!(one.starts_with("1 sample counts: too few, the median needs at least 6"), "{one}");
    assert_eq!(samples_reason(&sampled(QuotedStatistic::Median, &[])), None);
}

#[test]
fn single_values_and_factors_are_exempt_from_doubt_rules() {
    for quoted in [QuotedStatistic::Single, QuotedStatistic::GeometricMean] {
        assert_eq!(doubt_rule(quoted), None);
        assert_eq!(samples_reason(&sampled(quoted, &[1.0, 9.0])), None);
    }
    // Every statistic either has a row or is exempt.
    let rows: usize = DOUBT_RULES.iter().map(|rule| rule.quoted.len()).sum();
    assert_eq!(rows, 4);
}

#[test]
fn best_sample_far_from_the_second_best_is_suspect() {
    let others = [50.0, 51.0, 52.0, 50.5];
    let of = |best: f64| [&others[..], &[best]].concat();
    assert_eq!(samples_reason(&rate(QuotedStatistic::Best, &of(57.0))), None);
    let doubts = samples_reason(&rate(QuotedStatistic::Best, &of(60.0)));
    assert_eq!(
        doubts.unwrap(),
        "the second best of the samples is more than 10 % away from the best"
    );
    // For times, the lowest is the best.
    let times = sampled(QuotedStatistic::Best, &[1.0, 1.2, 1.2, 1.2, 1.2]);
    assert!(samples_reason(&times).is_some());
}

#[test]
fn disturbed_sample_counts_for_the_best_value() {
    let mut m = rate(QuotedStatistic::Best, &[50.0, 50.0, 50.0, 50.0]);
    assert!(samples_reason(&m).is_some());
    m.disturbed = vec![DisturbedSample {
        value: 49.0,
        counts: SampleUse::Best,
        ..DisturbedSample::default()
    }];
    assert_eq!(samples_reason(&m), None);
}

#[test]
fn doubt_rule_applied_twice_adds_no_reason() {
    let few = || rate(QuotedStatistic::Best, &[50.0, 50.0]);
    let m = few().with_validity(Validity::valid());
    assert_eq!((m.validity.status, m.value), (Status::Suspect, Some(50.0)));
    let again = m.clone().with_validity(m.validity.clone());
    assert_eq!(again.validity.reasons.len(), 1);
    // Reasons of the gauge come first, and a stricter status is kept.
    let mut disturbed = Validity::valid();
    disturbed.mark_suspect("disturbed");
    let reasons = few().with_validity(disturbed).validity.reasons;
    assert_eq!((reasons[0].as_str(), reasons.len()), ("disturbed", 2));
    let invalid = few().without_value("wrong result");
    assert_eq!(invalid.validity.reasons, ["wrong result"]);
    // A later call removes no reason.
    let mut samples_reason = rate(QuotedStatistic::Best, &[50.0; 6]);
    samples_reason.doubt(Status::Suspect, "7 of 7 samples were disturbed");
    let later = samples_reason.with_validity(Validity::valid());
    assert_eq!(later.validity.status, Status::Suspect);
    assert_eq!(later.validity.reasons, ["7 of 7 samples were disturbed"]);
}

#[test]
fn figures_of_other_programs_are_exempt_from_doubt_rules() {
    let of = |category, engine: Option<&str>| {
        let mut m = rate(QuotedStatistic::Best, &[50.0]).with_category(category);
        m.config.extend(engine.map(|engine| ("engine".to_owned(), engine.into())));
        m.with_validity(Validity::valid()).validity.status
    };
    assert_eq!(of(Category::Standard, Some("stream.c")), Status::Valid);
    assert_eq!(of(Category::Reference, Some("xhpl")), Status::Valid);
    // Runs of a user's program are repeated and timed by this program.
    assert_eq!(of(Category::Reference, None), Status::Suspect);
    assert_eq!(of(Category::Variant, Some("native")), Status::Suspect);
    assert_eq!(of(Category::Transport, Some("native")), Status::Suspect);
}

#[test]
fn derived_figure_inherits_doubts() {
    let base = rate(QuotedStatistic::Best, &[50.0]).with_validity(Validity::valid());
    let factor = Measurement::new("memory", "sweep", "relative", Unit::Factor);
    let mut factor = factor.with_value(QuotedStatistic::Single, 2.0);
    factor.inherit_doubts(&base.validity, "baseline");
    factor.inherit_doubts(&base.validity, "baseline");
    assert_eq!((factor.validity.status, factor.validity.reasons.len()), (Status::Suspect, 1));
    assert!(factor.validity.reasons[0].starts_with("baseline: 1 sample counts: too few"));
    factor.inherit_doubts(&base.clone().without_value("wrong result").validity, "baseline");
    assert_eq!((factor.validity.status, factor.value), (Status::Invalid, None));
}

#[test]
fn rate_above_its_limit_is_suspect() {
    let above = |fraction: f64| {
        let mut m = rate(QuotedStatistic::Median, &[fraction * 10e9; 9])
            .with_limit(10e9, "read, interleaved");
        m.doubt_if_above_limit();
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
    let mut slow = sampled(QuotedStatistic::Median, &[2.0; 9]).with_limit(1.0, "x");
    slow.doubt_if_above_limit();
    assert_eq!(slow.validity.status, Status::Valid);
    let mut invalid = above(1.0).without_value("wrong result");
    invalid.limit = Some(Limit { value: 1.0, basis: String::new(), fraction: Fraction(9.0) });
    invalid.doubt_if_above_limit();
    assert_eq!(invalid.validity.reasons.len(), 1);
}

#[test]
fn evidence_is_recognised_from_reason() {
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
        (
            "the second best of the samples is more than 10 % away from the best",
            CauseEvidence::Symptom,
        ),
        ("the median of the passes is uncertain by more than 5 %", CauseEvidence::Symptom),
        ("arrays are 0.5 times the last-level caches in use", CauseEvidence::Stated),
    ];
    for (reason, evidence) in cases {
        assert_eq!(CauseEvidence::from_reason(reason), evidence, "{reason}");
    }
}

/// Returns a suspect figure with these reasons.
fn suspect(reasons: &[&str]) -> Measurement {
    let mut m = rate(QuotedStatistic::Single, &[1.0]);
    reasons.iter().for_each(|reason| m.validity.mark_suspect(*reason));
    m
}

const FEW: &str = "1 sample counts: too few, the best needs at least 5; use a larger --budget";
const LOAD: &str = "other load took 36 % of the time of a thread";
const QUOTA: &str = "the CPU quota of the control group throttled 144 of 147 periods";
const SMALL: &str = "arrays are 0.5 times the last-level caches in use";

#[test]
fn main_cause_explains_at_least_half_of_suspect_figures() {
    let cause = |figures: &[Measurement]| main_cause(figures).map(str::to_owned);
    assert_eq!(cause(&[rate(QuotedStatistic::Single, &[1.0])]), None);
    assert_eq!(cause(&[suspect(&[FEW]), suspect(&[FEW, LOAD])]).unwrap(), LOAD);
    assert_eq!(cause(&[suspect(&[FEW]), suspect(&[FEW]), suspect(&[FEW, LOAD])]).unwrap(), FEW);
    assert_eq!(cause(&[suspect(&[LOAD, QUOTA]), suspect(&[LOAD])]).unwrap(), QUOTA);
    assert_eq!(cause(&[suspect(&[LOAD, SMALL])]).unwrap(), SMALL);
}

#[test]
fn remedy_is_added_unless_reason_has_one() {
    assert_eq!(remedy(FEW), None);
    assert_eq!(remedy(LOAD), Some("repeat the run on an idle node"));
    assert_eq!(remedy(SMALL), None);
    let wide = "the 95 % interval of the samples reaches more than 10 % from the mean";
    assert_eq!(remedy(wide), Some("use a larger --budget or --samples"));
}

#[test]
fn method_chapter_contains_doubt_rules() {
    let chapter =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/method.md"))
            .unwrap();
    for rule in DOUBT_RULES {
        let names: Vec<&str> = rule.quoted.iter().map(|quoted| quoted.name()).collect();
        let share = rule.max_distance.in_whole_percent();
        let begin = format!("| {} | {} | ", names.join(", "), rule.min);
        let row = chapter.lines().find(|line| line.starts_with(&begin));
        assert!(row.is_some_and(|row| row.contains(&share)), "{begin}");
    }
}
