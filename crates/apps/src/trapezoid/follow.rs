//! Requests of rank 0 of an MPI job to the other ranks.

use crate::followers;
use nodegauge_measure::Failure;
use nodegauge_solvers::trapezoid::TrapezoidLoop;
use nodegauge_team::mpi::World;
use serde::{Deserialize, Serialize};

/// Request of rank 0 to all other ranks: the same sum, several times.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SumRequest {
    /// Number of intervals.
    pub points: u64,
    /// Number of repetitions.
    pub sums: u64,
}

/// Serves the requests of rank 0; returns the exit code that rank 0 sends.
///
/// # Errors
/// Fails if a request cannot be read.
pub fn follow(world: &World) -> Result<u8, Failure> {
    let rule = TrapezoidLoop::detect();
    followers::serve(world, |SumRequest { points, sums }| {
        rule.compute_as_follower(world, points, sums)
    })
}
