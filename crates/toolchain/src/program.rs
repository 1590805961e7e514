//! Runs of programs that a user has built or installed: HPL, HPCG, the OSU benchmarks, IOzone, fio, STREAM and others.
//!
//! [`run`] manages all resources of a run, and releases them even if the run fails: the input files and the rank file
//! in a private folder, the launcher's options for ranks, the launcher's session folder and shared memory, the limits
//! of time and output, the descendants of the program, and the files that the program wrote. Private folders are
//! removed at the end of the run.

use crate::job::{self, Job, OUTPUT_LIMIT};
use crate::mpi::{MpiLaunch, shorten_launcher_error};
use crate::quote::last_lines;
use crate::scratch::SHARED_MEMORY;
use crate::{ChildEnd, CommandLine, KillReason, ScratchFolder, ToolchainError};
use nodegauge_measure::{Bytes, Failure, Seconds, legible};
use nodegauge_os::{
    ChildPlace, MAX_TEXT_BYTES, SignalDelay, StackLimit, describe_exit_status,
    describe_launcher_status, is_memory_fault, read_file,
};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

/// Name of the rank file in the private folder of the run.
const RANKFILE: &str = "ranks";
/// Environment variables that select the folder of Open MPI's shared memory files, for versions 4 and 5. Ranks that are
/// killed do not remove these files.
const SHARED_MEMORY_FOLDER: [&str; 2] =
    ["OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"];
/// Environment variables for the time in seconds that Open MPI's launcher waits between SIGTERM and SIGKILL to its
/// ranks, for versions 4 and 5. With the default value, an interrupted run would last one second longer.
const KILL_DELAY: [&str; 2] =
    ["OMPI_MCA_odls_base_sigkill_timeout", "PRTE_MCA_odls_base_sigkill_timeout"];
/// Time between SIGTERM and SIGKILL, during which a launcher can end its ranks on other machines.
const GRACE_PERIOD: Duration = Duration::from_millis(1500);

/// Input file of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Name of the file in the folder of the run.
    pub name: &'static str,
    /// Content of the file.
    pub text: String,
}

/// Text file that a program wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Name of the file in the folder of the run.
    pub name: String,
    /// Content of the file.
    pub text: String,
}

/// Working folder of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkingFolder<'a> {
    /// New folder with these input files, which is removed after the run.
    Private(Vec<InputFile>),
    /// Existing folder, which is kept.
    Existing(&'a Path),
}

/// Program that is run, with its launcher, folder and limits.
#[derive(Debug, Clone)]
pub struct ProgramJob<'a> {
    /// Program and arguments.
    pub program: CommandLine,
    /// Launcher of the ranks; if `None`, a single process is started.
    pub launch: Option<MpiLaunch<'a>>,
    /// Working folder of the program.
    pub folder: WorkingFolder<'a>,
    /// Environment variables to set, and variables to remove (`None`).
    pub environment: Vec<(String, Option<String>)>,
    /// Time limit of the program.
    pub limit: Duration,
    /// Maximum number of bytes of standard output, which is also the maximum for the error output.
    pub output_limit: u64,
    /// CPUs, memory policy and pages of the started process; `None` if it inherits them.
    pub place: Option<ChildPlace>,
    /// Stack limit of the started process and its descendants; `None` if they inherit the limit.
    pub stack: Option<StackLimit>,
}

/// Result of a run of a program.
#[derive(Debug, Clone)]
pub struct ProgramOutput {
    /// Way in which the process ended.
    pub end: ChildEnd,
    /// Standard output of the program; empty if a listener received it.
    pub stdout: String,
    /// Error output of the program.
    pub stderr: String,
    /// Elapsed time of the run.
    pub seconds: Seconds,
    /// Text files that the program left in the private folder, in the order of their names.
    pub files: Vec<WrittenFile>,
    /// Launcher with its options for the ranks.
    pub launcher: Option<CommandLine>,
    /// True if the exit status comes from a launcher.
    is_launched: bool,
    job: Job,
}

impl<'a> ProgramJob<'a> {
    /// Creates a job with one process in the current folder.
    pub fn new(program: CommandLine, limit: Duration) -> Self {
        Self {
            program,
            launch: None,
            folder: WorkingFolder::Existing(Path::new(".")),
            environment: Vec::new(),
            limit,
            output_limit: OUTPUT_LIMIT,
            place: None,
            stack: None,
        }
    }

    /// Sets the launcher of the ranks.
    #[must_use]
    pub fn with_launcher(self, launch: MpiLaunch<'a>) -> Self {
        Self { launch: Some(launch), ..self }
    }

    /// Sets the working folder.
    #[must_use]
    pub fn with_folder(self, folder: WorkingFolder<'a>) -> Self {
        Self { folder, ..self }
    }

    /// Sets the limit of the stack.
    #[must_use]
    pub fn with_stack(self, stack: Option<StackLimit>) -> Self {
        Self { stack, ..self }
    }

    /// Adds variables to set (`Some`) or to remove (`None`).
    #[must_use]
    pub fn with_environment(mut self, variables: Vec<(String, Option<String>)>) -> Self {
        self.environment.extend(variables);
        self
    }
}

/// Runs a program to its end. `interrupted` is called repeatedly while the program runs.
///
/// # Errors
/// Fails when the program cannot be started or monitored. An unsuccessful status is not an error of this function.
pub fn run(
    run: &ProgramJob<'_>,
    interrupted: &dyn Fn() -> bool,
) -> Result<ProgramOutput, ToolchainError> {
    let mut stdout = String::new();
    let output = run_with_listener(run, &mut |lines| {
        stdout.push_str(lines);
        interrupted().then_some(KillReason::Interrupted)
    })?;
    Ok(ProgramOutput { stdout, ..output })
}

/// Runs a program like [`run`]. `listen` is called about a hundred times per second with the complete lines of
/// standard output since the last call; the text may be empty. `listen` may return a reason to stop the program.
///
/// # Errors
/// Fails as [`run`] does.
pub fn run_with_listener(
    run: &ProgramJob<'_>,
    listen: &mut dyn FnMut(&str) -> Option<KillReason>,
) -> Result<ProgramOutput, ToolchainError> {
    // A signal that would end this process is delayed until the folders of the run have been removed.
    let _delay = SignalDelay::new();
    let prepared = PreparedRun::new(run)?;
    let ended = job::run_with_listener(&prepared.job, GRACE_PERIOD, listen)?;
    let files = prepared.written_files();
    let PreparedRun { job, launcher, .. } = prepared;
    Ok(ProgramOutput {
        end: ended.end,
        stdout: String::new(),
        stderr: ended.stderr,
        seconds: Seconds(ended.seconds),
        files,
        is_launched: launcher.is_some(),
        launcher,
        job,
    })
}

/// Run with its input files. Its folders are removed when this value is dropped.
struct PreparedRun<'a> {
    job: Job,
    launcher: Option<CommandLine>,
    folder: &'a WorkingFolder<'a>,
    private: ScratchFolder,
    _shared_memory: Option<ScratchFolder>,
}

impl<'a> PreparedRun<'a> {
    fn new(run: &'a ProgramJob<'_>) -> Result<Self, ToolchainError> {
        let private = ScratchFolder::new()?;
        let folder = match &run.folder {
            WorkingFolder::Existing(path) => path.to_path_buf(),
            WorkingFolder::Private(files) => {
                for file in files {
                    write(private.path(), file.name, &file.text)?;
                }
                private.path().to_owned()
            }
        };
        let mut job = Job {
            command: run.program.clone(),
            folder,
            environment: Vec::new(),
            limit: run.limit,
            output_limit: run.output_limit,
            place: run.place.clone(),
            stack: run.stack,
        };
        let mut launcher = None;
        let mut shared_memory = None;
        if let Some(launch) = &run.launch {
            let rankfile = private.path().join(RANKFILE).display().to_string();
            let ranks = launch.arguments(&rankfile);
            if let Some(text) = ranks.rankfile {
                write(private.path(), RANKFILE, &text)?;
            }
            let with_words = launch.launcher.command.with_arguments(ranks.words);
            job.command = with_words.with_arguments(run.program.words().iter().cloned());
            launcher = Some(with_words);
            if launch.is_local() {
                shared_memory = ScratchFolder::new_in(Path::new(SHARED_MEMORY)).ok();
            }
            let shared_memory = shared_memory.as_ref().map(ScratchFolder::path);
            job.environment = session_variables(launch, private.path(), shared_memory);
        }
        job.environment.extend(run.environment.iter().cloned());
        Ok(Self { job, launcher, folder: &run.folder, private, _shared_memory: shared_memory })
    }

    /// Reads the text files that the program left in its private folder, in the order of their names. Files that
    /// are not text or are too long, e.g. core dumps, are omitted.
    fn written_files(&self) -> Vec<WrittenFile> {
        let WorkingFolder::Private(inputs) = self.folder else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(self.private.path()) else { return Vec::new() };
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_input = name == RANKFILE || inputs.iter().any(|file| file.name == name);
            if is_input || entry.file_type().is_ok_and(|kind| !kind.is_file()) {
                continue;
            }
            let content = read_file(&entry.path(), MAX_TEXT_BYTES).ok();
            let text = content.and_then(|content| String::from_utf8(content).ok());
            files.extend(text.map(|text| WrittenFile { name, text }));
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        files
    }
}

/// Returns the environment variables that place the files of a launcher and its ranks in folders of the run.
fn session_variables(
    launch: &MpiLaunch<'_>,
    private: &Path,
    shared_memory: Option<&Path>,
) -> Vec<(String, Option<String>)> {
    let mut variables = Vec::new();
    // Slurm passes variables to other hosts, on which the folder does not exist.
    if launch.is_local() || !MpiLaunch::is_in_job() {
        variables.push(("TMPDIR".to_owned(), Some(private.display().to_string())));
    }
    for name in KILL_DELAY {
        variables.push((name.to_owned(), Some("0".to_owned())));
    }
    if let Some(folder) = shared_memory {
        let unset = SHARED_MEMORY_FOLDER.iter().filter(|name| std::env::var_os(name).is_none());
        let folder = folder.display().to_string();
        variables.extend(unset.map(|name| ((*name).to_owned(), Some(folder.clone()))));
    }
    variables
}

/// Writes an input file.
fn write(folder: &Path, name: &str, text: &str) -> Result<(), ToolchainError> {
    std::fs::write(folder.join(name), text).map_err(|cause| {
        ToolchainError::Missing(
            Failure::missing(format!("cannot write {name} into {folder:?}"))
                .cause(cause)
                .hint("set TMPDIR to a folder with free space"),
        )
    })
}

/// Returns the remedy for a program that may have exceeded this stack limit; `None` if there is no limit.
fn stack_remedy(StackLimit { soft, hard }: StackLimit) -> Option<String> {
    let soft_bytes = soft?;
    let limited = format!("if its local arrays need more than {} of stack", Bytes(soft_bytes));
    Some(match hard {
        Some(hard_bytes) if soft_bytes >= hard_bytes => {
            format!("{limited}, raise the hard limit (ulimit -Hs, limits.conf, the job scheduler)")
        }
        Some(hard_bytes) => format!("{limited}, run 'ulimit -s {}' first", hard_bytes >> 10),
        None => format!("{limited}, run 'ulimit -s unlimited' first"),
    })
}

impl ProgramOutput {
    /// Returns the full command line, with shell quotes.
    pub fn command(&self) -> String {
        self.job.command.to_string()
    }

    /// Returns the exit status of a program that was not killed.
    ///
    /// # Errors
    /// Fails when the program was killed.
    pub fn status(&self) -> Result<ExitStatus, ToolchainError> {
        self.job.exit_status(self.end, &self.stderr)
    }

    /// Returns the last lines of the program's error output.
    pub fn error_tail(&self) -> String {
        if self.is_launched {
            return last_lines(&shorten_launcher_error(&self.stderr));
        }
        last_lines(&self.stderr)
    }

    /// Returns the content of a file that the program wrote.
    pub fn file(&self, name: &str) -> Option<&str> {
        self.files.iter().find(|file| file.name == name).map(|file| file.text.as_str())
    }

    /// Returns the output of a run that succeeded.
    ///
    /// # Errors
    /// Fails when the program was killed or ended with an unsuccessful status.
    pub fn require_success(self, hint: &'static str) -> Result<Self, ToolchainError> {
        if self.status()?.success() {
            return Ok(self);
        }
        Err(ToolchainError::Ended {
            command: self.command(),
            status: self.status_text(),
            error_tail: self.error_tail(),
            hint: self.stack_hint().unwrap_or_else(|| hint.to_owned()),
        })
    }

    /// Returns the remedy if the program may have exceeded its stack limit; otherwise `None`.
    fn stack_hint(&self) -> Option<String> {
        let ChildEnd::Exited(status) = self.end else { return None };
        let limit = self.job.stack.unwrap_or_else(StackLimit::current);
        stack_remedy(limit).filter(|_| is_memory_fault(status, self.is_launched))
    }

    /// Returns the error for a run that ended without a result. The error contains `reason`, which the program printed.
    /// Without a reason, it contains the last line of the error output that contains a word.
    pub fn missing_result_error(&self, reason: Option<&str>, hint: &'static str) -> ToolchainError {
        let mut lines = self.stderr.lines().rev();
        let reason = reason.or_else(|| lines.find(|line| line.contains(char::is_alphanumeric)));
        let error_tail = reason.map(legible::quote_line).unwrap_or_default();
        ToolchainError::NoResult {
            command: self.command(),
            status: self.status_text(),
            error_tail,
            hint,
        }
    }

    /// Describes how the program ended, e.g. `exit status 3`.
    pub fn status_text(&self) -> String {
        match self.end {
            ChildEnd::Exited(status) if self.is_launched => describe_launcher_status(status),
            ChildEnd::Exited(status) => describe_exit_status(status),
            ChildEnd::Killed(KillReason::TimedOut) => "killed at its time limit".to_owned(),
            ChildEnd::Killed(KillReason::TooMuchOutput) => "killed for too much output".to_owned(),
            ChildEnd::Killed(KillReason::Interrupted) => "interrupted".to_owned(),
        }
    }
}
