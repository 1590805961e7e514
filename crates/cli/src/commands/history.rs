//! `nodegauge history`.

use crate::args::{Database, HistoryCommand};
use crate::failure::{Exit, Failure};
use crate::output::{self, Sink};
use crate::session;
use nodegauge_history::{Filter, HistoryError, RunLine, Store};
use nodegauge_measure::record::Record;
use nodegauge_measure::{BytesPerSec, FlopsPerSec, Seconds};
use nodegauge_report::history::Line;
use std::path::Path;

pub(crate) fn execute(command: &HistoryCommand) -> Result<Exit, Failure> {
    match command {
        HistoryCommand::List { limit, host, label, db } => {
            let filter = Filter { limit: Some(*limit), host: host.clone(), label: label.clone() };
            let lines = match open_to_read(db)? {
                Some(store) => store.list(&filter)?,
                None => Vec::new(),
            };
            let lines: Vec<Line> = lines.into_iter().map(line).collect();
            output::print(&nodegauge_report::history::render(&lines, output::style()));
        }
        HistoryCommand::Show { run, json, csv, db } => {
            show(&find(run, db)?, json.as_deref(), csv.as_deref())?;
        }
        HistoryCommand::Label { run, label: (key, value), db } => {
            let id = session::open_store(db)?.set_label(run, key, value)?;
            output::print(&match value.is_empty() {
                true => format!("{id}: label {key} removed\n"),
                false => format!("{id}: {key}={value}\n"),
            });
        }
        HistoryCommand::Remove { runs, db } => {
            let store = session::open_store(db)?;
            for run in runs {
                output::print(&format!("{} removed\n", store.remove(run)?));
            }
        }
    }
    Ok(Exit::Success)
}

fn open_to_read(db: &Database) -> Result<Option<Store>, Failure> {
    Ok(Store::open_to_read(&session::store_path(db)?)?)
}

/// A saved run, or the record in a file; files alone where there is no history yet.
fn find(run: &str, db: &Database) -> Result<Record, Failure> {
    match open_to_read(db)? {
        Some(store) => Ok(store.find(run)?),
        None if Path::new(run).is_file() => Ok(nodegauge_history::read_file(Path::new(run))?),
        None => {
            Err(HistoryError::NotFound { selector: run.to_owned(), candidates: Vec::new() }.into())
        }
    }
}

fn show(record: &Record, json: Option<&str>, csv: Option<&str>) -> Result<(), Failure> {
    let mut taken = false;
    if let Some(sink) = json.map(Sink::from) {
        sink.write(&session::json(record)?)?;
        taken |= sink == Sink::Stdout;
    }
    if let Some(sink) = csv.map(Sink::from) {
        sink.write(&nodegauge_measure::csv::render(std::slice::from_ref(record)))?;
        taken |= sink == Sink::Stdout;
    }
    if taken {
        return Ok(());
    }
    let style = output::style();
    let mut text = if nodegauge_report::sweep::is_sweep(record) {
        nodegauge_report::sweep::render(record, style)
    } else {
        nodegauge_report::run::render(record, style)
    };
    let explained = nodegauge_report::explain::render(record, style);
    if !explained.is_empty() {
        text.push('\n');
        text.push_str(&explained);
    }
    output::print(&text);
    Ok(())
}

/// A run as the list shows it.
fn line(run: RunLine) -> Line {
    let mut what = if run.command.is_empty() { "run".to_owned() } else { run.command };
    for (key, value) in &run.labels {
        what.push_str(&format!(" [{key}={value}]"));
    }
    if !run.complete {
        what.push_str(" (incomplete)");
    }
    let figures: Vec<String> = run
        .headlines
        .iter()
        .filter(|headline| ["triad", "whole", "rating"].contains(&headline.name.as_str()))
        .map(|headline| {
            let value = match (headline.value, headline.unit.as_str()) {
                (None, _) => "no result".to_owned(),
                (Some(value), "B/s") => BytesPerSec(value).to_string(),
                (Some(value), "FLOP/s") => FlopsPerSec(value).to_string(),
                (Some(value), "s") => Seconds(value).to_string(),
                (Some(value), unit) => format!("{value:.3} {unit}"),
            };
            format!("{} {value}", headline.name)
        })
        .collect();
    Line {
        id: run.id,
        started: run.started,
        host: run.host.unwrap_or_else(|| "-".to_owned()),
        what,
        figures: figures.join(", "),
    }
}
