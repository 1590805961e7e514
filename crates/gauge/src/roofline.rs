//! The roofline of a node (Williams, Waterman, Patterson 2009, doi 10.1145/1498765.1498785): what a program
//! can reach that computes so many operations for each byte that it moves, and which ceiling it runs into.
//!
//! Gauges measure the ceilings ([`Gauge::ceilings`]) and may place what they measured under them
//! ([`Gauge::points`]); all of it stands in the record under a gauge of this name, so that it is shown,
//! compared and exported as one. A level of memory has a roof of its own, as the operations for each byte of
//! that level say: a point is held against the level whose bytes were counted.

mod point;
mod view;

pub use point::{GivenPoint, Point};
pub use view::{Dot, chart};

use crate::view::Section;
use crate::{Detail, Gauge, Glance, Headline, Planned, Site};
use nodegauge_measure::expect::Figures;
use nodegauge_measure::keys::{ConfigKind, shared};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Bytes, Failure, Unit};
use nodegauge_placement::{MemoryPolicy, Placement};
use std::time::Duration;

/// The gauge's name, as records have it.
pub const GAUGE: &str = "roofline";
/// The test of bandwidths: names are a level and a kernel, `L1_read`, `memory_triad`.
pub const BANDWIDTH: &str = "bandwidth";
/// The test of peaks: [`PEAKS`].
pub const PEAK: &str = "peak";
/// The test of kernels that were measured beside the ceilings: named like bandwidths.
pub const KERNEL: &str = "kernel";
/// The test of all other points.
pub const POINT: &str = "point";
/// The peaks: fused multiply-adds, vectors without them, one number at a time, and products of matrices.
pub const PEAKS: [&str; 4] = ["fma", "simd", "scalar", "dgemm"];
/// The level behind all caches.
pub const MEMORY: &str = "memory";
/// What ends the name of a ceiling of a single thread beside those of all.
pub const ONE_THREAD: &str = "_one";

/// A rate above its roof by more than this share is no measurement noise: bytes or operations were counted
/// wrong, or a cache served what was counted of another level.
const ABOVE: f64 = 0.03;

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

/// Threads of which a roofline is asked for.
#[derive(Clone, Copy)]
pub struct CeilingsPart<'a> {
    /// The threads that measure together.
    pub placement: &'a Placement,
    /// What ends the names of their figures: nothing, or [`ONE_THREAD`].
    pub suffix: &'static str,
    /// Share of the time for them, 0 to 1.
    pub share: f64,
    /// Whether kernels are placed under the ceilings as well.
    pub kernels: bool,
}

/// What is asked of a gauge for a roofline.
#[derive(Clone, Copy)]
pub struct CeilingsAsk<'a> {
    /// One after another.
    pub parts: &'a [CeilingsPart<'a>],
    /// The policy of the threads' memory.
    pub policy: &'a MemoryPolicy,
    /// The set that is to lie in main memory, all threads together; `None` leaves the choice.
    pub largest: Option<Bytes>,
    /// Time for the gauge.
    pub budget: Duration,
    /// Exactly this many samples, whatever the time.
    pub samples: Option<usize>,
}

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

/// Where a figure lies under a roof: its level and its operations for each byte.
fn place_of(m: &Measurement) -> Option<(String, f64)> {
    [KERNEL, POINT].contains(&m.test.as_str()).then_some(())?;
    Some((m.read_key::<shared::level>()?, m.read_key::<shared::flops_per_byte>()?))
}

/// Puts points behind what was measured, and holds every point and kernel against its roof.
pub fn place(measured: Vec<Measurement>, points: Vec<Point>) -> Vec<Measurement> {
    let roofline = Roofline::of(&measured, false);
    let points = points.into_iter().map(Point::measurement);
    let under_the_roof = |m: Measurement| {
        let roof = place_of(&m).filter(|_| m.value.is_some());
        let roof = roof.and_then(|(level, x)| Some((roofline.roof(&level, x)?, x)));
        let Some((roof, x)) = roof else { return m };
        let m =
            m.limit(roof.at(x), format!("{} at {} FLOP/B", roof.in_words(), view::intensity(x)));
        let mut validity = m.validity.clone();
        if let Some(limit) = m.limit.as_ref().filter(|limit| limit.fraction > 1.0 + ABOVE) {
            let above = 100.0 * (limit.fraction - 1.0);
            validity.suspect(format!(
                "{above:.0} % above its roof: operations or bytes are counted wrong, a faster level served part of them, or the node was slower when its ceilings were measured"
            ));
        }
        m.judged(validity)
    };
    measured.into_iter().chain(points).map(under_the_roof).collect()
}

/// What points there are, for expectations.
pub fn figures(points: &[Point]) -> Figures {
    let names = points.iter().map(|point| point.name.as_str());
    Figures::new((GAUGE, POINT), names, &[Unit::FlopsPerSecond]).limited(true)
}

/// Rooflines: what the other gauges measure for one, and points under it.
#[derive(Debug, Clone, Copy, Default)]
pub struct RooflineGauge;

impl Gauge for RooflineGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn kinds(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<PointConfig>(GAUGE, &[POINT])]
    }

    /// A run measures the parts themselves.
    fn glance(&self, _: &Site, _: &Glance<'_>) -> Result<Option<Box<dyn Planned>>, Failure> {
        Ok(None)
    }

    fn headlines<'r>(&self, _: &'r Record) -> Vec<Headline<'r>> {
        Vec::new()
    }

    fn view(&self, record: &Record, _: Detail) -> Vec<Section> {
        view::sections(record)
    }
}

#[cfg(test)]
mod tests;
