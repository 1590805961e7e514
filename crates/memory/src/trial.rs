//! `auto`: which stores, vector width, unroll and prefetch serve each kernel best here, found by a
//! short measured trial on the very arrays and threads of the run.
//!
//! Candidates run interleaved in random order, so that drift of the machine hits all alike; rates
//! are compared with the median of their regime; after each round the slower half leaves. Each
//! kernel gets a loop of its own, since the best unroll differs (on a Zen 5 guest Copy gained 7 %
//! from one line a step, reads from four).

use crate::kernels::{self, Element, Isa, Kernel, Prefetch, Shape, Stores};
use crate::point::{Point, PointError};
use nodegauge_measure::{regime, stats};
use std::collections::BTreeMap;
use std::time::Instant;

/// What the user left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wishes {
    /// Kind of store; `None` tries both.
    pub stores: Option<Stores>,
    /// Software prefetch; `None` tries without and with.
    pub prefetch: Option<Prefetch>,
}

/// Distances that are tried ahead of a stream, bytes: eight lines, about what hides one miss at
/// full rate, and half a base page.
const PREFETCH_TRIED: [u32; 2] = [512, 2048];
/// Unroll of the rows with prefetch.
const PREFETCH_UNROLL: u8 = 4;
/// Unrolls tried.
const UNROLLS: [u8; 4] = [1, 2, 4, 8];
/// Times a disturbed pass of a trial is run in all.
const TRIES: usize = 3;
/// Vector widths tried, widest first.
const ISAS_TRIED: usize = 2;

/// The loops that serve the wishes on this processor, best guess first.
pub fn candidates(wishes: Wishes) -> Vec<Shape> {
    let isas: Vec<Isa> = kernels::available_isas().into_iter().take(ISAS_TRIED).collect();
    let stores: Vec<Stores> = match wishes.stores {
        Some(stores) => vec![stores],
        None => vec![Stores::NonTemporal, Stores::Regular],
    };
    let mut shapes = Vec::new();
    for (i, isa) in isas.iter().copied().enumerate() {
        let possible = |s: &&Stores| **s == Stores::Regular || kernels::has_nontemporal(isa);
        for stores in stores.iter().filter(possible).copied() {
            let mut add = |unroll, prefetch| shapes.push(Shape { isa, stores, unroll, prefetch });
            match wishes.prefetch {
                Some(Prefetch::Off) => UNROLLS.iter().for_each(|u| add(*u, Prefetch::Off)),
                Some(prefetch) => add(PREFETCH_UNROLL, prefetch),
                None => {
                    UNROLLS.iter().for_each(|u| add(*u, Prefetch::Off));
                    if i == 0 {
                        PREFETCH_TRIED
                            .iter()
                            .for_each(|d| add(PREFETCH_UNROLL, Prefetch::Near(*d)));
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

/// Candidates of one kernel, with the samples of each.
struct Field {
    kernel: Kernel,
    runners: Vec<Runner>,
}

struct Runner {
    shape: Shape,
    /// Rate in any unit, and the round trip that identifies its regime.
    samples: Vec<(f64, f64)>,
}

/// A seeded generator of orders: xorshift64*, whose quality is ample for shuffling.
pub(crate) struct Shuffler(u64);

impl Shuffler {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            let random = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
            items.swap(i, (random % (i as u64 + 1)) as usize);
        }
    }
}

/// What a trial chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// A loop for each kernel.
    pub loops: Vec<(Kernel, Shape)>,
    /// How many loops were tried; fewer than there are when time was short, and none when there
    /// was not even time for two: then the loops are the best guess.
    pub tried: usize,
}

/// Passes that a full trial takes, over the number of candidates: all once, half of them twice, a
/// quarter three times, and so on.
const PASSES_A_CANDIDATE: usize = 4;

/// Chooses a loop for each kernel of `point` among `shapes`, best guess first, until `deadline` at
/// the latest or until `stop` says so. When time is short only the first are tried.
///
/// # Errors
/// When the point cannot be measured.
pub fn choose(
    point: &mut Point,
    shapes: &[Shape],
    deadline: Instant,
    mut stop: impl FnMut() -> bool,
) -> Result<Chosen, PointError> {
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
    let field = |shapes: &[Shape]| -> Vec<Field> {
        let kernels = point.config().kernels.iter();
        kernels
            .map(|(kernel, _)| Field {
                kernel: *kernel,
                runners: runners(*kernel, element, shapes),
            })
            .collect()
    };
    let mut fields = field(&shapes[..tried.max(1)]);
    if tried == 0 {
        return finish(point, fields, 0);
    }
    let mut order = Shuffler::new(0x6E6F_6465);
    let mut passes_a_round = 1;
    while fields.iter().any(|field| field.runners.len() > 1) {
        for _ in 0..passes_a_round {
            for field in &mut fields {
                order.shuffle(&mut field.runners);
                // Regular stores leave a cache full of lines that the next kernel writes back: all
                // kernels of a pass store alike, as far as the fields are equally long.
                field.runners.sort_by_key(|runner| runner.shape.stores == Stores::Regular);
            }
            let longest = fields.iter().map(|field| field.runners.len()).max().unwrap_or(0);
            for turn in 0..longest {
                if Instant::now() >= deadline || stop() {
                    return finish(point, fields, tried);
                }
                run_turn(point, &mut fields, turn)?;
            }
        }
        for field in &mut fields {
            rank(field);
            let stay = field.runners.len().div_ceil(2);
            field.runners.truncate(if stay == field.runners.len() { 1 } else { stay });
        }
        passes_a_round += 1;
    }
    finish(point, fields, tried)
}

/// One pass in which each kernel runs with its candidate number `turn`.
fn run_turn(point: &mut Point, fields: &mut [Field], turn: usize) -> Result<(), PointError> {
    let picked: Vec<usize> = fields.iter().map(|field| turn % field.runners.len()).collect();
    let kernels = fields
        .iter()
        .zip(&picked)
        .map(|(field, i)| (field.kernel, field.runners[*i].shape))
        .collect();
    point.reshape(kernels)?;
    // On a busy machine the last try counts, disturbed or not: no candidate may be left without a
    // sample.
    let mut sample = point.pass()?;
    for _ in 1..TRIES {
        if sample.causes.is_empty() && regime::same(sample.round_trips.0, sample.round_trips.1) {
            break;
        }
        sample = point.pass()?;
    }
    for ((field, i), seconds) in fields.iter_mut().zip(&picked).zip(&sample.seconds) {
        field.runners[*i].samples.push((1.0 / seconds, sample.round_trips.1));
    }
    Ok(())
}

/// The distinct loops of a kernel that exist; kinds of store are one for kernels without stores.
fn runners(kernel: Kernel, element: Element, shapes: &[Shape]) -> Vec<Runner> {
    let mut seen = Vec::new();
    let mut runners = Vec::new();
    for shape in shapes {
        let mut shape = *shape;
        if !kernel.writes() {
            shape.stores = Stores::Regular;
        }
        if !seen.contains(&shape) && kernels::find(kernel, element, shape).is_some() {
            seen.push(shape);
            runners.push(Runner { shape, samples: Vec::new() });
        }
    }
    runners
}

/// Sorts the candidates of a kernel, fastest first, by the upper quartile of their rates relative to
/// the median rate of all candidates in the same regime. The upper quartile, because whatever
/// interferes only makes a sample slower.
fn rank(field: &mut Field) {
    let trips: Vec<f64> =
        field.runners.iter().flat_map(|r| r.samples.iter().map(|(_, trip)| *trip)).collect();
    let regimes = regime::regimes(&trips);
    let regime_of = |trip: f64| regimes.iter().position(|r| r.contains(trip));
    let mut by_regime: BTreeMap<Option<usize>, Vec<f64>> = BTreeMap::new();
    for (rate, trip) in field.runners.iter().flat_map(|r| &r.samples) {
        by_regime.entry(regime_of(*trip)).or_default().push(*rate);
    }
    let typical: BTreeMap<Option<usize>, f64> =
        by_regime.iter().map(|(regime, rates)| (*regime, stats::median(rates))).collect();
    let score = |runner: &Runner| {
        let relative: Vec<f64> =
            runner.samples.iter().map(|(rate, trip)| rate / typical[&regime_of(*trip)]).collect();
        let score = stats::quantile(&relative, 0.75);
        // A candidate that the deadline left without a sample is last.
        if score.is_nan() { 0.0 } else { score }
    };
    field.runners.sort_by(|x, y| score(y).total_cmp(&score(x)));
}

/// Gives the point the winners.
fn finish(point: &mut Point, mut fields: Vec<Field>, tried: usize) -> Result<Chosen, PointError> {
    fields.iter_mut().for_each(rank);
    let loops: Vec<(Kernel, Shape)> =
        fields.iter().map(|field| (field.kernel, field.runners[0].shape)).collect();
    point.reshape(loops.clone())?;
    Ok(Chosen { loops, tried })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_limit_the_candidates() {
        let all = candidates(Wishes::default());
        assert!(all.iter().any(|s| s.prefetch != Prefetch::Off));
        let regular =
            candidates(Wishes { stores: Some(Stores::Regular), prefetch: Some(Prefetch::Off) });
        assert!(regular.iter().all(|s| s.stores == Stores::Regular && s.prefetch == Prefetch::Off));
        let far = Prefetch::FarNear(4096, 512);
        assert!(
            candidates(Wishes { stores: None, prefetch: Some(far) })
                .iter()
                .all(|s| s.prefetch == far)
        );
    }

    #[test]
    fn candidates_are_ranked_within_their_regime() {
        // The second is faster in both regimes, but was met mostly in the slow one.
        let shapes = candidates(Wishes::default());
        let runner = |shape, samples: &[(f64, f64)]| Runner { shape, samples: samples.to_vec() };
        let slow = 100e-9;
        let fast = 400e-9;
        let mut field = Field {
            kernel: Kernel::Triad,
            runners: vec![
                runner(shapes[0], &[(80.0, fast), (81.0, fast), (40.0, slow)]),
                runner(shapes[1], &[(90.0, fast), (45.0, slow), (45.5, slow)]),
            ],
        };
        rank(&mut field);
        assert_eq!(field.runners[0].shape, shapes[1]);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Shuffler::new(7).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
