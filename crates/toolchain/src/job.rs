//! Child processes with a time limit: a compiler, a version query, or this program itself.
//! [`crate::program`] uses jobs to run the programs that the user wants to measure.

use crate::quote::{last_lines, quoted_lines};
use crate::{CommandLine, ToolchainError, scratch, search};
use nodegauge_measure::{Seconds, legible};
use nodegauge_os::{
    ChildEnd, ChildError, ChildLimits, ChildOutput, ChildPlace, KillReason, MAX_TEXT_BYTES,
    StackLimit, describe_exit_status, remaining_helper_time,
};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Default output limit in bytes.
pub(crate) const OUTPUT_LIMIT: u64 = MAX_TEXT_BYTES;

/// Program that is run as a child process, with its limits.
#[derive(Debug, Clone)]
pub struct Job {
    /// Program and arguments.
    pub command: CommandLine,
    /// Working folder of the program.
    pub folder: PathBuf,
    /// Environment variables to set, and variables to remove (`None`).
    pub environment: Vec<(String, Option<String>)>,
    /// Time limit of the program.
    pub limit: Duration,
    /// Maximum number of bytes of standard output, which is also the maximum for the error output.
    pub output_limit: u64,
    /// CPUs, memory policy and pages of the process; `None` if it inherits them.
    pub place: Option<ChildPlace>,
    /// Stack limit of the process; `None` if it inherits the limit.
    pub stack: Option<StackLimit>,
}

/// Result of a job that has ended.
#[derive(Debug, Clone)]
pub struct JobOutput {
    /// Way in which the process ended.
    pub end: ChildEnd,
    /// Standard output of the process.
    pub stdout: String,
    /// Error output of the process.
    pub stderr: String,
    /// Elapsed time of the process.
    pub seconds: Seconds,
    /// Time limit that the process had; zero if no time was left and the process was not started.
    pub limit: Duration,
}

/// Runs `job` to its end and then kills all its descendants. `interrupted` is called repeatedly while the job runs. If
/// the user's time budget ends before the limit of the job, the job ends with the budget; see
/// [`remaining_helper_time`].
///
/// # Errors
/// Fails when the program cannot be started or monitored. An unsuccessful status is not an error of this function.
pub fn run(job: &Job, interrupted: &dyn Fn() -> bool) -> Result<JobOutput, ToolchainError> {
    let limit = remaining_helper_time(job.limit);
    if limit.is_zero() {
        return Ok(JobOutput {
            end: ChildEnd::Killed(KillReason::TimedOut),
            stdout: String::new(),
            stderr: String::new(),
            seconds: Seconds(0.0),
            limit,
        });
    }
    let limited = Job { limit, ..job.clone() };
    let mut stdout = String::new();
    let output = run_with_listener(&limited, Duration::ZERO, &mut |lines| {
        stdout.push_str(lines);
        interrupted().then_some(KillReason::Interrupted)
    })?;
    Ok(JobOutput {
        end: output.end,
        stdout,
        stderr: output.stderr,
        seconds: Seconds(output.seconds),
        limit,
    })
}

/// Runs a job like [`run`]. `listen` receives the standard output while the job runs, and may return a reason to
/// stop the job. The job then has the time `grace` to end by itself.
pub(crate) fn run_with_listener(
    job: &Job,
    grace: Duration,
    listen: &mut dyn FnMut(&str) -> Option<KillReason>,
) -> Result<ChildOutput, ToolchainError> {
    let limits = ChildLimits { time: job.limit, output: job.output_limit, grace };
    let mut command = job.to_command();
    if let Some(place) = &job.place {
        place.apply_to(&mut command).map_err(|cause| job.error(ChildError::Start(cause.into())))?;
    }
    if let Some(stack) = job.stack {
        stack.apply_to(&mut command);
    }
    nodegauge_os::run_child(command, limits, listen).map_err(|error| job.error(error))
}

impl Job {
    /// Creates a job in the current folder, with the environment of this process.
    pub fn new(command: CommandLine, limit: Duration) -> Self {
        let folder = PathBuf::from(".");
        Self {
            command,
            folder,
            environment: Vec::new(),
            limit,
            output_limit: OUTPUT_LIMIT,
            place: None,
            stack: None,
        }
    }

    fn to_command(&self) -> Command {
        let mut command = Command::new(self.command.program());
        command.args(self.command.arguments()).current_dir(&self.folder);
        for (name, value) in search::child_search_paths() {
            set_variable(&mut command, name, value.as_deref());
        }
        for (name, value) in &self.environment {
            set_variable(&mut command, name, value.as_ref().map(OsStr::new));
        }
        command
    }

    /// Formats the command for a message. Long arguments are shortened: some have a thousand characters.
    fn shown(&self) -> String {
        legible::shorten_words(&self.command.to_string())
    }

    fn error(&self, error: ChildError) -> ToolchainError {
        let command = self.shown();
        match error {
            ChildError::Start(cause) => {
                let hint = if scratch::is_own_program(Path::new(self.command.program())) {
                    "compiled programs are in $TMPDIR, which must allow execution"
                } else {
                    "specify a program that can run on this node"
                };
                ToolchainError::Start { command, cause, hint }
            }
            ChildError::Watch(cause) => {
                ToolchainError::Failed(format!("cannot monitor {command}: {cause}"))
            }
        }
    }

    /// Returns the exit status of a job that was not killed.
    ///
    /// # Errors
    /// Fails when the job was killed; the error contains the last lines of the error output.
    pub fn status(&self, output: &JobOutput) -> Result<ExitStatus, ToolchainError> {
        let limited = Self { limit: output.limit, ..self.clone() };
        limited.exit_status(output.end, &output.stderr)
    }

    pub(crate) fn exit_status(
        &self,
        end: ChildEnd,
        stderr: &str,
    ) -> Result<ExitStatus, ToolchainError> {
        match end {
            ChildEnd::Exited(status) => Ok(status),
            ChildEnd::Killed(KillReason::Interrupted) => Err(ToolchainError::Interrupted),
            ChildEnd::Killed(KillReason::TimedOut) => Err(ToolchainError::TooLong {
                command: self.shown(),
                limit: self.limit,
                error_tail: last_lines(stderr),
            }),
            ChildEnd::Killed(KillReason::TooMuchOutput) => Err(ToolchainError::TooMuchOutput {
                command: self.shown(),
                limit: self.output_limit,
            }),
        }
    }

    /// Returns the standard output of a job that succeeded.
    ///
    /// # Errors
    /// Fails when the job was killed or ended with a failure; the error contains the last lines of the error output.
    pub fn successful_stdout(&self, output: JobOutput) -> Result<String, ToolchainError> {
        let status = self.status(&output)?;
        if status.success() {
            return Ok(output.stdout);
        }
        let command = self.shown();
        let status = describe_exit_status(status);
        let lines = quoted_lines(&last_lines(&output.stderr));
        Err(ToolchainError::Failed(format!("{command} ended with {status}{lines}")))
    }
}

/// Sets a variable of a child process, or removes it if `value` is `None`.
fn set_variable(command: &mut Command, name: &str, value: Option<&OsStr>) {
    match value {
        Some(value) => command.env(name, value),
        None => command.env_remove(name),
    };
}
