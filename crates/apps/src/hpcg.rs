//! `apps hpcg`: HPCG's 27-point problem with a multigrid preconditioner, one domain per worker.
//!
//! The program is a variant of HPCG: only the reference code, tuned by the rules of HPCG, gives HPCG results. Every
//! coefficient is stored and read. The variant reduces memory traffic: it reads only half of a matrix after a forward
//! sweep, and computes residuals only at points of the coarser grid; see `nodegauge_solvers::hpcg`.

pub mod output;
mod prediction;
mod reader;
mod reference;
pub(crate) mod view;

pub(crate) use reader::HpcgReader;

use crate::config::{HpcgConfig, WorkersConfig};
use crate::sweep::SweepWorkers;
use crate::{GAUGE, TIMES_LLC, WorkerPool, WorkersOptions, in_digits, left_out_in_time, paired};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_analysis::ratio::paired::PairedRounds;
use nodegauge_gauge::series::{ReferenceProgramRun, Series};
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_kernels::Isa;
use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Validity};
use nodegauge_measure::samples::{Sample, SamplesByRegime};
use nodegauge_measure::schedule::{Budget, RunLimits, Turn, policy};
use nodegauge_measure::{
    Bytes, Failure, FlopsPerSec, Fraction, Notice, NoticeId, Observer, Outcome, Unit, stats,
};
use nodegauge_solvers::code::{self, LoopCode};
pub use nodegauge_solvers::hpcg::problem::GridPoints;
use nodegauge_solvers::hpcg::problem::{
    DomainLayout, ITERATIONS, MIN_POINTS, OperationCounts, PARTS, POINTS_DIVISOR,
};
use nodegauge_solvers::hpcg::{
    DomainExchange, DomainSetup, SetResult, TestResults, domain_bytes, moved_bytes,
};
use prediction::PredictedSets;
use reference::PlacedXhpcg;
pub use reference::XhpcgOptions;
use std::time::Duration;

/// Name of the test in records.
pub const TEST: &str = "hpcg";
/// Value of `columns` in records if the matrix stores one column index per coefficient.
const PER_COEFFICIENT: &str = "coefficient";
/// Value of `columns` in records of earlier versions, whose matrix stored one column index per eight rows.
const PER_SLOT: &str = "slot";
/// Maximum numbers of iterations in the convergence test of HPCG, without and with preconditioner.
const ALLOWED: [usize; 2] = [12, 2];

/// Options of `apps hpcg`.
#[derive(Debug, Clone, PartialEq)]
pub struct HpcgOptions {
    /// Number of points of a domain in each direction.
    pub grid: GridPoints,
    /// True if the user requests a column index for each coefficient. Every matrix has such indices, so the option has
    /// no effect.
    pub column_per_coefficient: bool,
    /// Maximum share of the available memory, 0 to 1.
    pub memory_fraction: Fraction,
    /// Time budget of the whole run, if the user set it. A run that would exceed it is refused.
    pub budget: Option<Duration>,
    /// Exact number of sets after the warm-up, independent of the time.
    pub samples: Option<usize>,
    /// Reference program to run in addition.
    pub xhpcg: Option<XhpcgOptions>,
}

/// Planned run of `apps hpcg`.
pub struct HpcgPlan {
    swept: Vec<SweepWorkers>,
    options: HpcgOptions,
    notices: Vec<Notice>,
    xhpcg: Option<PlacedXhpcg>,
}

impl HpcgPlan {
    /// Default time budget of the whole run, sufficient for several sets on the default grid.
    pub const BUDGET: Duration = Duration::from_secs(60);
    /// Default number of points of a domain.
    pub const DEFAULT_GRID: GridPoints = [104; 3];

    /// Plans a run with one domain per thread or rank of the requested workers.
    ///
    /// # Errors
    /// Fails if this node does not have the workers, and if the grid cannot be coarsened often enough, is too small or
    /// too flat, or does not fit into memory.
    pub fn new(
        site: &MeasuredNode,
        requested: &WorkersOptions,
        options: HpcgOptions,
    ) -> Result<Self, Failure> {
        let mut notices = Vec::new();
        if options.column_per_coefficient {
            let text =
                "--rules has no effect: every matrix has a column index for each coefficient";
            notices.push(Notice::new(NoticeId::Method, GAUGE, text));
        }
        let swept = requested.sweep_workers(&site.topology, None, &mut notices)?;
        let grid = options.grid;
        let [x, y, z] = grid;
        if let Some(points) = grid.iter().find(|points| !points.is_multiple_of(POINTS_DIVISOR)) {
            return Err(invalid_grid(
                grid,
                format!(
                    "{points} is not a multiple of {POINTS_DIVISOR}, which the four multigrid levels require"
                ),
            ));
        }
        let min = x.min(y).min(z);
        let max = x.max(y).max(z);
        if min < MIN_POINTS || 8 * min < max {
            return Err(invalid_grid(
                grid,
                format!(
                    "expected at least {MIN_POINTS} points in every direction, and at most 8 \
                     times as many as in any other direction"
                ),
            ));
        }
        // Only the domains of one kind of workers are in memory at a time, so the largest size counts.
        let layouts = swept.iter().map(|swept| swept.layout(grid));
        let Some(layout) = layouts.max_by_key(DomainLayout::count) else {
            return Err(Failure::usage("expected at least one worker"));
        };
        let needed = bytes(&layout);
        let usable =
            site.machine.memory.available.map(|bytes| bytes as f64 * options.memory_fraction.0);
        if let Some(usable) = usable.filter(|usable| *usable < needed as f64) {
            let fits = (MIN_POINTS..=max).step_by(POINTS_DIVISOR).filter(|points| {
                let layout = DomainLayout::new([*points; 3], layout.count());
                bytes(&layout) as f64 <= usable
            });
            let remedy = match fits.last() {
                Some(points) => format!("--grid {points} fits"),
                None => "use fewer workers".to_owned(),
            };
            return Err(Failure::missing(format!(
                "{} is needed for {} of {x} x {y} x {z} points, but only {} of memory may be \
                     used",
                Bytes(needed),
                count_in_words(layout.count(), "domain"),
                Bytes(usable as u64),
            ))
            .hint(format!("{remedy}, or give a larger --memory-fraction")));
        }
        // The reference program is compared with the first kind of workers.
        let xhpcg = match &options.xhpcg {
            Some(asked) => Some(PlacedXhpcg::find(site, swept[0].layout(grid), asked)?),
            None => None,
        };
        Ok(Self { swept, options, notices, xhpcg })
    }
}

/// Returns the error for an invalid grid.
fn invalid_grid([x, y, z]: GridPoints, problem: String) -> Failure {
    Failure::usage(format!("invalid grid of {x} x {y} x {z} points: {problem}"))
        .hint("e.g. --grid 104")
}

impl SweepWorkers {
    /// Returns the domains of the workers.
    fn layout(&self, grid: GridPoints) -> DomainLayout {
        DomainLayout::new(grid, self.workers.count())
    }
}

/// Returns the size of the matrix and vectors of all domains, bytes.
fn bytes(layout: &DomainLayout) -> u64 {
    domain_bytes(layout).saturating_mul(layout.count() as u64)
}

impl PlannedRun for HpcgPlan {
    fn expected_cost(&self) -> ExpectedCost {
        let layouts = self.swept.iter().map(|swept| swept.layout(self.options.grid));
        let max = layouts.map(|layout| bytes(&layout)).max();
        ExpectedCost {
            time: Some(self.options.budget.unwrap_or(Self::BUDGET)),
            memory: max.map(Bytes),
        }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        let names = ["rating"].into_iter().chain(PARTS);
        vec![
            PossibleFigures::new(GAUGE, TEST, names, &[Unit::FlopsPerSecond]),
            PossibleFigures::new(GAUGE, TEST, ["relative"], &[Unit::Factor]),
        ]
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let Self { swept, options, mut notices, xhpcg } = *self;
        let limits =
            RunLimits::from_budget(Budget::new(options.budget, Self::BUDGET), options.samples);
        let mut pool = WorkerPool::start(swept.iter().map(|swept| &swept.workers))?;
        let mut cells = Vec::new();
        for (at, of_workers) in swept.iter().enumerate() {
            cells.push(HpcgCell::new(of_workers, at, options.grid)?);
        }
        let mut run = HpcgRun { codes: [false, true].map(LoopCode::widest), cells };
        observer.begin_phase(&format!("tests, then sets of {ITERATIONS} iterations"));
        let flops: Vec<f64> = run.cells.iter().map(HpcgCell::operations).collect();
        let shared = SharedObserver::new(observer);
        if limits.samples.is_none() {
            (&mut &shared).begin_phase("predicting the time of a set");
            // The reference program solves the problem on the planned domains.
            let may_shrink = options.grid == Self::DEFAULT_GRID && xhpcg.is_none();
            let grid = options.grid;
            let mut predicted =
                PredictedSets::new(&run, &mut pool, site, grid, may_shrink, &limits, &|| {
                    shared.is_interrupted()
                })?;
            limits.admit(&mut predicted)?;
            let PredictedSets { grid: shorter, kept_cells, .. } = predicted;
            notices.extend(shortened(grid, shorter));
            notices.extend(left_out_in_time(run.cells[kept_cells..].iter().map(|cell| cell.swept)));
            run = run.shortened(kept_cells, shorter)?;
        }
        let mut series = Series::new(policy::APPS, limits, run.cells.len());
        let all: Vec<usize> = (0..run.cells.len()).collect();
        series.run(
            &mut |turn: Turn| run.set(&mut pool, turn.cell, &|| shared.is_interrupted()),
            &mut &shared,
            Some(&|samples: &[Vec<Sample>]| latest_rate(&flops, samples)),
        )?;
        let mut reference = Vec::new();
        if let Some(xhpcg) = &xhpcg {
            let program = ReferenceProgramRun {
                phase: "xhpcg",
                compared: &all,
                run: &mut |has_ended| xhpcg.run(site, has_ended),
            };
            reference = series.run_reference_program(
                program,
                &mut |turn: Turn| run.set(&mut pool, turn.cell, &|| shared.is_interrupted()),
                &mut &shared,
            );
        }
        let known = site.round_trips.for_places(&pool.widest_team_cpus());
        let judged = series.samples_by_regime(&known);
        let evidence = HpcgEvidence { site, run: &run, judged, series: &series };
        let details = pool.widest_team_affinities();
        let mut outcome = Outcome { notices, details, ..Outcome::default() };
        let mut by_cell: Vec<Vec<Measurement>> =
            (0..run.cells.len()).map(|at| evidence.cell_figures(at)).collect();
        paired::limit_relative_validity(&mut by_cell, "rating", |at| evidence.baseline_cell(at));
        outcome.measurements = by_cell.concat();
        outcome.measurements.extend(reference);
        series.store_end(&mut outcome);
        outcome.notices.extend(reference::comparison_notice(&outcome.measurements));
        Ok(outcome)
    }
}

/// Returns the latest rate for the progress display: that of the last cell for which a set has been run. `flops` are
/// the operations per set of each cell.
fn latest_rate(flops: &[f64], samples: &[Vec<Sample>]) -> String {
    for (cell, of_set) in samples.iter().zip(flops).rev() {
        if let Some(last) = cell.last() {
            return FlopsPerSec(of_set / last.seconds[0]).to_string();
        }
    }
    String::new()
}

/// Formats the numbers of points of a domain: `16 x 16 x 32`.
fn in_words(grid: GridPoints) -> String {
    grid.map(|points| points.to_string()).join(" x ")
}

/// Returns a notice if the domains are smaller than planned, otherwise `None`.
fn shortened(before: GridPoints, now: GridPoints) -> Option<Notice> {
    (before != now).then(|| {
        let text = format!(
            "domains reduced from {} to {} points to keep the budget",
            in_words(before),
            in_words(now)
        );
        Notice::new(NoticeId::Clamped, GAUGE, text)
    })
}

/// One kind of workers, with the results of its sets.
struct HpcgCell<'a> {
    swept: &'a SweepWorkers,
    /// Index of the workers.
    workers: usize,
    layout: DomainLayout,
    exchange: DomainExchange,
    /// Results of the tests in the first set.
    tests: Option<TestResults>,
    sets: Vec<SetResult>,
}

impl<'a> HpcgCell<'a> {
    fn new(swept: &'a SweepWorkers, workers: usize, grid: GridPoints) -> Result<Self, Failure> {
        let layout = swept.layout(grid);
        Ok(Self {
            swept,
            workers,
            layout,
            exchange: DomainExchange::new(layout)?,
            tests: None,
            sets: Vec::new(),
        })
    }

    /// Returns the size of matrix and vectors, bytes.
    fn bytes(&self) -> u64 {
        bytes(&self.layout)
    }

    /// Returns the number of operations of a set, as counted by HPCG.
    fn operations(&self) -> f64 {
        OperationCounts::from_layout(&self.layout).total()
    }
}

/// Run of `apps hpcg` with all kinds of workers.
struct HpcgRun<'a> {
    /// Loops without prefetching and loops with prefetching.
    codes: [LoopCode; 2],
    cells: Vec<HpcgCell<'a>>,
}

impl<'a> HpcgRun<'a> {
    /// Returns the run with only the first `kept` cells, on domains of `grid`.
    fn shortened(&self, kept: usize, grid: GridPoints) -> Result<Self, Failure> {
        let mut cells = Vec::with_capacity(kept);
        for cell in &self.cells[..kept] {
            cells.push(HpcgCell::new(cell.swept, cell.workers, grid)?);
        }
        Ok(Self { codes: self.codes, cells })
    }

    /// Runs one set on newly created domains and returns it as a sample; empty if interrupted.
    fn set(
        &mut self,
        pool: &mut WorkerPool<'_>,
        at: usize,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Sample>, Failure> {
        let Self { codes, cells } = self;
        let cell = &mut cells[at];
        // Later sets use the loops that the first set chose.
        let codes = match cell.sets.first() {
            Some(set) => std::slice::from_ref(&codes[usize::from(set.prefetches)]),
            None => &codes[..],
        };
        let plan = DomainSetup { layout: &cell.layout, exchange: &cell.exchange, codes };
        let is_tested = cell.tests.is_some();
        let made = plan.run_set(pool, cell.workers, is_tested, interrupted)?;
        let Some((sample, set)) = made else { return Ok(Vec::new()) };
        cell.tests = cell.tests.or(set.tests);
        cell.sets.push(set);
        Ok(vec![sample])
    }
}

/// Measured data from which the figures are computed.
struct HpcgEvidence<'a> {
    site: &'a MeasuredNode,
    run: &'a HpcgRun<'a>,
    judged: SamplesByRegime,
    series: &'a Series,
}

impl HpcgEvidence<'_> {
    fn cell_figures(&self, at: usize) -> Vec<Measurement> {
        let Self { run, site, judged, .. } = self;
        let cell = &run.cells[at];
        let Some(timed) = judged.cell_samples(at) else {
            return self.lost(at).into_iter().collect();
        };
        let operations = OperationCounts::from_layout(&cell.layout);
        let config = self.config(cell);
        let mut validity = self.validity(cell);
        for doubt in judged.doubts(at, 0, site.machine.virtualisation.is_some()) {
            validity.mark_suspect(doubt);
        }
        // HPCG adds one tenth of the set-up time to each set.
        let overhead = config.setup_s.unwrap_or(0.0) / 10.0;
        let rating = Measurement::new(GAUGE, TEST, "rating", Unit::FlopsPerSecond);
        let rating =
            rating.with_timed_samples(QuotedStatistic::HarmonicMean, timed, 0, &|seconds| {
                operations.total() / (seconds + overhead)
            });
        let mut all = vec![rating];
        for (part, name) in PARTS.into_iter().enumerate() {
            let sets = timed.group.counted_indices(0).iter().map(|set| &cell.sets[*set]);
            let rates = sets.map(|set| operations.0[part] / set.seconds[part]).collect();
            let m = Measurement::new(GAUGE, TEST, name, Unit::FlopsPerSecond);
            all.push(m.with_samples(QuotedStatistic::HarmonicMean, rates));
        }
        let mut all: Vec<Measurement> = all
            .into_iter()
            .map(|m| {
                self.series.judge_figure(at, m.with_config(&config).with_validity(validity.clone()))
            })
            .collect();
        all.extend(self.relative(at, config));
        all
    }

    /// Returns the rating of a lost cell without a counting set; `None` for other cells.
    fn lost(&self, at: usize) -> Option<Measurement> {
        self.series.cell_failure(at)?;
        let m = Measurement::new(GAUGE, TEST, "rating", Unit::FlopsPerSecond);
        Some(self.series.judge_figure(at, m.with_config(&self.config(&self.run.cells[at]))))
    }

    /// Returns the index of the cell with the reference workers of another cell.
    fn baseline_cell(&self, at: usize) -> Option<usize> {
        let cells = &self.run.cells;
        let reference = &cells[at].swept.reference;
        cells.iter().position(|other| other.swept.settings == *reference)
    }

    /// Returns the rate of the workers divided by the rate of the reference workers, one ratio per round.
    fn relative(&self, at: usize, config: HpcgConfig) -> Option<Measurement> {
        let cells = &self.run.cells;
        let of = self.baseline_cell(at)?;
        if of == at || [of, at].iter().any(|cell| self.series.cell_failure(*cell).is_some()) {
            return None;
        }
        let base = &cells[of];
        let rounds = self.series.schedule.complete_rounds(&[of, at]);
        let work = cells[at].operations() / base.operations();
        let paired = PairedRounds::from_samples(&rounds).scaled_by(work);
        let mut validity = self.validity(&cells[at]);
        let of_base = self.validity(base);
        of_base.reasons.iter().for_each(|reason| validity.add(of_base.status, reason.as_str()));
        paired.doubt().into_iter().for_each(|reason| validity.mark_suspect(reason));
        let against = Some(base.swept.workers.in_words());
        let m = Measurement::new(GAUGE, TEST, "relative", Unit::Factor);
        let m = m.with_samples(QuotedStatistic::Median, paired.ratios().to_vec());
        Some(m.with_config(&HpcgConfig { against, ..config }).with_validity(validity))
    }

    fn config(&self, cell: &HpcgCell<'_>) -> HpcgConfig {
        let layout = cell.layout;
        let sets = &cell.sets;
        let last = sets.last();
        let seconds: f64 = sets.iter().map(|set| set.seconds.iter().sum::<f64>()).sum();
        let moved = moved_bytes(&layout) * layout.count() as u64;
        let per_second = moved as f64 * (ITERATIONS * sets.len()) as f64 / seconds;
        let setups: Vec<f64> = sets.iter().map(|set| set.setup_s.0).collect();
        let departures =
            cell.tests.and_then(|TestResults { departures: [x, y], .. }| Some(vec![x?, y?]));
        HpcgConfig {
            on: WorkersConfig::from_workers(&cell.swept.workers),
            engine: Some("native".to_owned()),
            grid: Some(layout.local.to_vec()),
            n: Some(layout.rows() as u64),
            domains: Some(layout.domains.to_vec()),
            columns: Some(PER_COEFFICIENT.to_owned()),
            isa: Some(isa_name(self.run.codes[0].isa()).to_owned()),
            prefetch: sets.first().map(|set| code::prefetch_setting(set.prefetches).to_string()),
            iterations: last.and_then(|set| Some(set.iterations? as u64)),
            residual: last.and_then(|set| set.residual),
            sets: Some(sets.len() as u64),
            symmetry: departures,
            spectral_iterations: cell.tests.map(|all| all.iterations.map(|n| n as u64).to_vec()),
            setup_s: Some(stats::median(&setups)).filter(|median| median.is_finite()),
            matrix_bytes: Some(cell.bytes()),
            moved_bytes: Some(moved),
            moved_bytes_per_s: Some(per_second).filter(|rate| rate.is_finite()),
            sweep: cell.swept.coordinates(),
            stopped: Some(self.series.stop_reason().to_string()),
            ..HpcgConfig::default()
        }
    }

    /// Returns the validity according to the tests of HPCG. The result is suspect if caches hold part of the problem.
    fn validity(&self, cell: &HpcgCell<'_>) -> Validity {
        let mut validity = Validity::valid();
        if let Some(tests) = &cell.tests {
            for (what, departure) in ["product", "multigrid cycle"].iter().zip(tests.departures) {
                if departure.is_none_or(|departure| departure > 1.0) {
                    validity.mark_invalid(format!(
                        "the {what} is not symmetric: |x'Ay - y'Ax| is {} times HPCG's limit",
                        in_digits(departure)
                    ));
                }
            }
            if tests.iterations.iter().zip(ALLOWED).any(|(n, allowed)| *n > allowed) {
                let [alone, preconditioned] = tests.iterations;
                validity.mark_invalid(format!(
                    "with a large diagonal, the solver takes {alone} iterations without and \
                     {preconditioned} with the preconditioner; HPCG allows {} and {}",
                    ALLOWED[0], ALLOWED[1]
                ));
            }
        }
        // The error of x is about as large as the residual; a larger error indicates wrong results.
        let mut distances = cell.sets.iter().map(|set| set.max_error);
        if let Some(off) = distances.find(|distance| distance.is_none_or(|x| x > 1e-3)) {
            validity.mark_invalid(format!("the solution deviates from 1 by {}", in_digits(off)));
        }
        if cell.sets.windows(2).any(|two| two[0].residual != two[1].residual) {
            validity.mark_invalid(
                "the final residuals of the sets differ: this machine does not compute \
                 reproducible results",
            );
        }
        let cpus: Vec<_> = cell.swept.workers.cpus();
        let held = self.site.cache_capacity(&cpus).bytes().map_or(0, |Bytes(bytes)| bytes);
        let bytes = cell.bytes();
        if (bytes as f64) < TIMES_LLC * held as f64 {
            validity.mark_suspect(format!(
                "matrix and vectors ({}) are smaller than four times the last-level caches in \
                 use ({}), so caches hold part of the data",
                Bytes(bytes),
                Bytes(held)
            ));
        }
        validity
    }
}

/// Returns the name of an instruction set in records of this test.
fn isa_name(isa: Isa) -> &'static str {
    match isa {
        Isa::Portable if cfg!(target_arch = "aarch64") => Isa::Neon.name(),
        Isa::Portable => "baseline",
        isa => isa.name(),
    }
}

/// Returns the statement that the figures are not valid HPCG results.
pub(crate) fn variant_statement() -> String {
    "based on a variant of HPCG with its problem, iterations, tests and operation counts; only \
     the reference code, tuned by the rules of HPCG, gives an HPCG result"
        .to_owned()
}
