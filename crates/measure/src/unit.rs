//! Units of figures, and the direction in which figures of each unit are better.

use crate::quantity::{Seconds, prefixed, significant};
use crate::stats::Better;
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
    pub fn of_symbol(symbol: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.symbol() == symbol)
    }

    /// Formats a value in this unit for display: `78.40 GB/s`, `2.310 us`, `7.032 x`.
    pub fn in_words(self, value: f64) -> String {
        match self {
            Self::Seconds => Seconds(value).to_string(),
            Self::Factor => format!("{} {self}", significant(value)),
            _ => prefixed(value, self),
        }
    }

    /// Returns the direction that is better: lower for times, higher for rates; `None` for factors, for which
    /// it is not defined.
    pub fn direction(self) -> Option<Better> {
        match self {
            Self::Seconds => Some(Better::Lower),
            Self::Factor => None,
            _ => Some(Better::Higher),
        }
    }

    /// Returns the direction that is better, with `Higher` for factors.
    pub fn better(self) -> Better {
        self.direction().unwrap_or(Better::Higher)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.symbol())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_symbol() {
        for unit in Unit::ALL {
            assert_eq!(serde_json::to_value(unit).unwrap(), unit.symbol());
            assert_eq!(Unit::of_symbol(unit.symbol()), Some(unit));
        }
    }

    #[test]
    fn values_are_printed_with_a_prefix_unless_they_are_factors() {
        assert_eq!(Unit::BytesPerSecond.in_words(78.4e9), "78.40 GB/s");
        assert_eq!(Unit::Seconds.in_words(2.31e-6), "2.310 us");
        assert_eq!(Unit::Factor.in_words(7032.4), "7032 x");
    }
}
