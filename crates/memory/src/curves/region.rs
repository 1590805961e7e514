//! The memory that workers measure: a piece of one mapping each, touched first by its worker.

use crate::arrays::Pages;
use crate::curves::pool::WorkerPool;
use crate::kernels::{ARRAYS, Args, Element, Kernel, LINE};
use crate::mapping::PagedMapping;
use crate::point::PointError;
use nodegauge_measure::Bytes;
use nodegauge_placement::MemoryPolicy;
use std::ptr::NonNull;

/// The factor `s` of all patterns: one, so that `a = s a` may be applied any number of times.
pub(crate) const SCALAR: f64 = 1.0;

/// Start value of word `i` of a worker's piece: a multiple of 2^-20, so that sums of billions of
/// them are exact; never zero, whose stores some processors leave out.
pub(crate) fn value(i: usize) -> f64 {
    (1 + i % 61) as f64 / 1_048_576.0
}

/// A piece of memory for each worker.
#[derive(Debug)]
pub(crate) struct MemoryRegion {
    mapping: PagedMapping,
    /// Bytes from one worker's piece to the next.
    piece: usize,
}

impl MemoryRegion {
    /// Maps `piece` bytes for each of `workers`; nothing is touched yet.
    ///
    /// # Errors
    /// No such pages, no memory, or a policy that the kernel refuses.
    pub(crate) fn map(
        piece: Bytes,
        workers: usize,
        pages: Pages,
        policy: &MemoryPolicy,
    ) -> Result<Self, PointError> {
        // Whole huge pages, so that no page belongs to two workers.
        let granule = if pages == Pages::Base { 4096 } else { 2 << 20 };
        let piece = piece.0.next_multiple_of(granule);
        let mapping = PagedMapping::map(Bytes(piece * workers as u64), pages)?;
        let (start, length) = mapping.range();
        policy.apply_to(start, length)?;
        Ok(Self { mapping, piece: piece as usize })
    }

    /// Lets each worker write its piece first.
    ///
    /// # Errors
    /// When a worker fails.
    pub(crate) fn touch(&self, pool: &mut WorkerPool) -> Result<(), PointError> {
        pool.work(|worker| {
            let start = self.mapping.at(worker * self.piece, self.piece).cast().as_ptr();
            // SAFETY: the piece is this worker's alone, and lies in the mapping.
            unsafe { fill(start, self.piece / 8) };
        })?;
        Ok(())
    }

    /// The mapping, for questions to the kernel.
    pub(crate) fn mapping(&self) -> &PagedMapping {
        &self.mapping
    }

    /// Start of the set of `bytes` of a worker.
    ///
    /// Sets do not start where pieces do: pieces lie a multiple of a large power of two apart, and
    /// sets at their starts would all fall into the same part of a shared cache that is indexed by
    /// address bits. Worker k's set begins k sets later within its piece, as far as there is room,
    /// as if the sets of all workers lay side by side.
    pub(crate) fn set(&self, worker: usize, bytes: usize) -> usize {
        let bytes = bytes.min(self.piece);
        let room = self.piece - bytes;
        let offset = if room == 0 { 0 } else { (worker * bytes) % (room + 1) };
        let at = worker * self.piece + offset - offset % 4096;
        self.mapping.at(at, bytes).as_ptr() as usize
    }

    /// The arrays of `kernel` in a worker's set of `bytes`: equal, whole lines, one behind the
    /// other.
    pub(crate) fn streams(
        &self,
        worker: usize,
        bytes: usize,
        kernel: Kernel,
        repeats: u64,
    ) -> Args {
        let start = self.set(worker, bytes);
        let array = array_bytes(bytes, kernel);
        let mut at = [NonNull::dangling(); ARRAYS];
        for (i, used) in kernel.spec().arrays().enumerate() {
            at[used as usize] = address(start + i * array);
        }
        Args { at, n: array / size_of::<f64>(), scalar: SCALAR, repeats }
    }

    /// Fills a worker's set with its start values.
    ///
    /// # Safety
    /// No other thread uses the worker's piece.
    pub(crate) unsafe fn refill(&self, worker: usize, bytes: usize) {
        // SAFETY: the set lies in the worker's piece, which the caller says is its alone.
        unsafe { fill(self.set(worker, bytes) as *mut f64, bytes.min(self.piece) / 8) };
    }
}

/// Bytes of each array of a kernel whose arrays share a set of `bytes`.
pub(crate) fn array_bytes(bytes: usize, kernel: Kernel) -> usize {
    bytes / kernel.spec().arrays().count() / LINE * LINE
}

/// An address within a mapping, which is never 0.
pub(crate) fn address(at: usize) -> NonNull<u8> {
    NonNull::new(at as *mut u8).expect("no mapping is at 0")
}

/// Writes start values.
///
/// # Safety
/// `n` elements are writable from `start`, and no other thread uses them.
unsafe fn fill(start: *mut f64, n: usize) {
    for i in 0..n {
        // SAFETY: i is below n.
        unsafe { *start.add(i) = value(i) };
    }
}

/// Holds every element that was written, or the sum, against the replay of the passes over a freshly
/// filled set; says in words what is wrong.
///
/// # Safety
/// The streams lie in one set that no other thread uses.
pub(crate) unsafe fn check(kernel: Kernel, streams: &Args, sum: f64) -> Result<(), String> {
    let mut start = [None; ARRAYS];
    for (i, used) in kernel.spec().arrays().enumerate() {
        start[used as usize] = Some(i * streams.n);
    }
    // An array that the kernel does not use is not looked at.
    let before = |i: usize| start.map(|first| first.map_or(0.0, |first| value(first + i)));
    let apply = |elements| kernel.reference(Element::F64, elements, streams.scalar);
    let Some(written) = kernel.spec().writes else {
        let once: f64 = (0..streams.n).map(|i| apply(before(i))).sum();
        let expected = once * streams.repeats as f64;
        return if (sum - expected).abs() <= 1e-12 * expected.abs() {
            Ok(())
        } else {
            Err(format!("the sum of all elements is {sum:e}, and must be {expected:e}"))
        };
    };
    for i in 0..streams.n {
        let mut elements = before(i);
        for _ in 0..streams.repeats {
            elements[written as usize] = apply(elements);
        }
        let expected = elements[written as usize];
        // SAFETY: i is below n.
        let found = unsafe { *streams.at[written as usize].cast::<f64>().add(i).as_ptr() };
        // A found value that is not a number fails too.
        let close = (found - expected).abs() <= 1e-12 * expected.abs();
        if !close {
            return Err(format!("{kernel}: element {i} is {found:e}, and must be {expected:e}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn area(piece: u64, workers: usize) -> MemoryRegion {
        MemoryRegion::map(Bytes(piece), workers, Pages::Base, &MemoryPolicy::Default).unwrap()
    }

    #[test]
    fn a_wrong_element_is_found() {
        let area = area(1 << 16, 1);
        let streams = area.streams(0, 4096, Kernel::Copy, 1);
        // SAFETY: nobody else has this memory.
        unsafe {
            area.refill(0, 4096);
            // Nothing was copied yet.
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
        fn sets_stay_in_their_pieces(
            piece in 4096u64..1 << 22, workers in 1usize..9, share in 0.0f64..=1.0
        ) {
            let area = area(piece, workers);
            let (start, length) = area.mapping().range();
            let bytes = ((area.piece as f64 * share) as usize).max(4096);
            for worker in 0..workers {
                let set = area.set(worker, bytes);
                prop_assert!(set >= start + worker * area.piece);
                prop_assert!(set + bytes <= start + (worker + 1) * area.piece);
                prop_assert!(set + bytes <= start + length);
                prop_assert_eq!(set % LINE, 0);
                for kernel in [Kernel::Read, Kernel::Copy, Kernel::Triad, Kernel::Blend] {
                    let streams = area.streams(worker, bytes, kernel, 1);
                    for array in kernel.spec().arrays() {
                        let first = streams.at[array as usize].addr().get();
                        prop_assert!(first >= set && first + streams.n * 8 <= set + bytes);
                    }
                }
            }
        }
    }
}
