//! The clock that times single operations: the processor's time-stamp counter where it is
//! invariant and the kernel keeps it among its clocks, else the kernel's monotonic clock.
//!
//! Invariant (CPUID leaf 8000_0007h, EDX bit 8) means that it ticks at one rate in all states of the
//! processor (Intel SDM vol. 3, 17.17.1; AMD APM vol. 2, 13.2.4); a kernel that finds the counters
//! of several CPUs apart takes `tsc` off its list of clocks. The rate is calibrated against the
//! monotonic clock, because what CPUID says of it is a nominal figure.

use nodegauge_machine::SysRoot;
use nodegauge_measure::Seconds;
use nodegauge_os::monotonic_nanos;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where ticks come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The time-stamp counter.
    Counter,
    /// `clock_gettime(CLOCK_MONOTONIC)`, in nanoseconds.
    Kernel,
}

impl Source {
    /// As it is written in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "tsc",
            Self::Kernel => "clock_gettime",
        }
    }
}

/// A clock whose readings are ticks since some time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: Source,
    /// Ticks in a second.
    rate: f64,
}

/// How long the counter is held against the kernel's clock: at a jitter of 50 ns for each of two
/// readings the rate is right to 5 parts in a million.
const CALIBRATION: Duration = Duration::from_millis(20);

impl Clock {
    /// The clock of this process; the first call calibrates it.
    pub fn get() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(|| match counter_is_good() {
            true => Self { source: Source::Counter, rate: calibrate() },
            false => Self { source: Source::Kernel, rate: 1e9 },
        })
    }

    /// Where its ticks come from.
    pub fn source(self) -> Source {
        self.source
    }

    /// Ticks until now.
    #[inline]
    pub fn now(self) -> u64 {
        match self.source {
            Source::Counter => counter(),
            Source::Kernel => monotonic_nanos(),
        }
    }

    /// A number of ticks as a time.
    pub fn seconds(self, ticks: u64) -> Seconds {
        Seconds(ticks as f64 / self.rate)
    }

    /// A time as a number of ticks.
    pub fn ticks(self, time: Duration) -> u64 {
        (time.as_secs_f64() * self.rate) as u64
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: reads a register that user space may read unless the kernel forbids it (PR_TSC_SIGSEGV
    // is set by nobody here), and touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn counter() -> u64 {
    monotonic_nanos()
}

#[cfg(target_arch = "x86_64")]
fn counter_is_good() -> bool {
    let invariant = raw_cpuid::CpuId::new()
        .get_advanced_power_mgmt_info()
        .is_some_and(|info| info.has_invariant_tsc());
    invariant && kernel_trusts_counter(&SysRoot::live())
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_good() -> bool {
    false
}

/// Whether the kernel keeps the counter among its clocks.
fn kernel_trusts_counter(root: &SysRoot) -> bool {
    root.text("sys/devices/system/clocksource/clocksource0/available_clocksource")
        .is_some_and(|list| list.split_whitespace().any(|name| name == "tsc"))
}

/// Ticks of the counter in a second.
fn calibrate() -> f64 {
    let start = (Instant::now(), counter());
    while start.0.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let end = (Instant::now(), counter());
    (end.1 - start.1) as f64 / (end.0 - start.0).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_kernels_clock() {
        let clock = Clock::get();
        let (kernel, ticks) = (Instant::now(), clock.now());
        std::thread::sleep(Duration::from_millis(50));
        let (kernel, ticks) = (kernel.elapsed().as_secs_f64(), clock.now() - ticks);
        let ratio = clock.seconds(ticks).0 / kernel;
        assert!((0.98..1.02).contains(&ratio), "{ratio}");
        let there_and_back = clock.seconds(clock.ticks(Duration::from_millis(7))).0;
        assert!((there_and_back - 7e-3).abs() < 1e-8);
    }

    #[test]
    fn a_counter_that_the_kernel_dropped_is_not_used() {
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
