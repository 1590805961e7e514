//! `nodegauge apps`.

use crate::args::apps::{AppsCommand, TrapezoidArgs};
use crate::failure::{Exit, Failure};
use crate::progress::Progress;
use crate::resolve;
use crate::session::{self, Shown};
use nodegauge_apps::trapezoid::{TrapezoidOptions, TrapezoidPlan};
use nodegauge_apps::{Apps, Workers};
use nodegauge_gauge::{Planned, Site};
use nodegauge_machine::Topology;
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_placement::{Policy, RankRequest, Request, ThreadList, plan, plan_ranks};

pub(crate) fn execute(command: &AppsCommand) -> Result<Exit, Failure> {
    match command {
        AppsCommand::Trapezoid(args) => trapezoid(args),
    }
}

fn trapezoid(args: &TrapezoidArgs) -> Result<Exit, Failure> {
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
    let figures = plan.figures(&site);
    let measure = |site: &Site, progress: &mut Progress| Box::new(plan).run(site, progress);
    session::conduct(&args.common, site, &figures, measure, Shown::page_of(&Apps))
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
