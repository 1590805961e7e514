//! An MPI against the floor: what this program's own transport (shared memory, the faster of a ring and a
//! single copy for each size) reaches between the same two cores in the same run, start by start by turns.
//! Pure.

use crate::GAUGE;
use crate::config::FloorConfig;
use crate::curve::EagerLimit;
use crate::pattern::Pattern;
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

/// How an MPI stands to the floor, from the starts of both that met the same regime of the machine.
pub(crate) fn shares(mpi: &StartReport, floor: &StartReport, window: u32) -> Shares {
    let both = mpi.by_start.iter().zip(&floor.by_start);
    let same = |a: f64, b: f64| a.is_nan() || b.is_nan() || regime::same(a, b);
    let both: Vec<_> = both.filter(|(a, b)| same(a.trip, b.trip)).collect();
    let mut ratios: BTreeMap<(Pattern, u64), (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for (of_mpi, of_floor) in both {
        for (what, floor) in &of_floor.seconds {
            if let Some(mpi) = of_mpi.seconds.get(what).filter(|mpi| **mpi > 0.0) {
                let (all, floors) = ratios.entry(*what).or_default();
                all.push(floor / mpi);
                floors.push(*floor);
            }
        }
    }
    let share = |((pattern, bytes), (all, floors)): ((Pattern, u64), (Vec<f64>, Vec<f64>))| {
        let interval = ratio::of_blocks(&all);
        let config = FloorConfig {
            value: pattern.figure(stats::median(&floors), bytes, window, 1),
            share: interval.map_or_else(|| stats::geometric_mean(&all), |found| found.ratio),
            ci95: interval.map(|found| found.ci95),
        };
        ((pattern, bytes), config)
    };
    ratios.into_iter().map(share).collect()
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
        match share.ci95 {
            Some([_, high]) if high < SLOW => Self::Slow,
            Some([low, _]) if low > 1.0 => Self::Faster,
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
    let route = |bytes: u64| {
        let run =
            floor.output.sizes.iter().find(|run| (run.pattern, run.bytes) == (pattern, bytes));
        run.and_then(|run| run.route.as_deref())
    };
    let single_copy = route(to) == Some(Route::Read.name());
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
