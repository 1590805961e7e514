//! The command `nodegauge`: reads arguments, lets the gauges measure, prints what they found.
//! Measures nothing itself.

mod args;
mod commands;
mod failure;
mod gauges;
mod output;
mod progress;
mod resolve;
mod session;
mod signals;

use clap::FromArgMatches;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Samples are dated from here on.
    nodegauge_measure::clock::since_start();
    let matches = args::command().try_get_matches().unwrap_or_else(|error| refuse(error));
    let parsed = args::Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    parsed.color.write_global();
    match commands::dispatch(&parsed) {
        Ok(code) => code.into(),
        Err(failure) => {
            output::error(&failure.to_string());
            failure::Exit::from(&failure).into()
        }
    }
}

/// Ends with what clap says of the arguments. A value that does not follow its grammar points at the
/// wrong character by itself, and a name that is not known offers others: these need none of clap's
/// words around them.
fn refuse(error: clap::Error) -> ! {
    let source = std::error::Error::source(&error);
    let own = source.filter(|source| {
        source.is::<nodegauge_measure::SyntaxError>()
            || source.is::<nodegauge_machine::published::UnknownNode>()
    });
    match own {
        Some(wrong) => {
            output::error(&wrong.to_string());
            std::process::exit(2)
        }
        None => args::with_suggestions(error).exit(),
    }
}
