//! Points under a roofline: operations, bytes and time of a program.

use super::{GAUGE, MEMORY, POINT};
use nodegauge_measure::Unit;
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{Category, Measurement, Quoted};

nodegauge_measure::config! {
    /// Configuration of a point under a roofline: operations, bytes and time.
    pub struct RooflinePointConfig {
        flops_per_byte: shared::flops_per_byte;
        /// Memory level whose bytes were counted: `memory`, `L1`, ...
        level: shared::level;
        /// Floating-point operations.
        flops: shared::flops as Observation of f64 = "a program's counters may be scaled";
        /// Bytes that were moved to and from the level.
        bytes: f64 = Observation "bytes";
        seconds: shared::seconds;
        /// Source of the operation and byte counts.
        basis: shared::basis;
    }
}

/// A point under a roofline: the measured rate of a program or kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct RooflinePoint {
    /// Name of the program or kernel.
    pub name: String,
    /// Rate of the program, FLOP/s.
    pub rate: f64,
    /// Configuration; contains at least the level and the operations per byte of that level.
    pub config: RooflinePointConfig,
    /// Category of the figure in the record.
    pub category: Category,
}

impl RooflinePoint {
    /// Creates a point for main memory; `basis` describes the source of the operation and byte counts.
    pub fn in_memory(name: &str, rate: f64, flops_per_byte: f64, basis: String) -> Self {
        let config = RooflinePointConfig {
            flops_per_byte: Some(flops_per_byte),
            level: Some(MEMORY.to_owned()),
            basis: Some(basis),
            ..RooflinePointConfig::default()
        };
        Self { name: name.to_owned(), rate, config, category: Category::Variant }
    }

    /// Converts the point into a figure of the record.
    pub fn measurement(self) -> Measurement {
        Measurement::new(GAUGE, POINT, self.name, Unit::FlopsPerSecond)
            .value(Quoted::Single, self.rate)
            .category(self.category)
            .config(&self.config)
    }
}
