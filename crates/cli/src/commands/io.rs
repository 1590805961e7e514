//! Implementation of the command `nodegauge io`: operations on data, or with `--metadata` on directory entries.

use crate::args::io::IoArgs;
use crate::failure::{Exit, Failure};
use crate::output::{self, Sink};
use crate::session::{self, StdoutContent};
use nodegauge_files::metadata::{
    DirectoryLayout, MdtestOptions, MetadataOptions, MetadataPlan, MetadataPrograms,
};
use nodegauge_files::reference::ReferenceProgram;
use nodegauge_files::{CacheMode, FileWorkers, FilesOptions, TaskSetup, WorkerKind, export};
use nodegauge_gauge::PlannedRun;
use nodegauge_gauge::view::distinct;
use nodegauge_measure::legible;
use nodegauge_measure::record::Record;
use nodegauge_report::{run, text};
use std::path::PathBuf;

pub(crate) fn execute(args: &IoArgs) -> Result<Exit, Failure> {
    if args.metadata { metadata(args) } else { data(args) }
}

/// Removes files that killed runs left, if the user requested this.
fn remove_leftovers(args: &IoArgs) -> Result<(), Failure> {
    for path in paths(args).iter().filter(|_| args.remove_leftovers) {
        for left in nodegauge_files::remove_leftovers(path)? {
            output::print_note(&format!(
                "removed {} ({})",
                legible::path(&left.folder),
                left.bytes
            ));
        }
    }
    Ok(())
}

fn paths(args: &IoArgs) -> Vec<PathBuf> {
    if args.path.is_empty() { vec![PathBuf::from(".")] } else { args.path.clone() }
}

/// Returns the number of workers that `option` gives, or `None` without the option. Several numbers are an error.
fn single(option: &str, counts: &[u32]) -> Result<Option<u32>, Failure> {
    match counts {
        [] => Ok(None),
        [count] => Ok(Some(*count)),
        _ => Err(Failure::usage(format!("{option} takes one number without --metadata"))
            .hint("use one number, or measure in several runs")),
    }
}

/// Measures the operations on directory entries (`--metadata`).
fn metadata(args: &IoArgs) -> Result<Exit, Failure> {
    let mdtest = args.mdtest.as_ref().map(|program| MdtestOptions {
        program: program.clone(),
        launcher: args.launcher.clone(),
        allow_root: args.allow_run_as_root,
    });
    let programs = MetadataPrograms::find(mdtest.as_ref(), args.fio.as_deref())?;
    let node = session::this_node(&args.common)?;
    let (kind, counts) = match args.processes[..] {
        [] => (WorkerKind::Threads, &args.threads),
        _ => (WorkerKind::Processes, &args.processes),
    };
    let mut workers: Vec<usize> = counts.iter().map(|count| *count as usize).collect();
    if workers.is_empty() {
        workers.extend([1, node.topology.allowed_threads().count()]);
    }
    let options = MetadataOptions {
        paths: paths(args),
        files: args.files,
        kind,
        workers: distinct(workers),
        fsync: args.fsync,
        bytes: args.bytes.unwrap_or_default(),
        drop_caches: args.drop,
        budget: args.common.budget,
        samples: args.common.samples.map(|n| n as usize),
        layouts: match args.layout[..] {
            [] => DirectoryLayout::ALL.to_vec(),
            _ => distinct(args.layout.iter().copied()),
        },
    };
    let plan = Box::new(MetadataPlan::new(options, programs)?);
    let figures = plan.possible_figures(&node);
    session::conduct(
        &args.common,
        node,
        &figures,
        |site, progress| {
            remove_leftovers(args)?;
            session::measure(plan, site, progress)
        },
        StdoutContent::page_renderer(&nodegauge_files::FileGauge),
    )
}

/// Measures the operations on data.
fn data(args: &IoArgs) -> Result<Exit, Failure> {
    let surface = args.surface.as_deref().map(Sink::from);
    if let Some(sink) = &surface {
        let taken = [&args.common.json, &args.common.csv]
            .into_iter()
            .flatten()
            .any(|to| Sink::from(to.as_str()) == Sink::Stdout);
        if *sink == Sink::Stdout && (taken || args.iozone_text) {
            return Err(Failure::usage("only one document can go to standard output")
                .hint("write the surface to a file, e.g. --surface FILE"));
        }
        sink.check()?;
    }
    let options = options(args)?;
    let mut programs = Vec::new();
    if let Some(program) = &args.iozone {
        programs.push(ReferenceProgram::find_iozone(program, options.workers)?);
    }
    if let Some(program) = &args.fio {
        programs.push(ReferenceProgram::find_fio(program, options.workers, options.limit)?);
    }
    let node = session::this_node(&args.common)?;
    // All usage errors are reported before the history is opened.
    let plan = Box::new(nodegauge_files::plan(options, programs)?);
    let figures = plan.possible_figures(&node);
    let mut unwritten = None;
    let ended = session::conduct(
        &args.common,
        node,
        &figures,
        |site, progress| {
            remove_leftovers(args)?;
            session::measure(plan, site, progress)
        },
        |record, style| {
            if let Some(sink) = &surface {
                let text = export::gnuplot_surface(record);
                if *sink == Sink::Stdout {
                    return StdoutContent::Table(text);
                }
                unwritten = sink.write(&text).err();
            }
            if args.iozone_text {
                StdoutContent::Table(table(record))
            } else {
                StdoutContent::Text(text::page(
                    &run::gauge_page(record, &nodegauge_files::FileGauge),
                    style,
                ))
            }
        },
    );
    let Some(failure) = unwritten else { return ended };
    match ended {
        Ok(Exit::Success | Exit::Unmet) => Err(failure),
        ended => {
            output::print_error_line(&failure.to_string());
            ended
        }
    }
}

/// Returns the record as a table in the format of IOzone. If nothing was measured, prints an error and returns an empty
/// text.
fn table(record: &Record) -> String {
    if record.measurements.iter().all(|m| m.value.is_none()) {
        output::print_error_line("no valid result: nothing was measured");
        return String::new();
    }
    export::iozone_table(record)
}

fn options(args: &IoArgs) -> Result<FilesOptions, Failure> {
    let chosen = nodegauge_files::choose_operations(&args.operations, args.engine)?;
    let stonewall = !args.no_stonewall;
    let threads = single("--threads", &args.threads)?.map(|count| (WorkerKind::Threads, count));
    let processes =
        single("--processes", &args.processes)?.map(|count| (WorkerKind::Processes, count));
    let workers = threads.or(processes);
    let options = FilesOptions {
        paths: paths(args),
        files: args.file_sizes.as_ref().map(|sizes| sizes.0.clone()),
        blocks: args.block_sizes.as_ref().map(|sizes| sizes.0.clone()),
        max_file: args.max_size,
        full: args.full,
        operations: chosen.operations,
        aio_operations: chosen.aio_operations,
        stride: args.stride.unwrap_or_default(),
        setup: TaskSetup {
            engine: chosen.engine,
            depth: args.depth,
            msync: args.msync,
            sync_writes: args.sync_writes,
            include_close: args.include_close,
            include_fsync: args.include_fsync,
            verify: args.verify,
            ..TaskSetup::default()
        },
        caches: caches(args),
        drop_before_reads: args.drop,
        read_percents: args.mix.clone(),
        workers: workers.map(|(kind, count)| FileWorkers {
            kind,
            count: count as usize,
            stonewall,
        }),
        compressible: args.compressible,
        samples: args.common.samples.map(|n| n as usize),
        ..FilesOptions::default()
    };
    Ok(options.with_limits(args.quick, args.common.budget, args.runtime))
}

/// Returns the page-cache modes that `--direct` or `--cache` selects.
fn caches(args: &IoArgs) -> Vec<CacheMode> {
    match args.direct {
        Some(0) => vec![CacheMode::Cached],
        Some(_) => vec![CacheMode::Direct],
        None => args.cache.clone(),
    }
}
