//! Levels of the memory system, detected in curves over working-set sizes, and named after the caches that the
//! machine reports. One model serves times and rates: a ladder provides the rates of its loops, a chase its
//! latencies.
//!
//! All curves together, in logarithms, are cut into pieces of constant height. The chosen cut minimises the sum
//! of absolute deviations from the medians of each piece plus a price per piece (dynamic programming over all
//! cuts; Jackson et al., "An algorithm for optimal partitioning of data on an interval", 2005). The price is
//! that of Schwarz's criterion for Laplacian noise with the scatter of the curves between neighbouring sizes.
//! The cost of a point is bounded, so that an outlier does not cut a level in two (Fearnhead and Rigaill,
//! "Changepoint detection in the presence of outliers", 2019). A piece that is long and flat enough is a level;
//! the points between levels are a slope.
//!
//! A level belongs to the cache at whose size the curves leave it. It belongs to memory if it continues beyond
//! the last cache, or if its loads take as long as those of flushed lines; memory has several levels if the TLB
//! has several. The reported caches provide names only. Pure: no clock, no kernel.
use nodegauge_measure::{Bytes, stats};

/// Size with the values measured there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dot {
    /// Working set of one thread, bytes.
    pub bytes: u64,
    /// Value of each curve, as many in every dot, in any unit, above zero.
    pub values: Vec<f64>,
    /// True if a cache served the set, because loads of flushed lines took longer; `None` if that was not
    /// measured.
    pub cached: Option<bool>,
}

/// Plateau of the curves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level {
    /// Index of the first dot.
    pub first: usize,
    /// Index of the last dot.
    pub last: usize,
    /// Logarithm of the median of the dots on each curve.
    heights: Vec<f64>,
}

/// Cache as the machine reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reported {
    /// Number of the level: 1, 2, 3, ...
    pub level: u32,
    /// Size, bytes.
    pub whole: u64,
    /// Share of one thread while its neighbours use equal shares, bytes.
    pub bytes: u64,
}

/// Level with its name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    /// `L1`, `L2`, ..., `memory`.
    pub name: String,
    /// Plateau.
    pub level: Level,
    /// Cache of the level; `None` for memory.
    pub reported: Option<Reported>,
}

impl Named {
    /// Returns one thread's share of the cache according to the machine, bytes.
    pub(crate) fn share(&self) -> Option<u64> {
        self.reported.map(|cache| cache.bytes)
    }
}

/// Factor between heights below which they are of one level.
const SAME: f64 = 1.15;
/// Minimum number of dots of a level: with two per octave, a factor of two in size.
const LEAST_DOTS: usize = 3;
/// Minimum scatter in the model, in logarithms: a seventh of the difference between levels.
const LEAST_SCATTER: f64 = 0.02;
/// Maximum factor between a cache's edge and its reported size: sizes are half an octave apart, and other data
/// always occupies part of a cache.
const EDGE_SLACK: f64 = 1.6;

/// Returns the plateaus of curves whose dots ascend in size.
pub(crate) fn levels(dots: &[Dot]) -> Vec<Level> {
    let curves = Curves::new(dots);
    let pieces = curves.cuts().into_iter().map(|(first, last)| curves.piece(first, last));
    let plateaus = curves.united(pieces).into_iter().filter_map(|piece| curves.plateau(&piece));
    curves.grown(curves.united(plateaus))
}

/// True if the mean distance over all curves is small.
fn alike(x: &Level, y: &Level) -> bool {
    let apart = x.heights.iter().zip(&y.heights).map(|(x, y)| (x - y).abs());
    apart.sum::<f64>() < SAME.ln() * x.heights.len() as f64
}

/// Curves over common sizes.
struct Curves {
    /// Logarithms of the values, by curve.
    logs: Vec<Vec<f64>>,
    /// Mean deviation of each curve due to noise.
    scatter: Vec<f64>,
    /// Number of dots.
    dots: usize,
}

impl Curves {
    fn new(dots: &[Dot]) -> Self {
        let curves = dots.first().map_or(0, |dot| dot.values.len());
        let log = |curve: usize| dots.iter().map(|dot| dot.values[curve].ln()).collect();
        let logs: Vec<Vec<f64>> = (0..curves).map(log).collect();
        // Most neighbours are of one level, so the median step is noise of two dots.
        let scatter = |curve_logs: &Vec<f64>| {
            let steps: Vec<f64> =
                curve_logs.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
            (stats::median(&steps) / 2f64.sqrt()).max(LEAST_SCATTER)
        };
        Self { scatter: logs.iter().map(scatter).collect(), logs, dots: dots.len() }
    }

    /// Returns the best cut into pieces: first and last index of each.
    fn cuts(&self) -> Vec<(usize, usize)> {
        // A piece has a position and a height on each curve.
        let price = (1 + self.logs.len()) as f64 / 2.0 * (self.dots as f64).ln();
        // best[i]: lowest cost of the first i dots, and the first index of their last piece.
        let mut best: Vec<(f64, usize)> = vec![(0.0, 0)];
        for end in 1..=self.dots {
            let cost = |begin: usize| best[begin].0 + self.cost(begin, end, price) + price;
            let choices = (0..end).map(|begin| (cost(begin), begin));
            let choice = choices.min_by(|x, y| x.0.total_cmp(&y.0));
            best.push(choice.unwrap_or((0.0, 0)));
        }
        let mut pieces = Vec::new();
        let mut end = self.dots;
        while end > 0 {
            let begin = best[end].1;
            pieces.push((begin, end - 1));
            end = begin;
        }
        pieces.reverse();
        pieces
    }

    /// Returns the deviations from the medians of a piece divided by the scatter. The cost of a dot is at most
    /// that of noise plus half of a piece: less than a piece of its own for one dot, and more for several
    /// together.
    fn cost(&self, begin: usize, end: usize, price: f64) -> f64 {
        let heights = self.heights(begin, end - 1);
        let of_dot = |i: usize| {
            let curves = self.logs.iter().zip(&heights).zip(&self.scatter);
            let sum: f64 = curves.map(|((logs, height), b)| (logs[i] - height).abs() / b).sum();
            sum.min(self.logs.len() as f64 + price / 2.0)
        };
        (begin..end).map(of_dot).sum()
    }

    /// Returns the median logarithm of a piece on each curve.
    fn heights(&self, first: usize, last: usize) -> Vec<f64> {
        self.logs.iter().map(|logs| stats::median(&logs[first..=last])).collect()
    }

    fn piece(&self, first: usize, last: usize) -> Level {
        Level { first, last, heights: self.heights(first, last) }
    }

    /// True if a dot lies at the height of a piece.
    fn is_at(&self, dot: usize, piece: &Level) -> bool {
        alike(&self.piece(dot, dot), piece)
    }

    /// Joins neighbouring pieces of nearly the same height, with the few outliers between them.
    fn united(&self, pieces: impl Iterator<Item = Level>) -> Vec<Level> {
        pieces.fold(Vec::new(), |mut all: Vec<Level>, next| {
            match all.last_mut() {
                Some(before) if alike(before, &next) && next.first - before.last <= LEAST_DOTS => {
                    *before = self.piece(before.first, next.last);
                }
                _ => all.push(next),
            }
            all
        })
    }

    /// Extends plateaus by the adjacent dots at their height, wherever the cut is.
    fn grown(&self, mut plateaus: Vec<Level>) -> Vec<Level> {
        for i in 0..plateaus.len() {
            let after = i.checked_sub(1).map_or(0, |before| plateaus[before].last + 1);
            let until = plateaus.get(i + 1).map_or(self.dots, |next| next.first);
            let plateau = &mut plateaus[i];
            while plateau.first > after && self.is_at(plateau.first - 1, plateau) {
                plateau.first -= 1;
            }
            while plateau.last + 1 < until && self.is_at(plateau.last + 1, plateau) {
                plateau.last += 1;
            }
        }
        plateaus
    }

    /// Returns the part of a piece between the first and the last dot at its height, if enough of its dots are
    /// at that height.
    fn plateau(&self, piece: &Level) -> Option<Level> {
        let flat: Vec<usize> =
            (piece.first..=piece.last).filter(|dot| self.is_at(*dot, piece)).collect();
        let first = *flat.first()?;
        let last = *flat.last()?;
        let enough = flat.len() >= LEAST_DOTS && 3 * flat.len() >= 2 * (last - first + 1);
        enough.then(|| self.piece(first, last))
    }
}

/// Names the plateaus. A plateau that no cache served is `memory`; if that was not measured, `memory` is the
/// plateau that continues to the end, beyond the last cache. Any other plateau has the name of the smallest
/// cache that holds the sets up to the size where the curves leave it, or of the last cache. Of several
/// plateaus of a cache the longest gets its name; the others are part of a slope.
///
/// If the sets end within the last cache and only the reports of a hypervisor are available (`guest`), the last
/// cache and memory cannot be distinguished.
pub(crate) fn name(
    dots: &[Dot],
    levels: Vec<Level>,
    reported: &[Reported],
    guest: bool,
) -> Vec<Named> {
    let beyond = reported.last().map_or(0, |cache| cache.bytes);
    let mut named: Vec<Named> = Vec::new();
    for level in levels {
        let (end, next) = leaves(dots, &level);
        let edge = (end as f64 * next as f64).sqrt();
        let to_the_end = end == next;
        let past = end as f64 > beyond as f64 * EDGE_SLACK;
        let fits = |cache: &&Reported| edge <= cache.bytes as f64 * EDGE_SLACK;
        let tried = cached(&dots[level.first..=level.last]);
        let cache = match tried {
            Some(true) => reported.iter().find(fits).or(reported.last()),
            Some(false) => None,
            None if to_the_end && past => None,
            None => reported.iter().find(fits),
        };
        let name = match cache {
            Some(cache) if guest && tried.is_none() && to_the_end && cache.bytes == beyond => {
                format!("L{} or memory", cache.level)
            }
            Some(cache) => format!("L{}", cache.level),
            None if past || tried == Some(false) => "memory".to_owned(),
            None => continue,
        };
        let this = Named { name, level, reported: cache.copied() };
        let same = |other: &&mut Named| cache.is_some() && other.name == this.name;
        match named.iter_mut().find(same) {
            Some(other) if length(&this.level) > length(&other.level) => *other = this,
            Some(_) => {}
            None => named.push(this),
        }
    }
    named
}

/// True if a cache served most of these dots; `None` if that was not measured.
fn cached(dots: &[Dot]) -> Option<bool> {
    let tried: Vec<bool> = dots.iter().filter_map(|dot| dot.cached).collect();
    let served = tried.iter().filter(|cached| **cached).count();
    (!tried.is_empty()).then_some(2 * served > tried.len())
}

/// Returns the last set of a level and the first one after it, or the last one twice at the end of the curves.
fn leaves(dots: &[Dot], level: &Level) -> (u64, u64) {
    let end = dots[level.last].bytes;
    (end, dots.get(level.last + 1).map_or(end, |dot| dot.bytes))
}

/// Returns the level in which a dot lies.
pub(crate) fn at(named: &[Named], dot: usize) -> Option<&Named> {
    named.iter().find(|named| (named.level.first..=named.level.last).contains(&dot))
}

fn length(level: &Level) -> usize {
    level.last - level.first
}

/// Returns the contradictions between the curves and the reported caches, one sentence each.
pub(crate) fn disagreements(dots: &[Dot], named: &[Named], reported: &[Reported]) -> Vec<String> {
    let mut contradictions = Vec::new();
    let largest = dots.last().map_or(0, |dot| dot.bytes);
    let mut before = 0;
    for cache in reported.iter().filter(|cache| cache.bytes < largest) {
        let from = std::mem::replace(&mut before, cache.bytes);
        let share = if cache.bytes == cache.whole {
            String::new()
        } else {
            format!(", {} per thread", Bytes(cache.bytes))
        };
        let what =
            format!("L{} of {}{share}, as reported by the system", cache.level, Bytes(cache.whole));
        let of_cache = |label: &&Named| label.reported.is_some_and(|of| of.level == cache.level);
        if let Some(found) = named.iter().find(of_cache) {
            let (end, next) = leaves(dots, &found.level);
            let low = end as f64 / EDGE_SLACK;
            let high = next as f64 * EDGE_SLACK;
            if (cache.bytes as f64) < low || cache.bytes as f64 > high {
                let [end, next] = [end, next].map(Bytes);
                contradictions
                    .push(format!("{what}: the curve leaves it between {end} and {next}"));
            }
            continue;
        }
        let within = |i: &usize| dots[*i].bytes > from && dots[*i].bytes <= cache.bytes;
        let instead = (0..dots.len()).filter(within).find_map(|i| {
            let other = at(named, i)?;
            let [first, last] =
                [other.level.first, other.level.last].map(|dot| Bytes(dots[dot].bytes));
            Some(format!("sets of {first} to {last} have the speed of {}", other.name))
        });
        let instead = instead.unwrap_or_else(|| "there is no plateau at its size".to_owned());
        contradictions.push(format!("{what}, is not detected: {instead}"));
    }
    contradictions
}

#[cfg(test)]
mod tests;
