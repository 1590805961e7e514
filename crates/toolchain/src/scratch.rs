//! Private folder for compiler output, which is removed when its owner is dropped.

use crate::ToolchainError;
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_os::{Mapping, MemoryProgram};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// File system for shared memory on Linux. It may permit execution where `TMPDIR` does not.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// Private folder, which only this user can read or enter.
#[derive(Debug)]
pub struct Scratch {
    folder: tempfile::TempDir,
    /// Copies of the programs; `None` if the folder itself permits execution.
    in_memory: Option<Mutex<Vec<MemoryProgram>>>,
}

impl Scratch {
    /// Creates a new folder below `TMPDIR`.
    ///
    /// # Errors
    /// Fails when the folder cannot be created.
    pub fn new() -> Result<Self, ToolchainError> {
        Self::new_in(&std::env::temp_dir())
    }

    /// Creates a new folder for programs and libraries: below `preferred`, `TMPDIR` or `/dev/shm`, whichever is the
    /// first whose files may be executed: without `noexec`, and permitted by security modules. If there is none,
    /// [`Self::executable`] copies programs to anonymous memory.
    ///
    /// # Errors
    /// Fails when programs in memory cannot be executed either, or as [`Self::new`] does.
    pub fn for_programs(preferred: Option<&Path>) -> Result<Self, ToolchainError> {
        if let Some(folder) = preferred
            && let Ok(Some(scratch)) = Self::executing_in(folder)
        {
            return Ok(scratch);
        }
        let temporary = std::env::temp_dir();
        for folder in [temporary.as_path(), Path::new(SHARED_MEMORY)] {
            if let Some(scratch) = Self::executing_in(folder)? {
                return Ok(scratch);
            }
        }
        MemoryProgram::new(&[0]).map_err(|cause| Self::not_executable(&cause))?;
        Ok(Self { in_memory: Some(Mutex::default()), ..Self::new()? })
    }

    /// Creates a new folder below `parent`; `None` if its files cannot be executed.
    fn executing_in(parent: &Path) -> Result<Option<Self>, ToolchainError> {
        if is_mounted_with_noexec(parent) {
            return Ok(None);
        }
        let scratch = Self::new_in(parent)?;
        // A folder in which no file can be created or read is reported when a program is written.
        let permits = match scratch.tried_file() {
            Ok(file) => permits_execution(&file),
            Err(_) => true,
        };
        Ok(permits.then_some(scratch))
    }

    /// Creates a file in the folder that may be executed by its mode, and returns it for reading.
    fn tried_file(&self) -> io::Result<File> {
        let path = self.path().join("execution");
        std::fs::write(&path, [0])?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o700))?;
        let file = File::open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }

    /// Returns the error when neither a folder nor memory permits execution.
    fn not_executable(cause: &io::Error) -> ToolchainError {
        let temporary = std::env::temp_dir();
        Failure::missing("no folder for compiled programs permits execution")
            .cause(format!(
                "{temporary:?} and {SHARED_MEMORY} do not permit execution (noexec, or a security \
                 module), and programs in memory cannot be executed: {cause}"
            ))
            .hint("set TMPDIR to a folder that permits execution")
            .into()
    }

    /// True if programs are executed in memory, because no folder permits execution.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory.is_some()
    }

    /// Returns a notice of a gauge if programs are executed in memory.
    pub fn notice(&self, gauge: &str) -> Option<Notice> {
        let text = format!(
            "{:?} and {SHARED_MEMORY} do not permit execution (noexec, or a security module); compiled programs are executed in memory",
            std::env::temp_dir()
        );
        self.is_in_memory().then(|| Notice::new(NoticeId::Method, gauge, text))
    }

    /// Returns the path at which a program or library of this folder can be executed or loaded until this value is
    /// dropped: `path` itself, or the path of a copy in memory, which exists on this host only.
    ///
    /// # Errors
    /// Fails when the file cannot be read or copied.
    pub fn executable(&self, path: PathBuf) -> Result<PathBuf, ToolchainError> {
        let Some(programs) = &self.in_memory else { return Ok(path) };
        let content = std::fs::read(&path).map_err(|cause| Self::error(self.path(), &cause))?;
        let program = MemoryProgram::new(&content).map_err(|cause| Self::not_executable(&cause))?;
        let copy = program.path();
        programs.lock().unwrap_or_else(PoisonError::into_inner).push(program);
        Ok(copy)
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
            .map(|folder| Self { folder, in_memory: None })
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

    /// Writes a script into the folder, which its user may execute, and returns the path at which it is executed.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn write_script(&self, name: &str, text: &str) -> Result<PathBuf, ToolchainError> {
        let path = self.write(name, text)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o700))
            .map_err(|cause| Self::error(self.path(), &cause))?;
        self.executable(path)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// True if a folder is on a file system mounted with `noexec`; false if this is unknown.
fn is_mounted_with_noexec(folder: &Path) -> bool {
    rustix::fs::statvfs(folder)
        .is_ok_and(|stat| stat.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

/// True if the kernel and its security modules permit the execution of a file; also if this is unknown.
fn permits_execution(file: &File) -> bool {
    match Mapping::check_executable(file).map_err(io::Error::from) {
        // Both EPERM and EACCES.
        Err(cause) => cause.kind() != io::ErrorKind::PermissionDenied,
        Ok(()) => true,
    }
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

    #[test]
    fn a_file_that_may_not_be_mapped_is_not_executed() {
        let scratch = Scratch::new().unwrap();
        // The kernel refuses a mapping of a file that is not open for reading with EACCES, as a security module does.
        let unreadable = File::create(scratch.path().join("file")).unwrap();
        assert!(!permits_execution(&unreadable));
        if !is_mounted_with_noexec(scratch.path()) {
            let file = scratch.tried_file().unwrap();
            let is_permitted = Mapping::check_executable(&file).is_ok();
            let found = Scratch::executing_in(&std::env::temp_dir()).unwrap();
            assert_eq!(found.is_some(), is_permitted);
            assert!(found.is_none_or(|new| new.path().read_dir().unwrap().next().is_none()));
        }
    }
}
