//! Kernels on a region: timed runs, checks, and trials of the fastest loop for a set size.

use crate::config::CurveConfig;
use crate::pool::{Timed, WorkerPool};
use crate::region::{self, Pieces};
use nodegauge_arena::ArenaError;
use nodegauge_kernels::{self as kernels, Element, Kernel, Resident, Stores};
use nodegauge_measure::record;
use nodegauge_measure::samples::Sample;

/// Minimum duration of a timed call: the reading of the clock, the barrier and the core-to-core latency are
/// negligible in comparison, and a round over all sizes takes much less than a second.
const CALL_SECONDS: f64 = 2e-3;
/// Duration of a call of a trial.
const TRIAL_SECONDS: f64 = 0.4e-3;

/// Kernel on sets of one size, with its loop.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    variant: Resident,
    /// Bytes of each worker's set.
    bytes: usize,
    /// Passes of a timed call; 0 before the first call.
    repeats: u64,
    /// Description of an error in the first pass.
    pub wrong: Option<String>,
}

impl Traffic {
    /// Returns a loop on sets of `bytes`.
    pub(crate) fn new(variant: Resident, bytes: usize) -> Self {
        Self { variant, bytes, repeats: 0, wrong: None }
    }

    /// Returns the kernel.
    pub(crate) fn kernel(&self) -> Kernel {
        self.variant.kernel()
    }

    /// Returns the floating-point operations per counted byte.
    pub(crate) fn flops_per_byte(&self) -> f64 {
        f64::from(self.kernel().spec().flops) / self.kernel().counted(Element::F64) as f64
    }

    /// Returns the bytes of each array of one worker.
    pub(crate) fn array_bytes(&self) -> u64 {
        region::array_bytes(self.bytes, self.variant.kernel()) as u64
    }

    /// Returns the bytes counted for a pass of one worker.
    pub(crate) fn counted(&self) -> f64 {
        (u64::from(self.variant.kernel().spec().words()) * self.array_bytes()) as f64
    }

    /// Returns the memory traffic at `rate` counted bytes per second: regular stores first load a line that the
    /// loop does not read.
    pub(crate) fn moved(&self, rate: f64, allocates: bool) -> Option<record::Traffic> {
        let kernel = self.variant.kernel();
        let element = Element::F64;
        let counted = kernel.counted(element);
        let moved = kernel.moved(element, self.variant.shape().stores);
        let basis = if moved > counted { "write-allocate" } else { "no write-allocate" };
        (moved == counted || allocates).then(|| record::Traffic {
            value: rate * moved as f64 / counted as f64,
            basis: basis.to_owned(),
        })
    }

    /// Writes the properties of the loop into a configuration.
    pub(crate) fn describe(&self, config: &mut CurveConfig) {
        let spec = self.variant.kernel().spec();
        let shape = self.variant.shape();
        config.kernel = Some(spec.name.to_owned());
        config.formula = Some(spec.formula.to_owned());
        config.stores = spec.writes.map(|_| shape.stores.name().to_owned());
        config.isa = Some(shape.isa.name().to_owned());
        config.vector_bits = Some(shape.isa.vector_bits().into());
        config.unroll = Some(shape.unroll.into());
        config.side_by_side = shape.side_by_side.several().map(u64::from);
        config.repeats = Some(self.repeats);
    }

    /// Checks every element and sets the passes per call, on the first call only.
    pub(crate) fn prepare(
        &mut self,
        pool: &mut WorkerPool,
        pieces: Pieces<'_>,
    ) -> Result<(), ArenaError> {
        if self.repeats == 0 {
            self.wrong = self.check(pool, pieces)?;
            self.calibrate(pool, pieces, CALL_SECONDS)?;
        }
        Ok(())
    }

    /// Returns the seconds of a pass, from a short call whose number of passes the first call sets. With
    /// `shift` it is a single pass over a part of the pieces that no other shift covers.
    pub(crate) fn trial(
        &mut self,
        pool: &mut WorkerPool,
        pieces: Pieces<'_>,
        shift: Option<usize>,
    ) -> Result<f64, ArenaError> {
        match (shift, self.repeats) {
            (Some(shift), _) => {
                self.repeats = 1;
                Ok(self.run(pool, pieces.shifted(shift))?.seconds)
            }
            (None, 0) => self.calibrate(pool, pieces, TRIAL_SECONDS),
            (None, repeats) => Ok(self.run(pool, pieces)?.seconds / repeats as f64),
        }
    }

    /// Runs the timed call on all workers; the time is that of all its passes.
    fn run(&self, pool: &mut WorkerPool, pieces: Pieces<'_>) -> Result<Timed<f64>, ArenaError> {
        pool.undisturbed(|worker| {
            let streams = pieces.streams(worker, self.bytes, self.variant.kernel(), self.repeats);
            // SAFETY: the arrays are whole lines apart within this worker's piece, which no other thread uses.
            std::hint::black_box(unsafe { self.variant.run(&streams) })
        })
    }

    /// Sets the passes of a call so that it lasts `target` seconds; returns the time of a pass in the last
    /// call.
    fn calibrate(
        &mut self,
        pool: &mut WorkerPool,
        pieces: Pieces<'_>,
        target: f64,
    ) -> Result<f64, ArenaError> {
        self.repeats = 1;
        loop {
            let seconds = self.run(pool, pieces)?.seconds;
            if seconds >= target || self.repeats > 1 << 40 {
                return Ok(seconds / self.repeats as f64);
            }
            // A very short call is imprecise, so one step increases the passes by a factor of 32 at most.
            let factor = (target * 1.05 / seconds.max(1e-9)).clamp(1.1, 32.0);
            self.repeats = (self.repeats as f64 * factor).ceil() as u64;
        }
    }

    /// Runs a pass on fresh values and compares every element with the expected result; returns a description
    /// of an error.
    fn check(
        &self,
        pool: &mut WorkerPool,
        pieces: Pieces<'_>,
    ) -> Result<Option<String>, ArenaError> {
        let wrong = pool.work(|worker| {
            let streams = pieces.streams(worker, self.bytes, self.variant.kernel(), 1);
            // SAFETY: as in `run`; only this worker uses the set.
            unsafe {
                pieces.refill(worker, self.bytes);
                let sum = self.variant.run(&streams);
                region::check(self.variant.kernel(), &streams, sum)
            }
        })?;
        Ok(wrong.into_iter().find_map(Result::err))
    }
}

/// Returns a sample of the time of a pass of each loop.
pub(crate) fn sample(
    loops: &[Traffic],
    pool: &mut WorkerPool,
    pieces: Pieces<'_>,
) -> Result<Sample, ArenaError> {
    pool.sample(|pool| {
        let mut seconds = Vec::with_capacity(loops.len());
        let mut causes = Vec::new();
        for each in loops {
            let timed = each.run(pool, pieces)?;
            seconds.push(timed.seconds / each.repeats as f64);
            causes.push(timed.causes);
        }
        Ok((seconds, causes))
    })
}

/// Writes start values into every worker's set, which also brings the set into the caches.
pub(crate) fn refill(
    pool: &mut WorkerPool,
    pieces: Pieces<'_>,
    bytes: usize,
) -> Result<(), ArenaError> {
    pool.work(|worker| {
        // SAFETY: only this worker uses the set.
        unsafe { pieces.refill(worker, bytes) };
    })?;
    Ok(())
}

/// Returns a read loop without a trial: the widest vectors, unrolled by four. All read loops are equally fast in
/// main memory, both local and remote.
pub(crate) fn reader() -> Resident {
    let variants = kernels::resident(Kernel::Read, Stores::Regular);
    let by_four = variants.iter().find(|variant| variant.shape().unroll == 4);
    *by_four.expect("reading has portable loops of every unroll")
}
