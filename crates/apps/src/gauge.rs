//! Gauge of the proxy applications: the interface for `run` and for the pages.

use crate::config::{HpcgConfig, TrapezoidConfig};
use crate::hpcg::HpcgReader;
use crate::iccg::config::IccgConfig;
use crate::{GAUGE, hpcg, iccg, points, trapezoid};
use nodegauge_gauge::readers::Reader;
use nodegauge_gauge::roofline::{NoPointReason, RooflinePoint};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::Record;

/// Gauge of the proxy applications.
#[derive(Debug, Clone, Copy, Default)]
pub struct AppGauge;

impl Gauge for AppGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn figure_kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::from_config::<TrapezoidConfig>(GAUGE, &[trapezoid::TEST])
                .with_headlines(&["rate"]),
            ConfigKind::from_config::<IccgConfig>(GAUGE, &[iccg::TEST])
                .with_headlines(&["time_to_solution", "rate"]),
            ConfigKind::from_config::<HpcgConfig>(GAUGE, &[hpcg::TEST]).with_headlines(&["rating"]),
        ]
    }

    /// Returns the roofline points of the newest saved runs of the applications.
    fn roofline_points(
        &self,
        newest: &dyn Fn(&str, &str) -> Option<Record>,
    ) -> Vec<Result<RooflinePoint, NoPointReason>> {
        points::points(newest)
    }

    fn readers(&self) -> Vec<&dyn Reader> {
        vec![&HpcgReader]
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        iccg::view::conclusion(record)
            .or_else(|| hpcg::view::conclusion(record))
            .or_else(|| trapezoid::view::conclusion(record))
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        let mut sections = trapezoid::view::sections(record, detail);
        sections.extend(iccg::view::sections(record, detail));
        sections.extend(hpcg::view::section(record, detail));
        sections
    }
}
