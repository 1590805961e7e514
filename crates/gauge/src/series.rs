//! Run of cells: the only code that measures the cells of a gauge in turns and decides what a failing turn means.
//!
//! A gauge gives its cells ([`Cells`]), the policy and the limits. The series measures them alternately
//! ([`Schedule`]), under one rule of failure for every gauge:
//!
//! - A failing turn ends its cell. The loss of a shared target (a device, a rank, a launcher) ends the series. Samples
//!   are kept in both cases, and a turn is not repeated after a failure.
//! - A run without any sample that counts fails with the failure's own code. Otherwise the figures of lost cells are
//!   invalid, and the run is incomplete.
//! - The error of a turn that the user interrupted is the interruption, not a failure. A cell returns no sample of a
//!   measurement that was cut short.
//!
//! A reference program runs between native turns ([`Series::around`]). If it fails, the native figures are kept, and the
//! run is incomplete.

pub mod altered;
mod reference;

pub use reference::{ReferenceRun, RunProgram};

use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::record::{Measurement, Quoted, Status};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::samples::{OneRegime, Sample};
use nodegauge_measure::schedule::{Latest, Limits, RepetitionPolicy, Schedule, Turn, TurnFailure};
use nodegauge_measure::{Failure, Observer, Outcome};
use std::collections::BTreeMap;
use std::time::Duration;

/// Cells of a series. They may share a target, such as a team of threads or a device.
pub trait Cells {
    /// Measures a cell once. Returns no sample if the cell is finished.
    ///
    /// # Errors
    /// Fails if the cell or the target that it shares with others cannot be measured.
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
    /// The target that the cells share is lost.
    Lost(Failure),
    /// The time of the run ended within a turn.
    OutOfTime,
    /// The user ended the run within a turn.
    Interrupted,
}

/// Cells that are measured in turns, with their samples and failures.
pub struct Series {
    /// Order of the turns, and the samples of each cell.
    pub schedule: Schedule,
    stop: Stop,
    /// Time from the start of the run to the first turn.
    setting_up: Duration,
    lost: BTreeMap<usize, Failure>,
    /// Loss of a target that cells share.
    target: Option<Failure>,
    /// Failure of a reference program.
    refused: Option<Failure>,
    /// Time of reference programs and of the native turns after them, which is not part of the budget.
    beyond_budget: Duration,
}

impl Series {
    /// Creates a series of `cells` cells.
    pub fn new(policy: RepetitionPolicy, limits: Limits, cells: usize) -> Self {
        let schedule = Schedule::new(policy, limits, cells);
        Self {
            schedule,
            stop: Stop::Stable,
            setting_up: Duration::ZERO,
            lost: BTreeMap::new(),
            target: None,
            refused: None,
            beyond_budget: Duration::ZERO,
        }
    }

    /// Sets the samples that the set-up of the cells has already taken.
    #[must_use]
    pub fn after(mut self, samples: Vec<Vec<Sample>>) -> Self {
        self.schedule.samples = samples;
        self
    }

    /// Marks a cell as lost before its first turn, e.g. because its set-up failed.
    pub fn lose(&mut self, cell: usize, why: Failure) {
        self.schedule.mark_lost(cell);
        self.lost.entry(cell).or_insert(why);
    }

    /// Measures the cells in rounds until the policy or the limits end them, or the user does. `latest` describes the
    /// latest samples for the progress display.
    ///
    /// # Errors
    /// Fails if turns failed and no cell has a sample that counts.
    pub fn run(
        &mut self,
        cells: &mut dyn Cells,
        observer: &mut dyn Observer,
        latest: Option<Latest<'_>>,
    ) -> Result<(), Failure> {
        self.setting_up = self.schedule.limits.elapsed();
        let shared = SharedObserver::new(observer);
        let mut lost = std::mem::take(&mut self.lost);
        let ended = self.schedule.run(&mut &shared, latest, |turn| {
            if lost.contains_key(&turn.cell) {
                return Ok(Vec::new());
            }
            match altered::turn(cells, turn) {
                Ok(samples) => Ok(samples),
                Err(_) if shared.interrupted() => Err(Cut::Interrupted),
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
            Ok(_) | Err(Cut::Interrupted | Cut::OutOfTime) if shared.interrupted() => {
                Stop::Interrupted
            }
            Ok(stop) => stop,
            Err(Cut::Interrupted) => Stop::Interrupted,
            Err(Cut::OutOfTime) => Stop::Budget,
            Err(Cut::Lost(failure)) => {
                self.target = Some(failure);
                Stop::Lost
            }
        };
        if self.stop == Stop::Interrupted {
            return Ok(());
        }
        match self.failure() {
            Some(failure) if !self.schedule.has_counted() => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// Measures each of the given cells `rounds` more times, in the given order. Lost cells are not measured; nothing is
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
                let taken = altered::turn(cells, Turn { cell: *cell, round, remaining: None });
                match taken {
                    Ok(samples) => self.schedule.samples[*cell].extend(samples),
                    Err(_) if observer.interrupted() => {}
                    Err(TurnFailure::Cell(failure)) => self.lose(*cell, failure),
                    Err(TurnFailure::Target(failure)) => {
                        self.stop = Stop::Lost;
                        self.target = Some(failure);
                    }
                    Err(TurnFailure::OutOfTime) => return,
                }
                if observer.interrupted() {
                    self.stop = Stop::Interrupted;
                }
            }
        }
    }

    /// True if nothing can be measured any more: the user interrupted the run, or the target is lost.
    pub fn has_ended(&self) -> bool {
        matches!(self.stop, Stop::Interrupted | Stop::Lost)
    }

    /// Returns the reason why the series ended.
    pub fn stop(&self) -> Stop {
        self.stop
    }

    /// Replaces the reason why a series ended by one that the gauge knows better, unless it was cut short.
    pub fn ended_by(&mut self, stop: Stop) {
        if !self.has_ended() {
            self.stop = stop;
        }
    }

    /// Returns the failure of a cell; `None` if the cell is not lost. Without a sample that counts, the loss of the target
    /// is the failure of the cell.
    pub fn lost(&self, cell: usize) -> Option<&Failure> {
        let unmeasured = self.target.as_ref().filter(|_| !self.schedule.has_counted_sample(cell));
        self.lost.get(&cell).or(unmeasured)
    }

    /// Returns the cells that are not lost, ascending.
    pub fn remaining_cells(&self) -> Vec<usize> {
        self.schedule.remaining_cells()
    }

    /// Returns the cells that are not lost and have no sample that counts, ascending.
    pub fn unmeasured(&self) -> Vec<usize> {
        let remaining_cells = self.remaining_cells().into_iter();
        remaining_cells.filter(|cell| !self.schedule.has_counted_sample(*cell)).collect()
    }

    /// Returns the loss of the target that the cells share; `None` if it is not lost.
    pub fn target_loss(&self) -> Option<&Failure> {
        self.target.as_ref()
    }

    /// Returns the failure of the run: the loss of the target, otherwise that of the first lost cell.
    pub fn failure(&self) -> Option<&Failure> {
        self.target.as_ref().or_else(|| self.lost.values().next())
    }

    /// Judges a figure by the rule of doubt, and makes that of a lost cell invalid, with the reason.
    #[must_use]
    pub fn judged(&self, cell: usize, m: Measurement) -> Measurement {
        let mut validity = m.validity.clone();
        if let Some(failure) = self.lost(cell) {
            validity.invalid(lost_in_words(failure));
        }
        m.with_validity(validity)
    }

    /// Returns a figure with the samples of part number `part` of a cell, which are those of `regime`. Of a lost cell, the
    /// figure is invalid, and without a sample that counts it has no value. Returns `None` for another cell without such
    /// a sample. The figure has the doubts of its samples: they are disturbed, or of another regime.
    pub fn timed(
        &self,
        regime: &OneRegime,
        (cell, part): (usize, usize),
        m: Measurement,
        quoted: Quoted,
        value: &dyn Fn(f64) -> f64,
    ) -> Option<Measurement> {
        match regime.cell_samples(cell) {
            Some(timed) => {
                let mut m = m.with_timed_samples(quoted, timed, part, value);
                for doubt in regime.doubts(cell, part, regime.is_guest()) {
                    m.doubt(Status::Suspect, doubt);
                }
                Some(self.judged(cell, m))
            }
            None => self.lost(cell).map(|_| self.judged(cell, m)),
        }
    }

    /// Sorts the samples by regime; `known` contains round trips of other runs.
    pub fn one_regime(&self, known: &[f64]) -> OneRegime {
        OneRegime::new(self.schedule.samples.clone(), known)
    }

    /// Stores the end of the series in the outcome: the reason, a failure, which makes the run incomplete, and the time,
    /// from which the end of the run determines whether it was late. The failure of a reference program precedes that of
    /// a lost cell, whose figures have the reason.
    pub fn end(&self, outcome: &mut Outcome) {
        outcome.stop = Some(self.stop);
        outcome.set_run_time(&self.schedule.limits, self.setting_up);
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
