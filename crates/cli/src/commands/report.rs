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
use nodegauge_measure::stats::Better;
use nodegauge_report::{
    Conditions, github_action_benchmark, html, junit, markdown, openmetrics, run, several, trend,
};
use std::path::Path;
use std::slice::from_ref;

/// Newest saved runs among which other nodes' figures are looked for.
const OTHERS: usize = 40;

/// Most runs that stand side by side.
const SIDE_BY_SIDE: usize = 16;

pub(crate) fn execute(args: &ReportArgs) -> Result<Exit, Failure> {
    if let Some(label) = &args.trend {
        return trend_of(label, args);
    }
    let records = args.runs.iter().map(|run| find(run, &args.db));
    let records: Vec<Record> = records.collect::<Result<_, _>>()?;
    let conditions = Conditions {
        expect: &args.conditions.expect,
        accept_suspect: args.conditions.accept_suspect,
        strict: args.conditions.strict,
    };
    let registry = gauges::registry();
    match args.format {
        Format::Html => page(&records, args)?,
        Format::Md => {
            let ticket = |record: &Record| {
                let page = run::ticket(record, &GAUGES, conditions, &registry);
                markdown::ticket(&page, &run::command(record))
            };
            let tickets: Vec<String> = records.iter().map(ticket).collect();
            write(args, &tickets.join("\n"))?;
        }
        Format::Junit => write(args, &junit::document(&records, conditions, &registry))?,
        Format::Openmetrics => write(args, &openmetrics::text(&records, &registry))?,
        Format::Jsonl => {
            let lines: Result<String, Failure> = records.iter().map(output::json_line).collect();
            write(args, &lines?)?;
        }
        Format::GithubActionBenchmark => benchmarks(&records, args)?,
    }
    Ok(judged(&records, args))
}

/// Whether the figures are as the conditions ask, said on standard error where they are not. Test cases ask that
/// figures be results and runs complete.
fn judged(records: &[Record], args: &ReportArgs) -> Exit {
    let conditions = &args.conditions;
    let tests = args.format == Format::Junit;
    let asked = tests || conditions.strict || !conditions.expect.is_empty();
    let unmet = records.iter().zip(run::names(records)).filter(|(record, name)| {
        let run = if records.len() > 1 { format!("{name}: ") } else { String::new() };
        let unmet = session::unmet(conditions, record, &run, false);
        unmet || session::has_invalid(record) || tests && !record.complete
    });
    match asked && unmet.count() > 0 {
        true => Exit::Unmet,
        false => Exit::Success,
    }
}

/// A list for each direction that the figures have, to a file of its own; to standard output one alone.
fn benchmarks(records: &[Record], args: &ReportArgs) -> Result<(), Failure> {
    let registry = gauges::registry();
    let lists = [("bigger", Better::Higher), ("smaller", Better::Lower)].map(|(name, better)| {
        (name, github_action_benchmark::benchmarks(records, better, &registry))
    });
    let lists: Vec<_> = lists.into_iter().filter(|(_, list)| !list.is_empty()).collect();
    let file = args.output.as_deref().filter(|path| Sink::from(*path) != Sink::Stdout);
    match (file, lists.as_slice()) {
        (_, []) => Err(Failure::usage("there is no figure of which a direction is better")),
        (None, [(_, list)]) => write(args, &output::json(list)?),
        (None, _) => Err(Failure::usage(
            "figures of which more and figures of which less is better are two lists",
        )
        .hint("--output NAME.json writes NAME-bigger.json and NAME-smaller.json")),
        (Some(file), lists) => lists.iter().try_for_each(|(name, list)| {
            let file = Path::new(file);
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let end = file.extension().map_or(".json".into(), |end| format!(".{}", end.display()));
            let path = file.with_file_name(format!("{stem}-{name}{end}"));
            put(&path.to_string_lossy(), &output::json(list)?)
        }),
    }
}

/// Writes a text for other tools, to standard output unless it is to go elsewhere.
fn write(args: &ReportArgs, text: &str) -> Result<(), Failure> {
    put(args.output.as_deref().unwrap_or("-"), text)
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
            (run::whole(record, &GAUGES, &others), file_name(&record.id))
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
            "{} runs are too many to stand side by side",
            runs.len(),
        ))
        .hint(format!("give at most {SIDE_BY_SIDE}")));
    }
    for (i, run) in runs.iter().enumerate() {
        if let Some(first) = runs[..i].iter().position(|known| known.id == run.id) {
            let [a, b] = [first, i].map(|at| &args.runs[at]);
            return Err(Failure::usage(format!("'{a}' and '{b}' are one run, {}", run.id))
                .hint("name each run once"));
        }
    }
    let store = open_to_read(&args.db)?;
    // What cannot be read tells nothing of how runs differ.
    let like = |run: &Record| {
        let store = store.as_ref().filter(|_| !run.machine.is_imported());
        store.and_then(|store| runs_like(store, from_ref(run)).ok()).unwrap_or_default()
    };
    let page = several::page(runs, &GAUGES, &gauges::registry(), &like);
    Ok((page, format!("{}-and-{}-more", file_name(&runs[0].id), runs.len() - 1)))
}

/// The page of the runs with a label in time.
fn trend_of(label: &str, args: &ReportArgs) -> Result<Exit, Failure> {
    if args.format != Format::Html {
        return Err(
            Failure::usage("--trend is a page, of --format html").hint("history list --csv")
        );
    }
    let filter = RunFilter { labelled: Some(label.to_owned()), ..args.which.filter() };
    let mut runs = trend::Runs::default();
    if let Some(store) = open_to_read(&args.db)? {
        // One after another: there may be thousands, each with all its samples.
        for id in store.ids(&filter)?.iter().rev() {
            runs.add(&store.find(id)?, &GAUGES);
        }
    }
    if runs.count() == 0 {
        return Err(Failure::usage(format!("no saved run with the label '{label}' is meant"))
            .hint("nodegauge history list --all"));
    }
    let name = file_name(&format!("trend-{label}"));
    let default = format!("{name}.html");
    let path = args.output.as_deref().unwrap_or(&default);
    put(path, &html::page(&runs.page(label), &name))?;
    Ok(Exit::Success)
}

/// `nodegauge-ID`; a record from a file may have anything as its identifier.
fn file_name(id: &str) -> String {
    let id = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-');
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
