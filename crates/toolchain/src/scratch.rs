//! A private folder for what compilers make; removed with its owner.

use crate::ToolchainError;
use nodegauge_measure::Failure;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The folder: only this user can read or enter it.
#[derive(Debug)]
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    /// Makes a new folder where `TMPDIR` says.
    ///
    /// # Errors
    /// When it cannot be made there.
    pub fn new() -> Result<Self, ToolchainError> {
        Self::new_in(&std::env::temp_dir())
    }

    /// Makes a new folder below `parent`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn new_in(parent: &Path) -> Result<Self, ToolchainError> {
        tempfile::Builder::new()
            .prefix("nodegauge-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map(|folder| Self { folder })
            .map_err(|cause| Self::error(parent, &cause))
    }

    /// Why nothing can be put into `folder`.
    pub fn error(folder: &Path, cause: &io::Error) -> ToolchainError {
        Failure::missing(format!("cannot make a folder in {folder:?} for compiled programs"))
            .cause(cause.to_string())
            .hint("set TMPDIR to a folder that you may write")
            .into()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}
