//! What is known of a library.

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
        let version = self.version.as_ref().map(|version| format!(" {version}"));
        let kernel = self.kernel.as_ref().map(|kernel| format!(" ({kernel} kernels)"));
        write!(f, "{}{}{}", self.vendor, version.unwrap_or_default(), kernel.unwrap_or_default())
    }
}

/// A library that a child process has loaded and found to compute rightly. Only [`BlasProber`](super::BlasProber) makes
/// one, and only with one can a library be loaded into this process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbedBlas {
    pub(super) about: BlasInfo,
    /// Rate of a short DGEMM on the threads of the run, FLOP/s.
    pub rate: f64,
    /// The variable with its value that makes the library take these kernels, if one is needed. It
    /// must be set before the library is loaded.
    pub environment: Option<(String, String)>,
}

impl ProbedBlas {
    /// What the library is.
    pub fn about(&self) -> &BlasInfo {
        &self.about
    }
}
