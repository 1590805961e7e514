//! STREAM's rule for the length of arrays, as numbers that both the gauges and the examination of a node use.

use crate::Bytes;

/// Minimum ratio of an array to the sum of last-level caches by STREAM's rule.
pub const RULE_FACTOR: f64 = 4.0;
/// Minimum number of elements of an array by STREAM's rule.
pub const RULE_ELEMENTS: u64 = 1_000_000;
/// Minimum total size of all arrays in a guest, regardless of the cache size that the guest reports. It is more than
/// four times the last-level cache that one guest can use on current hosts (some hundred MiB on one die).
pub const GUEST_LEAST: Bytes = Bytes::gib(1);
