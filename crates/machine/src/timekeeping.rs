//! Check of the clock that times all figures, against other sources of time. A clock with a wrong rate falsifies
//! every figure by the same factor, e.g. in a guest whose clock is set wrongly, or with a library that replaces the
//! clock of programs (`libfaketime`).
//!
//! The other sources are the kernel's clock, read without the C library; the counter of the processor that has a
//! constant and reported frequency; and the clock of a core, which no processor exceeds by much.
#![allow(unsafe_code)]

use nodegauge_measure::Hertz;
use nodegauge_measure::record::Processor;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Maximum relative deviation from the kernel's clock that is not suspect. Figures are timed with the same clock, but
/// read it through the C library.
const MAX_DEVIATION: f64 = 0.01;
/// Maximum relative deviation from the counter that is not suspect. In a guest, the counter has the frequency of the
/// host on which the guest was started, which may be wrong after the guest has moved to another host.
const MAX_COUNTER_DEVIATION: f64 = 0.1;
/// Minimum time over which rates are compared; the readings of several clocks at one moment differ by some
/// microseconds.
const MIN_TIME: Duration = Duration::from_millis(20);
/// Number of attempts to read all sources at one moment. The fastest attempt is used, because the others were
/// interrupted.
const ATTEMPTS: usize = 5;
/// Factor by which a core may exceed the highest clock of the kernel's frequency control. This clock may be the
/// base clock (acpi-cpufreq with boost).
const MAX_CLOCK_FACTOR: f64 = 2.0;
/// Clock that no core reaches. Overclocking records are near 9.2 GHz (HWBOT).
const MAX_CLOCK: Hertz = Hertz(10e9);

/// Readings of several sources of time at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeReading {
    /// Time of the clock that times figures.
    clock: Instant,
    /// Time of the kernel's clock, read without the C library.
    kernel: Duration,
    /// Value of the counter with constant frequency; `None` if there is no such counter.
    counter: Option<u64>,
}

impl TimeReading {
    /// Reads all sources.
    pub fn read() -> Self {
        let mut best = Self::read_once();
        for _ in 1..ATTEMPTS {
            let next = Self::read_once();
            if next.lasts < best.lasts {
                best = next;
            }
        }
        best.reading
    }

    fn read_once() -> TimedReading {
        let before = kernel_time();
        let reading = Self { clock: Instant::now(), kernel: before, counter: counter() };
        TimedReading { reading, lasts: kernel_time().saturating_sub(before) }
    }

    /// Returns the times that each source has measured since an earlier reading.
    fn since(&self, earlier: &Self) -> ElapsedTimes {
        let counted = self.counter.zip(earlier.counter).map(|(now, then)| now.saturating_sub(then));
        ElapsedTimes {
            clock: self.clock.saturating_duration_since(earlier.clock),
            kernel: self.kernel.saturating_sub(earlier.kernel),
            counter: counted
                .zip(counter_frequency())
                .map(|(ticks, frequency)| Duration::from_secs_f64(ticks as f64 / frequency.0)),
        }
    }

    /// Returns the reasons why the clock was wrong since this reading, according to the other sources and to the
    /// clock of a core of `processor`.
    pub fn doubts(&self, processor: &Processor) -> Vec<String> {
        let mut doubts = Self::read().since(self).doubts();
        doubts.extend(impossible_clock(processor));
        doubts
    }
}

/// Reading, with the time that it took.
struct TimedReading {
    reading: TimeReading,
    lasts: Duration,
}

/// Times that several sources have measured between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ElapsedTimes {
    clock: Duration,
    kernel: Duration,
    counter: Option<Duration>,
}

impl ElapsedTimes {
    fn doubts(&self) -> Vec<String> {
        let sources = [
            (Some(self.kernel), MAX_DEVIATION, "the kernel's clock"),
            (self.counter, MAX_COUNTER_DEVIATION, "the processor's time-stamp counter"),
        ];
        let mut doubts = Vec::new();
        for (passed, tolerated, source) in sources {
            let Some(passed) = passed.filter(|passed| *passed >= MIN_TIME) else { continue };
            let rate = self.clock.as_secs_f64() / passed.as_secs_f64();
            if (rate - 1.0).abs() > tolerated {
                doubts.push(format!(
                    "the clock of this process ran at {rate:.3} of the rate of {source}, so that all times and \
                     rates are wrong"
                ));
            }
        }
        doubts
    }
}

/// Returns the reason for doubt if the measured clock of a core is higher than any processor can reach.
fn impossible_clock(processor: &Processor) -> Option<String> {
    let measured = processor.measured_hz?;
    let highest = processor.max_hz.map(|clock| MAX_CLOCK_FACTOR * clock.0);
    let bound = highest.unwrap_or(MAX_CLOCK.0).min(MAX_CLOCK.0);
    (measured.0 > bound).then(|| {
        format!(
            "a core appears to run at {measured}, which no processor of this kind reaches: the clock of this process \
             is too slow"
        )
    })
}

/// Returns the kernel's monotonic clock. The system call bypasses the C library, whose functions a preloaded
/// library can replace.
fn kernel_time() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Returns the time-stamp counter. [`counter_frequency`] decides whether it measures time.
#[cfg(target_arch = "x86_64")]
fn counter() -> Option<u64> {
    // SAFETY: the instruction reads a register and touches no memory. User space may read this register unless
    // PR_TSC_SIGSEGV is set, which this program never does.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

/// Returns the frequency of the counter as the processor or the hypervisor reports it; `None` if it is unknown.
#[cfg(target_arch = "x86_64")]
fn counter_frequency() -> Option<Hertz> {
    let cpuid = raw_cpuid::CpuId::new();
    let power = cpuid.get_advanced_power_mgmt_info()?;
    if !power.has_invariant_tsc() {
        return None;
    }
    let of_hypervisor = cpuid.get_hypervisor_info().and_then(|info| info.tsc_frequency());
    let of_hypervisor = of_hypervisor.map(|kilohertz| f64::from(kilohertz) * 1e3);
    let hertz = match of_hypervisor {
        Some(hertz) => hertz,
        None => cpuid.get_tsc_info()?.tsc_frequency()? as f64,
    };
    (hertz > 0.0).then_some(Hertz(hertz))
}

/// Returns the counter, which has a constant frequency.
#[cfg(target_arch = "aarch64")]
fn counter() -> Option<u64> {
    let ticks: u64;
    // SAFETY: Linux permits programs to read the virtual counter.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    Some(ticks)
}

/// Returns the frequency of the counter.
#[cfg(target_arch = "aarch64")]
fn counter_frequency() -> Option<Hertz> {
    let hertz: u64;
    // SAFETY: Linux permits programs to read the frequency of the counter.
    unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack)) };
    (hertz > 0).then_some(Hertz(hertz as f64))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> Option<u64> {
    None
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter_frequency() -> Option<Hertz> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(clock: u64, kernel: u64, counter: Option<u64>) -> ElapsedTimes {
        let millis = Duration::from_millis;
        ElapsedTimes { clock: millis(clock), kernel: millis(kernel), counter: counter.map(millis) }
    }

    #[test]
    fn clock_with_wrong_rate_is_suspect() {
        assert_eq!(passed(1000, 1000, Some(1000)).doubts(), [""; 0]);
        assert_eq!(passed(1000, 1000, None).doubts(), [""; 0]);
        assert_eq!(passed(1004, 1000, Some(950)).doubts(), [""; 0]);
        let slow = passed(100, 1000, Some(1000)).doubts();
        assert_eq!(slow.len(), 2);
        assert!(slow[0].starts_with(
            "the clock of this process ran at 0.100 of the rate of the kernel's clock"
        ));
        let guest = passed(1000, 1000, Some(500)).doubts();
        assert_eq!(guest.len(), 1);
        assert!(guest[0].contains("2.000 of the rate of the processor's time-stamp counter"));
        // Too short for a comparison.
        assert_eq!(passed(1, 10, Some(10)).doubts(), [""; 0]);
        // A clock that stands still.
        assert_eq!(passed(0, 1000, None).doubts().len(), 1);
    }

    #[test]
    fn implausibly_fast_core_is_suspect() {
        let processor = |measured: f64, max: Option<f64>| Processor {
            measured_hz: Some(Hertz(measured)),
            max_hz: max.map(Hertz),
            ..Processor::default()
        };
        assert_eq!(impossible_clock(&processor(5.7e9, None)), None);
        assert_eq!(impossible_clock(&processor(3.9e9, Some(2.6e9))), None);
        assert!(impossible_clock(&processor(6.0e9, Some(2.6e9))).is_some());
        let why = impossible_clock(&processor(26e9, None)).unwrap();
        assert!(why.contains("26.00 GHz"), "{why}");
    }

    #[test]
    fn kernel_and_library_clocks_agree() {
        let before = TimeReading::read();
        let start = kernel_time();
        while kernel_time() - start < Duration::from_millis(100) {
            std::hint::spin_loop();
        }
        let passed = TimeReading::read().since(&before);
        assert_eq!(ElapsedTimes { counter: None, ..passed }.doubts(), [""; 0]);
    }
}
