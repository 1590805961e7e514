//! The gauge that measures curves of latency and bandwidth.

use crate::config::CurveConfig;
use crate::{Curve, CurveOptions, CurvePlan, GAUGE, view};
use nodegauge_arena::names::{CURVE_TESTS, LATENCY};
use nodegauge_gauge::roofline::{self, CeilingsRequest};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{
    Detail, Gauge, Headline, MeasuredNode, PlanSequence, PlannedRun, SummaryRequest,
};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::schedule::RunLimits;
use nodegauge_measure::{Failure, Unit};

/// Gauge of curves of latency and bandwidth.
#[derive(Debug, Clone, Copy, Default)]
pub struct CurveGauge;

impl Gauge for CurveGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn figure_kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::from_config::<CurveConfig>(GAUGE, &CURVE_TESTS),
            ConfigKind::from_config::<CurveConfig>(
                roofline::GAUGE,
                &[roofline::BANDWIDTH_TEST, roofline::KERNEL_TEST],
            ),
        ]
    }

    /// Returns no plan, because curves take more time than `nodegauge run` has.
    fn summary_plan(
        &self,
        _: &MeasuredNode,
        _: &SummaryRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        Ok(None)
    }

    /// Plans the measurement of bandwidths in each cache and in main memory, and of the kernels shown under the roof.
    fn ceilings_plan(
        &self,
        site: &MeasuredNode,
        ask: &CeilingsRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        let mut plans: Vec<Box<dyn PlannedRun>> = Vec::new();
        for part in ask.parts {
            let options = CurveOptions {
                policy: ask.policy.clone(),
                max_working_set: ask.largest,
                show_kernels: part.kernels,
                suffix: part.suffix,
                budget: ask.budget.mul_f64(part.share).into(),
                run_budget: Some(ask.whole),
                samples: ask.samples,
                ..CurveOptions::default()
            };
            let placement = part.placement.clone();
            let plan =
                CurvePlan::with_placement(Curve::Ceilings, site, placement, options, Vec::new())?;
            plans.push(Box::new(plan));
        }
        let is_kept = RunLimits::from_budget(ask.whole, ask.samples).must_be_kept();
        Ok(Some(Box::new(PlanSequence { plans, time: is_kept.then_some(ask.budget) })))
    }

    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>> {
        let what = "idle memory, largest working set";
        vec![Headline::from_record("latency", what, record, GAUGE, latency_set)]
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        view::conclusion(record)
    }

    fn view(&self, record: &Record, _: Detail) -> Vec<Section> {
        view::sections(record)
    }
}

/// Returns the working set of an idle latency, bytes; `None` for other figures.
fn latency_set(m: &Measurement) -> Option<f64> {
    let idle = m.test == LATENCY && m.unit == Unit::Seconds;
    idle.then(|| m.read_config::<CurveConfig>().set_bytes.unwrap_or(0) as f64)
}
