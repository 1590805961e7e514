//! The units of figures, and which direction is better in each.

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
    /// Bytes per second.
    #[serde(rename = "B/s")]
    BytesPerSecond,
    /// Floating-point operations per second.
    #[serde(rename = "FLOP/s")]
    FlopsPerSecond,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Messages per second.
    #[serde(rename = "msg/s")]
    MessagesPerSecond,
    /// Operations per second.
    #[serde(rename = "op/s")]
    OperationsPerSecond,
    /// A ratio of two figures.
    #[serde(rename = "x")]
    Factor,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 6] = [
        Self::BytesPerSecond,
        Self::FlopsPerSecond,
        Self::Seconds,
        Self::MessagesPerSecond,
        Self::OperationsPerSecond,
        Self::Factor,
    ];

    /// The symbol, as the record has it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::BytesPerSecond => "B/s",
            Self::FlopsPerSecond => "FLOP/s",
            Self::Seconds => "s",
            Self::MessagesPerSecond => "msg/s",
            Self::OperationsPerSecond => "op/s",
            Self::Factor => "x",
        }
    }

    /// The unit with this symbol.
    pub fn of_symbol(symbol: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.symbol() == symbol)
    }

    /// A figure in this unit, for people: `78.40 GB/s`, `2.310 us`, `7.032 x`.
    pub fn in_words(self, value: f64) -> String {
        match self {
            Self::Seconds => Seconds(value).to_string(),
            Self::Factor => format!("{} {self}", significant(value)),
            _ => prefixed(value, self),
        }
    }

    /// Which direction is better: of times down, of rates up; of factors nobody knows.
    pub fn direction(self) -> Option<Better> {
        match self {
            Self::Seconds => Some(Better::Lower),
            Self::Factor => None,
            _ => Some(Better::Higher),
        }
    }

    /// Which end of the samples is the best, where one must be named: of factors the higher.
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
}
