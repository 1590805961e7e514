//! The protocol of `hpl`: peaks, DGEMM, the width of panels by search, N by memory or time, the
//! solution, its residual; only then is there a rating.

use crate::choose::Tried;
use crate::config::{SearchStep, TimeConfig};
use crate::engine::Multiplier;
use crate::homes::{self, Homes};
use crate::lu::{self, LuError, LuProgress};
use crate::matrix::Matrix;
use crate::observed::{Around, LibraryRuns, Observed, SolvedSystem};
use crate::options::HplOptions;
use crate::random::Sequence;
use crate::residual;
use crate::result::Evidence;
use crate::size::{self, OrderSpec};
use crate::{GAUGE, dgemm, peak};
use nodegauge_gauge::Site;
use nodegauge_machine::CpuId;
use nodegauge_machine::power::{self, EnergyMeter};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::{Failure, FlopsPerSec, Notice, NoticeId, Observer, Outcome, interference};
use nodegauge_placement::{Bind, Placement};
use nodegauge_team::{Team, TeamError};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time for all peaks together, a share of the budget, and the bounds of each.
const PEAKS: (f64, Duration, Duration) =
    (0.1, Duration::from_millis(20), Duration::from_millis(400));
/// Time for DGEMM, the same; an interruption takes effect behind it.
const DGEMM: (f64, Duration, Duration) = (0.06, Duration::from_millis(50), Duration::from_secs(1));
/// Share of the budget for the search of NB.
const SEARCH: f64 = 0.25;
/// The search goes on for no longer than this many times its share.
const SEARCH_MOST: f64 = 1.2;
/// Of the time that is usual for a solution, what it gets however long everything before it took.
const LEAST_SOLUTION: f64 = 0.25;
/// N is a multiple of this where several libraries share it.
const COMMON_MULTIPLE: usize = 64;
/// Of `/proc/stat`: the kernel's USER_HZ, which is 100 on every architecture that is built for.
const TICKS_A_SECOND: f64 = 100.0;
const LOOK: Duration = Duration::from_millis(100);

fn share(of: (f64, Duration, Duration), budget: Duration) -> Duration {
    budget.mul_f64(of.0).clamp(of.1, of.2)
}

/// The rate at which all libraries one after another do equal work: the harmonic mean of their
/// DGEMM rates.
fn common_rate(libraries: &[LibraryRuns]) -> FlopsPerSec {
    let times: f64 = libraries.iter().map(|library| 1.0 / dgemm::best(&library.dgemm).0).sum();
    FlopsPerSec(libraries.len() as f64 / times)
}

/// The CPUs of each thread; none where it is not bound.
pub(crate) fn places(placement: &Placement) -> Vec<Vec<CpuId>> {
    let bound = placement.bind != Bind::None;
    let place = |cpus: &[CpuId]| if bound { cpus.to_vec() } else { Vec::new() };
    placement.threads.iter().map(|thread| place(&thread.cpus)).collect()
}

struct Run<'a> {
    site: &'a Site,
    options: &'a HplOptions,
    /// N is a multiple of NB times this.
    multiple: usize,
    observer: &'a mut dyn Observer,
    team: Team,
    meter: Result<EnergyMeter, String>,
    seen: Observed,
    /// When the time is over.
    end: Instant,
    /// Time for each loop of the peaks.
    each_peak: Duration,
    /// Seconds that making and checking a matrix took beside solving it, for each of its elements.
    beside: f64,
    /// The NUMA node of each thread; empty where one may be on several.
    nodes: Vec<usize>,
}

/// Measures `libraries` in their order until `end`, by the same rules for N and NB; N is a multiple of NB
/// times `multiple`.
///
/// # Errors
/// When N does not fit, memory or threads cannot be had, or the matrix is singular.
pub(crate) fn run(
    site: &Site,
    placement: &Placement,
    libraries: &[Tried],
    (options, multiple, end): (&HplOptions, usize, Instant),
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    let multipliers = libraries.iter().map(Tried::load).collect::<Result<Vec<_>, _>>()?;
    let team = Team::start(&places(placement))?;
    let details = team.observed().iter().map(ToString::to_string).collect();
    let throttled = power::throttle_events(&site.root);
    let meter = EnergyMeter::find(&site.root);
    let seen = Observed::default();
    let nodes = homes::of_threads(&site.topology, placement);
    let each_peak = share(PEAKS, options.budget.div_f64(peak::loops().len().max(1) as f64));
    let beside = 0.0;
    let mut run =
        Run { site, options, multiple, observer, team, meter, seen, end, each_peak, beside, nodes };
    run.peaks()?;
    for (tried, multiplier) in libraries.iter().zip(&multipliers) {
        run.dgemm(tried, multiplier, libraries.len())?;
    }
    // One N for all, so that ratings of libraries are of the same work.
    let rate = common_rate(&run.seen.libraries);
    for (at, multiplier) in multipliers.iter().enumerate() {
        if run.seen.interrupted.is_none() {
            run.library(at, multiplier, rate)?;
        }
    }
    let Run { mut seen, meter, .. } = run;
    seen.energy = Some(meter.map(|meter| meter.basis));
    let after = power::throttle_events(&site.root);
    seen.throttled = after.zip(throttled).map(|(after, before)| after.saturating_sub(before));
    let evidence = Evidence { site, placement, options, seen: &seen };
    let (measurements, mut notices) = (evidence.measurements(), evidence.notices());
    let stop = seen.interrupted.map(|at| {
        notices.push(Notice::new(NoticeId::Interrupted, GAUGE, format!("interrupted {at}")));
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

    fn peaks(&mut self) -> Result<(), Failure> {
        self.observer.phase("multiply-adds in registers");
        let loops = peak::loops();
        let time = self.each_peak;
        for (i, kernel) in loops.iter().enumerate() {
            if self.interrupted("while peaks were measured") {
                return Ok(());
            }
            let peak = peak::measure(&mut self.team, kernel, time)?;
            let latest = format!("{} {} {}", kernel.isa_name(), kernel.element, peak.best());
            self.observer.progress((i + 1) as f64 / loops.len() as f64, &latest);
            self.seen.peaks.push(peak);
        }
        Ok(())
    }

    /// DGEMM by one library of `count`, before its solutions.
    fn dgemm(
        &mut self,
        tried: &Tried,
        multiplier: &Multiplier,
        count: usize,
    ) -> Result<(), Failure> {
        if self.interrupted("before DGEMM") {
            return Ok(());
        }
        let time = share(DGEMM, self.options.budget.div_f64(count as f64));
        self.observer.phase(&format!("DGEMM by {}", tried.name));
        let rates = dgemm::measure(&mut self.team, multiplier, time)?;
        self.observer.progress(1.0, &dgemm::best(&rates).to_string());
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
    ) -> Result<(), Failure> {
        let count = self.seen.libraries.len();
        let budget = self.options.budget.div_f64(count as f64);
        let Some((nb, half)) = self.nb(at, multiplier, rate, budget)? else { return Ok(()) };
        // Side by side N must not depend on each one's NB.
        let nb_of_order = if count > 1 { COMMON_MULTIPLE } else { nb };
        let multiple = nb_of_order * self.multiple;
        let (machine, threads) = (&self.site.machine, self.team.len());
        let mut constraints = self.options.constraints(machine, rate, threads, multiple);
        constraints.seconds /= count as f64;
        (constraints.half, constraints.beside) = (half, self.beside);
        let begun = Instant::now();
        let mut before = self.around(at, multiplier, budget)?;
        let samples = self.options.samples.max(1);
        // The same again behind each solution, and behind them the libraries that are left.
        let around = begun.elapsed().as_secs_f64();
        let left = self.end.saturating_duration_since(Instant::now()).as_secs_f64();
        let left = left / (count - at) as f64 / samples as f64 - around;
        let least = LEAST_SOLUTION * constraints.seconds;
        constraints.seconds = constraints.seconds.min(left).max(least);
        let chosen = size::choose(self.options.order, &constraints)?;
        let order = chosen.order;
        self.seen.libraries[at].order = Some(chosen);
        for _ in 0..samples {
            let Some(mut solution) = self.solve(order, nb, multiplier, true)? else { break };
            let after = self.around(at, multiplier, budget)?;
            solution.around = before;
            solution.around.dgemm.extend(&after.dgemm);
            solution.around.bursts.extend(&after.bursts);
            self.seen.libraries[at].solutions.push(solution);
            before = after;
        }
        Ok(())
    }

    /// DGEMM and the fastest loops once more, right before or after a solution: a rating is held against
    /// what the cores gave in the same minutes.
    fn around(
        &mut self,
        at: usize,
        multiplier: &Multiplier,
        budget: Duration,
    ) -> Result<Around, Failure> {
        let mut around = Around::default();
        if self.interrupted("beside the solution") {
            return Ok(around);
        }
        self.observer.phase("DGEMM and peak beside the solution");
        let time = share(DGEMM, budget).div_f64(2.0);
        around.dgemm = dgemm::measure(&mut self.team, multiplier, time)?;
        self.seen.libraries[at].dgemm.extend(&around.dgemm);
        let time = self.each_peak.div_f64(2.0);
        for element in ["f64", "f32"] {
            let Some(fastest) = self.seen.peak_mut(element) else { continue };
            let bursts = peak::measure(&mut self.team, &fastest.kernel, time)?.bursts;
            fastest.bursts.extend(&bursts);
            if element == "f64" {
                around.bursts = bursts;
            }
        }
        Ok(around)
    }

    /// The width of panels: the only one, or the fastest of small runs, the best three of which are
    /// run again at twice the size; and the order at which LU reaches half of DGEMM's rate, which the last
    /// of them tell.
    fn nb(
        &mut self,
        at: usize,
        multiplier: &Multiplier,
        dgemm: FlopsPerSec,
        budget: Duration,
    ) -> Result<Option<(usize, Option<f64>)>, Failure> {
        let mut candidates = match self.options.nb.as_slice() {
            [] => size::CANDIDATES.to_vec(),
            several => several.to_vec(),
        };
        let mut half = self.options.half;
        if candidates.len() == 1 && self.options.order != OrderSpec::Quick {
            return Ok(Some((candidates[0], half)));
        }
        let (machine, threads) = (&self.site.machine, self.team.len());
        let mut constraints = self.options.constraints(machine, dgemm, threads, COMMON_MULTIPLE);
        // The second round takes three runs of eight times the operations.
        let runs = candidates.len() as f64 + 3.0 * 8.0;
        let small = budget.as_secs_f64() * SEARCH / runs;
        let full = size::choose(OrderSpec::Full, &constraints).map_or(0, |full| full.order);
        let most = match self.options.order {
            OrderSpec::Exactly(order) => 2 * order,
            _ => full,
        };
        // On a machine that is slower than its DGEMM said, what was found until then decides.
        let deadline = Instant::now() + budget.mul_f64(SEARCH_MOST * SEARCH);
        for (round, seconds) in [small, 8.0 * small].into_iter().enumerate() {
            (constraints.seconds, constraints.half) = (seconds, half);
            let quick = size::choose(OrderSpec::Quick, &constraints)?.order;
            let order = quick.min(most >> (1 - round)).max(4 * COMMON_MULTIPLE).min(full.max(1));
            self.observer.phase(&format!("search of NB, N = {order}"));
            let mut rated = Vec::new();
            for nb in candidates.iter().copied().filter(|nb| 4 * nb <= order) {
                let Some(SolvedSystem { rating: rate, .. }) =
                    self.solve(order, nb, multiplier, false)?
                else {
                    return Ok(None);
                };
                rated.push((rate, nb));
                self.seen.libraries[at].search.push(SearchStep { n: order, nb, rate });
                self.observer.progress(0.5, &format!("NB {nb}: {}", FlopsPerSec(rate)));
                if Instant::now() > deadline {
                    break;
                }
            }
            rated.sort_by(|a, b| b.0.total_cmp(&a.0));
            if let Some((rate, _)) = rated.first() {
                half = size::half(order, rate / dgemm.0);
                candidates = rated.into_iter().take(3).map(|(_, nb)| nb).collect();
            }
        }
        Ok(candidates.first().map(|nb| (*nb, half)))
    }

    /// Makes, solves and checks one system; `None` when interrupted. One that is `shown` is for the
    /// record.
    fn solve(
        &mut self,
        order: usize,
        nb: usize,
        multiplier: &Multiplier,
        shown: bool,
    ) -> Result<Option<SolvedSystem>, Failure> {
        let source = Sequence::new(self.options.seed);
        let started = Instant::now();
        let homes = Homes::of(&self.nodes, (order, nb), lu::WIDEST);
        let mut matrix = Matrix::map(order)?.at(homes);
        if self.interrupted(&format!("before N = {order}")) {
            return Ok(None);
        }
        if shown {
            self.observer.phase(&format!("solving, N = {order}, NB = {nb}"));
        }
        let observer = &mut *self.observer;
        if !residual::fill(&mut self.team, &mut matrix, &source, || observer.interrupted())? {
            self.interrupted(&format!("while the matrix of N = {order} was made"));
            return Ok(None);
        }
        let meter = self.meter.as_ref().ok();
        let before = meter.and_then(EnergyMeter::read);
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let Some((seconds, time)) = self.factor(&mut matrix, nb, multiplier, shown)? else {
            return Ok(None);
        };
        let meter = self.meter.as_ref().ok();
        let joules = meter.and_then(|meter| meter.joules(before.as_ref()?, &meter.read()?));
        let huge_pages = if shown { matrix.on_huge_pages() } else { None };
        let residual = residual::check(&mut self.team, &source, matrix.column(order))?;
        let rating = lu::flops(order) / seconds;
        let beside = (started.elapsed().as_secs_f64() - seconds) / (order * order) as f64;
        self.beside = self.beside.max(beside);
        Ok(Some(SolvedSystem {
            order,
            nb,
            rating,
            seconds,
            time,
            residual,
            huge_pages,
            joules,
            began,
            around: Around::default(),
        }))
    }

    /// Factors and solves while the user sees how far it is and may end it; the seconds of it, and
    /// where they went.
    fn factor(
        &mut self,
        matrix: &mut Matrix,
        nb: usize,
        multiplier: &Multiplier,
        shown: bool,
    ) -> Result<Option<(f64, TimeConfig)>, Failure> {
        let (order, progress) = (matrix.order(), LuProgress::default());
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
            worker.join().unwrap_or(Err(TeamError::Panicked(0).into()))
        });
        let elapsed = start.elapsed().as_secs_f64();
        if let Err(LuError::Interrupted) = solved {
            let done = 100.0 * progress.flops() / lu::flops(order);
            let at = format!("N = {order} was {done:.0} % done after {elapsed:.1} s: no rating");
            self.seen.interrupted = Some(at);
            return Ok(None);
        }
        let (seconds, mut time) = solved?;
        time.stolen = ticks.zip(interference::stolen_ticks()).map(|(before, after)| {
            let cpus = f64::from(self.site.machine.processor.threads.max(1));
            after.saturating_sub(before) as f64 / (elapsed * cpus * TICKS_A_SECOND)
        });
        Ok(Some((seconds, time)))
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
