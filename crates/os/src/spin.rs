//! Spin loops that wait for another CPU.

use std::time::{Duration, Instant};

/// Number of checks of the condition before a waiting thread yields. Threads may share a CPU; then the awaited
/// thread needs the CPU of the waiting thread. At about 40 cycles per check, this takes about 100 us.
const CHECKS_BEFORE_YIELD: u32 = 10_000;
/// Shortest sleep of [`Spin::pause_or_sleep`]. The kernel's timer slack makes it about twice as long.
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);
/// Longest sleep of [`Spin::pause_or_sleep`].
const LONGEST_SLEEP: Duration = Duration::from_millis(10);
/// Waiting time divided by the duration of the next sleep. If many waiters woke up often, they would take the CPU
/// time that the awaited thread needs.
const WAITED_PER_SLEEP: u32 = 8;

/// Pause in a loop that waits for another CPU. The loop first spins, and yields after a number of checks.
#[derive(Debug)]
pub struct Spin {
    checks: u32,
    before_yield: u32,
    /// Time of the first yield of [`Spin::pause_or_sleep`].
    yields_since: Option<Instant>,
}

impl Default for Spin {
    #[inline]
    fn default() -> Self {
        Self::new(CHECKS_BEFORE_YIELD)
    }
}

impl Spin {
    /// Creates a pause that yields after `before_yield` checks.
    #[inline]
    pub fn new(before_yield: u32) -> Self {
        Self { checks: 0, before_yield, yields_since: None }
    }

    /// Pauses between two checks of the condition.
    #[inline]
    pub fn pause(&mut self) {
        self.pause_or_idle(std::thread::yield_now);
    }

    /// Pauses like [`Spin::pause`], but calls `idle` instead of yielding. The instruction for spin loops precedes
    /// the call, because a hypervisor gives the CPU to another virtual CPU when it detects this instruction, but
    /// not when a guest yields.
    #[inline]
    pub fn pause_or_idle(&mut self, idle: impl FnOnce()) {
        self.checks = self.checks.saturating_add(1);
        std::hint::spin_loop();
        if self.checks >= self.before_yield {
            idle();
        }
    }

    /// Pauses like [`Spin::pause`], but sleeps instead of yielding after the thread has yielded for the time
    /// `awake`. Returns the time that it slept, and calls `before` before it sleeps. If the awaited thread has no
    /// CPU, because a hypervisor runs other virtual CPUs or because a CPU quota is used up, yielding does not help,
    /// but sleeping does. Sleeps become longer with the waiting time.
    #[inline]
    pub fn pause_or_sleep(&mut self, awake: Duration, before: impl FnOnce()) -> Duration {
        let mut slept = Duration::ZERO;
        let mut yields_since = self.yields_since;
        self.pause_or_idle(|| {
            let begun = *yields_since.get_or_insert_with(Instant::now);
            let waited = begun.elapsed();
            if waited < awake {
                std::thread::yield_now();
                return;
            }
            before();
            let asleep = Instant::now();
            let duration = (waited / WAITED_PER_SLEEP).clamp(SHORTEST_SLEEP, LONGEST_SLEEP);
            std::thread::sleep(duration);
            slept = asleep.elapsed();
        });
        self.yields_since = yields_since;
        slept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_action_runs_after_spinning() {
        let mut spin = Spin::new(3);
        let mut idled = 0;
        for _ in 0..4 {
            spin.pause_or_idle(|| idled += 1);
        }
        assert_eq!(idled, 2);
    }

    #[test]
    fn spin_sleeps_after_yielding() {
        let mut spin = Spin::new(2);
        let mut announced = 0;
        assert_eq!(spin.pause_or_sleep(Duration::ZERO, || announced += 1), Duration::ZERO);
        assert!(spin.pause_or_sleep(Duration::ZERO, || announced += 1) >= SHORTEST_SLEEP);
        assert_eq!(announced, 1);
        let mut awake = Spin::new(1);
        assert_eq!(awake.pause_or_sleep(Duration::from_secs(3600), || {}), Duration::ZERO);
    }
}
