//! The command `nodegauge`: parses arguments, runs the gauges and prints their results. It contains no measurement
//! code.
//!
//! This is a library to shorten the build: cargo starts to compile a library while its dependencies are still being
//! compiled, but a program only after all of them.

mod args;
mod cache_size;
mod commands;
mod failure;
mod files;
mod gauges;
mod launched;
mod node;
mod output;
mod progress;
mod session;

use clap::FromArgMatches;
use failure::{Exit, Failure};

/// Exit code of a run that lacks something, e.g. memory.
pub const EXIT_MISSING: u8 = Exit::Missing.code();

/// Runs the command given by the arguments of this process, and ends the process.
pub fn run() -> ! {
    // This call sets time zero of all samples.
    nodegauge_measure::clock::since_start();
    nodegauge_measure::clock::start_budget();
    nodegauge_os::set_process_name(c"nodegauge");
    nodegauge_os::share_arena_if_limited();
    nodegauge_node::signals::survive_file_size_limit();
    commands::completion::answer_shell();
    let mut definition = args::command();
    let matches = definition.try_get_matches_from_mut(std::env::args_os());
    let matches = matches.unwrap_or_else(|error| refuse(error));
    if let Some(failure) = args::hints::misplaced_option(&matches, &definition) {
        output::print_failure(&failure);
        std::process::exit(exit_status(&failure).code().into())
    }
    let parsed = args::Args::from_arg_matches(&matches).unwrap_or_else(|error| refuse(error));
    parsed.color.write_global();
    args::helper_deadline(&matches).into_iter().for_each(nodegauge_os::set_helper_deadline);
    let exit = files::protect_inputs(&definition, &matches);
    let exit = exit.and_then(|()| commands::dispatch(&parsed)).unwrap_or_else(|failure| {
        output::print_failure(&failure);
        exit_status(&failure)
    });
    nodegauge_os::end_process(output::signal_exit().unwrap_or(exit).code())
}

/// Returns the exit status for a failure of the command.
fn exit_status(failure: &Failure) -> Exit {
    let words = std::env::args_os().skip(1);
    args::check::failure_exit_code(words).map_or_else(|| Exit::from(failure), Exit::Checked)
}

/// Prints the help, version or error of clap and exits. Errors have the format of all other errors.
fn refuse(error: clap::Error) -> ! {
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    match args::hints::failure(&error, &words) {
        Some(failure) => {
            output::print_failure(&failure);
            std::process::exit(exit_status(&failure).code().into())
        }
        None => error.exit(),
    }
}
