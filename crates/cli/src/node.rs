//! Outputs of this program for the commands in the crate `node`.

use crate::gauges::{self, GAUGES};
use crate::output::{self, Sink};
use clap::CommandFactory;
use nodegauge_gauge::view::Page;
use nodegauge_measure::Failure;
use nodegauge_node::{Caller, Outputs};
use std::path::Path;
use std::time::Duration;

/// Returns the description of this program for the crate `node`.
pub(crate) fn caller() -> Caller {
    Caller { gauges: &GAUGES, registry: gauges::registry(), has_command, outputs: &Terminal }
}

/// True if this program has a command of this name.
fn has_command(name: &str) -> bool {
    crate::args::Args::command().find_subcommand(name).is_some()
}

/// Standard output, standard error, and files that the user names.
pub(crate) struct Terminal;

impl Outputs for Terminal {
    fn print(&self, text: &str) -> Result<(), Failure> {
        output::try_print(text)
    }

    fn print_or_end(&self, text: &str) {
        output::print(text);
    }

    fn show(&self, page: &Page) {
        output::show(page);
    }

    fn print_within(&self, text: &str, time: Duration) {
        output::print_within(text, time);
    }

    fn note(&self, remark: &str) {
        output::print_note(remark);
    }

    fn note_within(&self, remark: &str, time: Duration) {
        output::print_note_within(remark, time);
    }

    fn print_error(&self, message: &str) {
        output::print_error_line(message);
    }

    fn check_file(&self, file: &Path) -> Result<(), Failure> {
        Sink::File(file.to_owned()).check()
    }

    fn write_file(
        &self,
        file: &Path,
        parts: &mut dyn Iterator<Item = Result<String, Failure>>,
    ) -> Result<(), Failure> {
        Sink::File(file.to_owned()).write_parts(parts)
    }
}
