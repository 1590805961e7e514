//! The gauge as the others see it.

use crate::config::TrapezoidConfig;
use crate::{GAUGE, trapezoid};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge, Glance, Headline, Planned, Site};
use nodegauge_measure::Failure;
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::Record;

/// Proxy applications.
#[derive(Debug, Clone, Copy, Default)]
pub struct Apps;

impl Gauge for Apps {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn kinds(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<TrapezoidConfig>(GAUGE, &[trapezoid::TEST]).headed(&["rate"])]
    }

    /// None: the page of `run` is of the node, and applications are of its users.
    fn glance(&self, _: &Site, _: &Glance<'_>) -> Result<Option<Box<dyn Planned>>, Failure> {
        Ok(None)
    }

    fn headlines<'r>(&self, _: &'r Record) -> Vec<Headline<'r>> {
        Vec::new()
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        trapezoid::view::sections(record, detail)
    }
}
