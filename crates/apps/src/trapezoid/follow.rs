//! Ranks that an MPI launcher has started: rank 0 measures sums, and the other ranks compute their shares.

use super::rule::Rule;
use crate::Workers;
use nodegauge_measure::Failure;
use nodegauge_team::Member;
use nodegauge_team::mpi::{self, World};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

/// Request of rank 0 to all other ranks.
#[derive(Debug, Serialize, Deserialize)]
enum SumRequest {
    /// Requests the same sum several times, one after another.
    Sums {
        /// Number of intervals.
        points: u64,
        /// Number of sums.
        sums: u64,
    },
    /// Requests the end of the process with this exit code.
    End(u8),
}

/// Requests sums from all other ranks of an MPI job; does nothing without MPI.
pub(super) fn tell(workers: &Workers, points: u64, sums: u64) -> Result<(), Failure> {
    match workers {
        Workers::Mpi(_, world) => world.tell_all(&SumRequest::Sums { points, sums }),
        Workers::Threads(_) | Workers::Ranks(_) => Ok(()),
    }
}

/// Computes the share of a worker in `sums` consecutive sums. Returns the bits of the number, because JSON has no NaN.
pub(super) fn share(
    rule: Rule,
    member: &Member<'_>,
    points: u64,
    sums: u64,
    stop: &AtomicBool,
) -> u64 {
    let mut share = 0.0;
    for _ in 0..sums {
        share = rule.share_unless(stop, black_box(points), member.index, member.count);
        member.barrier();
    }
    f64::to_bits(share)
}

/// Serves the requests of rank 0; returns the exit code that rank 0 sends.
///
/// # Errors
/// Fails if a request cannot be read.
pub fn follow(world: &World) -> Result<u8, Failure> {
    // Rank 0 handles interrupts, and the launcher ends the other ranks when rank 0 ends.
    nodegauge_os::ignore_interrupts();
    let (rule, stop) = (Rule::detect(), AtomicBool::new(false));
    loop {
        match serde_json::from_slice(&world.hear(0)).map_err(Failure::missing)? {
            SumRequest::Sums { points, sums } => {
                mpi::timed(world, |member, laps| {
                    laps.time(|| share(rule, member, points, sums, &stop))
                })?;
            }
            SumRequest::End(code) => {
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
    world.tell_all(&SumRequest::End(code))?;
    world.leave();
    Ok(())
}
