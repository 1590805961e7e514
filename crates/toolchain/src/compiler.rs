//! Compilers of this system: detection, version, and compilation with a time limit.

use crate::quote::first_errors;
use crate::{CommandLine, Job, ScratchFolder, ToolchainError, run, vendor_flags};
use nodegauge_measure::{Bytes, legible};
use nodegauge_os::{MAX_PROGRAM_BYTES, describe_exit_status};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Installed compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// Compiler command with flags, from the user or by default.
    pub command: CommandLine,
    /// First line of the compiler's `--version` output; `None` if it prints nothing or fails.
    pub version: Option<String>,
}

/// Compiled program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompiledProgram {
    /// Path at which the program is executed or loaded.
    pub path: PathBuf,
    /// Full compiler command.
    pub command: CommandLine,
}

/// Time limits for the steps of a compilation. A step that exceeds its limit is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Limit for the query of the compiler's version.
    pub version: Duration,
    /// Limit for the compilation.
    pub compile: Duration,
    /// Limit for the CPU time of the first run of the compiled program.
    pub trial: Duration,
}

impl CompileLimits {
    /// Default limits, with one minute for the compilation.
    pub const DEFAULT: Self = Self {
        version: Duration::from_secs(10),
        compile: Duration::from_secs(60),
        trial: Duration::from_secs(10),
    };

    /// Returns limits with `compile` for the compilation. The limits for the other steps are at most `compile`.
    pub fn from_compile_time(compile: Duration) -> Self {
        let usual = Self::DEFAULT;
        Self { version: usual.version.min(compile), compile, trial: usual.trial.min(compile) }
    }
}

impl Compiler {
    /// Detects the compiler of `command` by running it with `--version`.
    ///
    /// # Errors
    /// Fails when the compiler is missing, cannot be started, or takes longer than `limit`.
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
        // A compiler may return an unsuccessful status for `--version` and still compile programs. A hang or an
        // interruption is an error.
        let succeeds = job.status(&output)?.success();
        let mut lines = output.stdout.lines().map(str::trim);
        let version = lines.find(|line| succeeds && !line.is_empty()).map(legible::quote_line);
        Ok(Self { command, version })
    }

    /// Compiles `sources` with `flags` into a program named `name` in `scratch`.
    ///
    /// # Errors
    /// Fails when the compiler reports an error, takes longer than `limit`, or the user interrupts the run.
    pub fn compile(
        &self,
        limit: Duration,
        sources: &[&Path],
        flags: &[String],
        scratch: &ScratchFolder,
        name: &str,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<CompiledProgram, ToolchainError> {
        if let Some(misread) = vendor_flags::misread_flags(&self.command, self.version.as_deref()) {
            let program = self.command.program().to_owned();
            return Err(ToolchainError::ForeignFlag { program, flags: misread });
        }
        let path = scratch.path().join(name);
        // The linker requires that sources precede the libraries in the flags.
        let command = self
            .command
            .with_arguments(flags.iter().cloned())
            .with_arguments(sources.iter().map(|source| source.display().to_string()))
            .with_arguments(["-o".to_owned(), path.display().to_string()]);
        // The job runs in the current folder, so that relative paths in the user's flags remain valid.
        let mut job = Job::new(command.clone(), limit);
        // Temporary files that a killed compiler leaves are removed together with this folder.
        let folder = scratch.path().display().to_string();
        job.environment.push(("TMPDIR".to_owned(), Some(folder)));
        let output = run(&job, interrupted)?;
        let status = job.status(&output)?;
        let length = path.metadata().ok().filter(Metadata::is_file).map(|file| file.len());
        let status = match length {
            _ if !status.success() => describe_exit_status(status),
            Some(0..=MAX_PROGRAM_BYTES) => {
                return Ok(CompiledProgram { path: scratch.executable_path(path)?, command });
            }
            Some(length) => format!("its output file of {} is too long", Bytes(length)),
            None => "no output file".to_owned(),
        };
        Err(ToolchainError::Compile {
            command: command.to_string(),
            status,
            errors: first_errors(&output.stderr),
            flags: vendor_flags::refused_flags(&self.command, &output.stderr),
        })
    }
}
