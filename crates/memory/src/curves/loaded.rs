//! Latency under load: one thread chases through memory while all others read as fast as they may,
//! at growing shares of their full rate.
//!
//! A loader reads its memory in blocks of 4 KiB and waits after each. The waits of the steps are
//! multiples of the time that a block takes at full rate, so that the steps cover the curve on a
//! machine of any speed: at the step of share s a loader without anyone in its way would read at s
//! of its full rate. What it really reads is measured.

use crate::curves::figures::{self, Figure, Judged};
use crate::curves::latency::{Pursuit, region};
use crate::curves::pool::WorkerPool;
use crate::curves::region::{MemoryRegion, SCALAR, address};
use crate::curves::rounds::{self, Until};
use crate::curves::{CurveError, Options, Outcome, Site, pages_or_best};
use crate::kernels::{self, ARRAYS, Args, Kernel, Resident, Stores};
use crate::point::{PointError, Sample};
use crate::stream::masks;
use nodegauge_measure::Observer;
use nodegauge_measure::Unit;
use nodegauge_measure::record::Quoted;
use nodegauge_measure::record::Validity;
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::stats;
use nodegauge_measure::{Bytes, BytesPerSec, Seconds};
use nodegauge_os::CacheLine;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Shares of the loaders' full rate, per cent: 0 is idle.
///
/// Most lie near the full rate: a wait also costs the loads that would else have been on their way.
pub const SHARES: [u32; 11] = [0, 10, 30, 50, 65, 80, 90, 94, 97, 99, 100];
/// Bytes that a loader reads between waits: a page, so that prefetchers find their stride, and short
/// beside the time of a sample.
const BLOCK: usize = 4096;
/// How long a sample lasts, seconds.
const SAMPLE_SECONDS: f64 = 4e-3;
/// Share of the budget by which the rounds must end.
const END_SHARE: f64 = 0.95;
/// Latency that counts as twice idle.
const KNEE: f64 = 2.0;
/// Turns of a wait that are timed to know what one takes.
const TURNS_TIMED: u64 = 2_000_000;

/// Bytes of the chaser's memory and of each loader's.
///
/// # Errors
/// When there is no loader, or not enough memory.
pub fn plan(
    site: &Site<'_>,
    options: &Options,
    notices: &mut Vec<String>,
) -> Result<(u64, u64), CurveError> {
    let threads = site.placement.threads.len();
    if threads < 2 {
        return Err(CurveError::NoLoaders(threads));
    }
    let loaders = threads as u64 - 1;
    let set = site.largest(options, notices);
    let least = Bytes(loaders * BLOCK as u64 * 16);
    if set < least {
        return Err(CurveError::TooSmall { given: set, least });
    }
    let usable = site.usable(options, options.pages);
    let needed = set * 2;
    if needed > usable {
        return Err(CurveError::TooLarge { what: "loaded latency", needed, usable });
    }
    Ok((set.0, (set.0 / loaders).next_multiple_of(BLOCK as u64)))
}

/// Who loads: blocks of a piece of area, and where each loader is in its piece.
struct Load<'a> {
    area: &'a MemoryRegion,
    variant: Resident,
    blocks: usize,
}

/// Waits for `turns` turns of a loop that the compiler cannot shorten.
fn wait(turns: u64) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

impl Load<'_> {
    /// Reads blocks from number `block` on, waiting `turns` after each, until told to stop; returns
    /// the bytes read and the seconds that it took.
    fn run(&self, worker: usize, mut block: usize, turns: u64, stop: &AtomicBool) -> (u64, f64) {
        let piece = self.area.set(worker, self.blocks * BLOCK);
        let begun = Instant::now();
        let mut read = 0u64;
        while !stop.load(Ordering::Relaxed) {
            let at = address(piece + block * BLOCK);
            let streams =
                Args { at: [at; ARRAYS], n: BLOCK / size_of::<f64>(), repeats: 1, scalar: SCALAR };
            // SAFETY: the block lies in this worker's piece, starts on
            // a page, and is only read.
            std::hint::black_box(unsafe { self.variant.run(&streams) });
            block = (block + 1) % self.blocks;
            read += BLOCK as u64;
            wait(turns);
        }
        (read, begun.elapsed().as_secs_f64())
    }
}

/// One sample at a step: the chaser's seconds a step, and the loaders' bytes per second.
fn sample(
    pool: &mut WorkerPool,
    pursuit: &mut Pursuit,
    load: &Load<'_>,
    turns: Option<u64>,
    start: usize,
) -> Result<(Sample, f64), PointError> {
    let before = pool.round_trip()?;
    let (chain, steps) = pursuit.stretch();
    let stop = CacheLine(AtomicBool::new(false));
    let timed = pool.timed(|worker| {
        if worker == 0 {
            let mut chain = chain;
            // Loaders get going before the chase begins, whose start is its own.
            wait(if turns.is_some() { LOADERS_START_TURNS } else { 0 });
            let begun = Instant::now();
            // SAFETY: the chain's memory outlives this job, and nobody writes it.
            let taken = unsafe { chain.run(steps) };
            let seconds = begun.elapsed().as_secs_f64() / taken as f64;
            stop.0.store(true, Ordering::Relaxed);
            return (Some(chain), seconds);
        }
        let Some(turns) = turns else { return (None, 0.0) };
        let (bytes, seconds) = load.run(worker, start % load.blocks, turns, &stop.0);
        (None, bytes as f64 / seconds.max(1e-9))
    })?;
    let after = pool.round_trip()?;
    let mut seconds = f64::NAN;
    let mut rate = 0.0;
    for part in &timed.parts {
        match part.made {
            (Some(chain), step) => {
                pursuit.ended(chain);
                seconds = step;
            }
            (None, one) => rate += one,
        }
    }
    let sample = Sample {
        // A rate of nothing has no time; the idle step reports no bandwidth.
        seconds: vec![seconds, 1.0 / rate],
        round_trips: (before, after),
        causes: timed.causes,
        each: Vec::new(),
    };
    Ok((sample, rate))
}

/// Turns that the chaser waits for loaders to get going: some microseconds.
const LOADERS_START_TURNS: u64 = 20_000;

/// Measures latency under load.
///
/// # Errors
/// One thread only; no memory, pages or CPUs as asked.
pub fn run(
    site: &Site<'_>,
    options: &Options,
    watch: &mut dyn Observer,
) -> Result<Outcome, CurveError> {
    let started = Instant::now();
    let mut notices = Vec::new();
    let (set, piece) = plan(site, options, &mut notices)?;
    let places = masks(site.placement);
    let loaders = places.len() - 1;
    watch.phase(&format!("preparing one chaser and {loaders} loaders"));
    let mut pool = WorkerPool::start(&places, site.spare())?;
    let pages = pages_or_best(options, site.machine);
    let llc = site.llc().map_or(64 << 20, |llc| llc.0);
    let chased = region(&mut pool, set, pages, &options.policy)?;
    let at = (chased.mapping().range().0, set);
    // SAFETY: the region is as long as the set, and nobody else uses it.
    let mut pursuit = unsafe { Pursuit::write(&mut pool, at, 0, options.order, llc)? };
    // Worker 0 has a piece too, which costs nothing: it is never touched.
    let area = MemoryRegion::map(Bytes(piece), places.len(), pages, &options.policy)?;
    pool.work(|worker| {
        if worker > 0 {
            // SAFETY: the piece is this worker's alone.
            unsafe { area.refill(worker, piece as usize) };
        }
    })?;
    let variants = kernels::resident(Kernel::Read, Stores::Regular);
    let by_four = variants.iter().find(|variant| variant.shape().unroll == 4);
    let Some(variant) = by_four.or(variants.first()).copied() else {
        return Ok(Outcome::default());
    };
    let load = Load { area: &area, variant, blocks: (piece as usize / BLOCK).max(1) };
    // SAFETY: the chain's region lives until the end of this function.
    unsafe { pursuit.warm(&mut pool, SAMPLE_SECONDS)? };
    // The time of a block at full rate, and of a turn of a wait.
    let (_, full) = sample(&mut pool, &mut pursuit, &load, Some(0), 0)?;
    let block_seconds = BLOCK as f64 * loaders as f64 / full.max(1.0);
    let begun = Instant::now();
    wait(TURNS_TIMED);
    let turn_seconds = begun.elapsed().as_secs_f64() / TURNS_TIMED as f64;
    let turns = |share: u32| -> Option<u64> {
        let wait = block_seconds * (100.0 / f64::from(share) - 1.0);
        (share > 0).then(|| (wait / turn_seconds.max(1e-12)) as u64)
    };

    watch.phase("chasing under growing load, by turns");
    let until =
        Until { deadline: started + options.budget.mul_f64(END_SHARE), samples: options.samples };
    let mut at = 0;
    let rounds = rounds::by_turns(SHARES.len(), until, watch, |i| {
        // Loaders go on elsewhere in their pieces, where nothing of the last sample lies near.
        at += load.blocks / 7 + 1;
        Ok(sample(&mut pool, &mut pursuit, &load, turns(SHARES[i]), at)?.0)
    })?;
    let judged = Judged::new(rounds.samples);
    let (chased_pages, doubts) = figures::pages(chased.mapping());
    let nodes = figures::nodes(chased.mapping(), &options.policy);
    let mut measurements = Vec::new();
    let mut curve = Vec::new();
    for (i, share) in SHARES.into_iter().enumerate() {
        let config = json!({
            "engine": "native",
            "threads": places.len(),
            "loaders": if share > 0 { loaders } else { 0 },
            "places": figures::places(pool.observed()),
            "places_asked": site.placement.places,
            "bind": site.placement.bind.to_string(),
            "pages": chased_pages,
        "numa": nodes,
            "set_bytes": set,
            "loader_bytes": piece,
            "load_share": f64::from(share) / 100.0,
            "wait_s": turns(share).map(|turns| turns as f64 * turn_seconds),
            "kernel": "read",
            "isa": variant.shape().isa.name(),
            "stride_bytes": options.order.stride,
            "locality": options.order.locality.to_string(),
            "stopped": rounds.stop.to_string(),
        });
        let step = if share == 0 { "idle".to_owned() } else { format!("load{share}") };
        let figure = |kind: &str, unit: Unit, config| Figure {
            test: "loaded",
            name: format!("{kind}_{step}"),
            unit,
            amount: 1.0,
            quoted: Quoted::Median,
            traffic: None,
            limited: false,
            config: figures::object(config),
            validity: doubts.clone(),
        };
        let latency = figure("latency", Unit::Seconds, config.clone());
        measurements.extend(judged.measurement(i, 0, latency, site));
        let seconds = stats::median(&judged.seconds(i, 0));
        let mut rate = 0.0;
        if share > 0 {
            let bandwidth = figure("bandwidth", Unit::BytesPerSecond, config);
            measurements.extend(judged.measurement(i, 1, bandwidth, site));
            rate = 1.0 / stats::median(&judged.seconds(i, 1));
        }
        if seconds.is_finite() {
            curve.push((rate, seconds));
        }
    }
    if rounds.stop != Stop::Interrupted || curve.len() == SHARES.len() {
        notices.extend(knee_in_words(&curve));
        if let Some(rate) = knee(&curve) {
            // From the curve's points: it has no samples of its own.
            measurements.extend(measurements.last().cloned().map(|mut m| {
                m.name = "bandwidth_at_2x_idle".to_owned();
                m.unit = Unit::BytesPerSecond;
                m.value = Some(rate);
                m.summary = None;
                m.samples.clear();
                m.disturbed.clear();
                m.regimes.clear();
                m.limit = None;
                m.validity = Validity::valid();
                m.config.insert("load_share".to_owned(), serde_json::Value::Null);
                m.config.insert("wait_s".to_owned(), serde_json::Value::Null);
                m.config
                    .insert("basis".to_owned(), json!("between the two nearest steps, linearly"));
                m
            }));
        }
    }
    Ok(Outcome {
        measurements,
        notices,
        findings: judged.findings(),
        affinity: pool.observed().iter().map(ToString::to_string).collect(),
        interrupted: rounds.stop == Stop::Interrupted,
    })
}

/// The loaders' rate at which latency is twice the idle one: between the first two steps that enclose
/// it, linearly. `None` when it never is. The curve is of (rate, latency), idle first.
pub fn knee(curve: &[(f64, f64)]) -> Option<f64> {
    let wished = KNEE * curve.first()?.1;
    curve.windows(2).find_map(|pair| {
        let [(low, before), (high, after)] = *pair else { return None };
        (before < wished && after >= wished)
            .then(|| low + (high - low) * (wished - before) / (after - before))
    })
}

fn knee_in_words(curve: &[(f64, f64)]) -> Option<String> {
    let (idle, (rate, most)) = (curve.first()?.1, *curve.last()?);
    Some(match knee(curve) {
        Some(rate) => format!(
            "latency is twice the idle {} when the others read at {}",
            Seconds(idle),
            BytesPerSec(rate)
        ),
        None => format!(
            "latency never is twice the idle {}: at full load, {}, it is {:.2} times that",
            Seconds(idle),
            BytesPerSec(rate),
            most / idle
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_lies_between_the_steps_that_enclose_it() {
        let curve = [(0.0, 100e-9), (10e9, 120e-9), (20e9, 150e-9), (30e9, 250e-9), (32e9, 400e-9)];
        assert!((knee(&curve).unwrap() - 25e9).abs() < 1.0);
        assert_eq!(knee(&curve[..3]), None);
        assert_eq!(knee(&[]), None);
        assert!(knee_in_words(&curve).unwrap().contains("25.00 GB/s"));
        assert!(knee_in_words(&curve[..3]).unwrap().contains("1.50 times"));
    }

    #[test]
    fn waits_take_time() {
        let of = |turns| {
            let begun = Instant::now();
            wait(turns);
            begun.elapsed()
        };
        assert!(of(4_000_000) > of(1_000));
    }
}
