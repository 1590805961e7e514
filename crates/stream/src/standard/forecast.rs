//! Prediction of the time of runs of STREAM's source, whose array length and number of passes are known before it is
//! compiled.
//!
//! The rates come from a short measurement of the native kernels on the threads of the run. Its arrays are as long as
//! the time for filling them permits, at most as long as those of the run. Shorter arrays may fit in caches. The
//! predicted time is then a lower bound, so no run is refused that would keep its budget.

use super::build::ProgramArrays;
use crate::arrangement::Arrangement;
use crate::kernels::{Kernel, KernelShape, STREAM, STREAM_ARRAY_COUNT, Stores};
use crate::point::StreamTarget;
use crate::prediction::COMPILE_TIME;
use crate::target::TargetConfig;
use crate::tuner::{self, LoopConstraints, SearchBreadth};
use nodegauge_arena::ArenaError;
use nodegauge_measure::schedule::{PredictedTime, RunLimits};
use nodegauge_measure::{Bytes, BytesPerSec, Failure, Seconds, clock};
use nodegauge_placement::MemoryPolicy;
use std::time::Duration;

/// Size of the arrays of the first, shortest measurement.
const FIRST_ARRAY: Bytes = Bytes::mib(4);
/// Time for filling the arrays of the second, longer measurement.
const FILL_TIME: Seconds = Seconds(0.08);
/// Number of passes of a measurement, without the warm-up.
const PASSES: usize = 3;
/// Ratio of the bytes on the memory bus to the counted bytes with regular stores, which read the line that they
/// overwrite: Copy and Scale move 3 words for 2 counted words, Add and Triad 4 for 3.
const REGULAR_STORES: f64 = 14.0 / 10.0;
/// Number of native passes before and after the first run of a program: the size check and the native parts.
const NATIVE_PASSES: f64 = 25.0;
/// Minimum duration of a native part before a run of the program.
const NATIVE_TIME: Seconds = Seconds(0.5);

/// Rates of this node, from a short measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProbedRates {
    /// Rate at which new arrays are filled.
    pub filling: BytesPerSec,
    /// Rate of counted bytes in the fastest pass.
    pub best: BytesPerSec,
    /// Rate of counted bytes in the slowest pass.
    pub slowest: BytesPerSec,
}

impl ProbedRates {
    /// Measures the rates on the threads of `arrangement`.
    pub(super) fn measure(arrangement: &Arrangement) -> Result<Self, ArenaError> {
        let element = arrangement.options.arrays.element.bytes();
        let first = Self::with_arrays(arrangement, FIRST_ARRAY.0 / element)?;
        let longer = first.filling.0 * FILL_TIME.0 / (STREAM_ARRAY_COUNT as u64 * element) as f64;
        let longer = (longer as u64).min(arrangement.size.elements);
        if longer <= FIRST_ARRAY.0 / element {
            return Ok(first);
        }
        Self::with_arrays(arrangement, longer)
    }

    fn with_arrays(arrangement: &Arrangement, elements: u64) -> Result<Self, ArenaError> {
        let of_rank = &arrangement.configs[0];
        // The policy of one rank does not apply to the threads of all ranks.
        let policy = match arrangement.ranks {
            Some(_) => MemoryPolicy::Default,
            None => of_rank.policy.clone(),
        };
        let config = TargetConfig {
            places: arrangement.placement.thread_cpus(),
            arrays: STREAM_ARRAY_COUNT,
            elements,
            kernels: kernels(),
            policy,
            ..of_rank.clone()
        };
        let begun = clock::now();
        let arrays = config.bytes() as f64;
        let counted: u64 =
            config.kernels.iter().map(|(one, _)| one.counted_bytes(config.element)).sum();
        let mut point = StreamTarget::prepare(config)?;
        let filling = clock::now().saturating_duration_since(begun);
        let mut rates = Vec::new();
        for _ in 0..=PASSES {
            let seconds: f64 = point.run_pass()?.seconds.iter().sum();
            rates.push((counted * elements) as f64 / seconds);
        }
        Ok(Self {
            filling: BytesPerSec(arrays / filling.as_secs_f64().max(1e-9)),
            best: BytesPerSec(rates.iter().copied().fold(0.0, f64::max)),
            slowest: BytesPerSec(rates[1..].iter().copied().fold(f64::INFINITY, f64::min)),
        })
    }
}

/// Returns STREAM's kernels with the loops that are presumably the fastest.
fn kernels() -> Vec<(Kernel, KernelShape)> {
    let shapes = tuner::candidate_shapes(LoopConstraints::default(), SearchBreadth::Likely);
    let fast = shapes.iter().find(|shape| shape.stores == Stores::NonTemporal).or(shapes.first());
    let Some(shape) = fast else { return Vec::new() };
    STREAM.iter().map(|kernel| (*kernel, *shape)).collect()
}

/// Predicted times of a run that measures native kernels and builds of the source interleaved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Forecast {
    /// Shortest possible time until the first run of each build has ended.
    pub min: Duration,
    /// Likely time until the first run of each build has ended, with compilation, at the slowest rate and with regular
    /// stores.
    pub likely: Duration,
}

impl Forecast {
    /// Predicts the time of one run of each of `builds` builds. `has_native` is true if native arrays of the same
    /// length are measured too.
    pub(super) fn new(
        rates: ProbedRates,
        wanted: &ProgramArrays,
        builds: usize,
        has_native: bool,
    ) -> Self {
        let element = wanted.element.bytes();
        let words: u64 = STREAM.iter().map(|kernel| kernel.counted_bytes(wanted.element)).sum();
        let pass = (words * wanted.elements) as f64;
        let arrays = Seconds(
            (STREAM_ARRAY_COUNT as u64 * element * wanted.elements) as f64 / rates.filling.0,
        );
        let run = |rate: BytesPerSec| arrays + Seconds(wanted.ntimes as f64 * pass / rate.0);
        let count = builds as f64;
        let compiling = Seconds(COMPILE_TIME.as_secs_f64());
        let slow = BytesPerSec(rates.slowest.0 / REGULAR_STORES);
        let mut least = run(rates.best) * count;
        let mut likely = (run(slow) + compiling) * count;
        if has_native {
            least = least + arrays + NATIVE_TIME;
            likely = likely + arrays + Seconds(NATIVE_PASSES * pass / rates.slowest.0);
        }
        Self { min: least.duration(), likely: likely.duration() }
    }

    /// Refuses a run that would exceed its budget; otherwise returns a remark for the message that announces the run.
    /// The run is not shortened: STREAM's rule fixes the length of the arrays, and the source the number of passes.
    pub(super) fn check(self, limits: &RunLimits) -> Result<String, Failure> {
        let time = PredictedTime { min: self.min, likely: self.likely };
        limits.admit_as_planned(time, "fewer passes (-DNTIMES), or smaller arrays (--size)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Element;

    const RATES: ProbedRates = ProbedRates {
        filling: BytesPerSec(24e9),
        best: BytesPerSec(100e9),
        slowest: BytesPerSec(70e9),
    };

    fn wanted(elements: u64, ntimes: u64) -> ProgramArrays {
        ProgramArrays { elements, element: Element::F64, offset: 0, ntimes }
    }

    #[test]
    fn run_time_includes_passes_and_first_touch() {
        // 80 bytes per element and pass: 1e9 elements take 0.8 s per pass at best, 8/7 s at the slowest rate, and 1.6 s
        // at that rate with regular stores.
        let one = Forecast::new(RATES, &wanted(1_000_000_000, 100), 1, true);
        assert_eq!(one.min, Duration::from_secs_f64(1.0 + 0.5 + 1.0 + 80.0));
        let likely = 1.0 + 25.0 * 8.0 / 7.0 + 1.0 + 160.0 + 1.0;
        assert!((one.likely.as_secs_f64() - likely).abs() < 1e-6, "{:?}", one.likely);
        let two = Forecast::new(RATES, &wanted(1_000_000_000, 100), 2, false);
        assert_eq!(two.min, Duration::from_secs_f64(2.0 * 81.0));
    }

    #[test]
    fn short_budget_is_refused_and_sufficient_budget_is_named() {
        let forecast = Forecast::new(RATES, &wanted(800_000_000, 100), 1, true);
        let asked = |seconds| RunLimits {
            is_set_by_user: true,
            ..RunLimits::new(Duration::from_secs_f64(seconds), None)
        };
        let refused = forecast.check(&asked(8.0)).unwrap_err();
        assert_eq!(
            refused.message,
            "--budget 8 is too short: the run takes at least 66.1 s, and up to 307 s with enough rounds on a busy node"
        );
        let hint = refused.hint.unwrap();
        let expected = "use --budget 307, or fewer passes (-DNTIMES), or smaller arrays (--size)";
        assert_eq!(hint, expected);
        assert_eq!(forecast.check(&asked(170.0)).unwrap(), "");
        // A default budget never refuses.
        let usual = RunLimits::new(Duration::from_secs(8), None);
        assert_eq!(forecast.check(&usual).unwrap(), ": takes at least 67 s");
        let endless = Forecast::new(RATES, &wanted(1 << 49, 1 << 49), 1, true);
        assert!(endless.check(&asked(8.0)).is_err());
    }
}
