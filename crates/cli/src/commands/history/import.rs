//! `nodegauge history import`: records of other histories, and outputs of other programs as records.

use crate::args::{Database, ImportedNode};
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::output;
use crate::session;
use nodegauge_gauge::readers::{self, KnownRun, PrintedRun, ReadContext};
use nodegauge_history::{ImportResult, records};
use nodegauge_machine::{SysRoot, TopologySource};
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::{self, Machine, MachineSource, Record, Status};
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_measure::{legible, printed};
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
    /// Properties of a run of STREAM.
    pub(super) run: &'a KnownRun,
}

impl Described<'_> {
    /// Returns the first given option that describes the node or the run.
    fn option(&self) -> Option<&'static str> {
        let given = [
            (self.host.is_some(), "--host"),
            (self.node.processor.is_some(), "--processor"),
            (self.node.dimms.is_some(), "--dimms"),
        ];
        let of_node = given.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option);
        of_node.or(self.run.option())
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
    let names = gauges::registry().former_names();
    for file in files {
        let bytes = nodegauge_os::read_input(file, LONGEST_EXPORT)
            .map_err(|cause| Failure::usage(format!("cannot read {}: {cause}", shown(file))))?;
        let text = printed::decoded(bytes).map_err(|cause| {
            Failure::usage(format!("cannot read {}: {cause}", shown(file)))
                .hint("convert it to UTF-8, e.g. with iconv -f UTF-16 -t UTF-8")
        })?;
        let exported = records(file, &text, names).is_some();
        if exported {
            exports.push((file, text))
        } else {
            outputs.push((file, imported(file, &text, described, &machine)?))
        }
    }
    if let (Some(option), Some((file, _))) = (described.option(), exports.first()) {
        let file = shown(file);
        let what = option.trim_start_matches("--");
        return Err(Failure::usage(format!(
            "{option}: the runs in {file} already contain their {what}"
        ))
        .hint(format!("leave out {option}")));
    }
    let mut store = session::open_store(db)?;
    for (file, text) in &exports {
        let ImportResult { saved, known } = store.import(|| {
            records(file, text, names).into_iter().flatten().map(|record| {
                let mut record = record?;
                record.labels.extend(described.labels.iter().cloned());
                Ok(record)
            })
        })?;
        let known = if known > 0 { format!(", {known} already saved") } else { String::new() };
        output::print(&format!("{}: {} saved{known}\n", shown(file), counted(saved, "run")));
    }
    let mut exit = Exit::Success;
    for (file, record) in &outputs {
        store.save(record)?;
        output::print(&format!("{} {}\n", record.id, shown(file)));
        let invalid = record.measurements.iter().find(|m| m.validity.status == Status::Invalid);
        if let Some(reason) = invalid.and_then(|m| m.validity.reasons.first()) {
            output::error(&format!("{}: saved without a result: {reason}", shown(file)));
            exit = Exit::Unmet;
        }
    }
    Ok(exit)
}

/// Parses the output of another program and returns it as a record. Of the machine, only what the user says is known.
fn imported(
    file: &Path,
    text: &str,
    described: &Described<'_>,
    machine: &Machine,
) -> Result<Record, Failure> {
    let context = ReadContext { machine, known: described.run };
    let run = readers::read(&readers::all(&GAUGES), text, &context);
    let run = run.map_err(|error| error.into_failure(&shown(file)))?;
    Ok(imported_record(file, described.labels, machine, run))
}

/// Returns a new record that contains imported figures.
fn imported_record(
    file: &Path,
    labels: &[(String, String)],
    machine: &Machine,
    run: PrintedRun,
) -> Record {
    let shown = shown(file);
    let written = std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
    // A run that starts in the future would be the newest run for a long time; the texts sort in the order of time.
    let started = written.and_then(record::rfc3339);
    let started = started.filter(|started| *started <= record::now_rfc3339());
    let source = match started {
        Some(_) => "the modification time of the file",
        None => "the time of the import, because the file has no modification time in the past",
    };
    let mut all = vec![format!("imported from {shown}; the time of the run is {source}")];
    all.extend(run.assumption.map(str::to_owned));
    Record {
        started: started.unwrap_or_else(record::now_rfc3339),
        command: vec!["history".to_owned(), "import".to_owned(), shown.clone()],
        labels: labels.iter().cloned().collect(),
        notices: all.into_iter().map(|text| Notice::new(NoticeId::Imported, "", text)).collect(),
        measurements: run.measurements,
        ..session::description(machine.clone(), Vec::new())
    }
}

/// Returns a path for the terminal, because another user may have named the file.
fn shown(file: &Path) -> String {
    legible::path(file)
}

#[cfg(test)]
mod tests;
