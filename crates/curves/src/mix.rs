//! Bandwidth of main memory for different mixes of reads and writes, with all threads.
//!
//! A mix is defined by the cache lines that move. With regular stores the loop writes only lines that it also reads, so
//! that no line is loaded only to be overwritten. `a = s a` reads one line and writes one line; `a += s b` reads two
//! lines and writes one; `a += b + s c` reads three lines and writes one. With non-temporal stores, the loop writes
//! lines that it does not read. The moved bytes therefore equal the counted bytes, whether or not the processor makes
//! write-allocates.
use crate::config::CurveConfig;
use crate::prediction::CurveTimes;
use crate::run::{CurveRun, FigureOutline, Value};
use crate::{CurveSetup, Mode, notice, refuse_below, too_large};
use nodegauge_arena::ArenaError;
use nodegauge_chase::traffic::{self, WorkingSetLoop};
use nodegauge_chase::{TIMES_LLC, WitnessedPool};
use nodegauge_kernels::{self as kernels, Kernel, Stores};
use nodegauge_measure::record::{Quoted, Status};
use nodegauge_measure::schedule::{Affordable, PredictedTime, policy};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, clock};

/// Mix: ratio of reads to writes, with the kernel and the kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mix {
    /// Name: `1:0`, `3:1`, ..., with the suffix `-nt` for non-temporal stores.
    name: &'static str,
    /// Kernel of the loop.
    kernel: Kernel,
    /// Kind of stores of the loop.
    stores: Stores,
}

/// All mixes that can be measured.
const MIXES: [Mix; 8] = {
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

/// Returns the names of all figures.
pub(super) fn names() -> Vec<&'static str> {
    MIXES.iter().map(|mix| mix.name).collect()
}

/// Maximum number of arrays of any mix.
const MOST_ARRAYS: u64 = 4;
/// Number of turns after which the arrays are filled again. A turn multiplies values by at most three, and 3^512 is
/// below the largest `f64`.
const TURNS_PER_REFILL: u32 = 512;

/// Planned measurement of mixes.
pub(super) struct Mixes {
    /// Size of an array of one thread, bytes.
    array: u64,
    threads: u64,
    /// Mixes that can be measured with the kinds of stores of this processor.
    mixes: Vec<Mix>,
}

/// Plans the measurement of mixes. The arrays have the requested size, or four times the size of the last-level caches
/// in use, as STREAM's rule requires. If memory is insufficient, the arrays are smaller, and a notice reports this.
pub(super) fn plan(setup: CurveSetup<'_>, notices: &mut Vec<Notice>) -> Result<Mixes, Failure> {
    let threads = setup.threads();
    let array = setup.largest(notices);
    refuse_below(Bytes(4096 * threads), array)?;
    let usable = setup.usable();
    let needed = array * MOST_ARRAYS;
    let mut each = (array.0 / threads) & !4095;
    if needed > usable {
        each = (usable.0 / MOST_ARRAYS / threads) & !4095;
        if setup.options.largest.is_some() || each == 0 {
            return Err(too_large("a mix of four arrays", needed, usable));
        }
        let taken = Bytes(each * threads);
        let text =
            format!("arrays are {taken} instead of {array}, which exceeds the usable memory");
        notices.push(notice(NoticeId::Clamped, text));
    }
    let mut mixes = MIXES.to_vec();
    mixes.retain(|mix| !kernels::resident(mix.kernel, mix.stores).is_empty());
    if mixes.len() < MIXES.len() {
        let text = "nodegauge has no non-temporal stores for this processor: only mixes with \
                    regular stores are measured";
        notices.push(notice(NoticeId::LeftOut, text));
    }
    Ok(Mixes { array: each, threads, mixes })
}

impl Mode for Mixes {
    fn memory(&self) -> Bytes {
        Bytes(self.array) * MOST_ARRAYS * self.threads
    }

    fn predicted(&self, times: &CurveTimes<'_>) -> PredictedTime {
        // Mixes for which there is no time are left out.
        let one = times.loops(self.memory(), 1);
        let all = times.loops(self.memory(), self.mixes.len() as u32);
        PredictedTime { min: one.min, likely: all.likely }
    }

    fn measure(&self, run: &mut CurveRun<'_>) -> Result<(), ArenaError> {
        let setup = run.setup;
        let buffer = self.array * MOST_ARRAYS;
        let arrays = Bytes(self.array * self.threads);
        run.observer.phase(&format!("preparing 4 arrays of {arrays}"));
        let mut pool = run.pool()?;
        let everyone = 0..pool.workers();
        let region = run.map(&mut pool, everyone, buffer)?;
        let buffers = region.buffers();
        run.observer.phase("choosing the fastest loop for each mix");
        let mut cells = Vec::new();
        for (done, mix) in self.mixes.iter().enumerate() {
            let bytes = self.array as usize * mix.kernel.spec().arrays().count();
            let stores = &[mix.stores];
            let until = (done + 1) as f64 / self.mixes.len() as f64;
            let fastest = run.fastest(until, &mut pool, buffers, mix.kernel, stores, bytes)?;
            cells.extend(fastest.map(|variant| (mix, [WorkingSetLoop::new(variant, bytes)])));
        }
        let mut turns = 0;
        let mut turn = |[traffic]: &[WorkingSetLoop; 1], workers: &mut WitnessedPool| {
            // Mixes write into common arrays, and values grow with every pass. The arrays are therefore filled again
            // long before values overflow.
            if turns % TURNS_PER_REFILL == 0 {
                traffic::refill(workers, buffers, buffer as usize)?;
            }
            turns += 1;
            traffic::sample(std::slice::from_ref(traffic), workers, buffers)
        };
        run.observer.phase("checking every element");
        let mut time = Affordable::new(&policy::CURVES_BEHIND, &run.limits);
        let mut first = Vec::new();
        let mut last = None;
        // The mixes have arrays of equal length, so that the preparation of each mix takes about as long as the
        // previous preparation.
        for (_, loops) in &mut cells {
            let late =
                |(set_up, turn_time)| !time.allows(set_up, turn_time) || run.observer.interrupted();
            if last.is_some_and(late) {
                break;
            }
            let begun = clock::now();
            loops[0].prepare(&mut pool, buffers)?;
            let prepared = clock::now();
            first.push(vec![turn(loops, &mut pool)?]);
            let taken = clock::now() - prepared;
            time.take(taken);
            last = Some((prepared + taken - begun, taken));
        }
        if first.len() < cells.len() && !run.observer.interrupted() {
            let names: Vec<&str> = cells[first.len()..].iter().map(|(mix, _)| mix.name).collect();
            let text = format!(
                "no time was left for {}: use a longer --budget or a smaller --size",
                names.join(", ")
            );
            run.outcome.notices.push(notice(NoticeId::Budget, text));
        }
        cells.truncate(first.len());
        let phase = "measuring all mixes, interleaved";
        let judged = run.samples_behind(policy::CURVES_BEHIND, first, phase, |i| {
            turn(&cells[i].1, &mut pool)
        })?;
        let (config, mut doubts) = run.common(&pool, &region);
        if arrays.0 < TIMES_LLC * setup.llc().map_or(0, |llc| llc.0) {
            let reason = format!(
                "arrays of {arrays} are smaller than four times the last-level caches in use, \
                 which hold part of them"
            );
            doubts.add(Status::Suspect, reason);
        }
        for (i, (mix, [traffic])) in cells.iter().enumerate() {
            let spec = mix.kernel.spec();
            let config = CurveConfig {
                element: Some("f64".to_owned()),
                array_bytes: Some(arrays.0),
                reads: Some(spec.reads.len() as u64),
                writes: Some(spec.writes.is_some().into()),
                ..config.clone()
            };
            let figure = FigureOutline {
                name: mix.name.to_owned(),
                quoted: Quoted::Best,
                value: Value::Loop(traffic, true),
                config,
                validity: doubts.clone(),
            };
            run.add(&judged, i, 0, figure);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_name_matches_its_traffic() {
        for mix in MIXES {
            let spec = mix.kernel.spec();
            let ratio = format!("{}:{}", spec.reads.len(), u32::from(spec.writes.is_some()));
            assert_eq!(mix.name.trim_end_matches("-nt"), ratio);
            // Checks that no line is read only to be overwritten.
            let element = nodegauge_kernels::Element::F64;
            let moved = mix.kernel.moved(element, mix.stores);
            assert_eq!(moved, mix.kernel.counted(element), "{}", mix.name);
            assert_eq!(mix.name.ends_with("-nt"), mix.stores == Stores::NonTemporal);
        }
    }
}
