//! `nodegauge history import`: records of other histories, and outputs of other programs as records.

use crate::args::Database;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session;
use nodegauge_apps::hpcg::output::HpcgOutput;
use nodegauge_devices::babelstream::BabelStreamOutput;
use nodegauge_devices::nvbandwidth::NvbandwidthOutput;
use nodegauge_history::{Imported, records};
use nodegauge_measure::legible;
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::{self, Machine, MachineSource, Measurement, Record, Status};
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_messages::osu;
use nodegauge_stream::standard::figures;
use nodegauge_stream::standard::output::StreamOutput;
use std::path::{Path, PathBuf};

/// Maximum size of an import file in bytes: about ten thousand runs with all their samples.
const LONGEST_EXPORT: u64 = 1 << 30;

/// Imports files with records of other histories and files with outputs of other programs. All outputs are parsed
/// before anything is saved.
pub(super) fn execute(
    files: &[PathBuf],
    labels: &[(String, String)],
    host: Option<&str>,
    db: &Database,
) -> Result<Exit, Failure> {
    let mut outputs: Vec<(&Path, Record)> = Vec::new();
    let mut exports: Vec<(&Path, String)> = Vec::new();
    for file in files {
        let bytes = nodegauge_os::read_input(file, LONGEST_EXPORT)
            .map_err(|cause| Failure::usage(format!("cannot read {}: {cause}", file.display())))?;
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let exported = records(file, &text).is_some();
        if exported {
            exports.push((file, text))
        } else {
            outputs.push((file, imported(file, &text, labels, host)?))
        }
    }
    if let (Some(host), Some((file, _))) = (host, exports.first()) {
        let file = file.display();
        return Err(Failure::usage(format!(
            "--host {host}: the runs in {file} already contain their host"
        ))
        .hint("leave out --host"));
    }
    let mut store = session::open_store(db)?;
    for (file, text) in &exports {
        let labelled = |record: Result<Record, _>| {
            record.map(|mut record| {
                record.labels.extend(labels.iter().cloned());
                record
            })
        };
        let all = || records(file, text).into_iter().flatten().map(labelled);
        let Imported { saved, known } = store.import(all)?;
        let known = if known > 0 { format!(", {known} already saved") } else { String::new() };
        output::print(&format!("{}: {} saved{known}\n", shown(file), counted(saved, "run")));
    }
    let mut exit = Exit::Success;
    for (file, record) in &outputs {
        store.save(record)?;
        output::print(&format!("{} {}\n", record.id, shown(file)));
        let invalid = record.measurements.iter().find(|m| m.validity.status == Status::Invalid);
        if let Some(reason) = invalid.and_then(|m| m.validity.reasons.first()) {
            output::error(&format!("{}: saved without a result: {reason}", file.display()));
            exit = Exit::Unmet;
        }
    }
    Ok(exit)
}

/// Parses the output of another program and returns it as a record. The machine is unknown except for the host given by
/// the user.
fn imported(
    file: &Path,
    text: &str,
    labels: &[(String, String)],
    host: Option<&str>,
) -> Result<Record, Failure> {
    let shown = file.display();
    if let Some(read) = nodegauge_files::reference::read(text) {
        let imported = read.map_err(|error| {
            Failure::usage(format!("{shown}"))
                .cause(error)
                .hint("give a file with the complete output of one run")
        })?;
        let record = imported_record(file, labels, host, imported.measurements, Vec::new());
        return Ok(record);
    }
    if text.lines().any(|line| line.trim().starts_with("# OSU MPI")) {
        let output = osu::OsuOutput::read(text).map_err(|error| {
            Failure::usage(format!("{shown} is not the output of an OSU micro-benchmark"))
                .cause(error)
                .hint("give a file with the complete output of one run")
        })?;
        let trust = "the MPI library and the placement of the ranks are unknown".to_owned();
        let figures = osu::output::of_saved(&output);
        return Ok(imported_record(file, labels, host, figures, vec![trust]));
    }
    let streams = BabelStreamOutput::read(text).map(|read| read.map(|of| of.measurements(None)));
    let links =
        || NvbandwidthOutput::read(text).map(|read| read.map(|of| of.measurements(None, &[])));
    if let Some(read) = streams.or_else(links) {
        let measurements = read.map_err(|error| {
            Failure::usage(format!("{shown}"))
                .cause(error)
                .hint("give a file with the complete output of one run")
        })?;
        return Ok(imported_record(file, labels, host, measurements, Vec::new()));
    }
    if let Some(output) = HpcgOutput::read(text) {
        return Ok(imported_record(file, labels, host, output.measurements(None), Vec::new()));
    }
    let hpl = nodegauge_compute::output::read(text);
    if !hpl.rows.is_empty() {
        let version = hpl.version.as_deref();
        let measurements =
            nodegauge_compute::reference::measurements(&hpl.rows, "xhpl", version, None);
        let cut = "HPL's last line is missing: the output may be incomplete";
        let notices = if hpl.ended { Vec::new() } else { vec![cut.to_owned()] };
        return Ok(imported_record(file, labels, host, measurements, notices));
    }
    let output = StreamOutput::read(text).map_err(|error| {
        Failure::usage(format!(
            "{shown} is not the output of stream.c, HPL, HPCG, iozone, fio, BabelStream, \
                 nvbandwidth or an OSU micro-benchmark"
        ))
        .cause(error)
        .hint("give a file with the complete output of one run")
    })?;
    let trust = "the machine's caches and the program's source are unknown; STREAM's size rule and an \
                 unmodified source are assumed";
    Ok(imported_record(file, labels, host, figures::of_saved(&output), vec![trust.to_owned()]))
}

/// Returns a new record that contains imported figures.
fn imported_record(
    file: &Path,
    labels: &[(String, String)],
    host: Option<&str>,
    measurements: Vec<Measurement>,
    notices: Vec<String>,
) -> Record {
    let shown = file.display();
    let written = std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
    let mut all = vec![format!(
        "imported from {shown}; the time of the run is the modification time of the file"
    )];
    all.extend(notices);
    let host = host.map(str::to_owned);
    let source = MachineSource::Import;
    Record {
        started: written.and_then(record::rfc3339).unwrap_or_else(record::now_rfc3339),
        command: vec!["history".to_owned(), "import".to_owned(), shown.to_string()],
        labels: labels.iter().cloned().collect(),
        notices: all.into_iter().map(|text| Notice::new(NoticeId::Imported, "", text)).collect(),
        measurements,
        ..session::description(Machine { host, source, ..Machine::default() }, Vec::new())
    }
}

/// Returns a path for the terminal, because another user may have named the file.
fn shown(file: &Path) -> String {
    legible::escaped(&file.to_string_lossy()).into_owned()
}
