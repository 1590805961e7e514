//! Properties derived from the points of a curve of latency over bandwidth: the knee, and the load above which the
//! bandwidth falls.
//!
//! The samples of each point are divided into parts of the run. The knee of each part is a sample of the knee. The knee
//! therefore has an interval like a measured figure, and the same rule of doubt applies.

use super::knee::{Knee, LoadPoint, find_knee};
use nodegauge_measure::quantity::number_form;
use nodegauge_measure::record::doubt::TYPICAL_RULE;
use nodegauge_measure::stats::{self, BetterDirection, Summary};
use nodegauge_measure::{BytesPerSec, Fraction, names};

/// Maximum number of parts of a run, each with its own knee. More parts hardly narrow the interval.
const MAX_PARTS: usize = 20;
/// Minimum samples of a point per part, if there are enough, so that a single disturbed sample does not determine the
/// median.
const SAMPLES_PER_PART: usize = 3;

/// Samples at a point of the curve.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MeasuredPoint {
    /// Share of the full rate, percent.
    pub share: u32,
    /// Latencies of the chain's loads, seconds, in chronological order.
    pub latencies: Vec<f64>,
    /// Rates of the loaders, bytes per second, in chronological order; empty without load.
    pub rates: Vec<f64>,
    /// Reasons why a figure of the point is suspect; empty if all are valid.
    pub doubts: Vec<String>,
}

/// Returns the number of parts into which a run is divided if each cell has this number of samples.
pub fn part_count(samples: usize) -> usize {
    (samples / SAMPLES_PER_PART).clamp(TYPICAL_RULE.min.min(samples), MAX_PARTS).max(1)
}

/// Returns part number `part` of `parts` equal parts of the samples.
pub fn part_slice(samples: &[f64], part: usize, parts: usize) -> &[f64] {
    &samples[part * samples.len() / parts..(part + 1) * samples.len() / parts]
}

impl MeasuredPoint {
    /// Returns the point of the whole run.
    pub fn whole_run_point(&self) -> LoadPoint {
        self.in_part(0, 1)
    }

    /// Returns the point for one of several parts of the run.
    fn in_part(&self, part: usize, parts: usize) -> LoadPoint {
        let rates = part_slice(&self.rates, part, parts);
        LoadPoint {
            rate: if rates.is_empty() { 0.0 } else { stats::median(rates) },
            latency: stats::median(part_slice(&self.latencies, part, parts)),
            doubt: self.doubts.first().cloned(),
        }
    }
}

/// Definition of a knee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KneeBasis {
    /// Latency is twice that without load.
    Doubled,
    /// Largest bend of the curve, used if latency does not reach twice the idle latency.
    Bend,
}

names!(
    KneeBasis,
    "definition of a knee",
    Doubled = "latency is twice the idle latency",
    Bend = "largest bend",
);

/// Knee derived from the parts of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundKnee {
    /// Definition of the knee.
    pub basis: KneeBasis,
    /// Rate of the loaders at the knee in each part of the run, bytes per second.
    pub rates: Vec<f64>,
    /// Reasons why the knee is suspect.
    pub doubts: Vec<String>,
}

impl FoundKnee {
    /// Returns the knee of a curve whose first point is idle; `None` if latency does not rise with load.
    pub fn from_points(points: &[MeasuredPoint]) -> Option<Self> {
        let fewest = points.iter().map(|point| point.latencies.len()).min()?;
        let parts = part_count(fewest);
        let whole: Vec<LoadPoint> = points.iter().map(MeasuredPoint::whole_run_point).collect();
        let basis = match find_knee(&whole) {
            Knee::At { .. } => KneeBasis::Doubled,
            Knee::Below | Knee::Falls => KneeBasis::Bend,
        };
        if basis == KneeBasis::Bend && !rises(points) {
            return None;
        }
        let mut rates = Vec::new();
        for part in 0..parts {
            let curve: Vec<LoadPoint> =
                points.iter().map(|point| point.in_part(part, parts)).collect();
            rates.extend(match (basis, find_knee(&curve)) {
                (KneeBasis::Doubled, Knee::At { rate, .. }) => Some(rate),
                (KneeBasis::Doubled, _) => None,
                (KneeBasis::Bend, _) => bend(&curve),
            });
        }
        let mut doubts: Vec<String> = Vec::new();
        if rates.len() < parts {
            let count = rates.len();
            let verb = number_form(count, "has", "have");
            doubts.push(format!("only {count} of {parts} parts of the run {verb} this knee"));
        }
        if find_knee(&whole) == Knee::Falls {
            doubts.push("latency falls again at a higher load".to_owned());
        }
        for reason in points.iter().flat_map(|point| &point.doubts) {
            if !doubts.contains(reason) {
                doubts.push(reason.clone());
            }
        }
        (!rates.is_empty()).then_some(Self { basis, rates, doubts })
    }
}

/// Returns the 95 % interval of the median; `None` for too few samples.
fn interval(samples: &[f64]) -> Option<[f64; 2]> {
    Summary::from_samples(samples, BetterDirection::Lower)?.ci95
}

/// True if the highest latency exceeds the idle latency by more than their intervals.
fn rises(points: &[MeasuredPoint]) -> bool {
    let Some((idle, loaded)) = points.split_first() else { return false };
    let highest = loaded
        .iter()
        .max_by(|a, b| stats::median(&a.latencies).total_cmp(&stats::median(&b.latencies)));
    let ends = highest.map(|highest| [interval(&idle.latencies), interval(&highest.latencies)]);
    matches!(ends, Some([Some([_, idle_high]), Some([low, _])]) if low > idle_high)
}

/// Returns the rate at which a curve has its largest bend: the point farthest below the straight line from the first
/// point to the point with the highest latency, with both axes scaled to their ranges (the knee of Satopaa et al.
/// 2011). Returns `None` if no point is below the line.
fn bend(curve: &[LoadPoint]) -> Option<f64> {
    let first = curve.first()?;
    let last = curve.iter().max_by(|a, b| a.latency.total_cmp(&b.latency))?;
    let width = last.rate - first.rate;
    let height = last.latency - first.latency;
    if width <= 0.0 || height <= 0.0 {
        return None;
    }
    let mut found: Option<(f64, f64)> = None;
    for point in curve.iter().filter(|point| point.rate < last.rate) {
        let below = (point.rate - first.rate) / width - (point.latency - first.latency) / height;
        if below > found.map_or(0.0, |(deepest, _)| deepest) {
            found = Some((below, point.rate));
        }
    }
    found.map(|(_, rate)| rate)
}

/// Returns the sentence that more load lowers the bandwidth. Returns `None` if the decrease is within the intervals, or
/// if one of the two points is suspect.
pub fn falling_in_words(mix: &str, points: &[MeasuredPoint]) -> Option<String> {
    let loaded = points.iter().filter(|point| !point.rates.is_empty());
    let highest =
        loaded.max_by(|a, b| stats::median(&a.rates).total_cmp(&stats::median(&b.rates)))?;
    let [low, _] = interval(&highest.rates)?;
    let later = points.iter().filter(|point| point.share > highest.share);
    let lower = later.min_by(|a, b| stats::median(&a.rates).total_cmp(&stats::median(&b.rates)))?;
    let [_, high] = interval(&lower.rates)?;
    let is_certain = highest.doubts.is_empty() && lower.doubts.is_empty();
    (high < low && is_certain).then(|| {
        format!(
            "{mix}: more load reduces the bandwidth, from {} at a load of {} to {} at {}",
            BytesPerSec(stats::median(&highest.rates)),
            Fraction(f64::from(highest.share) / 100.0).in_whole_percent(),
            BytesPerSec(stats::median(&lower.rates)),
            Fraction(f64::from(lower.share) / 100.0).in_whole_percent(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns points of a curve (share, rate in GB/s, latency in ns) whose samples deviate by at most a hundredth.
    fn points(curve: &[(u32, f64, f64)], samples: usize) -> Vec<MeasuredPoint> {
        let mut points = Vec::new();
        for (share, rate, latency) in curve {
            let noise = (0..samples).map(|i| 1.0 + 0.01 * ((i * 7 % 11) as f64 / 5.0 - 1.0));
            let latencies = noise.clone().map(|factor| latency * 1e-9 * factor).collect();
            let rates = noise.filter(|_| *share > 0).map(|factor| rate * 1e9 * factor).collect();
            points.push(MeasuredPoint { share: *share, latencies, rates, doubts: Vec::new() });
        }
        points
    }

    const DOUBLED: [(u32, f64, f64); 5] = [
        (0, 0.0, 100.0),
        (50, 20.0, 110.0),
        (80, 30.0, 150.0),
        (90, 34.0, 250.0),
        (100, 36.0, 400.0),
    ];
    const BENT: [(u32, f64, f64); 5] = [
        (0, 0.0, 100.0),
        (50, 20.0, 104.0),
        (80, 30.0, 110.0),
        (90, 34.0, 140.0),
        (100, 36.0, 180.0),
    ];

    #[test]
    fn knee_at_twice_the_idle_latency_has_one_rate_per_part() {
        let FoundKnee { basis, rates, doubts } =
            FoundKnee::from_points(&points(&DOUBLED, 60)).unwrap();
        assert_eq!((basis, rates.len(), doubts.len()), (KneeBasis::Doubled, 20, 0));
        assert!(rates.iter().all(|rate| (rate / 32e9 - 1.0).abs() < 0.05), "{rates:?}");
    }

    #[test]
    fn knee_of_a_low_curve_is_its_largest_bend() {
        let FoundKnee { basis, rates, .. } = FoundKnee::from_points(&points(&BENT, 30)).unwrap();
        assert_eq!(basis, KneeBasis::Bend);
        assert!(rates.iter().all(|rate| (rate / 30e9 - 1.0).abs() < 0.03), "{rates:?}");
        // Few samples give few parts, so that the rule of doubt applies.
        assert_eq!(FoundKnee::from_points(&points(&DOUBLED, 4)).unwrap().rates.len(), 4);
    }

    #[test]
    fn flat_curve_has_no_knee() {
        let flat = [(0, 0.0, 100.0), (50, 20.0, 100.2), (100, 36.0, 100.1)];
        assert_eq!(FoundKnee::from_points(&points(&flat, 60)), None);
        assert_eq!(FoundKnee::from_points(&[]), None);
    }

    #[test]
    fn suspect_points_make_a_knee_suspect() {
        let mut all = points(&DOUBLED, 12);
        all[1].doubts.push("disturbed".to_owned());
        // In the first part of the run, latency stays low.
        for point in &mut all {
            point.latencies[0..2].fill(100e-9);
        }
        let doubts = FoundKnee::from_points(&all).unwrap().doubts;
        assert_eq!(doubts, ["only 5 of 6 parts of the run have this knee", "disturbed"]);
    }

    #[test]
    fn falling_bandwidth_is_reported() {
        let mut curve = DOUBLED;
        assert_eq!(falling_in_words("1:0", &points(&curve, 30)), None);
        curve[4].1 = 28.0;
        let text = falling_in_words("1:0", &points(&curve, 30)).unwrap();
        let expected = "1:0: more load reduces the bandwidth, from 34.00 GB/s at a load of 90 % to 28.00 GB/s at 100 %";
        assert_eq!(text, expected);
        let mut suspect = points(&curve, 30);
        suspect[4].doubts.push("disturbed".to_owned());
        assert_eq!(falling_in_words("1:0", &suspect), None);
        // Without intervals, a decrease cannot be distinguished from noise.
        assert_eq!(falling_in_words("1:0", &points(&curve, 3)), None);
    }
}
