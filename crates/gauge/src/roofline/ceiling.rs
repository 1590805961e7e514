//! Ceilings of a node and the rates below them.

use super::{BANDWIDTH, GAUGE, ONE_THREAD, PEAK};
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::Measurement;

/// A ceiling.
#[derive(Debug, Clone, PartialEq)]
pub struct Ceiling {
    /// Its name, as the record has it, of however many threads.
    pub name: String,
    /// B/s, or FLOP/s of a peak.
    pub rate: f64,
    /// The level of memory that is so fast; `None` of a peak.
    pub level: Option<String>,
}

impl Ceiling {
    /// What it lets a program reach with so many operations for each byte of its level, FLOP/s.
    pub fn at(&self, flops_per_byte: f64) -> f64 {
        if self.level.is_some() { self.rate * flops_per_byte } else { self.rate }
    }

    /// The name for people: `memory read`, `FMA`.
    pub fn in_words(&self) -> String {
        match self.name.as_str() {
            "fma" => "FMA".to_owned(),
            "simd" => "SIMD without FMA".to_owned(),
            "dgemm" => "DGEMM".to_owned(),
            other => other.replace('_', " "),
        }
    }
}

/// The ceilings of a node for a number of threads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Roofline {
    /// All of them, as they were measured.
    pub ceilings: Vec<Ceiling>,
}

impl Roofline {
    /// The ceilings among these figures, of one thread or of all.
    pub fn of(measurements: &[Measurement], one_thread: bool) -> Self {
        let ceiling = |m: &Measurement| {
            let is = m.gauge == GAUGE && [BANDWIDTH, PEAK].contains(&m.test.as_str());
            let name = m.name.strip_suffix(ONE_THREAD);
            let name = if one_thread { name } else { name.xor(Some(m.name.as_str())) };
            let rate = m.value.filter(|rate| is && *rate > 0.0)?;
            Some(Ceiling { name: name?.to_owned(), rate, level: m.read_key::<shared::level>() })
        };
        Self { ceilings: measurements.iter().filter_map(ceiling).collect() }
    }

    /// The highest peak.
    pub fn peak(&self) -> Option<&Ceiling> {
        highest(self.ceilings.iter().filter(|ceiling| ceiling.level.is_none()))
    }

    /// The levels, in the order of measuring.
    pub fn levels(&self) -> Vec<&str> {
        let mut levels: Vec<&str> =
            self.ceilings.iter().filter_map(|ceiling| ceiling.level.as_deref()).collect();
        levels.dedup();
        levels
    }

    /// The highest bandwidth of a level.
    pub fn bandwidth(&self, level: &str) -> Option<&Ceiling> {
        highest(self.ceilings.iter().filter(|ceiling| ceiling.level.as_deref() == Some(level)))
    }

    /// Operations for each byte of a bandwidth's level from which the highest peak binds, FLOP/B.
    pub fn ridge(&self, bandwidth: &Ceiling) -> Option<f64> {
        Some(self.peak()?.rate / bandwidth.rate)
    }

    /// The ceiling that binds a program with so many operations for each byte of a level: the lower one of
    /// the level's bandwidth and the highest peak.
    pub fn roof(&self, level: &str, flops_per_byte: f64) -> Option<&Ceiling> {
        let both = [self.bandwidth(level)?, self.peak()?];
        both.into_iter().min_by(|a, b| a.at(flops_per_byte).total_cmp(&b.at(flops_per_byte)))
    }

    /// The lowest ceiling that such a program has not reached yet: what it runs into next.
    pub fn next(&self, level: &str, flops_per_byte: f64, reached: f64) -> Option<&Ceiling> {
        let roof = self.roof(level, flops_per_byte)?.at(flops_per_byte);
        let of_level = |ceiling: &&Ceiling| ceiling.level.as_deref().is_none_or(|of| of == level);
        let between = |ceiling: &&Ceiling| {
            ceiling.at(flops_per_byte) > reached && ceiling.at(flops_per_byte) <= roof
        };
        self.ceilings
            .iter()
            .filter(of_level)
            .filter(between)
            .min_by(|a, b| a.at(flops_per_byte).total_cmp(&b.at(flops_per_byte)))
    }
}

fn highest<'a>(ceilings: impl Iterator<Item = &'a Ceiling>) -> Option<&'a Ceiling> {
    ceilings.max_by(|a, b| a.rate.total_cmp(&b.rate))
}
