//! Options of an `hpl` run, after defaults and saved figures have been applied.

use crate::size::{OrderSpec, SizeConstraints};
use nodegauge_measure::record::Machine;
use nodegauge_measure::{Bytes, BytesPerSec, FlopsPerSec, Fraction, Seconds};
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::blas::BlasRequest;
use std::path::PathBuf;
use std::time::Duration;

/// Options of an `hpl` run.
#[derive(Debug, Clone, PartialEq)]
pub struct HplOptions {
    /// Rule by which N is chosen.
    pub order: OrderSpec,
    /// Share of the available memory for the matrix with [`OrderSpec::Full`], 0 to 1.
    pub memory_fraction: Fraction,
    /// Candidates for the panel width NB; if empty, a search chooses NB.
    pub nb: Vec<usize>,
    /// True if N must be a multiple of NB x LCM(P, Q) of the reference program's grid.
    pub grid_multiple: bool,
    /// Seed of the random matrix.
    pub seed: u64,
    /// Time budget of the whole run.
    pub budget: Duration,
    /// Number of solves.
    pub samples: usize,
    /// Requested BLAS libraries; if empty, the fastest installed library is used.
    pub libraries: Vec<BlasRequest>,
    /// Triad bandwidth of this node with the source of that figure, for comparison with the memory traffic of the
    /// products.
    pub triad: Option<(BytesPerSec, String)>,
    /// DGEMM rate of this node with the same number of threads, with the source of that figure. It is used to predict
    /// the time.
    pub dgemm: Option<(FlopsPerSec, String)>,
    /// Rate that the user gave, used instead of the DGEMM rate to predict the time.
    pub rate: Option<FlopsPerSec>,
    /// Order at which LU reaches half of the DGEMM rate, from a saved rating with the same number of threads
    /// ([`size::half_rate_order_from_share`](crate::size::half_rate_order_from_share)).
    pub half_rate_order: Option<f64>,
    /// True if an option sets the available memory.
    pub is_memory_given: bool,
    /// Ranks of the reference program.
    pub ranks: RankOptions,
    /// Reference program to run in addition; `None` without one.
    pub reference: Option<ReferenceProgramOptions>,
}

/// Requested ranks of the reference program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankOptions {
    /// Number of ranks on each host.
    pub ranks: Option<usize>,
    /// Total number of threads of all ranks on a host.
    pub threads: Option<usize>,
    /// Hosts; empty for this node.
    pub hosts: Vec<String>,
}

/// Options of the reference program, xhpl or hpcc.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceProgramOptions {
    /// Path of xhpl or hpcc.
    pub program: PathBuf,
    /// Launcher of the ranks.
    pub launcher: Option<CommandLine>,
    /// True to pass the option that permits running as root to launchers that would refuse.
    pub allow_root: bool,
}

/// Default time for the whole run.
pub const BUDGET: Duration = Duration::from_secs(15);
/// Upper bound of the memory of a node, in bytes.
const MAX_NODE_MEMORY: u64 = 1 << 60;
/// Share of the budget for the solve; generating and checking the matrix takes the rest.
const SOLVE_SHARE: f64 = 0.5;

impl Default for HplOptions {
    fn default() -> Self {
        Self {
            order: OrderSpec::Quick,
            memory_fraction: Fraction(0.8),
            nb: Vec::new(),
            grid_multiple: false,
            seed: 1,
            budget: BUDGET,
            samples: 1,
            libraries: Vec::new(),
            triad: None,
            dgemm: None,
            rate: None,
            half_rate_order: None,
            is_memory_given: false,
            ranks: RankOptions::default(),
            reference: None,
        }
    }
}

impl HplOptions {
    /// Returns the constraints on N, which must be a multiple of `multiple`.
    pub(crate) fn constraints(
        &self,
        machine: &Machine,
        dgemm: FlopsPerSec,
        threads: usize,
        multiple: usize,
    ) -> SizeConstraints {
        // On a described machine, a requested order is planned even if it does not fit into memory.
        let planned = machine.is_described() && matches!(self.order, OrderSpec::Given(_));
        let unknown = if planned { MAX_NODE_MEMORY } else { 0 };
        let memory = &machine.memory;
        let limit = memory.cgroup_limit.filter(|limit| Some(*limit) < memory.bytes);
        SizeConstraints {
            available: Bytes(memory.available.unwrap_or(unknown)),
            cgroup_limit: limit.map(Bytes),
            process_limit: memory.process_limit.map(Bytes),
            memory_fraction: self.memory_fraction,
            dgemm,
            threads,
            half_rate_order: self.half_rate_order,
            is_given: self.is_memory_given,
            seconds: Seconds::from(self.budget) * SOLVE_SHARE / self.samples.max(1) as f64,
            overhead: Seconds(0.0),
            multiple,
        }
    }
}
