//! Charts and heat maps, and the axes of charts.

use super::Block;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Measurement, Status};
use serde::Serialize;

/// Quantity of an axis, which determines its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisQuantity {
    /// Sizes in bytes: `64 KiB`.
    Bytes,
    /// Rates in a unit, shown with a suitable prefix: B/s as GB/s.
    Rate(Unit),
    /// Times in nanoseconds.
    Nanoseconds,
    /// Times in microseconds.
    Microseconds,
    /// Floating-point operations per byte: FLOP/B.
    Intensity,
    /// Shares in percent.
    Percent,
    /// Plain numbers without a unit.
    #[default]
    Number,
}

/// Line chart. The horizontal axis is logarithmic because sizes span many powers of two. [`Chart::vertical_axis`]
/// returns the vertical axis.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Chart {
    /// Title above the chart; if empty, the names of the curves are shown.
    pub title: String,
    /// Names of the horizontal and the vertical axis, e.g. `working set`; empty if the unit is sufficient.
    pub names: [&'static str; 2],
    /// Quantity of the horizontal axis.
    pub x: AxisQuantity,
    /// Quantity of the vertical axis.
    pub y: AxisQuantity,
    /// Values of the horizontal axis to label, ascending.
    pub ticks: Vec<f64>,
    /// Curves. Where two curves overlap, the first is visible.
    pub series: Vec<ChartSeries>,
    /// Ringed dots: x, y and the meaning of the ring. Text output omits the rings.
    pub marks: Vec<(f64, f64, String)>,
    /// Labelled lines across the chart: limits, sizes of caches, thresholds. Text output omits them.
    pub guides: Vec<Guide>,
}

/// Labelled line across a chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Guide {
    /// Axis on which the line marks a value.
    pub axis: GuideAxis,
    /// Marked value in the base unit of the axis.
    pub at: f64,
    /// Label of the line.
    pub text: String,
}

/// Axis on which a guide marks a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GuideAxis {
    /// The line is vertical and marks a value of the horizontal axis.
    X,
    /// The line is horizontal and marks a value of the vertical axis.
    Y,
}

impl Guide {
    /// Creates a vertical line.
    pub fn x(at: f64, text: impl Into<String>) -> Self {
        Self { axis: GuideAxis::X, at, text: text.into() }
    }

    /// Creates a horizontal line.
    pub fn y(at: f64, text: impl Into<String>) -> Self {
        Self { axis: GuideAxis::Y, at, text: text.into() }
    }
}

/// Scale of an axis, with its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AxisScale {
    /// Linear scale from zero to this value.
    Linear(f64),
    /// Logarithmic scale from the smallest to the largest value.
    Logarithmic(f64, f64),
}

/// Minimum ratio of the largest to the smallest value for a logarithmic axis. With a smaller ratio the axis starts at
/// zero, so that a difference of 3 % looks like 3 %.
const DECADE: f64 = 10.0;

impl AxisScale {
    /// Returns the position of a value on the axis, 0 to 1.
    pub fn position(self, value: f64) -> f64 {
        match self {
            Self::Linear(max) => value / max,
            Self::Logarithmic(min, max) => (value / min).ln() / (max / min).ln(),
        }
    }

    /// Returns the value at a position on the axis, 0 to 1.
    pub fn at(self, place: f64) -> f64 {
        match self {
            Self::Linear(max) => max * place,
            Self::Logarithmic(min, max) => min * (max / min).powf(place),
        }
    }
}

impl Chart {
    /// Returns the dots that can be shown, i.e. those with positive coordinates.
    pub fn dots(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let all = self.series.iter().flat_map(|series| &series.dots).copied();
        all.filter(|(x, y)| *x > 0.0 && *y > 0.0)
    }

    /// Returns the horizontal axis; `None` if there are fewer than two different x values.
    pub fn horizontal_axis(&self) -> Option<AxisScale> {
        let (min, max) = range(self.dots().map(|(x, _)| x))?;
        (min < max).then_some(AxisScale::Logarithmic(min, max))
    }

    /// Returns the vertical axis. It is logarithmic if the values span a decade or more, or if the chart has lines that
    /// are straight only on logarithmic axes. Otherwise it starts at zero. Returns `None` without values.
    pub fn vertical_axis(&self) -> Option<AxisScale> {
        let (min, max) = range(self.dots().map(|(_, y)| y))?;
        let straight = self.series.iter().any(|series| series.joined == DotConnection::Straight);
        if max / min >= DECADE || straight {
            return Some(AxisScale::Logarithmic(min, max));
        }
        Some(AxisScale::Linear(max))
    }
}

/// Returns the smallest and the largest value; `None` without values.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |found, x| {
        let (min, max) = found.unwrap_or((x, x));
        Some((x.min(min), x.max(max)))
    })
}

impl From<Chart> for Block {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

/// Connection between the dots of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DotConnection {
    /// A curve through the dots, in the order given.
    #[default]
    InOrder,
    /// Straight lines on two logarithmic axes; the dots are the ends.
    Straight,
    /// No connection between the dots.
    Apart,
}

/// Series of dots in a chart: a curve, a line, or single dots.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ChartSeries {
    /// Letter that marks the dots in text output.
    pub mark: char,
    /// Name of the series.
    pub name: String,
    /// Dots (x, y) in base units; only dots with positive coordinates are shown. A dot whose y is not a number is a gap
    /// in the curve.
    pub dots: Vec<(f64, f64)>,
    /// Details of the dots, in the order of the dots; empty if there are none.
    pub notes: Vec<String>,
    /// Dots of suspect or invalid figures: x, y and the first reason. Renderers with graphics mark them.
    pub doubts: Vec<(f64, f64, String)>,
    /// Dots beyond the right end of the axis, which are drawn at the end: x, y, and the actual position as text.
    /// Renderers draw an arrow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beyond: Vec<(f64, f64, String)>,
    /// Labels of single dots, in the order of the dots; empty if the name of the series is sufficient.
    pub labels: Vec<String>,
    /// Index of the colour; series with the same index have the same colour in all charts of a page. If `None`, the
    /// position in the chart determines the colour.
    pub colour: Option<usize>,
    /// Index of the line style (solid, dashed, dotted). If `None`, the style differs from those of other series with
    /// the same colour.
    pub dash: Option<usize>,
    /// True for a series with which the others are compared, such as a lower bound. It is drawn thinner.
    pub is_bound: bool,
    /// Connection between the dots.
    pub joined: DotConnection,
}

impl ChartSeries {
    /// Returns the series with a name; appends it if there is none.
    pub fn find_or_append(all: &mut Vec<Self>, name: String) -> &mut Self {
        let known = all.iter().position(|series| series.name == name);
        let at = known.unwrap_or(all.len());
        if known.is_none() {
            all.push(Self { mark: '*', name, ..Self::default() });
        }
        &mut all[at]
    }

    /// Appends the dot of a figure, and marks it if the figure is suspect or invalid.
    pub fn push(&mut self, dot: (f64, f64), m: &Measurement) {
        self.dots.push(dot);
        self.doubt(dot, m);
    }

    /// Marks the dot of a figure if the figure is suspect or invalid.
    pub fn doubt(&mut self, (x, y): (f64, f64), m: &Measurement) {
        if m.validity.status != Status::Valid {
            let reason = m.validity.reasons.first().cloned();
            self.doubts.push((x, y, reason.unwrap_or_else(|| m.validity.status.name().to_owned())));
        }
    }
}

/// Heat maps that share their axes and are shown side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeatMaps {
    /// Setup of the measurements; text output shows it above the maps.
    pub setup: String,
    /// Names of the row and column axes, e.g. `file` and `block`.
    pub axes: [&'static str; 2],
    /// Row labels, top to bottom.
    pub rows: Vec<String>,
    /// Column labels, left to right.
    pub columns: Vec<String>,
    /// Heat maps, left to right.
    pub maps: Vec<HeatMap>,
    /// Unit of the values.
    pub unit: Unit,
}

impl From<HeatMaps> for Block {
    fn from(maps: HeatMaps) -> Self {
        Self::HeatMaps(maps)
    }
}

/// Values over two axes, shown on a logarithmic colour scale from the smallest to the largest value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeatMap {
    /// Title above the map.
    pub title: String,
    /// Values row by row; `None` if not measured.
    pub values: Vec<Vec<Option<f64>>>,
}

impl HeatMap {
    /// Returns the smallest and the largest value of the map.
    pub fn range(&self) -> Option<(f64, f64)> {
        range(self.values.iter().flatten().flatten().copied().filter(|x| *x > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(ys: &[f64]) -> Chart {
        let dots = ys.iter().enumerate().map(|(i, y)| (1.0 + i as f64, *y)).collect();
        let series = vec![ChartSeries { mark: '*', dots, ..ChartSeries::default() }];
        Chart { series, ..Chart::default() }
    }

    #[test]
    fn axis_over_a_decade_is_logarithmic() {
        let axis = chart(&[97.0, 100.0]).vertical_axis().unwrap();
        assert_eq!(
            (axis, axis.position(97.0), axis.at(0.5)),
            (AxisScale::Linear(100.0), 0.97, 50.0)
        );
        let wide = chart(&[1.0, 0.0, 100.0]).vertical_axis().unwrap();
        assert_eq!(wide, AxisScale::Logarithmic(1.0, 100.0));
        assert!((wide.position(10.0) - 0.5).abs() < 1e-12 && (wide.at(0.5) - 10.0).abs() < 1e-12);
        assert_eq!((chart(&[5.0]).horizontal_axis(), chart(&[0.0]).vertical_axis()), (None, None));
        let mut straight = chart(&[97.0, 100.0]);
        straight.series[0].joined = DotConnection::Straight;
        assert_eq!(straight.vertical_axis(), Some(AxisScale::Logarithmic(97.0, 100.0)));
    }
}
