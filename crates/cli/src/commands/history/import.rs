//! `nodegauge history import`: records of other histories, and outputs of other programs as records.

use crate::args::{Database, ImportedNode};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session;
use nodegauge_apps::hpcg::output::HpcgOutput;
use nodegauge_devices::babelstream::BabelStreamOutput;
use nodegauge_devices::nvbandwidth::NvbandwidthOutput;
use nodegauge_history::{Imported, records};
use nodegauge_machine::{SysRoot, TopologySource};
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

/// Description of the runs by the user.
pub(super) struct Described<'a> {
    /// Labels for the records.
    pub(super) labels: &'a [(String, String)],
    /// Host of the programs.
    pub(super) host: Option<&'a str>,
    /// Processor and memory of the host.
    pub(super) node: &'a ImportedNode,
}

impl Described<'_> {
    /// Returns the first given option that describes the node.
    fn option(&self) -> Option<&'static str> {
        let given = [
            (self.host.is_some(), "--host"),
            (self.node.processor.is_some(), "--processor"),
            (self.node.dimms.is_some(), "--dimms"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option)
    }

    /// Returns the machine of the runs, of which only what the user says is known.
    fn machine(&self) -> Result<Machine, Failure> {
        let mut machine = Machine::default();
        if self.node.is_given() {
            let options =
                session::describe_options(self.node.dimms, self.node.processor.as_deref())?;
            // Cores and caches of this topology are not those of the node; only its sockets are.
            let sockets = format!("Package:{} Core:1 PU:1", self.node.sockets);
            let topology = session::load_topology(&TopologySource::Synthetic(sockets))?;
            let known = nodegauge_machine::describe(&topology, &SysRoot::live(), &options);
            machine.processor.model = known.processor.model;
            machine.processor.microarchitecture = known.processor.microarchitecture;
            machine.processor.sockets = self.node.sockets;
            machine.memory = known.memory;
        }
        machine.host = self.host.map(str::to_owned);
        machine.source = MachineSource::Import;
        Ok(machine)
    }
}

/// Imports files with records of other histories and files with outputs of other programs. All outputs are parsed
/// before anything is saved.
pub(super) fn execute(
    files: &[PathBuf],
    described: &Described<'_>,
    db: &Database,
) -> Result<Exit, Failure> {
    let machine = described.machine()?;
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
            outputs.push((file, imported(file, &text, described.labels, &machine)?))
        }
    }
    if let (Some(option), Some((file, _))) = (described.option(), exports.first()) {
        let file = file.display();
        let what = option.trim_start_matches("--");
        return Err(Failure::usage(format!(
            "{option}: the runs in {file} already contain their {what}"
        ))
        .hint(format!("leave out {option}")));
    }
    let mut store = session::open_store(db)?;
    for (file, text) in &exports {
        let labelled = |record: Result<Record, _>| {
            record.map(|mut record| {
                record.labels.extend(described.labels.iter().cloned());
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

/// Parses the output of another program and returns it as a record. Of the machine, only what the user says is known.
fn imported(
    file: &Path,
    text: &str,
    labels: &[(String, String)],
    machine: &Machine,
) -> Result<Record, Failure> {
    let shown = file.display();
    if let Some(read) = nodegauge_files::reference::read(text) {
        let imported = read.map_err(|error| {
            Failure::usage(format!("{shown}"))
                .cause(error)
                .hint("give a file with the complete output of one run")
        })?;
        let record = imported_record(file, labels, machine, imported.measurements, Vec::new());
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
        return Ok(imported_record(file, labels, machine, figures, vec![trust]));
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
        return Ok(imported_record(file, labels, machine, measurements, Vec::new()));
    }
    if let Some(output) = HpcgOutput::read(text) {
        return Ok(imported_record(file, labels, machine, output.measurements(None), Vec::new()));
    }
    let hpl = nodegauge_compute::output::read(text);
    if !hpl.rows.is_empty() {
        let version = hpl.version.as_deref();
        let measurements =
            nodegauge_compute::reference::measurements(&hpl.rows, "xhpl", version, None);
        let cut = "HPL's last line is missing: the output may be incomplete";
        let notices = if hpl.ended { Vec::new() } else { vec![cut.to_owned()] };
        return Ok(imported_record(file, labels, machine, measurements, notices));
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
    let measurements = figures::of_saved(&output, machine);
    Ok(imported_record(file, labels, machine, measurements, vec![trust.to_owned()]))
}

/// Returns a new record that contains imported figures.
fn imported_record(
    file: &Path,
    labels: &[(String, String)],
    machine: &Machine,
    measurements: Vec<Measurement>,
    notices: Vec<String>,
) -> Record {
    let shown = file.display();
    let written = std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
    let mut all = vec![format!(
        "imported from {shown}; the time of the run is the modification time of the file"
    )];
    all.extend(notices);
    Record {
        started: written.and_then(record::rfc3339).unwrap_or_else(record::now_rfc3339),
        command: vec!["history".to_owned(), "import".to_owned(), shown.to_string()],
        labels: labels.iter().cloned().collect(),
        notices: all.into_iter().map(|text| Notice::new(NoticeId::Imported, "", text)).collect(),
        measurements,
        ..session::description(machine.clone(), Vec::new())
    }
}

/// Returns a path for the terminal, because another user may have named the file.
fn shown(file: &Path) -> String {
    legible::escaped(&file.to_string_lossy()).into_owned()
}
