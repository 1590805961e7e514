//! The command `nodegauge`: reads arguments, lets the gauges measure, prints what they found.
//! Measures nothing itself.

mod args;
mod commands;
mod failure;
mod gauges;
mod launched;
mod output;
mod progress;
mod resolve;
mod saving;
mod session;
mod signals;
mod started;

use clap::FromArgMatches;
use failure::{Exit, Failure};
use nodegauge_measure::SyntaxError;
use nodegauge_published::UnknownNode;

fn main() {
    // Samples are dated from here on.
    nodegauge_measure::clock::since_start();
    let matches = args::command().try_get_matches().unwrap_or_else(|error| refuse(error));
    let parsed = args::Args::from_arg_matches(&matches).unwrap_or_else(|error| refuse(error));
    parsed.color.write_global();
    let exit = commands::dispatch(&parsed).unwrap_or_else(|failure| {
        output::failure(&failure);
        Exit::from(&failure)
    });
    nodegauge_os::leave(exit.number())
}

/// Ends with what clap says of the arguments: help and versions as they are, errors as all errors are shown.
fn refuse(error: clap::Error) -> ! {
    let error = args::with_suggestions(error);
    match complaint(&error) {
        Some(said) => {
            output::failure(&said);
            std::process::exit(Exit::Usage.number().into())
        }
        None => error.exit(),
    }
}

/// Returns the failure behind an error of the arguments; `None` if it is no error, such as a request for help. A
/// value that violates its grammar points at the wrong character, and an unknown name lists the known ones: these
/// need no further words of clap's.
fn complaint(error: &clap::Error) -> Option<Failure> {
    let source = std::error::Error::source(error);
    let grammar = source.and_then(|source| source.downcast_ref::<SyntaxError>());
    let node = source.and_then(|source| source.downcast_ref::<UnknownNode>());
    match grammar.map(Failure::from).or_else(|| node.map(Failure::from)) {
        Some(wrong) => Some(wrong),
        None if is_help(error.kind()) => None,
        None => {
            let said = error.render().to_string();
            Some(Failure::usage(said.trim_start_matches("error: ").trim_end()))
        }
    }
}

/// True if it is no error but what was asked for.
fn is_help(kind: clap::error::ErrorKind) -> bool {
    use clap::error::ErrorKind::*;
    matches!(kind, DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion)
}
