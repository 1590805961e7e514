//! Latency under load: one thread (the chaser) measures latency with a pointer chase while all other threads (the
//! loaders) read memory at increasing shares of their full rate.
//!
//! This is the curve of reads in the family of curves.
//!
//! A loader reads its memory in blocks of 4 KiB and waits after each block. The waits are computed from the time of a
//! block at full rate, so that the loads cover the whole curve on every machine. With share s, an undisturbed loader
//! would read at s times its full rate. The actual rate is measured.

use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_chase::{LoadGenerator, measure_wait_loop_time};
use nodegauge_gauge::family::{Knee, LOAD_PERCENTS, LoadPoint, find_knee};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::{BytesPerSec, Seconds, stats};

/// Duration of a sample, seconds.
pub(crate) const SAMPLE_SECONDS: f64 = 4e-3;
/// Number of samples from which the times of a load are determined. A single sample may be disturbed.
const CALIBRATIONS: usize = 5;
/// Name of the figure for the read rate at which latency is twice the idle latency.
pub(crate) const KNEE_BANDWIDTH: &str = "bandwidth_at_2x_idle";

/// Returns the suffix of the names of figures at a load, after `latency_` or `bandwidth_`: `idle` for share 0,
/// otherwise e.g. `load50`.
pub(crate) fn load_suffix(share: u32) -> String {
    if share == 0 { "idle".to_owned() } else { format!("load{share}") }
}

/// Returns the figure names that begin with `kind`, one per load.
fn kind_names(kind: &str) -> [String; LOAD_PERCENTS.len()] {
    LOAD_PERCENTS.map(|share| format!("{kind}_{}", load_suffix(share)))
}

/// Returns the names of all figures.
pub(super) fn figure_names() -> Vec<String> {
    let rates = kind_names("bandwidth").into_iter().skip(1);
    kind_names("latency").into_iter().chain(rates).chain([KNEE_BANDWIDTH.to_owned()]).collect()
}

/// Times from which the pauses of the loaders are computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoaderTimes {
    /// Time of a block at full rate, seconds.
    block: f64,
    /// Time of an iteration of the wait loop, seconds.
    spin: f64,
}

impl LoaderTimes {
    /// Measures the times of a load with `loaders` threads. `take_sample` measures the load at full rate; the second
    /// part of the sample is the time per byte of all threads together.
    ///
    /// Fails with the first error of `take_sample`.
    pub(crate) fn calibrate<E>(
        load: &LoadGenerator<'_>,
        loaders: u64,
        mut take_sample: impl FnMut() -> Result<Sample, E>,
    ) -> Result<Self, E> {
        let mut samples = Vec::new();
        let mut spins = Vec::new();
        for _ in 0..CALIBRATIONS {
            samples.push(take_sample()?);
            spins.push(measure_wait_loop_time());
        }
        let bytes = load.block_bytes() * loaders;
        let block = (bytes as f64 * typical_time(&samples, 1)).min(1.0);
        Ok(Self { block, spin: stats::median(&spins) })
    }

    /// Returns the pause between two blocks at `share` percent of the full rate, seconds; `None` without load.
    pub(crate) fn pause_seconds(&self, share: u32) -> Option<f64> {
        self.spins(share).map(|spins| spins as f64 * self.spin)
    }

    /// Returns the number of wait-loop iterations between two blocks at `share` percent of the full rate; `None`
    /// without load.
    pub(crate) fn spins(&self, share: u32) -> Option<u64> {
        let wait = self.block * (100.0 / f64::from(share) - 1.0);
        (share > 0).then(|| (wait / self.spin.max(1e-12)) as u64)
    }
}

/// Returns the median time of a part of these samples, seconds. If there are undisturbed samples, only these count.
fn typical_time(samples: &[Sample], part: usize) -> f64 {
    let all: Vec<f64> = samples.iter().map(|sample| sample.seconds[part]).collect();
    let undisturbed = samples.iter().filter(|sample| sample.part_causes(part).next().is_none());
    let undisturbed: Vec<f64> = undisturbed.map(|sample| sample.seconds[part]).collect();
    stats::median(if undisturbed.is_empty() { &all } else { &undisturbed })
}

/// Returns the sentence that the load at which latency doubles is unknown. `why` is the reason.
fn no_knee(why: &str) -> String {
    Obstacle::new(why).cannot_tell("at which load latency is twice the idle latency")
}

/// Returns a sentence about the load at which latency is twice the idle latency; `None` if the curve has no points.
pub(crate) fn knee_in_words(curve: &[LoadPoint]) -> Option<String> {
    let idle = curve.first()?;
    let last = curve.last()?;
    let doubt_of_ends = [idle, last].into_iter().find_map(|point| point.doubt.clone());
    let idle_words = Seconds(idle.latency);
    Some(match (find_knee(curve), doubt_of_ends) {
        (Knee::At { rate, doubt: None }, _) => format!(
            "latency is twice the idle latency of {idle_words} when the loaders read at {}",
            BytesPerSec(rate)
        ),
        (Knee::At { doubt: Some(doubt), .. }, _) | (Knee::Below, Some(doubt)) => no_knee(&doubt),
        (Knee::Falls, _) => no_knee("latency falls again at a higher load"),
        (Knee::Below, None) => format!(
            "latency stays below twice the idle latency of {idle_words}: at the full load of {} it is {:.2} times as high",
            BytesPerSec(last.rate),
            last.latency / idle.latency
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Fraction;
    use nodegauge_measure::interference::Cause;

    fn curve(points: &[(f64, f64)]) -> Vec<LoadPoint> {
        let point = |(rate, latency): &(f64, f64)| LoadPoint {
            rate: *rate,
            latency: *latency,
            doubt: None,
        };
        points.iter().map(point).collect()
    }

    const RISING: [(f64, f64); 5] =
        [(0.0, 100e-9), (10e9, 120e-9), (20e9, 150e-9), (30e9, 250e-9), (32e9, 400e-9)];

    #[test]
    fn knee_is_described_with_its_rate_or_the_highest_latency() {
        let rising = curve(&RISING);
        assert!(knee_in_words(&rising).unwrap().contains("25.00 GB/s"));
        assert!(knee_in_words(&rising[..3]).unwrap().contains("1.50 times"));
        assert_eq!(knee_in_words(&[]), None);
    }

    #[test]
    fn suspect_points_give_no_knee() {
        for suspect in [0, 2, 3] {
            let mut rising = curve(&RISING);
            rising[suspect].doubt = Some("disturbed".to_owned());
            let words = knee_in_words(&rising).unwrap();
            assert!(
                words.starts_with("cannot tell at which load") && words.ends_with(": disturbed")
            );
        }
    }

    #[test]
    fn disturbed_samples_do_not_calibrate_a_load() {
        let sample = |seconds: f64, causes: Vec<Cause>| {
            let mut sample = Sample::from_times(vec![1e-7, seconds]);
            sample.causes = causes;
            sample
        };
        let cause = Cause::OtherProgram { share: Fraction(0.5) };
        let samples = [
            sample(40e-10, vec![cause.clone()]),
            sample(1e-10, Vec::new()),
            sample(40e-10, vec![cause.clone()]),
            sample(40e-10, vec![cause]),
            sample(1.2e-10, Vec::new()),
        ];
        assert!((typical_time(&samples, 1) - 1.1e-10).abs() < 1e-15);
        assert_eq!(typical_time(&samples[2..4], 1), 40e-10);
        // An extreme sample without a known cause has no effect.
        let unmarked = [1.0, 50.0, 2.0].map(|factor| sample(factor * 1e-10, Vec::new()));
        assert_eq!(typical_time(&unmarked, 1), 2e-10);
    }

    #[test]
    fn latency_that_falls_at_higher_load_has_no_knee() {
        let mut points = RISING;
        points[4].1 = 130e-9;
        assert!(knee_in_words(&curve(&points)).unwrap().contains("falls again"));
    }
}
