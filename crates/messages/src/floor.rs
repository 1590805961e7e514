//! An MPI against the floor: what this program's own transport (shared memory, the faster of a ring and a
//! single copy for each size) reaches between the same two cores in the same run, start by start by turns.
//! Pure.

use crate::GAUGE;
use crate::config::FloorConfig;
use crate::curve::EagerLimit;
use crate::pattern::Pattern;
use crate::result::MessageFigure;
use crate::start::StartReport;
use crate::transport::Route;
use nodegauge_measure::ratio;
use nodegauge_measure::{Bytes, Notice, NoticeId, regime, stats};
use std::collections::BTreeMap;

/// Patterns that are held against it: what a message costs, alone and among others.
pub(crate) const PATTERNS: [Pattern; 2] = [Pattern::Latency, Pattern::Bw];

/// An MPI that needs more than twice the floor's time is named.
const SLOW: f64 = 0.5;

/// Shares of the floor, by pattern and size.
pub(crate) type Shares = BTreeMap<(Pattern, u64), FloorConfig>;

/// How an MPI's figures stand to the floor's. The share is of the two figures as they are quoted; its
/// interval is from the starts of both, by turns, that met the same regime of the machine.
pub(crate) fn shares(
    (figures, mpi): (&[MessageFigure], &StartReport),
    (floors, floor): (&[MessageFigure], &StartReport),
) -> Shares {
    let mut shares = Shares::new();
    for own in floors {
        let what = |figure: &MessageFigure| {
            let pattern: Pattern = figure.measurement.name.parse().ok()?;
            Some((pattern, figure.config.message_bytes?)).filter(|_| figure.is_curve())
        };
        let Some(at) = what(own) else { continue };
        let of_mpi = figures.iter().find(|figure| what(figure) == Some(at));
        let values = of_mpi.and_then(|figure| figure.measurement.value.zip(own.measurement.value));
        let Some((reached, value)) = values.filter(|(a, b)| *a > 0.0 && *b > 0.0) else { continue };
        let share = if at.0.is_rate() { reached / value } else { value / reached };
        let ratios: Vec<f64> = mpi
            .by_start
            .iter()
            .zip(&floor.by_start)
            .filter(|(a, b)| a.trip.is_nan() || b.trip.is_nan() || regime::same(a.trip, b.trip))
            .filter_map(|(a, b)| Some(b.seconds.get(&at)? / a.seconds.get(&at)?))
            .collect();
        let ci95 = ratio::of_blocks(&ratios).map(|found| found.ci95);
        shares.insert(at, FloorConfig { value, share, ci95 });
    }
    shares
}

/// Which side of a bound the whole interval lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Slow,
    Faster,
    Between,
}

impl Standing {
    fn of(share: &FloorConfig) -> Self {
        let FloorConfig { share, ci95, .. } = *share;
        match ci95 {
            Some([_, high]) if high.max(share) < SLOW => Self::Slow,
            Some([low, _]) if low.min(share) > 1.0 => Self::Faster,
            _ => Self::Between,
        }
    }
}

/// Ranges of sizes in which an MPI takes more than twice the floor's time, with what to look at, or less
/// than the floor, which is none there.
pub(crate) fn remarks(
    name: &str,
    mpi: &StartReport,
    floor: &StartReport,
    shares: &Shares,
    eager: Option<&EagerLimit>,
) -> Vec<Notice> {
    let mut notices = Vec::new();
    for pattern in PATTERNS {
        let own: Vec<_> = shares.iter().filter(|((of, _), _)| *of == pattern).collect();
        for range in own.chunk_by(|a, b| Standing::of(a.1) == Standing::of(b.1)) {
            let (from, to) = (range[0].0.1, range[range.len() - 1].0.1);
            let sizes = match from == to {
                true => Bytes(from).to_string(),
                false => format!("{} to {}", Bytes(from), Bytes(to)),
            };
            let of_range = |share: &dyn Fn(&FloorConfig) -> f64| -> (f64, f64) {
                let all: Vec<f64> = range.iter().map(|(_, config)| share(config)).collect();
                (stats::quantile(&all, 0.0), stats::quantile(&all, 1.0))
            };
            let text = match Standing::of(range[0].1) {
                Standing::Between => continue,
                Standing::Slow => {
                    let (least, most) = of_range(&|config| 1.0 / config.share);
                    let look = look_at(mpi, floor, (pattern, from, to), eager);
                    format!(
                        "{name}: {pattern} of {sizes} takes {} the time that this node allows (the floor); {look}",
                        times(least, most)
                    )
                }
                Standing::Faster => {
                    let (least, most) = of_range(&|config| config.share);
                    format!(
                        "{name}: {pattern} of {sizes} is {} as fast as nodegauge's own transport, which is no floor there",
                        times(least, most)
                    )
                }
            };
            notices.push(Notice::new(NoticeId::Bottleneck, GAUGE, text));
        }
    }
    notices
}

/// `2.1 to 3.4 times`.
fn times(least: f64, most: f64) -> String {
    let (least, most) = (format!("{least:.1}"), format!("{most:.1}"));
    if least == most { format!("{least} times") } else { format!("{least} to {most} times") }
}

/// What may hold an MPI down in a range of sizes.
fn look_at(
    mpi: &StartReport,
    floor: &StartReport,
    (pattern, from, to): (Pattern, u64, u64),
    eager: Option<&EagerLimit>,
) -> String {
    let runs = &floor.output.sizes;
    let single_copy = runs.iter().any(|run| {
        (run.pattern, run.bytes) == (pattern, to)
            && run.routes.iter().any(|route| route == Route::Read.name())
    });
    let transport = mpi.transport.as_deref().unwrap_or("unknown to nodegauge");
    match eager {
        _ if single_copy => format!(
            "the floor copies once there (process_vm_readv): see that the MPI may (CMA in its transport, kernel.yama.ptrace_scope 0, no seccomp); its transport is {transport}"
        ),
        Some(EagerLimit { bytes, variable }) if from >= *bytes => format!(
            "messages of {} and more wait for the receiver ({variable}): try a higher limit",
            Bytes(*bytes)
        ),
        _ => format!("see that its transport is shared memory: it is {transport}"),
    }
}
