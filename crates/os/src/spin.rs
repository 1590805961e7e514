//! Spin loops that wait for another CPU.

/// Number of checks of the condition before a waiting thread yields. Threads may share a CPU, and then the thread for
/// which this thread waits needs the CPU. At about 40 cycles per check, this is about 100 us.
const CHECKS_BEFORE_YIELD: u32 = 10_000;

/// Pause in a loop that waits for another CPU. The loop first spins, and yields after a number of checks.
#[derive(Debug)]
pub struct Spin {
    checks: u32,
    before_yield: u32,
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
        Self { checks: 0, before_yield }
    }

    /// Pauses between two checks of the condition.
    #[inline]
    pub fn pause(&mut self) {
        self.pause_or(|_| std::thread::yield_now());
    }

    /// Pauses like [`Spin::pause`], but calls `idle` with the number of previous checks instead of yielding.
    #[inline]
    pub fn pause_or(&mut self, idle: impl FnOnce(u32)) {
        self.checks = self.checks.saturating_add(1);
        if self.checks < self.before_yield {
            std::hint::spin_loop();
        } else {
            idle(self.checks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_spins_before_it_idles() {
        let mut spin = Spin::new(3);
        let mut idled = Vec::new();
        for _ in 0..4 {
            spin.pause_or(|looks| idled.push(looks));
        }
        assert_eq!(idled, [3, 4]);
    }
}
