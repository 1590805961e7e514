//! Vectors of four `f64`, for loops that the compiler does not vectorise itself. A vector is one register if the
//! instruction set has 256-bit registers.

/// Vector of four `f64`. The methods require a processor with the instruction set.
///
/// # Safety
/// Loads and stores must access exactly the numbers in their description, at any address.
pub unsafe trait F64x4: Copy {
    /// Returns a vector with the same number in all lanes.
    ///
    /// # Safety
    /// The processor must have the instruction set.
    unsafe fn splat(number: f64) -> Self;
    /// Loads four numbers.
    ///
    /// # Safety
    /// The processor must have the instruction set, and the numbers must be readable.
    unsafe fn load(from: *const f64) -> Self;
    /// Loads three numbers into the first lanes; the last lane is undefined.
    ///
    /// # Safety
    /// The processor must have the instruction set. The numbers and the number before them must be readable.
    unsafe fn load_three(from: *const f64) -> Self;
    /// Stores four numbers.
    ///
    /// # Safety
    /// The processor must have the instruction set, and the numbers must be writable.
    unsafe fn store(self, to: *mut f64);
    /// Stores the first three numbers.
    ///
    /// # Safety
    /// The processor must have the instruction set, and the numbers must be writable.
    unsafe fn store_three(self, to: *mut f64);
    /// Returns `self + a x`, fused if the instruction set has fused multiply-add.
    ///
    /// # Safety
    /// The processor must have the instruction set.
    unsafe fn add_product(self, a: Self, x: Self) -> Self;
    /// Returns `self - a x`, fused if the instruction set has fused multiply-add.
    ///
    /// # Safety
    /// The processor must have the instruction set.
    unsafe fn subtract_product(self, a: Self, x: Self) -> Self;
}

/// Vector of four numbers in plain code, with fused multiply-add if `FMA` is true.
#[derive(Debug, Clone, Copy)]
pub struct PlainF64x4<const FMA: bool>([f64; 4]);

// SAFETY: the accesses are those of the descriptions.
unsafe impl<const FMA: bool> F64x4 for PlainF64x4<FMA> {
    #[inline(always)]
    unsafe fn splat(number: f64) -> Self {
        Self([number; 4])
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the caller guarantees that the numbers are readable.
        Self(unsafe { from.cast::<[f64; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_three(from: *const f64) -> Self {
        // SAFETY: the caller guarantees that the numbers are readable.
        let [x, y, z] = unsafe { from.cast::<[f64; 3]>().read_unaligned() };
        Self([x, y, z, 0.0])
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller guarantees that the numbers are writable.
        unsafe { to.cast::<[f64; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_three(self, to: *mut f64) {
        let [x, y, z, _] = self.0;
        // SAFETY: the caller guarantees that the numbers are writable.
        unsafe { to.cast::<[f64; 3]>().write_unaligned([x, y, z]) }
    }
    #[inline(always)]
    unsafe fn add_product(mut self, a: Self, x: Self) -> Self {
        for (lane, sum) in self.0.iter_mut().enumerate() {
            *sum =
                if FMA { a.0[lane].mul_add(x.0[lane], *sum) } else { a.0[lane] * x.0[lane] + *sum };
        }
        self
    }
    #[inline(always)]
    unsafe fn subtract_product(mut self, a: Self, x: Self) -> Self {
        for (lane, sum) in self.0.iter_mut().enumerate() {
            *sum = if FMA {
                a.0[lane].mul_add(-x.0[lane], *sum)
            } else {
                *sum - a.0[lane] * x.0[lane]
            };
        }
        self
    }
}

/// Vector of four numbers in a 256-bit register, with fused multiply-add.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::F64x4;
    use std::arch::x86_64::*;

    // SAFETY: the accesses are those of the descriptions.
    unsafe impl F64x4 for __m256d {
        #[inline(always)]
        unsafe fn splat(number: f64) -> Self {
            // SAFETY: the caller guarantees the instruction set.
            unsafe { _mm256_set1_pd(number) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f64) -> Self {
            // SAFETY: the caller guarantees the instruction set and the numbers.
            unsafe { _mm256_loadu_pd(from) }
        }
        #[inline(always)]
        unsafe fn load_three(from: *const f64) -> Self {
            // SAFETY: the caller guarantees the instruction set, the numbers and the number before them.
            unsafe { _mm256_permute4x64_pd::<0b11_11_10_01>(_mm256_loadu_pd(from.sub(1))) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f64) {
            // SAFETY: the caller guarantees the instruction set and the numbers.
            unsafe { _mm256_storeu_pd(to, self) }
        }
        #[inline(always)]
        unsafe fn store_three(self, to: *mut f64) {
            // SAFETY: the caller guarantees the instruction set and the numbers.
            unsafe {
                _mm_storeu_pd(to, _mm256_castpd256_pd128(self));
                _mm_store_sd(to.add(2), _mm256_extractf128_pd::<1>(self));
            }
        }
        #[inline(always)]
        unsafe fn add_product(self, a: Self, x: Self) -> Self {
            // SAFETY: the caller guarantees the instruction set.
            unsafe { _mm256_fmadd_pd(a, x, self) }
        }
        #[inline(always)]
        unsafe fn subtract_product(self, a: Self, x: Self) -> Self {
            // SAFETY: the caller guarantees the instruction set.
            unsafe { _mm256_fnmadd_pd(a, x, self) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{InstructionSet, Isa, multiply_add};

    /// Loads, multiplies and stores some of the numbers in vectors, and returns the results.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    unsafe fn probe_body<S: InstructionSet>(numbers: &mut [f64; 8]) -> [f64; 8] {
        let from = numbers.as_ptr();
        let mut results = [-1.0; 8];
        // SAFETY: the caller guarantees the instruction set, and all numbers are within the arrays.
        unsafe {
            let a = S::F64x4::load(from);
            let x = S::F64x4::load_three(from.add(5));
            let sum = S::F64x4::splat(0.1).add_product(a, x);
            sum.store_three(results.as_mut_ptr());
            S::F64x4::splat(0.1).subtract_product(a, a).store(results.as_mut_ptr().add(3));
        }
        results
    }

    /// Computes the result of [`probe_body`] number by number.
    ///
    /// # Safety
    /// The processor must support the instruction set.
    #[inline(always)]
    unsafe fn expected_body<S: InstructionSet>(numbers: &mut [f64; 8]) -> [f64; 8] {
        std::array::from_fn(|at| match at {
            0..3 => multiply_add::<S>(numbers[at], numbers[5 + at], 0.1),
            3..7 => multiply_add::<S>(numbers[at - 3], -numbers[at - 3], 0.1),
            _ => -1.0,
        })
    }

    crate::dispatched! {
        /// # Safety
        /// The processor must support the instruction set.
        unsafe fn probe(numbers: &mut [f64; 8]) -> [f64; 8] = probe_body;
        /// # Safety
        /// The processor must support the instruction set.
        unsafe fn expected(numbers: &mut [f64; 8]) -> [f64; 8] = expected_body;
    }

    #[test]
    fn four_element_vectors_give_the_results_of_scalar_code() {
        for isa in Isa::dispatched() {
            let mut numbers = std::array::from_fn(|at| (at as f64 + 1.0) / 3.0);
            // SAFETY: the processor has the instruction set.
            let [mine, wanted] = unsafe { [probe(isa, &mut numbers), expected(isa, &mut numbers)] };
            assert_eq!(mine.map(f64::to_bits), wanted.map(f64::to_bits), "{isa}");
        }
    }
}
