//! Curves and heat maps as text.

use super::{RESET, Style};
use nodegauge_gauge::view::{Chart, HeatMap, HeatMaps, Scale, Tone};
use nodegauge_measure::quantity::significant;
use nodegauge_measure::{Bytes, Unit};

/// Rows of a chart.
const HEIGHT: usize = 12;
/// Columns of the labels of a chart's vertical axis, with the axis.
const LABELS: usize = 9;
/// Columns of the widest chart.
const WIDEST: usize = 100;
/// Steps of a heat map's scale: a digit each.
const STEPS: usize = 10;
/// Backgrounds of the steps, as numbers of the 256 colours of terminals.
const BACKGROUNDS: [u8; STEPS] = [17, 19, 25, 31, 30, 28, 64, 136, 166, 124];
/// Columns of the label of a heat map's row.
const ROW_LABEL: usize = 9;

/// What a value of an axis is called; the vertical axis has at most seven characters.
fn label(scale: Scale, value: f64, with_unit: bool) -> String {
    let (text, unit) = match scale {
        Scale::Bytes => {
            return Bytes(value as u64).to_string().replace(' ', "").replace("iB", "");
        }
        Scale::Rate(Unit::FlopsPerSecond) => (significant(value / 1e9), "GFLOP/s"),
        Scale::Rate(Unit::BytesPerSecond) => (significant(value / 1e9), "GB/s"),
        Scale::Rate(unit) => (significant(value), unit.symbol()),
        Scale::Nanoseconds => (significant(value * 1e9), "ns"),
        Scale::Microseconds => (significant(value * 1e6), "us"),
        Scale::Number => (significant(value), ""),
    };
    if with_unit && !unit.is_empty() { format!("{text} {unit}") } else { text }
}

/// Draws curves; empty without two different values on the horizontal axis.
pub(super) fn chart(chart: &Chart, style: Style) -> String {
    let dots = || chart.series.iter().flat_map(|s| &s.dots).filter(|(x, y)| *x > 0.0 && *y > 0.0);
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
    for one in chart.series.iter().rev() {
        for (x, y) in one.dots.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0) {
            let row = HEIGHT - 1 - place(*y, low, high, HEIGHT);
            grid[row][place(*x, left, right, width)] = one.mark;
        }
    }
    let mut out = String::new();
    for (row, line) in grid.iter().enumerate() {
        // Every third row has its value.
        let text = if row % 3 == 0 || row + 1 == HEIGHT {
            let share = (HEIGHT - 1 - row) as f64 / (HEIGHT - 1) as f64;
            label(chart.y, low * (high / low).powf(share), false)
        } else {
            String::new()
        };
        let line: String = line.iter().collect();
        out.push_str(&format!("{text:>7} |{}\n", line.trim_end()));
    }
    out.push_str(&format!("{:>7} +{}\n", "", "-".repeat(width)));
    let mut axis = vec![' '; LABELS + width];
    let mut free = 0;
    for tick in chart.ticks.iter().filter(|tick| **tick >= left && **tick <= right) {
        let text = label(chart.x, *tick, true);
        let centre = LABELS + place(*tick, left, right, width);
        let start =
            centre.saturating_sub(text.len() / 2).min(axis.len() - text.len().min(axis.len()));
        if start >= free {
            for (i, c) in text.chars().enumerate() {
                axis[start + i] = c;
            }
            free = start + text.len() + 2;
        }
    }
    let axis: String = axis.iter().collect();
    out.push_str(axis.trim_end());
    out.push('\n');
    let legend: Vec<String> =
        chart.series.iter().map(|s| format!("{} {}", s.mark, s.name)).collect();
    out.push_str(&format!("{:LABELS$}{}\n", "", legend.join(", ")));
    out
}

/// Draws heat maps, as many side by side as there is room: a digit from 0 to 9 for each cell on a
/// logarithmic scale, on a background from blue to red where there is colour.
pub(super) fn heat_maps(maps: &HeatMaps, style: Style) -> String {
    let titles = maps.maps.iter().map(|map| map.title.len()).max().unwrap_or(0);
    let width = (maps.columns.len() * 2).max(titles) + 2;
    let abreast = (usize::from(style.width).saturating_sub(ROW_LABEL) / width).max(1);
    let mut out = String::new();
    for band in maps.maps.chunks(abreast) {
        out.push('\n');
        let line = |of: &dyn Fn(&HeatMap) -> (String, usize)| {
            let mut line = String::new();
            for map in band {
                let (text, columns) = of(map);
                line.push_str(&text);
                line.push_str(&" ".repeat(width.saturating_sub(columns)));
            }
            line.trim_end().to_owned()
        };
        let names = line(&|map| (style.toned(Tone::Strong, &map.title), map.title.len()));
        out.push_str(&format!("{:ROW_LABEL$}{names}\n", ""));
        for (row, name) in maps.rows.iter().enumerate() {
            let cells = line(&|map| (heat_row(map, row, style), maps.columns.len() * 2));
            out.push_str(&format!("{name:>width$} {cells}\n", width = ROW_LABEL - 1));
        }
    }
    out
}

fn heat_row(map: &HeatMap, row: usize, style: Style) -> String {
    let (least, most) = map.range().unwrap_or((1.0, 1.0));
    let span = (most / least).ln();
    let step = |value: f64| match span > 0.0 {
        true => (((value / least).ln() / span * STEPS as f64) as usize).min(STEPS - 1),
        false => STEPS - 1,
    };
    let cell = |value: &Option<f64>| match value.filter(|value| *value > 0.0).map(step) {
        None => "  ".to_owned(),
        Some(step) if style.colour => {
            format!("\x1b[48;5;{};97m {step}{RESET}", BACKGROUNDS[step])
        }
        Some(step) => format!(" {step}"),
    };
    map.values.get(row).map(|row| row.iter().map(cell).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_gauge::view::Series;

    #[test]
    fn a_chart_has_its_curve_its_axes_and_fits() {
        let read = (0..10).map(|i| (f64::from(1 << i), 1e12 / f64::from(1 + i))).collect();
        let chart = Chart {
            x: Scale::Number,
            y: Scale::Rate(Unit::BytesPerSecond),
            ticks: vec![1.0, 8.0, 64.0, 512.0, 4096.0],
            series: vec![
                Series { mark: 'r', name: "read".to_owned(), dots: read },
                Series {
                    mark: 'w',
                    name: "write".to_owned(),
                    dots: vec![(1.0, 0.0), (512.0, 5e10)],
                },
            ],
            marks: Vec::new(),
        };
        let text = super::chart(&chart, Style { width: 60, colour: false });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), HEIGHT + 3);
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{text}");
        assert!(lines[0].starts_with("   1000 |r"), "{text}");
        assert_eq!(text.matches('r').count(), 10 + "r read, write".matches('r').count());
        let axis = lines[HEIGHT + 1];
        assert!(axis.trim_start().starts_with('1') && axis.ends_with("512.0"), "{text}");
        assert!(!axis.contains("4096"));
        let dots = vec![(1.0, 1.0)];
        let one = Chart { series: vec![Series { mark: 'x', name: String::new(), dots }], ..chart };
        assert_eq!(super::chart(&one, Style::default()), "");
    }
}
