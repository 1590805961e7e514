//! Mixes of reads and writes through main memory, all threads together.
//!
//! A mix is what moves. With regular stores the loop writes only lines that it reads as well, so that
//! no line is brought in just to be overwritten: `a = s a` moves one line in and one out, `a += s b`
//! two and one, `a += b + s c` three and one. With non-temporal stores it writes lines that it does
//! not read. What moves is then what the loop names, whatever the processor does about
//! write-allocates.

use crate::curves::figures::{self, Figure, Judged};
use crate::curves::pool::WorkerPool;
use crate::curves::region::MemoryRegion;
use crate::curves::rounds::{self, Until};
use crate::curves::traffic::{self, CALL_SECONDS, Traffic};
use crate::curves::{CurveError, Options, Outcome, Site, pages_or_best};
use crate::kernels::{self, Kernel, Stores};
use crate::point::Sample;
use crate::stream::masks;
use nodegauge_measure::Bytes;
use nodegauge_measure::Observer;
use nodegauge_measure::Unit;
use nodegauge_measure::record::Quoted;
use nodegauge_measure::record::Status;
use nodegauge_measure::repeat::Stop;
use serde_json::json;
use std::time::Instant;

/// A mix: reads to writes, with its kernel and kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// `1:0`, `3:1`, ..., with `-nt` for non-temporal stores.
    pub name: &'static str,
    /// The loop.
    pub kernel: Kernel,
    /// Its stores.
    pub stores: Stores,
}

/// All mixes.
pub const MIXES: [Mix; 8] = {
    const fn mix(name: &'static str, kernel: Kernel, stores: Stores) -> Mix {
        Mix { name, kernel, stores }
    }
    [
        mix("1:0", Kernel::Read, Stores::Regular),
        mix("3:1", Kernel::Nstream, Stores::Regular),
        mix("2:1", Kernel::Axpy, Stores::Regular),
        mix("1:1", Kernel::Update, Stores::Regular),
        mix("3:1-nt", Kernel::Blend, Stores::NonTemporal),
        mix("2:1-nt", Kernel::Triad, Stores::NonTemporal),
        mix("1:1-nt", Kernel::Copy, Stores::NonTemporal),
        mix("0:1-nt", Kernel::Write, Stores::NonTemporal),
    ]
};

/// Arrays of the mix that has most.
const MOST_ARRAYS: u64 = 4;
/// Share of the budget that the trials may take.
const TRIAL_SHARE: f64 = 0.35;
/// Share of the budget by which the rounds must end.
const END_SHARE: f64 = 0.95;

/// Turns between fillings: a turn multiplies values by three at most, and 3^512 is below the largest
/// `f64`.
const TURNS_A_FILLING: u32 = 512;

/// Bytes of an array of one thread: with all threads as STREAM's rule asks, four times the
/// last-level caches in use, or as large as asked; less where memory is short, with a notice.
///
/// # Errors
/// When what is asked does not fit.
pub fn plan(
    site: &Site<'_>,
    options: &Options,
    notices: &mut Vec<String>,
) -> Result<u64, CurveError> {
    let threads = site.placement.threads.len().max(1) as u64;
    let least = Bytes(4096 * threads);
    let array = site.largest(options, notices);
    if array < least {
        return Err(CurveError::TooSmall { given: array, least });
    }
    let usable = site.usable(options, options.pages);
    let needed = array * MOST_ARRAYS;
    if needed <= usable {
        return Ok((array.0 / threads) & !4095);
    }
    let fits = (usable.0 / MOST_ARRAYS / threads) & !4095;
    if options.largest.is_some() || fits == 0 {
        return Err(CurveError::TooLarge { what: "a mix of four arrays", needed, usable });
    }
    notices.push(format!(
        "arrays are {} instead of {array}: no more memory may be used",
        Bytes(fits * threads)
    ));
    Ok(fits)
}

/// Measures all mixes that this processor has stores for.
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
    let array = plan(site, options, &mut notices)?;
    let places = masks(site.placement);
    watch.phase(&format!("preparing 4 arrays of {}", Bytes(array) * places.len() as u64));
    let mut pool = WorkerPool::start(&places, site.spare())?;
    let pages = pages_or_best(options, site.machine);
    let area = MemoryRegion::map(Bytes(array) * MOST_ARRAYS, places.len(), pages, &options.policy)?;
    area.touch(&mut pool)?;
    let mixes: Vec<Mix> = MIXES
        .into_iter()
        .filter(|mix| !kernels::resident(mix.kernel, mix.stores).is_empty())
        .collect();
    if mixes.len() < MIXES.len() {
        notices.push(
            "this processor has no non-temporal stores that nodegauge knows: mixes of regular ones only"
                .to_owned(),
        );
    }
    watch.phase("choosing the fastest loop for each mix");
    let trials_end = started + options.budget.mul_f64(TRIAL_SHARE);
    let mut cells: Vec<(Mix, Traffic, Option<Option<String>>)> = Vec::new();
    for mix in mixes {
        let bytes = array as usize * mix.kernel.spec().arrays().count();
        let stop = || watch.interrupted() || Instant::now() >= trials_end;
        let constraint = (mix.kernel, mix.stores);
        if let Some(variant) = traffic::fastest(&mut pool, &area, constraint, bytes, stop)? {
            cells.push((mix, Traffic { variant, bytes, repeats: 1 }, None));
        }
    }
    watch.phase("measuring all mixes by turns");
    let until =
        Until { deadline: started + options.budget.mul_f64(END_SHARE), samples: options.samples };
    let mut turns = 0;
    let rounds = rounds::by_turns(cells.len(), until, watch, |i| {
        let (_, traffic, wrong) = &mut cells[i];
        if wrong.is_none() {
            *wrong = Some(traffic.check(&mut pool, &area)?);
            traffic.calibrate(&mut pool, &area, CALL_SECONDS)?;
        }
        // Mixes write into each other's arrays, and sums of sums grow: long before they overflow
        // everything is filled anew.
        if turns % TURNS_A_FILLING == 0 {
            traffic::refill(&mut pool, &area, array as usize * MOST_ARRAYS as usize)?;
        }
        turns += 1;
        let before = pool.round_trip()?;
        let timed = traffic.run(&mut pool, &area)?;
        let after = pool.round_trip()?;
        Ok(Sample {
            seconds: vec![timed.seconds / traffic.repeats as f64],
            round_trips: (before, after),
            causes: timed.causes,
            each: Vec::new(),
        })
    })?;
    let judged = Judged::new(rounds.samples);
    let workers = pool.workers();
    let (pages, doubts) = figures::pages(area.mapping());
    let nodes = figures::nodes(area.mapping(), &options.policy);
    let mut measurements = Vec::new();
    for (i, (mix, traffic, wrong)) in cells.iter().enumerate() {
        let spec = mix.kernel.spec();
        let mut config = figures::object(json!({
            "engine": "native",
            "threads": workers,
            "places": figures::places(pool.observed()),
            "places_asked": site.placement.places,
            "bind": site.placement.bind.to_string(),
            "pages": pages,
        "numa": nodes,
            "element": "f64",
            "array_bytes": array * workers as u64,
            "reads": spec.reads.len(),
            "writes": u32::from(spec.writes.is_some()),
            "stopped": rounds.stop.to_string(),
        }));
        config.extend(figures::object(traffic.config()));
        let mut validity = doubts.clone();
        if let Some(Some(wrong)) = wrong {
            validity
                .add(Status::Invalid, format!("the arrays do not hold what they must: {wrong}"));
        }
        let llc = site.llc().map_or(0, |llc| llc.0);
        if array * (workers as u64) < 4 * llc {
            let reason = format!(
                "arrays of {} are below four times the last-level caches in use, and partly lie there",
                Bytes(array * workers as u64)
            );
            validity.add(Status::Suspect, reason);
        }
        let figure = Figure {
            test: "mix",
            name: mix.name.to_owned(),
            unit: Unit::BytesPerSecond,
            amount: traffic.counted() * workers as f64,
            quoted: Quoted::Best,
            traffic: Some(traffic.moved()),
            limited: true,
            config,
            validity,
        };
        measurements.extend(judged.measurement(i, 0, figure, site));
    }
    Ok(Outcome {
        measurements,
        notices,
        findings: judged.findings(),
        affinity: pool.observed().iter().map(ToString::to_string).collect(),
        interrupted: rounds.stop == Stop::Interrupted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_moves_what_its_name_says() {
        for mix in MIXES {
            let spec = mix.kernel.spec();
            let ratio = format!("{}:{}", spec.reads.len(), u32::from(spec.writes.is_some()));
            assert_eq!(mix.name.trim_end_matches("-nt"), ratio);
            // No line is read only to be overwritten.
            let element = crate::kernels::Element::F64;
            let moved = mix.kernel.moved(element, mix.stores);
            assert_eq!(moved, mix.kernel.counted(element), "{}", mix.name);
            assert_eq!(mix.name.ends_with("-nt"), mix.stores == Stores::NonTemporal);
        }
    }
}
