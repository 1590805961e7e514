//! Gauge of the user's program: the interface for the pages.

use crate::config::ProgramConfig;
use crate::{GAUGE, TEST, view};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge, Headline, PlannedRun, Site, SummaryRequest};
use nodegauge_measure::Failure;
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::Record;

/// Gauge of the user's program.
#[derive(Debug, Clone, Copy, Default)]
pub struct Programs;

impl Gauge for Programs {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn kinds(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<ProgramConfig>(GAUGE, &[TEST]).headed(&["elapsed", "figure"])]
    }

    /// Plans no measurement, because `run` has no program of the user.
    fn summary_plan(
        &self,
        _: &Site,
        _: &SummaryRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        Ok(None)
    }

    fn headlines<'r>(&self, _: &'r Record) -> Vec<Headline<'r>> {
        Vec::new()
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        view::conclusion(record)
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::sections(record, detail)
    }
}
