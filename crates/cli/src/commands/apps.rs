//! `nodegauge apps`.

use crate::args::PlacementArgs;
use crate::args::apps::{AppsCommand, HpcgArgs, IccgArgs, TrapezoidArgs};
use crate::failure::{Exit, Failure};
use crate::resolve;
use crate::session;
use nodegauge_apps::hpcg::{HpcgOptions, HpcgPlan, XhpcgOptions};
use nodegauge_apps::iccg::{IccgOptions, IccgPlan};
use nodegauge_apps::trapezoid::{TrapezoidOptions, TrapezoidPlan};
use nodegauge_apps::{Apps, Workers};
use nodegauge_machine::Topology;
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_placement::{Policy, RankRequest, Request, ThreadList, plan, plan_ranks};

pub(crate) fn execute(command: &AppsCommand) -> Result<Exit, Failure> {
    match command {
        AppsCommand::Trapezoid(args) => trapezoid(args),
        AppsCommand::Iccg(args) => iccg(args),
        AppsCommand::Hpcg(args) => hpcg(args),
    }
}

/// Memory of applications lies where it is touched first.
fn refuse_numa(placement: &PlacementArgs) -> Result<(), Failure> {
    match &placement.numa {
        Some(spec) => Err(Failure::usage(format!(
            "--numa {spec}: applications touch their memory first where they use it\nhint: start nodegauge by numactl, or give ranks a --policy"
        ))),
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
    let team = resolve::one_team(&args.placement, &site.topology, "apps hpcg")?;
    let placement = plan(&site.topology, &team.request)?;
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
    let plan = HpcgPlan::new(&site, placement, options, team.notices)?;
    session::conduct_plan(&args.common, site, Box::new(plan), &Apps)
}

/// Threads, from one up to one a core unless counts are given, and ranks under each policy that this
/// machine can have.
fn workers(
    args: &TrapezoidArgs,
    topology: &Topology,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Workers>, Failure> {
    let cores = plan(topology, &Request::default())?.threads.len() as u32;
    let mut placement = args.placement.clone();
    placement.threads = placement.threads.or_else(|| ThreadList::new(doubled(cores)));
    let planned = resolve::plan(&placement, topology)?;
    let notice = |id, text: String| Notice::new(id, "apps", text);
    notices.extend(planned.notices.into_iter().map(|text| notice(NoticeId::Environment, text)));
    let mut workers: Vec<Workers> = planned.placements.into_iter().map(Workers::Threads).collect();
    workers.sort_by_key(Workers::count);
    let all = (0..=5).filter_map(Policy::new).collect();
    let policies = args.policy.as_ref().map_or(all, |given| given.0.clone());
    for policy in policies {
        let request = RankRequest {
            ranks: args.ranks.unwrap_or(cores),
            map: args.rank_map,
            policy: Some(policy),
            ..RankRequest::default()
        };
        match plan_ranks(topology, &request) {
            Ok(ranks) => workers.push(Workers::Ranks(ranks)),
            Err(why) if args.policy.is_some() || args.ranks.is_some() => return Err(why.into()),
            Err(why) => {
                let text = format!("policy {policy} is left out: {why}");
                notices.push(notice(NoticeId::LeftOut, text));
            }
        }
    }
    Ok(workers)
}

fn iccg(args: &IccgArgs) -> Result<Exit, Failure> {
    refuse_numa(&args.placement)?;
    let site = session::site(&args.common)?;
    let mut notices = Vec::new();
    let workers = solvers(args, &site.topology, &mut notices)?;
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
    let plan = IccgPlan::new(&site, workers, options, notices)?;
    session::conduct_plan(&args.common, site, Box::new(plan), &Apps)
}

/// Threads, one a core unless counts are given; with `--ranks` or `--policy` ranks alone, under each policy.
fn solvers(
    args: &IccgArgs,
    topology: &Topology,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Workers>, Failure> {
    let planned = resolve::plan(&args.placement, topology)?;
    if args.ranks.is_none() && args.policy.is_none() {
        let text = |text| Notice::new(NoticeId::Environment, "apps", text);
        notices.extend(planned.notices.into_iter().map(text));
        return Ok(planned.placements.into_iter().map(Workers::Threads).collect());
    }
    let cores = plan(topology, &Request::default())?.threads.len() as u32;
    let policies = args.policy.iter().flat_map(|given| &given.0);
    let mut policies: Vec<Option<Policy>> = policies.copied().map(Some).collect();
    if policies.is_empty() {
        policies.push(None);
    }
    let ranks = args.ranks.unwrap_or(cores);
    let of = |policy| {
        let request = RankRequest { ranks, map: args.rank_map, policy, ..RankRequest::default() };
        Ok(Workers::Ranks(plan_ranks(topology, &request)?))
    };
    policies.into_iter().map(of).collect()
}

/// 1, 2, 4, ... and `most`.
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
