//! Starts commands of nodegauge, optionally wrapped by other programs, as child processes and reads their
//! records.

use crate::args::{Args, Database};
use crate::failure::Failure;
use crate::gauges;
use crate::signals::Signals;
use clap::CommandFactory;
use nodegauge_measure::record::Record;
use nodegauge_os::describe;
use nodegauge_toolchain::program::{self, ProgramJob};
use nodegauge_toolchain::{CommandLine, ToolchainError};
use std::time::Duration;

/// Returns the job for a typed command, including environment variables in front of it. The command writes its record
/// to standard output and does not save the record.
pub(crate) fn program_of(
    command: &CommandLine,
    db: &Database,
    limit: Duration,
) -> Result<ProgramJob<'static>, Failure> {
    let is_variable = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| {
            let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
            name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
        })
    };
    let words = command.words();
    let variables: Vec<&String> = words.iter().take_while(is_variable).collect();
    let mut rest = words[variables.len()..].iter().peekable();
    let definition = Args::command();
    // A command of nodegauge, with or without `nodegauge` in front, runs the executable of this process.
    let own = rest.peek().is_none_or(|word| {
        word.starts_with('-')
            || *word == definition.get_name()
            || definition.find_subcommand(word).is_some()
    });
    let program = if own {
        rest.next_if(|word| *word == definition.get_name());
        nodegauge_os::own_program().map_err(|cause| {
            Failure::missing(format!("cannot find the executable of nodegauge: {cause}"))
        })?
    } else {
        rest.next().cloned().unwrap_or_default()
    };
    let arguments = rest.cloned().chain(["--no-save", "--json", "-"].map(str::to_owned));
    let mut run = ProgramJob::new(CommandLine::new(program, arguments), limit);
    let value = |(name, value): (&str, &str)| (name.to_owned(), Some(value.to_owned()));
    run.environment = variables.iter().filter_map(|word| word.split_once('=')).map(value).collect();
    // Child processes read the history given by `--db`, e.g. for tuned choices.
    let db = db.db.iter().map(|path| path.to_string_lossy().into_owned());
    run.environment.extend(db.map(|path| ("NODEGAUGE_DB".to_owned(), Some(path))));
    Ok(run)
}

/// Runs a command and returns its record. If the user ends it, returns the incomplete record, or `None` if
/// nothing was measured.
pub(crate) fn record_of(
    command: &CommandLine,
    run: &ProgramJob<'_>,
    signals: &Signals,
) -> Result<Option<Record>, Failure> {
    let output =
        program::run(run, &|| signals.received().is_some()).map_err(|error| match error {
            ToolchainError::Start { cause, .. } => {
                Failure::missing(format!("cannot start '{command}': {cause}"))
            }
            other => other.into(),
        })?;
    // Skips output of a launcher before the record.
    let text = output.stdout.find('{').map_or("", |start| &output.stdout[start..]);
    let record = nodegauge_measure::record::parse(text, gauges::registry().former_names());
    let status = match output.status() {
        Err(ToolchainError::Interrupted) => {
            return Ok(record.ok().filter(|record| !record.measurements.is_empty()));
        }
        ended => ended?,
    };
    match (status.code(), record) {
        // A record with invalid results is returned, too.
        (Some(0 | 1), Ok(record)) => Ok(Some(record)),
        (Some(0), Err(cause)) => {
            Err(Failure::usage(format!("'{command}' does not print a nodegauge record"))
                .cause(cause)
                .hint("use commands that measure, e.g. --run stream 'stream --pages 4k'"))
        }
        _ => {
            let status = describe(status);
            let last_words = output.last_words();
            Err(Failure::usage(format!("'{command}' ended with {status}: {last_words}")))
        }
    }
}
