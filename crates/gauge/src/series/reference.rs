//! Single run of a reference program after the rounds. Some native turns are repeated after it, so that drift affects
//! native and reference figures alike.
//!
//! Programs that are cells of the rounds themselves (builds of stream.c, OSU's programs, fio and IOzone), or that
//! follow a single long run (xhpl), do not use this module.

use super::{Cells, Series};
use nodegauge_measure::record::Measurement;
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::{Failure, Observer, clock};
use std::time::Duration;

/// Number of native samples of each compared cell after the program. The other samples are taken before it, so that
/// drift of the machine affects native and reference figures equally.
const BEHIND: usize = 3;

/// Function that runs a program and returns its figures; empty if the user interrupted it. Its argument is a function
/// that returns true after an interruption.
pub type ProgramRunner<'a> = dyn FnMut(&dyn Fn() -> bool) -> Result<Vec<Measurement>, Failure> + 'a;

/// Reference program that is compared with native turns.
pub struct ReferenceProgramRun<'a> {
    /// Description for the progress display, e.g. `xhpcg`.
    pub phase: &'a str,
    /// Cells that are measured again after the program.
    pub compared: &'a [usize],
    /// Function that runs the program.
    pub run: &'a mut ProgramRunner<'a>,
}

impl Series {
    /// Runs a reference program after the rounds, and then measures the compared cells again. Returns the figures of
    /// the program; empty if it failed, or if the series had already ended.
    ///
    /// The failure of the program is stored in the outcome and does not affect native figures. The time of the program
    /// and of the turns after it is not part of the budget.
    pub fn run_reference_program(
        &mut self,
        reference: ReferenceProgramRun<'_>,
        cells: &mut dyn Cells,
        observer: &mut dyn Observer,
    ) -> Vec<Measurement> {
        if self.has_ended() {
            return Vec::new();
        }
        let begun = clock::now();
        observer.begin_phase(reference.phase);
        let watched: &dyn Observer = observer;
        let ended = (reference.run)(&|| watched.is_interrupted());
        if watched.is_interrupted() {
            self.stop = StopReason::Interrupted;
        }
        let mut figures = Vec::new();
        match ended {
            Ok(found) => {
                figures = found;
                self.remeasure(reference.compared, BEHIND, cells, watched);
            }
            Err(_) if self.has_ended() => {}
            Err(failure) => self.refused = Some(failure),
        }
        let time = clock::now() - begun;
        self.time_outside_budget += time;
        self.schedule.limits.started += time;
        figures
    }

    /// Returns the time of reference programs and of the native turns after them, which is not part of the budget.
    pub fn time_outside_budget(&self) -> Duration {
        self.time_outside_budget
    }
}
