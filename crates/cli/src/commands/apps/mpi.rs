//! Applications in a process that an MPI launcher or srun has started as one of several ranks: rank 0 directs
//! the measurement and prints, the other ranks follow its requests.

use super::told;
use crate::failure::{Exit, Failure};
use crate::launched;
use nodegauge_apps::iccg;
use nodegauge_machine::Topology;
use nodegauge_measure::FailureKind;
use nodegauge_measure::Notice;
use nodegauge_placement::{MemoryPolicy, Started, pin};
use nodegauge_team::Workers;
use nodegauge_team::mpi::World;

/// All ranks of the job, as known to rank 0.
pub(super) struct MpiRanks<'a> {
    pub(super) started: &'a Started,
    world: &'static World,
    /// CPUs of each rank, as bound by the launcher.
    cpus: Vec<Vec<u32>>,
}

/// Joins the job: rank 0 runs `measure`, the other ranks follow it.
pub(super) fn join(
    started: &Started,
    measure: impl FnOnce(&MpiRanks<'_>) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    if let Some(refused) = launched::on_several_hosts(started) {
        return refused;
    }
    let world = match World::join(started.launcher, started.ranks as usize) {
        Ok(world) => world,
        Err(refusal) => return launched::once(started, refusal),
    };
    let own = pin::current_affinity().map_err(Failure::missing)?;
    let own: Vec<u32> = own.into_iter().map(|cpu| cpu.0).collect();
    let cpus = world.gather(own)?;
    let Some(cpus) = cpus else { return Ok(Exit::Told(iccg::follow(world)?)) };
    let result = measure(&MpiRanks { started, world, cpus });
    let code = match &result {
        Ok(exit) => exit.number(),
        Err(failure) => Exit::from(failure).number(),
    };
    iccg::end(world, code)?;
    result
}

impl MpiRanks<'_> {
    /// Returns the ranks as the launcher has placed them.
    pub(super) fn workers(
        &self,
        topology: &Topology,
        notices: &mut Vec<Notice>,
    ) -> Result<Workers, Failure> {
        let plan = self.started.places(&self.cpus, topology, 1, &MemoryPolicy::Default);
        let mut plan = plan.map_err(|(rank, why)| {
            Failure::from(why).of(format_args!("rank {rank}")).kind(FailureKind::Usage)
        })?;
        told(notices, std::mem::take(&mut plan.notices));
        Ok(Workers::Mpi(plan, self.world))
    }
}
