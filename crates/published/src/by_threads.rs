//! View of a published sweep over thread counts next to the figures of a run.

use crate::catalog::{BY_THREADS, PublishedConfig};
use crate::rows::{PublishedRow, native, origin, share};
use nodegauge_gauge::view::{
    Chart, ChartSeries, Picture, Scale, Section, Table, TableCell, distinct, words,
};
use nodegauge_measure::Unit;
use nodegauge_measure::figure_names::stream;
use nodegauge_measure::keys::shared;
use nodegauge_measure::quantity::significant;
use nodegauge_measure::record::{Measurement, Record};

/// Adds the table and the chart of a published sweep, with the Triad of this run at the same thread counts.
pub(crate) fn add(section: &mut Section, record: &Record, figures: &[&PublishedRow<'_>]) {
    let Some(first) = figures.first() else { return };
    let own = native(record, &first.0.gauge);
    let own: Vec<&Measurement> = own.into_iter().filter(|m| m.name == stream::TRIAD).collect();
    let machine = first.1.machine.as_deref().unwrap_or("?");
    let mut rows = table(figures, &own);
    rows.heading(format!("published, GB/s: {machine}, {BY_THREADS}"));
    section.push(rows).picture(picture(machine, figures, &own)).gap();
    section.note("published", origin(first));
}

/// Returns the thread counts of the published figures, in the order of the publication.
fn counts(figures: &[&PublishedRow<'_>]) -> Vec<u64> {
    distinct(figures.iter().filter_map(|(_, config)| config.threads))
}

/// Returns the highest Triad of this run with `threads` threads; other axes of a sweep may give several.
fn fastest<'a>(own: &[&'a Measurement], threads: u64) -> Option<&'a Measurement> {
    let here = own.iter().filter(|m| m.read_key::<shared::threads>() == Some(threads));
    let rated = here.filter_map(|m| Some((m.value?, *m)));
    rated.max_by(|(x, _), (y, _)| x.total_cmp(y)).map(|(_, m)| m)
}

/// Returns the published figure of a kernel with `threads` threads.
fn figure<'a>(figures: &[&PublishedRow<'a>], threads: u64, name: &str) -> Option<&'a Measurement> {
    figures
        .iter()
        .find(|(m, config)| config.threads == Some(threads) && m.name == name)
        .map(|(m, _)| *m)
}

/// Returns a table with a row for each published thread count.
fn table(figures: &[&PublishedRow<'_>], own: &[&Measurement]) -> Table {
    let titles =
        [">threads", ">copy", ">scale", ">add", ">triad", ">of theory", ">this run", ">this/it"];
    let mut table = Table::new(&titles);
    for threads in counts(figures) {
        let mut row: Vec<TableCell> = vec![threads.to_string().into()];
        row.extend(
            stream::KERNELS
                .map(|name| words::rate(figure(figures, threads, name).and_then(|m| m.value))),
        );
        let triad = figure(figures, threads, stream::TRIAD);
        row.push(triad.and_then(share).unwrap_or_else(|| "?".to_owned()).into());
        let here = fastest(own, threads).and_then(|m| m.value);
        row.push(here.map_or_else(
            || TableCell::text("-"),
            |rate| TableCell::figure(rate, Unit::BytesPerSecond, significant(rate / 1e9)),
        ));
        let theirs = triad.and_then(|m| m.value);
        let ratio = here.zip(theirs).map(|(rate, theirs)| format!("{:.2} x", rate / theirs));
        row.push(ratio.unwrap_or_else(|| "-".to_owned()).into());
        table.row(row);
    }
    table
}

/// Returns a chart of Triad over threads: published, and of this run.
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
        x: Scale::Number,
        y: Scale::Rate(Unit::BytesPerSecond),
        ticks,
        series,
        ..Chart::default()
    };
    Some(Picture::chart("triad over threads, of this run and as published", chart))
}

/// True if the figure belongs to a published sweep.
pub(crate) fn is_row((_, config): &PublishedRow<'_>) -> bool {
    config.axis.is_some()
}

/// Groups the figures of published sweeps by publication.
pub(crate) fn groups<'a, 'b>(figures: &'b [PublishedRow<'a>]) -> Vec<Vec<&'b PublishedRow<'a>>> {
    let mut groups: Vec<Vec<&PublishedRow<'_>>> = Vec::new();
    for figure in figures.iter().filter(|figure| is_row(figure)) {
        match groups.iter_mut().find(|group| is_of_sweep(&figure.1, &group[0].1)) {
            Some(group) => group.push(figure),
            None => groups.push(vec![figure]),
        }
    }
    groups
}

/// True if two figures belong to the same published sweep.
fn is_of_sweep(figure: &PublishedConfig, other: &PublishedConfig) -> bool {
    figure.machine == other.machine
        && figure.source == other.source
        && figure.compiler == other.compiler
}
