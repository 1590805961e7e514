//! Gauge of noise: its interface for plans and views.

use crate::config::NoiseConfig;
use crate::{GAUGE, TEST, view};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::Record;

/// Gauge of noise. `nodegauge run` does not measure noise, because rare detours need more time than it has.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoiseGauge;

impl Gauge for NoiseGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn figure_kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::from_config::<NoiseConfig>(GAUGE, &[TEST])
                .with_headlines(&["available", "longest"]),
        ]
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        view::conclusion(record)
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::sections(record, detail)
    }
}
