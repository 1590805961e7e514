//! `stream --ranks`: starts ranks, or joins those that an MPI launcher or srun has started, and
//! measures with them.

use crate::args::StreamArgs;
use crate::commands::{ranks, stream, sweep};
use crate::failure::{Exit, Failure};
use crate::session;
use nodegauge_gauge::Planned;
use nodegauge_machine::Topology;
use nodegauge_memory::ranks::{self as coordinated, Joined, Started};
use nodegauge_memory::stream::RanksStreamPlan;
use nodegauge_placement::{MemoryPolicy, RankPlan};
use std::rc::Rc;
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(10);

/// Measures as a rank for the process that listens under `name`.
pub(crate) fn serve(name: &str, rank: u32, ranks: u32) -> Result<Exit, Failure> {
    Ok(Exit::Told(coordinated::serve(name, rank, ranks)?))
}

/// `stream` in a process that a launcher has started as one of several ranks: rank 0 measures with
/// all of them and prints, the others do as they are told.
pub(crate) fn join(args: &StreamArgs, started: Started) -> Result<Exit, Failure> {
    let Started { rank, ranks, launcher, .. } = started;
    if started.is_spread() {
        // One message is enough.
        return match rank {
            0 => Err(Failure::missing(format!(
                "{launcher} has started {ranks} ranks on several hosts, and nodegauge measures ranks of one host\nhint: start them on one host, e.g. mpirun --host $(hostname):{ranks} or srun --nodes=1"
            ))),
            _ => Ok(Exit::Told(3)),
        };
    }
    if rank > 0 {
        return serve(&started.meeting(), rank, ranks);
    }
    let joined = Joined::new(started)?;
    let result = measure(args, &joined);
    let code = match &result {
        Ok(exit) => exit.number(),
        Err(failure) => Exit::from(failure).number(),
    };
    joined.coordinator.borrow_mut().leave_with(code);
    result
}

fn measure(args: &StreamArgs, joined: &Joined) -> Result<Exit, Failure> {
    if args.tune || args.standard.is_some() {
        return Err(Failure::usage(format!(
            "{} runs one process, but {} has started {}\nhint: start one",
            if args.tune { "--tune" } else { "--standard" },
            joined.started.launcher,
            joined.started.ranks
        )));
    }
    let axes = sweep::axes(args)?;
    match axes.is_empty() {
        true => execute(args, Some(joined)),
        false => sweep::execute(args, axes, Some(joined)),
    }
}

/// The ranks as the user wants them, else where the launcher has put them.
fn plan_joined(
    joined: &Joined,
    args: &StreamArgs,
    topology: &Topology,
) -> Result<RankPlan, Failure> {
    let Started { ranks: count, launcher, .. } = joined.started;
    if let Some(asked) = args.ranks.ranks.filter(|asked| *asked != count) {
        return Err(Failure::usage(format!(
            "--ranks {asked}, but {launcher} has started {count}\nhint: leave out --ranks"
        )));
    }
    let placement = &args.placement;
    let is_asked = args.ranks.policy.is_some()
        || args.ranks.rank_map.is_some()
        || args.ranks.cpus.is_some()
        || placement.places.is_some()
        || placement.bind.is_some()
        || placement.per_cache.is_some();
    if is_asked {
        let mut ranks = args.ranks.clone();
        ranks.ranks = Some(count);
        let plan = ranks::plan(placement, &ranks, &joined.topology(topology))?;
        let mut plan = plan.ok_or_else(|| Failure::usage("expected ranks"))?;
        plan.notices.insert(0, joined.notice());
        return Ok(plan);
    }
    let memory = match &placement.numa {
        Some(spec) => spec.resolve(topology)?,
        None => MemoryPolicy::Default,
    };
    joined
        .places(topology, ranks::threads(placement)?, &memory)
        .map_err(|(rank, error)| Failure::usage(format!("rank {rank}: {error}")))
}

/// `stream` with ranks.
pub(crate) fn execute(args: &StreamArgs, joined: Option<&Joined>) -> Result<Exit, Failure> {
    refuse_compilers(args)?;
    let site = session::site(&args.common)?;
    let ranks = match joined {
        Some(joined) => plan_joined(joined, args, &site.topology)?,
        None => ranks::plan(&args.placement, &args.ranks, &site.topology)?
            .ok_or_else(|| Failure::usage("expected ranks"))?,
    };
    let options = stream::options_of(&args.arrays, &args.common, MemoryPolicy::Default, BUDGET);
    stream::refuse_empty_table(args, &options)?;
    let coordinator = joined.map(|joined| Rc::clone(&joined.coordinator));
    let plan = RanksStreamPlan::new(&site, ranks, coordinator, options)?;
    session::conduct(
        &args.common,
        site,
        |site, progress| Box::new(plan).run(site, progress),
        |record, style| match args.stream_text {
            true => stream::classic(record),
            false => stream::shown(record, style),
        },
    )
}

/// Loops that a compiler made are in this process alone.
pub(crate) fn refuse_compilers(args: &StreamArgs) -> Result<(), Failure> {
    match args.compiler.is_empty() {
        true => Ok(()),
        false => Err(Failure::usage(
            "--compiler runs one process, and --ranks several\nhint: leave one of them out",
        )),
    }
}
