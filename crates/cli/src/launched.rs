//! Errors in processes that an MPI launcher or srun has started as ranks of one job. Only rank 0 prints such an error.

use crate::failure::{Exit, Failure};
use nodegauge_placement::Started;

/// Returns the error for a job whose ranks run on several hosts; `None` for a job on one host.
pub(crate) fn on_several_hosts(started: &Started) -> Option<Result<Exit, Failure>> {
    let refusal = || {
        Failure::missing(format!(
            "{} on several hosts, but nodegauge requires all ranks on one host",
            started.in_words(),
        ))
        .hint(format!(
            "start them on one host, e.g. mpirun --host $(hostname):{} or srun --nodes=1",
            started.ranks,
        ))
    };
    started.is_spread().then(|| once(started, refusal()))
}

/// Returns the error on rank 0, and the exit code of the error on the other ranks, so that the error is printed once.
pub(crate) fn once(started: &Started, refusal: Failure) -> Result<Exit, Failure> {
    match started.rank {
        0 => Err(refusal),
        _ => Ok(Exit::Told(Exit::from(&refusal).number())),
    }
}
