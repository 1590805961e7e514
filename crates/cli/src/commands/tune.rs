//! `nodegauge stream --tune`, and what it chose before.

use crate::args::{Database, StreamArgs};
use crate::commands::{places, stream};
use crate::failure::{Exit, Failure};
use crate::session::{self, Found, Shown};
use nodegauge_gauge::Site;
use nodegauge_history::Store;
use nodegauge_machine::identity;
use nodegauge_measure::Watch;
use nodegauge_measure::record::Record;
use nodegauge_memory::tune::{self, Choice};
use nodegauge_placement::MemoryPolicy;
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(30);
/// Share of the budget for the search; the rest measures what it chose.
const SEARCH: f64 = 0.7;

pub(crate) fn execute(args: &StreamArgs) -> Result<Exit, Failure> {
    let node = session::site(&args.common)?;
    if args.placement.threads.as_ref().is_some_and(|counts| counts.single().is_none()) {
        return Err(Failure::usage(
            "--tune chooses the number of threads, or takes one\nhint: leave out --threads, or give one count",
        ));
    }
    let planned = places::plan(&args.placement, &node.topology)?;
    if planned.policy != MemoryPolicy::Default {
        return Err(Failure::usage(
            "--tune places memory where the threads are\nhint: leave out --numa",
        ));
    }
    let threads = args.placement.threads.as_ref().and_then(|counts| counts.single());
    let (request, _) = places::request(&args.placement, threads)?;
    let mut options = stream::options(args, &planned, BUDGET);
    let all = options.budget;
    options.budget = all.mul_f64(SEARCH);
    // Refused now, or not at all: the first of the space's sites.
    let placement = nodegauge_placement::plan(&node.topology, &request)?;
    nodegauge_memory::stream::plan(&node.topology, &node.machine, &placement, &options)?;
    session::conduct(
        &args.common,
        node,
        |node, progress| {
            let (topology, machine) = (&node.topology, &node.machine);
            let outcome = tune::run(topology, machine, &request, &options, progress)?;
            let mut found = Found { notices: planned.notices.clone(), ..Found::default() };
            let choice = outcome.choice.clone();
            found.extend(Found {
                measurements: outcome.measurements,
                notices: outcome.notices,
                interrupted: choice.is_none() || progress.interrupted(),
                ..Found::default()
            });
            let Some(choice) = choice.filter(|_| !found.interrupted) else { return Ok(found) };
            choice.fill(&mut options);
            options.budget = all.mul_f64(1.0 - SEARCH);
            let placement = nodegauge_placement::plan(topology, &choice.request)?;
            let measured =
                nodegauge_memory::stream::run(topology, machine, &placement, &options, progress)?;
            found.extend(stream::found(Vec::new(), measured));
            Ok(found)
        },
        |record, style| {
            let mut text = nodegauge_report::tune::render(record, style);
            text.push('\n');
            text.push_str(&nodegauge_report::stream::render(record, style));
            Shown::Text(text)
        },
    )
}

/// A choice that was remembered, and what the user should know about it.
pub(crate) struct Remembered {
    /// The choice, when this is still the machine that it was made on.
    pub(crate) choice: Option<Choice>,
    /// Where it comes from, or why it is not taken.
    pub(crate) notice: String,
}

/// What `--tune` chose last on this machine. Without a history that can be read there is none.
pub(crate) fn remembered(db: &Database, node: &Site) -> Option<Remembered> {
    let path = session::store_path(db).ok()?;
    let store = Store::open_to_read(&path).ok()??;
    let record =
        store.newest_with_measurement("tune", "choice", node.machine.host.as_deref()).ok()??;
    let choice = choice_of(&record)?;
    let (day, _) = record.started.split_once('T').unwrap_or((&record.started, ""));
    let id = &record.id;
    Some(match identity::changes(&record.machine, &node.machine).first() {
        None => Remembered {
            choice: Some(choice),
            notice: format!("as tuned on {day} (run {id}); --untuned starts from nothing"),
        },
        Some(change) => Remembered {
            choice: None,
            notice: format!(
                "what was tuned on {day} (run {id}) is not used, for the machine has changed \
                 ({change}); tune again: nodegauge stream --tune"
            ),
        },
    })
}

fn choice_of(record: &Record) -> Option<Choice> {
    let chosen = record.measurements.iter().find(|m| m.test == "tune" && m.name == "choice")?;
    Choice::from_json(chosen.config.get("choice")?)
}
