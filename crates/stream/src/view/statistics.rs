//! The columns of STREAM's table: the best rate of a figure, and the average, least and greatest of its
//! times.

use crate::config::{StreamConfig, TimesConfig};
use crate::kernels::{Element, Kernel};
use nodegauge_gauge::view::TableCell;
use nodegauge_measure::record::{Counts, Measurement};
use nodegauge_measure::{Seconds, Unit};

/// A column of STREAM's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// The best rate.
    Best,
    /// The average time.
    Average,
    /// The least time.
    Minimum,
    /// The greatest time.
    Maximum,
}
nodegauge_measure::names!(
    Statistic,
    "statistic",
    Best = "best",
    Average = "avg",
    Minimum = "min",
    Maximum = "max"
);

impl Statistic {
    /// Returns its title in stream.c's table, and its name with the unit.
    pub(crate) fn titles(self) -> (&'static str, &'static str) {
        match self {
            Self::Best => ("Best Rate MB/s", "best rates in MB/s"),
            Self::Average => ("Avg time", "average times in seconds"),
            Self::Minimum => ("Min time", "least times in seconds"),
            Self::Maximum => ("Max time", "greatest times in seconds"),
        }
    }

    /// As stream.c prints it, in MB/s or seconds; the verdict where there is no result.
    pub(crate) fn cell(self, m: &Measurement, config: &StreamConfig) -> TableCell {
        let none = || m.validity.status.name().into();
        let Some((best, times)) = m.value.zip(times(m, config)) else { return none() };
        let seconds = |time| TableCell::figure(time, Unit::Seconds, format!("{time:.6}"));
        match self {
            Self::Best => {
                TableCell::figure(best, Unit::BytesPerSecond, format!("{:.1}", best / 1e6))
            }
            Self::Average => seconds(times.average.0),
            Self::Minimum => seconds(times.least.0),
            Self::Maximum => seconds(times.greatest.0),
        }
    }
}

/// The rates of the passes that stream.c would count: all but the first.
pub(crate) fn rates(m: &Measurement) -> impl Iterator<Item = f64> {
    let disturbed = m.disturbed.iter().filter(|one| one.counts == Counts::Best);
    m.samples.iter().copied().chain(disturbed.map(|one| one.value))
}

/// The times of these passes: as stream.c printed them, else of the bytes that it counts. The record's
/// samples are rates.
pub(crate) fn times(m: &Measurement, config: &StreamConfig) -> Option<TimesConfig> {
    if config.times_s.is_some() {
        return config.times_s;
    }
    let kernel: Kernel = m.name.parse().ok()?;
    let element: Element = config.element.as_deref()?.parse().ok()?;
    let elements = config.array_elements? * config.processes.unwrap_or(1);
    let bytes = (kernel.counted(element) * elements) as f64;
    let times: Vec<f64> = rates(m).map(|rate| bytes / rate).collect();
    (!times.is_empty()).then(|| TimesConfig {
        average: Seconds(times.iter().sum::<f64>() / times.len() as f64),
        least: Seconds(times.iter().copied().fold(f64::INFINITY, f64::min)),
        greatest: Seconds(times.iter().copied().fold(0.0, f64::max)),
    })
}
