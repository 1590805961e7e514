//! Which library multiplies: all that are found, each tried in a process of its own with every
//! kernel that it has for this processor, and the compiled-in kernels; fastest first.

use crate::dgemm;
use crate::engine::Multiplier;
use nodegauge_machine::CpuId;
use nodegauge_measure::FlopsPerSec;
use nodegauge_team::{Team, TeamError};
use nodegauge_toolchain::ToolchainError;
use nodegauge_toolchain::blas::{
    self, BlasCandidate, BlasError, BlasLibrary, BlasProber, BlasRequest, ProbedBlas,
};
use std::time::Duration;

/// Why there is nothing that multiplies.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// The library.
    #[error(transparent)]
    Blas(#[from] BlasError),
    /// A child process.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// The built-in kernels' trial.
    #[error(transparent)]
    Team(#[from] TeamError),
}

/// A source of products that was tried.
#[derive(Debug, Clone, PartialEq)]
pub enum Tried {
    /// A library with its kernels.
    Library(ProbedBlas),
    /// The compiled-in kernels, at this rate on one thread.
    BuiltIn(FlopsPerSec),
}

impl Tried {
    /// Rate of a short DGEMM on one thread.
    pub fn rate(&self) -> FlopsPerSec {
        match self {
            Self::Library(probed) => FlopsPerSec(probed.rate()),
            Self::BuiltIn(rate) => *rate,
        }
    }

    /// In words: `OpenBLAS 0.3.21 (Haswell kernels)`.
    pub fn name(&self) -> String {
        match self {
            Self::Library(probed) => probed.about().to_string(),
            Self::BuiltIn(_) => Multiplier::BuiltIn.to_string(),
        }
    }

    /// The variable that gives it these kernels, for the notice.
    pub fn setting(&self) -> Option<String> {
        match self {
            Self::Library(probed) => {
                probed.environment().map(|(name, value)| format!("{name}={value}"))
            }
            Self::BuiltIn(_) => None,
        }
    }

    /// Loads it into this process. The variable of its kernels is set before.
    ///
    /// # Errors
    /// When the library cannot be loaded after all.
    pub fn load(&self) -> Result<Multiplier, BlasError> {
        let Self::Library(probed) = self else { return Ok(Multiplier::BuiltIn) };
        if let Some((name, value)) = probed.environment() {
            // SAFETY: called before a team starts; the only other thread of the program waits for
            // signals and reads no variables.
            unsafe { std::env::set_var(name, value) };
        }
        BlasLibrary::load(probed).map(Multiplier::Library)
    }
}

/// What trying found.
#[derive(Debug, Default)]
pub struct Found {
    /// Fastest first.
    pub tried: Vec<Tried>,
    /// What could not be used, and what variables of the environment rule.
    pub notices: Vec<String>,
}

/// For how long the built-in kernels are tried.
const TRIAL: Duration = Duration::from_millis(30);

/// Tries what `requests` name, in their order; without a request everything that is found, fastest first.
///
/// # Errors
/// When a library that was wished for cannot be used, or the user ends the run.
pub fn find(
    requests: &[BlasRequest],
    prober: &BlasProber,
    isa: &dyn Fn(&str) -> bool,
    interrupted: &dyn Fn() -> bool,
) -> Result<Found, ChoiceError> {
    let candidates = blas::find::all(|name| std::env::var_os(name));
    let mut found = Found::default();
    for request in requests {
        if request.is_builtin() {
            found.tried.push(Tried::BuiltIn(built_in()?));
            continue;
        }
        let candidate = blas::find::resolve(request, &candidates)?;
        let probed = prober.probe(&candidate, request.kernel.as_deref(), interrupted)??;
        found.tried.push(Tried::Library(probed));
    }
    if requests.is_empty() {
        for candidate in &candidates {
            match prober.probe_all(candidate, isa, interrupted)? {
                Ok(probed) => found.tried.extend(probed.into_iter().map(Tried::Library)),
                Err(error) => found.notices.push(first_line(candidate, &error)),
            }
        }
        found.tried.push(Tried::BuiltIn(built_in()?));
        found.tried.sort_by(|a, b| b.rate().0.total_cmp(&a.rate().0));
    }
    for tried in &found.tried {
        let Tried::Library(probed) = tried else { continue };
        let Some(name) = probed.about().vendor.kernel_variable() else { continue };
        if probed.environment().is_none()
            && let Ok(value) = std::env::var(name)
        {
            let notice = format!(
                "{name}={value} is set and rules which kernels {} takes",
                probed.about().vendor
            );
            if !found.notices.contains(&notice) {
                found.notices.push(notice);
            }
        }
    }
    Ok(found)
}

fn first_line(candidate: &BlasCandidate, error: &BlasError) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    format!("{} is left out: {line}", candidate.path.display())
}

/// Rate of the built-in kernels on one thread.
fn built_in() -> Result<FlopsPerSec, TeamError> {
    let mut team = Team::start(&[Vec::<CpuId>::new()])?;
    let rates = dgemm::measure(&mut team, &Multiplier::BuiltIn, TRIAL)?;
    Ok(FlopsPerSec(rates.into_iter().fold(0.0, f64::max)))
}

impl From<ChoiceError> for nodegauge_measure::Failure {
    fn from(error: ChoiceError) -> Self {
        Self::missing(error)
    }
}
