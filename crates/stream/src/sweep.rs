//! Sweeps: measurement of many configurations in one run, e.g. for different threads, places, stores, pages, sizes,
//! prefetches or compilers.
//!
//! All configurations (cells) exist simultaneously and are measured interleaved. The order is random (with a fixed
//! seed) and different in each round, so that drift of the machine increases the spread but does not appear as a trend.
//! A cell with a lower rate than its neighbours is measured again.

mod grid;
mod trend;

use crate::GAUGE;
use crate::arrangement::{self, Arrangement, TargetSetup};
use crate::axis::{StreamAxis, StreamSetting};
use crate::compiled::{self, ChosenCompiler, CompiledKernels, CompilerChoice};
use crate::config::{RelativeRateConfig, StreamConfig};
use crate::prediction::{self, ArraysCost};
use crate::ranks::{LaunchedRanks, SharedStreamCoordinator, StreamCoordinator};
use crate::result::{self, StreamEvidence};
use crate::size::check::SizeCheck;
use crate::target::Target;
use crate::tuner::{self, ChosenLoops, LoopConstraints, SearchBreadth};
use grid::Combination;
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_arena::{ArenaError, MemoryRates};
use nodegauge_gauge::series::Series;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_measure::keys::Config;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{Predictable, PredictedTime, RunLimits, Turn, policy};
use nodegauge_measure::sweep::{self, Setting as _};
use nodegauge_measure::{
    Bytes, Failure, Fraction, Notice, NoticeId, Observer, Outcome, clock, notice,
};
use nodegauge_toolchain::CompileLimits;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use trend::TrendAnalysis;
pub(crate) use trend::{is_dip, saturation_index};

/// Share of the budget after which no choice of loops starts.
const CHOOSE_UNTIL: f64 = 0.5;
/// Maximum total number of threads of all cells, which exist simultaneously.
const MAX_THREADS: usize = 8192;

/// One configuration of a sweep.
struct SweepCell {
    /// Number of the cell in the requested sweep.
    number: usize,
    /// Value on each axis, in the order of the axes.
    settings: Vec<StreamSetting>,
    /// Arrangement of threads and arrays for the settings of the cell.
    arrangement: Arrangement,
    /// Index of the reference cell, with which the rates are compared.
    reference: Option<usize>,
    /// Kernels of a compiler; `None` for the native loops.
    compiled: Option<Arc<CompiledKernels>>,
}

impl SweepCell {
    /// Returns the number of threads of all ranks.
    fn threads(&self) -> usize {
        self.arrangement.placement.threads.len()
    }

    /// True if there are loops to run; false if the compiler built none.
    fn can_run(&self) -> bool {
        self.compiled.as_ref().is_none_or(|compiled| !compiled.loops().is_empty())
    }

    /// Adds the values on the axes to measurements. For kernels that the compiler did not build, adds invalid
    /// measurements with the reason.
    fn located(&self, measured: Vec<Measurement>) -> Vec<Measurement> {
        let mut all = match &self.compiled {
            Some(compiled) => compiled.complete_measurements(measured, None),
            None => measured,
        };
        for m in &mut all {
            let mut config: StreamConfig = m.read_config();
            config.sweep = Some(sweep::coordinates(&self.settings));
            m.config = config.to_map();
        }
        all
    }
}

/// Plan of a sweep over several configurations.
pub struct SweepPlan {
    cells: Vec<SweepCell>,
    compilers: Vec<ChosenCompiler>,
    compile_limits: CompileLimits,
    joined: Option<SharedStreamCoordinator>,
    notices: Vec<Notice>,
}

impl SweepPlan {
    /// Default time budget of a sweep.
    pub const BUDGET: Duration = Duration::from_secs(45);

    /// Plans a sweep over `axes`. `fixed` contains the number of ranks and the policy, if the user set them. `joined`
    /// contains ranks that a launcher has started; without it, the run starts the ranks itself. `arrange` plans a
    /// configuration for given settings and a share of the memory.
    ///
    /// # Errors
    ///
    /// Fails if there are too many configurations or threads, if compilers and ranks are combined, and if no
    /// configuration can be measured on this node. Single configurations that cannot be measured are omitted.
    pub fn new(
        mut axes: Vec<StreamAxis>,
        fixed: &[StreamSetting],
        joined: Option<&LaunchedRanks>,
        mut arrange: impl FnMut(&[StreamSetting], f64) -> Result<Arrangement, Failure>,
    ) -> Result<Self, Failure> {
        let mut compilers = grid::resolve_compilers(&mut axes)?;
        let (combinations, mut notices) = grid::combinations(&axes, fixed)?;
        let share = 1.0 / combinations.len() as f64;
        let planned = combinations.into_iter().enumerate().map(|(number, combination)| {
            let Combination { settings, reference } = combination;
            let arranged =
                compiled::check_installed(settings.iter().filter_map(StreamSetting::compiler))
                    .and_then(|()| arrange(&settings, share));
            let cell = arranged.map(|arrangement| SweepCell {
                number,
                settings: settings.clone(),
                arrangement,
                reference,
                compiled: None,
            });
            (settings, cell)
        });
        let (mut cells, left_out) =
            sweep::keep_supported(planned, |cell| &cell.settings[..], GAUGE).map_err(missing)?;
        for cell in &mut cells {
            notice::add_new(&mut notices, cell.arrangement.notices.drain(..));
        }
        notices.extend(left_out);
        let numbers: Vec<usize> = cells.iter().map(|cell| cell.number).collect();
        for (position, cell) in cells.iter_mut().enumerate() {
            let reference = cell.reference;
            cell.reference = reference.and_then(|of| numbers.iter().position(|one| *one == of));
            cell.number = position;
        }
        retain_used(&mut compilers, &cells);
        let threads: usize = cells.iter().map(SweepCell::threads).sum();
        if threads > MAX_THREADS {
            return Err(Failure::usage(format!(
                "the configurations have {threads} threads in total; the maximum is {MAX_THREADS}"
            ))
            .hint("give fewer values"));
        }
        let ranks = max_ranks(&cells);
        if ranks.is_some() && !compilers.is_empty() {
            return Err(Failure::usage("--sweep compiler runs in one process, not in ranks")
                .hint("leave out the compilers or the ranks"));
        }
        if let (Some(asked), Some(joined)) = (ranks, joined) {
            let started = joined.started.ranks as usize;
            if asked > started {
                return Err(Failure::usage(format!(
                    "the sweep requires {asked} ranks, but the launcher has started {started}"
                ))
                .hint(format!("start {asked} ranks")));
            }
        }
        let joined = joined.map(|joined| Rc::clone(&joined.coordinator));
        Ok(Self { cells, compilers, compile_limits: compiled::compile_limits()?, joined, notices })
    }

    /// Predicts the time of the sweep. If the time is short, shortens the arrays and leaves out configurations.
    fn admit(
        &mut self,
        site: &MeasuredNode,
        limits: &RunLimits,
        observer: &mut dyn Observer,
    ) -> Result<(), Failure> {
        let widest = self.cells.iter().max_by_key(|cell| cell.threads());
        let Some(widest) = widest.filter(|_| limits.samples.is_none()) else { return Ok(()) };
        observer.begin_phase("predicting the time of the sweep");
        let rates = prediction::measure_rates(&widest.arrangement)?;
        let lengths: Vec<u64> = self.cells.iter().map(|c| c.arrangement.elements()).collect();
        let compiling = prediction::compile_time(self.compilers.len());
        let cells = &mut self.cells;
        let mut run = PredictedSweep { site, cells, left_out: Vec::new(), rates, compiling };
        limits.admit(&mut run)?;
        let left_out = run.left_out;
        self.notices.extend(Notice::no_time_for(GAUGE, &left_out, ""));
        for cell in &self.cells {
            let shortened = cell.arrangement.shortening_notice(lengths[cell.number]);
            notice::add_new(&mut self.notices, shortened);
        }
        retain_used(&mut self.compilers, &self.cells);
        Ok(())
    }

    /// Compiles the loops of all compilers; returns `false` if the user interrupts the run.
    fn compile(
        &mut self,
        limits: Option<&RunLimits>,
        observer: &mut dyn Observer,
    ) -> Result<bool, Failure> {
        let Some(cell) = self.cells.first().filter(|_| !self.compilers.is_empty()) else {
            return Ok(true);
        };
        let made = compiled::compile_kernels(
            &self.compilers,
            &cell.arrangement.options,
            self.compile_limits,
            limits,
            observer,
        )?;
        let Some(made) = made else { return Ok(false) };
        self.set_compiled(made.variants);
        self.notices.extend(made.notices);
        // Compiled loops do not depend on an axis that applies only to native loops.
        let settings = self.cells.first().map_or(&[][..], |one| &one.settings);
        let axis = settings.iter().find(|setting| setting.is_native_only());
        if let Some(axis) = axis.map(StreamSetting::axis) {
            let text = format!("{axis} applies to the native loops only, not to compiled ones");
            self.notices.push(Notice::new(NoticeId::Method, GAUGE, text));
        }
        Ok(true)
    }

    /// Sets the loops of each cell to the loops that its compiler built. Cells of a preset whose flags the compiler
    /// refused are omitted.
    fn set_compiled(&mut self, made: Vec<(String, CompiledKernels)>) {
        let made: Vec<(String, Arc<CompiledKernels>)> =
            made.into_iter().map(|(words, compiled)| (words, Arc::new(compiled))).collect();
        self.cells.retain_mut(|cell| {
            let choice = cell.settings.iter().find(|s| matches!(s, StreamSetting::Compiler(_)));
            let Some(StreamSetting::Compiler(choice)) = choice else { return true };
            let words = choice.to_string();
            cell.compiled =
                made.iter().find(|(known, _)| *known == words).map(|(_, made)| Arc::clone(made));
            *choice == CompilerChoice::Native || cell.compiled.is_some()
        });
    }
}

/// Sweep whose time is predicted before its set-up. It can be shortened.
struct PredictedSweep<'a> {
    site: &'a MeasuredNode,
    cells: &'a mut Vec<SweepCell>,
    /// Configurations that were left out.
    left_out: Vec<String>,
    rates: MemoryRates,
    /// Predicted time of the compilers.
    compiling: PredictedTime,
}

impl PredictedSweep<'_> {
    /// Returns the index of the next cell to leave out. Of each pair of neighbours the second is left out first, so
    /// that the remaining cells span the axes. The last cell and reference cells are never left out.
    fn next_to_omit(&self) -> Option<usize> {
        let last = self.cells.len().saturating_sub(1);
        let inner = (1..last).filter(|at| !self.is_reference(*at));
        inner.min_by_key(|at| {
            let number = self.cells[*at].number;
            (number.trailing_zeros(), std::cmp::Reverse(number))
        })
    }

    /// True if another cell is compared with the cell at index `at`.
    fn is_reference(&self, at: usize) -> bool {
        self.cells.iter().any(|cell| cell.reference == Some(at))
    }
}

impl Predictable for PredictedSweep<'_> {
    fn predicted(&self) -> PredictedTime {
        let mut time = PredictedTime::from_time(arrangement::MIN_CHOICE_TIME) + self.compiling;
        for cell in self.cells.iter() {
            let cost = ArraysCost::ONE_SET;
            time = time + cost.predicted(&cell.arrangement, &self.rates, &policy::SWEEP);
        }
        time
    }

    fn shorten(&mut self) -> bool {
        let mut is_shorter = false;
        for cell in &mut *self.cells {
            is_shorter |= cell.arrangement.shorten(self.site);
        }
        if is_shorter {
            return true;
        }
        let Some(at) = self.next_to_omit() else { return false };
        let cell = self.cells.remove(at);
        let words: Vec<String> = cell.settings.iter().map(setting_in_words).collect();
        self.left_out.push(words.join(" "));
        for other in &mut *self.cells {
            other.reference = other.reference.map(|of| of - usize::from(of > at));
        }
        true
    }

    fn shortening_options(&self) -> &str {
        "smaller arrays (--size), or fewer configurations"
    }
}

/// Returns the option of a setting, e.g. `threads=4`.
fn setting_in_words(setting: &StreamSetting) -> String {
    format!("{}={setting}", setting.axis())
}

/// Groups the cells that need only one common size check: their arrays have the same length, and the caches in use have
/// the same size. In each group, the cell with the most threads is the first.
fn size_check_groups(site: &MeasuredNode, cells: &[SweepCell]) -> Vec<Vec<usize>> {
    let mut kinds: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (i, cell) in cells.iter().enumerate() {
        let arrangement = &cell.arrangement;
        let caches = arrangement::caches_in_use(site, &arrangement.placement);
        let kind = (
            arrangement.size.elements,
            arrangement.options.arrays.element.bytes(),
            caches.bytes().map(|bytes| bytes.0),
        );
        kinds.entry(kind).or_default().push(i);
    }
    let mut groups: Vec<Vec<usize>> = kinds.into_values().collect();
    for members in &mut groups {
        members.sort_by_key(|i| std::cmp::Reverse(cells[*i].threads()));
    }
    groups
}

/// Removes the compilers that no cell uses.
fn retain_used(compilers: &mut Vec<ChosenCompiler>, cells: &[SweepCell]) {
    compilers.retain(|one| {
        let setting = StreamSetting::Compiler(one.choice.clone());
        cells.iter().any(|cell| cell.settings.contains(&setting))
    });
}

/// Returns the failure of a sweep if this node can measure none of its configurations.
fn missing(why: Failure) -> Failure {
    if why.is_machine_failure() { Failure::missing(why) } else { why }
}

/// Returns the maximum number of ranks over all cells; `None` if no cell has ranks.
fn max_ranks(cells: &[SweepCell]) -> Option<usize> {
    cells.iter().filter_map(|cell| Some(cell.arrangement.ranks.as_ref()?.ranks.len())).max()
}

impl PlannedRun for SweepPlan {
    fn expected_cost(&self) -> ExpectedCost {
        let each: Vec<ExpectedCost> =
            self.cells.iter().map(|c| c.arrangement.expected_cost(1)).collect();
        let memory = each.iter().filter_map(|expected_cost| Some(expected_cost.memory?.0)).sum();
        ExpectedCost { time: each.first().and_then(|cell| cell.time), memory: Some(Bytes(memory)) }
    }

    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        self.cells.first().map(|cell| cell.arrangement.possible_figures(site)).unwrap_or_default()
    }

    fn run(
        mut self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let limits = self.cells.first().map(|cell| cell.arrangement.limits());
        if let Some(limits) = &limits {
            self.admit(site, limits, observer)?;
        }
        if !self.compile(limits.as_ref(), observer)? {
            let stop = Some(StopReason::Interrupted);
            return Ok(Outcome { notices: self.notices, stop, ..Outcome::default() });
        }
        let coordinator = match (self.joined, max_ranks(&self.cells)) {
            (None, Some(most)) => Some(StreamCoordinator::start(most, observer)?),
            (joined, _) => joined,
        };
        let (cells, idle): (Vec<SweepCell>, Vec<SweepCell>) =
            self.cells.into_iter().partition(SweepCell::can_run);
        let mut outcome = Outcome { notices: self.notices, ..Outcome::default() };
        if let (Some(limits), false) = (limits, cells.is_empty()) {
            let prepared =
                PreparedSweep::prepare(site, cells, limits, coordinator.as_ref(), observer)?;
            let measured = prepared.measure(site, observer)?;
            outcome.time = measured.time;
            outcome.extend(measured);
        }
        outcome.measurements.extend(idle.iter().flat_map(|cell| cell.located(Vec::new())));
        outcome.stop = outcome.stop.or(Some(StopReason::Budget));
        Ok(outcome)
    }
}

/// Target of a cell, with the choice of the loops.
struct MeasuredTarget {
    target: Box<dyn Target>,
    chosen: Option<ChosenLoops>,
    /// Result of the size check of the cell's group.
    check: Option<SizeCheck>,
}

impl MeasuredTarget {
    fn new(target: Box<dyn Target>, check: Option<SizeCheck>) -> Self {
        Self { target, chosen: None, check }
    }

    fn run_pass(&mut self) -> Result<Vec<Sample>, ArenaError> {
        Ok(vec![self.target.run_pass()?])
    }
}

/// Sweep whose cells are set up.
struct PreparedSweep {
    cells: Vec<SweepCell>,
    candidates: Vec<MeasuredTarget>,
    limits: RunLimits,
    notices: Vec<Notice>,
}

impl PreparedSweep {
    /// Sets up a team and arrays for each cell. The size check is made for the first cell of each group, which has the
    /// most threads.
    fn prepare(
        site: &MeasuredNode,
        mut cells: Vec<SweepCell>,
        limits: RunLimits,
        coordinator: Option<&SharedStreamCoordinator>,
        observer: &mut dyn Observer,
    ) -> Result<Self, Failure> {
        let begun = limits.elapsed();
        let mut notices = Vec::new();
        let mut candidates: BTreeMap<usize, MeasuredTarget> = BTreeMap::new();
        for members in size_check_groups(site, &cells) {
            let make =
                &mut |arrangement: &Arrangement| arrangement.prepare_target(site, coordinator);
            let may_grow =
                members.iter().all(|i| cells[*i].arrangement.doubled_size(site).is_some());
            let count = members.len() as u32;
            let mut set_up = TargetSetup { make, target: |it| &mut **it, count, may_grow };
            let first = &mut cells[members[0]].arrangement;
            let ready = set_up.run(first, &limits, observer)?;
            observer.begin_phase(&format!(
                "preparing {}",
                count_in_words(cells.len(), "configuration")
            ));
            let leader = &mut cells[members[0]].arrangement;
            let ready = leader.check_size(site, ready, &mut set_up, limits, observer)?;
            notice::add_new(&mut notices, leader.notices.drain(..));
            let size = leader.size.clone();
            let check = ready.check;
            candidates.insert(members[0], MeasuredTarget::new(ready.target, check));
            for i in &members[1..] {
                observer.check_interrupt()?;
                cells[*i].arrangement.resize(size.clone());
                let target = cells[*i].arrangement.prepare_target(site, coordinator)?;
                candidates.insert(*i, MeasuredTarget::new(target, check));
            }
        }
        let candidates = candidates.into_values().collect();
        let setup_time = limits.elapsed();
        let limits = RunLimits { reserve: (setup_time - begun) / 2, ..limits };
        Ok(Self { cells, candidates, limits, notices })
    }

    fn measure(
        mut self,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        observer.begin_phase("choosing loops");
        self.choose_loops(observer)?;
        let count = self.cells.len();
        observer.begin_phase(&format!(
            "measuring {}, interleaved",
            count_in_words(count, "configuration")
        ));
        let Self { cells, mut candidates, limits, mut notices } = self;
        let mut series = Series::new(policy::SWEEP, limits, count);
        let trends = TrendAnalysis { cells: &cells, topology: &site.topology, limits };
        let mut turn = |turn: Turn| candidates[turn.cell].run_pass();
        series.run(&mut turn, observer, None)?;
        if !series.has_ended() {
            notices.extend(trends.remeasure_dips(&mut series, &mut candidates, observer));
        }
        let stop = series.stop_reason();
        let mut figures: Vec<Vec<Measurement>> = Vec::new();
        for (number, ((MeasuredTarget { target, chosen, check }, cell), samples)) in
            candidates.iter_mut().zip(&cells).zip(&series.schedule.samples).enumerate()
        {
            let arrangement = &cell.arrangement;
            let lost = series.cell_failure(number);
            // A failed target cannot check its arrays. Lost ranks are lost for all cells with ranks.
            let of_ranks = series.target_loss().filter(|_| arrangement.ranks.is_some());
            let unchecked = lost.or(of_ranks);
            if unchecked.is_none() {
                target.check()?;
            }
            let seen = target.observe()?;
            let evidence = StreamEvidence::new(site, arrangement, &**target, &seen, samples, stop);
            let evidence = StreamEvidence {
                chosen: chosen.as_ref(),
                check: *check,
                lost,
                unchecked,
                ..evidence
            };
            figures.push(cell.located(result::measurements(&evidence)));
        }
        relate(&mut figures, &cells);
        notices.extend(trends.saturation_notices(&series.schedule, &candidates, &figures));
        let mut outcome = Outcome { measurements: figures.concat(), notices, ..Outcome::default() };
        series.store_end(&mut outcome);
        Ok(outcome)
    }

    /// Chooses loops once for each set of constraints, on the cell with the most threads. All cells with the same
    /// constraints run these loops, so that the cells differ only in their axis values. Compiled loops are not chosen.
    fn choose_loops(&mut self, observer: &mut dyn Observer) -> Result<(), Failure> {
        let Self { cells, candidates, limits, notices, .. } = self;
        let mut groups: Vec<(LoopConstraints, Vec<usize>)> = Vec::new();
        for (i, cell) in cells.iter().enumerate() {
            if let Some(compiled) = &cell.compiled {
                candidates[i].target.set_loops(compiled.loops())?;
                continue;
            }
            let constraints = cell.arrangement.options.arrays.constraints();
            match groups.iter_mut().find(|(known, _)| *known == constraints) {
                Some((_, members)) => members.push(i),
                None => groups.push((constraints, vec![i])),
            }
        }
        let share = policy::SWEEP.choice_share / groups.len().max(1) as f64;
        for (done, (constraints, members)) in groups.into_iter().enumerate() {
            let widest = members.iter().copied().max_by_key(|i| cells[*i].threads());
            let Some(widest) = widest else { continue };
            let shapes = tuner::candidate_shapes(constraints, SearchBreadth::Likely);
            let least = clock::now() + limits.budget.mul_f64(share.0 / 2.0);
            let least = least.min(limits.time_at_share(Fraction(CHOOSE_UNTIL)));
            let deadline = limits.time_at_share(share * (done + 1) as f64).max(least);
            let target = &mut *candidates[widest].target;
            let chosen = tuner::choose(target, &shapes, deadline, || observer.is_interrupted())?;
            notice::add_new(notices, [arrangement::loop_choice_notice(&chosen)]);
            for i in members {
                candidates[i].target.set_kernels(chosen.loops.clone())?;
                candidates[i].chosen = Some(chosen.clone());
            }
        }
        Ok(())
    }
}

/// Sets the relative rate of each figure: its median divided by the median of the same kernel in the reference cell.
/// `figures` contains the figures of each cell.
fn relate(figures: &mut [Vec<Measurement>], cells: &[SweepCell]) {
    let medians: Vec<Vec<(String, Option<f64>)>> = figures
        .iter()
        .map(|cell| cell.iter().map(|m| (m.name.clone(), median(m))).collect())
        .collect();
    for (cell, of_cell) in cells.iter().zip(figures) {
        let Some(reference) = cell.reference else { continue };
        for m in of_cell {
            let same = medians[reference].iter().find(|(name, _)| *name == m.name);
            let ratio = same.and_then(|(_, other)| Some(median(m)? / (*other)?));
            let mut config: StreamConfig = m.read_config();
            let to = sweep::coordinates(&cells[reference].settings);
            config.relative = Some(RelativeRateConfig { to, median: ratio });
            m.config = config.to_map();
        }
    }
}

fn median(m: &Measurement) -> Option<f64> {
    m.summary.as_ref().map(|summary| summary.median)
}
