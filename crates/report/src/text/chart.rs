//! Curves and heat maps as text.

use super::{RESET, Style};
use nodegauge_gauge::view::{
    AxisQuantity, AxisScale, Chart, ChartSeries, DotConnection, HeatMap, HeatMaps, Tone, wrap,
};
use nodegauge_measure::quantity::format_significant;
use nodegauge_measure::{Bytes, ScaledUnit, Unit};

/// Number of rows of a chart.
const HEIGHT: usize = 13;
/// Mark after a dot whose position is beyond the right end of the axis.
const ARROW: char = '>';
/// Number of rows of a roofline, whose straight lines cover many decades.
const LINES_HEIGHT: usize = 19;
/// Number of columns for the vertical axis of a chart, including its labels.
const LABELS: usize = 9;
/// Colours of the curves, in order. They are legible on dark and light terminals.
const COLOURS: [&str; 6] = ["\x1b[36m", "\x1b[35m", "\x1b[32m", "\x1b[33m", "\x1b[34m", "\x1b[31m"];
/// Number of steps on the scale of a heat map, one per digit.
const STEPS: usize = 10;
/// Background of each step, one of the 256 terminal colours.
const BACKGROUNDS: [u8; STEPS] = [17, 19, 25, 31, 30, 28, 64, 136, 166, 124];
/// Number of columns for the row labels of a heat map.
const ROW_LABEL: usize = 9;
/// Number of columns between two heat maps.
const GUTTER: usize = 3;

/// Formats a value in the unit of its axis. Returns the number and the unit.
fn scaled(scale: AxisQuantity, value: f64) -> (String, String) {
    let unit = match scale {
        AxisQuantity::Bytes => return (short(&Bytes(value as u64).to_string()), String::new()),
        // Intensities are powers of two with few digits.
        AxisQuantity::Intensity => return (value.to_string(), String::new()),
        AxisQuantity::Percent => return (format_significant(value), "%".to_owned()),
        AxisQuantity::Number => return (format_significant(value), String::new()),
        AxisQuantity::Rate(unit) => ScaledUnit::for_lists(unit),
        AxisQuantity::Nanoseconds => ScaledUnit::NANOSECONDS,
        AxisQuantity::Microseconds => ScaledUnit::MICROSECONDS,
    };
    (unit.number_text(value), unit.to_string())
}

/// Shortens a size, e.g. `64 KiB` to `64K`.
fn short(size: &str) -> String {
    size.replace(' ', "").replace("iB", "")
}

/// Draws curves over the available width. Returns an empty text if all horizontal values are equal.
pub(super) fn chart(chart: &Chart, style: Style) -> String {
    let (Some(x_axis), Some(y_axis)) = (chart.horizontal_axis(), chart.vertical_axis()) else {
        return String::new();
    };
    let width = usize::from(style.width) - LABELS - 1;
    let has_lines = chart.series.iter().any(|one| one.joined == DotConnection::Straight);
    let height = if has_lines { LINES_HEIGHT } else { HEIGHT };
    let mut grid = vec![vec![None; width]; height];
    for (number, one) in chart.series.iter().enumerate().rev() {
        for (x, y) in places(one, x_axis, y_axis, width) {
            grid[height - 1 - cell(y, height)][cell(x, width)] = Some((number, one.mark));
        }
    }
    for (number, one) in chart.series.iter().enumerate() {
        for (_, y, _) in &one.beyond {
            // The arrow follows its dot.
            let line = &mut grid[height - 1 - cell(y_axis.position(*y), height)];
            line[width - 2] = Some((number, one.mark));
            line[width - 1] = Some((number, ARROW));
        }
    }
    let logarithmic =
        if matches!(y_axis, AxisScale::Logarithmic(..)) { ", logarithmic" } else { "" };
    let over = if chart.x == AxisQuantity::Intensity { " over FLOP/B" } else { "" };
    // Axes of plain numbers have a name instead of a unit.
    let symbol = scaled(chart.y, 1.0).1;
    let values = if symbol.is_empty() { chart.names[1] } else { &symbol };
    let mut out = format!("{values:>7}{over}{logarithmic}\n");
    for (row, line) in grid.iter().enumerate() {
        // Every third row has a label, and so has the last row.
        let text = if row % 3 == 0 {
            let share = (height - 1 - row) as f64 / (height - 1) as f64;
            scaled(chart.y, y_axis.at(share)).0
        } else {
            String::new()
        };
        let last = line.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let marks: String = line[..last]
            .iter()
            .map(|mark_at| mark_at.map_or_else(|| " ".to_owned(), |at| coloured(at, style)))
            .collect();
        out.push_str(&format!("{text:>7} |{marks}\n"));
    }
    out.push_str(&format!("{:>7} +{}\n", "", "-".repeat(width)));
    let mut axis = vec![' '; LABELS + width];
    let mut next_free = 0;
    for tick in chart.ticks.iter().filter(|tick| (0.0..=1.0).contains(&x_axis.position(**tick))) {
        let (mut value, unit) = scaled(chart.x, *tick);
        if chart.x == AxisQuantity::Number && tick.fract() == 0.0 {
            // Plain numbers, e.g. numbers of ranks, have no unit.
            value = tick.to_string();
        }
        let text = format!("{value} {unit}");
        let text = text.trim_end();
        let centre = LABELS + cell(x_axis.position(*tick), width);
        let start =
            centre.saturating_sub(text.len() / 2).min(axis.len() - text.len().min(axis.len()));
        if start >= next_free {
            for (i, c) in text.chars().enumerate() {
                axis[start + i] = c;
            }
            next_free = start + text.len() + 2;
        }
    }
    let axis: String = axis.iter().collect();
    out.push_str(axis.trim_end());
    out.push('\n');
    out.push_str(&legend(chart, width, style));
    out
}

/// Converts a position on an axis, 0 to 1, to the index of a character cell.
fn cell(share: f64, cells: usize) -> usize {
    let last = (cells - 1) as f64;
    (share * last).round().clamp(0.0, last) as usize
}

/// Colours a mark for the series with this index.
fn coloured((number, mark): (usize, char), style: Style) -> String {
    if !style.colour {
        return mark.to_string();
    }
    format!("{}{mark}{RESET}", COLOURS[number % COLOURS.len()])
}

/// Returns the names of the curves with their marks, in lines of this width after the axis labels.
fn legend(chart: &Chart, width: usize, style: Style) -> String {
    let mut out = String::new();
    let mut free = 0;
    for (number, series) in chart.series.iter().enumerate() {
        let mark = coloured((number, series.mark), style);
        let name =
            wrap(&series.name, width.saturating_sub(3)).join(&format!("\n{:1$}", "", LABELS + 2));
        let length = series.name.chars().count() + 2;
        let has_room = number > 0 && free >= length + 2;
        if number > 0 {
            out.push(',');
        }
        if has_room {
            out.push(' ');
            free -= length + 2;
        } else {
            let end = if number > 0 { "\n" } else { "" };
            out.push_str(&format!("{end}{:LABELS$}", ""));
            free = width.saturating_sub(length);
        }
        out.push_str(&format!("{mark} {name}"));
    }
    out.push('\n');
    out
}

/// Returns the positions of a series' dots on both axes, 0 to 1. A straight line gets a dot in every character column.
fn places(
    series: &ChartSeries,
    x_axis: AxisScale,
    y_axis: AxisScale,
    columns: usize,
) -> Vec<(f64, f64)> {
    let shown = series.dots.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0);
    let dots: Vec<(f64, f64)> =
        shown.map(|(x, y)| (x_axis.position(*x), y_axis.position(*y))).collect();
    if series.joined != DotConnection::Straight {
        return dots;
    }
    let mut line = Vec::new();
    for ends in dots.windows(2) {
        let [(x0, y0), (x1, y1)] = [ends[0], ends[1]];
        let steps = ((x1 - x0).abs() * columns as f64).ceil().max(1.0);
        line.extend((0..=steps as usize).map(|step| {
            let share = step as f64 / steps;
            (x0 + share * (x1 - x0), y0 + share * (y1 - y0))
        }));
    }
    line
}

/// Draws heat maps with names for their rows and columns, next to each other if the width permits. Each value is shown
/// as a digit from 0 to 9 on a logarithmic scale; the values of 0 and 9 follow the title. With colours, the background
/// changes from blue (0) to red (9).
pub(super) fn heat_maps(maps: &HeatMaps, style: Style) -> String {
    let columns: Vec<String> = maps.columns.iter().map(|name| short(name)).collect();
    let cell = columns.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(1) + 1;
    let titles: Vec<(String, String)> =
        maps.maps.iter().map(|map| (map.title.clone(), ends(map, maps.unit))).collect();
    let widest = titles.iter().map(|(name, ends)| name.chars().count() + ends.chars().count());
    let widest = widest.max().unwrap_or(0);
    let width = (columns.len() * cell).max(widest) + GUTTER;
    let room = usize::from(style.width) + GUTTER;
    let abreast = (room.saturating_sub(ROW_LABEL) / width).max(1);
    let mut out = String::new();
    for (band, band_titles) in maps.maps.chunks(abreast).zip(titles.chunks(abreast)) {
        out.push('\n');
        let names = band_titles.iter().map(|(name, ends)| {
            let length = name.chars().count() + ends.chars().count();
            padded(style.toned(Tone::Strong, name) + ends, length, width)
        });
        let head: String = columns.iter().map(|name| format!("{name:>cell$}")).collect();
        let heads = band.iter().map(|_| padded(head.clone(), columns.len() * cell, width));
        for line in [names.collect::<String>(), heads.collect()] {
            out.push_str(&format!("{:ROW_LABEL$}{}\n", "", line.trim_end()));
        }
        for (row, name) in maps.rows.iter().enumerate() {
            let cells = band.iter().map(|map| {
                let cells = heat_row(map, row, columns.len(), cell, style);
                padded(cells, columns.len() * cell, width)
            });
            let cells: String = cells.collect();
            let shown = cells.trim_end();
            out.push_str(&format!("{name:>label$} {shown}\n", label = ROW_LABEL - 1));
        }
    }
    out
}

/// Pads a text with blanks to a width; `length` is its length on the screen.
fn padded(text: String, length: usize, width: usize) -> String {
    text + &" ".repeat(width.saturating_sub(length))
}

/// Returns the values of the first and the last digit of a map.
fn ends(map: &HeatMap, unit: Unit) -> String {
    map.range().map_or_else(String::new, |(min, max)| {
        let [(min, name), (max, _)] =
            [min, max].map(|value| scaled(AxisQuantity::Rate(unit), value));
        format!(": 0 is {min}, 9 is {max} {name}")
    })
}

fn heat_row(map: &HeatMap, row: usize, columns: usize, width: usize, style: Style) -> String {
    let (min, max) = map.range().unwrap_or((1.0, 1.0));
    let span = (max / min).ln();
    let mut cells = String::new();
    for column in 0..columns {
        let value = map.values.get(row).and_then(|row| row.get(column).copied().flatten());
        let step = value.filter(|value| *value > 0.0).map(|value| {
            if span > 0.0 {
                (((value / min).ln() / span * STEPS as f64) as usize).min(STEPS - 1)
            } else {
                STEPS - 1
            }
        });
        cells.push_str(&match step {
            None => " ".repeat(width),
            Some(step) if style.colour => {
                format!("\x1b[48;5;{};97m{step:>width$}{RESET}", BACKGROUNDS[step])
            }
            Some(step) => format!("{step:>width$}"),
        });
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_gauge::view::ChartSeries;

    fn two() -> Chart {
        let read = (0..10).map(|i| (f64::from(1 << i), 1e12 / f64::from(1 + i))).collect();
        let write = vec![(1.0, 0.0), (512.0, 5e10)];
        Chart {
            x: AxisQuantity::Number,
            y: AxisQuantity::Rate(Unit::BytesPerSecond),
            ticks: vec![1.0, 8.0, 64.0, 512.0, 4096.0],
            series: vec![
                ChartSeries {
                    mark: 'r',
                    name: "read".to_owned(),
                    dots: read,
                    ..ChartSeries::default()
                },
                ChartSeries {
                    mark: 'w',
                    name: "write".to_owned(),
                    dots: write,
                    ..ChartSeries::default()
                },
            ],
            ..Chart::default()
        }
    }

    #[test]
    fn chart_fills_the_terminal_width_with_curves_and_axes() {
        for width in [60, 80, 200] {
            let text = super::chart(&two(), Style { width, colour: false });
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), HEIGHT + 4);
            let widest = lines.iter().map(|line| line.chars().count()).max();
            assert_eq!(widest, Some(usize::from(width) - 1), "{text}");
            assert_eq!(lines[0], "   GB/s, logarithmic");
            assert!(lines[1].starts_with("   1000 |r"), "{text}");
            let curves = lines[1..].join("\n");
            assert_eq!(curves.matches('r').count(), 10 + "r read, w write".matches('r').count());
            let axis = lines[HEIGHT + 2];
            assert!(axis.trim_start().starts_with('1') && axis.ends_with("512"), "{text}");
            assert!(!axis.contains("4096"));
        }
        let one = Chart {
            series: vec![ChartSeries { dots: vec![(1.0, 1.0)], ..two().series.remove(0) }],
            ..two()
        };
        assert_eq!(super::chart(&one, Style::default()), "");
    }

    #[test]
    fn dot_beyond_the_axis_has_an_arrow() {
        let mut chart = two();
        chart.series[1].dots = vec![(512.0, 5e10)];
        let within = super::chart(&chart, Style { width: 60, colour: false });
        assert!(!within.contains('>'), "{within}");
        chart.series[1].beyond = vec![(512.0, 5e10, "at 9999, beyond the axis".to_owned())];
        let text = super::chart(&chart, Style { width: 60, colour: false });
        assert_eq!(text.lines().filter(|line| line.ends_with("w>")).count(), 1, "{text}");
    }

    #[test]
    fn three_percent_difference_is_a_flat_curve() {
        let dots = vec![(1.0, 97e9), (2.0, 100e9), (4.0, 97e9)];
        let flat = Chart { series: vec![ChartSeries { dots, ..two().series.remove(0) }], ..two() };
        let text = super::chart(&flat, Style::default());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[1].matches('r').count()), ("   GB/s", 3), "{text}");
        assert!(
            lines[1].starts_with("  100.0 |") && lines[HEIGHT].starts_with("  0.000 |"),
            "{text}"
        );
    }

    #[test]
    fn curve_colours_do_not_change_the_layout() {
        let style = Style { width: 70, colour: true };
        let coloured = super::chart(&two(), style);
        assert!(coloured.contains("\x1b[36mr\x1b[0m read, \x1b[35mw\x1b[0m write"), "{coloured:?}");
        let escapes = [COLOURS[0], COLOURS[1], RESET];
        let plain = escapes.iter().fold(coloured, |text, escape| text.replace(escape, ""));
        assert_eq!(plain, super::chart(&two(), Style { colour: false, ..style }));
    }

    #[test]
    fn heat_map_shows_column_names_and_scale() {
        let values = vec![vec![Some(1e9), Some(3.2e9)], vec![None, Some(10e9)]];
        let map = |title: &str| HeatMap { title: title.to_owned(), values: values.clone() };
        let maps = HeatMaps {
            setup: String::new(),
            axes: ["file", "block"],
            rows: vec!["64 KiB".to_owned(), "1 MiB".to_owned()],
            columns: vec!["4 KiB".to_owned(), "512 KiB".to_owned()],
            maps: vec![map("write"), map("read")],
            unit: Unit::BytesPerSecond,
        };
        let text = super::heat_maps(&maps, Style { width: 80, colour: false });
        let two =
            "         write: 0 is 1.000, 9 is 10.00 GB/s   read: 0 is 1.000, 9 is 10.00 GB/s\n";
        assert!(text.starts_with(&format!("\n{two}            4K 512K")), "{text}");
        assert!(text.contains("\n  64 KiB     0    5 "), "{text}");
        assert!(text.contains("\n   1 MiB          9"), "{text}");
        let narrow = super::heat_maps(&maps, Style { width: 79, colour: false });
        assert_eq!(narrow.matches("512K").count(), 2);
        assert!(narrow.lines().all(|line| line.chars().count() < 50), "{narrow}");
    }
}
