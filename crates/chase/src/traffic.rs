//! Kernels on a memory region: timed calls, checks, and trials that select the fastest loop for a working-set size.

use crate::pool::{TimedJob, WitnessedPool};
use crate::region::{self, RegionBuffers};
use nodegauge_arena::ArenaError;
use nodegauge_kernels::{self as kernels, Element, Kernel, ResidentLoop, Stores};
use nodegauge_measure::record;
use nodegauge_measure::samples::Sample;

/// Minimum duration of a timed call. Compared with it, the times for reading the clock, for the barrier and for a
/// core-to-core transfer are negligible, and a round over all sizes still takes much less than a second.
pub const MIN_CALL_SECONDS: f64 = 2e-3;
/// Duration of a timed call below which the start and the end of the threads take a considerable part of the time.
const SHORT_CALL_SECONDS: f64 = MIN_CALL_SECONDS / 10.0;
/// Target duration of a call in a trial of loops.
const TRIAL_SECONDS: f64 = 0.4e-3;

/// True if timed calls of this duration are too short for a figure.
pub fn is_short_call(seconds: f64) -> bool {
    seconds < SHORT_CALL_SECONDS
}

/// Maximum number of passes of a timed call.
const MAX_PASSES: u64 = 1 << 40;

/// Time of a call.
struct CallTime {
    seconds: f64,
    /// True if the call was disturbed.
    disturbed: bool,
}

/// Number of passes per call, and the time of the last call.
struct FoundPasses {
    passes: u64,
    seconds: f64,
}

/// Determines the number of passes with which a call takes `target` seconds. `call` runs the given number of passes.
fn call_passes(
    target: f64,
    mut call: impl FnMut(u64) -> Result<CallTime, ArenaError>,
) -> Result<FoundPasses, ArenaError> {
    let mut passes = 1;
    loop {
        let timed = call(passes)?;
        let mut seconds = timed.seconds;
        // A disturbed call takes long with any number of passes.
        if seconds >= target && timed.disturbed {
            seconds = seconds.min(call(passes)?.seconds);
        }
        if seconds >= target || passes > MAX_PASSES {
            return Ok(FoundPasses { passes, seconds });
        }
        // The time of a very short call is imprecise, so that the number of passes is increased by a factor of at most
        // 32 per step.
        let factor = (target * 1.05 / seconds.max(1e-9)).clamp(1.1, 32.0);
        passes = (passes as f64 * factor).ceil() as u64;
    }
}

/// Loop of a kernel that runs on working sets of one size.
#[derive(Debug, Clone)]
pub struct WorkingSetLoop {
    variant: ResidentLoop,
    /// Size of each worker's working set, bytes.
    bytes: usize,
    /// Number of passes of a timed call; 0 before the first call.
    repeats: u64,
    /// Description of a wrong value after the first pass; `None` if all values were correct.
    pub wrong_value: Option<String>,
}

impl WorkingSetLoop {
    /// Creates a loop for working sets of `bytes`.
    pub fn new(variant: ResidentLoop, bytes: usize) -> Self {
        Self { variant, bytes, repeats: 0, wrong_value: None }
    }

    /// Returns the loop.
    pub fn variant(&self) -> ResidentLoop {
        self.variant
    }

    /// Returns the number of passes of a timed call; 0 before the first call.
    pub fn repeats(&self) -> u64 {
        self.repeats
    }

    /// Returns the kernel of the loop.
    pub fn kernel(&self) -> Kernel {
        self.variant.kernel()
    }

    /// Returns the floating-point operations per counted byte.
    pub fn flops_per_byte(&self) -> f64 {
        f64::from(self.kernel().spec().flops) / self.kernel().counted_bytes(Element::F64) as f64
    }

    /// Returns the size of each array of one worker.
    pub fn array_bytes(&self) -> u64 {
        region::array_bytes(self.bytes, self.variant.kernel()) as u64
    }

    /// Returns the number of bytes that count for a pass of one worker.
    pub fn counted_bytes(&self) -> f64 {
        (u64::from(self.variant.kernel().spec().words_per_iteration()) * self.array_bytes()) as f64
    }

    /// Returns the memory traffic at a rate of `rate` counted bytes per second. It includes write-allocates: regular
    /// stores to a line that the loop does not read load the line first.
    pub fn memory_traffic(&self, rate: f64, allocates: bool) -> Option<record::Traffic> {
        let kernel = self.variant.kernel();
        let element = Element::F64;
        let counted = kernel.counted_bytes(element);
        let moved = kernel.moved_bytes(element, self.variant.shape().stores);
        let basis = if moved > counted { "write-allocate" } else { "no write-allocate" };
        (moved == counted || allocates).then(|| record::Traffic {
            value: rate * moved as f64 / counted as f64,
            basis: basis.to_owned(),
        })
    }

    /// Prepares the loop at the first call: checks every element, and determines the number of passes per timed
    /// call.
    pub fn prepare(
        &mut self,
        pool: &mut WitnessedPool,
        buffers: RegionBuffers<'_>,
    ) -> Result<(), ArenaError> {
        if self.repeats == 0 {
            self.wrong_value = self.check(pool, buffers)?;
            self.calibrate(pool, buffers, MIN_CALL_SECONDS)?;
        }
        Ok(())
    }

    /// Returns the seconds per pass of a short call; the first call determines the number of passes. If `shift` is
    /// given, the call is a single pass over a part of the buffers that no other shift covers.
    pub fn time_short_call(
        &mut self,
        pool: &mut WitnessedPool,
        buffers: RegionBuffers<'_>,
        shift: Option<usize>,
    ) -> Result<f64, ArenaError> {
        match (shift, self.repeats) {
            (Some(shift), _) => {
                self.repeats = 1;
                Ok(self.run(pool, buffers.shifted(shift))?.seconds)
            }
            (None, 0) => self.calibrate(pool, buffers, TRIAL_SECONDS),
            (None, repeats) => Ok(self.run(pool, buffers)?.seconds / repeats as f64),
        }
    }

    /// Runs a timed call on all workers. Returns the time of all passes together.
    fn run(
        &self,
        pool: &mut WitnessedPool,
        buffers: RegionBuffers<'_>,
    ) -> Result<TimedJob<f64>, ArenaError> {
        pool.run_timed_undisturbed(|worker| {
            let streams =
                buffers.loop_args(worker, self.bytes, self.variant.kernel(), self.repeats);
            // SAFETY: the arrays are in this worker's buffer, which no other thread uses; they are aligned to cache
            // lines and do not overlap.
            std::hint::black_box(unsafe { self.variant.run(&streams) })
        })
    }

    /// Sets the number of passes per call so that a call takes `target` seconds. Returns the time per pass in the last
    /// call.
    fn calibrate(
        &mut self,
        pool: &mut WitnessedPool,
        buffers: RegionBuffers<'_>,
        target: f64,
    ) -> Result<f64, ArenaError> {
        let found = call_passes(target, |passes| {
            self.repeats = passes;
            let timed = self.run(pool, buffers)?;
            Ok(CallTime { seconds: timed.seconds, disturbed: !timed.causes.is_empty() })
        })?;
        self.repeats = found.passes;
        Ok(found.seconds / found.passes as f64)
    }

    /// Runs a pass on newly filled working sets, and compares every element with the expected result. Returns a
    /// description of the first wrong value.
    fn check(
        &self,
        pool: &mut WitnessedPool,
        buffers: RegionBuffers<'_>,
    ) -> Result<Option<String>, ArenaError> {
        let wrong = pool.run(|worker| {
            let streams = buffers.loop_args(worker, self.bytes, self.variant.kernel(), 1);
            // SAFETY: the arrays are in this worker's working set, which no other thread uses.
            unsafe {
                buffers.refill(worker, self.bytes);
                let sum = self.variant.run(&streams);
                region::check(self.variant.kernel(), &streams, sum)
            }
        })?;
        Ok(wrong.into_iter().find_map(Result::err))
    }
}

/// Returns a sample with the time per pass of each loop.
pub fn take_sample(
    loops: &[WorkingSetLoop],
    pool: &mut WitnessedPool,
    buffers: RegionBuffers<'_>,
) -> Result<Sample, ArenaError> {
    pool.take_sample(|pool| {
        let mut seconds = Vec::with_capacity(loops.len());
        let mut causes = Vec::new();
        for each in loops {
            let timed = each.run(pool, buffers)?;
            seconds.push(timed.seconds / each.repeats as f64);
            causes.push(timed.causes);
        }
        Ok((seconds, causes))
    })
}

/// Refills every worker's working set of `bytes` bytes, and then takes a sample of the loops.
pub fn refill_and_sample(
    loops: &[WorkingSetLoop],
    pool: &mut WitnessedPool,
    buffers: RegionBuffers<'_>,
    bytes: u64,
) -> Result<Sample, ArenaError> {
    refill(pool, buffers, bytes as usize)?;
    take_sample(loops, pool, buffers)
}

/// Fills every worker's working set with the initial values, which also loads it into the caches.
pub fn refill(
    pool: &mut WitnessedPool,
    buffers: RegionBuffers<'_>,
    bytes: usize,
) -> Result<(), ArenaError> {
    pool.run(|worker| {
        // SAFETY: only this worker uses the working set.
        unsafe { buffers.refill(worker, bytes) };
    })?;
    Ok(())
}

/// Returns a read loop that is selected without a trial: the loop with the widest vectors and an unroll factor of four.
/// All read loops are equally fast in main memory, both local and remote.
pub fn default_read_loop() -> ResidentLoop {
    let variants = kernels::resident_loops(Kernel::Read, Stores::Regular);
    let by_four = variants.iter().find(|variant| variant.shape().unroll == 4);
    *by_four.expect("the read kernel has portable loops of every unroll factor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbed_call_does_not_set_number_of_passes() {
        let pass = 3e-6;
        let found = |disturbed_call: usize| {
            let mut calls = 0;
            let found = call_passes(MIN_CALL_SECONDS, |passes| {
                calls += 1;
                let disturbed = calls == disturbed_call;
                let other = if disturbed { 2.0 * MIN_CALL_SECONDS } else { 0.0 };
                Ok(CallTime { seconds: pass * passes as f64 + other, disturbed })
            });
            let found = found.unwrap();
            pass * found.passes as f64
        };
        for disturbed_call in 0..6 {
            let seconds = found(disturbed_call);
            assert!((MIN_CALL_SECONDS..33.0 * MIN_CALL_SECONDS).contains(&seconds), "{seconds}");
            assert!(!is_short_call(seconds));
        }
        // If every call is disturbed, the number of passes remains small, and the figure is suspect.
        let always = call_passes(MIN_CALL_SECONDS, |_| {
            Ok(CallTime { seconds: 2.0 * MIN_CALL_SECONDS, disturbed: true })
        });
        assert_eq!(always.unwrap().passes, 1);
        assert!(is_short_call(pass));
    }
}
