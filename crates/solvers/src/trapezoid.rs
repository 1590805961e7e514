//! Trapezoid rule for 4 / (1 + x^2) between 0 and 1, whose integral is pi: the loop, and the error bound of the sum.

use nodegauge_kernels::isa::InstructionSet;
use nodegauge_kernels::{Isa, dispatched};
use nodegauge_measure::Failure;
use nodegauge_measure::samples::Sample;
use nodegauge_team::mpi::{self, World};
use nodegauge_team::{InterruptCheck, Member, TeamError, WorkerPool, stopping_check};
use std::array::from_fn;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

/// Operations per point: two multiplications, two additions, one division.
pub const FLOPS_PER_POINT: f64 = 5.0;
/// Number of parallel partial sums. Eight vectors of four hide the latency of additions, so that the divider limits
/// the rate.
const LANES: usize = 32;
/// Number of points per block. Sums within a block are not compensated; the sum over blocks is compensated (Kahan
/// summation).
const BLOCK: u64 = 4096;

/// Loop for one instruction set; [`TrapezoidLoop::detect`] returns the fastest on this processor.
#[derive(Debug, Clone, Copy)]
pub struct TrapezoidLoop {
    /// Instruction set, which this processor supports.
    isa: Isa,
}

impl TrapezoidLoop {
    /// Returns the loop for this processor. On every known x86 core, the divider has the same rate with 256-bit
    /// vectors as with 512-bit vectors (uops.info, VDIVPD).
    pub fn detect() -> Self {
        Self::available()
            .pop()
            .unwrap_or_else(|| unreachable!("the baseline instruction set is always available"))
    }

    /// Returns all loops that this processor supports, the widest last.
    pub fn available() -> Vec<Self> {
        let all = Isa::dispatched().filter(|isa| isa.vector_bits() <= 256);
        all.map(|isa| Self { isa }).collect()
    }

    /// Returns the name of the instruction set in records.
    pub fn isa_name(self) -> &'static str {
        match self.isa {
            Isa::Portable => "baseline",
            isa => isa.name(),
        }
    }

    /// Returns the part of the integral that worker `index` of `count` workers computes. The integral has `points`
    /// intervals.
    pub fn partial_integral(self, points: u64, index: usize, count: usize) -> f64 {
        self.interruptible_partial_integral(&AtomicBool::new(false), points, index, count)
    }

    /// Computes the same as [`Self::partial_integral`], but returns an incomplete sum as soon as `stop` is set.
    pub fn interruptible_partial_integral(
        self,
        stop: &AtomicBool,
        points: u64,
        index: usize,
        count: usize,
    ) -> f64 {
        let at = |piece: usize| (u128::from(points - 1) * piece as u128 / count as u128) as u64 + 1;
        let h = 1.0 / points as f64;
        // SAFETY: `available` lists only loops that this processor supports.
        let inner = unsafe { sum(self.isa, at(index), at(index + 1), h, stop) };
        // The first worker adds half of f(0) = 4 and half of f(1) = 2.
        let ends = if index == 0 { 3.0 } else { 0.0 };
        (inner + ends) * h
    }

    /// Computes `sums` consecutive sums. `at` is the index of the workers in the pool. A sum ends when all workers have
    /// synchronised. Returns the time per sum and the last sum; `None` if the user interrupts the run.
    ///
    /// # Errors
    /// Fails if a worker fails.
    pub fn take_sample(
        self,
        pool: &mut WorkerPool<'_>,
        at: usize,
        points: u64,
        sums: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<(Sample, f64)>, Failure> {
        let stop = AtomicBool::new(false);
        let mut ask = stopping_check(interrupted, &stop);
        // SAFETY: the job computes and synchronises only at the barrier of the workers.
        let made = unsafe {
            pool.sample(at, InterruptCheck::when(&mut ask), |member, laps| {
                laps.time(|| self.repeated_share(member, points, sums, &stop))
            })
        };
        let (mut sample, timed) = match made {
            Err(TeamError::Interrupted) => return Ok(None),
            made => made?,
        };
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        sample.seconds.iter_mut().for_each(|seconds| *seconds /= sums as f64);
        let sum = timed.results.into_iter().map(f64::from_bits).sum();
        Ok(Some((sample, sum)))
    }

    /// Computes this rank's share of a sample that rank 0 of an MPI job has requested.
    ///
    /// # Errors
    /// Fails if a rank fails.
    pub fn compute_as_follower(self, world: &World, points: u64, sums: u64) -> Result<(), Failure> {
        let stop = AtomicBool::new(false);
        mpi::run_timed(world, |member, laps| {
            laps.time(|| self.repeated_share(member, points, sums, &stop))
        })?;
        Ok(())
    }

    /// Computes a worker's share of `sums` consecutive sums. Returns the bits of the last sum, because JSON has no NaN.
    fn repeated_share(self, member: &Member<'_>, points: u64, sums: u64, stop: &AtomicBool) -> u64 {
        let mut share = 0.0;
        for _ in 0..sums {
            share = self.interruptible_partial_integral(
                stop,
                black_box(points),
                member.index,
                member.count,
            );
            member.barrier();
        }
        f64::to_bits(share)
    }
}

dispatched! {
    /// Returns the sum of f at the points from `first` to `end`, or only of the first points if `stop` is set.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    unsafe fn sum(first: u64, end: u64, h: f64, stop: &AtomicBool) -> f64 = sum_body;
}

/// Body of [`sum`].
///
/// # Safety
/// The requirements of [`sum`] apply.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters, reason = "every dispatched body has one")]
unsafe fn sum_body<S: InstructionSet>(first: u64, end: u64, h: f64, stop: &AtomicBool) -> f64 {
    // This is Kahan summation: the rounding error of an addition is added in the next addition.
    let mut total = 0.0;
    let mut lost = 0.0;
    let mut at = first;
    while at < end && !stop.load(Ordering::Relaxed) {
        let next = end.min(at + BLOCK);
        let part = block(at, next - at, h) - lost;
        let more = total + part;
        (total, lost) = (more, (more - total) - part);
        at = next;
    }
    total
}

#[inline(always)]
fn block(first: u64, count: u64, h: f64) -> f64 {
    let mut at: [f64; LANES] = from_fn(|lane| (first + lane as u64) as f64);
    let mut sums = [0.0; LANES];
    let term = |x: f64| {
        let x = x * h;
        4.0 / (1.0 + x * x)
    };
    for _ in 0..count / LANES as u64 {
        for (sum, x) in sums.iter_mut().zip(&mut at) {
            *sum += term(*x);
            *x += LANES as f64;
        }
    }
    let rest = (count % LANES as u64) as usize;
    for (sum, x) in sums.iter_mut().zip(at).take(rest) {
        *sum += term(x);
    }
    sums.iter().sum()
}

/// Returns the maximum difference between pi and a computed sum over `points` intervals: the error of the rule plus a
/// bound of the rounding errors. To leading order in h, the error of the rule is h^2 / 12 (f'(1) - f'(0)) = -h^2 / 6.
/// The bound of the rounding errors follows Higham, "Accuracy and Stability of Numerical Algorithms", 4.2 and 4.3: one
/// epsilon per addition within a lane and over the lanes, and several per term.
pub fn max_error(points: u64) -> f64 {
    let h = 1.0 / points as f64;
    let additions = BLOCK as f64 / LANES as f64 + LANES as f64;
    h * h / 6.0 * (1.0 + h) + std::f64::consts::PI * f64::EPSILON * (additions + 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::f64::consts::PI;

    #[test]
    fn trapezoid_sum_is_pi_within_bound() {
        for rule in TrapezoidLoop::available() {
            for points in [1, 2, 31, 33, 1000, 4097, 1_000_000] {
                let pi = rule.partial_integral(points, 0, 1);
                assert!((pi - PI).abs() <= max_error(points), "{rule:?} {points}: {pi}");
                // Error of the rule without rounding errors.
                let left = 1.0 / (6.0 * (points as f64).powi(2));
                assert!(points < 31 || (PI - pi - left).abs() < 0.01 * left + 1e-14, "{points}");
            }
        }
    }

    #[test]
    fn error_of_a_wrong_or_missing_point_exceeds_the_bound() {
        let points = 1_000_000_000;
        // A wrong or missing smallest term must exceed the allowed error.
        assert!(2.0 / points as f64 > 100.0 * max_error(points));
    }

    proptest! {
        #[test]
        fn worker_shares_sum_to_whole(points in 1u64..200_000, count in 1usize..9) {
            let rule = TrapezoidLoop::detect();
            let sum: f64 = (0..count).map(|index| rule.partial_integral(points, index, count)).sum();
            prop_assert!((sum - PI).abs() <= max_error(points), "{sum}");
        }
    }
}
