//! `nodegauge history`.

mod import;
mod list;

use crate::args::stream::{NO_SWEEP, ShowArgs};
use crate::args::{Database, HistoryCommand};
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::output::{self, Sink};
use crate::session;
use nodegauge_gauge::Gauge;
use nodegauge_history::{HistoryError, RunFilter, Store};
use nodegauge_measure::record::Record;
use nodegauge_memory::Memory;
use nodegauge_report::export::json_line;
use std::collections::BTreeSet;
use std::path::Path;

pub(crate) fn execute(command: &HistoryCommand) -> Result<Exit, Failure> {
    match command {
        HistoryCommand::List(args) => list::execute(args)?,
        HistoryCommand::Show { run, verbose, documents, show: ShowArgs { show }, db } => {
            let record = find(run, db)?;
            if !show.is_empty() && !nodegauge_memory::view::has_sweep(&record) {
                return Err(Failure::usage(NO_SWEEP));
            }
            let as_csv = || Ok(gauges::csv(&record));
            if !documents.write(&|| output::json(&record), &as_csv)? {
                // Memory's part of it as its commands show it.
                let memory = &Memory { show: show.clone() };
                let shown = GAUGES.map(|of| if of.name() == memory.name() { memory } else { of });
                output::show(&nodegauge_report::run::page(&record, &shown, *verbose));
            }
        }
        HistoryCommand::Export { runs, output, db } => export(runs, output, db)?,
        HistoryCommand::Import { files, label, host, db } => {
            return import::execute(files, label, host.as_deref(), db);
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

pub(crate) fn open_to_read(db: &Database) -> Result<Option<Store>, Failure> {
    Ok(Store::open_to_read(&session::store_path(db)?)?)
}

/// A saved run, or the record in a file; files alone where there is no history yet.
pub(crate) fn find(run: &str, db: &Database) -> Result<Record, Failure> {
    match open_to_read(db)? {
        Some(store) => Ok(store.find(run)?),
        None if nodegauge_history::means_a_file(run) => {
            Ok(nodegauge_history::read_file(Path::new(run))?)
        }
        None => {
            Err(HistoryError::NotFound { selector: run.to_owned(), candidates: Vec::new() }.into())
        }
    }
}

/// Writes records one a line: each run once, all of them from the oldest on where none is named.
fn export(runs: &[String], output: &str, db: &Database) -> Result<(), Failure> {
    let store = open_to_read(db)?;
    let named: Vec<Record> = match &store {
        Some(store) => {
            runs.iter().map(|run| store.find_all(run)).collect::<Result<Vec<_>, _>>()?.concat()
        }
        None => runs.iter().map(|run| find(run, db)).collect::<Result<_, _>>()?,
    };
    let all = store.as_ref().filter(|_| runs.is_empty());
    let ids = all.map_or(Ok(Vec::new()), |store| store.ids(&RunFilter::default()))?;
    let saved = ids.iter().rev().filter_map(|id| Some(all?.find(id)));
    let mut written = BTreeSet::new();
    let once = named.into_iter().filter(|record| written.insert(record.id.clone())).map(Ok);
    Sink::from(output).write_parts(once.chain(saved).map(|record| json_line(&record?)))
}
