//! Starts commands of nodegauge as child processes and reads their records. Other programs may wrap the commands.

use crate::caller::Caller;
use crate::signals::Signals;
use nodegauge_history::{DB_VARIABLE, HistoryFile};
use nodegauge_measure::Failure;
use nodegauge_measure::record::Record;
use nodegauge_os::describe_exit_status;
use nodegauge_toolchain::program::{self, ProgramJob};
use nodegauge_toolchain::{CommandLine, ToolchainError};
use std::time::Duration;

/// Name of this program in a typed command.
const NAME: &str = "nodegauge";

/// Splits a word of the form `NAME=VALUE` into the variable and its value; `None` for other words.
fn word_variable(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, value))
}

/// Returns the job for a command as typed, with the environment variables that precede it. The command writes its
/// record to standard output and does not save it.
pub(crate) fn command_job(
    command: &CommandLine,
    history: &HistoryFile,
    limit: Duration,
    caller: &Caller,
) -> Result<ProgramJob<'static>, Failure> {
    let words = command.words();
    let variables: Vec<(&str, &str)> = words.iter().map_while(|word| word_variable(word)).collect();
    let mut rest = words[variables.len()..].iter().peekable();
    // A command of nodegauge is run with the executable of this process, even if `nodegauge` was not typed.
    let own = rest
        .peek()
        .is_none_or(|word| word.starts_with('-') || *word == NAME || (caller.has_command)(word));
    let program = if own {
        rest.next_if(|word| *word == NAME);
        nodegauge_os::own_program().map_err(|cause| {
            Failure::missing(format!("cannot find the executable of nodegauge: {cause}"))
        })?
    } else {
        rest.next().cloned().unwrap_or_default()
    };
    let arguments = rest.cloned().chain(["--no-save", "--json", "-"].map(str::to_owned));
    let mut run = ProgramJob::new(CommandLine::new(program, arguments), limit);
    run.environment = variables
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
        .collect();
    // `--db` also applies to the child processes, which read the history, e.g. for choices of the tuner.
    let given_path = history.given_path.iter().map(|path| path.to_string_lossy().into_owned());
    run.environment.extend(given_path.map(|path| (DB_VARIABLE.to_owned(), Some(path))));
    Ok(run)
}

/// Runs a command and returns its record. If the user interrupts it, returns the incomplete record, or `None` if
/// nothing was measured.
pub(crate) fn run_for_record(
    command: &CommandLine,
    run: &ProgramJob<'_>,
    signals: &Signals,
    caller: &Caller,
) -> Result<Option<Record>, Failure> {
    let output = program::run(run, &|| signals.is_received()).map_err(|error| match error {
        ToolchainError::Start { cause, .. } => {
            Failure::missing(format!("cannot start '{command}': {cause}"))
        }
        other => other.into(),
    })?;
    // Text before the record is skipped, e.g. the output of a launcher.
    let text = output.stdout.find('{').map_or("", |start| &output.stdout[start..]);
    let record = nodegauge_measure::record::parse(text, caller.registry.former_names());
    let status = match output.status() {
        Err(ToolchainError::Interrupted) => {
            return Ok(record.ok().filter(|record| !record.measurements.is_empty()));
        }
        ended => ended?,
    };
    match (status.code(), record) {
        // An unsuccessful exit code may mean that results are invalid; the record is returned in this case, too.
        (Some(0 | 1), Ok(record)) => Ok(Some(record)),
        (Some(0), Err(cause)) => {
            Err(Failure::usage(format!("'{command}' does not print a nodegauge record"))
                .cause(cause)
                .hint("use commands that measure, e.g. --run stream 'stream --pages 4k'"))
        }
        _ => {
            let status = describe_exit_status(status);
            let error_tail = output.error_tail();
            Err(Failure::usage(format!("'{command}' ended with {status}: {error_tail}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_before_a_command_are_variables() {
        assert_eq!(word_variable("OMP_NUM_THREADS=4"), Some(("OMP_NUM_THREADS", "4")));
        assert_eq!(word_variable("_X1="), Some(("_X1", "")));
        for word in ["stream", "--size=4KiB", "=4", "1X=4", "a-b=4"] {
            assert_eq!(word_variable(word), None, "{word}");
        }
    }
}
