//! Any loop against a scalar replay: given lengths, odd offsets, and guards before and behind each
//! array that must stay as they were.

use super::{Args, Element, Kernel};

/// Elements before and behind the share that must stay as they were.
const GUARD: usize = 16;
/// What the guards of `a`, `b` and `c` hold: not the same, or one copied into another goes unseen.
const UNTOUCHED: [f64; 3] = [-7.5, -8.5, -9.5];
/// Offsets of the first array from a cache line, elements; those of the others follow from it.
const OFFSETS: [usize; 3] = [0, 1, 3];
/// STREAM's scalar.
const SCALAR: f64 = 3.0;
/// Largest error of a sum, relative: more than any order of summation makes of these elements.
const SUM_TOLERANCE: f64 = 1e-6;

/// Where a loop and the replay differ.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{what} is {got} where {expected} was expected ({n} elements, {offset} behind a cache line)"
)]
pub struct Mismatch {
    /// Which element or sum, e.g. `c[17]`; below 0 and from `n` on it was none of the loop's business.
    pub what: String,
    /// What the loop made.
    pub got: f64,
    /// What the replay says.
    pub expected: f64,
    /// Elements of the share.
    pub n: usize,
    /// Offset of the arrays.
    pub offset: usize,
}

/// An element in the precision of the arrays.
trait Number: Copy {
    const EPSILON: f64;
    fn of(x: f64) -> Self;
    fn f64(self) -> f64;
}

impl Number for f64 {
    const EPSILON: f64 = Self::EPSILON;
    fn of(x: f64) -> Self {
        x
    }
    fn f64(self) -> f64 {
        self
    }
}

impl Number for f32 {
    const EPSILON: f64 = Self::EPSILON as f64;
    fn of(x: f64) -> Self {
        x as Self
    }
    fn f64(self) -> f64 {
        f64::from(self)
    }
}

/// An array of elements with guards, starting `offset` elements behind a cache line.
struct Guarded<T> {
    buffer: Vec<T>,
    start: usize,
}

impl<T: Number> Guarded<T> {
    fn new(n: usize, offset: usize, guard: f64, value: impl Fn(usize) -> f64) -> Self {
        let mut buffer = vec![T::of(guard); n + 2 * GUARD + 64];
        let start = buffer.as_ptr().align_offset(64) + GUARD + offset;
        for i in 0..n {
            buffer[start + i] = T::of(value(i));
        }
        Self { buffer, start }
    }

    fn pointer(&mut self) -> *mut u8 {
        self.buffer[self.start..].as_mut_ptr().cast()
    }

    /// Share and guards in the precision of the replay.
    fn values(&self) -> Vec<f64> {
        self.buffer.iter().map(|x| x.f64()).collect()
    }
}

/// Checks a loop of `kernel` on arrays of `element`, for each of `lengths`.
///
/// # Errors
/// The first element or sum that is wrong.
pub fn check(
    kernel: Kernel,
    element: Element,
    lengths: impl IntoIterator<Item = usize>,
    run: &mut dyn FnMut(&Args) -> f64,
) -> Result<(), Mismatch> {
    for n in lengths {
        for offset in OFFSETS {
            match element {
                Element::F64 => one::<f64>(kernel, n, offset, run)?,
                Element::F32 => one::<f32>(kernel, n, offset, run)?,
            }
        }
    }
    Ok(())
}

fn one<T: Number>(
    kernel: Kernel,
    n: usize,
    offset: usize,
    run: &mut dyn FnMut(&Args) -> f64,
) -> Result<(), Mismatch> {
    let mut a = Guarded::<T>::new(n, offset, UNTOUCHED[0], |i| 1.0 + (i % 1021) as f64);
    let mut b = Guarded::<T>::new(n, (offset * 5) % 8, UNTOUCHED[1], |i| 2.0 + (i % 7) as f64);
    let mut c = Guarded::<T>::new(n, (offset * 3) % 8, UNTOUCHED[2], |i| 0.5 * (i % 509) as f64);
    let expected = [a.values(), b.values(), c.values()];
    let (expected, sum) = replay::<T>(kernel, n, expected, [a.start, b.start, c.start]);
    let (near, far) = (512, 4096);
    let args =
        Args { a: a.pointer(), b: b.pointer(), c: c.pointer(), n, scalar: SCALAR, near, far };
    let got_sum = run(&args);
    // One rounding may differ by fused multiply-add: two units in the last place, and as many more.
    let tolerance = 4.0 * T::EPSILON;
    for (name, got, expected) in
        [("a", &a, &expected[0]), ("b", &b, &expected[1]), ("c", &c, &expected[2])]
    {
        for (i, (got_value, expected)) in got.values().into_iter().zip(expected).enumerate() {
            // What is no number is not near.
            let near = (got_value - expected).abs() <= tolerance * expected.abs().max(1.0);
            if !near {
                let what = format!("{name}[{}]", i as i64 - got.start as i64);
                return Err(Mismatch { what, got: got_value, expected: *expected, n, offset });
            }
        }
    }
    let near = (got_sum - sum).abs() <= SUM_TOLERANCE * sum.abs().max(1.0);
    if kernel.writes() || near {
        return Ok(());
    }
    Err(Mismatch { what: "the sum".to_owned(), got: got_sum, expected: sum, n, offset })
}

/// The arrays, guards included, after the kernel, and its sum.
fn replay<T: Number>(
    kernel: Kernel,
    n: usize,
    [mut a, mut b, mut c]: [Vec<f64>; 3],
    [at, bt, ct]: [usize; 3],
) -> ([Vec<f64>; 3], f64) {
    let round = |x: f64| T::of(x).f64();
    let mut sum = 0.0;
    for i in 0..n {
        let (a, b, c) = (&mut a[at + i], &mut b[bt + i], &mut c[ct + i]);
        match kernel {
            Kernel::Copy => *c = *a,
            Kernel::Scale => *b = round(SCALAR * *c),
            Kernel::Add => *c = round(*a + *b),
            Kernel::Triad => *a = round(*b + round(SCALAR * *c)),
            Kernel::Write => *c = SCALAR,
            Kernel::Update => *a = round(*a * SCALAR),
            Kernel::Nstream => *a = round(*a + round(*b + round(SCALAR * *c))),
            Kernel::Read => sum += *a,
            Kernel::Dot => sum += round(*a * *b),
        }
    }
    ([a, b, c], sum)
}
