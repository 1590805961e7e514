//! View of standard results of STREAM, with the native variant of the same run for comparison.

use super::figures::{self, StreamFigure, comparable_rate, is_compiled};
use super::{stream, words};
use crate::config::StreamConfig;
use nodegauge_gauge::view::{
    Block, ChartBar, ColumnList, ColumnUnit, Drawing, FigureBar, FigureBars, FigureRow, Picture,
    Section, Table,
};
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Bytes, Unit};

/// Returns the table and the evidence of the standard results; empty if there are no standard results.
pub(crate) fn section(record: &Record) -> Section {
    let mut section = Section::new("standard");
    let all = figures::all(record);
    let figures: Vec<&StreamFigure<'_>> =
        all.iter().filter(|(m, _)| m.category == Category::Standard).collect();
    if figures.is_empty() {
        return section;
    }
    let native = figures::native(record);
    let builds: Vec<&[&StreamFigure<'_>]> =
        figures.chunk_by(|(_, one), (_, next)| program_name(one) == program_name(next)).collect();
    // A run with native loops begins with their picture.
    if native.is_empty() {
        section.push(picture(&builds, record));
    }
    section.push(table(&builds, &native)).push_gap();
    for build in &builds {
        if builds.len() > 1 {
            section.push(Block::Heading(program_name(&build[0].1)));
        }
        section.note("standard", evidence(build[0]));
        let first = build[0].0;
        let limit = first.limit.as_ref().map(|_| words::limit_in_use(first, &record.machine));
        section.note_if("limit", limit);
        let measurements: Vec<&Measurement> = build.iter().map(|(m, _)| *m).collect();
        section.push_doubts(&measurements);
    }
    section
}

/// Returns the table of the standard results by build, with the native variant in the same regime.
fn table(builds: &[&[&StreamFigure<'_>]], native: &[StreamFigure<'_>]) -> Table {
    let columns = ColumnList::<StreamFigure<'_>>::new()
        .names("GB/s")
        .value_or_status("standard", ColumnUnit::GB_PER_S)
        .values("median", ColumnUnit::GB_PER_S, |figure| {
            // The median of a single value is that value.
            figure.statistics().filter(|of| of.n > 1).map(|summary| summary.median)
        })
        .values("variant", ColumnUnit::GB_PER_S, |figure| variant(native, figure))
        .right_or_dash("ratio", |figure| {
            let ratio = variant(native, figure)? / figure.0.value?;
            ratio.is_finite().then(|| format!("{ratio:.2} x"))
        })
        .limit_share();
    let groups = builds.iter().map(|build| (program_name(&build[0].1), build.iter().copied()));
    columns.grouped_table(groups)
}

/// Returns the rate of the native variant of a kernel in the regime of its standard result.
fn variant(native: &[StreamFigure<'_>], (m, config): &StreamFigure<'_>) -> Option<f64> {
    comparable_rate(native.iter().find(|(own, _)| own.name == m.name)?, config)
}

/// Returns a picture with a bar for each kernel of each build; with the limits of the figures, if known.
fn picture(builds: &[&[&StreamFigure<'_>]], record: &Record) -> Picture {
    const TITLE: &str = "sustained memory bandwidth";
    let figures: Vec<&StreamFigure<'_>> = builds.iter().copied().flatten().copied().collect();
    let is_alone = builds.len() == 1;
    if figures.iter().any(|(m, _)| m.limit.is_some()) {
        let bars = figures.iter().filter_map(|(m, config)| {
            let what = if is_alone { String::new() } else { program_name(config) };
            FigureBar::new(&m.name, what, m, stream::reach(record, m), &record.machine)
        });
        let card = FigureBars { bars: bars.collect(), ..FigureBars::default() };
        return Picture { title: TITLE.to_owned(), drawing: Drawing::Strips(card) };
    }
    let bars = figures.iter().map(|(m, config)| {
        let name =
            if is_alone { m.name.clone() } else { format!("{}, {}", m.name, program_name(config)) };
        ChartBar::bar(name, m.value, "").with_validity(m)
    });
    Picture::bars(TITLE, Unit::BytesPerSecond, bars)
}

/// Returns the output of stream.c: for each build, the output of the run with the fastest Triad. Returns `None` if no
/// build has a valid result.
pub fn printed_output(record: &Record) -> Option<String> {
    let all = figures::all(record).into_iter();
    let valid = all.filter(|(m, _)| m.category == Category::Standard && m.value.is_some());
    let texts: String = valid.filter_map(|(_, config)| config.printed).collect();
    (!texts.is_empty()).then_some(texts)
}

/// Returns the name of the program, e.g. `stream.c, gcc -O3 -fopenmp`; for compiled loops, only the compiler.
pub(super) fn program_name(config: &StreamConfig) -> String {
    let engine = config.engine.as_deref().unwrap_or("stream.c");
    match &config.compiler {
        Some(compiler) if is_compiled(config) => compiler.command.clone(),
        Some(compiler) => format!("{engine}, {}", compiler.command),
        None => engine.to_owned(),
    }
}

/// Describes how the figures of a build were measured.
fn evidence((m, config): &StreamFigure<'_>) -> String {
    let engine = config.engine.as_deref().unwrap_or("stream.c");
    let version = config.engine_version.as_ref().map(|v| format!(" {v}")).unwrap_or_default();
    let mut parts = vec![format!("{engine}{version}")];
    // The compiler of a saved output is unknown.
    if let Some(compiler) = &config.compiler {
        let compiler = compiler.version.as_ref().unwrap_or(&compiler.command);
        parts.push(format!("unmodified source, compiled by {compiler}"));
    }
    parts.push(match config.array_bytes {
        Some(bytes) => format!("3 arrays of {}", Bytes(bytes)),
        None => "arrays of unknown size".to_owned(),
    });
    parts.extend(config.threads.map(|threads| words::count_with_noun(threads, "thread")));
    parts.extend(config.processes.map(|ranks| words::count_with_noun(ranks, "rank")));
    if config.threads.is_none() && config.processes.is_none() {
        parts.push("an unknown number of threads".to_owned());
    }
    parts.extend(config.stack_limit.as_ref().map(|limit| format!("stack limit {limit}")));
    parts.push(match (&m.summary, config.ntimes) {
        (Some(summary), None) if summary.n == 1 => "1 run".to_owned(),
        (Some(summary), Some(passes)) if summary.n == 1 => format!("1 run of {passes} passes"),
        (Some(summary), Some(passes)) => {
            format!("best of {} interleaved runs of {passes} passes", summary.n)
        }
        _ => "no valid run".to_owned(),
    });
    if !m.disturbed.is_empty() {
        parts.push(format!(
            "{} left out because the core-to-core latency changed",
            m.disturbed.len()
        ));
    }
    parts.join(", ")
}
