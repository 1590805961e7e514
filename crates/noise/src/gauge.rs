//! Gauge of noise: the interface for `run` and for the pages.

use crate::config::NoiseConfig;
use crate::{GAUGE, TEST, view};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge, Headline, PlannedRun, Site, SummaryRequest};
use nodegauge_measure::Failure;
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::Record;

/// Gauge of noise.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noise;

impl Gauge for Noise {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn kinds(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<NoiseConfig>(GAUGE, &[TEST]).headed(&["available", "longest"])]
    }

    /// Plans no measurement, because rare detours need more time than `run` has.
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
