//! A child process with a time limit: a compiler, a question to a program, or this program itself.
//! Programs that the user wants to have measured are run by [`crate::program`], on top of this.

use crate::error::said;
use crate::{CommandLine, ToolchainError, search};
use nodegauge_os::{
    ChildEnd, ChildError, ChildLimits, ChildOutput, KillReason, LONGEST_TEXT, describe, last_lines,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Default limit of output, bytes.
pub(crate) const OUTPUT_LIMIT: u64 = LONGEST_TEXT;

/// A program to be run.
#[derive(Debug, Clone)]
pub struct Job {
    /// Program and arguments.
    pub command: CommandLine,
    /// Folder in which it runs.
    pub folder: PathBuf,
    /// Variables that are set for it, and those (`None`) that are taken away.
    pub environment: Vec<(String, Option<String>)>,
    /// Longest time.
    pub limit: Duration,
    /// Most bytes of standard output, and of error output.
    pub output_limit: u64,
}

/// Result of a job.
#[derive(Debug, Clone)]
pub struct JobOutput {
    /// How it ended.
    pub end: ChildEnd,
    /// Its standard output.
    pub stdout: String,
    /// Its error output.
    pub stderr: String,
    /// Elapsed time.
    pub seconds: f64,
}

/// Runs `job` to its end and ends all its descendants. `interrupted` is called all the while.
///
/// # Errors
/// When it cannot be started or watched; how it ends is no error here.
pub fn run(job: &Job, interrupted: &dyn Fn() -> bool) -> Result<JobOutput, ToolchainError> {
    let mut stdout = String::new();
    let mut collect = |lines: &str| {
        stdout.push_str(lines);
        interrupted().then_some(KillReason::Interrupted)
    };
    let output = listen(job, Duration::ZERO, &mut collect)?;
    Ok(JobOutput { end: output.end, stdout, stderr: output.stderr, seconds: output.seconds })
}

/// As [`run`]; `listen` gets standard output as it comes and may stop the job, which has `grace` to end by
/// itself.
pub(crate) fn listen(
    job: &Job,
    grace: Duration,
    listen: &mut dyn FnMut(&str) -> Option<KillReason>,
) -> Result<ChildOutput, ToolchainError> {
    let limits = ChildLimits { time: job.limit, output: job.output_limit, grace };
    nodegauge_os::run_child(job.to_command(), limits, listen).map_err(|error| job.error(error))
}

impl Job {
    /// A program in the current folder, with the environment of this process.
    pub fn new(command: CommandLine, limit: Duration) -> Self {
        let folder = PathBuf::from(".");
        Self { command, folder, environment: Vec::new(), limit, output_limit: OUTPUT_LIMIT }
    }

    fn to_command(&self) -> Command {
        let mut command = Command::new(self.command.program());
        command.args(self.command.arguments()).current_dir(&self.folder);
        let own = |(name, value): &(String, Option<String>)| {
            (OsString::from(name), value.as_ref().map(OsString::from))
        };
        let safe = search::for_children().map(|(name, value)| (OsString::from(name), value));
        for (name, value) in safe.chain(self.environment.iter().map(own)) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    fn error(&self, error: ChildError) -> ToolchainError {
        let command = self.command.to_string();
        match error {
            ChildError::Start(cause) => {
                let own = Path::new(self.command.program()).starts_with(std::env::temp_dir());
                let hint = match own {
                    true => "programs are made in $TMPDIR, which must allow them to run",
                    false => "name a program that may be run here",
                };
                ToolchainError::Start { command, cause, hint }
            }
            ChildError::Watch(cause) => {
                ToolchainError::Failed(format!("cannot watch {command}: {cause}"))
            }
        }
    }

    /// Returns the status with which it ended by itself.
    ///
    /// # Errors
    /// When it was killed; with its last words.
    pub fn status(&self, output: &JobOutput) -> Result<ExitStatus, ToolchainError> {
        self.exit_status(output.end, &output.stderr)
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
                command: self.command.to_string(),
                limit: self.limit,
                last_words: last_lines(stderr),
            }),
            ChildEnd::Killed(KillReason::TooMuchOutput) => Err(ToolchainError::TooMuchOutput {
                command: self.command.to_string(),
                limit: self.output_limit,
            }),
        }
    }

    /// What it printed, if it ended well.
    ///
    /// # Errors
    /// When it was killed or ended with a failure; with its last words.
    pub fn success(&self, output: JobOutput) -> Result<String, ToolchainError> {
        let status = self.status(&output)?;
        if status.success() {
            return Ok(output.stdout);
        }
        let (command, status) = (&self.command, describe(status));
        let said = said(&last_lines(&output.stderr));
        Err(ToolchainError::Failed(format!("{command} ended with {status}{said}")))
    }
}
