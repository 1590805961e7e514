//! Documents generated from the definition of the command line.

use crate::args::definition;
use crate::failure::{Exit, Failure};
use crate::gauges;
use crate::output::{self, Sink};
use std::path::Path;

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut definition(), "nodegauge", &mut script);
    output::print(&String::from_utf8_lossy(&script));
    Ok(Exit::Success)
}

/// Returns the error for a man page that cannot be written.
fn not_written(error: std::io::Error) -> Failure {
    Failure::missing(format!("cannot write the man page: {error}"))
}

/// Prints the man page, with a complete section for every command.
pub(crate) fn man() -> Result<Exit, Failure> {
    let mut definition = definition();
    definition.build();
    let mut roff = Vec::new();
    clap_mangen::Man::new(definition.clone()).render(&mut roff).map_err(not_written)?;
    let shown = definition.get_subcommands().filter(|command| !command.is_hide_set());
    for command in shown.filter(|command| command.get_name() != "help") {
        section(command, "nodegauge", &mut roff).map_err(not_written)?;
    }
    output::print(&String::from_utf8_lossy(&roff));
    Ok(Exit::Success)
}

/// Writes a man page for every command to a folder; creates the folder if it does not exist.
pub(crate) fn man_pages(folder: &Path) -> Result<Exit, Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::missing(format!("cannot write man pages to {}: {error}", folder.display()))
    })?;
    let mut definition = definition().disable_help_subcommand(true);
    definition.build();
    write_pages(&definition, folder)?;
    Ok(Exit::Success)
}

/// Writes the man pages of a command and of its subcommands.
fn write_pages(command: &clap::Command, folder: &Path) -> Result<(), Failure> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, folder)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    let mut roff = Vec::new();
    page.render(&mut roff).map_err(not_written)?;
    let file = folder.join(page.get_filename());
    Sink::File(file).write(&String::from_utf8_lossy(&roff))
}

/// Prints the JSON Schema of the record.
pub(crate) fn schema() -> Result<Exit, Failure> {
    let schema = nodegauge_measure::schema::record_schema(gauges::registry());
    output::print(&output::json(&schema)?);
    Ok(Exit::Success)
}

/// Appends a section with the synopsis and options of a command, then the sections of its subcommands.
fn section(command: &clap::Command, parent: &str, roff: &mut Vec<u8>) -> std::io::Result<()> {
    use std::io::Write;
    let name = format!("{parent} {}", command.get_name());
    writeln!(roff, ".SH \"{}\"", name.to_uppercase())?;
    let man = clap_mangen::Man::new(command.clone());
    man.render_synopsis_section(roff)?;
    man.render_description_section(roff)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(roff)?;
    }
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        section(below, &name, roff)?;
    }
    Ok(())
}
