//! Table of common compilers, with their locations and the flags that the literature uses for STREAM. A compiler family
//! is an entry of [`FAMILIES`].

use crate::CommandLine;
use crate::search::{self, is_program, matching_paths};
use std::path::{Path, PathBuf};

/// Family of compilers that accept the same flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompilerFamily {
    /// Name of the family.
    pub name: &'static str,
    /// Name of the C compiler's program.
    pub program: &'static str,
    /// Locations outside the search path; `*` matches any characters within one folder name. If several folders match,
    /// the last one in alphabetical order (the newest version) is used.
    pub locations: &'static [&'static str],
    /// Sets of flags, one per variant. The first variant is plain, and is also the default for a compiler that is
    /// given without flags.
    pub variants: &'static [&'static [&'static str]],
    /// Flag that enables OpenMP.
    pub openmp: &'static str,
}

/// Flag of gcc and clang that generates code for this processor; on Arm it has another name.
const NATIVE: &str = if cfg!(target_arch = "aarch64") { "-mcpu=native" } else { "-march=native" };

/// Known compiler families. If the compiler refuses the flags of a variant, the variant is omitted with a notice.
/// Therefore variants may use flags of newer versions or of a single vendor.
pub static FAMILIES: [CompilerFamily; 7] = [
    GCC,
    // AMD's AOCC is a clang, and is found by this entry if its folder is in the search path.
    CompilerFamily { name: "clang", program: "clang", variants: CLANG, ..GCC },
    CompilerFamily {
        name: "aocc",
        program: "clang",
        // Folder of the vendor's packages (AOCC user guide).
        locations: &["/opt/AMD/aocc-compiler-*/bin/clang"],
        variants: CLANG,
        ..GCC
    },
    CompilerFamily {
        name: "icx",
        program: "icx",
        locations: &[
            "/opt/intel/oneapi/compiler/latest/bin/icx",
            "/opt/intel/oneapi/compiler/*/bin/icx",
            "/opt/intel/oneapi/compiler/latest/linux/bin/icx",
        ],
        variants: INTEL,
        openmp: "-qopenmp",
    },
    CompilerFamily {
        name: "icc",
        program: "icc",
        locations: &["/opt/intel/oneapi/compiler/latest/linux/bin/intel64/icc"],
        variants: INTEL,
        openmp: "-qopenmp",
    },
    CompilerFamily {
        // NVIDIA HPC SDK, formerly PGI. Source: "HPC Compilers Reference Guide", -M options.
        name: "nvc",
        program: "nvc",
        locations: &["/opt/nvidia/hpc_sdk/*/*/compilers/bin/nvc"],
        variants: &[
            &["-O3", "-tp=native"],
            // This variant uses non-temporal stores.
            &["-O3", "-tp=native", "-Mmovnt"],
            &["-fast", "-tp=native"],
            &["-O3", "-tp=native", "-Mprefetch=distance:8"],
        ],
        openmp: "-mp",
    },
    CompilerFamily {
        // Arm Compiler for Linux. Source: "Arm C/C++ Compiler Developer and Reference Guide".
        name: "armclang",
        program: "armclang",
        locations: &["/opt/arm/arm-linux-compiler-*/bin/armclang"],
        variants: &[
            &["-O3", "-mcpu=native"],
            &["-O3", "-mcpu=native", "-ffreestanding"],
            &["-O3", "-mcpu=native", "-ffast-math"],
        ],
        ..GCC
    },
];

const GCC: CompilerFamily = CompilerFamily {
    name: "gcc",
    program: "gcc",
    locations: &[],
    variants: &[
        &["-O3", NATIVE],
        // This variant keeps loops that copy or fill arrays. gcc replaces them by memcpy and memset even with
        // -ffreestanding, because it assumes that these functions always exist (gcc manual, "Options That Control
        // Optimization" and "Standards").
        &["-O3", NATIVE, "-fno-tree-loop-distribute-patterns"],
        // This variant uses 512-bit vectors. On many processors with AVX-512, gcc uses 256-bit vectors by default (gcc
        // manual, "x86 Options").
        #[cfg(target_arch = "x86_64")]
        &["-O3", NATIVE, "-mprefer-vector-width=512"],
        // This variant uses software prefetch (gcc manual, "Options That Control Optimization").
        &["-O3", NATIVE, "-fprefetch-loop-arrays"],
        // Flags of published results for EPYC 7F52 and 7H12. They permit the compiler to vectorise sums.
        &["-O3", "-ffast-math", NATIVE],
    ],
    openmp: "-fopenmp",
};

/// Flags of clang and of compilers derived from it.
const CLANG: &[&[&str]] = &[
    &["-O3", NATIVE],
    // This variant uses non-temporal stores in vectorised loops, according to AOCC's user guide. It is used in
    // published results with AOCC 5.0 on EPYC. The clang of llvm.org refuses the flag.
    &["-O3", NATIVE, "-fnt-store"],
    // The compiler does not assume library functions, so it does not replace loops by calls.
    &["-O3", NATIVE, "-ffreestanding"],
    #[cfg(target_arch = "x86_64")]
    &["-O3", NATIVE, "-mprefer-vector-width=512"],
    &["-O3", "-ffast-math", NATIVE],
];

/// Flags of Intel's compilers, from the "Developer Guide and Reference" and Intel's notes on STREAM for Xeon and Xeon
/// Phi.
const INTEL: &[&[&str]] = &[
    &["-O3", "-xHost"],
    // This variant always uses non-temporal stores; by default, the compiler decides by a heuristic.
    &["-O3", "-xHost", "-qopt-streaming-stores=always"],
    // With this variant, the compiler does not replace Copy by a call of Intel's memcpy.
    &["-O3", "-xHost", "-qopt-streaming-stores=always", "-ffreestanding"],
    // This variant prefetches 64 cache lines ahead into level 2 and 8 lines ahead into level 1, as published for Xeon
    // Phi.
    &["-O3", "-xHost", "-qopt-streaming-stores=always", "-qopt-prefetch-distance=64,8"],
    &["-O3", "-xHost", "-qopt-streaming-stores=never"],
];

const UNKNOWN: &[&str] = &["-O3", "-march=native"];

/// Installed compiler of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledCompiler {
    /// Family of the compiler.
    pub family: &'static CompilerFamily,
    /// Command that starts the compiler: the name of the program if it is in the search path, otherwise its path.
    pub command: String,
}

impl InstalledCompiler {
    /// Returns one command per variant of flags. If `openmp` is true, the commands enable OpenMP.
    pub fn variants(&self, openmp: bool) -> Vec<CommandLine> {
        let more = openmp.then_some(self.family.openmp);
        self.family
            .variants
            .iter()
            .map(|flags| {
                let words = flags.iter().copied().chain(more).map(str::to_owned);
                CommandLine::new(self.command.clone(), words)
            })
            .collect()
    }
}

/// Returns the path of a family's compiler in the vendor's locations below `root`, and the command that starts it;
/// `None` if it is not installed there.
fn in_places(family: &CompilerFamily, root: &Path) -> Option<(PathBuf, String)> {
    let mut locations = family.locations.iter().flat_map(|place| matching_paths(root, place));
    let program = locations.find(|program| is_program(program))?;
    let command = program.display().to_string();
    Some((program, command))
}

/// Returns the installed compilers of all families. They are searched for in the search path `path` (in the form of
/// `PATH`) and in the vendors' locations below `root`. A compiler that is found several times is listed once.
pub fn find_installed_compilers(path: &std::ffi::OsStr, root: &Path) -> Vec<InstalledCompiler> {
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut found = Vec::new();
    for family in &FAMILIES {
        let on_path = search::folders(path)
            .map(|folder| folder.join(family.program))
            .find(|program| is_program(program))
            // Several families may have the same program name. A program in the search path belongs to the family that
            // has the name of the program.
            .filter(|_| family.name == family.program)
            .map(|program| (program, family.program.to_owned()));
        let Some((program, command)) = on_path.or_else(|| in_places(family, root)) else {
            continue;
        };
        let real = std::fs::canonicalize(&program).unwrap_or(program);
        if !seen.contains(&real) {
            seen.push(real);
            found.push(InstalledCompiler { family, command });
        }
    }
    found
}

/// Returns the default flags of a compiler that is given without flags.
pub fn usual_flags(program: &str) -> &'static [&'static str] {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program);
    FAMILIES
        .iter()
        .find(|family| family.program == name)
        .map_or(UNKNOWN, |family| family.variants[0])
}

/// Names of C compilers that belong to no family of the table, or to several.
const GENERIC_NAMES: [&str; 3] = ["cc", "c99", "mpicc"];

/// True if the program has the name of a known compiler. The folder of the program and a version in its name (`gcc-13`)
/// are ignored.
pub fn is_compiler(program: &str) -> bool {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program);
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let name = unversioned.strip_suffix('-').unwrap_or(name);
    GENERIC_NAMES.contains(&name) || FAMILIES.iter().any(|family| family.program == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn program(root: &Path, at: &str) {
        let path = root.join(at);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn compilers_are_found_on_the_path_and_in_vendor_folders() {
        let root = tempfile::tempdir().unwrap();
        program(root.path(), "bin/gcc");
        program(root.path(), "opt/AMD/aocc-compiler-4.2.0/bin/clang");
        program(root.path(), "opt/AMD/aocc-compiler-5.0.0/bin/clang");
        program(root.path(), "opt/nvidia/hpc_sdk/Linux_x86_64/24.9/compilers/bin/nvc");
        // An empty file is not a program, regardless of its name.
        std::fs::write(root.path().join("bin/icx"), "").unwrap();
        let path = root.path().join("bin").into_os_string();
        let found = find_installed_compilers(&path, root.path());
        let names: Vec<&str> = found.iter().map(|installed| installed.family.name).collect();
        assert_eq!(names, ["gcc", "aocc", "nvc"]);
        assert_eq!(found[0].command, "gcc");
        assert!(found[1].command.ends_with("aocc-compiler-5.0.0/bin/clang"), "{:?}", found[1]);
        assert!(found[2].variants(true)[0].to_string().ends_with("nvc -O3 -tp=native -mp"));
    }

    #[test]
    fn duplicate_compiler_is_listed_once() {
        let root = tempfile::tempdir().unwrap();
        program(root.path(), "opt/AMD/aocc-compiler-5.0.0/bin/clang");
        let path = root.path().join("opt/AMD/aocc-compiler-5.0.0/bin").into_os_string();
        let found = find_installed_compilers(&path, root.path());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].family.name, found[0].command.as_str()), ("clang", "clang"));
    }

    #[test]
    fn compiler_without_flags_gets_family_flags() {
        assert_eq!(usual_flags("/opt/nvidia/bin/nvc"), ["-O3", "-tp=native"]);
        assert_eq!(usual_flags("icx"), ["-O3", "-xHost"]);
        assert_eq!(usual_flags("gcc-12"), UNKNOWN);
    }

    #[test]
    fn compiler_is_known_by_its_name() {
        for program in ["gcc", "cc", "/usr/bin/gcc-13", "clang-18.1", "./icx"] {
            assert!(is_compiler(program), "{program}");
        }
        for program in ["-O1", "undefined", "/usr/lib", "gccx", ""] {
            assert!(!is_compiler(program), "{program}");
        }
    }

    #[test]
    fn family_variants_are_distinct_and_begin_with_plain_flags() {
        for family in &FAMILIES {
            let plain = family.variants[0];
            assert_eq!(plain.len(), 2, "{}", family.name);
            for (i, variant) in family.variants.iter().enumerate() {
                assert!(!family.variants[..i].contains(variant), "{} {variant:?}", family.name);
            }
        }
    }

    #[test]
    fn each_vendor_folder_identifies_its_compiler() {
        let root = tempfile::tempdir().unwrap();
        for place in FAMILIES.iter().flat_map(|family| family.locations) {
            program(root.path(), place.replace('*', "1.0").trim_start_matches('/'));
        }
        let found = find_installed_compilers("".as_ref(), root.path());
        let names: Vec<&str> = found.iter().map(|installed| installed.family.name).collect();
        assert_eq!(names, ["aocc", "icx", "icc", "nvc", "armclang"]);
    }
}
