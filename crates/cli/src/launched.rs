//! Processes that an MPI launcher or srun has started as ranks of one job: of what is refused, rank 0 tells.

use crate::failure::{Exit, Failure};
use nodegauge_placement::Started;

/// The end of a rank of a job on several hosts.
pub(crate) fn on_several_hosts(started: &Started) -> Option<Result<Exit, Failure>> {
    let refusal = || {
        Failure::missing(format!(
            "{} on several hosts, and nodegauge measures ranks of one host",
            started.in_words(),
        ))
        .hint(format!(
            "start them on one host, e.g. mpirun --host $(hostname):{} or srun --nodes=1",
            started.ranks,
        ))
    };
    started.is_spread().then(|| once(started, refusal()))
}

/// The end of a rank of a job in which all are refused the same: one message is enough.
pub(crate) fn once(started: &Started, refusal: Failure) -> Result<Exit, Failure> {
    match started.rank {
        0 => Err(refusal),
        _ => Ok(Exit::Told(Exit::from(&refusal).number())),
    }
}
