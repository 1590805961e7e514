//! Outputs of other programs: recognised, then read, then judged by the gauge to which the program belongs.
//!
//! A gauge has a [`Reader`] for each program whose output it understands ([`crate::Gauge::readers`]). The reference runs
//! of the gauge use the same parser. A text is recognised by its program first, so that the error of a reader is never
//! reported for the output of another program. A text has one run.

use crate::Gauge;
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::{Machine, Measurement};
use nodegauge_measure::{Bytes, Failure, printed};

/// Reader of the output of one program.
pub trait Reader: Sync {
    /// Returns the name of the program, as it stands in messages.
    fn program(&self) -> &'static str;

    /// Returns the numbers of the lines in which runs of the program begin, from 1, ascending; empty if the text is not
    /// output of the program. Of a part of an output, the first line that the program certainly printed.
    fn runs(&self, text: &str) -> Vec<usize>;

    /// Returns what makes an output of the program suspect, or not read, for the documentation: first of all, where it
    /// may be cut. For every program, that is a last line without a line end.
    fn doubts(&self) -> &'static str;

    /// True if a text that no reader recognises resembles the output of the program, so that the error of this reader
    /// helps.
    fn resembles(&self, text: &str) -> bool {
        let _ = text;
        false
    }

    /// True if the program prints so little of its run that the user may describe it ([`KnownRun`]).
    fn takes_description(&self) -> bool {
        false
    }

    /// Reads the output of a run.
    ///
    /// # Errors
    /// Fails if the text has no figures, or none that can be read without doubt.
    fn read(&self, text: &str, context: &ReadContext<'_>) -> Result<PrintedRun, UnreadOutput>;
}

/// Knowledge about a run beyond its output.
#[derive(Debug, Clone, Copy)]
pub struct ReadContext<'a> {
    /// Machine of the run, of which little may be known.
    pub machine: &'a Machine,
    /// Properties of the run that the user knows.
    pub known: &'a KnownRun,
}

/// Properties of a run that its output may lack and that the user knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownRun {
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

impl KnownRun {
    /// Returns the first option that the user gave; `None` if there is none.
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

/// Figures of the output of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrintedRun {
    /// Figures, with the configuration that the output contains.
    pub measurements: Vec<Measurement>,
    /// Assumption about the run, in words; `None` if there is none.
    pub assumption: Option<&'static str>,
}

impl From<Vec<Measurement>> for PrintedRun {
    fn from(measurements: Vec<Measurement>) -> Self {
        Self { measurements, assumption: None }
    }
}

/// Reason why the output of a recognised program is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadOutput {
    /// Problem, as a predicate of the text: `has a table of STREAM that cannot be read`; `None` if the cause says it.
    pub problem: Option<&'static str>,
    /// Cause, in words.
    pub cause: String,
    /// Remedy, in words.
    pub hint: String,
}

/// Remedy for texts that are not complete.
const WHOLE: &str = "give a file with the complete output of one run";

/// A cause that a complete output may remove.
impl From<String> for UnreadOutput {
    fn from(cause: String) -> Self {
        Self { problem: None, cause, hint: WHOLE.to_owned() }
    }
}

/// Runs of one program in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRuns {
    /// Name of the program.
    pub program: &'static str,
    /// Numbers of the lines in which runs begin.
    pub lines: Vec<usize>,
}

/// Reason why a text gives no figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// No reader recognises the text. The names are those of the programs that are read.
    Unknown(Vec<&'static str>),
    /// The text has several runs, of which all but one would be lost.
    RunComparison(Vec<FoundRuns>),
    /// A line is longer than any line that a program prints. The number is that of its bytes.
    Overlong(usize),
    /// The program was recognised and its output is not read.
    UnreadOutput {
        /// Name of the program.
        program: &'static str,
        /// Reason.
        why: UnreadOutput,
    },
    /// The user described a run of a program that describes its runs itself.
    Described {
        /// Option with which the user described the run.
        option: &'static str,
        /// Name of the program.
        program: &'static str,
        /// Names of the programs whose runs may be described.
        of: Vec<&'static str>,
    },
}

impl ReadError {
    /// Returns the failure, with the name of the text for the terminal.
    pub fn into_failure(self, shown: &str) -> Failure {
        match self {
            Self::Unknown(programs) => {
                let known = either(&programs);
                let message = format!("{shown} is not the output of {known}");
                Failure::usage(message).hint(WHOLE)
            }
            Self::RunComparison(found) => several_runs_failure(shown, &found),
            Self::Overlong(length) => {
                Failure::usage(format!("{shown} has a line of {length} bytes"))
                    .hint("give a file with the output of one of the programs that are read")
            }
            Self::UnreadOutput { program, why } => {
                let problem = match why.problem {
                    Some(problem) => format!("{shown} {problem}"),
                    None => format!("{shown}, output of {program}"),
                };
                Failure::usage(problem).cause(why.cause).hint(why.hint)
            }
            Self::Described { option, program, of } => {
                let message =
                    format!("{option}: {shown} is output of {program}, not of {}", either(&of));
                Failure::usage(message)
                    .hint(format!("leave out {option}, which describes a run of {}", either(&of)))
            }
        }
    }
}

/// Returns names as alternatives: `a, b or c`.
fn either(names: &[&str]) -> String {
    match names {
        [] => "no program".to_owned(),
        [one] => (*one).to_owned(),
        [before @ .., last] => format!("{} or {last}", before.join(", ")),
    }
}

fn several_runs_failure(shown: &str, found: &[FoundRuns]) -> Failure {
    let all: usize = found.iter().map(|of| of.lines.len()).sum();
    let each: Vec<String> =
        found.iter().map(|of| format!("{} of {}", of.lines.len(), of.program)).collect();
    let message =
        format!("{shown} contains {all} runs ({}), and an import reads one", each.join(", "));
    let mut lines: Vec<usize> = found.iter().flat_map(|of| of.lines.iter().copied()).collect();
    lines.sort_unstable();
    let shown_lines: Vec<String> = lines.iter().take(MAX_LINES).map(usize::to_string).collect();
    let more = match lines.len().saturating_sub(MAX_LINES) {
        0 => String::new(),
        more => format!(" and {}", counted(more, "other line")),
    };
    Failure::usage(message).hint(format!(
        "give one file for each run (runs begin in lines {}{more}); nothing of this file was saved",
        shown_lines.join(", ")
    ))
}

/// Maximum number of lines in a message.
const MAX_LINES: usize = 10;

/// Returns the readers of all gauges, in the order of the gauges.
pub fn all<'g>(gauges: &[&'g dyn Gauge]) -> Vec<&'g dyn Reader> {
    gauges.iter().flat_map(|gauge| gauge.readers()).collect()
}

/// Returns the names of the programs whose outputs are read: `STREAM, HPL or fio`.
pub fn programs(readers: &[&dyn Reader]) -> String {
    let names: Vec<&str> = readers.iter().map(|reader| reader.program()).collect();
    either(&names)
}

/// Returns the runs in a text, by program; empty if no reader recognises it.
pub fn recognise(readers: &[&dyn Reader], text: &str) -> Vec<FoundRuns> {
    let found = readers
        .iter()
        .map(|reader| FoundRuns { program: reader.program(), lines: reader.runs(text) });
    found.filter(|of| !of.lines.is_empty()).collect()
}

/// Reads the only run of a text. A figure that is not positive or too large is missing.
///
/// # Errors
/// Fails if the text is no output of one run of a known program, or cannot be read without doubt.
pub fn read(
    readers: &[&dyn Reader],
    text: &str,
    context: &ReadContext<'_>,
) -> Result<PrintedRun, ReadError> {
    let found = recognise(readers, text);
    let runs: usize = found.iter().map(|of| of.lines.len()).sum();
    if runs > 1 {
        return Err(ReadError::RunComparison(found));
    }
    let is_json = text.trim_start().starts_with('{');
    if let Some(length) = printed::overlong_line(text).filter(|_| !is_json) {
        return Err(ReadError::Overlong(length));
    }
    let reader = match found.first() {
        Some(of) => readers.iter().find(|reader| reader.program() == of.program),
        None => readers.iter().find(|reader| reader.resembles(text)),
    };
    let Some(reader) = reader else {
        return Err(ReadError::Unknown(readers.iter().map(|one| one.program()).collect()));
    };
    let program = reader.program();
    if let Some(option) = context.known.option().filter(|_| !reader.takes_description()) {
        let described = readers.iter().filter(|one| one.takes_description());
        let of = described.map(|one| one.program()).collect();
        return Err(ReadError::Described { option, program, of });
    }
    let mut run =
        reader.read(text, context).map_err(|why| ReadError::UnreadOutput { program, why })?;
    if run.measurements.is_empty() {
        let why = UnreadOutput::from("it contains no figures".to_owned());
        return Err(ReadError::UnreadOutput { program, why });
    }
    for measurement in &mut run.measurements {
        if measurement.value.is_some_and(|value| !printed::is_figure(value)) {
            let missing = measurement.clone().missing("the program printed no positive figure");
            *measurement = missing;
        }
    }
    Ok(run)
}

#[cfg(test)]
mod tests;
