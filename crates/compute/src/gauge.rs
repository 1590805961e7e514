//! Gauge of HPL, DGEMM and peaks: the interface for `run` and for the pages.

use crate::ceilings::CeilingsPlan;
use crate::config::{DgemmConfig, PeakConfig, RatingConfig};
use crate::hpcc::HpccReader;
use crate::hpl_mxp::HplMxpReader;
use crate::options::HplOptions;
use crate::plan::HplPlan;
use crate::reader::HplReader;
use crate::{GAUGE, RATING, TEST, view};
use nodegauge_gauge::readers::Reader;
use nodegauge_gauge::roofline::{self, CeilingsRequest, NoPointReason, RooflinePoint};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Depth, Detail, Gauge, Headline, MeasuredNode, PlannedRun, SummaryRequest};
use nodegauge_lu::factorisation as lu;
use nodegauge_measure::figure_names::stream;
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Bytes, BytesPerSec, Failure};
use nodegauge_placement::PlacementRequest;
use std::time::Duration;

/// Time for HPL in a quick `run`.
const QUICK_RUN_BUDGET: Duration = Duration::from_secs(8);
/// Time for HPL in a full `run`.
const FULL_RUN_BUDGET: Duration = Duration::from_secs(60);
/// Panel widths (NB) that `run` tries.
const RUN_NB: [usize; 3] = [128, 192, 256];

/// Gauge of floating-point performance: HPL rating of a node, DGEMM rate, and peaks.
#[derive(Debug, Clone, Copy, Default)]
pub struct ComputeGauge;

impl Gauge for ComputeGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn figure_kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::from_config::<RatingConfig>(GAUGE, &[TEST]).with_headlines(&[RATING]),
            ConfigKind::from_config::<DgemmConfig>(GAUGE, &[TEST]),
            ConfigKind::from_config::<PeakConfig>(GAUGE, &[TEST]),
            ConfigKind::from_config::<PeakConfig>(roofline::GAUGE, &[roofline::PEAK_TEST]),
            ConfigKind::from_config::<DgemmConfig>(roofline::GAUGE, &[roofline::PEAK_TEST]),
        ]
    }

    /// Plans a short solve with the fastest library.
    fn summary_plan(
        &self,
        site: &MeasuredNode,
        ask: &SummaryRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        let triads = ask
            .earlier_figures
            .iter()
            .filter(|m| m.test == stream::TEST && m.name == stream::TRIAD);
        let triad = triads.filter_map(|m| m.value).reduce(f64::max);
        let options = HplOptions {
            budget: ask.budget.unwrap_or(match ask.depth {
                Depth::Quick => QUICK_RUN_BUDGET,
                Depth::Full => FULL_RUN_BUDGET,
            }),
            nb: RUN_NB.to_vec(),
            triad: triad.map(|triad| (BytesPerSec(triad), "this run".to_owned())),
            ..HplOptions::default()
        };
        let placement = nodegauge_placement::plan(&site.topology, &PlacementRequest::default())?;
        let mut plan = HplPlan::new(site, placement, options)?;
        plan.is_share = ask.budget.is_some();
        Ok(Some(Box::new(plan)))
    }

    /// Plans register-only loops and DGEMM as ceilings of a roofline.
    fn ceilings_plan(
        &self,
        _: &MeasuredNode,
        ask: &CeilingsRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        Ok(Some(Box::new(CeilingsPlan::new(ask))))
    }

    /// Returns the newest saved HPL rating as a point of the roofline.
    fn roofline_points(
        &self,
        newest: &dyn Fn(&str, &str) -> Option<Record>,
    ) -> Vec<Result<RooflinePoint, NoPointReason>> {
        let Some(record) = newest(TEST, RATING) else { return Vec::new() };
        let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.name == RATING);
        let ratings = own.filter(|m| !m.is_published());
        let points = ratings.filter_map(|m| rating_point(&record, m));
        let highest = points.max_by(|(a, _), (b, _)| a.total_cmp(b));
        highest.into_iter().map(|(_, point)| point).collect()
    }

    fn readers(&self) -> Vec<&dyn Reader> {
        vec![&HplReader, &HpccReader, &HplMxpReader]
    }

    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>> {
        vec![Headline::from_record(
            "floating point",
            "HPL's rating",
            record,
            GAUGE,
            |m: &Measurement| (m.name == RATING).then_some(m.value),
        )]
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        view::conclusion(record)
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::section(record, detail).into_iter().chain(view::comparison_section(record)).collect()
    }
}

/// Returns a rating with its point on the roofline.
fn rating_point(
    record: &Record,
    m: &Measurement,
) -> Option<(f64, Result<RooflinePoint, NoPointReason>)> {
    let config: RatingConfig = m.read_config();
    let n = config.n?;
    let nb = config.nb?;
    let threads = config.dgemm.on.threads?;
    let basis = format!(
        "rating of {}, N = {n}, threads {threads}, bytes: at least those of products at NB = {nb}",
        record.started
    );
    let intensity = lu::flops_per_byte(nb as usize);
    let value = m.value?;
    let point =
        RooflinePoint::for_main_memory("hpl", value, intensity, basis).with_validity_from(m);
    Some((value, point.if_exceeding_caches(&record.machine, config.matrix_bytes.map(Bytes), 1.0)))
}
