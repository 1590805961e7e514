//! Kernels run on a region: timed, checked, and the loop that is fastest on a set of a size.

use crate::config::CurveConfig;
use crate::pool::{Timed, WorkerPool};
use crate::region::{self, Pieces};
use nodegauge_arena::ArenaError;
use nodegauge_kernels::{self as kernels, Element, Kernel, Resident, Stores};
use nodegauge_measure::record;
use nodegauge_measure::samples::Sample;

/// How long a timed call lasts at least: a reading of the clock, the barrier and the core-to-core latency are
/// nothing beside it, and a round over all sizes stays well below a second.
const CALL_SECONDS: f64 = 2e-3;
/// How long a call of a trial lasts.
const TRIAL_SECONDS: f64 = 0.4e-3;

/// A kernel on sets of one size, with its loop.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    variant: Resident,
    /// Bytes of each worker's set.
    bytes: usize,
    /// Passes in a timed call; 0 before the first.
    repeats: u64,
    /// What the first pass got wrong, in words.
    pub wrong: Option<String>,
}

impl Traffic {
    /// A loop on sets of `bytes`.
    pub(crate) fn new(variant: Resident, bytes: usize) -> Self {
        Self { variant, bytes, repeats: 0, wrong: None }
    }

    /// What it runs.
    pub(crate) fn kernel(&self) -> Kernel {
        self.variant.kernel()
    }

    /// Floating-point operations for each byte that it names.
    pub(crate) fn flops_per_byte(&self) -> f64 {
        f64::from(self.kernel().spec().flops) / self.kernel().counted(Element::F64) as f64
    }

    /// Bytes of each array of one worker.
    pub(crate) fn array_bytes(&self) -> u64 {
        region::array_bytes(self.bytes, self.variant.kernel()) as u64
    }

    /// Bytes that a pass of one worker counts.
    pub(crate) fn counted(&self) -> f64 {
        (u64::from(self.variant.kernel().spec().words()) * self.array_bytes()) as f64
    }

    /// What moves at `rate` counted bytes a second: regular stores bring a line in first that the
    /// loop does not read.
    pub(crate) fn moved(&self, rate: f64, allocates: bool) -> Option<record::Traffic> {
        let (kernel, element) = (self.variant.kernel(), Element::F64);
        let (counted, moved) =
            (kernel.counted(element), kernel.moved(element, self.variant.shape().stores));
        let basis = if moved > counted { "write-allocate" } else { "no write-allocate" };
        (moved == counted || allocates).then(|| record::Traffic {
            value: rate * moved as f64 / counted as f64,
            basis: basis.to_owned(),
        })
    }

    /// Writes into a configuration what the record says of the loop.
    pub(crate) fn describe(&self, config: &mut CurveConfig) {
        let (spec, shape) = (self.variant.kernel().spec(), self.variant.shape());
        config.kernel = Some(spec.name.to_owned());
        config.formula = Some(spec.formula.to_owned());
        config.stores = spec.writes.map(|_| shape.stores.name().to_owned());
        config.isa = Some(shape.isa.name().to_owned());
        config.vector_bits = Some(shape.isa.vector_bits().into());
        config.unroll = Some(shape.unroll.into());
        config.side_by_side = shape.side_by_side.several().map(u64::from);
        config.repeats = Some(self.repeats);
    }

    /// Checks every element and sets how often a call repeats, the first time.
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

    /// Seconds of a pass, by a short call whose repetitions the first sets; with `shift` a single pass
    /// over another part of the pieces than with any shift before.
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

    /// Runs the timed call on all workers; the time is of all its passes.
    fn run(&self, pool: &mut WorkerPool, pieces: Pieces<'_>) -> Result<Timed<f64>, ArenaError> {
        pool.undisturbed(|worker| {
            let streams = pieces.streams(worker, self.bytes, self.variant.kernel(), self.repeats);
            // SAFETY: the arrays are whole lines apart within this worker's piece, which nobody
            // else uses.
            std::hint::black_box(unsafe { self.variant.run(&streams) })
        })
    }

    /// Sets how often a call repeats so that it lasts as long as `wished`, seconds; returns the time
    /// of a pass in the last call that it tried.
    fn calibrate(
        &mut self,
        pool: &mut WorkerPool,
        pieces: Pieces<'_>,
        wished: f64,
    ) -> Result<f64, ArenaError> {
        self.repeats = 1;
        loop {
            let seconds = self.run(pool, pieces)?.seconds;
            if seconds >= wished || self.repeats > 1 << 40 {
                return Ok(seconds / self.repeats as f64);
            }
            // A call that is far too short says little: towards the constraint in steps of 32 at most.
            let factor = (wished * 1.05 / seconds.max(1e-9)).clamp(1.1, 32.0);
            self.repeats = (self.repeats as f64 * factor).ceil() as u64;
        }
    }

    /// Runs a pass on fresh values and holds every element against the replay: what is wrong, in
    /// words.
    fn check(
        &self,
        pool: &mut WorkerPool,
        pieces: Pieces<'_>,
    ) -> Result<Option<String>, ArenaError> {
        let wrong = pool.work(|worker| {
            let streams = pieces.streams(worker, self.bytes, self.variant.kernel(), 1);
            // SAFETY: as in `run`; the set is this worker's alone.
            unsafe {
                pieces.refill(worker, self.bytes);
                let sum = self.variant.run(&streams);
                region::check(self.variant.kernel(), &streams, sum)
            }
        })?;
        Ok(wrong.into_iter().find_map(Result::err))
    }
}

/// A sample of the time of a pass of each loop.
pub(crate) fn sample(
    loops: &[Traffic],
    pool: &mut WorkerPool,
    pieces: Pieces<'_>,
) -> Result<Sample, ArenaError> {
    pool.sample(|pool| {
        let (mut seconds, mut causes) = (Vec::with_capacity(loops.len()), Vec::new());
        for each in loops {
            let timed = each.run(pool, pieces)?;
            seconds.push(timed.seconds / each.repeats as f64);
            causes.push(timed.causes);
        }
        Ok((seconds, causes))
    })
}

/// Writes start values into every worker's set, which also brings it near.
pub(crate) fn refill(
    pool: &mut WorkerPool,
    pieces: Pieces<'_>,
    bytes: usize,
) -> Result<(), ArenaError> {
    pool.work(|worker| {
        // SAFETY: the set is this worker's alone.
        unsafe { pieces.refill(worker, bytes) };
    })?;
    Ok(())
}

/// A loop that reads without a trial: the widest vectors, unrolled by four. Main memory does not tell
/// loops apart, and remote memory less.
pub(crate) fn reader() -> Resident {
    let variants = kernels::resident(Kernel::Read, Stores::Regular);
    let by_four = variants.iter().find(|variant| variant.shape().unroll == 4);
    *by_four.expect("reading has portable loops of every unroll")
}
