//! Columns of STREAM's table: the best rate of a figure, and the average, minimum and maximum time of its passes.

use crate::config::StreamConfig;
use crate::kernels::{Element, Kernel};
use nodegauge_gauge::view::TableCell;
use nodegauge_measure::keys::shared::TimesConfig;
use nodegauge_measure::record::{Measurement, SampleUse};
use nodegauge_measure::{Seconds, Unit};

/// Column of STREAM's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// Best rate of the passes.
    Best,
    /// Average time of the passes.
    Average,
    /// Minimum time of the passes.
    Minimum,
    /// Maximum time of the passes.
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
    /// Returns the title of the column in stream.c's table, and a description with the unit.
    pub(crate) fn titles(self) -> (&'static str, &'static str) {
        match self {
            Self::Best => ("Best Rate MB/s", "best rates in MB/s"),
            Self::Average => ("Avg time", "average times in seconds"),
            Self::Minimum => ("Min time", "minimum times in seconds"),
            Self::Maximum => ("Max time", "maximum times in seconds"),
        }
    }

    /// Returns the value as stream.c prints it, in MB/s or seconds; without a result, the status.
    pub(crate) fn cell(self, m: &Measurement, config: &StreamConfig) -> TableCell {
        let Some((best, times)) = m.value.zip(times(m, config)) else {
            return m.validity.status.name().into();
        };
        let time = match self {
            Self::Best => {
                let words = format!("{:.1}", best / 1e6);
                return TableCell::figure(best, Unit::BytesPerSecond, words);
            }
            Self::Average => times.average.0,
            Self::Minimum => times.least.0,
            Self::Maximum => times.greatest.0,
        };
        TableCell::figure(time, Unit::Seconds, format!("{time:.6}"))
    }
}

/// Returns the rates of the passes that stream.c would count, i.e. all except the first.
pub(crate) fn rates(m: &Measurement) -> impl Iterator<Item = f64> {
    let disturbed = m.disturbed.iter().filter(|one| one.counts == SampleUse::Best);
    m.samples.iter().copied().chain(disturbed.map(|one| one.value))
}

/// Returns the average, minimum and maximum time of the passes that stream.c would count. stream.c printed its times;
/// for other figures they are computed from the counted bytes, because the record contains only rates.
pub(crate) fn times(m: &Measurement, config: &StreamConfig) -> Option<TimesConfig> {
    if config.times_s.is_some() {
        return config.times_s;
    }
    let kernel: Kernel = m.name.parse().ok()?;
    let element: Element = config.element.as_deref()?.parse().ok()?;
    let elements = config.array_elements? * config.processes.unwrap_or(1);
    let bytes = (kernel.counted_bytes(element) * elements) as f64;
    let times: Vec<f64> = rates(m).map(|rate| bytes / rate).collect();
    (!times.is_empty()).then(|| TimesConfig {
        average: Seconds(times.iter().sum::<f64>() / times.len() as f64),
        least: Seconds(times.iter().copied().fold(f64::INFINITY, f64::min)),
        greatest: Seconds(times.iter().copied().fold(0.0, f64::max)),
    })
}
