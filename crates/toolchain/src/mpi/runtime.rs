//! Search for the shared library of an MPI installation without a compiler. The file name of the library determines
//! its ABI.

use super::{MpiAbi, launcher_abis};
use crate::search::{self, matching_paths};
use nodegauge_os::mpi_abi::MpiImplementation;
use std::path::{Path, PathBuf};

/// Library folders below the root of an installation with `bin/mpirun`.
const BELOW: [&str; 5] =
    ["lib", "lib64", "lib/release", "lib/*-linux-gnu", "lib/*-linux-gnu/openmpi/lib"];

/// Returns a library whose ranks this launcher can start, with its ABI. The folders of the launcher's installation are
/// searched first, along its symbolic links, and then the folders of the dynamic linker.
pub(super) fn compatible_library(
    launcher: &Path,
    own: &MpiImplementation,
) -> Option<(PathBuf, &'static MpiAbi)> {
    let real = launcher.canonicalize().ok();
    let roots = [Some(launcher.to_owned()), real];
    let roots = roots.iter().flatten().filter_map(|path| path.parent()?.parent());
    let below_roots =
        roots.flat_map(|root| BELOW.iter().flat_map(move |below| matching_paths(root, below)));
    let environment = search::LIBRARY_PATH_VARIABLES.iter().filter_map(std::env::var_os);
    let named: Vec<PathBuf> =
        environment.flat_map(|path| search::folders(&path).collect::<Vec<_>>()).collect();
    let folders: Vec<PathBuf> = below_roots.chain(named).chain(search::system_folders()).collect();
    library_in(&folders, own)
}

/// Returns the library in these folders whose ABI is most likely that of the launcher's ranks; `None` if there is none.
fn library_in(folders: &[PathBuf], own: &MpiImplementation) -> Option<(PathBuf, &'static MpiAbi)> {
    for abi in launcher_abis(Some(own), |_| false) {
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
    use nodegauge_os::mpi_abi::implementations;

    #[test]
    fn library_of_launcher_family_is_found() {
        let root = tempfile::tempdir().unwrap();
        let (bin, lib) = (root.path().join("bin"), root.path().join("lib"));
        std::fs::create_dir(&bin).unwrap();
        std::fs::create_dir(&lib).unwrap();
        let mpirun = bin.join("mpirun");
        std::fs::write(&mpirun, "").unwrap();
        let own = |library: &str| implementations().find(|own| own.library == library).unwrap();
        let found = |library: &str| {
            let (path, abi) = library_in(std::slice::from_ref(&lib), own(library))?;
            Some((path, abi.title))
        };
        assert_eq!(found("MPICH"), None);
        let make = |name: &str| std::fs::write(lib.join(name), "").unwrap();
        make("libmpi_abi.so.0");
        let standard = (lib.join("libmpi_abi.so.0"), "the ABI of MPI 5");
        assert_eq!(found("Open MPI"), Some(standard.clone()));
        make("libmpi.so.12");
        make("libmpich.so.12");
        let mpich = Some((lib.join("libmpich.so.12"), "MPICH's ABI"));
        assert_eq!(found("MPICH"), mpich);
        assert_eq!(found("Open MPI"), Some(standard));
        let library_abi = compatible_library(&mpirun, own("MPICH"));
        assert_eq!(library_abi.map(|(path, abi)| (path, abi.title)), mpich);
    }
}
