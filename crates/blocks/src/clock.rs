//! Clock that times single operations: the processor's time-stamp counter if it is invariant and the kernel lists it
//! among its clock sources, otherwise the kernel's monotonic clock.
//!
//! An invariant counter (CPUID leaf 8000_0007h, EDX bit 8) ticks at a constant rate in all states of the processor
//! (Intel SDM vol. 3, 17.17.1; AMD APM vol. 2, 13.2.4). If the kernel detects that the counters of several CPUs differ,
//! it removes `tsc` from its list of clock sources. The rate is calibrated against the monotonic clock, because CPUID
//! reports only a nominal value.

use nodegauge_machine::SysRoot;
use nodegauge_measure::Seconds;
use nodegauge_os::monotonic_nanos;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Clock that counts ticks from an arbitrary time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// True if the clock is the time-stamp counter; false if it is the kernel's monotonic clock, in nanoseconds.
    is_counter: bool,
    /// Ticks per second.
    rate: f64,
}

/// Time for which the counter is compared with the kernel's clock. With a jitter of 50 ns per reading, the error of
/// the rate is at most 5 parts per million.
const CALIBRATION: Duration = Duration::from_millis(20);

impl Clock {
    /// Returns the clock of this process. The first call calibrates the clock.
    pub fn get() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(|| {
            if counter_is_good() {
                Self { is_counter: true, rate: calibrate() }
            } else {
                Self { is_counter: false, rate: 1e9 }
            }
        })
    }

    /// Returns the name of the clock source for the record.
    pub fn source(self) -> &'static str {
        if self.is_counter { "tsc" } else { "clock_gettime" }
    }

    /// Returns the current time in ticks.
    #[inline]
    pub fn now(self) -> u64 {
        if self.is_counter { counter() } else { monotonic_nanos() }
    }

    /// Converts ticks to a time.
    pub fn seconds(self, ticks: u64) -> Seconds {
        Seconds(ticks as f64 / self.rate)
    }

    /// Converts a time to ticks.
    pub fn ticks(self, time: Duration) -> u64 {
        (time.as_secs_f64() * self.rate) as u64
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: the instruction reads a register and touches no memory. User space may read this register unless
    // PR_TSC_SIGSEGV is set, which this program never does.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn counter() -> u64 {
    monotonic_nanos()
}

fn counter_is_good() -> bool {
    #[cfg(target_arch = "x86_64")]
    let invariant = raw_cpuid::CpuId::new()
        .get_advanced_power_mgmt_info()
        .is_some_and(|info| info.has_invariant_tsc());
    #[cfg(not(target_arch = "x86_64"))]
    let invariant = false;
    invariant && kernel_trusts_counter(&SysRoot::live())
}

/// True if the kernel lists the time-stamp counter among its clock sources.
fn kernel_trusts_counter(root: &SysRoot) -> bool {
    root.text("sys/devices/system/clocksource/clocksource0/available_clocksource")
        .is_some_and(|list| list.split_whitespace().any(|name| name == "tsc"))
}

/// Measures the number of counter ticks per second.
fn calibrate() -> f64 {
    let start = both_clocks();
    while start.0.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let end = both_clocks();
    (end.1 - start.1) as f64 / (end.0 - start.0).as_secs_f64()
}

/// Reads the kernel's clock and the counter at nearly the same time. The thread may be preempted between the two
/// readings; therefore several attempts are made, and the attempt with the shortest time between the readings is used.
fn both_clocks() -> (Instant, u64) {
    const TRIES: usize = 5;
    let tries = (0..TRIES).map(|_| {
        let before = Instant::now();
        let ticks = counter();
        (before.elapsed(), before, ticks)
    });
    let best = tries.min_by_key(|(passed, ..)| *passed);
    best.map_or_else(|| (Instant::now(), counter()), |(_, at, ticks)| (at, ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_agrees_with_kernel_clock() {
        let clock = Clock::get();
        // The kernel's clock is read before and after the counter, so that the bounds hold even if this thread is
        // preempted.
        let bracketed = || (Instant::now(), clock.now(), Instant::now());
        let start = bracketed();
        while start.0.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        let end = bracketed();
        let (min, max) = ((end.0 - start.2).as_secs_f64(), (end.2 - start.0).as_secs_f64());
        let seconds = clock.seconds(end.1 - start.1).0;
        assert!(seconds > 0.98 * min && seconds < 1.02 * max, "{min} {seconds} {max}");
        let there_and_back = clock.seconds(clock.ticks(Duration::from_millis(7))).0;
        assert!((there_and_back - 7e-3).abs() < 1e-8);
    }

    #[test]
    fn counter_rejected_by_kernel_is_not_used() {
        let tree = tempfile::tempdir().unwrap();
        let root = SysRoot::recorded(tree.path());
        assert!(!kernel_trusts_counter(&root));
        let folder = tree.path().join("sys/devices/system/clocksource/clocksource0");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("available_clocksource"), "hpet acpi_pm \n").unwrap();
        assert!(!kernel_trusts_counter(&root));
        std::fs::write(folder.join("available_clocksource"), "kvm-clock tsc \n").unwrap();
        assert!(kernel_trusts_counter(&root));
    }
}
