//! Implementation of the command `nodegauge hpl`.

use crate::args::hpl::HplArgs;
use crate::args::plan::refuse_with_plan;
use crate::failure::{Exit, Failure};
use crate::launched;
use crate::output::{self, Sink};
use crate::session::{self, HostsRun, StdoutContent};
use nodegauge_compute::options::ReferenceProgramOptions;
use nodegauge_compute::{ComputeGauge, HplPlan, HplPlanDocument, HplRequest, view};
use nodegauge_gauge::{MeasuredNode, PlannedRun};
use nodegauge_measure::Fraction;

pub(crate) fn execute(args: &HplArgs) -> Result<Exit, Failure> {
    let exclude_file = args.on_hosts.exclude_file.as_deref();
    match launched::job_on_hosts().filter(|_| !is_planned(args)) {
        Some(job) => launched::measure_each_host(&job, exclude_file, |run| match &args.real.xhpl {
            Some(_) => Err(Failure::usage("--xhpl starts ranks itself")
                .hint("start one process with --hosts, or leave out --xhpl")),
            None => measure(args, Some(run)),
        }),
        None => {
            launched::refuse_exclude_file(exclude_file)?;
            measure(args, None)
        }
    }
}

fn measure(args: &HplArgs, hosts: Option<&HostsRun<'_>>) -> Result<Exit, Failure> {
    if args.plan {
        refuse_with_plan(&args.common, &[("--hpl-text", args.hpl_text)])?;
    }
    let site = site(args)?;
    let plan = plan(args, &site)?;
    if args.real.hpl_dat_only.is_none() {
        plan.check_ranks(&site.topology)?;
    }
    if args.plan {
        let file = args.common.json.as_deref();
        if !output::write_documents(&[(file, &|| {
            output::json(&HplPlanDocument::new(&plan, &site))
        })])? {
            output::show_section(&view::plan_section(&plan));
        }
        return Ok(Exit::Success);
    }
    if let Some(file) = &args.real.hpl_dat_only {
        let sink = Sink::from(file.as_str());
        sink.check()?;
        sink.write(&plan.input_file(&site)?)?;
        return Ok(Exit::Success);
    }
    let figures = plan.possible_figures(&site);
    session::conduct_on(
        hosts,
        &args.common,
        site,
        &figures,
        |site, progress| session::measure(Box::new(plan), site, progress),
        |record, style| {
            if args.hpl_text {
                StdoutContent::Table(view::hpl_text(record))
            } else {
                StdoutContent::page_renderer(&ComputeGauge)(record, style)
            }
        },
    )
}

/// True if the command only makes a plan and does not measure.
fn is_planned(args: &HplArgs) -> bool {
    args.plan || args.real.hpl_dat_only.is_some()
}

/// Returns this node, or the machine for which the command plans.
fn site(args: &HplArgs) -> Result<MeasuredNode, Failure> {
    if !is_planned(args) {
        args.plan_for.refuse_without_plan(args.rate.is_some(), "--plan or --hpl-dat-only")?;
    }
    session::node_to_plan_for(&args.common, &args.plan_for)
}

fn plan(args: &HplArgs, site: &MeasuredNode) -> Result<HplPlan, Failure> {
    let real = &args.real;
    let request = HplRequest {
        order: args.order.map(|order| order as usize),
        full: args.full,
        is_memory_given: args.plan_for.memory.is_some(),
        memory_fraction: Fraction(args.memory_fraction),
        nb: args.nb.iter().map(|nb| *nb as usize).collect(),
        grid_multiple: args.grid_multiple,
        seed: args.seed,
        budget: args.common.budget,
        samples: args.common.samples.map(|n| n as usize),
        libraries: args.blas.clone(),
        rate: args.rate,
        placement: args.placement.options(),
        ranks: real.ranks.map(|ranks| ranks as usize),
        hosts: real.hosts.clone(),
        reference: real.xhpl.as_ref().map(|program| ReferenceProgramOptions {
            program: program.clone(),
            launcher: real.launcher.clone(),
            allow_root: real.allow_run_as_root,
        }),
        newest: &session::newest_run(&args.common.db, site),
    };
    HplPlan::from_request(site, request)
}
