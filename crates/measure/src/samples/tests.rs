use super::*;
use crate::Fraction;
use crate::record::{Measurement, QuotedStatistic, SampleUse};
use crate::unit::Unit;

fn sample(seconds: f64, before: f64, after: f64, causes: Vec<Cause>) -> Sample {
    Sample { round_trips: (before, after), causes, ..Sample::from_times(vec![seconds]) }
}

const NEAR: f64 = 115e-9;
const FAR: f64 = 390e-9;

#[test]
fn unmeasured_sample_is_not_recorded() {
    // The threads did not run at the same time in the warm-up and in the fourth sample.
    let mut samples = vec![sample(2e-7, NEAR, NEAR, vec![]); 8];
    for unmeasured in [0, 3] {
        samples[unmeasured].seconds = vec![f64::NAN];
    }
    let sorted = assign_regimes(&samples);
    let group = sorted.headline().unwrap();
    assert_eq!(group.all, [1, 2, 4, 5, 6, 7]);
    assert!(sorted.excluded.is_empty());
    let cell = CellSamples { samples: &samples, sorted: &sorted, group };
    let m = Measurement::new("memory", "matrix", "cpu0->cpu1", Unit::Seconds);
    let m = m.with_timed_samples(QuotedStatistic::Median, cell, 0, &|seconds| seconds);
    assert_eq!((m.value, m.samples.len(), m.disturbed.len()), (Some(2e-7), 6, 0));
    let json = serde_json::to_string(&m).unwrap();
    assert_eq!(serde_json::from_str::<Measurement>(&json).unwrap(), m);
    // Without a measured sample, there is no figure.
    let never = vec![sample(f64::INFINITY, NEAR, NEAR, vec![]); 3];
    assert!(assign_regimes(&never).headline().is_none());
}

#[test]
fn fastest_regime_gives_the_headline() {
    let mut samples = vec![sample(9.0, FAR, FAR, vec![])];
    for _ in 0..6 {
        samples.push(sample(2.0, NEAR, NEAR, vec![]));
        samples.push(sample(1.0, FAR, FAR, vec![]));
    }
    samples.push(sample(1.5, NEAR, FAR, vec![]));
    samples.push(sample(5.0, FAR, FAR, vec![Cause::Faults(99)]));
    let sorted = assign_regimes(&samples);
    assert_eq!(sorted.groups.len(), 2);
    let headline = sorted.headline().unwrap();
    let rate = |seconds: f64| 10.0 / seconds;
    assert_eq!(headline.values(&samples, 0, &rate), [10.0; 6]);
    let why: Vec<usize> = sorted.excluded.iter().map(|(i, _)| *i).collect();
    assert_eq!((&why[..], headline.disturbed_count(&samples, 0)), (&[0, 13][..], (1, false)));
    let regimes = sorted.regimes(&samples, 0, BetterDirection::Higher, &rate);
    assert!(
        (regimes[0].share - Fraction(7.0 / 13.0)).0.abs() < 1e-9 && regimes[1].summary.best == 5.0
    );
}

#[test]
fn disturbed_part_counts_only_for_the_best_value() {
    let part = |copy, triad, cause: [Option<Cause>; 2]| Sample {
        round_trips: (NEAR, NEAR),
        part_causes: cause.map(|cause| cause.into_iter().collect()).to_vec(),
        ..Sample::from_times(vec![copy, triad])
    };
    let mut samples = vec![part(2.0, 3.0, [None, None]); 9];
    // In one pass, the fastest Copy was slightly disturbed in one thread; Triad was not disturbed.
    samples.push(part(1.9, 3.1, [Some(Cause::Faults(99)), None]));
    let sorted = assign_regimes(&samples);
    let group = sorted.headline().unwrap();
    assert_eq!((group.counted_indices(0).len(), group.counted_indices(1).len()), (8, 9));
    let figure = |index| {
        Measurement::new("memory", "stream", "x", Unit::BytesPerSecond).with_timed_samples(
            QuotedStatistic::Best,
            CellSamples { samples: &samples, sorted: &sorted, group },
            index,
            &|seconds| 57.0 / seconds,
        )
    };
    let (copy, triad) = (figure(0), figure(1));
    assert_eq!(
        (copy.value, copy.summary.as_ref().map(|s| (s.n, s.median))),
        (Some(30.0), Some((8, 28.5)))
    );
    let counts = |m: &Measurement| m.disturbed.iter().map(|d| d.counts).collect::<Vec<_>>();
    assert_eq!(counts(&copy), [SampleUse::Nothing, SampleUse::Best]);
    assert_eq!((counts(&triad), triad.samples.len()), (vec![SampleUse::Nothing], 9));
    assert_eq!(copy.samples_at_s.len(), 8);
    assert_eq!(copy.samples_round_trip_s[0], [Some(NEAR); 2]);
}

#[test]
fn best_sample_is_chosen_within_its_regime() {
    let mut samples = vec![sample(2.0, NEAR, NEAR, vec![]); 30];
    // These samples are faster, but the CPUs were in another regime or were moved.
    samples.push(sample(1.0, FAR, FAR, vec![Cause::Faults(99)]));
    samples.push(sample(1.0, NEAR, FAR, vec![]));
    let sorted = assign_regimes(&samples);
    let best = sorted
        .headline()
        .unwrap()
        .best(&samples, 0, BetterDirection::Higher, &|seconds| 1.0 / seconds);
    assert_eq!(best, 0.5);
}

#[test]
fn fast_regime_with_few_samples_does_not_give_the_headline() {
    let mut samples = vec![sample(2.0, NEAR, NEAR, vec![]); 30];
    samples.push(sample(1.0, FAR, FAR, vec![]));
    assert_eq!(assign_regimes(&samples).headline().unwrap().all.len(), 29);
    // Two samples are too few for statistics, even if they are a fifth of all samples.
    let mut few = vec![sample(2.0, NEAR, NEAR, vec![]); 9];
    few.extend(vec![sample(1.0, FAR, FAR, vec![]); 2]);
    let sorted = assign_regimes(&few);
    assert_eq!((sorted.groups.len(), sorted.headline().unwrap().all.len()), (2, 8));
}

#[test]
fn known_round_trips_separate_few_samples() {
    let samples = vec![
        sample(9.0, 90e-9, 90e-9, vec![]),
        sample(2.0, 90e-9, 120e-9, vec![]),
        sample(1.0, 250e-9, 350e-9, vec![]),
    ];
    let known = [[90e-9, 250e-9], [100e-9, 300e-9], [120e-9, 350e-9]].concat().repeat(10);
    let groups = |of_others: &[f64]| assign_regimes_with_known(&samples, of_others).groups.len();
    assert_eq!((groups(&[]), groups(&known)), (1, 2));
}

#[test]
fn samples_of_single_thread_are_one_group() {
    let samples = vec![sample(1.0, f64::NAN, f64::NAN, vec![]); 5];
    let sorted = assign_regimes(&samples);
    assert_eq!((sorted.groups.len(), sorted.sample_count()), (1, 4));
    assert!(sorted.regimes(&samples, 0, BetterDirection::Lower, &|seconds| seconds).is_empty());
}

#[test]
fn regime_change_in_every_pass_makes_figure_suspect() {
    let doubt = |samples: &[Sample], guest| {
        let sorted = assign_regimes(samples);
        let headline = sorted.headline().unwrap();
        assert_eq!(headline.counted_indices(0), [1, 2, 3]);
        sorted.interference_doubt(samples, headline, 0, PASS_NOUN, guest).unwrap()
    };
    let changing = vec![sample(1.0, 1e-7, 4e-7, vec![]); 4];
    assert!(doubt(&changing, true).starts_with("the hypervisor moved the CPUs in every pass, so "));
    assert!(!doubt(&changing, false).contains("moved"));
    // A round trip of a cache line cannot take milliseconds, so the regime of these samples is unknown.
    let scattered = vec![sample(1.0, 6e-3, 6e-3, vec![]); 4];
    for guest in [true, false] {
        assert!(doubt(&scattered, guest).starts_with("no two core-to-core round trips"));
    }
}

#[test]
fn disturbed_samples_count_if_all_are_disturbed() {
    let mut samples = vec![sample(1.0, 1e-7, 1e-7, vec![Cause::Stolen { ticks: 1 }]); 20];
    samples[7] = sample(0.5, 1e-7, 1e-7, vec![]);
    let sorted = assign_regimes(&samples);
    let group = sorted.headline().unwrap();
    assert_eq!(
        (group.counted_indices(0).len(), group.disturbed_count(&samples, 0)),
        (19, (18, true))
    );
    let m = Measurement::new("memory", "stream", "x", Unit::Seconds).with_timed_samples(
        QuotedStatistic::Median,
        CellSamples { samples: &samples, sorted: &sorted, group },
        0,
        &|seconds| seconds,
    );
    let reported = sorted.interference_doubt(&samples, group, 0, PASS_NOUN, false).unwrap();
    let all = m.disturbed.iter().filter(|d| d.counts == SampleUse::All).count();
    assert_eq!(
        reported,
        format!("{all} of 19 passes were disturbed, so disturbed passes are included")
    );
    assert_eq!(m.disturbed_samples().count(), all);
    assert_eq!(m.undisturbed_samples().collect::<Vec<_>>(), [(6, 0.5)]);
}

#[test]
fn reason_for_doubt_excludes_warm_up() {
    let mut samples = vec![sample(1.0, 1e-7, 1e-7, vec![Cause::Stolen { ticks: 1 }]); 14];
    for one in &mut samples[1..6] {
        *one = sample(0.5, 1e-7, 1e-7, vec![]);
    }
    let sorted = assign_regimes(&samples);
    let group = sorted.headline().unwrap();
    let of_cell = CellSamples { samples: &samples, sorted: &sorted, group };
    let m = Measurement::new("memory", "stream", "x", Unit::Seconds);
    let m = m.with_timed_samples(QuotedStatistic::Median, of_cell, 0, &|seconds| seconds);
    let disturbed = m.disturbed_samples().count();
    let all = m.undisturbed_samples().count() + disturbed;
    let reported = sorted.interference_doubt(&samples, group, 0, PASS_NOUN, false).unwrap();
    assert_eq!(reported, format!("{disturbed} of {all} passes were disturbed"));
    assert_eq!((disturbed, all), (8, 13));
}

#[test]
fn few_disturbed_passes_do_not_make_a_figure_suspect() {
    let mut samples = vec![sample(1.0, 1e-7, 1e-7, vec![]); 14];
    for one in &mut samples[1..6] {
        *one = sample(1.5, 1e-7, 1e-7, vec![Cause::Stolen { ticks: 1 }]);
    }
    let sorted = assign_regimes(&samples);
    let group = sorted.headline().unwrap();
    assert_eq!(sorted.interference_doubt(&samples, group, 0, PASS_NOUN, false), None);
}

#[test]
fn clean_round_has_undisturbed_cells_of_one_regime() {
    let sample = |trip, causes| super::tests::sample(1.0, trip, trip, causes);
    let (near, far, none) = (90e-9, 380e-9, f64::NAN);
    let preempted = || vec![Cause::Faults(99)];
    let round = |first: Vec<Cause>, trips: [f64; 2]| {
        vec![sample(none, first), sample(trips[0], vec![]), sample(trips[1], vec![])]
    };
    let mut rounds = vec![round(preempted(), [near, near]); 4];
    rounds.extend(vec![round(vec![], [near, far]); 3]);
    rounds.extend(vec![round(vec![], [far, far]); 2]);
    rounds[0][1].causes = preempted();
    assert_eq!(undisturbed_round_numbers(&rounds, &[false, true, true]), [1, 2, 3]);
    assert_eq!(undisturbed_round_numbers(&rounds[..1], &[false, true, true]), Vec::<usize>::new());
}

/// Simulates passes of four kernels, each of which is disturbed independently with a probability of
/// 1/8. More samples count if each kernel is judged separately than if whole passes are judged.
#[test]
fn kernels_are_judged_separately() {
    let mut state = 1u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let pass = |generator: &mut dyn FnMut() -> f64| {
        let kernels: Vec<(f64, bool)> =
            (0..4).map(|_| (1.0 + 0.05 * generator(), generator() < 0.125)).collect();
        let cause = |(_, disturbed): &(f64, bool)| {
            disturbed.then_some(Cause::Faults(99)).into_iter().collect()
        };
        Sample {
            part_causes: kernels.iter().map(cause).collect(),
            ..Sample::from_times(kernels.iter().map(|(seconds, _)| *seconds).collect())
        }
    };
    let samples: Vec<Sample> = (0..2001).map(|_| pass(&mut random)).collect();
    let sorted = assign_regimes(&samples);
    let group = sorted.headline().unwrap();
    let whole =
        samples[1..].iter().filter(|sample| sample.is_undisturbed()).count() as f64 / 2000.0;
    assert!((0.55..0.62).contains(&whole), "{whole}");
    for part in 0..4 {
        let counted = group.counted_indices(part).len() as f64 / 2000.0;
        assert!((0.85..0.90).contains(&counted), "{counted}");
        let truly = samples[1..].iter().map(|sample| sample.seconds[part]).reduce(f64::min);
        assert_eq!(
            Some(group.best(&samples, part, BetterDirection::Lower, &|seconds| seconds)),
            truly
        );
    }
}
