//! Where a document goes. What is there is replaced by a file that is complete; what is no regular file (a
//! device, a pipe, the terminal) is written to and never replaced, and links are followed.

use crate::failure::Failure;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Where `--json` or `--csv` goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sink {
    /// Standard output, which then holds nothing else.
    Stdout,
    /// A file, or something else that has a name.
    File(PathBuf),
}

impl From<&str> for Sink {
    /// `-`, or a path; one that leads to standard output, such as `/dev/stdout`, is that.
    fn from(text: &str) -> Self {
        let is_stdout = || std::fs::metadata(text).is_ok_and(|found| is(&found, io::stdout()));
        if text == "-" || is_stdout() { Self::Stdout } else { Self::File(PathBuf::from(text)) }
    }
}

impl Sink {
    /// Writes `text` as a whole: nobody reads a half, and a failed write leaves an old file as it was.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        self.write_parts([Ok(text)].into_iter())
    }

    /// The same of a text that is too long to be held as a whole; the first part that fails ends it.
    pub(crate) fn write_parts<T: AsRef<str>>(
        &self,
        mut parts: impl Iterator<Item = Result<T, Failure>>,
    ) -> Result<(), Failure> {
        let Self::File(path) = self else {
            return parts.try_for_each(|part| {
                super::write(part?.as_ref());
                Ok(())
            });
        };
        let cannot = |cause| cannot_write(path, &cause);
        let mut file = Target::of(path).and_then(Target::open).map_err(cannot)?;
        for part in parts {
            file.write_all(part?.as_ref().as_bytes()).map_err(cannot)?;
        }
        file.close().map_err(cannot)
    }

    /// Fails now, before anything is measured, when the file cannot be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Self::File(path) = self else { return Ok(()) };
        let checked = Target::of(path).and_then(|target| match target {
            Target::Special(_) => Ok(()),
            Target::Regular(path, old) => beside(&path, old.as_ref()).map(drop),
        });
        checked.map_err(|cause| cannot_write(path, &cause))
    }
}

/// What a path leads to.
enum Target {
    /// Something that is written in place.
    Special(PathBuf),
    /// A regular file, or none yet, behind all links.
    Regular(PathBuf, Option<Metadata>),
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        /// As many links as the kernel follows.
        const LINKS: usize = 40;
        if path.as_os_str().is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file has no name"));
        }
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            match std::fs::metadata(&path) {
                Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
                // Standard error is written in place wherever it goes, or what stands there is lost.
                Ok(found) if !found.is_file() || is(&found, io::stderr()) => {
                    return Ok(Self::Special(path));
                }
                Ok(found) => return Ok(Self::Regular(path.canonicalize()?, Some(found))),
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                Err(_) => {}
            }
            // A link to a file that is not there yet, or no link.
            let Ok(to) = std::fs::read_link(&path) else { return Ok(Self::Regular(path, None)) };
            path = path.parent().unwrap_or(Path::new("")).join(to);
        }
        Err(io::Error::other("too many links"))
    }

    fn open(self) -> io::Result<Opened> {
        Ok(match self {
            Self::Special(path) => Opened::Special(File::options().append(true).open(path)?),
            Self::Regular(path, old) => Opened::Regular(beside(&path, old.as_ref())?, path),
        })
    }
}

/// Where a text is written to.
enum Opened {
    /// In place.
    Special(File),
    /// Beside the file that it becomes when it is closed.
    Regular(NamedTempFile, PathBuf),
}

impl Opened {
    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::Special(file) => file.write_all(text),
            Self::Regular(file, _) => file.write_all(text),
        }
    }

    fn close(self) -> io::Result<()> {
        if let Self::Regular(file, path) = self {
            file.as_file().sync_all()?;
            file.persist(path)?;
        }
        Ok(())
    }
}

/// A new file next to `path`, under a name that nobody can foresee, with the permissions of the `old` one or
/// those of any new file; removed unless it is made the file.
fn beside(path: &Path, old: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mode = old.map_or(0o666, |old| old.permissions().mode());
    let create = |path: &Path| File::options().write(true).create_new(true).mode(mode).open(path);
    let folder = folder.unwrap_or(Path::new("."));
    let file = tempfile::Builder::new().make_in(folder, create)?;
    if let Some(old) = old {
        file.as_file().set_permissions(old.permissions())?;
    }
    Ok(file)
}

/// Whether `found` is what `stream` writes to.
fn is(found: &Metadata, stream: impl AsFd) -> bool {
    let stream = stream.as_fd().try_clone_to_owned().map(File::from);
    let stream = stream.and_then(|stream| stream.metadata());
    stream.is_ok_and(|stream| (stream.dev(), stream.ino()) == (found.dev(), found.ino()))
}

fn cannot_write(path: &Path, cause: &io::Error) -> Failure {
    Failure::missing(format!("cannot write {}", path.display()))
        .cause(cause.to_string())
        .hint("give a file in a folder that exists and that you may write")
}
