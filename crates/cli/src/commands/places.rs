//! Implementation of the command `nodegauge places`.

use crate::args::PlacesArgs;
use crate::args::ranks::EmitFormat;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session;
use nodegauge_gauge::view::Page;
use nodegauge_machine::{SysRoot, Topology, TopologySource, devices};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record;
use nodegauge_placement::emit::{EmittedRanks, script};
use nodegauge_placement::json::PlacesDocument;
use nodegauge_placement::pairs;
use nodegauge_placement::{Binding, Placement, RankPlacementOptions, RankPlan};
use nodegauge_team::Team;
use std::num::NonZeroU32;

pub(crate) fn execute(args: &PlacesArgs) -> Result<Exit, Failure> {
    let source = args.described.topology.clone().unwrap_or_default();
    let topology = session::load_topology(&source)?;
    if args.mpi_pairs {
        return mpi_pairs(args, &topology);
    }
    let mut topology = topology;
    if args.verify && source != TopologySource::Live {
        let message = "--verify binds threads on this machine and cannot be used with --topology";
        return Err(Failure::usage(message).hint("leave out --verify or --topology"));
    }
    let options = args.placement.options();
    let ranks = ranks(args, &mut topology)?;
    let ranked = options.plan_ranks(&ranks, &topology)?;
    if let Some(launcher) = args.emit {
        let plan = match ranked {
            Some(plan) => plan,
            None => options.plan_single_team(&topology, several_placements)?,
        };
        let nodes = args.nodes.and_then(NonZeroU32::new);
        let all = EmittedRanks { plan: &plan, topology: &topology, nodes };
        output::print(&launcher_text(&all, launcher)?);
        plan.notices.iter().for_each(|notice| output::print_note(&format!("note: {notice}")));
        return Ok(Exit::Success);
    }
    if let Some(plan) = ranked {
        if args.verify {
            return Err(Failure::usage("--verify requires a single process")
                .hint("leave out --verify, or --ranks"));
        }
        let document = PlacesDocument { nodes: args.nodes, ..document(&topology, &plan) };
        if !show(args, &[document])? {
            output::print(&remarks(&plan));
            output::print(&several_nodes_remark(args.nodes, plan.ranks.len()));
        }
        return Ok(Exit::Success);
    }
    let planned = options.place_teams(&topology)?;
    let documents: Vec<PlacesDocument> = planned
        .placements
        .iter()
        .map(|placement| {
            document(&topology, &RankPlan::single(placement.clone(), planned.policy.clone()))
        })
        .collect();
    if show(args, &documents)? {
        return Ok(Exit::Success);
    }
    for notice in &planned.notices {
        output::print(&format!("note: {notice}\n"));
    }
    if args.verify {
        for placement in &planned.placements {
            output::print(&observed_cpus(placement)?);
        }
    }
    Ok(Exit::Success)
}

/// Returns the options for the ranks of one node and their devices. On this machine, unusable devices are ignored.
fn ranks(args: &PlacesArgs, topology: &mut Topology) -> Result<RankPlacementOptions, Failure> {
    let mut ranks = args.ranks.options();
    if let Some(nodes) = args.nodes {
        ranks = ranks.divide_among_nodes(nodes, args.devices.is_some())?;
    }
    let Some(each) = args.devices else { return Ok(ranks) };
    if topology.source == TopologySource::Live {
        topology.devices = devices::placement_devices(topology, &SysRoot::live());
    }
    Ok(ranks.with_devices(each, topology))
}

/// Returns a remark if the table of one node describes several nodes.
fn several_nodes_remark(nodes: Option<u32>, ranks: usize) -> String {
    let Some(nodes) = nodes.filter(|nodes| *nodes > 1) else { return String::new() };
    format!(
        "{} on {nodes} nodes; the table applies to each node\n",
        count_in_words(ranks * nodes as usize, "rank")
    )
}

/// Returns the error for `--emit` with several placements.
fn several_placements() -> Failure {
    Failure::usage("--emit requires a single placement")
        .hint("give one thread count, e.g. --threads 4")
}

/// Returns the document for a plan on this machine, with the environment of this process.
fn document(topology: &Topology, plan: &RankPlan) -> PlacesDocument {
    let live = matches!(topology.source, TopologySource::Live);
    let inherited = live.then(|| nodegauge_machine::inherited_settings(&SysRoot::live())).flatten();
    let document = PlacesDocument::new(topology, &plan.ranks).with_devices(&plan.devices);
    PlacesDocument { inherited, ..document }
}

/// Returns the lines below the table of a plan: its policy, if any, and its notices.
fn remarks(plan: &RankPlan) -> String {
    let policy = plan.policy.map(|policy| format!("policy {policy}: {}\n", policy.description()));
    let notices = plan.notices.iter().map(|notice| format!("note: {notice}\n"));
    policy.into_iter().chain(notices).collect()
}

/// Returns the plan in the format of a launcher.
fn launcher_text(all: &EmittedRanks<'_>, launcher: EmitFormat) -> Result<String, Failure> {
    Ok(match launcher {
        EmitFormat::Numactl if all.nodes.is_some_and(|nodes| nodes.get() > 1) => {
            return Err(Failure::usage("--emit numactl starts the ranks of one node")
                .hint("with --nodes, use --emit wrapper and the launcher of the nodes"));
        }
        EmitFormat::Omp => script::omp(all),
        EmitFormat::Numactl => script::numactl(all),
        EmitFormat::Wrapper => script::wrapper(all),
        EmitFormat::Openmpi => script::openmpi(all),
        EmitFormat::Mpich => script::mpich(all),
        EmitFormat::Slurm => script::slurm(all),
        EmitFormat::Pbs => script::pbs(all),
        EmitFormat::Nqs => script::nqs(all),
        EmitFormat::Pjm => script::pjm(all),
    })
}

/// Writes the document and prints the tables; returns true if the document was written to standard output.
fn show(args: &PlacesArgs, documents: &[PlacesDocument]) -> Result<bool, Failure> {
    if args.json.is_some() {
        let [document] = documents else {
            return Err(Failure::usage("--json requires a single placement")
                .hint("give one thread count, e.g. --threads 4"));
        };
        if output::write_documents(&[(args.json.as_deref(), &|| output::json(document))])? {
            return Ok(true);
        }
    }
    let sections = documents.iter().map(nodegauge_report::places::places_section).collect();
    output::show(&Page { sections, ..Page::default() });
    Ok(false)
}

/// Shows the pairs of hardware threads that `mpi` would measure on a machine.
fn mpi_pairs(args: &PlacesArgs, topology: &Topology) -> Result<Exit, Failure> {
    let rows = pairs::pair_rows(topology, &pairs::pairs_by_distance(topology));
    let document = serde_json::json!({ "schema": record::SCHEMA, "pairs": rows });
    if output::write_documents(&[(args.json.as_deref(), &|| output::json(&document))])? {
        return Ok(Exit::Success);
    }
    output::show_section(&nodegauge_report::places::pairs_section(&rows));
    Ok(Exit::Success)
}

/// Starts the threads and returns the CPUs on which the kernel allows each of them to run.
fn observed_cpus(placement: &Placement) -> Result<String, Failure> {
    let bound = placement.bind != Binding::None;
    let places: Vec<_> = placement
        .threads
        .iter()
        .map(|thread| if bound { thread.cpus.clone() } else { Vec::new() })
        .collect();
    let team = Team::start(&places)?;
    Ok(team.observed_affinities().iter().map(|line| format!("{line}\n")).collect())
}
