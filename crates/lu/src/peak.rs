//! Peak rates of the arithmetic units, measured by loops that use registers only.
//!
//! Each loop runs independent chains of multiply-adds, as many as fit into the registers together with two constants.
//! This hides the latency of every known core: a latency of 4 or 5 cycles with two units requires 8 to 10 chains. The
//! loop is written once, generic over a vector type. Without fused instructions, a chain consists of equal numbers of
//! multiplications and additions. All values stay near 2, so no value becomes denormal. The theoretical peak is cores x
//! clock x operations per cycle, with the clock measured during the loop.
//!
//! A loop runs in bursts, which are short runs of 20 ms. If a sibling hardware thread (perhaps of another virtual
//! machine) uses the execution units, the loop performs fewer operations per cycle. From the bursts,
//! [`other_load_share`] computes the share of the units that other load used.

use nodegauge_kernels::{Isa, enabled};
use nodegauge_machine::clock::WorkClock;
use nodegauge_measure::{FlopsPerSec, Fraction, Hertz, stats};
use nodegauge_team::{Team, TeamError};
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::time::{Duration, Instant};

/// Vector register with its arithmetic.
///
/// # Safety
/// The processor must support the instruction set of the register.
trait Register: Copy {
    /// Number of elements of the register.
    const LANES: usize;
    /// Returns a register whose elements all equal `x`.
    ///
    /// # Safety
    /// The processor must support the instruction set of the register.
    unsafe fn splat(x: f64) -> Self;
    /// Returns `self * x + y`, computed with two instructions.
    ///
    /// # Safety
    /// The processor must support the instruction set of the register.
    unsafe fn mul_then_add(self, x: Self, y: Self) -> Self;
    /// Returns `self * x + y`, computed with one instruction if the instruction set has a fused multiply-add.
    ///
    /// # Safety
    /// The processor must support the instruction set of the register.
    unsafe fn mul_add(self, x: Self, y: Self) -> Self;
}

/// Number of iterations between two readings of the clock.
const ITERATIONS: u64 = 20_000;

/// Runs `CHAINS` chains of `ITERATIONS` iterations; returns the number of operations.
///
/// # Safety
/// The processor must support the instruction set of the register.
#[inline(always)]
unsafe fn chains<R: Register, const CHAINS: usize, const FUSED: bool>() -> u64 {
    // SAFETY: the caller meets the requirements of this function.
    unsafe {
        let x = R::splat(std::hint::black_box(0.5));
        let y = R::splat(std::hint::black_box(1.0));
        let mut sums = [y; CHAINS];
        for _ in 0..ITERATIONS {
            for sum in &mut sums {
                *sum = if FUSED { sum.mul_add(x, y) } else { sum.mul_then_add(x, y) };
            }
        }
        std::hint::black_box(sums);
    }
    2 * ITERATIONS * (CHAINS * R::LANES) as u64
}

/// Register-only loop that measures a peak.
#[derive(Debug, Clone, Copy)]
pub struct PeakLoop {
    /// Instruction set of the loop.
    pub isa: Isa,
    /// Element type: `f64` or `f32`.
    pub element: &'static str,
    /// True if multiplication and addition are one instruction.
    pub fused: bool,
    run: unsafe fn() -> u64,
}

impl PeakLoop {
    /// True if both values describe the same loop.
    pub fn is_same_loop(&self, other: &Self) -> bool {
        (self.isa, self.element, self.fused) == (other.isa, other.element, other.fused)
    }

    /// Returns the name of the instruction set in records.
    pub fn isa_name(&self) -> &'static str {
        match self.isa {
            Isa::Avx2 => "avx2+fma",
            Isa::Portable => "baseline",
            isa => isa.name(),
        }
    }
}

macro_rules! kernel {
    ($isa:ident, $element:literal, $fused:literal, $register:ty, $chains:literal) => {{
        enabled! { $isa,
            /// Runs the loop; returns the number of operations.
            ///
            /// # Safety
            /// The processor must support the instruction set of the loop.
            unsafe fn run() -> u64 {
                // SAFETY: the caller meets the requirements of this function.
                unsafe { chains::<$register, $chains, $fused>() }
            }
        }
        PeakLoop { isa: Isa::$isa, element: $element, fused: $fused, run }
    }};
}

macro_rules! register {
    ($register:ty, $lanes:literal, |$x0:ident| $splat:expr, |$a:ident, $x:ident, $y:ident| $apart:expr
     $(, $fused:expr)?) => {
        impl Register for $register {
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn splat($x0: f64) -> Self {
                // SAFETY: the caller meets the requirements of this function.
                #[allow(unused_unsafe, reason = "arrays need no instruction set")]
                unsafe {
                    $splat
                }
            }
            #[inline(always)]
            unsafe fn mul_then_add(self, $x: Self, $y: Self) -> Self {
                let $a = self;
                // SAFETY: the caller meets the requirements of this function.
                #[allow(unused_unsafe, reason = "arrays need no instruction set")]
                unsafe {
                    $apart
                }
            }
            #[inline(always)]
            unsafe fn mul_add(self, $x: Self, $y: Self) -> Self {
                let $a = self;
                // SAFETY: the caller meets the requirements of this function.
                #[allow(unused_unsafe, reason = "arrays need no instruction set")]
                unsafe {
                    register!(@first $($fused,)? $apart)
                }
            }
        }
    };
    (@first $first:expr $(, $rest:expr)?) => { $first };
}

/// Register with a single number. The arithmetic is written in assembler, because a compiler would vectorise it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[derive(Clone, Copy)]
struct Scalar(f64);

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl Scalar {
    /// Returns `self * x + y`, computed with a multiplication and an addition.
    #[inline(always)]
    fn mul_then_add(mut self, Self(x): Self, Self(y): Self) -> Self {
        // SAFETY: every processor of this architecture has these two instructions, which access only registers.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            std::arch::asm!(
                "mulsd {a}, {x}",
                "addsd {a}, {y}",
                a = inout(xmm_reg) self.0, x = in(xmm_reg) x, y = in(xmm_reg) y,
                options(pure, nomem, nostack, preserves_flags)
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::asm!(
                "fmul {a:d}, {a:d}, {x:d}",
                "fadd {a:d}, {a:d}, {y:d}",
                a = inout(vreg) self.0, x = in(vreg) x, y = in(vreg) y,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        self
    }
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use super::*;
    register!(Scalar, 1, |x| Scalar(x), |a, x, y| a.mul_then_add(x, y));
    register!(__m128d, 2, |x| _mm_set1_pd(x), |a, x, y| _mm_add_pd(_mm_mul_pd(a, x), y));
    register!(__m128, 4, |x| _mm_set1_ps(x as f32), |a, x, y| _mm_add_ps(_mm_mul_ps(a, x), y));
    register!(
        __m256d,
        4,
        |x| _mm256_set1_pd(x),
        |a, x, y| _mm256_add_pd(_mm256_mul_pd(a, x), y),
        _mm256_fmadd_pd(a, x, y)
    );
    register!(
        __m256,
        8,
        |x| _mm256_set1_ps(x as f32),
        |a, x, y| _mm256_add_ps(_mm256_mul_ps(a, x), y),
        _mm256_fmadd_ps(a, x, y)
    );
    register!(
        __m512d,
        8,
        |x| _mm512_set1_pd(x),
        |a, x, y| _mm512_add_pd(_mm512_mul_pd(a, x), y),
        _mm512_fmadd_pd(a, x, y)
    );
    register!(
        __m512,
        16,
        |x| _mm512_set1_ps(x as f32),
        |a, x, y| _mm512_add_ps(_mm512_mul_ps(a, x), y),
        _mm512_fmadd_ps(a, x, y)
    );
}

#[cfg(target_arch = "aarch64")]
mod registers {
    use super::*;
    register!(Scalar, 1, |x| Scalar(x), |a, x, y| a.mul_then_add(x, y));
    register!(
        float64x2_t,
        2,
        |x| vdupq_n_f64(x),
        |a, x, y| vaddq_f64(vmulq_f64(a, x), y),
        vfmaq_f64(y, a, x)
    );
    register!(
        float32x4_t,
        4,
        |x| vdupq_n_f32(x as f32),
        |a, x, y| vaddq_f32(vmulq_f32(a, x), y),
        vfmaq_f32(y, a, x)
    );
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod registers {
    use super::*;
    use std::array::from_fn;
    register!([f64; 4], 4, |x| [x; 4], |a, x, y| from_fn(|i| a[i] * x[i] + y[i]));
    register!([f32; 4], 4, |x| [x as f32; 4], |a, x, y| from_fn(|i| a[i] * x[i] + y[i]));
}

/// Returns double-precision loops without fused multiply-adds that [`loops`] does not contain: a scalar loop,
/// and loops with each kind of vector that has fused instructions. Narrow vectors come first.
pub fn loops_without_fma() -> Vec<PeakLoop> {
    let mut all = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        all.push(kernel!(Scalar, "f64", false, Scalar, 12));
        if Isa::Avx.is_available() {
            all.push(kernel!(Avx, "f64", false, __m256d, 12));
        }
        if Isa::Avx512.is_available() {
            all.push(kernel!(Avx512, "f64", false, __m512d, 20));
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        all.push(kernel!(Scalar, "f64", false, Scalar, 24));
        all.push(kernel!(Neon, "f64", false, float64x2_t, 24));
    }
    all
}

/// Returns the loops that this processor supports. Narrow vectors come first, and `f64` before `f32`.
pub fn loops() -> Vec<PeakLoop> {
    let mut all = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        all.push(kernel!(Sse2, "f64", false, __m128d, 12));
        all.push(kernel!(Sse2, "f32", false, __m128, 12));
        if Isa::Avx2.is_available() {
            all.push(kernel!(Avx2, "f64", true, __m256d, 12));
            all.push(kernel!(Avx2, "f32", true, __m256, 12));
        }
        if Isa::Avx512.is_available() {
            all.push(kernel!(Avx512, "f64", true, __m512d, 20));
            all.push(kernel!(Avx512, "f32", true, __m512, 20));
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        all.push(kernel!(Neon, "f64", true, float64x2_t, 24));
        all.push(kernel!(Neon, "f32", true, float32x4_t, 24));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        all.push(kernel!(Portable, "f64", false, [f64; 4], 8));
        all.push(kernel!(Portable, "f32", false, [f32; 4], 8));
    }
    all
}

/// Result of a burst: a short run of a loop on all threads of a team.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Rate of all threads together, FLOP/s.
    pub rate: FlopsPerSec,
    /// Mean clock frequency of the threads during the burst; `None` if the clock cannot be measured.
    pub clock: Option<Hertz>,
}

impl Burst {
    /// Returns the number of operations per cycle and thread, for a burst on `threads` threads; `None` if the clock
    /// is unknown.
    pub fn flops_per_cycle(&self, threads: usize) -> Option<f64> {
        Some(self.rate.0 / threads as f64 / self.clock?.0)
    }
}

impl Burst {
    /// Returns the operations of all threads: per cycle if `clocks_count` is true, otherwise per second.
    fn speed(&self, clocks_count: bool) -> f64 {
        match self.clock {
            Some(clock) if clocks_count => self.rate.0 / clock.0,
            _ => self.rate.0,
        }
    }
}

/// Result of a loop on all threads of a team.
#[derive(Debug, Clone)]
pub struct Peak {
    /// Loop that was measured.
    pub kernel: PeakLoop,
    /// Results of the bursts, in order of time.
    pub bursts: Vec<Burst>,
}

impl Peak {
    /// Returns the best burst; its rate is 0 if there are no bursts.
    pub fn best_burst(&self) -> Burst {
        let nothing = Burst { rate: FlopsPerSec(0.0), clock: None };
        self.bursts.iter().copied().fold(nothing, |a, b| if b.rate > a.rate { b } else { a })
    }

    /// Returns the rate of the best burst.
    pub fn best_rate(&self) -> FlopsPerSec {
        self.best_burst().rate
    }
}

/// Returns the share of the execution units that other load used, from 0 to 1. The median speed of the bursts
/// `some` is compared with the best speed of `all` bursts of the same loop. The speed is in operations per cycle,
/// so that a change of the clock does not count as other load. If the clock of any burst is unknown, the speed is
/// in operations per second. Returns `None` without bursts.
pub fn other_load_share(some: &[Burst], all: &[Burst]) -> Option<Fraction> {
    let clocks = some.iter().chain(all).all(|burst| burst.clock.is_some());
    let best = some.iter().chain(all).map(|burst| burst.speed(clocks)).reduce(f64::max)?;
    let speeds: Vec<f64> = some.iter().map(|burst| burst.speed(clocks)).collect();
    let median = stats::median(&speeds);
    median.is_finite().then(|| Fraction(1.0 - median / best))
}

/// Duration of a burst.
const BURST: Duration = Duration::from_millis(20);

/// Returns the number of bursts in about `time`, at least one.
pub fn burst_count(time: Duration) -> usize {
    (time.as_secs_f64() / BURST.as_secs_f64()).ceil().max(1.0) as usize
}

/// Runs `kernel` for one burst, which all threads start simultaneously.
///
/// # Errors
/// Fails if a thread fails.
pub fn run_burst(team: &mut Team, kernel: &PeakLoop) -> Result<Burst, TeamError> {
    let parts = team.run_and_collect(|member| {
        member.barrier();
        let mut clock = WorkClock::start();
        let start = Instant::now();
        let mut operations = 0;
        while start.elapsed() < BURST {
            // SAFETY: `kernel` is a loop of an instruction set that was detected.
            operations += unsafe { (kernel.run)() };
            clock.run_due_burst();
        }
        let seconds = (start.elapsed() - clock.burst_time()).as_secs_f64();
        (operations as f64 / seconds, clock.clock())
    })?;
    // All threads run for the same time, so the rates of the threads are added.
    let rate = FlopsPerSec(parts.iter().map(|part| part.0).sum());
    let clocks: Option<Vec<f64>> = parts.iter().map(|part| Some(part.1?.0)).collect();
    let clock = clocks.map(|hertz| Hertz(hertz.iter().sum::<f64>() / hertz.len() as f64));
    Ok(Burst { rate, clock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_loops_count_their_operations() {
        for kernel in loops().iter().chain(&loops_without_fma()) {
            // SAFETY: as in `measure`.
            let operations = unsafe { (kernel.run)() };
            assert!(operations >= 2 * ITERATIONS * 8 && operations.is_multiple_of(2 * ITERATIONS));
        }
    }

    /// Checks the result of a chain, with fused and with separate instructions, for every register type.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn chain_multiplies_and_adds() {
        // SAFETY: SSE2 is part of the architecture, AVX2 and FMA are detected.
        unsafe {
            let scalar = Scalar(3.0).mul_then_add(Scalar(5.0), Scalar(7.0));
            assert_eq!(scalar.0, 22.0);
            let [three, five, seven] = [3.0, 5.0, 7.0].map(|x| __m128d::splat(x));
            assert_eq!(_mm_cvtsd_f64(three.mul_then_add(five, seven)), 22.0);
            assert_eq!(_mm_cvtsd_f64(three.mul_add(five, seven)), 22.0);
            if Isa::Avx2.is_available() {
                enabled! { Avx2,
                    /// # Safety
                    /// The processor must support the instruction set.
                    unsafe fn wide() -> [f64; 2] {
                        // SAFETY: the caller meets the requirements of this function.
                        unsafe {
                            let [three, five, seven] = [3.0, 5.0, 7.0].map(|x| __m256d::splat(x));
                            [three.mul_then_add(five, seven), three.mul_add(five, seven)]
                                .map(|x| _mm256_cvtsd_f64(x))
                        }
                    }
                }
                assert_eq!(wide(), [22.0; 2]);
            }
        }
    }

    #[test]
    fn peak_rate_is_the_rate_of_the_best_burst() {
        let mut team = Team::start(&[Vec::new(), Vec::new()]).unwrap();
        let kernel = *loops().last().unwrap();
        let rounds = burst_count(Duration::from_millis(50));
        let bursts = (0..rounds).map(|_| run_burst(&mut team, &kernel).unwrap()).collect();
        let peak = Peak { kernel, bursts };
        assert_eq!(peak.bursts.len(), 3);
        assert!(peak.best_rate().0 > 0.0 && peak.kernel.element == "f32");
        assert!(peak.bursts.iter().all(|burst| burst.rate <= peak.best_rate()));
        let at = |clock| Burst { clock, ..peak.best_burst() };
        assert_eq!(at(None).flops_per_cycle(2), None);
        assert_eq!(at(Some(Hertz(1e9))).flops_per_cycle(2), Some(peak.best_rate().0 / 2.0 / 1e9));
    }

    #[test]
    fn clock_change_is_not_other_load() {
        let bursts = |all: &[(f64, f64)]| -> Vec<Burst> {
            all.iter()
                .map(|(rate, hz)| Burst { rate: FlopsPerSec(*rate), clock: Some(Hertz(*hz)) })
                .collect()
        };
        // At half the clock, half the rate means that no units were lost; at the full clock, it means that half of the
        // units were lost.
        let quiet = bursts(&[(64e9, 2e9), (32e9, 1e9), (48e9, 1.5e9)]);
        assert_eq!(other_load_share(&quiet, &[]), Some(Fraction(0.0)));
        let busy = bursts(&[(32e9, 2e9), (16e9, 1e9), (48e9, 1.5e9)]);
        assert_eq!(other_load_share(&busy, &quiet), Some(Fraction(0.5)));
        let unknown = [Burst { rate: FlopsPerSec(48e9), clock: None }];
        assert_eq!(other_load_share(&unknown, &quiet), Some(Fraction(0.25)));
        assert_eq!(other_load_share(&[], &quiet), None);
    }
}
