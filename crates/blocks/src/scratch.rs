//! Scratch folder for the files of a run. It is created for the run, used only by this run, and removed at the end.
//!
//! The name of the folder begins with `PREFIX`. The folder contains a file `lock`, which the run keeps locked, and
//! files and trees of directories whose names begin with `data-`. A killed run leaves its folder behind. The kernel
//! releases the locks of ended processes, so that a later run can distinguish such a folder from a folder in use. Only
//! such folders, and only files with these names and the entries of such trees, are ever removed.

use crate::error;
use nodegauge_measure::{Bytes, Failure, legible};
use nodegauge_os::effective_user_id;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, FileType};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Prefix of the names of scratch folders.
const PREFIX: &str = "nodegauge-io-";
const LOCK: &str = "lock";
const DATA: &str = "data-";
/// Beginnings of the names of directories in a tree that this program or mdtest creates.
const DIRECTORIES: [&str; 3] = ["dir.", "test-dir.", "mdtest_tree."];
/// Beginnings of the names of files in a tree. They are the same for this program, mdtest and fio's jobs.
const FILES: [&str; 2] = ["file.", "name."];
/// Minimum age at which a folder without a lock counts as abandoned; a younger folder may belong to a run that is
/// creating it.
const MIN_LEFTOVER_AGE: Duration = Duration::from_secs(60);

/// Scratch folder of this run.
#[derive(Debug)]
pub struct ScratchDirectory {
    folder: PathBuf,
    /// Lock file; it stays open and locked until the end of the run.
    _lock: File,
    files: std::cell::Cell<u64>,
}

/// Scratch folder that a killed run left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Path of the folder.
    pub folder: PathBuf,
    /// Total size of the files in the folder.
    pub bytes: Bytes,
}

impl ScratchDirectory {
    /// Creates a new folder under `path`, which must be an existing folder.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        is_folder(path)?;
        let unwritable = |cause| error::unwritable_error(path, cause);
        let folder = path.join(format!("{PREFIX}{}", nodegauge_measure::record::new_id()));
        DirBuilder::new().mode(0o700).create(&folder).map_err(unwritable)?;
        let lock = locked(&folder.join(LOCK)).map_err(|cause| {
            let _ = remove(&folder);
            unwritable(cause)
        })?;
        Ok(Self { folder, _lock: lock, files: std::cell::Cell::new(0) })
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path for a new file whose name contains `what`.
    pub fn file_path(&self, what: &str) -> PathBuf {
        let number = self.files.replace(self.files.get() + 1);
        self.folder.join(format!("{DATA}{what}-{number}"))
    }

    /// Creates a directory for a tree of files; the name of the directory contains `what`.
    ///
    /// # Errors
    /// Fails if the directory cannot be created.
    pub fn create_tree(&self, what: &str) -> Result<PathBuf, Failure> {
        let path = self.file_path(what);
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|cause| error::entry_error("cannot make", &path, cause))?;
        Ok(path)
    }

    /// Removes a tree with its files.
    ///
    /// # Errors
    /// Fails if the tree contains an entry with an unknown name, or if an entry cannot be removed.
    pub fn remove_tree(&self, tree: &Path) -> io::Result<()> {
        clear(tree)
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // A folder that cannot be removed now is found by the next run.
        let _ = remove(&self.folder);
    }
}

/// Checks, without creating a folder, that `path` is a suitable parent.
pub fn check(path: &Path) -> Result<(), Failure> {
    is_folder(path)?;
    accessat(CWD, path, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
        .map_err(|cause| error::unwritable_error(path, cause.into()))
}

/// Removes and returns the folders that killed runs left under `path`.
///
/// # Errors
/// Fails if such a folder or a file in it cannot be removed.
pub fn remove_leftovers(path: &Path) -> Result<Vec<Leftover>, Failure> {
    let left = leftovers(path);
    for Leftover { folder, .. } in &left {
        remove(folder).map_err(|cause| {
            let folder = legible::path(folder);
            Failure::missing(format!("cannot remove {folder}, which a killed run left"))
                .cause(cause)
                .hint("check the contents of the folder and remove it manually")
        })?;
    }
    Ok(left)
}

/// Checks that a path is a folder. Devices and other files are never opened.
fn is_folder(path: &Path) -> Result<(), Failure> {
    let what = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(found) if found.file_type().is_block_device() => "a block device, which is never opened",
        Ok(found) if found.is_file() => "a file, and existing files are never changed",
        Ok(_) => "not a folder",
        Err(error) if error.kind() == io::ErrorKind::NotFound => "missing",
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            "below a path that is not a folder"
        }
        Err(cause) => return Err(error::unwritable_error(path, cause)),
    };
    Err(Failure::usage(format!("{path:?} is {what}"))
        .hint("give a folder that exists, e.g. --path /scratch"))
}

/// Creates and locks the lock file, and writes the process ID to it.
fn locked(path: &Path) -> io::Result<File> {
    let mut lock = File::options().write(true).create_new(true).open(path)?;
    // On a file system without locks, every folder counts as in use.
    let _ = lock.try_lock();
    // The text is only informative, so that write errors are ignored.
    let _ = writeln!(lock, "process {} of nodegauge io", std::process::id());
    Ok(lock)
}

/// Returns the folders under `path` that killed runs left behind; folders that are or may be in use are excluded.
pub fn leftovers(path: &Path) -> Vec<Leftover> {
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let mut found: Vec<Leftover> = entries
        .flatten()
        .filter(|entry| entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()))
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|folder| is_leftover(folder))
        .map(|folder| Leftover { bytes: Bytes(size(&folder)), folder })
        .collect();
    found.sort_by(|a, b| a.folder.cmp(&b.folder));
    found
}

/// True if a folder belongs to this user and no run uses it. A folder of another user is never opened, because its
/// lock file could be a pipe without a writer, a link or a device.
fn is_leftover(folder: &Path) -> bool {
    if !std::fs::symlink_metadata(folder).is_ok_and(|folder| folder.uid() == effective_user_id()) {
        return false;
    }
    let lock = folder.join(LOCK);
    if std::fs::symlink_metadata(&lock).is_ok() {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(opened) = rustix::fs::open(&lock, flags, Mode::empty()) else { return false };
        let opened = File::from(opened);
        let is_file = opened.metadata().is_ok_and(|metadata| metadata.is_file());
        // Closing the file releases the lock.
        return is_file && opened.try_lock().is_ok();
    }
    let made = std::fs::metadata(folder).and_then(|metadata| metadata.modified());
    made.is_ok_and(|made| {
        SystemTime::now().duration_since(made).is_ok_and(|age| age > MIN_LEFTOVER_AGE)
    })
}

/// Returns the total size in bytes of the files in a folder and in the directories below it.
fn size(folder: &Path) -> u64 {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        // The metadata of an entry are those of a link, not of its target.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { size(&entry.path()) } else { metadata.len() };
    }
    bytes
}

/// True if a name begins with one of these texts.
fn begins(name: &OsStr, with: &[&str]) -> bool {
    with.iter().any(|start| name.as_bytes().starts_with(start.as_bytes()))
}

/// Removes a tree: its files and directories with known names. Links are not followed.
fn clear(tree: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(tree)?.flatten() {
        let name = entry.file_name();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_file() && begins(&name, &FILES) {
            std::fs::remove_file(entry.path())?;
        } else if kind.is_dir() && begins(&name, &DIRECTORIES) {
            clear(&entry.path())?;
        }
    }
    std::fs::remove_dir(tree)
}

/// Removes the lock file, the data files and the trees of a folder. The folder itself is removed if it contains nothing
/// else.
fn remove(folder: &Path) -> io::Result<()> {
    let mut lock = None;
    for entry in std::fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let kind = entry.file_type();
        let is_file = kind.as_ref().is_ok_and(FileType::is_file);
        let is_data = begins(&name, &[DATA]);
        if is_file && is_data {
            std::fs::remove_file(entry.path())?;
        } else if is_data && kind.is_ok_and(|kind| kind.is_dir()) {
            clear(&entry.path())?;
        } else if is_file && name == LOCK {
            lock = Some(entry.path());
        }
    }
    // The lock file is removed last, because without it the folder would look abandoned to another run.
    if let Some(lock) = lock {
        std::fs::remove_file(lock)?;
    }
    std::fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::FailureKind;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn scratch_directory_is_removed_on_drop() {
        let base = tempfile::tempdir().unwrap();
        let (one, two) = (
            ScratchDirectory::create(base.path()).unwrap(),
            ScratchDirectory::create(base.path()).unwrap(),
        );
        assert_ne!(one.folder(), two.folder());
        assert_ne!(one.file_path("a"), one.file_path("a"));
        std::fs::write(one.file_path("a"), "x").unwrap();
        assert_eq!(leftovers(base.path()), [], "both are in use");
        let folder = two.folder().to_owned();
        drop(one);
        assert!(folder.exists());
        drop(two);
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_leftovers_of_killed_runs_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let dead = base.path().join(format!("{PREFIX}DEAD"));
        std::fs::create_dir(&dead).unwrap();
        assert_eq!(leftovers(base.path()), [], "it may be being made");
        std::fs::write(dead.join(LOCK), "").unwrap();
        std::fs::write(dead.join("data-1"), vec![0; 100]).unwrap();
        std::fs::create_dir(base.path().join("other")).unwrap();
        std::fs::write(base.path().join(format!("{PREFIX}file")), "").unwrap();
        let found = leftovers(base.path());
        assert_eq!(found, [Leftover { folder: dead.clone(), bytes: Bytes(100) }]);
        std::fs::write(dead.join("thesis.tex"), "mine").unwrap();
        assert!(remove(&dead).is_err());
        assert_eq!(std::fs::read(dead.join("thesis.tex")).unwrap(), b"mine");
        std::fs::remove_file(dead.join("thesis.tex")).unwrap();
        remove(&dead).unwrap();
        assert!(!dead.exists());
    }

    #[test]
    fn only_known_entries_of_a_tree_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let scratch = ScratchDirectory::create(base.path()).unwrap();
        let tree = scratch.create_tree("entries").unwrap();
        for folder in ["dir.0", "test-dir.0-0/mdtest_tree.0"] {
            std::fs::create_dir_all(tree.join(folder)).unwrap();
        }
        for file in
            ["dir.0/file.0.1", "dir.0/name.0.2", "test-dir.0-0/mdtest_tree.0/file.mdtest.0.1"]
        {
            std::fs::write(tree.join(file), "x").unwrap();
        }
        assert_eq!(size(scratch.folder()) - size_of_lock(&scratch), 3);
        let outside = base.path().join("file.outside");
        std::fs::write(&outside, "mine").unwrap();
        let link = tree.join("dir.0/file.link");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        std::fs::write(tree.join("thesis.tex"), "mine").unwrap();
        assert!(scratch.remove_tree(&tree).is_err());
        assert_eq!(std::fs::read(tree.join("thesis.tex")).unwrap(), b"mine");
        assert_eq!(std::fs::read(&outside).unwrap(), b"mine");
        std::fs::remove_file(tree.join("thesis.tex")).unwrap();
        std::fs::remove_file(&link).unwrap();
        // Trees are removed together with the folder.
        drop(scratch);
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 1);
    }

    fn size_of_lock(scratch: &ScratchDirectory) -> u64 {
        std::fs::metadata(scratch.folder().join(LOCK)).unwrap().len()
    }

    #[test]
    fn only_regular_lock_files_of_the_user_are_opened() {
        let base = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = base.path().join(format!("{PREFIX}{name}"));
            std::fs::create_dir(&folder).unwrap();
            folder
        };
        // Opening a pipe for reading blocks if the pipe has no writer.
        let pipe = folder("pipe").join(LOCK);
        rustix::fs::mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        std::os::unix::fs::symlink("/dev/null", folder("link").join(LOCK)).unwrap();
        let other = folder("other");
        std::fs::write(other.join(LOCK), "").unwrap();
        assert_eq!(leftovers(base.path()).len(), 1, "only the regular file is a lock");
        if nodegauge_os::is_root() {
            std::os::unix::fs::chown(&other, Some(65_534), None).unwrap();
            assert_eq!(leftovers(base.path()), [], "the folder is of another user");
        }
    }

    #[test]
    fn scratch_directory_requires_existing_folder() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        let refused = |path: &Path, why: &str| {
            let failure = ScratchDirectory::create(path).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Usage);
            assert!(failure.to_string().contains(why), "{failure}");
        };
        refused(&file, " is a file, and existing files are never changed\nhint: ");
        refused(&base.path().join("absent"), " is missing\n");
        refused(&file.join("below"), " is below a path that is not a folder\n");
        refused(Path::new("/dev/null"), " is not a folder\n");
        let odd = base.path().join(std::ffi::OsString::from_vec(b"a b\xff\n".to_vec()));
        std::fs::create_dir(&odd).unwrap();
        let scratch = ScratchDirectory::create(&odd).unwrap();
        std::fs::write(scratch.file_path("x"), "x").unwrap();
        assert!(scratch.folder().starts_with(&odd));
        drop(scratch);
        assert_eq!(std::fs::read_dir(&odd).unwrap().count(), 0);
    }
}
