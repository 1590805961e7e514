//! Options of ranks, resolved on a machine; and, in [`measure`], `stream` with ranks.

pub(crate) mod measure;

use crate::args::PlacementArgs;
use crate::args::ranks::{Emit, RankArgs};
use crate::failure::Failure;
use nodegauge_machine::Topology;
use nodegauge_placement::emit::script;
use nodegauge_placement::{Environment, RankPlan, RankRequest, Request, plan_ranks};

/// Where the ranks go that were asked for; `None` without ranks.
///
/// `--threads` and `OMP_NUM_THREADS` are threads a rank. Places and binding, by options or
/// variables, are those of all threads of all ranks together; with `--policy`, `--rank-map` or
/// `--cpus` the variables have no say.
pub(crate) fn plan(
    placement: &PlacementArgs,
    args: &RankArgs,
    topology: &Topology,
) -> Result<Option<RankPlan>, Failure> {
    let Some(ranks) = args.ranks else {
        return match args.given() {
            Some(option) => Err(Failure::usage(format!(
                "{option} places ranks, of which there are none\nhint: say how many, e.g. --ranks 2"
            ))),
            None => Ok(None),
        };
    };
    let threads = match &placement.threads {
        Some(counts) => Some(counts.single().ok_or_else(several_counts)?),
        None => None,
    };
    let mut together = Request {
        threads,
        places: placement.places.clone(),
        bind: placement.bind,
        kmp: None,
        per_cache: placement.per_cache,
    };
    let mut notices = Vec::new();
    let environment = Environment::read(|name| std::env::var(name).ok());
    let by_rank = RankArgs { ranks: None, ..args.clone() }.given();
    if let Some(option) = by_rank {
        let number = Environment { num_threads: environment.num_threads, ..Environment::default() };
        notices.extend(number.apply(&mut together).map_err(Failure::usage)?);
        let others = [
            ("OMP_PLACES", environment.places),
            ("OMP_PROC_BIND", environment.proc_bind),
            ("KMP_AFFINITY", environment.kmp_affinity),
        ];
        for (name, text) in others {
            notices.extend(text.map(|text| format!("{name}={text} ignored: {option} is given")));
        }
    } else {
        notices.extend(environment.apply(&mut together).map_err(Failure::usage)?);
    }
    let request = RankRequest {
        ranks,
        threads: together.threads.take(),
        map: args.rank_map,
        policy: args.policy,
        cpus: args.cpus.clone(),
        numa: placement.numa.clone(),
        together,
    };
    let mut plan = plan_ranks(topology, &request)?;
    notices.append(&mut plan.notices);
    plan.notices = notices;
    Ok(Some(plan))
}

/// Threads of each rank: as given, else `OMP_NUM_THREADS`, else one.
fn threads(placement: &PlacementArgs) -> Result<u32, Failure> {
    if let Some(counts) = &placement.threads {
        return counts.single().ok_or_else(several_counts);
    }
    let all = Environment::read(|name| std::env::var(name).ok());
    let number = Environment { num_threads: all.num_threads, ..Environment::default() };
    let mut request = Request::default();
    number.apply(&mut request).map_err(Failure::usage)?;
    Ok(request.threads.unwrap_or(1))
}

fn several_counts() -> Failure {
    Failure::usage("ranks have one number of threads each\nhint: give one, e.g. --threads 4")
}

/// What the plan says beside its table, line by line.
pub(crate) fn remarks(plan: &RankPlan) -> String {
    let policy = plan.policy.map(|policy| format!("policy {policy}: {}\n", policy.describe()));
    let notices = plan.notices.iter().map(|notice| format!("note: {notice}\n"));
    policy.into_iter().chain(notices).collect()
}

/// The plan for another launcher.
pub(crate) fn emitted(plan: &RankPlan, topology: &Topology, launcher: Emit) -> String {
    match launcher {
        Emit::Omp => script::omp(plan),
        Emit::Numactl => script::numactl(plan),
        Emit::Openmpi => script::openmpi(plan, topology),
        Emit::Mpich => script::mpich(plan),
        Emit::Slurm => script::slurm(plan),
    }
}
