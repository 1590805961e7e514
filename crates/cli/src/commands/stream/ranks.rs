//! `stream` in a process that an MPI launcher or srun started as one of several ranks. Rank 0 controls the measurement
//! and prints; the other ranks execute its requests.

use crate::failure::{Exit, Failure};
use nodegauge_placement::LauncherJob;
use nodegauge_stream::ranks::{self, LaunchedRanks};

/// Executes the requests of rank 0 on this host; returns the exit code that it sends.
pub(super) fn serve(started: &LauncherJob) -> Result<u8, Failure> {
    ranks::serve(&started.socket_name(), started.rank, started.ranks)
}

/// Joins the job. Rank 0 runs `measure`; the other ranks execute its requests.
pub(super) fn join(
    started: LauncherJob,
    measure: impl FnOnce(&LaunchedRanks) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    if started.rank > 0 {
        return Ok(Exit::FromRank0(serve(&started)?));
    }
    let joined = LaunchedRanks::new(started)?;
    let result = measure(&joined);
    let code = match &result {
        Ok(exit) => exit.code(),
        Err(failure) => Exit::from(failure).code(),
    };
    joined.coordinator.borrow_mut().set_exit_code(code);
    result
}
