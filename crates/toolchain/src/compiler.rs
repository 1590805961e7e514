//! A compiler of this system: found, asked for its version, and made to compile.

use crate::{CommandLine, Job, Scratch, ToolchainError, run};
use nodegauge_os::{describe, first_errors};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A compiler that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// As the user or a default names it, with flags.
    pub command: CommandLine,
    /// The first line that it prints when asked for its version; `None` when it does not say.
    pub version: Option<String>,
}

/// A program that was compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Where it lies.
    pub path: PathBuf,
    /// The whole command that made it.
    pub command: CommandLine,
}

/// How long what belongs to compiling may take before it counts as hanging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// A compiler that is asked for its version.
    pub version: Duration,
    /// A compiler at work.
    pub compile: Duration,
    /// A first run of what it made.
    pub trial: Duration,
}

impl CompileLimits {
    /// A minute for compiling, as long as nobody waits gladly.
    pub const USUAL: Self = Self {
        version: Duration::from_secs(10),
        compile: Duration::from_secs(60),
        trial: Duration::from_secs(10),
    };

    /// `compile` for compiling, and no more than that for the rest.
    pub fn of(compile: Duration) -> Self {
        let usual = Self::USUAL;
        Self { version: usual.version.min(compile), compile, trial: usual.trial.min(compile) }
    }
}

impl Compiler {
    /// Finds the compiler of `command` by starting it.
    ///
    /// # Errors
    /// When it is not there, cannot be started, or takes longer than `limit`.
    pub fn find(
        command: CommandLine,
        limit: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, ToolchainError> {
        let job = Job::new(CommandLine::new(command.program(), ["--version"]), limit);
        let output = match run(&job, interrupted) {
            Err(ToolchainError::Start { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
                return Err(ToolchainError::NoCompiler { program: command.program().to_owned() });
            }
            other => other?,
        };
        // A compiler that fails here may still compile; one that hangs or was interrupted will not.
        let succeeds = job.status(&output)?.success();
        let mut lines = output.stdout.lines().map(str::trim);
        let version = lines.find(|line| succeeds && !line.is_empty()).map(str::to_owned);
        Ok(Self { command, version })
    }

    /// Compiles `sources` with `flags` into a program named `name` in `scratch`.
    ///
    /// # Errors
    /// When the compiler refuses, takes longer than `limit`, or the user ends the run.
    pub fn compile(
        &self,
        limit: Duration,
        (sources, flags): (&[&Path], &[String]),
        (scratch, name): (&Scratch, &str),
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Program, ToolchainError> {
        let path = scratch.path().join(name);
        // Sources stand before what the flags may link.
        let command = self
            .command
            .with(flags.iter().cloned())
            .with(sources.iter().map(|source| source.display().to_string()))
            .with(["-o".to_owned(), path.display().to_string()]);
        // In the current folder: relative paths in the user's flags mean what they mean to the user.
        let job = Job::new(command.clone(), limit);
        let output = run(&job, interrupted)?;
        let status = job.status(&output)?;
        if status.success() && path.is_file() {
            return Ok(Program { path, command });
        }
        Err(ToolchainError::Compile {
            command: command.to_string(),
            status: match status.success() {
                true => "it made no program".to_owned(),
                false => describe(status),
            },
            errors: first_errors(&output.stderr),
        })
    }
}
