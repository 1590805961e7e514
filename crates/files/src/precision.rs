//! Precision of rates, which decides whether a cell has enough samples.
//!
//! A pass over a small file lasts microseconds, so a single page fault or interrupt changes its rate noticeably. A pass
//! over a large file averages over thousands of operations. Therefore no fixed time or number of passes suits all
//! cells. The decision depends on the variation between passes, and is stricter than the rule by which figures are
//! suspect (`measure::record::doubt`). That rule also applies, e.g. if there are too few passes.

use nodegauge_blocks::clock::Clock;
use nodegauge_blocks::workers::OperationSample;
use nodegauge_measure::record::doubt::TYPICAL_RULE;
use nodegauge_measure::stats::{BetterDirection, Summary};
use nodegauge_measure::{Fraction, Seconds};

/// Maximum relative error of the median in each direction. The results of two runs then differ by at most twice this
/// value.
const PRECISION: f64 = 0.05;
/// Minimum number of passes; the median of fewer passes is suspect.
pub(crate) const MIN_PASSES: usize = TYPICAL_RULE.min;
/// Minimum ratio of the duration of a pass to the time for reading the clock. The start and the end of a pass each have
/// an error of one reading.
const READINGS: f64 = 100.0;

/// Returns the reason why these samples do not determine the rate; `None` if they do, or if there are fewer than
/// [`MIN_PASSES`]. `reading` is the time for reading the clock.
pub(crate) fn doubt_reason<'a>(
    samples: impl IntoIterator<Item = &'a OperationSample>,
    reading: Seconds,
) -> Option<String> {
    let samples: Vec<&OperationSample> = samples.into_iter().collect();
    let shortest = samples.iter().map(|sample| sample.seconds).fold(f64::INFINITY, f64::min);
    if samples.len() < MIN_PASSES {
        return None;
    }
    if shortest < READINGS * reading.0 {
        return Some(format!("a pass is shorter than {READINGS} readings of the clock"));
    }
    let rates: Vec<f64> = samples.iter().map(|sample| sample.rate).collect();
    let off = deviation(&rates);
    // The text does not contain the value, so that equal reasons are reported once.
    (off.is_nan() || off > PRECISION).then(|| {
        let precision = Fraction(PRECISION).in_whole_percent();
        format!("the median of the passes is uncertain by more than {precision}")
    })
}

/// Returns the possible relative error of the median, from its 95 % confidence interval, which is computed from order
/// statistics.
fn deviation(rates: &[f64]) -> f64 {
    let Some(summary) = Summary::from_samples(rates, BetterDirection::Higher) else {
        return f64::NAN;
    };
    // An infinite rate is not a valid figure.
    let [low, high] = summary.ci95.filter(|_| summary.median.is_finite()).unwrap_or([f64::NAN; 2]);
    (high - summary.median).max(summary.median - low) / summary.median
}

/// Measures the time for reading the clock.
pub(crate) fn measure_clock_reading_time(clock: Clock) -> Seconds {
    const READINGS: u32 = 1000;
    let start = clock.now();
    let last = (0..READINGS).map(|_| clock.now()).max().unwrap_or(start);
    Seconds(clock.seconds(last - start).0 / f64::from(READINGS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_blocks::pass::PassEnd;

    const READING: Seconds = Seconds(20e-9);

    /// Returns a pass with the given rate, duration and latencies (value and count of each).
    fn pass(rate: f64, seconds: f64, latencies: &[(u64, u64)]) -> OperationSample {
        let operations = latencies.iter().map(|(_, count)| count).sum();
        OperationSample {
            rate,
            seconds,
            operations: (operations, operations),
            end_reason: PassEnd::Through,
            latencies: latencies.to_vec(),
            share: None,
            undropped_share: None,
            workers: None,
        }
    }

    fn of(rates: &[f64], seconds: f64, latencies: &[(u64, u64)]) -> Option<String> {
        let passes: Vec<_> = rates.iter().map(|rate| pass(*rate, seconds, latencies)).collect();
        doubt_reason(&passes, READING)
    }

    #[test]
    fn rates_that_scatter_over_few_passes_are_suspect() {
        assert_eq!(of(&[1e9, 3e9], 10.0, &[(1000, 10_000)]), None);
        assert_eq!(of(&[], 1.0, &[]), None);
        let close = [1.0, 1.02, 0.99, 1.01, 0.98, 1.03];
        assert_eq!(of(&close, 10.0, &[(1000, 10_000)]), None);
        assert!(of(&close.map(|rate| rate * rate * rate), 10.0, &[(1000, 10_000)]).is_some());
    }

    #[test]
    fn few_operations_suffice_if_passes_agree() {
        let few = [(1000, 15), (9000, 1)];
        let close = [1.0, 1.02, 0.99, 1.01, 0.98, 1.03, 1.0];
        assert_eq!(of(&close, 1e-5, &few), None);
        let far = [1.0, 1.4, 0.7, 1.2, 0.8, 1.1, 1.0];
        assert!(of(&far, 1e-5, &few).is_some());
        // A large number of passes determines the median even if some passes are far from it.
        let many: Vec<f64> = (0..200).map(|i| 1.0 + 0.2 * f64::from(i % 21 - 10) / 10.0).collect();
        assert_eq!(of(&many, 1e-5, &few), None);
    }

    #[test]
    fn minimum_pass_time_depends_on_the_clock_resolution() {
        let close = [1.0; 10];
        assert_eq!(of(&close, 2.1e-6, &[(1000, 2)]), None);
        assert!(of(&close, 1.9e-6, &[(1000, 2)]).is_some_and(|why| why.contains("clock")));
        let cost = measure_clock_reading_time(Clock::get()).0;
        assert!((1e-10..1e-4).contains(&cost), "{cost}");
    }

    #[test]
    fn infinite_and_nan_rates_are_suspect() {
        assert!(of(&[f64::INFINITY; 7], 1.0, &[(1, 1)]).is_some());
        assert!(of(&[f64::NAN; 7], 1.0, &[(1, 1)]).is_some());
    }
}
