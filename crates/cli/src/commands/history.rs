//! Implementation of the command `nodegauge history`.

mod import;
mod list;

use crate::args::stream::{ShowArgs, no_sweep_failure};
use crate::args::{DatabaseArgs, HistoryCommand};
use crate::commands::read::RunDescription;
use crate::failure::{Exit, Failure};
use crate::gauges;
use crate::output::{self, Sink};
use crate::session;
use nodegauge_history::{HistoryError, RunFilter};
use nodegauge_measure::legible::escape_controls;
use nodegauge_measure::record::Record;
use nodegauge_report::export::json_line;
use nodegauge_stream::StreamGauge;
use std::collections::BTreeSet;
use std::path::Path;

pub(crate) fn execute(command: &HistoryCommand) -> Result<Exit, Failure> {
    match command {
        HistoryCommand::List(args) => list::execute(args)?,
        HistoryCommand::Show { run, verbose, documents, show: ShowArgs { show }, db } => {
            let record = find(run, db)?;
            if !show.is_empty() && !nodegauge_stream::view::has_sweep(&record) {
                return Err(no_sweep_failure());
            }
            if !documents.write(&|| output::json(&record), &|| Ok(gauges::record_csv(&record)))? {
                let stream = StreamGauge { show: show.clone() };
                let shown = gauges::with_stream(&stream);
                output::show(&nodegauge_report::run::page(&record, &shown, *verbose));
            }
        }
        HistoryCommand::Export { runs, output, db } => export(runs, output, db)?,
        HistoryCommand::Import { files, label, host, node, run, db } => {
            let run = &run.given_properties();
            let described = RunDescription { labels: label, host: host.as_deref(), node, run };
            return import::execute(files, &described, db);
        }
        HistoryCommand::Label { run, label: (key, value), db } => {
            let id = session::open_store(db)?.set_label(run, key, value)?;
            output::print(&if value.is_empty() {
                format!("{id}: label {} removed\n", escape_controls(key))
            } else {
                format!("{id}: {}={}\n", escape_controls(key), escape_controls(value))
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

/// Returns a saved run, or the record in a file. Without a history, the selector can only be a file.
pub(crate) fn find(run: &str, db: &DatabaseArgs) -> Result<Record, Failure> {
    protect_record(run);
    match session::open_store_to_read(db)? {
        Some(store) => Ok(store.find(run)?),
        None if nodegauge_history::is_file_selector(run) => {
            let names = gauges::registry().former_names();
            Ok(nodegauge_history::read_file(Path::new(run), names)?)
        }
        None => {
            Err(HistoryError::NotFound { selector: run.to_owned(), candidates: Vec::new() }.into())
        }
    }
}

/// Prevents outputs of this command from replacing the file `run`, if this selector is a file.
pub(crate) fn protect_record(run: &str) {
    if nodegauge_history::is_file_selector(run) {
        output::protect_input(Path::new(run));
    }
}

/// Writes the records of the selected runs, one per line, without duplicates. Without selectors, writes all runs,
/// oldest first.
fn export(runs: &[String], output: &str, db: &DatabaseArgs) -> Result<(), Failure> {
    let store = session::open_store_to_read(db)?;
    runs.iter().for_each(|run| protect_record(run));
    let named: Vec<Record> = match &store {
        Some(store) => {
            runs.iter().map(|run| store.find_all(run)).collect::<Result<Vec<_>, _>>()?.concat()
        }
        None => runs.iter().map(|run| find(run, db)).collect::<Result<_, _>>()?,
    };
    let all = store.as_ref().filter(|_| runs.is_empty());
    let ids = all.map_or(Ok(Vec::new()), |open| open.ids(&RunFilter::default()))?;
    let saved = ids.iter().rev().filter_map(|id| Some(all?.find(id)));
    let mut written = BTreeSet::new();
    let once = named.into_iter().filter(|record| written.insert(record.id.clone())).map(Ok);
    Sink::from(output).write_parts(once.chain(saved).map(|record| json_line(&record?)))
}
