//! Test oracle: compares the results of a loop with those of the kernel's reference function. Arrays have given lengths
//! and odd offsets, and guard elements before and after each array must not change.

use super::{Array, Element, Kernel, LoopArgs, MAX_ARRAYS, SCALAR};
use std::collections::HashMap;
use std::ptr::NonNull;

/// Number of guard elements before and after each array.
const GUARD: usize = 16;
/// Values of the guards of each array. The values differ between arrays, so that a copy from one array into another is
/// detected.
const UNTOUCHED: [f64; MAX_ARRAYS] = [-7.5, -8.5, -9.5, -10.5];
/// Initial values of each array: first element, difference between successive elements, and number of elements after
/// which the values repeat.
const START: [(f64, f64, usize); MAX_ARRAYS] =
    [(1.0, 1.0, 1021), (2.0, 1.0, 7), (0.0, 0.5, 509), (0.0, 0.25, 251)];
/// Offsets of the first array from a cache line, in elements. [`OFFSET_FACTORS`] determines the offsets of the other
/// arrays.
const OFFSETS: [usize; 3] = [0, 1, 3];
/// Factors by which the offset of the first array is multiplied, modulo 8, to get the offset of each array.
const OFFSET_FACTORS: [usize; MAX_ARRAYS] = [1, 5, 3, 7];
/// Maximum relative error of a sum. No order of summation of these elements causes a larger error.
const SUM_TOLERANCE: f64 = 1e-6;

/// Difference between the result of a loop and that of the reference function.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{what} is {got}, expected {expected} ({n} elements, starting {offset} elements after a cache line boundary)"
)]
pub struct Mismatch {
    /// Name of the wrong element or sum, e.g. `c[17]`; indices below 0 and from `n` on are outside the share.
    pub what: String,
    /// Value that the loop computed.
    pub got: f64,
    /// Value that the reference function computed.
    pub expected: f64,
    /// Number of elements of the share.
    pub n: usize,
    /// Offset of the first array from a cache line, elements.
    pub offset: usize,
}

/// Number type of the arrays.
trait Number: Copy + PartialEq + 'static {
    const ELEMENT: Element;
    const EPSILON: f64;
    fn from_f64(x: f64) -> Self;
    fn f64(self) -> f64;
}

impl Number for f64 {
    const ELEMENT: Element = Element::F64;
    const EPSILON: f64 = Self::EPSILON;
    fn from_f64(x: f64) -> Self {
        x
    }
    fn f64(self) -> f64 {
        self
    }
}

impl Number for f32 {
    const ELEMENT: Element = Element::F32;
    const EPSILON: f64 = Self::EPSILON as f64;
    fn from_f64(x: f64) -> Self {
        x as Self
    }
    fn f64(self) -> f64 {
        f64::from(self)
    }
}

/// Array with guard elements. The array starts `offset` elements after a cache line.
struct GuardedArray<T> {
    buffer: Vec<T>,
    start: usize,
}

impl<T: Number> GuardedArray<T> {
    /// Creates the array with index `array` of the arrays of a kernel, with `n` elements and its initial values.
    fn new(array: usize, n: usize, offset: usize) -> Self {
        let (first, step, period) = START[array];
        let mut buffer = vec![T::from_f64(UNTOUCHED[array]); n + 2 * GUARD + 64];
        let start = buffer.as_ptr().align_offset(64) + GUARD + (offset * OFFSET_FACTORS[array]) % 8;
        for i in 0..n {
            buffer[start + i] = T::from_f64(first + step * (i % period) as f64);
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

/// Oracle for the loops of one kernel on one type of element. The results of the reference function are
/// computed only once for all loops.
pub struct Oracle {
    kernel: Kernel,
    element: Element,
    replays: HashMap<Extent, Box<dyn Compare>>,
}

impl Oracle {
    /// Creates an oracle. The reference function runs when a loop is checked.
    pub fn new(kernel: Kernel, element: Element) -> Self {
        Self { kernel, element, replays: HashMap::new() }
    }

    /// Checks a loop on arrays of each of `lengths`.
    ///
    /// # Errors
    /// Returns the first wrong element or sum.
    pub fn check(
        &mut self,
        lengths: impl IntoIterator<Item = usize>,
        run: &mut dyn FnMut(&LoopArgs) -> f64,
    ) -> Result<(), Mismatch> {
        for n in lengths {
            for offset in OFFSETS {
                self.compare(Extent { n, offset, repeats: 1 }, run)?;
            }
        }
        Ok(())
    }

    /// Checks a resident loop, for each pair of a number of lines and a number of repeats.
    ///
    /// # Errors
    /// Returns the first wrong element or sum.
    pub fn check_resident(
        &mut self,
        lines_and_repeats: impl IntoIterator<Item = (usize, u64)>,
        run: &mut dyn FnMut(&LoopArgs) -> f64,
    ) -> Result<(), Mismatch> {
        for (lines, repeats) in lines_and_repeats {
            let n = lines * super::CACHE_LINE_BYTES / self.element.bytes() as usize;
            self.compare(Extent { n, offset: 0, repeats }, run)?;
        }
        Ok(())
    }

    fn compare(
        &mut self,
        extent: Extent,
        run: &mut dyn FnMut(&LoopArgs) -> f64,
    ) -> Result<(), Mismatch> {
        let kernel = self.kernel;
        let element = self.element;
        let replay = self.replays.entry(extent).or_insert_with(|| match element {
            Element::F64 => Box::new(Replay::<f64>::new(kernel, extent)),
            Element::F32 => Box::new(Replay::<f32>::new(kernel, extent)),
        });
        replay.compare(run)
    }
}

/// Length of the arrays and number of passes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Extent {
    /// Number of elements.
    n: usize,
    /// Offset of the first array from a cache line, elements.
    offset: usize,
    /// Number of passes.
    repeats: u64,
}

/// Comparison of a loop with the reference function, for any type of element.
trait Compare {
    /// Runs the loop and compares the arrays and the sum.
    fn compare(&mut self, run: &mut dyn FnMut(&LoopArgs) -> f64) -> Result<(), Mismatch>;
}

/// Results of the reference function of a kernel.
struct Replay<T> {
    kernel: Kernel,
    extent: Extent,
    /// Arrays that a loop reads and writes.
    arrays: [GuardedArray<T>; MAX_ARRAYS],
    /// Values of the arrays before the kernel.
    initial: [Vec<T>; MAX_ARRAYS],
    /// Expected values of the array that the kernel writes.
    expected: Vec<f64>,
    /// Expected sum.
    sum: f64,
}

impl<T: Number> Replay<T> {
    fn new(kernel: Kernel, extent: Extent) -> Self {
        let arrays: [GuardedArray<T>; MAX_ARRAYS] =
            std::array::from_fn(|array| GuardedArray::new(array, extent.n, extent.offset));
        let initial = arrays.each_ref().map(|array| array.buffer.clone());
        let mut values = arrays.each_ref().map(GuardedArray::values);
        let written = kernel.spec().writes;
        let mut sum = 0.0;
        for _ in 0..extent.repeats {
            for i in 0..extent.n {
                let elements = std::array::from_fn(|k| values[k][arrays[k].start + i]);
                let made = kernel.reference_value(T::ELEMENT, elements, SCALAR);
                match written {
                    Some(array) => {
                        values[array as usize][arrays[array as usize].start + i] = made;
                    }
                    None => sum += made,
                }
            }
        }
        let expected = written.map(|array| std::mem::take(&mut values[array as usize]));
        Self { kernel, extent, arrays, initial, expected: expected.unwrap_or_default(), sum }
    }

    /// Returns the first element of an array that is wrong. The array that the kernel writes may differ from the
    /// expected values by rounding; all others must be equal.
    fn wrong_element(&self, which: Array) -> Option<Mismatch> {
        let array = &self.arrays[which as usize];
        let initial = &self.initial[which as usize];
        let is_written = self.kernel.spec().writes == Some(which);
        if !is_written && array.buffer == *initial {
            return None;
        }
        // Fused multiply-add omits one rounding, which is an error of two units in the last place; the tolerance is
        // twice that.
        let tolerance = 4.0 * T::EPSILON;
        for (i, got) in array.buffer.iter().map(|x| x.f64()).enumerate() {
            let expected = if is_written { self.expected[i] } else { initial[i].f64() };
            // Comparisons are false for NaN, so that NaN counts as an error.
            let right = if is_written {
                (got - expected).abs() <= tolerance * expected.abs().max(1.0)
            } else {
                got == expected
            };
            if !right {
                let what = format!("{}[{}]", which.name(), i as i64 - array.start as i64);
                return Some(self.mismatch(what, got, expected));
            }
        }
        None
    }

    fn mismatch(&self, what: String, got: f64, expected: f64) -> Mismatch {
        Mismatch { what, got, expected, n: self.extent.n, offset: self.extent.offset }
    }
}

impl<T: Number> Compare for Replay<T> {
    fn compare(&mut self, run: &mut dyn FnMut(&LoopArgs) -> f64) -> Result<(), Mismatch> {
        for (array, initial) in self.arrays.iter_mut().zip(&self.initial) {
            array.buffer.copy_from_slice(initial);
        }
        let at = self.arrays.each_mut().map(GuardedArray::pointer);
        let extent = self.extent;
        let sum = run(&LoopArgs { at, n: extent.n, scalar: SCALAR, repeats: extent.repeats });
        if let Some(wrong) = Array::ALL.into_iter().find_map(|which| self.wrong_element(which)) {
            return Err(wrong);
        }
        let near = (sum - self.sum).abs() <= SUM_TOLERANCE * self.sum.abs().max(1.0);
        if self.kernel.writes() || near {
            return Ok(());
        }
        Err(self.mismatch("the sum".to_owned(), sum, self.sum))
    }
}
