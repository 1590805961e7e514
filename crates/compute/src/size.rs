//! Choice of N by memory or time, candidates for NB, and the grid P x Q. This module does no I/O.

use crate::config::RatingConfig;
use nodegauge_lu::factorisation::flops;
use nodegauge_lu::matrix;
use nodegauge_measure::{Bytes, Failure, FlopsPerSec, Fraction, Seconds};

/// Rule by which N is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OrderSpec {
    /// Largest N whose predicted time is within the budget.
    Quick,
    /// N for which the matrix fills the given share of the available memory.
    Full,
    /// N given by the user.
    Given(usize),
}

/// Constraints on the choice of N.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeConstraints {
    /// Memory that is available now.
    pub available: Bytes,
    /// True if an option sets the available memory.
    pub is_given: bool,
    /// Memory limit of the control group if it determines the available memory.
    pub cgroup_limit: Option<Bytes>,
    /// Memory limit of the process (`ulimit`); `None` without a limit.
    pub process_limit: Option<Bytes>,
    /// Share of the available memory for the matrix.
    pub memory_fraction: Fraction,
    /// Rate of DGEMM on all threads, FLOP/s.
    pub dgemm: FlopsPerSec,
    /// Number of threads of the run.
    pub threads: usize,
    /// Order at which LU reaches half of the DGEMM rate, from earlier solves on this node; `None` if there are none.
    pub half_rate_order: Option<f64>,
    /// Time for one solve, including generating and checking the matrix, seconds.
    pub seconds: Seconds,
    /// Time per matrix element for generating and checking, seconds; 0 if unknown.
    pub overhead: Seconds,
    /// Number of which N must be a multiple.
    pub multiple: usize,
}

/// Chosen N with its formula.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenOrder {
    /// Order of the system, N.
    pub order: usize,
    /// Formula, with numbers in place of the variables.
    pub formula: String,
    /// Predicted time of the solve, seconds.
    pub seconds: Seconds,
    /// Size of the matrix.
    pub bytes: Bytes,
}

/// Memory per thread in addition to the matrix: its stack, and the copies of blocks of A and B that libraries make.
const PER_THREAD: Bytes = Bytes::mib(32);
/// Share of the available memory that is never used, because the kernel's own memory use grows with the memory in use.
const RESERVE: f64 = 0.02;

/// Returns the total memory needed to solve a system of this order.
pub fn needed_memory(order: usize, threads: usize) -> Bytes {
    // Memory for the pivots, for x, and for two vectors per thread during the check.
    let vectors = 8 * order * (3 + 2 * threads);
    Bytes(matrix::bytes(order).0 + vectors as u64 + threads as u64 * PER_THREAD.0)
}

/// Returns the order at which LU reaches half of the DGEMM rate, computed from a solve of `order` that reached `share`
/// of the DGEMM rate. Panels and exchanges take time in proportion to N^2, so the share is N / (N + half).
pub fn half_rate_order_from_share(order: usize, share: Fraction) -> Option<f64> {
    (share.0 > 0.0).then(|| (order as f64 * (1.0 / share.0 - 1.0)).max(0.0))
}

/// Returns the order at which LU reaches half of the DGEMM rate, computed from a rating.
pub(crate) fn half_rate_order_from_rating(rating: &RatingConfig) -> Option<f64> {
    half_rate_order_from_share(rating.n? as usize, rating.of_dgemm?)
}

/// Returns the predicted time of one solve; it is a lower bound if `half_rate_order` is unknown.
pub fn predicted_solve_time(
    order: usize,
    half_rate_order: Option<f64>,
    dgemm: FlopsPerSec,
) -> Seconds {
    let share = order as f64 / (order as f64 + half_rate_order.unwrap_or(0.0));
    Seconds(flops(order) / (dgemm.0 * share))
}

/// Returns the largest number from 0 to `max` for which `fits` returns true; `fits` must be monotonic.
fn largest(max: usize, fits: impl Fn(usize) -> bool) -> usize {
    let mut low = 0;
    let mut high = max;
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// Returns the largest order that fits into the available memory.
fn largest_order(available: Bytes, threads: usize) -> usize {
    let usable = Bytes((available.as_f64() * (1.0 - RESERVE)) as u64);
    largest(by_root(usable.as_f64()), |order| needed_memory(order, threads) <= usable)
}

/// Returns the order of a matrix of this size, bytes.
fn by_root(bytes: f64) -> usize {
    (bytes / 8.0).max(0.0).sqrt() as usize
}

impl SizeConstraints {
    /// Returns the time for generating and checking a matrix of this order.
    fn overhead(&self, order: usize) -> Seconds {
        self.overhead * (order * order) as f64
    }
}

/// Returns the largest multiple of `multiple` that is at most `order`.
fn rounded_down(order: usize, multiple: usize) -> usize {
    order / multiple * multiple
}

/// Chooses N.
///
/// # Errors
/// Fails if N does not fit into memory.
pub fn choose(spec: OrderSpec, constraints: &SizeConstraints) -> Result<ChosenOrder, Failure> {
    let SizeConstraints {
        available,
        memory_fraction,
        threads,
        multiple,
        dgemm,
        half_rate_order,
        ..
    } = *constraints;
    let of_cgroup =
        constraints.cgroup_limit.map(|limit| format!(" (the cgroup's limit is {limit})"));
    let of_process =
        constraints.process_limit.map(|limit| format!(" (the limit of a process is {limit})"));
    let limit = of_process.or(of_cgroup).unwrap_or_default();
    let max = largest_order(available, threads);
    if max < multiple.max(16) {
        let min = needed_memory(multiple.max(16), threads);
        if constraints.is_given {
            return Err(Failure::usage(format!(
                "{available} of memory is too small for any useful N"
            ))
            .hint(format!("give more than {min}, with a unit, e.g. --memory 768GiB")));
        }
        return Err(Failure::missing(format!(
            "only {available} of memory is available{limit}, too small for any useful N"
        ))
        .hint("free memory, or raise the limit (ulimit -v, ulimit -d, the control group)"));
    }
    let by_memory =
        rounded_down(by_root(memory_fraction.0 * available.as_f64()).min(max), multiple);
    let (order, formula) = match spec {
        OrderSpec::Given(order) if order > max => {
            return Err(Failure::missing(format!(
                "N = {order} needs {}, but only {available} of memory is available{limit}: the \
                     run would swap or be killed",
                needed_memory(order, threads),
            ))
            .hint(format!("use --order {} or less", rounded_down(max, multiple))));
        }
        OrderSpec::Given(order) => (order, "as requested".to_owned()),
        OrderSpec::Full => {
            let formula = format!(
                "N = sqrt({} x {available} / 8 B), rounded down to a multiple of {multiple}",
                memory_fraction.0
            );
            (by_memory, formula)
        }
        OrderSpec::Quick => {
            let multiples = largest(by_memory / multiple, |n| {
                let order = n * multiple;
                predicted_solve_time(order, half_rate_order, dgemm) + constraints.overhead(order)
                    <= constraints.seconds
            });
            let order = multiples.max(1) * multiple;
            let share = half_rate_order.map_or(String::new(), |half_rate_order| {
                format!(" x N / (N + {half_rate_order:.0})")
            });
            let formula = format!(
                "largest multiple of {multiple} with (2/3 N^3 + 3/2 N^2) / ({:.1} GFLOP/s{share}) <= {:.1} s",
                dgemm.0 / 1e9,
                (constraints.seconds - constraints.overhead(order)).0,
            );
            (order, formula)
        }
    };
    let seconds = predicted_solve_time(order, half_rate_order, dgemm);
    Ok(ChosenOrder { order, formula, seconds, bytes: matrix::bytes(order) })
}

/// Candidates for NB: multiples of 8 (elements in a cache line), near the block sizes of known libraries (OpenBLAS
/// copies A by 256 to 384 columns, BLIS by 256, MKL by 192 to 384).
pub const NB_CANDIDATES: [usize; 9] = [32, 64, 96, 128, 160, 192, 256, 320, 384];

/// Returns the grid P x Q of `ranks` processes, as square as possible with P <= Q. A power of two is preferred for P if
/// it is at least half as large as the P of the squarest grid.
pub fn grid(ranks: usize) -> (usize, usize) {
    let ranks = ranks.max(1);
    let mut squarest = 1;
    let mut power = 1;
    for p in (1..).take_while(|p| p * p <= ranks).filter(|p| ranks.is_multiple_of(*p)) {
        squarest = p;
        if p.is_power_of_two() {
            power = p;
        }
    }
    let p = if power * 2 >= squarest { power } else { squarest };
    (p, ranks / p)
}

/// Returns candidate grids for `ranks` processes, the most promising first: the grid of [`grid`], then grids with P <=
/// Q that are at most four times flatter. A grid with a single row is a candidate only for few ranks (see TUNING of
/// HPL).
pub fn candidate_grids(ranks: usize) -> Vec<(usize, usize)> {
    let first = grid(ranks);
    let flattest = if ranks <= 8 { 1 } else { (first.0 / 2).max(2) };
    let mut all: Vec<_> = (flattest..=ranks)
        .take_while(|p| p * p <= ranks)
        .filter(|p| ranks.is_multiple_of(*p) && *p != first.0)
        .map(|p| (p, ranks / p))
        .collect();
    all.push(first);
    all.reverse();
    all
}

/// Returns the least common multiple, for N that must be a multiple of NB x LCM(P, Q).
pub fn lcm(a: usize, b: usize) -> usize {
    let mut x = a.max(1);
    let mut y = b.max(1);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a.max(1) / x * b.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn constraints() -> SizeConstraints {
        SizeConstraints {
            available: Bytes::gib(64),
            is_given: false,
            cgroup_limit: None,
            process_limit: None,
            memory_fraction: Fraction(0.8),
            dgemm: FlopsPerSec(100e9),
            threads: 2,
            half_rate_order: Some(600.0),
            seconds: Seconds(10.0),
            overhead: Seconds(0.0),
            multiple: 192,
        }
    }

    #[test]
    fn full_order_fills_the_memory_fraction() {
        let order = choose(OrderSpec::Full, &constraints()).unwrap();
        assert_eq!(order.order, 82752); // sqrt(0.8 x 64 GiB / 8) = 82897, down to 431 x 192
        assert_eq!(
            order.formula,
            "N = sqrt(0.8 x 64 GiB / 8 B), rounded down to a multiple of 192"
        );
    }

    #[test]
    fn quick_order_fits_the_time_budget() {
        let order = choose(OrderSpec::Quick, &constraints()).unwrap();
        let half_rate_order = Some(600.0);
        assert!(
            order.seconds <= Seconds(10.0)
                && predicted_solve_time(order.order + 192, half_rate_order, FlopsPerSec(100e9))
                    > Seconds(10.0)
        );
        assert!(order.formula.contains("(100.0 GFLOP/s x N / (N + 600)) <= 10.0 s"));
        let unknown = SizeConstraints { half_rate_order: None, ..constraints() };
        let larger = choose(OrderSpec::Quick, &unknown).unwrap();
        assert!(larger.order > order.order && larger.formula.contains("(100.0 GFLOP/s) <= 10.0 s"));
        // Generating and checking the matrix takes part of the time.
        let checked = SizeConstraints { overhead: Seconds(1e-8), ..constraints() };
        let smaller = choose(OrderSpec::Quick, &checked).unwrap();
        let whole = |n: usize| {
            predicted_solve_time(n, half_rate_order, FlopsPerSec(100e9))
                + Seconds(1e-8 * (n * n) as f64)
        };
        assert!(
            whole(smaller.order) <= Seconds(10.0) && whole(smaller.order + 192) > Seconds(10.0)
        );
        assert!(smaller.order < order.order);
        // `half_rate_order`, computed from a solve, predicts the time of that solve.
        let reported = super::half_rate_order_from_share(2000, Fraction(0.8));
        let predicted = predicted_solve_time(2000, reported, FlopsPerSec(100e9));
        assert!((predicted / Seconds(flops(2000) / 80e9) - 1.0).abs() < 1e-12);
        assert_eq!(
            (
                super::half_rate_order_from_share(2000, Fraction(1.1)),
                super::half_rate_order_from_share(2000, Fraction(0.0))
            ),
            (Some(0.0), None)
        );
    }

    #[test]
    fn order_beyond_the_available_memory_is_refused() {
        let small = SizeConstraints {
            available: Bytes::gib(1),
            cgroup_limit: Some(Bytes::gib(1)),
            ..constraints()
        };
        let error = choose(OrderSpec::Given(20000), &small).unwrap_err();
        let largest = largest_order(small.available, 2);
        assert!(
            needed_memory(largest, 2) <= Bytes::gib(1)
                && needed_memory(largest + 1, 2) > Bytes(1_040_000_000)
        );
        let error = error.to_string();
        assert!(error.starts_with("N = 20000 needs 3.0 GiB, but only 1 GiB of memory is available (the cgroup's limit is 1 GiB)"), "{error}");
        let typed = SizeConstraints { available: Bytes(3), is_given: true, ..constraints() };
        let refused = choose(OrderSpec::Quick, &typed).unwrap_err();
        assert_eq!(refused.message, "3 B of memory is too small for any useful N");
        let hint = refused.hint.unwrap();
        assert!(hint.contains("e.g. --memory 768GiB") && !hint.contains("free"), "{hint}");
        let tiny = SizeConstraints { available: Bytes::mib(8), ..constraints() };
        let tiny_error = choose(OrderSpec::Full, &tiny).unwrap_err().to_string();
        assert!(tiny_error.contains("too small for any useful N"), "{tiny_error}");
    }

    #[test]
    fn process_grid_is_nearly_square_and_prefers_powers_of_two() {
        assert_eq!(grid(32), (4, 8));
        assert_eq!(
            [1, 2, 3, 4, 8, 16, 64, 128].map(grid),
            [(1, 1), (1, 2), (1, 3), (2, 2), (2, 4), (4, 4), (8, 8), (8, 16)]
        );
        assert_eq!((grid(12), grid(15), grid(96)), ((2, 6), (3, 5), (8, 12)));
        assert_eq!(candidate_grids(2), [(1, 2)]);
        assert_eq!(candidate_grids(8), [(2, 4), (1, 8)]);
        assert_eq!(candidate_grids(96), [(8, 12), (6, 16), (4, 24)]);
        assert_eq!((lcm(4, 6), lcm(2, 4), lcm(1, 7)), (12, 4, 7));
    }

    proptest! {
        #[test]
        fn process_grid_uses_every_rank(ranks in 1usize..5000) {
            let (p, q) = grid(ranks);
            prop_assert!(p * q == ranks && p <= q);
        }
        #[test]
        fn chosen_order_fits_into_memory(mib in 200u64..1_000_000, threads in 1usize..256) {
            let constraints = SizeConstraints { available: Bytes::mib(mib), threads, ..constraints() };
            if let Ok(order) = choose(OrderSpec::Full, &constraints) {
                prop_assert!(needed_memory(order.order, threads) <= constraints.available);
                prop_assert!(order.order % 192 == 0);
            }
        }
    }
}
