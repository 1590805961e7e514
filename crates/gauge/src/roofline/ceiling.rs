//! Ceilings of a node, and the roof that they form together.

use super::{BANDWIDTH_TEST, GAUGE, ONE_THREAD_SUFFIX, PEAK_TEST};
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::Measurement;

/// Ceiling: the bandwidth of a memory level, or a peak.
#[derive(Debug, Clone, PartialEq)]
pub struct Ceiling {
    /// Name in the record, without the suffix of single-thread ceilings.
    pub name: String,
    /// Rate: B/s for a bandwidth, FLOP/s for a peak.
    pub rate: f64,
    /// Memory level of a bandwidth; `None` for a peak.
    pub level: Option<String>,
}

impl Ceiling {
    /// Returns the maximum rate below the ceiling at this number of operations per byte of the memory level, FLOP/s.
    pub fn rate_at(&self, flops_per_byte: f64) -> f64 {
        if self.level.is_some() { self.rate * flops_per_byte } else { self.rate }
    }

    /// Returns the name for display: `memory read`, `FMA`.
    pub fn in_words(&self) -> String {
        match self.name.as_str() {
            "fma" => "FMA".to_owned(),
            "simd" => "SIMD without FMA".to_owned(),
            "dgemm" => "DGEMM".to_owned(),
            other => other.replace('_', " "),
        }
    }
}

/// Ceilings of a node for one number of threads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Roofline {
    /// All ceilings, in the order of the measurement.
    pub ceilings: Vec<Ceiling>,
}

impl Ceiling {
    /// Converts a figure to a ceiling of a single thread or of all threads; `None` if it is not one.
    fn from_figure(m: &Measurement, one_thread: bool) -> Option<Self> {
        let is = m.gauge == GAUGE && [BANDWIDTH_TEST, PEAK_TEST].contains(&m.test.as_str());
        let name = m.name.strip_suffix(ONE_THREAD_SUFFIX);
        let name = if one_thread { name } else { name.xor(Some(m.name.as_str())) };
        let rate = m.value.filter(|rate| is && *rate > 0.0)?;
        Some(Self { name: name?.to_owned(), rate, level: m.read_key::<shared::level>() })
    }
}

impl Roofline {
    /// Returns the ceilings among these figures: those of a single thread, or those of all threads.
    pub fn from_figures(measurements: &[Measurement], one_thread: bool) -> Self {
        let ceilings = measurements.iter().filter_map(|m| Ceiling::from_figure(m, one_thread));
        Self { ceilings: ceilings.collect() }
    }

    /// Returns the highest peak.
    pub fn peak(&self) -> Option<&Ceiling> {
        highest(self.ceilings.iter().filter(|ceiling| ceiling.level.is_none()))
    }

    /// Returns the memory levels, in the order of the measurement.
    pub fn levels(&self) -> Vec<&str> {
        let mut levels: Vec<&str> =
            self.ceilings.iter().filter_map(|ceiling| ceiling.level.as_deref()).collect();
        levels.dedup();
        levels
    }

    /// Returns the highest bandwidth of a level.
    pub fn bandwidth(&self, level: &str) -> Option<&Ceiling> {
        highest(self.ceilings.iter().filter(|ceiling| ceiling.level.as_deref() == Some(level)))
    }

    /// Returns the ridge point of a bandwidth: the number of operations per byte above which the highest peak is the
    /// limit, FLOP/B.
    pub fn ridge(&self, bandwidth: &Ceiling) -> Option<f64> {
        Some(self.peak()?.rate / bandwidth.rate)
    }

    /// Returns the ceiling that limits a program with this number of operations per byte of a memory level: the
    /// bandwidth of the level or the highest peak, whichever allows the lower rate.
    pub fn roof(&self, level: &str, flops_per_byte: f64) -> Option<&Ceiling> {
        let both = [self.bandwidth(level)?, self.peak()?];
        both.into_iter()
            .min_by(|a, b| a.rate_at(flops_per_byte).total_cmp(&b.rate_at(flops_per_byte)))
    }

    /// Returns the lowest ceiling above the rate `reached` at this number of operations per byte of the memory level.
    /// This ceiling is the next limit of the program.
    pub fn next_ceiling(&self, level: &str, flops_per_byte: f64, reached: f64) -> Option<&Ceiling> {
        let roof = self.roof(level, flops_per_byte)?.rate_at(flops_per_byte);
        self.ceilings
            .iter()
            .filter(|ceiling| ceiling.level.as_deref().is_none_or(|of| of == level))
            .filter(|ceiling| ceiling.rate_at(flops_per_byte) > reached)
            .filter(|ceiling| ceiling.rate_at(flops_per_byte) <= roof)
            .min_by(|a, b| a.rate_at(flops_per_byte).total_cmp(&b.rate_at(flops_per_byte)))
    }
}

fn highest<'a>(ceilings: impl Iterator<Item = &'a Ceiling>) -> Option<&'a Ceiling> {
    ceilings.max_by(|a, b| a.rate.total_cmp(&b.rate))
}
