//! Options that name files: outputs cannot replace inputs, and two outputs cannot be the same file.

use crate::failure::Failure;
use crate::output::{self, Sink};
use clap::{ArgMatches, Command};
use std::path::{Path, PathBuf};

/// Value name of options that name a file.
const FILE: &str = "FILE";
/// Options that name an input file or the history; all others name outputs.
const INPUTS: [&str; 2] = ["db", "reference"];

/// Option of the command line that names a file.
struct FileOption {
    name: String,
    path: PathBuf,
}

/// Prevents outputs of this command from replacing an input. Refuses two outputs to the same file, because the second
/// would replace the first.
pub(crate) fn protect_inputs(definition: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    let mut outputs = Vec::new();
    collect(definition, matches, &mut outputs);
    for (at, one) in outputs.iter().enumerate() {
        Sink::File(one.path.clone()).refuse_inputs()?;
        for other in &outputs[at + 1..] {
            refuse_same_file(&one.name, &one.path, &other.name, &other.path)?;
        }
    }
    Ok(())
}

/// Refuses two outputs to the same file.
pub(crate) fn refuse_same_file(
    one_name: &str,
    one: &Path,
    other_name: &str,
    other: &Path,
) -> Result<(), Failure> {
    if !nodegauge_os::are_same_file(one, other) {
        return Ok(());
    }
    let shown = one.display();
    Err(Failure::usage(format!("{one_name} and {other_name} cannot both be written to {shown}"))
        .hint("give two files"))
}

/// Collects the outputs of a command and its subcommand, and protects their inputs.
fn collect(definition: &Command, matches: &ArgMatches, outputs: &mut Vec<FileOption>) {
    for option in definition.get_arguments() {
        let is_file = option.get_value_names().is_some_and(|names| names == [FILE]);
        let Some(name) = option.get_long().filter(|_| is_file) else { continue };
        let values = matches.try_get_raw(option.get_id().as_str()).ok().flatten();
        for value in values.into_iter().flatten().filter(|value| *value != "-") {
            let path = PathBuf::from(value);
            if INPUTS.contains(&name) {
                output::protect_input(&path);
            } else {
                outputs.push(FileOption { name: format!("--{name}"), path });
            }
        }
    }
    let Some((name, below)) = matches.subcommand() else { return };
    if let Some(command) = definition.find_subcommand(name) {
        collect(command, below, outputs);
    }
}
