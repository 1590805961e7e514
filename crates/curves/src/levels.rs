//! Levels of the memory system. They are detected in curves over working-set sizes, and named after the reported
//! caches. The same model is used for rates (several loops of a ladder) and for times (latencies of a chase).
//!
//! The curves are segmented jointly, in logarithms, into segments of constant height. The chosen segmentation minimises
//! the sum of absolute deviations from the median of each segment plus a penalty per segment (dynamic programming over
//! all segmentations; Jackson et al., "An algorithm for optimal partitioning of data on an interval", 2005). The
//! penalty follows Schwarz's criterion for Laplacian noise; the noise is estimated from the differences between
//! successive sizes. The cost of a single point is bounded, so that an outlier does not split a level in two (Fearnhead
//! and Rigaill, "Changepoint detection in the presence of outliers", 2019). A segment that is long and flat enough is a
//! level; the points between levels form a slope.
//!
//! A level belongs to the cache whose size is nearest to the end of the level. It belongs to memory if it continues
//! beyond the last cache, or if its loads take as long as loads of flushed lines. Memory has several levels if the TLB
//! has several levels. The reported caches are used only to name levels. All functions are pure.
use nodegauge_measure::{Bytes, stats};

/// Point of the curves: a working-set size with the value of each curve.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CurvePoint {
    /// Working set of one thread, bytes.
    pub bytes: u64,
    /// Value of each curve, in any unit, above zero. All dots have the same number of values.
    pub values: Vec<f64>,
    /// True if the working set was in a cache, i.e. if loads of flushed lines took longer; `None` if this was not
    /// measured.
    pub cached: Option<bool>,
}

/// Plateau of the curves, i.e. a level of the memory system.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plateau {
    /// Index of the first dot of the plateau.
    pub first: usize,
    /// Index of the last dot of the plateau.
    pub last: usize,
    /// Logarithm of the plateau's median, one per curve.
    heights: Vec<f64>,
}

/// Cache of the machine, as the operating system reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MachineCache {
    /// Number of the level: 1, 2, 3, ...
    pub level: u32,
    /// Total size of the cache in bytes.
    pub total_bytes: u64,
    /// Share of one thread in bytes, if all threads that use the cache have equal shares.
    pub bytes: u64,
}

/// Detected level with its name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedLevel {
    /// Name of the level: `L1`, `L2`, ..., `memory`.
    pub name: String,
    /// Plateau of the level.
    pub level: Plateau,
    /// Reported cache of the level; `None` for memory.
    pub reported: Option<MachineCache>,
}

impl NamedLevel {
    /// Returns the share of one thread in the reported cache, bytes; `None` for memory.
    pub(crate) fn share(&self) -> Option<u64> {
        self.reported.map(|cache| cache.bytes)
    }
}

/// Name of all levels that belong to memory.
pub(crate) const MEMORY: &str = "memory";
/// Maximum ratio of the heights of two segments that belong to the same level.
const MAX_LEVEL_RATIO: f64 = 1.15;
/// Minimum number of dots of a level. With two dots per octave, three dots span a factor of two in size.
const MIN_DOTS: usize = 3;
/// Minimum noise in the model, as a logarithm: a seventh of the minimum difference between levels.
const MIN_SCATTER: f64 = 0.02;
/// Maximum ratio between the detected end of a cache's level and the reported size of the cache. Sizes are half an
/// octave apart, and other data always occupies part of a cache.
pub(crate) const MAX_EDGE_RATIO: f64 = 1.6;

/// Maximum ratio of two consecutive working sets; a larger ratio means that sets between them were not measured.
const MAX_STEP: f64 = 1.5;

/// Returns the plateaus of curves. The dots must be in ascending order of size.
pub(crate) fn find_levels(dots: &[CurvePoint]) -> Vec<Plateau> {
    let curves = Curves::new(dots);
    let pieces = curves.cuts().into_iter().map(|(first, last)| curves.piece(first, last));
    let plateaus = curves.united(pieces).into_iter().filter_map(|piece| curves.plateau(&piece));
    curves.grown(curves.united(plateaus))
}

/// True if the heights of two plateaus differ by less than [`MAX_LEVEL_RATIO`], on average over all curves.
fn are_alike(x: &Plateau, y: &Plateau) -> bool {
    let apart = x.heights.iter().zip(&y.heights).map(|(x, y)| (x - y).abs());
    apart.sum::<f64>() < MAX_LEVEL_RATIO.ln() * x.heights.len() as f64
}

/// Returns the noise of the dots of a curve, estimated from the median difference between neighbours: most neighbours
/// belong to the same level, so their difference is the noise of two dots.
fn curve_scatter(logs: &[f64]) -> f64 {
    let steps: Vec<f64> = logs.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    (stats::median(&steps) / 2f64.sqrt()).max(MIN_SCATTER)
}

/// Curves over the same working-set sizes.
struct Curves {
    /// Logarithms of the values, one list per curve.
    logs: Vec<Vec<f64>>,
    /// Noise of each curve: the mean deviation of its dots.
    scatter: Vec<f64>,
    /// Number of dots per curve.
    dots: usize,
}

impl Curves {
    fn new(dots: &[CurvePoint]) -> Self {
        let curves = dots.first().map_or(0, |dot| dot.values.len());
        let logs: Vec<Vec<f64>> = (0..curves)
            .map(|curve| dots.iter().map(|dot| dot.values[curve].ln()).collect())
            .collect();
        let scatter = logs.iter().map(|curve| curve_scatter(curve)).collect();
        Self { scatter, logs, dots: dots.len() }
    }

    /// Returns the segmentation with the lowest cost, as the first and the last index of each segment.
    fn cuts(&self) -> Vec<(usize, usize)> {
        // The parameters of a segment are its position and one height per curve.
        let price = (1 + self.logs.len()) as f64 / 2.0 * (self.dots as f64).ln();
        // best[i] contains the lowest cost of the first i dots, and the first index of the last segment.
        let mut best: Vec<(f64, usize)> = vec![(0.0, 0)];
        for end in 1..=self.dots {
            let choices =
                (0..end).map(|begin| (best[begin].0 + self.cost(begin, end, price) + price, begin));
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

    /// Returns the cost of a segment: the deviations of its dots from its medians, divided by the noise. The cost of a
    /// single dot is bounded by the cost of noise plus half the penalty of a segment. Therefore a single outlier does
    /// not form a segment, whereas several adjacent outliers do.
    fn cost(&self, begin: usize, end: usize, price: f64) -> f64 {
        let heights = self.heights(begin, end - 1);
        (begin..end).map(|dot| self.dot_cost(dot, &heights, price)).sum()
    }

    /// Returns the cost of a dot in a segment with these heights; an outlier costs no more than a segment of its own.
    fn dot_cost(&self, dot: usize, heights: &[f64], price: f64) -> f64 {
        let curves = self.logs.iter().zip(heights).zip(&self.scatter);
        let sum: f64 = curves.map(|((logs, height), b)| (logs[dot] - height).abs() / b).sum();
        sum.min(self.logs.len() as f64 + price / 2.0)
    }

    /// Returns the median logarithm of a segment on each curve.
    fn heights(&self, first: usize, last: usize) -> Vec<f64> {
        self.logs.iter().map(|logs| stats::median(&logs[first..=last])).collect()
    }

    fn piece(&self, first: usize, last: usize) -> Plateau {
        Plateau { first, last, heights: self.heights(first, last) }
    }

    /// True if a dot has the height of a segment.
    fn is_at(&self, dot: usize, piece: &Plateau) -> bool {
        are_alike(&self.piece(dot, dot), piece)
    }

    /// Joins neighbouring segments of nearly the same height, including a few outliers between them.
    fn united(&self, pieces: impl Iterator<Item = Plateau>) -> Vec<Plateau> {
        pieces.fold(Vec::new(), |mut all: Vec<Plateau>, next| {
            match all.last_mut() {
                Some(before)
                    if are_alike(before, &next) && next.first - before.last <= MIN_DOTS =>
                {
                    *before = self.piece(before.first, next.last);
                }
                _ => all.push(next),
            }
            all
        })
    }

    /// Extends plateaus by adjacent dots of the same height, regardless of the segmentation.
    fn grown(&self, mut plateaus: Vec<Plateau>) -> Vec<Plateau> {
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

    /// Returns the part of a segment between the first and the last dot at its height; `None` if too few dots of the
    /// segment are at this height.
    fn plateau(&self, piece: &Plateau) -> Option<Plateau> {
        let flat: Vec<usize> =
            (piece.first..=piece.last).filter(|dot| self.is_at(*dot, piece)).collect();
        let first = *flat.first()?;
        let last = *flat.last()?;
        let enough = flat.len() >= MIN_DOTS && 3 * flat.len() >= 2 * (last - first + 1);
        enough.then(|| self.piece(first, last))
    }
}

/// Names the plateaus. A plateau is `memory` if its data was in no cache. If this was not measured, `memory` is the
/// plateau that continues to the end of the curves, beyond the last cache. Any other plateau is named after the
/// smallest cache that holds the working sets up to the end of the plateau, or after the last cache ([`fitting_cache`]).
/// Only the longest of several plateaus of a cache is named; the others are part of a slope.
///
/// If the largest working set fits in the last cache and a hypervisor reports the cache sizes (`guest`), the last cache
/// and memory cannot be distinguished.
pub(crate) fn name_levels(
    dots: &[CurvePoint],
    levels: Vec<Plateau>,
    reported: &[MachineCache],
    guest: bool,
) -> Vec<NamedLevel> {
    let beyond = reported.last().map_or(0, |cache| cache.bytes);
    let mut named: Vec<NamedLevel> = Vec::new();
    for level in levels {
        let (end, next) = level_end(dots, &level);
        let to_the_end = end == next;
        let past = end as f64 > beyond as f64 * MAX_EDGE_RATIO;
        let fitting = fitting_cache(reported, end, next);
        let tried = is_mostly_cached(&dots[level.first..=level.last]);
        let cache = match tried {
            Some(true) => fitting.or(reported.last()),
            Some(false) => None,
            None if to_the_end && past => None,
            None => fitting,
        };
        let name = match cache {
            Some(cache) if guest && tried.is_none() && to_the_end && cache.bytes == beyond => {
                format!("L{} or memory", cache.level)
            }
            Some(cache) => format!("L{}", cache.level),
            None if past || tried == Some(false) => MEMORY.to_owned(),
            None => continue,
        };
        let this = NamedLevel { name, level, reported: cache.copied() };
        match named.iter_mut().find(|other| cache.is_some() && other.name == this.name) {
            Some(other) if length(&this.level) > length(&other.level) => *other = this,
            Some(_) => {}
            None => named.push(this),
        }
    }
    named
}

/// Returns the smallest cache that holds a level whose last working set is `end`; `next` is the next larger working set
/// that was measured. If sets between these two were not measured, the level may end anywhere between them. If this
/// decides to which cache the level belongs, the smallest cache is returned that is not smaller than `end`.
fn fitting_cache(reported: &[MachineCache], end: u64, next: u64) -> Option<&MachineCache> {
    let holding =
        |edge: f64| reported.iter().find(move |cache| edge <= cache.bytes as f64 * MAX_EDGE_RATIO);
    if next as f64 <= end as f64 * MAX_STEP {
        return holding((end as f64 * next as f64).sqrt());
    }
    let first = holding(end as f64);
    if first == holding(next as f64) {
        return first;
    }
    reported.iter().find(|cache| end <= cache.bytes)
}

/// True if most dots with a known cache state were in a cache; `None` if the cache state is unknown for all dots.
fn is_mostly_cached(dots: &[CurvePoint]) -> Option<bool> {
    let tried: Vec<bool> = dots.iter().filter_map(|dot| dot.cached).collect();
    let served = tried.iter().filter(|cached| **cached).count();
    (!tried.is_empty()).then_some(2 * served > tried.len())
}

/// Returns the last working set of a level and the next larger one. At the end of the curves, both are the last working
/// set.
fn level_end(dots: &[CurvePoint], level: &Plateau) -> (u64, u64) {
    let end = dots[level.last].bytes;
    (end, dots.get(level.last + 1).map_or(end, |dot| dot.bytes))
}

/// Returns the named level that contains a dot; `None` if the dot is between levels.
pub(crate) fn level_at(named: &[NamedLevel], dot: usize) -> Option<&NamedLevel> {
    named.iter().find(|named| (named.level.first..=named.level.last).contains(&dot))
}

fn length(level: &Plateau) -> usize {
    level.last - level.first
}

/// Returns the reason why the other curve, `memory ladder` or `memory latency`, may show a different end of a cache
/// that cores or guests share. `chase` is true for `memory latency`.
pub(crate) fn difference_reason(chase: bool) -> &'static str {
    if chase {
        "`memory ladder` may find a larger cache: its loops reuse a line sooner, before other \
         cores or guests evict it"
    } else {
        "`memory latency` may find a smaller cache: a chase reuses a line later, when other \
         cores or guests may have evicted it"
    }
}

/// Returns a sentence for each contradiction between the curves and the reported caches.
pub(crate) fn disagreements(
    dots: &[CurvePoint],
    named: &[NamedLevel],
    reported: &[MachineCache],
) -> Vec<String> {
    let mut contradictions = Vec::new();
    let largest = dots.last().map_or(0, |dot| dot.bytes);
    let mut before = 0;
    for cache in reported.iter().filter(|cache| cache.bytes < largest) {
        let from = std::mem::replace(&mut before, cache.bytes);
        let share = if cache.bytes == cache.total_bytes {
            String::new()
        } else {
            format!(", {} per thread", Bytes(cache.bytes))
        };
        let what = format!(
            "L{} of {}{share}, as reported by the system",
            cache.level,
            Bytes(cache.total_bytes)
        );
        let found =
            named.iter().find(|label| label.reported.is_some_and(|of| of.level == cache.level));
        if let Some(found) = found {
            let (end, next) = level_end(dots, &found.level);
            let low = end as f64 / MAX_EDGE_RATIO;
            let high = next as f64 * MAX_EDGE_RATIO;
            if (cache.bytes as f64) < low || cache.bytes as f64 > high {
                let [end, next] = [end, next].map(Bytes);
                contradictions
                    .push(format!("{what}: in the curve, its level ends between {end} and {next}"));
            }
            continue;
        }
        let mut within =
            (0..dots.len()).filter(|i| (from + 1..=cache.bytes).contains(&dots[*i].bytes));
        let instead = within.find_map(|i| {
            let other = level_at(named, i)?;
            let [first, last] =
                [other.level.first, other.level.last].map(|dot| Bytes(dots[dot].bytes));
            Some(format!("working sets of {first} to {last} have the speed of {}", other.name))
        });
        let instead = instead.unwrap_or_else(|| "the curve has no plateau at this size".to_owned());
        contradictions.push(format!("{what}, is not detected: {instead}"));
    }
    contradictions
}

#[cfg(test)]
mod tests;
