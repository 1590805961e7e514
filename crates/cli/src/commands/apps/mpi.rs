//! Applications in a process that an MPI launcher or srun started as one of several ranks. Rank 0 controls the
//! measurement and prints; the other ranks execute its requests.

use crate::failure::{Exit, Failure};
use crate::{launched, session};
use nodegauge_apps::MpiRanks;
use nodegauge_placement::LauncherJob;
use nodegauge_team::mpi::World;

/// Function of an application that executes the requests of rank 0 and returns the exit code.
pub(super) type RequestFollower = fn(&World) -> Result<u8, Failure>;

/// Joins the job. Rank 0 runs `measure`; the other ranks execute its requests.
pub(super) fn join(
    started: &LauncherJob,
    follow: RequestFollower,
    measure: impl FnOnce(&MpiRanks) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let world = match World::join(started) {
        Ok(world) => world,
        Err(refusal) => return launched::fail_once(started, refusal),
    };
    let gathered = match MpiRanks::gather(started, world, &session::version()) {
        Ok(gathered) => gathered,
        Err(refusal) => return launched::fail_once(started, refusal),
    };
    let Some(ranks) = gathered else {
        return Ok(Exit::FromRank0(follow(world)?));
    };
    let result = measure(&ranks);
    let code = match &result {
        Ok(exit) => exit.code(),
        Err(failure) => Exit::from(failure).code(),
    };
    nodegauge_apps::end_ranks(world, code)?;
    result
}
