//! Levels of the memory system, read off curves over working-set sizes, and named after the caches
//! that the machine says it has. One model serves times and rates: a ladder feeds it what each of its
//! loops reached, a chase its latencies.
//!
//! All curves together, in logarithms, are cut into pieces of constant height: the cut that makes the
//! sum of absolute deviations from each piece's medians plus a price for each piece least (dynamic
//! programming over all cuts; Jackson et al., "An algorithm for optimal partitioning of data on an
//! interval", 2005). The price is that of Schwarz's criterion for Laplacian noise of the scatter that
//! the curves themselves have between neighbouring sizes. What a dot can cost has a bound, so that one
//! that sticks out cuts no level in two (Fearnhead and Rigaill, "Changepoint detection in the presence
//! of outliers", 2019). A piece that is long and flat enough is a level; what lies between is a slope.
//!
//! A level is of the cache in which the curves leave it, and of memory when it goes on beyond the last
//! cache, or when its loads take as long as those of flushed lines: memory has several levels where the
//! TLB has. The machine's word gives names, and nothing else. Pure: no clock, no kernel.

use nodegauge_measure::{Bytes, stats};

/// A size and what was measured there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dot {
    /// Working set of one thread, bytes.
    pub bytes: u64,
    /// What each curve has there, as many in every dot, in any unit, above zero.
    pub values: Vec<f64>,
    /// Whether a cache served it, where that was tried: loads of lines that had been flushed took longer.
    pub cached: Option<bool>,
}

/// A plateau of the curves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level {
    /// Index of its first dot.
    pub first: usize,
    /// Index of its last dot.
    pub last: usize,
    /// Logarithm of the median of its dots on each curve.
    heights: Vec<f64>,
}

/// A cache as the machine reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reported {
    /// 1, 2, 3, ...
    pub level: u32,
    /// Its size, bytes.
    pub whole: u64,
    /// What one thread can have of it while its neighbours take the same, bytes.
    pub bytes: u64,
}

/// A level with its name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    /// `L1`, `L2`, ..., `memory`.
    pub name: String,
    /// The plateau.
    pub level: Level,
    /// The cache that it is; `None` of memory.
    pub reported: Option<Reported>,
}

impl Named {
    /// What one thread has of the cache by the machine's word, bytes.
    pub(crate) fn share(&self) -> Option<u64> {
        self.reported.map(|cache| cache.bytes)
    }
}

/// Heights that differ by a smaller factor are of one level.
const SAME: f64 = 1.15;
/// Dots of a level at least: with two an octave, a factor of two in size.
const LEAST_DOTS: usize = 3;
/// Least scatter that is reckoned with, in logarithms: a seventh of what makes a level.
const LEAST_SCATTER: f64 = 0.02;
/// How far a cache's edge may lie from its reported size: sizes are half an octave apart, and part of
/// a cache is always taken by others.
const EDGE_SLACK: f64 = 1.6;

/// The plateaus of curves whose dots ascend in size.
pub(crate) fn levels(dots: &[Dot]) -> Vec<Level> {
    let curves = Curves::new(dots);
    let pieces = curves.cuts().into_iter().map(|(first, last)| curves.piece(first, last));
    let plateaus = curves.united(pieces).into_iter().filter_map(|piece| curves.plateau(&piece));
    curves.grown(curves.united(plateaus))
}

/// Whether the mean distance over all curves is small.
fn alike(x: &Level, y: &Level) -> bool {
    let apart = x.heights.iter().zip(&y.heights).map(|(x, y)| (x - y).abs());
    apart.sum::<f64>() < SAME.ln() * x.heights.len() as f64
}

/// Curves over the same sizes.
struct Curves {
    /// Logarithms by curve.
    logs: Vec<Vec<f64>>,
    /// Mean deviation that each has by its noise.
    scatter: Vec<f64>,
    /// Number of dots.
    dots: usize,
}

impl Curves {
    fn new(dots: &[Dot]) -> Self {
        let curves = dots.first().map_or(0, |dot| dot.values.len());
        let log = |curve: usize| dots.iter().map(|dot| dot.values[curve].ln()).collect();
        let logs: Vec<Vec<f64>> = (0..curves).map(log).collect();
        // Most neighbours are of one level: half of the steps are nothing but noise, of two dots.
        let scatter = |logs: &Vec<f64>| {
            let steps: Vec<f64> = logs.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
            (stats::median(&steps) / 2f64.sqrt()).max(LEAST_SCATTER)
        };
        Self { scatter: logs.iter().map(scatter).collect(), logs, dots: dots.len() }
    }

    /// The best cut into pieces: first and last index of each.
    fn cuts(&self) -> Vec<(usize, usize)> {
        // A piece has a place and a height on each curve.
        let price = (1 + self.logs.len()) as f64 / 2.0 * (self.dots as f64).ln();
        // best[i]: least cost of the first i dots, and where their last piece begins.
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

    /// Deviations from the medians of a piece over the scatter; those of a dot cost half a piece more
    /// than noise does at most: less than a piece of its own, and some together more.
    fn cost(&self, begin: usize, end: usize, price: f64) -> f64 {
        let heights = self.heights(begin, end - 1);
        let of_dot = |i: usize| {
            let curves = self.logs.iter().zip(&heights).zip(&self.scatter);
            let sum: f64 = curves.map(|((logs, height), b)| (logs[i] - height).abs() / b).sum();
            sum.min(self.logs.len() as f64 + price / 2.0)
        };
        (begin..end).map(of_dot).sum()
    }

    /// Median logarithm of a piece on each curve.
    fn heights(&self, first: usize, last: usize) -> Vec<f64> {
        self.logs.iter().map(|logs| stats::median(&logs[first..=last])).collect()
    }

    fn piece(&self, first: usize, last: usize) -> Level {
        Level { first, last, heights: self.heights(first, last) }
    }

    /// Whether a dot lies at the height of a piece.
    fn is_at(&self, dot: usize, piece: &Level) -> bool {
        alike(&self.piece(dot, dot), piece)
    }

    /// Neighbours of nearly the same height as one, with the few dots between them that stick out.
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

    /// Plateaus with the dots beside them that lie at their height, wherever the cut went.
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

    /// The part of a piece between the first and the last dot that lies at its height, when enough of
    /// its dots do.
    fn plateau(&self, piece: &Level) -> Option<Level> {
        let flat: Vec<usize> =
            (piece.first..=piece.last).filter(|dot| self.is_at(*dot, piece)).collect();
        let (first, last) = (*flat.first()?, *flat.last()?);
        let enough = flat.len() >= LEAST_DOTS && 3 * flat.len() >= 2 * (last - first + 1);
        enough.then(|| self.piece(first, last))
    }
}

/// Gives plateaus their names: `memory` to those that no cache served, and where that was not tried to
/// the one that goes on to the end, beyond the last of the caches; to every other that of the smallest
/// cache that holds the sets up to where the curves leave it, or of the last one. Of several of a cache
/// the longest keeps its name; the others are part of a slope.
///
/// Where the sets end within the last cache, nothing tells it from memory when a hypervisor's word is
/// all there is (`guest`).
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

/// Whether a cache served most of these dots, where that was tried.
fn cached(dots: &[Dot]) -> Option<bool> {
    let tried: Vec<bool> = dots.iter().filter_map(|dot| dot.cached).collect();
    let served = tried.iter().filter(|cached| **cached).count();
    (!tried.is_empty()).then_some(2 * served > tried.len())
}

/// The last set of a level, and the first behind it; the last again at the end of the curves.
fn leaves(dots: &[Dot], level: &Level) -> (u64, u64) {
    let end = dots[level.last].bytes;
    (end, dots.get(level.last + 1).map_or(end, |dot| dot.bytes))
}

/// The level in which a dot lies.
pub(crate) fn at(named: &[Named], dot: usize) -> Option<&Named> {
    named.iter().find(|named| (named.level.first..=named.level.last).contains(&dot))
}

fn length(level: &Level) -> usize {
    level.last - level.first
}

/// What the curves say against the machine's word, a sentence each.
pub(crate) fn disagreements(dots: &[Dot], named: &[Named], reported: &[Reported]) -> Vec<String> {
    let mut said = Vec::new();
    let largest = dots.last().map_or(0, |dot| dot.bytes);
    let mut before = 0;
    for cache in reported.iter().filter(|cache| cache.bytes < largest) {
        let from = std::mem::replace(&mut before, cache.bytes);
        let share = match cache.bytes == cache.whole {
            true => String::new(),
            false => format!(", {} a thread", Bytes(cache.bytes)),
        };
        let what = format!("L{} of {}{share}, as the system says", cache.level, Bytes(cache.whole));
        let of_cache = |named: &&Named| named.reported.is_some_and(|of| of.level == cache.level);
        if let Some(found) = named.iter().find(of_cache) {
            let (end, next) = leaves(dots, &found.level);
            let (low, high) = (end as f64 / EDGE_SLACK, next as f64 * EDGE_SLACK);
            if (cache.bytes as f64) < low || cache.bytes as f64 > high {
                let [end, next] = [end, next].map(Bytes);
                said.push(format!("{what}: the curve leaves it between {end} and {next}"));
            }
            continue;
        }
        let within = |i: &usize| dots[*i].bytes > from && dots[*i].bytes <= cache.bytes;
        let instead = (0..dots.len()).filter(within).find_map(|i| {
            let other = at(named, i)?;
            let [first, last] = [other.level.first, other.level.last].map(|i| Bytes(dots[i].bytes));
            Some(format!("sets of {first} to {last} are all as fast as {}", other.name))
        });
        let instead = instead.unwrap_or_else(|| "no plateau lies there".to_owned());
        said.push(format!("{what}, is not seen: {instead}"));
    }
    said
}

#[cfg(test)]
mod tests;
