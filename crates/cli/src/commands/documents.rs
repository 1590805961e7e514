//! Documents that are generated from the definitions of the command line and of the record.

use super::completion;
use crate::failure::{Exit, Failure};
use crate::gauges;
use crate::output;

/// Prints the completion script of a shell.
pub(crate) fn print_completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let script = completion::script(&shell.to_string());
    let script = script.ok_or_else(|| Failure::usage(format!("no completion for {shell}")))?;
    output::print(&script);
    Ok(Exit::Success)
}

/// Prints the JSON Schema of the record.
pub(crate) fn print_schema() -> Result<Exit, Failure> {
    let schema = nodegauge_measure::schema::record_schema(gauges::registry());
    output::print(&output::json(&schema)?);
    Ok(Exit::Success)
}
