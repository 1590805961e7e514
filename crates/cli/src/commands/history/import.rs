//! `nodegauge history import`: records of other histories, and outputs of other programs as records.

use crate::args::{Database, ImportedNode};
use crate::failure::{Exit, Failure};
use crate::gauges;
use crate::output;
use crate::session;
use nodegauge_apps::hpcg::output::HpcgOutput;
use nodegauge_devices::babelstream::BabelStreamOutput;
use nodegauge_devices::nvbandwidth::NvbandwidthOutput;
use nodegauge_gauge::view::sentence;
use nodegauge_history::{Imported, records};
use nodegauge_machine::{SysRoot, TopologySource};
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::{self, Machine, MachineSource, Measurement, Record, Status};
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_measure::{legible, printed};
use nodegauge_messages::osu;
use nodegauge_stream::standard::figures;
use nodegauge_stream::standard::known::KnownRun;
use nodegauge_stream::standard::output::{StreamOutput, header_lines};
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
    let registry = gauges::registry();
    let names = registry.former_names();
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
        let labelled = |record: Result<Record, _>| {
            record.map(|mut record| {
                record.labels.extend(described.labels.iter().cloned());
                record
            })
        };
        let all = || records(file, text, names).into_iter().flatten().map(labelled);
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
            output::error(&format!("{}: saved without a result: {reason}", shown(file)));
            exit = Exit::Unmet;
        }
    }
    Ok(exit)
}

/// Figures of the output of another program.
#[derive(Debug, Default)]
struct PrintedFigures {
    measurements: Vec<Measurement>,
    /// Assumption about the run, if there is one.
    notice: Option<&'static str>,
}

impl From<Vec<Measurement>> for PrintedFigures {
    fn from(measurements: Vec<Measurement>) -> Self {
        Self { measurements, notice: None }
    }
}

/// Parses the output of another program and returns it as a record. Of the machine, only what the user says is known.
fn imported(
    file: &Path,
    text: &str,
    described: &Described<'_>,
    machine: &Machine,
) -> Result<Record, Failure> {
    let shown = shown(file);
    refuse_several_runs(file, text)?;
    let overlong = printed::overlong_line(text).filter(|_| !text.trim_start().starts_with('{'));
    if let Some(length) = overlong {
        return Err(Failure::usage(format!("{shown} has a line of {length} bytes"))
            .hint("give a file with the output of one of the programs that are read"));
    }
    let mut figures = figures_of(file, text, machine, described.run)?;
    if figures.measurements.is_empty() {
        return Err(Failure::usage(format!("{shown} contains no figures"))
            .hint("give a file with the complete output of one run"));
    }
    for measurement in &mut figures.measurements {
        if measurement.value.is_some_and(|value| !printed::is_figure(value)) {
            let missing = measurement.clone().missing("the program printed no positive figure");
            *measurement = missing;
        }
    }
    Ok(imported_record(file, described.labels, machine, figures))
}

/// Returns the number of runs of each program in a text.
fn count_runs(text: &str) -> Vec<(&'static str, usize)> {
    let of_files = nodegauge_files::reference::count_runs(text);
    let others = [
        ("STREAM", nodegauge_stream::standard::output::count_runs(text)),
        ("OSU micro-benchmarks", osu::output::count_runs(text)),
        ("HPL", nodegauge_compute::output::count_runs(text)),
        ("HPCG", nodegauge_apps::hpcg::output::count_runs(text)),
        ("BabelStream", nodegauge_devices::babelstream::count_runs(text)),
        ("nvbandwidth", nodegauge_devices::nvbandwidth::count_runs(text)),
    ];
    of_files.into_iter().chain(others).filter(|(_, runs)| *runs > 0).collect()
}

/// Refuses a file with several runs, of which all but one would be lost.
fn refuse_several_runs(file: &Path, text: &str) -> Result<(), Failure> {
    let programs = count_runs(text);
    let all: usize = programs.iter().map(|(_, runs)| runs).sum();
    if all <= 1 {
        return Ok(());
    }
    let each: Vec<String> =
        programs.iter().map(|(name, runs)| format!("{runs} of {name}")).collect();
    let message = format!(
        "{} contains {all} runs ({}), and an import reads one",
        shown(file),
        each.join(", ")
    );
    let tables: Vec<String> = header_lines(text).iter().map(usize::to_string).collect();
    let lines = match tables.as_slice() {
        [] | [_] => String::new(),
        several => format!(" (tables of STREAM begin in lines {})", sentence::joined(several)),
    };
    let hint = format!("give one file for each run{lines}; nothing of this file was saved");
    Err(Failure::usage(message).hint(hint))
}

/// Parses the output of the program that the text shows.
fn figures_of(
    file: &Path,
    text: &str,
    machine: &Machine,
    run: &KnownRun,
) -> Result<PrintedFigures, Failure> {
    if let Some(figures) = of_other_program(file, text)? {
        if let Some(option) = run.option() {
            return Err(Failure::usage(format!(
                "{option}: {} is not the output of stream.c",
                shown(file)
            ))
            .hint(format!("leave out {option}, which describes a run of stream.c")));
        }
        return Ok(figures);
    }
    of_stream(file, text, machine, run)
}

/// Parses the output of a program other than STREAM; `None` if the text shows none.
fn of_other_program(file: &Path, text: &str) -> Result<Option<PrintedFigures>, Failure> {
    let shown = shown(file);
    let incomplete = |message: String, cause: String| {
        Failure::usage(message).cause(cause).hint("give a file with the complete output of one run")
    };
    let unread = |cause: String| incomplete(shown.clone(), cause);
    if let Some(read) = nodegauge_files::reference::read(text) {
        return Ok(Some(read.map_err(unread)?.measurements.into()));
    }
    if osu::output::count_runs(text) > 0 {
        let output = osu::OsuOutput::read(text).map_err(|cause| {
            incomplete(format!("{shown} is not the output of an OSU micro-benchmark"), cause)
        })?;
        let trust = "the MPI library and the placement of the ranks are unknown";
        let measurements = osu::output::of_saved(&output);
        return Ok(Some(PrintedFigures { measurements, notice: Some(trust) }));
    }
    if let Some(read) = BabelStreamOutput::read(text) {
        return Ok(Some(read.map_err(unread)?.measurements(None).into()));
    }
    if let Some(read) = NvbandwidthOutput::read(text) {
        return Ok(Some(read.map_err(unread)?.measurements(None, &[]).into()));
    }
    if let Some(output) = HpcgOutput::read(text) {
        return Ok(Some(output.measurements(None).into()));
    }
    let hpl = nodegauge_compute::output::read(text);
    if !hpl.rows.is_empty() {
        return Ok(Some(nodegauge_compute::reference::of_saved(&hpl).into()));
    }
    Ok(None)
}

/// Parses the output of STREAM, of which the text may have the table alone.
fn of_stream(
    file: &Path,
    text: &str,
    machine: &Machine,
    run: &KnownRun,
) -> Result<PrintedFigures, Failure> {
    let shown = shown(file);
    let mut output = StreamOutput::saved(text).map_err(|cause| {
        let message = if cause.is_other_text() {
            format!(
                "{shown} is not the output of stream.c, HPL, HPCG, iozone, fio, BabelStream, \
                 nvbandwidth or an OSU micro-benchmark"
            )
        } else {
            format!("{shown} has a table of STREAM that cannot be read")
        };
        Failure::usage(message).cause(cause.to_string()).hint(cause.hint())
    })?;
    run.complete(&mut output).map_err(|cause| {
        let hint = format!("correct or leave out {}", cause.option);
        Failure::usage(format!("{shown} contradicts an option")).cause(cause.to_string()).hint(hint)
    })?;
    let trust = "the machine's caches and the program's source are unknown; STREAM's size rule and an \
                 unmodified source are assumed";
    let measurements = figures::of_saved(&output, machine);
    Ok(PrintedFigures { measurements, notice: Some(trust) })
}

/// Returns a new record that contains imported figures.
fn imported_record(
    file: &Path,
    labels: &[(String, String)],
    machine: &Machine,
    figures: PrintedFigures,
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
    all.extend(figures.notice.map(str::to_owned));
    Record {
        started: started.unwrap_or_else(record::now_rfc3339),
        command: vec!["history".to_owned(), "import".to_owned(), shown.clone()],
        labels: labels.iter().cloned().collect(),
        notices: all.into_iter().map(|text| Notice::new(NoticeId::Imported, "", text)).collect(),
        measurements: figures.measurements,
        ..session::description(machine.clone(), Vec::new())
    }
}

/// Returns a path for the terminal, because another user may have named the file.
fn shown(file: &Path) -> String {
    legible::path(file)
}

#[cfg(test)]
mod tests;
