//! Curves of latency and bandwidth: the rest of the memory system.
//!
//! Five modes take samples of their cells by turns: `ladder` (bandwidth by working set), `latency` (a
//! pointer chase by working set), `matrix` (every NUMA node to every other, and CPU to CPU), `loaded`
//! (latency beside traffic) and `mix` (reads to writes). Each plans itself, and measures in a `run`.

mod ceilings;
mod chase;
pub mod config;
mod gauge;
mod ladder;
mod latency;
mod levels;
mod lines;
mod loaded;
mod matrix;
mod mix;
mod pool;
mod region;
mod run;
mod thinned;
mod traffic;
mod view;

pub use chase::{Locality, Order};
pub use gauge::Curves;
pub use nodegauge_arena::GAUGE;

use nodegauge_analysis::expect::Figures;
use nodegauge_arena::ArenaError;
use nodegauge_arena::Pages;
use nodegauge_arena::supply::{available, best_pages};
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_machine::CpuId;
use nodegauge_measure::schedule::Limits;
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer, Outcome, Unit};
use nodegauge_placement::{MemoryPolicy, Placement};
use run::Run;
use std::time::Duration;

/// What can be asked of every curve.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveOptions {
    /// Pages; `None` leaves the choice.
    pub pages: Option<Pages>,
    /// Memory policy.
    pub policy: MemoryPolicy,
    /// Largest working set, all threads together; `None` takes four times the last-level caches in
    /// use.
    pub largest: Option<Bytes>,
    /// Largest share of the memory that can be had which may be taken, 0 to 1.
    pub memory_fraction: f64,
    /// In which order a chase goes through its memory.
    pub order: Order,
    /// Whether ceilings have kernels under them.
    pub kernels: bool,
    /// What ends the names of ceilings.
    pub suffix: &'static str,
    /// Time for everything.
    pub budget: Duration,
    /// Exactly this many rounds after the warm-up, whatever the time.
    pub samples: Option<usize>,
}

impl Default for CurveOptions {
    fn default() -> Self {
        Self {
            pages: None,
            policy: MemoryPolicy::default(),
            largest: None,
            memory_fraction: 0.5,
            order: Order::default(),
            kernels: false,
            suffix: "",
            budget: Duration::ZERO,
            samples: None,
        }
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// Bandwidth of read, write, copy and triad by working set.
    Ladder,
    /// Idle latency by working set.
    Latency,
    /// Each NUMA node to each, and CPU to CPU.
    Matrix,
    /// Latency under growing load.
    Loaded,
    /// Bandwidth of reads to writes.
    Mix,
    /// Bandwidths of each level for a roofline.
    Ceilings,
}

/// How figures of a curve come about, planned for a node.
trait Mode {
    /// Memory that it takes.
    fn memory(&self) -> Bytes;

    /// What it may find, where the plan knows.
    fn figures(&self) -> Vec<Figures> {
        Vec::new()
    }

    /// Measures, and leaves what it found in the run's outcome.
    fn measure(&self, run: &mut Run<'_>) -> Result<(), ArenaError>;
}

/// A planned curve.
pub struct CurvePlan {
    curve: Curve,
    placement: Placement,
    options: CurveOptions,
    notices: Vec<Notice>,
    mode: Box<dyn Mode>,
}

impl CurvePlan {
    /// Plans a curve; `notices` are those of the request for the placement.
    ///
    /// # Errors
    /// Sets below the smallest or beyond what may be used, or threads that do not suit the curve.
    pub fn new(
        curve: Curve,
        site: &Site,
        placement: Placement,
        options: CurveOptions,
        mut notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        if curve != Curve::Matrix {
            let said = placement.notices.iter().map(|text| notice(NoticeId::Environment, text));
            nodegauge_measure::notice::add_new(&mut notices, said);
        }
        let setup = Setup { site, placement: &placement, options: &options };
        let mode: Box<dyn Mode> = match curve {
            Curve::Ladder => Box::new(ladder::plan(setup, &mut notices)?),
            Curve::Latency => Box::new(latency::plan(setup, &mut notices)?),
            Curve::Matrix => Box::new(matrix::plan(setup, &mut notices)?),
            Curve::Loaded => Box::new(loaded::plan(setup, &mut notices)?),
            Curve::Mix => Box::new(mix::plan(setup, &mut notices)?),
            Curve::Ceilings => Box::new(ceilings::plan(setup, &mut notices)?),
        };
        Ok(Self { curve, placement, options, notices, mode })
    }
}

impl Planned for CurvePlan {
    fn foreseen(&self) -> Foreseen {
        Foreseen { time: Some(self.options.budget), memory: Some(self.mode.memory()) }
    }

    fn figures(&self, site: &Site) -> Vec<Figures> {
        let size = |name: &str| name.parse::<u64>().is_ok();
        let rate = &[Unit::BytesPerSecond];
        let of = |test, names: &[&str], units| Figures::new((GAUGE, test), names.to_vec(), units);
        let limited = nodegauge_machine::bandwidth_of(&site.machine, &[]).is_some();
        let test = self.curve.test();
        vec![match self.curve {
            Curve::Ladder => of(test, &["65536"], rate).or_like(size),
            Curve::Latency => of(test, &["65536"], &[Unit::Seconds]).or_like(size),
            Curve::Matrix => {
                of(test, &["n0->n0", "cpu0->cpu1"], &[Unit::BytesPerSecond, Unit::Seconds])
                    .or_like(|name| name.contains("->"))
                    .limited(limited)
            }
            Curve::Loaded => {
                Figures::new((GAUGE, test), loaded::names(), &[Unit::BytesPerSecond, Unit::Seconds])
            }
            Curve::Mix => Figures::new((GAUGE, test), mix::names(), rate).limited(limited),
            Curve::Ceilings => return self.mode.figures(),
        }]
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let Self { curve, placement, options, notices, mode } = *self;
        let mut run = Run {
            curve,
            setup: Setup { site, placement: &placement, options: &options },
            limits: Limits::new(options.budget, options.samples),
            observer,
            outcome: Outcome { notices, ..Outcome::default() },
            setting_up: Duration::ZERO,
        };
        mode.measure(&mut run)?;
        run.outcome.notices.extend(run.limits.overrun(GAUGE, run.setting_up));
        Ok(run.outcome)
    }
}

/// Times the sum of last-level caches in use that the largest working set has.
const TIMES_LLC: u64 = 4;
/// The largest working set where no cache is known, and the least where a hypervisor tells of them:
/// more than four times any desktop's cache.
const UNKNOWN_CACHE: Bytes = Bytes::mib(512);

/// The node, the threads on it, and what was asked.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    site: &'a Site,
    placement: &'a Placement,
    options: &'a CurveOptions,
}

impl Setup<'_> {
    fn threads(&self) -> u64 {
        self.placement.threads.len().max(1) as u64
    }

    /// Sum of the last-level caches that the threads reach, when known.
    fn llc(&self) -> Option<Bytes> {
        self.site.topology.llc_in_use(&self.placement.cpus()).map(|(bytes, _)| Bytes(bytes))
    }

    /// Bytes that the last-level caches hold, for warming; a guess where none is known.
    fn held(&self) -> u64 {
        self.llc().map_or(64 << 20, |llc| llc.0)
    }

    /// The largest working set: as asked, else four times the last-level caches in use, with a
    /// notice when no cache is known.
    fn largest(&self, notices: &mut Vec<Notice>) -> Bytes {
        match (self.options.largest, self.llc()) {
            (Some(largest), _) => largest,
            (None, Some(llc)) => {
                let least = if self.guest() { UNKNOWN_CACHE } else { Bytes::mib(4) };
                Bytes((llc.0 * TIMES_LLC).max(least.0))
            }
            (None, None) => {
                let text = format!(
                    "the size of the last-level cache is not known: sets grow up to {UNKNOWN_CACHE}"
                );
                notices.push(notice(NoticeId::Assumed, text));
                UNKNOWN_CACHE
            }
        }
    }

    /// Whether a hypervisor tells what caches there are.
    fn guest(&self) -> bool {
        self.site.machine.virtualisation.is_some()
    }

    /// Memory that may be taken.
    fn usable(&self) -> Bytes {
        let options = self.options;
        let can_be_had = available(&self.site.machine, options.pages, &options.policy);
        Bytes((can_be_had.as_f64() * options.memory_fraction) as u64)
    }

    /// The pages to take.
    fn pages(&self) -> Pages {
        self.options.pages.unwrap_or_else(|| best_pages(&self.site.machine))
    }

    /// A CPU that is free of the placement's threads: for the core-to-core latency of a single thread.
    fn spare(&self) -> Option<CpuId> {
        let used = self.placement.cpus();
        self.site.topology.allowed().map(|thread| thread.cpu).find(|cpu| !used.contains(cpu))
    }
}

fn notice(id: NoticeId, text: impl Into<String>) -> Notice {
    Notice::new(id, GAUGE, text)
}

/// Refuses a largest working set below the smallest.
fn refuse_below(least: Bytes, given: Bytes) -> Result<(), Failure> {
    match given < least {
        true => Err(Failure::usage(format!(
            "a largest working set of {given} is below the smallest of {least}"
        ))
        .hint(format!("give --size {least} or more"))),
        false => Ok(()),
    }
}

/// The memory that can be had is too small.
fn too_large(what: &str, needed: Bytes, usable: Bytes) -> Failure {
    Failure::missing(format!("{what} needs {needed}, but only {usable} of memory may be used"))
        .hint("use a smaller --size, or a larger --memory-fraction")
}
