//! The real HPL of `hpl --xhpl`: its ranks, its searches, its place beside the native run.

use super::{USUAL_NB, input, write_to};
use crate::args::hpl::HplArgs;
use crate::failure::{Exit, Failure};
use crate::session::{Found, Node};
use nodegauge_compute::hpl::{self, Options};
use nodegauge_compute::output::Row;
use nodegauge_compute::real::{self, Kind, Real, RealError};
use nodegauge_compute::size::{self, OrderSpec};
use nodegauge_machine::Topology;
use nodegauge_measure::record::{Measurement, Status};
use nodegauge_measure::{FlopsPerSec, Watch};
use nodegauge_placement::ranks::{RankRequest, plan_ranks};
use nodegauge_placement::{RankPlan, Request};
use nodegauge_toolchain::{ToolchainError, is_root};
use std::time::Duration;

/// Widths that a search of the real HPL tries.
const CANDIDATES: [usize; 4] = [128, 192, 256, 384];
/// Order of the search's runs.
const SEARCH_ORDER: usize = 4000;
/// Longest time for a run: hpcc does much beside HPL.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Ranks here: as asked, else one for each last-level cache, NUMA node, or core, whatever there is
/// several of.
pub(super) fn ranks(args: &HplArgs, topology: &Topology) -> usize {
    if let Some(ranks) = args.real.ranks {
        return ranks as usize;
    }
    let count = |of: &dyn Fn(&nodegauge_machine::topology::HardwareThread) -> Option<usize>| {
        let mut all: Vec<usize> = topology.allowed().filter_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    let (caches, nodes) = (count(&|thread| thread.llc), count(&|thread| thread.node));
    let cores = count(&|thread| Some(thread.core));
    [caches, nodes, cores].into_iter().find(|n| *n > 1 && cores.is_multiple_of(*n)).unwrap_or(1)
}

/// Threads that fill the rest of the cores.
pub(super) fn threads_a_rank(args: &HplArgs, topology: &Topology, ranks: usize) -> usize {
    let mut cores: Vec<usize> = topology.allowed().map(|thread| thread.core).collect();
    cores.sort_unstable();
    cores.dedup();
    let threads = args.placement.threads.as_ref().and_then(|counts| counts.single());
    let all = threads.map_or(cores.len(), |threads| threads as usize);
    (all / ranks.max(1)).max(1)
}

/// A real HPL with its plan.
pub(super) struct Ready {
    real: Real,
    plan: RankPlan,
    total: usize,
}

/// Finds the program and its launcher, and places its ranks; `None` when none was asked for.
pub(super) fn find(args: &HplArgs, node: &Node) -> Result<Option<Ready>, Failure> {
    let Some(program) = &args.real.xhpl else { return Ok(None) };
    let plan = place(args, node)?;
    // Inside a container everybody is root, and Open MPI asks for a word.
    let as_root = args.real.allow_run_as_root && is_root();
    let real =
        Real::find(program, args.real.launcher.as_ref(), &args.real.hosts, as_root, &|| false)?;
    let total = plan.ranks.len() * args.real.hosts.len().max(1);
    Ok(Some(Ready { real, plan, total }))
}

fn place(args: &HplArgs, node: &Node) -> Result<RankPlan, Failure> {
    let ranks = ranks(args, &node.topology);
    let request = RankRequest {
        ranks: ranks as u32,
        threads: Some(threads_a_rank(args, &node.topology, ranks) as u32),
        together: Request::default(),
        ..RankRequest::default()
    };
    Ok(plan_ranks(&node.topology, &request)?)
}

/// N for the real HPL by the rules of the native run.
fn order(
    node: &Node,
    options: &Options,
    dgemm: f64,
    threads: usize,
    nb: usize,
    grid: (usize, usize),
) -> Result<usize, Failure> {
    let mut around = hpl::around(&node.machine, options, FlopsPerSec(dgemm), threads, nb);
    if matches!(options.order, OrderSpec::Full) {
        around.multiple = nb * size::lcm(grid.0, grid.1);
    }
    size::choose(options.order, &around).map(|order| order.order).map_err(Failure::missing)
}

/// `--hpl-dat-only`.
pub(super) fn only_input(
    args: &HplArgs,
    node: &Node,
    options: &Options,
    file: &str,
) -> Result<Exit, Failure> {
    let ranks = ranks(args, &node.topology) * args.real.hosts.len().max(1);
    let grid = size::grid(ranks);
    let nbs = if options.nb.is_empty() { vec![USUAL_NB] } else { options.nb.clone() };
    let peak = node.machine.peak_flops.as_ref().map_or(1e11, |peak| peak.value);
    // Nothing is measured here: without an order, memory is filled.
    let filled = Options {
        order: if matches!(options.order, OrderSpec::Quick) {
            OrderSpec::Full
        } else {
            options.order
        },
        ..options.clone()
    };
    let widest = nbs.iter().copied().max().unwrap_or(USUAL_NB);
    let order = order(node, &filled, peak, 1, widest, grid)?;
    write_to(file, &nodegauge_compute::dat::write(&input(vec![order], nbs, grid)))?;
    Ok(Exit::Success)
}

impl Ready {
    /// Runs the real HPL at the native run's N, its NB by search, and puts it beside.
    pub(super) fn beside(
        &self,
        args: &HplArgs,
        node: &Node,
        options: &Options,
        found: &mut Found,
        progress: &mut dyn Watch,
    ) -> Result<(), Failure> {
        let threads = self.plan.threads();
        let grid = size::grid(self.total);
        let of = |name: &str| found.measurements.iter().find(|m| m.test == "hpl" && m.name == name);
        let dgemm = of("dgemm").and_then(|m| m.value).unwrap_or(1e11);
        let native = of("rating").and_then(|m| m.config.get("n")?.as_u64());
        let order = match (native, args.full) {
            (Some(n), false) => n as usize,
            _ => order(node, options, dgemm, threads, USUAL_NB, grid)?,
        };
        let engine = self.real.kind().name();
        let mut all = Vec::new();
        let run = |orders: Vec<usize>, nbs: Vec<usize>, progress: &mut dyn Watch| {
            progress.phase(&format!("{engine}, N = {orders:?}, NB = {nbs:?}"));
            let shared: &dyn Watch = progress;
            self.real.run(&input(orders, nbs, grid), &self.plan, &node.topology, LIMIT, &|| {
                shared.interrupted()
            })
        };
        // hpcc takes a minute for all that it does beside HPL, so it is not searched with.
        let search = options.nb.is_empty() && self.real.kind() == Kind::Xhpl;
        let mut nbs = if options.nb.is_empty() { vec![USUAL_NB] } else { options.nb.clone() };
        let outcome = (|| {
            if search {
                let (read, _) = run(vec![SEARCH_ORDER.min(order)], CANDIDATES.to_vec(), progress)?;
                nbs = vec![best(&read.rows).map_or(USUAL_NB, |row| row.nb)];
            }
            run(vec![order], nbs, progress)
        })();
        match outcome {
            Ok((read, command)) => {
                all.extend(real::measurements(
                    &read.rows,
                    engine,
                    read.version.as_deref(),
                    Some(&command),
                ));
                self.compare(found, &all);
                found.measurements.extend(all);
                Ok(())
            }
            Err(RealError::Program(ToolchainError::Interrupted)) => {
                found.interrupted = true;
                found.notices.push(format!("interrupted while {engine} ran: no rating of it"));
                Ok(())
            }
            Err(error) => {
                // The native figures are kept; what failed decides the exit code.
                found.failure = Some(error.into());
                Ok(())
            }
        }
    }

    /// Says how the two ratings stand to each other.
    fn compare(&self, found: &mut Found, real: &[Measurement]) {
        let native = found.measurements.iter().find(|m| m.test == "hpl" && m.name == "rating");
        let theirs =
            real.iter().find(|m| m.validity.status != Status::Invalid).and_then(|m| m.value);
        if let (Some(ours), Some(theirs)) = (native.and_then(|m| m.value), theirs) {
            let launcher = &self.real.launcher;
            let version = launcher.version.as_deref().unwrap_or("");
            found.notices.push(format!(
                "native over {}: {:.3} ({} ranks by {} {version}; the library that it links decides its part)",
                self.real.kind().name(), ours / theirs, self.total, launcher.kind
            ));
        }
    }
}

fn best(rows: &[Row]) -> Option<&Row> {
    rows.iter().filter(|row| row.passed != Some(false)).max_by(|a, b| a.rate.total_cmp(&b.rate))
}
