//! View of `stream --sweep`: one line per configuration, and a chart of one kernel, usually Triad.

use super::figures::{StreamFigure, variants};
use super::{Statistic, compiled, words};
use crate::config::{RelativeRateConfig, StreamConfig};
use crate::sweep::{is_dip, saturation_index};
use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_arena::names::TRIAD;
use nodegauge_gauge::view::sentence::{capitalise, mark_doubted, quotable_figures};
use nodegauge_gauge::view::sweep::{RoundPairing, SweptRow, SweptRows};
use nodegauge_gauge::view::words::without_number;
use nodegauge_gauge::view::{
    AxisQuantity, Block, Chart, ChartBar, ChartSeries, ColumnList, Drawing, Guide, Note, Picture,
    Section, TableCell, distinct, group_by_key,
};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Record, Status};
use nodegauge_measure::stats::Summary;
use nodegauge_measure::{Bytes, Fraction, Unit};
use serde_json::Value;
use std::ops::Range;

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
    let sweep = Sweep { charted, values: AxisValues::new(&cells), cells };
    let mut section = Section::new("sweep");
    match show {
        [] => sweep.medians(&mut section),
        [one] => sweep.statistic(*one, &mut section),
        several => sweep.statistics(several, &mut section),
    }
    let usable = medians(&figures);
    if !is_over_sizes(&usable) {
        section.note_if("ranking", swept_rows(&usable).ranking());
    }
    for (short, legend) in sweep.values.legend(&sweep.cells, charted) {
        section.note(&short, legend);
    }
    for (status, doubt) in doubts(&sweep.cells, &sweep.values) {
        section.push(Note::doubt(status, doubt));
    }
    section.push(words::variant_note());
    Some(section)
}

/// Returns the sentence that compares the fastest configuration of a sweep with the second fastest, for the charted
/// kernel. Returns `None` for a sweep over sizes, for which different rates are expected.
pub(crate) fn fastest_comparison(record: &Record) -> Option<String> {
    let all = variants(record);
    let medians = medians(&all);
    if is_over_sizes(&medians) { None } else { swept_rows(&medians).headline() }
}

/// Median of the charted kernel in one configuration.
#[derive(Clone, Copy)]
struct SweepMedian<'a> {
    m: &'a Measurement,
    config: &'a StreamConfig,
    median: f64,
}

impl SweepMedian<'_> {
    /// Returns the values on the axes: `threads 4, pages thp`.
    fn all_axes(&self) -> String {
        coordinates(self.config).into_iter().map(axis_in_words).collect::<Vec<_>>().join(", ")
    }

    /// Returns the values on all axes except one.
    fn other_axes(&self, axis: usize) -> String {
        let mut all: Vec<String> =
            coordinates(self.config).into_iter().map(axis_in_words).collect();
        all.remove(axis);
        all.join(", ")
    }

    /// Returns the name and the value of one axis.
    fn at(&self, axis: usize) -> String {
        axis_in_words(coordinates(self.config)[axis])
    }

    fn number(&self, axis: usize) -> Option<f64> {
        number(self.config, axis)
    }

    /// Returns the median with its configuration: `41.2 GB/s with threads 4`.
    fn in_words(&self) -> String {
        let is_suspect = self.m.validity.status == Status::Suspect;
        let value = mark_doubted(&self.m.unit.in_words(self.median), is_suspect);
        format!("{value} with {}", self.all_axes())
    }
}

/// Formats the value on an axis: `threads 4`.
fn axis_in_words(at: (&str, &str)) -> String {
    format!("{} {}", at.0, in_words(at))
}

/// Returns the medians of the charted kernel that are not invalid.
fn medians<'a>(all: &'a [StreamFigure<'_>]) -> Vec<SweepMedian<'a>> {
    let swept = || all.iter().filter(|(_, config)| config.sweep.is_some());
    let charted = swept().find(|(m, _)| m.name == TRIAD).or_else(|| swept().next_back());
    let mut medians = Vec::new();
    for (m, config) in swept() {
        let is_charted = charted.is_some_and(|(of, _)| of.name == m.name);
        let summary = m.summary.as_ref().filter(|_| is_charted && m.value.is_some());
        if let Some(summary) = summary.filter(|_| m.validity.status != Status::Invalid) {
            medians.push(SweepMedian { m, config, median: summary.median });
        }
    }
    medians
}

/// True if a size is swept.
fn is_over_sizes(medians: &[SweepMedian<'_>]) -> bool {
    let first = medians.first().map(|one| coordinates(one.config));
    first.is_some_and(|axes| axes.iter().any(|(axis, _)| *axis == "size"))
}

/// Converts the configurations to the rows that all sweeps share.
fn swept_rows<'a>(medians: &[SweepMedian<'a>]) -> SweptRows<'a> {
    let mut rows = Vec::new();
    for one in medians {
        rows.push(SweptRow {
            name: one.all_axes(),
            figure: one.m,
            rounds: RoundPairing::UnpairedFigure,
        });
    }
    let kernel = medians.first().map_or("", |one| one.m.name.as_str());
    SweptRows::new(rows, QuotedStatistic::Median).with_kernel(kernel)
}

/// Returns the sentence with the verdict on the fastest configuration, the highest and the lowest median of the charted
/// kernel, and the point at which a curve saturates or becomes the fastest. Suspect medians count only if no median is
/// valid; a single median is not called the highest. Returns `None` if the record has no sweep.
pub(super) fn conclusion(record: &Record) -> Option<String> {
    let all = variants(record);
    let usable = medians(&all);
    let mut chosen = quotable_figures(usable.iter().copied(), |one| one.m);
    let left_out = usable.len() - chosen.len();
    chosen.sort_by(|a, b| a.median.total_cmp(&b.median));
    let most = chosen.last()?;
    let lowest = chosen.first().filter(|_| chosen.len() > 1);
    let lowest = lowest.map(|least| format!(", the lowest {}", least.in_words()));
    let valid = if left_out > 0 { "valid " } else { "" };
    let rows = swept_rows(&usable);
    let verdict = rows.headline().filter(|_| !is_over_sizes(&usable));
    let mut parts = Vec::new();
    let is_doubted = verdict.is_some() && rows.is_doubted();
    parts.extend(verdict);
    let which = if chosen.len() > 1 { "highest" } else { "only" };
    parts.push(format!(
        "the {which} {valid}median of {} is {}{}",
        capitalise(&most.m.name),
        most.in_words(),
        lowest.unwrap_or_default()
    ));
    if !is_doubted {
        parts.extend(turning_point(&usable));
    }
    if left_out > 0 {
        let points = count_in_words(left_out, "suspect median");
        parts.push(format!("{points} left out"));
    }
    Some(capitalise(&parts.join("; ")))
}

/// Returns the text on the first numeric axis on which all configurations have a number: the value at which a single
/// curve saturates, or from which another curve is the fastest.
fn turning_point(medians: &[SweepMedian<'_>]) -> Option<String> {
    let first = medians.first()?;
    let axis = (0..coordinates(first.config).len()).find(|axis| is_numeric(medians, *axis))?;
    let mut curves: Vec<(String, Vec<SweepMedian<'_>>)> =
        group_by_key(medians.iter().copied(), |one| one.other_axes(axis));
    for (_, curve) in &mut curves {
        curve.sort_by(|a, b| {
            a.number(axis).unwrap_or(0.0).total_cmp(&b.number(axis).unwrap_or(0.0))
        });
    }
    let is_size = coordinates(first.config)[axis].0 == "size";
    let obstacle = Obstacle::from_figures(medians.iter().map(|one| one.m));
    if let Some(obstacle) = obstacle.filter(|_| curves.len() > 1 || !is_size) {
        return Some(obstacle.cannot_tell("the point at which a curve saturates or leads"));
    }
    if let [(_, curve)] = curves.as_slice() {
        let rates: Vec<f64> = curve.iter().map(|one| one.median).collect();
        let saturated = saturation(&rates).filter(|_| !is_size)?;
        let kernel = capitalise(&first.m.name);
        return Some(format!("{kernel} saturates at {}", curve[saturated].at(axis)));
    }
    let (name, from) = crossover(&curves)?;
    Some(format!("from {}, {name} is the fastest", from.at(axis)))
}

/// True if the configurations have different numbers on an axis.
fn is_numeric(medians: &[SweepMedian<'_>], axis: usize) -> bool {
    let values = distinct(medians.iter().map(|one| one.number(axis)));
    values.len() > 1 && values.iter().all(Option::is_some)
}

/// Returns the curve that is the fastest at the end of the axis but not at its start, with the first point from which
/// it stays the fastest. Both leads must exceed the spread of the samples. Returns `None` if there is no such curve, or
/// if the curves have different points.
fn crossover<'c, 'a>(
    curves: &'c [(String, Vec<SweepMedian<'a>>)],
) -> Option<(&'c str, &'c SweepMedian<'a>)> {
    let points = curves.first()?.1.len();
    if points < 2 || curves.iter().any(|(_, curve)| curve.len() != points) {
        return None;
    }
    let last = leader(curves, points - 1)?;
    let first = leader(curves, 0)?;
    if last == first || !is_clear(curves, last, points - 1) || !is_clear(curves, first, 0) {
        return None;
    }
    let led = (0..points).rev().take_while(|point| leader(curves, *point) == Some(last));
    let (name, curve) = &curves[last];
    Some((name, &curve[led.last()?]))
}

/// Returns the curve with the highest median at a point.
fn leader(curves: &[(String, Vec<SweepMedian<'_>>)], point: usize) -> Option<usize> {
    (0..curves.len())
        .max_by(|i, j| curves[*i].1[point].median.total_cmp(&curves[*j].1[point].median))
}

/// True if a curve leads at a point by more than the spread of the samples.
fn is_clear(curves: &[(String, Vec<SweepMedian<'_>>)], lead: usize, point: usize) -> bool {
    let low = curves[lead].1[point].m.summary.as_ref().map_or(f64::NAN, |summary| summary.p05);
    curves.iter().enumerate().filter(|(i, _)| *i != lead).all(|(_, (_, curve))| {
        curve[point].m.summary.as_ref().is_some_and(|summary| summary.p95 < low)
    })
}

/// Returns the index of the first rate that is close to the best; `None` if that is the last one.
fn saturation(rates: &[f64]) -> Option<usize> {
    saturation_index(rates).filter(|reached| reached + 1 < rates.len())
}

/// Figures of a sweep for display.
struct Sweep<'a> {
    /// Figures of each configuration.
    cells: Vec<&'a [StreamFigure<'a>]>,
    /// Index of the charted kernel, which determines trends.
    charted: usize,
    values: AxisValues<'a>,
}

impl Sweep<'_> {
    /// Returns the columns of the configuration: the value on each axis, and the memory of each rank.
    fn columns(&self) -> ColumnList<'_, SweepRow<'_>> {
        let of_all = &self.cells[0][0].1;
        let axes: Vec<&str> = coordinates(of_all).into_iter().map(|(axis, _)| axis).collect();
        ColumnList::new()
            .columns_for_each(
                axes.into_iter().enumerate(),
                |(_, axis)| (*axis).to_owned(),
                |row: &SweepRow<'_>, (at, _)| self.short(row, *at),
            )
            .add_if(of_all.processes.is_some(), |columns| {
                columns.right_or_blank(RANK_MEMORY, SweepRow::rank_memory)
            })
    }

    /// Returns the value of a row on an axis as shown in the table.
    fn short(&self, row: &SweepRow<'_>, axis: usize) -> TableCell {
        let at = coordinates(row.config()).get(axis).copied();
        at.map_or_else(TableCell::default, |at| self.values.short(at).into())
    }

    /// Returns one row per configuration. Columns for a single kernel show the charted kernel.
    fn rows(&self) -> Vec<SweepRow<'_>> {
        self.cells.iter().map(|cell| SweepRow { cell, kernel: self.charted }).collect()
    }

    /// Returns the indices of the kernels.
    fn kernels(&self) -> Range<usize> {
        0..self.cells[0].len()
    }

    /// Returns the name of a kernel.
    fn name(&self, kernel: &usize) -> String {
        self.cells[0][*kernel].0.name.clone()
    }

    /// Adds a table with one line per configuration, and a chart of the charted kernel.
    fn medians(&self, section: &mut Section) {
        let rows = self.rows();
        let summaries = rows.iter().filter_map(SweepRow::summary);
        let most = summaries.map(|summary| summary.median).fold(0.0, f64::max);
        let reference = rows.iter().find_map(SweepRow::relative);
        let name = &self.name(&self.charted);
        let columns = self
            .columns()
            .columns_for_each(self.kernels(), |kernel| self.name(kernel), SweepRow::median)
            .right_or_dash("5 %..95 %", |row| row.summary().map(spread))
            .add_if(reference.is_some(), |columns| columns.right_or_dash("x", SweepRow::ratio))
            .left("", |row| row.bar(most));
        let heading = format!("medians in GB/s; 5 %..95 %: {name}");
        section.push(columns.grouped_table([(heading, &rows)]));
        let is_relative = reference.is_some_and(is_lecture);
        match picture(&self.cells, self.charted, &self.values, is_relative) {
            Some(Picture { title, drawing: Drawing::Chart(chart) }) if is_relative => {
                section.push_gap().push(Chart { title, ..chart }).push_gap();
            }
            drawn => {
                section.push_picture(drawn).push_gap();
            }
        }
        if let Some(reference) = reference {
            let reference = reference_in_words(reference);
            let text = format!("x: median of {name} divided by that of {reference}");
            section.push(Block::Text(text));
        }
    }

    /// Adds a table with one line per configuration and one column per kernel, as sweeps are usually published.
    fn statistic(&self, statistic: Statistic, section: &mut Section) {
        let columns = self.columns().columns_for_each(
            self.kernels(),
            |kernel| self.name(kernel),
            move |row, kernel| row.statistic(*kernel, statistic),
        );
        section.push(columns.table(self.rows())).push_gap();
        section.push(Block::Text(statistic.titles().1.to_owned()));
    }

    /// Adds a table with one line per configuration and kernel, and columns of STREAM's table.
    fn statistics(&self, show: &[Statistic], section: &mut Section) {
        let columns =
            self.columns().right("Function", |row| self.name(&row.kernel)).columns_for_each(
                show.iter().copied(),
                |statistic| statistic.titles().0.to_owned(),
                |row, statistic| row.statistic(row.kernel, *statistic),
            );
        let mut rows = Vec::new();
        for cell in &self.cells {
            rows.extend((0..cell.len()).map(|kernel| SweepRow { cell, kernel }));
        }
        section.push(columns.table(rows)).push_gap();
    }
}

/// Row of a table: a configuration, and one of its kernels.
struct SweepRow<'a> {
    /// Figures of the configuration.
    cell: &'a [StreamFigure<'a>],
    /// Index of the kernel that is shown in columns for a single kernel.
    kernel: usize,
}

impl SweepRow<'_> {
    fn config(&self) -> &StreamConfig {
        &self.cell[0].1
    }

    /// Returns the memory of each rank.
    fn rank_memory(&self) -> Option<String> {
        let config = self.config();
        config.processes.and_then(|_| words::mib_per_rank(config))
    }

    fn summary(&self) -> Option<&Summary> {
        self.cell.get(self.kernel)?.0.summary.as_ref()
    }

    fn relative(&self) -> Option<&RelativeRateConfig> {
        self.cell.get(self.kernel)?.1.relative.as_ref()
    }

    /// Returns the median divided by that of the reference.
    fn ratio(&self) -> Option<TableCell> {
        let ratio = self.relative()?.median?;
        Some(TableCell::figure(ratio, Unit::Factor, format!("{ratio:.2}")))
    }

    /// Returns the median as a bar; `most` is the median of the fastest configuration.
    fn bar(&self, most: f64) -> TableCell {
        TableCell::bar(Fraction(self.summary().map_or(0.0, |summary| summary.median / most)))
    }

    /// Returns the median of a kernel.
    fn median(&self, kernel: &usize) -> TableCell {
        self.cell.get(*kernel).map_or_else(TableCell::default, |(m, _)| median(m))
    }

    /// Returns a statistic of a kernel.
    fn statistic(&self, kernel: usize, statistic: Statistic) -> TableCell {
        let figure = self.cell.get(kernel);
        figure.map_or_else(TableCell::default, |(m, config)| statistic.cell(m, config))
    }
}

/// Names of horizontal axes.
const AXES: [&str; 4] = ["size of an array", "threads", "ranks", "offset"];
/// Title of the column for the memory of each process.
const RANK_MEMORY: &str = "MiB per rank";

/// Returns the value of a configuration on an axis, if the value is a number.
fn number(config: &StreamConfig, axis: usize) -> Option<f64> {
    match coordinates(config).get(axis)? {
        (name, _) if *name == "size" => config.array_bytes.map(|bytes| bytes as f64),
        // Policies are numbered, but their numbers have no order.
        (name, _) if *name == "policy" => None,
        (_, value) => value.parse().ok(),
    }
}

/// Picture of the medians of the charted kernel.
struct MedianPicture<'a> {
    cells: &'a [&'a [StreamFigure<'a>]],
    charted: usize,
    values: &'a AxisValues<'a>,
    /// True to divide the medians by that of the reference.
    is_relative: bool,
}

impl MedianPicture<'_> {
    fn median(&self, cell: &[StreamFigure<'_>]) -> Option<f64> {
        let (m, config) = cell.get(self.charted)?;
        let measured = m.value.and(m.summary.as_ref())?.median;
        if self.is_relative { config.relative.as_ref()?.median } else { Some(measured) }
    }

    /// Returns the values on all axes, or on all axes except `but`.
    fn words(&self, cell: &[StreamFigure<'_>], but: Option<usize>) -> String {
        let mut words = Vec::new();
        for (i, at) in coordinates(&cell[0].1).into_iter().enumerate() {
            if Some(i) != but {
                words.push(format!("{} {}", at.0, self.values.whole(at)));
            }
        }
        words.join(", ")
    }

    /// Returns the first axis on which all cells have a number, preferably one that varies.
    fn axis(&self) -> Option<usize> {
        let axes = 0..coordinates(&self.cells.first()?[0].1).len();
        let numeric: Vec<usize> =
            axes.filter(|axis| self.numbers(*axis).iter().all(Option::is_some)).collect();
        let varies = numeric.iter().find(|axis| distinct(self.numbers(**axis)).len() > 1);
        varies.or(numeric.first()).copied()
    }

    /// Returns the numbers of all cells on an axis.
    fn numbers(&self, axis: usize) -> Vec<Option<f64>> {
        self.cells.iter().map(|cell| number(&cell[0].1, axis)).collect()
    }

    fn bar(&self, cell: &[StreamFigure<'_>]) -> ChartBar {
        let bar = ChartBar::bar(self.words(cell, None), self.median(cell), "");
        match cell.get(self.charted) {
            Some((of_cell, _)) => bar.with_validity(of_cell),
            None => bar,
        }
    }
}

/// Returns a chart of the medians of the charted kernel over the first numeric axis. It has a curve for each value of
/// the other axes, and marks for saturation points and dips. With `is_relative`, the medians are divided by that of the
/// reference. If no axis is numeric, the chart has one bar per cell.
fn picture(
    cells: &[&[StreamFigure<'_>]],
    charted: usize,
    values: &AxisValues<'_>,
    is_relative: bool,
) -> Option<Picture> {
    let drawn = MedianPicture { cells, charted, values, is_relative };
    let (m, config) = cells.first()?.get(charted)?;
    let unit = if is_relative { Unit::Factor } else { m.unit };
    let places = coordinates(config);
    let Some(axis) = drawn.axis() else {
        return Some(Picture::bars(&m.name, unit, cells.iter().map(|cell| drawn.bar(cell))));
    };
    let mut series: Vec<ChartSeries> = Vec::new();
    for cell in cells {
        let name = match drawn.words(cell, Some(axis)) {
            name if name.is_empty() => m.name.clone(),
            name => name,
        };
        let curve = ChartSeries::find_or_append(&mut series, name);
        let dot = number(&cell[0].1, axis).zip(drawn.median(cell));
        if let Some((dot, (of_cell, _))) = dot.zip(cell.get(charted)) {
            curve.push(dot, of_cell);
        }
    }
    let mut marks = Vec::new();
    for ChartSeries { dots, doubts, .. } in &mut series {
        dots.sort_by(|a, b| a.0.total_cmp(&b.0));
        let rates: Vec<f64> = dots.iter().map(|dot| dot.1).collect();
        // Over sizes, the smallest sizes are fast because a cache holds their data.
        let is_size = places[axis].0 == "size";
        let is_valid = doubts.is_empty();
        let saturated = saturation(&rates).filter(|_| !is_size && is_valid).map(|at| dots[at]);
        marks.extend(saturated.map(|(x, y)| (x, y, "saturated".to_owned())));
        let dips = dots.windows(3).filter(|dots| is_dip(dots[0].1, dots[1].1, dots[2].1));
        marks.extend(dips.map(|dip| (dip[1].0, dip[1].1, "dip".to_owned())));
    }
    let name = places[axis].0;
    let x = if name == "size" { AxisQuantity::Bytes } else { AxisQuantity::Number };
    let ticks = series.iter().flat_map(|series| &series.dots).map(|dot| dot.0).collect();
    let titled = if name == "size" { "size of an array" } else { name };
    let title = AXES.into_iter().find(|known| *known == titled).unwrap_or("");
    let titled_over = format!("{} over {name}", m.name);
    if !is_relative {
        let y = AxisQuantity::Rate(unit);
        let names = [title, ""];
        let chart = Chart { names, x, y, ticks, series, marks, ..Chart::default() };
        return Some(Picture::chart(titled_over, chart));
    }
    for (mark, one) in ('a'..='z').zip(&mut series) {
        one.mark = mark;
    }
    let names = [title, RELATIVE_AXIS];
    let guides = vec![Guide::y(1.0, REFERENCE)];
    let y = AxisQuantity::Number;
    let chart = Chart { names, x, y, ticks, series, marks, guides, ..Chart::default() };
    Some(Picture::chart(format!("{titled_over}, relative to {REFERENCE}"), chart))
}

/// Reference of relative rates in the plots of the ccNUMA lecture.
const REFERENCE: &str = "1 rank of policy 5";
/// Name of the vertical axis of relative rates.
const RELATIVE_AXIS: &str = "relative to 1 rank of policy 5 (= 1.00)";

/// True if rates are relative to the reference of the ccNUMA lecture.
fn is_lecture(relative: &RelativeRateConfig) -> bool {
    reference_in_words(relative) == REFERENCE
}

/// Describes the reference of relative rates: `1 rank of policy 5`.
fn reference_in_words(relative: &RelativeRateConfig) -> String {
    match relative.to.get("policy").and_then(Value::as_str) {
        Some(policy) => format!("1 rank of policy {policy}"),
        None => "1 rank".to_owned(),
    }
}

fn spread(summary: &Summary) -> TableCell {
    format!("{}..{}", words::format_gb_per_s(summary.p05), words::format_gb_per_s(summary.p95))
        .into()
}

fn median(m: &Measurement) -> TableCell {
    match (&m.summary, m.value) {
        (Some(summary), Some(_)) => words::rate_cell(Some(summary.median)),
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
    let mut doubts = Vec::new();
    for ((status, reasons), members) in groups {
        let reasons = reasons.join("; ");
        match configurations_in_words(&members, cells, values) {
            place if place.is_empty() => doubts.push((status, reasons)),
            place => doubts.push((status, format!("{place}: {reasons}"))),
        }
    }
    doubts
}

/// Returns the worst status of any kernel of a configuration with the reasons, because some loops of a compiler may be
/// wrong and others correct. Reasons that differ only in a leading number are listed once.
fn doubt<'a>(cell: &[StreamFigure<'a>]) -> Doubt<'a> {
    let worst = cell.iter().map(|(m, _)| m.validity.status).max().unwrap_or(Status::Valid);
    let mut reasons: Vec<&str> = Vec::new();
    for reason in cell.iter().flat_map(|(m, _)| &m.validity.reasons) {
        if reasons.iter().all(|known| without_number(known) != without_number(reason)) {
            reasons.push(reason);
        }
    }
    (worst, reasons)
}

/// Describes a set of configurations: `size 32MiB or 48MiB`. An axis is omitted if all values of the axis occur. A set
/// that is not a product of axis values is listed configuration by configuration.
fn configurations_in_words(
    members: &[&StreamConfig],
    cells: &[&[StreamFigure<'_>]],
    shown: &AxisValues<'_>,
) -> String {
    let all: Vec<&StreamConfig> = cells.iter().map(|cell| &cell[0].1).collect();
    let mut block = 1;
    let mut words = Vec::new();
    for (axis, (name, _)) in coordinates(members[0]).into_iter().enumerate() {
        let here = shown.distinct(members, axis);
        block *= here.len();
        if here.len() < shown.distinct(&all, axis).len() {
            words.push(format!("{name} {}", here.join(" or ")));
        }
    }
    if block == members.len() {
        return words.join(", ");
    }
    members.iter().map(|config| shown.all(config)).collect::<Vec<_>>().join("; ")
}

/// Values of the axes for display. Commands of the axis `compiler` get short names if they would make the table too
/// wide.
struct AxisValues<'a> {
    /// Commands with short names.
    commands: Vec<&'a str>,
    /// True if different sizes have different texts in binary units.
    are_sizes_distinct: bool,
}

impl<'a> AxisValues<'a> {
    /// Maximum length of a command in the table.
    const MAX_LENGTH: usize = 14;

    fn new(cells: &[&'a [StreamFigure<'a>]]) -> Self {
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
        if commands.iter().all(|command| command.len() <= Self::MAX_LENGTH) {
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

    /// Returns each short name with its command and with the properties of the charted kernel's code.
    fn legend(&self, cells: &[&[StreamFigure<'_>]], charted: usize) -> Vec<(String, String)> {
        let mut legend = Vec::new();
        for (i, command) in self.commands.iter().enumerate() {
            let cell =
                cells.iter().find(|cell| coordinates(&cell[0].1).contains(&("compiler", command)));
            let code = cell.and_then(|cell| cell.get(charted)).and_then(|figure| {
                Some(format!(" ({}: {})", figure.0.name, compiled::code_in_words(figure)?))
            });
            legend.push((format!("c{}", i + 1), format!("{command}{}", code.unwrap_or_default())));
        }
        legend
    }

    /// Returns the different values of configurations on an axis.
    fn distinct(&self, of: &[&StreamConfig], axis: usize) -> Vec<String> {
        let values = of.iter().filter_map(|config| coordinates(config).get(axis).copied());
        distinct(values.map(|at| self.short(at)))
    }

    /// Returns the values of a configuration on all axes.
    fn all(&self, config: &StreamConfig) -> String {
        let axes = coordinates(config).into_iter();
        axes.map(|at| format!("{} {}", at.0, self.short(at))).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::keys::Config;
    use nodegauge_measure::stats::BetterDirection;
    use serde_json::Map;

    /// Returns a measurement of samples around a rate.
    fn measurement_around(rate: f64, spread: f64) -> Measurement {
        let samples: Vec<f64> =
            (-5..=5).map(|i| rate * (1.0 + spread * f64::from(i) / 5.0)).collect();
        let m = Measurement::new("memory", "stream", TRIAD, Unit::BytesPerSecond);
        let m = m.with_value(QuotedStatistic::Median, rate);
        Measurement { summary: Summary::from_samples(&samples, BetterDirection::Higher), ..m }
    }

    /// Returns the name of the fastest curve at the end, and the index of the point from which it is the fastest.
    fn crossed(rates: [[f64; 3]; 2], spread: f64) -> Option<(String, usize)> {
        let config = StreamConfig::default();
        let figures = rates.map(|rates| rates.map(|rate| measurement_around(rate, spread)));
        let mut curves: Vec<(String, Vec<SweepMedian<'_>>)> = Vec::new();
        for (name, of_curve) in ["a", "b"].into_iter().zip(&figures) {
            let mut curve = Vec::new();
            for m in of_curve {
                curve.push(SweepMedian { m, config: &config, median: m.summary.as_ref()?.median });
            }
            curves.push((name.to_owned(), curve));
        }
        let (name, from) = crossover(&curves)?;
        let (_, curve) = curves.iter().find(|(known, _)| known == name)?;
        let index = curve.iter().position(|one| std::ptr::eq(one, from))?;
        Some((name.to_owned(), index))
    }

    /// Returns the values on the axes of a combination.
    fn combination(ranks: u32, policy: &str) -> Map<String, Value> {
        let ranks = ("ranks".to_owned(), Value::from(ranks.to_string()));
        Map::from_iter([ranks, ("policy".to_owned(), Value::from(policy))])
    }

    /// Returns the figure of a combination whose rate is `ratio` times that of one rank of policy 5.
    fn swept(ranks: u32, policy: &str, ratio: f64) -> Measurement {
        let config = StreamConfig {
            sweep: Some(combination(ranks, policy)),
            relative: Some(RelativeRateConfig { to: combination(1, "5"), median: Some(ratio) }),
            ..StreamConfig::default()
        };
        Measurement { config: config.to_map(), ..measurement_around(4e9 * ratio, 0.01) }
    }

    /// Returns a record of a sweep with these figures.
    fn record(measurements: Vec<Measurement>) -> Record {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/golden/stream-sweep-ranks-policy/record.json"
        );
        let saved: Record = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        Record { measurements, ..saved }
    }

    #[test]
    fn single_median_is_not_called_the_highest() {
        let measured = swept(1, "5", 1.0);
        let text = conclusion(&record(vec![measured.clone()])).unwrap();
        assert!(text.contains("The only median of Triad is"), "{text}");
        let mut invalid = Measurement { value: None, summary: None, ..swept(2, "5", 1.0) };
        invalid.validity.mark_invalid("lost");
        let of_both = conclusion(&record(vec![measured, invalid])).unwrap();
        assert!(!of_both.contains("highest"), "{of_both}");
    }

    #[test]
    fn policy_sweep_is_drawn_relative_to_one_rank_of_policy_5() {
        let series = ["5", "3", "4", "4/even"];
        let measurements: Vec<Measurement> = [1_u32, 2, 4]
            .into_iter()
            .flat_map(|ranks| {
                let ratio = |policy: &str| match policy {
                    "4/even" => f64::from(ranks),
                    _ => f64::from(ranks).sqrt(),
                };
                series.map(|policy| swept(ranks, policy, ratio(policy)))
            })
            .collect();
        let record = record(measurements);
        let shown = section(&record, &[]).unwrap();
        let chart = shown.blocks.iter().find_map(|block| match block {
            Block::Chart(chart) => Some(chart),
            _ => None,
        });
        let chart = chart.expect("text output shows the chart too");
        assert_eq!(chart.names, ["ranks", "relative to 1 rank of policy 5 (= 1.00)"]);
        let drawn: Vec<(char, &str)> =
            chart.series.iter().map(|one| (one.mark, one.name.as_str())).collect();
        let names = series.map(|policy| format!("policy {policy}"));
        let expected: Vec<(char, &str)> = ('a'..).zip(names.iter().map(String::as_str)).collect();
        assert_eq!(drawn, expected);
        assert_eq!(chart.series[0].dots[0], (1.0, 1.0));
        assert_eq!(chart.series[3].dots, [(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)]);
        assert_eq!((chart.guides[0].at, chart.guides[0].text.as_str()), (1.0, REFERENCE));
    }

    #[test]
    fn crossover_is_reported_if_both_leads_exceed_the_spread() {
        let rates = [[200.0, 120.0, 60.0], [100.0, 110.0, 90.0]];
        assert_eq!(crossed(rates, 0.01), Some(("b".to_owned(), 2)));
        assert_eq!(crossed(rates, 0.5), None);
        assert_eq!(crossed([[200.0, 120.0, 90.0], [100.0, 110.0, 60.0]], 0.01), None);
    }

    #[test]
    fn curve_saturates_near_its_best_rate() {
        assert_eq!(saturation(&[10.0, 19.9, 20.0]), Some(1));
        assert_eq!(saturation(&[10.0, 15.0, 20.0]), None);
    }
}
