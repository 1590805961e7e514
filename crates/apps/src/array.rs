//! Numbers that threads share by parts which do not overlap.

use nodegauge_measure::{Bytes, Failure};
use nodegauge_os::{Mapping, PageSize};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

/// A number whose bytes may be zero.
///
/// # Safety
/// Zeros are a value of the type.
pub(crate) unsafe trait Number: Copy + Send + Sync + 'static {}
// SAFETY: 0.0.
unsafe impl Number for f64 {}
// SAFETY: 0.
unsafe impl Number for u32 {}
// SAFETY: 0.
unsafe impl Number for usize {}

/// Bytes behind the last number that may be read, so that loops need not end with a shorter vector.
const READABLE_BEHIND: usize = 64;

/// Numbers in a mapping of their own, zeros at first, on huge pages where the kernel has them. Nothing is
/// touched before it is written: a page lies on the NUMA node of the thread that writes it first.
///
/// Whoever uses it as a slice holds it alone, or nobody writes it meanwhile: threads that share one take
/// addresses by [`Array::at`] and parts by [`Array::part`], which say so.
#[derive(Debug)]
pub(crate) struct Array<T> {
    mapping: Mapping,
    length: usize,
    numbers: PhantomData<T>,
}

impl<T: Number> Array<T> {
    /// Maps memory for so many numbers.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn map(length: usize) -> Result<Self, Failure> {
        let bytes = length * size_of::<T>() + READABLE_BEHIND;
        let mapping = Mapping::anonymous(bytes, PageSize::PreferHuge).map_err(|error| {
            let cause = std::io::Error::from(error);
            let wanted = Bytes(bytes as u64);
            Failure::missing(format!("cannot map {wanted} of memory"))
                .cause(cause)
                .hint("use a smaller mesh")
        })?;
        Ok(Self { mapping, length, numbers: PhantomData })
    }

    /// The address of number `index`, or of the end.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline]
    pub fn at(&self, index: usize) -> *mut T {
        assert!(index <= self.length, "number {index} of {}", self.length);
        self.mapping.at(index * size_of::<T>(), 0).as_ptr().cast()
    }

    /// Some of the numbers, to be written by one of the threads that share them.
    ///
    /// # Safety
    /// While the result lives nobody else reads or writes these numbers.
    ///
    /// # Panics
    /// Beyond the end.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.length, "{range:?}");
        // SAFETY: the range lies within the mapping, whose bytes are numbers; the rest is the caller's
        // promise.
        unsafe { std::slice::from_raw_parts_mut(self.at(range.start), range.len()) }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.length * size_of::<T>()
    }
}

impl<T: Number> Deref for Array<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds so many numbers; nobody writes them, as the type asks for.
        unsafe { std::slice::from_raw_parts(self.at(0), self.length) }
    }
}

impl<T: Number> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.at(0), self.length) }
    }
}

/// The part `index` of `0..length` shared out among `count`: contiguous, sizes that differ by one at most.
pub(crate) fn share(length: usize, index: usize, count: usize) -> Range<usize> {
    length * index / count..length * (index + 1) / count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_written_apart_and_read_as_a_whole() {
        let array = Array::<f64>::map(1000).unwrap();
        std::thread::scope(|scope| {
            for index in 0..3 {
                let array = &array;
                scope.spawn(move || {
                    let range = share(1000, index, 3);
                    // SAFETY: shares do not overlap, and nobody reads yet.
                    unsafe { array.part(range.clone()) }.fill(range.start as f64);
                });
            }
        });
        assert_eq!((array[0], array[333], array[665], array[999]), (0.0, 333.0, 333.0, 666.0));
        assert_eq!(array.bytes(), 8000);
        assert!(std::panic::catch_unwind(|| array.at(1001)).is_err());
    }
}
