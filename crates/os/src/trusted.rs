//! Input files on which a decision depends, e.g. the verdict on a node. They are trusted only if no user except the
//! caller and root can have written them: the owner of the open file is checked, and links are followed by the same
//! rule as for outputs (see [`crate::OutputFile`]).

use crate::input;
use crate::output::{Location, OutputError, is_trusted_user};
use rustix::fs::{Mode, OFlags, Stat, fstat, openat};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Permission bit that allows all users to change a file or folder.
const WRITABLE_BY_ALL: u32 = 0o002;

/// Reason why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file or folder belongs to neither the caller nor root.
    #[error("{what} belongs to another user (uid {owner})")]
    OtherOwner {
        /// Item that belongs to another user: the file or its folder.
        what: &'static str,
        /// User ID of the owner.
        owner: u32,
    },
    /// The path contains a symbolic link that another user may have created.
    #[error("{} is a symbolic link in a folder that other users can write", link.display())]
    UntrustedLink {
        /// Path of the link.
        link: PathBuf,
    },
    /// All users can change the file or folder.
    #[error("all users can write {what}")]
    WritableByAll {
        /// Item that all users can change: the file or its folder.
        what: &'static str,
    },
}

impl TrustError {
    /// True if there is no such file.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io(cause) if cause.kind() == io::ErrorKind::NotFound)
    }
}

impl From<Errno> for TrustError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl From<OutputError> for TrustError {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::Io(cause) => Self::Io(cause),
            OutputError::OtherOwner { owner } => Self::OtherOwner { what: FILE, owner },
            OutputError::UntrustedLink { link } => Self::UntrustedLink { link },
            OutputError::IsInput => Self::Io(io::Error::other(error)),
        }
    }
}

const FILE: &str = "the file";
const FOLDER: &str = "its folder";

/// Reads a regular file of the caller or of root with at most `longest` bytes.
///
/// # Errors
/// Fails if the file cannot be read, is not a regular file, is longer than `longest`, or if another user may have
/// written it or a link of its path.
pub fn read_trusted_file(path: &Path, longest: u64) -> Result<Vec<u8>, TrustError> {
    let location = Location::resolve(path)?;
    let file = open(&location)?;
    Ok(input::read_regular_file(file, longest)?)
}

/// Reads at most `longest` bytes from a regular file of the caller or of root, or from a pipe that is already open
/// in this process (`-`, `/dev/fd/63`).
///
/// # Errors
/// Returns the same errors as [`read_trusted_file`].
pub fn read_trusted_input(path: &Path, longest: u64) -> Result<Vec<u8>, TrustError> {
    if path == Path::new("-") {
        return Ok(input::read_input(path, longest)?);
    }
    let location = Location::resolve(path)?;
    let file = open(&location)?;
    if location.is_descriptor {
        return Ok(input::read_open_file(file, longest)?);
    }
    Ok(input::read_regular_file(file, longest)?)
}

/// Checks a file that a library opens itself: no user except the caller and root can have written it, or can create
/// files next to it.
///
/// # Errors
/// Fails if the file does not exist, or if another user may have written it, a link of its path, or a file in its
/// folder.
pub fn check_trusted(path: &Path) -> Result<(), TrustError> {
    let location = Location::resolve(path)?;
    let Some(found_stat) = &location.found_stat else { return Err(Errno::NOENT.into()) };
    check(FILE, found_stat)?;
    check(FOLDER, &fstat(&location.folder)?)
}

/// Opens the file of a location. The owner is checked twice: before opening, so that a pipe or device of another
/// user is not opened, and on the open file, which cannot be exchanged any more.
fn open(location: &Location) -> Result<File, TrustError> {
    let Some(found_stat) = &location.found_stat else { return Err(Errno::NOENT.into()) };
    check(FILE, found_stat)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = if location.is_descriptor { flags } else { flags | OFlags::NOFOLLOW };
    let opened = retry_on_intr(|| openat(&location.folder, &location.name, flags, Mode::empty()))?;
    check(FILE, &fstat(&opened)?)?;
    Ok(opened.into())
}

fn check(what: &'static str, found_stat: &Stat) -> Result<(), TrustError> {
    if !is_trusted_user(found_stat.st_uid) {
        return Err(TrustError::OtherOwner { what, owner: found_stat.st_uid });
    }
    if found_stat.st_mode & WRITABLE_BY_ALL != 0 {
        return Err(TrustError::WritableByAll { what });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};
    use std::fs::{self, Permissions};
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    const NOBODY: u32 = 65_534;
    const LONGEST: u64 = 1 << 20;

    fn refused(path: &Path) -> String {
        read_trusted_file(path, LONGEST).unwrap_err().to_string()
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn own_files_and_links_are_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("state"), "own").unwrap();
        symlink("state", at("link")).unwrap();
        for name in ["state", "link"] {
            assert_eq!(read_trusted_file(&at(name), LONGEST).unwrap(), b"own");
            assert_eq!(read_trusted_input(&at(name), LONGEST).unwrap(), b"own");
            check_trusted(&at(name)).unwrap();
        }
        assert!(read_trusted_file(&at("none"), LONGEST).unwrap_err().is_absent());
        assert!(read_trusted_file(&at("none/none"), LONGEST).unwrap_err().is_absent());
        assert!(check_trusted(&at("none")).unwrap_err().is_absent());
    }

    #[test]
    fn file_writable_by_other_users_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("state"), "own").unwrap();
        set_mode(&at("state"), 0o666);
        assert_eq!(refused(&at("state")), "all users can write the file");
        // The umask of users with a group of their own is 002.
        set_mode(&at("state"), 0o664);
        assert_eq!(read_trusted_file(&at("state"), LONGEST).unwrap(), b"own");
        symlink("state", at("link")).unwrap();
        set_mode(folder.path(), 0o1777);
        assert!(
            refused(&at("link"))
                .ends_with("a symbolic link in a folder that other users can write")
        );
        assert_eq!(read_trusted_file(&at("state"), LONGEST).unwrap(), b"own");
        let refusal = check_trusted(&at("state")).unwrap_err().to_string();
        assert_eq!(refusal, "all users can write its folder");
    }

    #[test]
    fn file_or_link_of_another_user_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("state"), "forged").unwrap();
        fs::write(at("own"), "own").unwrap();
        fs::create_dir(at("theirs")).unwrap();
        symlink("../own", at("theirs/link")).unwrap();
        let given = ["state", "theirs"].map(|name| chown(at(name), Some(NOBODY), None));
        if given.iter().any(Result::is_err) {
            // Only root can change the owner of a file.
            return;
        }
        let of_another = "the file belongs to another user (uid 65534)";
        assert_eq!(refused(&at("state")), of_another);
        assert_eq!(read_trusted_input(&at("state"), LONGEST).unwrap_err().to_string(), of_another);
        assert!(refused(&at("theirs/link")).contains("is a symbolic link"));
        fs::write(at("theirs/history"), "own").unwrap();
        let refusal = check_trusted(&at("theirs/history")).unwrap_err().to_string();
        assert_eq!(refusal, "its folder belongs to another user (uid 65534)");
    }

    #[test]
    fn unnamed_pipe_is_trusted_and_named_pipe_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(refused(&pipe), "it is not a regular file");
        let named = read_trusted_input(&pipe, LONGEST).unwrap_err().to_string();
        assert_eq!(named, "it is not a regular file");
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"content").unwrap();
        drop(writer);
        let open = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(read_trusted_input(Path::new(&open), LONGEST).unwrap(), b"content");
    }
}
