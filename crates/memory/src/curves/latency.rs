//! Idle latency by working set: the time of one step of a chase, on base pages and on huge ones, so
//! that what the TLB costs is seen.
//!
//! All sets on one kind of page share one region: a line has eight words, and neighbouring sizes
//! chain through different ones, so that 31 sizes take little more than the largest. Before each
//! sample the chase goes through its whole set (through as much as the last-level caches hold, of a
//! larger one) until that gets no faster, so that caches and TLB hold what they would hold after any
//! number of rounds: a cache that takes what another evicts, or that other programs share, needs more
//! than one.

use crate::arrays::Pages;
use crate::config::CurveConfig;
use crate::curves::chase::{self, Chase, SLOTS};
use crate::curves::ladder::{self, SMALLEST};
use crate::curves::levels::{self, Dot, Named};
use crate::curves::region::MemoryRegion;
use crate::curves::run::{Figure, Run, Value};
use crate::curves::{Mode, Setup, refuse_below};
use crate::point::PointError;
use crate::stream;
use nodegauge_measure::record::Quoted;
use nodegauge_measure::schedule::policy;
use nodegauge_measure::{Bytes, Failure, Notice, stats};

/// How long a timed stretch of a chase lasts, seconds.
const CHASE_SECONDS: f64 = 1.5e-3;
/// A region over its largest set, at most.
const REGION_OVER_SET: f64 = 1.2;

/// Where the chains of several sets lie in one region: word of a line, and offset, of each set; and
/// the bytes of the region.
///
/// Sets that use the same word lie one behind the other.
fn slots(sets: &[u64]) -> (Vec<(usize, u64)>, u64) {
    let mut ends = [0; SLOTS];
    let mut places = Vec::new();
    // The largest first, so that a region is little longer than its largest set.
    for set in sets.iter().rev() {
        let slot = places.len() % SLOTS;
        places.push((slot, ends[slot]));
        ends[slot] += set.next_multiple_of(4096);
    }
    places.reverse();
    (places, ends.into_iter().max().unwrap_or(0))
}

/// Planned latencies.
pub(super) struct Latency {
    /// Ascending.
    sets: Vec<u64>,
    /// As asked, else base pages and the largest that need no reservation.
    kinds: Vec<Pages>,
}

/// Plans latencies of one thread.
pub(super) fn plan(setup: Setup<'_>, notices: &mut Vec<Notice>) -> Result<Latency, Failure> {
    let (threads, options) = (setup.threads(), setup.options);
    if threads != 1 {
        return Err(Failure::usage(format!(
            "latency is of one thread, and {threads} are asked for\nhint: --threads 1"
        )));
    }
    let kinds = match (options.pages, stream::best_pages(&setup.site.machine)) {
        (Some(pages), _) => vec![pages],
        (None, Pages::Base) => vec![Pages::Base],
        (None, best) => vec![Pages::Base, best],
    };
    let mut sets = ladder::sets(setup, 1.0 / (REGION_OVER_SET * kinds.len() as f64), notices)?;
    // A set of fewer elements than a handful is no chase.
    let fewest = SMALLEST.max(8 * options.order.stride as u64);
    refuse_below(Bytes(fewest), Bytes(sets[sets.len() - 1]))?;
    sets.retain(|set| *set >= fewest);
    Ok(Latency { sets, kinds })
}

impl Mode for Latency {
    fn memory(&self) -> Bytes {
        Bytes(slots(&self.sets).1 * self.kinds.len() as u64)
    }

    fn measure(&self, run: &mut Run<'_>) -> Result<(), PointError> {
        let (setup, sets) = (run.setup, &self.sets);
        let options = setup.options;
        let (places, bytes) = slots(sets);
        let chains = sets.len() * self.kinds.len();
        run.observer.phase(&format!("preparing {chains} chains through {}", Bytes(bytes)));
        let mut pool = run.pool()?;
        let mut regions = Vec::new();
        for pages in &self.kinds {
            regions.push(MemoryRegion::map(&mut pool, 0..1, bytes, *pages, &options.policy)?);
        }
        let mut cells = Vec::new();
        for region in &regions {
            for (set, (slot, offset)) in sets.iter().zip(&places) {
                let (at, held) = ((*offset, *set), setup.held());
                // SAFETY: sets of one slot do not overlap, and nobody else uses the regions.
                cells.push(unsafe { Chase::write(region, at, *slot, options.order, held) });
            }
        }
        let phase = "chasing through all sets by turns";
        let judged = run.samples(policy::CURVES, cells.len(), phase, |i| {
            cells[i].warm(&mut pool, CHASE_SECONDS)?;
            let mut sample = cells[i].sample(&mut pool)?;
            sample.seconds.extend(cells[i].flushed(&mut pool)?);
            Ok(sample)
        })?;
        let caches = ladder::reported(&setup.site.topology, setup.placement);
        // On base pages the TLB's edges lie among those of the caches: huge pages speak of caches.
        let last = (regions.len() - 1) * sets.len();
        let parts = judged.parts(last);
        let median = |cell, part| {
            let seconds = if part < parts { judged.seconds(cell, part) } else { Vec::new() };
            Some(stats::median(&seconds)).filter(|seconds| seconds.is_finite())
        };
        let dot = |(i, set): (usize, &u64)| {
            let step = median(last + i, 0)?;
            let cached = median(last + i, 1).map(|flushed| chase::is_cached(step, flushed));
            Some(Dot { bytes: *set, values: vec![step], cached })
        };
        let dots: Vec<Dot> = sets.iter().enumerate().map_while(dot).collect();
        let named = run.levels(&dots, &caches, dots.len() == sets.len());
        for (k, region) in regions.iter().enumerate() {
            let first = k * sets.len();
            let (mut config, validity) = run.common(&pool, region);
            options.order.describe(&mut config);
            for (i, set) in sets.iter().enumerate() {
                let level = levels::at(&named, i);
                let config = CurveConfig {
                    set_bytes: Some(*set),
                    thread_bytes: Some(*set),
                    steps: Some(cells[first + i].steps as u64),
                    flushed_s: median(first + i, 1),
                    level: level.map(|named| named.name.clone()),
                    level_reported_bytes: level.and_then(Named::share),
                    ..config.clone()
                };
                let figure = Figure {
                    name: set.to_string(),
                    quoted: Quoted::Median,
                    value: Value::Seconds,
                    config,
                    validity: validity.clone(),
                };
                run.add(&judged, (first + i, 0), figure);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chains_that_use_the_same_word_do_not_overlap(largest in 12u32..34) {
            let sets = ladder::sizes(1 << largest, false);
            let (places, bytes) = slots(&sets);
            for (i, (slot, offset)) in places.iter().enumerate() {
                prop_assert!(*slot < SLOTS && offset + sets[i] <= bytes);
                prop_assert_eq!(offset % 4096, 0);
                for (j, (other, at)) in places.iter().enumerate().take(i) {
                    let apart = offset + sets[i] <= *at || at + sets[j] <= *offset;
                    prop_assert!(slot != other || apart);
                }
            }
            let most = sets[sets.len() - 1] as f64;
            prop_assert!(sets.len() < 9 || bytes as f64 <= most * 1.2);
        }
    }
}
