//! The command `nodegauge`: reads arguments, lets the gauges measure, prints what they found.
//! Measures nothing itself.

mod args;
mod commands;
mod failure;
mod output;
mod progress;
mod session;
mod signals;

use clap::{CommandFactory, FromArgMatches};
use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = args::command().try_get_matches().unwrap_or_else(|error| refuse(&error));
    let parsed = args::Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    parsed.color.write_global();
    match commands::dispatch(&parsed) {
        Ok(code) => code.into(),
        Err(failure) => {
            output::error(&failure.to_string());
            failure.code.into()
        }
    }
}

/// Ends with what clap says of the arguments. A value that does not follow its grammar points at the
/// wrong character by itself, and needs none of clap's words around it.
fn refuse(error: &clap::Error) -> ! {
    let grammar = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<nodegauge_measure::SyntaxError>());
    match grammar {
        Some(wrong) => {
            output::error(&wrong.to_string());
            std::process::exit(2)
        }
        None => error.exit(),
    }
}

/// The definition of the command line, for tests and generated documents.
pub(crate) fn definition() -> clap::Command {
    args::Args::command()
}
