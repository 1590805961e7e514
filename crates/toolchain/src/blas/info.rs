//! What is known of a library, and why one cannot be used.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Whose library it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// OpenBLAS.
    OpenBlas,
    /// BLIS, AMD's AOCL-BLAS among them.
    Blis,
    /// Intel's oneMKL.
    Mkl,
    /// Arm Performance Libraries.
    ArmPl,
    /// Another that has the routines, e.g. the reference BLAS.
    Other,
}

impl Vendor {
    /// The name that people use.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenBlas => "OpenBLAS",
            Self::Blis => "BLIS",
            Self::Mkl => "MKL",
            Self::ArmPl => "ArmPL",
            Self::Other => "BLAS",
        }
    }

    /// The variable by which a library is told, before it is loaded, which kernels to take.
    pub fn kernel_variable(self) -> Option<&'static str> {
        match self {
            Self::OpenBlas => Some("OPENBLAS_CORETYPE"),
            Self::Blis => Some("BLIS_ARCH_TYPE"),
            Self::Mkl => Some("MKL_ENABLE_INSTRUCTIONS"),
            Self::ArmPl | Self::Other => None,
        }
    }
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a library says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlasInfo {
    /// Whose.
    pub vendor: Vendor,
    /// Version, when it tells.
    pub version: Option<String>,
    /// The processor whose kernels it runs, when it tells.
    pub kernel: Option<String>,
    /// Where it lies.
    pub path: PathBuf,
    /// Width of its integers: 32 or 64.
    pub integer_bits: u32,
}

impl fmt::Display for BlasInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.vendor)?;
        if let Some(version) = &self.version {
            write!(f, " {version}")?;
        }
        if let Some(kernel) = &self.kernel {
            write!(f, " ({kernel} kernels)")?;
        }
        Ok(())
    }
}

/// Why a library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BlasError {
    /// Nothing by that name is installed.
    #[error(
        "no BLAS library {wanted:?} was found{}\nhint: give its path with --blas /path/to/lib.so, or install one, e.g. libopenblas0-pthread",
        among(found)
    )]
    NotFound {
        /// As it was asked for.
        wanted: String,
        /// What there is.
        found: Vec<String>,
    },
    /// The dynamic linker refuses it.
    #[error(
        "cannot load {path}: {cause}\nhint: give a shared library of BLAS, e.g. libopenblas.so.0"
    )]
    Load {
        /// The file.
        path: PathBuf,
        /// What the linker said.
        cause: String,
    },
    /// It is no BLAS, or not a whole one.
    #[error(
        "{path} has no {symbol}: it is no BLAS library with Fortran names\nhint: give another with --blas"
    )]
    Symbol {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        symbol: &'static str,
    },
    /// Its routines give wrong results.
    #[error("{path} computes {routine} wrongly: {what}\nhint: give another with --blas")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Which routine.
        routine: &'static str,
        /// What it gave.
        what: String,
    },
    /// It brought the process that tried it to an end.
    #[error(
        "{path} cannot be used: the process that tried it ended with {how}{said}\nhint: give another with --blas"
    )]
    Crashed {
        /// The file.
        path: PathBuf,
        /// Exit status or signal.
        how: String,
        /// Its last words, on lines of their own.
        said: String,
    },
    /// What another process said of it.
    #[error("{0}")]
    Said(String),
    /// A kernel was asked for that it does not take.
    #[error(
        "{path} runs its {got} kernels, not {wanted}\nhint: {vendor} has no such kernels here; leave out '@{wanted}'"
    )]
    Kernel {
        /// The file.
        path: PathBuf,
        /// Whose.
        vendor: Vendor,
        /// As it was asked for.
        wanted: String,
        /// What it runs.
        got: String,
    },
}

fn among(found: &[String]) -> String {
    if found.is_empty() { String::new() } else { format!(" (there are: {})", found.join(", ")) }
}
