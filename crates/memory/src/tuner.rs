//! `auto`: which stores, vector width, unroll and prefetch serve each kernel best here, found by a
//! short measured trial on the very arrays and threads of the run.
//!
//! Candidates run interleaved in random order, so that drift of the machine hits all alike; the slower
//! half leaves after each round ([`halving`](crate::halving)). Each kernel gets a loop of its own, since
//! the best unroll differs (on a Zen 5 guest Copy gained 7 % from one line a step, reads from four).

use crate::halving::{Halving, Shuffler};
use crate::kernels::{self, Element, Isa, Kernel, Prefetch, Shape, Stores};
use crate::point::PointError;
use crate::target::Target;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::{regime, schedule};
use std::time::Instant;

/// What the user left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Constraints {
    /// Kind of store; `None` tries both.
    pub stores: Option<Stores>,
    /// Software prefetch; `None` tries without and with.
    pub prefetch: Option<Prefetch>,
}

/// Distances that are tried ahead of a stream, bytes: eight lines, about what hides one miss at
/// full rate, and half a base page.
const PREFETCH_TRIED: [Prefetch; 2] = [Prefetch::Near(512), Prefetch::Near(2048)];
/// Distances that tuning tries: from four lines to a base page, and both levels as the compilers'
/// options do (`64,8` lines in the recipe for the Xeon Phi).
const PREFETCH_WIDE: [Prefetch; 7] = [
    Prefetch::Near(256),
    Prefetch::Near(512),
    Prefetch::Near(1024),
    Prefetch::Near(2048),
    Prefetch::Near(4096),
    Prefetch::FarNear(4096, 512),
    Prefetch::FarNear(8192, 1024),
];
/// Unroll of the rows with prefetch.
const PREFETCH_UNROLL: u8 = 4;
/// Unrolls tried.
const UNROLLS: [u8; 4] = [1, 2, 4, 8];
/// Times a disturbed pass of a trial is run in all.
const TRIES: usize = 3;
/// Vector widths tried, widest first.
const ISAS_TRIED: usize = 2;
/// Vector widths that tuning tries.
const ISAS_WIDE: usize = 3;

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breadth {
    /// What is likely best, for a trial before each run.
    Likely,
    /// Everything that may be best, for tuning.
    Wide,
}

/// The loops that serve the constraints on this processor, best guess first.
pub fn candidates(constraints: Constraints, breadth: Breadth) -> Vec<Shape> {
    let (most, prefetching, distances) = match breadth {
        Breadth::Likely => (ISAS_TRIED, 1, &PREFETCH_TRIED[..]),
        Breadth::Wide => (ISAS_WIDE, ISAS_TRIED, &PREFETCH_WIDE[..]),
    };
    let isas: Vec<Isa> = kernels::available_isas().into_iter().take(most).collect();
    let stores: Vec<Stores> = match constraints.stores {
        Some(stores) => vec![stores],
        None => vec![Stores::NonTemporal, Stores::Regular],
    };
    let mut shapes = Vec::new();
    for (i, isa) in isas.iter().copied().enumerate() {
        let possible = |s: &&Stores| **s == Stores::Regular || isa.has_nontemporal();
        for stores in stores.iter().filter(possible).copied() {
            let mut add = |unroll, prefetch| shapes.push(Shape { isa, stores, unroll, prefetch });
            match constraints.prefetch {
                Some(Prefetch::Off) => UNROLLS.iter().for_each(|u| add(*u, Prefetch::Off)),
                Some(prefetch) => add(PREFETCH_UNROLL, prefetch),
                None => {
                    UNROLLS.iter().for_each(|u| add(*u, Prefetch::Off));
                    if i < prefetching {
                        distances.iter().for_each(|d| add(PREFETCH_UNROLL, *d));
                    }
                }
            }
        }
    }
    // Best guess first, kinds of store by turns: what is tried when time is short.
    let rank_of_unroll = |unroll: u8| [4, 1, 8, 2].iter().position(|u| *u == unroll);
    shapes.sort_by_key(|shape| {
        (
            shape.prefetch != Prefetch::Off,
            isas.iter().position(|isa| *isa == shape.isa),
            rank_of_unroll(shape.unroll),
            shape.stores == Stores::Regular,
        )
    });
    shapes
}

/// The loops of one kernel that are still in.
struct KernelCandidates {
    kernel: Kernel,
    halving: Halving<Shape>,
}

/// What a trial chose.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenLoops {
    /// A loop for each kernel.
    pub loops: Vec<(Kernel, Shape)>,
    /// How many loops were tried; fewer than there are when time was short, and none when there
    /// was not even time for two: then the loops are the best guess.
    pub tried: usize,
    /// Passes that it took.
    pub passes: usize,
}

/// Passes that a trial takes at most, over the number of candidates: all once, half of them twice, a
/// quarter three times, and so on; where the noise keeps more of them in, what is left is alike.
const PASSES_A_CANDIDATE: usize = 4;

/// Chooses a loop for each kernel of `point` among `shapes`, best guess first, until `deadline` at
/// the latest or until `stop` says so. When time is short only the first are tried.
///
/// # Errors
/// When the point cannot be measured.
pub fn choose(
    point: &mut dyn Target,
    shapes: &[Shape],
    deadline: Instant,
    mut stop: impl FnMut() -> bool,
) -> Result<ChosenLoops, PointError> {
    let element = point.config().element;
    // The first pass warms up and tells how many passes there is time for.
    let begun = Instant::now();
    point.pass()?;
    let pass = begun.elapsed();
    let affordable = deadline.saturating_duration_since(Instant::now()).as_secs_f64()
        / pass.as_secs_f64().max(1e-9);
    let tried = match affordable as usize / PASSES_A_CANDIDATE {
        0 | 1 if affordable < 2.0 * shapes.len() as f64 => affordable as usize / 2,
        n => n,
    };
    let tried = if tried < 2 { 0 } else { tried.min(shapes.len()) };
    let candidates_of = |shapes: &[Shape]| -> Vec<KernelCandidates> {
        let kernels = point.config().kernels.iter();
        kernels
            .map(|(kernel, _)| KernelCandidates {
                kernel: *kernel,
                halving: Halving::new(loops(*kernel, element, shapes)),
            })
            .collect()
    };
    let mut kernels_left = candidates_of(&shapes[..tried.max(1)]);
    if tried == 0 {
        return finish(point, kernels_left, 0, 1);
    }
    let mut order = Shuffler::new(0x6E6F_6465);
    let mut passes_a_round = 1;
    let mut passes = 1;
    while kernels_left.iter().any(|of_kernel| of_kernel.halving.len() > 1) {
        for _ in 0..passes_a_round {
            for of_kernel in &mut kernels_left {
                // Regular stores leave a cache full of lines that the next kernel writes back: all
                // kernels of a pass store alike, as far as the kernels_left are equally long.
                of_kernel.halving.shuffle(&mut order, |shape| shape.stores == Stores::Regular);
            }
            let longest =
                kernels_left.iter().map(|of_kernel| of_kernel.halving.len()).max().unwrap_or(0);
            for turn in 0..longest {
                let spent = passes > PASSES_A_CANDIDATE * tried || Instant::now() >= deadline;
                if spent || stop() {
                    return finish(point, kernels_left, tried, passes);
                }
                passes += run_turn(point, &mut kernels_left, turn)?;
            }
        }
        kernels_left.iter_mut().for_each(|of_kernel| of_kernel.halving.cut());
        passes_a_round += 1;
    }
    finish(point, kernels_left, tried, passes)
}

/// One pass in which each kernel runs with its candidate number `turn`; returns the passes that it
/// took.
fn run_turn(
    point: &mut dyn Target,
    kernels_left: &mut [KernelCandidates],
    turn: usize,
) -> Result<usize, PointError> {
    let picked: Vec<usize> =
        kernels_left.iter().map(|of_kernel| turn % of_kernel.halving.len()).collect();
    let kernels = kernels_left
        .iter()
        .zip(&picked)
        .map(|(of_kernel, i)| (of_kernel.kernel, *of_kernel.halving.get(*i)))
        .collect();
    point.reshape(kernels)?;
    // On a busy machine the last try counts, disturbed or not: no candidate may be left without a
    // sample.
    let mut passes = 0;
    let disturbed = |sample: &Sample| {
        !sample.causes.is_empty() || !regime::same(sample.round_trips.0, sample.round_trips.1)
    };
    let sample = schedule::undisturbed(TRIES, disturbed, || {
        passes += 1;
        point.pass()
    })?;
    for ((of_kernel, i), seconds) in kernels_left.iter_mut().zip(&picked).zip(&sample.seconds) {
        of_kernel.halving.record(*i, 1.0 / seconds, sample.round_trips.1);
    }
    Ok(passes)
}

/// The distinct loops of a kernel that exist; kinds of store are one for kernels without stores.
pub(crate) fn loops(kernel: Kernel, element: Element, shapes: &[Shape]) -> Vec<Shape> {
    let mut loops = Vec::new();
    for shape in shapes {
        let mut shape = *shape;
        if !kernel.writes() {
            shape.stores = Stores::Regular;
        }
        if !loops.contains(&shape) && kernels::find(kernel, element, shape).is_some() {
            loops.push(shape);
        }
    }
    loops
}

/// Gives the point the winners.
fn finish(
    point: &mut dyn Target,
    mut kernels_left: Vec<KernelCandidates>,
    tried: usize,
    passes: usize,
) -> Result<ChosenLoops, PointError> {
    let mut loops: Vec<(Kernel, Shape)> = Vec::new();
    for of_kernel in &mut kernels_left {
        of_kernel.halving.rank();
        loops.push((of_kernel.kernel, *of_kernel.halving.leader()));
    }
    point.reshape(loops.clone())?;
    Ok(ChosenLoops { loops, tried, passes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_limit_the_candidates() {
        let all = candidates(Constraints::default(), Breadth::Likely);
        assert!(all.iter().any(|s| s.prefetch != Prefetch::Off));
        let regular = candidates(
            Constraints { stores: Some(Stores::Regular), prefetch: Some(Prefetch::Off) },
            Breadth::Likely,
        );
        assert!(regular.iter().all(|s| s.stores == Stores::Regular && s.prefetch == Prefetch::Off));
        let far = Prefetch::FarNear(4096, 512);
        assert!(
            candidates(Constraints { stores: None, prefetch: Some(far) }, Breadth::Wide)
                .iter()
                .all(|s| s.prefetch == far)
        );
    }
}
