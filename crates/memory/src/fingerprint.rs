//! The fingerprint of where a team runs: the round trip of a cache line between its members.
//!
//! Members ping-pong in neighbouring pairs, all pairs at once; the median over pairs identifies the
//! regime of a machine whose CPUs are moved (see [`nodegauge_measure::regime`]). A fingerprint
//! takes a fraction of a millisecond and is taken before and after every pass.

use crate::team::{Member, Team, TeamError};
use nodegauge_measure::stats;
use nodegauge_os::{CacheLine, Spin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Round trips in a batch; the fastest batch counts, so that an interrupt in one does no harm.
const TRIPS: u64 = 64;
/// Round trips between looks at the clock, whose cost would else be counted in.
const TRIPS_A_LOOK: u64 = 16;
/// Batches.
const BATCHES: u64 = 8;
/// Longest time for one pair: members that share a CPU take a scheduler's turn for each trip.
const PATIENCE: Duration = Duration::from_millis(2);
/// Tells the partner to end.
const END: u64 = u64::MAX;

/// The lines that the pairs of a team play with.
#[derive(Debug)]
pub struct Courts(Vec<CacheLine<AtomicU64>>);

impl Courts {
    /// Courts for a team of `members`.
    pub fn new(members: usize) -> Self {
        Self((0..members / 2).map(|_| CacheLine::default()).collect())
    }
}

/// The fingerprint of `team`: the median round trip over its pairs, in seconds; NaN for a team of
/// one, which has none.
///
/// # Errors
/// When a member of the team fails.
pub fn take(team: &mut Team, courts: &Courts) -> Result<f64, TeamError> {
    if courts.0.is_empty() {
        return Ok(f64::NAN);
    }
    let trips = team.map(|member| play(member, courts))?;
    let trips: Vec<f64> = trips.into_iter().flatten().collect();
    Ok(stats::median(&trips))
}

/// Plays one member's part; the even one of a pair returns the round trip in seconds.
fn play(member: &Member<'_>, courts: &Courts) -> Option<f64> {
    let court = courts.0.get(member.index / 2);
    let serves = member.index.is_multiple_of(2);
    if let (Some(court), true) = (court, serves) {
        court.0.store(0, Ordering::Relaxed);
    }
    member.barrier();
    let ball = &court?.0;
    if serves {
        return Some(serve(ball, &std::thread::yield_now));
    }
    answer(ball, &std::thread::yield_now);
    None
}

/// Plays the first part of a pair on a line that holds 0 when both have come; returns the round
/// trip in seconds. `idle` is called while the other is long in answering.
pub(crate) fn serve(ball: &AtomicU64, idle: &dyn Fn()) -> f64 {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    let mut ping = 1;
    for _ in 0..BATCHES {
        let batch = Instant::now();
        let mut trips = 0;
        while trips < TRIPS && start.elapsed() < PATIENCE {
            for _ in 0..TRIPS_A_LOOK {
                ball.store(ping, Ordering::Release);
                wait_until(ball, idle, |seen| seen == ping + 1);
                ping += 2;
            }
            trips += TRIPS_A_LOOK;
        }
        if trips > 0 {
            best = best.min(batch.elapsed().as_secs_f64() / trips as f64);
        }
    }
    ball.store(END, Ordering::Release);
    best
}

/// Plays the second part.
pub(crate) fn answer(ball: &AtomicU64, idle: &dyn Fn()) {
    loop {
        // Odd values are the server's; the answer is the next even one.
        let ping = wait_until(ball, idle, |seen| seen % 2 == 1);
        if ping == END {
            return;
        }
        ball.store(ping + 1, Ordering::Release);
    }
}

/// Spins until `done` holds of the value, and returns it.
fn wait_until(ball: &AtomicU64, idle: &dyn Fn(), done: impl Fn(u64) -> bool) -> u64 {
    let mut spin = Spin::default();
    loop {
        let seen = ball.load(Ordering::Acquire);
        if done(seen) {
            return seen;
        }
        spin.pause_or(|_| idle());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_a_round_trip_and_a_single_thread_has_none() {
        for (members, has) in [(1, false), (2, true), (3, true), (4, true)] {
            let mut team = Team::start(&vec![Vec::new(); members]).unwrap();
            let courts = Courts::new(members);
            let trip = take(&mut team, &courts).unwrap();
            assert_eq!(trip.is_finite() && trip > 1e-9, has, "{members} members: {trip}");
        }
    }
}
