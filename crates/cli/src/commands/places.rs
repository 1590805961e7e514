//! `nodegauge places`, and how all commands turn placement options into placements.

use crate::args::{PlacementArgs, PlacesArgs};
use crate::commands::machine::write_json;
use crate::commands::ranks;
use crate::failure::{Exit, Failure};
use crate::output;
use nodegauge_gauge::view::Page;
use nodegauge_machine::{Topology, TopologySource};
use nodegauge_measure::record;
use nodegauge_memory::team::Team;
use nodegauge_placement::json::PlacesDocument;
use nodegauge_placement::pairs;
use nodegauge_placement::{Bind, Environment, MemoryPolicy, Placement, RankPlan, Request};

/// Placements for each thread count that was asked for, the memory policy, and what the user
/// should know of both.
pub(crate) struct Planned {
    pub(crate) placements: Vec<Placement>,
    pub(crate) policy: MemoryPolicy,
    pub(crate) notices: Vec<String>,
}

/// Resolves placement options, and the environment where options are absent, on a machine.
pub(crate) fn plan(args: &PlacementArgs, topology: &Topology) -> Result<Planned, Failure> {
    plan_or(args, topology, &Request::default())
}

/// What options and environment ask for.
pub(crate) fn request(
    args: &PlacementArgs,
    threads: Option<u32>,
) -> Result<(Request, Vec<String>), Failure> {
    let mut request = Request {
        threads,
        places: args.places.clone(),
        bind: args.bind,
        kmp: None,
        per_cache: args.per_cache,
    };
    let environment = Environment::read(|name| std::env::var(name).ok());
    let said = environment.apply(&mut request).map_err(Failure::usage)?;
    Ok((request, said))
}

/// [`plan`], with what to do when neither options nor environment say anything.
pub(crate) fn plan_or(
    args: &PlacementArgs,
    topology: &Topology,
    otherwise: &Request,
) -> Result<Planned, Failure> {
    let counts: Vec<Option<u32>> = match &args.threads {
        Some(counts) => counts.counts().iter().map(|count| Some(*count)).collect(),
        None => vec![None],
    };
    let mut placements = Vec::new();
    let mut notices: Vec<String> = Vec::new();
    for threads in counts {
        let (mut request, mut said) = request(args, threads)?;
        if request == Request::default() {
            request = otherwise.clone();
        }
        let placement = nodegauge_placement::plan(topology, &request)?;
        said.extend(placement.notices.iter().cloned());
        for notice in said {
            if !notices.contains(&notice) {
                notices.push(notice);
            }
        }
        placements.push(placement);
    }
    let policy = match &args.numa {
        Some(spec) => spec.resolve(topology)?,
        None => MemoryPolicy::Default,
    };
    Ok(Planned { placements, policy, notices })
}

pub(crate) fn execute(args: &PlacesArgs) -> Result<Exit, Failure> {
    let source = args.described.topology.clone().unwrap_or_default();
    let topology = Topology::load(&source)?;
    if args.mpi_pairs {
        return mpi_pairs(args, &topology);
    }
    let ranked = ranks::plan(&args.placement, &args.ranks, &topology)?;
    if let Some(launcher) = args.emit {
        let plan = match ranked {
            Some(plan) => plan,
            None => single(&args.placement, &topology)?,
        };
        output::print(&ranks::emitted(&plan, &topology, launcher));
        plan.notices.iter().for_each(|notice| output::note(&format!("note: {notice}")));
        return Ok(Exit::Success);
    }
    if let Some(plan) = ranked {
        if args.verbose {
            return Err(Failure::usage(
                "-v shows the threads of one process\nhint: leave out -v, or --ranks",
            ));
        }
        if !show(args, &[PlacesDocument::new(&topology, &plan.ranks)])? {
            output::print(&ranks::remarks(&plan));
        }
        return Ok(Exit::Success);
    }
    let planned = plan(&args.placement, &topology)?;
    let documents: Vec<PlacesDocument> = planned
        .placements
        .iter()
        .map(|placement| {
            let memory = planned.policy.clone();
            let plan = RankPlan::single(placement.clone(), memory);
            PlacesDocument::new(&topology, &plan.ranks)
        })
        .collect();
    if show(args, &documents)? {
        return Ok(Exit::Success);
    }
    for notice in &planned.notices {
        output::print(&format!("note: {notice}\n"));
    }
    if args.verbose {
        if source != TopologySource::Live {
            return Err(Failure::usage(
                "-v binds threads and asks the kernel, which only this machine's can answer\nhint: leave out --topology or -v",
            ));
        }
        for placement in &planned.placements {
            output::print(&observed(placement)?);
        }
    }
    Ok(Exit::Success)
}

/// One process, as a plan of ranks.
fn single(args: &PlacementArgs, topology: &Topology) -> Result<RankPlan, Failure> {
    let planned = plan(args, topology)?;
    let [placement] = planned.placements.as_slice() else {
        return Err(Failure::usage(
            "--emit takes one placement\nhint: give one thread count, e.g. --threads 4",
        ));
    };
    let plan = RankPlan::single(placement.clone(), planned.policy);
    Ok(RankPlan { notices: planned.notices, ..plan })
}

/// Writes the document and prints the tables; whether standard output is taken by the document.
fn show(args: &PlacesArgs, documents: &[PlacesDocument]) -> Result<bool, Failure> {
    if args.json.is_some() {
        let [document] = documents else {
            return Err(Failure::usage(
                "--json shows one placement\nhint: give one thread count, e.g. --threads 4",
            ));
        };
        if write_json(args.json.as_deref(), serde_json::to_string_pretty(document))? {
            return Ok(true);
        }
    }
    let sections = documents.iter().map(nodegauge_report::places::view).collect();
    output::show(&Page { sections, ..Page::default() });
    Ok(false)
}

/// The pairs that `mpi` would measure on a machine.
fn mpi_pairs(args: &PlacesArgs, topology: &Topology) -> Result<Exit, Failure> {
    let rows = pairs::rows(topology, &pairs::by_distance(topology));
    let document = serde_json::json!({ "schema": record::SCHEMA, "pairs": rows });
    if write_json(args.json.as_deref(), serde_json::to_string_pretty(&document))? {
        return Ok(Exit::Success);
    }
    output::show_section(&nodegauge_report::places::pairs(&rows));
    Ok(Exit::Success)
}

/// Forms the team and prints where the kernel says that each thread may run.
fn observed(placement: &Placement) -> Result<String, Failure> {
    let bound = placement.bind != Bind::None;
    let places: Vec<_> = placement
        .threads
        .iter()
        .map(|thread| if bound { thread.cpus.clone() } else { Vec::new() })
        .collect();
    let team = Team::start(&places).map_err(Failure::missing)?;
    Ok(team.observed().iter().map(|line| format!("{line}\n")).collect())
}
