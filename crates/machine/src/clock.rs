//! The core's clock under load, measured: a chain of dependent additions of registers takes one
//! cycle each on every processor this runs on, so their count over the time is the clock.
//!
//! Needed because `/proc/cpuinfo` gives the time-stamp counter's rate on a guest, and cpufreq is
//! often absent. With wide vectors the clock may be lower than with the chain alone: what is held
//! against it takes the clock of its own interval ([`WorkClock`]). Bursts are short and the fastest
//! counts, for whatever interferes only makes a burst slower.
#![allow(unsafe_code)]

use crate::counters::CycleCounter;
use crate::ids::CpuId;
use crate::root::SysRoot;
use nodegauge_measure::Hertz;
use std::sync::atomic::{AtomicBool, Ordering};
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
fn under_load() -> Option<Hertz> {
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

/// The clock with all of `cpus` at such work, a thread each: the threads' mean.
pub(crate) fn under_load_of_all(cpus: &[CpuId]) -> Option<Hertz> {
    let go = AtomicBool::new(false);
    let clocks: Vec<f64> = std::thread::scope(|scope| {
        let started: Vec<_> = cpus
            .iter()
            .map_while(|cpu| {
                let measure = || {
                    // Where it may not be bound, it is still one more core at work.
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

/// Time of other work between two looks of [`WorkClock`]: short against the half millisecond or more for
/// which cores keep the clock of wide vectors after the last of them.
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);

/// Rounds of a look: 65 536 cycles, below a tenth of the work between two looks at any clock.
const LOOK: u64 = ROUNDS / 4;

/// The clock of the calling thread's core during an interval of work, in that very interval: cycles
/// counted by the kernel, where it lets them be counted, else a chain of additions between pieces of
/// the work, of which the fastest counts.
#[derive(Debug)]
pub struct WorkClock {
    counter: Option<CycleCounter>,
    looked: Instant,
    fastest: Duration,
    spent: Duration,
}

impl WorkClock {
    /// Begins the interval.
    pub fn start() -> Self {
        let counter = CycleCounter::start(&SysRoot::live());
        let (fastest, spent) = (Duration::MAX, Duration::ZERO);
        Self { counter, looked: Instant::now(), fastest, spent }
    }

    /// To be called between pieces of the work.
    pub fn look(&mut self) {
        if self.counter.is_some() || self.looked.elapsed() < BETWEEN_LOOKS {
            return;
        }
        let before = Instant::now();
        if chain(LOOK).is_some() {
            self.looked = Instant::now();
            let took = self.looked - before;
            self.fastest = self.fastest.min(took);
            self.spent += took;
        }
    }

    /// The time of the interval so far that went into looking at the clock, not into the work.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// The clock so far; `None` where it cannot be measured.
    pub fn clock(&self) -> Option<Hertz> {
        let of_chain = || {
            let looked = self.fastest != Duration::MAX;
            looked.then(|| Hertz((UNROLLED * LOOK) as f64 / self.fastest.as_secs_f64()))
        };
        self.counter.as_ref().map_or_else(of_chain, CycleCounter::clock)
    }
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
            // From a phone's slowest to twice the fastest ever cooled.
            assert!((1e8..2e10).contains(&clock.0), "{clock}");
        }
        if work.counter.is_none() && work.clock().is_some() {
            let fastest = (UNROLLED * LOOK) as f64 / work.fastest.as_secs_f64();
            assert_eq!(work.clock(), Some(Hertz(fastest)));
            assert!(work.spent() >= work.fastest);
        }
    }
}
