//! Curves and heat maps, and their axes.

use super::Block;
use nodegauge_measure::Unit;
use serde::Serialize;

/// What the values of an axis are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Sizes in bytes: `64 KiB`.
    Bytes,
    /// Rates in a unit, shown in its thousands, millions or thousand millions as fits: B/s as GB/s.
    Rate(Unit),
    /// Times: nanoseconds.
    Nanoseconds,
    /// Times: microseconds.
    Microseconds,
    /// Floating-point operations for each byte: FLOP/B.
    Intensity,
    /// Plain numbers.
    Number,
}

/// Curves. The horizontal axis is logarithmic, for sizes span many powers of two; the vertical one is as
/// [`Chart::vertical`] says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// What the horizontal axis has.
    pub x: Scale,
    /// What the vertical axis has.
    pub y: Scale,
    /// Values of the horizontal axis to label, ascending.
    pub ticks: Vec<f64>,
    /// The curves; where two meet, the first is seen.
    pub series: Vec<Series>,
    /// Dots of which something is to be said, with the words; text says it in notes.
    pub marks: Vec<(f64, f64, String)>,
}

/// An axis with its ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Axis {
    /// From zero to this.
    Linear(f64),
    /// Logarithmic, from the least to the greatest.
    Logarithmic(f64, f64),
}

/// From this ratio of the greatest to the least value on an axis is logarithmic. Below, lengths from zero
/// show how much more one is than another, and 3 % look like 3 %.
const DECADE: f64 = 10.0;

impl Axis {
    /// Where a value lies, from 0 to 1.
    pub fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear(most) => value / most,
            Self::Logarithmic(least, most) => (value / least).ln() / (most / least).ln(),
        }
    }

    /// The value at a place.
    pub fn at(self, place: f64) -> f64 {
        match self {
            Self::Linear(most) => most * place,
            Self::Logarithmic(least, most) => least * (most / least).powf(place),
        }
    }
}

impl Chart {
    /// The dots that can be shown: those above zero.
    pub fn dots(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let all = self.series.iter().flat_map(|series| &series.dots).copied();
        all.filter(|(x, y)| *x > 0.0 && *y > 0.0)
    }

    /// The horizontal axis; `None` without two different values.
    pub fn horizontal(&self) -> Option<Axis> {
        let (least, most) = range(self.dots().map(|(x, _)| x))?;
        (least < most).then_some(Axis::Logarithmic(least, most))
    }

    /// The vertical axis: from zero, or logarithmic where values span a decade or more, or lines are straight
    /// only so; `None` without any.
    pub fn vertical(&self) -> Option<Axis> {
        let (least, most) = range(self.dots().map(|(_, y)| y))?;
        let straight = self.series.iter().any(|series| series.joined == Joined::Straight);
        Some(match most / least < DECADE && !straight {
            true => Axis::Linear(most),
            false => Axis::Logarithmic(least, most),
        })
    }
}

/// The least and the greatest; `None` of none.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |found, x| {
        let (least, most) = found.unwrap_or((x, x));
        Some((x.min(least), x.max(most)))
    })
}

impl From<Chart> for Block {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

/// How the dots of a series belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Joined {
    /// Measured in their order: a curve through them.
    #[default]
    InOrder,
    /// Ends of lines that are straight on two logarithmic axes.
    Straight,
    /// Each for itself.
    Apart,
}

/// A curve, a line, or single dots.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Series {
    /// The letter that marks its dots in text.
    pub mark: char,
    /// What it is.
    pub name: String,
    /// Its dots in base units; those that are not above zero are not shown.
    pub dots: Vec<(f64, f64)>,
    /// How they belong together.
    pub joined: Joined,
}

/// Heat maps that share their axes and stand side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeatMaps {
    /// What rows and columns are, e.g. `file` and `block`.
    pub axes: [&'static str; 2],
    /// What the rows are, top to bottom.
    pub rows: Vec<String>,
    /// What the columns are, left to right.
    pub columns: Vec<String>,
    /// The maps.
    pub maps: Vec<HeatMap>,
    /// What the values are.
    pub unit: Unit,
}

impl From<HeatMaps> for Block {
    fn from(maps: HeatMaps) -> Self {
        Self::HeatMaps(maps)
    }
}

/// Values over two axes, on a logarithmic scale from the least to the greatest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeatMap {
    /// Above the map.
    pub title: String,
    /// Row by row; `None` where nothing was measured.
    pub values: Vec<Vec<Option<f64>>>,
}

impl HeatMap {
    /// The least and the greatest value.
    pub fn range(&self) -> Option<(f64, f64)> {
        range(self.values.iter().flatten().flatten().copied().filter(|x| *x > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(ys: &[f64]) -> Chart {
        let dots = ys.iter().enumerate().map(|(i, y)| (1.0 + i as f64, *y)).collect();
        let series = vec![Series { mark: '*', dots, ..Series::default() }];
        Chart { x: Scale::Number, y: Scale::Number, ticks: Vec::new(), series, marks: Vec::new() }
    }

    #[test]
    fn a_small_difference_is_shown_small_and_decades_on_a_logarithmic_axis() {
        let axis = chart(&[97.0, 100.0]).vertical().unwrap();
        assert_eq!((axis, axis.place(97.0), axis.at(0.5)), (Axis::Linear(100.0), 0.97, 50.0));
        let axis = chart(&[1.0, 0.0, 100.0]).vertical().unwrap();
        assert_eq!(axis, Axis::Logarithmic(1.0, 100.0));
        assert!((axis.place(10.0) - 0.5).abs() < 1e-12 && (axis.at(0.5) - 10.0).abs() < 1e-12);
        assert_eq!((chart(&[5.0]).horizontal(), chart(&[0.0]).vertical()), (None, None));
        let mut straight = chart(&[97.0, 100.0]);
        straight.series[0].joined = Joined::Straight;
        assert_eq!(straight.vertical(), Some(Axis::Logarithmic(97.0, 100.0)));
    }
}
