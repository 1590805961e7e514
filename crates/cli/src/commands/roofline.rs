//! `nodegauge roofline`.

use crate::args::roofline::RooflineArgs;
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::progress::Progress;
use crate::resolve;
use crate::session::{self, Shown};
use nodegauge_gauge::roofline::{
    self, CeilingsAsk, CeilingsPart, GivenPoint, Point, RooflineGauge,
};
use nodegauge_gauge::{Gauge, Planned, Site};
use nodegauge_machine::SysRoot;
use nodegauge_machine::counters::{FlopCounters, MemoryCounters};
use nodegauge_measure::expect::Figures;
use nodegauge_measure::{Observer, Outcome};
use nodegauge_placement::Request;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::program::{self, Run};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(15);
/// Share of it for all threads where there is a roof of one thread beside theirs.
const OF_ALL: f64 = 0.62;

/// A gauge's part.
type Part = (&'static dyn Gauge, Box<dyn Planned>);

pub(crate) fn execute(args: &RooflineArgs) -> Result<Exit, Failure> {
    let common = &args.common;
    if common.against.is_some() {
        return Err(Failure::usage(
            "nobody has published rooflines that nodegauge knows\nhint: give --against to stream",
        ));
    }
    if !args.devices.is_empty() {
        return super::device::roofline(&args.devices, common, BUDGET);
    }
    let mut points = given(&args.point)?;
    let program = args.program.split_first();
    let program = program.map(|(name, rest)| CommandLine::new(name.clone(), rest.to_vec()));
    if program.is_some() {
        // Refused before anything is measured.
        Counters::start()?;
    }
    let site = session::site(common)?;
    let team = resolve::one_team(&args.placement, &site.topology, "roofline")?;
    let place = |request: &Request| nodegauge_placement::plan(&site.topology, request);
    let all = place(&team.request)?;
    let one = Request { threads: Some(1), per_cache: None, ..team.request.clone() };
    let one = (all.threads.len() > 1).then(|| place(&one)).transpose()?;
    let of_all = if one.is_some() { OF_ALL } else { 1.0 };
    let whole = CeilingsPart { placement: &all, suffix: "", share: of_all, kernels: true };
    let alone = one.as_ref().map(|placement| CeilingsPart {
        placement,
        suffix: roofline::ONE_THREAD,
        share: 1.0 - of_all,
        kernels: false,
    });
    let of_threads: Vec<CeilingsPart<'_>> = [whole].into_iter().chain(alone).collect();
    let ask = CeilingsAsk {
        parts: &of_threads,
        policy: &team.policy,
        largest: args.size,
        budget: common.budget.unwrap_or(BUDGET),
        samples: common.samples.map(|n| n as usize),
    };
    let parts = parts(&site, ask)?;
    // What was measured on other threads lies under another roof.
    if team.request == Request::default() {
        let newest = session::newest(&common.db, &site);
        points.extend(GAUGES.iter().flat_map(|gauge| gauge.points(&newest)));
    }
    let figures = parts.iter().flat_map(|(_, planned)| planned.figures(&site));
    let figures: Vec<Figures> = figures.chain([roofline::figures(&points)]).collect();
    // Not those of a point whose name is the program's.
    let figures = if program.is_some() { Vec::new() } else { figures };
    let notices = team.notices;
    let measure = |site: &Site, progress: &mut Progress| {
        let mut found = Outcome { notices, ..Outcome::default() };
        for (gauge, planned) in parts {
            if found.is_interrupted() {
                break;
            }
            found.extend(gauges::attempted(gauge, Ok(Some(planned)), site, progress));
        }
        if let Some(program) = program.filter(|_| !found.is_interrupted()) {
            progress.phase(&format!("running {program}"));
            points.push(counted(program, &|| progress.interrupted())?);
        }
        found.measurements = roofline::place(found.measurements, points);
        Ok(found)
    };
    session::conduct(common, site, &figures, measure, Shown::page_of(&RooflineGauge))
}

/// The points that were given, each with a name of its own.
fn given(points: &[GivenPoint]) -> Result<Vec<Point>, Failure> {
    let mut names = BTreeSet::new();
    if let Some(again) = points.iter().find(|point| !names.insert(&point.name)) {
        return Err(Failure::usage(format!(
            "--point {}: there is one of this name already\nhint: give each point a name of its own",
            again.name
        )));
    }
    Ok(points.iter().map(|point| point.point("as given")).collect())
}

/// What counts a program.
struct Counters {
    operations: FlopCounters,
    memory: MemoryCounters,
}

impl Counters {
    /// Starts to count what this thread starts from now on.
    fn start() -> Result<Self, Failure> {
        let refused = |why| Failure::missing(format!("--perf: {why}"));
        let operations = FlopCounters::start(&SysRoot::live()).map_err(refused)?;
        let memory = MemoryCounters::open(&SysRoot::live()).map_err(refused)?;
        Ok(Self { operations, memory })
    }
}

/// The point of a program that is run once.
fn counted(command: CommandLine, interrupted: &dyn Fn() -> bool) -> Result<Point, Failure> {
    /// A day.
    const LIMIT: Duration = Duration::from_secs(24 * 3600);
    let path = PathBuf::from(command.program());
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let counters = Counters::start()?;
    let lost = |cause| Failure::missing(format!("--perf: the counters cannot be read: {cause}"));
    let before = counters.memory.read().map_err(lost)?;
    let output = program::run(&Run::new(command, LIMIT), interrupted)?;
    let seconds = output.seconds;
    let after = counters.memory.read().map_err(lost)?;
    let flops = counters.operations.operations().map_err(lost)?;
    output.success("")?;
    let moved = counters.memory.traffic(&[(before, after)]).map(|moved| moved.total);
    let (Some(flops), Some(bytes)) = (flops.filter(|n| *n > 0.0), moved.filter(|n| *n > 0.0))
    else {
        return Err(Failure::missing(format!(
            "--perf: nothing was counted of {name}: other programs hold the counters, or it computes nothing"
        )));
    };
    let level = roofline::MEMORY.to_owned();
    let point = GivenPoint { name, flops, bytes, seconds, level };
    let basis = format!(
        "operations by {}, bytes of all that the node moved meanwhile by {}",
        counters.operations.family(),
        counters.memory.plan().family
    );
    Ok(point.point(&basis))
}

/// The parts of the gauges that have ceilings, each with an equal share of the time.
fn parts(site: &Site, ask: CeilingsAsk<'_>) -> Result<Vec<Part>, Failure> {
    let plans = |ask: CeilingsAsk<'_>| -> Result<Vec<Part>, Failure> {
        let mut plans: Vec<Part> = Vec::new();
        for gauge in GAUGES {
            plans.extend(gauge.ceilings(site, &ask)?.map(|planned| (gauge, planned)));
        }
        Ok(plans)
    };
    let count = plans(ask)?.len().max(1);
    plans(CeilingsAsk { budget: ask.budget.div_f64(count as f64), ..ask })
}
