//! Cache of compiled programs, which is kept between runs. A program is started only if it has not changed since it was
//! compiled.
//!
//! A program that another user has placed in the cache would run as this user. Therefore the folder must belong to this
//! user, no other user may be able to write into it or to replace a folder on the path to it, and the path must not
//! contain symbolic links ([`TrustedFolder`]). For each program, the cache also contains a file with the program's
//! SHA-256, which is written when the program is compiled. A run executes a copy of the verified bytes in a private
//! folder.

use nodegauge_measure::Bytes;
use nodegauge_os::{MAX_PROGRAM_BYTES, TrustedFolder, effective_user_id};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Permission bits that allow group and others to write.
const OTHERS_WRITE: u32 = 0o022;
/// Permissions for the owner only.
const PRIVATE: Mode = Mode::RWXU;
/// Number of hexadecimal digits of a digest in a file name.
const DIGITS: usize = 16;

/// Returns the folder for compiled programs and measured capacities: `NODEGAUGE_CACHE_DIR`, otherwise the XDG cache
/// folder. A relative `XDG_CACHE_HOME` is ignored, as the XDG specification requires.
pub fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let [own, of_caches, home] = ["NODEGAUGE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"]
        .map(|name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from));
    let of_caches = of_caches.filter(|folder| folder.is_absolute());
    own.or(of_caches.map(|folder| folder.join("nodegauge")))
        .or(home.map(|home| home.join(".cache/nodegauge")))
}

/// Returns the name of a file of the cache: a kind, and a digest of the text that identifies the content.
pub fn cache_file_name(kind: &str, identity: &str) -> String {
    let digest = format!("{:x}", Sha256::digest(identity));
    format!("{kind}-{}", &digest[..DIGITS])
}

/// Cache: a folder with compiled programs.
#[derive(Debug)]
pub struct ProgramCache {
    folder: TrustedFolder,
}

impl ProgramCache {
    /// Opens the folder, and creates it if it is missing.
    ///
    /// # Errors
    /// Returns the reason if the folder cannot be trusted, created or opened.
    pub fn open(path: &Path) -> Result<Self, String> {
        let folder = TrustedFolder::create(path).map_err(|why| why.to_string())?;
        let stat = folder.stat().map_err(|why| why.to_string())?;
        match distrust_reason(&stat) {
            Some(why) => Err(format!("{} {why}", folder.path().display())),
            None => Ok(Self { folder }),
        }
    }

    /// Returns the path of the folder, without symbolic links.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the program that is stored under `name` and was compiled from `key`; `None` if there is no such program.
    ///
    /// # Errors
    /// Returns the reason if the stored program must not be run.
    pub fn find(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(program) = self.read(name)? else { return Ok(None) };
        match self.read(&seal_name(name))? {
            Some(seal) if seal == self::seal(key, &program) => Ok(Some(program)),
            _ => Err(format!(
                "{} has changed since it was compiled",
                self.path().join(name).display()
            )),
        }
    }

    /// Stores a program under `name`. The program becomes visible only when the program and its seal are complete.
    /// Otherwise another run could find a program whose seal does not match yet.
    pub fn keep(&self, name: &str, key: &str, program: &[u8]) -> io::Result<()> {
        let seal_text = seal(key, program);
        let files = [(&seal_text[..], seal_name(name)), (program, name.to_owned())];
        for (content, file_name) in files {
            let mut file = tempfile::NamedTempFile::new_in(self.path())?;
            file.write_all(content)?;
            file.as_file().set_permissions(Permissions::from_mode(PRIVATE.bits()))?;
            file.persist(self.path().join(file_name))?;
        }
        Ok(())
    }

    /// Returns the content of a file of the cache; `None` if there is no such file.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        self.content(name).map_err(|why| format!("{} {why}", self.path().join(name).display()))
    }

    /// Returns the content of a file, or the reason why it must not be used. The owner of the open file is checked.
    fn content(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match openat(&self.folder, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err("is a symbolic link".to_owned()),
            Err(cause) => return Err(format!("cannot be read: {cause}")),
        };
        let stat = fstat(&file).map_err(|cause| cause.to_string())?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let is_long = stat.st_size > MAX_PROGRAM_BYTES as i64;
        let why = match (is_file, is_long) {
            (false, _) => Some("is not a regular file".to_owned()),
            (true, true) => Some(format!("is longer than {}", Bytes(MAX_PROGRAM_BYTES))),
            (true, false) => None,
        };
        if let Some(why) = why.or_else(|| distrust_reason(&stat)) {
            return Err(why);
        }
        let mut content = Vec::new();
        File::from(file).read_to_end(&mut content).map_err(|cause| cause.to_string())?;
        Ok(Some(content))
    }
}

/// Returns the reason why another user may have changed a file or folder; `None` if no other user can change it.
fn distrust_reason(stat: &Stat) -> Option<String> {
    let mode = stat.st_mode & 0o7777;
    if stat.st_uid != effective_user_id() {
        return Some(format!("belongs to another user ({})", stat.st_uid));
    }
    (mode & OTHERS_WRITE != 0).then(|| format!("can be changed by others (mode {mode:o})"))
}

fn seal_name(name: &str) -> String {
    format!("{name}.key")
}

/// Returns the seal of a program, which the cache stores next to it. The seal contains the digest of the program, and
/// the key from which the program was compiled, because two keys may have the same file name.
fn seal(key: &str, program: &[u8]) -> Vec<u8> {
    format!("sha256 {:x}\n{key}", Sha256::digest(program)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    const NOBODY: u32 = 65_534;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Returns a cache with the program `p`, compiled from `key`.
    fn filled(folder: &Path) -> ProgramCache {
        let cache = ProgramCache::open(folder).unwrap();
        cache.keep("p", "key", b"program").unwrap();
        assert_eq!(cache.find("p", "key"), Ok(Some(b"program".to_vec())));
        cache
    }

    #[test]
    fn cached_program_is_found_by_key() {
        let folder = tempfile::tempdir().unwrap();
        let cache = filled(&folder.path().join("a/b"));
        assert_eq!(cache.find("q", "key"), Ok(None));
        assert!(cache.find("p", "another key").is_err());
        cache.keep("p", "another key", b"new").unwrap();
        assert_eq!(cache.find("p", "another key"), Ok(Some(b"new".to_vec())));
    }

    #[test]
    fn altered_cache_entry_is_refused() {
        type Plant = fn(&Path);
        let plants: [(Plant, &str); 7] = [
            (|p| std::fs::write(p, "planted").unwrap(), "has changed since it was compiled"),
            (
                |p| std::fs::remove_file(p.with_extension("key")).unwrap(),
                "has changed since it was compiled",
            ),
            (|p| mode(p, 0o775), "can be changed by others (mode 775"),
            (|p| mode(&p.with_extension("key"), 0o666), "can be changed by others (mode 666"),
            (
                |p| {
                    std::fs::rename(p, p.with_extension("x")).unwrap();
                    symlink("p.x", p).unwrap();
                },
                "is a symbolic link",
            ),
            (
                |p| {
                    std::fs::remove_file(p).unwrap();
                    std::fs::create_dir(p).unwrap();
                },
                "is not a regular file",
            ),
            (
                |p| {
                    if nodegauge_os::is_root() {
                        chown(p, Some(NOBODY), None).unwrap()
                    } else {
                        mode(p, 0o777)
                    }
                },
                if nodegauge_os::is_root() {
                    "belongs to another user (65534)"
                } else {
                    "can be changed by others"
                },
            ),
        ];
        for (plant, why) in plants {
            let folder = tempfile::tempdir().unwrap();
            let cache = filled(&folder.path().join("cache"));
            plant(&cache.path().join("p"));
            let error = cache.find("p", "key").unwrap_err();
            assert!(error.contains(why), "{error}, not {why}");
        }
    }

    #[test]
    fn folders_writable_by_other_users_are_refused() {
        let outer = tempfile::tempdir().unwrap();
        let open = |name: &str| ProgramCache::open(&outer.path().join(name));
        let refused = |name: &str, why: &str| {
            let error = open(name).unwrap_err();
            assert!(error.contains(why), "{error}, not {why}");
        };
        open("own/cache").unwrap();
        mode(&outer.path().join("own/cache"), 0o755);
        open("own/cache").unwrap();
        mode(&outer.path().join("own/cache"), 0o770);
        refused("own/cache", "cache can be changed by others (mode 770)");
        mode(&outer.path().join("own/cache"), 0o700);
        mode(&outer.path().join("own"), 0o777);
        refused("own/cache", "other users can replace files in ");
        mode(&outer.path().join("own"), 0o1777);
        open("own/cache").unwrap();
        symlink("own", outer.path().join("link")).unwrap();
        refused("link/cache", "link is a symbolic link or not a folder");
        symlink("cache", outer.path().join("own/link")).unwrap();
        refused("own/link", "own/link is a symbolic link or not a folder");
        std::fs::write(outer.path().join("file"), "").unwrap();
        refused("file", "file is a symbolic link or not a folder");
        if nodegauge_os::is_root() {
            chown(outer.path().join("own/cache"), Some(NOBODY), None).unwrap();
            refused("own/cache", "cache belongs to another user (65534)");
            chown(outer.path().join("own"), Some(NOBODY), None).unwrap();
            refused("own/cache", "own (owner 65534");
        }
    }

    #[test]
    fn cache_folder_is_read_from_environment() {
        let folder = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> =
                set.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            cache_folder(move |name| {
                set.iter().find(|(n, _)| n == name).map(|(_, value)| value.into())
            })
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(folder(&[("NODEGAUGE_CACHE_DIR", "/a"), ("HOME", "/h")]), path("/a"));
        assert_eq!(folder(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]), path("/x/nodegauge"));
        assert_eq!(folder(&[("HOME", "/h")]), path("/h/.cache/nodegauge"));
        let relative = [("XDG_CACHE_HOME", "here"), ("HOME", "/h")];
        assert_eq!(folder(&relative), path("/h/.cache/nodegauge"));
        assert_eq!(folder(&[]), None);
    }
}
