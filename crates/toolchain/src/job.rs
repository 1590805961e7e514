//! A program that is run as a child process, with a time limit, and what comes of it.

use crate::error::said;
use crate::{CommandLine, ToolchainError, search};
use nodegauge_os::{ChildEnd, ChildError, ChildOutput, KillReason, describe, last_lines};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// What to run.
#[derive(Debug, Clone)]
pub struct Job {
    /// Program and arguments.
    pub command: CommandLine,
    /// Where it runs.
    pub folder: PathBuf,
    /// Variables that are set for it, and those (`None`) that are taken away.
    pub environment: Vec<(String, Option<String>)>,
    /// How long it may take.
    pub limit: Duration,
}

/// Runs `job` in a process group of its own, which does not outlive it. `interrupted` is asked all the
/// while.
///
/// # Errors
/// When it cannot be started or watched; how it ends is no error here.
pub fn run(job: &Job, interrupted: &dyn Fn() -> bool) -> Result<ChildOutput, ToolchainError> {
    nodegauge_os::run_group(job.to_command(), job.limit, interrupted)
        .map_err(|error| job.error(error))
}

/// Runs `job`, a launcher that starts programs outside its process group, and ends all its descendants.
/// `listen` gets all standard output as it comes, see [`nodegauge_os::run_with_descendants`].
///
/// # Errors
/// As [`run`].
pub fn run_with_descendants(
    job: &Job,
    listen: &mut dyn FnMut(&str) -> Option<KillReason>,
) -> Result<ChildOutput, ToolchainError> {
    nodegauge_os::run_with_descendants(job.to_command(), job.limit, listen)
        .map_err(|error| job.error(error))
}

impl Job {
    /// A program in the current folder, with the environment of this process.
    pub fn new(command: CommandLine, limit: Duration) -> Self {
        Self { command, folder: PathBuf::from("."), environment: Vec::new(), limit }
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

    /// The status with which it ended by itself.
    ///
    /// # Errors
    /// When it was killed; with its last words.
    pub fn status(&self, output: &ChildOutput) -> Result<ExitStatus, ToolchainError> {
        match output.end {
            ChildEnd::Exited(status) => Ok(status),
            ChildEnd::Killed(KillReason::Interrupted) => Err(ToolchainError::Interrupted),
            ChildEnd::Killed(KillReason::TimedOut) => Err(ToolchainError::TooLong {
                command: self.command.to_string(),
                limit: self.limit,
                last_words: last_lines(&output.stderr),
            }),
        }
    }

    /// What it printed, if it ended well.
    ///
    /// # Errors
    /// When it was killed or ended with a failure; with its last words.
    pub fn success(&self, output: ChildOutput) -> Result<String, ToolchainError> {
        let status = self.status(&output)?;
        if status.success() {
            return Ok(output.stdout);
        }
        let (command, status) = (&self.command, describe(status));
        let said = said(&last_lines(&output.stderr));
        Err(ToolchainError::Failed(format!("{command} ended with {status}{said}")))
    }
}
