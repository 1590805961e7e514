//! Implementation of the command `nodegauge report`.

use super::history::find;
use crate::args::DatabaseArgs;
use crate::args::report::ReportArgs;
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::output::{self, Sink};
use crate::session;
use nodegauge_history::RunFilter;
use nodegauge_measure::legible;
use nodegauge_measure::record::Record;
use nodegauge_report::export::{Document, ExportInput, Exporter, RelatedRuns, file_stem};
use nodegauge_report::{Conditions, run, trend};
use std::path::Path;
use std::slice::from_ref;

/// Maximum number of earlier saved runs of the node that a report reads.
const MAX_EARLIER_RUNS: usize = 40;

pub(crate) fn execute(args: &ReportArgs) -> Result<Exit, Failure> {
    if let Some(label) = &args.trend {
        return write_trend(label, args);
    }
    let records = args.runs.iter().map(|run| find(run, &args.db));
    let records: Vec<Record> = records.collect::<Result<_, _>>()?;
    let conditions = Conditions {
        expect: &args.conditions.expect,
        accept_suspect: args.conditions.accept_suspect,
        strict: args.conditions.strict,
    };
    let registry = gauges::registry();
    let export = ExportInput {
        records: &records,
        asked: &args.runs,
        conditions,
        gauges: &GAUGES,
        registry,
        related: &args.db,
    };
    let format = args.format.0;
    let documents = format.export(&export)?;
    let default = format.default_file(&records);
    let path = args.output.as_deref().or(default.as_deref()).unwrap_or("-");
    write(format, &documents, path)?;
    Ok(report_unmet(&records, args))
}

/// Prints the conditions that are not met, and returns the exit code. Invalid figures also fail if there are
/// conditions, with `--strict`, and with a format that reports failures. Such a format also fails for incomplete runs.
fn report_unmet(records: &[Record], args: &ReportArgs) -> Exit {
    let conditions = &args.conditions;
    let reports_failures = args.format.0.reports_failures();
    let has_conditions = !conditions.expect.is_empty() || conditions.reference.is_some();
    let asked = reports_failures || conditions.strict || has_conditions;
    let unmet = records.iter().zip(run::run_names(records)).filter(|(record, name)| {
        let run = if records.len() > 1 { format!("{name}: ") } else { String::new() };
        let unmet = session::report_unmet_conditions(conditions, record, &run, false);
        unmet || session::has_invalid_figure(record) || reports_failures && !record.complete
    });
    if asked && unmet.count() > 0 { Exit::Unmet } else { Exit::Success }
}

/// Writes a document to `path`. If there are several documents, the file name of each contains the name of the
/// document; only one can be written to standard output.
fn write(format: &dyn Exporter, documents: &[Document], path: &str) -> Result<(), Failure> {
    let to_stdout = Sink::from(path) == Sink::Stdout;
    if to_stdout && documents.len() > 1 {
        let parts = documents.iter().filter_map(|one| one.part);
        let files: Vec<String> =
            parts.map(|part| format!("NAME-{part}.{}", format.extension())).collect();
        return Err(Failure::usage(format!(
            "{} writes {} documents for these runs, and only one can go to standard output",
            format.name(),
            documents.len(),
        ))
        .hint(format!(
            "--output NAME.{} writes {}",
            format.extension(),
            files.join(" and ")
        )));
    }
    for document in documents {
        match document.part {
            Some(part) if !to_stdout => {
                put(&part_path(path, part, format.extension()), &document.text)?;
            }
            _ => put(path, &document.text)?,
        }
    }
    Ok(())
}

/// Returns the path of the document `part`: `DIR/NAME-PART.END` for `DIR/NAME.END`. If the name has no extension, that
/// of the format is added.
fn part_path(path: &str, part: &str, extension: &str) -> String {
    let file = Path::new(path);
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let ending = file.extension().unwrap_or(extension.as_ref()).to_string_lossy();
    file.with_file_name(format!("{stem}-{part}.{ending}")).to_string_lossy().into_owned()
}

/// Writes a report and prints its path, unless it goes to standard output.
fn put(path: &str, text: &str) -> Result<(), Failure> {
    let sink = Sink::from(path);
    sink.write(text)?;
    if sink != Sink::Stdout {
        output::print(&format!("{:11}{}\n", "report", legible::path(path)));
    }
    Ok(())
}

/// Writes a page that shows the runs with a label over time.
fn write_trend(label: &str, args: &ReportArgs) -> Result<Exit, Failure> {
    let filter = RunFilter { any_label: Some(label.to_owned()), ..args.saved.filter() };
    let title = file_stem(&format!("trend-{label}"));
    let format = args.format.0;
    let Some(render) = format.renderer() else {
        return Err(Failure::usage("--trend requires --format html").hint("history list --csv"));
    };
    let mut runs = trend::TrendRuns::default();
    let registry = gauges::registry();
    if let Some(store) = session::open_store_to_read(&args.db)? {
        // Records are read one after another, because there may be thousands, each with all its samples.
        for id in store.ids(&filter)?.iter().rev() {
            runs.add(&store.find(id)?, &GAUGES, registry);
        }
    }
    if runs.count() == 0 {
        return Err(Failure::usage(format!("no saved run with the label '{label}' is selected"))
            .hint("nodegauge history list --all"));
    }
    let default = format!("{title}.{}", format.extension());
    let path = args.output.as_deref().unwrap_or(&default);
    put(path, &render(&runs.page(label), &title))?;
    Ok(Exit::Success)
}

impl RelatedRuns for DatabaseArgs {
    fn earlier_runs(&self, record: &Record) -> Result<Vec<Record>, Failure> {
        let host = record.machine.host.clone();
        let store = session::open_store_to_read(self)?;
        let Some(store) = store.filter(|_| host.is_some()) else { return Ok(Vec::new()) };
        let newest = RunFilter {
            host,
            own_only: true,
            limit: Some(MAX_EARLIER_RUNS),
            ..RunFilter::default()
        };
        let mut lines = store.list(&newest)?;
        lines.retain(|line| line.complete && line.started < record.started);
        Ok(lines.iter().map(|line| store.find(&line.id)).collect::<Result<_, _>>()?)
    }

    fn repetitions(&self, record: &Record) -> Vec<Record> {
        if record.machine.is_imported() {
            return Vec::new();
        }
        let Ok(Some(store)) = session::open_store_to_read(self) else { return Vec::new() };
        store.related_runs(from_ref(record)).unwrap_or_default()
    }
}
