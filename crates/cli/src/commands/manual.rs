//! Man pages, made from the definition of the command line. Each page ends with sections that the definition does not
//! contain: exit status, environment, files, examples.

use crate::args::{declared_examples, definition};
use crate::failure::{Exit, Failure};
use crate::output::{self, Sink};
use clap::Command;
use clap_mangen::Man;
use std::io::Write;
use std::path::Path;

/// Term in a section, with its description.
type Row = (&'static str, &'static str);

/// Exit codes of all commands except `check`, which describes its own.
const STATUS: [Row; 5] = [
    ("0", "All figures were measured and are valid, and all conditions are met."),
    ("1", "A figure is invalid, or a condition (--expect, --fail-on, --strict) is not met."),
    ("2", "Wrong usage or unreadable input."),
    ("3", "Something that the command needs is missing; the message says how to get it."),
    ("129, 130, 143", "Interrupted; what was measured so far is saved and marked incomplete."),
];

/// Environment variables that users set. docs/security.md lists all variables that are read.
const ENVIRONMENT: [Row; 7] = [
    ("NODEGAUGE_DB", "Path of the history; by default, it is in the data folder."),
    ("NODEGAUGE_CACHE_DIR", "Folder of compiled probes and measured cache capacities."),
    (
        "OMP_NUM_THREADS, OMP_THREAD_LIMIT, OMP_PLACES, OMP_PROC_BIND",
        "Number of threads and their places, if no option sets them.",
    ),
    ("GOMP_CPU_AFFINITY, KMP_AFFINITY", "Places of threads, as in GNU's and Intel's OpenMP."),
    ("XDG_DATA_HOME, XDG_CACHE_HOME, HOME", "Folders of the history and of the cache."),
    ("TMPDIR", "Folder for temporary files, which are created in private subfolders."),
    ("NO_COLOR, COLUMNS", "No colours; width of pages."),
];

/// Files that nodegauge writes without an option.
const FILES: [Row; 2] = [
    ("~/.local/share/nodegauge/history.db", "Saved runs (SQLite); --no-save saves none."),
    ("~/.cache/nodegauge", "Compiled probes and measured cache capacities; can be removed."),
];

/// Returns the error for a man page that cannot be written.
fn not_written(error: std::io::Error) -> Failure {
    Failure::missing(format!("cannot write the man page: {error}"))
}

/// Returns a definition whose options all have descriptions. For options that `-h` leaves out, man pages would otherwise
/// have no description if it is one line.
fn with_all_descriptions(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(with_all_descriptions)
}

/// Prints the man page, with a complete section for every command.
pub(crate) fn print_page() -> Result<Exit, Failure> {
    let mut definition = with_all_descriptions(definition());
    definition.build();
    let mut roff = Vec::new();
    write_beginning(&Man::new(definition.clone()), &definition, &mut roff).map_err(not_written)?;
    let shown = definition.get_subcommands().filter(|command| !command.is_hide_set());
    for command in shown.filter(|command| command.get_name() != "help") {
        write_section(command, "nodegauge", &mut roff).map_err(not_written)?;
    }
    write_end(&definition, &mut roff).map_err(not_written)?;
    output::print(&String::from_utf8_lossy(&roff));
    Ok(Exit::Success)
}

/// Writes a man page for every command to a folder; creates the folder if it does not exist.
pub(crate) fn write_all_pages(folder: &Path) -> Result<Exit, Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::missing(format!("cannot write man pages to {}: {error}", folder.display()))
    })?;
    let mut definition = with_all_descriptions(definition()).disable_help_subcommand(true);
    definition.build();
    write_pages(&definition, folder)?;
    Ok(Exit::Success)
}

/// Writes the man pages of a command and of its subcommands.
fn write_pages(command: &Command, folder: &Path) -> Result<(), Failure> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, folder)?;
    }
    let page = Man::new(command.clone());
    let mut roff = Vec::new();
    write_beginning(&page, command, &mut roff).map_err(not_written)?;
    write_end(command, &mut roff).map_err(not_written)?;
    let file = folder.join(page.get_filename());
    Sink::File(file).write(&String::from_utf8_lossy(&roff))
}

/// Writes the sections that come from the definition of a command.
fn write_beginning(page: &Man, command: &Command, roff: &mut Vec<u8>) -> std::io::Result<()> {
    page.render_title(roff)?;
    page.render_name_section(roff)?;
    page.render_synopsis_section(roff)?;
    page.render_description_section(roff)?;
    if command.get_arguments().next().is_some() {
        page.render_options_section(roff)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        page.render_subcommands_section(roff)?;
    }
    Ok(())
}

/// Writes the sections at the end of every page.
fn write_end(command: &Command, roff: &mut Vec<u8>) -> std::io::Result<()> {
    write_rows("EXIT STATUS", &STATUS, roff)?;
    write_rows("ENVIRONMENT", &ENVIRONMENT, roff)?;
    write_rows("FILES", &FILES, roff)?;
    let examples = declared_examples(command);
    if !examples.is_empty() {
        writeln!(roff, ".SH EXAMPLES\n.nf")?;
        for example in examples {
            writeln!(roff, "{}", escaped(&example))?;
        }
        writeln!(roff, ".fi")?;
    }
    writeln!(roff, ".SH VERSION\n{}", escaped(concat!("v", env!("CARGO_PKG_VERSION"))))
}

/// Writes a section that is a list of terms.
fn write_rows(title: &str, rows: &[Row], roff: &mut Vec<u8>) -> std::io::Result<()> {
    writeln!(roff, ".SH \"{title}\"")?;
    for (term, text) in rows {
        writeln!(roff, ".TP\n\\fB{}\\fR\n{}", escaped(term), escaped(text))?;
    }
    Ok(())
}

/// Escapes a line of text for roff: hyphens can be copied to a shell, and no line begins with a request.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

/// Appends a section with synopsis and options of a command, followed by the sections of its subcommands.
fn write_section(command: &Command, parent: &str, roff: &mut Vec<u8>) -> std::io::Result<()> {
    let name = format!("{parent} {}", command.get_name());
    writeln!(roff, ".SH \"{}\"", name.to_uppercase())?;
    let man = Man::new(command.clone());
    man.render_synopsis_section(roff)?;
    man.render_description_section(roff)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(roff)?;
    }
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        write_section(below, &name, roff)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_files_of_man_pages_are_in_the_chapters() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
        let security = std::fs::read_to_string(folder.join("security.md")).unwrap();
        let names = ENVIRONMENT.iter().flat_map(|(names, _)| names.split(", "));
        for name in names {
            assert!(security.contains(&format!("`{name}`")), "{name}");
        }
        let statement = std::fs::read_to_string(folder.join("statement.md")).unwrap();
        for (file, _) in FILES {
            let place = file.trim_end_matches("/history.db");
            assert!(statement.contains(place), "{file}");
        }
    }

    /// Appends to `empty` each option of a command and its subcommands that has no description in its man page.
    fn collect_bare_options(command: &Command, empty: &mut Vec<String>) {
        let mut roff = Vec::new();
        write_beginning(&Man::new(command.clone()), command, &mut roff).unwrap();
        let page = String::from_utf8_lossy(&roff).into_owned();
        for entry in page.split("\n.TP\n").skip(1) {
            let mut lines = entry.lines();
            let option = lines.next().unwrap_or_default();
            if lines.next().is_none_or(|text| text.trim().is_empty() || text.starts_with('.')) {
                empty.push(format!("{}: {option}", command.get_name()));
            }
        }
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            collect_bare_options(below, empty);
        }
    }

    #[test]
    fn every_option_has_a_description_in_man_pages() {
        let mut definition = with_all_descriptions(definition()).disable_help_subcommand(true);
        definition.build();
        let mut empty = Vec::new();
        collect_bare_options(&definition, &mut empty);
        assert_eq!(empty, Vec::<String>::new());
    }

    #[test]
    fn man_page_exit_codes_match_the_program() {
        let codes = [Exit::Success, Exit::Unmet, Exit::Usage, Exit::Missing].map(Exit::code);
        let signals = [1, 2, 15].map(|signal| Exit::Signal(signal).code().to_string());
        let expected = codes.iter().map(u8::to_string).chain([signals.join(", ")]);
        assert!(expected.eq(STATUS.iter().map(|(code, _)| (*code).to_owned())));
    }

    #[test]
    fn special_characters_are_escaped_in_roff() {
        assert_eq!(escaped(".x --a 'b'"), "\\&.x \\-\\-a \\(aqb\\(aq");
    }
}
