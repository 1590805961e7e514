//! End of the time that helper processes have: compilers, version queries, self-tests, drivers and libraries that are
//! tried in a child process. Each has its own limit; a run with a budget of the user also ends them with the budget.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// End that the command has set for this process.
static END: OnceLock<Instant> = OnceLock::new();

/// Ends all later helper processes of this process at `end`. Only the first call has an effect.
pub fn end_helpers_at(end: Instant) {
    let _ = END.set(end);
}

/// Returns the time that a helper process with this limit has; zero if none is left.
pub fn helper_time(limit: Duration) -> Duration {
    until(END.get().copied(), limit, Instant::now())
}

fn until(end: Option<Instant>, limit: Duration, now: Instant) -> Duration {
    end.map_or(limit, |end| limit.min(end.saturating_duration_since(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helper_time_is_its_limit_or_the_remaining_time() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(until(None, 60 * second, now), 60 * second);
        assert_eq!(until(Some(now + 90 * second), 60 * second, now), 60 * second);
        assert_eq!(until(Some(now + 8 * second), 60 * second, now), 8 * second);
        assert_eq!(until(Some(now), 60 * second, now + second), Duration::ZERO);
    }
}
