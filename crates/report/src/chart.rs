//! Curves drawn with letters, for a terminal: both axes logarithmic, for sizes and rates span many
//! powers of ten.

use crate::table::Style;

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// The letter that marks its dots.
    pub mark: char,
    /// What it is.
    pub name: String,
    /// Its dots; those that are not above zero are left out.
    pub dots: Vec<(f64, f64)>,
}

/// How a chart is drawn.
pub(crate) struct Chart<'a> {
    /// What a value of the horizontal axis is called.
    pub x: &'a dyn Fn(f64) -> String,
    /// What a value of the vertical axis is called, at most seven characters.
    pub y: &'a dyn Fn(f64) -> String,
    /// Values of the horizontal axis to label, ascending.
    pub ticks: &'a [f64],
}

/// Rows.
const HEIGHT: usize = 12;
/// Columns of the labels of the vertical axis, with the axis.
const LABELS: usize = 9;
/// Columns of the widest chart.
const WIDEST: usize = 100;

/// Draws the curves; empty without two different values on the horizontal axis. Where two meet, the
/// first is seen.
pub(crate) fn draw(chart: &Chart<'_>, series: &[Series], style: Style) -> String {
    let dots = || series.iter().flat_map(|s| &s.dots).filter(|(x, y)| *x > 0.0 && *y > 0.0);
    let range = |of: &dyn Fn(&(f64, f64)) -> f64| {
        dots().map(of).fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)))
    };
    let ((left, right), (low, high)) = (range(&|dot| dot.0), range(&|dot| dot.1));
    if left >= right || !low.is_finite() {
        return String::new();
    }
    let width = usize::from(style.width).min(WIDEST) - LABELS - 1;
    // A flat curve still needs a height.
    let high = high.max(low * 1.001);
    let place = |value: f64, from: f64, to: f64, cells: usize| {
        let share = (value / from).ln() / (to / from).ln();
        (share * (cells - 1) as f64).round().clamp(0.0, (cells - 1) as f64) as usize
    };
    let mut grid = vec![vec![' '; width]; HEIGHT];
    for one in series.iter().rev() {
        for (x, y) in one.dots.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0) {
            let row = HEIGHT - 1 - place(*y, low, high, HEIGHT);
            grid[row][place(*x, left, right, width)] = one.mark;
        }
    }
    let mut out = String::new();
    for (row, line) in grid.iter().enumerate() {
        // Every third row has its value.
        let label = if row % 3 == 0 || row + 1 == HEIGHT {
            let share = (HEIGHT - 1 - row) as f64 / (HEIGHT - 1) as f64;
            (chart.y)(low * (high / low).powf(share))
        } else {
            String::new()
        };
        let line: String = line.iter().collect();
        out.push_str(&format!("{label:>7} |{}\n", line.trim_end()));
    }
    out.push_str(&format!("{:>7} +{}\n", "", "-".repeat(width)));
    let mut axis = vec![' '; LABELS + width];
    let mut free = 0;
    for tick in chart.ticks.iter().filter(|tick| **tick >= left && **tick <= right) {
        let label = (chart.x)(*tick);
        let centre = LABELS + place(*tick, left, right, width);
        let start =
            centre.saturating_sub(label.len() / 2).min(axis.len() - label.len().min(axis.len()));
        if start >= free {
            for (i, c) in label.chars().enumerate() {
                axis[start + i] = c;
            }
            free = start + label.len() + 2;
        }
    }
    let axis: String = axis.iter().collect();
    out.push_str(axis.trim_end());
    out.push('\n');
    let legend: Vec<String> = series.iter().map(|s| format!("{} {}", s.mark, s.name)).collect();
    out.push_str(&format!("{:LABELS$}{}\n", "", legend.join(", ")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_curve_its_axes_and_fits() {
        let series = [
            Series {
                mark: 'r',
                name: "read".to_owned(),
                dots: (0..10).map(|i| (f64::from(1 << i), 1000.0 / f64::from(1 + i))).collect(),
            },
            Series { mark: 'w', name: "write".to_owned(), dots: vec![(1.0, 0.0), (512.0, 50.0)] },
        ];
        let chart = Chart {
            x: &|x| format!("{x}"),
            y: &|y| format!("{y:.0}"),
            ticks: &[1.0, 8.0, 64.0, 512.0, 4096.0],
        };
        let text = draw(&chart, &series, Style { width: 60, colour: false });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), HEIGHT + 3);
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{text}");
        assert!(lines[0].starts_with("   1000 |r"), "{text}");
        assert_eq!(text.matches('r').count(), 10 + "r read, write".matches('r').count());
        assert!(
            lines[HEIGHT + 1].trim_start().starts_with('1') && lines[HEIGHT + 1].ends_with("512")
        );
        assert!(!lines[HEIGHT + 1].contains("4096"));
    }

    #[test]
    fn nothing_is_drawn_of_one_dot() {
        let one = [Series { mark: 'x', name: String::new(), dots: vec![(1.0, 1.0)] }];
        let chart = Chart { x: &|x| x.to_string(), y: &|y| y.to_string(), ticks: &[] };
        assert_eq!(draw(&chart, &one, Style::default()), "");
    }
}
