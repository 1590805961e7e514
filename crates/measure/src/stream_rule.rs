//! STREAM's rule for the length of arrays, for the gauges and for `check`.
//!
//! The rule requires arrays of at least four times the last-level caches. A guest often reports the caches of its
//! host, although it can use only a part of them. If the capacity was measured ([`MeasuredCache`]), it replaces the
//! reported size.

use crate::Bytes;
use crate::quantity::format_significant;
use crate::record::{Cache, Machine, MeasuredCache};

/// Minimum size of an array divided by the total size of the last-level caches.
pub const MIN_CACHE_MULTIPLE: f64 = 4.0;
/// Minimum number of elements of an array.
pub const MIN_ARRAY_ELEMENTS: u64 = 1_000_000;

/// End of the reason for figures of arrays that are too small.
const REQUIRED: &str = "STREAM's rule requires at least 4 times and a million elements";

/// Returns the reason why figures are suspect if an array is only `times` as large as the
/// last-level caches.
pub fn below_rule_reason(times: f64) -> String {
    format!(
        "arrays are {} times the last-level caches in use; {REQUIRED}",
        format_significant(times)
    )
}

/// True for a reason of [`below_rule_reason`].
pub fn is_below_rule_reason(reason: &str) -> bool {
    reason.ends_with(REQUIRED)
}

/// Total size of last-level caches: the size that the system reports, and the capacity that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCapacity {
    /// Reported size; `None` if it is unknown.
    pub reported: Option<Bytes>,
    /// Measured capacity; `None` if it was not measured.
    pub measured: Option<Bytes>,
}

impl CacheCapacity {
    /// Creates the capacity of caches with this reported size, which are some or all of the
    /// measured caches.
    pub fn new(reported: Option<Bytes>, measured: Option<&MeasuredCache>) -> Self {
        let measured = measured.map(|all| Bytes(all.part_capacity(reported.map(|bytes| bytes.0))));
        Self { reported, measured }
    }

    /// Returns the measured capacity, or the reported size if it was not measured; `None` if both
    /// are unknown.
    pub fn bytes(&self) -> Option<Bytes> {
        self.measured.or(self.reported)
    }

    /// Adds the size of caches whose capacity cannot be measured.
    #[must_use]
    pub fn with_unmeasured(self, more: Bytes) -> Self {
        let [reported, measured] =
            [self.reported, self.measured].map(|known| known.map(|bytes| Bytes(bytes.0 + more.0)));
        Self { reported, measured }
    }
}

/// Returns the last-level caches of a machine that contain data; `None` if they are unknown.
fn last_level(machine: &Machine) -> Option<&Cache> {
    let data_caches = machine.caches.iter().filter(|cache| cache.contains_data());
    data_caches.max_by_key(|cache| cache.level)
}

/// Returns the size of one last-level cache of a machine.
pub fn last_level_cache_capacity(machine: &Machine) -> CacheCapacity {
    let reported = last_level(machine).and_then(|cache| cache.bytes).map(Bytes);
    CacheCapacity::new(reported, machine.measured_cache.as_ref())
}

/// Returns the minimum size of an array if all CPUs of a machine are used; `None` if its caches are
/// unknown.
pub fn min_array_bytes(machine: &Machine) -> Option<Bytes> {
    let capacity = last_level_cache_capacity(machine).bytes()?.as_f64();
    let reported = last_level(machine).and_then(|last| last.bytes);
    // If the measured capacity differs from the reported size, all caches are assumed to differ by the same factor.
    let caches = match machine.last_level_cache_bytes().zip(reported) {
        Some((all, one)) if one > 0 => all.as_f64() * capacity / one as f64,
        _ => capacity,
    };
    Some(Bytes(((MIN_CACHE_MULTIPLE * caches) as u64).max(8 * MIN_ARRAY_ELEMENTS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CacheKind;

    #[test]
    fn arrays_are_four_times_the_caches_of_all_sizes() {
        let cache = |mebi: u64| Cache {
            level: 3,
            kind: CacheKind::Unified,
            bytes: Some(mebi << 20),
            count: 1,
            cores: 8,
            least_cores: None,
            line: None,
        };
        let machine = Machine { caches: vec![cache(32), cache(96)], ..Machine::default() };
        assert_eq!(machine.last_level_cache_bytes(), Some(Bytes(128 << 20)));
        assert_eq!(min_array_bytes(&machine), Some(Bytes(512 << 20)));
        let equal = Machine { caches: vec![Cache { count: 2, ..cache(32) }], ..machine };
        assert_eq!(min_array_bytes(&equal), Some(Bytes(256 << 20)));
    }

    #[test]
    fn stream_rule_reason_is_recognised() {
        let reason = below_rule_reason(0.21);
        assert!(is_below_rule_reason(&reason) && reason.contains("0.21"), "{reason}");
        assert!(reason.contains(&format!("at least {MIN_CACHE_MULTIPLE:.0} times")), "{reason}");
        assert!(!is_below_rule_reason("steal time"));
    }

    #[test]
    fn part_of_caches_has_proportional_capacity() {
        let all = MeasuredCache { bytes: 32 << 20, reported: Some(300 << 20) };
        let of = |mib| CacheCapacity::new(Some(Bytes::mib(mib)), Some(&all)).bytes();
        assert_eq!((of(300), of(150)), (Some(Bytes::mib(32)), Some(Bytes::mib(16))));
        let unknown = CacheCapacity::new(None, Some(&all));
        assert_eq!(unknown.bytes(), Some(Bytes::mib(32)));
        let not_measured = CacheCapacity::new(Some(Bytes::mib(8)), None);
        assert_eq!(not_measured.bytes(), Some(Bytes::mib(8)));
        assert_eq!(not_measured.with_unmeasured(Bytes::mib(1)).bytes(), Some(Bytes::mib(9)));
    }
}
