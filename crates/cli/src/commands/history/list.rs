//! Implementation of the command `nodegauge history list`.

use crate::args::history::ListArgs;
use crate::failure::Failure;
use crate::gauges;
use crate::output;
use crate::session;
use nodegauge_analysis::compare::IMPORT_LABEL;
use nodegauge_analysis::csv;
use nodegauge_history::{ListedFigures, ListedRun, RunFilter};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::legible;
use nodegauge_report::history::{self, ListLine};
use std::path::Path;

/// Default number of listed runs.
const DEFAULT_LIMIT: usize = 20;
/// Minimum number of identifier characters that are shown. The first ten characters encode the time in milliseconds;
/// the eighth changes about once per second.
const MIN_ID_LENGTH: usize = 8;

pub(super) fn execute(args: &ListArgs) -> Result<(), Failure> {
    let all = args.all || args.quiet || args.documents.are_requested();
    let filter = RunFilter {
        limit: args.limit.map(|limit| limit as usize).or((!all).then_some(DEFAULT_LIMIT)),
        ..args.saved.filter()
    };
    let store = session::open_store_to_read(&args.db)?;
    if args.quiet {
        let ids = store.map_or(Ok(Vec::new()), |store| store.ids(&filter))?;
        // Identifiers of imported records are escaped, so that each run is one line.
        let text: String =
            ids.iter().map(|id| format!("{}\n", legible::escape_controls(id))).collect();
        output::print(&text);
        return Ok(());
    }
    let (lines, every, distinct_prefix_length) = match &store {
        Some(store) => {
            let lines = store.list(&filter)?;
            let distinct_prefix_length = store.distinct_prefix_length(&lines, MIN_ID_LENGTH)?;
            (lines, store.count(&filter)?, distinct_prefix_length)
        }
        None => (Vec::new(), 0, MIN_ID_LENGTH),
    };
    let registry = gauges::registry();
    if !args.documents.write(&|| output::json(&lines), &|| Ok(table(&lines, registry)))? {
        let older = every - lines.len();
        let shown: Vec<ListLine> =
            lines.iter().map(|run| line(run, distinct_prefix_length, registry)).collect();
        output::show_section(&history::list(&shown, older, output::style().width.into()));
    }
    Ok(())
}

/// Returns the first headline figures of a run, or its first figures if it has no headline, and the number of further
/// figures.
fn headline<'a>(run: &'a ListedRun, registry: &Registry) -> Option<(&'a ListedFigures, usize)> {
    let mut figures: Vec<&ListedFigures> = run.figures.iter().collect();
    if figures.iter().any(|of| registry.is_headline(&of.gauge, &of.test, &of.name)) {
        figures.retain(|of| registry.is_headline(&of.gauge, &of.test, &of.name));
    }
    let count: usize = figures.iter().map(|of| of.count).sum();
    Some((*figures.first()?, count - 1))
}

/// Returns the data of a run for its line in the list.
fn line(run: &ListedRun, distinct_prefix_length: usize, registry: &Registry) -> ListLine {
    let figure = headline(run, registry).map(|(of, more)| {
        let named = registry.is_headline(&of.gauge, &of.test, &of.name);
        let name = if named { &of.name } else { &of.test };
        let value = match (of.best, of.unit) {
            (None, _) => "no result".to_owned(),
            (Some(value), Some(unit)) => unit.in_words(value),
            (Some(value), None) => format!("{value:.3}"),
        };
        let more = if more > 0 { format!(" +{more}") } else { String::new() };
        format!("{name} {value}{more}")
    });
    let is_suspect = headline(run, registry).is_some_and(|(of, _)| of.suspect > 0);
    // The command shows the name of the file, too.
    let (files, labels): (Vec<_>, Vec<_>) =
        run.labels.iter().partition(|(key, _)| *key == IMPORT_LABEL);
    let labels = labels.into_iter().chain(files).map(|(key, value)| format!("{key}={value}"));
    ListLine {
        is_suspect,
        id: run.id.chars().take(distinct_prefix_length).collect(),
        started: run.started.clone(),
        host: run.host.clone().unwrap_or_else(|| "-".to_owned()),
        figure: figure.unwrap_or_else(|| "-".to_owned()),
        labels: labels.collect::<Vec<_>>().join(" "),
        command: command(run),
    }
}

/// Returns the command of a run as typed, or for an imported run, the name of the file.
fn command(run: &ListedRun) -> String {
    let typed = match &run.imported_from {
        Some(file) => {
            let name = Path::new(file).file_name().unwrap_or(file.as_ref());
            format!("import {}", name.to_string_lossy())
        }
        None if run.command.is_empty() => "run".to_owned(),
        None => run.command.clone(),
    };
    if run.complete { typed } else { format!("(incomplete) {typed}") }
}

/// Returns the list as CSV, one line per run.
fn table(lines: &[ListedRun], registry: &Registry) -> String {
    const COLUMNS: [&str; 15] = [
        "id", "started", "seconds", "host", "complete", "own", "command", "labels", "gauge",
        "test", "name", "unit", "best", "more", "suspect",
    ];
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    for run in lines {
        let figure = headline(run, registry);
        let of =
            |cell: fn(&ListedFigures) -> String| figure.map(|(of, _)| cell(of)).unwrap_or_default();
        rows.push(vec![
            run.id.clone(),
            run.started.clone(),
            csv::format_number(Some(run.seconds.0)),
            run.host.clone().unwrap_or_default(),
            run.complete.to_string(),
            run.own.to_string(),
            run.command.clone(),
            csv::join_texts(run.labels.iter().map(|(key, value)| format!("{key}={value}"))),
            of(|of| of.gauge.clone()),
            of(|of| of.test.clone()),
            of(|of| of.name.clone()),
            of(|of| of.unit.map(|unit| unit.to_string()).unwrap_or_default()),
            of(|of| csv::format_number(of.best)),
            figure.map(|(_, more)| more.to_string()).unwrap_or_default(),
            of(|of| of.suspect.to_string()),
        ]);
    }
    csv::format_rows(&rows)
}
