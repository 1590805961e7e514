//! Points under a roofline: operations, bytes and time of a program.

use super::{GAUGE, MEMORY_LEVEL, POINT_TEST};
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{Category, Machine, Measurement, QuotedStatistic, Validity};
use nodegauge_measure::{Bytes, Unit};

nodegauge_measure::config! {
    /// Configuration of a point under a roofline: operations, bytes and time.
    pub struct RooflinePointConfig {
        flops_per_byte: shared::flops_per_byte;
        /// Memory level whose bytes were counted: `memory`, `L1`, ...
        level: shared::level;
        /// Number of floating-point operations.
        flops: shared::flops as Observation of f64 = "a program's counters may be scaled";
        /// Number of bytes transferred to and from the level.
        bytes: f64 = Observation "bytes";
        seconds: shared::seconds;
        /// Source of the operation and byte counts.
        basis: shared::basis;
    }
}

/// Point under a roofline: the measured rate of a program or kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct RooflinePoint {
    /// Name of the program or kernel.
    pub name: String,
    /// Rate of the program, FLOP/s.
    pub rate: f64,
    /// Configuration; it contains at least the memory level and the operations per byte of this level.
    pub config: RooflinePointConfig,
    /// Category of the figure in the record.
    pub category: Category,
    /// Validity of the figure that the point shows.
    pub validity: Validity,
}

/// Reason why a run has no point under the roof of main memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPointReason(pub String);

impl RooflinePoint {
    /// Creates a point for main memory; `basis` describes the source of the operation and byte counts.
    pub fn for_main_memory(name: &str, rate: f64, flops_per_byte: f64, basis: String) -> Self {
        let config = RooflinePointConfig {
            flops_per_byte: Some(flops_per_byte),
            level: Some(MEMORY_LEVEL.to_owned()),
            basis: Some(basis),
            ..RooflinePointConfig::default()
        };
        let validity = Validity::valid();
        Self { name: name.to_owned(), rate, config, category: Category::Variant, validity }
    }

    /// Sets the validity of the point to that of the figure that it shows.
    pub fn with_validity_from(mut self, m: &Measurement) -> Self {
        self.validity = m.validity.clone();
        self
    }

    /// Returns the point if its data is at least `times` as large as the last-level caches of the machine, or if one of
    /// the sizes is unknown. Smaller data fits in the caches, so it has no point under the roof of main memory.
    ///
    /// # Errors
    /// Returns the reason why there is no point.
    pub fn if_exceeding_caches(
        self,
        machine: &Machine,
        set: Option<Bytes>,
        times: f64,
    ) -> Result<Self, NoPointReason> {
        let (Some(set), Some(held)) = (set, machine.last_level_cache_bytes()) else {
            return Ok(self);
        };
        if set.as_f64() >= times * held.as_f64() {
            return Ok(self);
        }
        let of = self.config.basis.as_deref().unwrap_or_default();
        Err(NoPointReason(format!(
            "{}: no roofline point for main memory, because the last-level caches of {held} hold \
             all or part of its {set} ({of})",
            self.name
        )))
    }

    /// Converts the point into a figure of the record.
    pub fn into_measurement(self) -> Measurement {
        Measurement::new(GAUGE, POINT_TEST, self.name, Unit::FlopsPerSecond)
            .with_value(QuotedStatistic::Single, self.rate)
            .with_category(self.category)
            .with_config(&self.config)
            .with_validity(self.validity)
    }
}
