//! View of a published sweep over thread counts, next to the figures of a run.

use crate::catalog::{PublishedConfig, SWEEP_TITLE_SUFFIX};
use crate::rows::{PublishedRow, limit_share_text, native_figures, origin};
use nodegauge_gauge::view::{
    AxisQuantity, Chart, ChartSeries, ColumnList, ColumnUnit, Picture, Section, Table, distinct,
};
use nodegauge_measure::Unit;
use nodegauge_measure::figure_names::stream;
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{Measurement, Record};

/// Adds the table and the chart of a published sweep, with the Triad of this run at the same thread counts.
pub(crate) fn add_sweep(section: &mut Section, record: &Record, figures: &[&PublishedRow<'_>]) {
    let Some(first) = figures.first() else { return };
    let own = native_figures(record, &first.0.gauge);
    let own: Vec<&Measurement> = own.into_iter().filter(|m| m.name == stream::TRIAD).collect();
    let machine = first.1.machine.as_deref().unwrap_or("?");
    let heading = format!("published, GB/s: {machine}, {SWEEP_TITLE_SUFFIX}");
    section
        .push(table(heading, figures, &own))
        .push_picture(picture(machine, figures, &own))
        .push_gap();
    section.note("published", origin(first));
}

/// Returns the thread counts of the published figures, in the order of the publication.
fn counts(figures: &[&PublishedRow<'_>]) -> Vec<u64> {
    distinct(figures.iter().filter_map(|(_, config)| config.threads))
}

/// Returns the highest Triad rate of this run with `threads` threads. A sweep over other axes may contain several such
/// figures.
fn fastest<'a>(own: &[&'a Measurement], threads: u64) -> Option<&'a Measurement> {
    let here = own.iter().filter(|m| m.read_key::<shared::threads>() == Some(threads));
    here.filter(|m| m.value.is_some()).max_by(|x, y| x.cmp_value(y)).copied()
}

/// Returns the published figure of a kernel for a number of threads.
fn at<'a>(figures: &[&PublishedRow<'a>], threads: u64, name: &str) -> Option<&'a Measurement> {
    let (m, _) =
        figures.iter().find(|(m, config)| config.threads == Some(threads) && m.name == name)?;
    Some(m)
}

/// Returns a table with a row for each published thread count.
fn table(heading: String, figures: &[&PublishedRow<'_>], own: &[&Measurement]) -> Table {
    const RATE: ColumnUnit = ColumnUnit::GB_PER_S;
    let columns = ColumnList::<u64>::new()
        .right("threads", u64::to_string)
        .columns_for_each(
            stream::KERNELS,
            |name| (*name).to_owned(),
            |threads, name| RATE.cell(at(figures, *threads, name).and_then(|m| m.value)),
        )
        .right("of theory", |threads| {
            at(figures, *threads, stream::TRIAD)
                .and_then(limit_share_text)
                .unwrap_or_else(|| "?".to_owned())
        })
        .values("this run", RATE, |threads| fastest(own, *threads)?.value)
        .right_or_dash("this/it", |threads| {
            let theirs = at(figures, *threads, stream::TRIAD)?.value?;
            Some(format!("{:.2} x", fastest(own, *threads)?.value? / theirs))
        });
    columns.grouped_table([(heading, counts(figures))])
}

/// Returns a chart of Triad over threads, with the published figures and those of this run.
fn picture(machine: &str, figures: &[&PublishedRow<'_>], own: &[&Measurement]) -> Option<Picture> {
    let mut here = ChartSeries { mark: 't', name: "this run".to_owned(), ..ChartSeries::default() };
    let own_counts = own.iter().filter_map(|m| m.read_key::<shared::threads>());
    for threads in distinct(own_counts) {
        if let Some(m) = fastest(own, threads)
            && let Some(rate) = m.value
        {
            here.push((threads as f64, rate), m);
        }
    }
    here.dots.sort_by(|a, b| a.0.total_cmp(&b.0));
    let triads = figures.iter().filter(|(m, _)| m.name == stream::TRIAD);
    let dots = triads.filter_map(|(m, config)| Some((config.threads? as f64, m.value?)));
    let theirs = ChartSeries {
        mark: 'p',
        name: machine.to_owned(),
        dots: dots.collect(),
        ..ChartSeries::default()
    };
    let series: Vec<ChartSeries> =
        [here, theirs].into_iter().filter(|series| !series.dots.is_empty()).collect();
    let mut ticks: Vec<f64> =
        series.iter().flat_map(|series| &series.dots).map(|dot| dot.0).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let chart = Chart {
        names: ["threads", ""],
        x: AxisQuantity::Number,
        y: AxisQuantity::Rate(Unit::BytesPerSecond),
        ticks,
        series,
        ..Chart::default()
    };
    Some(Picture::chart("triad over threads, of this run and as published", chart))
}

/// True if the figure belongs to a published sweep.
pub(crate) fn is_sweep_row((_, config): &PublishedRow<'_>) -> bool {
    config.axis.is_some()
}

/// Groups the figures of published sweeps by publication.
pub(crate) fn group_by_publication<'a, 'b>(
    figures: &'b [PublishedRow<'a>],
) -> Vec<Vec<&'b PublishedRow<'a>>> {
    let mut groups: Vec<Vec<&PublishedRow<'_>>> = Vec::new();
    for figure in figures.iter().filter(|figure| is_sweep_row(figure)) {
        match groups.iter_mut().find(|group| is_same_sweep(&figure.1, &group[0].1)) {
            Some(group) => group.push(figure),
            None => groups.push(vec![figure]),
        }
    }
    groups
}

/// True if two figures are of the same published sweep.
fn is_same_sweep(one: &PublishedConfig, other: &PublishedConfig) -> bool {
    one.machine == other.machine && one.source == other.source && one.compiler == other.compiler
}
