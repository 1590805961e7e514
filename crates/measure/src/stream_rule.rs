//! STREAM's rule for the length of arrays, as numbers that both the gauges and the examination of a node use.

use crate::Bytes;
use crate::quantity::significant;
use crate::record::Machine;

/// Minimum ratio of an array to the sum of last-level caches by STREAM's rule.
pub const RULE_FACTOR: f64 = 4.0;
/// Minimum number of elements of an array by STREAM's rule.
pub const RULE_ELEMENTS: u64 = 1_000_000;
/// Minimum total size of all arrays in a guest, regardless of the cache size that the guest reports. It is more than
/// four times the last-level cache that one guest can use on current hosts (some hundred MiB on one die).
pub const GUEST_LEAST: Bytes = Bytes::gib(1);

/// Number of arrays of STREAM.
const ARRAYS: u64 = 3;
/// End of the reason why figures of arrays below the rule are suspect.
const REQUIRED: &str = "STREAM's rule requires at least 4 times and a million elements";

/// Returns the reason why figures of arrays of `times` the last-level caches are suspect.
pub fn below_rule(times: f64) -> String {
    format!("arrays are {} times the last-level caches in use; {REQUIRED}", significant(times))
}

/// True if a figure is suspect for this reason because its arrays are below the rule.
pub fn is_below_rule(reason: &str) -> bool {
    reason.ends_with(REQUIRED)
}

/// Returns the size of an array by the rule if all CPUs of a machine are used; `None` if its caches are unknown.
pub fn array_bytes(machine: &Machine) -> Option<Bytes> {
    let data_caches = machine.caches.iter().filter(|cache| cache.holds_data());
    let last = data_caches.max_by_key(|cache| cache.level)?;
    let caches = Bytes(last.bytes?).as_f64() * f64::from(last.count);
    let guest = machine.virtualisation.is_some();
    let least = if guest { GUEST_LEAST.0 / ARRAYS } else { 0 };
    Some(Bytes(((RULE_FACTOR * caches) as u64).max(8 * RULE_ELEMENTS).max(least)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_of_the_rule_is_recognised() {
        let reason = below_rule(0.21);
        assert!(is_below_rule(&reason) && reason.contains("0.21"), "{reason}");
        assert!(reason.contains(&format!("at least {RULE_FACTOR:.0} times")), "{reason}");
        assert!(!is_below_rule("steal time"));
    }
}
