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
    let matches = args::command().get_matches();
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

/// The definition of the command line, for tests and generated documents.
pub(crate) fn definition() -> clap::Command {
    args::Args::command()
}
