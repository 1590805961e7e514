//! `nodegauge stream --sweep`: turns options into the cells of a sweep.

use crate::args::StreamArgs;
use crate::commands::ranks::measure;
use crate::commands::{places, ranks, stream};
use crate::failure::{Exit, Failure};
use crate::session;
use nodegauge_gauge::Planned;
use nodegauge_machine::Topology;
use nodegauge_measure::{Notice, NoticeId, notice};
use nodegauge_memory::GAUGE;
use nodegauge_memory::axis::{Axis, Setting};
use nodegauge_memory::compiled::CompilerChoice;
use nodegauge_memory::ranks::Joined;
use nodegauge_memory::size::SizeSpec;
use nodegauge_memory::sweep::{self, Cell, Combination, SweepPlan};
use nodegauge_placement::{MemoryPolicy, ThreadList};
use std::rc::Rc;
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(45);

/// The axes: those of `--sweep`, `--threads` with several counts, and, beside another axis, the
/// compilers of `--compiler` with the native kernels before them.
pub(crate) fn axes(args: &StreamArgs) -> Result<Vec<Axis>, Failure> {
    let mut axes = args.sweep.clone();
    let counts = args.placement.threads.as_ref();
    if let Some(counts) = counts.filter(|counts| counts.single().is_none()) {
        axes.insert(0, Axis::threads(counts));
    }
    if !axes.is_empty() && !args.compiler.is_empty() {
        let native = std::iter::once(CompilerChoice::Native);
        axes.push(Axis::compilers(native.chain(args.compiler.iter().cloned())));
    }
    sweep::check(&axes, |name| match name {
        "threads" => counts.is_some_and(|counts| counts.single().is_some()),
        "per-cache" => args.placement.per_cache.is_some(),
        "places" => args.placement.places.is_some(),
        "stores" => args.arrays.stores.0.is_some(),
        "pages" => args.arrays.pages.0.is_some(),
        "size" => args.arrays.size != SizeSpec::Auto,
        "prefetch" => args.arrays.prefetch.0.is_some(),
        "ranks" => args.ranks.ranks.is_some(),
        "policy" => args.ranks.policy.is_some(),
        _ => false,
    })?;
    Ok(axes)
}

/// Puts a value of an axis in the place of its option.
fn set(args: &mut StreamArgs, setting: &Setting) {
    match setting {
        Setting::Threads(count) => args.placement.threads = ThreadList::new(vec![*count]),
        Setting::PerCache(count) => args.placement.per_cache = Some(*count),
        Setting::Places(places) => args.placement.places = Some(places.clone()),
        Setting::Stores(stores) => args.arrays.stores.0 = Some(*stores),
        Setting::Pages(pages) => args.arrays.pages.0 = Some(*pages),
        Setting::Size(size) => args.arrays.size = *size,
        Setting::Prefetch(prefetch) => args.arrays.prefetch.0 = Some(*prefetch),
        Setting::Ranks(count) => args.ranks.ranks = Some(*count),
        Setting::Policy(policy) => args.ranks.policy = Some(*policy),
        // Loops are made when all is planned.
        Setting::Compiler(_) => {}
    }
}

/// Every combination of the axes' values, resolved on this machine; and notices.
fn cells(
    args: &StreamArgs,
    axes: &[Axis],
    topology: &Topology,
) -> Result<(Vec<Cell>, Vec<Notice>), Failure> {
    let fixed = [args.ranks.ranks.map(Setting::Ranks), args.ranks.policy.map(Setting::Policy)];
    let fixed: Vec<Setting> = fixed.into_iter().flatten().collect();
    let (combinations, mut notices) = sweep::combinations(axes, &fixed)?;
    let mut cells = Vec::new();
    for Combination { settings, reference } in combinations {
        let mut args = args.clone();
        settings.iter().for_each(|setting| set(&mut args, setting));
        let (placement, ranks, options, said) =
            match ranks::plan(&args.placement, &args.ranks, topology)? {
                Some(mut plan) => {
                    let said = std::mem::take(&mut plan.notices);
                    let options = stream::options_of(
                        &args.arrays,
                        &args.common,
                        MemoryPolicy::Default,
                        BUDGET,
                    );
                    (plan.together(), Some(plan), options, said)
                }
                None => {
                    let mut planned = places::plan(&args.placement, topology)?;
                    let options = stream::options(&args.arrays, &args.common, &planned, BUDGET);
                    let said = std::mem::take(&mut planned.notices);
                    let Some(placement) = planned.placements.into_iter().next() else { continue };
                    (placement, None, options, said)
                }
            };
        let said = said.into_iter().map(|text| Notice::new(NoticeId::Environment, GAUGE, text));
        notice::add_new(&mut notices, said);
        cells.push(Cell { settings, placement, ranks, options, reference, compiled: None });
    }
    Ok((cells, notices))
}

pub(crate) fn execute(
    args: &StreamArgs,
    mut axes: Vec<Axis>,
    joined: Option<&Joined>,
) -> Result<Exit, Failure> {
    let compilers = sweep::resolve_compilers(&mut axes)?;
    let site = session::site(&args.common)?;
    let (cells, notices) = match joined {
        Some(joined) => {
            let mut args = args.clone();
            if axes.iter().all(|axis| axis.name() != "ranks") {
                args.ranks.ranks.get_or_insert(joined.started.ranks);
            }
            cells(&args, &axes, &joined.topology(&site.topology))?
        }
        None => cells(args, &axes, &site.topology)?,
    };
    let most = cells.iter().filter_map(|cell| Some(cell.ranks.as_ref()?.ranks.len())).max();
    if let Some(most) = most {
        measure::refuse_compilers(args)?;
        if let Some(started) = joined.map(|joined| joined.started.ranks as usize)
            && most > started
        {
            return Err(Failure::usage(format!(
                "the sweep asks for {most} ranks, but {started} are started\nhint: start {most}"
            )));
        }
    }
    let coordinator = joined.map(|joined| Rc::clone(&joined.coordinator));
    let budget = args.common.budget.unwrap_or(BUDGET);
    let plan = SweepPlan::new(cells, compilers, coordinator, budget, notices)?;
    session::conduct(&args.common, site, |site, p| Box::new(plan).run(site, p), stream::shown)
}
