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
use crate::curves::chase::{Chain, LINE, Order, SLOTS};
use crate::curves::figures::{self, Figure, Judged};
use crate::curves::ladder::{self, SMALLEST};
use crate::curves::levels::{self, Dot, Named};
use crate::curves::pool::{Timed, WorkerPool};
use crate::curves::region::MemoryRegion;
use crate::curves::rounds::{self, Until};
use crate::curves::{CurveError, Options, Outcome, Site};
use crate::point::{PointError, Sample};
use crate::stream::{self, masks};
use nodegauge_measure::Bytes;
use nodegauge_measure::Observer;
use nodegauge_measure::Unit;
use nodegauge_measure::record::Machine;
use nodegauge_measure::record::Quoted;
use nodegauge_measure::repeat::Stop;
use nodegauge_placement::MemoryPolicy;
use serde_json::json;
use std::time::Instant;

/// How long a timed stretch of a chase lasts, seconds.
const CHASE_SECONDS: f64 = 1.5e-3;
/// Steps of a timed stretch at least.
const LEAST_STEPS: usize = 1024;
/// A stretch through a set beyond the caches is at least this part of the steps that warm for it.
const WARM_OVER_STRETCH: usize = 8;
/// A pass that is not faster by this share than the one before it was as warm.
const WARMER: f64 = 0.02;
/// Warming ends after the pass in which it took so long, seconds.
const WARM_SECONDS: f64 = 0.1;
/// Share of the budget by which the rounds must end.
const END_SHARE: f64 = 0.95;
/// The last-level cache that is assumed for warming where none is known.
const UNKNOWN_LLC: u64 = 64 << 20;

/// The kinds of page that are measured: as asked, else base pages and the largest that need no
/// reservation.
pub fn kinds(options: &Options, machine: &Machine) -> Vec<Pages> {
    match (options.pages, stream::best_pages(machine)) {
        (Some(pages), _) => vec![pages],
        (None, Pages::Base) => vec![Pages::Base],
        (None, best) => vec![Pages::Base, best],
    }
}

/// Where the chains of several sets lie in one region: word of a line, and offset, of each set; and
/// the bytes of the region.
///
/// Sets that use the same word lie one behind the other.
pub(crate) fn slots(sets: &[u64]) -> (Vec<(usize, u64)>, u64) {
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

/// A chain through a region on pages of one kind, and who chases it.
pub(crate) struct Pursuit {
    chain: Chain,
    /// Steps of a pass that warms.
    warm: usize,
    /// Whether caches can hold the set.
    fits: bool,
    /// Steps of a timed stretch; 0 before the first.
    steps: usize,
}

impl Pursuit {
    /// Writes a chain through `bytes` from `start`, by the first worker of the pool.
    ///
    /// # Safety
    /// As for [`Chain::write`].
    pub(crate) unsafe fn write(
        pool: &mut WorkerPool,
        (start, bytes): (usize, u64),
        slot: usize,
        order: Order,
        llc: u64,
    ) -> Result<Self, PointError> {
        let chains = pool.work(|worker| {
            // SAFETY: the caller's promise; only the first worker writes.
            (worker == 0).then(|| unsafe {
                Chain::write(start, bytes as usize, slot, order, bytes ^ slot as u64)
            })
        })?;
        let chain = chains.into_iter().flatten().next();
        let Some(chain) = chain else { return Err(crate::team::TeamError::Panicked(0).into()) };
        let whole = chain.elements;
        let held = llc as usize / LINE;
        let warm = whole.min(held).max(LEAST_STEPS);
        Ok(Self { chain, warm, fits: whole <= held, steps: 0 })
    }

    /// Takes steps that do not count, so that what can be near is near; the first time sets how many
    /// a timed stretch takes.
    ///
    /// # Safety
    /// The chain's memory is still there, and nobody has changed it.
    pub(crate) unsafe fn warm(
        &mut self,
        pool: &mut WorkerPool,
        seconds: f64,
    ) -> Result<(), PointError> {
        let begun = Instant::now();
        let mut step = f64::INFINITY;
        loop {
            // SAFETY: the caller's promise.
            let taken = unsafe { self.chase(pool, self.warm)? };
            let as_warm = taken > step * (1.0 - WARMER);
            step = taken.min(step);
            if !self.fits || as_warm || begun.elapsed().as_secs_f64() > WARM_SECONDS {
                break;
            }
        }
        if self.steps == 0 {
            // A whole pass through what fits: any part of it may be nearer than the rest. Beyond,
            // long warming pays for a longer stretch.
            let least = if self.fits { self.warm } else { self.warm / WARM_OVER_STRETCH };
            self.steps = ((seconds / step.max(1e-10)) as usize).max(least);
        }
        Ok(())
    }

    /// Takes steps by the pool's first worker: seconds a step.
    unsafe fn chase(&mut self, pool: &mut WorkerPool, steps: usize) -> Result<f64, PointError> {
        let chain = self.chain;
        let timed = pool.timed(|worker| {
            let mut chain = chain;
            // SAFETY: the caller's promise; only the first worker chases.
            let taken = if worker == 0 { unsafe { chain.run(steps) } } else { 0 };
            (chain, taken)
        })?;
        Ok(self.after(&timed))
    }

    /// Goes on where a chase of the first worker ended, and says its seconds a step.
    fn after(&mut self, timed: &Timed<(Chain, usize)>) -> f64 {
        let Some(part) = timed.parts.first() else { return f64::NAN };
        self.chain = part.made.0;
        (part.times.1 - part.times.0) as f64 * 1e-9 / part.made.1.max(1) as f64
    }

    /// The chain with the steps of a timed stretch, for a job of a pool.
    pub(crate) fn stretch(&self) -> (Chain, usize) {
        (self.chain, self.steps)
    }

    /// Continues after a chase that ended there.
    pub(crate) fn ended(&mut self, chain: Chain) {
        self.chain = chain;
    }

    /// One timed stretch by the pool's first worker alone: seconds a step.
    ///
    /// # Safety
    /// As for [`Pursuit::warm`].
    pub(crate) unsafe fn sample(&mut self, pool: &mut WorkerPool) -> Result<Sample, PointError> {
        let before = pool.round_trip()?;
        let (chain, steps) = self.stretch();
        let timed = pool.undisturbed(|worker| {
            let mut chain = chain;
            // SAFETY: the caller's promise; only the first worker chases.
            let taken = if worker == 0 { unsafe { chain.run(steps) } } else { 0 };
            (chain, taken)
        })?;
        let after = pool.round_trip()?;
        Ok(Sample {
            seconds: vec![self.after(&timed)],
            round_trips: (before, after),
            causes: timed.causes,
            each: Vec::new(),
        })
    }
}

/// A region on pages of one kind, mapped and touched by the pool's first worker.
pub(crate) fn region(
    pool: &mut WorkerPool,
    bytes: u64,
    pages: Pages,
    policy: &MemoryPolicy,
) -> Result<MemoryRegion, PointError> {
    let area = MemoryRegion::map(Bytes(bytes), 1, pages, policy)?;
    let (start, length) = area.mapping().range();
    pool.work(|worker| {
        if worker == 0 {
            // SAFETY: the mapping is ours and nobody else has it.
            unsafe { (start as *mut u8).write_bytes(1, length) };
        }
    })?;
    Ok(area)
}

/// Sets of a run, ascending, and the kinds of page.
///
/// # Errors
/// More than one thread, or a largest set below the smallest or beyond what may be used.
pub fn plan(
    site: &Site<'_>,
    options: &Options,
    notices: &mut Vec<String>,
) -> Result<(Vec<u64>, Vec<Pages>), CurveError> {
    let threads = site.placement.threads.len();
    if threads != 1 {
        return Err(CurveError::OneThread(threads));
    }
    let kinds = kinds(options, site.machine);
    let shared = Options {
        memory_fraction: options.memory_fraction / (1.2 * kinds.len() as f64),
        ..options.clone()
    };
    let mut sets = ladder::plan(site, &shared, notices)?;
    // A set of fewer elements than a handful is no chase.
    let fewest = SMALLEST.max(8 * options.order.stride as u64);
    sets.retain(|set| *set >= fewest);
    if sets.is_empty() {
        let given = options.largest.unwrap_or_default();
        return Err(CurveError::TooSmall { given, least: Bytes(fewest) });
    }
    Ok((sets, kinds))
}

/// Measures idle latency.
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
    let (sets, kinds) = plan(site, options, &mut notices)?;
    let llc = site.llc().map_or(UNKNOWN_LLC, |llc| llc.0);
    let (places, bytes) = slots(&sets);
    watch.phase(&format!("preparing {} chains through {}", sets.len() * kinds.len(), Bytes(bytes)));
    let mut pool = WorkerPool::start(&masks(site.placement), site.spare())?;
    let mut areas = Vec::new();
    let mut cells = Vec::new();
    for pages in &kinds {
        let area = region(&mut pool, bytes, *pages, &options.policy)?;
        let (start, _) = area.mapping().range();
        for (set, (slot, offset)) in sets.iter().zip(&places) {
            let at = (start + *offset as usize, *set);
            // SAFETY: the region holds all sets; those of one slot do not overlap, and nobody else
            // uses the region.
            cells.push(unsafe { Pursuit::write(&mut pool, at, *slot, options.order, llc)? });
        }
        areas.push(area);
    }
    watch.phase("chasing through all sets by turns");
    let until =
        Until { deadline: started + options.budget.mul_f64(END_SHARE), samples: options.samples };
    let rounds = rounds::by_turns(cells.len(), until, watch, |i| {
        // SAFETY: the regions live until the end of this function, and nobody writes them any more.
        unsafe {
            cells[i].warm(&mut pool, CHASE_SECONDS)?;
            cells[i].sample(&mut pool)
        }
    })?;
    let judged = Judged::new(rounds.samples);
    let mut outcome = Outcome {
        findings: judged.findings(),
        notices,
        affinity: pool.observed().iter().map(ToString::to_string).collect(),
        interrupted: rounds.stop == Stop::Interrupted,
        ..Outcome::default()
    };
    let caches = ladder::reported(site.topology, site.placement);
    for (k, area) in areas.iter().enumerate() {
        let (pages, validity) = figures::pages(area.mapping());
        let nodes = figures::nodes(area.mapping(), &options.policy);
        let dots: Vec<Dot> = sets
            .iter()
            .enumerate()
            .map(|(i, set)| {
                let seconds = judged.seconds(k * sets.len() + i, 0);
                Dot { bytes: *set, value: seconds.into_iter().fold(f64::INFINITY, f64::min) }
            })
            .take_while(|dot| dot.value.is_finite())
            .collect();
        let named = levels::name(&dots, &levels::levels(&dots), &caches);
        // On base pages the TLB's edges lie among those of the caches: huge pages speak of caches.
        if k + 1 == areas.len() && dots.len() == sets.len() {
            outcome.notices.extend(levels::disagreements(&dots, &named, &caches));
        }
        for (i, set) in sets.iter().enumerate() {
            let level: Option<&Named> =
                named.iter().find(|named| (named.level.first..=named.level.last).contains(&i));
            let cell = k * sets.len() + i;
            let config = json!({
                "engine": "native",
                "threads": 1,
                "places": figures::places(pool.observed()),
                "places_asked": site.placement.places,
                "bind": site.placement.bind.to_string(),
                "pages": pages,
            "numa": nodes,
                "set_bytes": set,
                "thread_bytes": set,
                "stride_bytes": options.order.stride,
                "locality": options.order.locality.to_string(),
                "steps": cells[cell].steps,
                "level": level.map(|named| named.name.clone()),
                "level_reported_bytes": level.and_then(|named| named.reported),
                "stopped": rounds.stop.to_string(),
            });
            let figure = Figure {
                test: "latency",
                name: set.to_string(),
                unit: Unit::Seconds,
                amount: 1.0,
                quoted: Quoted::Best,
                traffic: None,
                limited: false,
                config: figures::object(config),
                validity: validity.clone(),
            };
            outcome.measurements.extend(judged.measurement(cell, 0, figure, site));
        }
    }
    Ok(outcome)
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
