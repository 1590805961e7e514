//! Rule for figures of memory whose data may be in caches: the only code that decides whether a bandwidth or a latency
//! is suspect for this reason. The functions are pure.
//!
//! The bandwidth of a working set is suspect if the set is smaller than four times the last-level caches in use, as in
//! STREAM's rule. The latency of a chase is compared with that of flushed lines, which no cache holds. If the processor
//! cannot flush lines, the rule for bandwidths applies to the set of the chase.

use nodegauge_chase::{TIMES_LLC, is_cached};
use nodegauge_measure::Bytes;
use nodegauge_measure::stream_rule::CacheCapacity;

/// Reason why the latency of a chase is suspect if its loads are faster than loads of flushed lines.
const FAST_CHASE: &str =
    "loads of the chase are faster than loads of flushed lines, so caches hold part of its set";

/// Returns the reason why the bandwidth of a working set is suspect if caches may hold part of the set; `None` if the
/// set is large enough, or if the size of the caches is unknown. `what` names the set in the plural, e.g. `arrays`.
pub(crate) fn small_set_reason(what: &str, set: Bytes, caches: CacheCapacity) -> Option<String> {
    let llc = caches.bytes()?;
    (set.0 < TIMES_LLC * llc.0).then(|| {
        format!(
            "{what} of {set} are smaller than four times the last-level caches in use, which may hold part of them"
        )
    })
}

/// Chase whose latency is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeasuredChase {
    /// Time of a load, seconds.
    pub step: f64,
    /// Time of a load of a flushed line, seconds; `None` if the processor cannot flush lines.
    pub flushed: Option<f64>,
    /// Working set of the chase.
    pub set: Bytes,
}

impl MeasuredChase {
    /// Returns the reason why the latency is suspect if caches hold part of the set; `None` if memory serves all loads.
    pub(crate) fn doubt(&self, caches: CacheCapacity) -> Option<String> {
        match self.flushed {
            Some(flushed) => is_cached(self.step, flushed).then(|| FAST_CHASE.to_owned()),
            None => small_set_reason("chains", self.set, caches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caches(mib: u64) -> CacheCapacity {
        CacheCapacity { reported: Some(Bytes::mib(mib)), measured: None }
    }

    #[test]
    fn set_below_four_times_the_caches_is_suspect() {
        let reason = |mib| small_set_reason("arrays", Bytes::mib(mib), caches(32));
        assert_eq!(reason(128), None);
        assert!(reason(127).unwrap().starts_with("arrays of 127 MiB are smaller than four times"));
        assert_eq!(small_set_reason("arrays", Bytes::mib(1), CacheCapacity::default()), None);
    }

    #[test]
    fn chase_faster_than_flushed_lines_is_suspect() {
        let chase = |step, flushed| MeasuredChase { step, flushed, set: Bytes::mib(64) };
        // The measured time has precedence over the size.
        assert_eq!(chase(140e-9, Some(145e-9)).doubt(caches(32)), None);
        assert_eq!(chase(5e-9, Some(145e-9)).doubt(caches(1)).unwrap(), FAST_CHASE);
        assert_eq!(chase(140e-9, None).doubt(caches(16)), None);
        assert!(chase(5e-9, None).doubt(caches(32)).unwrap().starts_with("chains of 64 MiB"));
    }
}
