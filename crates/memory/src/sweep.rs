//! Many configurations in one run: sweeps over threads, places, stores, pages, size, prefetch,
//! compilers.
//!
//! All cells live side by side and run interleaved, in an order that is random (with a fixed seed)
//! and new each round, so that drift of the machine becomes spread and not a trend. A cell that
//! breaks the trend of its neighbours is measured again before it is believed.

mod grid;
mod trend;

pub use grid::{Combination, SweepError, check, combinations, resolve_compilers};

use crate::GAUGE;
use crate::axis::Setting;
use crate::compiled::{self, ChosenCompiler, CompiledKernels, CompilerChoice};
use crate::config::{RelativeConfig, StreamConfig};
use crate::point::{Point, PointError, Sample};
use crate::ranks::{Coordinator, RanksPoint, SharedCoordinator};
use crate::result::{self, Evidence};
use crate::size::Size;
use crate::stream::{self, Options, StreamError};
use crate::target::Target;
use crate::tuner::{self, Breadth, Constraints};
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_measure::keys::Config;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::samples;
use nodegauge_measure::schedule::{Limits, Schedule, policy};
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome, clock, notice};
use nodegauge_placement::{Placement, RankPlan};
use nodegauge_toolchain::CompileLimits;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trend::Trends;

/// Threads of all cells together at most: all of them live at once.
const MOST_THREADS: usize = 8192;

/// One configuration of a sweep.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its value on each axis, in the order of the axes.
    pub settings: Vec<Setting>,
    /// Where its threads go; of ranks, all of them together.
    pub placement: Placement,
    /// Where its ranks go; `None` for one process.
    pub ranks: Option<RankPlan>,
    /// Everything else.
    pub options: Options,
    /// The cell that its rates are held against.
    pub reference: Option<usize>,
    /// What a compiler made; `None` for the native loops.
    pub compiled: Option<Arc<CompiledKernels>>,
}

impl Cell {
    /// Whether there is something to run: a compiler may have made nothing.
    fn can_run(&self) -> bool {
        self.compiled.as_ref().is_none_or(|compiled| !compiled.loops().is_empty())
    }

    /// What the user left open about its loops.
    fn constraints(&self) -> Constraints {
        Constraints { stores: self.options.stores, prefetch: self.options.prefetch }
    }

    /// Its value on each axis, for the record.
    fn coordinates(&self) -> Map<String, Value> {
        let entry = |setting: &Setting| (setting.axis().to_owned(), setting.to_string().into());
        self.settings.iter().map(entry).collect()
    }

    /// Its measurements with its coordinates; of what its compiler did not make, the reason.
    fn located(&self, measured: Vec<Measurement>) -> Vec<Measurement> {
        let mut all = match &self.compiled {
            Some(compiled) => compiled.complete(measured, None),
            None => measured,
        };
        for m in &mut all {
            let mut config: StreamConfig = m.read_config();
            config.sweep = Some(self.coordinates());
            m.config = config.to_map();
        }
        all
    }
}

/// A planned sweep.
pub struct SweepPlan {
    cells: Vec<Cell>,
    compilers: Vec<ChosenCompiler>,
    compile_limits: CompileLimits,
    joined: Option<SharedCoordinator>,
    budget: Duration,
    notices: Vec<Notice>,
}

impl SweepPlan {
    /// Plans a sweep; `compilers` are those of its axis of that name, `joined` are ranks that a
    /// launcher has started, else they are started when it runs.
    ///
    /// # Errors
    /// When there are too many threads, or compilers and ranks at once.
    pub fn new(
        cells: Vec<Cell>,
        compilers: Vec<ChosenCompiler>,
        joined: Option<SharedCoordinator>,
        budget: Duration,
        notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        let threads: usize = cells.iter().map(|cell| cell.placement.threads.len()).sum();
        if threads > MOST_THREADS {
            return Err(SweepError::Threads { threads, most: MOST_THREADS }.into());
        }
        if !compilers.is_empty() && cells.iter().any(|cell| cell.ranks.is_some()) {
            return Err(SweepError::RanksAndCompilers.into());
        }
        let compile_limits = compiled::limits()?;
        Ok(Self { cells, compilers, compile_limits, joined, budget, notices })
    }

    /// Lets the compilers make their loops; `false` when the user ends the run.
    fn compile(&mut self, observer: &mut dyn Observer) -> Result<bool, Failure> {
        let (false, Some(cell)) = (self.compilers.is_empty(), self.cells.first()) else {
            return Ok(true);
        };
        let made = compiled::make(&self.compilers, &cell.options, self.compile_limits, observer)?;
        let Some(made) = made else { return Ok(false) };
        self.set_compiled(made.variants);
        self.notices.extend(made.notices);
        // Compiled loops are as they are, whatever the axis of an option of the native ones says.
        let native =
            |setting: &&Setting| matches!(setting, Setting::Stores(_) | Setting::Prefetch(_));
        let axis = self.cells.first().and_then(|cell| cell.settings.iter().find(native));
        if let Some(axis) = axis.map(Setting::axis) {
            let text =
                format!("{axis} is of the native loops alone: what a compiler made is as it is");
            self.notices.push(Notice::new(NoticeId::Method, GAUGE, text));
        }
        Ok(true)
    }

    /// Gives each cell the loops that its compiler made, by the words that chose it. Cells whose
    /// compiler made none, because it was a preset that it refuses, are left out.
    fn set_compiled(&mut self, made: Vec<(String, CompiledKernels)>) {
        let made: Vec<(String, Arc<CompiledKernels>)> =
            made.into_iter().map(|(words, compiled)| (words, Arc::new(compiled))).collect();
        self.cells.retain_mut(|cell| {
            let choice = cell.settings.iter().find(|s| matches!(s, Setting::Compiler(_)));
            let Some(Setting::Compiler(choice)) = choice else { return true };
            let words = choice.to_string();
            cell.compiled =
                made.iter().find(|(known, _)| *known == words).map(|(_, made)| Arc::clone(made));
            *choice == CompilerChoice::Native || cell.compiled.is_some()
        });
    }

    fn measure(mut self, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        if !self.compile(observer)? {
            let stop = Some(Stop::Interrupted);
            return Ok(Outcome { notices: self.notices, stop, ..Outcome::default() });
        }
        let most =
            self.cells.iter().filter_map(|cell| Some(cell.ranks.as_ref()?.ranks.len())).max();
        let coordinator = match (self.joined, most) {
            (Some(joined), _) => Some(joined),
            (None, Some(most)) => Some(Coordinator::start(most, observer)?),
            (None, None) => None,
        };
        let (cells, idle): (Vec<Cell>, Vec<Cell>) = self.cells.into_iter().partition(Cell::can_run);
        let mut outcome = Outcome { notices: self.notices, ..Outcome::default() };
        if !cells.is_empty() {
            let running = Running::prepare(site, cells, coordinator, self.budget, observer)?;
            outcome.extend(running.measure(site, observer)?);
        }
        outcome.measurements.extend(idle.iter().flat_map(|cell| cell.located(Vec::new())));
        outcome.stop = outcome.stop.or(Some(Stop::Budget));
        Ok(outcome)
    }
}

impl Planned for SweepPlan {
    fn foreseen(&self) -> Foreseen {
        Foreseen { time: Some(self.budget), memory: None }
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        self.measure(site, observer)
    }
}

/// A cell with a team and arrays of its own.
struct Candidate {
    point: Box<dyn Target>,
    size: Size,
    tried: usize,
}

impl Candidate {
    fn pass(&mut self) -> Result<Vec<Sample>, PointError> {
        Ok(vec![self.point.pass()?])
    }
}

/// A sweep whose cells are ready to be measured.
struct Running {
    cells: Vec<Cell>,
    candidates: Vec<Candidate>,
    limits: Limits,
    notices: Vec<Notice>,
}

impl Running {
    /// Every cell with a team and arrays of its own; the memory is shared out among them.
    fn prepare(
        site: &Site,
        cells: Vec<Cell>,
        coordinator: Option<SharedCoordinator>,
        budget: Duration,
        observer: &mut dyn Observer,
    ) -> Result<Self, StreamError> {
        let limits = Limits::new(budget, cells[0].options.samples);
        observer.phase(&format!("preparing {} configurations", cells.len()));
        let mut candidates = Vec::new();
        let mut notices = Vec::new();
        for cell in &cells {
            let options = Options {
                memory_fraction: cell.options.memory_fraction / cells.len() as f64,
                ..cell.options.clone()
            };
            let (size, point): (Size, Box<dyn Target>) =
                match cell.ranks.as_ref().zip(coordinator.as_ref()) {
                    Some((ranks, coordinator)) => {
                        let (size, configs) = stream::plan_ranks(site, ranks, &options)?;
                        let topology = &site.topology;
                        let point = RanksPoint::prepare(coordinator, topology, ranks, configs)?;
                        (size, Box::new(point))
                    }
                    None => {
                        let (topology, machine) = (&site.topology, &site.machine);
                        let (size, config) =
                            stream::plan(topology, machine, &cell.placement, &options)?;
                        (size, Box::new(Point::prepare(config)?))
                    }
                };
            notice::add_new(&mut notices, size.notices.iter().cloned());
            candidates.push(Candidate { point, size, tried: 0 });
        }
        Ok(Self { cells, candidates, limits, notices })
    }

    fn measure(mut self, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, StreamError> {
        observer.phase("choosing loops");
        self.choose_loops(observer)?;
        let count = self.cells.len();
        observer.phase(&format!("measuring {count} configurations by turns"));
        let Self { cells, mut candidates, limits, mut notices } = self;
        let mut schedule = Schedule::new(policy::SWEEP, limits, count);
        let trends = Trends { cells: &cells, topology: &site.topology };
        let measured =
            schedule.run(observer, None, |turn| candidates[turn.cell].pass()).and_then(|stop| {
                if stop != Stop::Interrupted {
                    notices.extend(trends.mend(&mut schedule, &mut candidates)?);
                }
                Ok(stop)
            });
        let (stop, failure) = match measured {
            Ok(stop) => (stop, None),
            // A rank has ended: what was measured until then is kept.
            Err(PointError::Rank(error)) => (Stop::Interrupted, Some(error.into())),
            Err(error) => return Err(error.into()),
        };
        let quality = clock::quality();
        let mut figures: Vec<Vec<Measurement>> = Vec::new();
        for ((candidate, cell), samples) in candidates.iter_mut().zip(&cells).zip(&schedule.samples)
        {
            // Ranks that have ended check nothing; their cells say how often they were checked before.
            if failure.is_none() || cell.ranks.is_none() {
                candidate.point.check()?;
            }
            let seen = candidate.point.seen()?;
            figures.push(cell.located(result::measurements(&Evidence {
                machine: &site.machine,
                topology: &site.topology,
                placement: &cell.placement,
                target: &*candidate.point,
                seen: &seen,
                size: &candidate.size,
                samples,
                sorted: &samples::sort(samples),
                stop,
                loops_tried: candidate.tried,
                clock: quality,
                traffic: None,
            })));
        }
        relate(&mut figures, &cells);
        notices.extend(trends.saturation(&schedule, &candidates));
        Ok(Outcome {
            measurements: figures.concat(),
            notices,
            stop: Some(stop),
            failure,
            ..Outcome::default()
        })
    }

    /// Chooses loops once for each set of constraints, on the cell with most threads; all cells with
    /// the same constraints run them, so that they differ in nothing but their coordinates. What a
    /// compiler made is as it is.
    fn choose_loops(&mut self, observer: &mut dyn Observer) -> Result<(), StreamError> {
        let Self { cells, candidates, limits, notices } = self;
        let mut groups: Vec<(Constraints, Vec<usize>)> = Vec::new();
        for (i, cell) in cells.iter().enumerate() {
            if let Some(compiled) = &cell.compiled {
                candidates[i].point.set_loops(compiled.loops())?;
                continue;
            }
            match groups.iter_mut().find(|(known, _)| *known == cell.constraints()) {
                Some((_, members)) => members.push(i),
                None => groups.push((cell.constraints(), vec![i])),
            }
        }
        let share = policy::SWEEP.choose / groups.len().max(1) as f64;
        for (done, (constraints, members)) in groups.into_iter().enumerate() {
            let threads = |i: &usize| cells[*i].placement.threads.len();
            let Some(widest) = members.iter().copied().max_by_key(threads) else { continue };
            let shapes = tuner::candidates(constraints, Breadth::Likely);
            let least = Instant::now() + limits.budget.mul_f64(share / 2.0);
            let deadline = limits.at(share * (done + 1) as f64).max(least);
            let point = &mut *candidates[widest].point;
            let chosen = tuner::choose(point, &shapes, deadline, || observer.interrupted())?;
            let text = stream::trial_in_words(&chosen, shapes.len());
            notice::add_new(notices, [Notice::new(NoticeId::Chosen, GAUGE, text)]);
            for i in members {
                candidates[i].point.reshape(chosen.loops.clone())?;
                candidates[i].tried = chosen.tried;
            }
        }
        Ok(())
    }
}

/// Gives each figure its rate over that of the same kernel in the reference cell, medians; `figures`
/// are those of each cell.
fn relate(figures: &mut [Vec<Measurement>], cells: &[Cell]) {
    let median = |m: &Measurement| m.summary.as_ref().map(|summary| summary.median);
    let medians: Vec<Vec<(String, Option<f64>)>> = figures
        .iter()
        .map(|cell| cell.iter().map(|m| (m.name.clone(), median(m))).collect())
        .collect();
    for (cell, figures) in cells.iter().zip(figures) {
        let Some(reference) = cell.reference else { continue };
        for m in figures {
            let same = medians[reference].iter().find(|(name, _)| *name == m.name);
            let ratio = same.and_then(|(_, other)| Some(median(m)? / (*other)?));
            let mut config: StreamConfig = m.read_config();
            let to = cells[reference].coordinates();
            config.relative = Some(RelativeConfig { to, median: ratio });
            m.config = config.to_map();
        }
    }
}
