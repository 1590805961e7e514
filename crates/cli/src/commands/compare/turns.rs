//! Two commands run alternately, A B B A, so that a linear drift affects both commands equally.

use super::names::names;
use crate::args::CompareArgs;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::saving::Saving;
use crate::session;
use crate::signals::Signals;
use crate::started::{program_of, record_of};
use nodegauge_analysis::compare::{COMPARED, Side, TURNS};
use nodegauge_history::Store;
use nodegauge_measure::Observer;
use nodegauge_measure::record;
use nodegauge_toolchain::CommandLine;
use std::time::{Duration, Instant};

/// Order of the commands in a block; 0 is command A, 1 is command B.
const BLOCK: [usize; 4] = [0, 1, 1, 0];
/// Time limit of a run: a hundred days, which is practically unlimited.
const LIMIT: Duration = Duration::from_secs(100 * 24 * 3600);
/// Runs of both commands from complete blocks, a text with the history path and the labels of the saved runs, and the
/// signal that ended `compare` early, if any.
pub(super) struct Turns {
    pub sides: [Side; 2],
    pub saved: Option<String>,
    /// Number of runs that could not be saved.
    pub unsaved: usize,
    pub signal: Option<u8>,
}

/// Runs both commands alternately and saves every run.
pub(super) fn measure(commands: &[CommandLine], args: &CompareArgs) -> Result<Turns, Failure> {
    let mut store = if args.no_save { None } else { Some(session::open_store(&args.db)?) };
    let started = Instant::now();
    let mut unsaved = 0;
    let signals = Signals::listen()?;
    let mut progress = Progress::new(false, signals.clone(), "compare", None);
    let id = record::new_id();
    let labels = ["A", "B"].map(|side| format!("{id}-{side}"));
    let jobs = commands.iter().map(|command| program_of(command, &args.db, LIMIT));
    let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    let names = names([&commands[0], &commands[1]]);
    let mut sides = names.clone().map(|asked| Side { asked, ..Side::default() });
    'blocks: for block in 0..args.blocks {
        for (turn, side) in BLOCK.into_iter().enumerate() {
            let command = &commands[side];
            progress.phase(&format!("block {} of {}: {command}", block + 1, args.blocks));
            progress.progress((f64::from(block) + turn as f64 / 4.0) / f64::from(args.blocks), "");
            let run = record_of(command, &jobs[side], &signals)?;
            let whole = run.filter(|run| run.complete || signals.received().is_none());
            let Some(mut latest_run) = whole else { break 'blocks };
            latest_run.labels.insert(TURNS.to_owned(), labels[side].clone());
            if names[0] != names[1] {
                latest_run.labels.insert(COMPARED.to_owned(), names[side].clone());
            }
            if let Some(store) = &mut store {
                let elapsed = started.elapsed();
                let saving = Saving { db: &args.db, signals: &signals, elapsed };
                if let Err(failure) = saving.save(store, &latest_run, None) {
                    output::error(&failure.to_string());
                    unsaved += 1;
                }
            }
            sides[side].runs.push(latest_run);
        }
    }
    progress.finish();
    let whole = sides.iter().map(|side| side.runs.len() / 2 * 2).min().unwrap_or(0);
    let path = store.as_ref().map(|store: &Store| store.path().display().to_string());
    let runs: usize = sides.iter().map(|side| side.runs.len()).sum();
    let runs = runs - unsaved;
    let saved = path.map(|path| {
        format!("{runs} runs in {path}, labels {TURNS}={} and {TURNS}={}", labels[0], labels[1])
    });
    sides.iter_mut().for_each(|side| side.runs.truncate(whole));
    Ok(Turns { sides, saved, unsaved, signal: signals.received() })
}
