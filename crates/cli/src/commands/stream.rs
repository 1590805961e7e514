//! `nodegauge stream`.

use crate::args::{ArrayArgs, Common, StreamArgs};
use crate::commands::places::{self, Planned};
use crate::commands::ranks::measure;
use crate::commands::{compiled, standard, sweep, tune};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session::{self, Shown};
use nodegauge_gauge::{Planned as _, Site};
use nodegauge_measure::record::Record;
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_memory::GAUGE;
use nodegauge_memory::axis::Axis;
use nodegauge_memory::kernels::STREAM;
use nodegauge_memory::ranks::Started;
use nodegauge_memory::size::SizeSpec;
use nodegauge_memory::stream::{Options, StreamPlan};
use nodegauge_placement::{MemoryPolicy, Placement};
use nodegauge_report::{Style, run, text};
use std::path::Path;
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(10);

/// The options of a run, with `budget` unless the user gives another.
pub(crate) fn options(
    args: &ArrayArgs,
    common: &Common,
    planned: &Planned,
    budget: Duration,
) -> Options {
    options_of(args, common, planned.policy.clone(), budget)
}

/// The same, with the memory policy of one process, or none for ranks, which have their own.
pub(crate) fn options_of(
    args: &ArrayArgs,
    common: &Common,
    policy: MemoryPolicy,
    budget: Duration,
) -> Options {
    let mut kernels = Vec::new();
    for kernel in &args.kernels {
        if !kernels.contains(kernel) {
            kernels.push(*kernel);
        }
    }
    // A pass runs kernels in STREAM's order, whatever the order of the option.
    kernels.sort();
    Options {
        size: args.size,
        memory_fraction: args.memory_fraction,
        element: args.element,
        offset: args.offset,
        kernels,
        stores: args.stores.0,
        pages: args.pages.0,
        prefetch: args.prefetch.0,
        policy,
        budget: common.budget.unwrap_or(budget),
        loops: Vec::new(),
        samples: common.samples.map(|n| n as usize),
    }
}

/// What of `stream` is asked for.
enum Mode<'a> {
    /// A rank that a launcher has started.
    Started(Started),
    /// The user's stream.c beside the native kernels.
    Standard(&'a Path),
    /// The search for the best configuration.
    Tune,
    /// Several configurations by turns.
    Sweep(Vec<Axis>),
    /// Several processes.
    Ranks,
    /// What compilers make of the kernels.
    Compilers,
    /// One configuration.
    Plain,
}

impl<'a> Mode<'a> {
    fn of(args: &'a StreamArgs) -> Result<Self, Failure> {
        if let Some(started) = Started::own() {
            return Ok(Self::Started(started));
        }
        if let Some(path) = &args.standard {
            return Ok(Self::Standard(path));
        }
        if args.tune {
            return Ok(Self::Tune);
        }
        let axes = sweep::axes(args)?;
        Ok(match (axes.is_empty(), args.ranks.given().is_some()) {
            (false, _) => Self::Sweep(axes),
            (true, true) => Self::Ranks,
            (true, false) if !args.compiler.is_empty() => Self::Compilers,
            (true, false) => Self::Plain,
        })
    }
}

pub(crate) fn execute(args: &StreamArgs) -> Result<Exit, Failure> {
    match Mode::of(args)? {
        Mode::Started(started) => measure::join(args, started),
        Mode::Standard(path) => standard::execute(args, path),
        Mode::Tune => tune::execute(args),
        Mode::Sweep(axes) => sweep::execute(args, axes, None),
        Mode::Ranks => measure::execute(args, None),
        Mode::Compilers => compiled::execute(args),
        Mode::Plain => plain(args),
    }
}

/// What `--tune` chose before, unless the user says otherwise or wants arrays and memory of a kind
/// for which it was not chosen.
fn remembered(args: &StreamArgs, site: &Site) -> Option<tune::Remembered> {
    let alike = args.arrays.size == SizeSpec::Auto
        && args.arrays.offset.is_none()
        && args.placement.numa.is_none();
    (alike && !args.untuned).then(|| tune::remembered(&args.common.db, site))?
}

fn plain(args: &StreamArgs) -> Result<Exit, Failure> {
    let site = session::site(&args.common)?;
    let remembered = remembered(args, &site);
    let choice = remembered.as_ref().and_then(|remembered| remembered.choice.as_ref());
    let otherwise = choice.map(|choice| choice.request.clone()).unwrap_or_default();
    let planned = places::plan_or(&args.placement, &site.topology, &otherwise)?;
    let mut options = options(&args.arrays, &args.common, &planned, BUDGET);
    if let Some(choice) = choice {
        choice.fill(&mut options);
    }
    refuse_empty_table(args, &options)?;
    let (placement, mut notices) = one_placement(planned, "stream")?;
    notices.extend(remembered.map(|remembered| remembered.notice));
    let plan = StreamPlan::new(&site, placement, options, notices)?;
    session::conduct(
        &args.common,
        site,
        |site, progress| Box::new(plan).run(site, progress),
        |record, style| match args.stream_text {
            true => classic(record),
            false => shown(record, style),
        },
    )
}

/// The placement of one thread count, and what is to be said of it.
pub(crate) fn one_placement(
    planned: Planned,
    mode: &str,
) -> Result<(Placement, Vec<Notice>), Failure> {
    let [placement] = <[Placement; 1]>::try_from(planned.placements).map_err(|_| {
        Failure::usage(format!("{mode} takes one thread count\nhint: e.g. --threads 4"))
    })?;
    let notice = |text| Notice::new(NoticeId::Environment, GAUGE, text);
    Ok((placement, planned.notices.into_iter().map(notice).collect()))
}

/// Refuses a classic table without any of its kernels.
pub(crate) fn refuse_empty_table(args: &StreamArgs, options: &Options) -> Result<(), Failure> {
    if args.stream_text && !options.kernels.iter().any(|kernel| STREAM.contains(kernel)) {
        return Err(Failure::usage(
            "--stream-text shows copy, scale, add and triad, none of which is in --kernels\nhint: leave out --stream-text",
        ));
    }
    Ok(())
}

/// The page of `stream`.
pub(crate) fn shown(record: &Record, style: Style) -> Shown {
    Shown::Text(text::page(&run::own(record, &nodegauge_memory::Memory), style))
}

/// The classic table; without a valid result the reason on standard error, and no table.
pub(crate) fn classic(record: &Record) -> Shown {
    Shown::Table(nodegauge_memory::view::classic::render(record).unwrap_or_else(|| {
        let reason = record.measurements.iter().flat_map(|m| &m.validity.reasons).next();
        let reason = reason.map_or("nothing was measured", String::as_str);
        output::error(&format!("no valid result: {reason}"));
        String::new()
    }))
}
