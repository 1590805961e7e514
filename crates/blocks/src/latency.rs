//! Histogram of the latencies of single operations; its size is constant. It is an HDR histogram: the width of the
//! buckets grows with the value, so that every value is exact to three digits.

use crate::clock::Clock;
use hdrhistogram::Histogram;
use nodegauge_measure::Seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Quantiles of the latencies in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// Median.
    pub p50: Option<Seconds>,
    /// 90 % quantile.
    pub p90: Option<Seconds>,
    /// 99 % quantile.
    pub p99: Option<Seconds>,
    /// 99.9 % quantile.
    #[serde(rename = "p99.9")]
    pub p99_9: Option<Seconds>,
    /// Maximum.
    pub max: Option<Seconds>,
}

/// Longest latency that a histogram can record, in ticks: more than an hour at 4 GHz. A longer latency is recorded as
/// this value.
const LONGEST: u64 = 1 << 44;
/// Number of decimal digits to which recorded values are exact.
const DIGITS: u8 = 3;

/// Memory size of a histogram in bytes. A bucket has eight bytes. For three digits there are 2^11 buckets, and half as
/// many for each further doubling of the value.
pub const HISTOGRAM_BYTES: u64 = 8 * (2048 + (44 - 10) * 1024);

/// Histogram of latencies in ticks of the [`Clock`].
#[derive(Debug, Clone)]
pub struct LatencyHistogram(Histogram<u64>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// Creates an empty histogram of about 300 KiB; its size does not change.
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS);
        Self(histogram.unwrap_or_else(|_| unreachable!("the constant bounds are valid")))
    }

    /// Adds the latency of one operation.
    #[inline]
    pub fn record(&mut self, ticks: u64) {
        self.0.saturating_record(ticks);
    }

    /// Adds latencies, given as values in ticks with their counts.
    pub fn add<'p>(&mut self, pairs: impl IntoIterator<Item = &'p (u64, u64)>) {
        pairs.into_iter().for_each(|(value, count)| self.0.saturating_record_n(*value, *count));
    }

    /// Removes all recorded latencies.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Returns the recorded values in ticks with their counts, e.g. to send them to another process.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.0
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect()
    }

    /// Creates a histogram from values in ticks with their counts.
    pub fn from_pairs<'p>(pairs: impl IntoIterator<Item = &'p (u64, u64)>) -> Self {
        let mut latency = Self::new();
        latency.add(pairs);
        latency
    }

    /// Returns a quantile of the latencies; `quantile` is 0 to 1. Returns `None` if no latency was recorded.
    pub fn quantile(&self, quantile: f64, clock: Clock) -> Option<Seconds> {
        (!self.0.is_empty()).then(|| clock.seconds(self.0.value_at_quantile(quantile)))
    }

    /// Returns the quantiles for the record.
    pub fn quantiles(&self, clock: Clock) -> Quantiles {
        let [p50, p90, p99, p99_9, max] =
            [0.5, 0.9, 0.99, 0.999, 1.0].map(|quantile| self.quantile(quantile, clock));
        Quantiles { p50, p90, p99, p99_9, max }
    }
}

/// Measures how long it takes to read the clock and record one latency. The result is the mean over a hundred thousand
/// values that vary like real latencies.
pub fn measure_overhead(clock: Clock) -> Seconds {
    const OPERATIONS: u64 = 100_000;
    let mut latency = LatencyHistogram::new();
    let start = clock.now();
    let mut last = start;
    for i in 0..OPERATIONS {
        let now = clock.now();
        // Values that vary by three octaves use as many buckets as real latencies do.
        latency.record(now - last + ((i * 2_654_435_761) & 0x1fff));
        last = now;
    }
    std::hint::black_box(&latency);
    Seconds(clock.seconds(last - start).0 / OPERATIONS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn histogram_quantiles_match_values() {
        let clock = Clock::get();
        let mut latency = LatencyHistogram::new();
        let unit = clock.ticks(std::time::Duration::from_micros(1));
        for i in 1..=1000 {
            latency.record(i * unit);
        }
        let micros = |q| latency.quantile(q, clock).unwrap().0 * 1e6;
        assert!((micros(0.5) - 500.0).abs() < 1.0 && (micros(0.99) - 990.0).abs() < 2.0);
        assert!((micros(1.0) - 1000.0).abs() < 2.0);
        assert_eq!(LatencyHistogram::new().quantile(0.5, clock), None);
    }

    #[test]
    fn histogram_size_is_constant() {
        let mut latency = LatencyHistogram::new();
        let buckets = latency.0.distinct_values();
        for i in 0..1_000_000 {
            latency.record(i * 1_000_003);
        }
        latency.record(u64::MAX);
        assert_eq!((latency.0.distinct_values(), latency.0.len()), (buckets, 1_000_001));
        assert_eq!(buckets as u64 * 8, HISTOGRAM_BYTES);
    }

    proptest! {
        #[test]
        fn latency_histogram_round_trips_as_pairs(
            values in proptest::collection::vec(1u64..1 << 40, 1..200)
        ) {
            let mut latency = LatencyHistogram::new();
            values.iter().for_each(|value| latency.record(*value));
            let pairs = latency.pairs();
            prop_assert_eq!(&LatencyHistogram::from_pairs(&pairs).pairs(), &pairs);
            let twice = LatencyHistogram::from_pairs(pairs.iter().chain(&pairs));
            prop_assert_eq!(twice.0.len(), 2 * latency.0.len());
        }
    }
}
