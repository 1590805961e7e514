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
use nodegauge_measure::{BytesPerSec, Seconds};

/// Duration of a sample, seconds.
pub(crate) const SAMPLE_SECONDS: f64 = 4e-3;
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
    /// Returns the times of a load. At full rate, its `loaders` threads together take `per_byte` seconds per byte.
    pub(crate) fn from_load(load: &LoadGenerator<'_>, per_byte: f64, loaders: u64) -> Self {
        let bytes = load.block_bytes() * loaders;
        Self { block: (bytes as f64 * per_byte).min(1.0), spin: measure_wait_loop_time() }
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
    fn latency_that_falls_at_higher_load_has_no_knee() {
        let mut points = RISING;
        points[4].1 = 130e-9;
        assert!(knee_in_words(&curve(&points)).unwrap().contains("falls again"));
    }
}
