//! Comparison of an MPI with a lower bound: the time of the built-in transport through shared memory. For each size,
//! the built-in transport uses the faster of a ring buffer and a single copy. The built-in transport and the MPI run
//! interleaved on the same two cores.

use crate::GAUGE;
use crate::config::LowerBoundConfig;
use crate::curve::EagerLimit;
use crate::figures::result::MessageFigure;
use crate::pattern::Pattern;
use crate::probe::start::StartReport;
use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_analysis::ratio::paired::PairedRounds;
use nodegauge_exchange::Route;
use nodegauge_measure::{Bytes, Fraction, Notice, NoticeId, regime, stats};
use std::collections::BTreeMap;

/// Patterns that are compared with the lower bound: single messages and windows of messages.
pub(crate) const PATTERNS: [Pattern; 2] = [Pattern::Latency, Pattern::Bw];

/// Minimum share of the built-in transport's performance. An MPI that takes more than twice the time is reported,
/// because the additional work of an MPI (tags, communicators, matching) does not explain a larger difference.
const SLOW: f64 = 0.5;

/// Comparison of an MPI's figure with the lower bound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LowerBoundShare {
    pub config: LowerBoundConfig,
    class: ShareClass,
    /// Reason why no cause can be derived from the share; `None` if both figures are valid.
    obstacle: Option<Obstacle>,
}

/// Comparisons of an MPI with the lower bound, by pattern and size.
pub(crate) type LowerBoundShares = BTreeMap<(Pattern, u64), LowerBoundShare>;

/// Compares the times of an MPI with the lower bound. The share is the ratio of the reported times. Its confidence
/// interval is computed from those starts of the MPI and of the built-in transport that had the same core-to-core
/// latency.
pub(crate) fn compare_figures(
    figures: &[MessageFigure],
    mpi: &StartReport,
    bounds: &[MessageFigure],
    bound: &StartReport,
) -> LowerBoundShares {
    let mut shares = LowerBoundShares::new();
    for own in bounds {
        let Some(at) = own.pattern_and_size() else { continue };
        let of_mpi = figures.iter().find(|figure| figure.pattern_and_size() == Some(at));
        let Some(of_mpi) = of_mpi.map(|figure| &figure.measurement) else { continue };
        let values = of_mpi.value.zip(own.measurement.value);
        let Some((reached, value)) = values.filter(|(a, b)| *a > 0.0 && *b > 0.0) else { continue };
        let obstacle = Obstacle::from_figures([of_mpi, &own.measurement]);
        let share = if at.0.is_rate() { reached / value } else { value / reached };
        let (mpi_shares, of_bound): (Vec<f64>, Vec<f64>) = mpi
            .start_medians
            .iter()
            .zip(&bound.start_medians)
            .filter(|(a, b)| {
                a.trip.0.is_nan()
                    || b.trip.0.is_nan()
                    || regime::may_share_regime(a.trip.0, b.trip.0)
            })
            .filter_map(|(a, b)| a.seconds.get(&at).zip(b.seconds.get(&at)))
            .unzip();
        let paired = PairedRounds::from_quotients(&of_bound, &mpi_shares);
        let ci95 = paired.interval().map(|found| found.ci95);
        let config = LowerBoundConfig { value, share: Fraction(share), ci95 };
        let apart = stats::quantile(&of_bound, 1.0) / stats::quantile(&mpi_shares, 0.0);
        let class = ShareClass::from_share(&config, apart < SLOW && obstacle.is_none());
        shares.insert(at, LowerBoundShare { config, class, obstacle });
    }
    shares
}

/// Class of a share, from its confidence interval and the thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShareClass {
    /// Slow even if the fastest start of the MPI is compared with the slowest start of the built-in transport, and both
    /// figures are valid.
    Doubtful,
    Slow,
    Faster,
    Between,
}

impl ShareClass {
    /// Returns the class of a share. `sure` is true if every start of the MPI is slow compared with every start of the
    /// built-in transport.
    fn from_share(share: &LowerBoundConfig, sure: bool) -> Self {
        let LowerBoundConfig { share: Fraction(share), ci95, .. } = *share;
        match ci95 {
            Some([_, high]) if high.max(share) < SLOW && sure => Self::Doubtful,
            Some([_, high]) if high.max(share) < SLOW => Self::Slow,
            Some([low, _]) if low.min(share) > 1.0 => Self::Faster,
            _ => Self::Between,
        }
    }
}

/// Reasons why times of an MPI are suspect, by pattern and size.
pub(crate) type Doubts = BTreeMap<(Pattern, u64), String>;

/// Returns notices on ranges of sizes in which an MPI takes more than twice the time of the lower bound, with the
/// likely cause. Ranges in which the MPI is faster are also reported, because the built-in transport is no lower bound
/// for them. If the MPI is slow in every start, its times are suspect: they show its configuration, not the performance
/// that is possible on this node.
pub(crate) fn remarks(
    name: &str,
    mpi: &StartReport,
    bound: &StartReport,
    shares: &LowerBoundShares,
    eager: Option<&EagerLimit>,
) -> (Vec<Notice>, Doubts) {
    let mut notices = Vec::new();
    let mut doubts = Doubts::new();
    for pattern in PATTERNS {
        let own: Vec<_> = shares.iter().filter(|((of, _), _)| *of == pattern).collect();
        for range in own.chunk_by(|a, b| a.1.class == b.1.class) {
            let from = range[0].0.1;
            let to = range[range.len() - 1].0.1;
            let sizes = if from == to {
                Bytes(from).to_string()
            } else {
                format!("{} to {}", Bytes(from), Bytes(to))
            };
            let reached: Vec<f64> = range.iter().map(|(_, of)| of.config.share.0).collect();
            let min = stats::quantile(&reached, 0.0);
            let max = stats::quantile(&reached, 1.0);
            let class = range[0].1.class;
            let text = match class {
                ShareClass::Between => continue,
                ShareClass::Doubtful | ShareClass::Slow => {
                    // No cause is derived from suspect figures.
                    let obstacle = range.iter().find_map(|(_, of)| of.obstacle.as_ref());
                    let look = match obstacle {
                        Some(obstacle) => obstacle.cannot_tell("the cause"),
                        None => advice(mpi, bound, pattern, from, to, eager),
                    };
                    let times = times(1.0 / max, 1.0 / min);
                    let slow = format!(
                        "{times} the time of nodegauge's own transport (the floor); {look}"
                    );
                    if class == ShareClass::Doubtful {
                        let why = format!("{name} takes {slow}");
                        doubts.extend(range.iter().map(|(at, _)| (**at, why.clone())));
                        continue;
                    }
                    format!("{name}: {pattern} of {sizes} takes {slow}")
                }
                ShareClass::Faster => format!(
                    "{name}: {pattern} of {sizes} is {} as fast as nodegauge's own transport, which is therefore not a lower bound for these sizes",
                    times(min, max)
                ),
            };
            notices.push(Notice::new(NoticeId::Bottleneck, GAUGE, text));
        }
    }
    (notices, doubts)
}

/// Formats a range of ratios: `2.1 to 3.4 times`.
fn times(min: f64, max: f64) -> String {
    let min = format!("{min:.1}");
    let max = format!("{max:.1}");
    if min == max { format!("{min} times") } else { format!("{min} to {max} times") }
}

/// Returns advice on the configuration that may slow an MPI down in the sizes `from` to `to`.
fn advice(
    mpi: &StartReport,
    bound: &StartReport,
    pattern: Pattern,
    from: u64,
    to: u64,
    eager: Option<&EagerLimit>,
) -> String {
    let runs = &bound.output.sizes;
    let single_copy = runs.iter().any(|run| {
        (run.pattern, run.bytes) == (pattern, to)
            && run.routes.iter().any(|route| route == Route::Read.name())
    });
    let transport = mpi.transport.as_deref().unwrap_or("unknown to nodegauge");
    match eager {
        _ if single_copy => format!(
            "nodegauge's own transport copies these messages only once (process_vm_readv); check \
             that the MPI supports single-copy transfers (CMA in its transport, \
             kernel.yama.ptrace_scope 0, no seccomp filter); the MPI's transport is {transport}"
        ),
        Some(EagerLimit { bytes, variable }) if from >= *bytes => format!(
            "messages of {} or more wait for the receiver; try a higher eager limit ({variable})",
            Bytes(*bytes)
        ),
        _ => format!("check that the MPI uses shared memory; its transport is {transport}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MessageConfig;
    use crate::figures::result;
    use crate::job::launch::{Launch, RankLocations};
    use crate::job::protocol::ProbeOutput;
    use crate::probe::start::StartMedians;
    use nodegauge_measure::Seconds;

    const NEAR: f64 = 50e-9;
    const FAR: f64 = 190e-9;
    const SIZES: [u64; 3] = [8, 1024, 1 << 20];

    /// Returns starts of messages of all [`SIZES`]. Each start is given by the round trip of a cache line and the times
    /// of the sizes, in seconds.
    fn report(starts: &[(f64, [f64; 3])]) -> StartReport {
        let start = |(trip, seconds): &(f64, [f64; 3])| StartMedians {
            trip: Seconds(*trip),
            seconds: SIZES.iter().map(|b| (Pattern::Latency, *b)).zip(*seconds).collect(),
        };
        StartReport {
            launch: Launch::new(RankLocations::ThisNode(Vec::new()), None, vec![Pattern::Latency]),
            output: ProbeOutput::default(),
            starts: starts.len() as u32,
            start_medians: starts.iter().map(start).collect(),
            transport: Some("pml ob1, btl tcp".to_owned()),
            incomplete_start: None,
            command: String::new(),
        }
    }

    /// Returns the reported figures, which are means over the starts.
    fn figures(report: &StartReport) -> Vec<MessageFigure> {
        let figure = |bytes: &u64| {
            let at = (Pattern::Latency, *bytes);
            let starts: Vec<f64> =
                report.start_medians.iter().map(|start| start.seconds[&at]).collect();
            let mut measurement =
                result::blank_measurement(Pattern::Latency, Pattern::Latency.unit());
            measurement.value = Some(stats::mean(&starts));
            let config = MessageConfig { message_bytes: Some(*bytes), ..MessageConfig::default() };
            MessageFigure { measurement, config }
        };
        SIZES.iter().map(figure).collect()
    }

    /// Returns the notices about an MPI compared with a lower bound, and the suspect sizes with the reason.
    fn judged(mpi: &StartReport, bound: &StartReport) -> (Vec<String>, Vec<(u64, String)>) {
        let shares = compare_figures(&figures(mpi), mpi, &figures(bound), bound);
        let (notices, doubts) = remarks("MPICH", mpi, bound, &shares, None);
        let notices = notices.into_iter().map(|notice| notice.message).collect();
        (notices, doubts.into_iter().map(|((_, bytes), why)| (bytes, why)).collect())
    }

    /// Returns starts with equal round trips. In each start, all sizes take the same time, which is given in
    /// microseconds.
    fn starts(times: &[f64]) -> StartReport {
        report(&times.iter().map(|us| (NEAR, [us * 1e-6; 3])).collect::<Vec<_>>())
    }

    #[test]
    fn lower_bound_shares_compare_starts_in_the_same_regime() {
        let mpi = report(&[(NEAR, [2.0; 3]), (FAR, [9.0; 3]), (NEAR, [2.2; 3]), (NEAR, [2.0; 3])]);
        let bound =
            report(&[(NEAR, [1.0; 3]), (NEAR, [1.0; 3]), (NEAR, [1.1; 3]), (NEAR, [1.0; 3])]);
        let of =
            |start: &StartReport| compare_figures(&figures(start), start, &figures(&bound), &bound);
        let [low, high] = of(&mpi)[&(Pattern::Latency, 8)].config.ci95.unwrap();
        assert!((low - 0.5).abs() < 1e-9 && (high - 0.5).abs() < 1e-9, "{low} to {high}");
        // Two starts give no interval, and without an interval there is no notice.
        let two = starts(&[30.0, 30.0]);
        assert_eq!(of(&two)[&(Pattern::Latency, 8)].config.ci95, None);
        assert_eq!(judged(&two, &bound), (Vec::new(), Vec::new()));
    }

    #[test]
    fn time_far_above_the_lower_bound_is_suspect() {
        let times = |large: f64| (NEAR, [1.2e-6, 1.3e-6, large]);
        let mpi = report(&[times(300e-6), times(330e-6), times(315e-6)]);
        let bound = report(&[(NEAR, [1e-6, 1e-6, 100e-6]); 3]);
        let (notices, doubts) = judged(&mpi, &bound);
        assert_eq!(notices, [""; 0]);
        assert_eq!(
            doubts,
            [(
                1 << 20,
                "MPICH takes 3.1 times the time of nodegauge's own transport (the floor); check that the \
                 MPI uses shared memory; its transport is pml ob1, btl tcp"
                    .to_owned()
            )]
        );
        // Sizes with the same result form one range with one reason.
        let (_, near_doubts) = judged(&starts(&[3.0, 3.3, 3.1]), &starts(&[1.0, 1.0, 1.1]));
        assert!(
            near_doubts.len() == 3 && near_doubts.iter().all(|(_, why)| *why == near_doubts[0].1),
            "{near_doubts:?}"
        );
    }

    #[test]
    fn difference_within_the_spread_is_not_suspect() {
        let bound = starts(&[1.0, 1.0, 1.0]);
        // A time below twice the bound's is the normal overhead of an MPI.
        assert_eq!(judged(&starts(&[1.8, 1.81, 1.82]), &bound), (Vec::new(), Vec::new()));
        // The confidence interval contains one half.
        assert_eq!(judged(&starts(&[1.5, 2.5, 4.0]), &bound), (Vec::new(), Vec::new()));
        // The whole interval is below one half, but the ratio of the MPI's fastest start to the bound's slowest start
        // is not.
        let [mpi, alternating_bound] =
            [&[3.0, 6.1, 3.0, 6.0], &[1.0, 2.0, 1.0, 2.0]].map(|us| starts(us));
        let (notices, doubts) = judged(&mpi, &alternating_bound);
        assert_eq!((notices.len(), doubts), (1, Vec::new()));
        assert!(notices[0].starts_with("MPICH: latency of 8 B to 1 MiB takes 3.0 times the time"));
        // A doubtful lower bound is not a valid bound either.
        let (slow_mpi, slow_bound) = (starts(&[4.0; 3]), starts(&[1.0; 3]));
        let mut doubted = figures(&slow_bound);
        doubted.iter_mut().for_each(|of| of.measurement.validity.mark_suspect("busy"));
        let shares = compare_figures(&figures(&slow_mpi), &slow_mpi, &doubted, &slow_bound);
        let (open, no_doubts) = remarks("MPICH", &slow_mpi, &slow_bound, &shares, None);
        assert_eq!(no_doubts.len(), 0);
        // Without a valid bound, no setting of the MPI is recommended.
        assert!(open[0].message.contains("; cannot tell the cause: busy"), "{}", open[0].message);
        assert!(!open[0].message.contains("check that"), "{}", open[0].message);
    }

    #[test]
    fn faster_mpi_has_no_lower_bound() {
        let (notices, doubts) = judged(&starts(&[0.5, 0.51, 0.52]), &starts(&[1.0, 1.0, 1.0]));
        assert_eq!(doubts.len(), 0);
        assert_eq!(
            notices,
            [
                "MPICH: latency of 8 B to 1 MiB is 2.0 times as fast as nodegauge's own transport, which is \
              therefore not a lower bound for these sizes"
            ]
        );
    }

    #[test]
    fn advice_depends_on_route_and_eager_limit() {
        let (mpi, mut bound) = (starts(&[4.0; 3]), starts(&[1.0; 3]));
        let limit = EagerLimit { bytes: 4096, variable: "btl_sm_eager_limit".to_owned() };
        let look = |lower: &StartReport, from| {
            advice(&mpi, lower, Pattern::Latency, from, 1 << 20, Some(&limit))
        };
        assert!(
            look(&bound, 8)
                .starts_with("check that the MPI uses shared memory; its transport is pml")
        );
        assert!(look(&bound, 4096).starts_with("messages of 4 KiB or more wait for the receiver"));
        assert!(bound.output.read("size latency 1048576 0 1 1\nroute process_vm_readv"));
        assert!(look(&bound, 8).contains("copies these messages only once (process_vm_readv)"));
    }
}
