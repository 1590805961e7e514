//! Sizes of the arrays and working sets of a check, chosen so that its measurements end before the deadline.
//!
//! The commands use four times the capacity of the last-level caches by default. On a busy node this may take longer
//! than a check. Therefore a child process measures the capacity of the caches, and the rates of first touch and of
//! later passes. From these, the time of a measurement with a given size is estimated. The size in the reference is
//! preferred, because figures of different sizes are not compared.

use super::{Check, Deadline};
use nodegauge_curves::{TouchRates, memory_working_set};
use nodegauge_measure::record::{Machine, MeasuredCache};
use nodegauge_measure::{Bytes, stream_rule};
use nodegauge_toolchain::{ChildEnd, CommandLine, Job};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Name of the hidden command that measures the rates of first touch and of later passes, and prints the
/// [`SizingProbeResult`] as JSON. Its argument is the number of threads.
pub const MEASURE_TOUCH_COMMAND: &str = "measure-touch";
/// Size of a cache line, bytes.
const LINE: u64 = 64;
/// Divisor of the available memory that gives the maximum memory of the probe.
const MEMORY_DIVISOR: u64 = 8;
/// Maximum duration of the probe.
const MAX_PROBE_TIME: Duration = Duration::from_secs(2);
/// Smallest size that a check chooses: arrays of a million elements.
const MIN_SIZE: Bytes = Bytes::mib(8);
/// Number of arrays of `stream`.
const ARRAYS: f64 = 3.0;

/// Measured properties of the memory, from which the sizes are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizingProbeResult {
    /// Rates of first touch and of later passes.
    pub rates: TouchRates,
    /// Capacity of the last-level caches; `None` if it is unknown.
    pub cache: Option<MeasuredCache>,
}

/// Runs the probe in a child process; returns `None` if it fails.
pub(super) fn probe(machine: &Machine, deadline: Deadline) -> Option<SizingProbeResult> {
    let program = nodegauge_os::own_program().ok()?;
    let block = TouchRates::BLOCK;
    let max = machine.memory.available.unwrap_or(block.0) / MEMORY_DIVISOR / block.0;
    let threads = u64::from(machine.processor.threads).clamp(1, max.max(1));
    let words = [MEASURE_TOUCH_COMMAND.to_owned(), threads.to_string()];
    let job =
        Job::new(CommandLine::new(program, words), deadline.remaining_time().min(MAX_PROBE_TIME));
    let ended = nodegauge_toolchain::run(&job, &|| false).ok()?;
    match ended.end {
        ChildEnd::Exited(_) => serde_json::from_str(&ended.stdout).ok(),
        // The probe was killed, i.e. even one thread could not touch its blocks in time.
        ChildEnd::Killed(_) => Some(SizingProbeResult {
            rates: TouchRates::from_block_time(MAX_PROBE_TIME),
            cache: None,
        }),
    }
}

/// Data of a command whose size the check can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SizedData {
    /// Size of the arrays of `stream`.
    Arrays,
    /// Size of the largest working set of `memory latency`.
    Set,
}

impl SizedData {
    /// Returns the size that the command chooses by default; `None` if it is unknown.
    fn usual(self, machine: &Machine) -> Option<Bytes> {
        if self == Self::Arrays {
            return stream_rule::min_array_bytes(machine);
        }
        Some(memory_working_set(stream_rule::last_level_cache_capacity(machine)))
    }

    /// Returns the minimum time of a measurement with this size. `caches` is the capacity of the last-level caches.
    fn time(self, size: Bytes, caches: Bytes, rates: &TouchRates) -> Duration {
        let seconds = match self {
            // The arrays are filled once; the check at the end takes half of that time. Three rounds and a warm-up of
            // Copy, Scale, Add and Triad move ten arrays each. The choice of the loops takes about as long as two
            // rounds.
            Self::Arrays => {
                let rounds = 6.0;
                let pass = 10.0 / rates.later;
                size.as_f64() * (1.5 * ARRAYS / rates.first + rounds * pass)
            }
            // Regions of 1.2 working sets are allocated on two kinds of pages. The chain through the largest set is
            // written on each kind, with at least four lines at the same time. One or two passes, over as many lines as
            // the caches hold, warm it up. Smaller sets are left out if time is short.
            Self::Set => {
                let lines = size.as_f64() / LINE as f64;
                let held = lines.min(caches.as_f64() / LINE as f64);
                let each =
                    1.2 * size.as_f64() / rates.single + (lines / 4.0 + 1.5 * held) * rates.load;
                2.0 * each
            }
        };
        Duration::from_secs_f64(seconds.min(1e6))
    }
}

/// Size that a check gives to the data of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataSize {
    /// Size that is given to the command; `None` for the default of the command.
    pub(super) given: Option<Bytes>,
    /// Default size of the command, if the given size is smaller; otherwise `None`.
    pub(super) usual: Option<Bytes>,
    /// True if the default and the size of the reference take too long, so that a smaller size is given.
    pub(super) is_reduced: bool,
}

impl DataSize {
    /// Default of the command.
    pub(super) const DEFAULT: Self = Self { given: None, usual: None, is_reduced: false };

    /// Chooses a size with which a measurement takes at most `max`. The default size must take at most half of `max`,
    /// so that it can be measured twice. Other sizes must take at most a quarter of `max`, because a later check with
    /// the same size may be slower. They are powers of two, so that nodes of one kind choose the same size.
    pub(super) fn new(
        what: SizedData,
        reference: Option<u64>,
        machine: &Machine,
        rates: &TouchRates,
        max: Duration,
    ) -> Self {
        let caches =
            stream_rule::last_level_cache_capacity(machine).bytes().unwrap_or(Bytes(u64::MAX));
        let usual = what.usual(machine);
        let reference = reference.map(Bytes);
        if let Some(size) = reference.filter(|size| what.time(*size, caches, rates) <= max) {
            return Self { given: Some(size), usual: larger_than(size, usual), is_reduced: false };
        }
        let usual_fits = usual.is_none_or(|usual| what.time(usual, caches, rates) <= max / 2);
        if reference.is_none() && usual_fits {
            return Self::DEFAULT;
        }
        let mut size = MIN_SIZE;
        loop {
            let next = Bytes(size.0 * 2);
            let is_usual = larger_than(next, usual).is_none();
            if is_usual || what.time(next, caches, rates) > max / 4 {
                break;
            }
            size = next;
        }
        Self { given: Some(size), usual: larger_than(size, usual), is_reduced: true }
    }
}

/// Returns the default size `usual` if it is larger than `size`.
fn larger_than(size: Bytes, usual: Option<Bytes>) -> Option<Bytes> {
    usual.filter(|usual| size < *usual)
}

impl Check<'_> {
    /// Returns the size in the reference for the figures of a test.
    pub(super) fn reference_size(&self, test: &str) -> Option<u64> {
        let mut figures = self.group.iter().flat_map(|group| &group.figures);
        figures.find(|figure| figure.key.test == test).and_then(|figure| figure.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::{Cache, CacheKind};

    const RATES: TouchRates = TouchRates { first: 4e9, later: 20e9, single: 2e9, load: 120e-9 };
    const MAX_TIME: Duration = Duration::from_secs(6);

    fn guest(llc: Bytes) -> Machine {
        let cache = Cache {
            level: 3,
            kind: CacheKind::Unified,
            bytes: Some(llc.0),
            count: 1,
            cores: 2,
            least_cores: None,
            line: None,
        };
        Machine {
            caches: vec![cache],
            virtualisation: Some("kvm".to_owned()),
            ..Machine::default()
        }
    }

    #[test]
    fn too_large_reported_cache_gives_a_smaller_size() {
        let small = guest(Bytes::mib(32));
        let large = guest(Bytes::mib(300));
        for what in [SizedData::Arrays, SizedData::Set] {
            assert_eq!(DataSize::new(what, None, &small, &RATES, MAX_TIME), DataSize::DEFAULT);
            let reduced = DataSize::new(what, None, &large, &RATES, MAX_TIME);
            let given = reduced.given.unwrap();
            assert_eq!(reduced.usual, Some(Bytes::mib(1200)));
            assert!(reduced.is_reduced && given.0.is_power_of_two(), "{reduced:?}");
            assert!(given >= Bytes::mib(64), "{what:?}: {given}");
            let time = what.time(given, Bytes::mib(300), &RATES);
            assert!(time <= MAX_TIME / 4, "{what:?}: {time:?}");
        }
    }

    #[test]
    fn reference_size_is_used_if_it_is_fast_enough() {
        let large = guest(Bytes::mib(300));
        let of = |size: Bytes, rates| {
            DataSize::new(SizedData::Arrays, Some(size.0), &large, rates, MAX_TIME)
        };
        let same = of(Bytes::mib(100), &RATES);
        assert_eq!((same.given, same.is_reduced), (Some(Bytes::mib(100)), false));
        // This size takes longer than a quarter of the time, but less than all of it, so it is used for the reference
        // only.
        let longer = of(Bytes::mib(400), &RATES);
        assert_eq!((longer.given, longer.is_reduced), (Some(Bytes::mib(400)), false));
        let usual = of(Bytes::mib(1200), &RATES);
        assert_eq!(
            (usual.given, usual.usual, usual.is_reduced),
            (Some(Bytes::mib(1200)), None, false)
        );
        let slow = TouchRates { first: 1e9, ..RATES };
        let reduced = of(Bytes::mib(1200), &slow);
        assert!(reduced.is_reduced && reduced.given < Some(Bytes::mib(256)), "{reduced:?}");
    }

    #[test]
    fn slow_memory_gives_the_minimum_size() {
        let stopped = TouchRates { first: 1e6, later: 1e6, single: 1e6, load: 1e-4 };
        for machine in [guest(Bytes::mib(32)), Machine::default()] {
            let size = DataSize::new(SizedData::Set, None, &machine, &stopped, MAX_TIME);
            assert_eq!(size.given, Some(MIN_SIZE));
            assert!(size.is_reduced);
        }
    }
}
