//! Series: the only code that measures the cells of a gauge in turns and that handles failing turns.
//!
//! A gauge provides its cells ([`Cells`]), the policy and the limits. The series measures the cells interleaved
//! ([`Schedule`]), and handles failures in the same way for every gauge:
//!
//! - A failing turn ends its cell. The loss of a shared target (a device, a rank, a launcher) ends the series. Samples
//!   are kept in both cases, and a turn is not repeated after a failure.
//! - A run without counting samples fails with the exit code of the failure. Otherwise the figures of lost cells are
//!   invalid, and the run is incomplete.
//! - If the user interrupted a turn, its error is an interruption, not a failure. A cell returns no sample for an
//!   incomplete measurement.
//!
//! A reference program runs between native turns ([`Series::run_reference_program`]). If it fails, the native figures
//! are kept, and the run is incomplete.

pub mod alteration;
mod reference;

pub use reference::{ProgramRunner, ReferenceProgramRun};

use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Status};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::{Sample, SamplesByRegime};
use nodegauge_measure::schedule::{
    Latest, RepetitionPolicy, RunLimits, Schedule, Turn, TurnFailure,
};
use nodegauge_measure::{Failure, Observer, Outcome};
use std::collections::BTreeMap;
use std::time::Duration;

/// Cells of a series. They may share a target, such as a team of threads or a device.
pub trait Cells {
    /// Measures a cell once. Returns no sample if the cell is finished.
    ///
    /// Fails if the cell, or a target that it shares with other cells, cannot be measured.
    fn turn(&mut self, turn: Turn) -> Result<Vec<Sample>, TurnFailure>;
}

impl<F, E> Cells for F
where
    F: FnMut(Turn) -> Result<Vec<Sample>, E>,
    E: Into<TurnFailure>,
{
    fn turn(&mut self, turn: Turn) -> Result<Vec<Sample>, TurnFailure> {
        self(turn).map_err(Into::into)
    }
}

/// Early end of the rounds.
enum Cut {
    /// The shared target of the cells is lost.
    Lost(Failure),
    /// The time of the run ended during a turn.
    OutOfTime,
    /// The user interrupted the run during a turn.
    Interrupted,
}

/// Cells that are measured in turns, with their samples and failures.
pub struct Series {
    /// Order of the turns, and the samples of each cell.
    pub schedule: Schedule,
    stop: StopReason,
    /// Time from the start of the run to the first turn.
    setup_time: Duration,
    lost: BTreeMap<usize, Failure>,
    /// Loss of a shared target.
    target: Option<Failure>,
    /// Failure of a reference program.
    refused: Option<Failure>,
    /// Time of reference programs and of the native turns after them. It is not part of the budget.
    time_outside_budget: Duration,
}

impl Series {
    /// Creates a series of `cells` cells.
    pub fn new(policy: RepetitionPolicy, limits: RunLimits, cells: usize) -> Self {
        let schedule = Schedule::new(policy, limits, cells);
        Self {
            schedule,
            stop: StopReason::Stable,
            setup_time: Duration::ZERO,
            lost: BTreeMap::new(),
            target: None,
            refused: None,
            time_outside_budget: Duration::ZERO,
        }
    }

    /// Sets the samples that the set-up of the cells has already taken.
    #[must_use]
    pub fn with_setup_samples(mut self, samples: Vec<Vec<Sample>>) -> Self {
        self.schedule.samples = samples;
        self
    }

    /// Marks a cell as lost before its first turn, e.g. because its set-up failed.
    pub fn mark_lost(&mut self, cell: usize, why: Failure) {
        self.schedule.mark_lost(cell);
        self.lost.entry(cell).or_insert(why);
    }

    /// Measures the cells in rounds until the policy or the limits are reached, or the user interrupts the run.
    /// `latest` describes the latest samples for the progress display.
    ///
    /// Fails if turns failed and no cell has a counting sample.
    pub fn run(
        &mut self,
        cells: &mut dyn Cells,
        observer: &mut dyn Observer,
        latest: Option<Latest<'_>>,
    ) -> Result<(), Failure> {
        self.setup_time = self.schedule.limits.elapsed();
        let shared = SharedObserver::new(observer);
        let mut lost = std::mem::take(&mut self.lost);
        let ended = self.schedule.run(&mut &shared, latest, |turn| {
            if lost.contains_key(&turn.cell) {
                return Ok(Vec::new());
            }
            match alteration::turn(cells, turn) {
                Ok(samples) => Ok(samples),
                Err(_) if shared.is_interrupted() => Err(Cut::Interrupted),
                Err(TurnFailure::Cell(failure)) => {
                    lost.insert(turn.cell, failure);
                    Ok(Vec::new())
                }
                Err(TurnFailure::Target(failure)) => Err(Cut::Lost(failure)),
                Err(TurnFailure::OutOfTime) => Err(Cut::OutOfTime),
            }
        });
        lost.keys().for_each(|cell| self.schedule.mark_lost(*cell));
        self.lost = lost;
        self.stop = match ended {
            Ok(_) | Err(Cut::Interrupted | Cut::OutOfTime) if shared.is_interrupted() => {
                StopReason::Interrupted
            }
            Ok(stop) => stop,
            Err(Cut::Interrupted) => StopReason::Interrupted,
            Err(Cut::OutOfTime) => StopReason::Budget,
            Err(Cut::Lost(failure)) => {
                self.target = Some(failure);
                StopReason::Lost
            }
        };
        if self.stop == StopReason::Interrupted {
            return Ok(());
        }
        match self.failure() {
            Some(failure) if !self.schedule.has_any_counted_sample() => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// Measures each of the given cells `rounds` more times, in the given order. Lost cells are skipped. Nothing is
    /// measured after the loss of the target or an interruption.
    pub fn remeasure(
        &mut self,
        which: &[usize],
        rounds: usize,
        cells: &mut dyn Cells,
        observer: &dyn Observer,
    ) {
        for round in 0..rounds {
            for cell in which {
                if self.has_ended() || self.lost.contains_key(cell) {
                    continue;
                }
                let taken = alteration::turn(cells, Turn { cell: *cell, round, remaining: None });
                match taken {
                    Ok(samples) => self.schedule.samples[*cell].extend(samples),
                    Err(_) if observer.is_interrupted() => {}
                    Err(TurnFailure::Cell(failure)) => self.mark_lost(*cell, failure),
                    Err(TurnFailure::Target(failure)) => {
                        self.stop = StopReason::Lost;
                        self.target = Some(failure);
                    }
                    Err(TurnFailure::OutOfTime) => return,
                }
                if observer.is_interrupted() {
                    self.stop = StopReason::Interrupted;
                }
            }
        }
    }

    /// True if no further turn is possible: the user interrupted the run, or the target is lost.
    pub fn has_ended(&self) -> bool {
        matches!(self.stop, StopReason::Interrupted | StopReason::Lost)
    }

    /// Returns the reason why the series ended.
    pub fn stop_reason(&self) -> StopReason {
        self.stop
    }

    /// Replaces the reason why the series ended by a more precise one of the gauge, unless the series was cut short.
    pub fn set_stop_reason(&mut self, stop: StopReason) {
        if !self.has_ended() {
            self.stop = stop;
        }
    }

    /// Returns the failure of a cell; `None` if the cell is not lost. For a cell without counting samples, the loss of
    /// the target is its failure.
    pub fn cell_failure(&self, cell: usize) -> Option<&Failure> {
        let unmeasured = self.target.as_ref().filter(|_| !self.schedule.has_counted_sample(cell));
        self.lost.get(&cell).or(unmeasured)
    }

    /// Returns the cells that are not lost, ascending.
    pub fn remaining_cells(&self) -> Vec<usize> {
        self.schedule.remaining_cells()
    }

    /// Returns the cells that are not lost and have no sample that counts, ascending.
    pub fn unmeasured_cells(&self) -> Vec<usize> {
        let remaining_cells = self.remaining_cells().into_iter();
        remaining_cells.filter(|cell| !self.schedule.has_counted_sample(*cell)).collect()
    }

    /// Returns the loss of the shared target; `None` if it is not lost.
    pub fn target_loss(&self) -> Option<&Failure> {
        self.target.as_ref()
    }

    /// Returns the failure of the run: the loss of the target, otherwise the failure of the first lost cell.
    pub fn failure(&self) -> Option<&Failure> {
        self.target.as_ref().or_else(|| self.lost.values().next())
    }

    /// Applies the rule of doubt to a figure. The figure of a lost cell becomes invalid, with the reason.
    #[must_use]
    pub fn judge_figure(&self, cell: usize, m: Measurement) -> Measurement {
        let mut validity = m.validity.clone();
        if let Some(failure) = self.cell_failure(cell) {
            validity.mark_invalid(lost_in_words(failure));
        }
        m.with_validity(validity)
    }

    /// Returns the figure `m` with the samples of part number `part` of a cell, from `regime`; `value` converts seconds
    /// to a value. The figure of a lost cell is invalid; without counting samples it has no value. For other cells
    /// without counting samples, returns `None`. The figure has the doubts of its samples, e.g. that they are disturbed
    /// or belong to another regime.
    pub fn figure(
        &self,
        regime: &SamplesByRegime,
        (cell, part): (usize, usize),
        m: Measurement,
        quoted: QuotedStatistic,
        value: &dyn Fn(f64) -> f64,
    ) -> Option<Measurement> {
        match regime.cell_samples(cell) {
            Some(timed) => {
                let mut m = m.with_timed_samples(quoted, timed, part, value);
                for doubt in regime.doubts(cell, part, regime.is_guest()) {
                    m.doubt(Status::Suspect, doubt);
                }
                Some(self.judge_figure(cell, m))
            }
            None => self.cell_failure(cell).map(|_| self.judge_figure(cell, m)),
        }
    }

    /// Sorts the samples by regime; `known` contains the round trips of other runs.
    pub fn samples_by_regime(&self, known: &[f64]) -> SamplesByRegime {
        SamplesByRegime::new(self.schedule.samples.clone(), known)
    }

    /// Stores the end of the series in the outcome: the reason, the failure that makes the run incomplete, and the
    /// times that show whether the run was late. The failure of a reference program takes precedence over that of a
    /// lost cell, whose figures contain the reason anyway.
    pub fn store_end(&self, outcome: &mut Outcome) {
        outcome.stop = Some(self.stop);
        outcome.set_run_time(&self.schedule.limits, self.setup_time);
        if outcome.failure.is_none() {
            outcome.failure = self.refused.as_ref().or(self.failure()).cloned();
        }
    }
}

/// Returns the reason why the figure of a lost cell is invalid.
pub fn lost_in_words(failure: &Failure) -> String {
    format!("not measured to the end: {}", failure.reason())
}

#[cfg(test)]
mod tests;
