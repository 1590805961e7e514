//! With what messages are measured: the best means that the node has, and why.

use crate::MessagesError;
use crate::choice::{MpiRequest, usual};
use nodegauge_measure::Failure;
use nodegauge_toolchain::mpi::{Mpi, MpiParts};
use nodegauge_toolchain::{CommandLine, ToolchainError};

/// A means to measure messages, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Means {
    /// The probe, compiled by an MPI's wrapper.
    Compiled,
    /// The probe that this program carries, with the library of an MPI that has no compiler here.
    Precompiled,
    /// This program's own transport, without MPI.
    #[default]
    Transport,
}

/// The means that was chosen.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub means: Means,
    /// The MPIs; none for [`Means::Transport`].
    pub mpis: Vec<Mpi>,
    /// True if the user named the MPIs: no other will do.
    pub named: bool,
    /// MPIs that were named and cannot be used, with the reason.
    pub unusable: Vec<(CommandLine, String)>,
    /// Reason why there is no MPI, if none was named.
    pub missing: Option<Failure>,
}

/// The best means that there is. Who names MPIs gets those that can be used.
///
/// # Errors
/// When none that was named can be used, or what was named does not fit together.
pub(crate) fn choose(request: &MpiRequest) -> Result<Choice, MessagesError> {
    if !request.transport.is_empty() {
        return Ok(Choice::default());
    }
    request.check()?;
    if !request.mpicc.is_empty() {
        return named(request);
    }
    let launcher = request.launcher.first();
    let missing = match usual(launcher) {
        Ok(mpi) => return Ok(of(Means::Compiled, mpi)),
        Err(failure) => failure,
    };
    match without_compiler(launcher, &missing.reason()) {
        Some(mpi) => Ok(of(Means::Precompiled, mpi)),
        None if launcher.is_some() || !request.osu.is_empty() => Err(missing.into()),
        None => Ok(Choice { missing: Some(missing), ..Choice::default() }),
    }
}

fn of(means: Means, mpi: Mpi) -> Choice {
    Choice { means, mpis: vec![mpi], ..Choice::default() }
}

/// An MPI that needs no compiler here, and `why` it is taken; `None` where there is none.
pub(crate) fn without_compiler(launcher: Option<&CommandLine>, why: &str) -> Option<Mpi> {
    let mpi = Mpi::find_runtime(launcher, &|| false).ok()?;
    let chosen = format!("by {}, with nodegauge's precompiled probe: {why}", mpi.parts);
    Some(Mpi { chosen, ..mpi })
}

/// Returns in one line why a wrapper compiles no probe: the first line of its compiler's errors.
pub(crate) fn uncompiled(mpi: &Mpi, error: &MessagesError) -> String {
    let (
        MessagesError::Toolchain(ToolchainError::Compile { status, errors, .. }),
        MpiParts::Wrapper { compiler, .. },
    ) = (error, &mpi.parts)
    else {
        return Failure::from(error).reason();
    };
    let first = errors.lines().find(|line| !line.trim().is_empty()).unwrap_or(status).trim();
    // The folder in which that was is gone.
    let (place, rest) = first.split_once(' ').unwrap_or((first, ""));
    let place = place.rsplit('/').next().unwrap_or(place);
    format!(
        "{} cannot compile the probe ({})",
        compiler.command.program(),
        format!("{place} {rest}").trim()
    )
}

/// All MPIs that were named, each tried.
fn named(request: &MpiRequest) -> Result<Choice, MessagesError> {
    let mut choice = Choice { means: Means::Compiled, named: true, ..Choice::default() };
    let mut first = None;
    for (mpicc, found) in request.named() {
        match found {
            Ok(mpi) => choice.mpis.push(mpi),
            Err(failure) => {
                choice.unusable.push((mpicc.clone(), failure.reason()));
                first.get_or_insert(failure);
            }
        }
    }
    match first {
        // Folders of OSU's programs go with wrappers one by one.
        Some(failure)
            if choice.unusable.len() == 1 && choice.mpis.is_empty() || !request.osu.is_empty() =>
        {
            Err(failure.into())
        }
        Some(_) if choice.mpis.is_empty() => {
            let all: Vec<String> =
                choice.unusable.iter().map(|(mpicc, why)| format!("{mpicc}: {why}")).collect();
            Err(Failure::missing(all.join("\n")).into())
        }
        _ => Ok(choice),
    }
}
