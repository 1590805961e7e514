//! The only place that writes to standard output and standard error.

use crate::args::DocumentArgs;
use crate::failure::{Exit, Failure};
use anstream::stream::RawStream;
use nodegauge_gauge::view::{Page, Section};
use nodegauge_measure::legible;
use nodegauge_measure::record::{Measurement, Status};
use nodegauge_node::signals;
pub(crate) use nodegauge_node::to_json as json;
use nodegauge_report::{Style, text};
use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

mod sink;
pub(crate) use sink::{Sink, protect_input};

/// Document that an option requests: its destination, and the function that makes it.
pub(crate) type RequestedDocument<'a> = (Option<&'a str>, &'a dyn Fn() -> Result<String, Failure>);

/// Writes the requested documents; returns true if one of them went to standard output.
pub(crate) fn write_documents(documents: &[RequestedDocument<'_>]) -> Result<bool, Failure> {
    let mut requested = Vec::new();
    for (file, make) in documents {
        if let Some(file) = file {
            requested.push((Sink::from(*file), make));
        }
    }
    let to_stdout = requested.iter().filter(|(sink, _)| *sink == Sink::Stdout).count();
    if to_stdout > 1 {
        return Err(both_to_stdout_failure());
    }
    for (sink, make) in requested {
        sink.write(&make()?)?;
    }
    Ok(to_stdout > 0)
}

impl DocumentArgs {
    /// True if a JSON or CSV document is requested.
    pub(crate) fn are_requested(&self) -> bool {
        self.json.is_some() || self.csv.is_some()
    }

    /// Writes the JSON and CSV documents that are requested; returns true if one of them went to standard output.
    pub(crate) fn write(
        &self,
        as_json: &dyn Fn() -> Result<String, Failure>,
        as_csv: &dyn Fn() -> Result<String, Failure>,
    ) -> Result<bool, Failure> {
        write_documents(&[(self.json.as_deref(), as_json), (self.csv.as_deref(), as_csv)])
    }
}

/// Returns the error for two documents on standard output.
pub(crate) fn both_to_stdout_failure() -> Failure {
    Failure::usage("--json and --csv cannot both go to standard output")
        .hint("write one of them to a file, e.g. --csv FILE")
}

/// Prints a result. Exits if standard output cannot be written; a closed pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) {
    if let Err(failure) = try_print(text) {
        print_error_line(&failure.to_string());
        nodegauge_os::end_process(signal_exit().unwrap_or_else(|| Exit::from(&failure)).code());
    }
}

/// Returns the exit status if a signal ended this process while nobody read its standard output.
pub(crate) fn signal_exit() -> Option<Exit> {
    if UNREAD.load(Ordering::Relaxed) { signals::handled_signal().map(Exit::Signal) } else { None }
}

/// Prints a result like [`print()`], but returns a failure instead of exiting.
pub(crate) fn try_print(text: &str) -> Result<(), Failure> {
    write(&legible::page(text))
}

/// True if a write to standard output was given up because nobody read it.
static UNREAD: AtomicBool = AtomicBool::new(false);
/// True if a write to standard error was given up because nobody read it.
static UNREAD_ERRORS: AtomicBool = AtomicBool::new(false);

/// Writes a text to standard output without changes. The buffer and lock of the standard library are not used, because
/// a write that nobody reads would keep the lock.
fn write(text: &str) -> Result<(), Failure> {
    if UNREAD.load(Ordering::Relaxed) {
        return Ok(());
    }
    let out = io::stdout();
    match nodegauge_os::write_all(&out, for_stream(&out, text).as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe && !is_hung_up(&error) => {
            UNREAD.store(error.kind() == io::ErrorKind::TimedOut, Ordering::Relaxed);
            Err(Failure::missing(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Returns the text with its colours if the stream supports them.
fn for_stream<'a>(stream: &impl RawStream, text: &'a str) -> Cow<'a, str> {
    // The parser of escape sequences is slower than what produces long texts.
    let has_colours = text.contains('\x1b');
    if has_colours && anstream::AutoStream::choice(stream) == anstream::ColorChoice::Never {
        return anstream::adapter::strip_str(text).to_string().into();
    }
    text.into()
}

/// True if a write failed because the terminal was closed.
fn is_hung_up(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EIO)
        && stdout_metadata().is_ok_and(|stdout| stdout.file_type().is_char_device())
}

/// Returns the metadata of the file that standard output is connected to.
fn stdout_metadata() -> io::Result<Metadata> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)?.metadata()
}

/// Prints a page.
pub(crate) fn show(page: &Page) {
    print(&text::page(page, style()));
}

/// Prints a page of one section.
pub(crate) fn show_section(section: &Section) {
    print(&text::section(section, style()));
}

/// Prints an error: `error: ...`.
pub(crate) fn print_error_line(message: &str) {
    print_error(&legible::message(message));
}

/// Prints a failure: `error: ...`, with the hint on a separate line.
pub(crate) fn print_failure(failure: &Failure) {
    print_error(&legible::failure(failure));
}

fn print_error(shown: &str) {
    print_to_stderr(&format!("\x1b[1;31merror:\x1b[0m {shown}\n"));
}

/// Prints text to standard error, with colour if supported. A single write is used because several ranks, their
/// launcher and this process can share standard error, and their lines must not be mixed.
fn print_to_stderr(coloured: &str) {
    if UNREAD_ERRORS.load(Ordering::Relaxed) {
        return;
    }
    let err = io::stderr();
    // If standard error cannot be written, that cannot be reported.
    if let Err(error) = nodegauge_os::write_all(&err, for_stream(&err, coloured).as_bytes()) {
        UNREAD_ERRORS.store(error.kind() == io::ErrorKind::TimedOut, Ordering::Relaxed);
    }
}

/// Reports the first suspect figure and the number of others; returns true if there is one. The message begins with
/// `side`, which names the run.
pub(crate) fn report_suspects<'a>(
    measurements: impl IntoIterator<Item = &'a Measurement>,
    side: &str,
) -> bool {
    let mut suspects = measurements
        .into_iter()
        .filter(|m| m.validity.status == Status::Suspect && !m.is_published());
    let Some(first) = suspects.next() else { return false };
    let more = match suspects.count() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    let why = first.validity.reasons.first().map_or("", String::as_str);
    let refusal = format!("--strict: {side}{} is suspect{more}: {why}", first.name);
    let hint = "--accept-suspect accepts suspect figures as results";
    print_failure(&Failure::unmet(legible::escape_controls(&refusal)).hint(hint));
    true
}

/// Prints a result, waiting at most `time`. Another thread may be writing to standard output at the same time.
pub(crate) fn print_within(text: &str, time: Duration) {
    let out = io::stdout();
    let shown = legible::page(text);
    // This process ends in any case.
    let _ = nodegauge_os::write_within(&out, for_stream(&out, &shown).as_bytes(), time);
}

/// Prints a remark in one line to standard error, waiting at most `time`.
pub(crate) fn print_note_within(message: &str, time: Duration) {
    let err = io::stderr();
    let shown = format!("{}\n", legible::line(message));
    let _ = nodegauge_os::write_within(&err, for_stream(&err, &shown).as_bytes(), time);
}

/// Prints a remark in one line to standard error. Control characters are escaped, because other users may have chosen
/// names in it.
pub(crate) fn print_note(message: &str) {
    print_to_stderr(&format!("{}\n", legible::line(message)));
}

/// Returns the width and the colour setting for text on standard output.
pub(crate) fn style() -> Style {
    let choice = anstream::AutoStream::choice(&io::stdout());
    Style { width: width(), colour: choice != anstream::ColorChoice::Never }
}

/// Returns the width in columns: that of the terminal, else `COLUMNS`, else 80; at least 60.
fn width() -> u16 {
    let terminal = terminal_width(libc::STDOUT_FILENO);
    let variable = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    terminal.or(variable).unwrap_or(80).max(60)
}

/// Returns the width of the terminal of standard error in columns; 80 if it is unknown.
pub(crate) fn error_width() -> usize {
    terminal_width(libc::STDERR_FILENO).map_or(80, usize::from)
}

/// Returns the width of the terminal that a descriptor is connected to.
#[allow(unsafe_code)]
fn terminal_width(descriptor: libc::c_int) -> Option<u16> {
    // SAFETY: the kernel fills the structure; all zeros is a valid value of it.
    unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        let done = libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size);
        (done == 0 && size.ws_col > 0).then_some(size.ws_col)
    }
}
