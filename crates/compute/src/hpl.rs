//! Measurement procedure of `hpl`: peaks, DGEMM, search for the panel width NB, choice of N by memory or time, solve,
//! residual check. A rating is reported only after the residual check.

use crate::GAUGE;
use crate::choose::TrialResult;
use crate::config::{SearchStep, TimeConfig};
use crate::observed::{ComparisonRates, LibraryRuns, LoopBurst, Observations, SolvedSystem};
use crate::options::HplOptions;
use crate::result::RatingEvidence;
use crate::size::{self, OrderSpec, SizeConstraints};
use nodegauge_gauge::MeasuredNode;
use nodegauge_lu::distribution::{self, ColumnDistribution};
use nodegauge_lu::factorisation::{self as lu, LuError, LuProgress, LuTime};
use nodegauge_lu::matrix::Matrix;
use nodegauge_lu::peak::PeakLoop;
use nodegauge_lu::random::Sequence;
use nodegauge_lu::{Multiplier, dgemm, peak, residual};
use nodegauge_machine::UnavailableReason;
use nodegauge_machine::power::{self, EnergyMeter};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::{
    Failure, FlopsPerSec, Fraction, Notice, NoticeId, Observer, Outcome, Seconds, interference,
};
use nodegauge_placement::Placement;
use nodegauge_team::{Team, TeamError};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Share of the budget for a measurement, with a minimum and a maximum time.
#[derive(Debug, Clone, Copy)]
struct TimeShare {
    share: f64,
    min: Duration,
    max: Duration,
}

impl TimeShare {
    fn duration(self, budget: Duration) -> Duration {
        budget.mul_f64(self.share).clamp(self.min, self.max)
    }
}

/// Time for all peaks together; minimum and maximum apply to each peak.
const PEAKS: TimeShare =
    TimeShare { share: 0.1, min: Duration::from_millis(20), max: Duration::from_millis(400) };
/// Time for DGEMM; an interruption takes effect after the measurement.
const DGEMM: TimeShare =
    TimeShare { share: 0.06, min: Duration::from_millis(50), max: Duration::from_secs(1) };
/// Returns the minimum time after the comparison of `libraries` libraries, without a requested solve. Peaks and DGEMM
/// take half of it, the search for NB and a small solve the other half.
pub(crate) fn min_time(libraries: usize) -> Duration {
    let peaks = PEAKS.min * peak::loops().len() as u32;
    let comparison = DGEMM.min + PEAKS.min;
    2 * (peaks + (DGEMM.min + comparison) * libraries as u32)
}

/// Share of the budget for the NB search.
const SEARCH: f64 = 0.25;
/// Maximum time of the NB search, as a multiple of the planned time of the search.
const MAX_SEARCH: f64 = 1.2;
/// Minimum time of a solve if earlier measurements took longer than planned, as a share of the planned time.
const MIN_SOLUTION_SHARE: f64 = 0.25;
/// Number of which N is a multiple if several libraries use the same N.
pub(crate) const COMMON_MULTIPLE: usize = 64;
/// Unit of `/proc/stat`: the kernel's USER_HZ, which is 100 on every supported architecture.
const TICKS_PER_SECOND: f64 = 100.0;
/// Interval at which progress and interruptions are checked during a solve.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the harmonic mean of the DGEMM rates of the libraries: the mean rate if all libraries do the same work one
/// after another.
fn common_rate(libraries: &[LibraryRuns]) -> FlopsPerSec {
    let times: f64 = libraries.iter().map(|library| 1.0 / dgemm::best_rate(&library.dgemm).0).sum();
    FlopsPerSec(libraries.len() as f64 / times)
}

/// Number of candidates for NB in the second round of the search.
pub(crate) const SECOND_ROUND_CANDIDATES: usize = 3;

/// Sizes of the search for NB: a round with all candidates at a small N, and a round with the best candidates at twice
/// that N.
pub(crate) struct NbSearch {
    constraints: SizeConstraints,
    /// Time of a run in the first round.
    small: Seconds,
    /// Maximum order of the second round.
    max: usize,
    /// Maximum order that fits into memory.
    full: usize,
}

impl NbSearch {
    /// Returns the search among this number of candidates before a solve by the rule `spec`. `constraints` are those of
    /// N, which must be a multiple of [`COMMON_MULTIPLE`].
    pub(crate) fn new(
        constraints: SizeConstraints,
        spec: OrderSpec,
        budget: Duration,
        candidates: usize,
    ) -> Self {
        // Twice the order takes eight times as many operations.
        let runs = candidates as f64 + SECOND_ROUND_CANDIDATES as f64 * 8.0;
        let small = Seconds::from(budget) * SEARCH / runs;
        let full = size::choose(OrderSpec::Full, &constraints).map_or(0, |full| full.order);
        let max = match spec {
            OrderSpec::Given(order) => 2 * order,
            _ => full,
        };
        Self { constraints, small, max, full }
    }

    /// Returns the order for round 0 or 1. `half_rate_order` is the order at which LU reaches half of the DGEMM rate,
    /// if known.
    pub(crate) fn order(
        &self,
        round: usize,
        half_rate_order: Option<f64>,
    ) -> Result<usize, Failure> {
        let seconds = if round == 0 { self.small } else { self.small * 8.0 };
        let constraints = SizeConstraints { seconds, half_rate_order, ..self.constraints.clone() };
        let quick = size::choose(OrderSpec::Quick, &constraints)?.order;
        Ok(quick.min(self.max >> (1 - round)).max(4 * COMMON_MULTIPLE).min(self.full.max(1)))
    }
}

struct HplRun<'a> {
    site: &'a MeasuredNode,
    options: &'a HplOptions,
    /// Factor f for which N must be a multiple of f x NB.
    multiple: usize,
    observer: &'a mut dyn Observer,
    team: Team,
    meter: Result<EnergyMeter, UnavailableReason>,
    observations: Observations,
    /// End of the budget.
    end: Instant,
    /// Time for each loop that measures a peak.
    each_peak: Duration,
    /// Time per matrix element for generating and checking a matrix, in addition to the solve.
    overhead: Seconds,
    /// NUMA node of every thread; empty if a thread may run on several NUMA nodes.
    nodes: Vec<usize>,
}

/// Measures `libraries` one after another until `end`, with the same rules for N and NB. N is a multiple of `multiple`
/// x NB.
///
/// # Errors
/// Fails if N does not fit, if memory or threads are unavailable, or if the matrix is singular.
pub(crate) fn run(
    site: &MeasuredNode,
    placement: &Placement,
    libraries: &[TrialResult],
    options: &HplOptions,
    multiple: usize,
    end: Instant,
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    let multipliers = libraries.iter().map(TrialResult::load).collect::<Result<Vec<_>, _>>()?;
    let team = Team::start(&placement.thread_cpus())?;
    let details = team.observed_affinities().iter().map(ToString::to_string).collect();
    let throttled = power::throttle_event_count(&site.root);
    let meter = EnergyMeter::find(&site.root);
    let observations = Observations::default();
    let nodes = distribution::thread_numa_nodes(&site.topology, placement);
    let each_peak = PEAKS.duration(options.budget.div_f64(peak::loops().len().max(1) as f64));
    let overhead = 0.0;
    let mut run = HplRun {
        site,
        options,
        multiple,
        observer,
        team,
        meter,
        observations,
        end,
        each_peak,
        overhead: Seconds(overhead),
        nodes,
    };
    run.peaks()?;
    for (tried, multiplier) in libraries.iter().zip(&multipliers) {
        run.dgemm(tried, multiplier, libraries.len())?;
    }
    // All libraries use the same N, so that their ratings measure the same work.
    let rate = common_rate(&run.observations.libraries);
    for (at, multiplier) in multipliers.iter().enumerate() {
        if run.observations.interrupted_phase.is_none() {
            run.library(at, multiplier, rate)?;
        }
    }
    let HplRun { observations: mut observed, meter: energy, .. } = run;
    observed.energy = Some(energy.map(|meter_used| meter_used.basis));
    let after = power::throttle_event_count(&site.root);
    observed.throttle_events =
        after.zip(throttled).map(|(after, before)| after.saturating_sub(before));
    let evidence = RatingEvidence { site, placement, options, observations: &observed };
    let measurements = evidence.measurements();
    let mut notices = evidence.notices();
    let stop = observed.interrupted_phase.map(|at| {
        notices.push(Notice::new(NoticeId::Interrupted, GAUGE, format!("interrupted {at}")));
        StopReason::Interrupted
    });
    Ok(Outcome { measurements, notices, details, stop, ..Outcome::default() })
}

impl HplRun<'_> {
    fn interrupted(&mut self, at: &str) -> bool {
        if self.observations.interrupted_phase.is_none() && self.observer.is_interrupted() {
            self.observations.interrupted_phase = Some(at.to_owned());
        }
        self.observations.interrupted_phase.is_some()
    }

    fn peaks(&mut self) -> Result<(), Failure> {
        self.observer.begin_phase("multiply-adds in registers");
        let rounds = peak::burst_count(self.each_peak);
        self.bursts(&peak::loops(), rounds, "during the measurement of the peaks")?;
        Ok(())
    }

    /// Runs loops in interleaved bursts, so that other load does not affect one loop alone. Returns the bursts in
    /// double precision. `at` describes this phase of the run.
    fn bursts(
        &mut self,
        loops: &[PeakLoop],
        rounds: usize,
        at: &str,
    ) -> Result<Vec<LoopBurst>, Failure> {
        let mut of_double = Vec::new();
        for round in 0..rounds {
            for kernel in loops {
                if self.interrupted(at) {
                    return Ok(of_double);
                }
                let burst = peak::run_burst(&mut self.team, kernel)?;
                self.observations.add_burst(kernel, burst);
                if kernel.element == "f64" {
                    of_double.push(LoopBurst { isa: kernel.isa, burst });
                }
                let latest = format!("{} {} {}", kernel.isa_name(), kernel.element, burst.rate);
                self.observer.report_progress((round + 1) as f64 / rounds as f64, &latest);
            }
        }
        Ok(of_double)
    }

    /// Measures DGEMM with one of `count` libraries, before the solves with this library.
    fn dgemm(
        &mut self,
        tried: &TrialResult,
        multiplier: &Multiplier,
        count: usize,
    ) -> Result<(), Failure> {
        if self.interrupted("before DGEMM") {
            return Ok(());
        }
        let time = DGEMM.duration(self.options.budget.div_f64(count as f64));
        self.observer.begin_phase(&format!("DGEMM by {}", tried.name));
        let rates = dgemm::measure(&mut self.team, multiplier, time)?;
        self.observer.report_progress(1.0, &dgemm::best_rate(&rates).to_string());
        self.observations.libraries.push(LibraryRuns {
            candidate: tried.clone(),
            dgemm: rates,
            search: Vec::new(),
            order: None,
            solutions: Vec::new(),
        });
        Ok(())
    }

    /// Chooses NB and N, and solves with the library of index `at`. `rate` is the common DGEMM rate of all libraries.
    fn library(
        &mut self,
        at: usize,
        multiplier: &Multiplier,
        rate: FlopsPerSec,
    ) -> Result<(), Failure> {
        let count = self.observations.libraries.len();
        let budget = self.options.budget.div_f64(count as f64);
        let Some((nb, half_rate_order)) = self.nb(at, multiplier, rate, budget)? else {
            return Ok(());
        };
        // With several libraries, N must be the same for all libraries, so N does not depend on NB.
        let nb_of_order = if count > 1 { COMMON_MULTIPLE } else { nb };
        let multiple = nb_of_order * self.multiple;
        let machine = &self.site.machine;
        let threads = self.team.len();
        let mut constraints = self.options.constraints(machine, rate, threads, multiple);
        constraints.seconds = constraints.seconds / count as f64;
        (constraints.half_rate_order, constraints.overhead) = (half_rate_order, self.overhead);
        let begun = Instant::now();
        let mut before = self.comparison_rates(at, multiplier, budget)?;
        let samples = self.options.samples.max(1);
        // The remaining time must suffice for repeating these measurements after every solve and for the remaining
        // libraries.
        let comparison_time = Seconds::from(begun.elapsed());
        let left = Seconds::from(self.end.saturating_duration_since(Instant::now()));
        let left = left / (count - at) as f64 / samples as f64 - comparison_time;
        let min = constraints.seconds * MIN_SOLUTION_SHARE;
        constraints.seconds = constraints.seconds.min(left).max(min);
        let chosen = size::choose(self.options.order, &constraints)?;
        let order = chosen.order;
        self.observations.libraries[at].order = Some(chosen);
        for _ in 0..samples {
            let Some(mut solution) = self.solve(order, nb, multiplier, true)? else { break };
            let after = self.comparison_rates(at, multiplier, budget)?;
            solution.comparison = before;
            solution.comparison.dgemm.extend(&after.dgemm);
            solution.comparison.bursts.extend(&after.bursts);
            self.observations.libraries[at].solutions.push(solution);
            before = after;
        }
        Ok(())
    }

    /// Repeats DGEMM and the register-only loops that may be the fastest immediately before or after a solve, so that
    /// the rating is compared with rates under the same conditions.
    fn comparison_rates(
        &mut self,
        at: usize,
        multiplier: &Multiplier,
        budget: Duration,
    ) -> Result<ComparisonRates, Failure> {
        let mut comparison = ComparisonRates::default();
        let at_solution = "before or after the solve";
        if self.interrupted(at_solution) {
            return Ok(comparison);
        }
        self.observer.begin_phase("DGEMM and peak before or after the solve");
        let time = DGEMM.duration(budget).div_f64(2.0);
        comparison.dgemm = dgemm::measure(&mut self.team, multiplier, time)?;
        self.observations.libraries[at].dgemm.extend(&comparison.dgemm);
        let rounds = peak::burst_count(self.each_peak.div_f64(2.0));
        comparison.bursts =
            self.bursts(&self.observations.fastest_candidates(), rounds, at_solution)?;
        Ok(comparison)
    }

    /// Searches for the panel width. Returns the panel width, and the order at which LU reaches half of the DGEMM rate,
    /// estimated from the last runs. A single candidate is returned without a run, unless N is chosen by time.
    /// Otherwise all candidates run at a small N, and the best three run again at twice that N.
    fn nb(
        &mut self,
        at: usize,
        multiplier: &Multiplier,
        dgemm: FlopsPerSec,
        budget: Duration,
    ) -> Result<Option<(usize, Option<f64>)>, Failure> {
        let mut candidates = match self.options.nb.as_slice() {
            [] => size::NB_CANDIDATES.to_vec(),
            several => several.to_vec(),
        };
        let mut half_rate_order = self.options.half_rate_order;
        if candidates.len() == 1 && self.options.order != OrderSpec::Quick {
            return Ok(Some((candidates[0], half_rate_order)));
        }
        let machine = &self.site.machine;
        let threads = self.team.len();
        let constraints = self.options.constraints(machine, dgemm, threads, COMMON_MULTIPLE);
        let search = NbSearch::new(constraints, self.options.order, budget, candidates.len());
        // If the machine is slower than the DGEMM rate suggests, the search ends at the deadline and uses the results
        // so far.
        let deadline = Instant::now() + budget.mul_f64(MAX_SEARCH * SEARCH);
        for round in 0..2 {
            let order = search.order(round, half_rate_order)?;
            self.observer.begin_phase(&format!("NB search, N = {order}"));
            let mut rated = Vec::new();
            for nb in candidates.iter().copied().filter(|nb| 4 * nb <= order) {
                let Some(SolvedSystem { rating: rate, .. }) =
                    self.solve(order, nb, multiplier, false)?
                else {
                    return Ok(None);
                };
                rated.push((rate, nb));
                self.observations.libraries[at].search.push(SearchStep { n: order, nb, rate });
                self.observer.report_progress(0.5, &format!("NB {nb}: {rate}"));
                if Instant::now() > deadline {
                    break;
                }
            }
            rated.sort_by(|a, b| b.0.total_cmp(&a.0));
            if let Some((rate, _)) = rated.first() {
                half_rate_order = size::half_rate_order_from_share(order, Fraction(*rate / dgemm));
                candidates =
                    rated.into_iter().take(SECOND_ROUND_CANDIDATES).map(|(_, nb)| nb).collect();
            }
        }
        Ok(candidates.first().map(|nb| (*nb, half_rate_order)))
    }

    /// Generates, solves and checks one system; returns `None` if interrupted. If `shown` is true, the result is
    /// written to the record.
    fn solve(
        &mut self,
        order: usize,
        nb: usize,
        multiplier: &Multiplier,
        shown: bool,
    ) -> Result<Option<SolvedSystem>, Failure> {
        let source = Sequence::new(self.options.seed);
        let started = Instant::now();
        let distribution = ColumnDistribution::new(&self.nodes, order, nb, lu::MAX_UPDATE_COLUMNS);
        let mut matrix = Matrix::allocate(order)?.with_distribution(distribution);
        if self.interrupted(&format!("before N = {order}")) {
            return Ok(None);
        }
        if shown {
            self.observer.begin_phase(&format!("solving, N = {order}, NB = {nb}"));
        }
        let observer = &mut *self.observer;
        if !residual::fill(&mut self.team, &mut matrix, &source, &mut || observer.is_interrupted())?
        {
            self.interrupted(&format!("while the matrix of N = {order} was generated"));
            return Ok(None);
        }
        let meter = self.meter.as_ref().ok();
        let before = meter.and_then(EnergyMeter::read);
        let start_time =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let Some((seconds, time)) = self.factor(&mut matrix, nb, multiplier, shown)? else {
            return Ok(None);
        };
        let energy_meter = self.meter.as_ref().ok();
        let joules =
            energy_meter.and_then(|energy| energy.joules(before.as_ref()?, &energy.read()?));
        let huge_pages = if shown { matrix.huge_page_share() } else { None };
        let residual = residual::compute_residual(&mut self.team, &source, matrix.column(order))?;
        let rating = FlopsPerSec(lu::flops(order) / seconds.0);
        let elements = (order * order) as f64;
        let overhead = (Seconds::from(started.elapsed()) - seconds) / elements;
        self.overhead = self.overhead.max(overhead);
        Ok(Some(SolvedSystem {
            order,
            nb,
            rating,
            seconds,
            time,
            residual: residual.into(),
            huge_pages,
            joules,
            start_time: Seconds(start_time),
            comparison: ComparisonRates::default(),
        }))
    }

    /// Factors the matrix and solves the system; reports progress and checks for interruptions. Returns the seconds and
    /// the breakdown of the time of the threads.
    fn factor(
        &mut self,
        matrix: &mut Matrix,
        nb: usize,
        multiplier: &Multiplier,
        shown: bool,
    ) -> Result<Option<(Seconds, TimeConfig)>, Failure> {
        let order = matrix.order();
        let progress = LuProgress::default();
        let team = &mut self.team;
        let observer = &mut *self.observer;
        let ticks = interference::stolen_ticks();
        let start = Instant::now();
        let solved = std::thread::scope(|scope| {
            let worker = std::thread::Builder::new()
                .spawn_scoped(scope, || lu::solve(team, matrix, nb, multiplier, &progress))
                .map_err(|cause| TeamError::Start(format!("cannot start a thread: {cause}")))?;
            while !worker.is_finished() {
                std::thread::park_timeout(if shown { CHECK_INTERVAL } else { CHECK_INTERVAL / 20 });
                if observer.is_interrupted() {
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
            let done = Fraction(progress.flops() / lu::flops(order)).in_whole_percent();
            let at = format!("at {done} of N = {order} after {elapsed:.1} s: no rating");
            self.observations.interrupted_phase = Some(at);
            return Ok(None);
        }
        let solved: LuTime = solved?;
        let seconds = solved.total;
        let mut time = TimeConfig::from(solved);
        time.stolen = ticks.zip(interference::stolen_ticks()).map(|(before, after)| {
            let cpus = f64::from(self.site.machine.processor.threads.max(1));
            Fraction(after.saturating_sub(before) as f64 / (elapsed * cpus * TICKS_PER_SECOND))
        });
        Ok(Some((seconds, time)))
    }
}

/// Reports the progress of a solve: the rate since its start, and the remaining time at this rate.
fn report(observer: &mut dyn Observer, progress: &LuProgress, order: usize, start: Instant) {
    let done = progress.flops();
    let seconds = start.elapsed().as_secs_f64();
    let whole = lu::flops(order);
    let share = (done / whole).min(1.0);
    if share > 0.0 {
        let left = (seconds / share - seconds).max(0.0);
        let latest = format!("{} so far, {left:.0} s left", FlopsPerSec(done / seconds));
        observer.report_progress(share, &latest);
    }
}
