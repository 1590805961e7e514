//! Readers for the output of other programs: an output is recognised, parsed, and judged by the gauge to which the
//! program belongs.
//!
//! A gauge has a [`Reader`] for each program whose output it understands ([`crate::Gauge::readers`]). The reference
//! runs of the gauge use the same parser. A text is recognised by its program first ([`find_runs`]), so that the error
//! of a reader is never reported for the output of another program. A text has any number of runs of any programs.
//!
//! A text is read twice: [`find_runs`] locates the runs, then [`read_each`] parses them one by one. The memory in use
//! is that of the longest run (at most [`MAX_RUN_BYTES`]), and a few bytes per run.

mod lines;
mod parts;
mod plain;
mod runs;
pub mod tags;
pub mod text;

use crate::Gauge;
use nodegauge_measure::record::{Machine, Measurement};
use nodegauge_measure::{Bytes, Failure, legible, printed};
use nodegauge_os::{Input, map_in_parallel};
pub use parts::find_runs;
pub use runs::{FoundRun, MarkKind, RunMark};

/// Maximum number of bytes of a run that are read. A run is longer only if a log follows it, or if it is a JSON
/// document of thousands of jobs.
pub const MAX_RUN_BYTES: usize = 8 << 20;

/// Reader of the output of one program.
pub trait Reader: Sync {
    /// Returns the name of the program for messages.
    fn program(&self) -> &'static str;

    /// Returns the mark of a line that a run of the program prints; `None` if the line does not identify a run. The
    /// line has no surrounding white space.
    fn mark(&self, line: &str) -> Option<RunMark>;

    /// Returns all characters with which a line that [`Self::mark`] recognises can begin. For lines that may be quoted,
    /// these are the first letters or digits. Empty if a line may begin with any character.
    fn first_characters(&self) -> &'static str {
        ""
    }

    /// Returns the phase of the last line of a complete run; `None` if the program prints no such line.
    fn last_phase(&self) -> Option<u8> {
        None
    }

    /// Returns the programs whose output is part of the output of this program, because it runs them.
    fn enclosed_programs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the version of the program that printed the text; `None` if the text lacks it.
    fn version(&self, text: &str) -> Option<String> {
        let _ = text;
        None
    }

    /// Describes, for the documentation, which outputs of the program are suspect or refused, in particular how
    /// truncation is detected. For every program, a last line without a line end is a sign of truncation.
    fn doubts(&self) -> &'static str;

    /// True if a text that no reader recognises resembles the output of this program, so that the error of this reader
    /// is helpful.
    fn resembles(&self, text: &str) -> bool {
        let _ = text;
        false
    }

    /// True if the program prints so little about its run that the user may describe it ([`GivenRunProperties`]).
    fn takes_description(&self) -> bool {
        false
    }

    /// Parses the output of a run.
    ///
    /// Fails if the text has no figures, or if they are ambiguous.
    fn read(&self, text: &str, context: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput>;
}

/// Information about a run in addition to its output.
#[derive(Debug, Clone, Copy)]
pub struct ReadContext<'a> {
    /// Machine of the run; parts of its description may be unknown.
    pub machine: &'a Machine,
    /// Properties of the run that the user gave.
    pub known: &'a GivenRunProperties,
}

/// Properties of a run that its output may lack and that the user gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenRunProperties {
    /// Size of an element.
    pub element: Option<Bytes>,
    /// Number of elements of each array, as compiled into the program.
    pub elements: Option<u64>,
    /// Number of threads of all ranks.
    pub threads: Option<u64>,
    /// Number of MPI ranks.
    pub ranks: Option<u64>,
    /// Number of runs of each kernel.
    pub ntimes: Option<u64>,
    /// Compiler and its flags.
    pub compiler: Option<String>,
}

impl GivenRunProperties {
    /// Returns the name of the first option with which the user described the run; `None` if there is none.
    pub fn option(&self) -> Option<&'static str> {
        let given = [
            (self.element.is_some(), "--element"),
            (self.elements.is_some(), "--size"),
            (self.threads.is_some(), "--threads"),
            (self.ranks.is_some(), "--ranks"),
            (self.ntimes.is_some(), "--times"),
            (self.compiler.is_some(), "--compiler"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option)
    }
}

/// Figures from the output of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrintedRun {
    /// Figures, with the configuration that the output contains.
    pub measurements: Vec<Measurement>,
    /// Assumption about the run as text; `None` if there is none.
    pub assumption: Option<&'static str>,
}

impl From<Vec<Measurement>> for PrintedRun {
    fn from(measurements: Vec<Measurement>) -> Self {
        Self { measurements, assumption: None }
    }
}

impl PrintedRun {
    /// Returns the reason to assume that the output is truncated; `None` if it appears to be complete.
    pub fn truncation_reason(&self) -> Option<&str> {
        let reasons = self.measurements.iter().flat_map(|m| &m.validity.reasons);
        reasons.map(String::as_str).find(|reason| reason.contains(printed::TRUNCATION_REASON))
    }
}

/// Run in a text, with its figures or the reason why it has none.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedRun {
    /// Name of the program.
    pub program: &'static str,
    /// Version of the program.
    pub version: Option<String>,
    /// Number of the first line of the run, from 1.
    pub line: usize,
    /// Rank that printed the run, if a launcher prefixed each line with its rank.
    pub rank: Option<u32>,
    /// True if the run has more than [`MAX_RUN_BYTES`] bytes, of which only the first are read.
    pub is_overlong: bool,
    /// Figures of the run.
    pub printed: Result<PrintedRun, RefusedOutput>,
}

impl ParsedRun {
    /// Returns the program, its version, and the position of its run in the text: `HPL 2.3, line 12`.
    pub fn in_words(&self) -> String {
        let version =
            self.version.as_ref().map(|version| format!(" {}", legible::escape_controls(version)));
        let rank = self.rank.map(|rank| format!(", rank {rank}"));
        let [version, rank] = [version, rank].map(Option::unwrap_or_default);
        format!("{}{version}, line {}{rank}", self.program, self.line)
    }
}

/// Reason why the output of a recognised program is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedOutput {
    /// Problem as a predicate of the text: `has a table of STREAM that cannot be read`; `None` if the cause is
    /// sufficient.
    pub problem: Option<&'static str>,
    /// Cause as text.
    pub cause: String,
    /// Remedy as text.
    pub hint: String,
}

/// Hint for incomplete texts.
const WHOLE: &str = "give a file with the complete output of one of these programs";

/// Creates the error of an incomplete output from its cause.
impl From<String> for RefusedOutput {
    fn from(cause: String) -> Self {
        Self { problem: None, cause, hint: "give the complete output of the run".to_owned() }
    }
}

impl RefusedOutput {
    /// Converts the error to a failure. `shown` is the name of the text, and `run` describes the run in it.
    pub fn into_failure(self, shown: &str, run: &str) -> Failure {
        let problem = match self.problem {
            Some(problem) => format!("{shown} {problem} ({run})"),
            None => format!("{shown}, output of {run}"),
        };
        Failure::usage(problem).cause(self.cause).hint(self.hint)
    }
}

/// Reason why a text has no figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// No reader recognises the text. Contains the names of the supported programs.
    Unknown(Vec<&'static str>),
    /// Lines of two programs are mixed, e.g. because two ranks wrote to one file.
    Mixed {
        /// Names of the programs.
        programs: [&'static str; 2],
        /// Number of a line that the first program printed between lines of the second, from 1.
        line: usize,
    },
    /// A line is longer than any line that a program prints; contains its length in bytes.
    Overlong(u64),
    /// The text has more runs than are supported.
    TooMany {
        /// Kind of the runs, e.g. `runs of ranks`.
        what: &'static str,
        /// Maximum number.
        most: usize,
    },
    /// The text is not UTF-8; contains the reason as text.
    Encoding(&'static str),
    /// The text cannot be read; contains the reason as text.
    Unreadable(String),
    /// The user described the run, but the program prints the description itself.
    Described {
        /// Option with which the user described the run.
        option: &'static str,
        /// Name of the program.
        program: &'static str,
        /// Names of the programs whose runs may be described.
        of: Vec<&'static str>,
    },
}

impl From<std::io::Error> for ReadError {
    fn from(cause: std::io::Error) -> Self {
        Self::Unreadable(cause.to_string())
    }
}

impl ReadError {
    /// Converts the error to a failure; `shown` is the name of the text in messages.
    pub fn into_failure(self, shown: &str) -> Failure {
        match self {
            Self::Unknown(programs) => {
                let known = either(&programs);
                let message = format!("{shown} is not the output of {known}");
                Failure::usage(message).hint(WHOLE)
            }
            Self::Mixed { programs: [one, other], line } => {
                Failure::usage(format!("{shown} has lines of {one} between lines of {other}"))
                    .cause(format!("line {line} may belong to either run"))
                    .hint("give one file for each rank, or the output of mpirun --tag-output")
            }
            Self::Overlong(length) => {
                Failure::usage(format!("{shown} has a line of {length} bytes"))
                    .hint("give a file with the output of one of the supported programs")
            }
            Self::TooMany { what, most } => {
                Failure::usage(format!("{shown} has more than {most} {what}"))
                    .hint("split it into several files")
            }
            Self::Encoding(cause) => Failure::usage(format!("cannot read {shown}: {cause}"))
                .hint("convert it to UTF-8, e.g. with iconv -f UTF-16 -t UTF-8"),
            Self::Unreadable(cause) => Failure::usage(format!("cannot read {shown}: {cause}")),
            Self::Described { option, program, of } => {
                let message =
                    format!("{option}: {shown} is output of {program}, not of {}", either(&of));
                Failure::usage(message)
                    .hint(format!("leave out {option}, which describes a run of {}", either(&of)))
            }
        }
    }
}

/// Joins names as alternatives: `a, b or c`.
fn either(names: &[&str]) -> String {
    match names {
        [] => "no program".to_owned(),
        [one] => (*one).to_owned(),
        [before @ .., last] => format!("{} or {last}", before.join(", ")),
    }
}

/// Returns the readers of all gauges, in the order of the gauges.
pub fn all<'g>(gauges: &[&'g dyn Gauge]) -> Vec<&'g dyn Reader> {
    gauges.iter().flat_map(|gauge| gauge.readers()).collect()
}

/// Returns the names of the programs whose output is supported: `STREAM, HPL or fio`.
pub fn programs(readers: &[&dyn Reader]) -> String {
    let names: Vec<&str> = readers.iter().map(|reader| reader.program()).collect();
    either(&names)
}

/// Returns the name of the program that printed a text; `None` if no reader recognises it.
pub fn recognise(readers: &[&dyn Reader], text: &str) -> Option<&'static str> {
    match find_runs(readers, &Input::from(text.as_bytes())) {
        Ok(runs) => runs.first().map(|run| readers[run.reader].program()),
        Err(ReadError::Mixed { programs, .. }) => Some(programs[0]),
        Err(_) => None,
    }
}

/// Position of a run among the runs of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunPosition {
    /// Index of the run, from 0.
    pub at: usize,
    /// Number of all runs.
    pub of: usize,
}

/// Reads all runs of a text.
///
/// Fails for the reasons of [`read_each`].
pub fn read(
    readers: &[&dyn Reader],
    text: &str,
    context: &ReadContext<'_>,
) -> Result<Vec<ParsedRun>, ReadError> {
    let mut all = Vec::new();
    let input = Input::from(text.as_bytes());
    read_each(readers, &input, context, &|run, _| run, &mut |run| all.push(run))?;
    Ok(all)
}

/// Number of bytes of text that are parsed together. The memory in use is a multiple of it.
const BATCH: usize = 1 << 20;

/// Converts each run of an input, and calls `visit` with the results in the order of the runs' first lines. If a
/// launcher prefixed the lines with ranks, the order is that of the runs' last lines; [`RunPosition`] still numbers the
/// runs by their first lines. Runs are parsed and converted on all CPUs. Only about 1 MiB of text, or one run per rank,
/// is in memory. Figures that are too large or not positive have no value.
///
/// # Errors
/// Fails before the first run if the input has no run of a known program, if the lines of two runs are mixed, or if the
/// input is not plain text.
pub fn read_each<T: Send>(
    readers: &[&dyn Reader],
    input: &Input<'_>,
    context: &ReadContext<'_>,
    convert: &(dyn Fn(ParsedRun, RunPosition) -> T + Sync),
    visit: &mut dyn FnMut(T),
) -> Result<(), ReadError> {
    let mut found = find_runs(readers, input)?;
    if found.is_empty() {
        let (begin, _) = parts::read_text(input, 0, input.length())?;
        let Some(reader) = readers.iter().position(|reader| reader.resembles(&begin)) else {
            return Err(ReadError::Unknown(readers.iter().map(|one| one.program()).collect()));
        };
        found.push(FoundRun { reader, rank: None, line: 1, from: 0, to: input.length() });
    }
    if let Some(option) = context.known.option()
        && let Some(run) = found.iter().find(|run| !readers[run.reader].takes_description())
    {
        let described = readers.iter().filter(|one| one.takes_description());
        let of = described.map(|one| one.program()).collect();
        return Err(ReadError::Described { option, program: readers[run.reader].program(), of });
    }
    let parse = |part: &parts::RunText<'_>| {
        let run = read_run(readers[part.run.reader], part, context);
        convert(run, RunPosition { at: part.at, of: found.len() })
    };
    let mut batch = Vec::new();
    let mut length = 0;
    parts::each_text(input, &found, &mut |part| {
        length += part.text.len();
        batch.push(part);
        if length >= BATCH {
            map_in_parallel(&batch, parse).into_iter().for_each(&mut *visit);
            batch.clear();
            length = 0;
        }
    })?;
    map_in_parallel(&batch, parse).into_iter().for_each(visit);
    Ok(())
}

/// Maximum number of the first line of a run whose errors contain line numbers of the whole text. In errors of later
/// runs, the line numbers count from the first line of the run.
const COUNTED_BEFORE: usize = 10_000;

/// Parses the figures of a run, and returns them with the first line of the run in the whole text.
fn read_run(
    reader: &dyn Reader,
    part: &parts::RunText<'_>,
    context: &ReadContext<'_>,
) -> ParsedRun {
    let FoundRun { line, rank, .. } = *part.run;
    let uncoloured = plain::without_colours(&part.text);
    let unindented = plain::without_indentation(&uncoloured);
    let text = unindented.as_ref();
    let printed = read_figures(reader, text, context).map_err(|unread| {
        if part.is_overlong {
            let cause =
                format!("{} (only its first {} MiB were read)", unread.cause, MAX_RUN_BYTES >> 20);
            return RefusedOutput { cause, ..unread };
        }
        if line == 1 || !unread.cause.contains("line ") {
            return unread;
        }
        if line > COUNTED_BEFORE {
            let cause = format!("{} (counted from line {line})", unread.cause);
            return RefusedOutput { cause, ..unread };
        }
        // Errors contain line numbers. Empty lines before the run make them line numbers of the whole text.
        let padded = "\n".repeat(line - 1) + text;
        read_figures(reader, &padded, context).err().unwrap_or(unread)
    });
    let version = reader.version(text);
    let is_overlong = part.is_overlong;
    ParsedRun { program: reader.program(), version, line, rank, is_overlong, printed }
}

/// Parses the figures of a run, and fails if none of them has a value.
fn read_figures(
    reader: &dyn Reader,
    text: &str,
    context: &ReadContext<'_>,
) -> Result<PrintedRun, RefusedOutput> {
    reader.read(text, context).and_then(|mut run| {
        if run.measurements.is_empty() {
            return Err(RefusedOutput::from("it contains no figures".to_owned()));
        }
        if reader.last_phase().is_none() && run.truncation_reason().is_none() && may_be_cut(text) {
            let reason = format!("the last line has no line end: {}", printed::TRUNCATION_REASON);
            for measurement in &mut run.measurements {
                measurement.validity.mark_suspect(reason.clone());
            }
        }
        for measurement in &mut run.measurements {
            if measurement.value.is_some_and(|value| !printed::can_be_figure(value)) {
                let missing =
                    measurement.clone().without_value("the program printed no positive value");
                *measurement = missing;
            }
        }
        Ok(run)
    })
}

/// True if the last line of a text has no line end, and may be an incomplete row of a table. The end of a JSON document
/// is complete without a line end.
fn may_be_cut(text: &str) -> bool {
    printed::unterminated_line(text).is_some_and(|line| {
        let has_digit = line.bytes().any(|byte| byte.is_ascii_digit());
        has_digit && !line.trim_end().ends_with(['}', ']'])
    })
}

#[cfg(test)]
mod tests;
