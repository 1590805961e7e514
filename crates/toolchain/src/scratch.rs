//! A private folder for what compilers make; removed with its owner.

use crate::ToolchainError;
use std::fs::Permissions;
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
        tempfile::Builder::new()
            .prefix("nodegauge-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map(|folder| Self { folder })
            .map_err(|cause| ToolchainError::Scratch { folder: std::env::temp_dir(), cause })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}
