//! `stream` in a process that an MPI launcher or srun has started as one of several ranks: rank 0 directs the
//! measurement and prints, the other ranks follow its requests.

use crate::args::stream::StreamArgs;
use crate::failure::{Exit, Failure};
use crate::launched;
use crate::resolve;
use nodegauge_machine::Topology;
use nodegauge_measure::FailureKind;
use nodegauge_placement::{RankPlan, Started};
use nodegauge_stream::ranks::{self, LaunchedRanks};

/// Joins the job: rank 0 runs `measure`, the other ranks serve it.
pub(super) fn join(
    started: Started,
    measure: impl FnOnce(&LaunchedRanks) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let Started { rank, ranks, .. } = started;
    if let Some(refused) = launched::on_several_hosts(&started) {
        return refused;
    }
    if rank > 0 {
        return Ok(Exit::Told(ranks::serve(&started.socket_name(), rank, ranks)?));
    }
    let joined = LaunchedRanks::new(started)?;
    let result = measure(&joined);
    let code = match &result {
        Ok(exit) => exit.number(),
        Err(failure) => Exit::from(failure).number(),
    };
    joined.coordinator.borrow_mut().leave_with(code);
    result
}

/// Returns the ranks as placed by the options, else as placed by the launcher.
pub(super) fn plan(
    joined: &LaunchedRanks,
    args: &StreamArgs,
    topology: &Topology,
) -> Result<RankPlan, Failure> {
    let Started { ranks: count, launcher, .. } = joined.started;
    if let Some(asked) = args.ranks.ranks.filter(|asked| *asked != count) {
        return Err(Failure::usage(format!("--ranks {asked}, but {launcher} has started {count}"))
            .hint("leave out --ranks"));
    }
    let mut ranks = args.ranks.clone();
    ranks.ranks = None;
    let placement = &args.placement;
    let is_asked = ranks.given().is_some()
        || placement.places.is_some()
        || placement.bind.is_some()
        || placement.per_cache.is_some();
    if is_asked {
        ranks.ranks = Some(count);
        let plan = resolve::ranks(placement, &ranks, &joined.topology(topology))?;
        let mut plan = plan.ok_or_else(|| Failure::usage("expected ranks"))?;
        plan.notices.insert(0, joined.started.in_words());
        return Ok(plan);
    }
    let (threads, memory) = resolve::in_each_rank(placement, topology)?;
    joined.places(topology, threads, &memory).map_err(|(rank, error)| {
        Failure::from(error).of(format_args!("rank {rank}")).kind(FailureKind::Usage)
    })
}
