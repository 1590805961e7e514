//! `nodegauge stream --tune`, and what it chose before.

use crate::args::{Database, StreamArgs};
use crate::commands::{places, stream};
use crate::failure::{Exit, Failure};
use crate::session;
use nodegauge_gauge::{Planned, Site};
use nodegauge_history::Store;
use nodegauge_measure::compare::machine_changes;
use nodegauge_measure::record::Record;
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_memory::GAUGE;
use nodegauge_memory::config::TuneConfig;
use nodegauge_memory::tune::{Choice, TunePlan};
use nodegauge_placement::MemoryPolicy;
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(30);

pub(crate) fn execute(args: &StreamArgs) -> Result<Exit, Failure> {
    let site = session::site(&args.common)?;
    let planned = places::plan(&args.placement, &site.topology)?;
    if planned.policy != MemoryPolicy::Default {
        return Err(Failure::usage(
            "--tune places memory where the threads are\nhint: leave out --numa",
        ));
    }
    let options = stream::options(&args.arrays, &args.common, &planned, BUDGET);
    let (_, notices) = stream::one_placement(planned, "--tune")?;
    let threads = args.placement.threads.as_ref().and_then(|counts| counts.single());
    let (request, _) = places::request(&args.placement, threads)?;
    let plan = TunePlan::new(&site, request, options, notices)?;
    session::conduct(&args.common, site, |site, p| Box::new(plan).run(site, p), stream::shown)
}

/// A choice that was remembered, and what the user should know about it.
pub(crate) struct Remembered {
    /// The choice, when this is still the machine that it was made on.
    pub(crate) choice: Option<Choice>,
    /// Where it comes from, or why it is not taken.
    pub(crate) notice: Notice,
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
    let (choice, text) = match machine_changes(&record.machine, &node.machine).first() {
        None => {
            let text = format!("as tuned on {day} (run {id}); --untuned starts from nothing");
            (Some(choice), text)
        }
        Some(change) => {
            let text = format!(
                "what was tuned on {day} (run {id}) is not used, for the machine has changed \
                 ({change}); tune again: nodegauge stream --tune"
            );
            (None, text)
        }
    };
    Some(Remembered { choice, notice: Notice::new(NoticeId::Remembered, GAUGE, text) })
}

fn choice_of(record: &Record) -> Option<Choice> {
    let chosen = record.measurements.iter().find(|m| m.test == "tune" && m.name == "choice")?;
    Choice::of_config(&chosen.read_config::<TuneConfig>().choice?)
}
