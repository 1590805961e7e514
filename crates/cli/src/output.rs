//! The only place that writes to standard output and standard error.

use crate::failure::Failure;
use nodegauge_gauge::view::{Page, Section};
use nodegauge_report::{Style, text};
use serde::Serialize;
use std::io::{self, Write};

mod sink;
pub(crate) use sink::Sink;

/// A document as JSON, with a final line break.
pub(crate) fn json(document: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(document)
        .map(|text| text + "\n")
        .map_err(|error| Failure::missing(format!("cannot write JSON: {error}")))
}

/// A document as JSON on one line, with its line break.
pub(crate) fn json_line(document: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(document)
        .map(|text| text + "\n")
        .map_err(|error| Failure::missing(format!("cannot write JSON: {error}")))
}

/// A document that an option asks for: where it goes, and how it is made.
pub(crate) type Document<'a> = (Option<&'a str>, &'a dyn Fn() -> Result<String, Failure>);

/// Writes the documents that options ask for; whether standard output belongs to one of them.
pub(crate) fn documents(documents: &[Document<'_>]) -> Result<bool, Failure> {
    let asked = || documents.iter().filter_map(|(file, make)| Some((Sink::from((*file)?), make)));
    let to_stdout = asked().filter(|(sink, _)| *sink == Sink::Stdout).count();
    if to_stdout > 1 {
        return Err(Failure::usage(BOTH_TO_STDOUT));
    }
    for (sink, make) in asked() {
        sink.write(&make()?)?;
    }
    Ok(to_stdout > 0)
}

/// Standard output holds one document.
pub(crate) const BOTH_TO_STDOUT: &str =
    "--json and --csv cannot both go to standard output\nhint: give one of them a file";

/// Prints a result. A reader that has gone away (`| head`) ends the program quietly.
pub(crate) fn print(text: &str) {
    let mut out = anstream::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        self::error(&format!("cannot write to standard output: {error}"));
        std::process::exit(3);
    }
}

/// Prints a page.
pub(crate) fn show(page: &Page) {
    print(&text::page(page, style()));
}

/// Prints a page of one section.
pub(crate) fn show_section(section: &Section) {
    print(&text::section(section, style()));
}

/// Prints an error: `error: ...`, with a hint on a line of its own.
pub(crate) fn error(message: &str) {
    let mut err = anstream::stderr().lock();
    // Nobody is left to tell when standard error is gone.
    let _ = writeln!(err, "\x1b[1;31merror:\x1b[0m {message}");
}

/// Prints a remark to standard error.
pub(crate) fn note(message: &str) {
    let mut err = anstream::stderr().lock();
    let _ = writeln!(err, "{message}");
}

/// How text for standard output may look.
pub(crate) fn style() -> Style {
    let choice = anstream::AutoStream::choice(&io::stdout());
    Style { width: width(), colour: choice != anstream::ColorChoice::Never }
}

/// Columns: of the terminal, else as `COLUMNS` says, else 80; tables get no narrower than 60 and
/// prose no wider than 120.
fn width() -> u16 {
    let terminal = terminal_width();
    let variable = || std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    terminal.or_else(variable).unwrap_or(80).clamp(60, 120)
}

#[allow(unsafe_code)]
fn terminal_width() -> Option<u16> {
    // SAFETY: the kernel fills the structure, for which zero is a value.
    unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        let done = libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size);
        (done == 0 && size.ws_col > 0).then_some(size.ws_col)
    }
}
