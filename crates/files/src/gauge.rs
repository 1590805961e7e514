//! The gauge: carries a plan out, cell by cell, with other programs beside if asked, and makes
//! measurements of what was seen.

use crate::FilesError;
use crate::cell::{self, Outcome as CellOutcome, Place, Sample, Task};
use crate::clock::Clock;
use crate::data::Data;
use crate::latency;
use crate::operation::Operation;
use crate::pass::{Bench, Ended};
use crate::peers::{Beside, Figure};
use crate::plan::{Plan, Site};
use crate::result;
use crate::team::Team;
use nodegauge_machine::SysRoot;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::watch::Watch;
use nodegauge_measure::{Bytes, BytesPerSec, Seconds};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What was found.
#[derive(Debug)]
pub struct Outcome {
    /// The figures, own ones before those of other programs, cell by cell.
    pub measurements: Vec<Measurement>,
    /// What was clamped, left out or found.
    pub notices: Vec<String>,
    /// Whether the user ended it.
    pub interrupted: bool,
    /// What ended it early; what was measured before is there.
    pub failure: Option<FilesError>,
}

/// A row of what was seen: task and operation, in the order of the record.
type Key = (usize, usize);

/// What was seen of the cells.
#[derive(Default)]
pub(crate) struct Seen {
    /// Own samples.
    pub(crate) own: BTreeMap<Key, Vec<Sample>>,
    /// Figures of each program beside.
    pub(crate) others: Vec<BTreeMap<Key, Vec<Figure>>>,
    /// An operation that failed, and why.
    pub(crate) failed: Option<(usize, &'static Operation, String)>,
}

/// What runs the operations of a cell.
enum Hands {
    One(Box<Bench>),
    Several(Team),
}

impl Hands {
    fn run(&mut self, task: &Task, place: &Place<'_>, seed: u64) -> CellOutcome {
        match self {
            Self::One(bench) => cell::run(task, place, bench, seed),
            Self::Several(team) => team.run(task, place, seed),
        }
    }
}

/// Carries out `plan`, with `beside` by turns.
///
/// # Errors
/// When there is no memory to begin with. Later failures are in the outcome, with what was measured
/// before.
pub fn run(
    plan: &Plan,
    beside: &mut [Box<dyn Beside>],
    watch: &mut dyn Watch,
) -> Result<Outcome, FilesError> {
    let options = &plan.options;
    let clock = Clock::get();
    let longest = plan.longest_block();
    // Contents of this run and no other: left-over data must not pass a check.
    let seed = fastrand::u64(..);
    let data = Data::new(longest.0 as usize, options.compressible, seed)
        .map_err(|cause| FilesError::NoMemory { block: longest, cause })?;
    let data = Arc::new(data);
    let mut hands = match options.crew {
        None => Hands::One(Box::new(Bench::new(data)?)),
        Some(crew) => Hands::Several(Team::new(crew, &data)?),
    };
    watch.phase(&format!("{} cells of files", plan.cells()));
    let mut round = Round {
        plan,
        started: Instant::now(),
        deadline: options.budget.map(|budget| clock.now() + clock.ticks(budget)),
        seen: Seen { others: beside.iter().map(|_| BTreeMap::new()).collect(), ..Seen::default() },
        failure: None,
        seed,
    };
    let mut stop = None;
    for sample in 0..options.samples.max(1) {
        stop = round.through(sample, &mut hands, beside, watch);
        if stop.is_some() {
            break;
        }
    }
    let mut notices = plan.notices.clone();
    let missing = plan.cells() - round.measured();
    if stop == Some(Ended::Budget) && missing > 0 {
        notices.push(format!(
            "the budget ended before {missing} of {} cells; those measured span the grid\nhint: --budget SECONDS gives more time, --max-size leaves out large files",
            plan.cells()
        ));
    }
    let overhead = latency::overhead(clock);
    let measurements = result::measurements(plan, &round.seen, beside, clock, overhead);
    Ok(Outcome {
        measurements,
        notices,
        interrupted: stop == Some(Ended::Interrupted) || watch.interrupted(),
        failure: round.failure,
    })
}

/// A run under way.
struct Round<'a> {
    plan: &'a Plan,
    started: Instant,
    deadline: Option<u64>,
    seen: Seen,
    failure: Option<FilesError>,
    seed: u64,
}

impl Round<'_> {
    /// Every cell once; why it ended before the last.
    fn through(
        &mut self,
        sample: usize,
        hands: &mut Hands,
        beside: &mut [Box<dyn Beside>],
        watch: &mut dyn Watch,
    ) -> Option<Ended> {
        let tasks = &self.plan.tasks;
        for (number, (site, task)) in tasks.iter().enumerate() {
            let site = &self.plan.sites[*site];
            let own_first = (number + sample).is_multiple_of(2);
            let over = self.over(watch);
            if over.is_some() {
                return over;
            }
            let mut ended = None;
            if own_first {
                ended = self.own(number, site, task, sample, hands, watch);
            }
            for (which, program) in beside.iter_mut().enumerate() {
                if ended.is_none() {
                    ended = self.other(number, site, task, which, program.as_mut(), watch);
                }
            }
            if !own_first && ended.is_none() {
                ended = self.own(number, site, task, sample, hands, watch);
            }
            if ended.is_some() || self.failure.is_some() {
                return ended;
            }
            self.tell(number, task, watch, sample);
        }
        None
    }

    fn over(&self, watch: &dyn Watch) -> Option<Ended> {
        if watch.interrupted() {
            return Some(Ended::Interrupted);
        }
        let passed = self.deadline.is_some_and(|deadline| Clock::get().now() >= deadline);
        passed.then_some(Ended::Budget)
    }

    fn own(
        &mut self,
        number: usize,
        site: &Site,
        task: &Task,
        sample: usize,
        hands: &mut Hands,
        watch: &dyn Watch,
    ) -> Option<Ended> {
        let root = SysRoot::live();
        let place = Place {
            ground: &site.ground,
            volume: &site.volume,
            root: &root,
            limit: self.plan.options.limit,
            deadline: self.deadline,
            interrupted: &|| watch.interrupted(),
        };
        let seed = self.seed.wrapping_add((number as u64) << 20).wrapping_add(sample as u64);
        let outcome = hands.run(task, &place, seed);
        for (operation, sample) in outcome.samples {
            let index = index_of(task, operation);
            self.seen.own.entry((number, index)).or_default().push(sample);
        }
        if let Some((operation, error)) = outcome.failure {
            self.seen.failed = Some((number, operation, error.to_string()));
            self.failure = Some(error);
        }
        outcome.cut
    }

    fn other(
        &mut self,
        number: usize,
        site: &Site,
        task: &Task,
        which: usize,
        program: &mut dyn Beside,
        watch: &dyn Watch,
    ) -> Option<Ended> {
        let left = self.deadline.map(|deadline| {
            let clock = Clock::get();
            let left = clock.seconds(deadline.saturating_sub(clock.now()));
            Duration::try_from_secs_f64(left.0).unwrap_or_default()
        });
        match program.run(task, &site.ground, left, &|| watch.interrupted()) {
            Ok(figures) => {
                for (operation, figure) in figures {
                    let key = (number, index_of(task, operation));
                    self.seen.others[which].entry(key).or_default().push(figure);
                }
                None
            }
            Err(FilesError::Program(nodegauge_toolchain::ToolchainError::Interrupted)) => {
                Some(Ended::Interrupted)
            }
            Err(FilesError::Program(nodegauge_toolchain::ToolchainError::TooLong { .. }))
                if self.over(watch).is_some() =>
            {
                Some(Ended::Budget)
            }
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    /// Cells with at least one sample of each operation.
    fn measured(&self) -> usize {
        let whole = |(number, (_, task)): &(usize, &(usize, Task))| {
            (0..task.operations.len()).all(|i| self.seen.own.contains_key(&(*number, i)))
        };
        self.plan.tasks.iter().enumerate().filter(whole).count()
    }

    fn tell(&self, number: usize, task: &Task, watch: &mut dyn Watch, sample: usize) {
        let cells = self.plan.tasks.len();
        let done = sample * cells + number + 1;
        let by_count = done as f64 / (cells * self.plan.options.samples.max(1)) as f64;
        let by_time = self.plan.options.budget.map_or(0.0, |budget| {
            self.started.elapsed().as_secs_f64() / budget.as_secs_f64().max(1e-3)
        });
        let latest = (0..task.operations.len()).rev().find_map(|i| {
            let sample = self.seen.own.get(&(number, i))?.last()?;
            Some(format!(", {} {}", task.operations[i].name, BytesPerSec(sample.rate)))
        });
        let text =
            format!("{} in {}{}", task.cell.file, task.cell.block, latest.unwrap_or_default());
        watch.progress(by_count.max(by_time), &text);
    }
}

fn index_of(task: &Task, operation: &Operation) -> usize {
    task.operations.iter().position(|o| o.name == operation.name).unwrap_or(0)
}

/// Memory and time that a latency costs, for documents and benchmarks.
pub fn cost_of_latency() -> (Bytes, Seconds) {
    (Bytes(latency::MEMORY), latency::overhead(Clock::get()))
}
