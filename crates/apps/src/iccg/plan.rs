//! Plan and measurement of `apps iccg`. Solves and measurements of the memory bandwidth are interleaved.

use super::TEST;
use super::follow::SolverRequest;
use super::options::IccgOptions;
use super::prediction::PredictedSolutions;
use super::result::{FurtherResults, IccgCell, IccgEvidence};
use super::size::{self, MeshConstraints, MeshSize};
use crate::sweep::{self, SweepWorkers};
use crate::{GAUGE, MpiRanks, WorkerPool, Workers, WorkersOptions, followers};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::series::Series;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_kernels::Variant;
use nodegauge_machine::CpuId;
use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{Budget, RepetitionPolicy, RunLimits, Turn, TurnFailure, policy};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer, Outcome, Seconds, Unit};
use nodegauge_solvers::bandwidth;
use nodegauge_solvers::cg::SolverEnd;
use nodegauge_solvers::elasticity::Mesh;
use nodegauge_solvers::iccg::{self, IccgMethod, Solution, SolutionJob, SolutionLoops};
use nodegauge_solvers::sparse::MatrixFormat;
use std::time::Duration;

/// Minimum number of elements of an array in the bandwidth measurement.
const MIN_ELEMENTS: usize = 4096;
/// Time that no run reaches.
const NO_LIMIT: Duration = Duration::from_secs(1 << 30);
/// Number of consecutive bandwidth samples between two solves. The first bandwidth sample of a run is a warm-up.
const BANDWIDTH_SAMPLES: usize = 3;

/// Planned run of `apps iccg`.
pub struct IccgPlan {
    swept: Vec<SweepWorkers>,
    options: IccgOptions,
    size: MeshSize,
    constraints: MeshConstraints,
    notices: Vec<Notice>,
}

impl IccgPlan {
    /// Plans a run with the requested workers, or with the ranks that a launcher has started. Combinations of a sweep
    /// are left out if the mesh cannot be divided among their ranks.
    ///
    /// # Errors
    /// Fails if this node does not have the workers, if the mesh does not fit into memory or cannot be divided among
    /// the ranks, and if a limit is invalid.
    pub fn new(
        site: &MeasuredNode,
        requested: &WorkersOptions,
        joined: Option<&MpiRanks>,
        options: IccgOptions,
    ) -> Result<Self, Failure> {
        let mut notices = Vec::new();
        let swept = requested.sweep_workers(&site.topology, joined, &mut notices)?;
        if !(options.tolerance > 0.0 && options.tolerance < 1.0) {
            return Err(Failure::usage(format!(
                "invalid tolerance {}: expected a number between 0 and 1",
                options.tolerance,
            ))
            .hint("e.g. --tolerance 1e-8"));
        }
        if options.iterations == 0 {
            return Err(Failure::usage("invalid number of iterations 0: expected at least 1")
                .hint("e.g. --iterations 1000"));
        }
        let mut cpus: Vec<CpuId> =
            swept.iter().flat_map(|swept| swept.workers.all_threads().cpus()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let constraints = MeshConstraints::from_site(site, &cpus, options.memory_fraction);
        let size = size::choose(options.elements, &constraints)?;
        let mesh = size.mesh;
        let all = swept.into_iter().map(|swept| (swept.settings.clone(), divided(swept, mesh)));
        let (kept, left_out) = sweep::keep_supported(all)?;
        notices.extend(size.notices.iter().cloned().chain(left_out));
        Ok(Self { swept: kept, options, size, constraints, notices })
    }
}

/// Checks that the mesh can be divided among the ranks of a combination, and returns the combination.
fn divided(combination: SweepWorkers, mesh: Mesh) -> Result<SweepWorkers, Failure> {
    if let Workers::Ranks(plan) | Workers::Mpi(plan, _) = &combination.workers {
        iccg::rank_grid(mesh, plan.ranks.len())?;
    }
    Ok(combination)
}

impl PlannedRun for IccgPlan {
    fn expected_cost(&self) -> ExpectedCost {
        let memory = Some(size::needed_memory(self.size.mesh));
        ExpectedCost { time: Some(self.options.budget.unwrap_or(IccgOptions::BUDGET)), memory }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        let names = [
            "time_to_solution",
            "iteration",
            "rate",
            "spmv",
            "preconditioner",
            "dots",
            "axpy",
            "halo",
            "read",
            "triad",
            "relative",
        ];
        let units = &[Unit::Seconds, Unit::FlopsPerSecond, Unit::BytesPerSecond, Unit::Factor];
        vec![PossibleFigures::new(GAUGE, TEST, names, units)]
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let Self { swept, options, size, constraints, mut notices } = *self;
        observer.begin_phase("starting threads");
        let limits = RunLimits::from_budget(
            Budget::new(options.budget, IccgOptions::BUDGET),
            options.samples,
        );
        // If the user sets the number of samples, a sample is a solve; otherwise it is an iteration.
        let (rule, time) = match options.samples {
            Some(n) => {
                (RepetitionPolicy { min_rounds: n, tolerance: None, ..policy::ICCG }, NO_LIMIT)
            }
            None => (policy::ICCG, limits.budget),
        };
        let time = RunLimits { budget: time, samples: None, ..limits };
        let mut pool = WorkerPool::start(swept.iter().map(|swept| &swept.workers))?;
        let shared = SharedObserver::new(observer);
        let mut size = size;
        let mut kept = &swept[..];
        if limits.samples.is_none() {
            let before = size.matrix;
            let mut observed = &shared;
            let mut predicted = PredictedSolutions::new(
                &mut pool,
                &swept,
                &options,
                &constraints,
                size,
                &limits,
                &mut observed,
            )?;
            limits.admit(&mut predicted)?;
            notices.extend(predicted.notices(before, &swept));
            kept = predicted.kept_workers();
            size = predicted.size;
        }
        let mut run = IccgRun {
            pool,
            cells: kept.iter().map(|one| IccgCell::new(one, &size)).collect(),
            loops: bandwidth::loops(),
            options: &options,
            size: &size,
        };
        let mut series = Series::new(rule, time, 2 * kept.len());
        let rounds = options.samples.unwrap_or(usize::MAX);
        let mut turn = |turn: Turn| {
            if turn.round >= rounds { Ok(Vec::new()) } else { run.turn(turn.cell, &mut &shared) }
        };
        series.run(&mut turn, &mut &shared, None)?;
        if options.samples.is_some() {
            series.set_stop_reason(StopReason::Samples);
        }
        let mut outcome = Outcome { notices, ..Outcome::default() };
        series.store_end(&mut outcome);
        let mut natural_iterations = None;
        if outcome.is_complete() {
            let (counted, notice) = run.natural(&limits, &mut &shared)?;
            natural_iterations = counted;
            outcome.notices.extend(notice);
        }
        let known = site.round_trips.for_places(&run.pool.widest_team_cpus());
        let is_guest = site.machine.virtualisation.is_some();
        let evidence = IccgEvidence {
            regime: series.samples_by_regime(&known).with_guest(is_guest),
            series: &series,
            is_guest,
            further_results: FurtherResults {
                options: &options,
                size: &size,
                natural_iterations,
                stop: series.stop_reason(),
            },
            loops: &run.loops,
        };
        outcome.measurements = evidence.figures(&run.cells);
        outcome.details = run.pool.widest_team_affinities();
        Ok(outcome)
    }
}

struct IccgRun<'a> {
    pool: WorkerPool<'a>,
    cells: Vec<IccgCell<'a>>,
    /// Candidate loops for the read and Triad bandwidth.
    loops: Vec<Variant>,
    options: &'a IccgOptions,
    size: &'a MeshSize,
}

impl IccgRun<'_> {
    /// Runs one solve, or measures the bandwidth, with the workers of `cell`.
    fn turn(
        &mut self,
        cell: usize,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Sample>, TurnFailure> {
        let samples = match cell % 2 {
            0 => self.solve(cell / 2, observer),
            _ => self.bandwidth(cell / 2),
        };
        let workers = &self.cells[cell / 2].swept.workers;
        samples.map_err(|failure| followers::turn_failure(workers, failure))
    }

    fn solve(&mut self, at: usize, observer: &mut dyn Observer) -> Result<Vec<Sample>, Failure> {
        let workers = &self.cells[at].swept.workers;
        let elements = self.size.mesh.elements.map(|n| n.to_string()).join(" x ");
        observer.begin_phase(&format!("solving {elements} elements with {}", workers.in_words()));
        // Later solves use the storage format and the loops that the first solve chose.
        let loops = self.cells[at].solutions.first().map(|(solution, _)| solution.loops);
        let Self { pool, options, size, .. } = self;
        let job = options.job(size.mesh, loops);
        followers::request_work(workers, || SolverRequest::Solve(job.clone()))?;
        let Some((solution, samples)) = iccg::solve(pool, at, workers, &job, observer)? else {
            return Ok(Vec::new());
        };
        self.cells[at].solutions.push((solution, Sample::from_consecutive(&samples)));
        Ok(samples)
    }

    fn bandwidth(&mut self, at: usize) -> Result<Vec<Sample>, Failure> {
        let loops = &self.loops;
        let elements = self.cells[at].array_elements;
        let mut samples = Vec::new();
        for _ in 0..BANDWIDTH_SAMPLES {
            followers::request_work(&self.cells[at].swept.workers, || {
                SolverRequest::Bandwidth(elements)
            })?;
            samples.push(bandwidth::take_sample(&mut self.pool, at, loops, elements)?);
        }
        Ok(samples)
    }

    /// Returns the number of iterations in natural order, or a notice if there is no time to count them.
    fn natural(
        &mut self,
        limits: &RunLimits,
        observer: &mut dyn Observer,
    ) -> Result<(Option<usize>, Option<Notice>), Failure> {
        let Some((last, sample)) = self.cells[0].solutions.last() else { return Ok((None, None)) };
        let known = match self.options.method {
            IccgMethod::Natural => Some(last.iterations),
            // A preconditioner without elimination has no natural order.
            IccgMethod::Diagonal => return Ok((None, None)),
            _ => None,
        };
        if known.is_some() || last.end != SolverEnd::Converged {
            return Ok((known, None));
        }
        let needed = Duration::from_secs_f64(last.setup_s.0 + last.memory_s.0 + sample.seconds[0]);
        let late = limits.elapsed() + needed > limits.budget + limits.grace();
        if late && limits.samples.is_none() {
            let text = format!(
                "iterations in natural order were not counted: this would take about {}, which \
                 exceeds --budget",
                Seconds(needed.as_secs_f64())
            );
            return Ok((None, Some(Notice::new(NoticeId::LeftOut, GAUGE, text))));
        }
        observer.begin_phase("counting iterations in natural order");
        // For ranks on several hosts, only the ranks of this host are used, on any CPUs, because the CPU numbers of
        // other hosts do not apply here.
        let workers = &self.cells[0].swept.workers;
        let threads = [match workers.hosts() {
            Some(hosts) => Workers::unbound_threads(hosts.first_host_rank_count()),
            None => Workers::Threads(workers.all_threads()),
        }];
        let mut pool = WorkerPool::start(&threads)?;
        let loops = Some(SolutionLoops { storage: MatrixFormat::Bcsr, ..last.loops });
        let Self { size, options, .. } = *self;
        let job = SolutionJob { method: IccgMethod::Natural, ..options.job(size.mesh, loops) };
        let solved = iccg::solve(&mut pool, 0, &threads[0], &job, observer)?;
        Ok((solved.map(|(solution, _): (Solution, _)| solution.iterations), None))
    }
}

impl<'a> IccgCell<'a> {
    fn new(swept: &'a SweepWorkers, size: &MeshSize) -> Self {
        // The three arrays of Triad together have the size of the matrix.
        let Bytes(bytes) = size.matrix;
        let elements = bytes as usize / (24 * swept.workers.count().max(1));
        let array_elements = elements.max(MIN_ELEMENTS).next_multiple_of(8);
        Self { swept, array_elements, solutions: Vec::new() }
    }
}
