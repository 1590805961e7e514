//! Build of the probe: compiled with an MPI's compiler wrapper and cached until the MPI, the compiler or the source
//! changes; without a wrapper, the precompiled probe is used.

use crate::{GAUGE, MessagesError};
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_toolchain::mpi::{Mpi, MpiAbi, MpiLibrary, MpiParts};
use nodegauge_toolchain::{CompileLimits, Compiler, ProgramCache, ProgramReach, ScratchFolder};
use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::fs::Permissions;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Name and text of each source file.
const SOURCES: [(&str, &str); 4] = [
    ("messages.c", include_str!("../../probes/messages.c")),
    ("messages_patterns.h", include_str!("../../probes/messages_patterns.h")),
    ("messages_shared_line.h", include_str!("../../probes/messages_shared_line.h")),
    ("messages_measure.h", include_str!("../../probes/messages_measure.h")),
];
/// Compiler flags of the probe, compiled or precompiled.
const FLAGS: &str = env!("PROBE_FLAGS");

// Precompiled probe for each ABI, with the first name of the ABI's library files. The build script generates this list.
include!(concat!(env!("OUT_DIR"), "/carried.rs"));

/// Returns the precompiled probe for MPI libraries with this ABI.
fn embedded_probe(abi: &MpiAbi) -> Result<&'static [u8], Failure> {
    let probe = CARRIED.iter().find(|(name, _)| *name == abi.files[0]);
    let Some((_, program)) = probe else {
        return Err(Failure::missing(format!("there is no precompiled probe for {abi}")));
    };
    Ok(program)
}

/// Probe that is ready to start.
#[derive(Debug)]
pub struct Probe {
    /// Path of the probe's executable.
    pub path: PathBuf,
    /// Arguments of the executable that precede the arguments of the measurement.
    pub arguments: Vec<String>,
    /// Notices on why the compiled probe was not cached, or why a cached probe is not used.
    pub notices: Vec<Notice>,
    /// Temporary folder of the executable; removed when this value is dropped.
    _folder: ScratchFolder,
}

/// Returns the probe of an MPI for the hosts of `reach`: a cached or newly compiled probe, or the precompiled probe if
/// there is no compiler wrapper.
///
/// Fails if the probe does not compile, or if it cannot be written to any folder.
pub fn build(
    mpi: &Mpi,
    cache: Option<&Path>,
    reach: ProgramReach,
    interrupted: &dyn Fn() -> bool,
) -> Result<Probe, MessagesError> {
    let cache = cache.ok_or_else(|| "there is no home folder".to_owned());
    let cache = cache.and_then(ProgramCache::open);
    let mut arguments = Vec::new();
    let mut notices = Vec::new();
    let program = match &mpi.parts {
        MpiParts::Wrapper { compiler, path } => {
            let key = key(compiler, path, &mpi.library);
            let cache = cache.as_ref().map_err(String::as_str);
            let mut report =
                |text: String| notices.push(Notice::new(NoticeId::Method, GAUGE, text));
            Cow::from(cached_or_compiled(compiler, &key, cache, &mut report, interrupted)?)
        }
        MpiParts::Runtime { path, abi } => {
            arguments.push(format!("library={}", path.display()));
            Cow::from(embedded_probe(abi)?)
        }
    };
    // Unlike the temporary folder, the cache folder is usually visible to other hosts.
    let folder = ScratchFolder::for_programs(cache.as_ref().ok().map(ProgramCache::path), reach)?;
    let path = folder.path().join("messages-probe");
    let write = std::fs::write(&path, program)
        .and_then(|()| std::fs::set_permissions(&path, Permissions::from_mode(0o700)));
    write.map_err(|cause| MessagesError::unwritable_path(&path, &cause))?;
    let path = folder.executable_path(path)?;
    notices.extend(folder.notice(GAUGE));
    Ok(Probe { path, arguments, notices, _folder: folder })
}

/// Returns the key of a compiled probe in the cache: everything on which the compiled probe depends.
fn key(compiler: &Compiler, given: &Path, library: &MpiLibrary) -> String {
    let path = std::fs::canonicalize(given).unwrap_or_else(|_| given.to_owned());
    let version = compiler.version.as_deref().unwrap_or("?");
    let command = &compiler.command;
    let given = given.display();
    let path = path.display();
    let sources = SOURCES.map(|(name, source)| format!("{name}\n{source}\n")).concat();
    format!("{command}\n{given}\n{path}\n{library}\n{version}\n{FLAGS}\n{sources}")
}

/// Returns the probe from the cache, or compiles it and stores it in the cache. Problems with the cache are passed to
/// `report`.
fn cached_or_compiled(
    compiler: &Compiler,
    key: &str,
    cache: Result<&ProgramCache, &str>,
    report: &mut dyn FnMut(String),
    interrupted: &dyn Fn() -> bool,
) -> Result<Vec<u8>, MessagesError> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let name = format!("messages-{:016x}", hasher.finish());
    let kept = cache.map_or(Ok(None), |cache| cache.find(&name, key));
    if let Ok(Some(program)) = kept {
        return Ok(program);
    }
    let program = compile(compiler, interrupted)?;
    if let Err(why) = kept {
        report(format!("the cached probe is not used, and the probe was compiled again: {why}"));
    }
    let stored = cache.map_err(str::to_owned).and_then(|programs| {
        let stored = programs.keep(&name, key, &program);
        stored.map_err(|cause| format!("cannot write {}: {cause}", programs.path().display()))
    });
    if let Err(why) = stored {
        report(format!("the compiled probe is not cached for later runs: {why}"));
    }
    Ok(program)
}

/// Compiles the sources with a wrapper.
fn compile(compiler: &Compiler, interrupted: &dyn Fn() -> bool) -> Result<Vec<u8>, MessagesError> {
    let scratch = ScratchFolder::new()?;
    for (name, text) in SOURCES {
        let path = scratch.path().join(name);
        std::fs::write(&path, text)
            .map_err(|cause| MessagesError::unwritable_path(&path, &cause))?;
    }
    let source = scratch.path().join(SOURCES[0].0);
    let flags: Vec<String> = FLAGS.split(' ').map(str::to_owned).collect();
    let limit = CompileLimits::DEFAULT.compile;
    let program = compiler.compile(limit, &[&source], &flags, &scratch, "messages", interrupted)?;
    nodegauge_os::read_file(&program.path, nodegauge_os::MAX_PROGRAM_BYTES)
        .map_err(|cause| MessagesError::unwritable_path(&program.path, &cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_toolchain::mpi::abi::MPI_ABIS;

    #[test]
    fn each_abi_has_a_probe_and_is_documented() {
        let chapter =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mpi.md"))
                .unwrap();
        for abi in &MPI_ABIS {
            assert!(!embedded_probe(abi).unwrap().is_empty(), "{abi}");
            for file in abi.files {
                assert!(chapter.contains(&format!("`{file}`")), "{file} in docs/mpi.md");
            }
        }
    }
}
