//! Levels of the memory system, read off a curve over working-set sizes, and named after the caches
//! that the machine says it has.
//!
//! The curve, in logarithms, is cut into pieces of constant height: the cut that makes the sum of
//! absolute deviations from each piece's median plus a price for each piece least (dynamic
//! programming over all cuts; Jackson et al., "An algorithm for optimal partitioning of data on an
//! interval", 2005). A piece that is long and flat enough is a level; what lies between is a slope.
//! The machine's word gives a level its name, and nothing else. Pure: no clock, no kernel.

use nodegauge_measure::{Bytes, stats};

/// A size and what was measured there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dot {
    /// Working set of one thread, bytes.
    pub bytes: u64,
    /// What was measured, in any unit, above zero.
    pub value: f64,
}

/// A plateau of the curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Level {
    /// Index of its first dot.
    pub first: usize,
    /// Index of its last dot.
    pub last: usize,
    /// Median of its dots.
    pub value: f64,
}

/// A cache as the machine reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reported {
    /// 1, 2, 3, ...
    pub level: u32,
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
    /// What the machine says of it: the capacity that one thread has; `None` of memory.
    pub reported: Option<u64>,
}

/// Price of a piece, in logarithms of the value: a step pays when it saves more than this in
/// deviations, such as 4 % at each of three dots.
const PRICE: f64 = 0.12;
/// Dots of a level at least: with two an octave, a factor of two to three in size.
const LEAST_DOTS: usize = 3;
/// Largest over smallest value within a level.
const FLAT: f64 = 1.3;
/// Neighbouring plateaus that differ by less than this are one.
const SAME: f64 = 1.15;

/// The plateaus of a curve whose dots ascend in size.
pub(crate) fn levels(dots: &[Dot]) -> Vec<Level> {
    let logs: Vec<f64> = dots.iter().map(|dot| dot.value.ln()).collect();
    let mut plateaus: Vec<Level> =
        cuts(&logs).into_iter().filter_map(|(first, last)| plateau(dots, first, last)).collect();
    // Two pieces of nearly the same height, with at most one dot between them that stuck out.
    let mut i = 0;
    while i + 1 < plateaus.len() {
        let (x, y) = (plateaus[i], plateaus[i + 1]);
        let alike = x.value.max(y.value) / x.value.min(y.value) < SAME;
        if alike && y.first - x.last <= 2 {
            let values: Vec<f64> = dots[x.first..=y.last].iter().map(|dot| dot.value).collect();
            plateaus[i] = Level { first: x.first, last: y.last, value: stats::median(&values) };
            plateaus.remove(i + 1);
        } else {
            i += 1;
        }
    }
    plateaus
}

/// A piece as a plateau, when it is long and flat enough.
fn plateau(dots: &[Dot], first: usize, last: usize) -> Option<Level> {
    let values: Vec<f64> = dots[first..=last].iter().map(|dot| dot.value).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    // The end of the curve is memory, which goes on beyond: two dots will do there.
    let enough = if last + 1 == dots.len() { LEAST_DOTS - 1 } else { LEAST_DOTS };
    (values.len() >= enough && most / least <= FLAT).then(|| Level {
        first,
        last,
        value: stats::median(&values),
    })
}

/// The best cut of `logs` into pieces: first and last index of each.
fn cuts(logs: &[f64]) -> Vec<(usize, usize)> {
    let n = logs.len();
    // best[i]: least cost of the first i dots, and where their last piece begins.
    let mut best: Vec<(f64, usize)> = vec![(0.0, 0)];
    for end in 1..=n {
        let choice = (0..end)
            .map(|begin| (best[begin].0 + deviation(&logs[begin..end]) + PRICE, begin))
            .min_by(|x, y| x.0.total_cmp(&y.0));
        best.push(choice.unwrap_or((0.0, 0)));
    }
    let mut pieces = Vec::new();
    let mut end = n;
    while end > 0 {
        let begin = best[end].1;
        pieces.push((begin, end - 1));
        end = begin;
    }
    pieces.reverse();
    pieces
}

/// Sum of absolute deviations from the median.
fn deviation(logs: &[f64]) -> f64 {
    let median = stats::median(logs);
    logs.iter().map(|x| (x - median).abs()).sum()
}

/// Gives each plateau the name of the smallest reported cache that holds the middle of its sizes, or
/// `memory`. Of several with the same name the longest keeps it; the others are part of a slope.
pub(crate) fn name(dots: &[Dot], levels: &[Level], reported: &[Reported]) -> Vec<Named> {
    let mut named: Vec<Named> = Vec::new();
    for level in levels {
        let (from, to) = (dots[level.first].bytes as f64, dots[level.last].bytes as f64);
        let middle = (from * to).sqrt();
        // The last dots of a curve that goes on are of memory, however large the cache is said to
        // be, when they lie beyond it.
        let cache = reported.iter().find(|cache| middle <= cache.bytes as f64);
        let name = cache.map_or_else(|| "memory".to_owned(), |cache| format!("L{}", cache.level));
        let this = Named { name, level: *level, reported: cache.map(|cache| cache.bytes) };
        match named.iter_mut().find(|other| other.name == this.name) {
            Some(other) if length(&this.level) > length(&other.level) => *other = this,
            Some(_) => {}
            None => named.push(this),
        }
    }
    named
}

/// The level in which a dot lies.
pub(crate) fn at(named: &[Named], dot: usize) -> Option<&Named> {
    named.iter().find(|named| (named.level.first..=named.level.last).contains(&dot))
}

fn length(level: &Level) -> usize {
    level.last - level.first
}

/// How far a cache's edge may lie from its reported size before that is said: sizes are half an
/// octave apart, and part of a cache is always taken by others.
const EDGE_SLACK: f64 = 1.6;

/// What the curve says against the machine's word, a sentence each.
pub(crate) fn disagreements(dots: &[Dot], named: &[Named], reported: &[Reported]) -> Vec<String> {
    let mut said = Vec::new();
    let largest = dots.last().map_or(0, |dot| dot.bytes);
    for cache in reported.iter().filter(|cache| cache.bytes < largest) {
        let name = format!("L{}", cache.level);
        let size = Bytes(cache.bytes);
        let Some(found) = named.iter().find(|named| named.name == name) else {
            said.push(format!("{name}: said to give a thread {size}, but no plateau shows it"));
            continue;
        };
        let end = dots[found.level.last].bytes;
        let next = dots.get(found.level.last + 1).map_or(end, |dot| dot.bytes);
        let (low, high) = (end as f64 / EDGE_SLACK, next as f64 * EDGE_SLACK);
        if (cache.bytes as f64) < low || cache.bytes as f64 > high {
            said.push(format!(
                "{name}: said to give a thread {size}; the curve leaves it between {} and {}",
                Bytes(end),
                Bytes(next)
            ));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sizes of 4 and 6 KiB times powers of two.
    fn sizes(count: usize) -> impl Iterator<Item = u64> {
        (0..count).map(|i| (if i % 2 == 0 { 4096 } else { 6144 }) << (i / 2))
    }

    fn curve(values: &[f64]) -> Vec<Dot> {
        sizes(values.len()).zip(values).map(|(bytes, value)| Dot { bytes, value: *value }).collect()
    }

    const REPORTED: [Reported; 3] = [
        Reported { level: 1, bytes: 48 << 10 },
        Reported { level: 2, bytes: 1 << 20 },
        Reported { level: 3, bytes: 32 << 20 },
    ];

    /// Nanoseconds a step on a Zen 5 guest, huge pages, 4 KiB to 128 MiB: the last-level cache is
    /// shared with other guests, and the curve leaves it long before its 32 MiB.
    const ZEN5_HUGE: [f64; 31] = [
        0.93, 0.93, 0.93, 0.93, 0.93, 0.93, 0.93, 0.93, 2.1, 2.8, 3.2, 3.3, 3.3, 3.3, 3.3, 3.4,
        3.9, 6.5, 9.6, 10.4, 11.0, 11.3, 13.0, 27.0, 48.0, 66.0, 82.0, 92.0, 98.0, 101.0, 103.0,
    ];

    fn names(dots: &[Dot]) -> Vec<(String, u64, u64)> {
        name(dots, &levels(dots), &REPORTED)
            .into_iter()
            .map(|n| (n.name, dots[n.level.first].bytes >> 10, dots[n.level.last].bytes >> 10))
            .collect()
    }

    #[test]
    fn levels_of_a_real_curve_are_found_and_named() {
        let dots = curve(&ZEN5_HUGE);
        let found = names(&dots);
        let only: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(only, ["L1", "L2", "L3", "memory"], "{found:?}");
        assert_eq!((found[0].1, found[0].2), (4, 48));
        assert!(found[1].2 == 768 || found[1].2 == 1024, "{found:?}");
        let named = name(&dots, &levels(&dots), &REPORTED);
        let said = disagreements(&dots, &named, &REPORTED);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("L3: said to give a thread 32 MiB; the curve leaves it"));
    }

    #[test]
    fn one_flat_curve_is_one_level() {
        let dots = curve(&[5.0, 5.1, 5.0, 4.9, 5.0, 5.05]);
        assert_eq!(levels(&dots).len(), 1);
        assert_eq!(levels(&dots)[0].last, 5);
        assert!(levels(&[]).is_empty());
    }

    #[test]
    fn a_steady_slope_has_no_level() {
        let slope: Vec<f64> = (0..20).map(|i| 1.25f64.powi(i)).collect();
        let found = levels(&curve(&slope));
        assert!(found.iter().all(|level| level.last - level.first < LEAST_DOTS), "{found:?}");
    }

    #[test]
    fn a_cache_without_a_plateau_is_said() {
        let mut values = vec![1.0; 8];
        values.extend(vec![100.0; 23]);
        let dots = curve(&values);
        let named = name(&dots, &levels(&dots), &REPORTED);
        let said = disagreements(&dots, &named, &REPORTED);
        assert!(
            said.iter().any(|text| text.starts_with("L3: said") || text.starts_with("L2: said"))
        );
    }

    proptest! {
        /// Steps of half or more are found where they are, through noise of 3 %.
        #[test]
        fn steps_are_found_through_noise(
            lengths in proptest::collection::vec(4usize..9, 2..5),
            factors in proptest::collection::vec(1.5f64..5.0, 5),
            noise in proptest::collection::vec(-0.03f64..0.03, 40),
        ) {
            let mut values = Vec::new();
            let mut height = 1.0;
            for (length, factor) in lengths.iter().zip(&factors) {
                values.extend(std::iter::repeat_n(height, *length));
                height *= factor;
            }
            for (value, noise) in values.iter_mut().zip(&noise) {
                *value *= 1.0 + noise;
            }
            let found = levels(&curve(&values));
            prop_assert_eq!(found.len(), lengths.len());
            let mut end = 0;
            for (level, length) in found.iter().zip(&lengths) {
                prop_assert_eq!(level.first, end);
                end += length;
                prop_assert_eq!(level.last + 1, end);
            }
        }
    }
}
