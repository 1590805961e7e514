//! Reference programs, which run interleaved with the gauge on the same cells, and parsers for their saved output.

mod fio;
mod iozone;
mod mdtest;
mod output;
mod reader;
mod saved;

pub(crate) use fio::{FioOperations, fio_operations};
pub(crate) use mdtest::Mdtest;
pub(crate) use output::{MAX_COLUMNS, MIN_COLUMNS, TESTS, is_wide};
pub(crate) use reader::{FioReader, IozoneReader};

use nodegauge_blocks::cell::EarlyEnd;
use nodegauge_blocks::latency::Quantiles;
use nodegauge_blocks::operation::Operation;
use nodegauge_blocks::scratch::ScratchDirectory;
use nodegauge_blocks::task::Task;
use nodegauge_blocks::workers::FileWorkers;
use nodegauge_measure::Failure;
use nodegauge_toolchain::program::{self, ProgramJob, WorkingFolder};
use nodegauge_toolchain::{CommandLine, ToolchainError, find_program, is_path, with_path_hint};
use std::path::Path;
use std::time::Duration;

/// Figure of a reference program for an operation: bytes per second, operations per second, and latencies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReferenceProgramFigure {
    pub(crate) rate: f64,
    pub(crate) iops: Option<f64>,
    pub(crate) latency: Option<Quantiles>,
    /// Command line, quoted for a shell.
    pub(crate) command: String,
    /// Reason why the figure is suspect.
    pub(crate) doubt: Option<String>,
}

type Figures = Vec<(&'static Operation, ReferenceProgramFigure)>;
/// Arguments of a run of a program, with the operations that the run measures.
type ProgramRun = (Vec<String>, Vec<&'static Operation>);

/// Properties of a kind of program.
#[derive(Debug)]
struct ProgramProperties {
    /// Name of the command; records use the same name.
    name: &'static str,
    title: &'static str,
    /// Option that prints the version.
    version_option: &'static str,
    /// Function that extracts the version from the printed text.
    version: fn(&str) -> Option<&str>,
    /// Function that returns the runs for a task; empty if the program does not support the task's setup.
    runs: fn(&ReferenceProgram, &Task) -> Vec<ProgramRun>,
    /// Parser for the output of a run that was started with `command`.
    figures: fn(&str, &Task, &[&'static Operation], command: &str) -> Result<Figures, String>,
}

/// Reference program, which runs interleaved with the gauge.
#[derive(Debug, Clone)]
pub struct ReferenceProgram {
    kind: &'static ProgramProperties,
    /// Name of the program: `iozone` or `fio`.
    pub(crate) name: &'static str,
    path: String,
    /// Version as the program prints it.
    pub(crate) version: String,
    workers: Option<FileWorkers>,
    /// Time limit of each operation, for programs that have such an option.
    limit: Option<Duration>,
}

/// Timeout of a run for a cell.
const MAX_RUN_TIME: Duration = Duration::from_secs(3600);
/// Timeout for a program to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

impl ReferenceProgram {
    /// Finds fio and reads its version. Each job ends after `limit`.
    ///
    /// # Errors
    /// Fails if the program is missing or is not fio.
    pub fn find_fio(
        program: &Path,
        workers: Option<FileWorkers>,
        limit: Option<Duration>,
    ) -> Result<Self, Failure> {
        Self::found(&fio::PROPERTIES, program, workers, limit)
    }

    /// Finds IOzone and reads its version.
    ///
    /// # Errors
    /// Fails if the program is missing or is not IOzone.
    pub fn find_iozone(program: &Path, workers: Option<FileWorkers>) -> Result<Self, Failure> {
        Self::found(&iozone::PROPERTIES, program, workers, None)
    }

    fn found(
        kind: &'static ProgramProperties,
        program: &Path,
        workers: Option<FileWorkers>,
        limit: Option<Duration>,
    ) -> Result<Self, Failure> {
        let ProgramProperties { name, title, .. } = *kind;
        let path = located(program, name)?;
        let command = CommandLine::new(path.as_str(), [kind.version_option]);
        let run =
            ProgramJob::new(command, VERSION_LIMIT).with_folder(WorkingFolder::Private(Vec::new()));
        let stdout = program::run(&run, &|| false)?.stdout;
        let version = (kind.version)(&stdout).ok_or_else(|| {
            Failure::missing(format!("{path} is not {title}: the program prints no version"))
                .hint(format!("--{name} takes the path of the program {name}"))
        })?;
        let version = version.to_owned();
        Ok(Self { kind, name, path, version, workers, limit })
    }

    /// Returns a job that runs the program with these arguments in a folder.
    pub(crate) fn job<'a>(&self, arguments: Vec<String>, folder: &'a Path) -> ProgramJob<'a> {
        let command = CommandLine::new(self.path.clone(), arguments);
        ProgramJob::new(command, MAX_RUN_TIME).with_folder(WorkingFolder::Existing(folder))
    }

    /// Runs the operations of a task that the program supports, on files in `scratch`.
    pub(crate) fn run(
        &self,
        task: &Task,
        scratch: &ScratchDirectory,
        left: Option<Duration>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Figures, EarlyEnd> {
        let limit = left.unwrap_or(MAX_RUN_TIME).min(MAX_RUN_TIME);
        let mut figures = Vec::new();
        for (arguments, operations) in (self.kind.runs)(self, task) {
            if operations.iter().any(|operation| operation.creates) {
                self.remove_files(scratch);
            }
            let run = ProgramJob::new(CommandLine::new(self.path.clone(), arguments), limit)
                .with_folder(WorkingFolder::Existing(scratch.folder()));
            let ended =
                program::run(&run, interrupted).and_then(|output| output.require_success(""));
            let output = ended.map_err(|error| match error {
                ToolchainError::Interrupted => EarlyEnd::CutShort,
                ToolchainError::TooLong { .. } if limit < MAX_RUN_TIME => EarlyEnd::CutShort,
                error => EarlyEnd::Failed(error.into()),
            })?;
            let shown = output.command();
            let found = (self.kind.figures)(&output.stdout, task, &operations, &shown);
            figures
                .extend(found.map_err(|why| {
                    EarlyEnd::Failed(Failure::missing(format!("{shown}: {why}")))
                })?);
        }
        self.remove_files(scratch);
        Ok(figures)
    }

    /// Removes the program's files, so that the next run creates them anew.
    fn remove_files(&self, scratch: &ScratchDirectory) {
        let own = format!("data-{}", self.name);
        let Ok(entries) = std::fs::read_dir(scratch.folder()) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&own) {
                // A file that cannot be removed is overwritten by the next run.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Returns the absolute path of the program, because it runs in another folder.
fn located(program: &Path, name: &str) -> Result<String, Failure> {
    let Some(path) = find_program(program) else {
        if is_path(program) && program.is_file() {
            let failure = unusable(program, "the program is not executable");
            return Err(failure.hint(format!("give the path of {name}")));
        }
        let hint = format!("give the path of {name}, e.g. --{name} /usr/bin/{name}");
        let failure = unusable(program, "program not found");
        return Err(failure.hint(with_path_hint(program, &hint)));
    };
    path.into_os_string().into_string().map_err(|_| {
        let failure = unusable(program, "the path is not UTF-8");
        failure.hint("create a symbolic link with a UTF-8 name")
    })
}

/// Returns the failure of a program that cannot be run.
fn unusable(program: &Path, why: &str) -> Failure {
    Failure::missing(format!("{}: {why}", program.display()))
}
