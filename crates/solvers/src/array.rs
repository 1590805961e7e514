//! Arrays in memory mappings. An array is a [`SharedArray`] while threads write disjoint parts, and becomes an
//! [`MappedArray`] when all threads read it.

use nodegauge_measure::{Bytes, Failure};
use nodegauge_os::{Mapping, PageSize, is_end_requested};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

/// Number type for which all-zero bytes are a valid value.
///
/// # Safety
/// A value whose bytes are all zero must be valid.
pub(crate) unsafe trait Number: Copy + Send + Sync + 'static {}
// SAFETY: all-zero bytes are the value 0.0.
unsafe impl Number for f64 {}
// SAFETY: all-zero bytes are the value 0.
unsafe impl Number for u32 {}
// SAFETY: all-zero bytes are the value 0.
unsafe impl Number for usize {}
// SAFETY: all-zero bytes are the value 0.
unsafe impl Number for u8 {}

/// Smallest size of a page, bytes.
const SMALLEST_PAGE: usize = 4096;
/// Number of pages that a thread touches between two checks whether the run must end; touching them takes milliseconds.
const PAGES_UNCHECKED: usize = 2048;
/// Number of readable bytes after the last number, so that loops can read a whole vector there.
const READABLE_BEHIND: usize = 64;

/// Array of numbers in a separate memory mapping, initially zero, on huge pages if the kernel provides them. Mapping
/// touches no page; the kernel places a page on the NUMA node of the thread that first writes to the page.
///
/// Threads that write parts of one array simultaneously use a [`SharedArray`].
#[derive(Debug)]
pub(crate) struct MappedArray<T> {
    mapping: Mapping,
    length: usize,
    numbers: PhantomData<T>,
}

impl<T: Number> MappedArray<T> {
    /// Maps memory for `length` numbers.
    ///
    /// # Errors
    /// Fails if the kernel refuses the mapping.
    pub fn allocate(length: usize) -> Result<Self, Failure> {
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

    /// Returns the address of the number at `index`, or of the end, for reading loops.
    ///
    /// # Panics
    /// Panics if `index` is beyond the end.
    #[inline]
    pub fn at(&self, index: usize) -> *const T {
        self.address(index)
    }

    /// Returns the address of the number at `index`, or of the end, for writing loops.
    ///
    /// # Panics
    /// Panics if `index` is beyond the end.
    #[inline]
    pub fn at_mut(&mut self, index: usize) -> *mut T {
        self.address(index)
    }

    #[inline]
    fn address(&self, index: usize) -> *mut T {
        assert!(index <= self.length, "number {index} of {}", self.length);
        self.mapping.at(index * size_of::<T>(), 0).as_ptr().cast()
    }

    /// Returns the size of all numbers in bytes.
    pub fn bytes(&self) -> usize {
        self.length * size_of::<T>()
    }
}

impl<T: Number> Deref for MappedArray<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds this many numbers, which are written only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.at(0), self.length) }
    }
}

impl<T: Number> DerefMut for MappedArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the mapping holds this many numbers, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.at_mut(0), self.length) }
    }
}

/// [`MappedArray`] that several threads write in parts. Every access is `unsafe`: the caller must guarantee that no
/// other thread writes the numbers that it reads, or uses the numbers that it writes. [`SharedArray::into_array`]
/// converts it to an [`MappedArray`] after the last write.
#[derive(Debug)]
pub(crate) struct SharedArray<T>(MappedArray<T>);

impl<T: Number> SharedArray<T> {
    /// Maps memory for `length` numbers.
    ///
    /// # Errors
    /// Fails if the kernel refuses the mapping.
    pub fn allocate(length: usize) -> Result<Self, Failure> {
        MappedArray::allocate(length).map(Self)
    }

    /// Returns the address of number `index`, or of the end.
    ///
    /// # Panics
    /// Panics if `index` is beyond the end.
    #[inline]
    pub fn at(&self, index: usize) -> *mut T {
        self.0.address(index)
    }

    /// Returns the length of the array.
    pub fn len(&self) -> usize {
        self.0.length
    }

    /// Returns a part of the numbers for one thread to write.
    ///
    /// # Safety
    /// While the result lives, no other code reads or writes these numbers.
    ///
    /// # Panics
    /// Panics if the range ends beyond the array.
    #[allow(
        clippy::mut_from_ref,
        reason = "the caller guarantees exclusive use, as for an UnsafeCell"
    )]
    #[inline(always)]
    pub unsafe fn slice_mut(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.0.length, "{range:?}");
        // SAFETY: the range lies within the mapping; the caller guarantees the rest.
        unsafe { std::slice::from_raw_parts_mut(self.at(range.start), range.len()) }
    }

    /// Writes zero to each page of a part of the numbers that has not been written yet, so that the kernel provides the
    /// memory. If the user ends the run, some pages are omitted; the caller must check this.
    ///
    /// # Safety
    /// No other code reads or writes these numbers during the call.
    ///
    /// # Panics
    /// Panics if the range ends beyond the array.
    pub unsafe fn touch(&self, range: Range<usize>) {
        // SAFETY: the caller meets the requirements of this function.
        let part: *mut [T] = unsafe { self.slice_mut(range) };
        let start = part.cast::<u8>();
        let bytes = part.len() * size_of::<T>();
        let offsets = (0..bytes).step_by(SMALLEST_PAGE).chain(bytes.checked_sub(1));
        for (page, offset) in offsets.enumerate() {
            if page.is_multiple_of(PAGES_UNCHECKED) && is_end_requested() {
                return;
            }
            // SAFETY: the byte is within the part, and zero bytes are valid numbers.
            unsafe { start.add(offset).write_volatile(0) };
        }
    }

    /// Returns a part of the numbers for reading.
    ///
    /// # Safety
    /// While the result lives, no other code writes these numbers.
    ///
    /// # Panics
    /// Panics if the range ends beyond the array.
    #[inline(always)]
    pub unsafe fn slice(&self, range: Range<usize>) -> &[T] {
        assert!(range.start <= range.end && range.end <= self.0.length, "{range:?}");
        // SAFETY: as in `slice_mut`.
        unsafe { std::slice::from_raw_parts(self.at(range.start), range.len()) }
    }

    /// Returns the array for exclusive use, during which no thread may use a part of it.
    pub fn get_mut(&mut self) -> &mut MappedArray<T> {
        &mut self.0
    }

    /// Converts the array to an [`MappedArray`] after all threads have written their parts.
    pub fn into_array(self) -> MappedArray<T> {
        self.0
    }
}

/// Returns one part of `0..length`, which is divided into `count` contiguous parts whose sizes differ by at most one.
/// `index` is the number of the part.
pub(crate) fn share_range(length: usize, index: usize, count: usize) -> Range<usize> {
    length * index / count..length * (index + 1) / count
}

/// Returns the divisors of `n` in ascending order.
pub(crate) fn divisors(n: usize) -> impl Iterator<Item = usize> {
    (1..=n).filter(move |divisor| n.is_multiple_of(*divisor))
}

/// Returns a number if it is finite, otherwise `None`.
pub(crate) fn finite_or_none(x: f64) -> Option<f64> {
    Some(x).filter(|x| x.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_parts_are_written_by_threads() {
        let array = SharedArray::<f64>::allocate(1000).unwrap();
        std::thread::scope(|scope| {
            for index in 0..3 {
                let array = &array;
                scope.spawn(move || {
                    let range = share_range(1000, index, 3);
                    // SAFETY: the parts do not overlap, and no thread reads yet.
                    unsafe { array.slice_mut(range.clone()) }.fill(range.start as f64);
                });
            }
        });
        let array = array.into_array();
        assert_eq!((array[0], array[333], array[665], array[999]), (0.0, 333.0, 333.0, 666.0));
        assert_eq!(array.bytes(), 8000);
        assert!(std::panic::catch_unwind(|| array.at(1001)).is_err());
    }
}
