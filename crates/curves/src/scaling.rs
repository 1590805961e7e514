//! Scaling: bandwidth of STREAM's kernels, of read and of write by the number of threads, with the prediction of the
//! execution-cache-memory model ([`ecm`]).
//!
//! The prediction has two inputs, which are measured in the same run with the same loops: the ladder of one core (read,
//! write, copy and triad in each cache and in memory), and, for each kernel, the bandwidth of all threads with the
//! kernel's mix of reads and writes, measured with the loops of `memory mix`. On one core, Scale is predicted from
//! Copy, and Add from Triad, because these kernels move the same lines. The cells are: one core in each level, all
//! mixes, and all kernels at each number of threads.
//!
//! Threads are added in the order of the placement. Each thread has its own working set of four times the last-level
//! cache of a single thread, so that even a single thread reads from memory. Stores are regular, as in the ladder.

mod ecm;
mod miss;

pub(crate) use ecm::contributions;
pub(crate) use miss::{compared_figures, correct_share_in_words};

use crate::ceilings::{self, Level};
use crate::config::CurveConfig;
use crate::mix::Mix;
use crate::prediction::CurveTimes;
use crate::run::{CurveRun, FigureOutline, TimeConversion, TimedCells};
use crate::{
    CurveSetup, GAUGE, Mode, cached, ladder, memory_working_set, notice, refuse_below, too_large,
};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_arena::ArenaError;
use nodegauge_arena::names::{PREDICTION, SCALING};
use nodegauge_chase::traffic::{self, WorkingSetLoop};
use nodegauge_chase::{MemoryRegion, RegionBuffers, WitnessedPool};
use nodegauge_gauge::family::SATURATED_PREFIX;
use nodegauge_gauge::roofline::MEMORY_LEVEL;
use nodegauge_kernels::{Element, Kernel, Stores};
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::{Measurement, QuotedStatistic, Validity};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{PredictedTime, RemainingTime, policy};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Unit, clock};
use nodegauge_placement::Placement;
use std::collections::BTreeSet;

/// Kernels whose scaling is measured and predicted.
pub(crate) const KERNELS: [Kernel; 6] =
    [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad, Kernel::Read, Kernel::Write];
/// Kernels that are measured on one core in each level.
pub(crate) const ONE_CORE_KERNELS: [Kernel; 4] =
    [Kernel::Read, Kernel::Write, Kernel::Copy, Kernel::Triad];
/// Mixes that the kernels have with regular stores.
const MIXES: [Mix; 4] = [Mix::Reads, Mix::ThreeToOne, Mix::TwoToOne, Mix::OneToOne];
/// Kind of stores of all loops.
const STORES: Stores = Stores::Regular;
/// Number of threads up to which every number of threads is measured.
const EACH_UP_TO: usize = 8;
/// Number of turns after which the arrays are filled again. A turn multiplies values by at most five for each of at
/// most six kernels, and 5^(6 x 64) is below the largest `f64`.
const TURNS_PER_REFILL: u32 = 64;
/// Part of the figure names for one core, between the kernel and the level.
pub(crate) const ONE_CORE_INFIX: &str = "_one_";

/// Returns the figure name of a kernel with a number of threads, e.g. `copy_2`.
pub(crate) fn figure_name(kernel: Kernel, threads: usize) -> String {
    format!("{kernel}_{threads}")
}

/// Returns the figure name of a kernel on one core in a level, e.g. `copy_one_L2`.
pub(crate) fn one_core_figure_name(kernel: Kernel, level: &str) -> String {
    format!("{kernel}{ONE_CORE_INFIX}{level}")
}

/// True if a figure name is of one of three kinds: a kernel with a number of threads, a kernel on one core, or a mix.
pub(crate) fn is_figure_name(name: &str) -> bool {
    let threads = name.rsplit_once('_').is_some_and(|(_, count)| count.parse::<u32>().is_ok());
    threads || name.contains(ONE_CORE_INFIX) || name.starts_with(SATURATED_PREFIX)
}

/// Returns the mix of lines that a kernel moves with regular stores, including lines that are read only to be
/// overwritten; `None` if no mix has this ratio.
pub(crate) fn kernel_mix(kernel: Kernel) -> Option<Mix> {
    let moved = kernel.moved_bytes(Element::F64, STORES);
    let mixes = MIXES.into_iter();
    mixes
        .filter(|mix| mix.kernel().writes() == kernel.writes())
        .find(|mix| !kernel.writes() || mix.kernel().moved_bytes(Element::F64, STORES) == moved)
}

/// Returns the kernel that represents a kernel on one core, because both move the same lines.
pub(crate) fn one_core_kernel(kernel: Kernel) -> Kernel {
    match kernel {
        Kernel::Scale => Kernel::Copy,
        Kernel::Add => Kernel::Triad,
        _ => kernel,
    }
}

/// Returns the numbers of threads to measure: every number up to eight, then two per octave, and all threads.
fn counts(all: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = (1..=all.min(EACH_UP_TO)).collect();
    let mut octave = EACH_UP_TO;
    while octave < all {
        counts.extend([octave / 2 * 3, octave * 2].into_iter().filter(|count| *count < all));
        octave *= 2;
    }
    if all > EACH_UP_TO {
        counts.push(all);
    }
    counts
}

/// Returns the indices of `counts` in the order in which the counts are set up: the last, the first, and then the count
/// in the middle of the largest remaining gap.
fn setup_order(counts: &[usize]) -> Vec<usize> {
    let last = counts.len() - 1;
    let mut order = vec![last];
    if last > 0 {
        order.push(0);
    }
    while order.len() < counts.len() {
        let rest = (0..counts.len()).filter(|at| !order.contains(at));
        let next = rest.max_by_key(|at| order.iter().map(|of| of.abs_diff(*at)).min());
        order.extend(next);
    }
    order
}

/// Returns the sentence that there was no time to measure these numbers of threads, in ascending order.
fn left_out_in_words(counts: &[usize]) -> String {
    let all: Vec<String> = counts.iter().map(ToString::to_string).collect();
    let threads = number_form(counts[counts.len() - 1], "thread", "threads");
    format!(
        "no time was left for {} {threads}: use a longer --budget or a smaller --size",
        all.join(", ")
    )
}

/// Returns the number of cores that run threads on each NUMA node. Threads on the same core count once. Unbound threads
/// count as separate cores of the first node.
fn cores_by_node(topology: &Topology, places: &[Vec<CpuId>]) -> Vec<usize> {
    let mut cores: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); topology.nodes.len().max(1)];
    for (number, place) in places.iter().enumerate() {
        let thread = match place[..] {
            [cpu] => topology.thread(cpu),
            // All CPUs of a core are a single core.
            [cpu, ..] if core_count(topology, place) == 1 => topology.thread(cpu),
            _ => None,
        };
        match thread {
            Some(thread) => cores[thread.node.unwrap_or(0)].insert(thread.core),
            None => cores[0].insert(topology.cores.len() + number),
        };
    }
    cores.iter().map(BTreeSet::len).collect()
}

/// Returns the number of cores to which these CPUs belong.
fn core_count(topology: &Topology, place: &[CpuId]) -> usize {
    let cores = place.iter().filter_map(|cpu| topology.thread(*cpu)).map(|thread| thread.core);
    cores.collect::<BTreeSet<usize>>().len()
}

/// Returns the loops of these kernels, in the order of `kernels`.
fn with_kernels(loops: &[WorkingSetLoop], kernels: &[Kernel]) -> Vec<WorkingSetLoop> {
    let found = kernels.iter().map(|kernel| loops.iter().find(|each| each.kernel() == *kernel));
    found.flatten().cloned().collect()
}

/// Cell of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScalingCell {
    /// One core, running the kernels of the ladder in the level with this index.
    OneCore(usize),
    /// All threads, running each mix.
    Mixes,
    /// All kernels, with the number of threads that has this index in the list of counts.
    Threads(usize),
}

/// Planned measurement of the scaling with the number of threads.
pub(crate) struct Scaling {
    /// Numbers of threads, ascending; the first is one.
    counts: Vec<usize>,
    /// Levels of the memory hierarchy of one thread.
    levels: Vec<Level>,
    /// Working set of a thread, bytes.
    set: u64,
}

/// Plans the measurement. The working set of a thread is four times the last-level cache of one thread. If memory is
/// insufficient, the working sets are smaller, and a notice is added.
pub(crate) fn plan(setup: CurveSetup<'_>, notices: &mut Vec<Notice>) -> Result<Scaling, Failure> {
    let threads = setup.placement.threads.len();
    if threads < 2 {
        return Err(Failure::usage(format!(
            "the scaling over threads requires at least two threads; found {threads}"
        ))
        .hint(setup.second_thread_hint()));
    }
    let first = setup.placement.threads[0].clone();
    let caches = setup.site.cache_capacity(&first.cpus);
    let granule = 4096;
    let asked = setup.options.max_working_set.map(|all| all.0 / threads as u64);
    let mut set = asked.unwrap_or_else(|| memory_working_set(caches).0) & !(granule - 1);
    let least = ladder::MIN_WORKING_SET * threads as u64;
    refuse_below(Bytes(least), Bytes(set * threads as u64))?;
    let usable = setup.usable();
    let needed = Bytes(set * threads as u64);
    if needed > usable {
        set = (usable.0 / threads as u64) & !(granule - 1);
        if asked.is_some() || set < ladder::MIN_WORKING_SET {
            return Err(too_large("a working set for each thread", needed, usable));
        }
        let text = format!(
            "the working set of a thread is {} instead of {}, which exceeds the usable memory",
            Bytes(set),
            memory_working_set(caches)
        );
        notices.push(notice(NoticeId::Clamped, text));
    }
    let alone = Placement { threads: vec![first], ..setup.placement.clone() };
    let reported = ladder::reported_caches(&setup.site.topology, &alone);
    let levels = ceilings::levels(&reported, set, &mut Vec::new());
    Ok(Scaling { counts: counts(threads), levels, set })
}

/// State of a run of `memory scaling`.
struct ScalingRun<'m> {
    buffers: RegionBuffers<'m>,
    /// Pools of workers, one for each number of threads.
    pools: Vec<WitnessedPool>,
    cells: Vec<ScalingCell>,
    /// Loops of each cell.
    loops: Vec<Vec<WorkingSetLoop>>,
    levels: &'m [Level],
    /// Number of turns so far; at multiples of [`TURNS_PER_REFILL`], the arrays are filled again.
    turns: u32,
}

impl ScalingRun<'_> {
    fn last(&mut self) -> &mut WitnessedPool {
        let last = self.pools.len() - 1;
        &mut self.pools[last]
    }

    /// Returns the index of the pool of a cell.
    fn pool(&self, cell: ScalingCell) -> usize {
        match cell {
            ScalingCell::OneCore(_) => 0,
            ScalingCell::Mixes => self.pools.len() - 1,
            ScalingCell::Threads(count) => count,
        }
    }

    /// Adds a cell with its loops.
    fn add(&mut self, cell: ScalingCell, loops: Vec<WorkingSetLoop>) {
        self.cells.push(cell);
        self.loops.push(loops);
    }

    /// Measures a cell once.
    fn turn(&mut self, number: usize) -> Result<Sample, ArenaError> {
        if self.turns.is_multiple_of(TURNS_PER_REFILL) {
            let buffers = self.buffers;
            traffic::refill(self.last(), buffers, buffers.bytes())?;
        }
        self.turns += 1;
        let cell = self.cells[number];
        let pool = self.pool(cell);
        let loops = &self.loops[number];
        let pool = &mut self.pools[pool];
        match cell {
            ScalingCell::OneCore(level) => {
                self.levels[level].take_sample(loops, pool, self.buffers)
            }
            _ => traffic::take_sample(loops, pool, self.buffers),
        }
    }
}

impl Scaling {
    fn threads(&self) -> usize {
        self.counts[self.counts.len() - 1]
    }

    /// Chooses all loops, and adds the cells for which there is time. Returns the first samples of each cell.
    fn set_up(
        &self,
        run: &mut CurveRun<'_>,
        of: &mut ScalingRun<'_>,
    ) -> Result<Vec<Vec<Sample>>, ArenaError> {
        run.observer.begin_phase("choosing the fastest loop for each kernel");
        let mut kernels = KERNELS.to_vec();
        let of_mixes = MIXES.map(Mix::kernel).into_iter();
        kernels.extend(of_mixes.filter(|kernel| !KERNELS.contains(kernel)));
        let bytes = self.set as usize;
        let buffers = of.buffers;
        let mut prepared: Vec<WorkingSetLoop> = Vec::new();
        for (done, kernel) in kernels.iter().enumerate() {
            let until = (done + 1) as f64 / kernels.len() as f64;
            let fastest =
                run.find_fastest_loop(until, of.last(), buffers, *kernel, &[STORES], bytes)?;
            prepared.extend(fastest.map(|variant| WorkingSetLoop::new(variant, bytes)));
        }
        run.observer.begin_phase("checking every element");
        for each in &mut prepared {
            each.prepare(of.last(), buffers)?;
        }
        for (number, level) in self.levels.iter().enumerate() {
            let mut loops = with_kernels(&prepared, &ONE_CORE_KERNELS);
            if level.working_set != self.set {
                for each in &mut loops {
                    *each = WorkingSetLoop::new(each.variant(), level.working_set as usize);
                    each.prepare(&mut of.pools[0], of.buffers)?;
                }
            }
            of.add(ScalingCell::OneCore(number), loops);
        }
        of.add(ScalingCell::Mixes, with_kernels(&prepared, &MIXES.map(Mix::kernel)));
        let loops = with_kernels(&prepared, &KERNELS);
        let order = setup_order(&self.counts);
        let mut first = Vec::new();
        let mut time = RemainingTime::new(&policy::CURVES_AFTER_SETUP, &run.limits);
        for number in 0..of.cells.len() {
            let begun = clock::now();
            first.push(vec![of.turn(number)?]);
            time.accept(clock::now() - begun);
        }
        let mut left_out = Vec::new();
        let mut longest = std::time::Duration::ZERO;
        for (done, count) in order.into_iter().enumerate() {
            // A turn with fewer threads takes hardly longer than one with more.
            if done > 0 && (run.observer.is_interrupted() || !time.allows(longest, longest)) {
                left_out.push(self.counts[count]);
                continue;
            }
            of.add(ScalingCell::Threads(count), loops.clone());
            let begun = clock::now();
            first.push(vec![of.turn(of.cells.len() - 1)?]);
            let taken = clock::now() - begun;
            longest = longest.max(taken);
            time.accept(taken);
        }
        if !left_out.is_empty() && !run.observer.is_interrupted() {
            left_out.sort_unstable();
            run.outcome.notices.push(notice(NoticeId::Budget, left_out_in_words(&left_out)));
        }
        Ok(first)
    }

    /// Returns the configuration and the validity that all figures of a pool share.
    fn config_and_validity(
        &self,
        run: &CurveRun<'_>,
        pool: &WitnessedPool,
        region: &MemoryRegion,
    ) -> (CurveConfig, Validity) {
        let (mut config, mut validity) = run.config_and_validity(pool, region);
        if pool.workers() < self.threads() {
            config.places_asked = None;
        }
        let arrays = Bytes(self.set * pool.workers() as u64);
        let places = run.setup.placement.thread_cpus();
        let cpus: Vec<CpuId> = places[..pool.workers()].concat();
        let caches = run.setup.site.cache_capacity(&cpus);
        let doubt = cached::small_set_reason("working sets", arrays, caches);
        doubt.into_iter().for_each(|reason| validity.mark_suspect(reason));
        (config, validity)
    }

    /// Adds the measured figures to the outcome.
    fn add_measured(
        &self,
        run: &mut CurveRun<'_>,
        of: &ScalingRun<'_>,
        region: &MemoryRegion,
        judged: &TimedCells,
    ) {
        // On the page, the figures of the ladder and of the mixes precede the figures by number of threads.
        let mut numbers: Vec<usize> = (0..of.cells.len()).collect();
        numbers.sort_by_key(|number| match of.cells[*number] {
            ScalingCell::OneCore(level) => (0, level),
            ScalingCell::Mixes => (1, 0),
            ScalingCell::Threads(count) => (2, count),
        });
        for number in numbers {
            let cell = of.cells[number];
            let pool = &of.pools[of.pool(cell)];
            let (config, doubts) = self.config_and_validity(run, pool, region);
            for (part, traffic) in of.loops[number].iter().enumerate() {
                let kernel = traffic.kernel();
                let workers = pool.workers();
                let mut config = CurveConfig { element: Some("f64".to_owned()), ..config.clone() };
                let mut validity = doubts.clone();
                let mut in_memory = true;
                let name = match cell {
                    ScalingCell::OneCore(level) => {
                        let level = &self.levels[level];
                        config.level = Some(level.name.clone());
                        config.level_reported_bytes = level.reported_bytes;
                        config.thread_bytes = Some(level.working_set);
                        if level.reported_bytes.is_some() {
                            validity = run.config_and_validity(pool, region).1;
                            in_memory = false;
                        }
                        one_core_figure_name(kernel, &level.name)
                    }
                    ScalingCell::Mixes => {
                        let spec = kernel.spec();
                        config.reads = Some(spec.reads.len() as u64);
                        config.writes = Some(spec.writes.is_some().into());
                        let mix = MIXES.into_iter().find(|mix| mix.kernel() == kernel);
                        format!("{SATURATED_PREFIX}{}", mix.map_or("?", Mix::name))
                    }
                    ScalingCell::Threads(_) => figure_name(kernel, workers),
                };
                config.thread_bytes = config.thread_bytes.or(Some(self.set));
                config.set_bytes = config.thread_bytes.map(|set| set * workers as u64);
                config.array_bytes = Some(traffic.array_bytes());
                let figure = FigureOutline {
                    name,
                    quoted: QuotedStatistic::Best,
                    value: TimeConversion::Loop(traffic, in_memory),
                    config,
                    validity,
                };
                run.add_figure(judged, number, part, figure);
            }
        }
    }

    /// Adds the predicted figures, and a notice about predictions that differ from the measured figures.
    fn add_predicted(&self, run: &mut CurveRun<'_>) {
        let places = run.setup.placement.thread_cpus();
        let topology = &run.setup.site.topology;
        let all = cores_by_node(topology, &places);
        let mut predictions = Vec::new();
        for count in &self.counts {
            let running = cores_by_node(topology, &places[..*count]);
            for kernel in KERNELS {
                let inputs = PredictionInputs::find(&run.outcome.measurements, kernel);
                let name = figure_name(kernel, *count);
                let mut own = run.outcome.measurements.iter();
                let measured = own.find(|m| m.test == run.curve.test_name() && m.name == name);
                if let (Some(inputs), Some(measured)) = (inputs, measured) {
                    predictions.push(inputs.figure(measured, &running, &all));
                }
            }
        }
        run.outcome.measurements.extend(predictions);
        let missed = miss::prediction_errors_in_words(&compared_figures(&run.outcome.measurements));
        run.outcome.notices.extend(missed.map(|text| notice(NoticeId::Contradicted, text)));
        if run.setup.site.machine.processor.write_allocate != Some(true) {
            let text = "whether this processor reads a line before it overwrites it is unknown: predictions assume that \
                        it does";
            run.outcome.notices.push(notice(NoticeId::Assumed, text));
        }
    }
}

/// Measured figures from which the rate of a kernel is predicted.
struct PredictionInputs<'a> {
    kernel: Kernel,
    mix: Mix,
    /// Bandwidth of one core in memory.
    one_core: &'a Measurement,
    /// Bandwidth of all threads with the mix of the kernel.
    all: &'a Measurement,
}

impl<'a> PredictionInputs<'a> {
    /// Returns the inputs for a kernel from these figures; `None` if one is missing.
    fn find(figures: &'a [Measurement], kernel: Kernel) -> Option<Self> {
        let mix = kernel_mix(kernel)?;
        let one_core =
            measured_figure(figures, &one_core_figure_name(one_core_kernel(kernel), MEMORY_LEVEL))?;
        let all = measured_figure(figures, &format!("{SATURATED_PREFIX}{mix}"))?;
        Some(Self { kernel, mix, one_core, all })
    }

    /// Returns the prediction for a measured figure. `running` is the number of cores per NUMA node in the measured
    /// figure, and `in_all` is their number in a run with all threads.
    fn figure(&self, measured: &Measurement, running: &[usize], in_all: &[usize]) -> Measurement {
        let Self { kernel, mix, one_core, all } = self;
        let counted = kernel.counted_bytes(Element::F64) as f64;
        let moved = kernel.moved_bytes(Element::F64, STORES) as f64;
        // Time per counted byte, and counted bytes per second of all threads.
        let time = 1.0 / one_core.value.unwrap_or(f64::NAN);
        let rate_of_all = all.value.unwrap_or(f64::NAN) * counted / moved;
        let rate = ecm::predicted_rate(time, rate_of_all, running, in_all);
        let times = ecm::LoopTimes::from_rate(time, in_all.iter().sum(), rate_of_all);
        let known: CurveConfig = measured.read_config();
        let config = CurveConfig {
            engine: known.engine,
            threads: known.threads,
            places: known.places,
            kernel: Some(kernel.name().to_owned()),
            stores: kernel.writes().then(|| STORES.name().to_owned()),
            reads: Some(mix.kernel().spec().reads.len() as u64),
            writes: Some(mix.kernel().writes().into()),
            measured: measured.value,
            saturation: Some(times.saturation_cores()).filter(|count| count.is_finite()),
            basis: Some(format!(
                "execution-cache-memory model: one core with {}, all threads with {mix}",
                one_core_kernel(*kernel)
            )),
            ..CurveConfig::default()
        };
        let m = Measurement::new(GAUGE, PREDICTION, measured.name.clone(), Unit::BytesPerSecond);
        let mut validity = one_core.validity.clone();
        for reason in &all.validity.reasons {
            validity.add(all.validity.status, reason.clone());
        }
        m.with_value(QuotedStatistic::Single, rate).with_config(&config).with_validity(validity)
    }
}

/// Returns the figure with this name if it has a value.
fn measured_figure<'a>(figures: &'a [Measurement], name: &str) -> Option<&'a Measurement> {
    figures.iter().find(|m| m.name == name && m.value.is_some())
}

impl Mode for Scaling {
    fn memory(&self) -> Bytes {
        Bytes(self.set * self.threads() as u64)
    }

    fn figures(&self) -> Vec<PossibleFigures> {
        let mut names = Vec::new();
        for count in &self.counts {
            names.extend(KERNELS.map(|kernel| figure_name(kernel, *count)));
        }
        let rate = &[Unit::BytesPerSecond];
        let measured = PossibleFigures::new(GAUGE, SCALING, names.clone(), rate)
            .with_name_rule(is_figure_name);
        vec![measured.with_known_limit(true), PossibleFigures::new(GAUGE, PREDICTION, names, rate)]
    }

    fn predicted(&self, times: &CurveTimes<'_>) -> PredictedTime {
        // The set-up and the cells of all threads are always run; other cells may be left out.
        let loops = KERNELS.len() + MIXES.len();
        let least = times.predict_loops(self.memory(), loops as u32);
        let shares = self.counts.iter().map(|count| *count as f64 / self.threads() as f64);
        let all = KERNELS.len() as f64 * shares.sum::<f64>() + MIXES.len() as f64;
        let likely = times.predict_loops(self.memory(), all.ceil() as u32);
        let threads = self.threads() as u64;
        let one_core =
            times.predict_one_worker(Bytes(self.set), threads, ONE_CORE_KERNELS.len() as u32);
        PredictedTime { min: least.min, likely: likely.likely } + one_core
    }

    fn measure(&self, run: &mut CurveRun<'_>) -> Result<(), ArenaError> {
        let threads = count_in_words(self.threads(), "thread");
        run.observer.begin_phase(&format!("preparing {} for each of {threads}", Bytes(self.set)));
        let places = run.setup.placement.thread_cpus();
        let mut pools = Vec::new();
        for count in &self.counts {
            // The next thread of the placement is the witness of a pool with a single thread.
            let spare = places.get(*count).and_then(|place| place.first().copied());
            let spare = spare.or(run.setup.spare());
            pools.push(run.start_place_pool(&places[..*count], spare)?);
        }
        let last = pools.len() - 1;
        let everyone = 0..pools[last].workers();
        let region = run.allocate_buffers(&mut pools[last], everyone, self.set)?;
        let mut of = ScalingRun {
            buffers: region.buffers(),
            pools,
            cells: Vec::new(),
            loops: Vec::new(),
            levels: &self.levels,
            turns: 0,
        };
        let first = self.set_up(run, &mut of)?;
        let phase = "measuring all numbers of threads, interleaved";
        let judged =
            run.take_samples_after_warm_up(policy::CURVES_AFTER_SETUP, first, phase, |number| {
                of.turn(number)
            })?;
        self.add_measured(run, &of, &region, &judged);
        self.add_predicted(run);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_arena::MemoryRates;
    use nodegauge_machine::TopologySource;
    use nodegauge_measure::{BytesPerSec, Seconds};
    use std::time::Duration;

    #[test]
    fn kernels_have_the_mix_of_the_lines_that_they_move() {
        let names = KERNELS.map(|kernel| kernel_mix(kernel).unwrap().name());
        assert_eq!(names, ["2:1", "2:1", "3:1", "3:1", "1:0", "1:1"]);
        for kernel in KERNELS {
            let other = one_core_kernel(kernel);
            assert!(ONE_CORE_KERNELS.contains(&other));
            assert_eq!(kernel_mix(other), kernel_mix(kernel));
            assert_eq!(other.counted_bytes(Element::F64), kernel.counted_bytes(Element::F64));
        }
    }

    #[test]
    fn large_machines_have_two_counts_per_octave() {
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(8), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(counts(16), [1, 2, 3, 4, 5, 6, 7, 8, 12, 16]);
        assert_eq!(counts(40).split_off(8), [12, 16, 24, 32, 40]);
    }

    #[test]
    fn ends_of_the_curve_are_set_up_first() {
        assert_eq!(setup_order(&[1]), [0]);
        let order = setup_order(&[1, 2, 3, 4, 5]);
        assert_eq!(order[..3], [4, 0, 2]);
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 5);
    }

    fn places(cpus: &[u32]) -> Vec<Vec<CpuId>> {
        cpus.iter().map(|cpu| vec![CpuId(*cpu)]).collect()
    }

    #[test]
    fn cores_are_counted_once_on_their_numa_node() {
        let text = "Package:2 NUMANode:1 L3Cache:1 Core:2 PU:2";
        let topology = Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap();
        assert_eq!(cores_by_node(&topology, &places(&[0, 1, 2])), [2, 0]);
        assert_eq!(cores_by_node(&topology, &places(&[0, 4])), [1, 1]);
        // Unbound threads may run on any core.
        assert_eq!(cores_by_node(&topology, &[Vec::new(), Vec::new()]), [2, 0]);
    }

    #[test]
    fn numbers_of_threads_without_time_are_named() {
        assert!(left_out_in_words(&[1]).starts_with("no time was left for 1 thread: use"));
        assert!(left_out_in_words(&[3, 5]).starts_with("no time was left for 3, 5 threads: use"));
    }

    #[test]
    fn prediction_contains_the_figures_of_one_core() {
        let rate = BytesPerSec((1 << 30) as f64);
        let rates = MemoryRates { first_touch: rate, rewrite: rate, load: Seconds(1e-7) };
        let times = CurveTimes { rates: &rates, held: 1 << 25 };
        let set = 64 << 20;
        let scaling = Scaling { counts: vec![1, 2], levels: Vec::new(), set };
        let loops = times.predict_loops(Bytes(2 * set), 10);
        // In two rounds, one core runs four kernels over its set, each for at least a sixteenth of a second.
        let one_core = Duration::from_micros(62_500) * (2 * 4);
        assert_eq!(scaling.predicted(&times).min, loops.min + one_core);
    }

    #[test]
    fn names_of_scaling_figures_are_recognised() {
        for name in ["copy_2", "triad_one_L2", "saturated_3:1"] {
            assert!(is_figure_name(name), "{name}");
        }
        assert!(!is_figure_name("copy"));
    }
}
