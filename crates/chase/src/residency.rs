//! Residency: the share of a working set's lines that are in the caches after a pass over the set. It is measured by
//! dependent loads of a sample of the lines.

use crate::chase::flush;
use crate::region::SCALAR;
use crate::traffic;
use nodegauge_arena::{ArenaError, PagedMapping, RequestedPages};
use nodegauge_kernels::{CACHE_LINE_BYTES, LoopArgs, MAX_ARRAYS, ResidentLoop};
use nodegauge_machine::CpuId;
use nodegauge_measure::schedule::shuffle::Shuffler;
use nodegauge_measure::{Bytes, stats};
use nodegauge_os::monotonic_nanos;
use nodegauge_team::Team;
use std::ptr::NonNull;

/// Number of attempts for each working set, because other work may disturb some of them.
const ATTEMPTS: usize = 4;
/// Number of sampled lines per core. The standard error of a share of one half is 2 %.
const SAMPLED: usize = 512;
/// Number of parts of a sample. The median of their times is used, because an interruption lengthens only one or two
/// parts.
const PARTS: usize = 8;
/// Size of a page. The loop touches one line per page before each timed loop, so that the TLB contains the same
/// pages.
const PAGE: usize = 4096;
/// Times per load of the sampled lines of one core, seconds.
#[derive(Debug, Clone, Copy)]
struct LoadTimes {
    /// Time per load after a pass over the working set.
    passed: f64,
    /// Time per load immediately after loads of the same lines.
    cached: f64,
    /// Time per load after the lines were flushed from all caches.
    flushed: f64,
}

impl LoadTimes {
    /// Returns the mean times of all cores.
    fn mean(all: &[Self]) -> Self {
        let share = 1.0 / all.len() as f64;
        Self {
            passed: share * all.iter().map(|one| one.passed).sum::<f64>(),
            cached: share * all.iter().map(|one| one.cached).sum::<f64>(),
            flushed: share * all.iter().map(|one| one.flushed).sum::<f64>(),
        }
    }
}

/// Threads and memory for measuring the share of a working set that is in the caches.
pub struct ResidencyProbe {
    team: Team,
    mapping: PagedMapping,
    /// Size of each thread's memory, bytes.
    buffer: usize,
    /// Part of each thread's memory that has been touched, bytes.
    touched: usize,
    reader: ResidentLoop,
}

impl ResidencyProbe {
    /// Starts a thread on each CPU, and maps `total` bytes for all threads together.
    ///
    /// # Errors
    /// Fails if memory, pages or CPUs are not available.
    pub fn new(cpus: &[CpuId], total: Bytes, pages: RequestedPages) -> Result<Self, ArenaError> {
        let places: Vec<Vec<CpuId>> = cpus.iter().map(|cpu| vec![*cpu]).collect();
        let buffer = total.0.div_ceil(places.len().max(1) as u64).next_multiple_of(2 << 20);
        let mapping = PagedMapping::map(Bytes(buffer * places.len() as u64), pages)?;
        let team = Team::start(&places)?;
        let reader = traffic::default_read_loop();
        Ok(Self { team, mapping, buffer: buffer as usize, touched: 0, reader })
    }

    /// Measures the share of the lines of a working set that are in the caches after a pass: the largest share of
    /// several attempts. Returns `None` if the processor cannot flush lines.
    ///
    /// # Errors
    /// Fails if a thread fails.
    pub fn measure_share(&mut self, set: Bytes) -> Result<Option<f64>, ArenaError> {
        let each = (set.0 as usize / self.team.len() / PAGE).max(1) * PAGE;
        let Self { team, mapping, buffer, touched, reader } = self;
        let start = mapping.at(0, *buffer * team.len()).as_ptr() as usize;
        let old = *touched;
        let of_worker = |worker: usize| start + worker * *buffer;
        team.run_and_collect(|member| {
            let new = each.saturating_sub(old);
            // SAFETY: the memory belongs to this thread. The loops below read zeros.
            unsafe { ((of_worker(member.index) + old) as *mut u8).write_bytes(0, new) };
        })?;
        *touched = each.max(old);
        let mut times = Vec::new();
        for attempt in 0..ATTEMPTS {
            team.run_and_collect(|member| {
                let at =
                    [NonNull::new(of_worker(member.index) as *mut u8).expect("mapped"); MAX_ARRAYS];
                // The second pass finds the lines of the first; before the first set, other lines are in the caches.
                let repeats = if attempt == 0 { 2 } else { 1 };
                let args = LoopArgs { at, n: each / size_of::<f64>(), repeats, scalar: SCALAR };
                // SAFETY: the memory of this thread has this number of elements, and is only read.
                std::hint::black_box(unsafe { reader.run(&args) });
            })?;
            let seed = (attempt * team.len()) as u64;
            let all = team.run_and_collect(|member| {
                let memory = of_worker(member.index);
                let lines = sampled_lines(memory, each, seed + member.index as u64);
                // SAFETY: the lines are in the memory of this thread, which contains zeros.
                unsafe { load_times(&lines, memory, each) }
            })?;
            let Some(all) = all.into_iter().collect::<Option<Vec<LoadTimes>>>() else {
                return Ok(None);
            };
            times.push(LoadTimes::mean(&all));
        }
        Ok(Some(largest_share(&times)))
    }
}

/// Returns the largest share of lines in the caches among several attempts. The time of a load from a cache is the
/// shortest of all attempts; the time of a load of a flushed line is the median.
fn largest_share(times: &[LoadTimes]) -> f64 {
    let of_flushed: Vec<f64> = times.iter().map(|one| one.flushed).collect();
    let flushed = stats::median(&of_flushed);
    let cached = times.iter().map(|one| one.cached).fold(f64::INFINITY, f64::min);
    let passed = times.iter().map(|one| one.passed).fold(f64::INFINITY, f64::min);
    if flushed <= cached {
        return 1.0;
    }
    ((flushed - passed) / (flushed - cached)).clamp(0.0, 1.0)
}

/// Returns the addresses of sampled lines in `bytes` bytes of memory, in random order. The memory is divided into equal
/// parts; one line of each is sampled.
fn sampled_lines(start: usize, bytes: usize, seed: u64) -> Vec<usize> {
    let lines = bytes / CACHE_LINE_BYTES;
    let count = SAMPLED.min(lines / 2).next_multiple_of(PARTS);
    let each = (lines / count).max(1);
    let mut shuffler = Shuffler::new(seed);
    let mut within: Vec<usize> = (0..each).collect();
    shuffler.shuffle(&mut within);
    let mut sample: Vec<usize> = (0..count.min(lines))
        .map(|part| start + (part * each + within[part % each]) * CACHE_LINE_BYTES)
        .collect();
    shuffler.shuffle(&mut sample);
    sample
}

/// Times loads of `lines` in the `bytes` of memory at `start`, directly after a pass; `None` if the processor
/// cannot flush lines.
///
/// # Safety
/// The memory must be mapped and contain zeros, and the lines must be in it.
unsafe fn load_times(lines: &[usize], start: usize, bytes: usize) -> Option<LoadTimes> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        touch_pages(start, bytes);
        let passed = load_time(lines);
        touch_pages(start, bytes);
        let cached = load_time(lines);
        let flushes = flush(lines);
        touch_pages(start, bytes);
        let flushed = load_time(lines);
        flushes.then_some(LoadTimes { passed, cached, flushed })
    }
}

/// Loads the first line of each page, so that TLB and page tables are in the same state before each timed loop.
///
/// # Safety
/// The memory must be mapped.
unsafe fn touch_pages(start: usize, bytes: usize) {
    for page in (start..start + bytes).step_by(PAGE) {
        // SAFETY: guaranteed by the caller.
        std::hint::black_box(unsafe { (page as *const usize).read_volatile() });
    }
}

/// Returns the median time per load over the parts of `lines`. The address of each load depends on the previous
/// load.
///
/// # Safety
/// The lines must be mapped and contain zeros.
unsafe fn load_time(lines: &[usize]) -> f64 {
    let mut zero = 0;
    let mut times = Vec::new();
    for part in lines.chunks(lines.len().div_ceil(PARTS).max(1)) {
        let begun = monotonic_nanos();
        for line in part {
            // SAFETY: guaranteed by the caller; the line contains zero.
            zero = unsafe { ((line + zero) as *const usize).read_volatile() };
        }
        times.push((monotonic_nanos() - begun) as f64 * 1e-9 / part.len() as f64);
    }
    stats::median(&times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_share_is_largest_of_attempts() {
        let times = |passed: f64, cached: f64, flushed: f64| LoadTimes { passed, cached, flushed };
        let quiet = times(60.0, 10.0, 110.0);
        assert_eq!(largest_share(&[quiet; 3]), 0.5);
        // Other work evicted the lines, or lengthened the loads of flushed lines.
        let disturbed = [times(112.0, 15.0, 110.0), quiet, times(111.0, 10.0, 900.0)];
        assert_eq!(largest_share(&disturbed), 0.5);
        assert_eq!(largest_share(&[times(130.0, 10.0, 110.0)]), 0.0);
    }

    #[test]
    fn sampled_lines_cover_all_parts() {
        for bytes in [4096, 1 << 16, 1 << 25] {
            let mut lines = sampled_lines(0, bytes, 7);
            lines.sort_unstable();
            lines.dedup();
            assert!(lines.len() >= 32 && lines.iter().all(|line| line % CACHE_LINE_BYTES == 0));
            assert!(*lines.last().unwrap() < bytes && lines[lines.len() / 2] >= bytes / 4);
        }
    }
}
