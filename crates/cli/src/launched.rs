//! Errors in processes that an MPI launcher or srun has started as ranks of one job. Only rank 0 prints such an error.

use crate::failure::{Exit, Failure};
use nodegauge_os::is_end_requested;
use nodegauge_placement::Started;
use std::time::{Duration, Instant};

/// Maximum time that other ranks wait before they exit because of an error. Launchers end all ranks as soon as one
/// exits with an error, and rank 0 prints the error before.
const PRINTING: Duration = Duration::from_secs(3);
/// Interval at which waiting ranks check if they are to end.
const LOOK: Duration = Duration::from_millis(20);

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
    if started.rank == 0 {
        return Err(refusal);
    }
    let waits_since = Instant::now();
    while waits_since.elapsed() < PRINTING && !is_end_requested() {
        std::thread::sleep(LOOK);
    }
    Ok(Exit::Told(Exit::from(&refusal).number()))
}
