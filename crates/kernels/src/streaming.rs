//! Non-temporal stores outside the loops of kernels, for numbers that are written once and read much later. They
//! bypass the caches, and the memory is not read before it is overwritten.

use crate::entry::CACHE_LINE_BYTES;
use crate::isa::InstructionSet;

/// Number of `f64` in a cache line.
pub const NUMBERS_PER_LINE: usize = CACHE_LINE_BYTES / size_of::<f64>();

/// Writes a cache line. The store bypasses the caches if the processor has non-temporal stores. Other threads see the
/// line after [`fence_nontemporal_stores`].
///
/// # Safety
/// The processor must have the instruction set, and `to` must be the start of a writable cache line.
#[inline(always)]
pub unsafe fn store_line_nontemporal<S: InstructionSet>(
    to: *mut f64,
    line: &[f64; NUMBERS_PER_LINE],
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller guarantees the instruction set and the line; every x86-64 processor has the narrowest vectors.
    unsafe {
        use crate::isa::Isa;
        use std::arch::x86_64::{__m128d, __m256d, __m512d};
        match S::ISA {
            Isa::Avx512 => stream_vectors::<__m512d>(to, line),
            Isa::Avx2 => stream_vectors::<__m256d>(to, line),
            _ => stream_vectors::<__m128d>(to, line),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller guarantees that the line is writable and aligned.
    unsafe {
        to.cast::<[f64; NUMBERS_PER_LINE]>().write(*line)
    }
}

/// Writes a cache line with the non-temporal stores of a vector.
///
/// # Safety
/// The requirements of [`store_line_nontemporal`] apply.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn stream_vectors<V: crate::vector::Vector<Scalar = f64>>(
    to: *mut f64,
    line: &[f64; NUMBERS_PER_LINE],
) {
    let mut at = 0;
    while at < NUMBERS_PER_LINE {
        // SAFETY: the vector is within the line, and its size divides that of the line.
        unsafe { V::load(line.as_ptr().add(at)).store_nontemporal(to.add(at)) };
        at += V::LANES;
    }
}

/// Writes a number with a non-temporal store if the processor has one.
///
/// # Safety
/// The number must be writable at `to`.
#[inline(always)]
unsafe fn store_number_nontemporal(to: *mut f64, number: f64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller guarantees that the number can be written; SSE2 is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_stream_si64(to.cast(), number.to_bits() as i64)
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller guarantees that the number can be written.
    unsafe {
        to.write(number)
    }
}

crate::dispatched! {
    /// Copies numbers with non-temporal stores. Other threads see the numbers after [`fence_nontemporal_stores`].
    ///
    /// # Safety
    /// The processor must have the instruction set, `count` numbers must be readable at `from` and writable at `to`,
    /// and the two ranges must not overlap.
    pub unsafe fn copy_nontemporal(to: *mut f64, from: *const f64, count: usize) = copy_nontemporal_body;
}

/// Body of [`copy_nontemporal`].
///
/// # Safety
/// The requirements of [`copy_nontemporal`] apply.
#[inline(always)]
unsafe fn copy_nontemporal_body<S: InstructionSet>(to: *mut f64, from: *const f64, count: usize) {
    let before_line = to.align_offset(CACHE_LINE_BYTES).min(count);
    let lines = (count - before_line) / NUMBERS_PER_LINE;
    // SAFETY: all numbers are within the ranges that the caller guarantees.
    unsafe {
        for at in 0..before_line {
            store_number_nontemporal(to.add(at), *from.add(at));
        }
        for line in 0..lines {
            let at = before_line + NUMBERS_PER_LINE * line;
            store_line_nontemporal::<S>(
                to.add(at),
                &*from.add(at).cast::<[f64; NUMBERS_PER_LINE]>(),
            );
        }
        for at in before_line + NUMBERS_PER_LINE * lines..count {
            store_number_nontemporal(to.add(at), *from.add(at));
        }
    }
}

/// Makes all non-temporal stores of this thread visible to the threads that synchronise with it afterwards.
#[inline]
pub fn fence_nontemporal_stores() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    /// Array of numbers that begins at a cache line.
    #[repr(align(64))]
    struct Aligned([f64; 64]);

    #[test]
    fn streaming_copies_write_only_their_elements() {
        let source: Vec<f64> = (0..64).map(f64::from).collect();
        for isa in Isa::dispatched() {
            for first in 0..10 {
                for count in 0..40 {
                    let mut copied = Aligned([-1.0; 64]);
                    let to = copied.0[first..].as_mut_ptr();
                    // SAFETY: the processor has the instruction set, and both arrays have the numbers.
                    unsafe { copy_nontemporal(isa, to, source[1..].as_ptr(), count) };
                    fence_nontemporal_stores();
                    for (at, number) in copied.0.iter().enumerate() {
                        let is_written = (first..first + count).contains(&at);
                        let expected = if is_written { source[1 + at - first] } else { -1.0 };
                        assert_eq!(*number, expected, "{isa} {first} {count} {at}");
                    }
                }
            }
        }
    }
}
