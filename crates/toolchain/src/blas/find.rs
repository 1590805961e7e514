//! Search for BLAS libraries in the folders of the dynamic linker and of the distribution, in the folders of
//! environment modules, and in the default locations of vendors.

use super::info::BlasVendor;
use crate::ToolchainError;
use crate::search::{self, matching_paths};
use nodegauge_measure::Failure;
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// File names of BLAS libraries by vendor. In each folder, the first existing file of a vendor is used.
const FILES: [(BlasVendor, &[&str]); 4] = [
    (
        BlasVendor::OpenBlas,
        &["libopenblas.so.0", "libopenblas.so", "libopenblasp.so.0", "libopenblaso.so.0"],
    ),
    (
        BlasVendor::Blis,
        &["libblis.so.4", "libblis.so.5", "libblis.so.3", "libblis.so", "libblis-mt.so"],
    ),
    (BlasVendor::Mkl, &["libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"]),
    (BlasVendor::ArmPl, &["libarmpl_lp64.so", "libarmpl.so", "libarmpl_lp64_mp.so"]),
];

/// Default locations of vendors; `*` matches any characters within one folder name.
const VENDOR_FOLDERS: [&str; 8] = [
    "/opt/intel/oneapi/mkl/*/lib",
    "/opt/intel/oneapi/mkl/*/lib/intel64",
    "/opt/intel/mkl/lib/intel64",
    "/opt/AMD/aocl/*/*/lib",
    "/opt/AMD/aocl/*/*/lib_LP64",
    "/opt/AMD/amd-blis/lib/LP64",
    "/opt/arm/*/lib",
    "/opt/OpenBLAS/lib",
];

/// Environment variables with the root folder of an installation, which environment modules and vendors' scripts set.
const ROOTS: [&str; 13] = [
    "MKLROOT",
    "AOCL_ROOT",
    "ARMPL_DIR",
    "OPENBLAS_ROOT",
    "OPENBLAS_HOME",
    "OPENBLAS_DIR",
    "BLIS_ROOT",
    "BLIS_HOME",
    "BLIS_DIR",
    "EBROOTOPENBLAS",
    "EBROOTBLIS",
    "EBROOTIMKL",
    "EBROOTAOCLMINBLAS",
];

/// Requested BLAS library, e.g. `openblas`, `/opt/lib/libblis.so`, `openblas@SkylakeX` or `builtin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlasRequest {
    /// Name of a vendor or path of a library, as typed.
    pub name: String,
    /// Name of the kernels that the library must use, in the spelling of the library.
    pub kernel: Option<String>,
}

impl BlasRequest {
    /// True if the user requests the kernels that are compiled into this program.
    pub fn is_builtin(&self) -> bool {
        ["builtin", "built-in", "gemm"].contains(&self.name.to_lowercase().as_str())
    }
}

impl FromStr for BlasRequest {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (name, kernel) = match text.rsplit_once('@') {
            // A path may also contain '@', but the name of a kernel contains no slash.
            Some((name, kernel)) if !kernel.contains('/') && !kernel.is_empty() => {
                (name, Some(kernel.to_owned()))
            }
            _ => (text, None),
        };
        Ok(Self { name: name.to_owned(), kernel })
    }
}

/// File that may be a BLAS library, according to its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlasCandidate {
    /// Path of the file, with symbolic links resolved.
    pub path: PathBuf,
    /// Vendor according to the file name. The library itself may report another vendor.
    pub vendor: BlasVendor,
}

/// Returns all libraries in the usual folders and in the folders that environment variables specify, without
/// duplicates.
pub fn find_candidates(variable: impl Fn(&str) -> Option<OsString>) -> Vec<BlasCandidate> {
    let mut found: Vec<BlasCandidate> = Vec::new();
    for folder in folders(variable) {
        for (vendor, files) in FILES {
            let file = files.iter().map(|file| folder.join(file)).find(|path| path.is_file());
            let Some(path) = file.and_then(|path| path.canonicalize().ok()) else { continue };
            if found.iter().all(|known| known.path != path) {
                found.push(BlasCandidate { path, vendor });
            }
        }
    }
    found
}

/// Returns the library among `found` that matches `request`.
///
/// # Errors
/// Fails when no library matches.
pub fn resolve(
    request: &BlasRequest,
    found: &[BlasCandidate],
) -> Result<BlasCandidate, ToolchainError> {
    let path = Path::new(&request.name);
    if search::is_path(path) && path.is_file() {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        return Ok(BlasCandidate { path, vendor: BlasVendor::Other });
    }
    let wanted = request.name.to_lowercase();
    let alias = match wanted.as_str() {
        "aocl" | "amd" => "blis",
        "onemkl" | "intel" => "mkl",
        other => other,
    };
    let named = found.iter().find(|candidate| candidate.vendor.name().to_lowercase() == alias);
    named.cloned().ok_or_else(|| {
        let paths: Vec<String> = found.iter().map(|c| c.path.display().to_string()).collect();
        let among = if paths.is_empty() {
            String::new()
        } else {
            format!(" (available: {})", paths.join(", "))
        };
        let hint =
            "give the path of a library with --blas /path/to/lib.so, or install one, e.g. libopenblas0-pthread";
        ToolchainError::Unusable(
            Failure::missing(format!("no BLAS library {:?} was found{among}", request.name))
                .hint(search::with_path_hint(&request.name, hint)),
        )
    })
}

/// Returns the folders that are searched, most specific first.
fn folders(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for paths in search::LIBRARY_PATH_VARIABLES.iter().filter_map(|name| variable(name)) {
        folders.extend(search::folders(&paths));
    }
    for root in ROOTS.iter().filter_map(|name| variable(name)).map(PathBuf::from) {
        folders.extend(["lib", "lib64", "lib/intel64", "lib_LP64"].map(|below| root.join(below)));
    }
    let vendors = VENDOR_FOLDERS.iter().flat_map(|pattern| matching_paths(Path::new("/"), pattern));
    folders.extend(vendors.filter(|folder| folder.is_dir()));
    for system in search::system_folders() {
        // On Debian, each alternative library has a separate folder, e.g. openblas-pthread.
        for pattern in ["blis*", "openblas*"] {
            folders.extend(matching_paths(&system, pattern).into_iter().rev());
        }
        folders.push(system);
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blas_request_has_library_and_optional_kernels() {
        let request = |text: &str| text.parse::<BlasRequest>().unwrap();
        assert_eq!(request("openblas"), BlasRequest { name: "openblas".into(), kernel: None });
        assert_eq!(request("blis@skx").kernel.as_deref(), Some("skx"));
        assert_eq!(request("/opt/a@b/lib.so").kernel, None);
        assert!(request("builtin").is_builtin());
    }

    #[test]
    fn library_in_environment_folder_is_found_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libopenblas.so.0"), "").unwrap();
        std::os::unix::fs::symlink("libopenblas.so.0", folder.path().join("libopenblas.so"))
            .unwrap();
        let path = folder.path().join("libopenblas.so.0").canonicalize().unwrap();
        let variable = |name: &str| {
            search::LIBRARY_PATH_VARIABLES.contains(&name).then(|| folder.path().into())
        };
        let found = find_candidates(variable);
        assert_eq!(found.iter().filter(|candidate| candidate.path == path).count(), 1);
        assert_eq!(found[0].path, path);
        let by_name = resolve(&"OpenBLAS".parse().unwrap(), &found).unwrap();
        assert_eq!(by_name.path, path);
        let error = resolve(&"essl".parse().unwrap(), &found[..1]).unwrap_err().to_string();
        assert!(error.starts_with("no BLAS library \"essl\" was found (available: "), "{error}");
        // The test uses a file in the current folder, which is the folder of the crate.
        assert!(Path::new("Cargo.toml").is_file());
        let path_error = resolve(&"Cargo.toml".parse().unwrap(), &found).unwrap_err().to_string();
        assert!(
            path_error.ends_with("; ./Cargo.toml is the file in the current folder"),
            "{path_error}"
        );
        let given = resolve(&"./Cargo.toml".parse().unwrap(), &found).unwrap();
        assert_eq!(given.path, Path::new("Cargo.toml").canonicalize().unwrap());
    }
}
