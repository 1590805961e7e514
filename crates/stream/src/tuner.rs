//! Choice of loops: stores, vector width, unroll factor, pages side by side and prefetch for each kernel. The choice is
//! made with a short measurement on the arrays and threads of the run.
//!
//! Candidates run interleaved in random order, so that drift of the machine affects all equally. Candidates that are
//! significantly slower than the fastest are eliminated ([`halving`]), and the lead of the fastest is reported. Each
//! kernel has its own loop because the best unroll factor differs between kernels: on a Zen 5 guest Copy gained 7 %
//! from one line per iteration, and reads gained from four lines. The description of the processor excludes no
//! candidate: CPUID does not report the number of outstanding lines of a core or the access patterns that its
//! prefetchers follow.

use crate::kernels::{self, Element, Isa, Kernel, KernelShape, Prefetch, SideBySidePages, Stores};
use crate::target::{Target, TargetConfig};
use nodegauge_arena::{ArenaError, ArrayShare};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::halving::{
    self, CandidateTurns, DeadlineCheck, EliminationRule, Halving, Lead, PassesPerRound,
    SearchRules, TurnRate,
};
use nodegauge_measure::{clock, regime, schedule};
use std::time::Instant;

/// Constraints of the user on the loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoopConstraints {
    /// Kind of store; `None` for both kinds.
    pub stores: Option<Stores>,
    /// Software prefetch; `None` for loops with and without software prefetch.
    pub prefetch: Option<Prefetch>,
    /// Number of pages side by side; `None` for loops with one page and with several pages.
    pub side_by_side: Option<SideBySidePages>,
}

/// Prefetch distances that usual runs try, bytes. Eight lines are about the distance that hides the latency of one miss
/// at full rate; the second distance is half a base page. The last candidates prefetch into two cache levels; in
/// exhaustive searches on an Emerald Rapids guest they were the fastest for Copy, Scale, Add and Triad.
const PREFETCH_TRIED: [Prefetch; 4] = [
    Prefetch::Near(512),
    Prefetch::Near(2048),
    Prefetch::FarNear(4096, 512),
    Prefetch::FarNear(8192, 1024),
];
/// Prefetch distances that a tuning tries: from four lines to a base page. The last candidates prefetch into two cache
/// levels with two distances, as compiler options do (`64,8` lines in the recommended options for the Xeon Phi).
const PREFETCH_WIDE: [Prefetch; 7] = [
    Prefetch::Near(256),
    Prefetch::Near(512),
    Prefetch::Near(1024),
    Prefetch::Near(2048),
    Prefetch::Near(4096),
    Prefetch::FarNear(4096, 512),
    Prefetch::FarNear(8192, 1024),
];
/// Unroll factor of the loops with prefetch.
const PREFETCH_UNROLL: u8 = 4;
/// Unroll factors that are tried.
const UNROLLS: [u8; 4] = [1, 2, 4, 8];
/// Numbers of pages side by side that usual runs try: the best number for reads and copies, and the best for stores.
const SIDE_BY_SIDE_TRIED: [u8; 2] = [4, 8];
/// Numbers of pages side by side that a tuning tries.
const SIDE_BY_SIDE_WIDE: [u8; 5] = [2, 4, 6, 8, 16];
/// Maximum number of attempts to measure an undisturbed pass.
const TRIES: usize = 3;
/// Number of vector widths that usual runs try, widest first.
const ISAS_TRIED: usize = 2;
/// Number of vector widths that a tuning tries, widest first.
const ISAS_WIDE: usize = 3;

/// Breadth of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchBreadth {
    /// Loops that are likely to be the best, for usual runs.
    Likely,
    /// All loops that may be the best, for tuning.
    Wide,
}

/// Returns the loops for this processor that satisfy the constraints, most promising first.
pub fn candidate_shapes(constraints: LoopConstraints, breadth: SearchBreadth) -> Vec<KernelShape> {
    let (most, prefetching, distances, pages) = match breadth {
        SearchBreadth::Likely => (ISAS_TRIED, 1, &PREFETCH_TRIED[..], &SIDE_BY_SIDE_TRIED[..]),
        SearchBreadth::Wide => (ISAS_WIDE, ISAS_TRIED, &PREFETCH_WIDE[..], &SIDE_BY_SIDE_WIDE[..]),
    };
    let pages = several_pages(constraints, pages);
    // Loops with several pages side by side have an unroll factor of one line and no prefetch.
    let several = constraints.prefetch.is_none_or(|prefetch| prefetch == Prefetch::Off);
    let one_by_one = constraints.side_by_side.is_none_or(|given| given == SideBySidePages::ONE);
    let isas: Vec<Isa> = kernels::available_isas().into_iter().take(most).collect();
    let stores: Vec<Stores> = match constraints.stores {
        Some(stores) => vec![stores],
        None => vec![Stores::NonTemporal, Stores::Regular],
    };
    let mut shapes = Vec::new();
    for (i, isa) in isas.iter().copied().enumerate() {
        for kind in stores.iter().copied() {
            if kind == Stores::NonTemporal && !isa.has_nontemporal_stores() {
                continue;
            }
            let plain = KernelShape {
                isa,
                stores: kind,
                unroll: 1,
                side_by_side: SideBySidePages::ONE,
                prefetch: Prefetch::Off,
            };
            if several {
                shapes.extend(
                    pages.iter().map(|pages| KernelShape { side_by_side: *pages, ..plain }),
                );
            }
            if !one_by_one {
                continue;
            }
            let unrolled = UNROLLS.iter().map(|unroll| KernelShape { unroll: *unroll, ..plain });
            let ahead = KernelShape { unroll: PREFETCH_UNROLL, ..plain };
            match constraints.prefetch {
                Some(Prefetch::Off) => shapes.extend(unrolled),
                Some(prefetch) => shapes.push(KernelShape { prefetch, ..ahead }),
                None => {
                    shapes.extend(unrolled);
                    let tried = distances.iter().filter(|_| i < prefetching);
                    shapes
                        .extend(tried.map(|prefetch| KernelShape { prefetch: *prefetch, ..ahead }));
                }
            }
        }
    }
    // The most promising loops come first, and the kinds of store alternate, because a short search tries only the
    // first candidates.
    shapes.sort_by_key(|shape| {
        (
            shape.prefetch != Prefetch::Off,
            isas.iter().position(|isa| *isa == shape.isa),
            likelihood(shape),
            shape.stores == Stores::Regular,
        )
    });
    shapes
}

/// Returns the numbers of pages side by side to try, except one page.
pub(crate) fn side_by_side_candidates(constraints: LoopConstraints) -> Vec<SideBySidePages> {
    several_pages(constraints, &SIDE_BY_SIDE_TRIED)
}

fn several_pages(constraints: LoopConstraints, usual: &[u8]) -> Vec<SideBySidePages> {
    match constraints.side_by_side {
        Some(SideBySidePages::ONE) => Vec::new(),
        Some(pages) => vec![pages],
        None => usual.iter().filter_map(|pages| SideBySidePages::new(*pages)).collect(),
    }
}

/// Result of the choice of loops.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChosenLoops {
    /// Chosen loop of each kernel.
    pub loops: Vec<(Kernel, KernelShape)>,
    /// Lead over the second best loop of each kernel, if known.
    pub leads: Vec<(Kernel, Lead)>,
    /// Loops that were tried, for the kernel with the most tried loops. The list is empty if there was no time to try
    /// two loops; the chosen loops are then a guess.
    pub tried: Vec<KernelShape>,
    /// Loops of the same kernel that were not tried.
    pub untried: Vec<KernelShape>,
    /// Kernels for which regular stores were faster, but not all loops with non-temporal stores were tried. They use
    /// the best tried loop with non-temporal stores, because these stores reduce memory traffic.
    pub nontemporal_by_default: Vec<Kernel>,
    /// Number of passes that the choice took.
    pub passes: usize,
}

/// Number of passes per candidate that must fit in the search time; fewer candidates are tried if they do not fit. No
/// candidate is eliminated before the fifth pass.
const MIN_PASSES: usize = 5;
/// Number of turns per candidate after which the search ends. Candidates that remain because of noise are equivalent.
const MAX_TURNS: usize = 12;
/// Lower bound of the total number of turns after which a search ends. With few candidates, each thus gets more turns
/// than [`MAX_TURNS`].
const MAX_TURNS_FOR_FEW: usize = 48;
/// Share of the search time for comparing two loops of one kernel without the other kernels.
const SINGLE_KERNEL_SHARE: f64 = 0.15;
/// Expected number of changes between the kinds of store in a search, one in each of the first passes. After each
/// change, the caches must settle.
const CHANGES: usize = 6;

/// Chooses a loop for each kernel of `target` among `shapes`, which are sorted by expected rate, highest first. The
/// choice ends at `deadline` at the latest, or when `stop` returns true. A short search tries only the first loops.
///
/// # Errors
/// Fails if the target cannot be measured.
pub fn choose(
    target: &mut dyn Target,
    shapes: &[KernelShape],
    deadline: Instant,
    mut stop: impl FnMut() -> bool,
) -> Result<ChosenLoops, ArenaError> {
    let element = target.config().element;
    let kernels: Vec<Kernel> = target.config().kernels.iter().map(|(kernel, _)| *kernel).collect();
    // The first trial is the warm-up; the duration of the second trial determines how many trials are possible.
    let mut parts = Parts::smallest(target.config());
    parts.run_next(target)?;
    let begun = clock::now();
    parts.run_next(target)?;
    let trial = clock::now() - begun;
    let settling = CHANGES * parts.trials_to_settle(target.config(), &kernels);
    let left = deadline.saturating_duration_since(clock::now());
    let affordable = left.as_secs_f64() / trial.as_secs_f64().max(1e-9);
    let affordable = (affordable as usize).saturating_sub(settling);
    let tried = match affordable / MIN_PASSES {
        0 | 1 if affordable < 2 * shapes.len() => affordable / 2,
        n => n,
    };
    let tried = if tried < 2 { 0 } else { tried.min(shapes.len()) };
    parts.enlarge(affordable / (MIN_PASSES * tried.max(1)));
    let mut groups: Vec<Halving<KernelShape>> = Vec::new();
    for kernel in &kernels {
        groups.push(Halving::new(existing_loops(*kernel, element, &shapes[..tried.max(1)])));
    }
    let mut chosen = ChosenLoops { passes: 2, ..ChosenLoops::default() };
    if tried > 0 {
        let most_turns = (MAX_TURNS * tried).max(MAX_TURNS_FOR_FEW);
        let mut search = Search::new(target, &kernels, &mut parts, most_turns, &mut stop);
        let until = deadline - left.mul_f64(SINGLE_KERNEL_SHARE);
        halving::choose(&mut search, &mut groups, &RULES, until)?;
        chosen.passes += search.passes;
    }
    for (kernel, group) in kernels.iter().zip(groups) {
        let all = existing_loops(*kernel, element, shapes);
        let kinds = [Stores::NonTemporal, Stores::Regular];
        let best = kinds.map(|kind| best_with(&group, kind));
        let alone = match best {
            [Some(streaming), Some(regular)] if is_close(&group, streaming, regular) => {
                let mut two = [Halving::new([streaming, regular])];
                let one = [*kernel];
                let mut search = Search::new(target, &one, &mut parts, usize::MAX, &mut stop);
                halving::choose(&mut search, &mut two, &SINGLE_KERNEL_RULES, deadline)?;
                chosen.passes += search.passes;
                let [two] = two;
                Some(two).filter(|two| two.lead().is_some())
            }
            _ => None,
        };
        chosen.take(*kernel, &group, alone.as_ref(), all);
    }
    target.set_kernels(chosen.loops.clone())?;
    Ok(chosen)
}

/// Parts of the arrays. Each trial uses the next part.
struct Parts {
    /// Number of parts.
    count: usize,
    /// Number of trials so far.
    trials: usize,
}

impl Parts {
    /// Minimum number of bytes of one array per thread in a part. In smaller parts, the time of a part would be
    /// comparable with the time of a clock reading and a barrier.
    const SMALLEST: u64 = 4 << 20;
    /// Maximum factor by which the smallest parts are enlarged, if there is time.
    const MAX_LARGER: usize = 4;

    /// Returns the smallest parts for a configuration.
    fn smallest(config: &TargetConfig) -> Self {
        let array = config.elements * config.element.bytes();
        let count = array / config.places.len().max(1) as u64 / Self::SMALLEST;
        Self { count: count.max(1) as usize, trials: 0 }
    }

    /// Makes parts up to `times` as large, because longer trials vary less.
    fn enlarge(&mut self, times: usize) {
        self.count = (self.count / times.clamp(1, Self::MAX_LARGER)).max(1);
    }

    /// Runs each kernel of `target` once over the next part, or over the whole arrays if the target has no parts.
    fn run_next(&mut self, target: &mut dyn Target) -> Result<Sample, ArenaError> {
        let part = ArrayShare { index: self.trials % self.count, count: self.count };
        self.trials += 1;
        match target.run_part(part)? {
            Some(sample) => Ok(sample),
            None => target.run_pass(),
        }
    }

    /// Returns the number of trials of `kernels` after which the caches contain only data of these trials, at most the
    /// number of trials over the whole arrays.
    fn trials_to_settle(&self, config: &TargetConfig, kernels: &[Kernel]) -> usize {
        let words: u64 = kernels.iter().map(|kernel| kernel.counted_bytes(config.element)).sum();
        let trial = words * config.elements / self.count as u64;
        (config.cache_bytes.div_ceil(trial.max(1)) as usize).min(self.count)
    }
}

/// Returns the fastest measured loop with stores of this kind.
fn best_with(group: &Halving<KernelShape>, stores: Stores) -> Option<KernelShape> {
    group.measured_candidates().into_iter().find(|shape| shape.stores == stores).copied()
}

/// True if the order of the two loops may change when the kernel runs alone.
///
/// Regular stores leave dirty lines in a cache, which are written back during the next kernel. In a short pass over all
/// kernels, regular stores make a kernel that mostly writes appear too fast, and a kernel that mostly reads too slow.
fn is_close(group: &Halving<KernelShape>, streaming: KernelShape, regular: KernelShape) -> bool {
    /// Ratio of the rate with regular stores to the rate with non-temporal stores above which the order may differ.
    /// Triad moves 4 lines of memory per line of a stream and appears to move 4.2 in a pass of STREAM's four kernels.
    const CLOSE_RATIO: f64 = 0.9;
    group.ratio(&regular, &streaming).is_some_and(|ratio| ratio > CLOSE_RATIO)
}

impl ChosenLoops {
    /// Adds the chosen loop of a kernel: the fastest one, or the one that [`Self::nontemporal_by_default`] describes.
    /// `all` contains all loops of the kernel; `alone` compares the best loops of both kinds of store in passes of this
    /// kernel alone.
    fn take(
        &mut self,
        kernel: Kernel,
        group: &Halving<KernelShape>,
        alone: Option<&Halving<KernelShape>>,
        all: Vec<KernelShape>,
    ) {
        let tried: Vec<KernelShape> = group.measured_candidates().into_iter().copied().collect();
        let untried: Vec<KernelShape> =
            all.into_iter().filter(|shape| !tried.contains(shape)).collect();
        let halving = alone.unwrap_or(group);
        let leader = *halving.leader();
        let needs_nontemporal_trial =
            kernel.spec().write_allocates() && leader.stores == Stores::Regular;
        let first =
            untried.iter().find(|shape| is_nontemporal(shape)).filter(|_| needs_nontemporal_trial);
        match first.map(|next| tried.iter().find(|shape| is_nontemporal(shape)).unwrap_or(next)) {
            Some(best) => {
                self.loops.push((kernel, *best));
                self.nontemporal_by_default.push(kernel);
            }
            None => {
                self.loops.push((kernel, leader));
                self.leads.extend(halving.lead().map(|lead| (kernel, lead)));
            }
        }
        if tried.len() + untried.len() > self.tried.len() + self.untried.len() {
            (self.tried, self.untried) = (tried, untried);
        }
    }
}

/// Rules for loops: the search ends when one loop per kernel is left. In simulations with undetected disturbances,
/// eliminating the slower half after three passes lost the faster of two loops in 8 of 100 trials.
const RULES: SearchRules = SearchRules {
    seed: 0x6E6F_6465,
    passes: PassesPerRound::One,
    elimination: EliminationRule::SignificantlySlower,
    min_rounds: 0,
    max_rounds: None,
    whole_rounds: 0,
    check: DeadlineCheck::Turn,
};
/// Rules for comparing two loops of one kernel without the other kernels.
const SINGLE_KERNEL_RULES: SearchRules = SearchRules { max_rounds: Some(8), ..RULES };

/// Search among loops that are measured interleaved on a target, with all kernels in one pass.
struct Search<'a> {
    target: &'a mut dyn Target,
    kernels: &'a [Kernel],
    parts: &'a mut Parts,
    /// Number of passes so far.
    passes: usize,
    /// Number of turns that are left until the search ends.
    turns_left: usize,
    /// True if the last pass left dirty lines in the caches; `None` before the first pass.
    left_dirty: Option<bool>,
    stop: &'a mut dyn FnMut() -> bool,
}

impl<'a> Search<'a> {
    fn new(
        target: &'a mut dyn Target,
        kernels: &'a [Kernel],
        parts: &'a mut Parts,
        most_turns: usize,
        stop: &'a mut dyn FnMut() -> bool,
    ) -> Self {
        Self { target, kernels, parts, passes: 0, turns_left: most_turns, left_dirty: None, stop }
    }

    /// Fills the caches with the data of this pass if the previous pass had the other kind of store, because dirty
    /// lines in a cache slow down the passes that replace them.
    fn settle(&mut self, dirty: bool) -> Result<(), ArenaError> {
        if self.left_dirty.replace(dirty) == Some(dirty) {
            return Ok(());
        }
        for _ in 0..self.parts.trials_to_settle(self.target.config(), self.kernels) {
            self.passes += 1;
            self.parts.run_next(self.target)?;
        }
        Ok(())
    }
}

/// True if the loop of a kernel leaves dirty lines in the caches.
fn leaves_dirty_lines(kernel: Kernel, shape: KernelShape) -> bool {
    kernel.writes() && shape.stores == Stores::Regular
}

impl CandidateTurns for Search<'_> {
    type Candidate = KernelShape;
    type Error = ArenaError;

    /// Runs a pass. On a busy machine the last attempt counts, even if it is disturbed, because every candidate needs a
    /// sample.
    fn turn(&mut self, picked: &mut [&mut KernelShape]) -> Result<Vec<TurnRate>, ArenaError> {
        let shapes = picked.iter().map(|shape| **shape);
        let loops: Vec<(Kernel, KernelShape)> = self.kernels.iter().copied().zip(shapes).collect();
        let dirty = loops.iter().any(|(kernel, shape)| leaves_dirty_lines(*kernel, *shape));
        self.target.set_kernels(loops)?;
        self.settle(dirty)?;
        self.turns_left = self.turns_left.saturating_sub(1);
        let sample = schedule::repeat_until_undisturbed(TRIES, is_disturbed, || {
            self.passes += 1;
            self.parts.run_next(self.target)
        })?;
        let round_trip = sample.round_trips.1;
        let mut rates = Vec::new();
        for seconds in &sample.seconds {
            rates.push(TurnRate { rate: 1.0 / seconds, round_trip });
        }
        Ok(rates)
    }

    fn must_end(&mut self) -> bool {
        self.turns_left == 0 || (self.stop)()
    }

    /// Returns the key by which loops are sorted: 0 for the kind of store of the previous pass, otherwise 1. All
    /// kernels of a pass then use the same kind of store, as far as possible.
    fn sort_key(&self, shape: &KernelShape) -> u8 {
        let dirty = shape.stores == Stores::Regular;
        u8::from(dirty != self.left_dirty.unwrap_or(false))
    }
}

/// Returns the distinct existing loops of a kernel; for a kernel without stores, the kind of store is ignored.
pub(crate) fn existing_loops(
    kernel: Kernel,
    element: Element,
    shapes: &[KernelShape],
) -> Vec<KernelShape> {
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

/// Returns the position of a loop's number of pages side by side and unroll factor in a list of the most promising
/// pairs; the maximum for a pair that is not in the list. A lower position is more promising.
fn likelihood(shape: &KernelShape) -> usize {
    let walk = (shape.side_by_side.pages(), shape.unroll);
    let likely = [(1, 4), (4, 1), (8, 1), (1, 1), (1, 8)];
    likely.iter().position(|known| *known == walk).unwrap_or(usize::MAX)
}

/// True for a loop with non-temporal stores.
fn is_nontemporal(shape: &KernelShape) -> bool {
    shape.stores == Stores::NonTemporal
}

/// True for a pass with interference, or with a change of the regime.
fn is_disturbed(sample: &Sample) -> bool {
    !sample.is_undisturbed()
        || !regime::may_share_regime(sample.round_trips.0, sample.round_trips.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Loop;
    use crate::target::TargetObservations;
    use nodegauge_arena::{ArrayLayout, RequestedPages};
    use nodegauge_placement::MemoryPolicy;
    use std::collections::VecDeque;
    use std::time::Duration;

    /// Returns a plain loop of the widest vectors.
    fn plain(stores: Stores, unroll: u8) -> KernelShape {
        KernelShape {
            isa: kernels::available_isas()[0],
            stores,
            unroll,
            side_by_side: SideBySidePages::ONE,
            prefetch: Prefetch::Off,
        }
    }

    /// Returns the configuration of one thread.
    fn config(
        kernels: &[Kernel],
        shape: KernelShape,
        elements: u64,
        cache_bytes: u64,
    ) -> TargetConfig {
        TargetConfig {
            places: vec![Vec::new()],
            arrays: 3,
            elements,
            element: Element::F64,
            pages: RequestedPages::Base,
            layout: ArrayLayout::Staggered,
            policy: MemoryPolicy::Default,
            kernels: kernels.iter().map(|kernel| (*kernel, shape)).collect(),
            cache_bytes,
        }
    }

    #[test]
    fn regular_stores_need_trials_of_all_non_temporal_loops() {
        let shape = |stores, unroll| KernelShape {
            isa: Isa::Avx,
            stores,
            unroll,
            side_by_side: SideBySidePages::ONE,
            prefetch: Prefetch::Off,
        };
        let (nt, more) = (shape(Stores::NonTemporal, 4), shape(Stores::NonTemporal, 1));
        let regular = shape(Stores::Regular, 4);
        let mut halving = Halving::new([nt, regular]);
        for (i, rate) in [(0, 90.0), (0, 91.0), (1, 100.0), (1, 101.0)] {
            halving.add_rate(i, rate, f64::NAN);
        }
        halving.sort_by_score();
        let chosen = |kernel, all: &[KernelShape]| {
            let mut chosen = ChosenLoops::default();
            chosen.take(kernel, &halving, None, all.to_vec());
            chosen
        };
        let whole = chosen(Kernel::Copy, &[nt, regular]);
        assert_eq!((whole.loops[0].1, whole.nontemporal_by_default.len()), (regular, 0));
        assert!(whole.leads[0].1.is_significant() && whole.untried.is_empty());
        let part = chosen(Kernel::Copy, &[nt, regular, more]);
        assert_eq!((part.loops[0].1, part.nontemporal_by_default), (nt, vec![Kernel::Copy]));
        assert_eq!((part.tried.len(), part.untried), (2, vec![more]));
        // The kernel reads the lines that it overwrites anyway, so regular stores add no traffic.
        assert_eq!(chosen(Kernel::Update, &[nt, regular, more]).loops[0].1, regular);
    }

    /// Model of a machine.
    trait Model {
        /// Returns the time of each kernel of `config` over a part of the arrays.
        fn seconds(&mut self, config: &TargetConfig, part: ArrayShare) -> Vec<f64>;
    }

    /// Target whose times are those of a model; no time elapses.
    struct Modelled<M> {
        config: TargetConfig,
        model: M,
    }

    impl<M: Model> Target for Modelled<M> {
        fn config(&self) -> &TargetConfig {
            &self.config
        }
        fn loops(&self) -> &[Loop] {
            &[]
        }
        fn set_loops(&mut self, _: Vec<Loop>) -> Result<(), ArenaError> {
            Ok(())
        }
        fn run_pass(&mut self) -> Result<Sample, ArenaError> {
            self.run_part(ArrayShare { index: 0, count: 1 }).map(Option::unwrap)
        }
        fn run_part(&mut self, part: ArrayShare) -> Result<Option<Sample>, ArenaError> {
            Ok(Some(Sample::from_times(self.model.seconds(&self.config, part))))
        }
        fn check(&mut self) -> Result<(), ArenaError> {
            Ok(())
        }
        fn set_kernels(&mut self, kernels: Vec<(Kernel, KernelShape)>) -> Result<(), ArenaError> {
            self.config.kernels = kernels;
            Ok(())
        }
        fn observe(&mut self) -> Result<TargetObservations, ArenaError> {
            Ok(TargetObservations::default())
        }
    }

    /// Machine whose cache keeps dirty lines until other lines replace them. Reading a line or writing it back takes
    /// the same time; a non-temporal store takes 1.5 times as long.
    struct CacheWithDirtyLines {
        /// Contents of the cache in bytes, oldest first, each with a flag for dirty lines.
        contents: VecDeque<(u64, bool)>,
    }

    impl CacheWithDirtyLines {
        /// Adds lines to the cache and returns the bytes that are written back for them.
        fn fill(&mut self, cache_bytes: u64, bytes: u64, dirty: bool) -> u64 {
            self.contents.push_back((bytes, dirty));
            let mut held: u64 = self.contents.iter().map(|(size, _)| size).sum();
            let mut written_back = 0;
            while held > cache_bytes {
                let (oldest, was_dirty) = self.contents.pop_front().unwrap();
                held -= oldest;
                written_back += if was_dirty { oldest } else { 0 };
            }
            written_back
        }

        /// Returns the time of a kernel over a part of the arrays.
        fn run(
            &mut self,
            config: &TargetConfig,
            kernel: Kernel,
            shape: KernelShape,
            part: ArrayShare,
        ) -> f64 {
            let part = config.elements * 8 / part.count as u64;
            let spec = kernel.spec();
            let mut moved = spec.reads.len() as u64 * part;
            let mut time = 0.0;
            for _ in spec.reads {
                moved += self.fill(config.cache_bytes, part, false);
            }
            if kernel.writes() && shape.stores == Stores::Regular {
                moved += part + self.fill(config.cache_bytes, part, true);
            } else if kernel.writes() {
                time += 1.5 * part as f64;
            }
            time += moved as f64;
            time / 1e12
        }
    }

    impl Model for CacheWithDirtyLines {
        fn seconds(&mut self, config: &TargetConfig, part: ArrayShare) -> Vec<f64> {
            let run =
                |(kernel, shape): &(Kernel, KernelShape)| self.run(config, *kernel, *shape, part);
            config.kernels.iter().map(run).collect()
        }
    }

    #[test]
    fn stores_are_chosen_by_passes_of_the_kernel_alone() {
        let shapes = [plain(Stores::NonTemporal, 4), plain(Stores::Regular, 4)];
        if !shapes[0].isa.has_nontemporal_stores() {
            return;
        }
        let all = [kernels::STREAM.as_slice(), &[Kernel::Write]].concat();
        let config = config(&all, shapes[0], 32 << 20, 64 << 20);
        let model = CacheWithDirtyLines { contents: VecDeque::new() };
        let mut target = Modelled { config, model };
        // In a pass of all kernels, dirty lines are 5 of the 11 lines that are replaced, so that Write appears to take
        // 16/11 of the time of a read with regular stores, and 3/2 with non-temporal stores. It takes two reads.
        let deadline = clock::now() + Duration::from_secs(60);
        let chosen = choose(&mut target, &shapes, deadline, || false).unwrap();
        assert!(
            chosen.loops.iter().all(|(_, shape)| shape.stores == Stores::NonTemporal),
            "{chosen:?}"
        );
    }

    /// Machine with two loops of Triad, of which the one with unroll factor 4 is faster by `gap`. A pass is slower by
    /// up to 2 %. In some passes another program takes up to 70 % of the rate without being detected.
    struct Disturbed {
        gap: f64,
        share: f64,
        random: u64,
    }

    impl Disturbed {
        /// Returns the next random number from 0 to 1.
        fn next(&mut self) -> f64 {
            self.random = self
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    impl Model for Disturbed {
        fn seconds(&mut self, config: &TargetConfig, _: ArrayShare) -> Vec<f64> {
            let slower = if config.kernels[0].1.unroll == 4 { 1.0 } else { 1.0 + self.gap };
            let noise = 1.0 - 0.02 * self.next();
            let is_disturbed = self.next() < self.share;
            let left = 0.3 + 0.7 * self.next();
            let rate = noise * if is_disturbed { left } else { 1.0 };
            vec![slower / rate]
        }
    }

    #[test]
    fn faster_loop_is_chosen_in_99_of_100_disturbed_trials() {
        const TRIALS: usize = 500;
        let shapes = [plain(Stores::Regular, 1), plain(Stores::Regular, 4)];
        for (share, seed) in [(0.0, 1), (0.2, 2), (0.4, 3), (0.6, 4)] {
            for gap in [0.1, 0.25, 0.5] {
                let config = config(&[Kernel::Triad], shapes[0], 1 << 20, 0);
                let mut target = Modelled { config, model: Disturbed { gap, share, random: seed } };
                let mut right = 0;
                for _ in 0..TRIALS {
                    let hour = clock::now() + Duration::from_secs(3600);
                    let chosen = choose(&mut target, &shapes, hour, || false).unwrap();
                    right += usize::from(chosen.loops[0].1.unroll == 4);
                }
                assert!(right * 100 >= TRIALS * 99, "{gap} {share}: {right}");
            }
        }
    }

    #[test]
    fn trial_parts_are_small_and_together_exceed_the_caches() {
        let config = |elements, threads, cache_bytes| TargetConfig {
            places: vec![Vec::new(); threads],
            ..config(&[Kernel::Triad], plain(Stores::Regular, 4), elements, cache_bytes)
        };
        // Arrays of 1 GiB on two threads have parts of 8 MiB; STREAM's kernels use ten of them in a pass.
        let large = config(128 << 20, 2, 260 << 20);
        let mut parts = Parts::smallest(&large);
        assert_eq!(parts.count, 128);
        assert_eq!(parts.trials_to_settle(&large, &kernels::STREAM), 4);
        assert_eq!(parts.trials_to_settle(&large, &[Kernel::Write]), 33);
        parts.enlarge(100);
        assert_eq!((parts.count, parts.trials_to_settle(&large, &kernels::STREAM)), (32, 1));
        // The size of the caches is unknown, or the caches are larger than the arrays.
        let unknown = config(128 << 20, 2, 0);
        assert_eq!(Parts::smallest(&unknown).trials_to_settle(&unknown, &kernels::STREAM), 0);
        let small = config(1 << 20, 1, 1 << 30);
        let of_small = Parts::smallest(&small);
        assert_eq!((of_small.count, of_small.trials_to_settle(&small, &[Kernel::Copy])), (2, 2));
    }

    #[test]
    fn constraints_limit_the_candidates() {
        let all = candidate_shapes(LoopConstraints::default(), SearchBreadth::Likely);
        assert!(all.iter().any(|s| s.prefetch != Prefetch::Off));
        let regular = candidate_shapes(
            LoopConstraints {
                stores: Some(Stores::Regular),
                prefetch: Some(Prefetch::Off),
                side_by_side: None,
            },
            SearchBreadth::Likely,
        );
        assert!(regular.iter().all(|s| s.stores == Stores::Regular && s.prefetch == Prefetch::Off));
        assert!(regular.iter().any(|s| s.side_by_side == SideBySidePages::ONE));
        let four = SideBySidePages::new(4);
        assert!(regular.iter().any(|s| Some(s.side_by_side) == four));
        let four_alone = LoopConstraints { side_by_side: four, ..LoopConstraints::default() };
        let shapes = candidate_shapes(four_alone, SearchBreadth::Wide);
        assert!(!shapes.is_empty() && shapes.iter().all(|s| Some(s.side_by_side) == four));
        let far = Prefetch::FarNear(4096, 512);
        assert!(
            candidate_shapes(
                LoopConstraints { prefetch: Some(far), ..LoopConstraints::default() },
                SearchBreadth::Wide
            )
            .iter()
            .all(|s| s.prefetch == far)
        );
    }
}
