//! Rates of memory, measured by a probe of at most [`LONGEST`] before a run. They predict the time of the run's set-up.
//!
//! The workers of the run touch new memory for the first time and then write it again. The probe begins with little
//! memory and takes more as long as time is left, so that it fits the speed of any machine.

use crate::mapping::PagedMapping;
use crate::{ArenaError, RequestedPages, supply};
use nodegauge_machine::CpuId;
use nodegauge_measure::{Bytes, BytesPerSec, Seconds, clock, stats};
use nodegauge_placement::MemoryPolicy;
use nodegauge_team::Team;
use std::time::{Duration, Instant};

/// Maximum time of a probe.
const LONGEST: Duration = Duration::from_millis(200);
/// Memory per worker in the first step of a probe.
const FIRST: Bytes = Bytes::mib(2);
/// Factor between the memory of two successive steps.
const STEP_FACTOR: u64 = 4;

/// Number of loads of a step.
const LOADS: u32 = 10_000;

/// Rates at which all workers of a run together access memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryRates {
    /// Rate of first touch: the kernel allocates and clears the pages.
    pub first_touch: BytesPerSec,
    /// Rate of writing memory that was touched before.
    pub rewrite: BytesPerSec,
    /// Time of one load at a random place in a worker's memory. The address of each load depends on the previous load.
    pub load: Seconds,
}

impl MemoryRates {
    /// Measures the rates with one worker at each of `places`, with the pages and the policy of the run, in at most
    /// `max` bytes.
    ///
    /// # Errors
    /// Fails if the workers cannot be started, or if the memory is not available.
    pub fn probe(
        places: &[Vec<CpuId>],
        pages: RequestedPages,
        policy: &MemoryPolicy,
        max: Bytes,
    ) -> Result<Self, ArenaError> {
        // A reserved page of 1 GiB takes longer than the probe; the kernel clears all kinds of pages at about the same
        // rate.
        let kind = pages.reserved_page_size().map_or(pages, |_| RequestedPages::Transparent);
        let mut team = Team::start(places)?;
        let begun = clock::now();
        let end = begun + LONGEST;
        let mut each = FIRST.0;
        let mut steps = Vec::new();
        loop {
            let step = clock::now();
            steps.push(Self::step_rates(&mut team, each, kind, policy)?);
            let elapsed = clock::now().saturating_duration_since(step);
            let next = each * STEP_FACTOR;
            // Cold caches and page tables make the first step slower than those that follow.
            let is_long = clock::now() + elapsed * STEP_FACTOR as u32 > end;
            if !is_long && next * team.len() as u64 <= max.0 {
                each = next;
                steps.clear();
            } else if clock::now() + elapsed > end {
                return Ok(Self::median(&steps));
            }
        }
    }

    /// Returns the median of several steps with the same memory, so that a step disturbed by other programs has no
    /// effect.
    fn median(steps: &[Self]) -> Self {
        let first_touch: Vec<f64> = steps.iter().map(|step| step.first_touch.0).collect();
        let rewrite: Vec<f64> = steps.iter().map(|step| step.rewrite.0).collect();
        let load: Vec<f64> = steps.iter().map(|step| step.load.0).collect();
        Self {
            first_touch: BytesPerSec(stats::median(&first_touch)),
            rewrite: BytesPerSec(stats::median(&rewrite)),
            load: Seconds(stats::median(&load)),
        }
    }

    fn step_rates(
        team: &mut Team,
        each: u64,
        pages: RequestedPages,
        policy: &MemoryPolicy,
    ) -> Result<Self, ArenaError> {
        let bytes = each * team.len() as u64;
        let mapping = PagedMapping::map(Bytes(bytes), pages)?;
        supply::apply_policy(&mapping, policy)?;
        let first_touch = writing_rate(team, &mapping, each)?;
        let rewrite = writing_rate(team, &mapping, each)?;
        let load = Self::load_time(team, &mapping, each)?;
        Ok(Self { first_touch, rewrite, load })
    }

    /// Measures the time per load in the first `each` bytes of a mapping. The first worker performs the loads.
    fn load_time(
        team: &mut Team,
        mapping: &PagedMapping,
        each: u64,
    ) -> Result<Seconds, ArenaError> {
        let times = team.run_and_collect(|member| {
            if member.index > 0 {
                return None;
            }
            let memory = mapping.at(0, each as usize);
            let begun = Instant::now();
            let mut place = 1u64;
            for _ in 0..LOADS {
                // SAFETY: the remainder is below the length of the part, which has been written.
                let loaded = unsafe { memory.add((place % each) as usize).read_volatile() };
                // Constants of a linear congruential generator (Knuth, MMIX). The next place depends on the load.
                place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(loaded.into());
                place ^= place >> 29;
            }
            Some(begun.elapsed().as_secs_f64() / f64::from(LOADS))
        })?;
        Ok(Seconds(times.into_iter().flatten().next().unwrap_or(0.0)))
    }

    /// Returns the time for the first touch of memory of this size.
    pub fn touch_time(&self, size: Bytes) -> Duration {
        (size / self.first_touch).duration()
    }

    /// Returns the time for this number of dependent loads.
    pub fn dependent_load_time(&self, count: u64) -> Duration {
        Seconds(count as f64 * self.load.0).duration()
    }

    /// Returns the time for writing memory of this size that was touched before.
    pub fn rewrite_time(&self, size: Bytes) -> Duration {
        (size / self.rewrite).duration()
    }
}

/// Measures the total rate at which the workers write a mapping. Each worker writes `each` bytes.
fn writing_rate(
    team: &mut Team,
    mapping: &PagedMapping,
    each: u64,
) -> Result<BytesPerSec, ArenaError> {
    let begun = clock::now();
    team.run(|member| {
        let part = mapping.at(member.index * each as usize, each as usize);
        // SAFETY: the part lies in the mapping, and each worker writes its own part.
        unsafe { part.as_ptr().write_bytes(1, each as usize) }
    })?;
    let seconds = clock::now().saturating_duration_since(begun).as_secs_f64();
    Ok(BytesPerSec((each * team.len() as u64) as f64 / seconds.max(1e-9)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_rates_are_positive() {
        let policy = MemoryPolicy::Default;
        let places = [Vec::new(), Vec::new()];
        for pages in [RequestedPages::Base, RequestedPages::Huge1G] {
            let rates = MemoryRates::probe(&places, pages, &policy, Bytes::mib(64)).unwrap();
            let all = [rates.first_touch.0, rates.rewrite.0, rates.load.0];
            assert!(all.iter().all(|rate| *rate > 0.0), "{rates:?}");
        }
    }

    #[test]
    fn disturbed_step_does_not_change_median() {
        let step = |rate: f64| MemoryRates {
            first_touch: BytesPerSec(rate),
            rewrite: BytesPerSec(2.0 * rate),
            load: Seconds(1.0 / rate),
        };
        let rates = MemoryRates::median(&[step(4.0), step(0.01), step(5.0)]);
        assert_eq!(rates, step(4.0));
    }

    #[test]
    fn predicted_time_is_size_divided_by_rate() {
        let load = Seconds(1e-7);
        let rates = MemoryRates { first_touch: BytesPerSec(1e9), rewrite: BytesPerSec(4e9), load };
        assert_eq!(rates.dependent_load_time(1000), Duration::from_micros(100));
        assert_eq!(rates.touch_time(Bytes(2_000_000_000)), Duration::from_secs(2));
        assert_eq!(rates.rewrite_time(Bytes(2_000_000_000)), Duration::from_millis(500));
        assert!(rates.touch_time(Bytes(u64::MAX)) < Duration::MAX / 1000);
    }
}
