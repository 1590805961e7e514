//! The proof that a library was tried in a process of its own.

use super::info::BlasInfo;

/// A library that a child process has loaded and found to compute rightly. Only
/// [`BlasProber`](crate::blas::BlasProber) makes one, and only with one can a library be loaded
/// into this process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbedBlas {
    about: BlasInfo,
    rate: f64,
    environment: Option<(String, String)>,
}

impl ProbedBlas {
    /// What a child process found; for the prober alone.
    pub(super) fn new(about: BlasInfo, rate: f64, environment: Option<(String, String)>) -> Self {
        Self { about, rate, environment }
    }

    /// What the library is.
    pub fn about(&self) -> &BlasInfo {
        &self.about
    }

    /// Rate of a short DGEMM on one thread, FLOP/s.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The variable with its value that makes the library take these kernels, if one is needed. It
    /// must be set before the library is loaded.
    pub fn environment(&self) -> Option<&(String, String)> {
        self.environment.as_ref()
    }
}
