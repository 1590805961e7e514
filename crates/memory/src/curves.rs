//! Curves of latency and bandwidth: the rest of the memory system.
//!
//! [`ladder`] (bandwidth by working set), [`latency`] (a pointer chase by working set), [`matrix`]
//! (every NUMA node to every other, and CPU to CPU), [`loaded`] (latency beside traffic) and [`mix`]
//! (reads to writes). All take samples of their configurations by turns, in a random order that is
//! new each round, so that drift becomes spread and not structure. `pool` is who measures, `area`
//! the memory, [`chase`] the chain of pointers, `rounds` the turns, `figures` makes measurements of
//! samples, [`levels`] reads plateaus off a curve.

pub mod chase;
mod figures;
pub mod ladder;
pub mod latency;
pub mod levels;
pub mod lines;
pub mod loaded;
pub mod matrix;
pub mod mix;
mod pool;
mod region;
mod rounds;
mod traffic;

use crate::arrays::Pages;
use crate::point::PointError;
use crate::stream;
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::Bytes;
use nodegauge_measure::record::{Finding, Machine, Measurement};
use nodegauge_placement::{MemoryPolicy, Placement};
use std::time::Duration;

/// What can be asked of every relative.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
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
    pub order: chase::Order,
    /// Time for everything.
    pub budget: Duration,
    /// Exactly this many rounds after the warm-up, whatever the time.
    pub samples: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pages: None,
            policy: MemoryPolicy::Default,
            largest: None,
            memory_fraction: 0.5,
            order: chase::Order::default(),
            budget: Duration::from_secs(12),
            samples: None,
        }
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum CurveError {
    /// Threads, memory, pages.
    #[error(transparent)]
    Point(#[from] PointError),
    /// The memory that can be had is too small.
    #[error(
        "{what} needs {needed}, but only {usable} of memory may be used\nhint: use a smaller --size, or a larger --memory-fraction"
    )]
    TooLarge {
        /// What was to be measured.
        what: &'static str,
        /// How much it needs.
        needed: Bytes,
        /// How much it may take.
        usable: Bytes,
    },
    /// A largest working set below the smallest.
    #[error(
        "a largest working set of {given} is below the smallest of {least}\nhint: give --size {least} or more"
    )]
    TooSmall {
        /// What was given.
        given: Bytes,
        /// The smallest.
        least: Bytes,
    },
    /// Loaded latency without a thread that loads.
    #[error(
        "latency under load takes at least two threads, one that waits and one that loads; there is {0}\nhint: --threads 2"
    )]
    NoLoaders(usize),
    /// A chase takes one thread.
    #[error("latency is of one thread, and {0} are asked for\nhint: --threads 1")]
    OneThread(usize),
}

/// What a relative found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// One a configuration, in their natural order; none of what was not reached.
    pub measurements: Vec<Measurement>,
    /// What was clamped, assumed, or found out.
    pub notices: Vec<String>,
    /// What was found out about the machine.
    pub findings: Vec<Finding>,
    /// Where each thread ran, one line a thread.
    pub affinity: Vec<String>,
    /// Whether the user ended it.
    pub interrupted: bool,
}

/// The node and the threads on it.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// Processors, caches, NUMA nodes.
    pub topology: &'a Topology,
    /// The same and more, as the record keeps it.
    pub machine: &'a Machine,
    /// Where each thread goes.
    pub placement: &'a Placement,
}

/// Times the sum of last-level caches in use that the largest working set has.
const TIMES_LLC: u64 = 4;
/// The largest working set where no cache is known: more than four times any desktop's cache.
const UNKNOWN_CACHE: Bytes = Bytes::mib(512);

impl Site<'_> {
    /// CPUs of all threads.
    fn cpus(&self) -> Vec<CpuId> {
        self.placement.threads.iter().flat_map(|thread| thread.cpus.clone()).collect()
    }

    /// Sum of the last-level caches that the threads reach, when known.
    fn llc(&self) -> Option<Bytes> {
        self.topology.llc_in_use(&self.cpus()).map(|(bytes, _)| Bytes(bytes))
    }

    /// The largest working set: as asked, else four times the last-level caches in use, with a
    /// notice when no cache is known.
    fn largest(&self, options: &Options, notices: &mut Vec<String>) -> Bytes {
        match (options.largest, self.llc()) {
            (Some(largest), _) => largest,
            (None, Some(llc)) => Bytes((llc.0 * TIMES_LLC).max(4 << 20)),
            (None, None) => {
                notices.push(format!(
                    "the size of the last-level cache is not known: sets grow up to {UNKNOWN_CACHE}"
                ));
                UNKNOWN_CACHE
            }
        }
    }

    /// Memory that may be taken on such pages.
    fn usable(&self, options: &Options, pages: Option<Pages>) -> Bytes {
        let can_be_had = stream::available(self.machine, pages, &options.policy);
        Bytes((can_be_had.as_f64() * options.memory_fraction) as u64)
    }

    /// A CPU that is free of the placement's threads: for the core-to-core latency of a single thread.
    fn spare(&self) -> Option<CpuId> {
        let used = self.cpus();
        self.topology.allowed().map(|thread| thread.cpu).find(|cpu| !used.contains(cpu))
    }
}

/// The pages to take when the user leaves the choice.
fn pages_or_best(options: &Options, machine: &Machine) -> Pages {
    options.pages.unwrap_or_else(|| stream::best_pages(machine))
}

impl From<CurveError> for nodegauge_measure::Failure {
    fn from(error: CurveError) -> Self {
        match error {
            CurveError::Point(_) | CurveError::TooLarge { .. } => Self::missing(error),
            CurveError::TooSmall { .. } | CurveError::NoLoaders(_) | CurveError::OneThread(_) => {
                Self::usage(error)
            }
        }
    }
}
