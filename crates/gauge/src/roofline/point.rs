//! Points under a roofline: operations, bytes and time of a program.

use super::{GAUGE, MEMORY, POINT};
use nodegauge_measure::Unit;
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{Category, Measurement, Quoted};

nodegauge_measure::config! {
    /// Configuration of a point under a roofline: what was computed and moved in which time.
    pub struct PointConfig {
        flops_per_byte: shared::flops_per_byte;
        /// The level whose bytes were counted: `memory`, `L1`, ...
        level: shared::level;
        /// Floating-point operations.
        flops: shared::flops as Observation of f64 = "a program's counters may be scaled";
        /// Bytes that moved to and from the level.
        bytes: f64 = Observation "bytes";
        seconds: shared::seconds;
        /// Where the counts come from.
        basis: shared::basis;
    }
}

/// A point.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// What it is called.
    pub name: String,
    /// FLOP/s.
    pub rate: f64,
    /// What it is made of; at least the level and the operations for each of its bytes.
    pub config: PointConfig,
    /// Whose figure it is.
    pub category: Category,
}

impl Point {
    /// A point of main memory, with where it is known from.
    pub fn in_memory(name: &str, rate: f64, flops_per_byte: f64, basis: String) -> Self {
        let config = PointConfig {
            flops_per_byte: Some(flops_per_byte),
            level: Some(MEMORY.to_owned()),
            basis: Some(basis),
            ..PointConfig::default()
        };
        Self { name: name.to_owned(), rate, config, category: Category::Variant }
    }

    /// As the record has it.
    pub fn measurement(self) -> Measurement {
        Measurement::new(GAUGE, POINT, self.name, Unit::FlopsPerSecond)
            .value(Quoted::Single, self.rate)
            .category(self.category)
            .config(&self.config)
    }
}
