//! View of `apps iccg`: the times of the parts of an iteration, and the bandwidth of each part compared with that of
//! the node. With several kinds of workers, the tables have one row per kind.

use super::TEST;
use super::config::IccgConfig;
use crate::GAUGE;
use crate::efficiency::{self, WorkersRate};
use crate::sweep;
use nodegauge_analysis::conclusion;
use nodegauge_analysis::ratio::closing::several_figures_sentences;
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::sentence::{
    capitalise, quotable_figures, superlative_sentence, value_in_words,
};
use nodegauge_gauge::view::sweep::{RoundPairing, SweptRow, SweptRows};
use nodegauge_gauge::view::{
    AxisQuantity, BarChart, BarSeries, Block, Chart, ChartBar, ChartSeries, ColumnList, ColumnUnit,
    Drawing, Picture, Section, StepChart, Table, TableCell, summary,
};
use nodegauge_measure::quantity::{count_in_words, format_significant};
use nodegauge_measure::record::{Measurement, QuotedStatistic, Record};
use nodegauge_measure::{Bytes, Fraction, Seconds, Unit};
use nodegauge_solvers::cg::PARTS;

/// Figure and its configuration.
type IccgFigure<'a> = (&'a Measurement, IccgConfig);

/// Returns the sections with tables, evidence and summary; none if the record has no such figures.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TEST);
    let all: Vec<IccgFigure<'_>> = own.map(|m| (m, m.read_config())).collect();
    let Some(first) = all.iter().find(|(m, _)| m.name == "time_to_solution") else {
        return Vec::new();
    };
    let groups: Vec<&[IccgFigure<'_>]> = all.chunk_by(|_, (m, _)| m.name != first.0.name).collect();
    let mut section = Section::new(TEST);
    match groups.as_slice() {
        [alone] => {
            section.push(parts_table(alone)).push_picture(parts_picture(alone));
            section.blocks.extend(prediction(alone).map(Block::Text));
            &mut section
        }
        several => section
            .push(workers_table(several))
            .push_picture(parts_by_workers(several))
            .push_picture(efficiency(several))
            .push_picture(picture(several))
            .push_gap()
            .push(times_table(several)),
    };
    section.push_gap();
    let config = &first.1;
    section.note("problem", problem(config));
    let by = if groups.len() > 1 { format!("by {}: ", workers(config)) } else { String::new() };
    section.note("solution", by + &solution(first.0, config));
    if detail == Detail::Full {
        section.note_if("storage", storage(config));
        section.note_if(
            "halo",
            config.halo_by.as_ref().map(|mpi| {
                let hosts = config.on.of.hosts.as_ref().map(|hosts| hosts.join(", "));
                let between = hosts.map(|hosts| format!(" between {hosts}")).unwrap_or_default();
                format!("exchange and sums by {mpi}{between}")
            }),
        );
        section.note_if("memory", memory(config));
        section.note(
            "bytes",
            "from the storage format: matrix and factors once, vectors once per loop; \
             predictions use the read bandwidth (Triad for vector updates) of the same workers, \
             measured interleaved with the solves",
        );
        let stop = config.stopped.as_deref().unwrap_or("?");
        let iterations = all.iter().find(|(m, _)| m.name == "iteration");
        let n = iterations.and_then(|(m, _)| m.summary.as_ref()).map_or(0, |summary| summary.n);
        let count = count_in_words(n, "iteration");
        let solutions = count_in_words(config.solutions.unwrap_or(0) as usize, "solution");
        section.note("samples", format!("{count} of {solutions}; {stop}"));
        section.note_if("relative", relative(&all));
    }
    let measurements: Vec<&Measurement> = all.iter().map(|(m, _)| *m).collect();
    section.push_doubts(&measurements);
    let closing = match groups.as_slice() {
        [alone] => named(alone, "rate").and_then(closing),
        several => fastest(several),
    };
    std::iter::once(section).chain(closing.map(summary)).collect()
}

/// Returns the first sentence of the page: the time of the fastest solve.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TEST);
    let times = own.filter(|m| m.name == "time_to_solution" && value_in_words(m).is_some());
    let all: Vec<IccgFigure<'_>> = times.map(|m| (m, m.read_config())).collect();
    let chosen = quotable_figures(all.iter(), |(m, _)| *m);
    let (m, config) = chosen.iter().min_by(|(a, _), (b, _)| a.cmp_value(b))?;
    let time = value_in_words(m)?;
    let iterations =
        config.iterations.map(|n| format!(" ({})", count_in_words(n as usize, "iteration")));
    let iterations = iterations.unwrap_or_default();
    let unknowns = config.n.unwrap_or(0);
    let takes = format!("of {unknowns} unknowns takes {time} with {}{iterations}", workers(config));
    if all.len() == 1 {
        return Some(format!("The solve {takes}"));
    }
    let mut rows = Vec::new();
    for (figure, of) in all.iter().filter(|(_, of)| of.sweep.is_some()) {
        rows.push(SweptRow { name: workers(of), figure, rounds: RoundPairing::UnpairedFigure });
    }
    if let Some(verdict) = SweptRows::new(rows, m.quoted).headline() {
        return Some(capitalise(&format!("{verdict}; the shortest solve {takes}")));
    }
    let text = superlative_sentence(
        "which workers are the fastest",
        chosen.iter().map(|(one, _)| *one),
        || format!("The fastest solve {takes}"),
        || format!("the shortest solve {takes}"),
    );
    Some(capitalise(&text))
}

/// Returns the name of the workers of a figure, e.g. `2 threads`.
fn workers(config: &IccgConfig) -> String {
    sweep::in_words(&config.on, config.sweep.as_ref())
}

fn label(config: &IccgConfig) -> String {
    sweep::label(&config.on, config.sweep.as_ref())
}

/// Returns the value of a sweep axis for a figure.
fn coordinate<'c>(config: &'c IccgConfig, axis: &str) -> Option<&'c str> {
    sweep::coordinate(config.sweep.as_ref(), axis)
}

/// Returns a sentence that names the reference of the relative speeds.
fn relative(all: &[IccgFigure<'_>]) -> Option<String> {
    let ratios = all.iter().filter(|(m, _)| m.name == "relative");
    let mut against: Vec<&str> =
        ratios.filter_map(|(_, config)| config.against.as_deref()).collect();
    against.dedup();
    let joined = against.join("; of ");
    (!joined.is_empty()).then(|| {
        format!(
            "time to solution of {joined}, divided by that of the row; the solves are interleaved"
        )
    })
}

/// Returns a sentence about the workers with the fastest solve.
fn fastest(groups: &[&[IccgFigure<'_>]]) -> Option<String> {
    let found = groups.iter().filter_map(|group| named(group, "time_to_solution"));
    let all: Vec<(String, &Measurement)> =
        found.map(|(m, config)| (format!("a solution by {}", workers(config)), *m)).collect();
    several_figures_sentences(&all, "is", QuotedStatistic::Median).into_iter().next()
}

/// Returns a picture of the time of each part of an iteration, one group per kind of workers.
fn parts_by_workers(groups: &[&[IccgFigure<'_>]]) -> Option<Picture> {
    let mut series = Vec::new();
    for part in PARTS {
        let values = groups.iter().map(|group| {
            let figure = named(group, part)?;
            Some((part_time(figure)?, figure.0.validity.reasons.first().cloned()))
        });
        series.push(BarSeries { name: part.to_owned(), values: values.collect() });
    }
    series.retain(|one| one.values.iter().any(Option::is_some));
    let rests = groups.iter().map(|group| {
        let doubt = named(group, "rate").and_then(|(m, _)| m.validity.reasons.first().cloned());
        Some((rest(group).filter(|seconds| *seconds > 0.0)?, doubt))
    });
    let values: Vec<Option<(f64, Option<String>)>> = rests.collect();
    if !series.is_empty() && values.iter().any(Option::is_some) {
        series.push(BarSeries { name: REST.to_owned(), values });
    }
    let names = groups.iter().map(|group| label(&group[0].1)).collect();
    let title = "time of an iteration by part and workers".to_owned();
    let any = !series.is_empty();
    let drawing = Drawing::Bars(BarChart { unit: Unit::Seconds, groups: names, series });
    any.then_some(Picture { title, drawing })
}

/// Returns the chart of the efficiency over the number of workers.
fn efficiency(groups: &[&[IccgFigure<'_>]]) -> Option<Picture> {
    let rates = groups.iter().filter_map(|group| named(group, "rate"));
    let rates: Vec<WorkersRate<'_>> = rates
        .filter_map(|(m, config)| WorkersRate::from_rate(&config.on, config.sweep.as_ref(), m))
        .collect();
    efficiency::picture(&rates)
}

/// Returns a chart of the rate over the number of ranks or threads, with one curve for each value of the other axis.
/// Without such an axis, returns bars of the relative speed of each kind of workers.
fn picture(groups: &[&[IccgFigure<'_>]]) -> Option<Picture> {
    let counts = ["ranks", "threads"];
    let axis = counts
        .into_iter()
        .find(|axis| groups.iter().all(|group| coordinate(&group[0].1, axis).is_some()));
    let Some(axis) = axis else {
        let bars = groups.iter().map(|group| match named(group, "relative") {
            Some((m, config)) => ChartBar::bar(label(config), m.value, "").with_validity(m),
            None => ChartBar::bar(label(&group[0].1), Some(1.0), ""),
        });
        return Some(Picture::bars("relative speed to solution", Unit::Factor, bars));
    };
    let mut series: Vec<ChartSeries> = Vec::new();
    for group in groups {
        let (rate, config) = named(group, "rate")?;
        let others = config.sweep.iter().flatten().filter(|(name, _)| *name != axis);
        let others = others.filter_map(|(name, value)| Some(format!("{name} {}", value.as_str()?)));
        let name = others.collect::<Vec<_>>().join(", ");
        let name = if name.is_empty() { "rate".to_owned() } else { name };
        let count = coordinate(config, axis).and_then(|count| count.parse().ok());
        let curve = ChartSeries::find_or_append(&mut series, name);
        if let Some(dot) = count.zip(rate.value) {
            curve.push(dot, rate);
        }
    }
    for one in &mut series {
        one.dots.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let ticks = series.iter().flat_map(|series| &series.dots).map(|dot| dot.0).collect();
    let y = AxisQuantity::Rate(Unit::FlopsPerSecond);
    let names = [axis, ""];
    let chart = Chart { names, y, ticks, series, ..Chart::default() };
    Some(Picture::chart(format!("rate over {axis}"), chart))
}

/// Returns a figure of a group by its name.
fn named<'a, 'm>(group: &'a [IccgFigure<'m>], name: &str) -> Option<&'a IccgFigure<'m>> {
    group.iter().find(|(m, _)| m.name == name)
}

/// Returns the rate of a figure divided by its predicted rate.
fn limit_reached((m, _): &IccgFigure<'_>) -> Option<Fraction> {
    Some(m.limit.as_ref()?.fraction)
}

/// Returns the cell of a group's figure with its unit, or with the reason for a missing value.
fn in_words(group: &[IccgFigure<'_>], name: &str) -> Option<TableCell> {
    let (m, _) = named(group, name)?;
    Some(TableCell::from_measurement(m, |_| m.in_words()))
}

/// Returns the value of a group's figure.
fn value(group: &[IccgFigure<'_>], name: &str) -> Option<f64> {
    named(group, name)?.0.value
}

/// Returns the cell of a value with the column's unit prefix; empty without a value.
fn filled(unit: ColumnUnit, value: Option<f64>) -> Option<TableCell> {
    value.map(|value| unit.cell(Some(value)))
}

/// Returns the table with one row for each kind of workers.
fn workers_table(groups: &[&[IccgFigure<'_>]]) -> Table {
    let max = groups.iter().filter_map(|group| value(group, "rate")).fold(0.0, f64::max);
    let columns = ColumnList::<&[IccgFigure<'_>]>::new()
        .left("workers", |group| label(&group[0].1))
        .right_or_blank("iterations", |group| Some(group[0].1.iterations?.to_string()))
        .right_or_blank("solution", |group| in_words(group, "time_to_solution"))
        .right_or_blank("iteration", |group| in_words(group, "iteration"))
        .right_or_blank("GFLOP/s", |group| filled(ColumnUnit::GFLOP_PER_S, value(group, "rate")))
        .right_or_blank("predicted", |group| {
            Some(limit_reached(named(group, "rate")?)?.in_whole_percent())
        })
        .right_or_blank("relative", |group| {
            let (m, _) = named(group, "relative")?;
            Some(TableCell::from_measurement(m, |value| format!("{value:.3}")))
        })
        .left("", |group| TableCell::bar(Fraction(value(group, "rate").unwrap_or(0.0) / max)));
    columns.table(groups)
}

/// Returns the table with the times of the parts of an iteration and the bandwidth, one row per kind of workers.
fn times_table(groups: &[&[IccgFigure<'_>]]) -> Table {
    let columns = ColumnList::<&[IccgFigure<'_>]>::new()
        .left("time of", |group| label(&group[0].1))
        .columns_for_each(
            PARTS,
            |part| (*part).to_owned(),
            |group, part| time_cell(named(group, part).and_then(part_time)),
        )
        .right(REST, |group| time_cell(rest(group)))
        .right_or_blank("GB/s read", |group| filled(ColumnUnit::GB_PER_S, value(group, "read")))
        .right_or_blank("Triad", |group| filled(ColumnUnit::GB_PER_S, value(group, "triad")));
    columns.table(groups).with_optional_columns(&[REST, "axpy", "dots"])
}

/// Returns the cell of a time; empty without a time.
fn time_cell(seconds: Option<f64>) -> TableCell {
    seconds.map_or_else(TableCell::default, |time| TableCell::in_words(time, Unit::Seconds))
}

/// Name of the row for the time of an iteration that is in none of its parts.
const REST: &str = "rest";

/// Returns the figures of the parts of an iteration.
fn parts<'a, 'm>(group: &'a [IccgFigure<'m>]) -> impl Iterator<Item = &'a IccgFigure<'m>> {
    group.iter().filter(|(_, config)| config.share.is_some())
}

/// Returns the time of a part of an iteration, seconds.
fn part_time((m, config): &IccgFigure<'_>) -> Option<f64> {
    Some(config.moved_bytes? as f64 / m.value?)
}

/// Returns the time of an iteration, seconds.
fn iteration_time(group: &[IccgFigure<'_>]) -> Option<f64> {
    let (m, config) = named(group, "rate")?;
    Some(config.flops? as f64 / m.value?)
}

/// Returns the time of an iteration minus the times of its parts, seconds. It is negative if the sum of the parts'
/// medians exceeds the median of the iteration.
fn rest(group: &[IccgFigure<'_>]) -> Option<f64> {
    let times: Option<Vec<f64>> = parts(group).map(part_time).collect();
    let times = times.filter(|times| !times.is_empty())?;
    Some(iteration_time(group)? - times.iter().sum::<f64>())
}

/// Describes the prediction of the parts' rates, with the bandwidths on which it is based.
fn prediction(group: &[IccgFigure<'_>]) -> Option<String> {
    let (read, _) = named(group, "read")?;
    let (triad, _) = named(group, "triad")?;
    read.value.and(triad.value)?;
    Some(format!(
        "predicted: time in which the same workers move the bytes of the part at their read \
         bandwidth ({}; axpy: at their Triad bandwidth, {}); {REST}: time of an iteration outside its \
         parts",
        read.in_words(),
        triad.in_words()
    ))
}

/// Returns a picture of the parts of an iteration one after another, the rest, and the whole; `None` without such
/// figures.
fn parts_picture(group: &[IccgFigure<'_>]) -> Option<Picture> {
    let mut at = 0.0;
    let mut steps = Vec::new();
    for part in parts(group) {
        let (m, config) = part;
        let seconds = part_time(part)?;
        let share = config.share.unwrap_or_default().in_whole_percent();
        let reached = m.limit.as_ref().map(|limit| limit.fraction.in_whole_percent());
        let reached = reached.map(|of| format!(", {of} of the predicted rate")).unwrap_or_default();
        steps.push(ChartBar {
            name: m.name.clone(),
            from: at,
            to: Some(at + seconds),
            words: Seconds(seconds).to_string(),
            label: format!("{}: {share}{reached}", Seconds(seconds)),
            doubt: m.validity.reasons.first().cloned(),
            ..ChartBar::default()
        });
        at += seconds;
    }
    if let Some((rest, whole)) = rest(group).zip(iteration_time(group)) {
        let of_whole = Fraction(rest / whole).in_whole_percent();
        let rate = named(group, "rate");
        let step = |name: &str, from: f64, seconds: f64, label: String| ChartBar {
            name: name.to_owned(),
            from,
            to: Some(from + seconds),
            words: Seconds(seconds).to_string(),
            label,
            doubt: rate.and_then(|(m, _)| m.validity.reasons.first().cloned()),
            ..ChartBar::default()
        };
        if rest > 0.0 {
            steps.push(step(REST, at, rest, format!("{}: {of_whole}", Seconds(rest))));
        }
        steps.push(step("iteration", 0.0, whole, Seconds(whole).to_string()));
    }
    let title = "time of an iteration by part".to_owned();
    let drawing = Drawing::Steps(StepChart { unit: Unit::Seconds, steps });
    (at > 0.0).then_some(Picture { title, drawing })
}

/// Row of the table of parts: a part of an iteration, the rest, or the whole iteration.
#[derive(Default)]
struct PartRow {
    name: String,
    /// Time, or the reason why there is none.
    time: String,
    share: Option<Fraction>,
    bytes: Option<u64>,
    bytes_per_s: Option<f64>,
    flops_per_s: Option<f64>,
    /// Rate divided by the predicted rate.
    reached: Option<Fraction>,
    /// True for a part of the iteration, whose share is drawn as a bar.
    is_part: bool,
}

impl PartRow {
    /// Returns the row of a part of an iteration.
    fn part(figure: &IccgFigure<'_>) -> Self {
        let (m, config) = figure;
        let seconds = part_time(figure);
        let flops = config.flops.filter(|flops| *flops > 0).zip(seconds);
        Self {
            name: m.name.clone(),
            time: time_or_status(seconds, m),
            share: config.share,
            bytes: config.moved_bytes.or(Some(0)),
            bytes_per_s: m.value,
            flops_per_s: flops.map(|(flops, time)| flops as f64 / time),
            reached: limit_reached(figure),
            is_part: true,
        }
    }

    /// Returns the row of the rest of an iteration.
    fn rest(group: &[IccgFigure<'_>]) -> Option<Self> {
        let seconds = rest(group)?;
        let share = Some(Fraction(seconds / iteration_time(group)?));
        let time = Seconds(seconds).to_string();
        Some(Self { name: REST.to_owned(), time, share, ..Self::default() })
    }

    /// Returns the row of the whole iteration.
    fn whole(group: &[IccgFigure<'_>]) -> Option<Self> {
        let figure = named(group, "rate")?;
        let (m, config) = figure;
        let seconds = iteration_time(group);
        let bytes = config.moved_bytes.unwrap_or(0);
        Some(Self {
            name: "iteration".to_owned(),
            time: time_or_status(seconds, m),
            bytes: Some(bytes),
            bytes_per_s: seconds.map(|seconds| bytes as f64 / seconds),
            flops_per_s: m.value,
            reached: limit_reached(figure),
            ..Self::default()
        })
    }
}

/// Formats a time; without a time, the status of the figure.
fn time_or_status(seconds: Option<f64>, m: &Measurement) -> String {
    seconds.map_or_else(|| m.validity.status.name().to_owned(), |time| Seconds(time).to_string())
}

/// Returns the table with one row for each part of an iteration.
fn parts_table(group: &[IccgFigure<'_>]) -> Table {
    let columns = ColumnList::<PartRow>::new()
        .left("part", |row| row.name.clone())
        .right("time", |row| row.time.clone())
        .right_or_blank("share", |row| Some(row.share?.in_whole_percent()))
        .right_or_blank("bytes", |row| Some(Bytes(row.bytes?).to_string()))
        .right_or_blank("GB/s", |row| filled(ColumnUnit::GB_PER_S, row.bytes_per_s))
        .right_or_blank("GFLOP/s", |row| filled(ColumnUnit::GFLOP_PER_S, row.flops_per_s))
        .right_or_blank("of predicted", |row| Some(row.reached?.in_whole_percent()))
        .left("", |row| {
            let share = row.share.filter(|_| row.is_part);
            share.map_or_else(TableCell::default, TableCell::bar)
        });
    let rows = parts(group).map(PartRow::part);
    columns.table(rows.chain(PartRow::rest(group)).chain(PartRow::whole(group)))
}

fn problem(config: &IccgConfig) -> String {
    let elements = config.elements.as_deref().unwrap_or("?").replace('x', " x ");
    let unknowns = config.n.unwrap_or(0);
    format!("elasticity on {elements} hexahedra, {unknowns} unknowns")
}

fn solution(m: &Measurement, config: &IccgConfig) -> String {
    let method = match config.preconditioner.as_deref() {
        Some("diagonal") => "inverse of the diagonal blocks".to_owned(),
        Some("domain") => "block-IC(0) of each domain".to_owned(),
        other => {
            let colours = count_in_words(config.colours.unwrap_or(0) as usize, "colour");
            format!("block-IC(0), {}, {colours}", other.unwrap_or("?"))
        }
    };
    let natural =
        config.natural_iterations.map_or_else(String::new, |n| format!(" ({n} in natural order)"));
    let number = |x: Option<f64>| x.map_or_else(|| "?".to_owned(), |x| format!("{x:.1e}"));
    let memory = config.memory_s.map_or_else(String::new, |s| {
        format!(" (and {} for the kernel to provide memory)", Seconds(s))
    });
    let setup =
        config.setup_s.map_or_else(String::new, |s| format!(", setup {}{memory}", Seconds(s)));
    format!(
        "{method}: {}{natural}, {}{setup}; residual {}, deviation from the exact displacements {}",
        count_in_words(config.iterations.unwrap_or(0) as usize, "iteration"),
        m.in_words(),
        number(config.residual),
        number(config.error)
    )
}

fn storage(config: &IccgConfig) -> Option<String> {
    let name = config.storage.as_deref()?;
    let isa = config.isa.as_deref().unwrap_or("?");
    let tried = match (config.bcsr_s, config.sell_s) {
        (Some(bcsr), Some(sell)) => {
            format!(" (time per product: {bcsr} in bcsr, {sell} in sell)")
        }
        _ => String::new(),
    };
    Some(format!("{name}, {isa} loops{tried}"))
}

fn memory(config: &IccgConfig) -> Option<String> {
    let times = config.times_llc?;
    let matrix = Bytes(config.matrix_bytes?);
    Some(format!(
        "matrix of {matrix}, {} times the last-level caches in use",
        format_significant(times)
    ))
}

/// Returns the closing sentence, which compares the solver with the memory bandwidth.
fn closing((m, config): &IccgFigure<'_>) -> Option<String> {
    let limit = m.limit.as_ref().filter(|_| m.value.is_some())?;
    let predicted = Seconds(config.predicted_s?);
    let what = "the share of this node's bandwidth limit that the solver reaches";
    Some(conclusion::sentence_or_obstacle(what, [*m], || {
        format!(
            "the solver runs at {}, {} of the rate that the bandwidth of this node permits \
             ({predicted} per iteration)",
            m.in_words(),
            limit.fraction.in_whole_percent()
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspect_or_impossible_solver_rate_states_no_share_of_its_limit() {
        let rate = |fraction: f64| {
            let m = Measurement::new(GAUGE, TEST, "rate", Unit::FlopsPerSecond);
            m.with_value(QuotedStatistic::Median, fraction * 1e9)
                .with_limit(1e9, "time of the moved bytes")
        };
        let closing_of = |m: &Measurement| {
            let config = IccgConfig { predicted_s: Some(1e-3), ..IccgConfig::default() };
            closing(&(m, config)).unwrap()
        };
        assert!(
            closing_of(&rate(0.9))
                .contains("90 % of the rate that the bandwidth of this node permits")
        );
        assert!(
            closing_of(&rate(1.07))
                .starts_with("cannot tell the share of this node's bandwidth limit")
        );
        let mut suspect = rate(0.9);
        suspect.validity.mark_suspect("disturbed");
        assert!(closing_of(&suspect).ends_with(": disturbed"));
    }

    #[test]
    fn times_of_parts_and_rest_add_up_to_the_iteration() {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/golden/apps-iccg/record.json"
        ))
        .unwrap();
        let record: Record = serde_json::from_str(&text).unwrap();
        let sections = sections(&record, Detail::Full);
        let mut steps = sections[0].blocks.iter().filter_map(|block| match block {
            Block::Picture(Picture { drawing: Drawing::Steps(steps), .. }) => Some(&steps.steps),
            _ => None,
        });
        let steps = steps.next().unwrap();
        let (whole, parts) = steps.split_last().unwrap();
        assert_eq!((whole.name.as_str(), parts.last().unwrap().name.as_str()), ("iteration", REST));
        let ends: Vec<f64> = parts.iter().map(|part| part.to.unwrap()).collect();
        assert!(parts.iter().skip(1).zip(&ends).all(|(part, end)| part.from == *end));
        let missing = whole.to.unwrap() - ends[ends.len() - 1];
        assert!(missing.abs() < 1e-12 * whole.to.unwrap(), "{missing}");
        let Some(Block::Table(table)) = sections[0].blocks.first() else { panic!("no table") };
        // Every row has a time.
        assert!(table.rows.iter().all(|row| !row[1].is_blank()));
    }
}
