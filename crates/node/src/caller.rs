//! Interface to the program that uses this crate: its gauges, its commands, and its outputs.

use nodegauge_fleet::figures::FigureSelection;
use nodegauge_gauge::Gauge;
use nodegauge_gauge::view::Page;
use nodegauge_measure::Failure;
use nodegauge_measure::keys::Registry;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Program that runs a command of this crate.
#[derive(Clone, Copy)]
pub struct Caller {
    /// All gauges of the program.
    pub gauges: &'static [&'static dyn Gauge],
    /// Keys of the figures of all gauges.
    pub registry: &'static Registry,
    /// True if the program has a command of this name.
    pub has_command: fn(&str) -> bool,
    /// Outputs of the program.
    pub outputs: &'static dyn Outputs,
}

impl Caller {
    /// Returns a selection of the headline figures of all gauges.
    pub(crate) fn headlines(&self) -> FigureSelection<'static> {
        FigureSelection {
            gauges: self.gauges,
            registry: self.registry,
            includes_all: false,
            facts: false,
        }
    }
}

/// Outputs of the program: standard output, standard error, and files that the user names.
pub trait Outputs: Sync {
    /// Prints a result.
    ///
    /// # Errors
    /// Fails if standard output cannot be written.
    fn print(&self, text: &str) -> Result<(), Failure>;

    /// Prints a result, or ends the program if standard output cannot be written.
    fn print_or_end(&self, text: &str);

    /// Formats and prints a page, or ends the program if standard output cannot be written.
    fn show(&self, page: &Page);

    /// Prints a result, and waits at most `time` for the output, because another thread may be blocked while it writes.
    fn print_within(&self, text: &str, time: Duration);

    /// Prints a remark in one line.
    fn note(&self, remark: &str);

    /// Prints a remark, and waits at most `time` for the output.
    fn note_within(&self, remark: &str, time: Duration);

    /// Prints an error of a command that continues afterwards.
    fn print_error(&self, message: &str);

    /// Checks that a file can be written, before anything is measured.
    ///
    /// # Errors
    /// Fails if it cannot be written, or if it is an input of the command.
    fn check_file(&self, file: &Path) -> Result<(), Failure>;

    /// Replaces a file atomically by a text that is written in parts.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if a part is a failure.
    fn write_file(
        &self,
        file: &Path,
        parts: &mut dyn Iterator<Item = Result<String, Failure>>,
    ) -> Result<(), Failure>;

    /// Replaces a file atomically by a text.
    ///
    /// # Errors
    /// Fails for the reasons of [`Self::write_file`].
    fn write_text(&self, file: &Path, text: String) -> Result<(), Failure> {
        self.write_file(file, &mut std::iter::once(Ok(text)))
    }
}

/// Outcome of a command that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// All results are valid, and all conditions are met (exit code 0).
    Met,
    /// A result is invalid, or a condition is not met (exit code 1).
    Unmet,
    /// A signal ended the command.
    Signal(u8),
}

/// Returns a document as JSON, with a final line break.
///
/// # Errors
/// Fails if the document cannot be written as JSON.
pub fn to_json(document: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(document)
        .map(|text| text + "\n")
        .map_err(|error| Failure::missing(format!("cannot write JSON: {error}")))
}
