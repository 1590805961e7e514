//! Which library multiplies: all that are found, each tried in a process of its own with every
//! kernel that it has for this processor, and the compiled-in kernels; fastest first.

use crate::engine::Multiplier;
use crate::{GAUGE, dgemm};
use nodegauge_machine::SysRoot;
use nodegauge_measure::{Failure, FlopsPerSec, Notice, NoticeId, notice};
use nodegauge_team::Team;
use nodegauge_toolchain::blas::{self, BlasLibrary, BlasProber, BlasRequest, ProbedBlas};
use nodegauge_toolchain::{CommandLine, ToolchainError};
use std::time::Duration;

/// A source of products that was tried.
#[derive(Debug, Clone)]
pub(crate) struct Tried {
    /// In words: `OpenBLAS 0.3.21 (Haswell kernels)`.
    pub name: String,
    /// Rate of a short DGEMM on one thread.
    pub rate: FlopsPerSec,
    /// The library with its kernels; `None` for those that are compiled in.
    pub probed: Option<ProbedBlas>,
}

impl Tried {
    fn library(probed: ProbedBlas) -> Self {
        let (name, rate) = (probed.about().to_string(), FlopsPerSec(probed.rate));
        Self { name, rate, probed: Some(probed) }
    }

    /// The compiled-in kernels.
    fn built_in() -> Result<Self, Failure> {
        let mut team = Team::start(&[Vec::new()])?;
        let rates = dgemm::measure(&mut team, &Multiplier::BuiltIn, TRIAL)?;
        let (name, rate) = (Multiplier::BuiltIn.to_string(), dgemm::best(&rates));
        Ok(Self { name, rate, probed: None })
    }

    /// The variable that gives it these kernels, for the notice.
    pub(crate) fn setting(&self) -> Option<String> {
        let (name, value) = self.probed.as_ref()?.environment.as_ref()?;
        Some(format!("{name}={value}"))
    }

    /// Loads it into this process. The variable of its kernels is set before.
    pub(crate) fn load(&self) -> Result<Multiplier, ToolchainError> {
        let Some(probed) = &self.probed else { return Ok(Multiplier::BuiltIn) };
        if let Some((name, value)) = &probed.environment {
            // SAFETY: called before a team starts; the only other thread of the program waits for
            // signals and reads no variables.
            unsafe { std::env::set_var(name, value) };
        }
        BlasLibrary::load(probed).map(Multiplier::Library)
    }
}

/// The hidden command by which the program tries one library in a process of its own.
pub const TRY_BLAS: &str = "try-blas";
const TRIAL: Duration = Duration::from_millis(30);

/// Fails when a library that `requests` name is not there.
pub(crate) fn look_for(requests: &[BlasRequest]) -> Result<(), ToolchainError> {
    let candidates = blas::find::all(|name| std::env::var_os(name));
    let mut named = requests.iter().filter(|request| !request.is_builtin());
    named.try_for_each(|request| blas::find::resolve(request, &candidates).map(|_| ()))
}

/// Tries what `requests` name, in their order; without any, everything that is found, fastest first.
/// What could not be used, and what variables of the environment rule, is noticed. `None` when the user
/// ended it.
///
/// # Errors
/// When a library that was asked for cannot be used.
pub(crate) fn find(
    requests: &[BlasRequest],
    root: &SysRoot,
    notices: &mut Vec<Notice>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Option<Vec<Tried>>, Failure> {
    let program = std::env::current_exe().map_err(|cause| {
        Failure::missing(format!("cannot find this program's own file: {cause}"))
    })?;
    let command = CommandLine::new(program.display().to_string(), [TRY_BLAS.to_owned()]);
    let prober = BlasProber { command };
    let candidates = blas::find::all(|name| std::env::var_os(name));
    let mut tried = Vec::new();
    for request in requests {
        if request.is_builtin() {
            tried.push(Tried::built_in()?);
            continue;
        }
        let candidate = blas::find::resolve(request, &candidates)?;
        match prober.probe(&candidate, request.kernel.as_deref(), interrupted) {
            Err(ToolchainError::Interrupted) => return Ok(None),
            probed => tried.push(Tried::library(probed?)),
        }
    }
    if requests.is_empty() {
        let isa = instruction_sets(root);
        for candidate in &candidates {
            match prober.probe_all(candidate, &isa, interrupted) {
                Ok(probed) => tried.extend(probed.into_iter().map(Tried::library)),
                Err(ToolchainError::Interrupted) => return Ok(None),
                Err(ToolchainError::Unusable(why)) => {
                    let (path, why) = (candidate.path.display(), why.lines().next());
                    let text = format!("{path} is left out: {}", why.unwrap_or_default());
                    notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
                }
                Err(error) => return Err(error.into()),
            }
        }
        tried.push(Tried::built_in()?);
        tried.sort_by(|a, b| b.rate.0.total_cmp(&a.rate.0));
    }
    for probed in tried.iter().filter_map(|tried| tried.probed.as_ref()) {
        let vendor = probed.about().vendor;
        if let (None, Some(name)) = (&probed.environment, vendor.kernel_variable())
            && let Ok(value) = std::env::var(name)
        {
            let text = format!("{name}={value} is set and rules which kernels {vendor} takes");
            notice::add_new(notices, [Notice::new(NoticeId::Environment, GAUGE, text)]);
        }
    }
    Ok(Some(tried))
}

/// Whether the processor has an instruction set, by its name in `/proc/cpuinfo`.
fn instruction_sets(root: &SysRoot) -> impl Fn(&str) -> bool {
    let text = root.text("proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let flags: Vec<String> =
        flags.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    move |name| flags.iter().any(|flag| flag == name)
}
