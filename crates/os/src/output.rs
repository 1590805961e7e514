//! Output files that a user names.
//!
//! A regular file is written under a temporary name in the same folder and then renamed. Thus a reader sees either the
//! old or the new content, and a failed write keeps the old content. Devices, pipes and open descriptors are written
//! directly.
//!
//! The program may run as root, and other users may have write permission for the folder, as for `/tmp`. Therefore
//! links of other users are not followed, and files of other users are refused. The new file gets the mode of an old
//! file only if the old file belongs to the caller. The setuid, setgid and sticky bits are not copied.

use crate::blocked_write::write_all;
use crate::end_request::is_end_requested;
use crate::wait::{Wait, WaitEnd, wait_until};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fchmod, fcntl_getfl, fcntl_setfl,
    fstat, fstatfs, openat, readlinkat, renameat, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::geteuid;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum time to wait for a program that reads the pipe.
const READER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum further wait if the user requested the end of the run.
const READER_GRACE: Duration = Duration::from_millis(500);
/// Permissions of a new file, before the umask.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
/// Bits of a mode that are permissions. The other bits are setuid, setgid and sticky.
const PERMISSIONS: u32 = 0o777;
/// Permission bits that allow users other than the owner to change a folder.
pub(crate) const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Suffixes of the files that SQLite creates next to a database.
const SQLITE_SUFFIXES: [&[u8]; 3] = [b"-journal", b"-wal", b"-shm"];
/// Maximum number of symbolic links in a path, as in the kernel.
const MAX_LINKS: usize = 40;
/// Maximum number of attempts to find an unused name for the new file.
const MAX_ATTEMPTS: usize = 32;

/// Reason why an output cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file exists and belongs to another user.
    #[error("the file belongs to another user (uid {owner})")]
    OtherOwner {
        /// User ID of the owner.
        owner: u32,
    },
    /// The path contains a symbolic link that another user may have created.
    #[error("{} is a symbolic link in a folder that other users can write", link.display())]
    UntrustedLink {
        /// Path of the link.
        link: PathBuf,
    },
    /// The output file is the history or an input file of the command.
    #[error("it is the history, or an input of this command")]
    IsInput,
}

impl OutputError {
    /// Returns the remedy for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io(_) => "give a file in an existing folder that you can write to",
            Self::OtherOwner { .. } => "remove it first, or give another file",
            Self::UntrustedLink { .. } => {
                "give the path without the link, or a file in a folder that only you can write to"
            }
            Self::IsInput => "give another file",
        }
    }
}

impl From<Errno> for OutputError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Output that is being written. A regular file gets its final name in [`OutputFile::finish`]. Without this call, the
/// new file is removed and the old file is kept.
#[derive(Debug)]
pub struct OutputFile(Destination);

#[derive(Debug)]
enum Destination {
    /// Device, pipe or open descriptor, which is written directly.
    InPlace(File),
    /// New file under a temporary name in the same folder.
    Staged(Box<StagedFile>),
}

impl OutputFile {
    /// Opens the output at `path`. Files in `inputs` are refused as outputs.
    ///
    /// # Errors
    /// Fails if the file cannot be created, or if another user may have created a file or link with this path.
    pub fn create(path: &Path, inputs: &[PathBuf]) -> Result<Self, OutputError> {
        let location = Location::resolve(path)?;
        location.refuse_inputs(inputs)?;
        let destination = match location.kind()? {
            LocationKind::InPlace => Destination::InPlace(location.open_in_place()?),
            LocationKind::Regular => Destination::Staged(Box::new(StagedFile::create(location)?)),
        };
        Ok(Self(destination))
    }

    /// Checks that [`OutputFile::create`] would currently succeed, without leaving a file. Devices and pipes are not
    /// opened.
    ///
    /// # Errors
    /// Returns the same errors as [`OutputFile::create`].
    pub fn check(path: &Path, inputs: &[PathBuf]) -> Result<(), OutputError> {
        let location = Location::resolve(path)?;
        location.refuse_inputs(inputs)?;
        match location.kind()? {
            LocationKind::InPlace => Ok(()),
            LocationKind::Regular => StagedFile::create(location).map(drop),
        }
    }

    /// Checks only that the output is not one of `inputs`.
    ///
    /// # Errors
    /// Returns [`OutputError::IsInput`] if it is.
    pub fn refuse_inputs(path: &Path, inputs: &[PathBuf]) -> Result<(), OutputError> {
        // A path that cannot be followed is no input that can be read.
        Location::resolve(path).map_or(Ok(()), |location| location.refuse_inputs(inputs))
    }

    /// Completes the output. A regular file is flushed to disk and replaces the old file.
    ///
    /// # Errors
    /// Fails if the file cannot be flushed or renamed; then the old file is kept.
    pub fn finish(self) -> Result<(), OutputError> {
        match self.0 {
            Destination::InPlace(_) => Ok(()),
            Destination::Staged(staged) => staged.rename(),
        }
    }
}

/// Returns the path of a file with all symbolic links resolved, for a library that opens the file itself.
///
/// # Errors
/// Fails if the path contains a link that another user may have created, if a folder of the path is missing, or if
/// the path denotes a folder.
pub fn resolve_links(path: &Path) -> Result<PathBuf, OutputError> {
    let location = Location::resolve(path)?;
    Ok(std::path::absolute(location.target)?)
}

/// True if both paths denote the same regular file, or the same name where no file exists yet. Devices and pipes
/// can take several outputs.
pub fn are_same_file(one: &Path, other: &Path) -> bool {
    let locations = (Location::resolve(one), Location::resolve(other));
    matches!(locations, (Ok(place), Ok(other_place)) if place.is_same_as(&other_place))
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Destination::InPlace(file) => write_all(file, bytes).map(|()| bytes.len()),
            Destination::Staged(staged) => staged.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // There is nothing to flush, because a `File` has no buffer.
        Ok(())
    }
}

/// Location of a file with all links resolved: an open folder and a name in this folder.
#[derive(Debug)]
pub(crate) struct Location {
    pub(crate) folder: OwnedFd,
    pub(crate) name: OsString,
    /// Path of the folder and the name, with all links resolved.
    target: PathBuf,
    /// Properties of the file that currently has the name; `None` if there is no such file.
    pub(crate) found_stat: Option<Stat>,
    /// True if the name is a link of procfs to an open descriptor, such as `/proc/self/fd/2`.
    pub(crate) is_descriptor: bool,
}

/// Method by which a location is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LocationKind {
    InPlace,
    Regular,
}

impl Location {
    /// Follows `path` folder by folder, so that each link is checked against the folder that contains it.
    pub(crate) fn resolve(path: &Path) -> Result<Self, OutputError> {
        if path.as_os_str().is_empty() {
            let cause = io::Error::new(io::ErrorKind::InvalidInput, "the file has no name");
            return Err(cause.into());
        }
        let mut folder = open_folder(CWD, OsStr::new("."))?;
        let mut rest = parts(path);
        let mut walked = PathBuf::new();
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            let is_last = rest.is_empty();
            let stat = match statat(&folder, &part, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) if is_last => {
                    let target = walked.join(&part);
                    return Ok(Self {
                        folder,
                        name: part,
                        target,
                        found_stat: None,
                        is_descriptor: false,
                    });
                }
                Err(errno) => return Err(errno.into()),
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => {
                    if can_be_changed_by_others(&folder)? {
                        return Err(OutputError::UntrustedLink { link: walked.join(&part) });
                    }
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    // The text of such a link may not be a path, so that only the kernel can follow it.
                    let is_of_procfs = fstatfs(&folder)?.f_type == PROC_SUPER_MAGIC;
                    if is_of_procfs && is_last {
                        return Self::from_descriptor(folder, part, &walked);
                    }
                    if is_of_procfs {
                        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                        folder = openat(&folder, &part, flags, Mode::empty())?;
                        walked.push(part);
                        continue;
                    }
                    let target = readlinkat(&folder, &part, Vec::new())?.into_bytes();
                    let target = OsString::from_vec(target);
                    for target_part in parts(Path::new(&target)).into_iter().rev() {
                        rest.push_front(target_part);
                    }
                }
                FileType::Directory if is_last => return Err(Errno::ISDIR.into()),
                FileType::Directory => {
                    folder = open_folder(&folder, &part)?;
                    walked.push(part);
                }
                _ if is_last => {
                    let found_stat = Some(stat);
                    let target = walked.join(&part);
                    return Ok(Self {
                        folder,
                        name: part,
                        target,
                        found_stat,
                        is_descriptor: false,
                    });
                }
                _ => return Err(Errno::NOTDIR.into()),
            }
        }
        Err(Errno::ISDIR.into())
    }

    fn from_descriptor(
        folder: OwnedFd,
        name: OsString,
        walked: &Path,
    ) -> Result<Self, OutputError> {
        let stat = statat(&folder, &name, AtFlags::empty())?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => {
                let target = walked.join(&name);
                Ok(Self { folder, name, target, found_stat: Some(stat), is_descriptor: true })
            }
        }
    }

    /// Determines the method by which the location is written.
    fn kind(&self) -> Result<LocationKind, OutputError> {
        let Some(found_stat) = &self.found_stat else { return Ok(LocationKind::Regular) };
        // A file to which standard error writes is not replaced, so that the text in it is kept.
        if self.is_descriptor || is_same_file(found_stat, &fstat(io::stderr().as_fd())?) {
            return Ok(LocationKind::InPlace);
        }
        match FileType::from_raw_mode(found_stat.st_mode) {
            FileType::RegularFile => Ok(LocationKind::Regular),
            FileType::Fifo | FileType::Socket
                if !is_trusted_user(found_stat.st_uid)
                    && can_be_changed_by_others(&self.folder)? =>
            {
                Err(OutputError::OtherOwner { owner: found_stat.st_uid })
            }
            _ => Ok(LocationKind::InPlace),
        }
    }

    fn refuse_inputs(&self, inputs: &[PathBuf]) -> Result<(), OutputError> {
        for input in inputs {
            if self.is_sqlite_companion(input)? {
                return Err(OutputError::IsInput);
            }
        }
        let Some(found_stat) = &self.found_stat else { return self.refuse_planned(inputs) };
        if FileType::from_raw_mode(found_stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        for input in inputs {
            let Ok(input) = std::fs::metadata(input) else { continue };
            if (input.dev(), input.ino()) == (found_stat.st_dev, found_stat.st_ino) {
                return Err(OutputError::IsInput);
            }
        }
        Ok(())
    }

    /// Refuses the location of an input that does not exist yet, such as a new history.
    fn refuse_planned(&self, inputs: &[PathBuf]) -> Result<(), OutputError> {
        for input in inputs.iter().filter(|input| !input.exists()) {
            if Self::resolve(input).is_ok_and(|place| self.is_same_as(&place)) {
                return Err(OutputError::IsInput);
            }
        }
        Ok(())
    }

    /// True if both locations denote the same regular file, or the same name where no file exists yet.
    fn is_same_as(&self, other: &Self) -> bool {
        match (&self.found_stat, &other.found_stat) {
            (Some(one), Some(two)) => {
                FileType::from_raw_mode(one.st_mode) == FileType::RegularFile
                    && is_same_file(one, two)
            }
            (None, None) if self.name == other.name => {
                let folders = (fstat(&self.folder), fstat(&other.folder));
                matches!(folders, (Ok(one), Ok(two)) if is_same_file(&one, &two))
            }
            _ => false,
        }
    }

    /// True if SQLite creates a file with this name next to the database `input`.
    fn is_sqlite_companion(&self, input: &Path) -> Result<bool, OutputError> {
        let Some(name) = input.file_name() else { return Ok(false) };
        let name = name.as_bytes();
        let suffix = self.name.as_bytes().strip_prefix(name);
        if !suffix.is_some_and(|suffix| SQLITE_SUFFIXES.contains(&suffix)) {
            return Ok(false);
        }
        let folder = input.parent().filter(|folder| !folder.as_os_str().is_empty());
        let Ok(folder) = std::fs::metadata(folder.unwrap_or(Path::new("."))) else {
            return Ok(false);
        };
        let own = fstat(&self.folder)?;
        Ok((folder.dev(), folder.ino()) == (own.st_dev, own.st_ino))
    }

    fn open_in_place(&self) -> Result<File, OutputError> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = if self.is_descriptor { flags } else { flags | OFlags::NOFOLLOW };
        let wait = Wait::within(READER_TIMEOUT).unless(&is_end_requested).grace(READER_GRACE);
        let result = wait_until(&wait, || {
            let flags = flags | OFlags::NONBLOCK;
            match retry_on_intr(|| openat(&self.folder, &self.name, flags, Mode::empty())) {
                // A pipe without a reader cannot be opened without waiting.
                Err(Errno::NXIO) => None,
                result => Some(result),
            }
        });
        let file = result.map_err(without_reader)??;
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        let opened = fstat(&file)?;
        let is_expected =
            self.found_stat.as_ref().is_some_and(|found_stat| is_same_file(found_stat, &opened));
        if !is_expected {
            return Err(io::Error::other("it was replaced while it was being opened").into());
        }
        Ok(file.into())
    }
}

/// Returns the error for a pipe that no program has opened for reading.
fn without_reader(reason: WaitEnd) -> io::Error {
    let longest = match reason {
        WaitEnd::TimedOut => READER_TIMEOUT,
        WaitEnd::Interrupted => READER_GRACE,
    };
    let text = format!("no program has read this pipe within {} s", longest.as_secs_f64());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// New file with a random name in the folder of its location. It is removed when this value is dropped, unless it has
/// been renamed.
#[derive(Debug)]
struct StagedFile {
    file: File,
    temporary: Option<String>,
    location: Location,
}

impl StagedFile {
    fn create(location: Location) -> Result<Self, OutputError> {
        let mode = if location.found_stat.is_some() { Mode::RUSR | Mode::WUSR } else { NEW_FILE };
        let (file, temporary) = create_new(&location.folder, mode)?;
        let staged = Self { file, temporary: Some(temporary), location };
        let Some(found_stat) = &staged.location.found_stat else { return Ok(staged) };
        // Some file systems assign the same owner to all files. The owner of the new file is the owner that this file
        // system assigns to the caller's files.
        if found_stat.st_uid != fstat(&staged.file)?.st_uid {
            return Err(OutputError::OtherOwner { owner: found_stat.st_uid });
        }
        fchmod(&staged.file, Mode::from_raw_mode(found_stat.st_mode & PERMISSIONS))?;
        Ok(staged)
    }

    fn rename(mut self) -> Result<(), OutputError> {
        self.file.sync_all()?;
        let Some(temporary) = &self.temporary else { return Ok(()) };
        let Location { folder, name, .. } = &self.location;
        renameat(folder, temporary, folder, name)?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // A failure is ignored, because there is no other way to remove the file.
            let _ = unlinkat(&self.location.folder, temporary, AtFlags::empty());
        }
    }
}

/// Creates a file under an unused random name.
fn create_new(folder: &OwnedFd, mode: Mode) -> Result<(File, String), OutputError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..MAX_ATTEMPTS {
        let random = RandomState::new().hash_one(std::process::id());
        let name = format!(".nodegauge-{random:016x}");
        match retry_on_intr(|| openat(folder, &name, flags, mode)) {
            Ok(file) => return Ok((file.into(), name)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno::EXIST.into())
}

/// Splits a path into its parts. A path that ends with `/` denotes a folder and gets `.` as its last part.
fn parts(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().map(|part| part.as_os_str().to_owned());
    let mut parts: VecDeque<OsString> = parts.collect();
    if path.as_os_str().as_bytes().ends_with(b"/") {
        parts.push_back(OsString::from("."));
    }
    parts
}

/// Opens a folder, for which read permission is not required. Links are not followed.
fn open_folder(parent: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// True if users other than the caller and root can create files in the folder.
fn can_be_changed_by_others(folder: &OwnedFd) -> Result<bool, Errno> {
    let stat = fstat(folder)?;
    Ok(stat.st_mode & WRITABLE_BY_OTHERS != 0 || !is_trusted_user(stat.st_uid))
}

/// True if the user is the caller or root.
pub(crate) fn is_trusted_user(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

fn is_same_file(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    const NOBODY: u32 = 65_534;

    fn write(path: &Path, text: &str) -> Result<(), OutputError> {
        let mut output = OutputFile::create(path, &[])?;
        output.write_all(text.as_bytes())?;
        output.finish()
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn replaced_file_keeps_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        write(&path, "first").unwrap();
        let usual = folder.path().join("usual");
        fs::write(&usual, "").unwrap();
        assert_eq!(mode(&path), mode(&usual), "the umask decides");
        for (old, kept) in [(0o6777, 0o777), (0o1640, 0o640), (0o444, 0o444)] {
            set_mode(&path, old);
            write(&path, "second").unwrap();
            assert_eq!(mode(&path), kept);
        }
        let mut dropped = OutputFile::create(&path, &[]).unwrap();
        dropped.write_all(b"third").unwrap();
        drop(dropped);
        OutputFile::check(&path, &[]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(files(folder.path()), 2);
    }

    #[test]
    fn links_in_folders_of_other_users_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("below")).unwrap();
        symlink("below", at("to-folder")).unwrap();
        symlink("to-folder/../below/new", at("to-new")).unwrap();
        symlink(at("to-new"), at("below/absolute")).unwrap();
        write(&at("to-folder/absolute"), "text").unwrap();
        assert_eq!(fs::read_to_string(at("below/new")).unwrap(), "text");
        symlink("loop", at("loop")).unwrap();
        let refused = write(&at("loop"), "").unwrap_err();
        assert_eq!(refused.to_string(), "Too many levels of symbolic links (os error 40)");
        let top = folder.path().canonicalize().unwrap();
        let direct = resolve_links(&at("to-folder/absolute")).unwrap();
        assert_eq!(direct, top.join("below/../below/new"));
        assert_eq!(resolve_links(&at("to-folder/none")).unwrap(), top.join("below/none"));
        for mode in [0o1777, 0o770, 0o702] {
            set_mode(&at("below"), mode);
            assert!(resolve_links(&at("below/absolute")).is_err());
            let absolute_refused = write(&at("to-folder/absolute"), "").unwrap_err();
            let reported = absolute_refused.to_string();
            assert!(
                matches!(absolute_refused, OutputError::UntrustedLink { link } if link.ends_with("below/absolute")),
                "{reported}"
            );
            write(&at("to-folder/new"), "no link there").unwrap();
        }
    }

    #[test]
    fn files_and_links_of_another_user_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("theirs"), "old").unwrap();
        fs::create_dir(at("home")).unwrap();
        symlink("../own", at("home/link")).unwrap();
        let pipe = at("home/pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let given = ["theirs", "home", "home/pipe"].map(|name| chown(at(name), Some(NOBODY), None));
        if given.iter().any(Result::is_err) {
            // Only root can change the owner of a file. This test therefore checks the function of the owner that
            // decides about a refusal.
            assert!(!is_trusted_user(NOBODY) || geteuid().as_raw() == NOBODY);
            return;
        }
        for path in ["theirs", "home/pipe"] {
            let refused = OutputFile::check(&at(path), &[]).unwrap_err();
            assert!(matches!(refused, OutputError::OtherOwner { owner: NOBODY }), "{refused}");
        }
        let refused = write(&at("home/link"), "").unwrap_err();
        assert!(matches!(refused, OutputError::UntrustedLink { .. }), "{refused}");
        assert_eq!(fs::read_to_string(at("theirs")).unwrap(), "old");
        assert_eq!(fs::metadata(at("theirs")).unwrap().uid(), NOBODY);
        assert_eq!((files(folder.path()), files(&at("home"))), (2, 2));
    }

    #[test]
    fn output_that_is_an_input_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (input, link) = (folder.path().join("input"), folder.path().join("link"));
        fs::write(&input, "records").unwrap();
        fs::hard_link(&input, &link).unwrap();
        let inputs = [folder.path().join("none"), input.clone()];
        for path in [&input, &link] {
            let refused = OutputFile::create(path, &inputs).unwrap_err();
            assert!(matches!(refused, OutputError::IsInput));
        }
        for suffix in ["-journal", "-wal", "-shm"] {
            let companion = folder.path().join(format!("input{suffix}"));
            let refused = OutputFile::check(&companion, &inputs).unwrap_err();
            assert!(matches!(refused, OutputError::IsInput));
        }
        for other in ["other", "input-log", "inputs-wal"] {
            OutputFile::check(&folder.path().join(other), &inputs).unwrap();
        }
        // The history may be created during the run.
        let planned = folder.path().join("./none");
        assert!(matches!(OutputFile::check(&planned, &inputs), Err(OutputError::IsInput)));
        assert!(matches!(OutputFile::refuse_inputs(&planned, &inputs), Err(OutputError::IsInput)));
    }

    #[test]
    fn paths_of_same_file_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("one"), "").unwrap();
        fs::write(at("two"), "").unwrap();
        fs::hard_link(at("one"), at("hard")).unwrap();
        symlink("one", at("soft")).unwrap();
        symlink("new", at("to-new")).unwrap();
        for (a, b) in [("one", "./one"), ("one", "hard"), ("soft", "hard"), ("new", "to-new")] {
            assert!(are_same_file(&at(a), &at(b)), "{a} {b}");
        }
        for (a, b) in [("one", "two"), ("new", "newer"), ("one", "new"), ("none/x", "none/x")] {
            assert!(!are_same_file(&at(a), &at(b)), "{a} {b}");
        }
        let null = Path::new("/dev/null");
        assert!(!are_same_file(null, null), "a device takes several outputs");
    }

    #[test]
    fn devices_and_descriptors_are_written_directly() {
        let folder = tempfile::tempdir().unwrap();
        write(Path::new("/dev/null"), "text").unwrap();
        let full = write(Path::new("/dev/full"), "text").unwrap_err();
        assert_eq!(full.to_string(), "No space left on device (os error 28)");
        let path = folder.path().join("open");
        let mut open = File::create(&path).unwrap();
        open.write_all(b"before ").unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&open);
        write(Path::new(&format!("/dev/fd/{descriptor}")), "behind").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before behind");
        let through = format!("/proc/self/cwd/{}", path.display());
        write(Path::new(&through.replace("cwd", "root")), "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn path_without_file_name_or_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let below = |name: &str| format!("{}/{name}", folder.path().display());
        for (path, expected) in [
            (String::new(), "the file has no name"),
            ("/".to_owned(), "Is a directory"),
            ("..".to_owned(), "Is a directory"),
            (below(""), "Is a directory"),
            (below("file/"), "Not a directory"),
            (below("file/x"), "Not a directory"),
            (below("none/x"), "No such file or directory"),
            (below("none/"), "No such file or directory"),
        ] {
            let refused = OutputFile::check(Path::new(&path), &[]).unwrap_err().to_string();
            assert!(refused.starts_with(expected), "{path:?}: {refused}");
        }
    }
}
