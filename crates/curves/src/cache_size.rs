//! Measurement of the capacity of the last-level caches in a fraction of a second. A guest often reports the caches of
//! its host but can use only a part of them. With arrays of four times the reported size, runs would take too long.
//!
//! All cores read working sets whose sizes are successive powers of two; each core reads its share. After a pass, each
//! core follows a sample of the lines of its share with dependent loads. Lines that are still in a cache load faster
//! than lines that were flushed. The capacity in use is the share of lines in the caches times the working set. It
//! depends neither on the memory bandwidth nor on the memory latency under other load, because loads of flushed lines
//! are timed interleaved.
//!
//! Other programs on the node use a part of the caches. Of several attempts, the one with the largest share counts. The
//! reported size is used unless the caches clearly hold less (`capacity`). On a busy node, the next larger power of two
//! is used, because arrays that are too long only cost time, whereas arrays that are too short give wrong figures.

use nodegauge_arena::supply::default_pages;
use nodegauge_chase::ResidencyProbe;
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::interference::CpuTimeReading;
use nodegauge_measure::record::{Machine, MeasuredCache};
use nodegauge_measure::{Bytes, Seconds, clock};
use std::collections::BTreeSet;
use std::time::Duration;

/// Duration after which the measurement ends as soon as the capacity is known. It is also the maximum duration in a run
/// with a budget of the user.
pub const USUAL_TIME: Duration = Duration::from_millis(300);
/// Maximum duration of the measurement on a busy node. Working sets that would exceed this time are left out.
pub const MAX_TIME: Duration = Duration::from_millis(1500);
/// Smallest working set, as the total of all cores.
const FIRST: Bytes = Bytes::mib(4);
/// Divisor of the available memory: at most a quarter is touched.
const MEMORY_DIVISOR: u64 = 4;
/// Largest working set if no cache size is reported: almost four times the largest last-level cache of current sockets
/// (1.1 GiB).
const MAX_UNREPORTED: Bytes = Bytes::gib(4);
/// Minimum share of a working set's lines that are in the caches if the set fits. When the set exceeds the capacity,
/// the share falls from one to a half or less.
const MIN_FITTING_SHARE: f64 = 0.5;
/// Ratio of the measured capacity to the reported size below which the caches clearly hold less than reported.
const CLEARLY_LESS: f64 = 0.5;
/// Ratio of the measured capacity to the size of all reported caches above which the caches clearly hold more.
const CLEARLY_MORE: f64 = 1.5;
/// Maximum ratio of the measured capacity to a power of two at which the capacity is rounded to this power of two. The
/// private caches add to the last level, and the sampled lines have a statistical error.
const ROUNDING_RATIO: f64 = 1.125;

/// Minimum share of the cores' CPU time that other processes use on a busy node. On an idle system it is less than a
/// hundredth.
const MIN_BUSY_SHARE: f64 = 0.1;

/// Result of the capacity measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundCapacity {
    /// Capacity of the last-level caches.
    pub cache: MeasuredCache,
    /// True if other processes used the cores during the measurement, so that the capacity may be larger on an idle
    /// machine.
    pub is_busy: bool,
}

/// Share of the lines of a working set that are in the caches after a pass over the set.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Residency {
    /// Size of the working set, as the total of all cores.
    set: Bytes,
    /// Share of the lines, 0 to 1; the maximum of all attempts.
    share: f64,
}

impl Residency {
    /// Returns the number of bytes in the caches after a pass.
    fn held(&self) -> f64 {
        self.set.as_f64() * self.share
    }
}

/// Cache sizes that the system reports for the measured cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ReportedCaches {
    /// Last-level caches; `None` if their size is unknown.
    last: Option<Bytes>,
    /// Caches of the level before the last. The last level need not contain their lines.
    private: Bytes,
}

/// Returns the capacity of the last-level caches, computed from the residencies of all working sets; `None` if it is
/// unknown. The reported size is returned unless the caches hold clearly less or clearly more.
fn capacity(reported: ReportedCaches, curve: &[Residency]) -> Option<Bytes> {
    let held = curve.iter().map(Residency::held).fold(0.0, f64::max);
    let is_exceeded = curve.last().is_some_and(|last| last.share <= MIN_FITTING_SHARE);
    let Some(last) = reported.last else { return is_exceeded.then(|| rounded_capacity(held)) };
    if held >= last.as_f64() * CLEARLY_LESS {
        let all = Bytes(last.0 + reported.private.0).as_f64();
        let is_more = held > all * CLEARLY_MORE;
        return Some(if is_more { rounded_capacity(held).max(last) } else { last });
    }
    is_exceeded.then(|| rounded_capacity(held).min(last))
}

/// Returns the capacity for `held` bytes in the caches: the next power of two, unless `held` exceeds a smaller power of
/// two by at most [`ROUNDING_RATIO`].
fn rounded_capacity(held: f64) -> Bytes {
    Bytes(((held / ROUNDING_RATIO).ceil().max(1.0) as u64).next_power_of_two())
}

/// True if a larger working set is required to determine the capacity.
fn needs_more(reported: ReportedCaches, may_hide: bool, curve: &[Residency]) -> bool {
    let exceeded = curve.iter().rev().take_while(|rung| rung.share <= MIN_FITTING_SHARE).count();
    if exceeded >= 2 {
        return false;
    }
    let held = curve.iter().map(Residency::held).fold(0.0, f64::max);
    // A system without a hypervisor reports its own caches, so that no larger capacity is searched for.
    let is_as_reported = reported.last.is_some_and(|last| held >= last.as_f64() * CLEARLY_LESS);
    may_hide || !is_as_reported
}

/// Measures the capacity of the last-level caches with one thread on each core that this process may use, in at most
/// `most_time`. Returns `None` if it is not found in this time, or if the processor cannot flush lines.
pub fn measure(
    topology: &Topology,
    machine: &Machine,
    most_time: Duration,
) -> Option<FoundCapacity> {
    let start = clock::now();
    let mut cores = BTreeSet::new();
    let first_of_core = topology.allowed_threads().filter(|thread| cores.insert(thread.core));
    let cpus: Vec<CpuId> = first_of_core.map(|thread| thread.cpu).collect();
    let reported = reported_caches(topology, &cpus);
    let may_hide = machine.virtualisation.is_some();
    let available = Bytes(machine.memory.available? / MEMORY_DIVISOR);
    let wanted = reported.last.map_or(MAX_UNREPORTED, |last| {
        Bytes((2 * (last.0 + reported.private.0)).next_power_of_two())
    });
    let most = wanted.max(Bytes(FIRST.0 * 2)).min(available);
    let numbers: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
    let before = CpuTimeReading::now(&numbers);
    let mut probe = ResidencyProbe::new(&cpus, most, default_pages(machine)).ok()?;
    let mut curve = Vec::new();
    let mut set = FIRST;
    while set <= most && needs_more(reported, may_hide, &curve) {
        let begun = clock::now();
        curve.push(Residency { set, share: probe.measure_share(set).ok().flatten()? });
        set = Bytes(set.0 * 2);
        // The next set takes about twice as long.
        let next_end = clock::now() + 2 * (clock::now() - begun);
        let is_known = capacity(reported, &curve).is_some();
        if next_end > start + if is_known { USUAL_TIME.min(most_time) } else { most_time } {
            break;
        }
    }
    let found = capacity(reported, &curve)?;
    let others = CpuTimeReading::now(&numbers)
        .zip(before)
        .map(|(now, then)| now.other_programs_time_since(then));
    let all = (clock::now() - start).as_secs_f64() * cpus.len() as f64;
    let is_busy = others.is_some_and(|Seconds(others)| others > MIN_BUSY_SHARE * all);
    let bytes = if is_busy { cautious(reported, found) } else { found };
    let cache = MeasuredCache { bytes: bytes.0, reported: reported.last.map(|last| last.0) };
    Some(FoundCapacity { cache, is_busy })
}

/// Returns the capacity to use on a busy node: twice the measured capacity, but at most the reported size.
fn cautious(reported: ReportedCaches, found: Bytes) -> Bytes {
    let larger = Bytes(2 * found.0);
    reported.last.map_or(larger, |last| larger.min(last).max(found))
}

/// Returns the reported cache sizes for these CPUs. `cpus` contains one CPU per core.
fn reported_caches(topology: &Topology, cpus: &[CpuId]) -> ReportedCaches {
    let last = topology.llc_bytes_and_count(cpus).map(|(bytes, _)| Bytes(bytes));
    let data: Vec<_> = topology.caches.iter().filter(|cache| cache.contains_data()).collect();
    let last_level = data.last().map(|cache| cache.level);
    let before = data.iter().rev().find(|cache| Some(cache.level) < last_level);
    let private = before.and_then(|cache| cache.bytes).unwrap_or(0) * cpus.len() as u64;
    ReportedCaches { last, private: Bytes(private) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns residencies for working sets of 4 MiB, 8 MiB, ...
    fn curve(shares: &[f64]) -> Vec<Residency> {
        let rung =
            |(at, share): (usize, &f64)| Residency { set: Bytes::mib(4 << at), share: *share };
        shares.iter().enumerate().map(rung).collect()
    }

    fn reported(last: u64, private: u64) -> ReportedCaches {
        ReportedCaches { last: Some(Bytes::mib(last)), private: Bytes::mib(private) }
    }

    fn found(reported: ReportedCaches, shares: &[f64]) -> Option<u64> {
        capacity(reported, &curve(shares)).map(|bytes| bytes.0 >> 20)
    }

    /// Residencies on a busy guest with 32 MiB of last-level cache and 2 MiB of private caches.
    const OF_32_MIB: [f64; 6] = [0.996, 0.972, 0.935, 0.758, 0.479, 0.159];

    #[test]
    fn reported_size_is_used_if_caches_hold_most_of_it() {
        assert_eq!(found(reported(32, 2), &OF_32_MIB), Some(32));
        // Neighbours use a third of the cache.
        assert_eq!(found(reported(32, 2), &[1.0, 1.0, 0.9, 0.6, 0.3, 0.15]), Some(32));
        // Large private caches hold lines that the last level does not.
        assert_eq!(found(reported(15, 16), &[1.0, 1.0, 1.0, 0.9, 0.4, 0.2]), Some(15));
        // The measurement ended before the caches were exceeded.
        assert_eq!(found(reported(32, 2), &OF_32_MIB[..4]), Some(32));
        assert_eq!(found(reported(300, 4), &OF_32_MIB[..3]), None);
        assert_eq!(found(reported(300, 4), &[]), None);
    }

    #[test]
    fn clearly_smaller_capacity_replaces_the_reported_size() {
        assert_eq!(found(reported(300, 4), &OF_32_MIB), Some(32));
        assert_eq!(found(reported(2048, 4), &OF_32_MIB), Some(32));
        // Half of the reported size stays in the caches.
        let half = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.6, 0.3];
        assert_eq!(found(reported(300, 4), &half), Some(300));
        assert_eq!(found(reported(32, 2), &[0.3, 0.1]), Some(2));
    }

    #[test]
    fn larger_or_unreported_capacity_is_measured() {
        assert_eq!(found(reported(8, 2), &OF_32_MIB), Some(32));
        let unknown = ReportedCaches::default();
        assert_eq!(found(unknown, &OF_32_MIB), Some(32));
        assert_eq!(found(unknown, &OF_32_MIB[..4]), None);
    }

    #[test]
    fn busy_node_doubles_found_capacity_up_to_reported_size() {
        let of = |last, found| cautious(reported(last, 2), Bytes::mib(found)).0 >> 20;
        assert_eq!([of(300, 16), of(300, 32), of(32, 32), of(48, 32)], [32, 64, 32, 48]);
        // More than the reported size was found.
        assert_eq!(of(8, 32), 32);
        assert_eq!(cautious(ReportedCaches::default(), Bytes::mib(16)), Bytes::mib(32));
    }

    #[test]
    fn search_ends_beyond_the_caches_or_at_half_of_the_reported_size() {
        let needs =
            |reported, may_hide, shares: &[f64]| needs_more(reported, may_hide, &curve(shares));
        assert!(needs(reported(300, 4), true, &OF_32_MIB[..5]));
        assert!(!needs(reported(300, 4), true, &OF_32_MIB));
        // Without a hypervisor, the search ends at half of the reported size.
        assert!(needs(reported(32, 2), false, &OF_32_MIB[..3]));
        assert!(!needs(reported(32, 2), false, &OF_32_MIB[..4]));
        assert!(needs(reported(32, 2), true, &OF_32_MIB[..4]));
    }

    #[test]
    fn capacity_measurement_always_ends() {
        let source = nodegauge_machine::TopologySource::Live;
        let topology = Topology::load(&source).unwrap();
        let mut machine = Machine::default();
        assert_eq!(measure(&topology, &machine, MAX_TIME), None);
        machine.memory.available = Some(1 << 30);
        // On a busy node, the capacity that is found may be small.
        if let Some(found) = measure(&topology, &machine, MAX_TIME) {
            assert!(found.cache.bytes > 0 && found.cache.bytes <= 1 << 30, "{found:?}");
        }
    }
}
