//! Resolution of the options for threads, memory and ranks on a machine. Environment variables apply where
//! options are absent.

use crate::args::PlacementArgs;
use crate::args::ranks::RankArgs;
use crate::failure::Failure;
use nodegauge_machine::{Topology, TopologySource};
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_placement::{
    Environment, MemoryPolicy, Placement, PlacementRequest, RankPlan, RankRequest, plan_ranks,
};
use nodegauge_stream::GAUGE;

/// Returns the environment variables for OpenMP programs.
pub(crate) fn environment() -> Environment {
    Environment::read(|name| std::env::var(name).ok())
}

/// Returns the request for a team from options, else from the environment, and notices about the variables
/// used.
fn request(
    args: &PlacementArgs,
    threads: Option<u32>,
    environment: &Environment,
) -> Result<(PlacementRequest, Vec<String>), Failure> {
    let mut request = PlacementRequest {
        threads,
        places: args.places.clone(),
        bind: args.bind,
        kmp: None,
        per_cache: args.per_cache,
    };
    let said = environment.apply(&mut request)?;
    Ok((request, said))
}

/// Returns the number of threads, if options give it; `several` returns the error for a list of counts.
fn one_count(
    args: &PlacementArgs,
    several: impl FnOnce() -> Failure,
) -> Result<Option<u32>, Failure> {
    args.threads.as_ref().map(|counts| counts.single().ok_or_else(several)).transpose()
}

/// Returns the error for several thread counts with ranks.
fn one_a_rank() -> Failure {
    Failure::usage("ranks require a single number of threads")
        .hint("give one number, e.g. --threads 4")
}

/// Returns the memory policy of the options, else the inherited one of this process, with a notice.
fn policy(
    args: &PlacementArgs,
    topology: &Topology,
    said: &mut Vec<String>,
) -> Result<MemoryPolicy, Failure> {
    match &args.numa {
        Some(spec) => Ok(spec.resolve(topology)?),
        None => Ok(inherited(topology, said)),
    }
}

/// Returns the inherited memory policy of this process, if the topology is that of this machine.
fn inherited(topology: &Topology, said: &mut Vec<String>) -> MemoryPolicy {
    let live = matches!(topology.source, TopologySource::Live);
    let inherited = live.then(MemoryPolicy::inherited).flatten();
    said.extend(inherited.as_ref().map(MemoryPolicy::inherited_in_words));
    inherited.unwrap_or_default()
}

/// Requested team, not yet placed.
#[derive(Default)]
pub(crate) struct TeamRequest {
    pub(crate) request: PlacementRequest,
    pub(crate) policy: MemoryPolicy,
    pub(crate) notices: Vec<Notice>,
}

/// Returns the single team of a mode.
pub(crate) fn one_team(
    args: &PlacementArgs,
    topology: &Topology,
    mode: &str,
) -> Result<TeamRequest, Failure> {
    let several = || {
        Failure::usage(format!("{mode} requires a single thread count")).hint("e.g. --threads 4")
    };
    let threads = one_count(args, several)?;
    let (request, mut said) = request(args, threads, &environment())?;
    let policy = policy(args, topology, &mut said)?;
    let notice = |text| Notice::new(NoticeId::Environment, GAUGE, text);
    let notices = said.into_iter().map(notice).collect();
    Ok(TeamRequest { request, policy, notices })
}

/// Placements for each requested thread count, the memory policy, and notices about both.
pub(crate) struct Planned {
    pub(crate) placements: Vec<Placement>,
    pub(crate) policy: MemoryPolicy,
    pub(crate) notices: Vec<String>,
}

/// Resolves placement options on a machine.
pub(crate) fn plan(args: &PlacementArgs, topology: &Topology) -> Result<Planned, Failure> {
    plan_or(args, topology, &PlacementRequest::default())
}

/// Like [`plan`], with a default for when neither options nor environment request a placement.
pub(crate) fn plan_or(
    args: &PlacementArgs,
    topology: &Topology,
    otherwise: &PlacementRequest,
) -> Result<Planned, Failure> {
    let counts: Vec<Option<u32>> = match &args.threads {
        Some(counts) => counts.counts().iter().map(|count| Some(*count)).collect(),
        None => vec![None],
    };
    let mut placements = Vec::new();
    let mut notices: Vec<String> = Vec::new();
    for threads in counts {
        let (mut request, mut said) = request(args, threads, &environment())?;
        if request == PlacementRequest::default() {
            request = otherwise.clone();
        }
        let placement = nodegauge_placement::plan(topology, &request)?;
        said.extend(placement.notices.iter().cloned());
        said.retain(|notice| !notices.contains(notice));
        notices.extend(said);
        placements.push(placement);
    }
    let policy = policy(args, topology, &mut notices)?;
    Ok(Planned { placements, policy, notices })
}

/// Returns the placement of the requested ranks; `None` without ranks.
///
/// `--threads` and `OMP_NUM_THREADS` are numbers per rank. Places and binding, from options or variables,
/// apply to all threads of all ranks together. With `--policy`, `--rank-map` or `--cpus` these variables are
/// ignored.
pub(crate) fn ranks(
    placement: &PlacementArgs,
    args: &RankArgs,
    topology: &Topology,
) -> Result<Option<RankPlan>, Failure> {
    let Some(ranks) = args.ranks else {
        return match args.given() {
            Some(option) => Err(Failure::usage(format!("{option} requires --ranks"))
                .hint("give the number of ranks, e.g. --ranks 2")),
            None => Ok(None),
        };
    };
    let threads = one_count(placement, one_a_rank)?;
    let all = environment();
    let by_rank = RankArgs { ranks: None, ..args.clone() }.given();
    let heeded = match by_rank {
        Some(_) => Environment { num_threads: all.num_threads.clone(), ..Environment::default() },
        None => all.clone(),
    };
    let (mut together, mut notices) = request(placement, threads, &heeded)?;
    if let Some(option) = by_rank {
        let others = [
            ("OMP_PLACES", all.places),
            ("OMP_PROC_BIND", all.proc_bind),
            ("KMP_AFFINITY", all.kmp_affinity),
        ];
        for (name, text) in others {
            notices.extend(text.map(|text| format!("{name}={text} ignored: {option} is given")));
        }
    }
    let request = RankRequest {
        ranks,
        devices: args.devices,
        threads: together.threads.take(),
        map: args.rank_map,
        policy: args.policy,
        cpus: args.cpus.clone(),
        numa: placement.numa.clone(),
        inherited: match (args.policy, &placement.numa) {
            (None, None) => inherited(topology, &mut notices),
            _ => MemoryPolicy::Default,
        },
        together,
    };
    let mut plan = plan_ranks(topology, &request)?;
    notices.append(&mut plan.notices);
    plan.notices = notices;
    Ok(Some(plan))
}

/// Returns threads and memory policy of each rank that a launcher has placed. Threads are those of
/// `--threads`, else of `OMP_NUM_THREADS`, else one.
pub(crate) fn in_each_rank(
    placement: &PlacementArgs,
    topology: &Topology,
) -> Result<(u32, MemoryPolicy), Failure> {
    let number = Environment { num_threads: environment().num_threads, ..Environment::default() };
    let mut request = PlacementRequest {
        threads: one_count(placement, one_a_rank)?,
        ..PlacementRequest::default()
    };
    number.apply(&mut request)?;
    Ok((request.threads.unwrap_or(1), policy(placement, topology, &mut Vec::new())?))
}
