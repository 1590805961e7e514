//! Core-to-core latency: the round trip of a cache line between two members of a team. It characterises the
//! distance of their CPUs.
//!
//! Neighbouring members form pairs that exchange a cache line (ping-pong), all pairs simultaneously. If a hypervisor
//! moves the CPUs of the machine, the median over the pairs identifies the regime (see [`nodegauge_measure::regime`]).
//! The measurement takes a fraction of a millisecond; it is made before and after every pass.
//!
//! The latency of one pair ([`PairCacheLines`]) is measured on several lines, each on a page of its own that a member
//! of the pair has touched first. The address of a line determines which slice of the last-level cache, or which
//! directory, is its home. A single line would be fast for pairs near its home and slow for others.

use crate::{Member, Team, TeamError};
use nodegauge_machine::CpuId;
use nodegauge_measure::{Failure, Seconds, stats};
use nodegauge_os::{CacheLine, Mapping, PageSize, Spin, page_bytes};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of round trips in a batch. The fastest batch counts, so that an interrupt during one batch has no effect.
const TRIPS: u64 = 64;
/// Number of round trips between two clock readings. A reading after every round trip would increase the result.
const TRIPS_PER_READING: u64 = 16;
/// Number of batches of round trips.
const BATCHES: u64 = 8;
/// Maximum time for one pair. If the two members share a CPU, each round trip takes a time slice of the scheduler.
const TIMEOUT: Duration = Duration::from_millis(2);
/// Time for which a waiting member yields before it sleeps. A running partner answers much earlier.
const YIELD_TIME: Duration = Duration::from_millis(1);
/// Maximum number of waits in which a member may sleep. With more, the partner has no CPU most of the time, as on a
/// virtual machine with fewer physical CPUs than virtual ones, and no round trip can be measured.
const MAX_SLEEPS: u32 = 3;
/// Value of the cache line that ends the partner's loop.
const END: u64 = u64::MAX;

/// Cache lines that the pairs of a team share.
#[derive(Debug)]
pub struct SharedCacheLines(Vec<CacheLine<AtomicU64>>);

impl SharedCacheLines {
    /// Creates cache lines for a team of `members` threads.
    pub fn new(members: usize) -> Self {
        Self((0..members / 2).map(|_| CacheLine::default()).collect())
    }

    /// Creates cache lines for a team on these places; none if round trips would not measure a latency.
    pub fn for_places(places: &[Vec<CpuId>]) -> Self {
        Self::new(if have_exclusive_cpus(places) { places.len() } else { 0 })
    }
}

/// Cache lines of one pair of CPUs, in memory that no thread has touched before. Each line has its own page. The
/// members of the pair touch the pages alternately, so that each page is near one of them.
#[derive(Debug)]
pub struct PairCacheLines {
    mapping: Mapping,
}

impl PairCacheLines {
    /// Number of lines of a pair.
    pub const COUNT: usize = 8;

    /// Maps memory for the lines; no page is touched.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn map() -> Result<Self, TeamError> {
        let bytes = Self::COUNT * page_bytes();
        let mapping = Mapping::anonymous(bytes, PageSize::Base).map_err(|cause| {
            let text = format!("cannot map {bytes} bytes for the cache lines of a pair of CPUs");
            Failure::missing(text).cause(cause)
        })?;
        Ok(Self { mapping })
    }

    /// Returns line number `number`. Its position in the page varies, because in some caches these address bits
    /// select the home of the line.
    fn line(&self, number: usize) -> &AtomicU64 {
        let shift = number * size_of::<CacheLine<AtomicU64>>() % page_bytes();
        self.mapping.view(number * page_bytes() + shift)
    }

    /// Returns the round trip of each line between the two members of `team`, in seconds; infinity for a line on
    /// which the members did not run at the same time, and for all following lines.
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn measure_round_trips(&self, team: &mut Team) -> Result<Vec<f64>, TeamError> {
        let mut trips = team.run_and_collect(|member| self.exchange(member))?;
        Ok(trips.swap_remove(0))
    }

    /// Resets the lines of one member; in the first round, this touches their pages.
    fn touch(&self, member: &Member<'_>) {
        for number in (0..Self::COUNT).filter(|number| number % 2 == member.index) {
            self.line(number).store(0, Ordering::Relaxed);
        }
    }

    /// Runs the measurement in one member. The first member returns the round trip of each line, seconds.
    fn exchange(&self, member: &Member<'_>) -> Vec<f64> {
        self.touch(member);
        member.barrier();
        let mut trips = Vec::with_capacity(Self::COUNT);
        let mut is_lost = false;
        for number in 0..Self::COUNT {
            let line = self.line(number);
            if member.index > 0 {
                pong(line, &|| {});
            } else if is_lost {
                line.store(END, Ordering::Release);
                trips.push(f64::INFINITY);
            } else {
                let trip = ping(line, &|| {});
                is_lost = trip.is_infinite();
                trips.push(trip);
            }
        }
        trips
    }
}

/// True if every thread is bound and no two threads share a CPU. Otherwise a round trip would measure a time slice of
/// the scheduler instead of a latency.
pub fn have_exclusive_cpus(places: &[Vec<CpuId>]) -> bool {
    let mut cpus: Vec<CpuId> = places.iter().flatten().copied().collect();
    let all = cpus.len();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.len() == all && places.iter().all(|place| !place.is_empty())
}

/// Returns the core-to-core latency of `team`: the median round trip over its pairs, in seconds; NaN for a team of
/// one thread, and if the members of no pair run simultaneously.
///
/// # Errors
/// Fails if a thread of the team fails.
pub fn measure_round_trip(team: &mut Team, lines: &SharedCacheLines) -> Result<Seconds, TeamError> {
    if lines.0.is_empty() {
        return Ok(Seconds(f64::NAN));
    }
    let trips = team.run_and_collect(|member| ping_pong(member, lines))?;
    let trips: Vec<f64> = trips.into_iter().flatten().filter(|trip| trip.is_finite()).collect();
    Ok(Seconds(stats::median(&trips)))
}

/// Runs the measurement in one member. The member with the even index of a pair returns the round trip in seconds.
fn ping_pong(member: &Member<'_>, lines: &SharedCacheLines) -> Option<f64> {
    let line = lines.0.get(member.index / 2);
    let pings = member.index.is_multiple_of(2);
    if let (Some(line), true) = (line, pings) {
        line.0.store(0, Ordering::Relaxed);
    }
    member.barrier();
    let line = &line?.0;
    if pings {
        return Some(ping(line, &|| {}));
    }
    pong(line, &|| {});
    None
}

/// Runs the active member of a pair; returns the round trip in seconds, or infinity if the partner does not run at
/// the same time. The cache line must contain 0 when both members start. `idle` is called repeatedly while the
/// partner does not answer.
pub fn ping(line: &AtomicU64, idle: &dyn Fn()) -> f64 {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    let mut ping = 1;
    let mut sleeps = 0;
    for number in 0..BATCHES {
        let batch = Instant::now();
        let mut trips = 0;
        // If another task uses the CPU during the first batch, even for a long time, a second batch is still measured.
        while trips < TRIPS && (start.elapsed() < TIMEOUT || number < 2 && trips == 0) {
            for _ in 0..TRIPS_PER_READING {
                line.store(ping, Ordering::Release);
                let answer = wait_until(line, idle, |seen| seen == ping + 1);
                ping += 2;
                sleeps += u32::from(answer.slept);
                if sleeps >= MAX_SLEEPS {
                    line.store(END, Ordering::Release);
                    return best;
                }
            }
            trips += TRIPS_PER_READING;
        }
        if trips > 0 {
            best = best.min(batch.elapsed().as_secs_f64() / trips as f64);
        }
    }
    line.store(END, Ordering::Release);
    best
}

/// Runs the passive member of a pair, which answers each value.
pub fn pong(line: &AtomicU64, idle: &dyn Fn()) {
    loop {
        // Odd values are pings; the pong is the following even value.
        let ping = wait_until(line, idle, |seen| seen % 2 == 1).value;
        if ping == END {
            return;
        }
        line.store(ping + 1, Ordering::Release);
    }
}

/// Value of a cache line at the end of a wait.
struct Answer {
    value: u64,
    /// True if the member slept while it waited.
    slept: bool,
}

/// Waits until `done` returns true for the value of the line.
fn wait_until(line: &AtomicU64, idle: &dyn Fn(), done: impl Fn(u64) -> bool) -> Answer {
    let mut spin = Spin::default();
    let mut slept = false;
    loop {
        let value = line.load(Ordering::Acquire);
        if done(value) {
            return Answer { value, slept };
        }
        spin.pause_or_sleep(YIELD_TIME, || {
            slept = true;
            idle();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemberBarrier;
    use nodegauge_os::SpinBarrier;
    use std::collections::BTreeSet;

    #[test]
    fn round_trip_requires_two_threads() {
        for (members, has) in [(1, false), (2, true), (3, true), (4, true)] {
            let mut team = Team::start(&vec![Vec::new(); members]).unwrap();
            let lines = SharedCacheLines::new(members);
            let trip = measure_round_trip(&mut team, &lines).unwrap();
            assert_eq!(trip.0.is_finite() && trip.0 > 1e-9, has, "{members} members: {trip}");
        }
    }
    #[test]
    fn pairs_of_threads_use_separate_cache_lines() {
        let pairs: Vec<PairCacheLines> = (0..3).map(|_| PairCacheLines::map().unwrap()).collect();
        let mut pages = BTreeSet::new();
        let mut positions = BTreeSet::new();
        for pair in &pairs {
            // The thread that maps the lines touches none of them.
            assert_eq!(pair.mapping.resident_pages().unwrap(), (0, PairCacheLines::COUNT));
            for number in 0..PairCacheLines::COUNT {
                let address = std::ptr::from_ref(pair.line(number)) as usize;
                pages.insert(address / page_bytes());
                positions.insert(address % page_bytes());
            }
        }
        assert_eq!(pages.len(), pairs.len() * PairCacheLines::COUNT);
        assert_eq!(positions.len(), PairCacheLines::COUNT);
        let mut team = Team::start(&[Vec::new(), Vec::new()]).unwrap();
        let trips = pairs[1].measure_round_trips(&mut team).unwrap();
        assert_eq!(trips.len(), PairCacheLines::COUNT);
        assert!(trips.iter().all(|trip| *trip > 1e-9), "{trips:?}");
        let resident = |pair: &PairCacheLines| pair.mapping.resident_pages().unwrap().0;
        assert_eq!(pairs.iter().map(resident).collect::<Vec<_>>(), [0, PairCacheLines::COUNT, 0]);
    }

    #[test]
    fn members_touch_pages_alternately() {
        for index in 0..2 {
            let lines = PairCacheLines::map().unwrap();
            let gate = SpinBarrier::default();
            let barrier = MemberBarrier::SpinBarrier(&gate);
            lines.touch(&Member { index, count: 1, barrier });
            assert_eq!(lines.mapping.resident_pages().unwrap().0, PairCacheLines::COUNT / 2);
        }
    }
}
