//! `--sweep`: its axes, and the option that each of their values replaces.

use super::arrange;
use crate::args::stream::StreamArgs;
use crate::failure::Failure;
use crate::resolve;
use nodegauge_gauge::Site;
use nodegauge_kernels::size::SizeSpec;
use nodegauge_measure::sweep;
use nodegauge_placement::{MemoryPolicy, ThreadList};
use nodegauge_stream::axis::{StreamAxis, StreamSetting};
use nodegauge_stream::compiled::CompilerChoice;
use nodegauge_stream::ranks::LaunchedRanks;
use nodegauge_stream::stream::Arrangement;
use nodegauge_stream::sweep::SweepPlan;

/// Returns the axes: those of `--sweep`, `--threads` with several counts, and, if there is another axis,
/// native kernels followed by the compilers of `--compiler`.
pub(super) fn axes(args: &StreamArgs) -> Result<Vec<StreamAxis>, Failure> {
    let mut axes = args.sweep.axes.clone();
    let counts = args.placement.threads.as_ref();
    let is_search = args.tune.tune || args.standard.source.is_some();
    if let Some(counts) = counts.filter(|counts| counts.single().is_none() && !is_search) {
        axes.insert(0, StreamAxis::of(counts.clone(), StreamSetting::Threads));
    }
    let compilers = &args.compilers.choices;
    if !axes.is_empty() && !compilers.is_empty() {
        let native = std::iter::once(CompilerChoice::Native);
        axes.push(StreamAxis::of(native.chain(compilers.iter().cloned()), StreamSetting::Compiler));
    }
    sweep::check(&axes, |name| match name {
        "threads" => counts.is_some_and(|counts| counts.single().is_some()),
        "per-cache" => args.placement.per_cache.is_some(),
        "places" => args.placement.places.is_some(),
        "stores" => args.arrays.stores.0.is_some(),
        "pages" => args.arrays.pages.0.is_some(),
        "size" => args.arrays.size != SizeSpec::Auto,
        "prefetch" => args.arrays.prefetch.0.is_some(),
        "side-by-side" => args.arrays.side_by_side.0.is_some(),
        "ranks" => args.ranks.ranks.is_some(),
        "policy" => args.ranks.policy.is_some(),
        "rank-map" => args.ranks.rank_map.is_some(),
        _ => false,
    })?;
    Ok(axes)
}

/// Replaces an option by a value of its axis.
fn set(args: &mut StreamArgs, setting: &StreamSetting) {
    match setting {
        StreamSetting::Threads(count) => args.placement.threads = ThreadList::new(vec![*count]),
        StreamSetting::PerCache(count) => args.placement.per_cache = Some(*count),
        StreamSetting::Places(places) => args.placement.places = Some(places.clone()),
        StreamSetting::Stores(stores) => args.arrays.stores.0 = Some(*stores),
        StreamSetting::Pages(pages) => args.arrays.pages.0 = Some(*pages),
        StreamSetting::Size(size) => args.arrays.size = *size,
        StreamSetting::Prefetch(prefetch) => args.arrays.prefetch.0 = Some(*prefetch),
        StreamSetting::SideBySide(pages) => args.arrays.side_by_side.0 = Some(*pages),
        StreamSetting::Ranks(count) => args.ranks.ranks = Some(*count),
        StreamSetting::Policy(policy) => args.ranks.policy = Some(*policy),
        StreamSetting::RankMap(map) => args.ranks.rank_map = Some(*map),
        // Loops are compiled after planning.
        StreamSetting::Compiler(_) => {}
    }
}

/// Returns the plan of a sweep: every combination of values, resolved on this machine.
pub(super) fn plan(
    args: &StreamArgs,
    axes: Vec<StreamAxis>,
    site: &Site,
    joined: Option<&LaunchedRanks>,
) -> Result<SweepPlan, Failure> {
    let mut args = args.clone();
    let topology = match joined {
        Some(joined) => {
            if axes.iter().all(|axis| axis.name() != "ranks") {
                args.ranks.ranks.get_or_insert(joined.started.ranks);
            }
            &joined.topology(&site.topology)
        }
        None => &site.topology,
    };
    let fixed =
        [args.ranks.ranks.map(StreamSetting::Ranks), args.ranks.policy.map(StreamSetting::Policy)];
    let fixed: Vec<StreamSetting> = fixed.into_iter().flatten().collect();
    let budget = SweepPlan::BUDGET;
    SweepPlan::new(axes, &fixed, joined, |settings, share| {
        let mut args = args.clone();
        settings.iter().for_each(|setting| set(&mut args, setting));
        let Some(ranks) = resolve::ranks(&args.placement, &args.ranks, topology)? else {
            return arrange(&args, site, "a configuration", budget, share);
        };
        let options = args.arrays.options(&args.common, MemoryPolicy::Default, budget, share);
        Arrangement::of_ranks(site, ranks, options)
    })
}
