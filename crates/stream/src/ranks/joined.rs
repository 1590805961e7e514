//! Ranks that an MPI launcher or srun has started, as seen by the process of rank 0.

use super::{SharedStreamCoordinator, StreamCoordinator};
use nodegauge_machine::Topology;
use nodegauge_measure::Failure;
use nodegauge_placement::launchers::{self, LauncherJob};
use nodegauge_placement::{MemoryPolicy, PlacementError, RankPlan};

/// Ranks that a launcher has started.
pub struct LaunchedRanks {
    /// Coordinator that sends requests to the ranks.
    pub coordinator: SharedStreamCoordinator,
    /// Description of the launcher that started this process.
    pub started: LauncherJob,
    /// CPUs that the launcher assigned to each rank.
    cpus: Vec<Vec<u32>>,
}

impl LaunchedRanks {
    /// Waits until all ranks have connected; called by the process of rank 0.
    ///
    /// # Errors
    /// Fails if a rank has not connected before the timeout.
    pub fn new(started: LauncherJob) -> Result<Self, Failure> {
        let coordinator = StreamCoordinator::join(&started)?;
        let cpus = coordinator.borrow().handshakes().map(|rank| rank.cpus.clone()).collect();
        Ok(Self { coordinator, started, cpus })
    }

    /// Returns the topology of the machine, limited to the CPUs that the launcher assigned to the ranks.
    pub fn topology(&self, topology: &Topology) -> Topology {
        launchers::restrict_cpus(topology, self.cpus.iter().flatten())
    }

    /// Plans the threads of the ranks on the CPUs that the launcher assigned to the ranks.
    ///
    /// # Errors
    /// Fails with the number of the rank if its threads do not fit its CPUs.
    pub fn place_ranks(
        &self,
        topology: &Topology,
        threads: u32,
        memory: &MemoryPolicy,
    ) -> Result<RankPlan, (u32, PlacementError)> {
        self.started.place_ranks(&self.cpus, topology, threads, memory)
    }
}
