//! Selection of as many working sets of a curve as the time permits. The selection is made during the set-up, from the
//! durations of the previous working sets.
//!
//! Both ends of a curve are important. The small working sets are set up first, because they take almost no time
//! compared with the largest one. The largest working set, which shows main memory, is next and is always measured. It
//! is followed by one working set per octave in ascending order, and finally by the working sets between these. A
//! working set for which there is not enough time is omitted; smaller working sets after it may still be measured.

use nodegauge_measure::schedule::RemainingTime;
use nodegauge_measure::{Bytes, Notice, NoticeId, Observer, clock};
use std::collections::BTreeMap;
use std::time::Duration;

/// Ratio of the largest working set to the largest small one. All small working sets together take an eighth of the
/// time of the largest working set.
const SMALL: u64 = 32;
/// Assumed maximum ratio between the times per byte of successive working sets. At the end of a memory level, the time
/// per byte rises by a larger ratio, but the rise extends over several sizes.
const STEEPER: f64 = 1.5;

/// Maximum number of omitted working sets that are listed individually in the notice.
const MAX_LISTED: usize = 6;

/// Cell that has been set up, with the durations of the set-up and of one measurement.
struct PreparedCell<T> {
    it: T,
    set_up: Duration,
    turn: Duration,
}

/// Sets up as many of these ascending working sets of a thread as `time` allows, at least one. Adds a notice about the
/// omitted working sets, with their sizes for all `threads`. `set_up` creates the cell of a working set, measures it once as a warm-up, and returns the duration of
/// that measurement. Ends early if the user interrupts the run. Returns the cells by index of the working set.
///
/// # Errors
/// Fails with the first error of `set_up`.
pub(crate) fn set_up<T, E>(
    sets: &[u64],
    threads: u64,
    mut time: RemainingTime,
    observer: &mut dyn Observer,
    notices: &mut Vec<Notice>,
    mut set_up: impl FnMut(usize) -> Result<(T, Duration), E>,
) -> Result<BTreeMap<usize, T>, E> {
    let mut cells: BTreeMap<usize, PreparedCell<T>> = BTreeMap::new();
    for (done, i) in setup_order(sets).into_iter().enumerate() {
        if done > 0 && observer.is_interrupted() {
            break;
        }
        observer.report_progress(done as f64 / sets.len() as f64, "");
        let smaller = cells.range(..i).next_back().filter(|_| i + 1 < sets.len());
        if let Some((smaller, known)) = smaller {
            let longer = STEEPER * sets[i] as f64 / sets[*smaller] as f64;
            if !time.allows(known.set_up.mul_f64(longer), known.turn.mul_f64(longer)) {
                continue;
            }
        }
        let begun = clock::now();
        let (it, turn) = match set_up(i) {
            // The cells that are already set up are kept.
            Err(_) if done > 0 && observer.is_interrupted() => break,
            result => result?,
        };
        cells.insert(i, PreparedCell { it, set_up: clock::now() - begun, turn });
        time.accept(turn);
    }
    if !observer.is_interrupted() {
        notices.extend(left_out(sets, threads, &cells));
    }
    Ok(cells.into_iter().map(|(i, cell)| (i, cell.it)).collect())
}

/// Returns the indices of the ascending `sets` in the order in which the sets are set up, most important first.
fn setup_order(sets: &[u64]) -> Vec<usize> {
    let largest = sets.last().copied().unwrap_or(0);
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|i| (class(sets[*i], largest), *i));
    order
}

/// Returns the priority class of a working set; lower classes are set up first.
fn class(set: u64, largest: u64) -> u32 {
    match set {
        set if set <= largest / SMALL => 0,
        set if set == largest => 1,
        set if set.is_power_of_two() => 2,
        _ => 3,
    }
}

/// Returns a notice about the working sets that were omitted for lack of time, with their sizes for all `threads`;
/// `None` if all were measured.
fn left_out<T>(sets: &[u64], threads: u64, taken: &BTreeMap<usize, T>) -> Option<Notice> {
    let left_out = (0..sets.len()).filter(|i| !taken.contains_key(i));
    let left_out: Vec<Bytes> = left_out.map(|i| Bytes(sets[i] * threads)).collect();
    let which = match left_out[..] {
        [] => return None,
        [first, .., last] if left_out.len() > MAX_LISTED => format!("{first} to {last}"),
        _ => left_out.iter().map(Bytes::to_string).collect::<Vec<_>>().join(", "),
    };
    let some = left_out.len();
    let all = sets.len();
    let text =
        format!("no time left for {some} of {all} working sets ({which}); use a longer --budget");
    Some(super::notice(NoticeId::Budget, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::sizes;
    use nodegauge_measure::progress::SilentObserver;
    use nodegauge_measure::samples::Sample;
    use nodegauge_measure::schedule::{RunLimits, Schedule, WarmUp, policy};
    use std::convert::Infallible;

    /// Simulates a run of `budget` seconds on a machine whose caches hold 32 KiB, 1 MiB and 32 MiB. The set-up takes
    /// `byte` seconds per byte; a measurement takes a multiple of it that depends on the memory level of the working
    /// set. Returns the measured working sets and the duration of the run.
    fn run(budget: f64, byte: f64) -> (Vec<u64>, f64) {
        let sets = sizes(512 << 20, false);
        let pass = |seconds: f64| clock::advance_clock(Duration::from_secs_f64(seconds));
        let turn = |set: u64| {
            let level = [32 << 10, 1 << 20, 32 << 20].iter().filter(|cache| set > **cache).count();
            1e-3 + set as f64 * byte * [0.05, 0.2, 0.5, 1.0][level]
        };
        let limits = RunLimits::new(Duration::from_secs_f64(budget), None);
        let (time, mut notices) =
            (RemainingTime::new(&policy::CURVES_AFTER_SETUP, &limits), Vec::new());
        let taken = set_up(&sets, 1, time, &mut SilentObserver, &mut notices, |i| {
            pass(sets[i] as f64 * byte + turn(sets[i]));
            Ok::<_, Infallible>((sets[i], Duration::from_secs_f64(turn(sets[i]))))
        });
        let taken: Vec<u64> = taken.unwrap().into_values().collect();
        assert_eq!(notices.len(), usize::from(taken.len() < sets.len()));
        let mut schedule = Schedule::new(policy::CURVES_AFTER_SETUP, limits, taken.len());
        assert_eq!(policy::CURVES_AFTER_SETUP.warm_up, WarmUp::Turn);
        let warm_up = |set: &u64| vec![Sample::from_times(vec![turn(*set)])];
        schedule.samples = taken.iter().map(warm_up).collect();
        let stop = schedule.run(&mut SilentObserver, None, |of| {
            pass(turn(taken[of.cell]));
            Ok::<_, Infallible>(vec![Sample::from_times(vec![turn(taken[of.cell])])])
        });
        stop.unwrap();
        let fewest = schedule.samples.iter().map(Vec::len).min().unwrap();
        let enough = fewest > policy::CURVES_AFTER_SETUP.min_rounds || least(byte) > budget;
        assert!(enough, "{budget} s, {byte} a byte: {fewest} samples");
        (taken, limits.elapsed().as_secs_f64())
    }

    /// Returns the time in seconds of a run with only the largest working set.
    fn least(byte: f64) -> f64 {
        // The set is measured once during the set-up, and once in each round.
        (2 + policy::CURVES_AFTER_SETUP.min_rounds) as f64 * byte * (1 << 29) as f64
    }

    #[test]
    fn inner_sets_are_omitted_to_keep_the_budget() {
        let mut thinned = 0;
        for budget in [3.0, 5.0, 12.0, 60.0] {
            for byte in [1e-10, 1e-9, 2e-9, 3e-9] {
                let (taken, took) = run(budget, byte);
                // If the largest working set alone exceeds the time, only this set and the small sets are measured.
                let most = budget.max(least(byte)) + f64::max(1.0, 0.1 * budget);
                assert!(took < most, "{budget} s, {byte} a byte: {took} s");
                assert_eq!(taken.last(), Some(&(512 << 20)), "{budget} s, {byte} a byte");
                thinned += usize::from(taken.len() < sizes(512 << 20, false).len());
            }
        }
        assert!((4..12).contains(&thinned), "{thinned}");
    }

    #[test]
    fn octaves_are_set_up_before_intermediate_sets() {
        let sets: Vec<u64> = [4, 6, 8, 12, 64, 96, 128, 192, 256].map(|kib| kib << 10).to_vec();
        assert_eq!(setup_order(&sets), [0, 1, 2, 8, 4, 6, 3, 5, 7]);
    }

    #[test]
    fn omitted_sets_have_the_sizes_of_all_threads() {
        let sets = [4 << 10, 6 << 10, 8 << 10];
        let taken = BTreeMap::from([(0, ()), (2, ())]);
        let text = left_out(&sets, 2, &taken).unwrap().message;
        assert_eq!(text, "no time left for 1 of 3 working sets (12 KiB); use a longer --budget");
    }
}
