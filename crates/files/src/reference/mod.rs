//! The reference programs: run by turns with the gauge on the same cells, and read from what they
//! saved.

mod fio;
mod iozone;
mod output;
mod saved;

pub use fio::Fio;
pub use iozone::Iozone;
pub(crate) use output::{COLUMNS, THROUGHPUT};
pub use saved::{Imported, read};

use crate::FilesError;
use crate::cell::Task;
use crate::latency::Quantiles;
use crate::operation::Operation;
use crate::scratch::ScratchDirectory;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What another program says of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceFigure {
    /// Bytes per second.
    pub rate: f64,
    /// Operations per second, where it says so.
    pub iops: Option<f64>,
    /// Latencies, where it tells them.
    pub latency: Option<Quantiles>,
    /// The command, ready to be typed.
    pub command: String,
    /// Why the figure deserves doubt.
    pub doubt: Option<String>,
}

/// Figures by operation, and what ended the program early, if anything.
pub type ReferenceFigures = Vec<(&'static Operation, ReferenceFigure)>;

/// A program that is run by turns with the gauge.
pub trait ReferenceProgram {
    /// `iozone`, `fio`.
    fn name(&self) -> &'static str;
    /// As it prints it.
    fn version(&self) -> &str;
    /// Carries out the operations of a task that it has, on files in `scratch`.
    ///
    /// # Errors
    /// When it does not run or says something that cannot be read.
    fn run(
        &mut self,
        task: &Task,
        scratch: &ScratchDirectory,
        left: Option<Duration>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<ReferenceFigures, FilesError>;
}

/// A program runs at most this long for a cell.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long a program may run.
fn time_limit(left: Option<Duration>) -> Duration {
    left.unwrap_or(LONGEST).min(LONGEST)
}

/// The program's absolute path: it runs in another folder.
///
/// # Errors
/// When it is not there.
fn located(program: &Path, name: &str) -> Result<String, FilesError> {
    let is_word = program.components().count() == 1;
    let found: Option<PathBuf> = if is_word && !program.exists() {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).map(|folder| folder.join(program)).find(|p| p.is_file())
    } else {
        std::fs::canonicalize(program).ok().filter(|path| path.is_file())
    };
    let missing =
        |why: String| FilesError::Reference { program: program.display().to_string(), why };
    let path = found.ok_or_else(|| {
        missing(format!(
            "there is no such program\nhint: give the path of {name}, e.g. --{name} /usr/bin/{name}"
        ))
    })?;
    path.into_os_string().into_string().map_err(|_| {
        missing("its path is not UTF-8\nhint: give it a link with a plain name".to_owned())
    })
}

/// A size in whole KiB, which is what these programs take.
fn kib(bytes: nodegauge_measure::Bytes) -> Option<u64> {
    bytes.0.is_multiple_of(1024).then_some(bytes.0 / 1024)
}
