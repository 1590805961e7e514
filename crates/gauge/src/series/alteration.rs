//! Alteration of turns, for tests: a turn of any gauge's series fails, takes longer, or is disturbed.

use super::Cells;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{Turn, TurnFailure};
use std::cell::RefCell;

/// Result of a turn.
pub type TurnResult = Result<Vec<Sample>, TurnFailure>;

/// Function that receives a turn and the function that measures it, and returns the result of the turn.
pub type Alteration = dyn FnMut(Turn, &mut dyn FnMut() -> TurnResult) -> TurnResult;

thread_local! {
    static ALTERATION: RefCell<Option<Box<Alteration>>> = const { RefCell::new(None) };
}

/// Guard that removes the alteration of this thread, even if a test panics.
struct Removal;

impl Drop for Removal {
    fn drop(&mut self) {
        ALTERATION.with(|alteration| alteration.replace(None));
    }
}

/// Calls `run` with an alteration: it receives the turns of all series that `run` measures in this thread.
pub fn with_alteration<R>(
    alteration: impl FnMut(Turn, &mut dyn FnMut() -> TurnResult) -> TurnResult + 'static,
    run: impl FnOnce() -> R,
) -> R {
    ALTERATION.with(|altered| altered.replace(Some(Box::new(alteration))));
    let _removal = Removal;
    run()
}

/// Measures a turn, with the alteration of this thread if there is one.
pub(super) fn turn(cells: &mut dyn Cells, turn: Turn) -> TurnResult {
    ALTERATION.with_borrow_mut(|alteration| match alteration {
        Some(alter) => alter(turn, &mut || cells.turn(turn)),
        None => cells.turn(turn),
    })
}
