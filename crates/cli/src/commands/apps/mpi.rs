//! Applications in a process that an MPI launcher or srun has started as one of several ranks: rank 0 directs
//! the measurement and prints, the other ranks follow its requests.

use crate::failure::{Exit, Failure};
use crate::launched;
use nodegauge_apps::{MpiRanks, iccg};
use nodegauge_placement::Started;
use nodegauge_team::mpi::World;

/// Joins the job: rank 0 runs `measure`, the other ranks follow it.
pub(super) fn join(
    started: &Started,
    measure: impl FnOnce(&MpiRanks) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    if let Some(refused) = launched::on_several_hosts(started) {
        return refused;
    }
    let world = match World::join(started.launcher, started.ranks as usize) {
        Ok(world) => world,
        Err(refusal) => return launched::once(started, refusal),
    };
    let Some(ranks) = MpiRanks::gather(started, world)? else {
        return Ok(Exit::Told(iccg::follow(world)?));
    };
    let result = measure(&ranks);
    let code = match &result {
        Ok(exit) => exit.number(),
        Err(failure) => Exit::from(failure).number(),
    };
    iccg::end(world, code)?;
    result
}
