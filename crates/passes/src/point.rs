//! A stream point: one configuration that is measured, with a team, arrays, and a loop for each kernel. Callers may
//! interleave passes of several points; they keep the samples.

use crate::TargetConfig;
use crate::kernels::values::{ExpectedValues, WrongValue};
use crate::kernels::{self, Element, Kernel, KernelShape, Loop, STREAM_ARRAY_COUNT};
use crate::traffic::{self, CountedTraffic};
use nodegauge_arena::location::{self, ShareLocation};
use nodegauge_arena::{ArenaError, ArrayShare, Arrays};
use nodegauge_machine::{NumaNodeId, UnavailableReason};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::{Bytes, Failure, Fraction};
use nodegauge_placement::display::ObservedAffinity;
use nodegauge_team::core_to_core::{self, SharedCacheLines};
use nodegauge_team::{Laps, Member, Span, Team};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of the part of an array that a thread fills between two checks for the end of the run.
const FILLED_PART: Bytes = Bytes::mib(16);

/// Time span of each kernel of a pass: from the start on the first thread to the end on the last thread.
pub type Spans = Vec<Span>;

/// Function that waits until all processes have called it; `None` for a single process.
pub type RanksBarrier<'a> = Option<&'a (dyn Fn() + Sync)>;

/// Actual placement and pages of a point, and results of the checks of its arrays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PointObservations {
    /// CPUs on which each thread may run.
    pub affinity: Vec<ObservedAffinity>,
    /// Share of the arrays on pages of each size; keys are bytes, shares are 0 to 1.
    pub pages: Option<BTreeMap<u64, Fraction>>,
    /// NUMA nodes of sampled pages of each thread's share of each array; empty if the kernel does not report them,
    /// and for several processes.
    #[serde(default)]
    pub shares: Vec<ShareLocation>,
    /// Share of each array on each NUMA node.
    pub nodes: Vec<Option<BTreeMap<NumaNodeId, Fraction>>>,
    /// Description of the first wrong value; `None` if all checks passed.
    pub wrong: Option<String>,
    /// Number of checks, each of all arrays.
    pub checks: u32,
}

/// Configuration with its team and its arrays, ready to be measured.
pub struct StreamTarget {
    config: TargetConfig,
    loops: Vec<Loop>,
    team: Team,
    arrays: Arrays,
    shared_lines: SharedCacheLines,
    values: ExpectedValues,
    /// Runs over parts of the arrays since the arrays were filled; with such runs, the expected values are unknown.
    parts: RunsOverParts,
    /// Wrong value that the first failed check found.
    pub wrong: Option<WrongValue>,
    /// Number of checks of all arrays.
    pub checks: u32,
}

impl StreamTarget {
    /// Starts the team and maps the arrays. Each thread initialises its own share (first touch).
    ///
    /// # Errors
    /// Fails if the loops do not exist, or if pages, memory or CPUs are not available.
    pub fn prepare(config: TargetConfig) -> Result<Self, ArenaError> {
        let loops = native_loops(&config.kernels, config.element)?;
        check_arrays(&loops, config.arrays)?;
        let arrays = Arrays::allocate(config.arrays_config())?;
        arrays.apply_policy(&config.policy)?;
        let team = Team::start(&config.places)?;
        let mut point = Self {
            shared_lines: SharedCacheLines::for_places(&config.places),
            values: ExpectedValues::new(config.element, config.arrays),
            parts: RunsOverParts::default(),
            wrong: None,
            checks: 0,
            config,
            loops,
            team,
            arrays,
        };
        point.fill_unless(&nodegauge_os::is_end_requested)?;
        Ok(point)
    }

    /// Measures the core-to-core latency between the first thread and a thread of another process through the cache
    /// line `line`. In `line`, the flag is true for the process that initiates the exchange and returns the round
    /// trip in seconds. `meet` waits for the other process; `idle` is called repeatedly while a thread waits.
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn ping_pong(
        &mut self,
        line: Option<(&AtomicU64, bool)>,
        meet: &(dyn Fn() + Sync),
        idle: &(dyn Fn() + Sync),
    ) -> Result<Option<f64>, ArenaError> {
        let trips = self.team.run_and_collect(|member| {
            if member.index > 0 {
                return None;
            }
            if let Some((line, true)) = line {
                line.store(0, Ordering::Relaxed);
            }
            meet();
            match line? {
                (line, true) => Some(core_to_core::ping(line, &|| idle())),
                (line, false) => {
                    core_to_core::pong(line, &|| idle());
                    None
                }
            }
        })?;
        Ok(trips.into_iter().flatten().next())
    }

    /// Fills the arrays with their initial values; each thread fills its own share.
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn fill(&mut self) -> Result<(), ArenaError> {
        self.fill_unless(&|| false)
    }

    /// Fills the arrays in parts until all are filled, or until `is_ended` returns true.
    fn fill_unless(&mut self, is_ended: &(dyn Fn() -> bool + Sync)) -> Result<(), ArenaError> {
        let values = ExpectedValues::new(self.config.element, self.config.arrays);
        let arrays = &self.arrays;
        let each = arrays.array_bytes().0 / self.config.places.len() as u64;
        let count = each.div_ceil(FILLED_PART.0).max(1) as usize;
        self.team.run(|member| {
            for index in 0..count {
                if is_ended() {
                    return;
                }
                let args = arrays.part(member_share(member), ArrayShare { index, count });
                // SAFETY: the shares of different threads are disjoint parts of the arrays.
                unsafe { values.fill(&args) }
            }
        })?;
        if is_ended() {
            return Err(ArenaError::Interrupted);
        }
        self.values = values;
        self.parts = RunsOverParts::default();
        Ok(())
    }

    /// Checks the arrays, and fills them again if their values are too large for another pass.
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn check_and_refill(&mut self) -> Result<(), ArenaError> {
        if self.parts.last.is_some() {
            self.fill()?;
        } else if self.values.must_refill() {
            self.check()?;
            self.fill()?;
        }
        Ok(())
    }

    /// Runs only the kernel with index `i`, untimed. After [`StreamTarget::check_and_refill`], each kernel may run
    /// once.
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn run_kernel(&mut self, i: usize) -> Result<(), ArenaError> {
        let arrays = &self.arrays;
        let each = &self.loops[i];
        let sums = self.team.run_and_collect(|member| {
            let args = arrays.share(member_share(member));
            // SAFETY: this processor supports the loop, and no other thread accesses the share.
            unsafe { each.run(&args) }
        })?;
        self.account(i, sums.iter().sum());
        Ok(())
    }

    /// Records that the kernel with index `i` has run. For a kernel that only reads, checks its result.
    fn account(&mut self, i: usize, sum: f64) {
        let kernel = self.loops[i].kernel();
        let each = self.values.apply(kernel);
        if !kernel.writes() {
            let outcome = self.values.check_sum(kernel, each, self.config.elements, sum);
            if let Err(wrong) = outcome {
                self.wrong.get_or_insert(wrong);
            }
        }
    }

    /// Runs a pass as [`StreamTarget::run_pass`] does; before each kernel, the team waits for the other processes at
    /// `gate`. Returns the sample and the time span of each kernel.
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn run_pass_with_barrier(
        &mut self,
        gate: RanksBarrier<'_>,
    ) -> Result<(Sample, Spans), ArenaError> {
        self.check_and_refill()?;
        let (sample, spans, sums) = self.timed(gate, None)?;
        for (i, sum) in sums.into_iter().enumerate() {
            self.account(i, sum);
        }
        Ok((sample, spans))
    }

    /// Runs each kernel once, over the whole arrays or over a part of them. With a part, the first kernel runs over
    /// `part` and each following kernel over another part, so that no kernel finds data of the previous kernel in a
    /// cache. Returns the sample, the time span of each kernel, and the sum that each kernel computed.
    fn timed(
        &mut self,
        gate: RanksBarrier<'_>,
        part: Option<ArrayShare>,
    ) -> Result<(Sample, Spans, Vec<f64>), ArenaError> {
        let arrays = &self.arrays;
        let loops = &self.loops;
        let (sample, timed) = self.team.sample(&self.shared_lines, |member, laps| {
            run(member, laps, arrays, part, loops, gate)
        })?;
        let mut sums = Vec::new();
        for i in 0..loops.len() {
            sums.push(timed.results.iter().map(|of_thread| of_thread[i]).sum());
        }
        Ok((sample, timed.spans, sums))
    }

    /// Runs the kernels as [`StreamTarget::run_part`] does; before each kernel, the team waits for the other processes
    /// at `gate`. The values in the part are not checked.
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn run_part_with_barrier(
        &mut self,
        gate: RanksBarrier<'_>,
        part: ArrayShare,
    ) -> Result<(Sample, Spans), ArenaError> {
        /// Maximum number of runs of all kernels over an element before the arrays are filled again. Each run
        /// multiplies the values by at most 50, and single precision overflows at 50^22.
        const MAX_RUNS: usize = 16;
        /// Maximum number of runs of kernels with the fourth array before the arrays are filled again. The fourth
        /// array contains products of two arrays, whose exponents are twice as large.
        const MAX_PRODUCT_RUNS: usize = MAX_RUNS / 2;
        let times =
            if self.config.arrays > STREAM_ARRAY_COUNT { MAX_PRODUCT_RUNS } else { MAX_RUNS };
        if self.parts.max_runs >= times as f64 {
            self.fill()?;
        }
        self.parts.add(part);
        let (sample, spans, _) = self.timed(gate, Some(part))?;
        Ok((sample, spans))
    }
}

impl StreamTarget {
    /// Returns the requested configuration.
    pub fn config(&self) -> &TargetConfig {
        &self.config
    }

    /// Returns the loops of a pass, in order.
    pub fn loops(&self) -> &[Loop] {
        &self.loops
    }

    /// Sets other loops (native or compiled) for the same arrays.
    ///
    /// # Errors
    /// Fails for loops of another element type, and for loops that require more arrays.
    pub fn set_loops(&mut self, loops: Vec<Loop>) -> Result<(), ArenaError> {
        let element = self.config.element;
        if let Some(other) = loops.iter().find(|other| other.element() != element) {
            let kernel = other.kernel();
            let made_for = other.element();
            return Err(ArenaError::Loops(Failure::missing(format!(
                "the kernel {kernel} for {made_for} cannot run on arrays of {element}"
            ))));
        }
        check_arrays(&loops, self.config.arrays)?;
        self.loops = loops;
        Ok(())
    }

    /// Measures the core-to-core latency of the team, seconds; returns NaN if the team has a single thread.
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn measure_round_trip(&mut self) -> Result<f64, ArenaError> {
        Ok(core_to_core::measure_round_trip(&mut self.team, &self.shared_lines)?.0)
    }

    /// Runs one pass over all kernels. If the values have grown too large, the arrays are checked and filled again
    /// first.
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn run_pass(&mut self) -> Result<Sample, ArenaError> {
        Ok(self.run_pass_with_barrier(None)?.0)
    }

    /// Runs each kernel once over a part of the arrays. The next pass fills the arrays again.
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn run_part(&mut self, part: ArrayShare) -> Result<Sample, ArenaError> {
        Ok(self.run_part_with_barrier(None, part)?.0)
    }

    /// Compares every element of the arrays with the expected values; does nothing after a run over a part of the
    /// arrays, whose values are unknown. The first wrong value is kept and returned by
    /// [`observations`](Self::observations).
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn check(&mut self) -> Result<(), ArenaError> {
        if self.parts.last.is_some() {
            return Ok(());
        }
        let values = &self.values;
        let arrays = &self.arrays;
        let base = arrays.ranges()[0].0;
        let outcomes = self.team.run_and_collect(|member| {
            let args = arrays.share(member_share(member));
            let first = (args.at[0].addr().get() - base) as u64 / arrays.element().bytes();
            // SAFETY: the arrays are initialised, and no thread writes to them during a check.
            unsafe { values.check(&args, first) }
        })?;
        self.checks += 1;
        for wrong in outcomes.into_iter().filter_map(Result::err) {
            self.wrong.get_or_insert(wrong);
        }
        Ok(())
    }

    /// Sets other kernels or other native loops for the same arrays.
    ///
    /// # Errors
    /// Fails if the loops do not exist.
    pub fn set_kernels(&mut self, kernels: Vec<(Kernel, KernelShape)>) -> Result<(), ArenaError> {
        let loops = native_loops(&kernels, self.config.element)?;
        check_arrays(&loops, self.config.arrays)?;
        self.loops = loops;
        self.config.kernels = kernels;
        Ok(())
    }

    /// Reads the actual placement and pages from the operating system. This takes long, because the kernel walks page
    /// tables.
    pub fn observations(&self) -> PointObservations {
        let shares = location::observe(&self.arrays, self.team.len());
        PointObservations {
            affinity: self.team.observed_affinities().to_vec(),
            pages: self.arrays.page_size_shares().ok(),
            nodes: (0..self.arrays.count()).map(|i| location::array_shares(&shares, i)).collect(),
            shares,
            wrong: self.wrong.as_ref().map(ToString::to_string),
            checks: self.checks,
        }
    }

    /// Counts the memory traffic of each kernel with the counters of the memory controllers, or returns the reason
    /// why this is not possible.
    ///
    /// # Errors
    /// Fails if a thread of the team fails.
    pub fn count_traffic(
        &mut self,
    ) -> Result<Result<CountedTraffic, UnavailableReason>, ArenaError> {
        traffic::measure(self.config.kernels.len(), &mut |run| match run {
            Some(kernel) => self.run_kernel(kernel),
            None => self.check_and_refill(),
        })
    }
}

/// Runs of the kernels over parts of the arrays.
#[derive(Debug, Clone, Copy, Default)]
struct RunsOverParts {
    /// Part of the last run; `None` before the first run.
    last: Option<ArrayShare>,
    /// Upper bound of the number of runs over any element.
    max_runs: f64,
}

impl RunsOverParts {
    /// Adds a run over `part`. One run over each of all parts counts as one run over every element.
    fn add(&mut self, part: ArrayShare) {
        let next =
            self.last.map(|last| ArrayShare { index: (last.index + 1) % last.count, ..last });
        self.max_runs += if next == Some(part) { 1.0 / part.count as f64 } else { 1.0 };
        self.last = Some(part);
    }
}

/// Runs a pass on the share of one thread; returns the result of each kernel.
fn run(
    member: &Member<'_>,
    laps: &mut Laps<'_>,
    arrays: &Arrays,
    part: Option<ArrayShare>,
    loops: &[Loop],
    gate: RanksBarrier<'_>,
) -> Vec<f64> {
    let together = || {
        if let Some(gate) = gate {
            member.barrier();
            if member.index == 0 {
                gate();
            }
        }
    };
    let run = |(i, each): (usize, &Loop)| {
        let args = match part {
            None => arrays.share(member_share(member)),
            Some(ArrayShare { index: first, count }) => {
                let index = (first + i * count / loops.len()) % count;
                arrays.part(member_share(member), ArrayShare { index, count })
            }
        };
        together();
        // SAFETY: this processor supports the loop, or the loop was tested on this processor. The share has `n`
        // elements of the loop's type in each array, and no other thread accesses the share between two barriers.
        laps.time(|| unsafe { each.run(&args) })
    };
    let sums = loops.iter().enumerate().map(run).collect();
    together();
    sums
}

/// Returns the share of the arrays that belongs to a member of the team.
fn member_share(member: &Member<'_>) -> ArrayShare {
    ArrayShare { index: member.index, count: member.count }
}

/// Checks that the loops use only the first `arrays` arrays.
///
/// # Errors
/// Fails if a loop uses another array.
fn check_arrays(loops: &[Loop], arrays: usize) -> Result<(), ArenaError> {
    let more = loops.iter().find(|each| kernels::array_count([each.kernel()]) > arrays);
    let Some(each) = more else { return Ok(()) };
    Err(ArenaError::Loops(Failure::missing(format!(
        "the kernel {} needs more than {arrays} arrays",
        each.kernel()
    ))))
}

/// Returns the native loops of these shapes.
///
/// # Errors
/// Fails if this processor has no such loop.
pub fn native_loops(
    kernels: &[(Kernel, KernelShape)],
    element: Element,
) -> Result<Vec<Loop>, ArenaError> {
    kernels.iter().map(|(kernel, shape)| native_loop(*kernel, element, *shape)).collect()
}

/// Returns the native loop of a kernel with this shape.
fn native_loop(kernel: Kernel, element: Element, shape: KernelShape) -> Result<Loop, ArenaError> {
    Loop::native(kernel, element, shape).ok_or_else(|| {
        ArenaError::Loops(
            Failure::missing(format!("this processor has no {kernel} kernel with {shape}"))
                .hint("leave out options that select loops, e.g. --stores or --prefetch"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Prefetch, STREAM, SideBySidePages, Stores, available_isas};
    use nodegauge_arena::{ArrayLayout, RequestedPages};
    use nodegauge_placement::MemoryPolicy;

    fn shape() -> KernelShape {
        KernelShape {
            isa: available_isas()[0],
            stores: Stores::Regular,
            unroll: 1,
            side_by_side: SideBySidePages::new(4).unwrap(),
            prefetch: Prefetch::Off,
        }
    }

    /// Returns a configuration with one thread, and with arrays of several parts.
    fn config(element: Element, kernels: &[Kernel]) -> TargetConfig {
        TargetConfig {
            places: vec![Vec::new()],
            arrays: kernels::array_count(kernels.iter().copied()),
            elements: (1 << 20) + 5,
            element,
            pages: RequestedPages::Base,
            layout: ArrayLayout::Staggered,
            policy: MemoryPolicy::Default,
            kernels: kernels.iter().map(|kernel| (*kernel, shape())).collect(),
            cache_bytes: 0,
        }
    }

    fn point(element: Element) -> StreamTarget {
        StreamTarget::prepare(config(element, &STREAM)).unwrap()
    }

    #[test]
    fn fourth_array_of_vector_triad_is_checked() {
        for element in [Element::F64, Element::F32] {
            let kernels = [STREAM.as_slice(), &[Kernel::VectorTriad]].concat();
            let mut point = StreamTarget::prepare(config(element, &kernels)).unwrap();
            assert_eq!(point.arrays.count(), 4);
            assert_eq!(point.loops()[4].kernel().counted_bytes(element), 4 * element.bytes());
            // There are more passes and trials than the values allow unless the arrays are filled again.
            for _ in 0..60 {
                assert_eq!(point.run_pass().unwrap().seconds.len(), 5);
            }
            for index in 0..40 {
                point.run_part(ArrayShare { index: index % 2, count: 2 }).unwrap();
            }
            point.run_pass().unwrap();
            point.check().unwrap();
            assert_eq!(point.wrong, None);
            assert_eq!(point.observations().nodes.len(), 4);
            let args = point.arrays.share(ArrayShare { index: 0, count: 1 });
            // SAFETY: this is the first element of array d, which no thread uses between passes.
            unsafe { args.at[3].cast::<u32>().as_ptr().write(u32::MAX) };
            point.check().unwrap();
            assert_eq!(point.wrong.unwrap().what, "d[0]");
        }
    }

    #[test]
    fn vector_triad_requires_fourth_array() {
        let three = config(Element::F64, &STREAM);
        let four = vec![(Kernel::VectorTriad, shape())];
        let error = StreamTarget::prepare(TargetConfig { kernels: four.clone(), ..three.clone() });
        let text = error.err().unwrap().to_string();
        assert_eq!(text, "the kernel vector_triad needs more than 3 arrays");
        let mut point = StreamTarget::prepare(three).unwrap();
        assert_eq!(point.arrays.count(), 3);
        assert!(point.set_kernels(four.clone()).is_err());
        let loops = native_loops(&four, Element::F64).unwrap();
        assert!(point.set_loops(loops).is_err());
        assert_eq!(point.loops().len(), STREAM.len());
    }

    #[test]
    fn arrays_stay_valid_after_partial_passes() {
        for element in [Element::F64, Element::F32] {
            let mut point = point(element);
            point.run_pass().unwrap();
            for (index, count) in [(0, 1), (0, 2), (1, 2)].repeat(20) {
                let part = ArrayShare { index, count };
                assert_eq!(point.run_part(part).unwrap().seconds.len(), STREAM.len());
            }
            // The values after parts are not checked.
            point.check().unwrap();
            assert_eq!((point.checks, point.wrong.is_none()), (0, true));
            // No value has overflowed, and a pass begins with newly filled arrays.
            point.run_pass().unwrap();
            point.check().unwrap();
            assert_eq!((point.checks, point.wrong.is_none()), (1, true));
        }
    }
}
