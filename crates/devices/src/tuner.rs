//! Choice of the fastest loop per kernel on a device, by successive halving with short measurements. As in the run
//! itself, each pass runs all kernels.

use crate::bench::{DeviceArrays, KernelTimes, LoopShape};
use crate::driver::{DeviceError, FailureClass};
use crate::info::DeviceInfo;
use nodegauge_kernels::Kernel;
use nodegauge_measure::clock;
use nodegauge_measure::schedule::halving::{
    self, CandidateTurns, DeadlineCheck, EliminationRule, Halving, PassesPerRound,
    PreparationResult, SearchRules, TurnRate,
};
use std::time::Instant;

/// Result of the choice of loops.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoopChoice {
    /// Chosen loop of each kernel.
    pub loops: Vec<(Kernel, LoopShape)>,
    /// Maximum number of loops that were tried for a kernel.
    pub tried: usize,
}

/// Minimum rate of a loop in its first pass, as a share of the fastest loop's rate. It is small because some drivers
/// still compile during the first pass.
const MIN_FIRST_RATE: f64 = 0.25;

/// Rules for the successive halving of loops. No loop is dropped before it has four samples.
const RULES: SearchRules = SearchRules {
    seed: 0x6465_7669,
    passes: PassesPerRound::Growing,
    elimination: EliminationRule::SlowerHalf { from: 2, left: 1 },
    min_rounds: 0,
    max_rounds: None,
    whole_rounds: 0,
    check: DeadlineCheck::Turn,
};

/// Chooses a loop for each kernel. The search ends at `deadline`, or when `stop` returns true. Loops that cannot be
/// built are skipped. If time is short, only the first candidates are tried.
///
/// Fails if no loop works for one of the kernels.
pub fn choose_loops(
    bench: &mut DeviceArrays,
    kernels: &[Kernel],
    device: &DeviceInfo,
    deadline: Instant,
    stop: &dyn Fn() -> bool,
) -> Result<LoopChoice, DeviceError> {
    let shapes: Vec<Vec<LoopShape>> =
        kernels.iter().map(|kernel| LoopShape::candidates_for_kernel(*kernel, device)).collect();
    let late = || clock::now() >= deadline || stop();
    // The first pass of a loop includes building the loop.
    let mut first_turn = |group: usize, shape: &LoopShape| {
        DeviceError::check_end_request()?;
        match bench.run_pass(&[(kernels[group], *shape)]) {
            Ok(times) => Ok(PreparationResult::Works((*shape, device_rate(&times[0])))),
            Err(error) if matches!(error.kind, FailureClass::Build | FailureClass::Unsupported) => {
                Ok(PreparationResult::Refused(error))
            }
            Err(error) => Err(error),
        }
    };
    let working = halving::prepare_candidates(&shapes, &late, &mut first_turn)?;
    let tried = working.iter().map(Vec::len).max().unwrap_or(0);
    let mut groups: Vec<Halving<LoopShape>> = working.into_iter().map(without_slow_loops).collect();
    let mut turns = Loops { bench, kernels, stop };
    halving::choose(&mut turns, &mut groups, &RULES, deadline)?;
    let leaders = groups.iter().map(|group| *group.leader());
    Ok(LoopChoice { loops: kernels.iter().copied().zip(leaders).collect(), tried })
}

/// Returns the rate of a pass by the device's clock.
fn device_rate(times: &KernelTimes) -> TurnRate {
    TurnRate { rate: 1.0 / times.0, round_trip: f64::NAN }
}

/// Returns the loops that are not much slower than the fastest loop, with the samples of their first passes.
fn without_slow_loops(working: Vec<(LoopShape, TurnRate)>) -> Halving<LoopShape> {
    let best = working.iter().map(|(_, first)| first.rate).fold(0.0, f64::max);
    let near: Vec<(LoopShape, TurnRate)> =
        working.into_iter().filter(|(_, first)| first.rate >= MIN_FIRST_RATE * best).collect();
    let mut halving = Halving::new(near.iter().map(|(shape, _)| *shape));
    // Every loop gets a first sample, so that the loops can be ranked even if the time is very short.
    for (number, (_, first)) in near.iter().enumerate() {
        halving.add_rate(number, first.rate, first.round_trip);
    }
    halving
}

/// Loops that run interleaved on a device; each pass runs all kernels.
struct Loops<'a> {
    bench: &'a mut DeviceArrays,
    kernels: &'a [Kernel],
    stop: &'a dyn Fn() -> bool,
}

impl CandidateTurns for Loops<'_> {
    type Candidate = LoopShape;
    type Error = DeviceError;

    fn turn(&mut self, picked: &mut [&mut LoopShape]) -> Result<Vec<TurnRate>, DeviceError> {
        let shapes = picked.iter().map(|shape| **shape);
        let pass: Vec<(Kernel, LoopShape)> = self.kernels.iter().copied().zip(shapes).collect();
        Ok(self.bench.run_pass(&pass)?.iter().map(device_rate).collect())
    }

    fn must_end(&mut self) -> bool {
        (self.stop)()
    }
}
