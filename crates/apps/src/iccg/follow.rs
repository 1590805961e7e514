//! Requests of rank 0 of an MPI job to the other ranks.

use crate::followers;
use nodegauge_measure::Failure;
use nodegauge_solvers::bandwidth;
use nodegauge_solvers::iccg::{self, SolutionJob};
use nodegauge_team::mpi::World;
use serde::{Deserialize, Serialize};

/// Request of rank 0 to all other ranks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SolverRequest {
    /// Requests a solve.
    Solve(SolutionJob),
    /// Requests one pass of the bandwidth measurement, over arrays with this number of elements.
    Bandwidth(usize),
}

/// Serves the requests of rank 0; returns the exit code that rank 0 sends.
///
/// # Errors
/// Fails if a request cannot be read.
pub fn follow(world: &World) -> Result<u8, Failure> {
    let loops = bandwidth::loops();
    followers::serve(world, |request| match request {
        SolverRequest::Solve(job) => iccg::solve_as_follower(world, &job),
        SolverRequest::Bandwidth(elements) => {
            bandwidth::measure_as_follower(world, &loops, elements)
        }
    })
}
