//! One solution from the numbering to the check, by threads or by ranks.

use super::options::{IccgOptions, Method};
use super::size;
use crate::array::SharedArray;
use crate::cg::{End, PARTS, Solver, State, Times, Tolerance, Work};
use crate::code::Code;
use crate::context::{ThreadContext, Threads};
use crate::elasticity::{Mesh, Stretch, Subdomain};
use crate::halo::{Alone, Halo, MpiRanks, Ranks, SharedHalo};
use crate::order::Numbering;
use crate::precondition::Preconditioner;
use crate::sparse::Storage;
use crate::system::{Matrix, System};
use crate::{WorkerPool, Workers};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::{Failure, Observer, Seconds};
use nodegauge_os::monotonic_nanos;
use nodegauge_team::mpi::{self, World};
use nodegauge_team::{Interrupt, Laps, Member, TeamError, Timed};
use serde::{Deserialize, Serialize};
use std::panic::resume_unwind;
use std::time::Duration;

/// Iterations between two looks whether the user wants to end take about this long, and so do those between
/// round trips, which tell regimes apart.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Products of each kind by turns before one is chosen; the best counts.
const TURNS: usize = 5;
/// A storage is worth making when so many products save the time that it took.
const WORTH: f64 = 100.0;

/// Products: their storage format and loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Products {
    pub storage: Storage,
    /// True if loops ask for what they will read next.
    pub ahead: bool,
}

/// Problem and method of a solution.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    pub mesh: Mesh,
    pub options: IccgOptions,
    /// `None` has them chosen.
    pub products: Option<Products>,
    /// In place of the option's.
    pub method: Method,
}

impl Job {
    fn tolerance(&self) -> Tolerance {
        Tolerance { residual: self.options.tolerance, iterations: self.options.iterations }
    }
}

/// Result of a solution; numbers that are not finite are `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Solution {
    pub iterations: usize,
    pub end: End,
    /// `|b - A x| / |b|` computed anew.
    pub residual: Option<f64>,
    /// Largest distance from the exact displacements, over the largest of these.
    pub error: Option<f64>,
    /// Time to number, assemble, factorise and store, seconds.
    pub setup_s: Seconds,
    pub products: Products,
    /// Time of a product in BCSR and in sliced ELL, seconds, where they were chosen among.
    pub product_s: [Option<Seconds>; 2],
    pub colours: usize,
    pub shift: f64,
    /// Bytes and operations of an iteration.
    pub work: Work,
}

/// The parts of an iteration that there are: those that move anything.
pub(super) fn parts(work: &Work) -> impl Iterator<Item = usize> {
    (0..PARTS.len()).filter(|part| work.bytes[*part] > 0)
}

/// A solution by workers `at` of the pool, with a sample an iteration: its time and those of its [`parts`].
/// `None` where the user ended it.
///
/// # Errors
/// When memory or a worker fails.
pub(super) fn solve(
    pool: &mut WorkerPool<'_>,
    at: usize,
    workers: &Workers,
    job: &Job,
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
    job: &Job,
    observer: &mut dyn Observer,
) -> Result<Option<(Solution, Vec<Sample>)>, Failure> {
    let Some(team) = pool.team(at) else { unreachable!("threads have a team") };
    let (unstored, halo) = Unstored::assemble(team, Subdomain::whole(job.mesh), job, |_, _| Alone)?;
    let prepared = unstored.choose(team, &halo)?;
    let mut solver = prepared.solver(team, &halo)?;
    let (mut state, mut samples, mut count) = (solver.start(), Vec::new(), 1);
    while state.end.is_none() {
        if observer.interrupted() {
            return Ok(None);
        }
        // SAFETY: the job computes, and meets the others at their own barrier; every thread of the team has its own
        // context, and nothing else uses the solver.
        let (sample, timed) = unsafe {
            pool.sample(at, Interrupt::never(), |member, laps| {
                let context = ThreadContext::of_thread(member);
                solver.advance(&context, laps, state, count, job.tolerance())
            })
        }?;
        let (reached, times) = &timed.made[0];
        state = *reached;
        samples.extend(samples_of(&sample, times, &solver.work()));
        count = until_next_look(sample.seconds.last().copied().unwrap_or(1.0));
        let share = state.residual.ln() / job.options.tolerance.ln();
        let told = format!("iteration {}, residual {:.1e}", state.iterations, state.residual);
        observer.progress(share.clamp(0.0, 1.0), &told);
    }
    let Some(thread_team) = pool.team(at) else { unreachable!("threads have a team") };
    let residual = solver.true_residual(thread_team)?;
    Ok(Some((prepared.solution(&mut solver, state, residual), samples)))
}

fn by_ranks(
    pool: &mut WorkerPool<'_>,
    at: usize,
    ranks: usize,
    job: &Job,
    observer: &mut dyn Observer,
) -> Result<Option<(Solution, Vec<Sample>)>, Failure> {
    let grid = size::grid(job.mesh, ranks)?;
    let shared = SharedHalo::map(job.mesh, ranks)?;
    // SAFETY: the job computes, allocates, makes system calls, and meets the others at their own barrier.
    let solved = unsafe {
        pool.sample(at, Interrupt::when(&mut || observer.interrupted()), |member, laps| {
            let own_range = shared.of_rank(member.index);
            // Whoever waits for them ends them.
            part_of_rank(member, laps, job, &own_range, grid, &mut || false)
        })
    };
    match solved {
        Err(TeamError::Interrupted) => Ok(None),
        solved => {
            let (sample, timed) = solved?;
            joined(&sample, timed)
        }
    }
}

/// Solves with the ranks of an MPI launcher, which have received the job.
fn by_mpi(
    world: &World,
    job: &Job,
    observer: &mut dyn Observer,
) -> Result<Option<(Solution, Vec<Sample>)>, Failure> {
    let timed = mpi_rank(world, job, &mut || observer.interrupted())?;
    let Some(timed) = timed else { unreachable!("who orders is rank 0") };
    let sample = timed.sample((f64::NAN, f64::NAN));
    joined(&sample, timed)
}

/// Result of a rank: its solution and the times of its iterations, unless it was interrupted.
pub(super) type OfRank = Result<Option<(Solution, Vec<Times>)>, Failure>;

/// A rank's part among those of an MPI launcher; what all of them made is known to rank 0.
pub(super) fn mpi_rank(
    world: &World,
    job: &Job,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Option<Timed<OfRank>>, Failure> {
    let grid = size::grid(job.mesh, world.count)?;
    let ranks = MpiRanks::new(world, job.mesh, grid)?;
    mpi::timed(world, |member, laps| part_of_rank(member, laps, job, &ranks, grid, interrupted))
}

/// Combines the results of all ranks to one solution.
fn joined(
    sample: &Sample,
    timed: Timed<OfRank>,
) -> Result<Option<(Solution, Vec<Sample>)>, Failure> {
    let made = timed.made.into_iter().collect::<Result<Vec<_>, Failure>>();
    let made = made?.into_iter().collect::<Option<Vec<_>>>();
    let Some(made) = made else { return Ok(None) };
    let times = made[0].1.clone();
    let solutions: Vec<Solution> = made.into_iter().map(|(solution, _)| solution).collect();
    let together = together(&solutions);
    let samples = samples_of(sample, &times, &together.work);
    Ok(Some((together, samples)))
}

/// Part of a solution of one rank.
fn part_of_rank(
    member: &Member<'_>,
    laps: &mut Laps<'_>,
    job: &Job,
    ranks: &impl Ranks,
    grid: [usize; 3],
    interrupted: &mut dyn FnMut() -> bool,
) -> OfRank {
    let subdomain = Subdomain::of_rank(job.mesh, member.index, grid);
    let subdomain = subdomain.ok_or_else(|| Failure::missing("a rank has no nodes"))?;
    let context = &mut ThreadContext::of_rank(member);
    as_rank(context, laps, subdomain, job, ranks, interrupted)
}

fn as_rank(
    context: &mut ThreadContext<'_>,
    laps: &mut Laps<'_>,
    subdomain: Subdomain,
    job: &Job,
    ranks: &impl Ranks,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Option<(Solution, Vec<Times>)>, Failure> {
    let prepared = Unstored::assemble(context, subdomain, job, |part, rows| ranks.halo(part, rows));
    // A rank that cannot go on must not leave the others waiting.
    let ended = ranks.any(context, prepared.is_err());
    let (prepared, halo) = prepared?;
    if ended {
        return Err(Failure::missing("another rank has no memory"));
    }
    // From here on all ranks meet: one that fails is lost to the others.
    let prepared = prepared.choose(context, &halo).unwrap_or_else(lost);
    let mut solver = prepared.solver(context, &halo).unwrap_or_else(lost);
    let (mut state, mut times, mut count) = (solver.start(), Vec::new(), 1);
    while state.end.is_none() {
        // SAFETY: the rank has one thread, and all ranks do the same.
        let (reached, more) =
            unsafe { solver.advance(context, laps, state, count, job.tolerance()) };
        state = reached;
        let last = more.last().map_or(1.0, |iteration| iteration[0]);
        times.extend(more);
        // All look as often as each other.
        count = until_next_look(halo.sum(context, last) / halo.sum(context, 1.0));
        if ranks.any(context, interrupted()) {
            return Ok(None);
        }
    }
    let residual = solver.true_residual(context).unwrap_or_else(lost);
    Ok(Some((prepared.solution(&mut solver, state, residual), times)))
}

/// Iterations until the user is asked again, where one takes so many seconds.
fn until_next_look(seconds: f64) -> usize {
    ((LOOK_EVERY.as_secs_f64() / seconds.max(1e-6)) as usize).clamp(1, 10_000)
}

/// Ends a rank that the others wait for.
fn lost<T>(failure: Failure) -> T {
    resume_unwind(Box::new(failure))
}

/// Combines the solutions of ranks.
fn together(solutions: &[Solution]) -> Solution {
    let greatest = |of: &dyn Fn(&Solution) -> Option<f64>| {
        let all = solutions.iter().map(of);
        // Of one rank's that is no number, nothing is known of all.
        all.reduce(|greatest, next| Some(greatest?.max(next?))).flatten()
    };
    let mut work = Work::default();
    for each in solutions {
        for part in 0..PARTS.len() {
            work.bytes[part] += each.work.bytes[part];
            work.flops[part] += each.work.flops[part];
        }
    }
    Solution {
        error: greatest(&|each| each.error),
        setup_s: Seconds(greatest(&|each| Some(each.setup_s.0)).unwrap_or(f64::NAN)),
        shift: greatest(&|each| Some(each.shift)).unwrap_or(f64::NAN),
        colours: solutions.iter().map(|each| each.colours).max().unwrap_or(0),
        work,
        ..solutions[0].clone()
    }
}

/// A sample for each iteration, between the round trips of all.
fn samples_of(all: &Sample, times: &[Times], work: &Work) -> Vec<Sample> {
    let parts: Vec<usize> = parts(work).collect();
    let of = |(number, iteration): (usize, &Times)| {
        // The clock around the iteration tells what interfered.
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
            each: Vec::new(),
        }
    };
    times.iter().enumerate().map(of).collect()
}

/// A system that is ready but for the choice of its products.
struct Unstored {
    system: System,
    preconditioner: Preconditioner,
    /// In the storages that can be chosen, with the seconds that each took beyond `setup_s`.
    matrices: Vec<(Matrix, f64)>,
    /// Products that were chosen before.
    chosen: Option<Products>,
    setup_s: f64,
    /// For products.
    vectors: Option<[SharedArray<f64>; 2]>,
}

/// A system that is ready to be solved.
struct Prepared {
    system: System,
    preconditioner: Preconditioner,
    matrix: Matrix,
    products: Products,
    setup_s: f64,
    product_s: [Option<f64>; 2],
}

impl Prepared {
    fn solver<'a>(
        &'a self,
        threads: &mut impl Threads,
        halo: &'a dyn Halo,
    ) -> Result<Solver<'a>, Failure> {
        let code = Code::widest(self.products.ahead);
        Solver::new(threads, &self.system, &self.matrix, &self.preconditioner, halo, code)
    }

    fn solution(&self, solver: &mut Solver<'_>, state: State, residual: f64) -> Solution {
        let finite = |x: f64| Some(x).filter(|x| x.is_finite());
        Solution {
            iterations: state.iterations,
            // A solution that has not ended is not asked for.
            end: state.end.unwrap_or(End::Limit),
            residual: finite(residual),
            error: finite(self.system.error(solver.solution(), &Stretch)),
            setup_s: Seconds(self.setup_s),
            products: self.products,
            product_s: self.product_s.map(|time| time.map(Seconds)),
            colours: self.system.rows.colour_count(),
            shift: self.preconditioner.shift,
            work: solver.work(),
        }
    }
}

impl Unstored {
    /// Numbers, assembles and factorises the part of a rank.
    fn assemble<H>(
        threads: &mut impl Threads,
        subdomain: Subdomain,
        job: &Job,
        halo: impl FnOnce(&Subdomain, &Numbering) -> H,
    ) -> Result<(Self, H), Failure> {
        let begun = monotonic_nanos();
        let since = |since_nanos: u64| (monotonic_nanos() - since_nanos) as f64 * 1e-9;
        let rows = Numbering::new(&subdomain, job.method.order(), threads.count());
        let halo = halo(&subdomain, &rows);
        let (system, blocks) = System::assemble(threads, subdomain, rows, &Stretch)?;
        let preconditioner = match job.method {
            Method::Diagonal => Preconditioner::diagonal(threads, &blocks, &system.rows)?,
            _ => Preconditioner::incomplete(threads, &blocks, &system.rows)?,
        };
        let setup_s = since(begun);
        let wanted = job.products.map(|chosen| chosen.storage).or(job.options.storage);
        let mut matrices = Vec::new();
        if wanted != Some(Storage::Bcsr) {
            let product_begun = monotonic_nanos();
            let sliced = Matrix::sliced(threads, &blocks, &system.rows)?;
            matrices.push((sliced, since(product_begun)));
        }
        if wanted != Some(Storage::Sell) {
            matrices.push((Matrix::Bcsr(blocks), 0.0));
        }
        let vectors = match job.products {
            Some(_) => None,
            None => Some([
                SharedArray::map(3 * system.rows.nodes.len())?,
                SharedArray::map(3 * system.rows.owned())?,
            ]),
        };
        let chosen = job.products;
        Ok((Self { system, preconditioner, matrices, chosen, setup_s, vectors }, halo))
    }

    /// Takes the products that were chosen before, or the fastest by turns, which all ranks agree on.
    fn choose(mut self, threads: &mut impl Threads, halo: &dyn Halo) -> Result<Prepared, Failure> {
        let mut product_s = [None; 2];
        let mut best = self.chosen.map(|chosen| (chosen, 0.0));
        if let Some(vectors) = &self.vectors {
            let ways: Vec<(&Matrix, bool, f64)> = self
                .matrices
                .iter()
                .flat_map(|(matrix, more_s)| [false, true].map(|ahead| (matrix, ahead, *more_s)))
                .collect();
            let turns = |context: &ThreadContext<'_>| {
                // SAFETY: each thread has its own context, and nothing else uses the vectors.
                unsafe { products(context, &self.system.rows, halo, &ways, vectors) }
            };
            let all = threads.map(turns)?;
            for ((matrix, ahead, _), [seconds, cost]) in ways.iter().zip(&all[0]) {
                let products = Products { storage: matrix.storage(), ahead: *ahead };
                let of_storage = &mut product_s[products.storage as usize];
                *of_storage = Some(of_storage.map_or(*seconds, |least: f64| least.min(*seconds)));
                if best.is_none_or(|(_, best)| *cost < best) {
                    best = Some((products, *cost));
                }
            }
        }
        let Some((products, _)) = best else { unreachable!("chosen before, or just now") };
        let at = self.matrices.iter().position(|(each, _)| each.storage() == products.storage);
        let Some(at) = at else { unreachable!("what is chosen was made") };
        let (matrix, more_s) = self.matrices.swap_remove(at);
        let Self { system, preconditioner, setup_s, .. } = self;
        let setup_s = setup_s + more_s;
        Ok(Prepared { system, preconditioner, matrix, products, setup_s, product_s })
    }
}

/// Best times of products by turns, and the same with their part of what their storage took; the means over ranks.
///
/// # Safety
/// Every thread of every rank calls it with its own context, and nothing else uses the vectors meanwhile.
unsafe fn products(
    context: &ThreadContext<'_>,
    rows: &Numbering,
    halo: &dyn Halo,
    ways: &[(&Matrix, bool, f64)],
    [x, y]: &[SharedArray<f64>; 2],
) -> Vec<[f64; 2]> {
    let own = rows.of_thread(context.thread);
    // SAFETY: the rows are this thread's; x is read behind the first barrier.
    unsafe { x.part_mut(3 * own.start..3 * own.end) }.fill(1.0);
    let mut best = vec![f64::INFINITY; ways.len()];
    for _ in 0..TURNS {
        for ((matrix, ahead, _), least) in ways.iter().zip(&mut best) {
            let code = Code::widest(*ahead);
            context.barrier_of_all();
            let begun = monotonic_nanos();
            // SAFETY: x has all columns, y the rows, of which each thread writes its own.
            unsafe { matrix.multiply(rows, context.thread, code, x.at(0), y.at(0)) };
            context.barrier_of_all();
            *least = least.min((monotonic_nanos() - begun) as f64 * 1e-9);
        }
    }
    let ranks = halo.sum(context, 1.0);
    let mean = |seconds| halo.sum(context, seconds) / ranks;
    let costs = best.into_iter().zip(ways);
    costs.map(|(fastest, (.., more_s))| [fastest, fastest + more_s / WORTH].map(mean)).collect()
}
