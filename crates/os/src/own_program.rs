//! Path of the running program.

use std::cell::RefCell;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

thread_local! {
    static REPLACEMENT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls `run`; during the call, [`own_program`] returns `program` in this thread. Tests need this, because a test
/// binary does not have the commands with which the program starts itself, and would run its tests instead.
pub fn with_own_program<R>(program: String, run: impl FnOnce() -> R) -> R {
    REPLACEMENT.set(Some(program));
    let result = run();
    REPLACEMENT.set(None);
    result
}

/// Link of procfs to the running program. The link stays valid if the program file is replaced or removed, and
/// its name is ASCII even if the name of the file is not UTF-8.
const LINK: &str = "/proc/self/exe";

/// Returns the path by which this process starts its own program as a child process: a link of procfs, or without
/// procfs the path of the running program. Launchers and other hosts must use [`own_program_file`].
///
/// # Errors
/// Fails if there is neither.
pub fn own_program() -> io::Result<String> {
    if let Some(program) = REPLACEMENT.with_borrow(Clone::clone) {
        return Ok(program);
    }
    if Path::new(LINK).exists() {
        return Ok(LINK.to_owned());
    }
    in_utf8(started_path()?)
}

/// Gives this process the name of the program if it was started by [`own_program`]. Otherwise, its name in lists of
/// processes would be `exe`, the name of the link.
pub fn set_process_name(name: &CStr) {
    if std::env::args_os().next().is_some_and(|program| program == LINK) {
        // SAFETY: the kernel copies the text, of which it uses at most 15 bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}

/// Returns the path of the file of the running program, for programs that start it: launchers, also on other hosts.
///
/// # Errors
/// Fails if the path is unknown, or if it is not UTF-8, because words of commands are texts.
pub fn own_program_file() -> io::Result<String> {
    in_utf8(std::env::current_exe().or_else(|_| started_path())?)
}

/// Returns the path by which this program was started, as the kernel has passed it to this process.
fn started_path() -> io::Result<PathBuf> {
    // SAFETY: the call has no preconditions.
    let address = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    if address.is_null() {
        return Err(io::Error::other("the kernel does not report the path of the running program"));
    }
    // SAFETY: the kernel has written a text with a terminating zero there, which lives as long as the process.
    let path = unsafe { CStr::from_ptr(address) };
    let path = std::path::absolute(OsStr::from_bytes(path.to_bytes()))?;
    // The current folder may have changed, or the file may have been removed.
    if path.is_file() { Ok(path) } else { Err(io::ErrorKind::NotFound.into()) }
}

fn in_utf8(path: PathBuf) -> io::Result<String> {
    path.into_os_string()
        .into_string()
        .map_err(|path| io::Error::other(format!("{} is not UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn paths_of_own_program_lead_to_its_file() {
        let identity = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino()));
        let own = identity(&std::env::current_exe().unwrap()).unwrap();
        for path in [own_program().unwrap(), own_program_file().unwrap()] {
            assert_eq!(identity(Path::new(&path)).unwrap(), own, "{path}");
        }
        assert_eq!(identity(&started_path().unwrap()).unwrap(), own);
    }

    #[test]
    fn non_utf8_path_is_reported() {
        let path = PathBuf::from(OsStr::from_bytes(b"/opt/n\xff/nodegauge"));
        let refused = in_utf8(path).unwrap_err().to_string();
        assert_eq!(refused, "/opt/n\u{fffd}/nodegauge is not UTF-8");
    }
}
