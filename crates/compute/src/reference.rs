//! Runs of the reference program, which is xhpl or the HPL in hpcc: placement of ranks, searches for NB and the grid,
//! and comparison of the rating with the native rating.

mod figures;
mod program;

pub use figures::{engine_figures, measurements, saved_output_figures};

use crate::config::RatingConfig;
use crate::options::{HplOptions, RankOptions};
use crate::output::{HplOutput, HplRow};
use crate::size::{self, ChosenOrder, OrderSpec};
use crate::{DGEMM, GAUGE, RATING, TEST};
use nodegauge_gauge::MeasuredNode;
use nodegauge_machine::Topology;
use nodegauge_machine::topology::HardwareThread;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, Status};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::{
    Bytes, Failure, FlopsPerSec, Notice, NoticeId, Observer, Outcome, Seconds,
};
use nodegauge_placement::{Placement, RankPlan};
use nodegauge_toolchain::mpi::MpiProgram;
use program::ReferenceProgramKind;
use std::collections::BTreeSet;

/// Candidates for NB in a search with xhpl.
const CANDIDATES: [usize; 4] = [128, 192, 256, 384];
/// Order of the search runs on two cores; with more cores, the order grows so that the memory per core is constant.
const SEARCH_ORDER: f64 = 4000.0;
/// Candidates for NB with hpcc. All candidates are in one run, because every run of hpcc also runs other benchmarks.
const HPCC_CANDIDATES: [usize; 3] = [128, 192, 256];
/// Maximum predicted time in seconds of a solve with hpcc for which several values of NB are tried.
const MAX_SEARCH_SECONDS: f64 = 60.0;
/// NB if there is no search. With this NB, most libraries nearly reach their best rate.
pub(crate) const USUAL_NB: usize = 192;
/// Assumed rate of DGEMM in FLOP/s if the native run did not measure it.
const ASSUMED_DGEMM: f64 = 1e11;

type Grid = (usize, usize);

/// Layout of the ranks over this node and identical hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankLayout {
    pub ranks: usize,
    pub threads_per_rank: usize,
    pub hosts: usize,
}

/// Returns the number of distinct objects.
fn distinct(objects: impl Iterator<Item = usize>) -> usize {
    objects.collect::<BTreeSet<usize>>().len()
}

impl RankLayout {
    /// Returns the layout for the requested number of ranks, on the cores of the native run. The default is one rank
    /// per last-level cache, per NUMA node or per core: the first of these levels with several objects is used. The
    /// cores are divided among the threads of the ranks.
    pub(crate) fn from_options(
        topology: &Topology,
        options: &RankOptions,
        native: &Placement,
    ) -> Self {
        let used: Vec<&HardwareThread> =
            native.cpus().into_iter().filter_map(|cpu| topology.thread(cpu)).collect();
        let cores = distinct(used.iter().map(|thread| thread.core));
        let ranks = options.ranks.unwrap_or_else(|| {
            let caches = distinct(used.iter().filter_map(|thread| thread.llc));
            let nodes = distinct(used.iter().filter_map(|thread| thread.node));
            let mut levels = [caches, nodes, cores].into_iter();
            levels.find(|n| *n > 1 && cores.is_multiple_of(*n)).unwrap_or(1)
        });
        let threads = options.threads.unwrap_or(cores);
        let threads_per_rank = (threads / ranks.max(1)).max(1);
        Self { ranks, threads_per_rank, hosts: options.hosts.len().max(1) }
    }

    pub(crate) fn rank_count(&self) -> usize {
        self.ranks * self.hosts
    }

    pub(crate) fn grid(&self) -> Grid {
        size::grid(self.rank_count())
    }
}

/// Returns N for the reference program by the rules of the native run; all hosts are assumed to be identical.
pub(crate) fn choose_order(
    site: &MeasuredNode,
    options: &HplOptions,
    dgemm: f64,
    layout: &RankLayout,
    threads: usize,
    nb: usize,
) -> Result<ChosenOrder, Failure> {
    let (p, q) = layout.grid();
    let multiple = if options.grid_multiple { nb * size::lcm(p, q) } else { nb };
    let dgemm = FlopsPerSec(dgemm);
    let mut constraints = options.constraints(&site.machine, dgemm, threads, multiple);
    let hosts = layout.hosts as u64;
    constraints.available.0 *= hosts;
    constraints.cgroup_limit = constraints.cgroup_limit.map(|limit| Bytes(limit.0 * hosts));
    size::choose(options.order, &constraints)
}

/// Reference program with placed ranks.
#[derive(Debug)]
pub(crate) struct PlacedReferenceProgram {
    program: MpiProgram,
    kind: ReferenceProgramKind,
    /// Hosts of the ranks; empty for a run on this node.
    hosts: Vec<String>,
    plan: RankPlan,
    layout: RankLayout,
}

impl PlacedReferenceProgram {
    /// Runs the program with the N of the native run, and with NB and grid from a search. Appends its figures to the
    /// native figures. If the program fails, the native figures are kept, and the outcome contains the failure.
    pub(crate) fn measure(
        &self,
        site: &MeasuredNode,
        options: &HplOptions,
        outcome: &mut Outcome,
        observer: &mut dyn Observer,
    ) {
        let dgemm = named(outcome, DGEMM).and_then(|m| m.value).unwrap_or(ASSUMED_DGEMM);
        let native = named(outcome, RATING).filter(|_| options.order != OrderSpec::Full);
        let native = native.and_then(|m| m.read_config::<RatingConfig>().n);
        let engine = self.kind.name();
        let order = self.order(site, options, native, dgemm);
        let ended = order.and_then(|n| self.search_and_run(site, options, n, dgemm, observer));
        match ended {
            Ok(Some((read, command))) => {
                let version = read.version.as_deref();
                let figures = measurements(&read.rows, engine, version, Some(&command));
                outcome.notices.extend(self.compare(outcome, &figures));
                outcome.measurements.extend(figures);
            }
            Ok(None) => {
                let text = format!("interrupted while {engine} ran: no {engine} rating");
                outcome.stop = Some(StopReason::Interrupted);
                outcome.notices.push(Notice::new(NoticeId::Interrupted, GAUGE, text));
            }
            Err(failure) => outcome.failure = Some(failure),
        }
    }

    /// Returns N: on one host, that of the native run; on several hosts, N grows with the square root of their number,
    /// unless the user fixed it. Without a native run, N is chosen by its rules.
    fn order(
        &self,
        site: &MeasuredNode,
        options: &HplOptions,
        native: Option<u64>,
        dgemm: f64,
    ) -> Result<usize, Failure> {
        let hosts = self.layout.hosts;
        let threads = self.plan.threads();
        match native {
            Some(n) if !matches!(options.order, OrderSpec::Given(_)) && hosts > 1 => {
                let n = n as f64 * (hosts as f64).sqrt();
                Ok((n as usize / USUAL_NB).max(1) * USUAL_NB)
            }
            Some(n) => Ok(n as usize),
            None => Ok(choose_order(site, options, dgemm, &self.layout, threads, USUAL_NB)?.order),
        }
    }

    /// Searches for NB and the grid if the user did not fix them, and runs the program with the result. Returns the
    /// output and the command; `None` if the user interrupted the run.
    fn search_and_run(
        &self,
        site: &MeasuredNode,
        options: &HplOptions,
        order: usize,
        dgemm: f64,
        observer: &mut dyn Observer,
    ) -> Result<Option<(HplOutput, String)>, Failure> {
        let threads = self.plan.threads();
        let hosts = self.layout.hosts;
        let mut nbs = options.nb.clone();
        let mut grids = vec![self.layout.grid()];
        let solve_time = size::predicted_solve_time(
            order,
            options.half_rate_order,
            FlopsPerSec(dgemm * hosts as f64),
        );
        let long = solve_time > Seconds(MAX_SEARCH_SECONDS);
        match self.kind {
            ReferenceProgramKind::Xhpl => {
                let all = size::candidate_grids(self.layout.rank_count());
                let tried = if nbs.is_empty() { CANDIDATES.to_vec() } else { nbs.clone() };
                if tried.len() * all.len() > 1 {
                    let cores = (threads * hosts) as f64;
                    let small = (SEARCH_ORDER * (cores / 2.0).sqrt()) as usize;
                    let read = self.run_as_phase(small.min(order), &tried, &all, site, observer)?;
                    let Some((read, _)) = read else { return Ok(None) };
                    if let Some(row) = best(&read.rows) {
                        grids = vec![(row.p, row.q)];
                        if nbs.is_empty() {
                            nbs = vec![row.nb];
                        }
                    }
                }
            }
            ReferenceProgramKind::Hpcc if nbs.is_empty() && !long => nbs = HPCC_CANDIDATES.to_vec(),
            ReferenceProgramKind::Hpcc => {}
        }
        if nbs.is_empty() {
            nbs = vec![USUAL_NB];
        }
        self.run_as_phase(order, &nbs, &grids, site, observer)
    }

    /// Runs the program once, and announces the run as a phase to `observer`.
    fn run_as_phase(
        &self,
        n: usize,
        nbs: &[usize],
        grids: &[Grid],
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Option<(HplOutput, String)>, Failure> {
        let engine = self.kind.name();
        observer.begin_phase(&format!("{engine}, N = {n}, NB = {nbs:?}, P x Q = {grids:?}"));
        let interrupted: &dyn Observer = observer;
        self.run(n, nbs, grids, &site.topology, &|| interrupted.is_interrupted())
    }

    /// Returns the notice with the ratio of native rating and program's rating.
    fn compare(&self, outcome: &Outcome, figures: &[Measurement]) -> Option<Notice> {
        let native = named(outcome, RATING)?.value?;
        let theirs = figures.iter().find(|m| m.validity.status != Status::Invalid)?.value?;
        let name = self.kind.name();
        let ratio = native / theirs;
        let ranks = count_in_words(self.plan.ranks.len() * self.layout.hosts, "rank");
        let title = self.program.launcher.title;
        let version = self.program.launcher.version.as_deref().unwrap_or("");
        let text = format!(
            "native rating / {name} rating: {ratio:.3} ({ranks} by {title} {version}; the {name} rating depends on the BLAS library that it links)"
        );
        Some(Notice::new(NoticeId::Reference, GAUGE, text))
    }
}

fn named<'a>(outcome: &'a Outcome, name: &str) -> Option<&'a Measurement> {
    outcome.measurements.iter().find(|m| m.test == TEST && m.name == name)
}

fn best(rows: &[HplRow]) -> Option<&HplRow> {
    rows.iter().filter(|row| row.passed != Some(false)).max_by(|a, b| a.rate.total_cmp(&b.rate))
}
