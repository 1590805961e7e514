//! `nodegauge report`.

use super::compare::others as runs_like;
use super::history::{find, open_to_read};
use crate::args::Database;
use crate::args::report::{Format, ReportArgs};
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::output::{self, Sink};
use crate::session;
use nodegauge_gauge::view::Page;
use nodegauge_history::RunFilter;
use nodegauge_measure::record::Record;
use nodegauge_report::{html, run, several};
use std::slice::from_ref;

/// Newest saved runs among which other nodes' figures are looked for.
const OTHERS: usize = 40;

/// Most runs that stand side by side.
const SIDE_BY_SIDE: usize = 16;

pub(crate) fn execute(args: &ReportArgs) -> Result<Exit, Failure> {
    let records = args.runs.iter().map(|run| find(run, &args.db));
    let records: Vec<Record> = records.collect::<Result<_, _>>()?;
    match args.format {
        Format::Html => page(&records, args)?,
        Format::Jsonl => {
            write(args, records.iter().map(output::json_line).collect::<Result<_, _>>()?)?
        }
    }
    Ok(judged(&records, args))
}

/// Whether the figures are as the conditions ask, said on standard error where they are not.
fn judged(records: &[Record], args: &ReportArgs) -> Exit {
    let conditions = &args.conditions;
    let asked = conditions.strict || !conditions.expect.is_empty();
    let several = records.len() > 1;
    let names = run::names(records);
    let unmet = records.iter().zip(&names).filter(|(record, name)| {
        let run = if several { format!("{name}: ") } else { String::new() };
        let unmet = session::unmet(conditions, record, &run, false);
        unmet || session::has_invalid(record)
    });
    match asked && unmet.count() > 0 {
        true => Exit::Unmet,
        false => Exit::Success,
    }
}

/// Writes a text for other tools, to standard output unless it is to go elsewhere.
fn write(args: &ReportArgs, text: String) -> Result<(), Failure> {
    put(args.output.as_deref().unwrap_or("-"), &text)
}

/// Writes a report; says where, unless it is standard output.
fn put(path: &str, text: &str) -> Result<(), Failure> {
    let sink = Sink::from(path);
    sink.write(text)?;
    if sink != Sink::Stdout {
        output::print(&format!("{:11}{path}\n", "report"));
    }
    Ok(())
}

fn page(records: &[Record], args: &ReportArgs) -> Result<(), Failure> {
    let (page, name) = match records {
        [record] => {
            let others = others(record, &args.db)?;
            (run::whole(record, &GAUGES, &others), file_name(record))
        }
        several => side_by_side(several, args)?,
    };
    let default = format!("{name}.html");
    let path = args.output.as_deref().unwrap_or(&default);
    put(path, &html::page(&page, &name))
}

/// The page of several runs, and what its file is called.
fn side_by_side(runs: &[Record], args: &ReportArgs) -> Result<(Page, String), Failure> {
    if runs.len() > SIDE_BY_SIDE {
        return Err(Failure::usage(format!(
            "{} runs are too many to stand side by side\nhint: give at most {SIDE_BY_SIDE}",
            runs.len()
        )));
    }
    for (i, run) in runs.iter().enumerate() {
        if let Some(first) = runs[..i].iter().position(|known| known.id == run.id) {
            let [a, b] = [first, i].map(|at| &args.runs[at]);
            return Err(Failure::usage(format!(
                "'{a}' and '{b}' are one run, {}\nhint: name each run once",
                run.id
            )));
        }
    }
    let store = open_to_read(&args.db)?;
    // What cannot be read tells nothing of how runs differ.
    let like = |run: &Record| {
        let store = store.as_ref().filter(|_| !run.machine.is_imported());
        store.and_then(|store| runs_like(store, from_ref(run)).ok()).unwrap_or_default()
    };
    let page = several::page(runs, &GAUGES, &gauges::registry(), &like);
    Ok((page, format!("{}-and-{}-more", file_name(&runs[0]), runs.len() - 1)))
}

/// `nodegauge-ID`; a record from a file may have anything as its identifier.
fn file_name(record: &Record) -> String {
    let id = record.id.chars().filter(char::is_ascii_alphanumeric);
    format!("nodegauge-{}", id.take(40).collect::<String>())
}

/// Saved runs to set beside: those of other nodes first, newest first.
fn others(record: &Record, db: &Database) -> Result<Vec<Record>, Failure> {
    let Some(store) = open_to_read(db)? else { return Ok(Vec::new()) };
    let newest = RunFilter { limit: Some(OTHERS), ..RunFilter::default() };
    let mut lines = store.list(&newest)?;
    lines.retain(|line| line.complete && line.id != record.id);
    lines.sort_by_key(|line| line.host == record.machine.host);
    Ok(lines.iter().map(|line| store.find(&line.id)).collect::<Result<_, _>>()?)
}
