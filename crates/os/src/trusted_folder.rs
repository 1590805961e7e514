//! Folders whose files no other user can exchange, for programs and libraries that this process executes or loads, and
//! for their input.
//!
//! A file at a path is the expected file only if no other user can rename or replace it, or any folder on the path
//! to it. Therefore every folder of the path, from the root directory on, must belong to root or to this user.
//! Others must not have write permission, unless the sticky bit prevents them from renaming files of other users.
//! The requirements are those of OpenSSH for the files of a user (`StrictModes`).

use crate::output::{WRITABLE_BY_OTHERS, is_trusted_user};
use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, mkdirat, openat};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

const STICKY: u32 = 0o1000;

/// Rights that other users may have in the folders of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherUserRights {
    /// Other users may add files if the sticky bit protects the files of others, as in `/tmp`.
    MayAdd,
    /// Other users may not write to any folder of the path. If a part of the path does not exist, e.g. because it is on
    /// another host, other users must not be able to create it.
    MayNotWrite,
}

/// Reason why a folder is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FolderTrustError {
    /// Other users can replace or create files in a folder of the path.
    #[error(
        "other users can {} files in {} (owner {owner}, mode {mode:o})",
        if *replace { "replace" } else { "create" },
        folder.display()
    )]
    Exposed {
        /// Path of the folder.
        folder: PathBuf,
        /// User ID of the owner.
        owner: u32,
        /// Permissions of the folder.
        mode: u32,
        /// True if other users can replace existing files; false if they can only create new files.
        replace: bool,
    },
    /// A folder of the path cannot be opened or created.
    #[error("{} {why}", folder.display())]
    Unavailable {
        /// Path of the folder.
        folder: PathBuf,
        /// Reason, such as the text of the system's error.
        why: String,
    },
}

impl FolderTrustError {
    fn unavailable(folder: &Path, why: impl ToString) -> Self {
        Self::Unavailable { folder: folder.to_owned(), why: why.to_string() }
    }
}

/// Open folder that no other user can replace; the same holds for every folder on the path to it.
#[derive(Debug)]
pub struct TrustedFolder {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl TrustedFolder {
    /// Opens an existing folder. Symbolic links are resolved first, and the resulting path is checked, so that the
    /// owners of the links are irrelevant.
    ///
    /// # Errors
    /// Returns the reason if another user could replace files in the folder, or if it cannot be opened.
    pub fn open(path: &Path, others: OtherUserRights) -> Result<Self, FolderTrustError> {
        let unavailable = |cause: io::Error| FolderTrustError::unavailable(path, cause);
        let real = path.canonicalize().map_err(unavailable)?;
        let found = Self::walk(&real, others, Missing::IsError)?;
        check_owner_and_mode(&found.stat()?, others, &found.path)?;
        Ok(found)
    }

    /// Opens a folder in which only this user and root can create files. If the folder is missing, the nearest
    /// existing folder on its path must have this property, so that no other user can create the folder.
    ///
    /// # Errors
    /// Returns the reason if another user can create files there, or if no folder can be opened.
    pub fn open_exclusive(path: &Path) -> Result<Self, FolderTrustError> {
        let absolute = absolute(path)?;
        let existing = absolute.ancestors().find(|folder| folder.exists()).unwrap_or(&absolute);
        let found = Self::open(existing, OtherUserRights::MayAdd)?;
        check_owner_and_mode(&found.stat()?, OtherUserRights::MayNotWrite, &found.path)?;
        Ok(found)
    }

    /// Opens a folder, and creates missing folders of its path, with permissions for this user only. Symbolic links
    /// below the root directory are refused. The folder itself is not checked.
    ///
    /// # Errors
    /// Returns the reason if another user can exchange a folder of the path, or if a folder cannot be created or
    /// opened.
    pub fn create(path: &Path) -> Result<Self, FolderTrustError> {
        let absolute = absolute(path)?;
        // Symbolic links in the root directory, e.g. /home, belong to the system and are allowed.
        let top: PathBuf = absolute.components().take(2).collect();
        let mut here = top.canonicalize().unwrap_or_else(|_| top.clone());
        here.extend(absolute.components().skip(2));
        Self::walk(&here, OtherUserRights::MayAdd, Missing::IsCreated)
    }

    /// Opens an absolute path folder by folder, and checks all folders but the last.
    fn walk(
        path: &Path,
        others: OtherUserRights,
        missing: Missing,
    ) -> Result<Self, FolderTrustError> {
        let mut at = PathBuf::from("/");
        let mut descriptor =
            open_folder(CWD, &at).map_err(|why| FolderTrustError::unavailable(&at, why))?;
        for part in path.components().filter(|part| *part != Component::RootDir) {
            let stat =
                fstat(&descriptor).map_err(|cause| FolderTrustError::unavailable(&at, cause))?;
            check_owner_and_mode(&stat, others, &at)?;
            at.push(part);
            let name = Path::new(part.as_os_str());
            let created = match missing {
                Missing::IsError => None,
                // If the folder already exists, it is opened.
                Missing::IsCreated => mkdirat(&descriptor, name, Mode::RWXU).err(),
            };
            let created = created.filter(|cause| *cause != Errno::EXIST);
            descriptor = open_folder(&descriptor, name).map_err(|why| {
                let why = created.map_or(why, |cause| format!("cannot be created: {cause}"));
                FolderTrustError::unavailable(&at, why)
            })?;
        }
        Ok(Self { descriptor, path: at })
    }

    /// Returns the path of the folder, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the properties of the open folder.
    ///
    /// # Errors
    /// Returns the reason if the kernel does not provide them.
    pub fn stat(&self) -> Result<Stat, FolderTrustError> {
        fstat(&self.descriptor).map_err(|cause| FolderTrustError::unavailable(&self.path, cause))
    }
}

impl AsFd for TrustedFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Treatment of missing folders of a path.
#[derive(Debug, Clone, Copy)]
enum Missing {
    IsError,
    IsCreated,
}

/// Returns the absolute path of `path`; links and `..` are not resolved.
fn absolute(path: &Path) -> Result<PathBuf, FolderTrustError> {
    std::path::absolute(path).map_err(|cause| FolderTrustError::unavailable(path, cause))
}

/// Checks that other users have no more rights in a folder than `others` permits.
fn check_owner_and_mode(
    stat: &Stat,
    others: OtherUserRights,
    path: &Path,
) -> Result<(), FolderTrustError> {
    check_rights(stat.st_uid, stat.st_mode, others, path)
}

/// Checks that other users have no more rights than `others` permits in the folder `path`, which belongs to `owner` and
/// has the permissions `mode`. The folder may be on another host.
///
/// # Errors
/// Returns the reason if other users have more rights.
pub fn check_rights(
    owner: u32,
    mode: u32,
    others: OtherUserRights,
    path: &Path,
) -> Result<(), FolderTrustError> {
    let is_owned = is_trusted_user(owner);
    let is_writable = mode & WRITABLE_BY_OTHERS != 0;
    let is_sticky = mode & STICKY != 0;
    let is_protected = is_sticky && others == OtherUserRights::MayAdd;
    if is_owned && (!is_writable || is_protected) {
        return Ok(());
    }
    let replace = !(is_owned && is_sticky);
    Err(FolderTrustError::Exposed { folder: path.to_owned(), owner, mode: mode & 0o7777, replace })
}

/// Opens a folder for its properties and for files in it; a symbolic link is refused. Folders that this user may
/// enter but not list, such as a /home with the mode 711, can be opened.
fn open_folder(parent: impl AsFd, name: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty()).map_err(|cause| match cause {
        Errno::LOOP | Errno::NOTDIR => "is a symbolic link or not a folder".to_owned(),
        cause => format!("cannot be read: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_root;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    const NOBODY: u32 = 65_534;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Returns the reason why a folder is refused; an empty text if it is accepted.
    fn refusal(path: &Path, others: OtherUserRights) -> String {
        TrustedFolder::open(path, others).err().map_or_else(String::new, |why| why.to_string())
    }

    #[test]
    fn folder_writable_by_other_users_is_refused_unless_sticky() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("folder");
        let inner = folder.join("inner");
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(refusal(&inner, OtherUserRights::MayAdd), "");
        for path in [&folder, &inner] {
            for open in [0o777, 0o775, 0o757] {
                mode(path, open);
                let why = refusal(&inner, OtherUserRights::MayAdd);
                assert!(why.contains("other users can replace files in"), "{why}");
                assert!(why.contains(&format!("{} (", path.display())), "{why}");
                assert!(why.contains(&format!("mode {open:o})")), "{why}");
            }
            mode(path, 0o1777);
            assert_eq!(refusal(&inner, OtherUserRights::MayAdd), "");
            let why = refusal(&inner, OtherUserRights::MayNotWrite);
            assert!(why.contains("other users can "), "{why}");
            mode(path, 0o755);
        }
    }

    #[test]
    fn target_of_link_is_checked() {
        let outer = tempfile::tempdir().unwrap();
        let target = outer.path().join("target");
        std::fs::create_dir(&target).unwrap();
        let link = outer.path().join("link");
        symlink(&target, &link).unwrap();
        let opened = TrustedFolder::open(&link, OtherUserRights::MayAdd).unwrap();
        assert_eq!(opened.path(), target.canonicalize().unwrap());
        mode(&target, 0o777);
        assert!(refusal(&link, OtherUserRights::MayAdd).contains("can replace files"));
    }

    #[test]
    fn unlistable_folder_is_opened() {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        mode(outer.path(), 0o311);
        let opened = TrustedFolder::open(&inner, OtherUserRights::MayAdd);
        mode(outer.path(), 0o700);
        assert!(opened.is_ok(), "{opened:?}");
    }

    #[test]
    fn folder_of_another_user_is_refused() {
        if !is_root() {
            return;
        }
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        for open in [0o755, 0o1777, 0o700] {
            mode(&folder, open);
            chown(&folder, Some(NOBODY), None).unwrap();
            let why = refusal(&folder, OtherUserRights::MayAdd);
            assert!(why.contains(&format!("(owner {NOBODY}, mode {open:o})")), "{why}");
        }
    }

    #[test]
    fn exclusive_folder_is_refused_if_other_users_can_create_it() {
        let outer = tempfile::tempdir().unwrap();
        let refusal = |name: &str| {
            let opened = TrustedFolder::open_exclusive(&outer.path().join(name));
            opened.err().map(|why| why.to_string())
        };
        assert_eq!(refusal("missing/below"), None);
        std::fs::create_dir(outer.path().join("own")).unwrap();
        assert_eq!(refusal("own"), None);
        mode(outer.path(), 0o1777);
        assert_eq!(refusal("own"), None);
        let why = refusal("missing/below").unwrap();
        assert!(why.contains("other users can create files in"), "{why}");
    }
}
