//! Arrays in memory mappings, in two phases: [`SharedArray`] while threads write their own parts, [`Array`] when
//! all threads read.

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
/// Threads that write parts of one array at the same time use a [`SharedArray`].
#[derive(Debug)]
pub(crate) struct Array<T> {
    mapping: Mapping,
    length: usize,
    numbers: PhantomData<T>,
}

impl<T: Number> Array<T> {
    /// Maps memory for `length` numbers.
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

    /// Address of number `index`, or of the end, for loops that read.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline]
    pub fn at(&self, index: usize) -> *const T {
        self.address(index)
    }

    /// Address of number `index`, or of the end, for loops that write.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline]
    pub fn at_mut(&mut self, index: usize) -> *mut T {
        self.address(index)
    }

    #[inline]
    fn address(&self, index: usize) -> *mut T {
        assert!(index <= self.length, "number {index} of {}", self.length);
        self.mapping.at(index * size_of::<T>(), 0).as_ptr().cast()
    }

    /// Bytes of all numbers.
    pub fn bytes(&self) -> usize {
        self.length * size_of::<T>()
    }
}

impl<T: Number> Deref for Array<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds so many numbers; they are written through `&mut self` alone.
        unsafe { std::slice::from_raw_parts(self.at(0), self.length) }
    }
}

impl<T: Number> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the mapping holds so many numbers, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.at_mut(0), self.length) }
    }
}

/// An [`Array`] while several threads write parts of it. Every access is `unsafe`: the caller promises that no
/// other thread writes what it reads, or uses what it writes. [`SharedArray::into_array`] ends the phase.
#[derive(Debug)]
pub(crate) struct SharedArray<T>(Array<T>);

impl<T: Number> SharedArray<T> {
    /// Maps memory for `length` numbers.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn map(length: usize) -> Result<Self, Failure> {
        Array::map(length).map(Self)
    }

    /// Address of number `index`, or of the end.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline]
    pub fn at(&self, index: usize) -> *mut T {
        self.0.address(index)
    }

    /// A part of the numbers, to be written by one thread.
    ///
    /// # Safety
    /// While the result lives, nothing else reads or writes these numbers.
    ///
    /// # Panics
    /// Beyond the end.
    #[allow(clippy::mut_from_ref, reason = "as of an UnsafeCell, under the caller's promise")]
    pub unsafe fn part_mut(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.0.length, "{range:?}");
        // SAFETY: the range lies within the mapping, whose bytes are numbers; the rest is the caller's
        // promise.
        unsafe { std::slice::from_raw_parts_mut(self.at(range.start), range.len()) }
    }

    /// A part of the numbers, to be read.
    ///
    /// # Safety
    /// While the result lives, nothing writes these numbers.
    ///
    /// # Panics
    /// Beyond the end.
    pub unsafe fn part(&self, range: Range<usize>) -> &[T] {
        assert!(range.start <= range.end && range.end <= self.0.length, "{range:?}");
        // SAFETY: as in `part_mut`.
        unsafe { std::slice::from_raw_parts(self.at(range.start), range.len()) }
    }

    /// The array when no thread uses a part of it.
    pub fn get_mut(&mut self) -> &mut Array<T> {
        &mut self.0
    }

    /// The array after the last thread has written its part.
    pub fn into_array(self) -> Array<T> {
        self.0
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
        let array = SharedArray::<f64>::map(1000).unwrap();
        std::thread::scope(|scope| {
            for index in 0..3 {
                let array = &array;
                scope.spawn(move || {
                    let range = share(1000, index, 3);
                    // SAFETY: shares do not overlap, and nobody reads yet.
                    unsafe { array.part_mut(range.clone()) }.fill(range.start as f64);
                });
            }
        });
        let array = array.into_array();
        assert_eq!((array[0], array[333], array[665], array[999]), (0.0, 333.0, 333.0, 666.0));
        assert_eq!(array.bytes(), 8000);
        assert!(std::panic::catch_unwind(|| array.at(1001)).is_err());
    }
}
