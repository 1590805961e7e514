//! `apps hpcg`: the 27-point problem with a multigrid preconditioner as HPCG defines it, a domain a thread.
//!
//! A variant: only what the reference code prints, tuned by its rules, is HPCG's. Every coefficient is stored
//! and read; what is saved is told in `loops` and `domain`: indices, half of a matrix behind a sweep
//! forward, and residuals at points that no coarser grid has.

mod domain;
mod loops;
mod matrix;
mod meeting;
pub mod output;
pub mod problem;
mod reference;
pub(crate) mod view;

use crate::config::HpcgConfig;
use crate::{GAUGE, TIMES_LLC, Workers, workers};
use domain::{Domain, Solved, Until};
use loops::Loops;
use meeting::{Meeting, Place};
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_measure::expect::Figures;
use nodegauge_measure::progress::SharedObserver;
use nodegauge_measure::record::{Measurement, Quoted, Validity};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::samples::{OneRegime, Sample};
use nodegauge_measure::schedule::{Limits, Schedule, policy};
use nodegauge_measure::{Bytes, Failure, FlopsPerSec, Notice, Observer, Outcome, Unit, clock};
use nodegauge_placement::Placement;
use nodegauge_team::core_to_core::SharedLines;
use nodegauge_team::{Team, TeamError};
use problem::{Grid, ITERATIONS, LEAST, Layout, MULTIPLE, Operations, PARTS};
use reference::PlacedXhpcg;
pub use reference::XhpcgOptions;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// `test` of its figures.
pub const TEST: &str = "hpcg";
/// Native sets behind the reference program's run.
const BEHIND: usize = 3;
/// How often the user is asked during a set.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What HPCG allows: iterations of its test of convergence, alone and preconditioned.
const ALLOWED: [usize; 2] = [12, 2];

/// What can be asked of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct HpcgOptions {
    /// Points of a domain in each direction.
    pub grid: Grid,
    /// Largest share of the memory that can be had which may be taken, 0 to 1.
    pub memory_fraction: f64,
    /// Time for everything.
    pub budget: Duration,
    /// Exactly this many sets behind the warm-up, whatever the time.
    pub samples: Option<usize>,
    /// The reference program to run as well.
    pub xhpcg: Option<XhpcgOptions>,
}

/// A planned run.
pub struct HpcgPlan {
    placement: Placement,
    layout: Layout,
    options: HpcgOptions,
    notices: Vec<Notice>,
    xhpcg: Option<PlacedXhpcg>,
}

impl HpcgPlan {
    /// Time for everything unless the user says otherwise: some sets on the usual grid.
    pub const BUDGET: Duration = Duration::from_secs(60);
    /// Points of a domain unless the user says otherwise.
    pub const GRID: Grid = [104; 3];

    /// Plans a run of a domain a thread.
    ///
    /// # Errors
    /// A grid that cannot be made coarser as often as is needed, is too small or too flat, or does not fit
    /// into memory.
    pub fn new(
        site: &Site,
        placement: Placement,
        options: HpcgOptions,
        notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        let grid = options.grid;
        let [x, y, z] = grid;
        let wrong = |problem: String| {
            Err(Failure::usage(format!(
                "a grid of {x} x {y} x {z} points: {problem}\nhint: e.g. --grid 104"
            )))
        };
        if let Some(points) = grid.iter().find(|points| !points.is_multiple_of(MULTIPLE)) {
            return wrong(format!("{points} is no multiple of {MULTIPLE}, as four grids need"));
        }
        let (least, most) = (x.min(y).min(z), x.max(y).max(z));
        if least < LEAST || 8 * least < most {
            return wrong(format!(
                "{LEAST} points at least in each direction, and none eight times another's"
            ));
        }
        let layout = Layout::new(grid, placement.threads.len());
        let needed = Domain::bytes(&layout).saturating_mul(layout.count() as u64);
        let usable =
            site.machine.memory.available.map(|bytes| bytes as f64 * options.memory_fraction);
        if let Some(usable) = usable.filter(|usable| *usable < needed as f64) {
            let fits = (LEAST..=most).step_by(MULTIPLE).filter(|points| {
                let layout = Layout::new([*points; 3], layout.count());
                Domain::bytes(&layout) as f64 * layout.count() as f64 <= usable
            });
            let remedy = match fits.last() {
                Some(points) => format!("--grid {points} fits"),
                None => "use fewer threads".to_owned(),
            };
            return Err(Failure::missing(format!(
                "{} domains of {x} x {y} x {z} points need {}, but only {} of memory may be used\nhint: {remedy}, or give a larger --memory-fraction",
                layout.count(),
                Bytes(needed),
                Bytes(usable as u64),
            )));
        }
        let find = |asked| PlacedXhpcg::find(site, layout, asked);
        let xhpcg = options.xhpcg.as_ref().map(find).transpose()?;
        Ok(Self { placement, layout, options, notices, xhpcg })
    }

    fn bytes(&self) -> u64 {
        Domain::bytes(&self.layout) * self.layout.count() as u64
    }
}

impl Planned for HpcgPlan {
    fn foreseen(&self) -> Foreseen {
        Foreseen { time: Some(self.options.budget), memory: Some(Bytes(self.bytes())) }
    }

    fn figures(&self, _: &Site) -> Vec<Figures> {
        let names = ["rating"].into_iter().chain(PARTS);
        vec![Figures::new((GAUGE, TEST), names, &[Unit::FlopsPerSecond])]
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let Self { placement, layout, options, notices, xhpcg } = *self;
        let limits = Limits::new(options.budget, options.samples);
        let workers = Workers::Threads(placement.clone());
        let places = workers::masks(&placement);
        let mut team = Team::start(&places)?;
        let lines = SharedLines::of_places(&places);
        let details = team.observed().iter().map(ToString::to_string).collect();
        let meeting = Meeting::new(layout)?;
        let [x, y, z] = layout.global();
        observer.phase(&format!("preparing {x} x {y} x {z} points"));
        let begun = clock::now();
        let loops = Loops::detect();
        let made = team.map(|member| Domain::new(&layout, member.index, loops).map(Mutex::new))?;
        let setting_up = clock::now() - begun;
        let domains = made.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut run = Run { layout, meeting, domains, sets: Vec::new(), wrong: Vec::new() };
        observer.phase("testing symmetry and convergence");
        let tests = run.tests(&mut team)?;
        observer.phase(&format!("sets of {ITERATIONS} iterations"));
        let flops = Operations::of(&layout).total();
        let latest = |samples: &[Vec<Sample>]| {
            let last = samples[0].last().and_then(|sample| sample.seconds.first());
            last.map_or_else(String::new, |seconds| FlopsPerSec(flops / seconds).to_string())
        };
        let shared = SharedObserver::new(observer);
        let mut schedule = Schedule::new(policy::APPS, limits, 1);
        let stop = schedule.run(&mut &shared, Some(&latest), |_| {
            run.set(&mut team, &lines, &|| (&shared).interrupted())
        })?;
        // A set that is ended early is no sample, and leaves nothing to be measured.
        let stop = if (&shared).interrupted() { Stop::Interrupted } else { stop };
        // Native sets before and behind it, so that neither has the better minutes.
        let mut reference = Ok(None);
        if let (Some(xhpcg), true) = (&xhpcg, stop != Stop::Interrupted) {
            (&mut &shared).phase("xhpcg");
            reference = xhpcg.run(site, &|| (&shared).interrupted());
            schedule
                .again(&[0], BEHIND, |_| run.set(&mut team, &lines, &|| (&shared).interrupted()))?;
        }
        let evidence =
            Evidence { site, workers: &workers, run: &run, tests, loops, setting_up, stop };
        let mut outcome = Outcome { notices, details, stop: Some(stop), ..Outcome::default() };
        outcome.measurements = evidence.measurements(schedule.samples.remove(0));
        match reference {
            Ok(figures) => outcome.measurements.extend(figures.into_iter().flatten()),
            Err(failure) => outcome.failure = Some(failure),
        }
        outcome.notices.extend(reference::compare(&outcome.measurements));
        if xhpcg.is_none() {
            outcome.notices.extend(limits.overrun(GAUGE, setting_up));
        }
        Ok(outcome)
    }
}

/// What HPCG's tests came to.
#[derive(Debug, Clone, Copy)]
struct Tests {
    /// Departure from symmetry of the product and of the multigrid cycle, scaled.
    departures: [f64; 2],
    /// Iterations with a great diagonal, alone and preconditioned.
    iterations: [usize; 2],
}

/// Domains under way.
struct Run {
    layout: Layout,
    meeting: Meeting,
    domains: Vec<Mutex<Domain>>,
    /// What each set came to, with the seconds of the slowest domain in each part.
    sets: Vec<Solved>,
    /// What is wrong with sets.
    wrong: Vec<String>,
}

impl Run {
    fn tests(&mut self, team: &mut Team) -> Result<Tests, Failure> {
        let all = team.map(|member| {
            let mut domain =
                self.domains[member.index].lock().unwrap_or_else(PoisonError::into_inner);
            let place = Place::new(&self.meeting, member);
            let departures = domain.symmetry_test(&place, member.index);
            let iterations = domain.spectral_test(&place, &self.layout, member.index);
            Tests { departures, iterations }
        })?;
        // All domains have the same sums.
        all.first().copied().ok_or_else(|| Failure::missing("no thread has a domain"))
    }

    /// A set, as a sample; none where the user wants an end.
    fn set(
        &mut self,
        team: &mut Team,
        lines: &SharedLines,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Sample>, Failure> {
        let stop = AtomicBool::new(false);
        let (meeting, domains) = (&self.meeting, &self.domains);
        let until =
            Until { iterations: ITERATIONS, tolerance: 0.0, preconditioned: true, stop: &stop };
        let solved = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                team.sample(lines, |member, laps| {
                    let domain = &domains[member.index];
                    let mut domain = domain.lock().unwrap_or_else(PoisonError::into_inner);
                    let place = Place::new(meeting, member);
                    let solved = laps.time(|| domain.solve(&place, until));
                    (solved, domain.distance())
                })
            });
            while !worker.is_finished() {
                std::thread::park_timeout(LOOK_EVERY);
                if interrupted() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            worker.join().unwrap_or(Err(TeamError::Panicked(0)))
        });
        let (sample, timed) = solved?;
        let mut of_set = Solved::default();
        for (solved, distance) in timed.made {
            let Some(solved) = solved else { return Ok(Vec::new()) };
            (of_set.iterations, of_set.residual) = (solved.iterations, solved.residual);
            for (most, seconds) in of_set.seconds.iter_mut().zip(solved.seconds) {
                *most = most.max(seconds);
            }
            // The residual's accuracy is that of x; NaN is greater than any.
            if distance.total_cmp(&1e-3).is_gt() {
                self.wrong.push(format!("the solution is {distance:.1e} off 1"));
            }
        }
        self.sets.push(of_set);
        Ok(vec![sample])
    }
}

/// What figures are made of.
struct Evidence<'a> {
    site: &'a Site,
    workers: &'a Workers,
    run: &'a Run,
    tests: Tests,
    loops: Loops,
    setting_up: Duration,
    stop: Stop,
}

impl Evidence<'_> {
    fn measurements(&self, samples: Vec<Sample>) -> Vec<Measurement> {
        let Self { run, site, .. } = self;
        let operations = Operations::of(&run.layout);
        let config = self.config();
        let known = config.on.cpus.clone().unwrap_or_default();
        let known = site.round_trips.between(&known);
        let judged = OneRegime::new(vec![samples], &known);
        let Some(timed) = judged.of(0) else { return Vec::new() };
        let mut validity = self.validity();
        for doubt in judged.doubts(0, 0, site.machine.virtualisation.is_some()) {
            validity.suspect(doubt);
        }
        let figure = |name: &str| Measurement::new(GAUGE, TEST, name, Unit::FlopsPerSecond);
        // HPCG adds a tenth of the time to set up to each set.
        let overhead = self.setting_up.as_secs_f64() / 10.0;
        let rating = |seconds: f64| operations.total() / (seconds + overhead);
        let rating = figure("rating").timed(Quoted::HarmonicMean, timed, 0, &rating);
        let counted: Vec<usize> = timed.2.counted(0).to_vec();
        let part = |(part, name): (usize, &&str)| {
            let rate = |set: &usize| operations.0[part] / run.sets[*set].seconds[part];
            let rates = counted.iter().map(rate).collect();
            figure(name).sampled(Quoted::HarmonicMean, rates)
        };
        let parts = PARTS.iter().enumerate().map(part);
        let all = std::iter::once(rating).chain(parts);
        all.map(|m| m.config(&config).judged(validity.clone())).collect()
    }

    fn config(&self) -> HpcgConfig {
        let Self { run, tests, .. } = self;
        let layout = run.layout;
        let last = run.sets.last();
        let seconds: f64 = run.sets.iter().map(|set| set.seconds.iter().sum::<f64>()).sum();
        let moved = Domain::moved(&layout) * layout.count() as u64;
        let per_second = moved as f64 * (ITERATIONS * run.sets.len()) as f64 / seconds;
        HpcgConfig {
            on: self.workers.config(),
            engine: Some("native".to_owned()),
            grid: Some(layout.local.to_vec()),
            n: Some(layout.rows() as u64),
            domains: Some(layout.domains.to_vec()),
            isa: Some(self.loops.isa.to_owned()),
            iterations: last.map(|set| set.iterations as u64),
            residual: last.map(|set| set.residual).filter(|residual| residual.is_finite()),
            sets: Some(run.sets.len() as u64),
            symmetry: Some(tests.departures.to_vec())
                .filter(|all| all.iter().all(|x| x.is_finite())),
            spectral_iterations: Some(tests.iterations.map(|n| n as u64).to_vec()),
            setup_s: Some(self.setting_up.as_secs_f64()),
            matrix_bytes: Some(Domain::bytes(&layout) * layout.count() as u64),
            moved_bytes: Some(moved),
            moved_bytes_per_s: Some(per_second).filter(|rate| rate.is_finite()),
            stopped: Some(self.stop.to_string()),
            ..HpcgConfig::default()
        }
    }

    /// What HPCG's own tests say, and whether the caches help.
    fn validity(&self) -> Validity {
        let Self { run, tests, site, .. } = self;
        let mut validity = Validity::valid();
        for (what, departure) in ["product", "multigrid cycle"].iter().zip(tests.departures) {
            if departure.total_cmp(&1.0).is_gt() {
                validity.invalid(format!("the {what} is not symmetric: |x'Ay - y'Ax| is {departure:.1e} times what HPCG allows"));
            }
        }
        if tests.iterations.iter().zip(ALLOWED).any(|(iterations, allowed)| *iterations > allowed) {
            let [alone, preconditioned] = tests.iterations;
            validity.invalid(format!(
                "with a great diagonal it takes {alone} iterations, {preconditioned} preconditioned, where HPCG allows {} and {}",
                ALLOWED[0], ALLOWED[1]
            ));
        }
        for wrong in run.wrong.iter().take(1) {
            validity.invalid(wrong);
        }
        if run.sets.windows(2).any(|two| two[0].residual.to_bits() != two[1].residual.to_bits()) {
            validity.invalid(
                "sets end with different residuals: this machine does not compute the same twice",
            );
        }
        let cpus: Vec<_> = self.workers.cpus();
        let held = site.topology.llc_in_use(&cpus).map_or(0, |(bytes, _)| bytes);
        let bytes = Domain::bytes(&run.layout) * run.layout.count() as u64;
        if (bytes as f64) < TIMES_LLC * held as f64 {
            validity.suspect(format!(
                "matrix and vectors of {} are below four times the last-level caches in use ({}), and partly lie there",
                Bytes(bytes),
                Bytes(held)
            ));
        }
        validity
    }
}

/// What a figure of the run must not be taken for.
pub(crate) fn variant() -> String {
    "based on a variant of HPCG: its problem, iterations, tests and counts; only the reference code, tuned by its rules, gives an HPCG result".to_owned()
}
