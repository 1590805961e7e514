//! What a curve over message sizes tells: where the protocol changes, which size dips, and the two
//! numbers of Hockney's model. Pure.
//!
//! Hockney ("The communication challenge for MPP", Parallel Computing 20, 1994) models the time of
//! a message of s bytes as t(s) = t0 + s / r; half of the rate r is reached at n1/2 = t0 r bytes. By
//! this model a message of twice the size takes at most twice as long. Where the measured time
//! leaps beyond that, another protocol begins: eager messages are copied on arrival, larger ones
//! wait for the receiver (rendezvous). The model is therefore fitted to each protocol by itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One size: bytes, and the time of a message in seconds.
pub type CurvePoint = (u64, f64);

/// What a whole curve tells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Curve {
    /// Where the protocol changes.
    pub switches: Vec<Switch>,
    /// The largest of these leaps: from eager to rendezvous.
    pub rendezvous_bytes: Option<u64>,
    /// Sizes that take far longer than their neighbours let expect.
    pub dips: Vec<u64>,
    /// Hockney's model of each protocol.
    pub hockney: Vec<Fit>,
}

impl Curve {
    /// Of points of ascending sizes.
    pub fn of(points: &[CurvePoint]) -> Self {
        let switches = switches(points);
        Self {
            rendezvous_bytes: switches
                .iter()
                .max_by(|a, b| a.leap.total_cmp(&b.leap))
                .map(|switch| switch.bytes),
            dips: dips(points),
            hockney: fits(points, &switches),
            switches,
        }
    }
}

/// A leap of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Switch {
    /// The first size of the new protocol, bytes.
    pub bytes: u64,
    /// The time there over what the sizes below let expect.
    pub leap: f64,
}

/// Hockney's model, fitted to a range of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// Smallest size of the range, bytes.
    pub from_bytes: u64,
    /// Largest size of the range, bytes.
    pub to_bytes: u64,
    /// t0.
    pub latency_s: f64,
    /// r.
    pub bytes_per_s: f64,
    /// n1/2, bytes.
    pub half_bytes: f64,
    /// Root mean square of the relative residuals.
    pub error: f64,
}

/// A leap is at least this factor above what was expected: noise stays below.
const LEAP: f64 = 1.5;
/// A dip is at least this factor above what both sides let expect.
const DIP: f64 = 1.3;
/// Points that a fit needs: two numbers, and two more to judge them.
const FIT_POINTS: usize = 4;

/// The leaps of a curve of ascending sizes, without what is only a dip.
fn switches(points: &[CurvePoint]) -> Vec<Switch> {
    let dips = dips(points);
    let sound: Vec<CurvePoint> =
        points.iter().copied().filter(|(bytes, _)| *bytes > 0 && !dips.contains(bytes)).collect();
    let leap = |i: usize| Switch { bytes: sound[i].0, leap: sound[i].1 / from_below(&sound, i) };
    (1..sound.len()).map(leap).filter(|switch| switch.leap > LEAP).collect()
}

/// The time that the sizes below `i` let expect: what the model allows at most beyond the last one.
fn from_below(points: &[CurvePoint], i: usize) -> f64 {
    let (size, (below, time)) = (points[i].0 as f64, points[i - 1]);
    // Through the last two sizes, where there are two; never less than the last time itself, never
    // more than in proportion.
    let slope = match i.checked_sub(2).map(|j| points[j]) {
        Some((first, t)) => ((time - t) / (below - first) as f64).max(0.0),
        None => time / below as f64,
    };
    (time + slope * (size - below as f64)).min(time * size / below as f64).max(time)
}

/// Sizes that take far longer than the sizes on both sides let expect, ascending.
pub fn dips(points: &[CurvePoint]) -> Vec<u64> {
    let mut points: Vec<CurvePoint> =
        points.iter().copied().filter(|(bytes, _)| *bytes > 0).collect();
    let mut found = Vec::new();
    // The deepest first and then without it: a dip makes its neighbours look odd.
    while let Some((at, _)) = (1..points.len().saturating_sub(1))
        .map(|i| (i, depth(&points, i)))
        .filter(|(_, depth)| *depth > DIP)
        .max_by(|a, b| a.1.total_cmp(&b.1))
    {
        found.push(points.remove(at).0);
    }
    found.sort_unstable();
    found
}

/// The time at an inner point over what both sides let expect, the milder of the two.
fn depth(points: &[CurvePoint], i: usize) -> f64 {
    let ((b0, t0), (b1, t1), (b2, t2)) = (points[i - 1], points[i], points[i + 1]);
    let between = t0 + (t2 - t0) * (b1 - b0) as f64 / (b2 - b0) as f64;
    // From above: a leap that the larger sizes continue is no dip.
    let above = match points.get(i + 2) {
        Some((b3, t3)) => t2 - (t3 - t2).max(0.0) * (b2 - b1) as f64 / (b3 - b2) as f64,
        None => 0.0,
    };
    // A slope beyond the model is itself a leap, and says nothing about what is below it; nor does
    // a single point.
    let above = above.max(t2 * b1 as f64 / b2 as f64);
    (t1 / between).min(t1 / above)
}

/// The model for each protocol that has sizes enough: between the leaps of a curve of ascending
/// sizes. Residuals are weighed by the time, so that small sizes count as much as large ones.
fn fits(points: &[CurvePoint], switches: &[Switch]) -> Vec<Fit> {
    let goes_on = |_: &_, next: &CurvePoint| switches.iter().all(|switch| switch.bytes != next.0);
    points.chunk_by(goes_on).filter_map(fit).collect()
}

/// Least squares of (t0 + s / r - t) / t.
fn fit(points: &[CurvePoint]) -> Option<Fit> {
    if points.len() < FIT_POINTS || points.iter().any(|(_, t)| !t.is_finite() || *t <= 0.0) {
        return None;
    }
    // Unknowns t0 and 1/r; each row is (1/t, s/t) and must be 1.
    let sum = |term: fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(bytes, time)| term(1.0 / time, *bytes as f64 / time)).sum()
    };
    let (aa, ab, bb) = (sum(|a, _| a * a), sum(|a, b| a * b), sum(|_, b| b * b));
    let (a1, b1) = (sum(|a, _| a), sum(|_, b| b));
    let determinant = aa * bb - ab * ab;
    let latency = (a1 * bb - b1 * ab) / determinant;
    let per_byte = (aa * b1 - ab * a1) / determinant;
    if !(determinant > 0.0 && latency > 0.0 && per_byte > 0.0) {
        return None;
    }
    let squares: f64 = points
        .iter()
        .map(|(bytes, time)| ((latency + per_byte * *bytes as f64) / time - 1.0).powi(2))
        .sum();
    Some(Fit {
        from_bytes: points[0].0,
        to_bytes: points[points.len() - 1].0,
        latency_s: latency,
        bytes_per_s: 1.0 / per_byte,
        half_bytes: latency / per_byte,
        error: (squares / points.len() as f64).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Latencies of Open MPI 4.1 within a node, in microseconds, from 1 B on.
    const OPEN_MPI: [f64; 23] = [
        0.099, 0.098, 0.099, 0.098, 0.100, 0.101, 0.105, 0.109, 0.115, 0.167, 0.173, 0.189, 1.76,
        2.0, 2.46, 3.41, 5.31, 9.1, 17.0, 32.9, 66.2, 133.0, 280.0,
    ];

    fn curve(microseconds: &[f64]) -> Vec<CurvePoint> {
        microseconds.iter().enumerate().map(|(i, t)| (1 << i, t * 1e-6)).collect()
    }

    #[test]
    fn the_change_to_rendezvous_is_found_and_is_no_dip() {
        let points = curve(&OPEN_MPI);
        assert!(dips(&points).is_empty());
        let switches = switches(&points);
        assert_eq!(switches.iter().map(|s| s.bytes).collect::<Vec<_>>(), [4096]);
        assert!(switches[0].leap > 5.0);
        let fits = Curve::of(&points).hockney;
        assert_eq!(fits.len(), 2);
        assert_eq!((fits[1].from_bytes, fits[1].to_bytes), (4096, 4 << 20));
        assert!((1.3e-6..1.7e-6).contains(&fits[1].latency_s), "{:?}", fits[1]);
        assert!((14e9..17e9).contains(&fits[1].bytes_per_s), "{:?}", fits[1]);
        assert!((15e3..30e3).contains(&fits[1].half_bytes));
    }

    #[test]
    fn a_dip_is_found_wherever_it_is_and_is_no_switch() {
        for at in [5, 9, 14, 18, 21] {
            let mut times = OPEN_MPI;
            times[at] *= 2.0;
            let points = curve(&times);
            assert_eq!(dips(&points), [1 << at], "a dip at {}", 1 << at);
            assert!(switches(&points).iter().all(|s| s.bytes == 4096), "{:?}", switches(&points));
        }
    }

    #[test]
    fn a_rate_that_levels_off_has_neither() {
        // The time of a window of Open MPI's bandwidth within a node, from 4 KiB on, GB/s.
        let rates = [2.24, 3.8, 5.74, 8.28, 10.64, 10.65, 12.48, 11.7, 11.89, 12.83, 12.89];
        let points: Vec<CurvePoint> = rates
            .iter()
            .enumerate()
            .map(|(i, rate)| (4096 << i, (4096 << i) as f64 / (rate * 1e9)))
            .collect();
        assert!(dips(&points).is_empty() && switches(&points).is_empty());
    }

    proptest! {
        #[test]
        fn the_model_is_found_in_its_own_curve(t0 in 1e-7f64..1e-4, rate in 1e8f64..1e11) {
            let points: Vec<CurvePoint> =
                (0..23).map(|i| (1u64 << i, t0 + (1u64 << i) as f64 / rate)).collect();
            prop_assert!(switches(&points).is_empty() && dips(&points).is_empty());
            let fits = Curve::of(&points).hockney;
            prop_assert_eq!(fits.len(), 1);
            prop_assert!((fits[0].latency_s / t0 - 1.0).abs() < 1e-3);
            prop_assert!(fits[0].error < 1e-6);
        }

        #[test]
        fn no_curve_makes_it_fail(times in proptest::collection::vec(1e-9f64..1.0, 0..30)) {
            let points = curve(&times.iter().map(|t| t * 1e6).collect::<Vec<_>>());
            let _ = Curve::of(&points);
        }
    }
}
