//! Selection of the valid rounds of two programs that run interleaved, and their combined figures.
//!
//! The core-to-core latency changes when a hypervisor moves CPUs. The probe reports this latency; OSU's programs do
//! not. A round is a run of an OSU program followed by a run of the probe, so that each OSU program runs between two
//! runs of the probe. If the round trips in both runs of the probe agree, the OSU program and the probe ran in the same
//! regime.

use crate::config::MessageConfig;
use crate::figures::result::MessageFigure;
use crate::osu::output::{self, OsuOutput};
use crate::pattern::Pattern;
use nodegauge_measure::interference::Cause;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Status};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::{Fraction, Unit, regime, stats};

/// Number of round trips at the start of a probe's run, and at its end, from which the regime at these times is
/// determined.
const END_TRIPS: usize = 5;
/// Minimum share of the round trips of a run that must agree. The rest are treated as single disturbances and are
/// ignored.
const MIN_AGREEING_SHARE: f64 = 0.9;

/// Maximum share of the CPU time that other programs may use during a run. The launcher and the resolution of the
/// kernel's counters (ticks) account for 1 % to 2 %.
const MAX_OTHERS_SHARE: f64 = 0.03;

/// Round of an interleaved comparison: a run of an OSU program, followed by a run of the probe.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    /// Output of the OSU program.
    pub(crate) osu: OsuOutput,
    /// Figures of the probe. Their values are means over all operations.
    pub(crate) probe_figures: Vec<MessageFigure>,
    /// Round trips of a cache line during the probe's run, seconds, in chronological order.
    pub(crate) trips: Vec<f64>,
    /// Share of the CPU time that other programs used: the larger share of the two runs.
    pub(crate) other_load: f64,
}

impl Round {
    /// Returns the sample of the round for the schedule: the median round trip, and the reasons why the round is
    /// invalid (moved CPUs or other programs). `before` is the previous round.
    pub(crate) fn sample(&self, before: Option<&Self>) -> Sample {
        let trips = &self.trips;
        let middle = stats::median(trips);
        let agree = trips.iter().filter(|trip| regime::may_share_regime(**trip, middle)).count();
        let last = before
            .map_or(&[][..], |round| &round.trips[round.trips.len().saturating_sub(END_TRIPS)..]);
        let first = stats::median(&trips[..trips.len().min(END_TRIPS)]);
        let stayed = agree as f64 >= MIN_AGREEING_SHARE * trips.len() as f64
            && regime::may_share_regime(stats::median(last), first);
        let mut causes = Vec::new();
        causes.extend((!stayed).then_some(Cause::Moved));
        let share = self.other_load;
        let disturbed = Cause::OtherProgram { share: Fraction(share) };
        causes.extend((share > MAX_OTHERS_SHARE).then_some(disturbed));
        Sample { round_trips: (middle, middle), causes, ..Sample::from_times(Vec::new()) }
    }

    /// Returns the probe's figure for a size.
    fn own_figure(&self, unit: Unit, bytes: Option<u64>) -> Option<&Measurement> {
        let mut own = self.probe_figures.iter();
        let found = own.find(|figure| {
            figure.measurement.unit == unit && figure.config.message_bytes == bytes
        })?;
        Some(&found.measurement)
    }

    /// Returns OSU's row for a size.
    fn osu_row(&self, bytes: Option<u64>) -> Option<&output::OsuRow> {
        self.osu.rows.iter().find(|row| Some(row.bytes) == bytes)
    }
}

/// Returns the figures of both programs, with the ratio of the probe's figure to OSU's figure. The figures are medians
/// over the valid rounds, or over all rounds if none is valid.
pub(crate) fn combined_figures(
    rounds: &[Round],
    counting: &[usize],
    pattern: Pattern,
) -> Vec<Measurement> {
    let counted: Vec<&Round> = match counting {
        [] => rounds.iter().collect(),
        some => some.iter().map(|at| &rounds[*at]).collect(),
    };
    let Some(first) = counted.first() else { return Vec::new() };
    let mut found: Vec<MessageFigure> = Vec::new();
    for one in first.probe_figures.iter().filter(|own| own.measurement.name == pattern.name()) {
        let unit = one.measurement.unit;
        let bytes = one.config.message_bytes;
        let runs: Vec<&Measurement> =
            counted.iter().filter_map(|round| round.own_figure(unit, bytes)).collect();
        let mut own = MessageFigure {
            measurement: over_rounds(&one.measurement, &runs),
            config: one.config.clone(),
        };
        if counting.is_empty() {
            let why =
                "in every round, the core-to-core latency changed or other programs used the cpus";
            own.measurement.validity.add(Status::Suspect, why);
        }
        let mut theirs: Vec<f64> = Vec::new();
        for row in counted.iter().filter_map(|round| round.osu_row(bytes)) {
            theirs.extend(match unit {
                Unit::MessagesPerSecond => row.message_rate,
                _ => Some(row.value),
            });
        }
        let reference = first.osu_row(bytes).filter(|_| !theirs.is_empty()).map(|row| {
            let mut reference = output::figure(&first.osu, row, unit, &theirs);
            let ratio = own.measurement.value.map(|rate| rate / stats::median(&theirs));
            own.config.over_osu = ratio.filter(|ratio| ratio.is_finite());
            reference.config = MessageConfig {
                distance: one.config.distance,
                places: one.config.places.clone(),
                hosts: one.config.hosts.clone(),
                mpi: one.config.mpi.clone(),
                pairs: one.config.pairs,
                ..reference.config
            };
            reference
        });
        found.push(own);
        found.extend(reference);
    }
    let count = Some(counted.len() as u64);
    let mut measurements = Vec::new();
    for MessageFigure { measurement, config } in found {
        measurements.push(measurement.with_config(&MessageConfig { rounds: count, ..config }));
    }
    measurements
}

/// Combines the figures of several rounds. Each sample is the mean of a round, which is the value that OSU prints.
fn over_rounds(one: &Measurement, runs: &[&Measurement]) -> Measurement {
    let samples: Vec<f64> = runs.iter().filter_map(|m| m.value).collect();
    let mut validity = one.validity.clone();
    for m in runs {
        for reason in &m.validity.reasons {
            if !validity.reasons.contains(reason) {
                validity.add(m.validity.status, reason.clone());
            }
        }
    }
    let mut own =
        one.clone().with_samples(QuotedStatistic::Median, samples).with_validity(validity);
    own.regimes.clear();
    own.disturbed.clear();
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::samples::undisturbed_round_numbers;

    fn round(trips: &[f64]) -> Round {
        let osu =
            OsuOutput::read("# OSU MPI Latency Test v5.7\n# Size Latency (us)\n8 0.2\n").unwrap();
        Round { osu, probe_figures: Vec::new(), trips: trips.to_vec(), other_load: 0.0 }
    }

    fn counting(rounds: &[Round]) -> Vec<usize> {
        let before = |at: usize| at.checked_sub(1).map(|before| &rounds[before]);
        let sample = |at: usize| vec![rounds[at].sample(before(at))];
        undisturbed_round_numbers(&(0..rounds.len()).map(sample).collect::<Vec<_>>(), &[true])
    }

    const NEAR: [f64; 6] = [50e-9; 6];
    const FAR: [f64; 6] = [190e-9; 6];

    #[test]
    fn only_rounds_of_the_most_common_regime_count() {
        let rounds = [round(&NEAR), round(&FAR), round(&FAR), round(&FAR), round(&NEAR)];
        // The CPUs were moved during OSU's program of round 1, and before round 4.
        assert_eq!(counting(&rounds), [2, 3]);
    }

    #[test]
    fn round_with_moved_cpus_does_not_count() {
        let both = [&NEAR[..], &FAR].concat();
        let rounds = [round(&NEAR), round(&NEAR), round(&both), round(&FAR)];
        assert_eq!(counting(&rounds), [0, 1]);
        assert!(counting(&[round(&both)]).is_empty());
        // One outlier among many values is ignored.
        let stray = [&[3e-6], &NEAR[..], &NEAR].concat();
        assert_eq!(counting(&[round(&stray)]), [0]);
    }

    #[test]
    fn disturbed_round_does_not_count() {
        let loud = Round { other_load: 0.2, ..round(&NEAR) };
        assert_eq!(counting(&[round(&NEAR), loud.clone(), round(&NEAR)]), [0, 2]);
        assert!(counting(&[loud]).is_empty());
    }

    #[test]
    fn all_rounds_count_if_round_trips_are_unknown() {
        assert_eq!(counting(&[round(&[]), round(&[]), round(&[])]), [0, 1, 2]);
        assert!(counting(&[]).is_empty());
    }
}
