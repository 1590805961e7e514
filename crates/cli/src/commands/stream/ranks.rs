//! `stream` in a process that an MPI launcher or srun has started as one of several ranks: rank 0 directs the
//! measurement and prints, the other ranks follow its requests.

use crate::failure::{Exit, Failure};
use crate::launched;
use nodegauge_placement::Started;
use nodegauge_stream::ranks::{self, LaunchedRanks};

/// Joins the job: rank 0 runs `measure`, the other ranks serve it.
pub(super) fn join(
    started: Started,
    measure: impl FnOnce(&LaunchedRanks) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let Started { rank, ranks, .. } = started;
    if let Some(refused) = launched::on_several_hosts(&started) {
        return refused;
    }
    if rank > 0 {
        return Ok(Exit::Told(ranks::serve(&started.socket_name(), rank, ranks)?));
    }
    let joined = LaunchedRanks::new(started)?;
    let result = measure(&joined);
    let code = match &result {
        Ok(exit) => exit.number(),
        Err(failure) => Exit::from(failure).number(),
    };
    joined.coordinator.borrow_mut().leave_with(code);
    result
}
