//! Ranks that an MPI launcher has started: rank 0 measures, and the other ranks serve its requests until it ends them.

use crate::Workers;
use nodegauge_measure::Failure;
use nodegauge_measure::schedule::TurnFailure;
use nodegauge_team::mpi::World;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Request of rank 0 to all other ranks.
#[derive(Debug, Serialize, Deserialize)]
enum RankRequest<T> {
    /// Requests work of an application.
    Work(T),
    /// Requests the end of the process with this exit code.
    End(u8),
}

/// Requests work from all other ranks of an MPI job; does nothing without MPI.
pub(crate) fn request_work<T: Serialize>(
    workers: &Workers,
    work: impl FnOnce() -> T,
) -> Result<(), Failure> {
    match workers {
        Workers::Mpi(_, world) => world.broadcast(&RankRequest::Work(work())),
        Workers::Threads(_) | Workers::Ranks(_) => Ok(()),
    }
}

/// Returns the failure of a turn of these workers. A failed launcher rank affects all cells; other workers affect only
/// their own cell.
pub(crate) fn turn_failure(workers: &Workers, failure: Failure) -> TurnFailure {
    match workers {
        Workers::Mpi(..) => TurnFailure::Target(failure),
        Workers::Threads(_) | Workers::Ranks(_) => TurnFailure::Cell(failure),
    }
}

/// Serves the requests of rank 0 with `work`; returns the exit code that rank 0 sends.
///
/// # Errors
/// Fails if a request cannot be read, or if `work` fails.
pub(crate) fn serve<T: DeserializeOwned>(
    world: &World,
    mut work: impl FnMut(T) -> Result<(), Failure>,
) -> Result<u8, Failure> {
    // Rank 0 handles interrupts, and the launcher ends the other ranks when rank 0 ends.
    nodegauge_os::ignore_interrupts();
    loop {
        match serde_json::from_slice(&world.receive(0)).map_err(Failure::missing)? {
            RankRequest::Work(request) => work(request)?,
            RankRequest::End(code) => {
                world.leave();
                return Ok(code);
            }
        }
    }
}

/// Ends the other ranks and finalises MPI.
///
/// Fails if the request cannot be encoded, which does not happen.
pub fn end_ranks(world: &World, code: u8) -> Result<(), Failure> {
    world.broadcast(&RankRequest::<()>::End(code))?;
    world.leave();
    Ok(())
}
