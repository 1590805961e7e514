//! Views of the scaling with the number of threads: the measured figures, and their predictions with a chart of both.

use super::{CurvesFigure, distinct, evidence, value};
use crate::config::CurveConfig;
use crate::mix::Mix;
use crate::scaling::{
    KERNELS, ONE_CORE_KERNELS, compared_figures, contributions, correct_share_in_words,
    one_core_figure_name,
};
use nodegauge_gauge::family::SATURATED_PREFIX;
use nodegauge_gauge::view::sentence::{capitalise, number_with_noun, value_in_words, verb_form};
use nodegauge_gauge::view::{
    AxisQuantity, Block, Chart, ChartSeries, ColumnList, ColumnUnit, Section, TableCell,
};
use nodegauge_kernels::{CACHE_LINE_BYTES, Kernel};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Bytes, BytesPerSec, Fraction, Unit};

/// True if the views of measured and of predicted figures can show a figure.
pub(super) fn can_show((m, config): &CurvesFigure<'_>) -> bool {
    m.unit == Unit::BytesPerSecond && config.kernel.is_some() && config.threads.is_some()
}

fn named<'a>(of: &'a [CurvesFigure<'a>], name: &str) -> Option<&'a CurvesFigure<'a>> {
    of.iter().find(|(m, _)| m.name == name)
}

/// True if a figure is for a number of threads, and neither for a level nor for a mix.
fn has_no_level((m, config): &CurvesFigure<'_>) -> bool {
    config.level.is_none() && !m.name.starts_with(SATURATED_PREFIX)
}

/// Returns the figure of a kernel with a number of threads.
fn at<'a>(
    of: &'a [CurvesFigure<'a>],
    kernel: &str,
    threads: Option<u64>,
) -> Option<&'a CurvesFigure<'a>> {
    let mut own = of.iter().filter(|figure| has_no_level(figure));
    own.find(|(_, config)| config.kernel.as_deref() == Some(kernel) && config.threads == threads)
}

/// Returns the kernels of these figures, in the order of the measurement.
fn kernels(of: &[CurvesFigure<'_>]) -> Vec<&'static str> {
    let names = KERNELS.map(Kernel::name).into_iter();
    let is_there =
        |name: &&str| of.iter().any(|(_, config)| config.kernel.as_deref() == Some(*name));
    names.filter(is_there).collect()
}

/// Returns the numbers of threads of these figures, ascending.
fn counts(of: &[CurvesFigure<'_>]) -> Vec<Option<u64>> {
    let own = of.iter().filter(|figure| has_no_level(figure));
    let mut counts = distinct(own.map(|(_, config)| config.threads));
    counts.sort_unstable();
    counts
}

fn count_cell(count: Option<u64>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}

/// Returns the time in seconds that each of `levels` adds per cache line of a kernel.
fn added_times(of: &[CurvesFigure<'_>], levels: &[&str], kernel: Kernel) -> Vec<f64> {
    let mut times = Vec::new();
    for level in levels {
        let rate = named(of, &one_core_figure_name(kernel, level)).and_then(|(m, _)| m.value);
        let Some(rate) = rate else { break };
        times.push(CACHE_LINE_BYTES as f64 / rate);
    }
    contributions(&times)
}

/// Adds the tables for one core: the bandwidth in each level, and the time that each level adds.
fn add_levels(of: &[CurvesFigure<'_>], levels: &[&str], section: &mut Section) {
    let rates = ColumnList::<&str>::new()
        .left("one core", |level| (*level).to_owned())
        .left("set", |level| {
            let own = of.iter().find(|(_, config)| config.level.as_deref() == Some(*level));
            let set = own.and_then(|(_, config)| config.thread_bytes);
            set.map_or_else(|| "-".to_owned(), |set| Bytes(set).to_string())
        })
        .columns_for_each(
            ONE_CORE_KERNELS,
            |kernel| kernel.to_string(),
            |level, kernel| value(named(of, &one_core_figure_name(*kernel, level))),
        );
    section.push(rates.table(levels)).push_gap();
    let times = ColumnList::<&str>::new()
        .left("ns per line", |level| (*level).to_owned())
        .columns_for_each(
            ONE_CORE_KERNELS,
            |kernel| kernel.to_string(),
            |level, kernel| {
                let place = levels.iter().position(|known| known == level).unwrap_or(0);
                let added = added_times(of, levels, *kernel).get(place).copied();
                // A level that is not slower than the previous level adds no time.
                ColumnUnit::NANOSECONDS.cell(added.filter(|time| *time > 0.0))
            },
        );
    section.push(times.table(levels)).push_gap();
}

/// Adds the view of the measured figures.
pub(super) fn add_view(of: &[CurvesFigure<'_>], section: &mut Section) {
    let columns = ColumnList::<Option<u64>>::new()
        .right("threads", |count| count_cell(*count))
        .columns_for_each(
            kernels(of),
            |kernel| (*kernel).to_owned(),
            |count, kernel| value(at(of, kernel, *count)),
        );
    section.push(columns.table(counts(of))).push_gap();
    let levels = distinct(of.iter().filter_map(|(_, config)| config.level.as_deref()));
    if !levels.is_empty() {
        add_levels(of, &levels, section);
    }
    let mixes = of.iter().filter(|(m, _)| m.name.starts_with(SATURATED_PREFIX));
    let mixes: Vec<&CurvesFigure<'_>> = mixes.collect();
    if !mixes.is_empty() {
        let of_mixes = ColumnList::<&CurvesFigure<'_>>::new()
            .left("mix", |(m, _)| m.name.trim_start_matches(SATURATED_PREFIX).to_owned())
            .right("all", |figure| value(Some(figure)))
            .right("of limit", |(m, _)| {
                let limit = m.limit.as_ref();
                limit.map_or_else(|| "-".to_owned(), |limit| limit.fraction.to_string())
            });
        section.push(of_mixes.table(&mixes)).push_gap();
    }
    section.push(Block::Text(format!(
        "GB/s, counted as in STREAM; one core: bandwidth in each level, with the loop chosen for memory; ns per line: \
         time that the level adds per {CACHE_LINE_BYTES} B, - if it is not slower than the level above; \
         mix: lines read : lines written, by all threads"
    )));
    // The last figures are for all threads.
    let widest_first: Vec<CurvesFigure<'_>> = of.iter().rev().cloned().collect();
    evidence(section, &widest_first, "regular stores".to_owned());
    if let Some(limit) = of.iter().find_map(|(m, _)| m.limit.as_ref()) {
        let text = format!("{} ({})", BytesPerSec(limit.value), limit.basis);
        section.note("limit", text);
    }
}

/// Returns a text with the relative difference of a measured value from its prediction, e.g. `+3.2 %`.
fn miss_in_words((m, config): &CurvesFigure<'_>) -> Option<String> {
    let miss = config.measured? / m.value? - 1.0;
    let sign = if miss < 0.0 { '-' } else { '+' };
    Some(format!("{sign}{}", Fraction(miss.abs())))
}

/// Returns an empty curve. `number` selects its colour, and `dash` its line style.
fn empty_curve(mark: char, name: String, number: usize, dash: usize) -> ChartSeries {
    let colour = Some(number);
    ChartSeries { mark, name, colour, dash: Some(dash), ..ChartSeries::default() }
}

/// Returns the two curves of a kernel: measured, and predicted as a dashed line in the same colour.
fn curves(of: &[CurvesFigure<'_>], number: usize, kernel: &str) -> [ChartSeries; 2] {
    let initial = kernel.chars().next().unwrap_or('*');
    let mut measured = empty_curve(initial, kernel.to_owned(), number, 0);
    let name = format!("{kernel}, predicted");
    let mut predicted = empty_curve(initial.to_ascii_uppercase(), name, number, 1);
    for count in counts(of) {
        let Some((m, config)) = at(of, kernel, count) else { continue };
        let x = count.unwrap_or(0) as f64;
        if let Some(value) = config.measured {
            measured.dots.push((x, value));
        }
        if let Some(value) = m.value {
            predicted.push((x, value), m);
        }
    }
    [measured, predicted]
}

/// Adds the view of the predictions, with the chart of the measured and the predicted curves.
pub(super) fn add_prediction(of: &[CurvesFigure<'_>], section: &mut Section) {
    let columns = ColumnList::<CurvesFigure<'_>>::new()
        .right("threads", |(_, config)| count_cell(config.threads))
        .values("measured", ColumnUnit::GB_PER_S, |(_, config)| config.measured)
        .right("predicted", |figure| value(Some(figure)))
        .right_or_dash("miss", miss_in_words);
    let mut table = columns.empty_table();
    let mut series = Vec::new();
    for (number, kernel) in kernels(of).into_iter().enumerate() {
        let own: Vec<&CurvesFigure<'_>> =
            counts(of).into_iter().filter_map(|count| at(of, kernel, count)).collect();
        table.push_heading(heading(kernel, own.first().map(|(_, config)| config)));
        columns.add_rows(&mut table, own);
        series.extend(curves(of, number, kernel));
    }
    section.push(table).push_gap();
    let ticks = counts(of).into_iter().flatten().map(|count| count as f64).collect();
    section.push(Chart {
        title: "bandwidth by the number of threads, measured and predicted".to_owned(),
        names: ["threads", ""],
        x: AxisQuantity::Number,
        y: AxisQuantity::Rate(Unit::BytesPerSecond),
        ticks,
        series,
        ..Chart::default()
    });
    section.push_gap().push(Block::Text(
        "GB/s; predicted from one core and from all threads with the mix of the kernel; miss: measured compared with \
         predicted; capital letters: predicted"
            .to_owned(),
    ));
}

/// Returns the heading for a kernel: its mix, and the number of cores at which it saturates the memory.
fn heading(kernel: &str, config: Option<&CurveConfig>) -> TableCell {
    let Some(config) = config else { return kernel.into() };
    let mix = Mix::ALL.iter().find(|mix| {
        let of = mix.kernel().spec();
        config.reads == Some(of.reads.len() as u64)
            && config.writes == Some(of.writes.is_some().into())
    });
    let mix = mix.map_or("?", |mix| mix.name());
    let end = config.saturation.map_or_else(
        || "not saturated by these threads".to_owned(),
        |cores| format!("saturates at {cores:.1} cores"),
    );
    format!("{kernel} ({mix}), {end}").into()
}

/// Returns the conclusion about the scaling: the rate of Triad with all threads, and the number of kernels that are
/// predicted correctly.
pub(super) fn conclusion(record: &Record, of: &[CurvesFigure<'_>]) -> Option<String> {
    let all = of.iter().filter_map(|(_, config)| config.threads).max()?;
    let own = at(of, Kernel::Triad.name(), Some(all)).map(|(m, _)| *m);
    let measured = own.and_then(|m: &Measurement| {
        let who = number_with_noun(all, "thread");
        Some(format!("{who} {} {} of triad", verb_form(all, "sustain"), value_in_words(m)?))
    });
    let predicted = correct_share_in_words(&compared_figures(&record.measurements));
    let parts: Vec<String> = measured.into_iter().chain(predicted).collect();
    (!parts.is_empty()).then(|| capitalise(&parts.join("; ")))
}
