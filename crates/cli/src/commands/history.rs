//! `nodegauge history`.

use crate::args::stream::{NO_SWEEP, ShowArgs};
use crate::args::{Database, HistoryCommand};
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::output;
use crate::session;
use nodegauge_gauge::Gauge;
use nodegauge_history::{Headline, HistoryError, RunFilter, RunLine, Store};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::{self, Machine, Measurement, Record, Status};
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_memory::Memory;
use nodegauge_memory::standard::figures;
use nodegauge_memory::standard::output::Output;
use nodegauge_messages::osu;
use nodegauge_report::history::Line;
use std::path::{Path, PathBuf};

pub(crate) fn execute(command: &HistoryCommand) -> Result<Exit, Failure> {
    match command {
        HistoryCommand::List { limit, host, label, db } => {
            let filter = RunFilter {
                limit: Some(*limit as usize),
                host: host.clone(),
                label: label.clone(),
            };
            let lines = match open_to_read(db)? {
                Some(store) => store.list(&filter)?,
                None => Vec::new(),
            };
            let registry = gauges::registry();
            let lines: Vec<Line> = lines.into_iter().map(|run| line(run, &registry)).collect();
            output::show_section(&nodegauge_report::history::list(&lines));
        }
        HistoryCommand::Show { run, json, csv, show: ShowArgs { show: statistics }, db } => {
            let memory = Memory { show: statistics.clone() };
            show(&find(run, db)?, json.as_deref(), csv.as_deref(), &memory)?;
        }
        HistoryCommand::Import { files, label, host, db } => {
            return import(files, label, host.as_deref(), db);
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

/// Saves outputs of stream.c as records. All are read before one is saved.
fn import(
    files: &[PathBuf],
    labels: &[(String, String)],
    host: Option<&str>,
    db: &Database,
) -> Result<Exit, Failure> {
    let records: Vec<Record> =
        files.iter().map(|file| imported(file, labels, host)).collect::<Result<_, _>>()?;
    let mut store = session::open_store(db)?;
    let mut exit = Exit::Success;
    for (record, file) in records.iter().zip(files) {
        store.save(record)?;
        output::print(&format!("{} {}\n", record.id, file.display()));
        let invalid = record.measurements.iter().find(|m| m.validity.status == Status::Invalid);
        if let Some(reason) = invalid.and_then(|m| m.validity.reasons.first()) {
            output::error(&format!("{}: saved without a result: {reason}", file.display()));
            exit = Exit::Unmet;
        }
    }
    Ok(exit)
}

/// The record of a saved output. Of the machine nothing is known but what the user says.
fn imported(
    file: &Path,
    labels: &[(String, String)],
    host: Option<&str>,
) -> Result<Record, Failure> {
    let shown = file.display();
    let bytes = nodegauge_os::read_input(file, nodegauge_os::LONGEST_TEXT)
        .map_err(|cause| Failure::usage(format!("cannot read {shown}: {cause}")))?;
    let text = String::from_utf8_lossy(&bytes);
    if let Some(read) = nodegauge_files::reference::read(&text) {
        let imported = read.map_err(|error| {
            Failure::usage(format!(
                "{shown}: {error}\nhint: give a file with all that one run printed"
            ))
        })?;
        let record = imported_record(file, labels, host, imported.measurements, Vec::new());
        return Ok(record);
    }
    if text.lines().any(|line| line.trim().starts_with("# OSU MPI")) {
        let output = osu::OsuOutput::read(&text).map_err(|error| {
            Failure::usage(format!(
                "{shown} is not the output of an OSU micro-benchmark: {error}\nhint: give a file with all that one run printed"
            ))
        })?;
        let trust = "neither the MPI nor where its ranks were are known".to_owned();
        let figures = osu::output::of_saved(&output);
        return Ok(imported_record(file, labels, host, figures, vec![trust]));
    }
    let hpl = nodegauge_compute::output::read(&text);
    if !hpl.rows.is_empty() {
        let version = hpl.version.as_deref();
        let measurements =
            nodegauge_compute::reference::measurements(&hpl.rows, "xhpl", version, None);
        let cut = "the output does not come to HPL's last line: runs may be missing";
        let notices = if hpl.ended { Vec::new() } else { vec![cut.to_owned()] };
        return Ok(imported_record(file, labels, host, measurements, notices));
    }
    let output = Output::read(&text).map_err(|error| {
        Failure::usage(format!(
            "{shown} is not the output of stream.c, HPL, iozone, fio or an OSU micro-benchmark: {error}\nhint: give a file with all that one run printed"
        ))
    })?;
    let trust = "neither the machine's caches nor the source are known: that the size follows STREAM's \
                 rule and that the program was unmodified is taken on trust";
    Ok(imported_record(file, labels, host, figures::of_saved(&output), vec![trust.to_owned()]))
}

/// A record of imported figures.
fn imported_record(
    file: &Path,
    labels: &[(String, String)],
    host: Option<&str>,
    measurements: Vec<Measurement>,
    notices: Vec<String>,
) -> Record {
    let shown = file.display();
    let written = std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
    let mut all = vec![format!("imported from {shown}; its time is that of the file")];
    all.extend(notices);
    let (host, source) = (host.map(str::to_owned), record::IMPORTED.to_owned());
    Record {
        started: written.and_then(record::rfc3339).unwrap_or_else(record::now_rfc3339),
        command: vec!["history".to_owned(), "import".to_owned(), shown.to_string()],
        labels: labels.iter().cloned().collect(),
        notices: all.into_iter().map(|text| Notice::new(NoticeId::Imported, "", text)).collect(),
        measurements,
        ..session::description(Machine { host, source, ..Machine::default() }, Vec::new())
    }
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

/// Shows a record, memory's part of it as `memory` does.
fn show(
    record: &Record,
    json: Option<&str>,
    csv: Option<&str>,
    memory: &Memory,
) -> Result<(), Failure> {
    if !memory.show.is_empty() && !nodegauge_memory::view::has_sweep(record) {
        return Err(Failure::usage(NO_SWEEP));
    }
    let as_csv = || Ok(gauges::csv(record));
    if !output::documents(&[(json, &|| output::json(record)), (csv, &as_csv)])? {
        let shown = GAUGES.map(|gauge| if gauge.name() == memory.name() { memory } else { gauge });
        output::show(&nodegauge_report::run::saved(record, &shown));
    }
    Ok(())
}

/// A run as the list shows it.
fn line(run: RunLine, registry: &Registry) -> Line {
    let mut what = if run.command.is_empty() { "run".to_owned() } else { run.command };
    for (key, value) in &run.labels {
        what.push_str(&format!(" [{key}={value}]"));
    }
    if !run.complete {
        what.push_str(" (incomplete)");
    }
    let figures =
        run.headlines.iter().filter(|of| registry.is_headline(&of.gauge, &of.test, &of.name));
    let figures = figures.map(|Headline { name, unit, value, .. }| match (value, unit) {
        (None, _) => format!("{name} no result"),
        (Some(value), Some(unit)) => format!("{name} {}", unit.in_words(*value)),
        (Some(value), None) => format!("{name} {value:.3}"),
    });
    let figures: Vec<String> = figures.collect();
    Line {
        id: run.id,
        started: run.started,
        host: run.host.unwrap_or_else(|| "-".to_owned()),
        what,
        figures: figures.join(", "),
    }
}
