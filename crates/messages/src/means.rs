//! With what messages are measured: the best means that the node has, and why.

use crate::MessagesError;
use crate::choice::MpiRequest;
use nodegauge_toolchain::mpi::Mpi;

/// A means to measure messages, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Means {
    /// The probe, compiled by an MPI's wrapper.
    Compiled,
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
    /// Why this one and none before it, for people.
    pub why: String,
}

/// The best means that there is. Who names an MPI gets that or an error.
///
/// # Errors
/// When an MPI that was named cannot be used.
pub(crate) fn choose(request: &MpiRequest) -> Result<Choice, MessagesError> {
    match request.find() {
        Ok(mpis) => Ok(Choice { means: Means::Compiled, mpis, why: String::new() }),
        Err(error) if request.names_one() => Err(error),
        Err(error) => {
            Ok(Choice { means: Means::Transport, mpis: Vec::new(), why: error.to_string() })
        }
    }
}
