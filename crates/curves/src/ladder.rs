//! Ladder: bandwidth of read, write, copy and triad as a function of the working set, from 4 KiB per thread to four
//! times the last-level caches in use.
//!
//! A working set consists of all arrays of the loop, so that all four kernels use the same amount of memory at each
//! size. Every thread has its own working set. A timed call makes passes over the working set for some milliseconds, so
//! that the cost of the clock and the barrier is negligible even at 4 KiB, where a pass takes a few dozen cycles.
//! Stores are regular, because non-temporal stores bypass the caches that the ladder measures.

use crate::config::CurveConfig;
use crate::levels::{self, CurvePoint, MachineCache, NamedLevel};
use crate::prediction::CurveTimes;
use crate::run::{CurveRun, FigureOutline, TimeConversion, TimedCells};
use crate::{CurveSetup, Mode, notice, refuse_below, thinned, too_large};
use nodegauge_arena::ArenaError;
use nodegauge_chase::traffic::{self, WorkingSetLoop};
use nodegauge_kernels::{Kernel, ResidentLoop, Stores};
use nodegauge_machine::Topology;
use nodegauge_measure::record::{Cache, QuotedStatistic};
use nodegauge_measure::schedule::{PredictedTime, RemainingTime, policy};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, clock};
use nodegauge_placement::Placement;
use std::collections::BTreeSet;

/// Kernels that are measured for each working set.
const PATTERNS: [Kernel; 4] = [Kernel::Read, Kernel::Write, Kernel::Copy, Kernel::Triad];
/// Smallest working set of a thread, bytes.
pub(crate) const MIN_WORKING_SET: u64 = 4096;
/// Returns the working-set sizes of one thread, two per octave (4, 6, 8, 12, ... KiB). The last size is the first that
/// is at least `largest`; if `cap` is true, the last that does not exceed `largest`.
pub(crate) fn sizes(largest: u64, cap: bool) -> Vec<u64> {
    let mut sizes = Vec::new();
    for i in 0.. {
        let first = if i % 2 == 0 { MIN_WORKING_SET } else { MIN_WORKING_SET / 2 * 3 };
        // No larger size can be represented.
        if i / 2 > first.leading_zeros() {
            break;
        }
        let size = first << (i / 2);
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

/// Returns the reported caches from level 1 upwards, each with the share of one thread while all threads of the
/// placement run. Caches of unknown size are omitted.
pub(crate) fn reported_caches(topology: &Topology, placement: &Placement) -> Vec<MachineCache> {
    let threads = placement.threads.len().max(1) as u64;
    let cpus = placement.cpus();
    let caches: Vec<&Cache> =
        topology.caches.iter().filter(|cache| cache.contains_data()).collect();
    let last = caches.iter().map(|cache| cache.level).max();
    let used = cpus.iter().filter_map(|cpu| topology.thread(*cpu)).map(|thread| thread.core);
    let cores = used.collect::<BTreeSet<usize>>().len() as u64;
    let mut reported = Vec::new();
    for (at, cache) in caches.iter().enumerate() {
        // Of caches of different sizes of one level, the largest counts; it is the last one.
        if caches.get(at + 1).is_some_and(|next| next.level == cache.level) {
            continue;
        }
        let Some(total_bytes) = cache.bytes else { continue };
        // The number of threads per cache is known for the last level. For other levels, threads are assumed to be
        // distributed evenly over the cores that share the cache.
        let in_use = if Some(cache.level) == last {
            topology.llc_bytes_and_count(&cpus).map_or(1, |(_, count)| count as u64)
        } else {
            cores.div_ceil(u64::from(cache.cores.max(1))).max(1)
        };
        let sharers = threads.div_ceil(in_use).max(1);
        reported.push(MachineCache {
            level: cache.level,
            total_bytes,
            bytes: total_bytes / sharers,
        });
    }
    reported
}

/// Returns the working-set sizes of a thread in ascending order. The run may use `share` (0 to 1) of the usable memory.
///
/// # Errors
/// Fails if the requested largest working set is smaller than the minimum, or does not fit in memory.
pub(crate) fn working_sets(
    setup: CurveSetup<'_>,
    share: f64,
    notices: &mut Vec<Notice>,
) -> Result<Vec<u64>, Failure> {
    let threads = setup.threads();
    let largest = setup.largest(notices);
    refuse_below(Bytes(MIN_WORKING_SET * threads), largest)?;
    let asked = setup.options.max_working_set.is_some();
    let mut sets = sizes(largest.0.div_ceil(threads), asked);
    let usable = Bytes((setup.usable().as_f64() * share) as u64);
    let needed = Bytes(sets[sets.len() - 1]) * threads;
    let few = sets.iter().filter(|set| Bytes(**set) * threads <= usable).count();
    if few < sets.len() {
        if asked || few == 0 {
            return Err(too_large("the largest working set", needed, usable));
        }
        sets.truncate(few);
        let end = Bytes(sets[few - 1] * threads);
        let text = format!(
            "the largest working set is {end} instead of {needed}, which exceeds the usable memory"
        );
        notices.push(notice(NoticeId::Clamped, text));
    }
    Ok(sets)
}

/// Planned measurement of a ladder.
pub(super) struct Ladder {
    /// Working-set sizes of a thread, ascending.
    sets: Vec<u64>,
    threads: u64,
}

/// Plans the measurement of a ladder.
pub(super) fn plan(setup: CurveSetup<'_>, notices: &mut Vec<Notice>) -> Result<Ladder, Failure> {
    Ok(Ladder { sets: working_sets(setup, 1.0, notices)?, threads: setup.threads() })
}

impl Mode for Ladder {
    fn memory(&self) -> Bytes {
        Bytes(self.sets[self.sets.len() - 1] * self.threads)
    }

    fn predicted(&self, times: &CurveTimes<'_>) -> PredictedTime {
        // The largest working set takes most of the time and is always measured.
        times.predict_loops(self.memory(), PATTERNS.len() as u32)
    }

    fn measure(&self, run: &mut CurveRun<'_>) -> Result<(), ArenaError> {
        let setup = run.setup;
        let workers = self.threads;
        let largest = self.sets[self.sets.len() - 1];
        run.observer.begin_phase(&format!("preparing {} for each thread", Bytes(largest)));
        let mut pool = run.start_thread_pool()?;
        let everyone = 0..pool.workers();
        let region = run.allocate_buffers(&mut pool, everyone, largest)?;
        let buffers = region.buffers();

        let caches = reported_caches(&setup.site.topology, setup.placement);
        run.observer.begin_phase("choosing the fastest loop for each level");
        let mut variants: Vec<Vec<ResidentLoop>> = Vec::new();
        let choice_sets = choice_sets(&self.sets, &caches);
        let mut tried = 0;
        let all = choice_sets.len() * PATTERNS.len();
        for set in choice_sets {
            let mut chosen = Vec::new();
            for kernel in PATTERNS {
                tried += 1;
                let until = tried as f64 / all as f64;
                let stores = &[Stores::Regular];
                let bytes = set as usize;
                let fastest =
                    run.find_fastest_loop(until, &mut pool, buffers, kernel, stores, bytes)?;
                chosen.extend(fastest);
            }
            variants.push(chosen);
        }
        run.observer.begin_phase("checking every element");
        let time = RemainingTime::new(&policy::CURVES_AFTER_SETUP, &run.limits);
        let notices = &mut run.outcome.notices;
        let taken = thinned::set_up(&self.sets, workers, time, run.observer, notices, |i| {
            let set = self.sets[i];
            let mut step = loops(&variants, &caches, set);
            for traffic in &mut step {
                traffic.prepare(&mut pool, buffers)?;
            }
            let begun = clock::now();
            let first = traffic::refill_and_sample(&step, &mut pool, buffers, set)?;
            Ok::<_, ArenaError>(((step, vec![first]), clock::now() - begun))
        })?;
        let sets: Vec<u64> = taken.keys().map(|i| self.sets[*i]).collect();
        let (steps, first): (Vec<Vec<WorkingSetLoop>>, Vec<_>) = taken.into_values().unzip();
        let phase = "measuring all working sets, interleaved";
        let judged =
            run.take_samples_after_warm_up(policy::CURVES_AFTER_SETUP, first, phase, |i| {
                traffic::refill_and_sample(&steps[i], &mut pool, buffers, sets[i])
            })?;

        // All loops are measured with the same working-set sizes.
        let mut dots = Vec::new();
        for (i, set) in sets.iter().enumerate() {
            let Some(values) = best_rates(&judged, i, &steps[i], workers) else { break };
            dots.push(CurvePoint { bytes: *set, values, cached: None });
        }
        let named = run.name_levels(&dots, &caches, dots.len() == self.sets.len());
        let (config, doubts) = run.config_and_validity(&pool, &region);
        for part in 0..PATTERNS.len() {
            for (i, set) in sets.iter().enumerate() {
                let Some(traffic) = steps[i].get(part) else { continue };
                let level = levels::level_at(&named, i);
                let config = CurveConfig {
                    element: Some("f64".to_owned()),
                    array_bytes: Some(traffic.array_bytes()),
                    set_bytes: Some(set * workers),
                    thread_bytes: Some(*set),
                    level: level.map(|level_name| level_name.name.clone()),
                    level_reported_bytes: level.and_then(NamedLevel::share),
                    ..config.clone()
                };
                // Only working sets much larger than the caches are compared with the theoretical memory bandwidth.
                let limited =
                    *set == largest && level.is_some_and(|level| level.reported.is_none());
                let figure = FigureOutline {
                    name: (set * workers).to_string(),
                    quoted: QuotedStatistic::Best,
                    value: TimeConversion::Loop(traffic, limited),
                    config,
                    validity: doubts.clone(),
                };
                run.add_figure(&judged, i, part, figure);
            }
        }
        Ok(())
    }
}

/// Returns the loops for a working set: for each kernel, the loop that was the fastest in the memory level of this set.
fn loops(variants: &[Vec<ResidentLoop>], caches: &[MachineCache], set: u64) -> Vec<WorkingSetLoop> {
    let level = caches.iter().take_while(|cache| cache.bytes < set).count();
    let of_level = variants[level.min(variants.len() - 1)].iter();
    of_level.map(|variant| WorkingSetLoop::new(*variant, set as usize)).collect()
}

/// Returns the best rate of each loop of a cell, bytes per second; `None` if no sample of the cell counts.
fn best_rates(
    judged: &TimedCells,
    cell: usize,
    loops: &[WorkingSetLoop],
    workers: u64,
) -> Option<Vec<f64>> {
    let mut rates = Vec::new();
    for (part, traffic) in loops.iter().enumerate() {
        let best = judged.seconds(cell, part).into_iter().reduce(f64::min)?;
        rates.push(workers as f64 * traffic.counted_bytes() / best);
    }
    Some(rates)
}

/// Returns the working-set sizes at which the fastest loop is chosen: half of each cache, and the largest working set.
fn choice_sets(sets: &[u64], caches: &[MachineCache]) -> Vec<u64> {
    let largest = sets[sets.len() - 1];
    let mut chosen = Vec::new();
    for cache in caches.iter().filter(|cache| cache.bytes < largest) {
        let half = cache.bytes / 2;
        chosen.push(sets.iter().copied().rfind(|set| *set <= half).unwrap_or(sets[0]));
    }
    chosen.push(largest);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::TopologySource;
    use nodegauge_placement::PlacementRequest;

    #[test]
    fn ladder_has_two_sets_per_octave() {
        assert_eq!(sizes(30 << 10, false), [4096, 6144, 8192, 12288, 16384, 24576, 32768]);
        assert_eq!(sizes(30 << 10, true), [4096, 6144, 8192, 12288, 16384, 24576]);
        assert_eq!(sizes(4096, true), [4096]);
        assert_eq!(sizes(32768, true).last(), Some(&32768));
        assert_eq!(sizes(32768, false).last(), Some(&32768));
    }

    #[test]
    fn shared_cache_is_divided_among_threads() {
        let text = "synthetic:Package:2 NUMANode:4(memory=96GiB) L3Cache:3(size=32MiB) \
                    L2Cache:8(size=1MiB) L1dCache:1(size=32KiB) Core:1 PU:2";
        let source: TopologySource = text.parse().unwrap();
        let topology = Topology::load(&source).unwrap();
        let plan =
            |request: &PlacementRequest| nodegauge_placement::plan(&topology, request).unwrap();
        let all = reported_caches(&topology, &plan(&PlacementRequest::default()));
        let sizes: Vec<(u32, u64)> = all.iter().map(|cache| (cache.level, cache.bytes)).collect();
        assert_eq!(sizes, [(1, 32 << 10), (2, 1 << 20), (3, 4 << 20)]);
        let one = reported_caches(
            &topology,
            &plan(&PlacementRequest { threads: Some(1), ..PlacementRequest::default() }),
        );
        assert_eq!(one[2].bytes, 32 << 20);
    }

    #[test]
    fn loops_are_chosen_with_one_set_per_level() {
        let sets = sizes(64 << 20, false);
        let cache =
            |level, kib: u64| MachineCache { level, total_bytes: kib << 10, bytes: kib << 10 };
        let caches = [cache(1, 48), cache(2, 1 << 10), cache(3, 16 << 10)];
        assert_eq!(choice_sets(&sets, &caches), [24 << 10, 512 << 10, 8 << 20, 64 << 20]);
        assert_eq!(choice_sets(&sets[..2], &caches), [6144]);
    }
}
