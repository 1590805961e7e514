//! `nodegauge history import`: saves records from other histories, and outputs of other programs as records.

use crate::args::DatabaseArgs;
use crate::commands::read::{self, FileRuns, RunDescription, shown};
use crate::failure::{Exit, Failure};
use crate::gauges;
use crate::output;
use crate::session;
use nodegauge_history::{ImportResult, records};
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::Status;
use std::path::{Path, PathBuf};

/// Imports files with records from other histories, and files with outputs of other programs. All outputs are parsed
/// before anything is saved.
pub(super) fn execute(
    files: &[PathBuf],
    described: &RunDescription<'_>,
    db: &DatabaseArgs,
) -> Result<Exit, Failure> {
    let machine = described.machine()?;
    let mut outputs: Vec<(&Path, FileRuns)> = Vec::new();
    let mut exports: Vec<(&Path, String)> = Vec::new();
    let names = gauges::registry().former_names();
    for file in files {
        let text = read::read_text(file)?;
        let exported = records(file, &text, names).is_some();
        if exported {
            exports.push((file, text))
        } else {
            let command = ["history", "import"];
            let mut runs = FileRuns::read(file, &text, described, &machine, &command)?;
            if runs.records.is_empty() && !runs.unread.is_empty() {
                return Err(runs.unread.remove(0));
            }
            outputs.push((file, runs))
        }
    }
    if let (Some(option), Some((file, _))) = (described.option(), exports.first()) {
        let file = shown(file);
        let what = option.trim_start_matches("--");
        return Err(Failure::usage(format!(
            "{option}: the runs in {file} already contain their {what}"
        ))
        .hint(format!("leave out {option}")));
    }
    let mut store = session::open_store(db)?;
    for (file, text) in &exports {
        let ImportResult { saved, known } = store.import(|| {
            records(file, text, names).into_iter().flatten().map(|record| {
                let mut record = record?;
                record.labels.extend(described.labels.iter().cloned());
                Ok(record)
            })
        })?;
        let known = if known > 0 { format!(", {known} already saved") } else { String::new() };
        output::print(&format!("{}: {} saved{known}\n", shown(file), counted(saved, "run")));
    }
    let mut exit = Exit::Success;
    for (file, runs) in &outputs {
        for record in &runs.records {
            store.save(record)?;
            output::print(&format!("{} {}\n", record.id, shown(file)));
            let invalid = record.measurements.iter().find(|m| m.validity.status == Status::Invalid);
            if let Some(reason) = invalid.and_then(|m| m.validity.reasons.first()) {
                output::error(&format!("{}: saved without a result: {reason}", shown(file)));
                exit = Exit::Unmet;
            }
        }
        runs.report();
        if !runs.unread.is_empty() {
            exit = Exit::Usage;
        }
    }
    Ok(exit)
}

#[cfg(test)]
mod tests;
