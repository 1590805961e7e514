//! Choice of the transport for measuring messages: the best one available on this node, with the reason.

use crate::MessagesError;
use crate::plan::mpis::{MpiRequest, find_first_usable_mpi};
use nodegauge_measure::Failure;
use nodegauge_toolchain::mpi::{Mpi, MpiParts};
use nodegauge_toolchain::{CommandLine, ToolchainError};

/// Transport for measuring messages, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TransportKind {
    /// Probe compiled with the wrapper of an MPI.
    CompiledProbe,
    /// Precompiled probe, run with the library of an MPI without a compiler.
    PrecompiledProbe,
    /// Built-in transport, without an MPI.
    #[default]
    BuiltIn,
}

/// Chosen transport, with the MPIs that can be used and those that cannot.
#[derive(Debug, Default)]
pub(crate) struct TransportChoice {
    pub kind: TransportKind,
    /// Usable MPIs; empty for [`TransportKind::BuiltIn`].
    pub mpis: Vec<Mpi>,
    /// True if the user specified the MPIs, so that no other MPI is used.
    pub is_mpi_specified: bool,
    /// Specified MPIs that cannot be used, with the reason.
    pub unusable_mpis: Vec<(CommandLine, String)>,
    /// Reason why no MPI was found; `None` if one was found or specified.
    pub missing_reason: Option<Failure>,
}

/// Chooses the best available transport. If the user specified MPIs, only these are considered.
///
/// Fails if no specified MPI is usable, or if the request is inconsistent.
pub(crate) fn choose(request: &MpiRequest) -> Result<TransportChoice, MessagesError> {
    if !request.transport.is_empty() {
        return Ok(TransportChoice::default());
    }
    request.check()?;
    if !request.mpicc.is_empty() {
        return choose_specified(request);
    }
    let launcher = request.launcher.first();
    let missing = match find_first_usable_mpi(launcher) {
        Ok(mpi) => return Ok(choose_transport(TransportKind::CompiledProbe, mpi)),
        Err(failure) => failure,
    };
    match mpi_without_compiler(launcher, &missing.reason()) {
        Some(mpi) => Ok(choose_transport(TransportKind::PrecompiledProbe, mpi)),
        None if launcher.is_some() || !request.osu.is_empty() => Err(missing.into()),
        None => Ok(TransportChoice { missing_reason: Some(missing), ..TransportChoice::default() }),
    }
}

fn choose_transport(kind: TransportKind, mpi: Mpi) -> TransportChoice {
    TransportChoice { kind, mpis: vec![mpi], ..TransportChoice::default() }
}

/// Returns an MPI for which the probe does not have to be compiled; `None` if there is none. `why` is the reason for
/// this choice, which is shown to the user.
pub(crate) fn mpi_without_compiler(launcher: Option<&CommandLine>, why: &str) -> Option<Mpi> {
    let mpi = Mpi::find_runtime(launcher, &|| false).ok()?;
    let chosen = format!("by {}, with nodegauge's precompiled probe: {why}", mpi.parts);
    Some(Mpi { selection_reason: chosen, ..mpi })
}

/// Returns the reason why a wrapper cannot compile the probe: the first line of the compiler's errors.
pub(crate) fn compile_failure(mpi: &Mpi, error: &MessagesError) -> String {
    let (
        MessagesError::Toolchain(ToolchainError::Compile { status, errors, .. }),
        MpiParts::Wrapper { compiler, .. },
    ) = (error, &mpi.parts)
    else {
        return Failure::from(error).reason();
    };
    let first = errors.lines().find(|line| !line.trim().is_empty()).unwrap_or(status).trim();
    // The file is in a temporary folder that no longer exists, so only its name is shown.
    let (place, rest) = first.split_once(' ').unwrap_or((first, ""));
    let place = place.rsplit('/').next().unwrap_or(place);
    format!(
        "{} cannot compile the probe ({})",
        compiler.command.program(),
        format!("{place} {rest}").trim()
    )
}

/// Searches for all MPIs that the user specified, and returns a choice of the usable ones.
fn choose_specified(request: &MpiRequest) -> Result<TransportChoice, MessagesError> {
    let mut choice = TransportChoice {
        kind: TransportKind::CompiledProbe,
        is_mpi_specified: true,
        ..TransportChoice::default()
    };
    let mut first = None;
    for (mpicc, found) in request.find_specified_mpis() {
        match found {
            Ok(mpi) => choice.mpis.push(mpi),
            Err(failure) => {
                choice.unusable_mpis.push((mpicc.clone(), failure.reason()));
                first.get_or_insert(failure);
            }
        }
    }
    match first {
        // Each folder of OSU programs belongs to one wrapper, so no wrapper can be left out.
        Some(failure)
            if choice.unusable_mpis.len() == 1 && choice.mpis.is_empty()
                || !request.osu.is_empty() =>
        {
            Err(failure.into())
        }
        Some(_) if choice.mpis.is_empty() => {
            let all: Vec<String> =
                choice.unusable_mpis.iter().map(|(mpicc, why)| format!("{mpicc}: {why}")).collect();
            Err(Failure::missing(all.join("\n")).into())
        }
        _ => Ok(choice),
    }
}
