//! Tests the start of the user's budget. There is one budget per process, therefore this test has
//! its own program.

use nodegauge_measure::clock;
use nodegauge_measure::schedule::{Budget, RunLimits};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn given_budget_starts_with_the_command_and_a_default_budget_later() {
    clock::start_budget();
    clock::advance_clock(7 * SECOND);
    let time = 10 * SECOND;
    let asked = RunLimits::from_budget(Budget::new(Some(time), SECOND), None);
    assert!(asked.elapsed() >= 7 * SECOND);
    assert!(asked.from_now().elapsed() < 7 * SECOND);
    let usual = RunLimits::from_budget(Budget::new(None, time), None);
    assert!(usual.elapsed() < 7 * SECOND);
}
