//! Tests of the handling of failures, with cells that fail in chosen turns.

use super::*;
use nodegauge_measure::clock;
use nodegauge_measure::progress::SilentObserver;
use nodegauge_measure::record::Status;
use nodegauge_measure::schedule::policy;
use std::time::Duration;

/// Number of samples of each cell in these tests.
const SAMPLES: usize = 6;

fn series(cells: usize) -> Series {
    Series::new(policy::CURVES, RunLimits::new(Duration::from_secs(60), Some(SAMPLES)), cells)
}

fn sample() -> Sample {
    Sample::from_times(vec![1.0])
}

/// Returns the failure of a turn, which affects the cell or the target.
fn failure(is_target: bool) -> TurnFailure {
    let failure = Failure::missing("no more memory");
    if is_target { TurnFailure::Target(failure) } else { TurnFailure::Cell(failure) }
}

/// Runs three cells. The turn of cell `cell` in round `round` fails. Returns the series and the turns of each cell.
fn failing(
    cell: usize,
    round: usize,
    is_target: bool,
) -> (Series, Vec<usize>, Result<(), Failure>) {
    let mut series = series(3);
    let mut turns = vec![0; 3];
    let mut cells = |turn: Turn| -> Result<Vec<Sample>, TurnFailure> {
        turns[turn.cell] += 1;
        let fails = turn.cell == cell && turn.round == round;
        if fails { Err(failure(is_target)) } else { Ok(vec![sample()]) }
    };
    let ended = series.run(&mut cells, &mut SilentObserver, None);
    (series, turns, ended)
}

#[test]
fn failing_turn_ends_its_cell_and_other_cells_continue() {
    for cell in 0..3 {
        for round in [0, 1, 3] {
            let (series, turns, ended) = failing(cell, round, false);
            ended.unwrap();
            assert_eq!(turns[cell], round + 1, "a turn is not repeated after a failure");
            assert_eq!(series.schedule.samples[cell].len(), round, "samples are kept");
            assert!(series.cell_failure(cell).is_some());
            for other in series.remaining_cells() {
                assert_eq!(series.schedule.samples[other].len(), SAMPLES + 1);
                assert_eq!(series.cell_failure(other), None);
            }
            assert_eq!(
                (series.remaining_cells().len(), series.stop_reason()),
                (2, StopReason::Samples)
            );
            assert_eq!(
                series.schedule.rounds().len(),
                SAMPLES,
                "rounds are those of the remaining cells"
            );
            let mut outcome = Outcome::default();
            series.store_end(&mut outcome);
            assert!(!outcome.is_complete() && !outcome.is_interrupted());
        }
    }
}

#[test]
fn lost_target_ends_the_series_and_keeps_the_samples() {
    let (series, turns, ended) = failing(1, 3, true);
    ended.unwrap();
    assert_eq!(series.stop_reason(), StopReason::Lost);
    assert!(turns.iter().all(|turns| (3..=4).contains(turns)), "{turns:?}");
    // Cells with samples that count are not lost; the run is incomplete.
    assert!((0..3).all(|cell| series.cell_failure(cell).is_none()));
    assert_eq!(series.failure().map(Failure::problem).as_deref(), Some("no more memory"));
}

#[test]
fn run_without_figures_fails_with_the_turn_failure() {
    let mut all = series(2);
    let mut cells = |_: Turn| -> Result<Vec<Sample>, TurnFailure> { Err(failure(false)) };
    let refused = all.run(&mut cells, &mut SilentObserver, None).unwrap_err();
    assert_eq!(refused, Failure::missing("no more memory"));
    let (_, _, ended) = failing(0, 0, true);
    assert!(ended.is_err(), "a warm-up is no figure");
}

#[test]
fn figure_of_a_lost_cell_is_invalid_with_the_reason() {
    let (series, _, _) = failing(2, 3, false);
    let figure = || {
        let m = Measurement::new("g", "t", "n", nodegauge_measure::Unit::Seconds);
        m.with_value(nodegauge_measure::record::QuotedStatistic::Single, 1.0)
    };
    assert_eq!(series.judge_figure(0, figure()).validity.status, Status::Valid);
    let lost = series.judge_figure(2, figure());
    assert_eq!((lost.validity.status, lost.value), (Status::Invalid, None));
    assert_eq!(lost.validity.reasons, ["not measured to the end: no more memory"]);
}

/// Observer of a run that the user interrupts after some turns.
struct After<'a>(&'a std::cell::Cell<usize>);

impl Observer for After<'_> {
    fn begin_phase(&mut self, _: &str) {}
    fn report_progress(&mut self, _: f64, _: &str) {}
    fn is_interrupted(&self) -> bool {
        self.0.get() >= 4
    }
}

#[test]
fn error_of_an_interrupted_turn_is_an_interruption() {
    let turns = std::cell::Cell::new(0);
    let mut series = series(2);
    let mut cells = |_: Turn| -> Result<Vec<Sample>, TurnFailure> {
        turns.set(turns.get() + 1);
        if turns.get() >= 4 { Err(failure(false)) } else { Ok(vec![sample()]) }
    };
    series.run(&mut cells, &mut After(&turns), None).unwrap();
    assert_eq!((series.stop_reason(), series.failure()), (StopReason::Interrupted, None));
    assert_eq!(series.schedule.samples.iter().map(Vec::len).sum::<usize>(), 3);
}

#[test]
fn failure_before_an_interruption_is_kept() {
    let turns = std::cell::Cell::new(0);
    let mut series = series(2);
    let mut cells = |turn: Turn| -> Result<Vec<Sample>, TurnFailure> {
        turns.set(turns.get() + 1);
        if turn.cell == 1 { Err(failure(false)) } else { Ok(vec![sample()]) }
    };
    series.run(&mut cells, &mut After(&turns), None).unwrap();
    assert_eq!(series.stop_reason(), StopReason::Interrupted);
    assert!(series.cell_failure(1).is_some() && series.cell_failure(0).is_none());
}

#[test]
fn lost_target_is_not_measured_again() {
    let (mut lost, ..) = failing(1, 3, true);
    let mut turns = 0;
    let mut cells = |_: Turn| -> Result<Vec<Sample>, TurnFailure> {
        turns += 1;
        Ok(vec![sample()])
    };
    lost.remeasure(&[0, 1, 2], 2, &mut cells, &SilentObserver);
    assert_eq!(turns, 0);
    let (mut one, ..) = failing(1, 3, false);
    let mut measured = Vec::new();
    let mut behind = |turn: Turn| -> Result<Vec<Sample>, TurnFailure> {
        measured.push(turn.cell);
        Ok(vec![sample()])
    };
    one.remeasure(&[0, 1, 2], 2, &mut behind, &SilentObserver);
    assert_eq!(measured, [0, 2, 0, 2]);
}

#[test]
fn alteration_replaces_the_turns_of_a_series() {
    let mut series = series(2);
    let mut cells = |_: Turn| -> Result<Vec<Sample>, TurnFailure> { Ok(vec![sample()]) };
    let fails = |turn: Turn, measure: &mut dyn FnMut() -> alteration::TurnResult| {
        if turn.cell == 1 { Err(failure(false)) } else { measure() }
    };
    alteration::with_alteration(fails, || series.run(&mut cells, &mut SilentObserver, None))
        .unwrap();
    assert!(series.cell_failure(1).is_some() && series.cell_failure(0).is_none());
}

#[test]
fn end_of_time_during_a_turn_is_not_a_failure() {
    let mut series = series(2);
    let mut cells = |turn: Turn| -> Result<Vec<Sample>, TurnFailure> {
        if turn.round == 2 { Err(TurnFailure::OutOfTime) } else { Ok(vec![sample()]) }
    };
    series.run(&mut cells, &mut SilentObserver, None).unwrap();
    assert_eq!((series.stop_reason(), series.failure()), (StopReason::Budget, None));
}

/// Series with two measured cells, and the turns of its cells after a reference program.
struct ComparedCells {
    series: Series,
    after: Vec<usize>,
    figures: usize,
}

/// Measures two cells and runs a reference program, which takes longer than the budget and ends with `ended`.
fn compared(
    ended: Result<Vec<Measurement>, Failure>,
    observer: &mut dyn Observer,
) -> ComparedCells {
    let mut series = series(2);
    let mut cells = |_: Turn| -> Result<Vec<Sample>, TurnFailure> { Ok(vec![sample()]) };
    series.run(&mut cells, &mut SilentObserver, None).unwrap();
    let mut ended = Some(ended);
    let mut after = Vec::new();
    let program = ReferenceProgramRun {
        phase: "program",
        compared: &[1],
        run: &mut |_| {
            clock::advance_clock(Duration::from_secs(1000));
            ended.take().unwrap()
        },
    };
    let mut again = |turn: Turn| -> Result<Vec<Sample>, TurnFailure> {
        after.push(turn.cell);
        Ok(vec![sample()])
    };
    let figures = series.run_reference_program(program, &mut again, observer).len();
    ComparedCells { series, after, figures }
}

#[test]
fn reference_program_runs_between_native_turns_outside_the_budget() {
    let figure = Measurement::new("g", "t", "n", nodegauge_measure::Unit::Seconds);
    let ComparedCells { series, after, figures } = compared(Ok(vec![figure]), &mut SilentObserver);
    assert_eq!((after, figures), (vec![1; 3], 1));
    let counts = [0, 1].map(|cell: usize| series.schedule.samples[cell].len());
    assert_eq!(counts, [SAMPLES + 1, SAMPLES + 4]);
    assert!(series.time_outside_budget() >= Duration::from_secs(1000));
    assert!(series.schedule.limits.elapsed() < Duration::from_secs(60));
    let mut outcome = Outcome::default();
    series.store_end(&mut outcome);
    assert!(outcome.is_complete());
}

#[test]
fn failing_reference_program_fails_only_the_run() {
    let refusal = Failure::missing("no result");
    let ComparedCells { series, after, figures } =
        compared(Err(refusal.clone()), &mut SilentObserver);
    assert_eq!((after.len(), figures), (0, 0));
    assert_eq!((series.failure(), series.remaining_cells().len()), (None, 2));
    let mut outcome = Outcome::default();
    series.store_end(&mut outcome);
    assert_eq!((outcome.failure, outcome.stop), (Some(refusal), Some(StopReason::Samples)));
}

#[test]
fn interrupted_reference_program_is_not_a_failure() {
    let interrupted = &mut After(&std::cell::Cell::new(4));
    let ComparedCells { series, after, .. } =
        compared(Err(Failure::missing("no result")), interrupted);
    assert_eq!(after.len(), 0);
    let mut outcome = Outcome::default();
    series.store_end(&mut outcome);
    assert_eq!((outcome.failure, outcome.stop), (None, Some(StopReason::Interrupted)));
}
