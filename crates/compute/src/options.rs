//! What can be asked of a run.

use crate::size::{OrderSpec, SizeConstraints};
use nodegauge_measure::record::Machine;
use nodegauge_measure::{Bytes, BytesPerSec, FlopsPerSec};
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::blas::BlasRequest;
use std::path::PathBuf;
use std::time::Duration;

/// What can be asked of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct HplOptions {
    /// How N is chosen.
    pub order: OrderSpec,
    /// Share of the available memory for the matrix with [`OrderSpec::Full`], 0 to 1.
    pub fraction: f64,
    /// Widths of panels to choose from; empty searches.
    pub nb: Vec<usize>,
    /// Whether N shall be a multiple of NB x LCM(P, Q) of the reference program's grid.
    pub grid_multiple: bool,
    /// Of the random matrix.
    pub seed: u64,
    /// Time for everything.
    pub budget: Duration,
    /// Solutions.
    pub samples: usize,
    /// Libraries that multiply; empty takes the fastest of all that are found.
    pub libraries: Vec<BlasRequest>,
    /// This node's Triad and where it comes from, to hold the products' traffic against.
    pub triad: Option<(BytesPerSec, String)>,
    /// This node's DGEMM on as many threads and where it comes from, to foresee the time.
    pub dgemm: Option<(FlopsPerSec, String)>,
    /// The rate of the solution, where the time is to be foreseen at it and not at DGEMM's.
    pub rate: Option<FlopsPerSec>,
    /// The order at which LU reaches half of that, by a saved rating on as many threads ([`size::half`](crate::size::half)).
    pub half: Option<f64>,
    /// Ranks of the reference program.
    pub ranks: RankOptions,
    /// The reference program to run as well.
    pub reference: Option<ReferenceOptions>,
}

/// Ranks of the reference program, as asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankOptions {
    /// Ranks on each host.
    pub ranks: Option<usize>,
    /// Threads of all ranks of a host.
    pub threads: Option<usize>,
    /// Hosts; empty for this node.
    pub hosts: Vec<String>,
}

/// The reference program, as asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceOptions {
    /// An xhpl or hpcc.
    pub program: PathBuf,
    /// What starts its ranks.
    pub launcher: Option<CommandLine>,
    /// Whether launchers that refuse root are told to run all the same.
    pub allow_root: bool,
}

/// Time for everything unless the user says otherwise.
pub const BUDGET: Duration = Duration::from_secs(15);
/// Bytes that no node has.
const LARGER_THAN_ANY: u64 = 1 << 60;
/// Share of the budget for the solution: the rest makes and checks the matrix.
const SOLUTION: f64 = 0.5;

impl Default for HplOptions {
    fn default() -> Self {
        Self {
            order: OrderSpec::Quick,
            fraction: 0.8,
            nb: Vec::new(),
            grid_multiple: false,
            seed: 1,
            budget: BUDGET,
            samples: 1,
            libraries: Vec::new(),
            triad: None,
            dgemm: None,
            rate: None,
            half: None,
            ranks: RankOptions::default(),
            reference: None,
        }
    }
}

impl HplOptions {
    /// What a choice of N that is a multiple of `multiple` rests on.
    pub(crate) fn constraints(
        &self,
        machine: &Machine,
        dgemm: FlopsPerSec,
        threads: usize,
        multiple: usize,
    ) -> SizeConstraints {
        // Of a described machine an order that is asked for is planned whatever its memory.
        let planned = machine.is_described() && matches!(self.order, OrderSpec::Exactly(_));
        let unknown = if planned { LARGER_THAN_ANY } else { 0 };
        let memory = &machine.memory;
        let limit = memory.cgroup_limit.filter(|limit| Some(*limit) < memory.bytes);
        SizeConstraints {
            available: Bytes(memory.available.unwrap_or(unknown)),
            cgroup_limit: limit.map(Bytes),
            fraction: self.fraction,
            dgemm: dgemm.0,
            threads,
            half: self.half,
            seconds: self.budget.as_secs_f64() * SOLUTION / self.samples.max(1) as f64,
            beside: 0.0,
            multiple,
        }
    }
}
