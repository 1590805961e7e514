//! Runs the programs that a user has built or installed: HPL, HPCG, OSU's, IOzone, fio, STREAM and others.
//!
//! [`run`] is responsible for all that belongs to a run, however it ends: input files and the rank file in
//! a private folder, the launcher's words for ranks, its session folder and its shared memory, limits of
//! time and output, the end of every descendant, and the files that the program wrote. Private folders are
//! removed with the run.

use crate::job::{self, Job, OUTPUT_LIMIT};
use crate::mpi::MpiLaunch;
use crate::{ChildEnd, CommandLine, KillReason, Scratch, ToolchainError};
use nodegauge_measure::Failure;
use nodegauge_os::{LONGEST_TEXT, describe, describe_launched, last_lines, read_file};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

/// Name of the rank file in the private folder.
const RANKFILE: &str = "ranks";
/// File system of Linux for shared memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// Variables that name the folder of shared memory files to Open MPI 4 and 5. Ranks that are killed leave
/// these files behind.
const SHARED_MEMORY_FOLDER: [&str; 2] =
    ["OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"];
/// Time between SIGTERM and SIGKILL: a launcher ends its ranks on other machines in it.
const GRACE_PERIOD: Duration = Duration::from_millis(1500);

/// A file that a program reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Its name in the folder of the run.
    pub name: &'static str,
    /// Its content.
    pub text: String,
}

/// A text file that a program wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Its name in the folder of the run.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// The folder in which a program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Folder<'a> {
    /// A new one with these files, removed after the run.
    Private(Vec<InputFile>),
    /// One of the caller's or the user's, which stays.
    Existing(&'a Path),
}

/// A program to be run.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// Program and arguments.
    pub program: CommandLine,
    /// Launcher of its ranks; `None` starts one process.
    pub launch: Option<MpiLaunch<'a>>,
    /// The folder in which it runs.
    pub folder: Folder<'a>,
    /// Variables that are set for it, and those (`None`) that are taken away.
    pub environment: Vec<(String, Option<String>)>,
    /// Longest time.
    pub limit: Duration,
    /// Most bytes of standard output, and of error output.
    pub output_limit: u64,
}

/// Result of a run.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub end: ChildEnd,
    /// Standard output; empty where a listener got it.
    pub stdout: String,
    /// Error output.
    pub stderr: String,
    /// Elapsed time.
    pub seconds: f64,
    /// Text files that it wrote into its private folder, by name.
    pub files: Vec<WrittenFile>,
    /// The launcher with its words for the ranks.
    pub launcher: Option<CommandLine>,
    /// True if a launcher reports the status.
    is_launched: bool,
    job: Job,
}

impl<'a> Run<'a> {
    /// A program of one process in the current folder.
    pub fn new(program: CommandLine, limit: Duration) -> Self {
        Self {
            program,
            launch: None,
            folder: Folder::Existing(Path::new(".")),
            environment: Vec::new(),
            limit,
            output_limit: OUTPUT_LIMIT,
        }
    }

    /// Starts the program's ranks by a launcher.
    #[must_use]
    pub fn launched(self, launch: MpiLaunch<'a>) -> Self {
        Self { launch: Some(launch), ..self }
    }

    /// Runs the program in this folder.
    #[must_use]
    pub fn within(self, folder: Folder<'a>) -> Self {
        Self { folder, ..self }
    }

    /// Sets (`Some`) or removes (`None`) variables for the program.
    #[must_use]
    pub fn with_environment(mut self, variables: Vec<(String, Option<String>)>) -> Self {
        self.environment.extend(variables);
        self
    }
}

/// Runs a program to its end. `interrupted` is called all the while.
///
/// # Errors
/// When it cannot be started or watched; how it ends is no error here.
pub fn run(run: &Run<'_>, interrupted: &dyn Fn() -> bool) -> Result<Output, ToolchainError> {
    let mut stdout = String::new();
    let mut collect = |lines: &str| {
        stdout.push_str(lines);
        interrupted().then_some(KillReason::Interrupted)
    };
    let output = listen(run, &mut collect)?;
    Ok(Output { stdout, ..output })
}

/// As [`run`]. `listen` is called some hundred times a second with the standard output since the last call,
/// in whole lines, possibly none, and may stop the program.
///
/// # Errors
/// As [`run`].
pub fn listen(
    run: &Run<'_>,
    listen: &mut dyn FnMut(&str) -> Option<KillReason>,
) -> Result<Output, ToolchainError> {
    let prepared = Prepared::new(run)?;
    let ended = job::listen(&prepared.job, GRACE_PERIOD, listen)?;
    let files = prepared.written_files();
    let Prepared { job, launcher, .. } = prepared;
    Ok(Output {
        end: ended.end,
        stdout: String::new(),
        stderr: ended.stderr,
        seconds: ended.seconds,
        files,
        is_launched: launcher.is_some(),
        launcher,
        job,
    })
}

/// A run whose files are written; removes its folders when it is dropped.
struct Prepared<'a> {
    job: Job,
    launcher: Option<CommandLine>,
    folder: &'a Folder<'a>,
    private: Scratch,
    _shared_memory: Option<Scratch>,
}

impl<'a> Prepared<'a> {
    fn new(run: &'a Run<'_>) -> Result<Self, ToolchainError> {
        let private = Scratch::new()?;
        let folder = match &run.folder {
            Folder::Existing(path) => path.to_path_buf(),
            Folder::Private(files) => {
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
        };
        let mut launcher = None;
        let mut shared_memory = None;
        if let Some(launch) = &run.launch {
            let rankfile = private.path().join(RANKFILE).display().to_string();
            let ranks = launch.words(&rankfile);
            if let Some(text) = ranks.rankfile {
                write(private.path(), RANKFILE, &text)?;
            }
            let with_words = launch.launcher.command.with(ranks.words);
            job.command = with_words.with(run.program.words().iter().cloned());
            launcher = Some(with_words);
            if launch.is_local() {
                shared_memory = Scratch::new_in(Path::new(SHARED_MEMORY)).ok();
            }
            let shared_memory = shared_memory.as_ref().map(Scratch::path);
            job.environment = session_variables(launch, private.path(), shared_memory);
        }
        job.environment.extend(run.environment.iter().cloned());
        let folder = &run.folder;
        Ok(Self { job, launcher, folder, private, _shared_memory: shared_memory })
    }

    /// Reads the text files that the program left in its private folder, in the order of their names. What
    /// is no text or too long (the image of a crashed process) is left out.
    fn written_files(&self) -> Vec<WrittenFile> {
        let Folder::Private(inputs) = self.folder else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(self.private.path()) else { return Vec::new() };
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_input = name == RANKFILE || inputs.iter().any(|file| file.name == name);
            if is_input || entry.file_type().is_ok_and(|kind| !kind.is_file()) {
                continue;
            }
            let content = read_file(&entry.path(), LONGEST_TEXT).ok();
            let text = content.and_then(|content| String::from_utf8(content).ok());
            files.extend(text.map(|text| WrittenFile { name, text }));
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        files
    }
}

/// The variables that have a launcher and its ranks put their files into folders of the run.
fn session_variables(
    launch: &MpiLaunch<'_>,
    private: &Path,
    shared_memory: Option<&Path>,
) -> Vec<(String, Option<String>)> {
    let mut variables = Vec::new();
    let value = |path: &Path| Some(path.display().to_string());
    // Slurm hands variables on to other hosts, which do not have this folder.
    if launch.is_local() || !MpiLaunch::is_in_job() {
        variables.push(("TMPDIR".to_owned(), value(private)));
    }
    if let Some(folder) = shared_memory {
        let unset = SHARED_MEMORY_FOLDER.iter().filter(|name| std::env::var_os(name).is_none());
        variables.extend(unset.map(|name| ((*name).to_owned(), value(folder))));
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

impl Output {
    /// The whole command, ready to be typed.
    pub fn command(&self) -> String {
        self.job.command.to_string()
    }

    /// Returns the status with which it ended by itself.
    ///
    /// # Errors
    /// When it was killed.
    pub fn status(&self) -> Result<ExitStatus, ToolchainError> {
        self.job.exit_status(self.end, &self.stderr)
    }

    /// The last lines of its error output.
    pub fn last_words(&self) -> String {
        last_lines(&self.stderr)
    }

    /// The content of a file that it wrote.
    pub fn file(&self, name: &str) -> Option<&str> {
        self.files.iter().find(|file| file.name == name).map(|file| file.text.as_str())
    }

    /// Returns the result of a run that ended with success.
    ///
    /// # Errors
    /// When it was killed or ended with a failure.
    pub fn success(self, hint: &'static str) -> Result<Self, ToolchainError> {
        if self.status()?.success() {
            return Ok(self);
        }
        Err(ToolchainError::Ended {
            command: self.command(),
            status: self.how_it_ended(),
            last_words: self.last_words(),
            hint,
        })
    }

    /// The error for a run that ended without a result. `reason` is the program's own, if any; else the last
    /// line of its error output that has a word is quoted.
    pub fn no_result(&self, reason: Option<&str>, hint: &'static str) -> ToolchainError {
        let has_word = |line: &&str| line.contains(char::is_alphanumeric);
        let reason = reason.or_else(|| self.stderr.lines().rev().find(has_word));
        ToolchainError::NoResult {
            command: self.command(),
            status: self.how_it_ended(),
            last_words: reason.unwrap_or_default().to_owned(),
            hint,
        }
    }

    fn how_it_ended(&self) -> String {
        match self.end {
            ChildEnd::Exited(status) if self.is_launched => describe_launched(status),
            ChildEnd::Exited(status) => describe(status),
            ChildEnd::Killed(KillReason::TimedOut) => "killed at its time limit".to_owned(),
            ChildEnd::Killed(KillReason::TooMuchOutput) => "killed for its output".to_owned(),
            ChildEnd::Killed(KillReason::Interrupted) => "interrupted".to_owned(),
        }
    }
}
