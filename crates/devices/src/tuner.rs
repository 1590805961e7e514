//! Choice of the fastest loop per kernel on a device, by successive halving with short measurements. Kernels are
//! interleaved as in the run itself.

use crate::bench::{Bench, Shape};
use crate::driver::{DeviceError, Kind};
use crate::info::DeviceInfo;
use nodegauge_kernels::Kernel;
use nodegauge_measure::clock;
use nodegauge_measure::schedule::halving::{Halving, Shuffler};
use std::time::Instant;

/// Result of the choice.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chosen {
    /// Chosen loop of each kernel.
    pub loops: Vec<(Kernel, Shape)>,
    /// Largest number of loops that were tried for a kernel.
    pub tried: usize,
}

/// A loop whose rate in the first turn is below this share of the fastest is dropped. Some drivers still compile during
/// the first turn, so the share is small.
const HOPELESS: f64 = 0.25;

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
    let late = || clock::now() >= deadline || stop();
    // The first turn of a loop builds the loop and shows if it works.
    let shapes: Vec<Vec<Shape>> = kernels.iter().map(|kernel| Shape::of(*kernel, device)).collect();
    let mut works: Vec<Vec<(Shape, f64)>> = vec![Vec::new(); kernels.len()];
    let mut refused = None;
    for turn in 0..shapes.iter().map(Vec::len).max().unwrap_or(0) {
        if works.iter().all(|works| !works.is_empty()) && late() {
            break;
        }
        for (at, kernel) in kernels.iter().enumerate() {
            let Some(shape) = shapes[at].get(turn) else { continue };
            match bench.pass(&[(*kernel, *shape)]) {
                Ok(times) => works[at].push((*shape, 1.0 / times[0].0)),
                Err(error) if matches!(error.kind, Kind::Build | Kind::Unsupported) => {
                    refused = refused.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
    }
    if let Some(error) = refused.filter(|_| works.iter().any(Vec::is_empty)) {
        return Err(error);
    }
    let tried = works.iter().map(Vec::len).max().unwrap_or(0);
    let start = |(kernel, works): (&Kernel, Vec<(Shape, f64)>)| {
        let best = works.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let near: Vec<(Shape, f64)> =
            works.into_iter().filter(|(_, rate)| *rate >= HOPELESS * best).collect();
        let mut halving = Halving::new(near.iter().map(|(shape, _)| *shape));
        // The first turn counts as a sample, so that every loop has one even if time is short.
        near.iter().enumerate().for_each(|(at, (_, rate))| halving.record(at, *rate, f64::NAN));
        (*kernel, halving)
    };
    let mut left: Vec<(Kernel, Halving<Shape>)> = kernels.iter().zip(works).map(start).collect();
    let mut order = Shuffler::new(0x6465_7669);
    'rounds: for passes_a_round in 1.. {
        if left.iter().all(|(_, halving)| halving.len() == 1) {
            break;
        }
        for _ in 0..passes_a_round {
            left.iter_mut().for_each(|(_, halving)| halving.shuffle(&mut order, |_| ()));
            let longest = left.iter().map(|(_, halving)| halving.len()).max().unwrap_or(0);
            for turn in 0..longest {
                if late() {
                    break 'rounds;
                }
                let picked =
                    left.iter().map(|(k, halving)| (*k, *halving.get(turn % halving.len())));
                let times = bench.pass(&picked.collect::<Vec<_>>())?;
                for ((_, halving), (device, _)) in left.iter_mut().zip(times) {
                    halving.record(turn % halving.len(), 1.0 / device, f64::NAN);
                }
            }
        }
        left.iter_mut().for_each(|(_, halving)| halving.cut());
    }
    let winner = |(kernel, mut halving): (Kernel, Halving<Shape>)| {
        halving.rank();
        (kernel, *halving.leader())
    };
    Ok(Chosen { loops: left.into_iter().map(winner).collect(), tried })
}
