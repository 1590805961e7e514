//! Loops over vectors: scalar products and updates.

use crate::code::{compiled, prefetch_ahead};
use nodegauge_kernels::isa::{InstructionSet, multiply_add};

/// Number of elements that are processed together. It gives enough partial sums that additions need not wait for each
/// other.
const LANES: usize = 32;
/// Number of elements per cache line.
const LINE: usize = 8;

/// Prefetches the cache lines of [`LANES`] numbers.
#[inline(always)]
fn prefetch_lanes<const ASK: bool>(at: *const f64) {
    for line in 0..LANES / LINE {
        prefetch_ahead::<ASK, false>(at.wrapping_add(LINE * line));
    }
}

compiled! {
    /// Returns the scalar product of `n` numbers.
    ///
    /// # Safety
    /// The processor must support the instruction set. `x` and `y` must have `n` numbers, and no thread may write them.
    dot = dot_body(n: usize, x: *const f64, y: *const f64) -> f64
}

/// Body of [`dot`].
///
/// # Safety
/// The requirements of [`dot`] apply.
#[inline(always)]
unsafe fn dot_body<S: InstructionSet, const ASK: bool>(
    n: usize,
    x: *const f64,
    y: *const f64,
) -> f64 {
    let mut sums = [0.0; LANES];
    let whole = n / LANES * LANES;
    for first in (0..whole).step_by(LANES) {
        // SAFETY: the caller meets the requirements of this function.
        unsafe {
            let x = x.add(first);
            let y = y.add(first);
            prefetch_lanes::<ASK>(x);
            prefetch_lanes::<ASK>(y);
            for lane in 0..LANES {
                sums[lane] = multiply_add::<S>(*x.add(lane), *y.add(lane), sums[lane]);
            }
        }
    }
    // SAFETY: as above.
    let rest: f64 = (whole..n).map(|at| unsafe { *x.add(at) * *y.add(at) }).sum();
    sums.iter().sum::<f64>() + rest
}

compiled! {
    /// Computes `p = z + beta p` for `n` numbers.
    ///
    /// # Safety
    /// The processor must support the instruction set. `z` and `p` must have `n` numbers and must not overlap, and no
    /// other thread may use them.
    direction = direction_body(n: usize, beta: f64, z: *const f64, p: *mut f64)
}

/// Body of [`direction`].
///
/// # Safety
/// The requirements of [`direction`] apply.
#[inline(always)]
unsafe fn direction_body<S: InstructionSet, const ASK: bool>(
    n: usize,
    beta: f64,
    z: *const f64,
    p: *mut f64,
) {
    // SAFETY: the caller meets the requirements of this function.
    unsafe {
        let whole = n / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            let z = z.add(first);
            let p = p.add(first);
            prefetch_lanes::<ASK>(z);
            prefetch_lanes::<ASK>(p);
            let next: [f64; LANES] =
                std::array::from_fn(|lane| multiply_add::<S>(beta, *p.add(lane), *z.add(lane)));
            p.cast::<[f64; LANES]>().write(next);
        }
        for at in whole..n {
            *p.add(at) = multiply_add::<S>(beta, *p.add(at), *z.add(at));
        }
    }
}

compiled! {
    /// Computes `x += alpha p` and `r -= alpha q` for `n` numbers; returns the sum of squares of `r`.
    ///
    /// # Safety
    /// The processor must support the instruction set. All four vectors must have `n` numbers and must not overlap. No
    /// other thread may use `x` and `r`, or write `p` and `q`.
    update = update_body(n: usize, alpha: f64, pq: (*const f64, *const f64), xr: (*mut f64, *mut f64)) -> f64
}

/// Body of [`update`].
///
/// # Safety
/// The requirements of [`update`] apply.
#[inline(always)]
unsafe fn update_body<S: InstructionSet, const ASK: bool>(
    n: usize,
    alpha: f64,
    (p, q): (*const f64, *const f64),
    (x, r): (*mut f64, *mut f64),
) -> f64 {
    let mut sums = [0.0; LANES];
    let whole = n / LANES * LANES;
    // SAFETY: the caller meets the requirements of this function.
    unsafe {
        for first in (0..whole).step_by(LANES) {
            let p = p.add(first);
            let q = q.add(first);
            let x = x.add(first);
            let r = r.add(first);
            for vector in [p, q, x.cast_const(), r.cast_const()] {
                prefetch_lanes::<ASK>(vector);
            }
            let found: [f64; LANES] =
                std::array::from_fn(|lane| multiply_add::<S>(alpha, *p.add(lane), *x.add(lane)));
            let rest: [f64; LANES] =
                std::array::from_fn(|lane| multiply_add::<S>(-alpha, *q.add(lane), *r.add(lane)));
            x.cast::<[f64; LANES]>().write(found);
            r.cast::<[f64; LANES]>().write(rest);
            for lane in 0..LANES {
                sums[lane] = multiply_add::<S>(rest[lane], rest[lane], sums[lane]);
            }
        }
        let mut sum = sums.iter().sum::<f64>();
        for at in whole..n {
            *x.add(at) = multiply_add::<S>(alpha, *p.add(at), *x.add(at));
            *r.add(at) = multiply_add::<S>(-alpha, *q.add(at), *r.add(at));
            sum += *r.add(at) * *r.add(at);
        }
        sum
    }
}
