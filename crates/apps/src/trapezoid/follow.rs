//! Requests of rank 0 of an MPI job to the other ranks, and the share of a worker in a sum.

use super::rule::Rule;
use crate::followers;
use nodegauge_measure::Failure;
use nodegauge_team::Member;
use nodegauge_team::mpi::{self, World};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

/// Request of rank 0 to all other ranks: the same sum several times, one after another.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SumRequest {
    /// Number of intervals.
    pub points: u64,
    /// Number of sums.
    pub sums: u64,
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
    let (rule, stop) = (Rule::detect(), AtomicBool::new(false));
    followers::serve(world, |SumRequest { points, sums }| {
        mpi::timed(world, |member, laps| laps.time(|| share(rule, member, points, sums, &stop)))?;
        Ok(())
    })
}
