//! Waiting on a CPU for another CPU.

/// Looks at a condition after which a waiting thread lets others run: the place may be shared, and
/// then the thread that is waited for needs the CPU. At some 40 cycles a look this is about 100 us.
const LOOKS_BEFORE_YIELD: u32 = 10_000;

/// Paces a loop that waits for another CPU: it spins first, and yields when that takes long.
#[derive(Debug)]
pub struct Spin {
    looks: u32,
    before_yield: u32,
}

impl Default for Spin {
    #[inline]
    fn default() -> Self {
        Self::new(LOOKS_BEFORE_YIELD)
    }
}

impl Spin {
    /// Spins for so many looks before it yields.
    #[inline]
    pub fn new(before_yield: u32) -> Self {
        Self { looks: 0, before_yield }
    }

    /// Call between two looks at the condition.
    #[inline]
    pub fn pause(&mut self) {
        self.pause_or(|_| std::thread::yield_now());
    }

    /// The same, with `idle` in place of yielding; it gets the number of looks so far.
    #[inline]
    pub fn pause_or(&mut self, idle: impl FnOnce(u32)) {
        self.looks = self.looks.saturating_add(1);
        if self.looks < self.before_yield {
            std::hint::spin_loop();
        } else {
            idle(self.looks);
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
