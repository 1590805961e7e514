//! `nodegauge history import`: saves records from other histories, and outputs of other programs as records.

use crate::args::DatabaseArgs;
use crate::commands::read::{self, ProgramOutputFile, RunDescription, RunReading, shown_path};
use crate::failure::{Exit, Failure};
use crate::gauges;
use crate::output;
use crate::session;
use nodegauge_history::{ImportResult, Store, read_records};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::Status;
use nodegauge_os::Input;
use std::path::{Path, PathBuf};

/// File with outputs of other programs that has been checked, and is read a second time to be saved.
struct OutputFile<'a> {
    path: &'a Path,
    /// Content, if the file is a pipe, which cannot be opened a second time.
    pipe: Option<Input<'static>>,
}

/// Imports files with records of other histories and files with outputs of other programs. All outputs are read once
/// before anything is saved, and again to save them, so that only some of the runs are in memory at any time.
pub(super) fn execute(
    files: &[PathBuf],
    described: &RunDescription<'_>,
    db: &DatabaseArgs,
) -> Result<Exit, Failure> {
    let machine = &described.machine()?;
    let mut outputs: Vec<OutputFile<'_>> = Vec::new();
    let mut exports: Vec<(&Path, String)> = Vec::new();
    let names = gauges::registry().former_names();
    for path in files {
        let input = read::open_input(path)?;
        if let Some(text) = read::record_text(path, &input)? {
            exports.push((path, text));
            continue;
        }
        check(&ProgramOutputFile { path, input: &input, described, machine, command: &COMMAND })?;
        let pipe = input.is_pipe().then_some(input);
        outputs.push(OutputFile { path, pipe });
    }
    if let (Some(option), Some((file, _))) = (described.option(), exports.first()) {
        let file = shown_path(file);
        let what = option.trim_start_matches("--");
        return Err(Failure::usage(format!(
            "{option}: the runs in {file} already contain their {what}"
        ))
        .hint(format!("leave out {option}")));
    }
    let mut store = session::open_store(db)?;
    for (file, text) in &exports {
        let ImportResult { saved, known } = store.import(|| {
            read_records(file, text, names).into_iter().flatten().map(|record| {
                let mut record = record?;
                record.labels.extend(described.labels.iter().cloned());
                Ok(record)
            })
        })?;
        let known = if known > 0 { format!(", {known} already saved") } else { String::new() };
        output::print(&format!(
            "{}: {} saved{known}\n",
            shown_path(file),
            count_in_words(saved, "run")
        ));
    }
    let mut exit = Exit::Success;
    for OutputFile { path, pipe } in outputs {
        let input = match pipe {
            Some(input) => input,
            None => read::open_input(path)?,
        };
        let file = ProgramOutputFile { path, input: &input, described, machine, command: &COMMAND };
        exit = save(&file, &mut store)?.unwrap_or(exit);
    }
    Ok(exit)
}

/// Command that imported records contain.
const COMMAND: [&str; 2] = ["history", "import"];

/// Reads the runs of a file without saving them.
///
/// # Errors
/// Fails if the text cannot be read, or if none of its runs can be read.
fn check(file: &ProgramOutputFile<'_>) -> Result<(), Failure> {
    let mut has_record = false;
    let mut unread = None;
    let refusal = |run| match run {
        RunReading::Read(..) => None,
        RunReading::Unread(failure) => Some(failure),
    };
    file.each_run(&refusal, &mut |failed| {
        has_record |= failed.is_none();
        unread = unread.take().or(failed);
    })?;
    match unread {
        Some(failure) if !has_record => Err(failure),
        _ => Ok(()),
    }
}

/// Saves the runs of a file. Returns the exit code if a run has no result or was not read.
fn save(file: &ProgramOutputFile<'_>, store: &mut Store) -> Result<Option<Exit>, Failure> {
    let shown = shown_path(file.path);
    let mut exit = None;
    let mut cut = Vec::new();
    let mut unread = Vec::new();
    let mut failed = None;
    file.each_run(&|run| run, &mut |run| match run {
        RunReading::Read(record, reason) => {
            if failed.is_some() {
                return;
            }
            if let Err(failure) = store.save(&record) {
                failed = Some(failure);
                return;
            }
            output::print(&format!("{} {shown}\n", record.id));
            let invalid = record.measurements.iter().find(|m| m.validity.status == Status::Invalid);
            if let Some(why) = invalid.and_then(|m| m.validity.reasons.first()) {
                output::print_error_line(&format!("{shown}: saved without a result: {why}"));
                exit = Some(Exit::Unmet);
            }
            cut.extend(reason);
        }
        RunReading::Unread(failure) => unread.push(failure),
    })?;
    for reason in &cut {
        output::print_note(reason);
    }
    for failure in &unread {
        output::print_failure(failure);
    }
    if let Some(failure) = failed {
        return Err(failure.into());
    }
    Ok(if unread.is_empty() { exit } else { Some(Exit::Usage) })
}

#[cfg(test)]
mod tests;
