//! Test oracle: comparison of a loop with a replay by the kernel's reference function. Arrays have given lengths and
//! odd offsets. Guard elements before and after each array must not change.

use super::{ARRAYS, Args, Array, Element, Kernel, SCALAR};
use std::ptr::NonNull;

/// Guard elements before and after the share, which must not change.
const GUARD: usize = 16;
/// Values of the guards of each array. The values differ between arrays, so that a copy from one array into another is
/// detected.
const UNTOUCHED: [f64; ARRAYS] = [-7.5, -8.5, -9.5, -10.5];
/// Initial values of each array: first element, difference between successive elements, and period after which the
/// values repeat.
const START: [(f64, f64, usize); ARRAYS] =
    [(1.0, 1.0, 1021), (2.0, 1.0, 7), (0.0, 0.5, 509), (0.0, 0.25, 251)];
/// Offsets of the first array from a cache line, elements. The offsets of the other arrays are computed with
/// [`OFFSET_FACTORS`].
const OFFSETS: [usize; 3] = [0, 1, 3];
/// Factor for each array by which the first array's offset is multiplied, modulo 8.
const OFFSET_FACTORS: [usize; ARRAYS] = [1, 5, 3, 7];
/// Maximum relative error of a sum; no order of summation of these elements causes a larger error.
const SUM_TOLERANCE: f64 = 1e-6;

/// Difference between the results of a loop and of the replay.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{what} is {got}, expected {expected} ({n} elements, offset {offset} from a cache line)")]
pub struct Mismatch {
    /// Name of the element or sum, e.g. `c[17]`; indices below 0 and from `n` on are outside the share.
    pub what: String,
    /// Value that the loop computed.
    pub got: f64,
    /// Value that the replay computed.
    pub expected: f64,
    /// Number of elements of the share.
    pub n: usize,
    /// Offset of the first array from a cache line, elements.
    pub offset: usize,
}

/// Number type of the arrays.
trait Number: Copy {
    const ELEMENT: Element;
    const EPSILON: f64;
    fn of(x: f64) -> Self;
    fn f64(self) -> f64;
}

impl Number for f64 {
    const ELEMENT: Element = Element::F64;
    const EPSILON: f64 = Self::EPSILON;
    fn of(x: f64) -> Self {
        x
    }
    fn f64(self) -> f64 {
        self
    }
}

impl Number for f32 {
    const ELEMENT: Element = Element::F32;
    const EPSILON: f64 = Self::EPSILON as f64;
    fn of(x: f64) -> Self {
        x as Self
    }
    fn f64(self) -> f64 {
        f64::from(self)
    }
}

/// Array with guard elements. The array starts `offset` elements after a cache line.
struct Guarded<T> {
    buffer: Vec<T>,
    start: usize,
}

impl<T: Number> Guarded<T> {
    /// Creates the array with this index.
    fn new(array: usize, n: usize, offset: usize) -> Self {
        let (first, step, period) = START[array];
        let mut buffer = vec![T::of(UNTOUCHED[array]); n + 2 * GUARD + 64];
        let start = buffer.as_ptr().align_offset(64) + GUARD + (offset * OFFSET_FACTORS[array]) % 8;
        for i in 0..n {
            buffer[start + i] = T::of(first + step * (i % period) as f64);
        }
        Self { buffer, start }
    }

    fn pointer(&mut self) -> NonNull<u8> {
        NonNull::from(&mut self.buffer[self.start..]).cast()
    }

    /// Returns the values of the array and its guards as `f64`.
    fn values(&self) -> Vec<f64> {
        self.buffer.iter().map(|x| x.f64()).collect()
    }
}

/// Checks a loop of `kernel` on arrays of `element`, for each of `lengths`.
///
/// # Errors
/// Returns the first wrong element or sum.
pub fn check(
    kernel: Kernel,
    element: Element,
    lengths: impl IntoIterator<Item = usize>,
    run: &mut dyn FnMut(&Args) -> f64,
) -> Result<(), Mismatch> {
    for n in lengths {
        for offset in OFFSETS {
            match element {
                Element::F64 => one::<f64>(kernel, n, offset, 1, run)?,
                Element::F32 => one::<f32>(kernel, n, offset, 1, run)?,
            }
        }
    }
    Ok(())
}

/// Checks a resident loop of `kernel`, for each pair of a number of lines and a number of repeats.
///
/// # Errors
/// Returns the first wrong element or sum.
pub fn check_resident(
    kernel: Kernel,
    lines_and_repeats: impl IntoIterator<Item = (usize, u64)>,
    run: &mut dyn FnMut(&Args) -> f64,
) -> Result<(), Mismatch> {
    for (lines, repeats) in lines_and_repeats {
        one::<f64>(kernel, lines * super::LINE / size_of::<f64>(), 0, repeats, run)?;
    }
    Ok(())
}

fn one<T: Number>(
    kernel: Kernel,
    n: usize,
    offset: usize,
    repeats: u64,
    run: &mut dyn FnMut(&Args) -> f64,
) -> Result<(), Mismatch> {
    let mut arrays: [Guarded<T>; ARRAYS] =
        std::array::from_fn(|array| Guarded::new(array, n, offset));
    let (expected, expected_sum) = replay(kernel, &arrays, n, repeats);
    let at = arrays.each_mut().map(Guarded::pointer);
    let sum = run(&Args { at, n, scalar: SCALAR, repeats });
    // Fused multiply-add omits one rounding, which is an error of two units in the last place; the tolerance is twice
    // that.
    let tolerance = 4.0 * T::EPSILON;
    for ((which, array), wanted) in Array::ALL.into_iter().zip(&arrays).zip(&expected) {
        for (i, (got, element)) in array.values().into_iter().zip(wanted).enumerate() {
            // The comparison is false for NaN, so that NaN counts as an error.
            let near = (got - element).abs() <= tolerance * element.abs().max(1.0);
            if !near {
                let what = format!("{}[{}]", which.name(), i as i64 - array.start as i64);
                return Err(Mismatch { what, got, expected: *element, n, offset });
            }
        }
    }
    let near = (sum - expected_sum).abs() <= SUM_TOLERANCE * expected_sum.abs().max(1.0);
    if kernel.writes() || near {
        return Ok(());
    }
    Err(Mismatch { what: "the sum".to_owned(), got: sum, expected: expected_sum, n, offset })
}

/// Returns the expected arrays with guards after the kernel, and the expected sum.
fn replay<T: Number>(
    kernel: Kernel,
    arrays: &[Guarded<T>; ARRAYS],
    n: usize,
    repeats: u64,
) -> ([Vec<f64>; ARRAYS], f64) {
    let mut values = arrays.each_ref().map(Guarded::values);
    let mut sum = 0.0;
    for _ in 0..repeats {
        for i in 0..n {
            let elements = std::array::from_fn(|k| values[k][arrays[k].start + i]);
            let made = kernel.reference(T::ELEMENT, elements, SCALAR);
            match kernel.spec().writes {
                Some(array) => values[array as usize][arrays[array as usize].start + i] = made,
                None => sum += made,
            }
        }
    }
    (values, sum)
}
