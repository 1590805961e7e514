//! `nodegauge stream`: its modes, each with its own plan.

mod ranks;
mod sweep;

use super::device;
use crate::args::stream::{StreamArgs, no_sweep};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::resolve;
use crate::session::{self, Shown};
use nodegauge_gauge::{Planned, Site};
use nodegauge_kernels::STREAM;
use nodegauge_kernels::size::SizeSpec;
use nodegauge_measure::record::Record;
use nodegauge_placement::{MemoryPolicy, Started};
use nodegauge_stream::Stream;
use nodegauge_stream::axis::StreamAxis;
use nodegauge_stream::compiled::CompiledPlan;
use nodegauge_stream::mixes;
use nodegauge_stream::ranks::LaunchedRanks;
use nodegauge_stream::standard::StandardPlan;
use nodegauge_stream::stream::{Arrangement, StreamPlan};
use nodegauge_stream::tune::{self, TunePlan};
use nodegauge_stream::view;
use std::path::Path;
use std::time::Duration;

/// Mode of `stream`.
enum Mode<'a> {
    /// The search for the best configuration.
    Tune,
    /// Several configurations, measured in turn.
    Sweep(Vec<StreamAxis>),
    /// The user's stream.c and the native kernels, measured in turn.
    Standard(&'a Path),
    /// Kernels compiled by compilers of this system.
    Compilers,
    /// One configuration, of one process or of ranks.
    Plain,
}

impl<'a> Mode<'a> {
    fn of(args: &'a StreamArgs) -> Result<Self, Failure> {
        let axes = sweep::axes(args)?;
        Ok(match &args.standard.source {
            Some(path) => {
                output::protect(path);
                Self::Standard(path)
            }
            None if args.tune.tune => Self::Tune,
            None if !axes.is_empty() => Self::Sweep(axes),
            None if !args.compilers.choices.is_empty() => Self::Compilers,
            None => Self::Plain,
        })
    }

    /// Returns the option that selects the mode, for modes that run one process.
    fn option(&self) -> Option<&'static str> {
        match self {
            Self::Tune => Some("--tune"),
            Self::Standard(_) => Some("--standard"),
            Self::Compilers => Some("--compiler"),
            Self::Sweep(_) | Self::Plain => None,
        }
    }

    /// Plans the mode and reports all errors of usage.
    fn plan(
        self,
        args: &StreamArgs,
        site: &Site,
        joined: Option<&LaunchedRanks>,
    ) -> Result<Box<dyn Planned>, Failure> {
        let choices = &args.compilers.choices;
        let one = |mode: &str, budget, share| arrange(args, site, mode, budget, share);
        Ok(match self {
            Self::Tune => {
                let team = resolve::one_team(&args.placement, &site.topology, "--tune")?;
                let options = args.arrays.options(&args.common, team.policy, TunePlan::BUDGET, 1.0);
                Box::new(TunePlan::new(site, &team.request, options, team.notices)?)
            }
            Self::Sweep(axes) => Box::new(sweep::plan(args, axes, site, joined)?),
            Self::Standard(path) => {
                let (budget, share) = (StandardPlan::BUDGET, StandardPlan::SHARE);
                Box::new(StandardPlan::new(one("--standard", budget, share)?, path, choices)?)
            }
            Self::Compilers => {
                Box::new(CompiledPlan::new(one("--compiler", CompiledPlan::BUDGET, 1.0)?, choices)?)
            }
            Self::Plain => Box::new(plain(args, site, joined)?),
        })
    }
}

pub(crate) fn execute(args: &StreamArgs) -> Result<Exit, Failure> {
    if !args.on.devices.is_empty() {
        return device::stream(args);
    }
    match Started::own() {
        Some(started) => ranks::join(started, |joined| measure(args, Some(joined))),
        None => measure(args, None),
    }
}

fn measure(args: &StreamArgs, joined: Option<&LaunchedRanks>) -> Result<Exit, Failure> {
    let mode = Mode::of(args)?;
    if let Some((option, joined)) = mode.option().zip(joined) {
        return Err(Failure::usage(format!(
            "{option} requires one process, but {} has started {}",
            joined.started.launcher, joined.started.ranks,
        ))
        .hint("start one process"));
    }
    let stream = Stream { show: args.table.show.show.clone() };
    if !stream.show.is_empty() && !matches!(mode, Mode::Sweep(_)) {
        return Err(no_sweep());
    }
    let table = text_of(args, &mode)?;
    if matches!(mode, Mode::Plain)
        && table.is_some()
        && !args.arrays.kernels().iter().any(|k| STREAM.contains(k))
    {
        return Err(Failure::usage(
            "--stream-text requires copy, scale, add or triad in --kernels",
        )
        .hint("leave out --stream-text"));
    }
    let site = session::site(&args.common)?;
    let plan = mode.plan(args, &site, joined)?;
    let figures = plan.figures(&site);
    session::conduct(
        &args.common,
        site,
        &figures,
        |site, progress| plan.run(site, progress),
        |record, style| match table {
            Some(text) => classic(record, text(record)),
            None => Shown::page_of(&stream)(record, style),
        },
    )
}

/// Returns one team with its arrays.
fn arrange(
    args: &StreamArgs,
    site: &Site,
    mode: &str,
    budget: Duration,
    share: f64,
) -> Result<Arrangement, Failure> {
    let team = resolve::one_team(&args.placement, &site.topology, mode)?;
    let options = args.arrays.options(&args.common, team.policy, budget, share);
    Arrangement::new(site, &team.request, options, team.notices)
}

/// Plans one configuration: ranks if they are requested or were started by a launcher, else one team. The
/// team is the tuned one unless `--untuned` is given or size, offset or memory policy differ from those of
/// the search.
fn plain(
    args: &StreamArgs,
    site: &Site,
    joined: Option<&LaunchedRanks>,
) -> Result<StreamPlan, Failure> {
    let ranks = match joined {
        Some(joined) => Some(ranks::plan(joined, args, &site.topology)?),
        None => resolve::ranks(&args.placement, &args.ranks, &site.topology)?,
    };
    let options = |policy| args.arrays.options(&args.common, policy, StreamPlan::BUDGET, 1.0);
    if let Some(ranks) = ranks {
        let arrangement = Arrangement::of_ranks(site, ranks, options(MemoryPolicy::Default))?;
        return Ok(StreamPlan::new(arrangement, joined.map(|joined| joined.coordinator.clone())));
    }
    let mut team = resolve::one_team(&args.placement, &site.topology, "stream")?;
    let mut options = options(team.policy);
    let alike = args.arrays.size == SizeSpec::Auto
        && args.arrays.offset.is_none()
        && options.policy == MemoryPolicy::Default;
    let newest = session::newest(&args.common.db, site);
    if alike
        && !args.untuned
        && let Some(remembered) = tune::remembered(site, &newest)
    {
        remembered.fill(&mut team.request, &mut options);
        team.notices.push(remembered.notice);
    }
    let arrangement = Arrangement::new(site, &team.request, options, team.notices)?;
    Ok(StreamPlan::new(arrangement, None).beside(mixes::saved(site, &newest)))
}

/// Function that returns the text of `--stream-text` for a record.
type TextOf = fn(&Record) -> Option<String>;

/// Returns the function for the text of a mode, if `--stream-text` is given.
fn text_of(args: &StreamArgs, mode: &Mode<'_>) -> Result<Option<TextOf>, Failure> {
    match mode {
        _ if !args.table.stream_text => Ok(None),
        Mode::Plain => Ok(Some(view::classic::render)),
        Mode::Standard(_) => Ok(Some(view::standard::printed)),
        Mode::Tune | Mode::Sweep(_) | Mode::Compilers => {
            Err(Failure::usage("--stream-text requires a single configuration or --standard")
                .hint("leave out --stream-text"))
        }
    }
}

/// Returns the table for other programs. Without a valid result, prints the reason as an error and returns no
/// table.
fn classic(record: &Record, text: Option<String>) -> Shown {
    Shown::Table(text.unwrap_or_else(|| {
        let worst = record.measurements.iter().map(|m| &m.validity).max_by_key(|v| v.status);
        let reason = worst.and_then(|validity| validity.reasons.first());
        let reason = reason.map_or("nothing was measured", String::as_str);
        output::error(&format!("no valid result: {reason}"));
        String::new()
    }))
}
