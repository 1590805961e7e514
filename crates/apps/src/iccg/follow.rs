//! Ranks that an MPI launcher has started: rank 0 measures, and the other ranks serve its requests.

use super::solution::{self, Job};
use crate::Workers;
use crate::bandwidth;
use nodegauge_measure::Failure;
use nodegauge_team::mpi::{self, World};
use serde::{Deserialize, Serialize};

/// Request of rank 0 to all ranks, including rank 0.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SolverRequest {
    /// Requests a solution.
    Solve(Job),
    /// Requests one pass of the bandwidth measurement, over arrays with this number of elements.
    Bandwidth(usize),
    /// Requests the end of the process with this exit code.
    End(u8),
}

/// Sends a request to all other ranks of an MPI job; does nothing without MPI.
pub(super) fn tell(
    workers: &Workers,
    request: impl FnOnce() -> SolverRequest,
) -> Result<(), Failure> {
    match workers {
        Workers::Mpi(_, world) => world.tell_all(&request()),
        Workers::Threads(_) | Workers::Ranks(_) => Ok(()),
    }
}

/// Serves the requests of rank 0; returns the exit code that rank 0 sends.
///
/// # Errors
/// Fails if a request cannot be read.
pub fn follow(world: &World) -> Result<u8, Failure> {
    // Rank 0 handles interrupts, and the launcher ends the other ranks when rank 0 ends.
    nodegauge_os::ignore_interrupts();
    let loops = bandwidth::loops();
    loop {
        match serde_json::from_slice(&world.hear(0)).map_err(Failure::missing)? {
            SolverRequest::Solve(job) => drop(solution::mpi_rank(world, &job, &mut || false)?),
            SolverRequest::Bandwidth(elements) => {
                mpi::timed(world, |member, laps| bandwidth::pass(member, laps, &loops, elements))?;
            }
            SolverRequest::End(code) => {
                world.leave();
                return Ok(code);
            }
        }
    }
}

/// Ends the other ranks and finalises MPI.
///
/// # Errors
/// Fails if the request cannot be encoded, which does not happen.
pub fn end(world: &World, code: u8) -> Result<(), Failure> {
    world.tell_all(&SolverRequest::End(code))?;
    world.leave();
    Ok(())
}
