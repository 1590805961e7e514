//! Ranks started by an MPI launcher or srun, in the process of rank 0.

use super::{SharedStreamCoordinator, StreamCoordinator};
use nodegauge_machine::Topology;
use nodegauge_measure::Failure;
use nodegauge_placement::launchers::{self, Started};
use nodegauge_placement::{MemoryPolicy, PlacementError, RankPlan};

/// Ranks started by a launcher.
pub struct LaunchedRanks {
    /// Coordinator that sends them requests.
    pub coordinator: SharedStreamCoordinator,
    /// Launcher of this process.
    pub started: Started,
    /// CPUs that the launcher gave to each rank.
    cpus: Vec<Vec<u32>>,
}

impl LaunchedRanks {
    /// Waits for the ranks; called by the process of rank 0.
    ///
    /// # Errors
    /// Fails if ranks are missing at the timeout.
    pub fn new(started: Started) -> Result<Self, Failure> {
        let coordinator = StreamCoordinator::join(&started)?;
        let cpus = coordinator.borrow().handshakes().map(|rank| rank.cpus.clone()).collect();
        Ok(Self { coordinator, started, cpus })
    }

    /// Returns the machine, limited to the CPUs that the launcher gave to the ranks.
    pub fn topology(&self, topology: &Topology) -> Topology {
        launchers::limited(topology, self.cpus.iter().flatten())
    }

    /// Returns a plan of the ranks on the CPUs that the launcher gave them.
    ///
    /// # Errors
    /// The rank and the reason if its threads do not fit its CPUs.
    pub fn places(
        &self,
        topology: &Topology,
        threads: u32,
        memory: &MemoryPolicy,
    ) -> Result<RankPlan, (u32, PlacementError)> {
        self.started.places(&self.cpus, topology, threads, memory)
    }
}
