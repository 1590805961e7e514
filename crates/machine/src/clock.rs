//! Measurement of a core's clock under load. Every supported processor executes a chain of dependent register
//! additions at one cycle each, so the number of additions divided by the time is the clock.
//!
//! The measurement is necessary because `/proc/cpuinfo` contains the time-stamp counter's rate on a guest, and
//! cpufreq is often absent. Code with wide vectors may run at a lower clock than the chain: figures that depend
//! on the clock use the clock of their own interval ([`WorkClock`]). Bursts are short and the fastest one
//! counts, because interference can only make a burst slower.
#![allow(unsafe_code)]

use crate::counters::CycleCounter;
use crate::ids::CpuId;
use crate::root::SysRoot;
use nodegauge_measure::Hertz;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Number of additions in the loop's body: enough that the counter and the branch run in parallel with the
/// chain.
const UNROLLED: u64 = 64;

/// Iterations of the loop in a burst: 262 144 cycles, about 70 us at 4 GHz. A timer error of 25 ns at either
/// end is then below 0.1 %.
const ROUNDS: u64 = 4096;

/// Minimum duration: an idle core needs about this long to raise its clock.
const LEAST: Duration = Duration::from_millis(2);

/// Maximum duration, used while bursts still become faster (slow governors).
const MOST: Duration = Duration::from_millis(10);

/// Time without a faster burst after which the clock counts as stable.
const SETTLED: Duration = Duration::from_millis(1);

/// Measures the clock of the current core for 2 to 10 ms; `None` on an architecture without a chain.
fn under_load() -> Option<Hertz> {
    let start = Instant::now();
    let mut fastest = Duration::MAX;
    let mut improved = start;
    loop {
        let before = Instant::now();
        chain(ROUNDS)?;
        let after = Instant::now();
        let burst = after - before;
        // A gain of less than half a per cent is noise and does not extend the measurement.
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

/// Measures the clock while all of `cpus` run the chain, one thread per CPU; returns the mean of the threads.
pub(crate) fn under_load_of_all(cpus: &[CpuId]) -> Option<Hertz> {
    let go = AtomicBool::new(false);
    let clocks: Vec<f64> = std::thread::scope(|scope| {
        let started: Vec<_> = cpus
            .iter()
            .map_while(|cpu| {
                let measure = || {
                    // A thread that cannot be bound still keeps one more core busy.
                    let _ = nodegauge_os::set_affinity(&[cpu.0]);
                    while !go.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    under_load()
                };
                std::thread::Builder::new().spawn_scoped(scope, measure).ok()
            })
            .collect();
        go.store(true, Ordering::Release);
        let clocks = started.into_iter().filter_map(|thread| thread.join().ok().flatten());
        clocks.map(|clock| clock.0).collect()
    });
    (!clocks.is_empty()).then(|| Hertz(clocks.iter().sum::<f64>() / clocks.len() as f64))
}

/// Time of other work between two bursts of [`WorkClock`]. Cores keep the clock of wide vectors for half a
/// millisecond or more after the last vector instruction; this time is shorter.
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);

/// Rounds of one burst: 65 536 cycles, less than a tenth of the work between two bursts at any clock.
const LOOK: u64 = ROUNDS / 4;

/// Clock of the calling thread's core during an interval of work. It uses the kernel's cycle counter where
/// available; otherwise it runs a chain of additions between pieces of the work and uses the fastest one.
#[derive(Debug)]
pub struct WorkClock {
    counter: Option<CycleCounter>,
    looked: Instant,
    fastest: Duration,
    spent: Duration,
}

impl WorkClock {
    /// Starts the interval.
    pub fn start() -> Self {
        let counter = CycleCounter::start(&SysRoot::live());
        let fastest = Duration::MAX;
        let spent = Duration::ZERO;
        Self { counter, looked: Instant::now(), fastest, spent }
    }

    /// Measures the clock if necessary; the caller calls it between pieces of the work.
    pub fn look(&mut self) {
        if self.counter.is_some() || self.looked.elapsed() < BETWEEN_LOOKS {
            return;
        }
        let before = Instant::now();
        if chain(LOOK).is_some() {
            self.looked = Instant::now();
            let elapsed = self.looked - before;
            self.fastest = self.fastest.min(elapsed);
            self.spent += elapsed;
        }
    }

    /// Returns the part of the interval that was spent on measuring the clock.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// Returns the clock so far; `None` if it cannot be measured.
    pub fn clock(&self) -> Option<Hertz> {
        let of_chain = || {
            let looked = self.fastest != Duration::MAX;
            looked.then(|| Hertz((UNROLLED * LOOK) as f64 / self.fastest.as_secs_f64()))
        };
        self.counter.as_ref().map_or_else(of_chain, CycleCounter::clock)
    }
}

/// Runs `rounds` iterations of [`UNROLLED`] additions, each of which depends on the previous one. The operands
/// are registers, because recent cores fold small constants.
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

/// Runs `rounds` iterations of [`UNROLLED`] additions, each of which depends on the previous one.
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

/// Returns `None`: no chain is known for this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn chain(_rounds: u64) -> Option<()> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_as_long_as_it_is_counted() {
        // This checks only that the compiler did not remove the chain: more rounds take longer.
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

    #[test]
    fn the_clock_of_an_interval_is_that_of_its_chains_and_their_time_is_known() {
        let mut work = WorkClock::start();
        assert!(work.counter.is_some() || work.clock().is_none());
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(3) {
            work.look();
        }
        assert!(work.spent() < start.elapsed());
        if let Some(clock) = work.clock() {
            // The limits are the slowest clock of a phone and twice the fastest clock ever reached with cooling.
            assert!((1e8..2e10).contains(&clock.0), "{clock}");
        }
        if work.counter.is_none() && work.clock().is_some() {
            let fastest = (UNROLLED * LOOK) as f64 / work.fastest.as_secs_f64();
            assert_eq!(work.clock(), Some(Hertz(fastest)));
            assert!(work.spent() >= work.fastest);
        }
    }
}
