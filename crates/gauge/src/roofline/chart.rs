//! Chart of a roofline with logarithmic axes. Roofs are lines, points are letters.

use super::{Ceiling, MEMORY_LEVEL, Roofline};
use crate::view::{AxisQuantity, Chart, ChartSeries, DotConnection};
use nodegauge_measure::Unit;
use nodegauge_measure::quantity::format_significant;

/// Left end of the horizontal axis, FLOP/B, unless a point is further left. It is the value of a copy in double
/// precision with one operation per four elements.
const LEFT_END: f64 = 1.0 / 64.0;
/// Right end of the horizontal axis, as a multiple of the rightmost ridge point.
const BEHIND_RIDGE: f64 = 8.0;
/// Maximum right end of the horizontal axis, as a multiple of the rightmost ridge point. Points beyond it, which hardly
/// use memory, are drawn at this edge with an arrow, under the peaks that limit them.
const FAR_BEHIND_RIDGE: f64 = 256.0;
/// Letter that marks the line of each peak.
const PEAK_MARKS: [(&str, char); 4] =
    [("fma", 'F'), ("simd", 'S'), ("scalar", 's'), ("dgemm", 'D')];

/// Formats operations per byte: `0.08333`, `11.25`.
pub fn format_intensity(x: f64) -> String {
    if x < 0.1 { format!("{x:.4}") } else { format_significant(x) }
}

/// Point of a chart. Points with the same name form a series.
#[derive(Debug, Clone, PartialEq)]
pub struct RooflineDot {
    /// Letter that represents the point in the chart.
    pub letter: char,
    /// Name of the series.
    pub name: String,
    /// Label of the point: its name and memory level.
    pub label: String,
    /// Operations per byte of the memory level, FLOP/B.
    pub flops_per_byte: f64,
    /// Rate of the point, FLOP/s.
    pub rate: f64,
    /// Description of the point: its memory level and run.
    pub note: String,
    /// First reason why the point is suspect; `None` if it is valid.
    pub doubt: Option<String>,
}

/// Returns the coordinates of a suspect point with the reason; `None` for a valid point.
fn doubted((x, y): (f64, f64), point: &RooflineDot) -> Option<(f64, f64, String)> {
    point.doubt.as_ref().map(|reason| (x, y, reason.clone()))
}

/// Returns the chart, with roofs as lines and points as letters; `None` without a roof.
pub fn chart(roofline: &Roofline, points: &[RooflineDot]) -> Option<Chart> {
    let peak = roofline.peak()?;
    let roofs: Vec<&Ceiling> =
        roofline.levels().iter().filter_map(|level| roofline.bandwidth(level)).collect();
    let slowest = roofs.iter().map(|roof| roof.rate).reduce(f64::min)?;
    let fastest = roofs.iter().map(|roof| roof.rate).fold(slowest, f64::max);
    let xs: Vec<f64> = points.iter().map(|point| point.flops_per_byte).collect();
    let min = xs.iter().map(|x| x / 2.0).fold(LEFT_END, f64::min);
    let ridge = peak.rate / slowest;
    let max = xs.iter().map(|x| x * 2.0).fold(ridge * BEHIND_RIDGE, f64::max);
    let max = max.min(ridge * FAR_BEHIND_RIDGE);
    let mut series: Vec<ChartSeries> = Vec::new();
    for point in points {
        let dot = (point.flops_per_byte.min(max), point.rate);
        let beyond = (point.flops_per_byte > max).then(|| {
            let at =
                format!("at {} FLOP/B, beyond the axis", format_intensity(point.flops_per_byte));
            (dot.0, dot.1, at)
        });
        match series.iter_mut().find(|one| one.name == point.name) {
            Some(one) => {
                one.dots.push(dot);
                one.notes.push(point.note.clone());
                one.labels.push(point.label.clone());
                one.doubts.extend(doubted(dot, point));
                one.beyond.extend(beyond);
            }
            None => series.push(ChartSeries {
                mark: point.letter,
                name: point.name.clone(),
                dots: vec![dot],
                notes: vec![point.note.clone()],
                labels: vec![point.label.clone()],
                doubts: doubted(dot, point).into_iter().collect(),
                beyond: beyond.into_iter().collect(),
                joined: DotConnection::Apart,
                ..ChartSeries::default()
            }),
        }
    }
    for ceiling in roofline.ceilings.iter().filter(|ceiling| ceiling.level.is_none()) {
        let mark = PEAK_MARKS.iter().find(|(name, _)| *name == ceiling.name);
        series.push(ChartSeries {
            mark: mark.map_or('-', |(_, mark)| *mark),
            name: ceiling.in_words(),
            // The line of a peak begins where the roof of the fastest memory level reaches the peak.
            dots: vec![(ceiling.rate / fastest, ceiling.rate), (max, ceiling.rate)],
            joined: DotConnection::Straight,
            ..ChartSeries::default()
        });
    }
    for roof in roofs {
        let level = roof.level.clone().unwrap_or_default();
        let mark = if level == MEMORY_LEVEL { Some('m') } else { level.chars().last() };
        series.push(ChartSeries {
            mark: mark.unwrap_or('/'),
            name: roof.in_words(),
            dots: vec![(min, roof.rate_at(min)), (peak.rate / roof.rate, peak.rate)],
            joined: DotConnection::Straight,
            ..ChartSeries::default()
        });
    }
    let ticks = std::iter::successors(Some(LEFT_END / 64.0), |tick| Some(tick * 4.0));
    let ticks = ticks.skip_while(|tick| *tick < min).take_while(|tick| *tick <= max).collect();
    let x = AxisQuantity::Intensity;
    let y = AxisQuantity::Rate(Unit::FlopsPerSecond);
    let title = "roofline: attainable rate over operations per byte".to_owned();
    let names = ["operations per byte of the memory level", ""];
    Some(Chart { title, names, x, y, ticks, series, ..Chart::default() })
}
