//! Choice of the fastest loop per kernel on a device, by successive halving with short measurements. Kernels are
//! interleaved as in the run itself.

use crate::bench::{Bench, LoopShape, Times};
use crate::driver::{DeviceError, FailureClass};
use crate::info::DeviceInfo;
use nodegauge_kernels::Kernel;
use nodegauge_measure::clock;
use nodegauge_measure::schedule::halving::{
    self, Candidates, DeadlineCheck, Halving, Passes, Prepared, RoundRule, Rules, TurnRate,
};
use std::time::Instant;

/// Result of the choice.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chosen {
    /// Chosen loop of each kernel.
    pub loops: Vec<(Kernel, LoopShape)>,
    /// Largest number of loops that were tried for a kernel.
    pub tried: usize,
}

/// Share of the fastest rate below which a loop is dropped after its first turn. Some drivers still compile during the
/// first turn, so the share is small.
const HOPELESS: f64 = 0.25;

/// Rules of halving for loops.
const RULES: Rules = Rules {
    seed: 0x6465_7669,
    passes: Passes::Growing,
    leave: RoundRule::SlowerHalf { from: 1, left: 1 },
    least_rounds: 0,
    most_rounds: None,
    whole_rounds: 0,
    check: DeadlineCheck::Turn,
};

/// Chooses a loop for each kernel, until `deadline` at the latest or until `stop` returns true. Loops that cannot be
/// built are skipped; if time is short, only the first loops are tried.
///
/// # Errors
/// Fails if no loop of a kernel works.
pub fn choose(
    bench: &mut Bench,
    kernels: &[Kernel],
    device: &DeviceInfo,
    deadline: Instant,
    stop: &dyn Fn() -> bool,
) -> Result<Chosen, DeviceError> {
    let shapes: Vec<Vec<LoopShape>> =
        kernels.iter().map(|kernel| LoopShape::of(*kernel, device)).collect();
    let late = || clock::now() >= deadline || stop();
    // The first turn of a loop builds it.
    let mut first_turn =
        |group: usize, shape: &LoopShape| match bench.pass(&[(kernels[group], *shape)]) {
            Ok(times) => Ok(Prepared::Works((*shape, device_rate(&times[0])))),
            Err(error) if matches!(error.kind, FailureClass::Build | FailureClass::Unsupported) => {
                Ok(Prepared::Refused(error))
            }
            Err(error) => Err(error),
        };
    let working = halving::prepared(&shapes, &late, &mut first_turn)?;
    let tried = working.iter().map(Vec::len).max().unwrap_or(0);
    let mut groups: Vec<Halving<LoopShape>> = working.into_iter().map(without_hopeless).collect();
    let mut turns = Loops { bench, kernels, stop };
    halving::choose(&mut turns, &mut groups, &RULES, deadline)?;
    let leaders = groups.iter().map(|group| *group.leader());
    Ok(Chosen { loops: kernels.iter().copied().zip(leaders).collect(), tried })
}

/// Returns the rate of a pass by the clock of the device.
fn device_rate(times: &Times) -> TurnRate {
    TurnRate { rate: 1.0 / times.0, round_trip: f64::NAN }
}

/// Returns the loops that are not much slower than the fastest one, with the samples of their first turns.
fn without_hopeless(working: Vec<(LoopShape, TurnRate)>) -> Halving<LoopShape> {
    let best = working.iter().map(|(_, first)| first.rate).fold(0.0, f64::max);
    let near = || working.iter().filter(|(_, first)| first.rate >= HOPELESS * best);
    let mut halving = Halving::new(near().map(|(shape, _)| *shape));
    // Every loop gets its first sample, so that even the shortest time gives a ranking.
    for (number, (_, first)) in near().enumerate() {
        halving.record(number, first.rate, first.round_trip);
    }
    halving
}

/// Loops that take turns on a device, all kernels in one pass.
struct Loops<'a> {
    bench: &'a mut Bench,
    kernels: &'a [Kernel],
    stop: &'a dyn Fn() -> bool,
}

impl Candidates for Loops<'_> {
    type Candidate = LoopShape;
    type Error = DeviceError;

    fn turn(&mut self, picked: &mut [&mut LoopShape]) -> Result<Vec<TurnRate>, DeviceError> {
        let shapes = picked.iter().map(|shape| **shape);
        let pass: Vec<(Kernel, LoopShape)> = self.kernels.iter().copied().zip(shapes).collect();
        Ok(self.bench.pass(&pass)?.iter().map(device_rate).collect())
    }

    fn must_end(&mut self) -> bool {
        (self.stop)()
    }
}
