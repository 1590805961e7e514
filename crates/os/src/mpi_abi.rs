//! Binary interfaces (ABI) of MPI libraries: names of library files, values of handles and constants. Ranks that load
//! an MPI library use these definitions. The header of the message probe is also generated from them, because the probe
//! is compiled without an MPI library.
//!
//! Sources: <https://www.mpich.org/abi/> and MPICH's `mpi.h`; Open MPI's `mpi.h` of versions 3 to 5, in which handles
//! are addresses of symbols; the standard, MPI 5.0, chapter 20. This file must not depend on other modules, because a
//! build script also includes it.

use std::fmt;

/// Binary interface of an MPI library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MpiAbi {
    /// ABI of MPICH since version 3.1, and of Intel MPI, MVAPICH and Cray MPI.
    Mpich,
    /// ABI of Open MPI 3 to 5.
    OpenMpi,
    /// Standard ABI of MPI 5.0.
    Standard,
}

impl MpiAbi {
    /// All supported ABIs.
    pub const ALL: [Self; 3] = [Self::Mpich, Self::OpenMpi, Self::Standard];

    /// Returns the names of library files with this ABI, the most specific first; `*` matches any characters.
    pub fn files(self) -> &'static [&'static str] {
        match self {
            // Debian's name for MPICH comes first, because Open MPI 1 also had a libmpi.so.12.
            Self::Mpich => &["libmpich.so.12", "libmpi.so.12"],
            Self::OpenMpi => &["libmpi.so.40"],
            Self::Standard => &["libmpi_abi.so.*"],
        }
    }

    /// Returns the size of an `MPI_Request` in bytes.
    pub fn request_bytes(self) -> usize {
        match self {
            Self::Mpich => 4,
            Self::OpenMpi | Self::Standard => 8,
        }
    }
}

impl fmt::Display for MpiAbi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mpich => "MPICH's ABI",
            Self::OpenMpi => "Open MPI's ABI",
            Self::Standard => "the ABI of MPI 5",
        })
    }
}

/// Predefined handle of MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MpiHandle {
    /// C type of the handle.
    pub kind: &'static str,
    /// Name of the handle in the MPI standard.
    pub name: &'static str,
    mpich: u32,
    open_mpi: &'static str,
    standard: u32,
}

/// Value of a handle in an ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MpiHandleValue {
    /// The value is a number.
    Number(u32),
    /// The value is the address of a symbol of the library.
    Symbol(&'static str),
}

impl MpiHandle {
    /// Returns the value of the handle in an ABI.
    pub fn value(&self, abi: MpiAbi) -> MpiHandleValue {
        match abi {
            MpiAbi::Mpich => MpiHandleValue::Number(self.mpich),
            MpiAbi::OpenMpi => MpiHandleValue::Symbol(self.open_mpi),
            MpiAbi::Standard => MpiHandleValue::Number(self.standard),
        }
    }
}

/// Integer constant of MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MpiConstant {
    /// Name of the constant in the MPI standard.
    pub name: &'static str,
    mpich: i32,
    open_mpi: i32,
    standard: i32,
}

impl MpiConstant {
    /// Returns the value of the constant in an ABI.
    pub fn value(&self, abi: MpiAbi) -> i32 {
        match abi {
            MpiAbi::Mpich => self.mpich,
            MpiAbi::OpenMpi => self.open_mpi,
            MpiAbi::Standard => self.standard,
        }
    }
}

const fn handle(
    kind: &'static str,
    name: &'static str,
    mpich: u32,
    open_mpi: &'static str,
    standard: u32,
) -> MpiHandle {
    MpiHandle { kind, name, mpich, open_mpi, standard }
}

const fn constant(name: &'static str, mpich: i32, open_mpi: i32, standard: i32) -> MpiConstant {
    MpiConstant { name, mpich, open_mpi, standard }
}

/// Handle `MPI_COMM_WORLD`.
pub const MPI_COMM_WORLD: MpiHandle =
    handle("MPI_Comm", "MPI_COMM_WORLD", 0x4400_0000, "ompi_mpi_comm_world", 0x101);
/// Handle `MPI_BYTE`.
pub const MPI_BYTE: MpiHandle =
    handle("MPI_Datatype", "MPI_BYTE", 0x4c00_010d, "ompi_mpi_byte", 0x247);
/// Handle `MPI_DOUBLE`.
pub const MPI_DOUBLE: MpiHandle =
    handle("MPI_Datatype", "MPI_DOUBLE", 0x4c00_080b, "ompi_mpi_double", 0x214);
/// Handle `MPI_SUM`.
pub const MPI_SUM: MpiHandle = handle("MPI_Op", "MPI_SUM", 0x5800_0003, "ompi_mpi_op_sum", 0x21);

/// All handles that this program uses.
pub const MPI_HANDLES: [MpiHandle; 13] = [
    handle("MPI_Comm", "MPI_COMM_NULL", 0x0400_0000, "ompi_mpi_comm_null", 0x100),
    MPI_COMM_WORLD,
    MPI_BYTE,
    handle("MPI_Datatype", "MPI_CHAR", 0x4c00_0101, "ompi_mpi_char", 0x243),
    handle("MPI_Datatype", "MPI_INT", 0x4c00_0405, "ompi_mpi_int", 0x209),
    handle("MPI_Datatype", "MPI_LONG", 0x4c00_0807, "ompi_mpi_long", 0x20a),
    handle("MPI_Datatype", "MPI_UNSIGNED_LONG", 0x4c00_0808, "ompi_mpi_unsigned_long", 0x20e),
    handle(
        "MPI_Datatype",
        "MPI_UNSIGNED_LONG_LONG",
        0x4c00_0819,
        "ompi_mpi_unsigned_long_long",
        0x20f,
    ),
    handle("MPI_Datatype", "MPI_FLOAT", 0x4c00_040a, "ompi_mpi_float", 0x210),
    MPI_DOUBLE,
    MPI_SUM,
    handle("MPI_Op", "MPI_MIN", 0x5800_0002, "ompi_mpi_op_min", 0x22),
    handle("MPI_Op", "MPI_MAX", 0x5800_0001, "ompi_mpi_op_max", 0x23),
];

/// Constants `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`, which are addresses.
pub const MPI_STATUS_IGNORE: MpiConstant = constant("MPI_STATUS_IGNORE", 1, 0, 0);
/// Constant `MPI_THREAD_FUNNELED`.
pub const MPI_THREAD_FUNNELED: MpiConstant = constant("MPI_THREAD_FUNNELED", 1, 1, 1024);

/// Maximum length in bytes of the version text of a library.
pub const MPI_MAX_LIBRARY_VERSION_STRING: MpiConstant =
    constant("MPI_MAX_LIBRARY_VERSION_STRING", 8192, 256, 8192);

/// All integer constants that this program uses.
pub const MPI_CONSTANTS: [MpiConstant; 10] = [
    constant("MPI_SUCCESS", 0, 0, 0),
    constant("MPI_UNDEFINED", -32766, -32766, -32766),
    constant("MPI_PROC_NULL", -1, -2, -3),
    constant("MPI_ANY_SOURCE", -2, -1, -1),
    constant("MPI_THREAD_SINGLE", 0, 0, 0),
    MPI_THREAD_FUNNELED,
    MPI_MAX_LIBRARY_VERSION_STRING,
    constant("MPI_THREAD_SERIALIZED", 2, 2, 2048),
    constant("MPI_THREAD_MULTIPLE", 3, 3, 4096),
    constant("MPI_T_BIND_NO_OBJECT", 9700, 0, 1),
];
