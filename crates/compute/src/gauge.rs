//! The gauge as the others see it.

use crate::config::{DgemmConfig, PeakConfig, RatingConfig};
use crate::options::HplOptions;
use crate::plan::HplPlan;
use crate::{GAUGE, TEST, view};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Depth, Detail, Gauge, Glance, Headline, Planned, Site};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::Record;
use nodegauge_measure::{BytesPerSec, Failure};
use nodegauge_placement::Request;
use std::time::Duration;

/// Time for the compute line of a quick `run`, and of a full one.
const GLANCE: Duration = Duration::from_secs(8);
const LONG_GLANCE: Duration = Duration::from_secs(60);
/// Widths of panels that `run` searches.
const GLANCE_NB: [usize; 3] = [128, 192, 256];

/// Floating point: the rating of a node, DGEMM, the peaks.
#[derive(Debug, Clone, Copy, Default)]
pub struct ComputeGauge;

impl Gauge for ComputeGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::of::<RatingConfig>(GAUGE, &[TEST]).headed(&["rating"]),
            ConfigKind::of::<DgemmConfig>(GAUGE, &[TEST]),
            ConfigKind::of::<PeakConfig>(GAUGE, &[TEST]),
        ]
    }

    /// A short solution with the fastest library.
    fn glance(&self, site: &Site, ask: &Glance<'_>) -> Result<Option<Box<dyn Planned>>, Failure> {
        let triads = ask.before.iter().filter(|m| m.test == "stream" && m.name == "triad");
        let triad = triads.filter_map(|m| m.value).reduce(f64::max);
        let options = HplOptions {
            budget: ask.budget.unwrap_or(match ask.depth {
                Depth::Quick => GLANCE,
                Depth::Full => LONG_GLANCE,
            }),
            nb: GLANCE_NB.to_vec(),
            triad: triad.map(|triad| (BytesPerSec(triad), "this run".to_owned())),
            ..HplOptions::default()
        };
        let placement = nodegauge_placement::plan(&site.topology, &Request::default())?;
        Ok(Some(Box::new(HplPlan::new(site, placement, options)?)))
    }

    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>> {
        let what = ("floating point", "HPL's rating");
        vec![Headline::of(what, (record, GAUGE), |m| (m.name == "rating").then_some(m.value))]
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::section(record, detail).into_iter().chain(view::closing(record)).collect()
    }
}
