//! Measurement of a core's clock under load. Every supported processor executes a chain of dependent register additions
//! at one cycle per addition. Therefore the number of additions divided by the time is the clock.
//!
//! The measurement is necessary because in a guest `/proc/cpuinfo` contains the rate of the time-stamp counter, and
//! cpufreq is often absent. Code with wide vectors may run at a lower clock than the chain. Therefore figures that
//! depend on the clock use the clock during the measured work ([`WorkClock`]). The chain runs in short bursts, and the
//! fastest burst gives the clock, because interference can only make a burst slower.
#![allow(unsafe_code)]

use crate::counters::CycleCounter;
use crate::ids::CpuId;
use crate::root::SysRoot;
use nodegauge_measure::Hertz;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Number of additions in the body of the loop. It is large enough that the loop counter and the branch run in parallel
/// with the chain.
const UNROLL: u64 = 64;

/// Iterations of the loop in a burst: 262 144 cycles, about 70 us at 4 GHz. A timer error of 25 ns at the beginning and
/// at the end of a burst is then below 0.1 %.
const ROUNDS: u64 = 4096;

/// Minimum duration of the measurement. An idle core needs about this time to raise its clock.
const MIN_TIME: Duration = Duration::from_millis(2);

/// Maximum duration of the measurement. It is used up if bursts keep becoming faster, as with slow frequency
/// governors.
const MAX_TIME: Duration = Duration::from_millis(10);

/// Time without a faster burst after which the clock is considered stable.
const STABLE_TIME: Duration = Duration::from_millis(1);

/// Measures the clock of the current core for 2 to 10 ms. Returns `None` on an architecture without an implemented
/// chain.
fn measure_clock() -> Option<Hertz> {
    let start = Instant::now();
    let mut fastest = Duration::MAX;
    let mut improved = start;
    loop {
        let before = Instant::now();
        chain(ROUNDS)?;
        let after = Instant::now();
        let burst = after - before;
        // An improvement of less than half a percent is noise and does not extend the measurement.
        if burst.mul_f64(1.005) < fastest {
            improved = after;
        }
        fastest = fastest.min(burst);
        let spent = after - start;
        if spent >= MAX_TIME || (spent >= MIN_TIME && after - improved >= STABLE_TIME) {
            break;
        }
    }
    burst_clock(ROUNDS, fastest)
}

/// Returns the clock frequency of the core from the duration of a burst; `None` if the burst was shorter than a
/// step of the timer.
fn burst_clock(rounds: u64, burst: Duration) -> Option<Hertz> {
    let is_timed = !burst.is_zero() && burst != Duration::MAX;
    is_timed.then(|| Hertz((UNROLL * rounds) as f64 / burst.as_secs_f64()))
}

/// Measures the clock of `cpu` as soon as `go` is set.
fn measure_after_start(cpu: CpuId, go: &AtomicBool) -> Option<Hertz> {
    // A thread that cannot be bound is still useful, because it keeps one more core busy.
    let _ = nodegauge_os::set_affinity(&[cpu.0]);
    while !go.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    measure_clock()
}

/// Measures the clock while all `cpus` run the chain simultaneously, one thread per CPU. Returns the mean over the
/// threads.
pub(crate) fn all_core_clock(cpus: &[CpuId]) -> Option<Hertz> {
    let go = AtomicBool::new(false);
    let clocks: Vec<f64> = std::thread::scope(|scope| {
        let started: Vec<_> = cpus
            .iter()
            .map_while(|cpu| {
                let thread = std::thread::Builder::new();
                thread.spawn_scoped(scope, || measure_after_start(*cpu, &go)).ok()
            })
            .collect();
        go.store(true, Ordering::Release);
        let clocks = started.into_iter().filter_map(|thread| thread.join().ok().flatten());
        clocks.map(|clock| clock.0).collect()
    });
    (!clocks.is_empty()).then(|| Hertz(clocks.iter().sum::<f64>() / clocks.len() as f64))
}

/// Time between two bursts of [`WorkClock`], during which the measured work runs. It is shorter than the time for which
/// cores keep the clock of wide vectors after the last vector instruction, which is at least half a millisecond.
const BURST_INTERVAL: Duration = Duration::from_micros(200);

/// Iterations of the loop in one burst of [`WorkClock`]: 65 536 cycles. At any clock, the burst takes less than a tenth
/// of the time between two bursts.
const BURST_ROUNDS: u64 = ROUNDS / 4;

/// Clock of the calling thread's core during an interval of work. The kernel's cycle counter is used if it is
/// available. Otherwise short chains of additions (bursts) run between parts of the work, and the fastest burst gives
/// the clock.
#[derive(Debug)]
pub struct WorkClock {
    counter: Option<CycleCounter>,
    last_burst: Instant,
    fastest: Duration,
    burst_time: Duration,
}

impl WorkClock {
    /// Starts the interval of work.
    pub fn start() -> Self {
        let counter = CycleCounter::start(&SysRoot::live());
        let fastest = Duration::MAX;
        let burst_time = Duration::ZERO;
        Self { counter, last_burst: Instant::now(), fastest, burst_time }
    }

    /// Runs a burst of additions if one is due. The caller must call this method repeatedly, between parts of its
    /// work.
    pub fn run_due_burst(&mut self) {
        if self.counter.is_some() || self.last_burst.elapsed() < BURST_INTERVAL {
            return;
        }
        let before = Instant::now();
        if chain(BURST_ROUNDS).is_some() {
            self.last_burst = Instant::now();
            let elapsed = self.last_burst - before;
            self.fastest = self.fastest.min(elapsed);
            self.burst_time += elapsed;
        }
    }

    /// Returns the time that the bursts have taken since the start of the interval.
    pub fn burst_time(&self) -> Duration {
        self.burst_time
    }

    /// Returns the clock since the start of the interval; `None` if it cannot be measured.
    pub fn clock(&self) -> Option<Hertz> {
        match &self.counter {
            Some(counter) => counter.clock(),
            None => burst_clock(BURST_ROUNDS, self.fastest),
        }
    }
}

/// Runs `rounds` iterations of [`UNROLL`] additions, each of which depends on the previous one. The operands
/// are registers, because recent cores fold small constants.
#[cfg(target_arch = "x86_64")]
fn chain(rounds: u64) -> Option<()> {
    // SAFETY: changes only the specified registers and the flags; touches neither memory nor stack.
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

/// Runs `rounds` iterations of [`UNROLL`] additions, each of which depends on the previous one.
#[cfg(target_arch = "aarch64")]
fn chain(rounds: u64) -> Option<()> {
    // SAFETY: changes only the specified registers and the flags; touches neither memory nor stack.
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

/// Returns `None`, because no chain is implemented for this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn chain(_rounds: u64) -> Option<()> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_chain_takes_more_time() {
        // This test checks only that the compiler did not remove the chain: more iterations take longer.
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
    fn work_clock_without_a_counter_is_that_of_the_fastest_burst() {
        let mut work = WorkClock::start();
        assert!(work.counter.is_some() || work.clock().is_none());
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(3) {
            work.run_due_burst();
        }
        assert!(work.burst_time() < start.elapsed());
        if let Some(clock) = work.clock() {
            // The limits are the slowest clock of a phone and twice the fastest clock that was ever reached with
            // extreme cooling.
            assert!((1e8..2e10).contains(&clock.0), "{clock}");
        }
        if work.counter.is_none() && work.clock().is_some() {
            let fastest = (UNROLL * BURST_ROUNDS) as f64 / work.fastest.as_secs_f64();
            assert_eq!(work.clock(), Some(Hertz(fastest)));
            assert!(work.burst_time() >= work.fastest);
        }
    }
}
