//! Private folder for compiler output, which is removed when its owner is dropped.

use crate::ToolchainError;
use nodegauge_measure::Failure;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// File system for shared memory on Linux. It may permit execution where `TMPDIR` does not.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// Private folder, which only this user can read or enter.
#[derive(Debug)]
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    /// Creates a new folder below `TMPDIR`.
    ///
    /// # Errors
    /// Fails when the folder cannot be created.
    pub fn new() -> Result<Self, ToolchainError> {
        Self::new_in(&std::env::temp_dir())
    }

    /// Creates a new folder in which programs can be executed and libraries loaded: below `preferred`, `TMPDIR` or
    /// `/dev/shm`, whichever is the first on a file system without `noexec`.
    ///
    /// # Errors
    /// Fails when all of them are mounted with `noexec`, or as [`Self::new`] does.
    pub fn for_programs(preferred: Option<&Path>) -> Result<Self, ToolchainError> {
        if let Some(folder) = preferred.filter(|folder| permits_execution(folder))
            && let Ok(scratch) = Self::new_in(folder)
        {
            return Ok(scratch);
        }
        let temporary = std::env::temp_dir();
        let candidates = [temporary.as_path(), Path::new(SHARED_MEMORY)];
        match candidates.into_iter().find(|folder| permits_execution(folder)) {
            Some(folder) => Self::new_in(folder),
            None => Err(Failure::missing("no folder for compiled programs permits execution")
                .cause(format!("{temporary:?} and {SHARED_MEMORY} are mounted with noexec"))
                .hint("set TMPDIR to a folder on a file system without noexec")
                .into()),
        }
    }

    /// Creates a new folder below `parent`.
    ///
    /// # Errors
    /// Fails as [`Self::new`] does.
    pub fn new_in(parent: &Path) -> Result<Self, ToolchainError> {
        tempfile::Builder::new()
            .prefix(&Self::prefix(std::process::id()))
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map(|folder| Self { folder })
            .map_err(|cause| Self::error(parent, &cause))
    }

    /// Returns the beginning of the names of the folders of a process.
    pub(crate) fn prefix(process: u32) -> String {
        format!("nodegauge-{process}-")
    }

    /// Returns the error for a `folder` in which no files can be created.
    pub fn error(folder: &Path, cause: &io::Error) -> ToolchainError {
        Failure::missing(format!("cannot create a folder in {folder:?} for compiled programs"))
            .cause(cause.to_string())
            .hint("set TMPDIR to a folder that you may write")
            .into()
    }

    /// Writes a file into the folder and returns its path.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, ToolchainError> {
        let path = self.path().join(name);
        std::fs::write(&path, text).map_err(|cause| Self::error(self.path(), &cause))?;
        Ok(path)
    }

    /// Writes a script into the folder, which its user may execute, and returns its path.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn write_script(&self, name: &str, text: &str) -> Result<PathBuf, ToolchainError> {
        let path = self.write(name, text)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o700))
            .map_err(|cause| Self::error(self.path(), &cause))?;
        Ok(path)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// True if files in a folder can be executed; also if this is unknown.
fn permits_execution(folder: &Path) -> bool {
    rustix::fs::statvfs(folder)
        .map_or(true, |stat| !stat.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_folder_is_private_and_removed_with_its_content() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        let folder = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!(folder.mode() & 0o7777, 0o700);
        assert_eq!(folder.uid(), nodegauge_os::effective_user());
        assert_ne!(Scratch::new().unwrap().path(), path);
        std::fs::write(path.join("file"), "").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
