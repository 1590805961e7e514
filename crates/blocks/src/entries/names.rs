//! Paths of a worker's files. Only the digits at the end differ between the files, so that making a path takes only
//! a few nanoseconds.

use std::ffi::{CStr, OsStr};
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum number of digits of a number.
const DIGITS: usize = 20;

/// Paths `PREFIX0`, `PREFIX1`, ... which are made one after another in the same buffer.
#[derive(Debug)]
pub(super) struct FileNames {
    /// Buffer with the latest path, and a zero byte at its end.
    path: Vec<u8>,
    /// Length of the prefix.
    prefix: usize,
}

impl FileNames {
    /// Creates the paths of a worker's files in `folder`. The names of the files begin with `kind`.
    pub(super) fn new(folder: &Path, kind: &str, worker: usize) -> Result<Self, Error> {
        let mut path = folder.as_os_str().as_bytes().to_vec();
        path.extend(format!("/{kind}.{worker}.").bytes());
        if path.contains(&0) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let prefix = path.len();
        path.reserve_exact(DIGITS + 1);
        Ok(Self { path, prefix })
    }

    /// Returns the path of file `number`.
    #[inline]
    pub(super) fn path(&mut self, number: u64) -> &CStr {
        let mut digits = [0; DIGITS + 1];
        let mut first = DIGITS;
        let mut rest = number;
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.path.truncate(self.prefix);
        self.path.extend_from_slice(&digits[first..]);
        // SAFETY: the prefix has no zero byte, digits have none, and the last byte of `digits` is zero.
        unsafe { CStr::from_bytes_with_nul_unchecked(&self.path) }
    }

    /// Returns the path that [`FileNames::path`] returned last.
    pub(super) fn latest_path(&self) -> PathBuf {
        let path = self.path.strip_suffix(&[0]).unwrap_or(&self.path);
        PathBuf::from(OsStr::from_bytes(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_end_with_the_file_number() {
        let mut names = FileNames::new(Path::new("/a/b"), "file", 3).unwrap();
        let mut path = |number| names.path(number).to_str().unwrap().to_owned();
        assert_eq!(path(0), "/a/b/file.3.0");
        assert_eq!(path(1907), "/a/b/file.3.1907");
        assert_eq!(path(9), "/a/b/file.3.9");
        assert_eq!(path(u64::MAX), "/a/b/file.3.18446744073709551615");
        assert_eq!(names.latest_path(), Path::new("/a/b/file.3.18446744073709551615"));
    }
}
