//! Gauge of rooflines: ceilings that other gauges measure, and points under them.
//!
//! The model and its chart are in `nodegauge_gauge::roofline`. This crate contains the plan of a run, the user's
//! points, the comparison of each point with the attainable rate (the roof), and the view.
#![forbid(unsafe_code)]

mod counted;
mod plan;
mod point;
mod view;

pub use counted::RooflineCounters;
pub use plan::{RooflineOptions, RooflinePlan};
pub use point::GivenPoint;

use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::roofline::{
    BANDWIDTH_TEST, GAUGE, KERNEL_TEST, ONE_THREAD_SUFFIX, PEAK_TEST, POINT_TEST, Roofline,
    RooflinePoint, RooflinePointConfig, format_intensity,
};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge};
use nodegauge_measure::keys::{ConfigKind, shared};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Fraction, Unit};
use std::collections::HashMap;

/// Maximum relative excess of a rate over the roof that measurement noise explains. A larger excess means that bytes or
/// operations were counted incorrectly, or that a cache served bytes that were attributed to another level. The same
/// tolerance applies to ceilings of all threads that are lower than the ceilings of one thread.
const MAX_EXCESS: f64 = 0.03;

/// Returns the memory level of a figure and its operations per byte, which determine the roof.
fn roof_position(m: &Measurement) -> Option<(String, f64)> {
    [KERNEL_TEST, POINT_TEST].contains(&m.test.as_str()).then_some(())?;
    Some((m.read_key::<shared::level>()?, m.read_key::<shared::flops_per_byte>()?))
}

/// Appends the points to the measured figures, and compares every point and kernel with the roof at its operations per
/// byte.
pub fn add_points(measured: Vec<Measurement>, points: Vec<RooflinePoint>) -> Vec<Measurement> {
    let measured = doubt_low_ceilings(measured);
    let roofline = Roofline::from_figures(&measured, false);
    let points = points.into_iter().map(RooflinePoint::into_measurement);
    measured.into_iter().chain(points).map(|m| compare_with_roof(m, &roofline)).collect()
}

/// Compares a point or a kernel with the roof at its operations per byte; other figures are unchanged.
fn compare_with_roof(m: Measurement, roofline: &Roofline) -> Measurement {
    let roof = roof_position(&m).filter(|_| m.value.is_some());
    let roof = roof.and_then(|(level, x)| Some((roofline.roof(&level, x)?, x)));
    let Some((roof, x)) = roof else { return m };
    let m = m.with_limit(
        roof.rate_at(x),
        format!("{} at {} FLOP/B", roof.in_words(), format_intensity(x)),
    );
    let mut validity = m.validity.clone();
    if let Some(limit) = m.limit.as_ref().filter(|limit| limit.fraction.0 > 1.0 + MAX_EXCESS) {
        let above = Fraction(limit.fraction.0 - 1.0).in_whole_percent();
        validity.mark_suspect(format!(
            "{above} above its roof: the counts of operations or bytes are wrong, a faster memory level served part of the bytes, or the node was slower when the ceilings were measured"
        ));
    }
    m.with_validity(validity)
}

/// Marks ceilings of all threads as suspect if they are lower than the ceilings of one thread.
fn doubt_low_ceilings(measured: Vec<Measurement>) -> Vec<Measurement> {
    let of_one: HashMap<String, f64> = measured
        .iter()
        .filter_map(|m| Some((m.name.strip_suffix(ONE_THREAD_SUFFIX)?.to_owned(), m.value?)))
        .collect();
    let doubted = measured.into_iter().map(|m| {
        let is_ceiling = [BANDWIDTH_TEST, PEAK_TEST].contains(&m.test.as_str());
        let one = of_one.get(&m.name).filter(|_| is_ceiling).copied();
        let Some((all, one)) = m.value.zip(one) else { return m };
        if all * (1.0 + MAX_EXCESS) >= one {
            return m;
        }
        let mut validity = m.validity.clone();
        validity.mark_suspect(format!(
            "lower than the {} of one thread: other programs used the node, or the threads share \
             a resource that one thread can use alone",
            m.unit.in_words(one)
        ));
        m.with_validity(validity)
    });
    doubted.collect()
}

/// Returns the figures that the points will have, so that `--expect` can be checked before the run.
pub fn possible_figures(points: &[RooflinePoint]) -> PossibleFigures {
    let names = points.iter().map(|point| point.name.as_str());
    PossibleFigures::new(GAUGE, POINT_TEST, names, &[Unit::FlopsPerSecond]).with_known_limit(true)
}

/// Gauge of rooflines: ceilings that other gauges measure, and points under them.
#[derive(Debug, Clone, Copy, Default)]
pub struct RooflineGauge;

impl Gauge for RooflineGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn figure_kinds(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::from_config::<RooflinePointConfig>(GAUGE, &[POINT_TEST])]
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        view::conclusion(record)
    }

    fn view(&self, record: &Record, _: Detail) -> Vec<Section> {
        view::sections(record)
    }
}

#[cfg(test)]
mod tests;
