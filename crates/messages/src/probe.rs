//! The probe: compiled by the site's wrapper, kept until the MPI, the compiler or the text change.

use crate::{GAUGE, MessagesError};
use nodegauge_measure::{Notice, NoticeId};
use nodegauge_toolchain::mpi::Mpi;
use nodegauge_toolchain::{CompileLimits, ProgramCache, Scratch};
use std::collections::hash_map::DefaultHasher;
use std::fs::Permissions;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Its text.
const SOURCES: [(&str, &str); 4] = [
    ("messages.c", include_str!("../../../probes/messages.c")),
    ("messages_patterns.h", include_str!("../../../probes/messages_patterns.h")),
    ("messages_shared_line.h", include_str!("../../../probes/messages_shared_line.h")),
    ("messages_measure.h", include_str!("../../../probes/messages_measure.h")),
];
/// How it is compiled.
const FLAGS: [&str; 3] = ["-std=c99", "-O2", "-pthread"];

/// A probe that is ready to be started.
#[derive(Debug)]
pub struct Probe {
    /// Where it is.
    pub path: PathBuf,
    /// Why it could not be kept for later runs, or why one that was kept is not run.
    pub notices: Vec<Notice>,
    /// Holds it until the run is over.
    _folder: Scratch,
}

/// Where compiled probes live: `NODEGAUGE_CACHE_DIR`, else the XDG cache folder.
pub fn cache_folder(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("NODEGAUGE_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("nodegauge")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/nodegauge")))
}

/// What the probe of an MPI depends on.
fn key(mpi: &Mpi) -> String {
    let path = std::fs::canonicalize(&mpi.path).unwrap_or_else(|_| mpi.path.clone());
    let compiler = mpi.compiler.version.as_deref().unwrap_or("?");
    let (command, given) = (&mpi.compiler.command, mpi.path.display());
    let (path, library, flags) = (path.display(), &mpi.library, FLAGS.join(" "));
    let sources = SOURCES.map(|(name, source)| format!("{name}\n{source}\n")).concat();
    format!("{command}\n{given}\n{path}\n{library}\n{compiler}\n{flags}\n{sources}")
}

/// The probe of an MPI, from the cache or compiled now.
///
/// # Errors
/// When it does not compile, or nothing can be written anywhere.
pub fn build(
    mpi: &Mpi,
    cache: Option<&Path>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Probe, MessagesError> {
    let key = key(mpi);
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let name = format!("messages-{:016x}", hasher.finish());
    let cache = cache.ok_or_else(|| "there is no home folder".to_owned());
    let cache = cache.and_then(ProgramCache::open);
    let mut notices = Vec::new();
    let mut notice = |text: String| notices.push(Notice::new(NoticeId::Method, GAUGE, text));
    let kept = cache.as_ref().map_or(Ok(None), |cache| cache.find(&name, &key));
    let program = match kept {
        Ok(Some(program)) => program,
        other => {
            let program = compile(mpi, interrupted)?;
            if let Err(why) = other {
                notice(format!("a probe that was kept is not run but compiled anew: {why}"));
            }
            let keep = |cache: &ProgramCache| {
                let failed = |cause| format!("cannot write {}: {cause}", cache.path().display());
                cache.keep(&name, &key, &program).map_err(failed)
            };
            if let Err(why) = cache.as_ref().map_err(String::clone).and_then(keep) {
                notice(format!("the compiled probe is not kept for later runs: {why}"));
            }
            program
        }
    };
    // Beside those that are kept: other hosts see that folder too, and programs may run there.
    let beside = cache.ok().and_then(|cache| Scratch::new_in(cache.path()).ok());
    let folder = beside.map_or_else(Scratch::new, Ok)?;
    let path = folder.path().join(name);
    let write = std::fs::write(&path, program)
        .and_then(|()| std::fs::set_permissions(&path, Permissions::from_mode(0o700)));
    write.map_err(|cause| MessagesError::write(&path, &cause))?;
    Ok(Probe { path, notices, _folder: folder })
}

/// What the wrapper of an MPI makes of the sources.
fn compile(mpi: &Mpi, interrupted: &dyn Fn() -> bool) -> Result<Vec<u8>, MessagesError> {
    let scratch = Scratch::new()?;
    for (name, text) in SOURCES {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).map_err(|cause| MessagesError::write(&path, &cause))?;
    }
    let source = scratch.path().join(SOURCES[0].0);
    let flags = FLAGS.map(str::to_owned);
    let (limit, made) = (CompileLimits::USUAL.compile, (&scratch, "messages"));
    let program = mpi.compiler.compile(limit, (&[&source], &flags), made, interrupted)?;
    std::fs::read(&program.path).map_err(|cause| MessagesError::write(&program.path, &cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_user_says() {
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
        assert_eq!(folder(&[]), None);
    }
}
