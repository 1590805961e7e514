//! Idle latency as a function of the working set: the time per load of a pointer chase, on base pages and on huge
//! pages. The difference shows the cost of TLB misses.
//!
//! All working sets on one kind of page share one memory region. A cache line has eight words, and the chains of
//! successive sizes use different words of the same lines, so that 31 sizes need little more memory than the largest.
//! Before each sample, the chase passes through its working set until the time per load stops falling, so that caches
//! and TLB are in a steady state. If the working set is larger than the last-level caches, a pass covers only as much
//! as these caches hold. One pass is not enough for a cache that receives lines evicted from another cache, or that is
//! shared with other programs.

use crate::config::CurveConfig;
use crate::ladder::{self, MIN_WORKING_SET};
use crate::levels::{self, CurvePoint, NamedLevel};
use crate::prediction::CurveTimes;
use crate::run::{CurveRun, FigureOutline, TimeConversion, TimedCells};
use crate::{CurveSetup, Mode, memory_chase, refuse_below, thinned};
use nodegauge_arena::ArenaError;
use nodegauge_arena::RequestedPages;
use nodegauge_arena::supply::default_pages;
use nodegauge_chase::{CHAINS_PER_LINE, ChainPosition, Chase, Cycle, MemoryRegion, is_cached};
use nodegauge_measure::record::QuotedStatistic;
use nodegauge_measure::schedule::{PredictedTime, RemainingTime, policy};
use nodegauge_measure::{Bytes, Failure, Notice, clock, stats};

/// Maximum ratio of the size of a region to the size of its largest working set.
const REGION_OVER_SET: f64 = 1.2;

/// Returns the position of each working set's chain in a common region (an offset, and a word of each line), and the
/// size of the region. Chains that use the same word do not overlap.
fn slots(sets: &[u64]) -> (Vec<ChainPosition>, u64) {
    let mut ends = [0; CHAINS_PER_LINE];
    let mut places = Vec::new();
    // The largest working set is placed first, so that the region is only slightly larger than this set.
    for set in sets.iter().rev() {
        let slot = places.len() % CHAINS_PER_LINE;
        places.push(ChainPosition { offset: ends[slot], slot });
        ends[slot] += set.next_multiple_of(4096);
    }
    places.reverse();
    (places, ends.into_iter().max().unwrap_or(0))
}

/// Planned measurement of latencies.
pub(super) struct Latency {
    /// Working-set sizes, ascending.
    sets: Vec<u64>,
    /// Kinds of pages: as requested, or base pages and the largest pages that need no reservation.
    kinds: Vec<RequestedPages>,
}

/// Plans the measurement of latencies with one thread.
pub(super) fn plan(setup: CurveSetup<'_>, notices: &mut Vec<Notice>) -> Result<Latency, Failure> {
    let threads = setup.threads();
    let options = setup.options;
    if threads != 1 {
        return Err(Failure::usage(format!(
            "latency requires a single thread, but {threads} are requested"
        ))
        .hint("--threads 1"));
    }
    let kinds = match (options.pages, default_pages(&setup.site.machine)) {
        (Some(pages), _) => vec![pages],
        (None, RequestedPages::Base) => vec![RequestedPages::Base],
        (None, best) => vec![RequestedPages::Base, best],
    };
    let mut sets =
        ladder::working_sets(setup, 1.0 / (REGION_OVER_SET * kinds.len() as f64), notices)?;
    // A working set of fewer than eight elements is too small for a chase.
    let fewest = MIN_WORKING_SET.max(8 * options.order.stride as u64);
    refuse_below(Bytes(fewest), Bytes(sets[sets.len() - 1]))?;
    sets.retain(|set| *set >= fewest);
    Ok(Latency { sets, kinds })
}

impl Mode for Latency {
    fn memory(&self) -> Bytes {
        Bytes(slots(&self.sets).1) * self.kinds.len() as u64
    }

    fn predicted(&self, times: &CurveTimes<'_>) -> PredictedTime {
        // The largest working set takes most of the time and is always measured.
        let largest = Bytes(self.sets[self.sets.len() - 1]);
        self.kinds.iter().map(|_| times.predict_chase(largest)).sum()
    }

    fn measure(&self, run: &mut CurveRun<'_>) -> Result<(), ArenaError> {
        let setup = run.setup;
        let options = setup.options;
        let (places, bytes) = slots(&self.sets);
        let chains = self.sets.len() * self.kinds.len();
        run.observer.begin_phase(&format!("preparing {chains} chains through {}", Bytes(bytes)));
        let mut pool = run.start_thread_pool()?;
        let mut regions = Vec::new();
        for pages in &self.kinds {
            regions.push(MemoryRegion::allocate(&mut pool, 0..1, bytes, *pages, &options.policy)?);
        }
        let time = RemainingTime::new(&policy::CURVES_AFTER_SETUP, &run.limits);
        let notices = &mut run.outcome.notices;
        let taken = thinned::set_up(&self.sets, 1, time, run.observer, notices, |i| {
            let cycle = Cycle::new(self.sets[i], options.order)?;
            let mut chases: Vec<Chase<'_>> = Vec::new();
            for region in &regions {
                // SAFETY: chains with the same slot do not overlap, and no other code uses the regions.
                chases.push(unsafe { Chase::write(region, places[i], &cycle, setup.held()) });
            }
            let begun = clock::now();
            let turns = chases.iter_mut().map(|chase| Ok(vec![chase.take_idle_sample(&mut pool)?]));
            let samples = turns.collect::<Result<Vec<_>, ArenaError>>()?;
            Ok::<_, ArenaError>(((chases, samples), clock::now() - begun))
        })?;
        let sets: Vec<u64> = taken.keys().map(|i| self.sets[*i]).collect();
        // The cells are sorted by the kind of pages, then by size.
        let mut cells = Vec::new();
        let mut samples = Vec::new();
        let mut by_set: Vec<_> =
            taken.into_values().map(|(chases, first)| chases.into_iter().zip(first)).collect();
        for _ in &regions {
            let (chases, first): (Vec<_>, Vec<_>) =
                by_set.iter_mut().flat_map(Iterator::next).unzip();
            cells.extend(chases);
            samples.extend(first);
        }
        let phase = "chasing through all working sets, interleaved";
        let judged =
            run.take_samples_after_warm_up(policy::CURVES_AFTER_SETUP, samples, phase, |i| {
                cells[i].take_idle_sample(&mut pool)
            })?;
        let caches = ladder::reported_caches(&setup.site.topology, setup.placement);
        // Levels are detected on huge pages. On base pages, TLB misses cause additional steps in the curve.
        let last = (regions.len() - 1) * sets.len();
        let all = sets.iter().enumerate();
        let dots: Vec<CurvePoint> =
            all.map_while(|(i, set)| dot(&judged, last + i, *set)).collect();
        let named = run.name_levels(&dots, &caches, dots.len() == self.sets.len());
        for (k, region) in regions.iter().enumerate() {
            let first = k * sets.len();
            let (mut config, validity) = run.config_and_validity(&pool, region);
            config.add_order(options.order);
            for (i, set) in sets.iter().enumerate() {
                let level = levels::level_at(&named, i);
                let config = CurveConfig {
                    set_bytes: Some(*set),
                    thread_bytes: Some(*set),
                    steps: Some(cells[first + i].steps() as u64),
                    flushed_s: memory_chase::flushed_load_time(&judged, first + i, 1),
                    level: level.map(|level_name| level_name.name.clone()),
                    level_reported_bytes: level.and_then(NamedLevel::share),
                    ..config.clone()
                };
                let figure = FigureOutline {
                    name: set.to_string(),
                    quoted: QuotedStatistic::Median,
                    value: TimeConversion::Seconds,
                    config,
                    validity: validity.clone(),
                };
                run.add_figure(&judged, first + i, 0, figure);
            }
        }
        Ok(())
    }
}

/// Returns the point of the curve for a working set; `None` if no sample of its cell counts.
fn dot(judged: &TimedCells, cell: usize, set: u64) -> Option<CurvePoint> {
    let step = stats::median(&judged.seconds(cell, 0));
    let cached = memory_chase::flushed_load_time(judged, cell, 1).map(|time| is_cached(step, time));
    step.is_finite().then(|| CurvePoint { bytes: set, values: vec![step], cached })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chains_of_one_slot_do_not_overlap(largest in 12u32..34) {
            let sets = ladder::sizes(1 << largest, false);
            let (places, bytes) = slots(&sets);
            for (i, ChainPosition { offset, slot }) in places.iter().enumerate() {
                prop_assert!(*slot < CHAINS_PER_LINE && offset + sets[i] <= bytes);
                prop_assert_eq!(offset % 4096, 0);
                for (j, ChainPosition { offset: at, slot: other }) in places.iter().enumerate().take(i) {
                    let apart = offset + sets[i] <= *at || at + sets[j] <= *offset;
                    prop_assert!(slot != other || apart);
                }
            }
            let most = sets[sets.len() - 1] as f64;
            prop_assert!(sets.len() < 9 || bytes as f64 <= most * 1.2);
        }
    }
}
