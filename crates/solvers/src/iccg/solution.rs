//! One complete solve by threads or ranks, from numbering the mesh points to checking the solution.

use super::method::IccgMethod;
use crate::array::{SharedArray, divisors, finite_or_none};
use crate::cg::{
    IterationTimes, IterationWork, LoopCodes, PARTS, Solver, SolverEnd, SolverState, StopLimits,
};
use crate::code::LoopCode;
use crate::context::{ThreadContext, Threads};
use crate::elasticity::{Mesh, StretchedBox, Subdomain};
use crate::halo::{Halo, MpiMeshRanks, Ranks, SharedHalo, SingleRank, too_few_points};
use crate::order::Numbering;
use crate::precondition::Preconditioner;
use crate::setup_clock::SetupClock;
use crate::sparse::MatrixFormat;
use crate::system::{AssembledSystem, Matrix, System, check_end_request};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::{Failure, Observer, Seconds};
use nodegauge_os::{is_end_requested, monotonic_nanos};
use nodegauge_team::mpi::{self, World};
use nodegauge_team::{InterruptCheck, Laps, Member, TeamError, TimedResults, WorkerPool, Workers};
use serde::{Deserialize, Serialize};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Approximate interval between two checks whether the user has interrupted the solve, and between two measurements of
/// the core-to-core round trip.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Number of products that are measured with every candidate; the shortest time is used.
const PRODUCTS_TIMED: usize = 5;
/// Number of products over which the time for creating a storage format is spread when formats are compared.
const PRODUCTS_PER_FORMAT: f64 = 100.0;

/// Storage format of the matrix, and use of prefetching in the loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SolutionLoops {
    /// Storage format of the matrix.
    pub storage: MatrixFormat,
    /// True if the loops of products prefetch.
    pub prefetches: bool,
    /// True if the loops of the preconditioner prefetch.
    pub preconditioner_ahead: bool,
}

impl SolutionLoops {
    /// Returns the variants of the loops for this processor.
    pub fn codes(self) -> LoopCodes {
        LoopCodes {
            products: LoopCode::widest(self.prefetches),
            preconditioner: LoopCode::widest(self.preconditioner_ahead),
        }
    }
}

/// Description of a solve: mesh, storage format, tolerance, loops and method.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SolutionJob {
    /// Mesh of the problem.
    pub mesh: Mesh,
    /// Storage format of the matrix; `None` to choose the faster one.
    pub storage: Option<MatrixFormat>,
    /// Criteria for stopping the solver.
    pub tolerance: StopLimits,
    /// Storage format and loops; `None` to choose the fastest by measurement.
    pub loops: Option<SolutionLoops>,
    /// Preconditioner and order of elimination.
    pub method: IccgMethod,
}

/// Result of a solve; numbers that are not finite are `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solution {
    /// Number of iterations.
    pub iterations: usize,
    /// Reason why the solver stopped.
    pub end: SolverEnd,
    /// Relative residual `|b - A x| / |b|`, recomputed after the solve.
    pub residual: Option<f64>,
    /// Largest difference from the exact displacements, divided by the largest displacement.
    pub error: Option<f64>,
    /// Time for numbering, assembly, factorisation and creation of the storage format, without `memory_s`; seconds.
    pub setup_s: Seconds,
    /// Time for which the kernel provided memory during the setup; seconds.
    pub memory_s: Seconds,
    /// Storage format and loops that were used.
    pub loops: SolutionLoops,
    /// Time of a product in BCSR and in sliced ELL, if the format was chosen by measurement; seconds.
    pub product_s: [Option<Seconds>; 2],
    /// Number of colours of the elimination order.
    pub colours: usize,
    /// Shift of the diagonal with which the factorisation succeeded.
    pub shift: f64,
    /// Bytes and operations of an iteration.
    pub work: IterationWork,
}

/// Returns the indices of the parts of an iteration that move data.
pub fn data_moving_parts(work: &IterationWork) -> impl Iterator<Item = usize> {
    (0..PARTS.len()).filter(|part| work.bytes[*part] > 0)
}

/// Solves the system. `at` is the index of the workers in the pool. Returns one sample per iteration, with the time of
/// the iteration and the times of its [`data_moving_parts`]; `None` if the user interrupts the solve.
///
/// # Errors
/// Fails if memory cannot be mapped or a worker fails.
pub fn solve(
    pool: &mut WorkerPool<'_>,
    at: usize,
    workers: &Workers,
    job: &SolutionJob,
    observer: &mut dyn Observer,
) -> Result<Option<(Solution, Vec<Sample>)>, Failure> {
    match workers {
        Workers::Threads(_) => by_threads(pool, at, job, observer),
        Workers::Ranks(plan) => by_ranks(pool, at, plan.ranks.len(), job, observer),
        Workers::Mpi(_, world) => by_mpi(world, job, observer),
    }
}

fn by_threads(
    pool: &mut WorkerPool<'_>,
    at: usize,
    job: &SolutionJob,
    observer: &mut dyn Observer,
) -> Result<Option<(Solution, Vec<Sample>)>, Failure> {
    let Some(team) = pool.team(at) else { unreachable!("workers that are threads have a team") };
    let (unstored, halo) =
        UnstoredSystem::assemble(team, Subdomain::whole_mesh(job.mesh), job, |_, _| SingleRank)?;
    let prepared = unstored.choose(team, &halo)?;
    let mut solver = prepared.solver(team, &halo)?;
    let mut state = solver.initial_state();
    let mut samples = Vec::new();
    let mut count = 1;
    while state.end.is_none() {
        if observer.is_interrupted() {
            return Ok(None);
        }
        // SAFETY: the job computes and synchronises only at the barrier of the team. All threads of the team have
        // different contexts, and no other code uses the solver.
        let (sample, timed) = unsafe {
            pool.sample(at, InterruptCheck::never(), |member, laps| {
                let context = ThreadContext::from_thread(member);
                solver.advance(&context, laps, state, count, job.tolerance)
            })
        }?;
        let (reached, times) = &timed.results[0];
        state = *reached;
        samples.extend(iteration_samples(&sample, times, &solver.iteration_work()));
        count = iterations_until_check(sample.seconds.last().copied().unwrap_or(1.0));
        let share = state.residual.ln() / job.tolerance.residual.ln();
        let text = format!("iteration {}, residual {:.1e}", state.iterations, state.residual);
        observer.report_progress(share.clamp(0.0, 1.0), &text);
    }
    let Some(thread_team) = pool.team(at) else {
        unreachable!("workers that are threads have a team")
    };
    let residual = solver.true_residual(thread_team)?;
    Ok(Some((prepared.solution(&mut solver, state, residual), samples)))
}

fn by_ranks(
    pool: &mut WorkerPool<'_>,
    at: usize,
    ranks: usize,
    job: &SolutionJob,
    observer: &mut dyn Observer,
) -> Result<Option<(Solution, Vec<Sample>)>, Failure> {
    let grid = rank_grid(job.mesh, ranks)?;
    let shared = SharedHalo::allocate(job.mesh, ranks)?;
    // SAFETY: the job computes, allocates, makes system calls, and synchronises only at the barrier of the ranks.
    let solved = unsafe {
        pool.sample(at, InterruptCheck::when(&mut || observer.is_interrupted()), |member, laps| {
            let own_range = shared.rank_access(member.index);
            // The parent process, which waits for the ranks, handles interrupts.
            run_rank(member, laps, job, &own_range, grid, &mut || false)
        })
    };
    match solved {
        Err(TeamError::Interrupted) => Ok(None),
        solved => {
            let (sample, timed) = solved?;
            combine_ranks(&sample, timed)
        }
    }
}

/// Solves with the ranks of an MPI launcher, which have already received the job.
fn by_mpi(
    world: &World,
    job: &SolutionJob,
    observer: &mut dyn Observer,
) -> Result<Option<(Solution, Vec<Sample>)>, Failure> {
    let timed = mpi_rank(world, job, &mut || observer.is_interrupted())?;
    let Some(timed) = timed else { unreachable!("the rank that sends the job is rank 0") };
    let sample = timed.to_sample((f64::NAN, f64::NAN));
    combine_ranks(&sample, timed)
}

/// Result of a rank: the solution and the times of the iterations. The inner value is `None` if the solve was
/// interrupted.
type RankSolution = Result<Option<(Solution, Vec<IterationTimes>)>, Failure>;

/// Runs this rank's part of a solve under an MPI launcher. Rank 0 gets the results of all ranks.
fn mpi_rank(
    world: &World,
    job: &SolutionJob,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Option<TimedResults<RankSolution>>, Failure> {
    let grid = rank_grid(job.mesh, world.count)?;
    let ranks = MpiMeshRanks::new(world, job.mesh, grid)?;
    mpi::run_timed(world, |member, laps| run_rank(member, laps, job, &ranks, grid, interrupted))
}

/// Runs this rank's part of a solve that rank 0 of an MPI job has requested.
///
/// # Errors
/// Fails if memory cannot be mapped or a rank fails.
pub fn solve_as_follower(world: &World, job: &SolutionJob) -> Result<(), Failure> {
    mpi_rank(world, job, &mut || false)?;
    Ok(())
}

/// Combines the results of all ranks into one solution.
fn combine_ranks(
    sample: &Sample,
    timed: TimedResults<RankSolution>,
) -> Result<Option<(Solution, Vec<Sample>)>, Failure> {
    let made = timed.results.into_iter().collect::<Result<Vec<_>, Failure>>();
    let made = made?.into_iter().collect::<Option<Vec<_>>>();
    let Some(made) = made else { return Ok(None) };
    let times = made[0].1.clone();
    let solutions: Vec<Solution> = made.into_iter().map(|(solution, _)| solution).collect();
    let combine = combine(&solutions);
    let samples = iteration_samples(sample, &times, &combine.work);
    Ok(Some((combine, samples)))
}

/// Runs one rank's part of a solve.
fn run_rank(
    member: &Member<'_>,
    laps: &mut Laps<'_>,
    job: &SolutionJob,
    ranks: &impl Ranks,
    grid: [usize; 3],
    interrupted: &mut dyn FnMut() -> bool,
) -> RankSolution {
    let subdomain = Subdomain::for_rank(job.mesh, member.index, grid);
    let subdomain = subdomain.ok_or_else(|| too_few_points(member.count))?;
    let context = &mut ThreadContext::from_rank(member);
    as_rank(context, laps, subdomain, job, ranks, interrupted)
}

fn as_rank(
    context: &mut ThreadContext<'_>,
    laps: &mut Laps<'_>,
    subdomain: Subdomain,
    job: &SolutionJob,
    ranks: &impl Ranks,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Option<(Solution, Vec<IterationTimes>)>, Failure> {
    let assembled =
        UnstoredSystem::assemble(context, subdomain, job, |part, rows| ranks.halo(part, rows));
    // A rank that cannot continue must not leave the other ranks waiting.
    let ended = ranks.any(context, assembled.is_err());
    let (unstored, halo) = assembled?;
    if ended {
        return Err(Failure::missing("another rank could not map memory"));
    }
    // All ranks have compared the loops; an interruption of one rank also ends the others.
    let chosen = unstored.choose(context, &halo);
    let is_over = ranks.any(context, chosen.is_err());
    let prepared = chosen?;
    if is_over {
        return Ok(None);
    }
    // After this point, all ranks wait for each other, so a rank that fails must end the whole run.
    let mut solver = prepared.solver(context, &halo).unwrap_or_else(end_rank);
    let mut state = solver.initial_state();
    let mut times = Vec::new();
    let mut count = 1;
    while state.end.is_none() {
        // SAFETY: the rank has one thread, and all ranks make the same calls.
        let (reached, more) = unsafe { solver.advance(context, laps, state, count, job.tolerance) };
        state = reached;
        let last = more.last().map_or(1.0, |iteration| iteration[0]);
        times.extend(more);
        // All ranks check after the same number of iterations.
        count = iterations_until_check(halo.sum(context, last) / halo.sum(context, 1.0));
        if ranks.any(context, interrupted()) {
            return Ok(None);
        }
    }
    let residual = solver.true_residual(context).unwrap_or_else(end_rank);
    Ok(Some((prepared.solution(&mut solver, state, residual), times)))
}

/// Returns the number of iterations until the next check for an interruption. `seconds` is the time of an iteration.
fn iterations_until_check(seconds: f64) -> usize {
    ((CHECK_INTERVAL.as_secs_f64() / seconds.max(1e-6)) as usize).clamp(1, 10_000)
}

/// Ends the process of a rank with an error, because the rank cannot continue while other ranks wait for it.
fn end_rank<T>(failure: Failure) -> T {
    resume_unwind(Box::new(failure))
}

/// Combines the solutions of all ranks.
fn combine(solutions: &[Solution]) -> Solution {
    let greatest = |of: &dyn Fn(&Solution) -> Option<f64>| {
        let all = solutions.iter().map(of);
        // If the value of any rank is not finite, the combined value is unknown.
        all.reduce(|greatest, next| Some(greatest?.max(next?))).flatten()
    };
    let mut work = IterationWork::default();
    for each in solutions {
        for part in 0..PARTS.len() {
            work.bytes[part] += each.work.bytes[part];
            work.flops[part] += each.work.flops[part];
        }
    }
    Solution {
        error: greatest(&|each| each.error),
        setup_s: Seconds(greatest(&|each| Some(each.setup_s.0)).unwrap_or(f64::NAN)),
        memory_s: Seconds(greatest(&|each| Some(each.memory_s.0)).unwrap_or(f64::NAN)),
        shift: greatest(&|each| Some(each.shift)).unwrap_or(f64::NAN),
        colours: solutions.iter().map(|each| each.colours).max().unwrap_or(0),
        work,
        ..solutions[0].clone()
    }
}

/// Returns one sample per iteration. Each sample has the core-to-core round trips before and after the complete solve.
fn iteration_samples(all: &Sample, times: &[IterationTimes], work: &IterationWork) -> Vec<Sample> {
    let parts: Vec<usize> = data_moving_parts(work).collect();
    let of = |(number, iteration): (usize, &IterationTimes)| {
        // The times before and after the iteration are used to detect interference.
        let seconds: Vec<f64> = std::iter::once(all.seconds[number])
            .chain(parts.iter().map(|part| iteration[1 + part]))
            .collect();
        let causes = all.part_causes.get(number).cloned().unwrap_or_default();
        Sample {
            part_causes: vec![causes; seconds.len()],
            seconds,
            at: all.at,
            round_trips: all.round_trips,
            causes: all.causes.clone(),
            per_process: Vec::new(),
        }
    };
    times.iter().enumerate().map(of).collect()
}

/// Times of a setup, seconds.
#[derive(Debug, Clone, Copy, Default)]
struct SetupSeconds {
    /// Time without the time for which the kernel provided memory.
    computed: f64,
    /// Time for which the kernel provided memory.
    provided: f64,
}

impl SetupSeconds {
    fn from_clock(clock: &SetupClock) -> Self {
        Self { computed: clock.seconds(), provided: clock.provided_seconds() }
    }
}

/// Assembled system for which storage format and loops are not yet chosen.
struct UnstoredSystem {
    system: System,
    preconditioner: Preconditioner,
    /// Matrix in every candidate storage format, each with the time for creating the format, which `setup` does not
    /// include.
    matrices: Vec<(Matrix, SetupSeconds)>,
    /// Storage format and loops of an earlier solve.
    chosen: Option<SolutionLoops>,
    setup: SetupSeconds,
    /// Vectors with which products are measured; `None` if storage format and loops are already chosen.
    vectors: Option<[SharedArray<f64>; 2]>,
}

/// System that is ready to be solved.
struct PreparedSystem {
    system: System,
    preconditioner: Preconditioner,
    matrix: Matrix,
    loops: SolutionLoops,
    setup: SetupSeconds,
    product_s: [Option<f64>; 2],
}

impl PreparedSystem {
    fn solver<'a>(
        &'a self,
        threads: &mut impl Threads,
        halo: &'a dyn Halo,
    ) -> Result<Solver<'a>, Failure> {
        let codes = self.loops.codes();
        Solver::new(threads, &self.system, &self.matrix, &self.preconditioner, halo, codes)
    }

    fn solution(&self, solver: &mut Solver<'_>, state: SolverState, residual: f64) -> Solution {
        Solution {
            iterations: state.iterations,
            // The solution has ended, so the default is never used.
            end: state.end.unwrap_or(SolverEnd::Limit),
            residual: finite_or_none(residual),
            error: finite_or_none(self.system.relative_error(solver.solution(), &StretchedBox)),
            setup_s: Seconds(self.setup.computed),
            memory_s: Seconds(self.setup.provided),
            loops: self.loops,
            product_s: self.product_s.map(|time| time.map(Seconds)),
            colours: self.system.rows.colour_count(),
            shift: self.preconditioner.shift,
            work: solver.iteration_work(),
        }
    }
}

impl UnstoredSystem {
    /// Numbers, assembles and factorises the rows of a rank. Returns the system and the rank's communication.
    fn assemble<H>(
        threads: &mut impl Threads,
        subdomain: Subdomain,
        job: &SolutionJob,
        halo: impl FnOnce(&Subdomain, &Numbering) -> H,
    ) -> Result<(Self, H), Failure> {
        let mut clock = SetupClock::start();
        let rows = Numbering::new(&subdomain, job.method.order(), threads.count());
        let halo = halo(&subdomain, &rows);
        let wanted = job.loops.map(|chosen| chosen.storage).or(job.storage);
        let is_sliced = wanted == Some(MatrixFormat::Sell);
        let AssembledSystem { system, blocks, sliced } =
            System::assemble(threads, subdomain, rows, &StretchedBox, is_sliced, &mut clock)?;
        check_end_request()?;
        let preconditioner = match job.method {
            IccgMethod::Diagonal => {
                Preconditioner::diagonal(threads, &blocks, &system.rows, &mut clock)?
            }
            _ => Preconditioner::incomplete_factorisation(
                threads,
                &blocks,
                &system.rows,
                &mut clock,
            )?,
        };
        let setup = SetupSeconds::from_clock(&clock);
        check_end_request()?;
        let mut matrices = Vec::new();
        if let Some(sliced) = sliced {
            matrices.push((sliced, SetupSeconds::default()));
        } else if wanted.is_none() {
            let mut from_slices = SetupClock::start();
            let copied = Matrix::sliced(threads, &blocks, &system.rows, &mut from_slices)?;
            matrices.push((copied, SetupSeconds::from_clock(&from_slices)));
        }
        if !is_sliced {
            matrices.push((Matrix::Bcsr(blocks), SetupSeconds::default()));
        }
        let vectors = match job.loops {
            Some(_) => None,
            None => Some([
                SharedArray::allocate(3 * system.rows.nodes.len())?,
                SharedArray::allocate(3 * system.rows.owned_count())?,
            ]),
        };
        let chosen = job.loops;
        Ok((Self { system, preconditioner, matrices, chosen, setup, vectors }, halo))
    }

    /// Takes the storage format and the loops of an earlier solve, or chooses the fastest by measurement. All ranks
    /// choose the same storage format and loops.
    fn choose(
        mut self,
        threads: &mut impl Threads,
        halo: &dyn Halo,
    ) -> Result<PreparedSystem, Failure> {
        let mut product_s = [None; 2];
        let loops = match (self.chosen, &self.vectors) {
            (Some(chosen), _) => chosen,
            (None, Some(vectors)) => self.fastest(threads, halo, vectors, &mut product_s)?,
            (None, None) => unreachable!("vectors are mapped if loops must be chosen"),
        };
        let at = self.matrices.iter().position(|(each, _)| each.storage() == loops.storage);
        let Some(at) = at else { unreachable!("the matrix in the chosen storage format exists") };
        let (matrix, more) = self.matrices.swap_remove(at);
        let Self { system, preconditioner, mut setup, .. } = self;
        setup.computed += more.computed;
        setup.provided += more.provided;
        Ok(PreparedSystem { system, preconditioner, matrix, loops, setup, product_s })
    }

    /// Measures storage formats and loops, and returns the fastest. `product_s` receives the best time of a product
    /// in each storage format.
    fn fastest(
        &self,
        threads: &mut impl Threads,
        halo: &dyn Halo,
        vectors: &[SharedArray<f64>; 2],
        product_s: &mut [Option<f64>; 2],
    ) -> Result<SolutionLoops, Failure> {
        let ways: Vec<(&Matrix, bool, f64)> = self
            .matrices
            .iter()
            .flat_map(|(matrix, more)| {
                [false, true].map(|prefetches| (matrix, prefetches, more.computed))
            })
            .collect();
        let rows = &self.system.rows;
        let end = EndCheck::default();
        let trial = |context: &ThreadContext<'_>| {
            // SAFETY: all threads have different contexts, and no other code uses the vectors.
            unsafe {
                TrialTimes {
                    products: products(context, rows, halo, &ways, vectors, &end),
                    preconditioners: preconditioners(
                        context,
                        rows,
                        halo,
                        &self.preconditioner,
                        vectors,
                        &end,
                    ),
                }
            }
        };
        let times = threads.run_and_collect(trial)?.swap_remove(0);
        check_end_request()?;
        let mut best = None;
        for ((matrix, prefetches, _), [seconds, cost]) in ways.iter().zip(times.products) {
            let of_storage = &mut product_s[matrix.storage() as usize];
            *of_storage = Some(of_storage.map_or(seconds, |min: f64| min.min(seconds)));
            if best.is_none_or(|(_, _, min)| cost < min) {
                best = Some((matrix.storage(), *prefetches, cost));
            }
        }
        let Some((storage, prefetches, _)) = best else {
            unreachable!("there is at least one storage format")
        };
        let [plain_s, ahead_s] = times.preconditioners;
        Ok(SolutionLoops { storage, prefetches, preconditioner_ahead: ahead_s < plain_s })
    }
}

/// Times of the candidate loops in a trial, seconds. They are equal on all threads and ranks.
struct TrialTimes {
    /// Results of [`products`].
    products: Vec<[f64; 2]>,
    /// Results of [`preconditioners`].
    preconditioners: [f64; 2],
}

/// Check during a trial whether the user has ended the run.
#[derive(Debug, Default)]
struct EndCheck(AtomicBool);

impl EndCheck {
    /// True if the user has ended the run. All threads of all ranks must call this method; all get the same answer.
    fn is_ended(&self, context: &ThreadContext<'_>, halo: &dyn Halo) -> bool {
        if context.thread == 0 {
            self.0.store(is_end_requested(), Ordering::Relaxed);
        }
        // The measurement between two calls contains a barrier as well, so that no thread reads the next answer.
        context.wait_for_all();
        let of_rank = self.0.load(Ordering::Relaxed);
        halo.sum(context, f64::from(of_rank)) > 0.0
    }
}

/// Measures the preconditioner with two variants of its loops, without and with prefetching, interleaved. Returns the
/// best time of each variant, averaged over the ranks, seconds; infinity if the user ends the run.
///
/// # Safety
/// All threads of all ranks must call this function, with different contexts. No other code may use the vectors during
/// the call.
unsafe fn preconditioners(
    context: &ThreadContext<'_>,
    rows: &Numbering,
    halo: &dyn Halo,
    preconditioner: &Preconditioner,
    [z, r]: &[SharedArray<f64>; 2],
    end: &EndCheck,
) -> [f64; 2] {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..PRODUCTS_TIMED {
        if end.is_ended(context, halo) {
            return best;
        }
        for (prefetches, min) in [false, true].into_iter().zip(&mut best) {
            let code = LoopCode::widest(prefetches);
            context.wait_for_all();
            let begun = monotonic_nanos();
            // SAFETY: both vectors have the rows of the rank, and every thread writes its own rows.
            unsafe { preconditioner.apply(context, code, rows, r.at(0), z.at(0)) };
            context.wait_for_all();
            *min = min.min((monotonic_nanos() - begun) as f64 * 1e-9);
        }
    }
    let ranks = halo.sum(context, 1.0);
    best.map(|seconds| halo.sum(context, seconds) / ranks)
}

/// Measures the variants of products interleaved. Returns two times per variant, in seconds: the best time, and the
/// best time plus a share of the time for creating the storage format. The times are averaged over the ranks; they are
/// infinite if the user ends the run.
///
/// # Safety
/// All threads of all ranks must call this function, with different contexts. No other code may use the vectors during
/// the call.
unsafe fn products(
    context: &ThreadContext<'_>,
    rows: &Numbering,
    halo: &dyn Halo,
    ways: &[(&Matrix, bool, f64)],
    [x, y]: &[SharedArray<f64>; 2],
    end: &EndCheck,
) -> Vec<[f64; 2]> {
    let own = rows.thread_rows(context.thread);
    // SAFETY: the rows belong to this thread; x is read after the first barrier.
    unsafe { x.slice_mut(3 * own.start..3 * own.end) }.fill(1.0);
    let mut best = vec![f64::INFINITY; ways.len()];
    for _ in 0..PRODUCTS_TIMED {
        if end.is_ended(context, halo) {
            break;
        }
        for ((matrix, prefetches, _), min) in ways.iter().zip(&mut best) {
            let code = LoopCode::widest(*prefetches);
            context.wait_for_all();
            let begun = monotonic_nanos();
            // SAFETY: x has all columns and y the rows; each thread writes its own rows.
            unsafe { matrix.multiply(rows, context.thread, code, x.at(0), y.at(0)) };
            context.wait_for_all();
            *min = min.min((monotonic_nanos() - begun) as f64 * 1e-9);
        }
    }
    let ranks = halo.sum(context, 1.0);
    let mut costs = Vec::with_capacity(ways.len());
    for (fastest, (.., more_s)) in best.into_iter().zip(ways) {
        let times = [fastest, fastest + more_s / PRODUCTS_PER_FORMAT];
        costs.push(times.map(|seconds| halo.sum(context, seconds) / ranks));
    }
    costs
}

/// Returns the number of ranks along x, y and z in the grid of ranks with the smallest surface. In this grid, every
/// rank has mesh points.
///
/// # Errors
/// Fails if there is no such grid.
pub fn rank_grid(mesh: Mesh, ranks: usize) -> Result<[usize; 3], Failure> {
    let nodes = mesh.points_per_axis();
    let grids = divisors(ranks)
        .flat_map(|x| divisors(ranks / x).map(move |y| [x, y, ranks / x / y]))
        .filter(|grid| grid.iter().zip(nodes).all(|(parts, nodes)| *parts <= nodes));
    // If grids have equal surfaces, the last grid is used, which divides z, so that the mesh points of a rank are
    // contiguous.
    grids
        .reduce(|best, next| if surface(next, nodes) <= surface(best, nodes) { next } else { best })
        .ok_or_else(|| {
            let shown = nodes.map(|n| n.to_string()).join(" x ");
            Failure::insufficient(format!(
                "a mesh of {shown} points cannot be divided among {ranks} ranks"
            ))
            .hint("use fewer ranks or more --elements")
        })
}

/// Returns the number of mesh points at the surfaces between the ranks of a grid.
fn surface(grid: [usize; 3], nodes: [usize; 3]) -> usize {
    (0..3).map(|axis| (grid[axis] - 1) * nodes[(axis + 1) % 3] * nodes[(axis + 2) % 3]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_grid_has_smallest_surface() {
        let mesh = Mesh { elements: [9, 9, 39] };
        assert_eq!(rank_grid(mesh, 4).unwrap(), [1, 1, 4]);
        assert_eq!(rank_grid(Mesh { elements: [9; 3] }, 8).unwrap(), [2, 2, 2]);
        let error = rank_grid(mesh, 41).unwrap_err().to_string();
        assert!(
            error.starts_with("a mesh of 10 x 10 x 40 points cannot be divided among 41 ranks"),
            "{error}"
        );
    }
}
