//! Deadline for helper processes: compilers, version queries, self-tests, and trials of drivers and libraries in a
//! child process. Each helper has its own time limit; in a run with a budget of the user, helpers also end when the
//! budget is used up.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Deadline that the command has set for helpers of this process.
static END: OnceLock<Instant> = OnceLock::new();

/// Sets the deadline for helper processes that start later. Only the first call has an effect.
pub fn set_helper_deadline(end: Instant) {
    let _ = END.set(end);
}

/// Returns the time that a helper process with this limit has until the deadline; zero if the deadline has passed.
pub fn remaining_helper_time(limit: Duration) -> Duration {
    until(END.get().copied(), limit, Instant::now())
}

fn until(end: Option<Instant>, limit: Duration, now: Instant) -> Duration {
    end.map_or(limit, |end| limit.min(end.saturating_duration_since(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_helper_process_is_limited_by_the_deadline() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(until(None, 60 * second, now), 60 * second);
        assert_eq!(until(Some(now + 90 * second), 60 * second, now), 60 * second);
        assert_eq!(until(Some(now + 8 * second), 60 * second, now), 8 * second);
        assert_eq!(until(Some(now), 60 * second, now + second), Duration::ZERO);
    }
}
