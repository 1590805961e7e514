//! Properties of BLAS libraries.

use nodegauge_measure::FlopsPerSec;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Vendor of a BLAS library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlasVendor {
    /// OpenBLAS.
    OpenBlas,
    /// BLIS, including AMD's AOCL-BLAS.
    Blis,
    /// Intel's oneMKL.
    Mkl,
    /// Arm Performance Libraries.
    ArmPl,
    /// Any other library with the routines of BLAS, e.g. the reference BLAS.
    Other,
}

impl BlasVendor {
    /// Returns the common name of the vendor's library.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenBlas => "OpenBLAS",
            Self::Blis => "BLIS",
            Self::Mkl => "MKL",
            Self::ArmPl => "ArmPL",
            Self::Other => "BLAS",
        }
    }

    /// Returns the environment variable that selects the kernels of a library; `None` if the library has none. It must
    /// be set before the library is loaded.
    pub fn kernel_variable(self) -> Option<&'static str> {
        match self {
            Self::OpenBlas => Some("OPENBLAS_CORETYPE"),
            Self::Blis => Some("BLIS_ARCH_TYPE"),
            Self::Mkl => Some("MKL_ENABLE_INSTRUCTIONS"),
            Self::ArmPl | Self::Other => None,
        }
    }
}

impl fmt::Display for BlasVendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Properties that a library reports about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlasInfo {
    /// Vendor of the library.
    pub vendor: BlasVendor,
    /// Version of the library, if reported.
    pub version: Option<String>,
    /// Name of the kernels that the library uses (usually the name of a processor), if reported.
    pub kernel: Option<String>,
    /// Path of the library file.
    pub path: PathBuf,
    /// Width of the library's integers in bits: 32 or 64.
    pub integer_bits: u32,
}

impl fmt::Display for BlasInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.as_ref().map(|version| format!(" {version}"));
        let kernel = self.kernel.as_ref().map(|kernel| format!(" ({kernel} kernels)"));
        write!(f, "{}{}{}", self.vendor, version.unwrap_or_default(), kernel.unwrap_or_default())
    }
}

/// Library whose results were verified in a child process. Only [`BlasProber`](super::BlasProber) creates values of
/// this type, and loading a library into this process requires such a value.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbedBlas {
    pub(super) info: BlasInfo,
    /// Rate of a short DGEMM with the threads of the run, as measured in the child process.
    pub rate: FlopsPerSec,
    /// Environment variable and value that select the tested kernels; `None` if the library selects them itself.
    /// The variable must be set before the library is loaded.
    pub environment: Option<(String, String)>,
}

impl ProbedBlas {
    /// Returns the properties of the library.
    pub fn info(&self) -> &BlasInfo {
        &self.info
    }
}
