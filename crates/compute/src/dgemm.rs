//! DGEMM on all threads: each multiplies matrices of its own, so that the rate is what the cores
//! and the library give, without the sharing-out that a library's own threads would add.

use crate::engine::{GemmEngine, Multiplier};
use crate::random::Sequence;
use nodegauge_measure::FlopsPerSec;
use nodegauge_team::{Team, TeamError};
use nodegauge_toolchain::blas::Product;
use std::time::{Duration, Instant};

/// Rows and columns of C. With A and B a thread has three matrices of 1024 columns, beyond any
/// level-2 cache; LU's products are of this kind.
const ORDER: usize = 1024;
/// Columns of A for the estimate, and for slow libraries.
const LEAST_DEPTH: usize = 64;
/// Columns of A: several times what libraries copy at once.
const DEPTH: usize = 1024;

/// Rates of single rounds, FLOP/s, for about `time`; the first round, which touches the matrices
/// first, is left out.
///
/// # Errors
/// When a thread fails.
pub fn measure(
    team: &mut Team,
    multiplier: &Multiplier,
    time: Duration,
) -> Result<Vec<f64>, TeamError> {
    let engine = GemmEngine::new(multiplier);
    let parts = team.map(|member| {
        engine.settle();
        let numbers = |length: usize| {
            let mut numbers = vec![0.0; length];
            Sequence::new(member.index as u64).fill(0, &mut numbers);
            numbers
        };
        let (a, b) = (numbers(ORDER * DEPTH), numbers(DEPTH * ORDER));
        let mut c = numbers(ORDER * ORDER);
        let mut multiply = |depth: usize| {
            let (a, b, c) = ((a.as_ptr(), ORDER), (b.as_ptr(), DEPTH), (c.as_mut_ptr(), ORDER));
            let start = Instant::now();
            // SAFETY: the vectors have these sizes, and C is this thread's own.
            unsafe { engine.update(Product { size: (ORDER, ORDER, depth), a, b, c }) };
            start.elapsed().as_secs_f64()
        };
        // Twice, for the first touches memory and wakes the library; a slow library takes fewer
        // columns, so that a round stays within the time.
        multiply(LEAST_DEPTH);
        let whole = multiply(LEAST_DEPTH) * (DEPTH / LEAST_DEPTH) as f64;
        let depth = (DEPTH as f64 * time.as_secs_f64() / whole) as usize;
        let depth = depth.clamp(LEAST_DEPTH, DEPTH);
        member.barrier();
        let start = Instant::now();
        let mut columns_a_second = Vec::new();
        while start.elapsed() < time || columns_a_second.is_empty() {
            columns_a_second.push(depth as f64 / multiply(depth));
        }
        columns_a_second
    })?;
    // Threads go their own way; round i of the team is as good as the sum of theirs.
    let rounds = parts.iter().map(Vec::len).min().unwrap_or(0);
    let flops = 2.0 * (ORDER * ORDER) as f64;
    Ok((0..rounds).map(|i| parts.iter().map(|columns| flops * columns[i]).sum()).collect())
}

/// The best of some rates, FLOP/s.
pub(crate) fn best(rates: &[f64]) -> FlopsPerSec {
    FlopsPerSec(rates.iter().copied().fold(0.0, f64::max))
}
