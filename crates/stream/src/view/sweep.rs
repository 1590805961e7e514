//! View of `stream --sweep`: one line per configuration, and a chart of one kernel, usually Triad.

use super::figures::{StreamFigure, variants};
use super::{Statistic, compiled, words};
use crate::config::{RelativeConfig, StreamConfig};
use crate::sweep::{SATURATED, is_dip};
use nodegauge_analysis::ratio::closing::of_several;
use nodegauge_arena::names::TRIAD;
use nodegauge_gauge::view::sentence::{capital, doubted};
use nodegauge_gauge::view::{
    Block, Chart, ChartSeries, Column, Picture, Scale, Section, Step, Table, TableCell, distinct,
};
use nodegauge_measure::record::{Measurement, Quoted, Record, Status};
use nodegauge_measure::stats::Summary;
use nodegauge_measure::{Bytes, Fraction, Unit};
use serde_json::Value;

/// Returns the table and the reasons for doubt; `None` if the record has no sweep. The table has the columns `show` of
/// STREAM's table; if `show` is empty, it has medians and a chart follows.
pub(crate) fn section(record: &Record, show: &[Statistic]) -> Option<Section> {
    let figures = variants(record);
    let cells: Vec<&[StreamFigure<'_>]> = figures
        .chunk_by(|(_, one), (_, next)| one.sweep == next.sweep)
        .filter(|cell| cell[0].1.sweep.is_some())
        .collect();
    let first = cells.first()?;
    let triad = first.iter().position(|(m, _)| m.name == "triad");
    let charted = triad.unwrap_or(first.len() - 1);
    let sweep = Sweep { charted, values: AxisValues::of(&cells), cells };
    let mut section = Section::new("sweep");
    match show {
        [] => sweep.medians(&mut section),
        [one] => sweep.statistic(*one, &mut section),
        several => sweep.statistics(several, &mut section),
    }
    for (short, legend) in sweep.values.legend(&sweep.cells, charted) {
        section.note(&short, legend);
    }
    for (status, doubt) in doubts(&sweep.cells, &sweep.values) {
        section.note(status.name(), doubt);
    }
    section.push(words::variant());
    Some(section)
}

/// Returns a sentence that compares the fastest configuration of a sweep with the second fastest, for the charted
/// kernel. Returns `None` for a sweep over sizes, where differences are expected.
pub(crate) fn closing(record: &Record) -> Option<String> {
    let all = variants(record);
    let groups = all.chunk_by(|(_, one), (_, next)| one.sweep == next.sweep);
    let cells: Vec<&[StreamFigure<'_>]> = groups.filter(|cell| cell[0].1.sweep.is_some()).collect();
    let first = cells.first()?;
    let triad = first.iter().find(|(m, _)| m.name == "triad").or(first.last())?;
    if coordinates(&triad.1).iter().any(|(axis, _)| *axis == "size") {
        return None;
    }
    let of_kernel =
        cells.iter().filter_map(|cell| cell.iter().find(|(m, _)| m.name == triad.0.name));
    let named = of_kernel.map(|(m, config)| {
        let at = coordinates(config).into_iter().map(|(axis, value)| format!("{axis} {value}"));
        (at.collect::<Vec<_>>().join(", "), *m)
    });
    let named_cells: Vec<(String, &Measurement)> = named.collect();
    let what = format!("runs {}", triad.0.name);
    of_several(&named_cells, &what, Quoted::Median).into_iter().next()
}

/// Returns the sentence with the highest and the lowest median of the charted kernel; `None` if the record has no sweep.
pub(super) fn conclusion(record: &Record) -> Option<String> {
    let all = variants(record);
    let swept = || all.iter().filter(|(_, config)| config.sweep.is_some());
    let triad = swept().find(|(m, _)| m.name == TRIAD).or_else(|| swept().next_back())?;
    let name = &triad.0.name;
    let medians = swept().filter(|(m, _)| m.name == *name).filter_map(|(m, config)| {
        m.value.filter(|_| m.validity.status != Status::Invalid)?;
        Some((m, config, m.summary.as_ref()?.median))
    });
    let mut medians: Vec<(&Measurement, &StreamConfig, f64)> =
        medians.map(|(m, config, median)| (*m, config, median)).collect();
    medians.sort_by(|a, b| a.2.total_cmp(&b.2));
    let words = |(m, config, median): &(&Measurement, &StreamConfig, f64)| {
        let at = coordinates(config).into_iter().map(|at| format!("{} {}", at.0, in_words(at)));
        let value = doubted(&m.unit.in_words(*median), m.validity.status == Status::Suspect);
        format!("{value} with {}", at.collect::<Vec<_>>().join(", "))
    };
    let most = medians.last()?;
    let lowest = medians.first().filter(|_| medians.len() > 1);
    let lowest = lowest.map(|least| format!(", the lowest {}", words(least))).unwrap_or_default();
    Some(format!("The highest median of {} is {}{lowest}", capital(name), words(most)))
}

/// Figures of a sweep to show.
struct Sweep<'a> {
    /// Figures of each configuration.
    cells: Vec<&'a [StreamFigure<'a>]>,
    /// Index of the charted kernel, which determines trends.
    charted: usize,
    values: AxisValues<'a>,
}

impl Sweep<'_> {
    /// Returns an empty table with columns for the configuration, followed by `titles`.
    fn table<'b>(&'b self, titles: impl IntoIterator<Item = &'b str>) -> Table {
        let of_all = &self.cells[0][0].1;
        let axes = coordinates(of_all).into_iter().map(|(axis, _)| axis);
        let task = of_all.processes.map(|_| TASK);
        let titles: Vec<String> =
            axes.chain(task).chain(titles).map(|title| format!(">{title}")).collect();
        Table::new(&titles.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Returns the configuration of a cell: the value on each axis, and the memory of each rank.
    fn place(&self, cell: &[StreamFigure<'_>]) -> Vec<TableCell> {
        let config = &cell[0].1;
        let mut place: Vec<TableCell> = Vec::new();
        place.extend(coordinates(config).into_iter().map(|at| self.values.short(at).into()));
        place.extend(config.processes.and_then(|_| words::mib_a_task(config)).map(TableCell::text));
        place
    }

    fn kernels(&self) -> impl Iterator<Item = &str> {
        self.cells[0].iter().map(|(m, _)| m.name.as_str())
    }

    /// Adds a table with one line per configuration, and a chart of the charted kernel.
    fn medians(&self, section: &mut Section) {
        let of =
            |cell: &[StreamFigure<'_>]| cell.get(self.charted).and_then(|(m, _)| m.summary.clone());
        let medians = self.cells.iter().filter_map(|cell| of(cell)).map(|summary| summary.median);
        let most = medians.fold(0.0, f64::max);
        let relative = |cell: &[StreamFigure<'_>]| cell.get(self.charted)?.1.relative.clone();
        let reference = self.cells.iter().find_map(|cell| relative(cell));
        let ratio = reference.iter().map(|_| "x");
        let mut table = self.table(self.kernels().chain(["5 %..95 %"]).chain(ratio));
        table.columns.push(Column::default());
        for cell in &self.cells {
            let mut row = self.place(cell);
            row.extend(cell.iter().map(|(m, _)| median(m)));
            let summary = of(cell);
            row.push(summary.as_ref().map_or_else(|| "-".into(), spread));
            if reference.is_some() {
                let against = relative(cell).and_then(|relative| relative.median);
                let word = |x| TableCell::figure(x, Unit::Factor, format!("{x:.2}"));
                row.push(against.map_or_else(|| "-".into(), word));
            }
            row.push(TableCell::bar(Fraction(
                summary.map_or(0.0, |summary| summary.median / most),
            )));
            table.row(row);
        }
        let name = &self.cells[0][self.charted].0.name;
        section.push(table).picture(picture(&self.cells, self.charted, &self.values)).gap();
        section.push(Block::Text(format!("medians in GB/s; spread and bars: {name}")));
        if let Some(reference) = &reference {
            let reference = reference_in_words(reference);
            let text = format!("x: median of {name} divided by that of {reference}");
            section.push(Block::Text(text));
        }
    }

    /// Adds a table with one line per configuration and one column per kernel, as sweeps are usually published.
    fn statistic(&self, statistic: Statistic, section: &mut Section) {
        let mut table = self.table(self.kernels());
        for cell in &self.cells {
            let mut row = self.place(cell);
            row.extend(cell.iter().map(|(m, config)| statistic.cell(m, config)));
            table.row(row);
        }
        section.push(table).gap();
        section.push(Block::Text(statistic.titles().1.to_owned()));
    }

    /// Adds a table with one line per configuration and kernel, and columns of STREAM's table.
    fn statistics(&self, show: &[Statistic], section: &mut Section) {
        let titles = show.iter().map(|statistic| statistic.titles().0);
        let mut table = self.table(std::iter::once("Function").chain(titles));
        for cell in &self.cells {
            for (m, config) in *cell {
                let mut row = self.place(cell);
                row.push(TableCell::text(m.name.clone()));
                row.extend(show.iter().map(|statistic| statistic.cell(m, config)));
                table.row(row);
            }
        }
        section.push(table).gap();
    }
}

/// Names of horizontal axes.
const AXES: [&str; 4] = ["size of an array", "threads", "ranks", "offset"];
/// Title of the column for the memory of each process.
const TASK: &str = "MiB per task";

/// Returns the value of a cell on an axis, if the value is a number.
fn number(cell: &[StreamFigure<'_>], axis: usize) -> Option<f64> {
    let config = &cell[0].1;
    match coordinates(config).get(axis)? {
        (name, _) if *name == "size" => config.array_bytes.map(|bytes| bytes as f64),
        // Policies are numbered, but their numbers have no order.
        (name, _) if *name == "policy" => None,
        (_, value) => value.parse().ok(),
    }
}

/// Returns a chart of the medians of the charted kernel over the first numeric axis. It has a curve for each value of
/// the other axes, and marks for saturation points and dips. If no axis is numeric, the chart has one bar per cell.
fn picture(
    cells: &[&[StreamFigure<'_>]],
    charted: usize,
    values: &AxisValues<'_>,
) -> Option<Picture> {
    let first = cells.first()?;
    let (m, config) = first.get(charted)?;
    let median = |cell: &[StreamFigure<'_>]| {
        let (charted_m, _) = cell.get(charted)?;
        charted_m.value.and(charted_m.summary.as_ref()).map(|summary| summary.median)
    };
    let places = coordinates(config);
    let words = |cell: &[StreamFigure<'_>], but: Option<usize>| {
        let coordinates_here = coordinates(&cell[0].1).into_iter().enumerate();
        let words = coordinates_here
            .filter(|(i, _)| Some(*i) != but)
            .map(|(_, at)| format!("{} {}", at.0, values.whole(at)));
        words.collect::<Vec<_>>().join(", ")
    };
    let is_number = |axis: &usize| cells.iter().all(|cell| number(cell, *axis).is_some());
    let varies =
        |axis: &usize| cells.iter().any(|cell| number(cell, *axis) != number(first, *axis));
    let numeric = || (0..places.len()).filter(is_number);
    let Some(axis) = numeric().find(varies).or_else(|| numeric().next()) else {
        let bar = |cell: &&[StreamFigure<'_>]| {
            let bar = Step::bar(words(cell, None), median(cell), "");
            match cell.get(charted) {
                Some((of_cell, _)) => bar.judged(of_cell),
                None => bar,
            }
        };
        return Some(Picture::bars(&m.name, m.unit, cells.iter().map(bar)));
    };
    let mut series: Vec<ChartSeries> = Vec::new();
    for cell in cells {
        let name = match words(cell, Some(axis)) {
            name if name.is_empty() => m.name.clone(),
            name => name,
        };
        let curve = ChartSeries::of_name(&mut series, name);
        if let (Some(dot), Some((of_cell, _))) =
            (number(cell, axis).zip(median(cell)), cell.get(charted))
        {
            curve.push(dot, of_cell);
        }
    }
    let mut marks = Vec::new();
    for ChartSeries { dots, .. } in &mut series {
        dots.sort_by(|a, b| a.0.total_cmp(&b.0));
        let best = dots.iter().map(|dot| dot.1).fold(0.0, f64::max);
        // Over sizes, the first sets are fast because a cache serves them.
        let is_size = places[axis].0 == "size";
        let reached = dots.iter().position(|dot| dot.1 >= SATURATED * best && !is_size);
        let saturated = reached.filter(|at| at + 1 < dots.len()).map(|at| dots[at]);
        marks.extend(saturated.map(|(x, y)| (x, y, "saturated".to_owned())));
        let dips = dots.windows(3).filter(|dots| is_dip(dots[0].1, dots[1].1, dots[2].1));
        marks.extend(dips.map(|dip| (dip[1].0, dip[1].1, "dip".to_owned())));
    }
    let name = places[axis].0;
    let x = if name == "size" { Scale::Bytes } else { Scale::Number };
    let ticks = series.iter().flat_map(|series| &series.dots).map(|dot| dot.0).collect();
    let titled = if name == "size" { "size of an array" } else { name };
    let title = AXES.into_iter().find(|known| *known == titled).unwrap_or("");
    let names = [title, ""];
    let y = Scale::Rate(m.unit);
    let chart = Chart { names, x, y, ticks, series, marks, ..Chart::default() };
    Some(Picture::chart(format!("{} over {name}", m.name), chart))
}

/// Describes the reference of relative rates: `1 rank of policy 5`.
fn reference_in_words(relative: &RelativeConfig) -> String {
    match relative.to.get("policy").and_then(Value::as_str) {
        Some(policy) => format!("1 rank of policy {policy}"),
        None => "1 rank".to_owned(),
    }
}

fn spread(summary: &Summary) -> TableCell {
    format!("{}..{}", words::gb(summary.p05), words::gb(summary.p95)).into()
}

fn median(m: &Measurement) -> TableCell {
    match (&m.summary, m.value) {
        (Some(summary), Some(_)) => words::rate(Some(summary.median)),
        _ => m.validity.status.name().into(),
    }
}

/// Returns the name and the value of each axis.
fn coordinates(config: &StreamConfig) -> Vec<(&str, &str)> {
    let axes = config.sweep.iter().flatten();
    axes.filter_map(|(axis, value)| Some((axis.as_str(), value.as_str()?))).collect()
}

/// Returns the value of an axis for display: sizes in binary units, as in other tables.
fn in_words((axis, value): (&str, &str)) -> String {
    match value.parse::<Bytes>() {
        // A number without a unit is a number of elements.
        Ok(size) if axis == "size" && value.ends_with('B') => size.to_string(),
        _ => value.to_owned(),
    }
}

/// Status of a configuration with the reasons.
type Doubt<'a> = (Status, Vec<&'a str>);

/// Returns the reasons for doubt, each once, with the configurations that it concerns.
fn doubts(cells: &[&[StreamFigure<'_>]], values: &AxisValues<'_>) -> Vec<(Status, String)> {
    let mut groups: Vec<(Doubt<'_>, Vec<&StreamConfig>)> = Vec::new();
    for cell in cells {
        let doubt = doubt(cell);
        match groups.iter_mut().find(|(known, _)| *known == doubt) {
            Some((_, members)) => members.push(&cell[0].1),
            None => groups.push((doubt, vec![&cell[0].1])),
        }
    }
    groups.retain(|((_, reasons), _)| !reasons.is_empty());
    let words = |((status, reasons), members): (Doubt<'_>, Vec<&StreamConfig>)| {
        let reasons = reasons.join("; ");
        match place_of(&members, cells, values) {
            place if place.is_empty() => (status, reasons),
            place => (status, format!("{place}: {reasons}")),
        }
    };
    groups.into_iter().map(words).collect()
}

/// Returns the worst status of any kernel of a configuration with the reasons, because some loops of a compiler may be
/// wrong and others correct. Reasons that differ only in a leading number are listed once.
fn doubt<'a>(cell: &[StreamFigure<'a>]) -> Doubt<'a> {
    let worst = cell.iter().map(|(m, _)| m.validity.status).max().unwrap_or(Status::Valid);
    let kind = |text: &str| text.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    let mut reasons: Vec<&str> = Vec::new();
    for reason in cell.iter().flat_map(|(m, _)| &m.validity.reasons) {
        if reasons.iter().all(|known| kind(known) != kind(reason)) {
            reasons.push(reason);
        }
    }
    (worst, reasons)
}

/// Describes a set of configurations: `size 32MiB or 48MiB`. An axis is omitted if all values of the axis occur. A set
/// that is not a product of axis values is listed configuration by configuration.
fn place_of(
    members: &[&StreamConfig],
    cells: &[&[StreamFigure<'_>]],
    shown: &AxisValues<'_>,
) -> String {
    let values = |of: &mut dyn Iterator<Item = &StreamConfig>, axis: usize| {
        let mut values: Vec<String> = Vec::new();
        for config in of {
            let Some(place) = coordinates(config).get(axis).copied() else { continue };
            let value = shown.short(place);
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    };
    let mut block = 1;
    let mut words = Vec::new();
    for (axis, (name, _)) in coordinates(members[0]).into_iter().enumerate() {
        let here = values(&mut members.iter().copied(), axis);
        block *= here.len();
        if here.len() < values(&mut cells.iter().map(|cell| &cell[0].1), axis).len() {
            words.push(format!("{name} {}", here.join(" or ")));
        }
    }
    if block == members.len() {
        return words.join(", ");
    }
    let one = |config: &&StreamConfig| {
        let word = |at: (&str, &str)| format!("{} {}", at.0, shown.short(at));
        coordinates(config).into_iter().map(word).collect::<Vec<_>>().join(", ")
    };
    members.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Values of the axes as shown. Commands of the axis `compiler` have short names if they would make the table too wide.
struct AxisValues<'a> {
    /// Commands with short names.
    commands: Vec<&'a str>,
    /// True if different sizes have different texts in binary units.
    are_sizes_distinct: bool,
}

impl<'a> AxisValues<'a> {
    /// Maximum length of a command in the table.
    const FITS: usize = 14;

    fn of(cells: &[&'a [StreamFigure<'a>]]) -> Self {
        let mut commands: Vec<&str> = Vec::new();
        let mut sizes: Vec<&str> = Vec::new();
        for (axis, value) in cells.iter().flat_map(|cell| coordinates(&cell[0].1)) {
            if axis == "compiler" && value != "native" && !commands.contains(&value) {
                commands.push(value);
            }
            if axis == "size" && !sizes.contains(&value) {
                sizes.push(value);
            }
        }
        if commands.iter().all(|command| command.len() <= Self::FITS) {
            commands.clear();
        }
        let texts = distinct(sizes.iter().map(|size| in_words(("size", size))));
        Self { commands, are_sizes_distinct: texts.len() == sizes.len() }
    }

    /// Returns the value of an axis as shown in the table.
    fn short(&self, at: (&str, &str)) -> String {
        let number = self.commands.iter().position(|command| *command == at.1);
        number.map_or_else(|| self.whole(at), |number| format!("c{}", number + 1))
    }

    /// Returns the value of an axis as shown in pictures, where commands have no short names.
    fn whole(&self, at: (&str, &str)) -> String {
        if self.are_sizes_distinct { in_words(at) } else { at.1.to_owned() }
    }

    /// Returns each short name with its command, and with the properties of the charted kernel's code.
    fn legend(&self, cells: &[&[StreamFigure<'_>]], charted: usize) -> Vec<(String, String)> {
        let of = |(i, command): (usize, &&str)| {
            let here = |cell: &&&[StreamFigure<'_>]| {
                coordinates(&cell[0].1).iter().any(|(axis, v)| *axis == "compiler" && v == command)
            };
            let figure = cells.iter().find(here).and_then(|cell| cell.get(charted));
            let made = figure
                .and_then(|figure| {
                    Some(format!(" ({}: {})", figure.0.name, compiled::in_words(figure)?))
                })
                .unwrap_or_default();
            (format!("c{}", i + 1), format!("{command}{made}"))
        };
        self.commands.iter().enumerate().map(of).collect()
    }
}
