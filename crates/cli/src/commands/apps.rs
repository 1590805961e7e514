//! `nodegauge apps`.

mod mpi;

use self::mpi::MpiRanks;
use crate::args::PlacementArgs;
use crate::args::apps::{AppRankArgs, AppsCommand, HpcgArgs, IccgArgs, TrapezoidArgs};
use crate::args::ranks::RankArgs;
use crate::failure::{Exit, Failure};
use crate::launched;
use crate::resolve;
use crate::session;
use nodegauge_apps::Apps;
use nodegauge_apps::GAUGE;
use nodegauge_apps::hpcg::{HpcgOptions, HpcgPlan, XhpcgOptions};
use nodegauge_apps::iccg::{IccgOptions, IccgPlan};
use nodegauge_apps::sweep::{self, Swept, WorkersAxis, WorkersKind, WorkersSetting};
use nodegauge_apps::trapezoid::{TrapezoidOptions, TrapezoidPlan};
use nodegauge_machine::Topology;
use nodegauge_measure::{Notice, NoticeId, notice, sweep as grid};
use nodegauge_placement::{LecturePolicy, PlacementRequest, Started, ThreadList, plan};
use nodegauge_team::Workers;

pub(crate) fn execute(command: &AppsCommand) -> Result<Exit, Failure> {
    match (command, Started::own()) {
        (AppsCommand::Iccg(args), Some(started)) => {
            mpi::join(&started, |ranks| iccg(args, Some(ranks)))
        }
        (_, Some(started)) => {
            let refusal = Failure::usage(format!(
                "{}, but this application starts its ranks itself",
                started.in_words(),
            ))
            .hint(format!("start one process with --ranks {}", started.ranks));
            launched::once(&started, refusal)
        }
        (AppsCommand::Trapezoid(args), None) => trapezoid(args),
        (AppsCommand::Iccg(args), None) => iccg(args, None),
        (AppsCommand::Hpcg(args), None) => hpcg(args),
    }
}

/// Returns an error for `--numa`, because applications place their memory by first touch.
fn refuse_numa(placement: &PlacementArgs) -> Result<(), Failure> {
    match &placement.numa {
        Some(spec) => Err(Failure::usage(format!(
            "--numa {spec} is not supported: applications place their memory by first touch"
        ))
        .hint("start nodegauge with numactl, or use --policy for ranks")),
        None => Ok(()),
    }
}

fn trapezoid(args: &TrapezoidArgs) -> Result<Exit, Failure> {
    refuse_numa(&args.placement)?;
    let site = session::site(&args.common)?;
    let mut notices = Vec::new();
    let workers = workers(args, &site.topology, &mut notices)?;
    let options = TrapezoidOptions {
        points: match args.points.as_slice() {
            [] => TrapezoidPlan::POINTS.to_vec(),
            points => points.to_vec(),
        },
        budget: args.common.budget.unwrap_or(TrapezoidPlan::BUDGET),
        samples: args.common.samples.map(|n| n as usize),
    };
    let plan = TrapezoidPlan::new(workers, options, notices)?;
    session::conduct_plan(&args.common, site, Box::new(plan), &Apps)
}

fn hpcg(args: &HpcgArgs) -> Result<Exit, Failure> {
    refuse_numa(&args.placement)?;
    let site = session::site(&args.common)?;
    let mut notices = Vec::new();
    let asked = Asked { placement: &args.placement, ranks: &args.ranks, axes: &args.sweep.axes };
    let swept = asked.swept(&site.topology, &mut notices)?;
    let options = HpcgOptions {
        grid: args.grid.unwrap_or(HpcgPlan::GRID),
        memory_fraction: args.memory_fraction,
        budget: args.common.budget.unwrap_or(HpcgPlan::BUDGET),
        samples: args.common.samples.map(|n| n as usize),
        xhpcg: args.xhpcg.as_ref().map(|program| XhpcgOptions {
            program: program.clone(),
            launcher: args.launcher.clone(),
            allow_root: args.allow_run_as_root,
            seconds: args.xhpcg_seconds,
        }),
    };
    let plan = HpcgPlan::new(&site, swept, options, notices)?;
    session::conduct_plan(&args.common, site, Box::new(plan), &Apps)
}

/// Returns the number of usable cores.
fn cores(topology: &Topology) -> Result<u32, Failure> {
    Ok(plan(topology, &PlacementRequest::default())?.threads.len() as u32)
}

/// Returns the workers to measure in turn: thread counts up to one per core unless counts are given, and
/// ranks under each policy that this machine supports.
fn workers(
    args: &TrapezoidArgs,
    topology: &Topology,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Workers>, Failure> {
    let mut placement = args.placement.clone();
    let counts = doubled(cores(topology)?);
    placement.threads = placement.threads.or_else(|| ThreadList::new(counts));
    let planned = resolve::plan(&placement, topology)?;
    told(notices, planned.notices);
    let mut workers: Vec<Workers> = planned.placements.into_iter().map(Workers::Threads).collect();
    workers.sort_by_key(Workers::count);
    let all = || (0..=5).filter_map(LecturePolicy::new).collect();
    let policies = args.ranks.policy.as_ref().map_or_else(all, |given| given.0.clone());
    for policy in policies {
        match ranks(&args.ranks, (&args.placement, topology), Some(policy), notices) {
            Ok(ranks) => workers.push(ranks),
            Err(why) if args.ranks.policy.is_some() || args.ranks.ranks.is_some() => {
                return Err(why);
            }
            Err(why) => {
                let text = format!("policy {policy} left out: {}", why.in_a_line());
                notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
            }
        }
    }
    Ok(workers)
}

/// Adds the notices of a placement, each once.
fn told(notices: &mut Vec<Notice>, texts: Vec<String>) {
    let notice = |text| Notice::new(NoticeId::Environment, GAUGE, text);
    notice::add_new(notices, texts.into_iter().map(notice));
}

/// Returns ranks of one thread each, one per core unless a number is given.
fn ranks(
    args: &AppRankArgs,
    (placement, topology): (&PlacementArgs, &Topology),
    policy: Option<LecturePolicy>,
    notices: &mut Vec<Notice>,
) -> Result<Workers, Failure> {
    let count = args.ranks.map_or_else(|| cores(topology), Ok)?;
    let one = PlacementArgs { threads: ThreadList::new(vec![1]), ..placement.clone() };
    let args =
        RankArgs { ranks: Some(count), rank_map: args.rank_map, policy, cpus: None, devices: None };
    let plan = resolve::ranks(&one, &args, topology)?;
    let mut plan = plan.unwrap_or_else(|| unreachable!("their number is given"));
    told(notices, std::mem::take(&mut plan.notices));
    Ok(Workers::Ranks(plan))
}

fn iccg(args: &IccgArgs, joined: Option<&MpiRanks<'_>>) -> Result<Exit, Failure> {
    refuse_numa(&args.placement)?;
    let site = session::site(&args.common)?;
    let mut notices = Vec::new();
    let asked = Asked { placement: &args.placement, ranks: &args.ranks, axes: &args.sweep.axes };
    let swept = match joined {
        Some(ranks) => {
            asked.refuse_all(ranks)?;
            vec![Swept::alone(ranks.workers(&site.topology, &mut notices)?)]
        }
        None => asked.swept(&site.topology, &mut notices)?,
    };
    let defaults = IccgOptions::default();
    let options = IccgOptions {
        elements: args.elements,
        method: args.preconditioner,
        storage: args.storage,
        tolerance: args.tolerance,
        iterations: args.iterations,
        memory_fraction: args.memory_fraction,
        budget: args.common.budget.unwrap_or(defaults.budget),
        samples: args.common.samples.map(|n| n as usize),
    };
    let plan = IccgPlan::new(&site, swept, options, notices)?;
    session::conduct_plan(&args.common, site, Box::new(plan), &Apps)
}

/// Workers that the user asked for.
struct Asked<'a> {
    placement: &'a PlacementArgs,
    ranks: &'a AppRankArgs,
    axes: &'a [WorkersAxis],
}

impl Asked<'_> {
    /// Returns an error for any placement option, because the launcher has placed the ranks.
    fn refuse_all(&self, ranks: &MpiRanks<'_>) -> Result<(), Failure> {
        let Self { placement, ranks: asked, axes } = *self;
        let given = [
            ("--threads", placement.threads.is_some()),
            ("--places", placement.places.is_some()),
            ("--bind", placement.bind.is_some()),
            ("--threads-per-cache", placement.per_cache.is_some()),
            ("--ranks", asked.ranks.is_some()),
            ("--rank-map", asked.rank_map.is_some()),
            ("--policy", asked.policy.is_some()),
            ("--sweep", !axes.is_empty()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::usage(format!(
                "{option} cannot be used: {}",
                ranks.started.in_words()
            ))
            .hint("have the launcher place its ranks, or start one process")),
            None => Ok(()),
        }
    }

    /// Returns the workers of all combinations of the axes.
    fn swept(&self, topology: &Topology, notices: &mut Vec<Notice>) -> Result<Vec<Swept>, Failure> {
        let (swept, left_out) =
            sweep::plan(&self.axes()?, |settings| self.workers(settings, topology, notices))?;
        notices.extend(left_out);
        Ok(swept)
    }

    /// Returns the axes: those of `--sweep`, and `--threads` and `--policy` with several values.
    fn axes(&self) -> Result<Vec<WorkersAxis>, Failure> {
        let mut axes = self.axes.to_vec();
        let counts = self.placement.threads.as_ref();
        if let Some(counts) = counts.filter(|counts| counts.single().is_none()) {
            axes.insert(0, WorkersAxis::of(counts.clone(), WorkersSetting::Threads));
        }
        let policies = self.ranks.policy.as_ref();
        if let Some(policies) = policies.filter(|policies| policies.0.len() > 1) {
            axes.push(WorkersAxis::of(policies.clone(), WorkersSetting::Policy));
        }
        grid::check(&axes, |name| match name {
            "threads" => counts.is_some_and(|counts| counts.single().is_some()),
            "ranks" => self.ranks.ranks.is_some(),
            "policy" => policies.is_some_and(|policies| policies.0.len() == 1),
            "rank-map" => self.ranks.rank_map.is_some(),
            _ => false,
        })?;
        Ok(axes)
    }

    /// Returns threads, one per core unless a number is given, or ranks, if an option for ranks or an axis
    /// requires them.
    fn workers(
        &self,
        settings: &[WorkersSetting],
        topology: &Topology,
        notices: &mut Vec<Notice>,
    ) -> Result<Workers, Failure> {
        let (mut placement, mut of_ranks) = (self.placement.clone(), self.ranks.clone());
        let policies = of_ranks.policy.iter().flat_map(|given| &given.0);
        let mut policy = policies.copied().next();
        let mut kind = None;
        for setting in settings {
            match *setting {
                WorkersSetting::Workers(of) => kind = Some(of),
                WorkersSetting::Threads(count) => placement.threads = ThreadList::new(vec![count]),
                WorkersSetting::Ranks(count) => of_ranks.ranks = Some(count),
                WorkersSetting::Policy(of) => policy = Some(of),
                WorkersSetting::RankMap(map) => of_ranks.rank_map = Some(map),
            }
        }
        let asked = of_ranks.ranks.is_some() || of_ranks.rank_map.is_some() || policy.is_some();
        let counts = [placement.threads.as_ref().and_then(ThreadList::single), of_ranks.ranks];
        match kind {
            Some(WorkersKind::Threads) => {
                placement.threads = counts[0].or(counts[1]).and_then(|n| ThreadList::new(vec![n]))
            }
            Some(WorkersKind::Ranks) => of_ranks.ranks = counts[1].or(counts[0]),
            None => {}
        }
        if kind.map_or(asked, |kind| kind == WorkersKind::Ranks) {
            return ranks(&of_ranks, (&placement, topology), policy, notices);
        }
        let planned = resolve::plan(&placement, topology)?;
        told(notices, planned.notices);
        let only = planned.placements.into_iter().next();
        only.map(Workers::Threads).ok_or_else(|| Failure::usage("expected threads"))
    }
}

/// Returns 1, 2, 4, ... and `most`.
fn doubled(most: u32) -> Vec<u32> {
    let powers = std::iter::successors(Some(1), |count| Some(2 * count));
    powers.take_while(|count| *count < most).chain([most.max(1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_double_up_to_all() {
        let of = [1, 2, 6, 8].map(doubled);
        assert_eq!(of, [vec![1], vec![1, 2], vec![1, 2, 4, 6], vec![1, 2, 4, 8]]);
    }
}
