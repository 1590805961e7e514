//! Estimate of the bandwidth that a program uses, from the readings of reporters. A reporter is a thread on another CPU
//! that becomes slower when the program uses the memory more. Known loads on the CPUs of the program calibrate the
//! reporters.
//!
//! There are two kinds of reporters. A chain of dependent loads hardly disturbs the program, so its reading directly
//! gives the program's undisturbed bandwidth. Readers at full rate slow the program down. Their reading gives the
//! bandwidth during this slower run; this bandwidth times the slowdown is the undisturbed bandwidth, because every run
//! of the program moves the same number of bytes.
//!
//! Bubble-Up (Mars et al., MICRO 2011) introduced reporters of memory pressure, and loads of known size that run
//! together with a program. All functions are pure.

use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_gauge::family::{part_count, part_slice};
use nodegauge_measure::stats::{self, BetterDirection, Summary};
use nodegauge_measure::{BytesPerSec, Seconds};

/// Readings of a reporter during one known load.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct CalibrationPoint {
    /// Rate of the load while the reporter runs, one per round, bytes per second; empty for the point without load.
    pub rates: Vec<f64>,
    /// Reading of the reporter, one per round: seconds per load of a chain, or seconds per byte of readers.
    pub readings: Vec<f64>,
}

/// Readings of one reporter during known loads and during the program.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Calibration {
    /// Points in ascending order of the known load; the first point is without load.
    pub points: Vec<CalibrationPoint>,
    /// Readings during the program, one per round, in the unit of the other readings.
    pub program: Vec<f64>,
    /// Time of the program with this reporter divided by its time with a reporter that does not disturb it, one per
    /// round; empty if this reporter does not disturb the program.
    pub slowdowns: Vec<f64>,
}

/// Estimated bandwidth of a program.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProgramBandwidth {
    /// Bandwidth in each part of the run, bytes per second; negative values are noise around zero.
    pub rates: Vec<f64>,
    /// Bandwidth of the full known load, bytes per second.
    pub full_load: f64,
}

/// Reason why the readings of a reporter give no estimate, in the order of what more runs would change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NoEstimate {
    /// The reporter is not slower during the full known load than without load.
    NoReaction,
    /// There are too few readings for a confidence interval.
    FewReadings,
    /// The confidence interval is as wide as the range of the known loads.
    WideInterval,
}

impl NoEstimate {
    /// Returns the obstacle to a statement about the bandwidth of a program.
    pub(super) fn obstacle(self) -> Obstacle {
        match self {
            Self::NoReaction => Obstacle::new(
                "a known load on its CPUs does not slow down the memory accesses of the other CPUs",
            ),
            Self::FewReadings => Obstacle::new("too few runs of the program for an interval")
                .with_remedy("use a larger --budget or --samples"),
            Self::WideInterval => {
                Obstacle::new("the readings vary more than the known loads change them")
                    .with_remedy("use a larger --budget, or repeat the run on an idle node")
            }
        }
    }
}

/// Returns the 95 % interval of the median; `None` for too few samples.
pub(super) fn interval(samples: &[f64]) -> Option<[f64; 2]> {
    Summary::from_samples(samples, BetterDirection::Lower)?.ci95
}

/// Returns the median, or zero without samples.
fn median_or_zero(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { stats::median(samples) }
}

/// Returns the load at which a reporter has a given reading, by interpolation. `pairs` are loads and readings in
/// ascending order of the loads. A reading that is smaller than an earlier reading is replaced by the earlier one.
/// Outside the pairs, the line through the first and the last pair is used. Returns `None` if the readings do not rise
/// with the load.
fn load_at(pairs: &[(f64, f64)], reading: f64) -> Option<f64> {
    let mut rising: Vec<(f64, f64)> = Vec::new();
    for (load, seconds) in pairs {
        let before = rising.last().map_or(f64::NEG_INFINITY, |(_, before)| *before);
        rising.push((*load, seconds.max(before)));
    }
    let first = *rising.first()?;
    let last = *rising.last()?;
    let slope = (last.1 - first.1) / (last.0 - first.0);
    if slope.is_nan() || slope <= 0.0 || last.0 <= first.0 {
        return None;
    }
    if reading <= first.1 {
        return Some(first.0 - (first.1 - reading) / slope);
    }
    if reading >= last.1 {
        return Some(last.0 + (reading - last.1) / slope);
    }
    let enclosing = rising.windows(2).find(|pair| pair[0].1 <= reading && reading <= pair[1].1)?;
    let [(low, low_seconds), (high, high_seconds)] = [enclosing[0], enclosing[1]];
    let width = high_seconds - low_seconds;
    let part = if width > 0.0 { (reading - low_seconds) / width } else { 0.5 };
    Some(low + (high - low) * part)
}

impl Calibration {
    /// Succeeds if the reporter is slower during the full known load than without load. Only readings of the same round
    /// are compared, because the state of the memory may change between rounds.
    fn check_reaction(&self) -> Result<(), NoEstimate> {
        let [Some(first), Some(last)] = [self.points.first(), self.points.last()] else {
            return Err(NoEstimate::FewReadings);
        };
        let pairs = first.readings.iter().zip(&last.readings);
        let differences: Vec<f64> = pairs.map(|(without, with)| with - without).collect();
        let [low, _] = interval(&differences).ok_or(NoEstimate::FewReadings)?;
        if low > 0.0 { Ok(()) } else { Err(NoEstimate::NoReaction) }
    }

    /// Returns a text with the readings during each known load and during the program.
    pub(super) fn in_words(&self) -> String {
        let mut parts = Vec::new();
        for point in &self.points {
            let load = BytesPerSec(median_or_zero(&point.rates));
            parts.push(format!("{} during {load}", Seconds(stats::median(&point.readings))));
        }
        parts.push(format!("{} during the program", Seconds(stats::median(&self.program))));
        parts.join(", ")
    }

    /// Returns the estimated bandwidth in each part of the run.
    ///
    /// Fails if the reporter does not react to known loads, if there are too few readings, or if their noise exceeds
    /// the reaction.
    pub(super) fn program_bandwidth(&self) -> Result<ProgramBandwidth, NoEstimate> {
        self.check_reaction()?;
        let counts = self.points.iter().map(|point| point.readings.len());
        let fewest = counts.chain([self.program.len()]).min().unwrap_or(0);
        let parts = part_count(fewest);
        let mut rates = Vec::new();
        for part in 0..parts {
            let mut pairs = Vec::new();
            for point in &self.points {
                let load = median_or_zero(part_slice(&point.rates, part, parts));
                pairs.push((load, stats::median(part_slice(&point.readings, part, parts))));
            }
            let loaded = load_at(&pairs, stats::median(part_slice(&self.program, part, parts)));
            let slowdowns = part_slice(&self.slowdowns, part, parts);
            let slowdown = if slowdowns.is_empty() { 1.0 } else { stats::median(slowdowns) };
            rates.extend(loaded.map(|rate| rate * slowdown));
        }
        let full_load = self.points.last().map_or(0.0, |last| median_or_zero(&last.rates));
        let drawn = ProgramBandwidth { rates, full_load };
        match drawn.uncertainty() {
            width if width < full_load => Ok(drawn),
            // An interval as wide as the range of the known loads contains no information.
            width if width.is_finite() => Err(NoEstimate::WideInterval),
            _ => Err(NoEstimate::FewReadings),
        }
    }
}

impl ProgramBandwidth {
    /// Returns the width of the confidence interval of the bandwidth, bytes per second; infinite if the run has too few
    /// parts.
    pub(super) fn uncertainty(&self) -> f64 {
        interval(&self.rates).map_or(f64::INFINITY, |[low, high]| high - low)
    }

    /// True if the confidence interval is so short that the estimate takes precedence over all later estimates.
    fn is_sharp(&self) -> bool {
        self.uncertainty() <= SHARP * self.full_load
    }

    /// Returns an upper bound of the bandwidth if the confidence interval includes zero, so that no traffic is
    /// detected.
    pub(super) fn bound_without_traffic(&self) -> Option<f64> {
        let [low, high] = interval(&self.rates)?;
        (low <= 0.0).then(|| high.max(0.0))
    }
}

/// Maximum width of the confidence interval, as a share of the full rate, at which an estimate takes precedence over
/// all later estimates.
const SHARP: f64 = 0.2;

/// Returns the estimate to use, with its index: the first estimate with a short confidence interval, otherwise the one
/// with the shortest interval. `estimates` are ordered by how much their reporters disturb the program, least first.
///
/// Fails if there is no estimate.
pub(super) fn best_estimate(
    estimates: &[Result<ProgramBandwidth, NoEstimate>],
) -> Result<(usize, &ProgramBandwidth), NoEstimate> {
    let known = estimates.iter().enumerate();
    let known = known.filter_map(|(number, drawn)| Some((number, drawn.as_ref().ok()?)));
    if let Some(found) = known.clone().find(|(_, drawn)| drawn.is_sharp()) {
        return Ok(found);
    }
    let best = known.min_by(|a, b| a.1.uncertainty().total_cmp(&b.1.uncertainty()));
    let reasons = estimates.iter().filter_map(|drawn| drawn.as_ref().err());
    best.ok_or_else(|| reasons.max().copied().unwrap_or(NoEstimate::FewReadings))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `count` factors between 0.99 and 1.01.
    fn noise(count: usize) -> Vec<f64> {
        (0..count).map(|i| 1.0 + 0.01 * ((i * 7 % 11) as f64 / 5.0 - 1.0)).collect()
    }

    /// Returns the calibration for a program that moves `rate` bytes per second, on a memory whose latency rises with
    /// the square of the load.
    fn calibration(rate: f64, rise: f64, rounds: usize) -> Calibration {
        let reading = |load: f64| 100e-9 * (1.0 + rise * (load / 40e9).powi(2));
        let mut points = Vec::new();
        for (number, load) in [0.0, 10e9, 20e9, 30e9, 40e9].into_iter().enumerate() {
            let rates = if load > 0.0 { vec![load; rounds] } else { Vec::new() };
            let mut noise = noise(rounds + number);
            let readings = noise.drain(number..).map(|factor| reading(load) * factor).collect();
            points.push(CalibrationPoint { rates, readings });
        }
        let mut shifted = noise(rounds + 5);
        let program = shifted.drain(5..).map(|factor| reading(rate) * factor).collect();
        Calibration { points, program, slowdowns: Vec::new() }
    }

    /// Factor by which readers at full rate slow down the memory accesses of other threads.
    const SLOWER: f64 = 1.6;
    /// Rate of the full load without readers, bytes per second.
    const FULL: f64 = 40e9;

    /// Rates of a program without and with concurrent readers, bytes per second.
    struct Paced {
        alone: f64,
        with_readers: f64,
    }

    impl Paced {
        /// Returns the rates of a program that waits for a fixed time after each block, like the known load, or like a
        /// program that computes.
        fn fixed_waits(share: f64) -> Self {
            Self { alone: share * FULL, with_readers: FULL / (SLOWER + 1.0 / share - 1.0) }
        }

        /// Returns the rates of a program whose waits are proportional to the time of each block.
        fn duty_cycle(share: f64) -> Self {
            Self { alone: share * FULL, with_readers: share * FULL / SLOWER }
        }

        /// Returns the rates of a program that starts blocks at fixed times, so that its rate does not depend on the
        /// memory.
        fn fixed_rate(share: f64) -> Self {
            Self { alone: share * FULL, with_readers: share * FULL }
        }
    }

    /// Returns the seconds per byte of readers while other threads move `others` bytes per second.
    fn reading(others: f64) -> f64 {
        25e-12 * (1.0 + others / FULL)
    }

    /// Returns the calibration of readers for a program.
    fn readers(program: &Paced) -> Calibration {
        let mut points = vec![CalibrationPoint { rates: Vec::new(), readings: vec![25e-12; 60] }];
        for share in [0.25, 0.5, 0.75, 1.0] {
            let Paced { with_readers, .. } = Paced::fixed_waits(share);
            let readings = noise(60).iter().map(|factor| reading(with_readers) * factor).collect();
            points.push(CalibrationPoint { rates: vec![with_readers; 60], readings });
        }
        let readings =
            noise(60).iter().map(|factor| reading(program.with_readers) * factor).collect();
        // A run of the program moves the same bytes when readers run.
        let slowdowns = vec![program.alone / program.with_readers; 60];
        Calibration { points, program: readings, slowdowns }
    }

    #[test]
    fn slowdown_by_readers_is_part_of_the_estimate() {
        for share in [0.1, 0.3, 0.46, 0.6] {
            for paced in
                [Paced::fixed_waits(share), Paced::duty_cycle(share), Paced::fixed_rate(share)]
            {
                let drawn = readers(&paced).program_bandwidth().unwrap();
                let found = stats::median(&drawn.rates) / FULL;
                assert!((found - share).abs() < 0.05, "{share}: {found}");
            }
        }
        // Without the correction for the slowdown, the estimate for the duty cycle would be 28 %.
        let mut uncorrected = readers(&Paced::duty_cycle(0.46));
        uncorrected.slowdowns = Vec::new();
        let found = stats::median(&uncorrected.program_bandwidth().unwrap().rates) / FULL;
        assert!((found - 0.2875).abs() < 0.02, "{found}");
    }

    #[test]
    fn bandwidth_is_interpolated_from_known_loads() {
        for rate in [10e9, 15e9, 25e9, 36e9] {
            let drawn = calibration(rate, 1.0, 60).program_bandwidth().unwrap();
            let found = stats::median(&drawn.rates);
            assert!((found - rate).abs() < 2e9, "{rate}: {found}");
            assert_eq!((drawn.full_load, drawn.bound_without_traffic()), (40e9, None));
        }
    }

    #[test]
    fn bandwidth_of_a_program_without_traffic_has_an_upper_bound() {
        let drawn = calibration(0.0, 1.0, 60).program_bandwidth().unwrap();
        let bound = drawn.bound_without_traffic().unwrap();
        assert!((0.0..4e9).contains(&bound), "{bound}");
    }

    #[test]
    fn reporter_without_reaction_gives_no_estimate() {
        let of = |reaction: &Calibration| reaction.program_bandwidth().unwrap_err();
        assert_eq!(of(&calibration(20e9, 0.005, 60)), NoEstimate::NoReaction);
        let mut varying = calibration(20e9, 1.0, 60);
        varying.program = (0..60).map(|i| if i / 3 % 2 == 0 { 50e-9 } else { 400e-9 }).collect();
        assert_eq!(of(&varying), NoEstimate::WideInterval);
        // With too few rounds, there is no confidence interval.
        assert_eq!(of(&calibration(20e9, 1.0, 4)), NoEstimate::FewReadings);
        assert_eq!(of(&Calibration::default()), NoEstimate::FewReadings);
    }

    #[test]
    fn first_estimate_with_a_narrow_interval_is_used() {
        let wide = ProgramBandwidth { rates: vec![1e9, 2e9, 3e9, 4e9, 5e9, 6e9], full_load: 9e9 };
        let narrow = ProgramBandwidth { rates: vec![3e9; 6], full_load: 9e9 };
        let few = ProgramBandwidth { rates: vec![3e9; 2], full_load: 9e9 };
        let none = Err(NoEstimate::NoReaction);
        let estimates = [none.clone(), Ok(wide), Ok(few), Ok(narrow.clone())];
        assert_eq!(best_estimate(&estimates).unwrap().0, 3);
        assert_eq!(best_estimate(std::slice::from_ref(&none)), Err(NoEstimate::NoReaction));
        // The reason that more runs would remove is stated.
        let noisy = Err(NoEstimate::WideInterval);
        assert_eq!(best_estimate(&[noisy, none]), Err(NoEstimate::WideInterval));
        // A short interval of a reporter that does not disturb the program is sufficient.
        let first = ProgramBandwidth {
            rates: vec![3e9, 3.1e9, 3.2e9, 3.3e9, 3.4e9, 3.5e9],
            full_load: 9e9,
        };
        assert_eq!(best_estimate(&[Ok(first), Ok(narrow)]).unwrap().0, 0);
    }

    #[test]
    fn load_is_interpolated_or_extrapolated_from_pairs() {
        let pairs = [(0.0, 1.0), (10.0, 1.2), (20.0, 1.1), (30.0, 2.0)];
        assert!((load_at(&pairs, 1.1).unwrap() - 5.0).abs() < 1e-9);
        assert!((load_at(&pairs, 1.6).unwrap() - 25.0).abs() < 1e-9);
        assert!((load_at(&pairs, 0.9).unwrap() + 3.0).abs() < 1e-9);
        assert!((load_at(&pairs, 2.1).unwrap() - 33.0).abs() < 1e-9);
        assert_eq!(load_at(&[(0.0, 1.0), (10.0, 1.0)], 1.0), None);
        assert_eq!(load_at(&[], 1.0), None);
    }
}
