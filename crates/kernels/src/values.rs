//! Expected values of the arrays. The kernels are replayed on one element, and every element of every array is compared
//! with the result.
//!
//! A pass of STREAM's four kernels multiplies `a` by 15, so that `f64` overflows in pass 262; comparing `inf` with
//! `inf` would detect no errors. The arrays are therefore checked and filled again long before an overflow
//! ([`ExpectedValues::must_refill`]). A relative error that is NaN counts as a failure.

use super::{Array, Element, Kernel, LoopArgs, MAX_ARRAYS, SCALAR};
use std::mem::MaybeUninit;

/// Expected value of the elements of each array, in the precision of the arrays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedValues {
    element: Element,
    /// Number of arrays of the pass; other arrays are neither filled nor checked.
    arrays: usize,
    at: [f64; MAX_ARRAYS],
}

/// Wrong element of an array, or wrong sum.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{what} is {got:e}, expected {expected:e} (relative error {error:.1e}, allowed {allowed:.0e})"
)]
pub struct WrongValue {
    /// Name of the element or sum, e.g. `b[17]`.
    pub what: String,
    /// Actual value in the array, or actual sum.
    pub got: f64,
    /// Expected value, from the replay.
    pub expected: f64,
    /// Relative error; NaN if the actual value is NaN.
    pub error: f64,
    /// Maximum allowed relative error.
    pub allowed: f64,
}

impl ExpectedValues {
    /// Returns the initial values for the first `arrays` arrays. STREAM initialises the arrays with 1, 2 and 0 and then
    /// doubles `a`. Here `c` is initialised with 1, because some memory systems store zeros faster than other data.
    ///
    /// # Panics
    /// Panics if there are more than [`MAX_ARRAYS`] arrays.
    pub fn new(element: Element, arrays: usize) -> Self {
        assert!(
            arrays <= MAX_ARRAYS,
            "a pass has at most {MAX_ARRAYS} arrays, but {arrays} were requested"
        );
        Self { element, arrays, at: [2.0, 2.0, 1.0, 1.0] }
    }

    /// Returns the arrays of the pass, in the order `a` to `d`.
    pub fn arrays(&self) -> &'static [Array] {
        &Array::ALL[..self.arrays]
    }

    /// Returns the maximum relative error allowed in an array; the bounds are those of STREAM.
    pub fn tolerance(&self) -> f64 {
        match self.element {
            Element::F64 => 1e-13,
            Element::F32 => 1e-6,
        }
    }

    /// Returns the maximum relative error allowed in a sum. Per lane, blocks of 256 additions are summed in the
    /// precision of the elements, and each addition has an error of at most one unit in the last place.
    fn sum_tolerance(&self) -> f64 {
        match self.element {
            Element::F64 => 256.0 * f64::EPSILON * 16.0,
            Element::F32 => 256.0 * f64::from(f32::EPSILON) * 4.0,
        }
    }

    /// Returns the expected value of every element of an array.
    pub fn value(&self, array: Array) -> f64 {
        self.at[array as usize]
    }

    /// Replays one kernel. Returns the term of one element for a kernel that sums, and 0 for a kernel that writes.
    pub fn apply(&mut self, kernel: Kernel) -> f64 {
        let made = kernel.reference_value(self.element, self.at, SCALAR);
        match kernel.spec().writes {
            Some(array) => {
                self.at[array as usize] = made;
                0.0
            }
            None => made,
        }
    }

    /// True if the arrays must be filled again before the next pass. Otherwise the rounding errors of the grown values
    /// could exceed the tolerance. The bounds for both precisions are far below overflow.
    pub fn must_refill(&self) -> bool {
        let limit = match self.element {
            Element::F64 => 1e90,
            Element::F32 => 1e8,
        };
        self.at.iter().any(|x| x.is_nan() || x.abs() > limit)
    }

    /// Fills the share of one thread with the initial values.
    ///
    /// # Safety
    /// The pointers in `args` to the arrays of the pass must point to `args.n` writable elements each, which no other
    /// thread uses.
    pub unsafe fn fill(&self, args: &LoopArgs) {
        for (at, value) in args.at.into_iter().zip(self.at).take(self.arrays) {
            // SAFETY: the caller guarantees the conditions of this function.
            unsafe {
                match self.element {
                    Element::F64 => write_all(at.cast().as_ptr(), args.n, value),
                    Element::F32 => write_all(at.cast().as_ptr(), args.n, value as f32),
                }
            }
        }
    }

    /// Checks every element of the share of one thread. `first` is the index of the first element.
    ///
    /// # Errors
    /// Returns the element with the largest error if the error exceeds [`ExpectedValues::tolerance`] or is NaN.
    ///
    /// # Safety
    /// The pointers in `args` to the arrays of the pass must point to `args.n` initialised elements each, which no
    /// thread writes.
    pub unsafe fn check(&self, args: &LoopArgs, first: u64) -> Result<(), WrongValue> {
        for ((array, at), expected) in self.arrays().iter().zip(args.at).zip(self.at) {
            let allowed = self.tolerance();
            // SAFETY: the caller guarantees the conditions of this function.
            let worst = unsafe {
                match self.element {
                    Element::F64 => {
                        let values = std::slice::from_raw_parts(at.cast::<f64>().as_ptr(), args.n);
                        worst(values, expected, allowed, |x| x)
                    }
                    Element::F32 => {
                        let values = std::slice::from_raw_parts(at.cast::<f32>().as_ptr(), args.n);
                        worst(values, expected, allowed, f64::from)
                    }
                }
            };
            if let Some((index, got)) = worst {
                let error = relative_error(got, expected);
                let what = format!("{}[{}]", array.name(), first + index as u64);
                return Err(WrongValue { what, got, expected, error, allowed });
            }
        }
        Ok(())
    }

    /// Checks the sum that a kernel computed over `n` elements; `each` is the expected term of one element.
    ///
    /// # Errors
    /// Fails if the sum is wrong or NaN.
    pub fn check_sum(&self, kernel: Kernel, each: f64, n: u64, got: f64) -> Result<(), WrongValue> {
        let expected = each * n as f64;
        let error = relative_error(got, expected);
        let allowed = self.sum_tolerance();
        if error <= allowed {
            return Ok(());
        }
        Err(WrongValue { what: format!("the sum of {kernel}"), got, expected, error, allowed })
    }
}

/// Writes `n` elements, which may be uninitialised.
///
/// # Safety
/// The `n` elements from `at` on must be writable, and no other thread may use them.
unsafe fn write_all<T: Copy>(at: *mut MaybeUninit<T>, n: usize, value: T) {
    // SAFETY: the caller guarantees the conditions of this function.
    unsafe { std::slice::from_raw_parts_mut(at, n) }.fill(MaybeUninit::new(value));
}

fn relative_error(got: f64, expected: f64) -> f64 {
    ((got - expected) / expected).abs()
}

/// Returns the index and the deviation of the last element with the largest deviation from `expected`; the deviation of
/// NaN is infinite. Returns `None` if the relative deviation of all elements is within `allowed`, which is checked
/// first by vectorised code.
fn worst<T: Copy>(
    array: &[T],
    expected: f64,
    allowed: f64,
    value: impl Fn(T) -> f64,
) -> Option<(usize, f64)> {
    /// Number of elements between two checks for an early exit.
    const BLOCK: usize = 4096;
    let bound = allowed * expected.abs();
    // The comparison is false for NaN. There is no early exit within a block, so that the loop is vectorised.
    let are_within = array.chunks(BLOCK).all(|block| {
        block.iter().fold(true, |all, x| all & ((value(*x) - expected).abs() <= bound))
    });
    if are_within {
        return None;
    }
    let mut worst = None;
    let mut largest = f64::NEG_INFINITY;
    for (index, x) in array.iter().enumerate() {
        let error = relative_error(value(*x), expected);
        let distance = if error.is_nan() { f64::INFINITY } else { error };
        if distance >= largest {
            worst = Some((index, value(*x)));
            largest = distance;
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{STREAM, STREAM_ARRAY_COUNT, array_count};
    use std::ptr::NonNull;

    /// Returns arrays of 64-bit words with one element per word.
    fn filled(values: &ExpectedValues) -> (Vec<Vec<u64>>, LoopArgs) {
        const N: usize = 10_000;
        let mut arrays = vec![vec![0_u64; N]; MAX_ARRAYS];
        let at = std::array::from_fn(|array| NonNull::from(&mut arrays[array][..]).cast());
        let args = LoopArgs { at, n: N, scalar: SCALAR, repeats: 1 };
        // SAFETY: each array has N elements, and no other thread uses them.
        unsafe { values.fill(&args) };
        (arrays, args)
    }

    #[test]
    fn stream_pass_multiplies_first_array_by_15() {
        let mut values = ExpectedValues::new(Element::F64, STREAM_ARRAY_COUNT);
        for kernel in STREAM {
            values.apply(kernel);
        }
        assert_eq!(values.at[..3], [30.0, 6.0, 8.0]);
    }

    #[test]
    fn values_do_not_overflow_in_long_runs() {
        for (element, limit) in [(Element::F64, 1e95), (Element::F32, 1e12)] {
            let mut values = ExpectedValues::new(element, MAX_ARRAYS);
            for _ in 0..1000 {
                if values.must_refill() {
                    values = ExpectedValues::new(element, MAX_ARRAYS);
                }
                let others = [Kernel::Update, Kernel::Nstream, Kernel::VectorTriad];
                for kernel in STREAM.into_iter().chain(others) {
                    values.apply(kernel);
                }
                assert!(values.at[0].is_finite() && values.at[0] < limit);
                // The product of two arrays grows with the square of their values.
                assert!(values.at[3].is_finite() && values.at[3] < limit * limit);
            }
        }
    }

    #[test]
    fn vector_triad_writes_only_the_fourth_array() {
        let mut values = ExpectedValues::new(Element::F64, array_count([Kernel::VectorTriad]));
        for kernel in STREAM {
            values.apply(kernel);
        }
        values.apply(Kernel::VectorTriad);
        assert_eq!(values.at, [30.0, 6.0, 8.0, 30.0 + 6.0 * 8.0]);
        let names: Vec<&str> = values.arrays().iter().map(|array| array.name()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
    }

    #[test]
    fn unused_fourth_array_is_not_filled() {
        let four = ExpectedValues::new(Element::F64, MAX_ARRAYS);
        let (_arrays, args) = filled(&four);
        // SAFETY: element 5 of d is one of the 10000, and no other thread uses it.
        unsafe { *args.at[3].cast::<f64>().add(5).as_ptr() = 0.5 };
        // SAFETY: all elements were filled above.
        let wrong = unsafe { four.check(&args, 0) }.unwrap_err();
        assert_eq!(wrong.what, "d[5]");
        let three = ExpectedValues::new(Element::F64, STREAM_ARRAY_COUNT);
        // SAFETY: all elements were filled above.
        assert_eq!(unsafe { three.check(&args, 0) }, Ok(()));
        let without =
            LoopArgs { at: [args.at[0], args.at[1], args.at[2], NonNull::dangling()], ..args };
        // SAFETY: the fourth array is not used.
        unsafe { three.fill(&without) };
    }

    #[test]
    fn single_wrong_element_is_located() {
        let values = ExpectedValues::new(Element::F64, STREAM_ARRAY_COUNT);
        let (_arrays, args) = filled(&values);
        // SAFETY: element 4711 of b is one of the 10000, and no other thread uses it.
        unsafe { *args.at[1].cast::<f64>().add(4711).as_ptr() += 1e-9 };
        // SAFETY: all elements were filled above.
        let wrong = unsafe { values.check(&args, 100) }.unwrap_err();
        assert_eq!(wrong.what, "b[4811]");
    }

    #[test]
    fn nan_and_infinity_fail_check() {
        for poison in [f64::NAN, f64::INFINITY] {
            let values = ExpectedValues::new(Element::F64, STREAM_ARRAY_COUNT);
            let (_arrays, args) = filled(&values);
            for i in 0..args.n {
                // SAFETY: i is below n, and no other thread uses the array.
                unsafe { *args.at[0].cast::<f64>().add(i).as_ptr() = poison };
            }
            // SAFETY: all elements were filled above.
            assert!(unsafe { values.check(&args, 0) }.is_err());
            assert!(values.check_sum(Kernel::Read, 2.0, 10, poison).is_err());
        }
    }

    #[test]
    fn correct_arrays_pass_check() {
        for element in [Element::F64, Element::F32] {
            let values = ExpectedValues::new(element, MAX_ARRAYS);
            let (_arrays, args) = filled(&values);
            // SAFETY: all elements were filled.
            assert_eq!(unsafe { values.check(&args, 0) }, Ok(()));
        }
    }
}
