//! Applications in a process that an MPI launcher or srun has started as one of several ranks: rank 0 directs
//! the measurement and prints, the other ranks follow its requests.

use crate::failure::{Exit, Failure};
use crate::{launched, session};
use nodegauge_apps::{MpiRanks, iccg, trapezoid};
use nodegauge_placement::Started;
use nodegauge_team::mpi::World;

/// What the ranks of an application do for rank 0.
pub(super) struct Followers {
    /// Serves rank 0 and returns the exit code.
    follow: fn(&World) -> Result<u8, Failure>,
    /// Ends the other ranks.
    end: fn(&World, u8) -> Result<(), Failure>,
}

/// Ranks of `apps iccg`.
pub(super) const ICCG: Followers = Followers { follow: iccg::follow, end: iccg::end };
/// Ranks of `apps trapezoid`.
pub(super) const TRAPEZOID: Followers =
    Followers { follow: trapezoid::follow, end: trapezoid::end };

/// Joins the job: rank 0 runs `measure`, the other ranks follow it.
pub(super) fn join(
    started: &Started,
    followers: &Followers,
    measure: impl FnOnce(&MpiRanks) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let world = match World::join(started.launcher, started.ranks as usize) {
        Ok(world) => world,
        Err(refusal) => return launched::once(started, refusal),
    };
    let gathered = match MpiRanks::gather(started, world, &session::version()) {
        Ok(gathered) => gathered,
        Err(refusal) => return launched::once(started, refusal),
    };
    let Some(ranks) = gathered else {
        return Ok(Exit::Told((followers.follow)(world)?));
    };
    let result = measure(&ranks);
    let code = match &result {
        Ok(exit) => exit.number(),
        Err(failure) => Exit::from(failure).number(),
    };
    (followers.end)(world, code)?;
    result
}
