//! `nodegauge read`: prints outputs of other programs as records, without a history. `history import` saves the same
//! records.

use crate::args::ImportedNode;
use crate::args::read::ReadArgs;
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::output::{self, Sink};
use crate::session;
use nodegauge_analysis::compare::IMPORT_LABEL;
use nodegauge_gauge::readers::{
    self, GivenRunProperties, MAX_RUN_BYTES, ParsedRun, PrintedRun, ReadContext, RunPosition,
};
use nodegauge_history::read_records;
use nodegauge_machine::{SysRoot, TopologySource};
use nodegauge_measure::record::{self, Machine, MachineSource, Record};
use nodegauge_measure::{Notice, NoticeId, legible, printed};
use nodegauge_os::Input;
use nodegauge_report::export::json_line;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::Metadata;
use std::path::Path;
use std::time::Duration;

/// Maximum file size in bytes: about ten thousand runs with all samples.
const MAX_EXPORT_BYTES: u64 = 1 << 30;

/// User's description of the runs of other programs.
pub(crate) struct RunDescription<'a> {
    /// Labels for the records.
    pub(crate) labels: &'a [(String, String)],
    /// Host on which the programs ran.
    pub(crate) host: Option<&'a str>,
    /// Processor and memory of the host.
    pub(crate) node: &'a ImportedNode,
    /// Properties of a STREAM run.
    pub(crate) run: &'a GivenRunProperties,
}

impl RunDescription<'_> {
    /// Returns the first option that describes the node or the run, if any is given.
    pub(crate) fn option(&self) -> Option<&'static str> {
        let given = [
            (self.host.is_some(), "--host"),
            (self.node.processor.is_some(), "--processor"),
            (self.node.dimms.is_some(), "--dimms"),
        ];
        let of_node = given.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option);
        of_node.or(self.run.option())
    }

    /// Returns the machine of the runs, for which only the user's description is known.
    pub(crate) fn machine(&self) -> Result<Machine, Failure> {
        let mut machine = Machine::default();
        if self.node.is_given() {
            let options =
                session::description_options(self.node.dimms, self.node.processor.as_deref())?;
            // Only the sockets of this topology are those of the node, not the cores and caches.
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

/// Result of a run in a file.
pub(crate) enum RunReading {
    /// Record of the run and, if the output is incomplete, a sentence with the reason.
    Read(Box<Record>, Option<String>),
    /// Reason why the run was not read.
    Unread(Failure),
}

/// File with outputs of other programs, and the description of its runs.
pub(crate) struct ProgramOutputFile<'a> {
    /// Path that the user gave.
    pub(crate) path: &'a Path,
    /// Content of the file.
    pub(crate) input: &'a Input<'a>,
    /// User's description of the runs.
    pub(crate) described: &'a RunDescription<'a>,
    /// Machine of the runs.
    pub(crate) machine: &'a Machine,
    /// Command that the records contain.
    pub(crate) command: &'a [&'a str],
}

impl ProgramOutputFile<'_> {
    /// Converts each run of the file on all CPUs, and calls `visit` with the results in the order of the runs. Only
    /// some of the runs are in memory at any time.
    ///
    /// # Errors
    /// Fails if the text has no run of a known program, if the lines of two runs are mixed, and if it cannot be read.
    pub(crate) fn each_run<T: Send>(
        &self,
        convert: &(dyn Fn(RunReading) -> T + Sync),
        visit: &mut dyn FnMut(T),
    ) -> Result<(), Failure> {
        let context = ReadContext { machine: self.machine, known: self.described.run };
        let readers = readers::all(&GAUGES);
        let form = self.record_form();
        let convert_run = |run: ParsedRun, position: RunPosition| convert(form.fill(run, position));
        readers::read_each(&readers, self.input, &context, &convert_run, visit)
            .map_err(|error| error.into_failure(&form.shown))
    }

    /// Returns what the records of all runs share.
    fn record_form(&self) -> RecordForm {
        let shown = shown_path(self.path);
        let mut labels: BTreeMap<String, String> = self.described.labels.iter().cloned().collect();
        labels.entry(IMPORT_LABEL.to_owned()).or_insert_with(|| {
            let name = self.path.file_name().unwrap_or(self.path.as_os_str());
            legible::path(Path::new(name))
        });
        let command = self.command.iter().map(|word| (*word).to_owned());
        let blank = session::description_record(self.machine.clone(), Vec::new());
        RecordForm {
            blank: Record { command: command.chain([shown.clone()]).collect(), labels, ..blank },
            shown,
            file: std::fs::metadata(self.path).ok(),
        }
    }
}

/// Record without figures, from which the records of all runs of a file are made.
struct RecordForm {
    /// Record with the time at which the file was opened.
    blank: Record,
    /// Name of the file in messages.
    shown: String,
    /// Properties of the file, with its modification time; `None` if they are unknown.
    file: Option<Metadata>,
}

impl RecordForm {
    /// Returns the record of a run.
    fn fill(&self, run: ParsedRun, position: RunPosition) -> RunReading {
        let words = run.in_words();
        let printed = match run.printed {
            Ok(printed) => printed,
            Err(why) => return RunReading::Unread(why.into_failure(&self.shown, &words)),
        };
        let cut = printed
            .truncation_reason()
            .map(|reason| format!("{}, output of {words}: {reason}", self.shown));
        let place = RunPlace { words: &words, position, is_long: run.is_overlong };
        RunReading::Read(Box::new(self.record(&place, printed)), cut)
    }

    /// Returns a new record that contains imported figures. The runs of a file get start times one second apart; the
    /// last run gets the time of the file.
    fn record(&self, place: &RunPlace<'_>, run: PrintedRun) -> Record {
        let RunPosition { at, of } = place.position;
        let before = Duration::from_secs((of - 1 - at) as u64);
        // A run that starts in the future would be the newest run for a long time; the texts sort in the order of time.
        let written = self.file.as_ref().and_then(|file| file.modified().ok());
        let started =
            written.and_then(|time| time.checked_sub(before)).and_then(record::format_rfc3339);
        let started = started.filter(|started| *started <= self.blank.started);
        let source = match started {
            Some(_) => "the modification time of the file",
            None => "the time of the import, because the file has no modification time in the past",
        };
        let origin = if of > 1 { format!(", {}", place.words) } else { String::new() };
        let shown = &self.shown;
        let mut all =
            vec![format!("imported from {shown}{origin}; the time of the run is {source}")];
        all.extend(run.assumption.map(str::to_owned));
        if place.is_long {
            all.push(format!("only the first {} MiB of the output were read", MAX_RUN_BYTES >> 20));
        }
        Record {
            id: record::new_id(),
            started: started.unwrap_or_else(|| self.blank.started.clone()),
            complete: run.truncation_reason().is_none(),
            notices: all
                .into_iter()
                .map(|text| Notice::new(NoticeId::Imported, "", text))
                .collect(),
            measurements: run.measurements,
            ..self.blank.clone()
        }
    }
}

/// Position of a run in a file.
struct RunPlace<'a> {
    /// Program, line and rank of the run, for messages.
    words: &'a str,
    position: RunPosition,
    /// True if only the beginning of the output was read.
    is_long: bool,
}

/// Opens a file.
///
/// # Errors
/// Fails if the file cannot be opened, is a folder or a device, or is too long.
pub(crate) fn open_input(file: &Path) -> Result<Input<'static>, Failure> {
    Input::open(file, MAX_EXPORT_BYTES).map_err(|cause| unreadable(file, cause))
}

/// Returns the failure of a file that cannot be read.
fn unreadable(file: &Path, cause: impl Display) -> Failure {
    Failure::usage(format!("cannot read {}: {cause}", shown_path(file)))
}

/// Returns the text of a file with records of nodegauge; `None` if the file has no such records.
///
/// # Errors
/// Fails if the file cannot be read or is UTF-16.
pub(crate) fn record_text(file: &Path, input: &Input<'_>) -> Result<Option<String>, Failure> {
    /// Number of bytes at the beginning of a file that are searched for the name of the schema.
    const HEAD_BYTES: usize = 4096;
    let mut begin = [0; HEAD_BYTES];
    let length = input.read_at(0, &mut begin).map_err(|cause| unreadable(file, cause))?;
    let names = gauges::registry().former_names();
    if read_records(file, &String::from_utf8_lossy(&begin[..length]), names).is_none() {
        return Ok(None);
    }
    let bytes = input.read_all().map_err(|cause| unreadable(file, cause))?;
    printed::decode(bytes).map(Some).map_err(|cause| unreadable(file, cause))
}

/// Returns a path for the terminal with control characters escaped, because another user may have named the file.
pub(crate) fn shown_path(file: &Path) -> String {
    legible::path(file)
}

/// Buffer of lines that are printed together.
#[derive(Default)]
struct LineBuffer {
    lines: String,
    /// First error; nothing is printed after it.
    failed: Option<Failure>,
}

impl LineBuffer {
    /// Number of bytes at which the buffer is printed.
    const FULL: usize = 1 << 20;

    fn add(&mut self, line: Result<String, Failure>) {
        match line {
            Ok(line) => self.lines.push_str(&line),
            Err(failure) => self.failed = self.failed.take().or(Some(failure)),
        }
        if self.lines.len() >= Self::FULL {
            self.print();
        }
    }

    fn print(&mut self) {
        if self.failed.is_none() && !self.lines.is_empty() {
            self.failed = Sink::Stdout.write(&self.lines).err();
        }
        self.lines.clear();
    }
}

/// Run of a file as it is printed.
enum RunLine {
    Read {
        /// Record as JSON.
        line: Result<String, Failure>,
        /// Sentence with the reason if the output is incomplete.
        cut: Option<String>,
    },
    /// Reason why the run was not read.
    Unread(Failure),
}

impl RunLine {
    fn new(run: RunReading) -> Self {
        match run {
            RunReading::Read(record, cut) => Self::Read { line: json_line(&record), cut },
            RunReading::Unread(failure) => Self::Unread(failure),
        }
    }
}

/// Prints the records of all runs in the files, one per line.
pub(crate) fn execute(args: &ReadArgs) -> Result<Exit, Failure> {
    let known = args.run.given_properties();
    let described = &RunDescription {
        labels: &args.label,
        host: args.host.as_deref(),
        node: &args.node,
        run: &known,
    };
    let machine = &described.machine()?;
    let mut exit = Exit::Success;
    let mut buffer = LineBuffer::default();
    for path in &args.files {
        let read = input_to_read(path).and_then(|input| {
            let file =
                ProgramOutputFile { path, input: &input, described, machine, command: &["read"] };
            file.each_run(&RunLine::new, &mut |run| match run {
                RunLine::Read { line, cut } => {
                    buffer.add(line);
                    if let Some(cut) = cut {
                        output::print_note(&cut);
                    }
                }
                RunLine::Unread(failure) => {
                    output::print_failure(&failure);
                    exit = Exit::Usage;
                }
            })
        });
        if let Err(failure) = read {
            output::print_failure(&failure);
            exit = Exit::Usage;
        }
        if let Some(failure) = buffer.failed.take() {
            return Err(failure);
        }
    }
    buffer.print();
    buffer.failed.map_or(Ok(exit), Err)
}

/// Opens a file that has outputs of other programs.
fn input_to_read(file: &Path) -> Result<Input<'static>, Failure> {
    let input = open_input(file)?;
    if record_text(file, &input)?.is_some() {
        return Err(Failure::usage(format!(
            "{} already contains records of nodegauge",
            shown_path(file)
        ))
        .hint("save them with nodegauge history import"));
    }
    Ok(input)
}

#[cfg(test)]
mod tests;
