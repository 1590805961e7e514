//! Length of the arrays: STREAM's rule, limited by the available memory.
//!
//! STREAM requires arrays of at least four times the sum of the last-level caches in use and at least a million
//! elements. With smaller arrays, caches would be measured. A machine may not be able to use all caches that it
//! reports: a guest (virtual machine) often reports the cache of its host. Therefore the rule is applied to the
//! measured capacity. It is applied to the reported size if no capacity was measured, or if the user requests it
//! (`4xLLC`).

use crate::Element;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::quantity::{MAX_BYTES, count_in_words, number_form, read_bytes};
pub use nodegauge_measure::stream_rule::{CacheCapacity, MIN_ARRAY_ELEMENTS, MIN_CACHE_MULTIPLE};
use nodegauge_measure::{Bytes, Failure, Fraction, Notice, NoticeId, SyntaxError};
use std::fmt;
use std::str::FromStr;

/// Size of an array if no cache size is known. It is more than four times the largest cache of current desktop
/// processors; servers report their cache sizes.
const UNKNOWN_CACHE_ARRAY: Bytes = Bytes::mib(512);

/// Value of the option `--size`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum SizeSpec {
    /// Size determined by STREAM's rule from the measured capacity of the last-level caches.
    #[default]
    Auto,
    /// Size of an array as a multiple of the total size of the last-level caches in use that the system reports.
    TimesLlc(f64),
    /// Size of an array in bytes.
    Bytes(Bytes),
    /// Number of elements of an array.
    Elements(u64),
    /// Size of all arrays together as a share of the available memory, 0 to 1.
    Share(Fraction),
}

impl fmt::Display for SizeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::TimesLlc(factor) => write!(f, "{factor}xLLC"),
            // The number of bytes is exact and without a blank, because the text is parsed again.
            Self::Bytes(bytes) => f.write_str(&bytes.exact_text()),
            Self::Elements(n) => write!(f, "{n}elements"),
            Self::Share(share) => write!(f, "{}%", share.0 * 100.0),
        }
    }
}

/// Example of valid sizes.
const EXAMPLE: &str = "--size 80MB or --size '10M elements'";
/// Error text for a number without a unit.
const NO_UNIT: &str = "expected a unit: the number may mean bytes or elements";

/// Returns the factor of a unit of elements, e.g. 1,000,000 for `M elements`; `None` for other units.
fn element_factor(unit: &str) -> Option<u64> {
    let prefix = unit.trim().strip_suffix("elements")?.trim_end();
    match prefix {
        "" => Some(1),
        "k" | "K" => Some(1_000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        _ => None,
    }
}

/// Maximum accepted number of elements or bytes.
const MAX_COUNT: u64 = MAX_BYTES.0;
/// Maximum accepted factor before `xLLC`.
const MAX_FACTOR: f64 = 1e6;

impl FromStr for SizeSpec {
    type Err = SyntaxError;

    /// Parses `auto`, `4xLLC`, a size with a unit (bytes per array), `10M elements`, or a share of the available memory
    /// (all arrays together). A number without a unit is refused, because it could mean bytes or elements.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("size", EXAMPLE, text);
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let number = cursor.take_while(|c| c.is_ascii_digit() || c == '.');
        if number.is_empty() {
            return Err(cursor.error("expected auto, or a number with a unit"));
        }
        let zero = cursor.error_at(0, "a size must be greater than zero");
        let huge = cursor.error_at(0, "the size exceeds the memory of any machine");
        if cursor.rest() == "xLLC" {
            let factor: f64 =
                number.parse().map_err(|_| cursor.error_at(0, "expected a factor before xLLC"))?;
            return match factor {
                x if x <= 0.0 => Err(zero),
                x if x > MAX_FACTOR => Err(huge),
                x => Ok(Self::TimesLlc(x)),
            };
        }
        if cursor.rest() == "%" {
            let percent: f64 =
                number.parse().map_err(|_| cursor.error_at(0, "expected a number before %"))?;
            return match percent {
                x if x <= 0.0 => Err(zero),
                x if x >= 100.0 => {
                    Err(cursor.error_at(0, "a share of the memory must be below 100 %"))
                }
                x => Ok(Self::Share(Fraction(x / 100.0))),
            };
        }
        if cursor.at_end() {
            let is_zero = number.bytes().all(|digit| digit == b'0');
            return Err(if is_zero { zero } else { cursor.error(NO_UNIT) });
        }
        if let Some(factor) = element_factor(cursor.rest()) {
            let mut count = Cursor::new("size", EXAMPLE, text);
            let elements = count.number("expected a number of elements")?;
            if count.position() < number.len() {
                return Err(count.error("a number of elements must be an integer"));
            }
            return match elements.checked_mul(factor) {
                Some(0) => Err(zero),
                Some(n) if n <= MAX_COUNT => Ok(Self::Elements(n)),
                _ => Err(huge),
            };
        }
        let mut either = Cursor::new("size", EXAMPLE, text);
        let bytes = read_bytes(&mut either)?;
        either.finish("expected nothing after the unit")?;
        match bytes.0 {
            0..8 => Err(either.error_at(0, "an array must have at least one element of 8 bytes")),
            n if n > MAX_COUNT => Err(huge),
            _ => Ok(Self::Bytes(bytes)),
        }
    }
}

/// Properties of the machine and the run that determine the length of the arrays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeConditions {
    /// Gauge that chooses the length.
    pub gauge: &'static str,
    /// Number of arrays that must fit in memory.
    pub arrays: usize,
    /// Sum of the last-level caches of the threads' CPUs and of the memory-side caches.
    pub caches: CacheCapacity,
    /// Available memory, within all limits; `None` if it is unknown.
    pub available: Option<Bytes>,
    /// Maximum share of the available memory for the arrays, 0 to 1.
    pub fraction: Fraction,
}

/// Length of the arrays, and its relation to STREAM's rule.
#[derive(Debug, Clone, PartialEq)]
pub struct ArraySize {
    /// Number of elements of an array.
    pub elements: u64,
    /// Size of one array divided by the total size of the last-level caches according to [`Self::rule`]; `None` if
    /// the caches are unknown.
    pub times_llc: Option<f64>,
    /// Caches with which the arrays are compared.
    pub rule: RuleCaches,
    /// True if STREAM's rule holds; `None` if the caches are unknown.
    pub follows_rule: Option<bool>,
    /// Notices about reductions and assumptions.
    pub notices: Vec<Notice>,
}

/// Caches with which STREAM's rule compares the arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleCaches {
    /// Measured caches.
    Measured {
        /// Measured capacity.
        capacity: Bytes,
        /// Size that the system reports; `None` if it is unknown.
        reported: Option<Bytes>,
    },
    /// Caches that were not measured, with the size that the system reports; `None` if it is unknown.
    Reported(Option<Bytes>),
}

impl RuleCaches {
    /// Returns the caches with which arrays of the size `spec` are compared.
    fn from_spec(spec: SizeSpec, caches: CacheCapacity) -> Self {
        match (spec, caches.measured) {
            (SizeSpec::TimesLlc(_), _) | (_, None) => Self::Reported(caches.reported),
            (_, Some(capacity)) => Self::Measured { capacity, reported: caches.reported },
        }
    }

    /// Returns the size of the caches; `None` if it is unknown.
    pub fn caches(self) -> Option<Bytes> {
        match self {
            Self::Measured { capacity, .. } => Some(capacity),
            Self::Reported(size) => size,
        }
    }

    /// Returns the rule for twice the measured capacity. It is used if arrays that satisfy this rule fit in caches
    /// nevertheless.
    #[must_use]
    pub fn doubled(self) -> Self {
        match self {
            Self::Measured { capacity, reported } => {
                Self::Measured { capacity: capacity * 2, reported }
            }
            Self::Reported(_) => self,
        }
    }

    /// Returns the measured capacity; `None` if arrays are compared with the reported size.
    pub fn measured(self) -> Option<Bytes> {
        match self {
            Self::Measured { capacity, .. } => Some(capacity),
            Self::Reported(_) => None,
        }
    }

    /// Returns the reported size; `None` if it is unknown.
    pub fn reported(self) -> Option<Bytes> {
        match self {
            Self::Measured { reported, .. } | Self::Reported(reported) => reported,
        }
    }
}

fn unknown_cache() -> Failure {
    Failure::missing("the size of the last-level cache is unknown")
        .hint("give a size, e.g. --size 1GiB")
}

fn unknown_memory() -> Failure {
    Failure::missing("the available memory is unknown: /proc/meminfo cannot be read")
        .hint("give a size, e.g. --size 1GiB")
}

fn share(fraction: Fraction) -> String {
    format!(", of which {fraction} may be used")
}

/// Returns the number of elements of an array by STREAM's rule, for last-level caches of this size.
pub fn stream_rule_elements(llc: Bytes, element: Element) -> u64 {
    let elements = (MIN_CACHE_MULTIPLE * llc.as_f64() / element.bytes() as f64).ceil() as u64;
    elements.max(MIN_ARRAY_ELEMENTS)
}

/// Returns the number of elements of an array of at least this many bytes.
fn elements_for_bytes(element: Element, bytes: f64) -> u64 {
    (bytes / element.bytes() as f64).ceil() as u64
}

/// Returns the number of elements per array with which `arrays` arrays fill a share of the memory.
pub fn elements_by_memory_share(
    memory: Bytes,
    share: Fraction,
    arrays: u64,
    element: Element,
) -> u64 {
    (memory.as_f64() * share.0 / (arrays * element.bytes()) as f64) as u64
}

/// Chooses the length of each array.
///
/// # Errors
/// Fails if an explicit size does not fit in memory, or if even the minimum number of elements of STREAM's rule
/// does not fit.
pub fn choose(
    spec: SizeSpec,
    element: Element,
    conditions: &SizeConditions,
) -> Result<ArraySize, Failure> {
    let arrays = conditions.arrays as u64;
    // If the available memory is unknown, a given size is used without a check.
    let available = match conditions.available {
        Some(available) => available,
        None if spec == SizeSpec::Auto => return Err(unknown_memory()),
        None => Bytes(u64::MAX),
    };
    let allowed = available.as_f64() * conditions.fraction.0;
    let max = (allowed / (arrays * element.bytes()) as f64) as u64;
    let mut notices = Vec::new();
    let rule = RuleCaches::from_spec(spec, conditions.caches);
    let mut elements = match spec {
        SizeSpec::Elements(n) => n,
        SizeSpec::Bytes(bytes) => bytes.0 / element.bytes(),
        SizeSpec::TimesLlc(factor) => {
            elements_for_bytes(element, factor * rule.caches().ok_or_else(unknown_cache)?.as_f64())
        }
        SizeSpec::Share(share) => {
            let memory = conditions.available.ok_or_else(unknown_memory)?;
            elements_by_memory_share(memory, share, arrays, element)
        }
        SizeSpec::Auto => match rule.caches() {
            Some(caches) => stream_rule_elements(caches, element),
            None => {
                let text = format!(
                    "the size of the last-level cache is unknown: using arrays of {UNKNOWN_CACHE_ARRAY}"
                );
                notices.push(Notice::new(NoticeId::Assumed, conditions.gauge, text));
                elements_for_bytes(element, UNKNOWN_CACHE_ARRAY.as_f64())
            }
        },
    }
    .max(1);
    let clamps = matches!(spec, SizeSpec::Auto) && max >= MIN_ARRAY_ELEMENTS;
    if elements > max {
        let array = Bytes(elements.saturating_mul(element.bytes()));
        if !clamps {
            let less = match (max * element.bytes()) >> 20 {
                0 => "free memory, or raise the limit (ulimit -v, ulimit -d, the control group)"
                    .to_owned(),
                fits => format!("use --size {fits}MiB or less"),
            };
            let more = if conditions.fraction < Fraction(0.95) {
                ", or a larger --memory-fraction"
            } else {
                ""
            };
            return Err(Failure::missing(format!(
                "{} of {array} {} {}, but only {} of memory is available{}",
                count_in_words(arrays as usize, "array"),
                number_form(arrays as usize, "needs", "need"),
                Bytes(array.0.saturating_mul(arrays)),
                available,
                share(conditions.fraction),
            ))
            .hint(format!("{less}{more}")));
        }
        elements = max;
        let text = format!(
            "arrays reduced from {array} to {} each: {} of memory is available{}",
            Bytes(elements * element.bytes()),
            available,
            share(conditions.fraction)
        );
        notices.push(Notice::new(NoticeId::Clamped, conditions.gauge, text));
    }
    Ok(ArraySize::new(elements, element, rule, notices))
}

impl ArraySize {
    /// Compares arrays of `elements` elements with the caches of `rule`.
    pub fn new(elements: u64, element: Element, rule: RuleCaches, notices: Vec<Notice>) -> Self {
        let bytes = (elements * element.bytes()) as f64;
        let times_llc = rule.caches().map(|caches| bytes / caches.as_f64());
        Self {
            elements,
            times_llc,
            rule,
            // The tolerance permits the rounding to whole elements.
            follows_rule: times_llc
                .map(|times| times >= MIN_CACHE_MULTIPLE * 0.999 && elements >= MIN_ARRAY_ELEMENTS),
            notices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn conditions(llc_mib: u64, available_mib: u64) -> SizeConditions {
        SizeConditions {
            gauge: "memory",
            arrays: 3,
            caches: CacheCapacity { reported: Some(Bytes::mib(llc_mib)), measured: None },
            available: Some(Bytes::mib(available_mib)),
            fraction: Fraction(0.8),
        }
    }

    #[test]
    fn default_size_follows_stream_rule() {
        let size = choose(SizeSpec::Auto, Element::F64, &conditions(32, 20_000)).unwrap();
        assert_eq!((size.elements, size.follows_rule), (1 << 24, Some(true)));
        let small = choose(SizeSpec::Auto, Element::F64, &conditions(1, 20_000)).unwrap();
        assert_eq!(small.elements, MIN_ARRAY_ELEMENTS);
    }

    #[test]
    fn measured_capacity_replaces_the_reported_size() {
        let caches =
            CacheCapacity { measured: Some(Bytes::mib(32)), reported: Some(Bytes::mib(300)) };
        let machine = SizeConditions { caches, ..conditions(300, 20_000) };
        let chosen = |spec| {
            let size = choose(spec, Element::F64, &machine).unwrap();
            (Bytes(size.elements * 8), size.times_llc, size.follows_rule, size.rule.measured())
        };
        let measured = Some(Bytes::mib(32));
        assert_eq!(chosen(SizeSpec::Auto), (Bytes::mib(128), Some(4.0), Some(true), measured));
        let times = SizeSpec::TimesLlc(4.0);
        assert_eq!(chosen(times), (Bytes::mib(1200), Some(4.0), Some(true), None));
        let given = SizeSpec::Bytes(Bytes::mib(64));
        assert_eq!(chosen(given), (Bytes::mib(64), Some(2.0), Some(false), measured));
    }

    #[test]
    fn scarce_memory_reduces_default_size() {
        let cut = choose(SizeSpec::Auto, Element::F64, &conditions(32, 300)).unwrap();
        assert_eq!(cut.follows_rule, Some(false));
        assert!(
            cut.notices[0].message.contains("reduced from 128 MiB to 80 MiB"),
            "{:?}",
            cut.notices
        );
        let error = choose(SizeSpec::Bytes(Bytes::gib(1)), Element::F64, &conditions(32, 1024));
        assert_eq!(
            error.unwrap_err().to_string(),
            "3 arrays of 1 GiB need 3 GiB, but only 1 GiB of memory is available, of which 80 % may \
             be used\nhint: use --size 273MiB or less, or a larger --memory-fraction"
        );
        assert!(choose(SizeSpec::Auto, Element::F64, &conditions(32, 10)).is_err());
    }

    #[test]
    fn fourth_array_needs_additional_memory() {
        let four = |conditions: SizeConditions| SizeConditions { arrays: 4, ..conditions };
        let elements =
            |conditions| choose(SizeSpec::Auto, Element::F64, &conditions).unwrap().elements;
        let enough = conditions(32, 20_000);
        assert_eq!(elements(four(enough)), elements(enough));
        let scarce = conditions(32, 300);
        assert_eq!((elements(scarce), elements(four(scarce))), (10 << 20, 60 << 17));
        let size = SizeSpec::Bytes(Bytes::gib(1));
        let error = choose(size, Element::F64, &four(conditions(32, 4096))).unwrap_err();
        assert!(error.to_string().starts_with("4 arrays of 1 GiB need 4 GiB, "), "{error}");
        assert!(choose(size, Element::F64, &conditions(32, 4096)).is_ok());
    }

    #[test]
    fn memory_share_includes_all_arrays() {
        let share: SizeSpec = "60%".parse().unwrap();
        let size = choose(share, Element::F64, &conditions(32, 1000)).unwrap();
        assert_eq!(3 * size.elements * 8, 600 << 20);
        let above = choose(SizeSpec::Share(Fraction(0.9)), Element::F64, &conditions(32, 1000));
        let error = above.unwrap_err().to_string();
        assert!(error.ends_with("or a larger --memory-fraction"), "{error}");
        let unknown = SizeConditions { available: None, ..conditions(32, 1000) };
        assert!(choose(share, Element::F64, &unknown).is_err());
    }

    #[test]
    fn invalid_size_is_reported_with_column() {
        for (text, at) in [
            ("", 0),
            ("auto4", 0),
            ("4xL", 1),
            ("1.5", 3),
            ("1000000", 7),
            ("1.5M elements", 1),
            ("0", 0),
            ("2GiB,", 4),
            ("12Qb", 2),
            ("0%", 0),
            ("100%", 0),
            ("6.0.1%", 0),
        ] {
            assert_eq!(text.parse::<SizeSpec>().unwrap_err().at, at, "{text}");
        }
    }

    proptest! {
        #[test]
        fn size_specification_round_trips(spec in prop_oneof![
            Just(SizeSpec::Auto),
            (1u32..1000).prop_map(|n| SizeSpec::TimesLlc(f64::from(n) / 8.0)),
            (8u64..=MAX_COUNT).prop_map(|n| SizeSpec::Bytes(Bytes(n))),
            (1u64..=MAX_COUNT).prop_map(SizeSpec::Elements),
            (1u32..100).prop_map(|n| SizeSpec::Share(Fraction(f64::from(n) / 100.0))),
        ]) {
            prop_assert_eq!(spec.to_string().parse::<SizeSpec>(), Ok(spec));
        }

        #[test]
        fn size_parser_never_panics(text in ".{0,12}") {
            let _ = text.parse::<SizeSpec>();
        }
    }
}
