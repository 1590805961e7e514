//! Private folder for compiler output, which is removed when its owner is dropped.
//!
//! Other users may have write permission for the folder of `TMPDIR`. If they can rename folders there, they can
//! exchange a compiled program before it is executed, so `/dev/shm` is used instead. If they can rename folders there,
//! too, the private folder is accessed by its descriptor, which renaming does not affect. Programs and libraries are
//! opened once, and executed and loaded by their descriptor.

use crate::ToolchainError;
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_os::{
    FolderTrustError, InMemoryProgram, MAX_PROGRAM_BYTES, Mapping, OtherUserRights, TrustedFolder,
    descriptor_path, effective_user_id, read_file,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Folder of shared memory on Linux. It may permit execution where `TMPDIR` does not.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";
/// Permissions of private folders, and of programs in them.
const PRIVATE: u32 = 0o700;

/// Reasons why this process did not use certain folders for temporary files.
static SKIPPED_FOLDERS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Returns the reasons why this process did not use certain folders for temporary files, one line each.
pub fn unused_folder_reasons() -> Vec<String> {
    SKIPPED_FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

/// Hosts on which programs of a private folder are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramReach {
    /// This host only.
    ThisHost,
    /// Other hosts, too, which find the program by its path.
    OtherHosts,
}

/// Private folder, which only this user can read or enter.
#[derive(Debug)]
pub struct ScratchFolder {
    folder: PrivateFolder,
    reach: ProgramReach,
    /// True if no folder permits execution, so that programs are copied to memory.
    in_memory: bool,
    /// Open programs, which are executed or loaded by their descriptors.
    programs: Mutex<Vec<OpenProgram>>,
}

/// Open program or library.
#[derive(Debug)]
enum OpenProgram {
    /// File of the private folder.
    File(File),
    /// Copy in memory.
    Memory(InMemoryProgram),
}

impl OpenProgram {
    /// Returns the path by which processes of this user execute or load the program.
    fn path(&self) -> PathBuf {
        match self {
            Self::File(file) => descriptor_path(file),
            Self::Memory(program) => program.path(),
        }
    }
}

impl ScratchFolder {
    /// Creates a new folder below `TMPDIR`, or below `/dev/shm` if other users can replace files in `TMPDIR`. If
    /// they can replace files in both, the folder is accessed by its descriptor.
    ///
    /// # Errors
    /// Fails when the folder cannot be created.
    pub fn new() -> Result<Self, ToolchainError> {
        Self::first(&[], |_| Ok(true))?.ok_or_else(Self::not_trusted)
    }

    /// Creates a new folder for programs and libraries that are executed on the hosts of `reach`: below the first
    /// of `preferred`, `TMPDIR` and `/dev/shm` that permits execution, i.e. without `noexec` and permitted by
    /// security modules. If there is none, [`Self::executable_path`] copies programs to anonymous memory. For other
    /// hosts, the folder is below `preferred` or `TMPDIR`.
    ///
    /// # Errors
    /// Fails when programs in memory cannot be executed either. Also returns the errors of [`Self::new`].
    pub fn for_programs(
        preferred: Option<&Path>,
        reach: ProgramReach,
    ) -> Result<Self, ToolchainError> {
        if reach == ProgramReach::OtherHosts {
            return Self::for_other_hosts(preferred);
        }
        if let Some(scratch) = Self::first(preferred.as_slice(), Self::allows_programs)? {
            return Ok(scratch);
        }
        InMemoryProgram::new(&[0]).map_err(|cause| Self::not_executable(&cause))?;
        Ok(Self { in_memory: true, ..Self::new()? })
    }

    /// Creates a new folder for programs that other hosts execute by their path.
    fn for_other_hosts(preferred: Option<&Path>) -> Result<Self, ToolchainError> {
        let temporary = temporary_folder();
        let mut causes = Vec::new();
        for parent in preferred.into_iter().chain([temporary.as_path()]) {
            match Self::new_in(parent) {
                Err(error) => causes.push(Failure::from(&error).reason()),
                Ok(scratch) if scratch.allows_programs()? => {
                    return Ok(Self { reach: ProgramReach::OtherHosts, ..scratch });
                }
                Ok(_) => causes.push(format!("{parent:?} does not permit execution")),
            }
        }
        Err(Failure::missing("no folder for programs that other hosts execute")
            .cause(causes.join("; "))
            .hint(
                "set NODEGAUGE_CACHE_DIR to a folder that all hosts share and only you can write \
                 to, on a file system without noexec",
            )
            .into())
    }

    /// Creates a new folder below the first of `preferred`, `TMPDIR` and `/dev/shm` that no other user can exchange
    /// and that is `suitable`. If other users can exchange all of them, the folder is accessed by its descriptor.
    /// Returns `None` if no folder is suitable.
    fn first(
        preferred: &[&Path],
        suitable: impl Fn(&Self) -> Result<bool, ToolchainError>,
    ) -> Result<Option<Self>, ToolchainError> {
        let temporary = temporary_folder();
        let usual = [temporary.as_path(), Path::new(SHARED_MEMORY)];
        Self::create_first(&[preferred, &usual].concat(), &temporary, suitable)
    }

    /// Creates a new folder below the first folder of `parents` that is suitable, as [`Self::first`] does. Fails if no
    /// folder can be created in `required`.
    fn create_first(
        parents: &[&Path],
        required: &Path,
        suitable: impl Fn(&Self) -> Result<bool, ToolchainError>,
    ) -> Result<Option<Self>, ToolchainError> {
        let mut exposed = Vec::new();
        for parent in parents.iter().copied() {
            match TrustedFolder::open(parent, OtherUserRights::MayAdd) {
                Ok(trusted) => {
                    let scratch = match PrivateFolder::by_path(trusted.path()) {
                        Ok(folder) => Self::from_folder(folder),
                        // An unusable folder is an error only if the user chose it.
                        Err(error) if parent == required => return Err(error),
                        Err(_) => continue,
                    };
                    if suitable(&scratch)? {
                        note_skipped_folders(
                            &exposed,
                            &format!("private folders are in {}", parent.display()),
                        );
                        return Ok(Some(scratch));
                    }
                }
                Err(why @ FolderTrustError::Exposed { .. }) => exposed.push((parent, why)),
                Err(FolderTrustError::Unavailable { why, .. }) if parent == required => {
                    return Err(Self::error(parent, why));
                }
                Err(FolderTrustError::Unavailable { .. }) => {}
            }
        }
        for (parent, _) in &exposed {
            let Ok(folder) = PrivateFolder::by_descriptor(parent) else { continue };
            let scratch = Self::from_folder(folder);
            if suitable(&scratch)? {
                note_skipped_folders(&exposed, "private folders are accessed by file descriptors");
                return Ok(Some(scratch));
            }
        }
        Ok(None)
    }

    /// Returns the error that other users can replace files in all folders, and that no folder can be accessed by its
    /// descriptor.
    fn not_trusted() -> ToolchainError {
        let temporary = temporary_folder();
        Failure::missing("no folder for temporary files is safe from other users")
            .cause(format!("other users can replace files in {temporary:?} and {SHARED_MEMORY}"))
            .hint("set TMPDIR to a folder that only you can write to")
            .into()
    }

    fn from_folder(folder: PrivateFolder) -> Self {
        Self { folder, reach: ProgramReach::ThisHost, in_memory: false, programs: Mutex::default() }
    }

    /// True if files of this folder can be executed.
    fn allows_programs(&self) -> Result<bool, ToolchainError> {
        if is_mounted_with_noexec(self.path()) {
            return Ok(false);
        }
        // If no file can be created or read, the error is reported when a program is written.
        Ok(match self.create_test_file() {
            Ok(file) => permits_execution(&file),
            Err(_) => true,
        })
    }

    /// Creates a file in the folder whose mode permits execution, and opens it for reading.
    fn create_test_file(&self) -> io::Result<File> {
        let path = self.path().join("execution");
        std::fs::write(&path, [0])?;
        std::fs::set_permissions(&path, Permissions::from_mode(PRIVATE))?;
        let file = File::open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }

    /// Returns the error that neither a folder nor memory permits execution.
    fn not_executable(cause: &io::Error) -> ToolchainError {
        let temporary = temporary_folder();
        Failure::missing("no folder for compiled programs permits execution")
            .cause(format!(
                "{temporary:?} and {SHARED_MEMORY} do not permit execution (noexec, or a security \
                 module), and programs in memory cannot be executed: {cause}"
            ))
            .hint("set TMPDIR to a folder that permits execution")
            .into()
    }

    /// Returns a notice of a gauge if programs are executed in memory.
    pub fn notice(&self, gauge: &str) -> Option<Notice> {
        let text = format!(
            "{:?} and {SHARED_MEMORY} do not permit execution (noexec, or a security module); compiled programs are executed in memory",
            temporary_folder()
        );
        self.in_memory.then(|| Notice::new(NoticeId::Method, gauge, text))
    }

    /// Returns the path at which a program or library of this folder is executed or loaded until this value is
    /// dropped. On this host, it is the path of an open descriptor: of the file, or of a copy in memory if no
    /// folder permits execution. On other hosts, and on a host without `/proc`, it is `path` itself.
    ///
    /// # Errors
    /// Fails when the file is not a regular file of this user, and when it cannot be read or copied.
    pub fn executable_path(&self, path: PathBuf) -> Result<PathBuf, ToolchainError> {
        if self.reach == ProgramReach::OtherHosts {
            return Ok(path);
        }
        let program = if self.in_memory {
            let content = read_file(&path, MAX_PROGRAM_BYTES)
                .map_err(|cause| Self::error(self.path(), cause))?;
            let copy =
                InMemoryProgram::new(&content).map_err(|cause| Self::not_executable(&cause))?;
            OpenProgram::Memory(copy)
        } else {
            let file = open_own(&path).map_err(|cause| Self::error(self.path(), cause))?;
            OpenProgram::File(file)
        };
        let opened = program.path();
        if !opened.exists() && !self.in_memory {
            return Ok(path);
        }
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).push(program);
        Ok(opened)
    }

    /// Creates a new folder below `parent`.
    ///
    /// # Errors
    /// Fails when another user could exchange the folder. Also returns the errors of [`Self::new`].
    pub fn new_in(parent: &Path) -> Result<Self, ToolchainError> {
        let trusted = TrustedFolder::open(parent, OtherUserRights::MayAdd);
        let trusted = trusted.map_err(|why| Self::error(parent, why))?;
        PrivateFolder::by_path(trusted.path()).map(Self::from_folder)
    }

    /// Returns the prefix of the names of a process's private folders.
    pub(crate) fn prefix(process: u32) -> String {
        format!("nodegauge-{process}-")
    }

    /// Returns the error for a `folder` in which no files can be created.
    pub fn error(folder: &Path, cause: impl Display) -> ToolchainError {
        Failure::missing(format!("cannot create a folder in {folder:?} for compiled programs"))
            .cause(cause.to_string())
            .hint("set TMPDIR to a folder that you can write to")
            .into()
    }

    /// Writes a file into the folder and returns its path.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, ToolchainError> {
        let path = self.path().join(name);
        std::fs::write(&path, text).map_err(|cause| Self::error(self.path(), cause))?;
        Ok(path)
    }

    /// Writes a script into the folder, which its user may execute, and returns the path at which it is executed.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn write_script(&self, name: &str, text: &str) -> Result<PathBuf, ToolchainError> {
        let path = self.write(name, text)?;
        std::fs::set_permissions(&path, Permissions::from_mode(PRIVATE))
            .map_err(|cause| Self::error(self.path(), cause))?;
        self.executable_path(path)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// New folder that belongs to this user, with permissions for this user only. It is removed when this value is
/// dropped.
#[derive(Debug)]
enum PrivateFolder {
    /// No other user can exchange the folder.
    ByPath(tempfile::TempDir),
    /// Another user may have put another folder at the path `name`. `path` is the path of the descriptor, which
    /// renaming does not affect. The content is removed by `path`; `name` is removed only if it is an empty folder.
    ByDescriptor { path: PathBuf, name: PathBuf, _descriptor: OwnedFd },
}

impl PrivateFolder {
    /// Creates a folder below `parent` that no other user can exchange.
    fn by_path(parent: &Path) -> Result<Self, ToolchainError> {
        let folder = Self::create(parent).map_err(|cause| ScratchFolder::error(parent, cause))?;
        Ok(Self::ByPath(folder))
    }

    /// Creates a folder below `parent`, where other users can exchange folders.
    fn by_descriptor(parent: &Path) -> io::Result<Self> {
        let name = Self::create(parent)?.keep();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = openat(CWD, &name, flags, Mode::empty())?;
        let path = descriptor_path(&descriptor);
        let found = fstat(&descriptor)?;
        let is_own = found.st_uid == effective_user_id() && found.st_mode & 0o7777 == PRIVATE;
        // A folder that contains files is not the folder that was just created.
        if !is_own || std::fs::read_dir(&path)?.next().is_some() {
            return Err(io::Error::other("another user has exchanged the folder"));
        }
        Ok(Self::ByDescriptor { path, name, _descriptor: descriptor })
    }

    fn create(parent: &Path) -> io::Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix(&ScratchFolder::prefix(std::process::id()))
            .permissions(Permissions::from_mode(PRIVATE))
            .tempdir_in(parent)
    }

    /// Returns the path by which files of the folder are created and opened.
    fn path(&self) -> &Path {
        match self {
            Self::ByPath(folder) => folder.path(),
            Self::ByDescriptor { path, .. } => path,
        }
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let Self::ByDescriptor { path, name, .. } = self else { return };
        let Ok(entries) = std::fs::read_dir(path) else { return };
        for entry in entries.flatten() {
            // Files that cannot be removed are left, as in a folder that is removed by its path.
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(entry.path()),
                _ => std::fs::remove_file(entry.path()),
            };
        }
        let _ = std::fs::remove_dir(name);
    }
}

/// Returns the folder for temporary files: `TMPDIR`, or `/tmp` if it is not set.
pub(crate) fn temporary_folder() -> PathBuf {
    let folder = std::env::temp_dir();
    if folder.as_os_str().is_empty() { PathBuf::from("/tmp") } else { folder }
}

/// True if the path denotes a program in a private folder of this process.
pub(crate) fn is_own_program(path: &Path) -> bool {
    let descriptors = format!("/proc/{}/fd", std::process::id());
    path.starts_with(temporary_folder()) || path.starts_with(descriptors)
}

/// Stores the reasons why folders were not used, with the replacement.
fn note_skipped_folders(exposed: &[(&Path, FolderTrustError)], instead: &str) {
    let mut reasons = SKIPPED_FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    for (_, why) in exposed {
        reasons.insert(format!("{why}; {instead}"));
    }
}

/// Opens a regular file of this user for reading, and removes the write permission of other users.
fn open_own(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other(format!("{} is not a regular file", path.display())));
    }
    if stat.st_uid != effective_user_id() {
        let why = format!("{} belongs to another user (uid {})", path.display(), stat.st_uid);
        return Err(io::Error::other(why));
    }
    Ok(file)
}

/// True if a folder is on a file system mounted with `noexec`; false if this is unknown.
fn is_mounted_with_noexec(folder: &Path) -> bool {
    rustix::fs::statvfs(folder)
        .is_ok_and(|stat| stat.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

/// True if the kernel and its security modules permit the execution of a file, or if this is unknown.
fn permits_execution(file: &File) -> bool {
    match Mapping::check_executable(file).map_err(io::Error::from) {
        // The error kind covers EPERM and EACCES.
        Err(cause) => cause.kind() != io::ErrorKind::PermissionDenied,
        Ok(()) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    const NOBODY: u32 = 65_534;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Exchanges a private folder in `parent`, as an attacker could who may rename it. The new folder contains files of
    /// the same names with other content.
    fn exchange(parent: &Path) {
        let entry = std::fs::read_dir(parent).unwrap().next().unwrap().unwrap().path();
        let files: Vec<_> =
            std::fs::read_dir(&entry).unwrap().map(|file| file.unwrap().file_name()).collect();
        std::fs::rename(&entry, parent.join("moved")).unwrap();
        std::fs::create_dir(&entry).unwrap();
        for file in files {
            std::fs::write(entry.join(file), "planted").unwrap();
        }
    }

    #[test]
    fn scratch_folder_is_private_and_removed() {
        let scratch = ScratchFolder::new().unwrap();
        let path = scratch.path().to_owned();
        let folder = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!(folder.mode() & 0o7777, 0o700);
        assert_eq!(folder.uid(), nodegauge_os::effective_user_id());
        assert_ne!(ScratchFolder::new().unwrap().path(), path);
        std::fs::write(path.join("file"), "").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn file_that_cannot_be_mapped_for_execution_is_not_executed() {
        let scratch = ScratchFolder::new().unwrap();
        // The kernel refuses to map a file that is not open for reading. The error is EACCES, as from a security
        // module.
        let unreadable = File::create(scratch.path().join("file")).unwrap();
        assert!(!permits_execution(&unreadable));
        if !is_mounted_with_noexec(scratch.path()) {
            let file = scratch.create_test_file().unwrap();
            let is_permitted = Mapping::check_executable(&file).is_ok();
            let new = ScratchFolder::new().unwrap();
            assert_eq!(new.allows_programs().unwrap(), is_permitted);
            assert!(new.path().read_dir().unwrap().next().is_none());
        }
    }

    #[test]
    fn folder_that_other_users_can_exchange_is_skipped() {
        let outer = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        mode(outer.path(), 0o777);
        let chosen = |folders: &[&Path]| {
            let scratch =
                ScratchFolder::create_first(folders, outer.path(), |_| Ok(true)).unwrap().unwrap();
            scratch.path().parent().unwrap().to_owned()
        };
        assert_eq!(chosen(&[outer.path(), other.path()]), other.path().canonicalize().unwrap());
        let own = outer.path().display().to_string();
        let reasons = unused_folder_reasons();
        let is_named =
            |line: &String| line.contains(&own) && line.contains("private folders are in");
        assert!(reasons.iter().any(is_named), "{reasons:?}");
        let refused = ScratchFolder::new_in(outer.path()).unwrap_err().to_string();
        assert!(refused.contains("other users can replace files in"), "{refused}");
        if nodegauge_os::is_root() {
            mode(outer.path(), 0o755);
            chown(outer.path(), Some(NOBODY), None).unwrap();
            assert_eq!(chosen(&[outer.path(), other.path()]), other.path().canonicalize().unwrap());
        }
    }

    #[test]
    fn exchanged_folder_is_not_used() {
        let outer = tempfile::tempdir().unwrap();
        mode(outer.path(), 0o777);
        let scratch = ScratchFolder::create_first(&[outer.path()], outer.path(), |_| Ok(true))
            .unwrap()
            .unwrap();
        let program = scratch.write("program", "own").unwrap();
        exchange(outer.path());
        assert_eq!(std::fs::read_to_string(&program).unwrap(), "own");
        let opened = scratch.executable_path(program).unwrap();
        assert_eq!(std::fs::read_to_string(&opened).unwrap(), "own");
        let source = scratch.write("source", "own").unwrap();
        assert_eq!(std::fs::read_to_string(source).unwrap(), "own");
        drop(scratch);
        let left: Vec<String> = std::fs::read_dir(outer.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        // The content of the own folder is removed; the folder of another user remains.
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(std::fs::read_dir(outer.path().join("moved")).unwrap().next().is_none());
        let planted = left.iter().find(|name| *name != "moved").unwrap();
        assert!(outer.path().join(planted).join("program").exists());
    }

    #[test]
    fn opened_program_is_executed_after_exchange() {
        let scratch = ScratchFolder::new().unwrap();
        let path = scratch.write("program", "own").unwrap();
        let opened = scratch.executable_path(path.clone()).unwrap();
        let planted = scratch.write("planted", "planted").unwrap();
        std::fs::rename(planted, &path).unwrap();
        assert_eq!(std::fs::read_to_string(opened).unwrap(), "own");
        let link = scratch.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(scratch.executable_path(link).is_err());
        if nodegauge_os::is_root() {
            chown(&path, Some(NOBODY), None).unwrap();
            let why = scratch.executable_path(path).unwrap_err().to_string();
            assert!(why.contains("belongs to another user (uid 65534)"), "{why}");
        }
    }

    #[test]
    fn programs_for_other_hosts_are_in_the_given_folder() {
        let folder = tempfile::tempdir().unwrap();
        let scratch =
            ScratchFolder::for_programs(Some(folder.path()), ProgramReach::OtherHosts).unwrap();
        let path = scratch.write_script("program", "#!/bin/sh\n").unwrap();
        assert!(path.starts_with(folder.path().canonicalize().unwrap()));
    }
}
