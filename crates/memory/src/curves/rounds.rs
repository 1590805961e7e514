//! Turns: rounds over cells in random order, until each cell's figure is stable or the time is spent.
//! A cell that is stable leaves, so that the time goes to those that are not.

use crate::halving::Shuffler;
use crate::point::{PointError, Sample};
use nodegauge_measure::Observer;
use nodegauge_measure::repeat::{Stop, StopRule};
use nodegauge_measure::samples::{self, Sorted};
use nodegauge_measure::stats::Better;
use std::time::{Duration, Instant};

/// How long to go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    /// When the time is spent.
    pub deadline: Instant,
    /// Exactly this many rounds after the warm-up, whatever the time.
    pub samples: Option<usize>,
}

/// Rounds at least, unless the user ends it: fewer say nothing.
const FEWEST: usize = 3;
/// Samples of a stable figure at least.
const LEAST: usize = 10;
/// Stable means within this share.
const TOLERANCE: f64 = 0.01;
/// Share of the time that passes before anything counts as stable: regimes of a virtual machine last
/// seconds, and all should be met.
const LEAST_SHARE: f64 = 0.25;

/// Samples of each cell, the first of them the warm-up.
pub(crate) struct Rounds {
    /// By cell, then round; empty for a cell that was not reached.
    pub samples: Vec<Vec<Sample>>,
    /// Why it ended.
    pub stop: Stop,
}

/// Runs rounds of `turn` over `cells`.
///
/// # Errors
/// When a turn fails.
pub(crate) fn by_turns(
    cells: usize,
    until: Until,
    watch: &mut dyn Observer,
    mut turn: impl FnMut(usize) -> Result<Sample, PointError>,
) -> Result<Rounds, PointError> {
    let begun = Instant::now();
    let time = until.deadline.saturating_duration_since(begun);
    let rule = StopRule {
        least: LEAST,
        exactly: None,
        at_least: time.mul_f64(LEAST_SHARE),
        at_most: Duration::MAX,
        tolerance: TOLERANCE,
    };
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); cells];
    let mut order: Vec<usize> = (0..cells).collect();
    let mut shuffler = Shuffler::new(0x7475_726E);
    let mut round = 0;
    let stop = 'rounds: loop {
        shuffler.shuffle(&mut order);
        for cell in &order {
            if watch.interrupted() {
                break 'rounds Stop::Interrupted;
            }
            let late = until.samples.is_none() && Instant::now() >= until.deadline;
            if late && round > FEWEST {
                break 'rounds Stop::Budget;
            }
            samples[*cell].push(turn(*cell)?);
            let spent = begun.elapsed().as_secs_f64() / time.as_secs_f64().max(1e-3);
            let share = until.samples.map_or(spent, |n| round as f64 / (n + 1) as f64);
            watch.progress(share.min(1.0), "");
        }
        round += 1;
        match until.samples {
            Some(n) if round > n => break Stop::Samples,
            Some(_) => {}
            None => order.retain(|cell| {
                let sorted = samples::sort(&samples[*cell]);
                let Some(group) = sorted.headline() else { return true };
                let rates = Sorted::rates(&samples[*cell], group, 0, 1.0);
                rule.decide(&[&rates], begun.elapsed(), Better::Higher).is_none()
            }),
        }
        if order.is_empty() {
            break Stop::Stable;
        }
    };
    Ok(Rounds { samples, stop })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::progress::Silent;

    fn sample(seconds: f64) -> Sample {
        Sample {
            seconds: vec![seconds],
            round_trips: (f64::NAN, f64::NAN),
            causes: Vec::new(),
            each: Vec::new(),
        }
    }

    #[test]
    fn a_number_of_rounds_is_kept_and_the_warm_up_is_one_more() {
        let until = Until { deadline: Instant::now(), samples: Some(4) };
        let mut turns = 0;
        let rounds = by_turns(3, until, &mut Silent, |_| {
            turns += 1;
            Ok(sample(1.0))
        })
        .unwrap();
        assert_eq!((turns, rounds.stop), (15, Stop::Samples));
        assert!(rounds.samples.iter().all(|samples| samples.len() == 5));
    }

    #[test]
    fn a_stable_cell_leaves_and_a_scattered_one_goes_on() {
        let until = Until { deadline: Instant::now() + Duration::from_millis(60), samples: None };
        let mut n = 0u32;
        let rounds = by_turns(2, until, &mut Silent, |cell| {
            n += 1;
            std::thread::sleep(Duration::from_micros(200));
            // The golden ratio spreads values evenly over 1 to 2.
            Ok(sample(if cell == 0 { 1.0 } else { 1.0 + (f64::from(n) * 0.618_034).fract() }))
        })
        .unwrap();
        assert_eq!(rounds.stop, Stop::Budget);
        assert!(rounds.samples[0].len() < rounds.samples[1].len());
    }

    #[test]
    fn whoever_ends_it_keeps_what_there_is() {
        struct After(std::cell::Cell<u32>);
        impl Observer for After {
            fn phase(&mut self, _: &str) {}
            fn progress(&mut self, _: f64, _: &str) {}
            fn interrupted(&self) -> bool {
                self.0.set(self.0.get() + 1);
                self.0.get() > 5
            }
        }
        let until = Until { deadline: Instant::now() + Duration::from_secs(9), samples: None };
        let rounds = by_turns(3, until, &mut After(Default::default()), |_| Ok(sample(1.0)));
        let rounds = rounds.unwrap();
        assert_eq!(rounds.stop, Stop::Interrupted);
        assert_eq!(rounds.samples.iter().map(Vec::len).sum::<usize>(), 5);
    }
}
