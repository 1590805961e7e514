//! The protocol of `hpl`: peaks, DGEMM, the width of panels by search, N by memory or time, the
//! solution, its residual; only then is there a rating.

use crate::choose::Tried;
use crate::config::SearchStep;
use crate::engine::Multiplier;
use crate::lu::{self, LuError, LuProgress};
use crate::matrix::{Matrix, MatrixError};
use crate::observed::{LibraryRuns, Observed, SolvedSystem};
use crate::options::HplOptions;
use crate::peak;
use crate::random::Sequence;
use crate::residual::{self, MatrixSource};
use crate::size::{self, OrderError, OrderSpec};
use crate::{dgemm, result};
use nodegauge_gauge::Site;
use nodegauge_machine::CpuId;
use nodegauge_machine::power::{self, EnergyMeter};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::{FlopsPerSec, Notice, NoticeId, Observer, Outcome, interference};
use nodegauge_placement::{Bind, Placement};
use nodegauge_team::{Team, TeamError};
use nodegauge_toolchain::blas::BlasError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum HplError {
    /// N.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// Memory.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// Threads.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// The library.
    #[error(transparent)]
    Blas(#[from] BlasError),
    /// The matrix has no solution.
    #[error(transparent)]
    Singular(LuError),
}

/// Time for the peaks, a share of the budget and its bounds.
const PEAKS: (f64, Duration, Duration) =
    (0.05, Duration::from_millis(20), Duration::from_millis(400));
/// Time for DGEMM, the same; an interruption takes effect behind it.
const DGEMM: (f64, Duration, Duration) = (0.06, Duration::from_millis(50), Duration::from_secs(1));
/// Share of the budget for the search of NB.
const SEARCH: f64 = 0.25;
/// N is a multiple of this where several libraries share it.
const COMMON_MULTIPLE: usize = 64;
/// Of `/proc/stat`: the kernel's USER_HZ, which is 100 on every architecture that is built for.
const TICKS_A_SECOND: f64 = 100.0;
/// How often a solution under way is looked at.
const LOOK: Duration = Duration::from_millis(100);

fn share(of: (f64, Duration, Duration), budget: Duration) -> Duration {
    budget.mul_f64(of.0).clamp(of.1, of.2)
}

/// The rate at which all libraries one after another do equal work: the harmonic mean of their
/// DGEMM rates.
fn common_rate(libraries: &[LibraryRuns]) -> FlopsPerSec {
    let times: f64 = libraries.iter().map(|library| 1.0 / library.best_dgemm()).sum();
    FlopsPerSec(libraries.len() as f64 / times)
}

/// A run under way.
struct Run<'a> {
    site: &'a Site,
    options: &'a HplOptions,
    /// N is a multiple of NB times this.
    multiple: usize,
    observer: &'a mut dyn Observer,
    team: Team,
    meter: Result<EnergyMeter, String>,
    seen: Observed,
}

/// Measures `libraries` in their order, by the same rules for N and NB; N is a multiple of NB times
/// `multiple`.
///
/// # Errors
/// When N does not fit, memory or threads cannot be had, or a given matrix is singular.
pub(crate) fn run(
    site: &Site,
    placement: &Placement,
    libraries: &[Tried],
    (options, multiple): (&HplOptions, usize),
    observer: &mut dyn Observer,
) -> Result<Outcome, HplError> {
    let multipliers =
        libraries.iter().map(Tried::load).collect::<Result<Vec<Multiplier>, BlasError>>()?;
    let bound = placement.bind != Bind::None;
    let places: Vec<Vec<CpuId>> = placement
        .threads
        .iter()
        .map(|thread| if bound { thread.cpus.clone() } else { Vec::new() })
        .collect();
    let team = Team::start(&places)?;
    let details = team.observed().iter().map(ToString::to_string).collect();
    let throttled = power::throttle_events(&site.root);
    let meter = EnergyMeter::find(&site.root);
    let seen = Observed::default();
    let mut run = Run { site, options, multiple, observer, team, meter, seen };
    run.peaks()?;
    for (tried, multiplier) in libraries.iter().zip(&multipliers) {
        run.dgemm(tried, multiplier, libraries.len())?;
    }
    // One N for all, so that ratings of libraries are of the same work.
    let rate = common_rate(&run.seen.libraries);
    for (at, multiplier) in multipliers.iter().enumerate() {
        if run.seen.interrupted.is_some() {
            break;
        }
        run.library(at, multiplier, rate, libraries.len())?;
    }
    let Run { mut seen, meter, .. } = run;
    seen.energy = Some(meter.map(|meter| meter.basis));
    seen.throttled = power::throttle_events(&site.root)
        .zip(throttled)
        .map(|(after, before)| after.saturating_sub(before));
    let measurements = result::measurements(&site.machine, placement, options.seed, &seen);
    let mut notices = result::notices(site, placement, options.triad.as_ref(), &seen);
    let stop = seen.interrupted.map(|at| {
        let text = format!("interrupted {at}");
        notices.push(Notice::new(NoticeId::Interrupted, crate::GAUGE, text));
        Stop::Interrupted
    });
    Ok(Outcome { measurements, notices, details, stop, ..Outcome::default() })
}

impl Run<'_> {
    fn interrupted(&mut self, at: &str) -> bool {
        if self.seen.interrupted.is_none() && self.observer.interrupted() {
            self.seen.interrupted = Some(at.to_owned());
        }
        self.seen.interrupted.is_some()
    }

    fn peaks(&mut self) -> Result<(), HplError> {
        self.observer.phase("multiply-adds in registers");
        let loops = peak::loops();
        let time = share(PEAKS, self.options.budget);
        for (i, kernel) in loops.iter().enumerate() {
            if self.interrupted("while peaks were measured") {
                return Ok(());
            }
            let peak = peak::measure(&mut self.team, kernel, time)?;
            let latest = format!("{} {} {}", kernel.isa, kernel.element, peak.best());
            self.observer.progress((i + 1) as f64 / loops.len() as f64, &latest);
            self.seen.peaks.push(peak);
        }
        Ok(())
    }

    /// DGEMM by one library, before its solutions.
    fn dgemm(
        &mut self,
        tried: &Tried,
        multiplier: &Multiplier,
        count: usize,
    ) -> Result<(), HplError> {
        if self.interrupted("before DGEMM") {
            return Ok(());
        }
        let time = share(DGEMM, self.options.budget.div_f64(count as f64));
        self.observer.phase(&format!("DGEMM by {}", tried.name()));
        let rates = dgemm::measure(&mut self.team, multiplier, time)?;
        let best = FlopsPerSec(rates.iter().copied().fold(0.0, f64::max));
        self.observer.progress(1.0, &best.to_string());
        self.seen.libraries.push(LibraryRuns {
            tried: tried.clone(),
            dgemm: rates,
            search: Vec::new(),
            order: None,
            solutions: Vec::new(),
        });
        Ok(())
    }

    /// NB, N and the solutions of library `at`; `rate` is that of DGEMM by all of them.
    fn library(
        &mut self,
        at: usize,
        multiplier: &Multiplier,
        rate: FlopsPerSec,
        count: usize,
    ) -> Result<(), HplError> {
        let budget = self.options.budget.div_f64(count as f64);
        let nb = match self.nb(at, multiplier, rate, budget)? {
            Some(nb) => nb,
            None => return Ok(()),
        };
        // Side by side N must not depend on each one's NB.
        let nb_of_order = if count > 1 { COMMON_MULTIPLE } else { nb };
        let multiple = nb_of_order * self.multiple;
        let (machine, threads) = (&self.site.machine, self.team.len());
        let mut constraints = self.options.constraints(machine, rate, threads, multiple);
        constraints.seconds /= count as f64;
        let order = size::choose(self.options.order_spec(), &constraints)?;
        self.seen.libraries[at].order = Some(order.clone());
        for _ in 0..self.options.samples.max(1) {
            let Some(solution) = self.solve(order.order, nb, multiplier, true)? else { break };
            self.seen.libraries[at].solutions.push(solution);
        }
        self.again(at, multiplier, budget)
    }

    /// DGEMM and the fastest loop once more behind the solutions: a machine that was disturbed or
    /// throttled before them would make a rating look better than it is.
    fn again(
        &mut self,
        at: usize,
        multiplier: &Multiplier,
        budget: Duration,
    ) -> Result<(), HplError> {
        if self.interrupted("after the solution") {
            return Ok(());
        }
        self.observer.phase("DGEMM and peak again");
        let rates = dgemm::measure(&mut self.team, multiplier, share(DGEMM, budget))?;
        self.seen.libraries[at].dgemm.extend(rates);
        let time = share(PEAKS, self.options.budget);
        for element in ["f64", "f32"] {
            let fastest = self
                .seen
                .peaks
                .iter_mut()
                .filter(|peak| peak.element == element)
                .max_by(|a, b| a.best().0.total_cmp(&b.best().0));
            let loops = peak::loops();
            let Some(fastest) = fastest else { continue };
            let kernel = loops.iter().find(|k| k.isa == fastest.isa && k.element == element);
            let Some(kernel) = kernel else { continue };
            fastest.join(peak::measure(&mut self.team, kernel, time)?);
        }
        Ok(())
    }

    /// The width of panels: the only one, or the fastest of small runs, the best three of which are
    /// run again at twice the size.
    fn nb(
        &mut self,
        at: usize,
        multiplier: &Multiplier,
        dgemm: FlopsPerSec,
        budget: Duration,
    ) -> Result<Option<usize>, HplError> {
        let candidates: Vec<usize> = match self.options.nb.as_slice() {
            [] => size::CANDIDATES.to_vec(),
            [one] => return Ok(Some(*one)),
            several => several.to_vec(),
        };
        let threads = self.team.len();
        // The second round takes three runs of eight times the operations.
        let runs = candidates.len() as f64 + 3.0 * 8.0;
        let seconds = budget.as_secs_f64() * SEARCH / runs;
        let mut constraints =
            self.options.constraints(&self.site.machine, dgemm, threads, COMMON_MULTIPLE);
        constraints.seconds = seconds;
        let small = match self.options.order {
            OrderSpec::Exactly(order) => {
                size::choose(OrderSpec::Quick, &constraints)?.order.min(order)
            }
            _ => size::choose(OrderSpec::Quick, &constraints)?.order,
        };
        let small = small.max(4 * COMMON_MULTIPLE);
        let largest = match size::choose(OrderSpec::Full, &constraints) {
            Ok(order) => order.order.max(small),
            Err(_) => small,
        };
        self.observer.phase(&format!("search of NB, N = {small} and {}", (2 * small).min(largest)));
        let mut field = candidates;
        // On a machine that is slower than its DGEMM said, what was found until then decides.
        let deadline = Instant::now() + budget.mul_f64(2.0 * SEARCH);
        for order in [small, (2 * small).min(largest)] {
            let mut rated = Vec::new();
            for nb in field.iter().copied().filter(|nb| 4 * nb <= order) {
                let Some(solution) = self.solve(order, nb, multiplier, false)? else {
                    return Ok(None);
                };
                rated.push((solution.rating, nb));
                let step = SearchStep { n: order, nb, rate: solution.rating };
                self.seen.libraries[at].search.push(step);
                let latest = format!("NB {nb}: {}", FlopsPerSec(solution.rating));
                self.observer.progress(0.5, &latest);
                if Instant::now() > deadline {
                    break;
                }
            }
            if rated.is_empty() {
                continue;
            }
            rated.sort_by(|a, b| b.0.total_cmp(&a.0));
            field = rated.into_iter().take(3).map(|(_, nb)| nb).collect();
        }
        Ok(field.first().copied())
    }

    /// Solves one system; `None` when interrupted.
    fn solve(
        &mut self,
        order: usize,
        nb: usize,
        multiplier: &Multiplier,
        shown: bool,
    ) -> Result<Option<SolvedSystem>, HplError> {
        let mut matrix = Matrix::map(order)?;
        match &self.options.given {
            Some(given) if shown => {
                let given = given.clone();
                self.solve_of(&mut matrix, nb, multiplier, shown, &given)
            }
            _ => {
                let sequence = Sequence::new(self.options.seed);
                self.solve_of(&mut matrix, nb, multiplier, shown, &sequence)
            }
        }
    }

    fn solve_of(
        &mut self,
        matrix: &mut Matrix,
        nb: usize,
        multiplier: &Multiplier,
        shown: bool,
        source: &impl MatrixSource,
    ) -> Result<Option<SolvedSystem>, HplError> {
        let order = matrix.order();
        if self.interrupted(&format!("before N = {order}")) {
            return Ok(None);
        }
        if shown {
            self.observer.phase(&format!("solving, N = {order}, NB = {nb}"));
        }
        let observer = &mut *self.observer;
        if !residual::fill_unless(&mut self.team, matrix, source, || observer.interrupted())? {
            self.interrupted(&format!("while the matrix of N = {order} was made"));
            return Ok(None);
        }
        let progress = LuProgress::default();
        let before = self.meter.as_ref().ok().and_then(EnergyMeter::read);
        let began = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64());
        let (team, observer) = (&mut self.team, &mut *self.observer);
        let ticks = interference::stolen_ticks();
        let start = Instant::now();
        let solved = std::thread::scope(|scope| {
            let worker = scope.spawn(|| lu::solve(team, matrix, nb, multiplier, &progress));
            while !worker.is_finished() {
                std::thread::park_timeout(if shown { LOOK } else { LOOK / 20 });
                if observer.interrupted() {
                    progress.stop.store(true, Ordering::Relaxed);
                }
                if shown {
                    report(observer, &progress, order, start);
                }
            }
            worker.join()
        });
        let times = match solved {
            Ok(Ok(times)) => times,
            Ok(Err(LuError::Interrupted)) => {
                let done = 100.0 * progress.flops() / lu::flops(order);
                self.seen.interrupted = Some(format!(
                    "N = {order} was {done:.0} % done after {:.1} s: no rating",
                    start.elapsed().as_secs_f64()
                ));
                return Ok(None);
            }
            Ok(Err(LuError::Team(error))) => return Err(error.into()),
            Ok(Err(singular)) => return Err(HplError::Singular(singular)),
            Err(_) => return Err(TeamError::Panicked(0).into()),
        };
        let stolen = ticks.zip(interference::stolen_ticks()).map(|(before, after)| {
            let cpus = self.site.machine.processor.threads.max(1);
            let all = start.elapsed().as_secs_f64() * f64::from(cpus) * TICKS_A_SECOND;
            after.saturating_sub(before) as f64 / all
        });
        let joules = self
            .meter
            .as_ref()
            .ok()
            .and_then(|meter| meter.joules(before.as_ref()?, &meter.read()?));
        let huge_pages = if shown { matrix.on_huge_pages() } else { None };
        let x = matrix.column(order).to_vec();
        let residual = residual::check(&mut self.team, source, &x)?;
        let rating = lu::flops(order) / times.total;
        Ok(Some(SolvedSystem {
            order,
            nb,
            rating,
            times,
            residual,
            huge_pages,
            joules,
            stolen,
            began,
        }))
    }
}

/// Shows how far a solution is, with its rate so far and the time left at that rate.
fn report(observer: &mut dyn Observer, progress: &LuProgress, order: usize, start: Instant) {
    let (done, seconds) = (progress.flops(), start.elapsed().as_secs_f64());
    let whole = lu::flops(order);
    let share = (done / whole).min(1.0);
    if share > 0.0 {
        let left = (seconds / share - seconds).max(0.0);
        let latest = format!("{} so far, {left:.0} s left", FlopsPerSec(done / seconds));
        observer.progress(share, &latest);
    }
}

impl From<HplError> for nodegauge_measure::Failure {
    fn from(error: HplError) -> Self {
        match error {
            // A matrix that has no solution is input that cannot be used.
            HplError::Singular(_) => Self::usage(error),
            _ => Self::missing(error),
        }
    }
}
