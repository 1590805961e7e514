//! Ranks that an MPI launcher or srun has started, as rank 0 sees them.

use super::{Coordinator, SharedCoordinator, Started};
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::Failure;
use nodegauge_placement::{
    Bind, MemoryPolicy, Placement, PlacementError, RankPlace, RankPlan, Request, ThreadPlace,
};
use std::collections::BTreeSet;

/// Ranks that a launcher has started.
pub struct Joined {
    /// Who sends them requests.
    pub coordinator: SharedCoordinator,
    /// What the launcher says of this process.
    pub started: Started,
    /// The CPUs that each of them was given.
    cpus: Vec<Vec<u32>>,
}

impl Joined {
    /// Waits for the ranks; the process of rank 0 calls this.
    ///
    /// # Errors
    /// When some are missing when the time is over.
    pub fn new(started: Started) -> Result<Self, Failure> {
        let coordinator = Coordinator::join(&started)?;
        let cpus = coordinator.borrow().handshakes().map(|rank| rank.cpus.clone()).collect();
        Ok(Self { coordinator, started, cpus })
    }

    /// The machine, of which the CPUs that the launcher gave to all ranks may be used.
    pub fn topology(&self, topology: &Topology) -> Topology {
        limited(topology, self.cpus.iter().flatten())
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

impl Started {
    /// `Open MPI has started 4 ranks`
    pub fn in_words(&self) -> String {
        format!("{} has started {} ranks", self.launcher, self.ranks)
    }

    /// The ranks where the launcher has put them: each has so many threads on those of `cpus` that it was given.
    ///
    /// # Errors
    /// The rank and the reason when its threads find no place on its CPUs.
    pub fn places(
        &self,
        cpus: &[Vec<u32>],
        topology: &Topology,
        threads: u32,
        memory: &MemoryPolicy,
    ) -> Result<RankPlan, (u32, PlacementError)> {
        let place = |(rank, cpus): (u32, &Vec<u32>)| {
            let placement = within(topology, cpus, threads).map_err(|error| (rank, error))?;
            Ok(RankPlace { rank: Some(rank), placement, memory: memory.clone() })
        };
        Ok(RankPlan {
            ranks: (0..).zip(cpus).map(place).collect::<Result<_, _>>()?,
            policy: None,
            words: format!("as {} has it", self.launcher),
            devices: Vec::new(),
            device_count: 0,
            notices: vec![self.in_words()],
        })
    }
}

/// The machine, of which only these CPUs may be used.
fn limited<'a>(topology: &Topology, cpus: impl IntoIterator<Item = &'a u32>) -> Topology {
    let cpus: BTreeSet<u32> = cpus.into_iter().copied().collect();
    let mut limited = topology.clone();
    limited.threads.iter_mut().for_each(|thread| thread.allowed = cpus.contains(&thread.cpu.0));
    limited
}

/// One rank's threads on the CPUs that it was given: one thread may use all of them, several are
/// spread over them. A rank with every CPU of the machine is not bound.
fn within(topology: &Topology, cpus: &[u32], threads: u32) -> Result<Placement, PlacementError> {
    if threads > 1 {
        let request = Request { threads: Some(threads), ..Request::default() };
        return nodegauge_placement::plan(&limited(topology, cpus), &request);
    }
    let everywhere = cpus.len() >= topology.threads.len();
    let cpus = cpus.iter().map(|cpu| CpuId(*cpu)).collect();
    Ok(Placement {
        threads: vec![ThreadPlace { thread: 0, cpus }],
        bind: if everywhere { Bind::None } else { Bind::Close },
        places: "as given".to_owned(),
        notices: Vec::new(),
    })
}
