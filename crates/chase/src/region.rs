//! Memory regions for measurements: one mapping with a buffer per worker. Each worker touches its own buffer first.

use crate::pool::WitnessedPool;
use nodegauge_arena::{ArenaError, PagedMapping, RequestedPages, supply};
use nodegauge_kernels::{CACHE_LINE_BYTES, Element, Kernel, LoopArgs, MAX_ARRAYS};
use nodegauge_measure::Bytes;
use nodegauge_placement::MemoryPolicy;
use std::ops::Range;
use std::ptr::NonNull;

/// Scalar `s` of all kernels. It is one, so that `a = s a` can be repeated any number of times.
pub(crate) const SCALAR: f64 = 1.0;

/// Period of the initial values, in words. It is a prime number, so that different arrays begin with different values.
const PERIOD: usize = 61;

/// Number of periods, together 16 MB, between two checks whether the user ends the run.
const PERIODS: usize = 1 << 15;

/// Returns the initial value of word `i` of a worker's buffer. It is a multiple of 2^-20, so that sums of billions of
/// values are exact. It is never zero, because some processors skip stores of zero.
fn value(i: usize) -> f64 {
    (1 + i % PERIOD) as f64 / 1_048_576.0
}

/// Memory region with a buffer for each worker.
#[derive(Debug)]
pub struct MemoryRegion {
    mapping: PagedMapping,
    /// Number of the first worker that has a buffer.
    first: usize,
    /// Size of a worker's buffer, bytes.
    buffer: usize,
}

/// Division of a memory region into one buffer per worker.
#[derive(Debug, Clone, Copy)]
pub struct RegionBuffers<'a> {
    mapping: &'a PagedMapping,
    first: usize,
    bytes: usize,
    /// Shift of all working sets within their buffers, in lengths of a working set.
    shift: usize,
}

impl MemoryRegion {
    /// Maps a buffer of `buffer` bytes for each worker in `workers`. Each worker touches its own buffer first.
    ///
    /// # Errors
    /// Fails if the page size or the memory is unavailable, the kernel refuses the policy, a worker fails, or the user
    /// ends the run.
    pub fn allocate(
        pool: &mut WitnessedPool,
        workers: Range<usize>,
        buffer: u64,
        pages: RequestedPages,
        policy: &MemoryPolicy,
    ) -> Result<Self, ArenaError> {
        // Buffers consist of whole huge pages, so that no page belongs to two workers.
        let granule = if pages == RequestedPages::Base { 4096 } else { 2 << 20 };
        let buffer = buffer.next_multiple_of(granule);
        let mapping = PagedMapping::map(Bytes(buffer * workers.len() as u64), pages)?;
        supply::apply_policy(&mapping, policy)?;
        let region = Self { mapping, first: workers.start, buffer: buffer as usize };
        pool.run(|worker| {
            if workers.contains(&worker) {
                let is_ended = &nodegauge_os::is_end_requested;
                // SAFETY: only this worker uses the buffer.
                unsafe { region.buffers().refill_unless(is_ended, worker, region.buffer) };
            }
        })?;
        if nodegauge_os::is_end_requested() {
            return Err(ArenaError::Interrupted);
        }
        Ok(region)
    }

    /// Maps a single buffer of `bytes` bytes that is not divided among workers. All workers of `pool`, which are near
    /// the memory, touch equal parts of the buffer first.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Self::allocate`].
    pub fn allocate_shared(
        pool: &mut WitnessedPool,
        bytes: u64,
        pages: RequestedPages,
        policy: &MemoryPolicy,
    ) -> Result<Self, ArenaError> {
        let workers = pool.workers();
        let region =
            Self::allocate(pool, 0..workers, bytes.div_ceil(workers as u64), pages, policy)?;
        let buffer = region.buffer * workers;
        Ok(Self { buffer, ..region })
    }

    /// Returns the mapping, for queries to the kernel.
    pub fn mapping(&self) -> &PagedMapping {
        &self.mapping
    }

    /// Returns the buffers for which the region was mapped.
    pub fn buffers(&self) -> RegionBuffers<'_> {
        RegionBuffers { mapping: &self.mapping, first: self.first, bytes: self.buffer, shift: 0 }
    }

    /// Divides the first `bytes` of the region into equal buffers of whole pages for `workers` workers.
    pub fn split(&self, workers: usize, bytes: u64) -> RegionBuffers<'_> {
        let bytes = (bytes as usize / workers) & !4095;
        RegionBuffers { mapping: &self.mapping, first: 0, bytes, shift: 0 }
    }
}

impl RegionBuffers<'_> {
    /// Returns the size of a buffer in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the same buffers, in which working sets are shifted by `shift` lengths of a working set.
    pub(crate) fn shifted(self, shift: usize) -> Self {
        Self { shift, ..self }
    }

    /// Returns the offset in the mapping of a worker's working set of `bytes`.
    ///
    /// Working sets do not start at the beginning of the buffers. The distance between buffers is a multiple of a
    /// large power of two. In a shared cache that is indexed by address bits, working sets at the beginning would
    /// therefore all map to the same sets. The working set of worker k begins k set lengths after the beginning of
    /// the buffer (modulo the free space), as if the working sets of all workers were adjacent. The shift is added
    /// to k.
    fn offset(&self, worker: usize, bytes: usize) -> usize {
        assert!(
            bytes <= self.bytes,
            "a working set of {bytes} bytes does not fit in a buffer of {} bytes",
            self.bytes
        );
        let room = self.bytes - bytes;
        let offset = if room == 0 { 0 } else { ((worker + self.shift) * bytes) % (room + 1) };
        (worker - self.first) * self.bytes + offset - offset % 4096
    }

    /// Returns the start address of a worker's working set of `bytes`.
    ///
    /// # Panics
    /// Panics if the working set does not fit in the worker's buffer.
    pub(crate) fn working_set(&self, worker: usize, bytes: usize) -> NonNull<u8> {
        self.mapping.at(self.offset(worker, bytes), bytes)
    }

    /// Returns the arrays of `kernel` in a worker's working set of `bytes`. The arrays are contiguous, have equal
    /// length and consist of whole cache lines.
    ///
    /// # Panics
    /// Panics for the same reasons as [`Self::working_set`].
    pub(crate) fn loop_args(
        &self,
        worker: usize,
        bytes: usize,
        kernel: Kernel,
        repeats: u64,
    ) -> LoopArgs {
        let start = self.offset(worker, bytes);
        let array = array_bytes(bytes, kernel);
        let mut at = [NonNull::dangling(); MAX_ARRAYS];
        for (i, used) in kernel.spec().arrays().enumerate() {
            at[used as usize] = self.mapping.at(start + i * array, array);
        }
        LoopArgs { at, n: array / size_of::<f64>(), scalar: SCALAR, repeats }
    }

    /// Fills a worker's working set with the initial values.
    ///
    /// # Safety
    /// No other thread may use the worker's buffer.
    pub(crate) unsafe fn refill(&self, worker: usize, bytes: usize) {
        // SAFETY: the caller guarantees the condition.
        unsafe { self.refill_unless(&|| false, worker, bytes) }
    }

    /// Fills a worker's working set like [`Self::refill`], until it is full or `is_ended` returns true.
    ///
    /// # Safety
    /// The condition of [`Self::refill`] applies.
    unsafe fn refill_unless(&self, is_ended: &dyn Fn() -> bool, worker: usize, bytes: usize) {
        let start = self.working_set(worker, bytes).cast();
        let n = bytes / size_of::<f64>();
        let values: [f64; PERIOD] = std::array::from_fn(value);
        // SAFETY: the working set has this number of words, and the caller guarantees that only this worker uses it.
        let set = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), n) };
        for part in set.chunks_mut(PERIOD * PERIODS) {
            if is_ended() {
                return;
            }
            part.chunks_mut(PERIOD).for_each(|words| words.copy_from_slice(&values[..words.len()]));
        }
    }
}

/// Returns the size of each array of a kernel whose arrays together form a working set of `bytes`.
pub(crate) fn array_bytes(bytes: usize, kernel: Kernel) -> usize {
    bytes / kernel.spec().arrays().count() / CACHE_LINE_BYTES * CACHE_LINE_BYTES
}

/// Returns the initial elements of all arrays at index `i`; 0 for arrays that the kernel does not use. `start` is the
/// number of the first element of each array.
fn initial(start: [Option<usize>; MAX_ARRAYS], i: usize) -> [f64; MAX_ARRAYS] {
    start.map(|first| first.map_or(0.0, |first| value(first + i)))
}

/// True if a value equals the expected value except for rounding; false for NaN.
#[inline]
fn is_close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-12 * expected.abs()
}

/// True if all elements of a part are close to the expected elements. The loop has no early exit, so that it is
/// vectorised and limited only by memory bandwidth.
#[inline]
fn are_close(part: &[f64], expected: &[f64; PERIOD]) -> bool {
    part.iter().zip(expected).fold(true, |right, (x, y)| right & is_close(*x, *y))
}

/// Compares every written element, or the sum, with the expected result of one pass over a newly filled working set.
/// The error describes the first difference.
///
/// # Safety
/// The arrays must belong to one working set that no other thread uses.
pub(crate) unsafe fn check(kernel: Kernel, streams: &LoopArgs, sum: f64) -> Result<(), String> {
    let mut start = [None; MAX_ARRAYS];
    for (i, used) in kernel.spec().arrays().enumerate() {
        start[used as usize] = Some(i * streams.n);
    }
    // The expected values repeat with the period of the initial values.
    let expected: [f64; PERIOD] = std::array::from_fn(|i| {
        kernel.reference_value(Element::F64, initial(start, i), streams.scalar)
    });
    let Some(written) = kernel.spec().writes else {
        let whole = (streams.n / PERIOD) as f64 * expected.iter().sum::<f64>();
        let expected = whole + expected[..streams.n % PERIOD].iter().sum::<f64>();
        if is_close(sum, expected) {
            return Ok(());
        }
        return Err(format!("the sum of all elements is {sum:e}, expected {expected:e}"));
    };
    // SAFETY: the array has n elements, and the caller guarantees that no other thread writes them.
    let found = unsafe {
        std::slice::from_raw_parts(streams.at[written as usize].cast::<f64>().as_ptr(), streams.n)
    };
    let first_wrong = found.chunks(PERIOD).position(|part| !are_close(part, &expected));
    let Some(number) = first_wrong else { return Ok(()) };
    let part = found.chunks(PERIOD).nth(number).unwrap_or_default().iter().zip(&expected);
    let wrong =
        part.enumerate().find(|(_, (x, y))| !is_close(**x, **y)).map(|(i, (value, wanted))| {
            let i = number * PERIOD + i;
            format!("{kernel}: element {i} is {value:e}, expected {wanted:e}")
        });
    wrong.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mapping(bytes: u64) -> PagedMapping {
        PagedMapping::map(Bytes(bytes), RequestedPages::Base).unwrap()
    }

    #[test]
    #[should_panic(expected = "a working set of 8192 bytes does not fit in a buffer of 4096 bytes")]
    fn working_set_larger_than_buffer_panics() {
        let buffers = RegionBuffers { mapping: &mapping(1 << 16), first: 0, bytes: 4096, shift: 0 };
        buffers.loop_args(0, 8192, Kernel::Copy, 1);
    }

    #[test]
    #[should_panic(expected = "of a mapping of")]
    fn worker_without_buffer_panics() {
        let buffers =
            RegionBuffers { mapping: &mapping(1 << 16), first: 0, bytes: 1 << 16, shift: 0 };
        buffers.working_set(1 << 10, 4096);
    }

    #[test]
    fn shared_buffer_is_touched_by_all_workers() {
        let allowed = nodegauge_placement::pin::current_affinity().unwrap();
        let mut pool = WitnessedPool::start(&[vec![allowed[0]], Vec::new()], None).unwrap();
        let policy = MemoryPolicy::Default;
        let pages = RequestedPages::Base;
        let region = MemoryRegion::allocate_shared(&mut pool, 20_000, pages, &policy).unwrap();
        // Two workers have touched three pages each; a single worker can use all pages as one buffer.
        assert_eq!(region.buffers().bytes(), 24_576);
        let set = region.split(1, 20_000).working_set(0, 16_384).cast::<f64>();
        // SAFETY: the workers have finished, and the working set has this number of words.
        let words = unsafe { std::slice::from_raw_parts(set.as_ptr(), 2048) };
        let expected = |i: usize| value(i % (12_288 / 8));
        assert!(words.iter().enumerate().all(|(i, word)| *word == expected(i)));
    }

    #[test]
    fn mapped_buffer_consists_of_whole_pages_and_is_filled() {
        let allowed = nodegauge_placement::pin::current_affinity().unwrap();
        let mut pool = WitnessedPool::start(&[vec![allowed[0]], Vec::new()], None).unwrap();
        let policy = MemoryPolicy::Default;
        let region =
            MemoryRegion::allocate(&mut pool, 1..2, 5000, RequestedPages::Base, &policy).unwrap();
        assert_eq!(
            (region.mapping().address_and_length().1 % 4096, region.buffers().bytes()),
            (0, 8192)
        );
        let set = region.buffers().working_set(1, 8192).cast::<f64>();
        // SAFETY: the workers have finished.
        assert_eq!(unsafe { *set.as_ptr() }, value(0));
    }

    #[test]
    fn wrong_element_is_detected() {
        let mapping = mapping(1 << 16);
        let area = RegionBuffers { mapping: &mapping, first: 0, bytes: 1 << 16, shift: 0 };
        let streams = area.loop_args(0, 4096, Kernel::Copy, 1);
        // SAFETY: no other thread uses this memory.
        unsafe {
            area.refill(0, 4096);
            // The check must fail, because nothing has been copied yet.
            assert!(check(Kernel::Copy, &streams, 0.0).is_err());
            streams.at[2].copy_from_nonoverlapping(streams.at[0], streams.n * 8);
            assert_eq!(check(Kernel::Copy, &streams, 0.0), Ok(()));
            *streams.at[2].cast::<f64>().add(17).as_ptr() = f64::NAN;
            assert!(check(Kernel::Copy, &streams, 0.0).unwrap_err().contains("element 17"));
            assert!(check(Kernel::Read, &streams, f64::NAN).is_err());
        }
    }

    proptest! {
        #[test]
        fn working_sets_stay_in_their_buffers(
            buffer in 4096u64..1 << 22, workers in 1usize..9, share in 0.0f64..=1.0,
            shift in 0usize..1000
        ) {
            let buffer = buffer as usize & !4095;
            let mapping = mapping((buffer * workers) as u64);
            let area = RegionBuffers { mapping: &mapping, first: 0, bytes: buffer, shift };
            let start = mapping.address_and_length().0;
            let bytes = ((buffer as f64 * share) as usize).max(4096);
            for worker in 0..workers {
                let set = area.working_set(worker, bytes).addr().get();
                prop_assert!(set >= start + worker * buffer);
                prop_assert!(set + bytes <= start + (worker + 1) * buffer);
                prop_assert_eq!(set % CACHE_LINE_BYTES, 0);
                for kernel in [Kernel::Read, Kernel::Copy, Kernel::Triad, Kernel::Blend] {
                    let streams = area.loop_args(worker, bytes, kernel, 1);
                    for array in kernel.spec().arrays() {
                        let first = streams.at[array as usize].addr().get();
                        prop_assert!(first >= set && first + streams.n * 8 <= set + bytes);
                    }
                }
            }
        }
    }
}
