//! `nodegauge stream --sweep`: turns axes into cells, and runs them by turns.

mod relative;

use crate::args::StreamArgs;
use crate::commands::ranks::measure::{self, Joined};
use crate::commands::{places, ranks, stream};
use crate::failure::{Exit, Failure};
use crate::progress::Progress;
use crate::session::{self, Found, Shown};
use nodegauge_gauge::Site;
use nodegauge_machine::Topology;
use nodegauge_measure::repeat::Stop;
use nodegauge_memory::axis::Axis;
use nodegauge_memory::compiled::{self as made, ChosenCompiler, CompiledKernels, CompilerChoice};
use nodegauge_memory::ranks::SharedFleet;
use nodegauge_memory::size::SizeSpec;
use nodegauge_memory::sweep::{self, Cell, Coordinates};
use nodegauge_placement::{MemoryPolicy, ThreadList};
use nodegauge_toolchain::CompileLimits;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(45);
/// Cells at most: each has arrays of its own.
const MOST_CELLS: usize = 256;
/// The axis whose values are compilers.
const COMPILER: &str = "compiler";
/// Threads of all cells together at most: all of them live at once.
const MOST_THREADS: usize = 8192;

/// The axes: those of `--sweep`, `--threads` with several counts, and, beside another axis, the
/// compilers of `--compiler` with the native kernels before them.
pub(crate) fn axes(args: &StreamArgs) -> Result<Vec<Axis>, Failure> {
    let mut axes = args.sweep.clone();
    if let Some(counts) = args.placement.threads.as_ref().filter(|counts| counts.single().is_none())
    {
        axes.insert(0, Axis::Threads(counts.clone()));
    }
    if !axes.is_empty() && !args.compiler.is_empty() {
        let choices = std::iter::once(CompilerChoice::Native).chain(args.compiler.iter().cloned());
        axes.push(Axis::Compiler(choices.collect()));
    }
    for (i, axis) in axes.iter().enumerate() {
        if axes[..i].iter().any(|other| other.name() == axis.name()) {
            return Err(Failure::usage(format!(
                "the axis {} is given twice\nhint: give all values at once, e.g. --sweep {axis}",
                axis.name()
            )));
        }
    }
    let fixed = |axis: &Axis| match axis {
        Axis::Threads(_) => {
            args.placement.threads.as_ref().is_some_and(|counts| counts.single().is_some())
        }
        Axis::PerCache(_) => args.placement.per_cache.is_some(),
        Axis::Places(_) => args.placement.places.is_some(),
        Axis::Stores(_) => args.stores.0.is_some(),
        Axis::Pages(_) => args.pages.0.is_some(),
        Axis::Size(_) => args.size != SizeSpec::Auto,
        Axis::Prefetch(_) => args.prefetch.0.is_some(),
        // Given twice is what it was found to be above.
        Axis::Compiler(_) => false,
        Axis::Ranks(_) => args.ranks.ranks.is_some(),
        Axis::Policy(_) => args.ranks.policy.is_some(),
    };
    if let Some(axis) = axes.iter().find(|axis| fixed(axis)) {
        let name = axis.name();
        return Err(Failure::usage(format!(
            "--{name} is fixed and swept at once\nhint: give it once, e.g. --sweep {axis}"
        )));
    }
    if axes.len() > 2 {
        return Err(Failure::usage(
            "a sweep has at most two axes\nhint: fix one with its own option",
        ));
    }
    Ok(axes)
}

/// The arguments with value number `i` of an axis put in the place of its option.
fn with_value(args: &StreamArgs, axis: &Axis, i: usize) -> StreamArgs {
    let mut args = args.clone();
    let one = |counts: &ThreadList| ThreadList::new(vec![counts.counts()[i]]);
    match axis {
        Axis::Threads(counts) => args.placement.threads = one(counts),
        Axis::PerCache(counts) => args.placement.per_cache = Some(counts.counts()[i]),
        Axis::Places(places) => args.placement.places = Some(places[i].clone()),
        Axis::Stores(stores) => args.stores.0 = Some(stores[i]),
        Axis::Pages(pages) => args.pages.0 = Some(pages[i]),
        Axis::Size(sizes) => args.size = sizes[i],
        Axis::Prefetch(distances) => args.prefetch.0 = Some(distances[i]),
        Axis::Ranks(counts) => args.ranks.ranks = Some(counts.counts()[i]),
        Axis::Policy(policies) => args.ranks.policy = Some(policies[i]),
        // Loops are made when all is planned.
        Axis::Compiler(_) => {}
    }
    args
}

/// Every combination of the axes' values, resolved on this machine; and notices.
fn cells(
    args: &StreamArgs,
    axes: &[Axis],
    topology: &Topology,
) -> Result<(Vec<Cell>, Vec<String>), Failure> {
    let mut partial: Vec<(StreamArgs, Coordinates)> = vec![(args.clone(), Vec::new())];
    for axis in axes {
        partial = partial
            .iter()
            .flat_map(|(args, coordinates)| {
                axis.values().into_iter().enumerate().map(move |(i, value)| {
                    let mut coordinates = coordinates.clone();
                    coordinates.push((axis.name().to_owned(), value));
                    (with_value(args, axis, i), coordinates)
                })
            })
            .collect();
    }
    let mut notices: Vec<String> = Vec::new();
    let mut seen: Vec<Coordinates> = Vec::new();
    partial.retain(|(_, coordinates)| {
        let new = !seen.contains(coordinates);
        if new {
            seen.push(coordinates.clone());
        } else {
            let words: Vec<String> = coordinates.iter().map(|(a, v)| format!("{a} {v}")).collect();
            notices.push(format!("{} is given twice and measured once", words.join(", ")));
        }
        new
    });
    let references = relative::complete(&mut partial, &mut notices);
    if partial.len() > MOST_CELLS {
        return Err(Failure::usage(format!(
            "{} combinations are more than {MOST_CELLS}\nhint: take fewer values",
            partial.len()
        )));
    }
    let mut cells = Vec::new();
    for ((args, coordinates), reference) in partial.into_iter().zip(references) {
        let mut note = |more: Vec<String>| {
            for notice in more {
                if !notices.contains(&notice) {
                    notices.push(notice);
                }
            }
        };
        if let Some(mut plan) = ranks::plan(&args.placement, &args.ranks, topology)? {
            note(std::mem::take(&mut plan.notices));
            let options = stream::options_of(&args, MemoryPolicy::Default, BUDGET);
            let placement = plan.together();
            let ranks = Some(plan);
            cells.push(Cell { coordinates, placement, ranks, options, variant: None, reference });
            continue;
        }
        let planned = places::plan(&args.placement, topology)?;
        let options = stream::options(&args, &planned, BUDGET);
        note(planned.notices);
        let Some(placement) = planned.placements.into_iter().next() else { continue };
        let ranks = None;
        cells.push(Cell { coordinates, placement, ranks, options, variant: None, reference });
    }
    let threads: usize = cells.iter().map(|cell| cell.placement.threads.len()).sum();
    if threads > MOST_THREADS {
        return Err(Failure::usage(format!(
            "the configurations have {threads} threads in all, more than {MOST_THREADS}\nhint: take fewer values"
        )));
    }
    Ok((cells, notices))
}

/// Puts the compilers that are meant here in the place of what was asked for.
fn resolved(axes: Vec<Axis>) -> Result<(Vec<Axis>, Vec<ChosenCompiler>), Failure> {
    let mut chosen = Vec::new();
    let mut resolved = Vec::new();
    for axis in axes {
        resolved.push(match axis {
            Axis::Compiler(choices) => {
                chosen = made::resolve(&choices)?;
                Axis::Compiler(chosen.iter().map(CompilerChoice::from).collect())
            }
            other => other,
        });
    }
    Ok((resolved, chosen))
}

/// What to say when an axis turns a knob that compiled loops do not have.
fn not_theirs(axes: &[Axis]) -> Option<String> {
    axes.iter().find(|axis| axis.name() == COMPILER)?;
    let native = |axis: &&Axis| matches!(axis, Axis::Stores(_) | Axis::Prefetch(_));
    let name = axes.iter().find(native)?.name();
    Some(format!("{name} is of the native loops alone: what a compiler made is as it is"))
}

/// Gives each cell of the axis `compiler` the loops that its compiler made. Cells of presets that a
/// compiler refuses are left out, and what was is returned; `None` when the user ends the run.
fn give_variants(
    cells: &mut Vec<Cell>,
    chosen: &[ChosenCompiler],
    limits: CompileLimits,
    progress: &mut Progress,
) -> Result<Option<Vec<String>>, Failure> {
    let Some(options) = cells.first().map(|cell| cell.options.clone()) else {
        return Ok(Some(Vec::new()));
    };
    let Some(made) = made::make(chosen, &options, limits, progress)? else { return Ok(None) };
    let variants: BTreeMap<String, Arc<CompiledKernels>> =
        made.variants.into_iter().map(|(name, variant)| (name, Arc::new(variant))).collect();
    let native = ChosenCompiler::Native.to_string();
    cells.retain_mut(|cell| {
        let mut coordinates = cell.coordinates.iter();
        let compiler = coordinates.find(|(axis, _)| axis == COMPILER).map(|(_, value)| value);
        cell.variant = compiler.and_then(|value| variants.get(value).cloned());
        compiler.is_none_or(|value| *value == native) || cell.variant.is_some()
    });
    Ok(Some(made.notices.into_iter().map(|notice| notice.text).collect()))
}

pub(crate) fn execute(
    args: &StreamArgs,
    axes: Vec<Axis>,
    joined: Option<&Joined>,
) -> Result<Exit, Failure> {
    if args.stream_text {
        return Err(Failure::usage(
            "--stream-text shows one configuration\nhint: leave out --sweep",
        ));
    }
    let (axes, chosen) = resolved(axes)?;
    let limits = made::limits()?;
    let node = session::site(&args.common)?;
    let (mut cells, notices) = match joined {
        Some(joined) => {
            let mut args = args.clone();
            if !axes.iter().any(|axis| matches!(axis, Axis::Ranks(_))) {
                args.ranks.ranks.get_or_insert(joined.ranks());
            }
            cells(&args, &axes, &joined.topology(&node.topology))?
        }
        None => cells(args, &axes, &node.topology)?,
    };
    let most = cells.iter().filter_map(|cell| Some(cell.ranks.as_ref()?.ranks.len())).max();
    if most.is_some() {
        measure::refuse_compilers(args)?;
        if axes.iter().any(|axis| axis.name() == COMPILER) {
            return Err(Failure::usage(
                "--sweep compiler runs one process, and ranks are several\nhint: leave one of them out",
            ));
        }
    }
    if let (Some(joined), Some(most)) = (joined, most)
        && most > joined.ranks() as usize
    {
        return Err(Failure::usage(format!(
            "the sweep asks for {most} ranks, but {} are started\nhint: start {most}",
            joined.ranks()
        )));
    }
    let budget = args.common.budget.unwrap_or(BUDGET);
    session::conduct(
        &args.common,
        node,
        |node, progress| {
            let mut found = Found { notices, ..Found::default() };
            let Some(left_out) = give_variants(&mut cells, &chosen, limits, progress)? else {
                found.interrupted = true;
                return Ok(found);
            };
            found.notices.extend(left_out);
            found.notices.extend(not_theirs(&axes));
            let fleet = match (joined, most) {
                (Some(joined), _) => Some(SharedFleet::clone(&joined.fleet)),
                (None, Some(most)) => Some(measure::start(most, progress)?),
                (None, None) => None,
            };
            let Site { topology, machine, .. } = node;
            let fleet = fleet.as_ref();
            let outcome = sweep::run(topology, machine, &cells, fleet, budget, progress)?;
            found.extend(Found {
                measurements: outcome.measurements,
                notices: outcome.notices,
                interrupted: outcome.stop == Stop::Interrupted,
                failure: outcome.broken.map(Failure::missing),
                ..Found::default()
            });
            Ok(found)
        },
        |record, style| Shown::Text(nodegauge_report::sweep::render(record, style)),
    )
}
