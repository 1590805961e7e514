//! Interleaved runs of two commands in the order A B B A, so that a linear drift affects both commands equally.

mod names;

use crate::caller::Caller;
use crate::saving::SavingContext;
use crate::signals::Signals;
use crate::started::{command_job, run_for_record};
use nodegauge_analysis::compare::{COMPARED_LABEL, Side, TURNS_LABEL};
use nodegauge_history::{HistoryFile, Store};
use nodegauge_measure::{Failure, Observer, record};
use nodegauge_toolchain::CommandLine;
use std::time::{Duration, Instant};

/// Order of the commands in a block; 0 is command A, and 1 is command B.
const BLOCK: [usize; 4] = [0, 1, 1, 0];
/// Time limit of a run: a hundred days, which is practically unlimited.
const LIMIT: Duration = Duration::from_secs(100 * 24 * 3600);

/// Request for interleaved runs of two commands.
#[derive(Debug, Clone)]
pub struct InterleavedRunsRequest {
    /// Commands A and B, as typed.
    pub commands: Vec<CommandLine>,
    /// Number of blocks.
    pub blocks: u32,
    /// True if the runs are saved.
    pub is_saved: bool,
    /// History in which the runs are saved, and which the commands read.
    pub history: HistoryFile,
}

/// Runs of both commands, from complete blocks only.
pub struct InterleavedRuns {
    /// Runs of A and runs of B.
    pub sides: [Side; 2],
    /// Description of the saved runs: their number, the path of the history, and their labels.
    pub saved: Option<String>,
    /// Number of runs that could not be saved.
    pub unsaved_count: usize,
    /// Signal that ended the runs early, if any.
    pub signal: Option<u8>,
}

impl InterleavedRunsRequest {
    /// Runs both commands in blocks, and saves every run. `progress` creates the observer for the progress display.
    ///
    /// # Errors
    /// Fails if the history cannot be opened, or if a command fails.
    pub fn run<P: Observer>(
        &self,
        caller: &Caller,
        progress: impl FnOnce(&Signals) -> P,
    ) -> Result<InterleavedRuns, Failure> {
        let mut store = if self.is_saved { Some(self.history.open()?) } else { None };
        let started = Instant::now();
        let mut unsaved_count = 0;
        let signals = Signals::listen()?;
        let mut progress = progress(&signals);
        let id = record::new_id();
        let labels = ["A", "B"].map(|side| format!("{id}-{side}"));
        let mut jobs = Vec::new();
        for command in &self.commands {
            jobs.push(command_job(command, &self.history, LIMIT, caller)?);
        }
        let names = names::names([&self.commands[0], &self.commands[1]]);
        let mut sides = names.clone().map(|asked| Side { asked, ..Side::default() });
        'blocks: for block in 0..self.blocks {
            for (turn, side) in BLOCK.into_iter().enumerate() {
                let command = &self.commands[side];
                progress.begin_phase(&format!("block {} of {}: {command}", block + 1, self.blocks));
                let share = (f64::from(block) + turn as f64 / 4.0) / f64::from(self.blocks);
                progress.report_progress(share, "");
                let run = run_for_record(command, &jobs[side], &signals, caller)?;
                let whole = run.filter(|run| run.complete || !signals.is_received());
                let Some(mut latest_run) = whole else { break 'blocks };
                latest_run.labels.insert(TURNS_LABEL.to_owned(), labels[side].clone());
                if names[0] != names[1] {
                    latest_run.labels.insert(COMPARED_LABEL.to_owned(), names[side].clone());
                }
                if let Some(store) = &mut store {
                    let saving = SavingContext {
                        history: &self.history,
                        signals: &signals,
                        elapsed: started.elapsed(),
                        outputs: caller.outputs,
                    };
                    if let Err(failure) = saving.save(store, &latest_run, None) {
                        caller.outputs.print_error(&failure.to_string());
                        unsaved_count += 1;
                    }
                }
                sides[side].runs.push(latest_run);
            }
        }
        let runs: usize = sides.iter().map(|side| side.runs.len()).sum();
        let saved = store.as_ref().map(|store| in_words(store, runs - unsaved_count, &labels));
        let whole = sides.iter().map(|side| side.runs.len() / 2 * 2).min().unwrap_or(0);
        sides.iter_mut().for_each(|side| side.runs.truncate(whole));
        Ok(InterleavedRuns { sides, saved, unsaved_count, signal: signals.received_signal() })
    }
}

/// Describes where the runs were saved, and with which labels.
fn in_words(store: &Store, runs: usize, [a, b]: &[String; 2]) -> String {
    format!(
        "{runs} runs in {}, labels {TURNS_LABEL}={a} and {TURNS_LABEL}={b}",
        store.path().display()
    )
}
