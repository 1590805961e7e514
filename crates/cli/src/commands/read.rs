//! `nodegauge read`: prints outputs of other programs as records, without a history. `history import` saves the same
//! records.

use crate::args::ImportedNode;
use crate::args::read::ReadArgs;
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::output;
use crate::session;
use nodegauge_gauge::readers::{self, KnownRun, PrintedRun, ReadContext, ReadRun};
use nodegauge_history::records;
use nodegauge_machine::{SysRoot, TopologySource};
use nodegauge_measure::record::{self, Machine, MachineSource, Record};
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_measure::{legible, printed};
use nodegauge_report::export::json_line;
use std::path::Path;
use std::time::Duration;

/// Maximum file size in bytes: about ten thousand runs with all samples.
const LONGEST_EXPORT: u64 = 1 << 30;
/// Label of the records if a file contains several runs.
const LABEL: &str = "import";

/// Description of the runs that the user gave.
pub(crate) struct RunDescription<'a> {
    /// Labels for the records.
    pub(crate) labels: &'a [(String, String)],
    /// Host on which the programs ran.
    pub(crate) host: Option<&'a str>,
    /// Processor and memory of the host.
    pub(crate) node: &'a ImportedNode,
    /// Properties of a STREAM run.
    pub(crate) run: &'a KnownRun,
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
                session::describe_options(self.node.dimms, self.node.processor.as_deref())?;
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

/// Records of the runs in a file, and the reasons why runs were not read.
#[derive(Debug, Default)]
pub(crate) struct FileRuns {
    /// Records in the order of the file.
    pub(crate) records: Vec<Record>,
    /// Reasons why runs were not read.
    pub(crate) unread: Vec<Failure>,
    /// Descriptions of the runs whose end is missing.
    pub(crate) cut: Vec<String>,
}

/// Result of a run in a file.
enum FileRun {
    /// Record of the run, and a description of the missing part.
    Read(Box<Record>, Option<String>),
    Unread(Failure),
}

/// Calls `visit` for each run in a text. `command` is the command in the records.
fn each_run(
    file: &Path,
    text: &str,
    described: &RunDescription<'_>,
    machine: &Machine,
    command: &[&str],
    visit: &mut dyn FnMut(FileRun),
) -> Result<(), Failure> {
    let context = ReadContext { machine, known: described.run };
    let read = readers::read_each(&readers::all(&GAUGES), text, &context, &mut |run, position| {
        let words = run.in_words();
        let behind = position.of - 1 - position.at;
        let place = RunPlace { file, words: (position.of > 1).then_some(words.as_str()), behind };
        let ReadRun { printed, .. } = run;
        visit(match printed {
            Ok(printed) => {
                let cut = printed
                    .cut()
                    .map(|reason| format!("{}, output of {words}: {reason}", shown(file)));
                let record = imported_record(&place, described.labels, machine, printed, command);
                FileRun::Read(Box::new(record), cut)
            }
            Err(why) => FileRun::Unread(why.into_failure(&shown(file), &words)),
        });
    });
    read.map_err(|error| error.into_failure(&shown(file)))
}

impl FileRuns {
    /// Reads the runs in a text. `command` is the command in the records.
    ///
    /// # Errors
    /// Fails if the text contains no run of a known program, or if the lines of two runs are mixed.
    pub(crate) fn read(
        file: &Path,
        text: &str,
        described: &RunDescription<'_>,
        machine: &Machine,
        command: &[&str],
    ) -> Result<Self, Failure> {
        let mut all = Self::default();
        each_run(file, text, described, machine, command, &mut |run| match run {
            FileRun::Read(record, cut) => {
                all.records.push(*record);
                all.cut.extend(cut);
            }
            FileRun::Unread(failure) => all.unread.push(failure),
        })?;
        Ok(all)
    }

    /// Reports runs that were not read, and runs whose end is missing.
    pub(crate) fn report(&self) {
        for reason in &self.cut {
            output::note(reason);
        }
        for failure in &self.unread {
            output::failure(failure);
        }
    }
}

/// Position of a run in a file.
struct RunPlace<'a> {
    file: &'a Path,
    /// Description of the run, if the file contains several.
    words: Option<&'a str>,
    /// Number of runs after this one.
    behind: usize,
}

/// Returns a new record with imported figures. The runs of a file start at intervals of one second; the last one starts
/// at the time of the file.
fn imported_record(
    place: &RunPlace<'_>,
    labels: &[(String, String)],
    machine: &Machine,
    run: PrintedRun,
    command: &[&str],
) -> Record {
    let shown = shown(place.file);
    let before = Duration::from_secs(place.behind as u64);
    let written = std::fs::metadata(place.file).and_then(|metadata| metadata.modified()).ok();
    // A run that starts in the future would stay the newest run for a long time. The texts sort chronologically.
    let started = written.and_then(|time| time.checked_sub(before)).and_then(record::rfc3339);
    let started = started.filter(|started| *started <= record::now_rfc3339());
    let source = match started {
        Some(_) => "the modification time of the file",
        None => "the time of the import, because the file has no modification time in the past",
    };
    let origin = place.words.map(|words| format!(", {words}")).unwrap_or_default();
    let mut all = vec![format!("imported from {shown}{origin}; the time of the run is {source}")];
    all.extend(run.assumption.map(str::to_owned));
    let complete = run.cut().is_none();
    let mut labels: Vec<(String, String)> = labels.to_vec();
    if place.words.is_some() && !labels.iter().any(|(key, _)| key == LABEL) {
        let name = place.file.file_name().unwrap_or(place.file.as_os_str());
        labels.push((LABEL.to_owned(), legible::path(Path::new(name))));
    }
    Record {
        started: started.unwrap_or_else(record::now_rfc3339),
        complete,
        command: command.iter().map(|word| (*word).to_owned()).chain([shown.clone()]).collect(),
        labels: labels.into_iter().collect(),
        notices: all.into_iter().map(|text| Notice::new(NoticeId::Imported, "", text)).collect(),
        measurements: run.measurements,
        ..session::description(machine.clone(), Vec::new())
    }
}

/// Returns the text of a file.
///
/// # Errors
/// Fails if the file cannot be read or is UTF-16.
pub(crate) fn read_text(file: &Path) -> Result<String, Failure> {
    let bytes = nodegauge_os::read_input(file, LONGEST_EXPORT)
        .map_err(|cause| Failure::usage(format!("cannot read {}: {cause}", shown(file))))?;
    printed::decoded(bytes).map_err(|cause| {
        Failure::usage(format!("cannot read {}: {cause}", shown(file)))
            .hint("convert it to UTF-8, e.g. with iconv -f UTF-16 -t UTF-8")
    })
}

/// Returns a path for the terminal with control characters escaped, because another user may have named the file.
pub(crate) fn shown(file: &Path) -> String {
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
            self.failed = output::try_print(&self.lines).err();
        }
        self.lines.clear();
    }
}

/// Prints the records of all runs in the files, one per line.
pub(crate) fn execute(args: &ReadArgs) -> Result<Exit, Failure> {
    let known = args.run.known();
    let described = &RunDescription {
        labels: &args.label,
        host: args.host.as_deref(),
        node: &args.node,
        run: &known,
    };
    let machine = described.machine()?;
    let mut exit = Exit::Success;
    let mut buffer = LineBuffer::default();
    for file in &args.files {
        let read = text_to_read(file).and_then(|text| {
            each_run(file, &text, described, &machine, &["read"], &mut |run| match run {
                FileRun::Read(record, cut) => {
                    buffer.add(json_line(&record));
                    if let Some(cut) = cut {
                        output::note(&cut);
                    }
                }
                FileRun::Unread(failure) => {
                    output::failure(&failure);
                    exit = Exit::Usage;
                }
            })
        });
        if let Err(failure) = read {
            output::failure(&failure);
            exit = Exit::Usage;
        }
        if let Some(failure) = buffer.failed.take() {
            return Err(failure);
        }
    }
    buffer.print();
    buffer.failed.map_or(Ok(exit), Err)
}

/// Returns the text of a file that contains outputs of other programs.
fn text_to_read(file: &Path) -> Result<String, Failure> {
    let text = read_text(file)?;
    if records(file, &text, gauges::registry().former_names()).is_some() {
        return Err(Failure::usage(format!("{} contains records of nodegauge", shown(file)))
            .hint("save them with nodegauge history import"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
