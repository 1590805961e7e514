//! Properties of a curve over message sizes: jumps of the time, outliers (dips) of single sizes, and the two parameters
//! of Hockney's model.
//!
//! Hockney ("The communication challenge for MPP", Parallel Computing 20, 1994) models the time of a message of s bytes
//! as t(s) = t0 + s / r; half of the rate r is reached at n1/2 = t0 r bytes. According to this model, a message of
//! twice the size takes at most twice as long. If the measured time exceeds this bound, and the line through the larger
//! sizes is also above the times of the smaller sizes, t0 has increased: another protocol begins. If only the rate
//! decreases, as for messages larger than a cache, the line through the larger sizes is below the times of the smaller
//! sizes. Times do not show which protocol waits for the receiver (rendezvous). Only the library reports this. The
//! model is fitted to each protocol separately.

use nodegauge_measure::{BytesPerSec, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Point of a curve: size in bytes, and time of a message in seconds.
pub type MessageCurvePoint = (u64, f64);

/// Properties of a whole curve.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MessageCurve {
    /// Sizes at which the time jumps and stays higher.
    pub switches: Vec<CurveJump>,
    /// Smallest size in bytes whose messages wait for the receiver; `null` if the library does not report it.
    pub rendezvous_bytes: Option<u64>,
    /// Control variable of the library from which the size is read.
    pub rendezvous_source: Option<String>,
    /// Sizes that take far longer than expected from the sizes on both sides.
    pub dips: Vec<u64>,
    /// Hockney's model of each protocol.
    pub hockney: Vec<HockneyFit>,
}

impl MessageCurve {
    /// Analyses points in ascending order of sizes. The library sends messages below `limit` eagerly.
    pub fn from_points(points: &[MessageCurvePoint], limit: Option<&EagerLimit>) -> Self {
        let bytes = limit.map(|limit| limit.bytes);
        let dips = dips(points, bytes);
        let sound: Vec<MessageCurvePoint> =
            points.iter().copied().filter(|(size, _)| *size > 0 && !dips.contains(size)).collect();
        let switches = switches(&sound);
        // A range of sizes ends at a change of the protocol and at a jump.
        let ranges = points.chunk_by(|last, next| {
            !is_between(bytes, last, next) && switches.iter().all(|switch| switch.bytes != next.0)
        });
        Self {
            rendezvous_bytes: bytes,
            rendezvous_source: limit.map(|limit| limit.variable.clone()),
            hockney: ranges.filter_map(fit).collect(),
            dips,
            switches,
        }
    }

    /// Returns the size in bytes from which messages wait for the receiver (rendezvous protocol), and the variable from
    /// which this size is read. Returns `None` for older records, in which this field contains the size of a jump.
    pub fn rendezvous(&self) -> Option<(u64, &str)> {
        self.rendezvous_bytes.zip(self.rendezvous_source.as_deref())
    }
}

/// Limit below which a library sends messages without waiting for the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EagerLimit {
    /// Limit in bytes; smaller messages are sent immediately.
    pub bytes: u64,
    /// Control variable of the library from which the limit is read.
    pub variable: String,
}

/// Jump of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurveJump {
    /// First size after the jump, bytes.
    pub bytes: u64,
    /// Ratio of the time at this size to the time that is expected from the smaller sizes.
    pub leap: f64,
}

/// Hockney's model, fitted to a range of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HockneyFit {
    /// Smallest size of the range, bytes.
    pub from_bytes: u64,
    /// Largest size of the range, bytes.
    pub to_bytes: u64,
    /// Parameter t0.
    pub latency_s: Seconds,
    /// Parameter r.
    pub bytes_per_s: BytesPerSec,
    /// Parameter n1/2 in bytes.
    pub half_bytes: f64,
    /// Root mean square of the relative residuals.
    pub error: f64,
}

/// Minimum ratio of the time after a jump to the expected time. Noise causes smaller ratios.
const LEAP: f64 = 1.5;
/// Minimum ratio of the time of a dip to the time that is expected from the sizes on both sides.
const DIP: f64 = 1.3;
/// Minimum number of points of a fit: two for the parameters, and two more to assess them.
const FIT_POINTS: usize = 4;

/// True if `limit` is between two consecutive sizes.
fn is_between(limit: Option<u64>, last: &MessageCurvePoint, next: &MessageCurvePoint) -> bool {
    limit.is_some_and(|limit| (last.0 + 1..=next.0).contains(&limit))
}

/// Returns the jumps of a curve without dips, in ascending order of sizes. At a jump, the time exceeds the prediction
/// from the smaller sizes, and the prediction from the larger sizes exceeds the times of the smaller sizes.
fn switches(points: &[MessageCurvePoint]) -> Vec<CurveJump> {
    let all = (1..points.len()).map(|i| switch_at(points, i));
    all.filter(|switch| switch.leap > LEAP).collect()
}

/// Returns the jump at the point with index `i`.
fn switch_at(points: &[MessageCurvePoint], i: usize) -> CurveJump {
    let above = lines(&points[i..]).map(|line| line.at(points[i - 1].0));
    let stays = above.reduce(f64::min).unwrap_or(0.0) / points[i - 1].1;
    CurveJump { bytes: points[i].0, leap: (points[i].1 / from_below(points, i)).min(stays) }
}

/// Line with a slope of at least zero.
struct Line {
    latency_s: f64,
    per_byte: f64,
}

impl Line {
    /// Fits a line to points by least squares of (t0 + s / r - t) / t, so that small sizes count as much as large ones.
    /// If the times decrease with the size, the line is horizontal.
    fn through(points: &[MessageCurvePoint]) -> Self {
        // Unknowns t0 and 1/r; each row is (1/t, s/t) and must be 1.
        let mut aa = 0.0;
        let mut ab = 0.0;
        let mut bb = 0.0;
        let mut a1 = 0.0;
        let mut b1 = 0.0;
        for (bytes, time) in points {
            let a = 1.0 / time;
            let b = *bytes as f64 / time;
            aa += a * a;
            ab += a * b;
            bb += b * b;
            a1 += a;
            b1 += b;
        }
        let determinant = aa * bb - ab * ab;
        let per_byte = (aa * b1 - ab * a1) / determinant;
        if per_byte > 0.0 {
            Self { latency_s: (a1 * bb - b1 * ab) / determinant, per_byte }
        } else {
            Self { latency_s: a1 / aa, per_byte: 0.0 }
        }
    }

    fn at(&self, bytes: u64) -> f64 {
        self.latency_s + self.per_byte * bytes as f64
    }
}

/// Returns lines that predict the times of smaller sizes from the first points of a curve: a line through two points,
/// and a line through [`FIT_POINTS`] points. A noisy size distorts the first line; a jump among the points distorts the
/// second.
fn lines(points: &[MessageCurvePoint]) -> impl Iterator<Item = Line> {
    let counts =
        [2, FIT_POINTS.min(points.len())].into_iter().filter(|n| (2..=points.len()).contains(n));
    counts.map(|n| Line::through(&points[..n]))
}

/// Returns the time that is expected at index `i` from the smaller sizes: the maximum that the model allows.
fn from_below(points: &[MessageCurvePoint], i: usize) -> f64 {
    let size = points[i].0 as f64;
    let (below, time) = points[i - 1];
    // The line through the last two sizes, or through the origin if there is only one size. The result is at least the
    // last time, and at most proportional to the size.
    let slope = match i.checked_sub(2).map(|j| points[j]) {
        Some((first, t)) => ((time - t) / (below - first) as f64).max(0.0),
        None => time / below as f64,
    };
    (time + slope * (size - below as f64)).min(time * size / below as f64).max(time)
}

/// Returns the sizes that take far longer than expected from the sizes on both sides, in ascending order. The
/// predictions do not combine sizes below and above the library's eager `limit`.
pub fn dips(points: &[MessageCurvePoint], limit: Option<u64>) -> Vec<u64> {
    let points: Vec<MessageCurvePoint> =
        points.iter().copied().filter(|(bytes, _)| *bytes > 0).collect();
    let protocols = points.chunk_by(|last, next| !is_between(limit, last, next));
    protocols.flat_map(dips_within).collect()
}

/// Returns the dips among sizes with the same protocol.
fn dips_within(points: &[MessageCurvePoint]) -> Vec<u64> {
    let mut points = points.to_vec();
    let mut found = Vec::new();
    // The deepest dip is removed before the next is searched, because a dip distorts the predictions for its
    // neighbours.
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

/// Returns the ratio of the time at an inner point to the predictions from the smaller and from the larger sizes. The
/// smaller of the two ratios is returned, because a jump after which times stay higher is not a dip.
fn depth(points: &[MessageCurvePoint], i: usize) -> f64 {
    let (b0, t0) = points[i - 1];
    let (b1, t1) = points[i];
    let (b2, t2) = points[i + 1];
    let between = t0 + (t2 - t0) * (b1 - b0) as f64 / (b2 - b0) as f64;
    // A slope above the model's maximum is itself a jump and predicts nothing for smaller sizes. A single point
    // predicts nothing either.
    let proportion = t2 * b1 as f64 / b2 as f64;
    let above = lines(&points[i + 1..]).map(|line| line.at(b1)).fold(proportion, f64::max);
    (t1 / between).min(t1 / above)
}

/// Fits the model to the sizes of one protocol; `None` if there are too few sizes.
fn fit(points: &[MessageCurvePoint]) -> Option<HockneyFit> {
    if points.len() < FIT_POINTS || points.iter().any(|(_, t)| !t.is_finite() || *t <= 0.0) {
        return None;
    }
    let line = Line::through(points);
    let Line { latency_s, per_byte } = line;
    if !(latency_s > 0.0 && per_byte > 0.0) {
        return None;
    }
    let squares: f64 =
        points.iter().map(|(bytes, time)| (line.at(*bytes) / time - 1.0).powi(2)).sum();
    Some(HockneyFit {
        from_bytes: points[0].0,
        to_bytes: points[points.len() - 1].0,
        latency_s: Seconds(latency_s),
        bytes_per_s: BytesPerSec(1.0 / per_byte),
        half_bytes: latency_s / per_byte,
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

    /// Times of Open MPI 4.1.4 and MPICH 4.0.2 on two cores of a Sapphire Rapids guest. Open MPI's time stays higher
    /// from its eager limit of 4096 B on. The messages of both libraries exceed a cache at 1 MiB.
    const GUEST_OPEN_MPI: [f64; 23] = [
        0.443, 0.453, 0.473, 0.491, 0.579, 0.571, 0.674, 0.662, 0.717, 0.979, 1.205, 1.609, 2.419,
        2.653, 3.118, 4.239, 5.915, 9.497, 16.462, 32.322, 102.038, 272.171, 600.555,
    ];
    const GUEST_MPICH: [f64; 23] = [
        0.525, 0.525, 0.550, 0.558, 0.549, 0.626, 0.638, 0.877, 0.840, 0.965, 1.257, 1.475, 1.912,
        2.949, 4.417, 5.063, 7.556, 10.748, 18.087, 34.505, 104.831, 312.951, 635.629,
    ];

    fn curve(microseconds: &[f64]) -> Vec<MessageCurvePoint> {
        microseconds.iter().enumerate().map(|(i, t)| (1 << i, t * 1e-6)).collect()
    }

    fn vader() -> EagerLimit {
        EagerLimit { bytes: 4096, variable: "btl_vader_eager_limit".to_owned() }
    }

    fn leaps(points: &[MessageCurvePoint]) -> Vec<u64> {
        MessageCurve::from_points(points, None).switches.iter().map(|switch| switch.bytes).collect()
    }

    #[test]
    fn protocol_change_is_distinguished_from_a_dip() {
        let points = curve(&OPEN_MPI);
        assert!(dips(&points, None).is_empty());
        let found = MessageCurve::from_points(&points, None);
        assert_eq!((leaps(&points), found.rendezvous_bytes), (vec![4096], None));
        assert!(found.switches[0].leap > 5.0);
        let fits = found.hockney;
        assert_eq!(fits.len(), 2);
        assert_eq!((fits[1].from_bytes, fits[1].to_bytes), (4096, 4 << 20));
        assert!((1.3e-6..1.7e-6).contains(&fits[1].latency_s.0), "{:?}", fits[1]);
        assert!((14e9..17e9).contains(&fits[1].bytes_per_s.0), "{:?}", fits[1]);
        assert!((15e3..30e3).contains(&fits[1].half_bytes));
    }

    #[test]
    fn saved_curve_changes_protocol_at_16_kib() {
        // OSU 7.2 with Open MPI 4.1.4 and MPICH 4.0.2 on a Zen 4 guest, microseconds.
        let zen = [
            0.13, 0.12, 0.12, 0.14, 0.13, 0.13, 0.12, 0.18, 0.19, 0.21, 0.24, 0.30, 0.44, 0.73,
            4.21, 5.96, 9.30, 14.60, 27.06, 51.70, 105.91, 237.42, 607.77,
        ];
        assert_eq!(leaps(&curve(&zen)), [16_384]);
    }

    #[test]
    fn cache_overflow_is_not_a_protocol_change() {
        for times in [GUEST_OPEN_MPI, GUEST_MPICH] {
            let found = MessageCurve::from_points(&curve(&times), None);
            assert_eq!((found.switches, found.rendezvous_bytes), (vec![], None));
        }
    }

    #[test]
    fn permanent_step_is_not_a_dip() {
        // Larger sizes that are faster or slower because of noise do not hide the jump.
        for (step, next) in [(3.1, [3.3, 3.8]), (3.1, [2.9, 4.4]), (3.3, [2.8, 3.3])] {
            let mut times = GUEST_OPEN_MPI;
            (times[12], times[13], times[14]) = (step, next[0], next[1]);
            assert!(dips(&curve(&times), None).is_empty(), "{step} {next:?}");
        }
        // If the library reports its eager limit, noise cannot hide the change of protocol.
        let mut times = GUEST_OPEN_MPI;
        times[12] *= 2.0;
        assert_eq!(dips(&curve(&times), None), [4096]);
        let reported = MessageCurve::from_points(&curve(&times), Some(&vader()));
        assert!(reported.dips.is_empty());
        assert_eq!(reported.rendezvous_bytes, Some(4096));
        assert_eq!(reported.rendezvous_source.as_deref(), Some("btl_vader_eager_limit"));
        assert_eq!(reported.hockney[0].to_bytes, 2048);
    }

    #[test]
    fn dip_is_detected_at_any_size() {
        for at in [5, 9, 14, 18, 21] {
            let mut times = OPEN_MPI;
            times[at] *= 2.0;
            let points = curve(&times);
            assert_eq!(dips(&points, None), [1 << at], "a dip at {}", 1 << at);
            assert_eq!(leaps(&points), [4096]);
        }
    }

    #[test]
    fn saturating_rate_has_no_dip_or_protocol_change() {
        // Times of Open MPI's windows of messages within a node, from these bandwidths in GB/s for 4 KiB and more.
        let rates = [2.24, 3.8, 5.74, 8.28, 10.64, 10.65, 12.48, 11.7, 11.89, 12.83, 12.89];
        let points: Vec<MessageCurvePoint> = rates
            .iter()
            .enumerate()
            .map(|(i, rate)| (4096 << i, (4096 << i) as f64 / (rate * 1e9)))
            .collect();
        assert!(dips(&points, None).is_empty() && leaps(&points).is_empty());
    }

    proptest! {
        #[test]
        fn hockney_model_is_recovered_from_its_curve(t0 in 1e-7f64..1e-4, rate in 1e8f64..1e11) {
            let points: Vec<MessageCurvePoint> =
                (0..23).map(|i| (1u64 << i, t0 + (1u64 << i) as f64 / rate)).collect();
            prop_assert!(leaps(&points).is_empty() && dips(&points, None).is_empty());
            let fits = MessageCurve::from_points(&points, None).hockney;
            prop_assert_eq!(fits.len(), 1);
            prop_assert!((fits[0].latency_s / t0 - Seconds(1.0)).0.abs() < 1e-3);
            prop_assert!(fits[0].error < 1e-6);
        }

        #[test]
        fn curve_analysis_never_panics(times in proptest::collection::vec(1e-9f64..1.0, 0..30)) {
            let points = curve(&times.iter().map(|t| t * 1e6).collect::<Vec<_>>());
            let _ = MessageCurve::from_points(&points, None);
        }
    }
}
