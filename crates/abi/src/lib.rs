//! MPI libraries by their binary interface (ABI), as data. Each row of [`MPI_ABIS`] describes an ABI: names of library
//! files, and values of handles and constants. If the ABI belongs to one implementation, the row also describes how its
//! wrapper and its launcher are recognised, and which variables its launchers set. Ranks use these definitions to call
//! an MPI library that they load at run time. The header of the message probe is also generated from them, because the
//! probe is compiled without an MPI library.
//!
//! Sources: <https://www.mpich.org/abi/> and MPICH's `mpi.h`; Open MPI's `mpi.h` of versions 3 to 5, in which handles
//! are addresses of symbols; the standard, MPI 5.0, chapter 20. This crate depends on no other crate, because a build
//! script also uses it.

#![forbid(unsafe_code)]

use std::fmt;

/// Binary interface of MPI libraries.
#[derive(Debug, PartialEq, Eq)]
pub struct MpiAbi {
    /// Name in messages and records, e.g. `Open MPI's ABI`.
    pub title: &'static str,
    /// Names of library files with this ABI, the most specific first. The first name identifies the ABI.
    pub files: &'static [&'static str],
    /// Implementation to which the ABI belongs; `None` for an ABI that several implementations provide in addition
    /// to their own.
    pub implementation: Option<MpiImplementation>,
    /// Values of the handles in [`MPI_HANDLES`].
    pub handles: MpiHandleValues,
    /// Values of the constants in [`MPI_CONSTANTS`].
    pub constants: &'static [(&'static str, i32)],
    /// Members of the struct `MPI_Status` in C.
    pub status: &'static str,
}

/// Implementation of MPI, including its derivatives: installation, launchers and their variables.
#[derive(Debug, PartialEq, Eq)]
pub struct MpiImplementation {
    /// Name of the library, which applies unless the output of the wrapper contains another name.
    pub library: &'static str,
    /// Kind of the launcher that starts ranks of the library. Slurm can also start them.
    pub launcher: LauncherKind,
    /// Name of the launcher in messages.
    pub launcher_title: &'static str,
    /// Suffix of wrapper and launcher if several MPIs are installed, e.g. `openmpi` in `mpicc.openmpi`.
    pub suffix: &'static str,
    /// Debian's package of the launcher.
    pub package: &'static str,
    /// Name prefixes of further library files. A program in Fortran or C++ may require only these.
    pub other_files: &'static [&'static str],
    /// Option with which the wrapper prints the name and the version of the library.
    pub wrapper_query: &'static str,
    /// Texts by which the output of the wrapper is recognised.
    pub wrapper_marks: &'static [WrapperMark],
    /// Texts by which the output of the launcher for `--version` is recognised.
    pub launcher_marks: &'static [LauncherMark],
    /// Variable that srun sets if it is called with `srun_option`.
    pub srun_variable: &'static str,
    /// Option of srun for ranks of this library.
    pub srun_option: &'static str,
    /// Variables of each launcher, in the order in which they are checked.
    pub variables: &'static [LauncherVariables],
}

/// Text that a compiler wrapper prints before the version of its library.
#[derive(Debug, PartialEq, Eq)]
pub struct WrapperMark {
    /// Text before the version.
    pub text: &'static str,
    /// Name of the library that prints this text.
    pub library: &'static str,
    /// True if the line must also contain `for` or `version`. Compilers print the text elsewhere, e.g. in paths.
    pub needs_words: bool,
}

/// Text in a line that a launcher prints for `--version`.
#[derive(Debug, PartialEq, Eq)]
pub struct LauncherMark {
    /// Text that the line contains.
    pub text: &'static str,
    /// Position of the version.
    pub version: VersionPosition,
}

/// Position of a version number in the output of a launcher.
#[derive(Debug, PartialEq, Eq)]
pub enum VersionPosition {
    /// The last number of the line.
    LastOfLine,
    /// The first number after this text in the line; if the text is missing, the first number of the line.
    After(&'static str),
    /// The last number of the line that begins with this text.
    LineBeginning(&'static str),
}

/// Kind of a launcher, by its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LauncherKind {
    /// `mpirun` of Open MPI (ORTE up to version 4, PRRTE from version 5).
    OpenMpi,
    /// `mpiexec` of MPICH and its derivatives.
    Hydra,
    /// Slurm's `srun`.
    Slurm,
}

/// Names of the environment variables that a launcher sets.
#[derive(Debug, PartialEq, Eq)]
pub struct LauncherVariables {
    /// Name of the launcher for messages.
    pub launcher: &'static str,
    /// Variable with the rank of the process.
    pub rank: &'static str,
    /// Variable with the number of ranks.
    pub ranks: &'static str,
    /// Variables with the number of ranks on this host.
    pub local_ranks: &'static [&'static str],
    /// Variables with the rank of the process among the processes on this host.
    pub local_rank: &'static [&'static str],
    /// Variables that identify the job.
    pub job: &'static [&'static str],
}

/// Predefined handle of MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MpiHandle {
    /// C type of the handle.
    pub kind: &'static str,
    /// Name of the handle in the MPI standard.
    pub name: &'static str,
}

/// Representation of handles in C, with the value of each handle.
#[derive(Debug, PartialEq, Eq)]
pub enum MpiHandleValues {
    /// Numbers of the type `int`.
    Integers(&'static [(&'static str, u32)]),
    /// Pointers with these values.
    Pointers(&'static [(&'static str, u32)]),
    /// Addresses of these symbols of the library.
    Symbols(&'static [(&'static str, &'static str)]),
}

/// Value of a handle in an ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MpiHandleValue {
    /// The value is a number.
    Number(u32),
    /// The value is the address of a symbol of the library.
    Symbol(&'static str),
}

const fn handle(kind: &'static str, name: &'static str) -> MpiHandle {
    MpiHandle { kind, name }
}

/// Handle `MPI_COMM_WORLD`.
pub const MPI_COMM_WORLD: MpiHandle = handle("MPI_Comm", "MPI_COMM_WORLD");
/// Handle `MPI_BYTE`.
pub const MPI_BYTE: MpiHandle = handle("MPI_Datatype", "MPI_BYTE");
/// Handle `MPI_DOUBLE`.
pub const MPI_DOUBLE: MpiHandle = handle("MPI_Datatype", "MPI_DOUBLE");
/// Handle `MPI_SUM`.
pub const MPI_SUM: MpiHandle = handle("MPI_Op", "MPI_SUM");

/// All handles that this program uses.
pub const MPI_HANDLES: [MpiHandle; 13] = [
    handle("MPI_Comm", "MPI_COMM_NULL"),
    MPI_COMM_WORLD,
    MPI_BYTE,
    handle("MPI_Datatype", "MPI_CHAR"),
    handle("MPI_Datatype", "MPI_INT"),
    handle("MPI_Datatype", "MPI_LONG"),
    handle("MPI_Datatype", "MPI_UNSIGNED_LONG"),
    handle("MPI_Datatype", "MPI_UNSIGNED_LONG_LONG"),
    handle("MPI_Datatype", "MPI_FLOAT"),
    MPI_DOUBLE,
    MPI_SUM,
    handle("MPI_Op", "MPI_MIN"),
    handle("MPI_Op", "MPI_MAX"),
];

/// Constants `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`, which are addresses.
pub const MPI_STATUS_IGNORE: &str = "MPI_STATUS_IGNORE";
/// Constant `MPI_THREAD_FUNNELED`.
pub const MPI_THREAD_FUNNELED: &str = "MPI_THREAD_FUNNELED";
/// Maximum length in bytes of the version text of a library.
pub const MPI_MAX_LIBRARY_VERSION_STRING: &str = "MPI_MAX_LIBRARY_VERSION_STRING";

/// All integer constants that this program uses.
pub const MPI_CONSTANTS: [&str; 10] = [
    "MPI_SUCCESS",
    "MPI_UNDEFINED",
    "MPI_PROC_NULL",
    "MPI_ANY_SOURCE",
    "MPI_THREAD_SINGLE",
    MPI_THREAD_FUNNELED,
    MPI_MAX_LIBRARY_VERSION_STRING,
    "MPI_THREAD_SERIALIZED",
    "MPI_THREAD_MULTIPLE",
    "MPI_T_BIND_NO_OBJECT",
];

/// All supported ABIs. If several ABIs match, the first is used.
pub static MPI_ABIS: [MpiAbi; 3] = [OPEN_MPI, MPICH, STANDARD];

/// ABI of Open MPI 3 to 5.
const OPEN_MPI: MpiAbi = MpiAbi {
    title: "Open MPI's ABI",
    files: &["libmpi.so.40"],
    implementation: Some(MpiImplementation {
        library: "Open MPI",
        launcher: LauncherKind::OpenMpi,
        launcher_title: "Open MPI",
        suffix: "openmpi",
        package: "openmpi-bin",
        // The first entry is the library of Open MPI 2, which has another ABI.
        other_files: &["libmpi.so.20", "libmpi_mpifh.so", "libmpi_usempi", "libmpi_cxx.so"],
        wrapper_query: "--showme:version",
        wrapper_marks: &[WrapperMark {
            text: "Open MPI ",
            library: "Open MPI",
            needs_words: false,
        }],
        launcher_marks: &[
            LauncherMark { text: "OpenRTE", version: VersionPosition::LastOfLine },
            LauncherMark { text: "Open MPI", version: VersionPosition::LastOfLine },
            LauncherMark { text: "PRRTE", version: VersionPosition::LastOfLine },
            LauncherMark { text: "prterun", version: VersionPosition::LastOfLine },
        ],
        srun_variable: "PMIX_RANK",
        srun_option: "--mpi=pmix",
        variables: &[LauncherVariables {
            launcher: "Open MPI",
            rank: "OMPI_COMM_WORLD_RANK",
            ranks: "OMPI_COMM_WORLD_SIZE",
            local_ranks: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
            local_rank: &["OMPI_COMM_WORLD_LOCAL_RANK"],
            job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"],
        }],
    }),
    handles: MpiHandleValues::Symbols(&[
        ("MPI_COMM_NULL", "ompi_mpi_comm_null"),
        ("MPI_COMM_WORLD", "ompi_mpi_comm_world"),
        ("MPI_BYTE", "ompi_mpi_byte"),
        ("MPI_CHAR", "ompi_mpi_char"),
        ("MPI_INT", "ompi_mpi_int"),
        ("MPI_LONG", "ompi_mpi_long"),
        ("MPI_UNSIGNED_LONG", "ompi_mpi_unsigned_long"),
        ("MPI_UNSIGNED_LONG_LONG", "ompi_mpi_unsigned_long_long"),
        ("MPI_FLOAT", "ompi_mpi_float"),
        ("MPI_DOUBLE", "ompi_mpi_double"),
        ("MPI_SUM", "ompi_mpi_op_sum"),
        ("MPI_MIN", "ompi_mpi_op_min"),
        ("MPI_MAX", "ompi_mpi_op_max"),
    ]),
    constants: &[
        ("MPI_SUCCESS", 0),
        ("MPI_UNDEFINED", -32766),
        ("MPI_PROC_NULL", -2),
        ("MPI_ANY_SOURCE", -1),
        ("MPI_THREAD_SINGLE", 0),
        ("MPI_THREAD_FUNNELED", 1),
        ("MPI_MAX_LIBRARY_VERSION_STRING", 256),
        ("MPI_THREAD_SERIALIZED", 2),
        ("MPI_THREAD_MULTIPLE", 3),
        ("MPI_T_BIND_NO_OBJECT", 0),
        ("MPI_STATUS_IGNORE", 0),
    ],
    status: "int MPI_SOURCE, MPI_TAG, MPI_ERROR, cancelled; size_t bytes;",
};

/// ABI of MPICH since version 3.1, and of Intel MPI, MVAPICH and Cray MPI.
const MPICH: MpiAbi = MpiAbi {
    title: "MPICH's ABI",
    // Debian's name for MPICH comes first, because Open MPI 1.7 to 1.10 also had a libmpi.so.12. Since 2014, a library
    // with this name more likely has MPICH's ABI.
    files: &["libmpich.so.12", "libmpi.so.12"],
    implementation: Some(MpiImplementation {
        library: "MPICH",
        launcher: LauncherKind::Hydra,
        launcher_title: "MPICH (Hydra)",
        suffix: "mpich",
        package: "mpich",
        // The first entry is the library of MPICH before version 3.1, and of MPICH's development packages.
        other_files: &[
            "libmpich.so",
            "libmpichfort.so",
            "libmpifort.so",
            "libmpichcxx.so",
            "libmpicxx.so",
        ],
        wrapper_query: "-v",
        wrapper_marks: &[
            WrapperMark { text: "Intel(R) MPI Library", library: "Intel MPI", needs_words: true },
            WrapperMark { text: "MVAPICH", library: "MVAPICH", needs_words: true },
            WrapperMark { text: "MPICH", library: "MPICH", needs_words: true },
        ],
        launcher_marks: &[
            LauncherMark {
                text: "Intel(R) MPI Library",
                version: VersionPosition::After("Version"),
            },
            LauncherMark { text: "HYDRA", version: VersionPosition::LineBeginning("Version:") },
        ],
        srun_variable: "PMI_FD",
        srun_option: "--mpi=pmi2",
        variables: &[
            LauncherVariables {
                launcher: "MVAPICH",
                rank: "MV2_COMM_WORLD_RANK",
                ranks: "MV2_COMM_WORLD_SIZE",
                local_ranks: &["MV2_COMM_WORLD_LOCAL_SIZE"],
                local_rank: &["MV2_COMM_WORLD_LOCAL_RANK"],
                job: &["MPISPAWN_ID", "PMI_ID", "PMI_PORT"],
            },
            // MPICH's launcher Hydra. Intel MPI's launcher is derived from Hydra.
            LauncherVariables {
                launcher: "MPICH or Intel MPI",
                rank: "PMI_RANK",
                ranks: "PMI_SIZE",
                local_ranks: &["MPI_LOCALNRANKS", "MPI_LOCALNUMRANKS", "PALS_LOCAL_SIZE"],
                local_rank: &["MPI_LOCALRANKID"],
                job: &["PALS_APID", "PMI_JOBID", "PMI_PORT"],
            },
            // HPE's launcher of Cray MPI.
            LauncherVariables {
                launcher: "PALS",
                rank: "PALS_RANKID",
                ranks: "PALS_SIZE",
                local_ranks: &["PALS_LOCAL_SIZE"],
                local_rank: &["PALS_LOCAL_RANKID"],
                job: &["PALS_APID"],
            },
        ],
    }),
    handles: MpiHandleValues::Integers(&[
        ("MPI_COMM_NULL", 0x0400_0000),
        ("MPI_COMM_WORLD", 0x4400_0000),
        ("MPI_BYTE", 0x4c00_010d),
        ("MPI_CHAR", 0x4c00_0101),
        ("MPI_INT", 0x4c00_0405),
        ("MPI_LONG", 0x4c00_0807),
        ("MPI_UNSIGNED_LONG", 0x4c00_0808),
        ("MPI_UNSIGNED_LONG_LONG", 0x4c00_0819),
        ("MPI_FLOAT", 0x4c00_040a),
        ("MPI_DOUBLE", 0x4c00_080b),
        ("MPI_SUM", 0x5800_0003),
        ("MPI_MIN", 0x5800_0002),
        ("MPI_MAX", 0x5800_0001),
    ]),
    constants: &[
        ("MPI_SUCCESS", 0),
        ("MPI_UNDEFINED", -32766),
        ("MPI_PROC_NULL", -1),
        ("MPI_ANY_SOURCE", -2),
        ("MPI_THREAD_SINGLE", 0),
        ("MPI_THREAD_FUNNELED", 1),
        ("MPI_MAX_LIBRARY_VERSION_STRING", 8192),
        ("MPI_THREAD_SERIALIZED", 2),
        ("MPI_THREAD_MULTIPLE", 3),
        ("MPI_T_BIND_NO_OBJECT", 9700),
        ("MPI_STATUS_IGNORE", 1),
    ],
    status: "int count_low, count_high_and_cancelled, MPI_SOURCE, MPI_TAG, MPI_ERROR;",
};

/// Standard ABI of MPI 5.0.
const STANDARD: MpiAbi = MpiAbi {
    title: "the ABI of MPI 5",
    // The number is the version of the ABI; MPICH 5.0.0 and 5.0.1 use 0 (issue 7928 of MPICH).
    files: &["libmpi_abi.so.1", "libmpi_abi.so.0"],
    implementation: None,
    handles: MpiHandleValues::Pointers(&[
        ("MPI_COMM_NULL", 0x100),
        ("MPI_COMM_WORLD", 0x101),
        ("MPI_BYTE", 0x247),
        ("MPI_CHAR", 0x243),
        ("MPI_INT", 0x209),
        ("MPI_LONG", 0x20a),
        ("MPI_UNSIGNED_LONG", 0x20e),
        ("MPI_UNSIGNED_LONG_LONG", 0x20f),
        ("MPI_FLOAT", 0x210),
        ("MPI_DOUBLE", 0x214),
        ("MPI_SUM", 0x21),
        ("MPI_MIN", 0x22),
        ("MPI_MAX", 0x23),
    ]),
    constants: &[
        ("MPI_SUCCESS", 0),
        ("MPI_UNDEFINED", -32766),
        ("MPI_PROC_NULL", -3),
        ("MPI_ANY_SOURCE", -1),
        ("MPI_THREAD_SINGLE", 0),
        ("MPI_THREAD_FUNNELED", 1024),
        ("MPI_MAX_LIBRARY_VERSION_STRING", 8192),
        ("MPI_THREAD_SERIALIZED", 2048),
        ("MPI_THREAD_MULTIPLE", 4096),
        ("MPI_T_BIND_NO_OBJECT", 1),
        ("MPI_STATUS_IGNORE", 0),
    ],
    status: "int MPI_SOURCE, MPI_TAG, MPI_ERROR, internal[5];",
};

/// Returns all implementations that have their own ABI.
pub fn implementations() -> impl Iterator<Item = &'static MpiImplementation> {
    MPI_ABIS.iter().filter_map(|abi| abi.implementation.as_ref())
}

/// Returns the ABI of the first implementation for which `is_wanted` returns true.
fn find_implementation(is_wanted: impl Fn(&MpiImplementation) -> bool) -> Option<&'static MpiAbi> {
    MPI_ABIS.iter().find(|abi| abi.implementation.as_ref().is_some_and(&is_wanted))
}

/// Returns the ABIs that the ranks of a launcher may have, the most likely first. `launcher` is the implementation to
/// which the launcher belongs (`None` for srun). The first ABI is that of this implementation, or of the implementation
/// whose variable srun has set. ABIs that several implementations provide follow. `is_set` returns true for a variable
/// that is set.
pub fn launcher_abis(
    launcher: Option<&MpiImplementation>,
    is_set: impl Fn(&str) -> bool,
) -> Vec<&'static MpiAbi> {
    let own = find_implementation(|own| launcher == Some(own))
        .or_else(|| find_implementation(|own| is_set(own.srun_variable)));
    // By default, srun starts ranks with the process manager interface of MPICH.
    let own = own.or_else(|| MPI_ABIS.iter().find(|abi| **abi == MPICH));
    own.into_iter().chain(MPI_ABIS.iter().filter(|abi| abi.implementation.is_none())).collect()
}

impl MpiAbi {
    /// Returns the size of an `MPI_Request` in bytes.
    pub fn request_bytes(&self) -> usize {
        match self.handles {
            MpiHandleValues::Integers(_) => size_of::<i32>(),
            MpiHandleValues::Pointers(_) | MpiHandleValues::Symbols(_) => size_of::<usize>(),
        }
    }

    /// Returns the value of a handle in this ABI; `None` if the handle is not in [`MPI_HANDLES`].
    pub fn handle(&self, handle: MpiHandle) -> Option<MpiHandleValue> {
        match self.handles {
            MpiHandleValues::Integers(values) | MpiHandleValues::Pointers(values) => {
                value_by_name(values, handle.name).map(MpiHandleValue::Number)
            }
            MpiHandleValues::Symbols(symbols) => {
                value_by_name(symbols, handle.name).map(MpiHandleValue::Symbol)
            }
        }
    }

    /// Returns the value of one of [`MPI_CONSTANTS`], or of [`MPI_STATUS_IGNORE`]; `None` for other names.
    pub fn constant(&self, name: &str) -> Option<i32> {
        value_by_name(self.constants, name)
    }
}

impl fmt::Display for MpiAbi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title)
    }
}

/// Returns the value with this name; `None` if there is none.
fn value_by_name<T: Copy>(values: &[(&str, T)], name: &str) -> Option<T> {
    values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mpi_abi_has_all_handles_and_constants() {
        for abi in &MPI_ABIS {
            for handle in MPI_HANDLES {
                assert!(abi.handle(handle).is_some(), "{abi}: {}", handle.name);
            }
            for name in MPI_CONSTANTS.iter().chain(&[MPI_STATUS_IGNORE]) {
                assert!(abi.constant(name).is_some(), "{abi}: {name}");
            }
        }
    }

    #[test]
    fn launcher_and_srun_variables_determine_the_abis() {
        let titles = |launcher: &str, set: &[&str]| {
            let launcher = implementations().find(|own| own.library == launcher);
            let abis = launcher_abis(launcher, |name| set.contains(&name));
            abis.iter().map(|abi| abi.title).collect::<Vec<_>>()
        };
        let open_mpi = ["Open MPI's ABI", "the ABI of MPI 5"];
        let mpich = ["MPICH's ABI", "the ABI of MPI 5"];
        assert_eq!(titles("Open MPI", &["PMI_FD"]), open_mpi);
        assert_eq!(titles("MPICH", &[]), mpich);
        assert_eq!(titles("MPICH", &["PMIX_RANK"]), mpich);
        assert_eq!(titles("Slurm", &[]), mpich);
        assert_eq!(titles("Slurm", &["PMI_FD"]), mpich);
        assert_eq!(titles("Slurm", &["PMIX_RANK"]), open_mpi);
    }
}
