//! Search for the shared library of an MPI without a compiler. The name of the library file determines its ABI.

use super::{LauncherKind, MpiAbi, abis_of_launcher};
use crate::search::{self, expand};
use std::path::{Path, PathBuf};

/// Library folders below the root of an installation with `bin/mpirun`.
const BELOW: [&str; 5] =
    ["lib", "lib64", "lib/release", "lib/*-linux-gnu", "lib/*-linux-gnu/openmpi/lib"];

/// Returns the library whose ranks a launcher of this kind can start. The installation of the launcher is searched
/// first, along the launcher's symbolic links, and then the folders of the dynamic linker.
pub(super) fn library_of_launcher(
    launcher: &Path,
    kind: LauncherKind,
) -> Option<(PathBuf, &'static MpiAbi)> {
    let real = launcher.canonicalize().ok();
    let roots = [Some(launcher.to_owned()), real];
    let roots = roots.iter().flatten().filter_map(|path| path.parent()?.parent());
    let beside = roots.flat_map(|root| BELOW.iter().flat_map(move |below| expand(root, below)));
    let environment = search::LIBRARIES.iter().filter_map(std::env::var_os);
    let named: Vec<PathBuf> =
        environment.flat_map(|path| search::folders(&path).collect::<Vec<_>>()).collect();
    let folders: Vec<PathBuf> = beside.chain(named).chain(search::system_folders()).collect();
    library_in(&folders, kind)
}

/// Returns the first library with the most likely ABI of the launcher's ranks.
fn library_in(folders: &[PathBuf], kind: LauncherKind) -> Option<(PathBuf, &'static MpiAbi)> {
    for abi in abis_of_launcher(kind, |_| false) {
        for folder in folders {
            let mut paths = abi.files.iter().map(|name| folder.join(name));
            if let Some(path) = paths.find(|path| path.is_file()) {
                return Some((path, abi));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_that_of_the_launchers_family() {
        let root = tempfile::tempdir().unwrap();
        let (bin, lib) = (root.path().join("bin"), root.path().join("lib"));
        std::fs::create_dir(&bin).unwrap();
        std::fs::create_dir(&lib).unwrap();
        let mpirun = bin.join("mpirun");
        std::fs::write(&mpirun, "").unwrap();
        let found = |kind| {
            let (path, abi) = library_in(std::slice::from_ref(&lib), kind)?;
            Some((path, abi.title))
        };
        assert_eq!(found(LauncherKind::Hydra), None);
        let make = |name: &str| std::fs::write(lib.join(name), "").unwrap();
        make("libmpi_abi.so.0");
        let standard = (lib.join("libmpi_abi.so.0"), "the ABI of MPI 5");
        assert_eq!(found(LauncherKind::OpenMpi), Some(standard.clone()));
        make("libmpi.so.12");
        make("libmpich.so.12");
        let own = Some((lib.join("libmpich.so.12"), "MPICH's ABI"));
        assert_eq!(found(LauncherKind::Hydra), own);
        assert_eq!(found(LauncherKind::OpenMpi), Some(standard));
        let beside = library_of_launcher(&mpirun, LauncherKind::Hydra);
        assert_eq!(beside.map(|(path, abi)| (path, abi.title)), own);
    }
}
