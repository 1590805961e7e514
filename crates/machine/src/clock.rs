//! The core's clock under load, measured: a chain of dependent additions of registers takes one
//! cycle each on every processor this runs on, so their count over the time is the clock.
//!
//! Needed because `/proc/cpuinfo` gives the time-stamp counter's rate on a guest, and cpufreq is
//! often absent. It is the clock of one core with scalar work: with all cores at work, or with wide
//! vectors, it may be lower. Bursts are short and the fastest counts, for whatever interferes only
//! makes a burst slower.
#![allow(unsafe_code)]

use nodegauge_measure::Hertz;
use std::time::{Duration, Instant};

/// Additions written out in the loop's body, so that counter and branch run in parallel to the chain.
const UNROLLED: u64 = 64;

/// Times that the body runs in a burst: 262 144 cycles, some 70 us at 4 GHz. A clock reading of
/// 25 ns on either side is then below 0.1 %.
const ROUNDS: u64 = 4096;

/// How long to measure at least: a core that was idle needs about this long to speed up.
const LEAST: Duration = Duration::from_millis(2);

/// How long to go on at most while bursts still become faster (slow governors).
const MOST: Duration = Duration::from_millis(10);

/// The best burst must have stood this long for the clock to count as reached.
const SETTLED: Duration = Duration::from_millis(1);

/// Measures the clock of the core this runs on, for 2 to 10 ms; `None` on an architecture without
/// a chain.
pub(crate) fn under_load() -> Option<Hertz> {
    let start = Instant::now();
    let mut fastest = Duration::MAX;
    let mut improved = start;
    loop {
        let before = Instant::now();
        chain(ROUNDS)?;
        let after = Instant::now();
        let burst = after - before;
        // Less than half a per cent is noise, and not worth waiting for more.
        if burst.mul_f64(1.005) < fastest {
            improved = after;
        }
        fastest = fastest.min(burst);
        let spent = after - start;
        if spent >= MOST || (spent >= LEAST && after - improved >= SETTLED) {
            break;
        }
    }
    Some(Hertz((UNROLLED * ROUNDS) as f64 / fastest.as_secs_f64()))
}

/// The clock of one burst of 70 us: right after other work, before the core changes its clock.
pub fn one_burst() -> Option<Hertz> {
    let start = Instant::now();
    chain(ROUNDS)?;
    Some(Hertz((UNROLLED * ROUNDS) as f64 / start.elapsed().as_secs_f64()))
}

/// Runs `rounds` times [`UNROLLED`] additions, each of which waits for the one before. Registers
/// are added, not constants: recent cores fold small constants away.
#[cfg(target_arch = "x86_64")]
fn chain(rounds: u64) -> Option<()> {
    // SAFETY: changes only the registers named and the flags; touches neither memory nor stack.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 64",
            "add {sum}, {step}",
            ".endr",
            "dec {rounds}",
            "jnz 2b",
            sum = inout(reg) 0u64 => _,
            step = in(reg) rounds,
            rounds = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
    Some(())
}

/// Runs `rounds` times [`UNROLLED`] additions, each of which waits for the one before.
#[cfg(target_arch = "aarch64")]
fn chain(rounds: u64) -> Option<()> {
    // SAFETY: changes only the registers named and the flags; touches neither memory nor stack.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 64",
            "add {sum}, {sum}, {step}",
            ".endr",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            sum = inout(reg) 0u64 => _,
            step = in(reg) rounds,
            rounds = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
    Some(())
}

/// Not known how to count cycles here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn chain(_rounds: u64) -> Option<()> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_as_long_as_it_is_counted() {
        // Not its speed: only that the compiler left it in, so that more rounds take longer.
        if chain(1).is_none() {
            return;
        }
        let time = |rounds| {
            (0..5)
                .map(|_| {
                    let start = Instant::now();
                    chain(rounds);
                    start.elapsed()
                })
                .min()
                .unwrap()
        };
        assert!(time(ROUNDS * 8) > time(ROUNDS) * 2);
    }
}
