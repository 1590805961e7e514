//! Kernels run on the area: timed, checked, and the loop that is fastest on a set of a size.

use crate::curves::pool::{Timed, WorkerPool};
use crate::curves::region::{self, MemoryRegion};
use crate::halving::Shuffler;
use crate::kernels::{self, Element, Kernel, Resident, Stores};
use crate::point::PointError;
use serde_json::{Value, json};

/// How long a timed call lasts at least: a reading of the clock, the barrier and the core-to-core latency are
/// nothing beside it, and a round over all sizes stays well below a second.
pub(crate) const CALL_SECONDS: f64 = 2e-3;
/// How long a call of a trial lasts.
const TRIAL_SECONDS: f64 = 0.4e-3;
/// Rounds of a trial; the best of each loop counts.
const TRIAL_ROUNDS: usize = 4;
/// Vector widths that a trial looks at, widest first.
const WIDTHS: usize = 2;

/// A kernel on sets of one size, with its loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    /// The loop.
    pub variant: Resident,
    /// Bytes of each worker's set.
    pub bytes: usize,
    /// Passes in a timed call.
    pub repeats: u64,
}

impl Traffic {
    /// The kernel.
    pub(crate) fn kernel(&self) -> Kernel {
        self.variant.kernel()
    }

    /// Bytes that a pass of one worker counts.
    pub(crate) fn counted(&self) -> f64 {
        let elements = region::array_bytes(self.bytes, self.kernel()) / size_of::<f64>();
        (self.kernel().counted(Element::F64) * elements as u64) as f64
    }

    /// Bytes that move over bytes that count, and why: regular stores bring a line in first that the
    /// loop does not read.
    pub(crate) fn moved(&self) -> (f64, &'static str) {
        let (kernel, element) = (self.kernel(), Element::F64);
        let (counted, moved) =
            (kernel.counted(element), kernel.moved(element, self.variant.shape().stores));
        let why = if moved > counted { "write-allocate" } else { "no write-allocate" };
        (moved as f64 / counted as f64, why)
    }

    /// What the record says of the loop.
    pub(crate) fn config(&self) -> Value {
        let (spec, shape) = (self.kernel().spec(), self.variant.shape());
        json!({
            "kernel": spec.name,
            "formula": spec.formula,
            "stores": spec.writes.map(|_| shape.stores.name()),
            "isa": shape.isa.name(),
            "vector_bits": shape.isa.vector_bits(),
            "unroll": shape.unroll,
            "repeats": self.repeats,
        })
    }

    /// Runs the timed call on all workers; the time is of all its passes.
    pub(crate) fn run(
        &self,
        pool: &mut WorkerPool,
        area: &MemoryRegion,
    ) -> Result<Timed<f64>, PointError> {
        pool.undisturbed(|worker| {
            let streams = area.streams(worker, self.bytes, self.kernel(), self.repeats);
            // SAFETY: the arrays are whole lines apart within this
            // worker's piece, which nobody else uses.
            std::hint::black_box(unsafe { self.variant.run(&streams) })
        })
    }

    /// Sets how often a call repeats so that it lasts as long as `wished`, seconds; returns the time
    /// of a pass in the last call that it tried.
    pub(crate) fn calibrate(
        &mut self,
        pool: &mut WorkerPool,
        area: &MemoryRegion,
        wished: f64,
    ) -> Result<f64, PointError> {
        self.repeats = 1;
        loop {
            let seconds = self.run(pool, area)?.seconds;
            if seconds >= wished || self.repeats > 1 << 40 {
                return Ok(seconds / self.repeats as f64);
            }
            // A call that is far too short says little: towards the constraint in steps of 32 at most.
            let factor = (wished * 1.05 / seconds.max(1e-9)).clamp(1.1, 32.0);
            self.repeats = (self.repeats as f64 * factor).ceil() as u64;
        }
    }

    /// Runs the passes once on fresh values and holds every element against the replay: what is
    /// wrong, in words.
    pub(crate) fn check(
        &self,
        pool: &mut WorkerPool,
        area: &MemoryRegion,
    ) -> Result<Option<String>, PointError> {
        let few = self.repeats.min(3);
        let wrong = pool.work(|worker| {
            let streams = area.streams(worker, self.bytes, self.kernel(), few);
            // SAFETY: as in `run`; the set is this worker's alone.
            unsafe {
                area.refill(worker, self.bytes);
                let sum = self.variant.run(&streams);
                region::check(self.kernel(), &streams, sum)
            }
        })?;
        Ok(wrong.into_iter().find_map(Result::err))
    }
}

/// Writes start values into every worker's set, which also brings it near.
pub(crate) fn refill(
    pool: &mut WorkerPool,
    area: &MemoryRegion,
    bytes: usize,
) -> Result<(), PointError> {
    pool.work(|worker| {
        // SAFETY: the set is this worker's alone.
        unsafe { area.refill(worker, bytes) };
    })?;
    Ok(())
}

/// The fastest loop of a kernel on sets of `bytes`, by a short trial of both widths and all unrolls
/// by turns; the first when `stop` says so or there is one only. `None` without any.
pub(crate) fn fastest(
    pool: &mut WorkerPool,
    area: &MemoryRegion,
    (kernel, stores): (Kernel, Stores),
    bytes: usize,
    mut stop: impl FnMut() -> bool,
) -> Result<Option<Resident>, PointError> {
    let variants = kernels::resident(kernel, stores);
    let mut widths: Vec<u32> =
        variants.iter().map(|variant| variant.shape().isa.vector_bits()).collect();
    widths.dedup();
    let narrowest = widths.get(WIDTHS - 1).or(widths.last()).copied().unwrap_or(0);
    let mut field: Vec<(Traffic, f64)> = variants
        .into_iter()
        .filter(|variant| variant.shape().isa.vector_bits() >= narrowest)
        .map(|variant| (Traffic { variant, bytes, repeats: 1 }, f64::INFINITY))
        .collect();
    if field.len() < 2 {
        return Ok(field.first().map(|(traffic, _)| traffic.variant));
    }
    refill(pool, area, bytes)?;
    for (traffic, best) in &mut field {
        *best = traffic.calibrate(pool, area, TRIAL_SECONDS)?;
    }
    let mut shuffler = Shuffler::new(0x6C6F_6F70);
    'rounds: for _ in 0..TRIAL_ROUNDS {
        shuffler.shuffle(&mut field);
        for (traffic, best) in &mut field {
            if stop() {
                break 'rounds;
            }
            let seconds = traffic.run(pool, area)?.seconds / traffic.repeats as f64;
            *best = best.min(seconds);
        }
    }
    // What the trial had no time for is as in the table: widest first.
    field.sort_by(|x, y| x.1.total_cmp(&y.1));
    Ok(field.first().map(|(traffic, _)| traffic.variant))
}
