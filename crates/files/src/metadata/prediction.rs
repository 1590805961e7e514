//! Prediction of the time of a run, from short turns of each kind of cell in its folder.

use super::cells::MetadataCell;
use super::plan::MetadataPlan;
use crate::GAUGE;
use nodegauge_blocks::cell::EarlyEnd;
use nodegauge_blocks::entries::{EntryContext, EntryRunner};
use nodegauge_measure::schedule::{Predictable, PredictedTime, policy};
use nodegauge_measure::{Failure, Notice, NoticeId, clock};
use std::time::Duration;

/// Number of files per worker in the first turn from which the time is predicted.
const FIRST_TURN_FILES: u64 = 8;
/// Number of files per worker in the second turn from which the time is predicted.
const SECOND_TURN_FILES: u64 = 64;
/// Maximum time of the first turn at which a second turn with more files is also measured.
const SLOW: Duration = Duration::from_millis(40);
/// Minimum number of files per worker to which a run is shortened.
const FEWEST_FILES: u64 = 64;

/// Time of a turn in seconds: a fixed part, and a part per file of one worker.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TurnTime {
    fixed: f64,
    of_file: f64,
}

impl TurnTime {
    /// Returns the time of a turn, computed from the seconds of turns with [`FIRST_TURN_FILES`] and
    /// [`SECOND_TURN_FILES`] files. Without the second turn, the fixed part is assumed to be zero.
    fn from_turns(few: f64, more: Option<f64>) -> Self {
        let Some(more) = more else {
            return Self { fixed: 0.0, of_file: few / FIRST_TURN_FILES as f64 };
        };
        let of_file = ((more - few) / (SECOND_TURN_FILES - FIRST_TURN_FILES) as f64).max(0.0);
        Self { fixed: (few - of_file * FIRST_TURN_FILES as f64).max(0.0), of_file }
    }
}

/// Run whose numbers of files and cells are reduced until its predicted time is within the budget.
pub(super) struct PredictedTurns<'a> {
    plan: &'a MetadataPlan,
    /// Predicted time of a turn of each cell.
    times: Vec<TurnTime>,
    /// Number of files per worker.
    pub(super) files: u64,
    /// Number of cells that are kept; the cells after them are left out.
    pub(super) kept_cells: usize,
}

impl<'a> PredictedTurns<'a> {
    /// Measures turns for the prediction, with the first number of workers.
    ///
    /// # Errors
    /// Fails if an operation fails. An interruption by the user is not an error.
    pub(super) fn new(
        plan: &'a MetadataPlan,
        runner: &mut EntryRunner<'_>,
        contexts: &[EntryContext<'_>],
    ) -> Result<Self, Failure> {
        let mut known: Vec<(MetadataCell, TurnTime)> = Vec::new();
        let mut times = Vec::new();
        for cell in &plan.cells {
            let time = match known.iter().find(|(like, _)| like.takes_similar_time(cell)) {
                Some((_, time)) => *time,
                None => probe(plan, cell, runner, &contexts[cell.path])?,
            };
            known.push((*cell, time));
            times.push(time);
        }
        Ok(Self { plan, times, files: plan.files, kept_cells: plan.cells.len() })
    }

    /// Returns notices about what was reduced or left out.
    pub(super) fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        if self.files < self.plan.files {
            let text = format!(
                "files per worker reduced from {} to {} to keep the budget",
                self.plan.files, self.files
            );
            notices.push(Notice::new(NoticeId::Clamped, GAUGE, text));
        }
        let left_out = &self.plan.cells[self.kept_cells..];
        let names: Vec<String> =
            left_out.iter().map(|cell| cell.in_words(&self.plan.options)).collect();
        if !names.is_empty() {
            let text = format!("left out to keep the budget: {}", names.join("; "));
            let hint = "use a longer --budget, or fewer --files";
            notices.push(Notice::new(NoticeId::Budget, GAUGE, text).hint(hint));
        }
        notices
    }
}

/// Measures the time of a turn for one kind of cell.
fn probe(
    plan: &MetadataPlan,
    cell: &MetadataCell,
    runner: &mut EntryRunner<'_>,
    context: &EntryContext<'_>,
) -> Result<TurnTime, Failure> {
    let few = elapsed(plan, cell, FIRST_TURN_FILES, runner, context)?;
    let more = (few < SLOW.as_secs_f64())
        .then(|| elapsed(plan, cell, SECOND_TURN_FILES, runner, context))
        .transpose()?;
    Ok(TurnTime::from_turns(few, more))
}

/// Runs a turn with `files` files per worker. Returns its time divided by the number of workers, seconds.
fn elapsed(
    plan: &MetadataPlan,
    cell: &MetadataCell,
    files: u64,
    runner: &mut EntryRunner<'_>,
    context: &EntryContext<'_>,
) -> Result<f64, Failure> {
    let begun = clock::now();
    match runner.run_turn(0, &cell.task(&plan.options, files), context) {
        Ok(_) | Err(EarlyEnd::CutShort) => {}
        Err(EarlyEnd::Failed(failure)) => return Err(failure),
    }
    let workers = plan.options.workers[0] as f64;
    Ok(clock::now().saturating_duration_since(begun).as_secs_f64() / workers)
}

impl Predictable for PredictedTurns<'_> {
    fn predicted(&self) -> PredictedTime {
        let mut round = 0.0;
        for (cell, time) in self.plan.cells[..self.kept_cells].iter().zip(&self.times) {
            // The file system may carry out the operations of several workers one after the other.
            let files = self.files as f64 * self.plan.options.workers[cell.workers] as f64;
            round += time.fixed + time.of_file * files;
        }
        let round = Duration::try_from_secs_f64(round).unwrap_or(Duration::MAX / 64);
        let warm_up = 1;
        let rounds = warm_up + policy::METADATA.min_rounds as u32;
        PredictedTime { min: (warm_up + 1) * round, likely: rounds * round }
    }

    fn shorten(&mut self) -> bool {
        if self.plan.options.files.is_none() && self.files > FEWEST_FILES {
            self.files = (self.files / 2).max(FEWEST_FILES);
            return true;
        }
        let can = self.kept_cells > 1;
        self.kept_cells -= usize::from(can);
        can
    }

    fn shortening_options(&self) -> &str {
        "fewer files (--files), threads (--threads) or layouts (--layout)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_time_has_a_fixed_part_and_a_part_per_file() {
        let time = TurnTime::from_turns(0.010, Some(0.066));
        assert!(
            (time.of_file - 1e-3).abs() < 1e-9 && (time.fixed - 0.002).abs() < 1e-9,
            "{time:?}"
        );
        assert_eq!(TurnTime::from_turns(0.8, None), TurnTime { fixed: 0.0, of_file: 0.1 });
        assert_eq!(TurnTime::from_turns(0.01, Some(0.005)), TurnTime { fixed: 0.01, of_file: 0.0 });
    }
}
