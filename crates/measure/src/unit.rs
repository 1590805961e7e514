//! Units of figures, with their prefixes, and the direction in which figures of each unit are
//! better. The module formats numbers with a unit, for sentences ([`Unit::in_words`]) and for
//! columns ([`ScaledUnit`]), and parses unit symbols with prefixes.

use crate::stats::BetterDirection;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The unit of a measurement's value, samples and limit.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
pub enum Unit {
    /// Data rates, in bytes per second.
    #[serde(rename = "B/s")]
    BytesPerSecond,
    /// Rates of floating-point operations, per second.
    #[serde(rename = "FLOP/s")]
    FlopsPerSecond,
    /// Times, in seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Message rates, per second.
    #[serde(rename = "msg/s")]
    MessagesPerSecond,
    /// Rates of other operations, per second.
    #[serde(rename = "op/s")]
    OperationsPerSecond,
    /// Clocks, in cycles per second.
    #[serde(rename = "Hz")]
    Hertz,
    /// Ratio of two figures, without a unit.
    #[serde(rename = "x")]
    Factor,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 7] = [
        Self::BytesPerSecond,
        Self::FlopsPerSecond,
        Self::Seconds,
        Self::MessagesPerSecond,
        Self::OperationsPerSecond,
        Self::Hertz,
        Self::Factor,
    ];

    /// Returns the symbol of the unit in records.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::BytesPerSecond => "B/s",
            Self::FlopsPerSecond => "FLOP/s",
            Self::Seconds => "s",
            Self::MessagesPerSecond => "msg/s",
            Self::OperationsPerSecond => "op/s",
            Self::Hertz => "Hz",
            Self::Factor => "x",
        }
    }

    /// Returns the unit with this symbol.
    pub fn from_symbol(symbol: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.symbol() == symbol)
    }

    /// Formats a value in this unit for display: `78.40 GB/s`, `2.310 us`, `7.032 x`.
    pub fn in_words(self, value: f64) -> String {
        match self {
            Self::Seconds => time_in_words(value),
            Self::Factor => ScaledUnit::base(self).in_words(value),
            _ => prefixed(value, self),
        }
    }

    /// Returns the direction in which values are better: lower for times, higher for rates; `None`
    /// for factors, which have no such direction.
    pub fn direction(self) -> Option<BetterDirection> {
        match self {
            Self::Seconds => Some(BetterDirection::Lower),
            Self::Factor => None,
            _ => Some(BetterDirection::Higher),
        }
    }

    /// Returns the direction in which values are better; `Higher` for factors.
    pub fn better(self) -> BetterDirection {
        self.direction().unwrap_or(BetterDirection::Higher)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.symbol())
    }
}

/// Prefix of a unit: a power of 1000, or of 1024 for amounts of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitPrefix {
    /// No prefix.
    One,
    /// Prefix `n`.
    Nano,
    /// Prefix `u`.
    Micro,
    /// Prefix `m`.
    Milli,
    /// Prefix `k`.
    Kilo,
    /// Prefix `M`.
    Mega,
    /// Prefix `G`.
    Giga,
    /// Prefix `T`.
    Tera,
    /// Prefix `P`.
    Peta,
    /// Prefix `Ki`.
    Kibi,
    /// Prefix `Mi`.
    Mebi,
    /// Prefix `Gi`.
    Gibi,
    /// Prefix `Ti`.
    Tebi,
}

impl UnitPrefix {
    /// All prefixes.
    pub const ALL: [Self; 13] = [
        Self::One,
        Self::Nano,
        Self::Micro,
        Self::Milli,
        Self::Kilo,
        Self::Mega,
        Self::Giga,
        Self::Tera,
        Self::Peta,
        Self::Kibi,
        Self::Mebi,
        Self::Gibi,
        Self::Tebi,
    ];
    /// Prefixes for large rates, the largest first.
    const RATE_PREFIXES: [Self; 5] = [Self::Peta, Self::Tera, Self::Giga, Self::Mega, Self::Kilo];
    /// Prefixes for sizes, the largest first.
    pub(crate) const SIZE_PREFIXES: [Self; 4] = [Self::Tebi, Self::Gibi, Self::Mebi, Self::Kibi];

    /// Returns the symbol of the prefix.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::One => "",
            Self::Nano => "n",
            Self::Micro => "u",
            Self::Milli => "m",
            Self::Kilo => "k",
            Self::Mega => "M",
            Self::Giga => "G",
            Self::Tera => "T",
            Self::Peta => "P",
            Self::Kibi => "Ki",
            Self::Mebi => "Mi",
            Self::Gibi => "Gi",
            Self::Tebi => "Ti",
        }
    }

    /// Returns the factor of the prefix.
    pub const fn factor(self) -> f64 {
        match self {
            Self::Nano => 1e-9,
            Self::Micro => 1e-6,
            Self::Milli => 1e-3,
            _ => self.multiple() as f64,
        }
    }

    /// Returns the factor of the prefix as a whole number; 1 for prefixes of fractions.
    pub const fn multiple(self) -> u64 {
        match self {
            Self::One | Self::Nano | Self::Micro | Self::Milli => 1,
            Self::Kilo => 1000,
            Self::Mega => 1_000_000,
            Self::Giga => 1_000_000_000,
            Self::Tera => 1_000_000_000_000,
            Self::Peta => 1_000_000_000_000_000,
            Self::Kibi => 1 << 10,
            Self::Mebi => 1 << 20,
            Self::Gibi => 1 << 30,
            Self::Tebi => 1 << 40,
        }
    }

    /// True for a prefix that is a power of 1024.
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::Kibi | Self::Mebi | Self::Gibi | Self::Tebi)
    }

    /// Converts a value without prefix to a number with this prefix.
    fn number(self, value: f64) -> f64 {
        match self {
            // A product with a whole number is exact more often than a quotient by a fraction.
            Self::Nano => value * 1e9,
            Self::Micro => value * 1e6,
            Self::Milli => value * 1e3,
            _ => value / self.factor(),
        }
    }
}

/// Unit with a prefix, e.g. `GB/s` or `us`, for a column of numbers or as the user types it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaledUnit {
    /// Unit without the prefix.
    pub unit: Unit,
    /// Prefix of the unit.
    pub prefix: UnitPrefix,
}

impl ScaledUnit {
    /// Rates of data in GB/s.
    pub const GB_PER_S: Self = Self::new(UnitPrefix::Giga, Unit::BytesPerSecond);
    /// Rates of data in MB/s.
    pub const MB_PER_S: Self = Self::new(UnitPrefix::Mega, Unit::BytesPerSecond);
    /// Rates of operations in GFLOP/s.
    pub const GFLOP_PER_S: Self = Self::new(UnitPrefix::Giga, Unit::FlopsPerSecond);
    /// Times in nanoseconds.
    pub const NANOSECONDS: Self = Self::new(UnitPrefix::Nano, Unit::Seconds);
    /// Times in microseconds.
    pub const MICROSECONDS: Self = Self::new(UnitPrefix::Micro, Unit::Seconds);
    /// Rates of messages in Mmsg/s.
    pub const MMSG_PER_S: Self = Self::new(UnitPrefix::Mega, Unit::MessagesPerSecond);

    /// Returns a unit with a prefix.
    pub const fn new(prefix: UnitPrefix, unit: Unit) -> Self {
        Self { unit, prefix }
    }

    /// Returns a unit without a prefix.
    pub const fn base(unit: Unit) -> Self {
        Self::new(UnitPrefix::One, unit)
    }

    /// Returns the unit for a list of figures of several runs. It does not depend on the values. Rates of messages and
    /// of other operations, clocks and factors have no prefix.
    pub const fn for_lists(unit: Unit) -> Self {
        match unit {
            Unit::BytesPerSecond => Self::GB_PER_S,
            Unit::FlopsPerSecond => Self::GFLOP_PER_S,
            Unit::Seconds => Self::MICROSECONDS,
            _ => Self::base(unit),
        }
    }

    /// Returns the unit with this symbol, e.g. `GB/s`.
    pub fn from_symbol(symbol: &str) -> Option<Self> {
        UnitPrefix::ALL.into_iter().find_map(|prefix| {
            let unit = Unit::from_symbol(symbol.strip_prefix(prefix.symbol())?)?;
            Some(Self { unit, prefix })
        })
    }

    /// Returns the number by which a value in this unit is multiplied to convert it to the unit
    /// without prefix.
    pub const fn factor(self) -> f64 {
        self.prefix.factor()
    }

    /// Converts a value in the unit without prefix to a number in this unit.
    pub fn number(self, value: f64) -> f64 {
        self.prefix.number(value)
    }

    /// Formats a value, given in the unit without prefix, as a number in this unit, with four
    /// digits and without the symbol.
    pub fn number_text(self, value: f64) -> String {
        format_significant(self.number(value))
    }

    /// Formats a value, given in the unit without prefix, in this unit.
    pub fn in_words(self, value: f64) -> String {
        format!("{} {self}", self.number_text(value))
    }
}

impl fmt::Display for ScaledUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", self.prefix.symbol(), self.unit.symbol()))
    }
}

/// Values from here on are printed with an exponent instead of a prefix: a million times the largest prefix in use.
const PREFIX_LIMIT: f64 = 1e21;
/// Maximum number of digits after the point.
const MAX_DECIMALS: f64 = 12.0;
/// Smallest number that is printed with an exponent. An `f64` has sixteen digits; more digits would
/// be meaningless.
const EXPONENT_FROM: f64 = 1e16;

/// Formats a number with four significant digits, as in tables of benchmarks: `9.877`, `83.41`,
/// `715.7`, `1584`. Numbers below 1 have three digits after the point, or as many as show two
/// significant digits: `0.105`, `0.00032`. Numbers that would have very many digits are printed
/// with an exponent: `1.000e308`, `5.0e-324`.
pub fn format_significant(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= EXPONENT_FROM && v.is_finite() => return format!("{value:.3e}"),
        v if v > 0.0 && 1.0 - v.log10().floor() > MAX_DECIMALS => return format!("{value:.1e}"),
        v if v >= 999.95 => 0,
        v if v >= 99.995 => 1,
        v if v >= 9.9995 => 2,
        v if v > 0.0 && v < 0.00995 => (1.0 - v.log10().floor()) as usize,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// Formats a number with one digit after the point unless it is a whole number.
pub fn format_trimmed(number: f64) -> String {
    if number.abs() >= EXPONENT_FROM && number.is_finite() {
        return format_significant(number);
    }
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Formats a value with the largest SI prefix that gives a number of at least 1. A value outside
/// the range of prefixes is printed with an exponent.
fn prefixed(value: f64, unit: Unit) -> String {
    if value.abs() >= PREFIX_LIMIT {
        return format!("{value:.3e} {unit}");
    }
    let mut prefixes = UnitPrefix::RATE_PREFIXES.into_iter();
    let prefix = prefixes.find(|prefix| value.abs() >= prefix.factor());
    ScaledUnit::new(prefix.unwrap_or(UnitPrefix::One), unit).in_words(value)
}

/// Formats a time in s, ms, us or ns.
fn time_in_words(seconds: f64) -> String {
    let prefix = match seconds.abs() {
        t if t >= 1.0 || t == 0.0 => UnitPrefix::One,
        t if t >= 1e-3 => UnitPrefix::Milli,
        t if t >= 1e-6 => UnitPrefix::Micro,
        _ => UnitPrefix::Nano,
    };
    ScaledUnit::new(prefix, Unit::Seconds).in_words(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_contains_unit_symbol() {
        for unit in Unit::ALL {
            assert_eq!(serde_json::to_value(unit).unwrap(), unit.symbol());
            assert_eq!(Unit::from_symbol(unit.symbol()), Some(unit));
        }
    }

    #[test]
    fn printed_unit_symbols_are_parsed() {
        for unit in Unit::ALL {
            for prefix in UnitPrefix::ALL {
                let scaled = ScaledUnit { unit, prefix };
                assert_eq!(ScaledUnit::from_symbol(&scaled.to_string()), Some(scaled));
                assert!((scaled.number(scaled.factor()) - 1.0).abs() < 1e-12, "{scaled}");
            }
        }
        assert_eq!(ScaledUnit::from_symbol("MT/s"), None);
        assert_eq!(ScaledUnit::from_symbol("G"), None);
        assert_eq!(ScaledUnit::from_symbol("gB/s"), None);
        assert_eq!(ScaledUnit::MICROSECONDS.in_words(2.31e-6), "2.310 us");
    }

    #[test]
    fn values_except_factors_have_prefixes() {
        assert_eq!(Unit::BytesPerSecond.in_words(78.4e9), "78.40 GB/s");
        assert_eq!(Unit::Seconds.in_words(2.31e-6), "2.310 us");
        assert_eq!(Unit::Factor.in_words(7032.4), "7032 x");
    }
}
