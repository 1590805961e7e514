//! DGEMM on all threads. Every thread multiplies its own matrices; therefore the rate does not include the overhead of
//! sharing work.

use crate::engine::{GemmEngine, Multiplier};
use crate::random::Sequence;
use nodegauge_measure::FlopsPerSec;
use nodegauge_team::{Member, Team, TeamError};
use nodegauge_toolchain::blas::ProductOperands;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of rows and columns of C. The three matrices A, B and C of a thread are larger than any level-2 cache, as in
/// the products of LU.
const ORDER: usize = 1024;
/// Number of columns of A in the call that touches the matrices for the first time.
const TOUCH_DEPTH: usize = 8;
/// Number of columns of A in the first estimate of the rate, and with slow libraries.
const MIN_DEPTH: usize = 64;
/// Number of rows and columns of the small matrices, whose products precede the estimate.
const SMALL_ORDER: usize = 64;
/// Share of the requested time for which every thread repeats the small product in a round; [`MAX_SMALL`] is the
/// maximum of this time. A round is longer than threads usually wait for a CPU that other processes use.
const SMALL_SHARE: f64 = 0.25;
/// Maximum time for which a thread repeats the small product in a round.
const MAX_SMALL: Duration = Duration::from_millis(10);
/// Maximum number of rounds with small products. A round that is fast enough is the last; slower rounds may have
/// been interrupted.
const SMALL_ROUNDS: usize = 4;
/// Maximum time of the estimate, as a multiple of the requested time. If the estimate takes longer, e.g. on emulated
/// CPUs, it is the only round.
const SLOW: f64 = 4.0;
/// Maximum predicted time of the estimate, as a multiple of the requested time. If the estimate would take longer, only
/// small products are run. It is smaller than [`SLOW`], because filling the matrices takes as long as the
/// estimate, and another product follows.
const SLOW_FROM_SMALL: f64 = 2.0;
/// Number of columns of A: several times the number of columns that libraries copy into a buffer at once.
const DEPTH: usize = 1024;

/// Measures DGEMM for about `time` and returns the rate of every round in FLOP/s. The first round is omitted,
/// because it touches the matrices for the first time.
///
/// # Errors
/// Fails if a thread fails.
pub fn measure(
    team: &mut Team,
    multiplier: &Multiplier,
    time: Duration,
) -> Result<Vec<f64>, TeamError> {
    let engine = GemmEngine::new(multiplier);
    let found = AtomicU64::new(0);
    let parts = team.run_and_collect(|member| {
        engine.use_one_thread();
        // Filling the matrices of an emulated CPU takes seconds, as the estimate does.
        let max = SLOW_FROM_SMALL * time.as_secs_f64();
        let enough = flops(MIN_DEPTH) / max;
        let each = time.mul_f64(SMALL_SHARE).min(MAX_SMALL);
        let rate = small_rate(member, &engine, each, enough, &found);
        if rate < enough {
            member.barrier();
            return vec![rate / flops(1)];
        }
        let a = numbers(member, ORDER * DEPTH);
        let b = numbers(member, DEPTH * ORDER);
        let mut c = numbers(member, ORDER * ORDER);
        let mut multiply = |depth: usize| {
            let a = (a.as_ptr(), ORDER);
            let b = (b.as_ptr(), DEPTH);
            let c = (c.as_mut_ptr(), ORDER);
            let start = Instant::now();
            // SAFETY: the vectors have the sizes given in the call, and only this thread uses C.
            unsafe { engine.update(ProductOperands { size: (ORDER, ORDER, depth), a, b, c }) };
            start.elapsed().as_secs_f64()
        };
        // The product is called twice, because the first call touches the memory and initialises the library. With a
        // slow library, the products have fewer columns, so that a round stays within the time.
        multiply(TOUCH_DEPTH);
        let min = multiply(MIN_DEPTH);
        let whole = min * (DEPTH / MIN_DEPTH) as f64;
        let depth = (DEPTH as f64 * time.as_secs_f64() / whole) as usize;
        let depth = depth.clamp(MIN_DEPTH, DEPTH);
        member.barrier();
        if min > SLOW * time.as_secs_f64() {
            return vec![MIN_DEPTH as f64 / min];
        }
        let start = Instant::now();
        let mut columns_per_second = Vec::new();
        while start.elapsed() < time || columns_per_second.is_empty() {
            columns_per_second.push(depth as f64 / multiply(depth));
        }
        columns_per_second
    })?;
    // Threads run independently; the rate of round i is the sum of the rates of round i over all threads.
    let rounds = parts.iter().map(Vec::len).min().unwrap_or(0);
    let mut rates = Vec::with_capacity(rounds);
    for i in 0..rounds {
        rates.push(parts.iter().map(|columns| flops(1) * columns[i]).sum());
    }
    Ok(rates)
}

/// Returns random numbers for the matrices of a thread.
fn numbers(member: &Member<'_>, length: usize) -> Vec<f64> {
    let mut numbers = vec![0.0; length];
    Sequence::new(member.index as u64).fill(0, &mut numbers);
    numbers
}

/// Returns the number of operations of a product with `depth` columns of A.
fn flops(depth: usize) -> f64 {
    2.0 * (ORDER * ORDER * depth) as f64
}

/// Measures the rate per thread of small products on all threads, and returns it in FLOP/s: the first rate of at least
/// `enough`, otherwise the best rate. In a round, every thread multiplies for the time `each`. The round ends when all
/// threads have ended, because threads may share CPUs. The threads exchange their rates through `found`, so that all
/// return the same rate.
fn small_rate(
    member: &Member<'_>,
    engine: &GemmEngine<'_>,
    each: Duration,
    enough: f64,
    found: &AtomicU64,
) -> f64 {
    let a = numbers(member, SMALL_ORDER * SMALL_ORDER);
    let b = numbers(member, SMALL_ORDER * SMALL_ORDER);
    let mut c = numbers(member, SMALL_ORDER * SMALL_ORDER);
    let mut best = 0.0_f64;
    for _ in 0..SMALL_ROUNDS {
        member.barrier();
        let start = Instant::now();
        let mut products = 0;
        while products == 0 || start.elapsed() < each {
            let size = (SMALL_ORDER, SMALL_ORDER, SMALL_ORDER);
            let a = (a.as_ptr(), SMALL_ORDER);
            let b = (b.as_ptr(), SMALL_ORDER);
            let c = (c.as_mut_ptr(), SMALL_ORDER);
            // SAFETY: the vectors have the sizes given in the call, and only this thread uses C.
            unsafe { engine.update(ProductOperands { size, a, b, c }) };
            products += 1;
        }
        member.barrier();
        if member.index == 0 {
            let flops = 2.0 * (products * SMALL_ORDER * SMALL_ORDER * SMALL_ORDER) as f64;
            let rate = flops / start.elapsed().as_secs_f64();
            found.store(best.max(rate).to_bits(), Ordering::Relaxed);
        }
        member.barrier();
        best = f64::from_bits(found.load(Ordering::Relaxed));
        if best >= enough {
            break;
        }
    }
    best
}

/// Returns the highest of `rates`, FLOP/s.
pub fn best_rate(rates: &[f64]) -> FlopsPerSec {
    FlopsPerSec(rates.iter().copied().fold(0.0, f64::max))
}
