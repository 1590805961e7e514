//! `nodegauge report`.

use super::history::{find, open_to_read};
use crate::args::{Database, ReportArgs};
use crate::failure::{Exit, Failure};
use crate::gauges::GAUGES;
use crate::output::{self, Sink};
use nodegauge_history::RunFilter;
use nodegauge_measure::record::Record;
use nodegauge_report::{html, run};

/// Newest saved runs among which other nodes' figures are looked for.
const OTHERS: usize = 40;

pub(crate) fn execute(args: &ReportArgs) -> Result<Exit, Failure> {
    let record = find(&args.run, &args.db)?;
    let others = others(&record, &args.db)?;
    let name = file_name(&record);
    let default = format!("{name}.html");
    let path = args.output.as_deref().unwrap_or(&default);
    let sink = Sink::from(path);
    sink.write(&html::page(&run::whole(&record, &GAUGES, &others), &name))?;
    if sink != Sink::Stdout {
        output::print(&format!("{:11}{path}\n", "report"));
    }
    Ok(Exit::Success)
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
