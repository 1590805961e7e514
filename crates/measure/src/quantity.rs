//! Quantities with the unit in the type; printing and parsing of quantities.
//!
//! Rates and frequencies have SI prefixes (1 GB/s = 1e9 B/s). Sizes are printed in binary units (KiB, MiB, GiB) and may
//! be typed in binary or decimal units. The stored number is in base units, as in records.

use crate::grammar::{Cursor, SyntaxError};
use crate::unit::{ScaledUnit, Unit, UnitPrefix};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::time::Duration;

pub use crate::unit::{format_significant, format_trimmed};

/// A size or an amount of data, in bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// Declares types for quantities with one unit each. In records the values are plain numbers.
macro_rules! quantities {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl $name {
            /// Compares two values in the total order of [`f64::total_cmp`].
            pub fn total_cmp(&self, other: &Self) -> Ordering {
                self.0.total_cmp(&other.0)
            }
            /// Returns the larger of two values; a value that is not a number is ignored.
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }
            /// Returns the smaller of two values; a value that is not a number is ignored.
            pub fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }

        impl Div for $name {
            type Output = f64;
            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                Self(items.map(|item| item.0).sum())
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                <f64 as JsonSchema>::inline_schema()
            }
            fn schema_name() -> Cow<'static, str> {
                <f64 as JsonSchema>::schema_name()
            }
            fn schema_id() -> Cow<'static, str> {
                <f64 as JsonSchema>::schema_id()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                <f64 as JsonSchema>::json_schema(generator)
            }
        }
    )*};
}

quantities! {
    /// A time, in seconds.
    Seconds;
    /// A data rate, in bytes per second.
    BytesPerSec;
    /// A rate of floating-point operations, in operations per second.
    FlopsPerSec;
    /// A rate of transfers over a bus or a link, in transfers per second.
    TransfersPerSec;
    /// A clock frequency, in cycles per second.
    Hertz;
    /// An energy, in joules.
    Joules;
    /// A power, in watts.
    Watts;
    /// A share of a total or of a limit; 1 is the total or the limit itself.
    Fraction;
}

impl Bytes {
    /// Returns `n` KiB (1024 bytes each).
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }
    /// Returns `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }
    /// Returns `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
    /// Formats the size in the largest unit up to GiB of which it is a multiple, without a blank, for texts that
    /// are parsed again: `3KiB`, `1000B`.
    pub fn exact_text(self) -> String {
        let mut prefixes = [UnitPrefix::Gibi, UnitPrefix::Mebi, UnitPrefix::Kibi].into_iter();
        let prefix = prefixes.find(|prefix| self.0 > 0 && self.0.is_multiple_of(prefix.multiple()));
        let prefix = prefix.unwrap_or(UnitPrefix::One);
        format!("{}{}B", self.0 / prefix.multiple(), prefix.symbol())
    }
    /// Returns the number of bytes as a floating-point number.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Multiplies a size. A product beyond 64 bits becomes the largest value, which exceeds the memory
/// of any machine.
impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Div<Seconds> for Bytes {
    type Output = BytesPerSec;
    fn div(self, time: Seconds) -> BytesPerSec {
        BytesPerSec(self.as_f64() / time.0)
    }
}

/// Returns the time to transfer an amount of data at a rate; infinite for a rate of zero.
impl Div<BytesPerSec> for Bytes {
    type Output = Seconds;
    fn div(self, rate: BytesPerSec) -> Seconds {
        Seconds(self.as_f64() / rate.0)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self(0), Add::add)
    }
}

/// Returns the energy efficiency, in operations per second and watt.
impl Div<Watts> for FlopsPerSec {
    type Output = f64;
    fn div(self, power: Watts) -> f64 {
        self.0 / power.0
    }
}

impl Div<Seconds> for Joules {
    type Output = Watts;
    fn div(self, time: Seconds) -> Watts {
        Watts(self.0 / time.0)
    }
}

impl Seconds {
    /// Maximum of [`Seconds::duration`], more than a century. Sums and multiples of it are still
    /// valid durations.
    pub const MAX_DURATION: Duration = Duration::from_secs(u32::MAX as u64);

    /// Returns a predicted time as a duration. A prediction from unknown rates may be infinite,
    /// negative or not a number; the result is then [`Seconds::MAX_DURATION`].
    pub fn duration(self) -> Duration {
        let duration = Duration::try_from_secs_f64(self.0).unwrap_or(Self::MAX_DURATION);
        duration.min(Self::MAX_DURATION)
    }
}

impl From<Duration> for Seconds {
    fn from(time: Duration) -> Self {
        Self(time.as_secs_f64())
    }
}

/// Returns a count with its noun: `1 cache`, `2 caches`, `2 entries`, `2 arrays`, `2 passes`.
pub fn count_in_words(count: usize, noun: &str) -> String {
    if count == 1 {
        return format!("1 {noun}");
    }
    let is_sibilant = ["s", "x", "ch"].iter().any(|end| noun.ends_with(end));
    let after_vowel = ["ay", "ey", "oy", "uy"].iter().any(|end| noun.ends_with(end));
    match noun.strip_suffix('y') {
        Some(stem) if !after_vowel => format!("{count} {stem}ies"),
        _ if is_sibilant => format!("{count} {noun}es"),
        _ => format!("{count} {noun}s"),
    }
}

/// Returns the form of a word that belongs to a count: `singular` for 1.
pub fn number_form<'w>(count: usize, singular: &'w str, plural: &'w str) -> &'w str {
    if count == 1 { singular } else { plural }
}

/// Writes `text`, padded to the width that the format string requests.
///
/// The caller must not request a precision. A quantity determines its number of digits itself, and
/// [`fmt::Formatter::pad`] would cut off the text after that many characters.
fn padded(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    debug_assert!(
        f.precision().is_none(),
        "the quantity {text} must be formatted without a precision"
    );
    f.pad(text)
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut prefixes = UnitPrefix::SIZE_PREFIXES.into_iter();
        let text = match prefixes.find(|prefix| self.0 >= prefix.multiple()) {
            Some(prefix) if self.0.is_multiple_of(prefix.multiple()) => {
                format!("{} {}B", self.0 / prefix.multiple(), prefix.symbol())
            }
            Some(prefix) => {
                format!("{:.1} {}B", self.as_f64() / prefix.factor(), prefix.symbol())
            }
            None => format!("{} B", self.0),
        };
        padded(f, &text)
    }
}

macro_rules! display_by_unit {
    ($($type:ident $unit:ident),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                padded(f, &Unit::$unit.in_words(self.0))
            }
        }
    )*};
}
display_by_unit!(
    BytesPerSec BytesPerSecond, FlopsPerSec FlopsPerSecond, Hertz Hertz, Seconds Seconds
);

impl Fraction {
    /// Formats the share as a whole number of percent; a share below 1 % has a digit after the
    /// point, e.g. `0.5 %`.
    pub fn in_whole_percent(self) -> String {
        if self.0.abs() < 0.00995 {
            return self.to_string();
        }
        format!("{:.0} %", self.0 * 100.0)
    }

    /// Formats the share in percent with one digit after the point, for columns of tables: `97.0 %`.
    pub fn in_tenths(self) -> String {
        format!("{:.1} %", unsigned_zero(self.0 * 100.0, 10.0))
    }

    /// Formats the share as a whole number of percent without a blank, for lines with little space: `97%`.
    pub fn in_compact_percent(self) -> String {
        format!("{:.0}%", unsigned_zero(self.0 * 100.0, 1.0))
    }

    /// Returns the share rounded down to a whole number of percent. A share below a bound is thus
    /// never displayed as the bound.
    pub fn rounded_down(self) -> Self {
        Self((self.0 * 100.0).floor() / 100.0)
    }

    /// Returns the share rounded up to a whole number of percent, for limits. A value at the
    /// displayed limit is thus never below the limit.
    pub fn rounded_up(self) -> Self {
        Self((self.0 * 100.0).ceil() / 100.0)
    }

    /// Returns the share rounded down to a tenth of a percent.
    pub fn rounded_down_to_tenths(self) -> Self {
        Self((self.0 * 1000.0).floor() / 1000.0)
    }
}

/// Formats a ratio as a change in percent: `+5.3 %`.
pub fn change_in_words(ratio: f64) -> String {
    format!("{} %", change(ratio))
}

/// Formats an interval of ratios as changes in percent: `+4.1 to +6.5 %`.
pub fn changes_in_words([low, high]: [f64; 2]) -> String {
    format!("{} to {} %", change(low), change(high))
}

/// Rounds a value to a multiple of 1 / `steps`, and removes the minus sign of zero.
fn unsigned_zero(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps + 0.0
}

fn change(ratio: f64) -> String {
    format!("{:+.1}", unsigned_zero((ratio - 1.0) * 100.0, 10.0))
}

/// Formats the share in percent, with one digit after the point unless the percentage is a whole number.
impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A share that is smaller than the last digit is not displayed as zero.
        if self.0 != 0.0 && self.0.abs() < 0.0005 {
            return padded(f, "< 0.1 %");
        }
        // The sum of no values is -0.0; adding 0.0 removes the minus sign.
        padded(f, &format!("{} %", format_trimmed(self.0 * 100.0 + 0.0)))
    }
}

impl fmt::Display for Watts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        padded(f, &format!("{:.0} W", self.0))
    }
}

/// Formats the rate in MT/s, the unit in data sheets of memory modules.
impl fmt::Display for TransfersPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        padded(f, &format!("{:.0} MT/s", self.0 / 1e6))
    }
}

/// Units of sizes, in upper or lower case: decimal prefixes are powers of 1000, binary prefixes
/// powers of 1024.
const SIZE_UNITS: [(&str, UnitPrefix); 9] = [
    ("B", UnitPrefix::One),
    ("kB", UnitPrefix::Kilo),
    ("MB", UnitPrefix::Mega),
    ("GB", UnitPrefix::Giga),
    ("TB", UnitPrefix::Tera),
    ("KiB", UnitPrefix::Kibi),
    ("MiB", UnitPrefix::Mebi),
    ("GiB", UnitPrefix::Gibi),
    ("TiB", UnitPrefix::Tebi),
];

/// Maximum accepted size; 2^50 bytes are far above the memory of any node.
pub const MAX_BYTES: Bytes = Bytes(1 << 50);

/// Returns the entry of [`SIZE_UNITS`] whose name is `unit` followed by `end`, in upper or lower
/// case.
fn size_unit(unit: &str, end: &str) -> Option<(&'static str, UnitPrefix)> {
    let name = format!("{unit}{end}");
    SIZE_UNITS.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(&name))
}

/// Returns the units that are expected instead of `unit`. A prefix without `B` is refused, because
/// its meaning differs between programs: `4k` is 4096 bytes for fio, and 4000 bytes in SI units.
fn expected_size_unit(unit: &str) -> String {
    match (size_unit(unit, "B"), size_unit(unit, "iB")) {
        (Some((decimal, _)), Some((binary, _))) => {
            format!("expected {decimal} (powers of 1000) or {binary} (powers of 1024)")
        }
        _ => "expected a unit of B, kB, MB, GB, TB, KiB, MiB, GiB or TiB".to_owned(),
    }
}

/// Reads a size such as `2GiB`, `500MB`, `1.5GiB` or `4096` (bytes) at the cursor.
///
/// # Errors
/// Fails if there is no number, the unit is unknown, or the size exceeds [`MAX_BYTES`].
pub fn read_bytes(cursor: &mut Cursor<'_>) -> Result<Bytes, SyntaxError> {
    let start = cursor.position();
    let digits = cursor.take_while(|c| c.is_ascii_digit() || c == '.');
    if digits.is_empty() {
        return Err(cursor.error("expected a number"));
    }
    let unit_at = cursor.position();
    let unit = cursor.take_while(char::is_alphabetic);
    let factor = match unit {
        "" => 1,
        _ => size_unit(unit, "")
            .map(|(_, prefix)| prefix.multiple())
            .ok_or_else(|| cursor.error_at(unit_at, expected_size_unit(unit)))?,
    };
    let too_large = "the size exceeds the memory of any machine";
    // Whole numbers are computed exactly; only a number with a fraction is computed in floating point.
    if let Ok(whole) = digits.parse::<u64>() {
        let bytes = whole.checked_mul(factor).map(Bytes).filter(|bytes| *bytes <= MAX_BYTES);
        return bytes.ok_or_else(|| cursor.error_at(start, too_large));
    }
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(cursor.error_at(start, too_large));
    }
    let value: f64 = digits
        .parse()
        .map_err(|_| cursor.error_at(start, "expected a number with at most one decimal point"))?;
    let bytes = value * factor as f64;
    if bytes > MAX_BYTES.as_f64() {
        return Err(cursor.error_at(start, too_large));
    }
    Ok(Bytes(bytes.round() as u64))
}

/// Parses a positive rate in a unit with one of these prefixes. `example` is shown in errors.
fn read_rate(
    text: &str,
    example: &'static str,
    unit: Unit,
    prefixes: [UnitPrefix; 4],
) -> Result<f64, SyntaxError> {
    let mut cursor = Cursor::new("rate", example, text);
    let number: Option<f64> = cursor.take_while(|c| c.is_ascii_digit() || c == '.').parse().ok();
    let number = number.filter(|number| *number > 0.0);
    let number = number.ok_or_else(|| cursor.error_at(0, "expected a number greater than zero"))?;
    let at = cursor.position();
    let typed = cursor.take_while(|c| c.is_alphabetic() || c == '/');
    let scaled = ScaledUnit::from_symbol(typed);
    let scaled = scaled.filter(|known| known.unit == unit && prefixes.contains(&known.prefix));
    let Some(scaled) = scaled else {
        let [first, second, third, last] = prefixes.map(|prefix| ScaledUnit { unit, prefix });
        let expected = format!("expected a unit of {first}, {second}, {third} or {last}");
        return Err(cursor.error_at(at, expected));
    };
    cursor.finish("expected nothing after the unit")?;
    Ok(number * scaled.factor())
}

impl std::str::FromStr for FlopsPerSec {
    type Err = SyntaxError;

    /// Parses a positive rate such as `2.5TFLOP/s`.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        const PREFIXES: [UnitPrefix; 4] =
            [UnitPrefix::One, UnitPrefix::Giga, UnitPrefix::Tera, UnitPrefix::Peta];
        read_rate(text, "2.5TFLOP/s or 800GFLOP/s", Unit::FlopsPerSecond, PREFIXES).map(Self)
    }
}

impl std::str::FromStr for BytesPerSec {
    type Err = SyntaxError;

    /// Parses a positive rate such as `300GB/s`.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        const PREFIXES: [UnitPrefix; 4] =
            [UnitPrefix::One, UnitPrefix::Mega, UnitPrefix::Giga, UnitPrefix::Tera];
        read_rate(text, "300GB/s or 1.2TB/s", Unit::BytesPerSecond, PREFIXES).map(Self)
    }
}

impl std::str::FromStr for Bytes {
    type Err = SyntaxError;

    /// Parses a size; see [`read_bytes`].
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("size", "2GiB, 500MB or 4096", text);
        let bytes = read_bytes(&mut cursor)?;
        cursor.finish("expected nothing after the unit")?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn any_predicted_time_converts_to_a_duration() {
        let rate = BytesPerSec(4e9);
        assert_eq!((Bytes(2_000_000_000) / rate).duration(), Duration::from_millis(500));
        let endless = [Bytes(1) / BytesPerSec(0.0), Bytes(0) / BytesPerSec(0.0), Seconds(-1.0)];
        for time in endless {
            assert_eq!(time.duration(), Seconds::MAX_DURATION);
        }
        assert!(Seconds::MAX_DURATION.checked_mul(u32::MAX).is_some());
    }

    #[test]
    fn sizes_are_printed_in_binary_units_and_rates_in_si_units() {
        assert_eq!(Bytes::mib(128).to_string(), "128 MiB");
        assert_eq!(Bytes(1536 << 20).to_string(), "1.5 GiB");
        assert_eq!(Bytes(17).to_string(), "17 B");
        assert_eq!(BytesPerSec(78.412e9).to_string(), "78.41 GB/s");
        assert_eq!(BytesPerSec(715_650.4e6).to_string(), "715.7 GB/s");
        assert_eq!(FlopsPerSec(7.3728e12).to_string(), "7.373 TFLOP/s");
        assert_eq!(Seconds(115e-9).to_string(), "115.0 ns");
        assert_eq!(Hertz(2.4e9).to_string(), "2.400 GHz");
    }

    #[test]
    fn oversized_sizes_are_refused_and_byte_arithmetic_saturates() {
        assert_eq!("1024TiB".parse(), Ok(MAX_BYTES));
        let (half, whole) = (u64::MAX / 2 + 1, u64::MAX);
        for text in [half.to_string(), whole.to_string(), "1025TiB".into(), "4194304.5GiB".into()] {
            let refused = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(refused.contains("the size exceeds the memory of any machine"), "{refused}");
        }
        assert_eq!(Bytes(whole) * 2, Bytes(whole));
        assert_eq!(Bytes(half) + Bytes(half), Bytes(whole));
    }

    #[test]
    fn sizes_and_rates_are_parsed_in_all_units() {
        let size = |text: &str| text.parse::<Bytes>().unwrap();
        assert_eq!(size("3TiB"), Bytes(3 << 40));
        assert_eq!(size("3GiB"), Bytes(1 << 30) * 3);
        assert_eq!(size("2TB"), Bytes(2_000_000_000_000));
        let rate = |text: &str| text.parse::<FlopsPerSec>().unwrap();
        assert_eq!(rate("2.5TFLOP/s"), FlopsPerSec(2.5e12));
        assert_eq!(rate("800GFLOP/s"), FlopsPerSec(800e9));
    }

    #[test]
    fn change_intervals_are_printed_with_signs() {
        assert_eq!(changes_in_words([0.97, 1.052]), "-3.0 to +5.2 %");
    }

    #[test]
    fn small_numbers_are_rounded_and_zero_has_no_minus_sign() {
        let small = [0.105, 0.0995, 0.009, 0.00032, 1.4e-8, 0.0].map(format_significant);
        assert_eq!(small, ["0.105", "0.100", "0.0090", "0.00032", "0.000000014", "0.000"]);
        assert_eq!([0.9999, 1.0, 0.95].map(change_in_words), ["+0.0 %", "+0.0 %", "-5.0 %"]);
        assert_eq!(
            (Fraction(-1e-4).in_tenths(), Fraction(-1e-3).in_compact_percent()),
            ("0.0 %".into(), "0%".into())
        );
    }

    #[test]
    fn extreme_numbers_are_printed_with_exponents() {
        let extreme = [1e308, -1e308, 5e-324, 1e-13, f64::INFINITY].map(format_significant);
        assert_eq!(extreme, ["1.000e308", "-1.000e308", "4.9e-324", "1.0e-13", "inf"]);
        assert_eq!(BytesPerSec(1e308).to_string(), "1.000e308 B/s");
        assert_eq!(BytesPerSec(2.5e18).to_string(), "2500 PB/s");
        assert_eq!(BytesPerSec(5e-324).to_string(), "4.9e-324 B/s");
        assert_eq!(Seconds(1e308).to_string(), "1.000e308 s");
        assert_eq!(Seconds(5e-324).to_string(), "4.9e-315 ns");
        assert_eq!(Fraction(1e300).to_string(), "1.000e302 %");
        assert_eq!(format_significant(123_456_789.0), "123456789");
    }

    #[test]
    fn counted_nouns_have_regular_plurals() {
        let nouns = ["cache", "entry", "array", "pass", "box", "batch"];
        let plurals = nouns.map(|noun| count_in_words(2, noun));
        let expected = ["2 caches", "2 entries", "2 arrays", "2 passes", "2 boxes", "2 batches"];
        assert_eq!(plurals, expected);
        assert_eq!(nouns.map(|noun| count_in_words(1, noun))[2], "1 array");
        assert_eq!(count_in_words(0, "process"), "0 processes");
    }

    #[test]
    fn record_quantities_are_plain_numbers() {
        #[derive(JsonSchema)]
        #[schemars(rename = "Times")]
        struct Typed {
            /// Description of the field.
            #[expect(dead_code, reason = "only the schema is read")]
            at: Vec<[Option<Seconds>; 2]>,
        }
        #[derive(JsonSchema)]
        #[schemars(rename = "Times")]
        struct Plain {
            /// Description of the field.
            #[expect(dead_code, reason = "only the schema is read")]
            at: Vec<[Option<f64>; 2]>,
        }
        assert_eq!(schemars::schema_for!(Typed), schemars::schema_for!(Plain));
        assert_eq!(serde_json::to_string(&Some(Fraction(0.25))).unwrap(), "0.25");
        assert_eq!(serde_json::from_str::<Option<Hertz>>("null").unwrap(), None);
    }

    #[test]
    fn shares_and_watts_are_printed_with_units() {
        assert_eq!(Fraction(0.9996).to_string(), "100 %");
        assert_eq!(Fraction(0.1234).to_string(), "12.3 %");
        assert_eq!(Fraction(0.1234).in_whole_percent(), "12 %");
        assert_eq!(Fraction(0.005).in_whole_percent(), "0.5 %");
        assert_eq!(Fraction(0.0002).in_whole_percent(), "< 0.1 %");
        assert_eq!([Fraction(0.0), Fraction(-0.0)].map(Fraction::in_whole_percent), ["0 %"; 2]);
        assert_eq!((Joules(350.4) / Seconds(0.5)).to_string(), "701 W");
        assert_eq!(FlopsPerSec(6e9) / Watts(300.0), 2e7);
        assert_eq!(TransfersPerSec(4800e6).to_string(), "4800 MT/s");
    }

    #[test]
    fn kb_is_1000_bytes_and_kib_is_1024_bytes() {
        assert_eq!("2GiB".parse(), Ok(Bytes::gib(2)));
        assert_eq!("2GB".parse(), Ok(Bytes(2_000_000_000)));
        assert_eq!("1.5KiB".parse(), Ok(Bytes(1536)));
        assert_eq!("3KiB".parse(), Ok(Bytes::kib(3)));
        assert_eq!("4096".parse(), Ok(Bytes(4096)));
        assert_eq!("64kb".parse(), Ok(Bytes(64_000)));
        assert_eq!("64kib".parse(), Ok(Bytes::kib(64)));
    }

    #[test]
    fn size_unit_without_b_is_refused() {
        for (text, both) in [
            ("4k", "expected kB (powers of 1000) or KiB (powers of 1024)"),
            ("4K", "expected kB (powers of 1000) or KiB (powers of 1024)"),
            ("1g", "expected GB (powers of 1000) or GiB (powers of 1024)"),
            ("1x", "expected a unit of B, kB"),
        ] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.contains(both), "{error}");
        }
    }

    #[test]
    fn invalid_size_is_reported_with_its_column() {
        let at = |text: &str| text.parse::<Bytes>().unwrap_err().at;
        assert_eq!(at("12QiB"), 2);
        assert_eq!(at("GiB"), 0);
        assert_eq!(at("1.2.3MB"), 0);
        assert_eq!(at("99999999999999999999"), 0);
        assert_eq!(at("2GiB!"), 4);
    }

    proptest! {
        #[test]
        fn whole_sizes_round_trip(n in 0u64..1 << 20, unit in 0usize..4) {
            let bytes = Bytes(n << (10 * unit));
            let printed = bytes.to_string();
            // A printed size is rounded unless it is a whole number of its unit.
            if !printed.contains('.') {
                prop_assert_eq!(printed.replace(' ', "").parse::<Bytes>().unwrap(), bytes);
            }
        }
    }
}
