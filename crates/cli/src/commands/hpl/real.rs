//! The real HPL of `hpl --xhpl`: its ranks, its searches, its place beside the native run.

use super::{USUAL_NB, input, write_to};
use crate::args::hpl::HplArgs;
use crate::failure::{Exit, Failure};
use crate::session::Found;
use nodegauge_compute::hpl::{self, Options};
use nodegauge_compute::output::Row;
use nodegauge_compute::real::{self, Kind, Real, RealError};
use nodegauge_compute::size::{self, OrderSpec};
use nodegauge_gauge::Site;
use nodegauge_machine::Topology;
use nodegauge_measure::record::{Measurement, Status};
use nodegauge_measure::{Bytes, FlopsPerSec, Watch};
use nodegauge_placement::ranks::{RankRequest, plan_ranks};
use nodegauge_placement::{RankPlan, Request};
use nodegauge_toolchain::ToolchainError;
use std::time::Duration;

/// Widths that a search of the real HPL tries.
const CANDIDATES: [usize; 4] = [128, 192, 256, 384];
/// Order of the search's runs on two cores; with more it grows as the memory of equal shares.
const SEARCH_ORDER: f64 = 4000.0;
/// Widths that an hpcc is given: one run of it must do, for it does much beside HPL.
const HPCC_CANDIDATES: [usize; 3] = [128, 192, 256];
/// Longest predicted time of a solution for which an hpcc gets several widths, seconds.
const SEVERAL: f64 = 60.0;
/// Longest time for a run: hpcc does much beside HPL.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// P and Q.
type Grid = (usize, usize);

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

/// The hosts that were named, else those of the Slurm job when it has several; empty for this node.
fn hosts(args: &HplArgs) -> Result<Vec<String>, Failure> {
    let several = |text: String| text.trim().parse::<u32>().is_ok_and(|nodes| nodes > 1);
    let in_job = std::env::var("SLURM_JOB_NUM_NODES").is_ok_and(several);
    if args.real.hosts.is_empty() && in_job {
        return crate::commands::mpi::slurm_hosts();
    }
    Ok(args.real.hosts.clone())
}

/// Ranks on all hosts.
pub(super) fn total(args: &HplArgs, topology: &Topology) -> Result<usize, Failure> {
    Ok(ranks(args, topology) * hosts(args)?.len().max(1))
}

/// LCM of P and Q.
pub(super) fn grid_multiple(args: &HplArgs, node: &Site) -> Result<usize, Failure> {
    let (p, q) = size::grid(total(args, &node.topology)?);
    Ok(size::lcm(p, q))
}

/// A real HPL with its plan.
pub(super) struct Ready {
    real: Real,
    plan: RankPlan,
    hosts: usize,
    total: usize,
}

/// Finds the program and its launcher, and places its ranks; `None` when none was asked for.
pub(super) fn find(args: &HplArgs, node: &Site) -> Result<Option<Ready>, Failure> {
    let Some(program) = &args.real.xhpl else { return Ok(None) };
    let plan = place(args, node)?;
    // Inside a container everybody is root, and Open MPI asks for a word.
    let as_root = args.real.allow_run_as_root && nodegauge_os::is_root();
    let real = Real::find(program, args.real.launcher.as_ref(), &hosts(args)?, as_root, &|| false)?;
    let hosts = hosts(args)?.len().max(1);
    let total = plan.ranks.len() * hosts;
    Ok(Some(Ready { real, plan, hosts, total }))
}

fn place(args: &HplArgs, node: &Site) -> Result<RankPlan, Failure> {
    let ranks = ranks(args, &node.topology);
    let request = RankRequest {
        ranks: ranks as u32,
        threads: Some(threads_a_rank(args, &node.topology, ranks) as u32),
        together: Request::default(),
        ..RankRequest::default()
    };
    Ok(plan_ranks(&node.topology, &request)?)
}

/// N for the real HPL by the rules of the native run; hosts are taken to be alike.
fn order(
    node: &Site,
    options: &Options,
    dgemm: f64,
    (hosts, threads): (usize, usize),
    nb: usize,
    grid: (usize, usize),
) -> Result<usize, Failure> {
    let mut around = hpl::around(&node.machine, options, FlopsPerSec(dgemm), threads, nb);
    around.available = Bytes(around.available.0 * hosts as u64);
    around.cgroup_limit = around.cgroup_limit.map(|limit| Bytes(limit.0 * hosts as u64));
    if matches!(options.order, OrderSpec::Full) {
        around.multiple = nb * size::lcm(grid.0, grid.1);
    }
    size::choose(options.order, &around).map(|order| order.order).map_err(Failure::missing)
}

/// `--hpl-dat-only`.
pub(super) fn only_input(
    args: &HplArgs,
    node: &Site,
    options: &Options,
    file: &str,
) -> Result<Exit, Failure> {
    let hosts = hosts(args)?.len().max(1);
    let grid = size::grid(ranks(args, &node.topology) * hosts);
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
    let order = order(node, &filled, peak, (hosts, 1), widest, grid)?;
    write_to(file, &nodegauge_compute::dat::write(&input(vec![order], nbs, vec![grid])))?;
    Ok(Exit::Success)
}

impl Ready {
    /// Runs the real HPL at the native run's N, its NB by search, and puts it beside.
    pub(super) fn beside(
        &self,
        args: &HplArgs,
        node: &Site,
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
            // As much memory on each host as here.
            (Some(n), false) if args.order.is_none() && self.hosts > 1 => {
                let n = n as f64 * (self.hosts as f64).sqrt();
                (n as usize / USUAL_NB).max(1) * USUAL_NB
            }
            (Some(n), false) => n as usize,
            _ => order(node, options, dgemm, (self.hosts, threads), USUAL_NB, grid)?,
        };
        let engine = self.real.kind().name();
        let mut all = Vec::new();
        let run = |n: usize, nbs: &[usize], grids: &[Grid], progress: &mut dyn Watch| {
            progress.phase(&format!("{engine}, N = {n}, NB = {nbs:?}, P x Q = {grids:?}"));
            let shared: &dyn Watch = progress;
            let input = input(vec![n], nbs.to_vec(), grids.to_vec());
            self.real.run(&input, &self.plan, &node.topology, LIMIT, &|| shared.interrupted())
        };
        let (mut nbs, mut grids) = (options.nb.clone(), vec![grid]);
        let long = size::seconds(order, threads, dgemm * self.hosts as f64) > SEVERAL;
        let outcome = (|| {
            match self.real.kind() {
                Kind::Xhpl => {
                    let (every, candidates) = (size::grids(self.total), CANDIDATES.to_vec());
                    let tried = if nbs.is_empty() { candidates } else { nbs.clone() };
                    if tried.len() * every.len() > 1 {
                        let cores = (threads * self.hosts) as f64;
                        let small = (SEARCH_ORDER * (cores / 2.0).sqrt()) as usize;
                        let (read, _) = run(small.min(order), &tried, &every, progress)?;
                        let best = best(&read.rows);
                        grids = vec![best.map_or(grid, |row| (row.p, row.q))];
                        if nbs.is_empty() {
                            nbs = vec![best.map_or(USUAL_NB, |row| row.nb)];
                        }
                    }
                }
                Kind::Hpcc if nbs.is_empty() && !long => nbs = HPCC_CANDIDATES.to_vec(),
                Kind::Hpcc => {}
            }
            if nbs.is_empty() {
                nbs = vec![USUAL_NB];
            }
            run(order, &nbs, &grids, progress)
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
