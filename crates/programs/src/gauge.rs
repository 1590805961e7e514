//! Gauge of the user's program: its interface for views.

use crate::config::ProgramConfig;
use crate::{GAUGE, TEST, view};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::Record;

/// Gauge of the user's program. `nodegauge run` does not measure it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProgramGauge;

impl Gauge for ProgramGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn figure_kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::from_config::<ProgramConfig>(GAUGE, &[TEST])
                .with_headlines(&["elapsed", "figure"]),
        ]
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        view::conclusion(record)
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::sections(record, detail)
    }
}
