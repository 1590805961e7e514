//! Tests of the rules on time and validity in the series of every gauge: budgets that are too small, few samples,
//! disturbed samples, and load that exceeds the budget.

use super::super::doubted::recommends_nothing;
use super::{Case, Extent, FEW_SAMPLES, LONG_TIME, TurnResult, counts, run};
use nodegauge_measure::interference::Cause;
use nodegauge_measure::progress::SilentObserver;
use nodegauge_measure::record::{Measurement, Status, doubt};
use nodegauge_measure::schedule::Turn;
use nodegauge_measure::{FailureKind, Fraction, NoticeId, Outcome, clock};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Cases whose figures are not computed from the samples of the series, but from passes within a turn, or by a user's
/// program. No gauge watches the CPUs during these turns.
const WITH_OWN_SAMPLES: [&str; 2] = ["file_grid", "own_programs"];
/// Budget that is too small for every plan.
const NO_TIME: Duration = Duration::from_millis(1);
/// Maximum number of turns per cell that a run under load may measure.
const MAX_TURNS: usize = 12;

fn asked(budget: Duration) -> Extent {
    Extent { budget, is_set_by_user: true, samples: None }
}

/// Returns the budget in a hint: `use --budget 12, or smaller arrays`.
fn hinted_budget(hint: &str) -> Option<Duration> {
    let (_, rest) = hint.split_once("--budget ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(Duration::from_secs(digits.parse().ok()?))
}

/// Measures a turn, and lets a tenth of the budget pass, so that a run with several rounds ends soon.
fn hurried(
    budget: Duration,
) -> impl FnMut(usize, Turn, &mut dyn FnMut() -> TurnResult) -> TurnResult {
    move |_, turn: Turn, measure: &mut dyn FnMut() -> TurnResult| {
        let taken = measure();
        if turn.round > 0 {
            clock::advance_clock(budget / 10);
        }
        taken
    }
}

/// Runs a case with a budget that is too small. Either the run is refused before its first turn, with a budget that is
/// sufficient, or it produces figures.
pub(super) fn refuses_or_delivers(case: &Case) {
    let name = case.name;
    let Some(first) = run(case, asked(NO_TIME), &mut SilentObserver, hurried(NO_TIME)) else {
        return;
    };
    let refused = match first.ended {
        Ok(outcome) => return delivers(name, &outcome),
        Err(refused) => refused,
    };
    assert_eq!(refused.kind, FailureKind::Usage, "{name}: {refused}");
    assert!(first.turns.is_empty(), "{name}: {refused}, after {} turns", first.turns.len());
    let hint = refused.hint.as_deref().unwrap_or_default();
    let enough = hinted_budget(hint).unwrap_or_else(|| panic!("{name}: {refused}"));
    let second = run(case, asked(enough), &mut SilentObserver, hurried(enough)).unwrap();
    delivers(name, &second.ended.unwrap_or_else(|again| panic!("{name}: {refused}; {again}")));
}

/// Asserts that a run has figures and has not lost any.
fn delivers(name: &str, outcome: &Outcome) {
    assert!(outcome.is_complete(), "{name}: {:?}", outcome.failure);
    assert!(outcome.measurements.iter().any(|m| m.value.is_some()), "{name}");
    assert_eq!(counts(outcome)[1], 0, "{name}");
}

/// Returns the figures whose validity depends on their samples.
fn sampled_figures(outcome: &Outcome) -> impl Iterator<Item = (&Measurement, usize)> {
    let own = outcome.measurements.iter().filter(|m| m.value.is_some() && !m.is_reported());
    own.filter_map(|m| Some((m, doubt::doubt_rule(m.quoted)?.min)))
}

/// Runs a case with fewer samples than any statistic needs.
pub(super) fn doubts_few_samples(case: &Case) {
    let one = Extent { samples: Some(1), ..FEW_SAMPLES };
    let Some(run) = run(case, one, &mut SilentObserver, |_, _, measure| measure()) else { return };
    let outcome = run.ended.unwrap();
    delivers(case.name, &outcome);
    recommends_nothing(case.name, &outcome.notices);
    for (m, least) in sampled_figures(&outcome).filter(|(m, _)| !m.samples.is_empty()) {
        let is_valid = m.validity.status == Status::Valid;
        assert!(!is_valid || m.samples.len() >= least, "{}: {} {:?}", case.name, m.name, m.samples);
    }
}

/// Runs a case in which another program uses a core during all samples.
pub(super) fn doubts_disturbed_samples(case: &Case) {
    let few = Extent { samples: Some(7), ..FEW_SAMPLES };
    let disturbs = |_, _: Turn, measure: &mut dyn FnMut() -> TurnResult| {
        let mut taken = measure()?;
        for sample in &mut taken {
            sample.causes.push(Cause::OtherProgram { share: Fraction(0.5) });
        }
        Ok(taken)
    };
    if WITH_OWN_SAMPLES.contains(&case.name) {
        return;
    }
    let Some(run) = run(case, few, &mut SilentObserver, disturbs) else { return };
    let outcome = run.ended.unwrap();
    delivers(case.name, &outcome);
    recommends_nothing(case.name, &outcome.notices);
    for (m, _) in sampled_figures(&outcome).filter(|(m, _)| !m.samples.is_empty()) {
        let is_named = m.validity.reasons.iter().any(|reason| reason.contains("disturbed"));
        assert!(is_named, "{}: {} {:?}", case.name, m.name, m.validity);
    }
}

/// Runs a case under load that begins at the first turn and makes each turn as long as the budget.
pub(super) fn delivers_under_load(case: &Case) {
    let turns = Rc::new(Cell::new(0));
    let seen = turns.clone();
    let slows = move |_, turn: Turn, measure: &mut dyn FnMut() -> TurnResult| {
        let taken = measure();
        if turn.round > 0 {
            seen.set(seen.get() + 1);
            clock::advance_clock(LONG_TIME);
        }
        taken
    };
    let budget = Extent { is_set_by_user: true, ..super::TIMED };
    let Some(run) = run(case, budget, &mut SilentObserver, slows) else { return };
    let outcome = run.ended.unwrap();
    delivers(case.name, &outcome);
    let cells = 1 + run.turns.iter().map(|turn| turn.cell).max().unwrap();
    assert!(turns.get() <= MAX_TURNS * cells, "{}: {} turns", case.name, turns.get());
    let is_named = outcome.notices.iter().any(|notice| notice.id == NoticeId::Budget);
    assert!(is_named, "{}: {:?}", case.name, outcome.notices);
}
