//! The ladder: bandwidth of read, write, copy and triad by working set, from 4 KiB a thread to four
//! times the last-level caches in use.
//!
//! A working set is all that the loop's arrays take together, so that all four are at the same step of
//! the ladder at once. Every thread has a set of its own. A timed call goes over its set again and
//! again for milliseconds, so that at 4 KiB, some dozens of cycles, the clock and the barrier still
//! vanish. Stores are regular: a store past the caches has no place on a ladder of caches.

use crate::curves::figures::{self, Figure, Judged};
use crate::curves::levels::{self, Dot, Named, Reported};
use crate::curves::pool::WorkerPool;
use crate::curves::region::MemoryRegion;
use crate::curves::rounds::{self, Until};
use crate::curves::traffic::{self, CALL_SECONDS, Traffic};
use crate::curves::{CurveError, Options, Outcome, Site, pages_or_best};
use crate::kernels::{Kernel, Resident, Stores};
use crate::point::{PointError, Sample};
use crate::stream::masks;
use nodegauge_machine::Topology;
use nodegauge_measure::Bytes;
use nodegauge_measure::Observer;
use nodegauge_measure::Unit;
use nodegauge_measure::record::Quoted;
use nodegauge_measure::record::{Measurement, Status};
use nodegauge_measure::repeat::Stop;
use nodegauge_placement::{MemoryPolicy, Placement};
use serde_json::json;
use std::time::Instant;

/// What runs at each step.
pub const PATTERNS: [Kernel; 4] = [Kernel::Read, Kernel::Write, Kernel::Copy, Kernel::Triad];
/// The smallest set of a thread, bytes.
pub const SMALLEST: u64 = 4096;
/// Share of the budget that the trials may take.
const TRIAL_SHARE: f64 = 0.2;
/// Share of the budget by which the rounds must end.
const END_SHARE: f64 = 0.95;

/// Sets of one thread, two an octave (4, 6, 8, 12, ... KiB), up to the first that is at least
/// `largest`, or to the last below it when `cap` says that it may not be passed.
pub(crate) fn sizes(largest: u64, cap: bool) -> Vec<u64> {
    let mut sizes = Vec::new();
    for i in 0.. {
        let size = (if i % 2 == 0 { SMALLEST } else { SMALLEST / 2 * 3 }) << (i / 2);
        if size > largest && (cap || sizes.last().is_some_and(|last| *last >= largest)) {
            break;
        }
        sizes.push(size);
        if size >= largest {
            break;
        }
    }
    sizes
}

/// The share of each reported cache that one thread of a placement has while all threads work, level
/// 1 first; caches of unknown size are left out.
pub fn reported(topology: &Topology, placement: &Placement) -> Vec<Reported> {
    let threads = placement.threads.len().max(1) as u64;
    let cpus = placement.cpus();
    let last = topology.caches.iter().filter(|cache| cache.kind != "instruction").map(|c| c.level);
    let last = last.max().unwrap_or(0);
    let mut cores: Vec<usize> =
        cpus.iter().filter_map(|cpu| topology.thread(*cpu)).map(|thread| thread.core).collect();
    cores.sort_unstable();
    cores.dedup();
    topology
        .caches
        .iter()
        .filter(|cache| cache.kind != "instruction")
        .filter_map(|cache| {
            // Threads that share one: of the last level it is known which; of the others, threads
            // spread evenly over the cores that they have.
            let in_use = match cache.level == last {
                true => topology.llc_in_use(&cpus).map_or(1, |(_, count)| count as u64),
                false => (cores.len() as u64).div_ceil(u64::from(cache.cores.max(1))).max(1),
            };
            let sharers = threads.div_ceil(in_use).max(1);
            Some(Reported { level: cache.level, bytes: cache.bytes? / sharers })
        })
        .collect()
}

/// Sets of a thread, ascending, for a run.
///
/// # Errors
/// When a largest set is asked for that is below the smallest, or that does not fit.
pub fn plan(
    site: &Site<'_>,
    options: &Options,
    notices: &mut Vec<String>,
) -> Result<Vec<u64>, CurveError> {
    let threads = site.placement.threads.len().max(1) as u64;
    let largest = site.largest(options, notices);
    let least = Bytes(SMALLEST * threads);
    if largest < least {
        return Err(CurveError::TooSmall { given: largest, least });
    }
    let asked = options.largest.is_some();
    let mut sets = sizes(largest.0.div_ceil(threads), asked);
    let usable = site.usable(options, options.pages);
    let fits = |set: &u64| set * threads <= usable.0;
    let needed = Bytes(sets.last().copied().unwrap_or(SMALLEST) * threads);
    if !sets.last().is_some_and(fits) {
        let few = sets.iter().filter(|set| fits(set)).count();
        if asked || few == 0 {
            return Err(CurveError::TooLarge { what: "the largest set", needed, usable });
        }
        sets.truncate(few);
        notices.push(format!(
            "sets end at {} in all instead of {needed}: no more memory may be used",
            Bytes(sets[few - 1] * threads)
        ));
    }
    Ok(sets)
}

/// The step of one set: its four patterns, measured one after the other.
struct Step {
    bytes: u64,
    traffic: Vec<Traffic>,
    wrong: Vec<Option<String>>,
}

/// Measures the ladder.
///
/// # Errors
/// No memory, pages or CPUs as asked.
pub fn run(
    site: &Site<'_>,
    options: &Options,
    watch: &mut dyn Observer,
) -> Result<Outcome, CurveError> {
    let started = Instant::now();
    let mut notices = Vec::new();
    let sets = plan(site, options, &mut notices)?;
    let largest = sets.last().copied().unwrap_or(SMALLEST);
    let pages = pages_or_best(options, site.machine);
    let places = masks(site.placement);
    watch.phase(&format!("preparing {} for each of {} threads", Bytes(largest), places.len()));
    let mut pool = WorkerPool::start(&places, site.spare())?;
    let area = MemoryRegion::map(Bytes(largest), places.len(), pages, &options.policy)?;
    area.touch(&mut pool)?;

    let caches = reported(site.topology, site.placement);
    watch.phase("choosing the fastest loop for each level");
    let trials_end = started + options.budget.mul_f64(TRIAL_SHARE);
    let mut variants: Vec<Vec<Resident>> = Vec::new();
    for step in trial_sets(&sets, &caches) {
        let mut chosen = Vec::new();
        for pattern in PATTERNS {
            let stop = || watch.interrupted() || Instant::now() >= trials_end;
            let constraint = (pattern, Stores::Regular);
            chosen.extend(traffic::fastest(&mut pool, &area, constraint, step as usize, stop)?);
        }
        variants.push(chosen);
    }
    let mut steps: Vec<Step> = sets
        .iter()
        .map(|bytes| {
            let level = caches.iter().take_while(|cache| cache.bytes < *bytes).count();
            let variants = &variants[level.min(variants.len() - 1)];
            let on = |variant: &Resident| Traffic {
                variant: *variant,
                bytes: *bytes as usize,
                repeats: 1,
            };
            Step { bytes: *bytes, traffic: variants.iter().map(on).collect(), wrong: Vec::new() }
        })
        .collect();

    watch.phase("measuring all sets by turns");
    let until =
        Until { deadline: started + options.budget.mul_f64(END_SHARE), samples: options.samples };
    let rounds =
        rounds::by_turns(steps.len(), until, watch, |i| turn(&mut steps[i], &mut pool, &area))?;
    let judged = Judged::new(rounds.samples);
    let mut outcome = Outcome {
        findings: judged.findings(),
        notices,
        affinity: pool.observed().iter().map(ToString::to_string).collect(),
        interrupted: rounds.stop == Stop::Interrupted,
        ..Outcome::default()
    };
    let named = read_levels(&steps, &judged, &caches, site, &mut outcome.notices);
    outcome.measurements =
        measurements(&steps, &judged, &named, &pool, &area, site, (&options.policy, rounds.stop));
    Ok(outcome)
}

/// The set of each level at which its loop is chosen: half of the cache, or the largest set.
fn trial_sets(sets: &[u64], caches: &[Reported]) -> Vec<u64> {
    let largest = sets[sets.len() - 1];
    let nearest = |wished: u64| sets.iter().copied().rfind(|set| *set <= wished).unwrap_or(sets[0]);
    let halves = caches.iter().filter(|cache| cache.bytes < largest).map(|cache| cache.bytes / 2);
    halves.map(nearest).chain([largest]).collect()
}

/// One turn of a step: its patterns, each timed. The first turn also sets repetitions and checks
/// every element.
fn turn(step: &mut Step, pool: &mut WorkerPool, area: &MemoryRegion) -> Result<Sample, PointError> {
    let bytes = step.bytes as usize;
    if step.wrong.is_empty() {
        for traffic in &mut step.traffic {
            let wrong = traffic.check(pool, area)?;
            step.wrong.push(wrong);
            traffic.calibrate(pool, area, CALL_SECONDS)?;
        }
    }
    traffic::refill(pool, area, bytes)?;
    let before = pool.round_trip()?;
    let mut seconds = Vec::with_capacity(step.traffic.len());
    let mut causes = Vec::new();
    for traffic in &step.traffic {
        let timed = traffic.run(pool, area)?;
        seconds.push(timed.seconds / traffic.repeats as f64);
        causes.extend(timed.causes);
    }
    let after = pool.round_trip()?;
    Ok(Sample { seconds, round_trips: (before, after), causes, each: Vec::new() })
}

/// The levels of the curve of reads, and what they say against the machine's word.
fn read_levels(
    steps: &[Step],
    judged: &Judged,
    caches: &[Reported],
    site: &Site<'_>,
    notices: &mut Vec<String>,
) -> Vec<Named> {
    let workers = site.placement.threads.len() as f64;
    let mut dots = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let best = judged.seconds(i, 0).into_iter().fold(f64::INFINITY, f64::min);
        let Some(read) = step.traffic.first().filter(|_| best.is_finite()) else { break };
        dots.push(Dot { bytes: step.bytes, value: workers * read.counted() / best });
    }
    let named = levels::name(&dots, &levels::levels(&dots), caches);
    if dots.len() == steps.len() {
        notices.extend(levels::disagreements(&dots, &named, caches));
    }
    named
}

fn measurements(
    steps: &[Step],
    judged: &Judged,
    named: &[Named],
    pool: &WorkerPool,
    area: &MemoryRegion,
    site: &Site<'_>,
    (policy, stop): (&MemoryPolicy, Stop),
) -> Vec<Measurement> {
    let workers = pool.workers() as u64;
    let (pages, doubts) = figures::pages(area.mapping());
    let nodes = figures::nodes(area.mapping(), policy);
    let mut all = Vec::new();
    for (part, _) in PATTERNS.iter().enumerate() {
        for (i, step) in steps.iter().enumerate() {
            let Some(traffic) = step.traffic.get(part) else { continue };
            let level =
                named.iter().find(|named| (named.level.first..=named.level.last).contains(&i));
            let mut config = figures::object(json!({
                "engine": "native",
                "threads": workers,
                "places": figures::places(pool.observed()),
                "places_asked": site.placement.places,
                "bind": site.placement.bind.to_string(),
                "pages": pages,
            "numa": nodes,
                "element": "f64",
                "array_bytes": traffic.counted() as u64
                    / u64::from(traffic.kernel().spec().words()),
                "set_bytes": step.bytes * workers,
                "thread_bytes": step.bytes,
                "level": level.map(|named| named.name.clone()),
                "level_reported_bytes": level.and_then(|named| named.reported),
                "stopped": stop.to_string(),
            }));
            config.extend(figures::object(traffic.config()));
            let mut validity = doubts.clone();
            if let Some(Some(wrong)) = step.wrong.get(part) {
                validity.add(
                    Status::Invalid,
                    format!("the arrays do not hold what they must: {wrong}"),
                );
            }
            let figure = Figure {
                test: "ladder",
                name: (step.bytes * workers).to_string(),
                unit: Unit::BytesPerSecond,
                amount: traffic.counted() * workers as f64,
                quoted: Quoted::Best,
                traffic: Some(traffic.moved()),
                // Only sets far beyond the caches move through main memory.
                limited: i + 1 == steps.len() && level.is_some_and(|level| level.name == "memory"),
                config,
                validity,
            };
            all.extend(judged.measurement(i, part, figure, site));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::TopologySource;
    use nodegauge_placement::Request;

    #[test]
    fn sets_are_two_an_octave_and_reach_beyond_the_largest() {
        assert_eq!(sizes(30 << 10, false), [4096, 6144, 8192, 12288, 16384, 24576, 32768]);
        assert_eq!(sizes(30 << 10, true), [4096, 6144, 8192, 12288, 16384, 24576]);
        assert_eq!(sizes(4096, true), [4096]);
        assert_eq!(sizes(32768, true).last(), Some(&32768));
        assert_eq!(sizes(32768, false).last(), Some(&32768));
    }

    #[test]
    fn a_thread_has_its_share_of_a_shared_cache() {
        let text = "synthetic:Package:2 NUMANode:4(memory=96GiB) L3Cache:3(size=32MiB) \
                    L2Cache:8(size=1MiB) L1dCache:1(size=32KiB) Core:1 PU:2";
        let source: TopologySource = text.parse().unwrap();
        let topology = Topology::load(&source).unwrap();
        let plan = |request: &Request| nodegauge_placement::plan(&topology, request).unwrap();
        let all = reported(&topology, &plan(&Request::default()));
        let sizes: Vec<(u32, u64)> = all.iter().map(|cache| (cache.level, cache.bytes)).collect();
        assert_eq!(sizes, [(1, 32 << 10), (2, 1 << 20), (3, 4 << 20)]);
        let one = reported(&topology, &plan(&Request { threads: Some(1), ..Request::default() }));
        assert_eq!(one[2].bytes, 32 << 20);
    }

    #[test]
    fn loops_are_chosen_within_each_level_and_in_memory() {
        let sets = sizes(64 << 20, false);
        let caches = [
            Reported { level: 1, bytes: 48 << 10 },
            Reported { level: 2, bytes: 1 << 20 },
            Reported { level: 3, bytes: 16 << 20 },
        ];
        assert_eq!(trial_sets(&sets, &caches), [24 << 10, 512 << 10, 8 << 20, 64 << 20]);
        assert_eq!(trial_sets(&sets[..2], &caches), [6144]);
    }
}
