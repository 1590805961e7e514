//! Ranks that an MPI launcher or srun has started, as rank 0 sees them.

use super::{SharedStreamCoordinator, StreamCoordinator};
use nodegauge_machine::Topology;
use nodegauge_measure::Failure;
use nodegauge_placement::launchers::{self, Started};
use nodegauge_placement::{MemoryPolicy, PlacementError, RankPlan};

/// Ranks that a launcher has started.
pub struct LaunchedRanks {
    /// Coordinator that sends them requests.
    pub coordinator: SharedStreamCoordinator,
    /// Launcher of this process.
    pub started: Started,
    /// The CPUs that each of them was given.
    cpus: Vec<Vec<u32>>,
}

impl LaunchedRanks {
    /// Waits for the ranks; the process of rank 0 calls this.
    ///
    /// # Errors
    /// When some are missing when the time is over.
    pub fn new(started: Started) -> Result<Self, Failure> {
        let coordinator = StreamCoordinator::join(&started)?;
        let cpus = coordinator.borrow().handshakes().map(|rank| rank.cpus.clone()).collect();
        Ok(Self { coordinator, started, cpus })
    }

    /// The machine, of which the CPUs that the launcher gave to all ranks may be used.
    pub fn topology(&self, topology: &Topology) -> Topology {
        launchers::limited(topology, self.cpus.iter().flatten())
    }

    /// The ranks where the launcher has put them.
    ///
    /// # Errors
    /// The rank and the reason when its threads find no place on its CPUs.
    pub fn places(
        &self,
        topology: &Topology,
        threads: u32,
        memory: &MemoryPolicy,
    ) -> Result<RankPlan, (u32, PlacementError)> {
        self.started.places(&self.cpus, topology, threads, memory)
    }
}
