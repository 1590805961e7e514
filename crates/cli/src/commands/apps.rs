//! Implementation of the command `nodegauge apps`.

mod mpi;

use crate::args::PlacementArgs;
use crate::args::apps::{
    AppRankArgs, AppSweepArgs, AppsCommand, HpcgArgs, IccgArgs, TrapezoidArgs,
};
use crate::failure::{Exit, Failure};
use crate::launched;
use crate::session;
use nodegauge_apps::hpcg::{HpcgOptions, HpcgPlan, XhpcgOptions};
use nodegauge_apps::iccg::{IccgOptions, IccgPlan};
use nodegauge_apps::sweep::WorkersCellOptions;
use nodegauge_apps::trapezoid::{TrapezoidOptions, TrapezoidPlan};
use nodegauge_apps::{AppGauge, MpiRanks, WorkersOptions};
use nodegauge_measure::Fraction;
use nodegauge_placement::{JobPlacementOptions, LauncherJob, RankPlacementOptions};

pub(crate) fn execute(command: &AppsCommand) -> Result<Exit, Failure> {
    match (command, LauncherJob::current()) {
        (AppsCommand::Iccg(args), Some(started)) => {
            mpi::join(&started, nodegauge_apps::iccg::follow, |ranks| iccg(args, Some(ranks)))
        }
        (AppsCommand::Trapezoid(args), Some(started)) => {
            mpi::join(&started, nodegauge_apps::trapezoid::follow, |ranks| {
                trapezoid(args, Some(ranks))
            })
        }
        (AppsCommand::Hpcg(_), Some(started)) => {
            let refusal = Failure::usage(format!(
                "{}, but this application starts ranks itself",
                started.in_words(),
            ))
            .hint(format!("start one process with --ranks {}", started.ranks));
            launched::fail_once(&started, refusal)
        }
        (AppsCommand::Trapezoid(args), None) => trapezoid(args, None),
        (AppsCommand::Iccg(args), None) => iccg(args, None),
        (AppsCommand::Hpcg(args), None) => hpcg(args),
    }
}

/// Returns the options for the workers of an application.
fn workers(
    placement: &PlacementArgs,
    ranks: &AppRankArgs,
    sweep: Option<&AppSweepArgs>,
) -> WorkersOptions {
    let of_ranks = RankPlacementOptions {
        ranks: ranks.ranks,
        map: ranks.rank_map,
        ..RankPlacementOptions::default()
    };
    let job = JobPlacementOptions { process: placement.options(), ranks: of_ranks };
    WorkersOptions {
        cell: WorkersCellOptions { job, kind: None },
        policies: ranks.policy.clone(),
        axes: sweep.map(|sweep| sweep.axes.clone()).unwrap_or_default(),
    }
}

fn trapezoid(args: &TrapezoidArgs, joined: Option<&MpiRanks>) -> Result<Exit, Failure> {
    let site = session::this_node(&args.common)?;
    let options = TrapezoidOptions {
        points: match args.points.as_slice() {
            [] => TrapezoidPlan::DEFAULT_POINTS.to_vec(),
            points => points.to_vec(),
        },
        budget: args.common.budget,
        samples: args.common.samples.map(|n| n as usize),
    };
    let requested = workers(&args.placement, &args.ranks, None);
    let plan = TrapezoidPlan::new(&site, &requested, joined, options)?;
    session::conduct_plan(&args.common, site, Box::new(plan), &AppGauge)
}

fn hpcg(args: &HpcgArgs) -> Result<Exit, Failure> {
    let site = session::node_with_caches(&args.common)?;
    let requested = workers(&args.placement, &args.ranks, Some(&args.sweep));
    let options = HpcgOptions {
        grid: args.grid.unwrap_or(HpcgPlan::DEFAULT_GRID),
        column_per_coefficient: args.rules,
        memory_fraction: Fraction(args.memory_fraction),
        budget: args.common.budget,
        samples: args.common.samples.map(|n| n as usize),
        xhpcg: args.xhpcg.as_ref().map(|program| XhpcgOptions {
            program: program.clone(),
            launcher: args.launcher.clone(),
            allow_root: args.allow_run_as_root,
            seconds: args.xhpcg_seconds.as_secs() as u32,
        }),
    };
    let plan = HpcgPlan::new(&site, &requested, options)?;
    session::conduct_plan(&args.common, site, Box::new(plan), &AppGauge)
}

fn iccg(args: &IccgArgs, joined: Option<&MpiRanks>) -> Result<Exit, Failure> {
    // All ranks of a launcher must choose the same mesh. They would also disturb each other if each measured the
    // caches.
    let site = match joined {
        Some(_) => session::this_node(&args.common)?,
        None => session::node_with_caches(&args.common)?,
    };
    let requested = workers(&args.placement, &args.ranks, Some(&args.sweep));
    let options = IccgOptions {
        elements: args.elements,
        method: args.preconditioner,
        storage: args.storage,
        tolerance: args.tolerance,
        iterations: args.iterations,
        memory_fraction: Fraction(args.memory_fraction),
        budget: args.common.budget,
        samples: args.common.samples.map(|n| n as usize),
    };
    let plan = IccgPlan::new(&site, &requested, joined, options)?;
    session::conduct_plan(&args.common, site, Box::new(plan), &AppGauge)
}
