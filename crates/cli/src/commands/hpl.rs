//! `nodegauge hpl`, the compute line of `run`, and the process that tries a BLAS.

mod matrix_market;
mod real;

use crate::args::Database;
use crate::args::hpl::HplArgs;
use crate::commands::places;
use crate::failure::{Exit, Failure};
use crate::output::{self, Sink};
use crate::session::{self, Found, Shown};
use nodegauge_compute::choose::{self, Tried};
use nodegauge_compute::dat;
use nodegauge_compute::hpl::{self, Options, Outcome};
use nodegauge_compute::output::Row;
use nodegauge_compute::peak;
use nodegauge_compute::size::{self, OrderSpec};
use nodegauge_gauge::Site;
use nodegauge_history::Store;
use nodegauge_machine::{SysRoot, identity};
use nodegauge_measure::record::{Measurement, Record, Status};
use nodegauge_measure::{BytesPerSec, FlopsPerSec, Watch};
use nodegauge_placement::Placement;
use nodegauge_team::Team;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::blas::{self, BlasProber, BlasRequest};
use std::path::Path;
use std::time::Duration;

/// Time for everything unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(15);
/// Time for the compute line of a quick `run`, and of a full one.
const GLANCE: Duration = Duration::from_secs(8);
const LONG_GLANCE: Duration = Duration::from_secs(60);
/// Without a search, for plans: what most libraries reach most with, or nearly.
const USUAL_NB: usize = 192;
/// Share of the peak that DGEMM reaches, for plans, which measure the peak alone.
const USUAL_DGEMM: f64 = 0.9;

pub(crate) fn execute(args: &HplArgs) -> Result<Exit, Failure> {
    let node = session::site(&args.common)?;
    let planned = places::plan(&args.placement, &node.topology)?;
    let [placement] = planned.placements.as_slice() else {
        return Err(Failure::usage("expected one thread count\nhint: give --threads N once"));
    };
    let options = options(args, &node)?;
    if args.plan {
        return plan(args, &node, placement, &options);
    }
    if let Some(file) = &args.real.hpl_dat_only {
        return real::only_input(args, &node, &options, file);
    }
    refuse(&node, placement, &options)?;
    let real = real::find(args, &node)?;
    let mut notices = planned.notices;
    let libraries = libraries(args, &mut notices)?;
    session::conduct(
        &args.common,
        node,
        |node, progress| {
            let outcome =
                hpl::run(&node.topology, &node.machine, placement, &libraries, &options, progress)?;
            let mut found = found(notices, outcome);
            if let (Some(real), false) = (&real, found.interrupted) {
                real.beside(args, node, &options, &mut found, progress)?;
            }
            Ok(found)
        },
        |record, style| match args.hpl_text {
            true => Shown::Table(hpl_text(record)),
            false => Shown::Text(nodegauge_report::hpl::render(record, style)),
        },
    )
}

/// What was asked for.
fn options(args: &HplArgs, node: &Site) -> Result<Options, Failure> {
    let given = args.matrix.as_deref().map(matrix_market::read).transpose()?;
    let order = match (args.order, args.full) {
        (Some(order), _) => OrderSpec::Exactly(order as usize),
        (None, true) => OrderSpec::Full,
        (None, false) => OrderSpec::Quick,
    };
    Ok(Options {
        order,
        fraction: args.memory_fraction,
        nb: args.nb.iter().map(|nb| *nb as usize).collect(),
        multiple: if args.grid_multiple { real::grid_multiple(args, node)? } else { 1 },
        seed: args.seed,
        given,
        budget: args.common.budget.unwrap_or(BUDGET),
        samples: args.common.samples.unwrap_or(1) as usize,
        triad: saved_triad(&args.common.db, node),
    })
}

/// A size that was asked for and does not fit is refused before anything is tried.
fn refuse(node: &Site, placement: &Placement, options: &Options) -> Result<(), Failure> {
    let order = match &options.given {
        Some(given) => OrderSpec::Exactly(given.order),
        None => options.order,
    };
    let threads = placement.threads.len();
    let around = hpl::around(&node.machine, options, FlopsPerSec(1e9), threads, 1);
    size::choose(order, &around).map(|_| ()).map_err(Failure::missing)
}

/// This program, to try libraries with.
fn prober() -> Result<BlasProber, Failure> {
    let program = std::env::current_exe().map_err(|cause| {
        Failure::missing(format!("cannot find this program's own file: {cause}"))
    })?;
    let command = CommandLine::new(program.display().to_string(), ["try-blas".to_owned()]);
    Ok(BlasProber { command })
}

/// The libraries to measure: those that were asked for, else the fastest of all.
fn libraries(args: &HplArgs, notices: &mut Vec<String>) -> Result<Vec<Tried>, Failure> {
    let tried = try_all(&args.blas, notices)?;
    Ok(if args.blas.is_empty() { tried.into_iter().take(1).collect() } else { tried })
}

fn try_all(requests: &[BlasRequest], notices: &mut Vec<String>) -> Result<Vec<Tried>, Failure> {
    let flags = SysRoot::live().text("proc/cpuinfo").unwrap_or_default();
    let flags =
        flags.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let flags = flags.unwrap_or_default().to_owned();
    let isa = |name: &str| flags.split_whitespace().any(|flag| flag == name);
    let found = choose::find(requests, &prober()?, &isa, &|| false)?;
    notices.extend(found.notices);
    if requests.is_empty() && found.tried.len() > 1 {
        let list: Vec<String> =
            found.tried.iter().map(|tried| format!("{} {}", tried.name(), tried.rate())).collect();
        notices.push(format!("tried on one thread, fastest first: {}", list.join("; ")));
    }
    Ok(found.tried)
}

/// The process that tries one library: see [`blas::probe`].
pub(crate) fn try_blas(library: &Path, number_of: Option<&str>) {
    output::print(&format!("{}\n", blas::probe::answer(library, number_of)));
}

/// What a run found, with what was noticed before it.
fn found(mut notices: Vec<String>, outcome: Outcome) -> Found {
    notices.extend(outcome.notices);
    if let Some(at) = &outcome.seen.interrupted {
        notices.push(format!("interrupted {at}"));
    }
    Found {
        measurements: outcome.measurements,
        notices,
        details: outcome.affinity,
        interrupted: outcome.interrupted,
        ..Found::default()
    }
}

/// The newest Triad that was saved for this machine.
fn saved_triad(db: &Database, node: &Site) -> Option<(BytesPerSec, String)> {
    let path = session::store_path(db).ok()?;
    let store = Store::open_to_read(&path).ok()??;
    let host = node.machine.host.as_deref();
    let record = store.newest_with_measurement("stream", "triad", host).ok()??;
    if !identity::changes(&record.machine, &node.machine).is_empty() {
        return None;
    }
    let triads = record.measurements.iter().filter(|m| {
        m.test == "stream" && m.name == "triad" && m.validity.status != Status::Invalid
    });
    let best = triads.filter_map(|m| m.value).reduce(f64::max)?;
    Some((BytesPerSec(best), format!("saved {}", record.started)))
}

/// `--plan`: sizes with their formulas, from a peak of some milliseconds.
fn plan(
    args: &HplArgs,
    node: &Site,
    placement: &Placement,
    options: &Options,
) -> Result<Exit, Failure> {
    let threads = placement.threads.len();
    let places: Vec<_> = placement.threads.iter().map(|thread| thread.cpus.clone()).collect();
    let mut team = Team::start(&places).map_err(|error| Failure::missing(error.to_string()))?;
    let kernels = peak::kernels();
    let Some(kernel) = kernels.iter().rfind(|kernel| kernel.element == "f64") else {
        return Err(Failure::missing("no loop for this processor"));
    };
    let peak = peak::measure(&mut team, kernel, Duration::from_millis(20))
        .map_err(|error| Failure::missing(error.to_string()))?;
    let nb = options.nb.first().copied().unwrap_or(USUAL_NB);
    let ranks = real::total(args, &node.topology)?;
    let grid = size::grid(ranks);
    let a_host = real::ranks(args, &node.topology);
    let dgemm = FlopsPerSec(peak.best().0 * USUAL_DGEMM);
    let around = hpl::around(&node.machine, options, dgemm, threads, nb);
    let order = size::choose(options.order, &around).map_err(Failure::missing)?;
    let view = nodegauge_report::hpl::Plan {
        order: order.order,
        formula: order.formula,
        nb,
        nb_basis: match options.nb.as_slice() {
            [] => format!("usual; a run searches {:?}", size::CANDIDATES),
            _ => "as asked".to_owned(),
        },
        threads,
        crew: size::crew(order.order, nb, threads),
        grid,
        ranks,
        threads_a_rank: real::threads_a_rank(args, &node.topology, a_host),
        seconds: order.seconds,
        rate: format!(
            "{dgemm} DGEMM taken as {USUAL_DGEMM} x {} ({} multiply-adds, measured for 20 ms)",
            peak.best(),
            peak.isa
        ),
        bytes: order.bytes.0,
        needed: size::needed(order.order, threads).0,
        available: around.available.0,
        doubt: order.doubt,
    };
    output::print(&nodegauge_report::hpl::plan(&view, output::style()));
    Ok(Exit::Success)
}

/// The result as HPL prints it; FAILED ones too.
fn hpl_text(record: &Record) -> String {
    let rows: Vec<Row> = record
        .measurements
        .iter()
        .filter(|m| m.test == "hpl" && m.name == "rating")
        .filter_map(row)
        .collect();
    nodegauge_compute::output::write(&rows)
}

fn row(m: &Measurement) -> Option<Row> {
    let number = |key: &str| m.config.get(key)?.as_u64().map(|n| n as usize);
    let residual = m.config.get("residual")?.get("value")?.as_f64();
    let seconds = m.config.get("seconds")?.as_f64()?;
    let n = number("n")?;
    Some(Row {
        // Row-major, look-ahead of two, first-ring broadcast, recursive and right-looking.
        variant: m.config.get("variant").and_then(|v| v.as_str()).unwrap_or("WR20R2R4").to_owned(),
        n,
        nb: number("nb")?,
        p: number("p")?,
        q: number("q")?,
        seconds,
        rate: nodegauge_compute::lu::flops(n) / seconds,
        residual,
        passed: residual.map(nodegauge_compute::output::passes),
    })
}

/// The part of `run`: a short solution with the fastest library; what it lacks must not cost the
/// other gauges' figures.
pub(crate) fn glance(
    node: &Site,
    full: bool,
    measured: &[Measurement],
    progress: &mut dyn Watch,
) -> Found {
    let triad = measured.iter().filter(|m| m.test == "stream" && m.name == "triad");
    let options = Options {
        budget: if full { LONG_GLANCE } else { GLANCE },
        triad: triad
            .filter_map(|m| m.value)
            .reduce(f64::max)
            .map(|t| (BytesPerSec(t), "this run".into())),
        nb: vec![128, 192, 256],
        ..Options::default()
    };
    let mut notices = Vec::new();
    let tried = || -> Result<Outcome, Failure> {
        progress.phase("trying BLAS libraries");
        let placement =
            nodegauge_placement::plan(&node.topology, &nodegauge_placement::Request::default())?;
        let libraries: Vec<Tried> = try_all(&[], &mut notices)?.into_iter().take(1).collect();
        Ok(hpl::run(&node.topology, &node.machine, &placement, &libraries, &options, progress)?)
    };
    match { tried }() {
        Ok(outcome) => found(notices, outcome),
        Err(failure) => Found { notices: vec![format!("compute: {failure}")], ..Found::default() },
    }
}

/// HPL.dat for the plan.
fn input(orders: Vec<usize>, nbs: Vec<usize>, grids: Vec<(usize, usize)>) -> dat::Input {
    dat::Input { orders, nbs, grids, threshold: nodegauge_compute::residual::THRESHOLD }
}

/// Writes a document to where it was asked for.
fn write_to(file: &str, text: &str) -> Result<(), Failure> {
    let sink = Sink::from(file);
    sink.check()?;
    sink.write(text)
}
