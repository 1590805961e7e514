//! Destination of an output: standard output or a file.

use crate::failure::Failure;
use nodegauge_measure::legible;
use nodegauge_os::{OutputError, OutputFile};
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Input files and history of this command, which outputs must not replace.
static INPUTS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Prevents outputs of this command from replacing a file.
pub(crate) fn protect_input(input: &Path) {
    INPUTS.lock().unwrap_or_else(PoisonError::into_inner).insert(input.to_owned());
}

fn inputs() -> Vec<PathBuf> {
    INPUTS.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

/// Destination of `--json` or `--csv`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sink {
    /// Standard output; nothing else is printed there.
    Stdout,
    /// A file, or another object with a path.
    File(PathBuf),
}

impl From<&str> for Sink {
    /// Parses `-` or a path. A path that means standard output, such as `/dev/stdout`, gives [`Self::Stdout`].
    fn from(text: &str) -> Self {
        let is_stdout = text == "-"
            || std::fs::metadata(text).is_ok_and(|found| writes_to(&found, io::stdout()));
        if is_stdout { Self::Stdout } else { Self::File(PathBuf::from(text)) }
    }
}

impl Sink {
    /// Writes `text` atomically: readers never see an incomplete file, and after a failure an existing file is
    /// unchanged.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        self.write_parts([Ok(text)].into_iter())
    }

    /// Writes a text in parts, because it may not fit into memory; stops at the first error.
    pub(crate) fn write_parts<T: AsRef<str>>(
        &self,
        mut parts: impl Iterator<Item = Result<T, Failure>>,
    ) -> Result<(), Failure> {
        let Self::File(path) = self else {
            let is_terminal = io::stdout().is_terminal();
            return parts.try_for_each(|part| {
                let part = part?;
                let text = part.as_ref();
                // Text from other records must not contain control sequences for the terminal; pipes get the text
                // unchanged.
                let shown = if is_terminal { legible::escape_lines(text) } else { text.into() };
                super::write(&shown)
            });
        };
        let mut file = OutputFile::create(path, &inputs()).map_err(|why| refusal(path, &why))?;
        for part in parts {
            file.write_all(part?.as_ref().as_bytes()).map_err(|why| refusal(path, &why.into()))?;
        }
        file.finish().map_err(|why| refusal(path, &why))
    }

    /// Returns the path if the destination is a regular file.
    pub(crate) fn regular_file(&self) -> Option<PathBuf> {
        match self {
            Self::File(path) if path.is_file() => Some(path.clone()),
            _ => None,
        }
    }

    /// Returns an error if the file is the history or an input of this command.
    pub(crate) fn refuse_inputs(&self) -> Result<(), Failure> {
        let Self::File(path) = self else { return Ok(()) };
        OutputFile::refuse_inputs(path, &inputs()).map_err(|why| refusal(path, &why))
    }

    /// Returns an error if the file cannot be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self {
            Self::Stdout => Ok(()),
            Self::File(path) => {
                OutputFile::check(path, &inputs()).map_err(|why| refusal(path, &why))
            }
        }
    }
}

/// True if `stream` writes to the file `found`.
fn writes_to(found: &Metadata, stream: impl AsFd) -> bool {
    let stream = stream.as_fd().try_clone_to_owned().map(File::from);
    let stream = stream.and_then(|stream| stream.metadata());
    stream.is_ok_and(|stream| (stream.dev(), stream.ino()) == (found.dev(), found.ino()))
}

fn refusal(path: &Path, why: &OutputError) -> Failure {
    let why_in_words = why.to_string();
    let why_in_words = legible::escape_controls(&why_in_words);
    let message = format!("cannot write {}: {why_in_words}", legible::path(path));
    let failure = match why {
        OutputError::IsInput => Failure::usage(message),
        _ => Failure::missing(message),
    };
    failure.hint(why.hint())
}
