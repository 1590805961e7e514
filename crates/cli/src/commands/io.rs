//! `nodegauge io`.

use crate::args::io::IoArgs;
use crate::failure::{Exit, Failure};
use crate::output::{self, Sink};
use crate::session::{self, Found, Shown};
use nodegauge_files::gauge;
use nodegauge_files::ground;
use nodegauge_files::operation::in_order;
use nodegauge_files::peers::{Beside, fio::Fio, iozone::Iozone};
use nodegauge_files::plan::{self, Options, Plan, Shape};
use nodegauge_files::team::{Crew, Kind};
use nodegauge_files::{Access, Setup};
use nodegauge_measure::record::Record;
use nodegauge_measure::watch::Watch;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for a grid unless the user says otherwise.
const BUDGET: Duration = Duration::from_secs(120);
/// The same for the quick mode, and time for each of its operations.
const QUICK: (Duration, Duration) = (Duration::from_secs(12), Duration::from_millis(300));
/// The same for the files of `run`.
const GLANCE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(250));

pub(crate) fn execute(args: &IoArgs) -> Result<Exit, Failure> {
    let surface = args.surface.as_deref().map(Sink::from);
    if let Some(sink) = &surface {
        let taken =
            [&args.common.json, &args.common.csv].iter().any(|to| to.as_deref() == Some("-"));
        if *sink == Sink::Stdout && (taken || args.iozone_text) {
            return Err(Failure::usage(
                "standard output holds one document\nhint: give --surface a file",
            ));
        }
        sink.check()?;
    }
    let options = options(args);
    let mut beside: Vec<Box<dyn Beside>> = Vec::new();
    if let Some(program) = &args.iozone {
        beside.push(Box::new(Iozone::new(program, options.crew)?));
    }
    if let Some(program) = &args.fio {
        beside.push(Box::new(Fio::new(program, options.crew, options.limit)?));
    }
    let node = session::site(&args.common)?;
    if args.remove_leftovers {
        remove_leftovers(&options.paths)?;
    }
    // Everything that can be refused is refused before the history is touched.
    let plan = plan::plan(options)?;
    session::conduct(
        &args.common,
        node,
        |_, progress| found(&plan, &mut beside, progress),
        |record, style| {
            if let Some(sink) = &surface {
                let text = nodegauge_report::io::surface(record);
                if *sink == Sink::Stdout {
                    return Shown::Table(text);
                }
                if let Err(failure) = sink.write(&text) {
                    output::error(&failure.to_string());
                }
            }
            match args.iozone_text {
                true => Shown::Table(table(record)),
                false => Shown::Text(nodegauge_report::io::render(record, style)),
            }
        },
    )
}

/// The original's table; with no figures the reason on standard error.
fn table(record: &Record) -> String {
    if record.measurements.iter().all(|m| m.value.is_none()) {
        output::error("no valid result: nothing was measured");
        return String::new();
    }
    nodegauge_report::io::iozone(record)
}

fn options(args: &IoArgs) -> Options {
    let crew =
        |kind, count: u32| Crew { kind, count: count as usize, stonewall: !args.no_stonewall };
    let shape = match args.quick {
        true => Shape::Quick,
        false => Shape::Grid {
            files: args.file_sizes.as_ref().map(|sizes| sizes.0.clone()),
            blocks: args.block_sizes.as_ref().map(|sizes| sizes.0.clone()),
            max: args.max_size,
            full: args.full,
        },
    };
    let budget = args.common.budget.unwrap_or(if args.quick { QUICK.0 } else { BUDGET });
    // A number of samples is taken whatever the time.
    let budget = (args.common.samples.is_none() || args.common.budget.is_some()).then_some(budget);
    Options {
        paths: if args.path.is_empty() { vec![PathBuf::from(".")] } else { args.path.clone() },
        shape,
        operations: in_order(&args.operations),
        setup: Setup {
            engine: args.engine,
            depth: args.depth,
            msync: args.msync,
            access: Access { direct: false, sync: args.sync_writes },
            include_close: args.include_close,
            include_fsync: args.include_fsync,
            verify: args.verify,
            ..Setup::default()
        },
        caches: args.cache.clone(),
        drop_before_reads: args.drop,
        read_percents: args.mix.clone(),
        crew: args
            .threads
            .map(|n| crew(Kind::Threads, n))
            .or_else(|| args.processes.map(|n| crew(Kind::Processes, n))),
        compressible: args.compressible,
        samples: args.common.samples.map_or(1, |n| n as usize),
        limit: args.runtime.or(args.quick.then_some(QUICK.1)),
        budget,
    }
}

/// Removes what killed runs left, and says so.
fn remove_leftovers(paths: &[PathBuf]) -> Result<(), Failure> {
    for left in paths.iter().flat_map(|path| ground::leftovers(path)) {
        ground::remove(&left.folder).map_err(|cause| {
            Failure::missing(format!(
                "cannot remove {}, which a killed run left: {cause}\nhint: look into it and remove it by hand",
                left.folder.display()
            ))
        })?;
        output::note(&format!("removed {} ({})", left.folder.display(), left.bytes));
    }
    Ok(())
}

/// Carries a plan out.
pub(crate) fn found(
    plan: &Plan,
    beside: &mut [Box<dyn Beside>],
    progress: &mut dyn Watch,
) -> Result<Found, Failure> {
    let outcome = gauge::run(plan, beside, progress)?;
    let mut notices = outcome.notices;
    notices.extend(plan.leftovers.iter().map(|left| {
        format!(
            "a killed run left {} ({})\nhint: nodegauge io --path {} --remove-leftovers",
            left.folder.display(),
            left.bytes,
            left.folder.parent().unwrap_or(Path::new(".")).display()
        )
    }));
    Ok(Found {
        measurements: outcome.measurements,
        notices,
        interrupted: outcome.interrupted,
        failure: outcome.failure.map(Failure::from),
        ..Found::default()
    })
}

/// The part of `run`: a glance at the current folder, or at that for temporary files where nothing
/// can be written there.
pub(crate) fn glance(progress: &mut dyn Watch) -> Found {
    let options = |path: PathBuf| Options {
        paths: vec![path],
        shape: Shape::Glance,
        limit: Some(GLANCE.1),
        budget: Some(GLANCE.0),
        ..Options::default()
    };
    let here = plan::plan(options(PathBuf::from(".")));
    let plan = here.or_else(|_| plan::plan(options(std::env::temp_dir())));
    let found = plan.map_err(Failure::from).and_then(|plan| found(&plan, &mut [], progress));
    // What one gauge lacks must not cost the others' figures.
    match found {
        Ok(mut found) => {
            if let Some(failure) = found.failure.take() {
                found.notices.push(format!("files: {failure}"));
            }
            found
        }
        Err(failure) => Found { notices: vec![format!("files: {failure}")], ..Found::default() },
    }
}
