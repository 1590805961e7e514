//! Ranks that an MPI launcher has started: the first one measures, and the others do as it says.

use super::solution::{self, Job};
use crate::Workers;
use crate::bandwidth;
use nodegauge_measure::Failure;
use nodegauge_team::mpi::{self, World};
use serde::{Deserialize, Serialize};

/// Request of rank 0 to all ranks, itself included.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SolverRequest {
    /// A solution.
    Solve(Job),
    /// A pass of the node's bandwidth over arrays of so many numbers.
    Bandwidth(usize),
    /// To end, with this exit code.
    End(u8),
}

/// Tells those who follow, if there are any.
pub(super) fn tell(
    workers: &Workers,
    request: impl FnOnce() -> SolverRequest,
) -> Result<(), Failure> {
    match workers {
        Workers::Mpi(_, world) => world.tell_all(&request()),
        Workers::Threads(_) | Workers::Ranks(_) => Ok(()),
    }
}

/// Does what rank 0 says, and returns the exit code that it gives.
///
/// # Errors
/// When what it says cannot be read.
pub fn follow(world: &World) -> Result<u8, Failure> {
    // Rank 0 decides what becomes of the run, and the launcher ends the others when it ends.
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

/// Ends the others, and MPI.
///
/// # Errors
/// None that can happen.
pub fn end(world: &World, code: u8) -> Result<(), Failure> {
    world.tell_all(&SolverRequest::End(code))?;
    world.leave();
    Ok(())
}
