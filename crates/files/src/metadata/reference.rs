//! Reference programs that measure the same cells: mdtest, and fio's engines for metadata.

use super::cells::{MetadataCell, MetadataOptions};
use super::{DirectoryLayout, MetadataConfig};
use crate::keys::Latencies;
use crate::reference::{FioOperations, Mdtest, ReferenceProgram, fio_operations};
use crate::{GAUGE, METADATA_TEST};
use nodegauge_blocks::entries::EntryOperation;
use nodegauge_blocks::error;
use nodegauge_blocks::scratch::ScratchDirectory;
use nodegauge_blocks::volume::Volume;
use nodegauge_blocks::workers::WorkerKind;
use nodegauge_gauge::MeasuredNode;
use nodegauge_gauge::readers::Reader;
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Validity};
use nodegauge_measure::{Failure, Notice, NoticeId, Unit};
use nodegauge_placement::{PlacementRequest, RankRequest, plan_ranks};
use nodegauge_toolchain::mpi::{MpiProgram, RankPlaces};
use nodegauge_toolchain::program::{self, ProgramJob, ProgramOutput, WorkingFolder};
use nodegauge_toolchain::{CommandLine, ToolchainError};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout of a run of a program.
const LIMIT: Duration = Duration::from_secs(3600);
/// Number of iterations of mdtest, which prints their mean. With fewer iterations, a median would be suspect.
const ITERATIONS: u32 = 6;
/// Names of mdtest's figures, with the corresponding operations. If no number of bytes is given, mdtest's "read" opens
/// and closes a file. mdtest renames only directories, so its rename figure has no corresponding operation.
const MDTEST_FIGURES: [(&str, EntryOperation); 4] = [
    ("file_creation", EntryOperation::Create),
    ("file_stat", EntryOperation::Stat),
    ("file_read", EntryOperation::Open),
    ("file_removal", EntryOperation::Remove),
];
/// fio's engines for metadata, with the corresponding operations.
const FIO_ENGINES: [(&str, EntryOperation); 3] = [
    ("filecreate", EntryOperation::Create),
    ("filestat", EntryOperation::Stat),
    ("filedelete", EntryOperation::Remove),
];

/// Options of the reference program mdtest.
#[derive(Debug, Clone, PartialEq)]
pub struct MdtestOptions {
    /// Path of an mdtest binary, which may be built with any MPI.
    pub program: PathBuf,
    /// Launcher of the ranks.
    pub launcher: Option<CommandLine>,
    /// True if a launcher that refuses to run as root gets the option that permits it.
    pub allow_root: bool,
}

/// Reference programs, each of which runs once, between turns of the gauge.
#[derive(Debug, Default)]
pub struct MetadataPrograms {
    mdtest: Option<MpiProgram>,
    fio: Option<ReferenceProgram>,
}

/// Cells for the reference programs, with the folders and files of the run.
pub(super) struct ReferenceCells<'a> {
    pub(super) options: &'a MetadataOptions,
    /// File system of each folder.
    pub(super) volumes: &'a [Volume],
    pub(super) cells: &'a [MetadataCell],
    /// Number of files per worker.
    pub(super) files: u64,
    /// Scratch directory of each folder.
    pub(super) scratch: &'a [ScratchDirectory],
    pub(super) site: &'a MeasuredNode,
}

/// Cell with the scratch directory in which a reference program measures it.
struct ReferencePlace<'a> {
    of: &'a ReferenceCells<'a>,
    cell: &'a MetadataCell,
    scratch: &'a ScratchDirectory,
}

impl MetadataPrograms {
    /// Finds the programs and mdtest's launcher.
    ///
    /// # Errors
    /// Fails if one is missing.
    pub fn find(mdtest: Option<&MdtestOptions>, fio: Option<&Path>) -> Result<Self, Failure> {
        let hint = "give the path of an mdtest that you have built, e.g. --mdtest bin/mdtest";
        let mdtest = mdtest.map(|asked| {
            MpiProgram::find(&asked.program, asked.launcher.as_ref(), asked.allow_root, hint)
        });
        let fio = fio.map(|program| ReferenceProgram::find_fio(program, None, None));
        Ok(Self { mdtest: mdtest.transpose()?, fio: fio.transpose()? })
    }

    /// True if there are no programs.
    pub(super) fn is_empty(&self) -> bool {
        self.mdtest.is_none() && self.fio.is_none()
    }

    /// Returns notices about differences between the programs and the gauge.
    pub(super) fn notices(&self, options: &MetadataOptions) -> Vec<Notice> {
        let mut notices = Vec::new();
        if self.mdtest.is_some() && options.fsync && options.bytes.0 == 0 {
            let text = "mdtest calls fsync only after writing: create_fsync has no reference";
            let hint = "use --bytes 1B";
            notices.push(Notice::new(NoticeId::Reference, GAUGE, text).hint(hint));
        }
        notices
    }

    /// Runs the programs on all cells that they support. Returns the figures that were measured before an interruption.
    ///
    /// # Errors
    /// Fails if a program cannot be started, fails, or prints no figures.
    pub(super) fn run(
        &self,
        of: &ReferenceCells<'_>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Measurement>, Failure> {
        let mut all = Vec::new();
        for cell in of.cells.iter().filter(|cell| !cell.drop_caches) {
            let place = ReferencePlace { of, cell, scratch: &of.scratch[cell.path] };
            let has_fsync = !cell.fsync || of.options.bytes.0 > 0;
            if let Some(mdtest) = self.mdtest.as_ref().filter(|_| has_fsync) {
                all.extend(place.mdtest(mdtest, interrupted)?);
            }
            if let Some(fio) = self.fio.as_ref().filter(|_| !cell.fsync) {
                all.extend(place.fio(fio, interrupted)?);
            }
            if interrupted() {
                break;
            }
        }
        Ok(all)
    }
}

impl ReferencePlace<'_> {
    fn workers(&self) -> usize {
        self.of.options.workers[self.cell.workers]
    }

    /// Returns a figure of a program without its value, and its configuration; `None` if the cell has no figure for the
    /// operation.
    fn figure(
        &self,
        operation: EntryOperation,
        engine: &str,
    ) -> Option<(Measurement, MetadataConfig)> {
        let name = self.cell.figure_name(operation)?;
        let m = Measurement::new(GAUGE, METADATA_TEST, name, Unit::OperationsPerSecond);
        let config = MetadataConfig {
            engine: Some(engine.to_owned()),
            ..self.cell.config(self.of.options, &self.of.volumes[self.cell.path], self.of.files)
        };
        Some((m.with_category(Category::Reference), config))
    }

    /// Runs mdtest in a directory tree of its own.
    fn mdtest(
        &self,
        program: &MpiProgram,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Measurement>, Failure> {
        let tree = self.scratch.create_tree("mdtest")?;
        let path = std::path::absolute(&tree).unwrap_or_else(|_| tree.clone());
        let arguments = mdtest_arguments(self.cell, self.of.files, self.of.options.bytes.0, &path);
        let command = CommandLine::new(program.path.display().to_string(), arguments);
        let request = RankRequest {
            ranks: self.workers() as u32,
            all_threads: PlacementRequest::default(),
            ..RankRequest::default()
        };
        let topology = &self.of.site.topology;
        let plan = Cow::Owned(plan_ranks(topology, &request)?);
        let launch = program.launch(RankPlaces::Planned { plan, topology });
        let job = ProgramJob::new(command, LIMIT)
            .with_launcher(launch)
            .with_folder(WorkingFolder::Existing(self.scratch.folder()));
        let hint = "run the program by hand, or give the launcher of its MPI with --launcher";
        let output = self.output(&job, &tree, hint, interrupted)?;
        let Some(output) = output else { return Ok(Vec::new()) };
        let figures = mdtest_figures(&output.stdout);
        let (version, read) =
            figures.map_err(|why| output.missing_result_error(Some(&why), hint))?;
        let mut all = Vec::new();
        for (operation, value) in read {
            let Some((m, config)) = self.figure(operation, "mdtest") else { continue };
            // mdtest's ranks are processes, even if the workers of the run are threads.
            let processes = config.threads.or(config.processes);
            let config = MetadataConfig {
                threads: None,
                processes,
                version: version.clone(),
                command: Some(output.command()),
                ..config
            };
            all.push(
                m.with_value(QuotedStatistic::Mean, value)
                    .with_config(&config)
                    .with_validity(Validity::valid()),
            );
        }
        Ok(all)
    }

    /// Runs fio's engines, each in a directory tree of its own.
    fn fio(
        &self,
        program: &ReferenceProgram,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Measurement>, Failure> {
        let mut all = Vec::new();
        for (engine, operation) in FIO_ENGINES {
            let tree = self.scratch.create_tree("fio")?;
            let arguments = self.fio_arguments(engine, operation, &tree)?;
            let job = program.job(arguments, self.scratch.folder());
            let output = self.output(&job, &tree, "", interrupted)?;
            let Some(output) = output else { return Ok(all) };
            let found = fio_operations(&output.stdout);
            let FioOperations { rate, latency, doubt } =
                found.map_err(|why| output.missing_result_error(Some(&why), ""))?;
            let Some((m, config)) = self.figure(operation, "fio") else { continue };
            let config = MetadataConfig {
                version: Some(program.version.clone()),
                command: Some(output.command()),
                latency_s: latency.map(Latencies::All),
                ..config
            };
            let mut validity = Validity::valid();
            doubt.into_iter().for_each(|doubt| validity.mark_suspect(doubt));
            all.push(
                m.with_value(QuotedStatistic::Single, rate)
                    .with_config(&config)
                    .with_validity(validity),
            );
        }
        Ok(all)
    }

    /// Creates the directories of fio's jobs, and returns fio's arguments. The paths are relative to the scratch
    /// directory.
    fn fio_arguments(
        &self,
        engine: &str,
        operation: EntryOperation,
        tree: &Path,
    ) -> Result<Vec<String>, Failure> {
        let below = tree.file_name().unwrap_or_default().to_string_lossy();
        let mut folders = Vec::new();
        let count = if self.cell.layout == DirectoryLayout::Own { self.workers() } else { 1 };
        for number in 0..count {
            let name = format!("dir.{number}");
            let folder = tree.join(&name);
            std::fs::create_dir(&folder)
                .map_err(|cause| error::entry_error("cannot make", &folder, cause))?;
            folders.push(format!("{below}/{name}"));
        }
        let creates = u8::from(operation == EntryOperation::Create);
        let mut arguments: Vec<String> = [
            "--name=files".to_owned(),
            format!("--ioengine={engine}"),
            format!("--directory={}", folders.join(":")),
            format!("--nrfiles={}", self.of.files),
            format!("--numjobs={}", self.workers()),
            format!("--create_on_open={creates}"),
        ]
        .into();
        arguments.extend(
            [
                "--filesize=4k",
                "--fallocate=none",
                "--openfiles=1",
                "--filename_format=file.$jobnum.$filenum",
                "--output-format=json",
            ]
            .map(str::to_owned),
        );
        if self.of.options.kind == WorkerKind::Threads {
            arguments.push("--thread".to_owned());
        }
        Ok(arguments)
    }

    /// Runs a program and removes its tree. Returns `None` if the user interrupted it.
    fn output(
        &self,
        job: &ProgramJob<'_>,
        tree: &Path,
        hint: &'static str,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<ProgramOutput>, Failure> {
        let ended = program::run(job, interrupted).and_then(|output| output.require_success(hint));
        // Files that an interrupted program leaves are removed with the scratch directory.
        let _ = self.scratch.remove_tree(tree);
        match ended {
            Err(ToolchainError::Interrupted) => Ok(None),
            ended => Ok(Some(ended?)),
        }
    }
}

/// Returns mdtest's arguments for a cell.
fn mdtest_arguments(cell: &MetadataCell, files: u64, bytes: u64, path: &Path) -> Vec<String> {
    let mut arguments: Vec<String> = ["-F", "-n"].map(str::to_owned).into();
    arguments.push(files.to_string());
    arguments.extend(["-i".to_owned(), ITERATIONS.to_string()]);
    if cell.layout == DirectoryLayout::Own {
        arguments.push("-u".to_owned());
    }
    if bytes > 0 {
        arguments.extend(["-w".to_owned(), bytes.to_string()]);
    }
    if cell.fsync {
        arguments.push("-y".to_owned());
    }
    arguments.extend(["-d".to_owned(), path.display().to_string()]);
    arguments
}

/// Version of mdtest, and the rates of operations that it printed.
type MdtestFigures = (Option<String>, Vec<(EntryOperation, f64)>);

/// Parses the output of mdtest. Returns its version and the rates of operations on files.
fn mdtest_figures(text: &str) -> Result<MdtestFigures, String> {
    let figures = Mdtest.figures(text)?.measurements;
    let mut found = Vec::new();
    for (name, operation) in MDTEST_FIGURES {
        let value = figures.iter().find(|m| m.name == name).and_then(|m| m.value);
        found.extend(value.map(|value| (operation, value)));
    }
    if found.is_empty() {
        return Err("it printed no rates of operations on files".to_owned());
    }
    Ok((Mdtest.version(text), found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(cell: &MetadataCell, bytes: u64) -> String {
        mdtest_arguments(cell, 100, bytes, Path::new("/tmp/x")).join(" ")
    }

    #[test]
    fn mdtest_options_match_the_cell() {
        let cell = MetadataCell {
            path: 0,
            workers: 0,
            layout: DirectoryLayout::Own,
            fsync: false,
            drop_caches: false,
        };
        assert_eq!(words(&cell, 0), "-F -n 100 -i 6 -u -d /tmp/x");
        let shared = MetadataCell { layout: DirectoryLayout::Shared, fsync: true, ..cell };
        assert_eq!(words(&shared, 1), "-F -n 100 -i 6 -w 1 -y -d /tmp/x");
    }

    #[test]
    fn mdtest_figures_of_files_are_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus/mdtest");
        let text = std::fs::read_to_string(format!("{folder}/4.0.0-files.txt")).unwrap();
        let (version, found) = mdtest_figures(&text).unwrap();
        assert_eq!(version.as_deref(), Some("4.0.0"));
        assert_eq!(found.len(), 4);
        assert!(mdtest_figures("nothing").is_err());
    }
}
