use super::*;
use crate::interference::Cause;
use crate::progress::SilentObserver;
use std::convert::Infallible;

const FOREVER: Duration = Duration::from_secs(3600);

fn turns(
    policy: RepetitionPolicy,
    limits: RunLimits,
    cells: usize,
) -> (Vec<Turn>, Schedule, StopReason) {
    let mut schedule = Schedule::new(policy, limits, cells);
    let mut seen = Vec::new();
    let stop = schedule
        .run(&mut SilentObserver, None, |turn| {
            seen.push(turn);
            Ok::<_, Infallible>(vec![Sample::from_times(vec![1.0])])
        })
        .unwrap();
    (seen, schedule, stop)
}

#[test]
fn requested_samples_exclude_warm_up() {
    for policy in [policy::STREAM, policy::SWEEP, policy::CURVES, policy::EXPLAIN] {
        let (seen, schedule, stop) = turns(policy, RunLimits::new(Duration::ZERO, Some(4)), 3);
        assert_eq!((seen.len(), stop), (15, StopReason::Samples));
        assert!(schedule.samples.iter().all(|samples| samples.len() == 5));
        assert_eq!(seen.last().unwrap().remaining, Some(1));
    }
}

#[test]
fn baseline_precedes_each_other_cell() {
    let limits = RunLimits::new(Duration::ZERO, None);
    let (seen, ..) = turns(policy::COMPILED_LOOPS, limits, 4);
    assert!(!seen.is_empty());
    for pair in seen.chunks(2) {
        assert!(pair[0].cell == 0 && pair[1].cell != 0, "{pair:?}");
    }
}

#[test]
fn cells_follow_order_of_policy() {
    let cells = |policy| {
        let (seen, ..) = turns(policy, RunLimits::new(FOREVER, Some(4)), 5);
        seen.iter().map(|turn| turn.cell).collect::<Vec<usize>>()
    };
    for policy in [policy::STREAM, policy::FILES, policy::OSU, policy::ICCG] {
        let order = cells(policy);
        assert!(order.chunks(5).all(|round| round == [0, 1, 2, 3, 4]), "{policy:?} {order:?}");
    }
    for policy in [policy::SWEEP, policy::EXPLAIN, policy::CURVES, policy::APPS] {
        let order = cells(policy);
        let mut rounds: Vec<&[usize]> = order.chunks(5).collect();
        rounds.dedup();
        assert!(rounds.len() > 1, "{policy:?} {order:?}");
    }
}

#[test]
fn shuffled_orders_are_uniform() {
    for seed in [0, 1, policy::SWEEP.seed] {
        let mut shuffler = Shuffler::new(seed);
        let mut times = std::collections::BTreeMap::new();
        for _ in 0..2400 {
            let mut items = [0, 1, 2, 3];
            shuffler.shuffle(&mut items);
            *times.entry(items).or_insert(0) += 1;
        }
        // A deviation of five standard deviations is 49.
        assert_eq!(times.len(), 24);
        assert!(times.values().all(|n| (50..150).contains(n)), "{times:?}");
    }
}

#[test]
fn minimum_rounds_are_measured_despite_time() {
    for policy in [policy::STREAM, policy::SWEEP, policy::CURVES] {
        let (_, schedule, stop) = turns(policy, RunLimits::new(Duration::ZERO, None), 2);
        assert_eq!(stop, StopReason::Budget);
        // The first round is the warm-up.
        assert_eq!(schedule.samples[0].len(), policy.min_rounds + 1, "{policy:?}");
    }
}

#[test]
fn cell_without_samples_does_not_prevent_the_end_of_the_run() {
    let mut schedule = Schedule::new(policy::SWEEP, RunLimits::new(Duration::ZERO, Some(3)), 2);
    let stop = schedule.run(&mut SilentObserver, None, |turn| {
        let gives = turn.cell == 0 || turn.round == 0;
        Ok::<_, Infallible>(if gives { vec![Sample::from_times(vec![1.0])] } else { vec![] })
    });
    assert_eq!(stop, Ok(StopReason::Samples));
    assert_eq!(schedule.samples.iter().map(Vec::len).collect::<Vec<_>>(), [4, 1]);
    assert_eq!(schedule.rounds().len(), 0);
}

#[test]
fn stable_cell_ends_before_unstable_cell() {
    let limits = RunLimits::new(Duration::from_millis(100), None);
    let mut schedule = Schedule::new(policy::CURVES, limits, 2);
    let mut n = 0u32;
    let stop = schedule.run(&mut SilentObserver, None, |turn| {
        n += 1;
        clock::advance_clock(Duration::from_micros(200));
        // Multiples of the golden ratio, modulo 1, spread the values evenly between 1 and 2.
        let scattered = 1.0 + (f64::from(n) * 0.618_034).fract();
        let time = if turn.cell == 0 { 1.0 } else { scattered };
        Ok::<_, Infallible>(vec![Sample::from_times(vec![time])])
    });
    assert_eq!(stop, Ok(StopReason::Budget));
    assert!(schedule.samples[0].len() < schedule.samples[1].len());
}

#[test]
fn samples_are_kept_after_interruption_or_error() {
    struct After(std::cell::Cell<u32>);
    impl Observer for After {
        fn begin_phase(&mut self, _: &str) {}
        fn report_progress(&mut self, _: f64, _: &str) {}
        fn is_interrupted(&self) -> bool {
            self.0.set(self.0.get() + 1);
            self.0.get() > 5
        }
    }
    let limits = RunLimits::new(Duration::from_secs(9), None);
    let mut schedule = Schedule::new(policy::CURVES, limits, 3);
    let one = |_| Ok::<_, &str>(vec![Sample::from_times(vec![1.0])]);
    assert_eq!(
        schedule.run(&mut After(Default::default()), None, one),
        Ok(StopReason::Interrupted)
    );
    assert_eq!(schedule.samples.iter().map(Vec::len).sum::<usize>(), 5);
    let failing = schedule.run(&mut SilentObserver, None, |_| Err("gone"));
    assert_eq!(failing, Err("gone"));
    assert_eq!(schedule.samples.iter().map(Vec::len).sum::<usize>(), 5);
}

#[test]
fn disturbed_measurement_is_repeated() {
    let mut n = 0;
    let mut count = || {
        n += 1;
        Ok::<i32, Infallible>(n)
    };
    assert_eq!(repeat_until_undisturbed(3, |x| *x < 2, &mut count), Ok(2));
    assert_eq!(repeat_until_undisturbed(3, |_| true, &mut count), Ok(5));
}

#[test]
fn progress_of_requested_samples_follows_turns() {
    struct Progress(Vec<f64>);
    impl Observer for Progress {
        fn begin_phase(&mut self, _: &str) {}
        fn report_progress(&mut self, share: f64, _: &str) {
            self.0.push(share);
        }
        fn is_interrupted(&self) -> bool {
            false
        }
    }
    let mut progress = Progress(Vec::new());
    let mut schedule = Schedule::new(policy::FILES, RunLimits::new(FOREVER, Some(3)), 2);
    let one = |_| Ok::<_, Infallible>(vec![Sample::from_times(vec![1.0])]);
    schedule.run(&mut progress, None, one).unwrap();
    let turns = 3 * 2 + 2 * usize::from(policy::FILES.warm_up == WarmUp::Round);
    let first = progress.0.first().unwrap();
    assert!((first - 1.0 / turns as f64).abs() < 1e-9, "{:?}", progress.0);
    assert!(progress.0.is_sorted() && progress.0.last() == Some(&1.0), "{:?}", progress.0);
}

#[test]
fn files_run_ends_by_time_or_after_requested_samples() {
    let (seen, _, stop) = turns(policy::FILES, RunLimits::new(Duration::ZERO, Some(3)), 2);
    assert_eq!((seen.len(), stop), (0, StopReason::Budget));
    let limits = RunLimits::new(Duration::from_secs(3600), Some(3));
    let (late_seen, _, late_stop) = turns(policy::FILES, limits, 2);
    assert_eq!((late_seen.len(), late_stop), (6, StopReason::Samples));
}

#[test]
fn disturbed_rounds_are_repeated_within_limit() {
    for (moved, rounds, clean) in [(2, 5, 3), (usize::MAX, 9, 0)] {
        let mut schedule = Schedule::new(policy::OSU, RunLimits::new(FOREVER, Some(3)), 1);
        let stop = schedule.run(&mut SilentObserver, None, |turn| {
            assert_eq!(
                turn.remaining,
                Some(3usize.saturating_sub(turn.round.saturating_sub(moved)))
            );
            let mut sample = Sample::from_times(vec![1.0]);
            sample.causes.extend((turn.round < moved).then_some(Cause::Moved));
            Ok::<_, Infallible>(vec![sample])
        });
        assert_eq!(stop, Ok(StopReason::Samples));
        assert_eq!((schedule.rounds().len(), schedule.undisturbed_rounds().len()), (rounds, clean));
    }
}

/// Simulates a run of `cells` cells with the given times of the setup, of each measurement, and of
/// the check at the end. Returns the elapsed seconds and the smallest number of samples of a cell.
fn simulated(
    policy: RepetitionPolicy,
    budget: f64,
    cells: usize,
    [set_up, turn, check]: [f64; 3],
) -> (f64, usize) {
    let seconds = Duration::from_secs_f64;
    let mut limits = RunLimits::new(seconds(budget), None);
    clock::advance_clock(seconds(set_up));
    limits.reserve = seconds(check);
    let mut schedule = Schedule::new(policy, limits, cells);
    let mut n = 0.0;
    let stop = schedule.run(&mut SilentObserver, None, |_| {
        clock::advance_clock(seconds(turn));
        n += 0.618_034;
        Ok::<_, Infallible>(vec![Sample::from_times(vec![1.0 + f64::fract(n)])])
    });
    assert!(matches!(stop, Ok(StopReason::Budget | StopReason::Stable)));
    clock::advance_clock(seconds(check));
    let fewest = schedule.samples.iter().map(Vec::len).min().unwrap();
    (limits.elapsed().as_secs_f64(), fewest)
}

#[test]
fn budget_includes_setup_and_slow_turns() {
    let policies = [
        policy::STREAM,
        policy::SWEEP,
        policy::EXPLAIN,
        policy::COMPILED_LOOPS,
        policy::STANDARD_STREAM,
        policy::CURVES,
    ];
    for policy in policies {
        for budget in [3.0, 5.0, 20.0, 60.0] {
            for share in [[0.0, 0.001, 0.0], [0.3, 0.01, 0.1], [0.5, 0.05, 0.05], [0.3, 0.02, 0.2]]
            {
                let cells = if policy == policy::STREAM { 1 } else { 4 };
                let times = share.map(|share| share * budget);
                let (took, fewest) = simulated(policy, budget, cells, times);
                let grace = (0.1 * budget).max(1.0);
                let min = 1 + usize::from(policy.warm_up == WarmUp::Round);
                let within = took <= budget + grace && fewest >= min;
                assert!(within, "{policy:?}\n{budget} s, {times:?}: took {took}, {fewest} samples");
            }
        }
    }
}

#[test]
fn exceeded_budget_has_notice() {
    let limits = RunLimits::new(Duration::from_secs(5), None);
    clock::advance_clock(Duration::from_secs_f64(5.9));
    assert_eq!(limits.overrun_notice("memory", Duration::ZERO), None);
    clock::advance_clock(Duration::from_secs_f64(6.4));
    let reported = limits.overrun_notice("memory", Duration::from_secs(9)).unwrap();
    assert_eq!(reported.id, NoticeId::Budget);
    assert_eq!(reported.message, "budget exceeded: 12.3 s instead of 5.0 s (9.0 s for setup)");
    assert_eq!(
        RunLimits { samples: Some(3), ..limits }.overrun_notice("memory", Duration::ZERO),
        None
    );
    let asked = RunLimits { is_set_by_user: true, ..limits };
    assert!(asked.is_exceeded());
    assert!(asked.overrun_notice("memory", Duration::ZERO).is_some());
    assert!(!limits.is_exceeded());
    assert!(!RunLimits { samples: Some(3), ..asked }.is_exceeded());
}

/// Runs a schedule of four cells, each turn of which takes `turn`. Returns the number of samples of each cell.
fn late(limits: RunLimits, turn: Duration) -> (Vec<usize>, StopReason) {
    let mut schedule = Schedule::new(policy::NUMA_MATRIX, limits, 4);
    let stop = schedule.run(&mut SilentObserver, None, |_| {
        clock::advance_clock(turn);
        Ok::<_, Infallible>(vec![Sample::from_times(vec![1.0])])
    });
    (schedule.samples.iter().map(Vec::len).collect(), stop.unwrap())
}

#[test]
fn only_explicit_budget_omits_cells_of_late_run() {
    let asked = |seconds| {
        RunLimits::from_budget(Budget::new(Some(Duration::from_secs(seconds)), FOREVER), None)
    };
    // The first rounds of four cells would take several times the budget.
    let warm_up = usize::from(policy::NUMA_MATRIX.warm_up == WarmUp::Round);
    let (samples, stop) = late(asked(10), Duration::from_secs(9));
    assert_eq!(stop, StopReason::Budget);
    let counted: usize = samples.iter().map(|n| n.saturating_sub(warm_up)).sum();
    assert!((1..4).contains(&counted), "{samples:?}");
    // A default budget and a number of samples leave no cell out.
    let usual = RunLimits { is_set_by_user: false, ..asked(10) };
    for limits in [usual, RunLimits { samples: Some(1), ..asked(10) }] {
        let (whole, _) = late(limits, Duration::from_secs(9));
        assert!(whole.iter().all(|n| *n > warm_up), "{whole:?}");
    }
}

#[test]
fn late_run_notice_names_cause() {
    let limits = RunLimits::new(Duration::from_secs(10), None);
    clock::advance_clock(Duration::from_secs_f64(20.0));
    let reported = limits.overrun_notice("memory", Duration::from_secs(3)).unwrap().message;
    assert!(reported.starts_with("budget exceeded: 20.0 s instead of 10.0 s (3.0 s for setup, "));
    assert!(
        reported.ends_with("and measuring took longer than predicted, e.g. because of other load)")
    );
}

#[test]
fn prediction_ends_in_time_for_refusal() {
    let time = Duration::from_secs(10);
    let asked = RunLimits::from_budget(Budget::new(Some(time), FOREVER), None);
    let usual = RunLimits::from_budget(Budget::new(None, time), None);
    assert!(!asked.must_end_prediction());
    clock::advance_clock(Duration::from_millis(1600));
    assert!(asked.must_end_prediction());
    // A default budget and a number of samples are not refused.
    assert!(!usual.must_end_prediction());
    assert!(!RunLimits { samples: Some(3), ..asked }.must_end_prediction());
}
