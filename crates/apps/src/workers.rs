//! Who works: threads that stay, or ranks that are forked for each sample, measured in the same way.

use crate::config::WorkersConfig;
use nodegauge_machine::CpuId;
use nodegauge_measure::quantity::counted;
use nodegauge_measure::samples::Sample;
use nodegauge_placement::{Bind, Placement, RankPlan};
use nodegauge_team::core_to_core::{SharedLines, round_trip};
use nodegauge_team::mpi::{self, World};
use nodegauge_team::{Laps, Member, Team, TeamError, Timed, ranks};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Who works in a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workers {
    /// Threads of this process.
    Threads(Placement),
    /// Processes of one thread each.
    Ranks(RankPlan),
    /// Processes of one thread each that an MPI launcher has started, this one among them.
    Mpi(RankPlan, &'static World),
}

impl Workers {
    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Threads(placement) => placement.threads.len(),
            Self::Ranks(plan) | Self::Mpi(plan, _) => plan.threads(),
        }
    }

    /// The number of the policy by which ranks are placed.
    pub fn policy(&self) -> Option<u8> {
        match self {
            Self::Threads(_) | Self::Mpi(..) => None,
            Self::Ranks(plan) => plan.policy.map(|policy| policy.number()),
        }
    }

    /// `2 threads`, `2 ranks, policy 3 block`.
    pub fn in_words(&self) -> String {
        match self {
            Self::Threads(_) => counted(self.count(), "thread"),
            Self::Ranks(plan) | Self::Mpi(plan, _) => {
                format!("{}, {}", counted(self.count(), "rank"), plan.words)
            }
        }
    }

    /// The MPI that carries what they say; none where they share memory.
    pub fn carrier(&self) -> Option<String> {
        match self {
            Self::Mpi(_, world) => Some(world.name.clone()),
            Self::Threads(_) | Self::Ranks(_) => None,
        }
    }

    /// The CPUs that they may use.
    pub fn cpus(&self) -> Vec<CpuId> {
        self.together().cpus()
    }

    /// All of them as threads of one process.
    pub(crate) fn together(&self) -> Placement {
        match self {
            Self::Threads(placement) => placement.clone(),
            Self::Ranks(plan) | Self::Mpi(plan, _) => plan.together(),
        }
    }

    /// What the record says of them.
    pub fn config(&self) -> WorkersConfig {
        let together = self.together();
        let cpus = |threads: &Placement| {
            let of = threads.threads.iter();
            of.map(|thread| thread.cpus.iter().map(|cpu| cpu.0).collect()).collect()
        };
        let ranks = !matches!(self, Self::Threads(_));
        WorkersConfig {
            threads: Some(self.count() as u64),
            bind: Some(together.bind.to_string()),
            processes: ranks.then_some(self.count() as u64),
            places_asked: Some(together.places.clone()),
            cpus: (together.bind != Bind::None).then(|| cpus(&together)),
            policy: self.policy().map(u64::from),
        }
    }
}

/// The workers of all cells, ready: a team for each placement of threads.
pub struct WorkerPool<'a> {
    all: Vec<&'a Workers>,
    /// For each of them; none for ranks.
    teams: Vec<Option<Team>>,
    /// The team with most threads: regimes are known by round trips between these.
    widest: Option<usize>,
    lines: SharedLines,
}

impl<'a> WorkerPool<'a> {
    /// Starts the threads.
    ///
    /// # Errors
    /// When one cannot be started or bound.
    pub fn start(all: impl IntoIterator<Item = &'a Workers>) -> Result<Self, TeamError> {
        let all: Vec<&Workers> = all.into_iter().collect();
        let places = |workers: &Workers| match workers {
            Workers::Threads(placement) => Some(masks(placement)),
            Workers::Ranks(_) | Workers::Mpi(..) => None,
        };
        let teams =
            all.iter().map(|workers| places(workers).map(|of| Team::start(&of)).transpose());
        let teams = teams.collect::<Result<Vec<_>, _>>()?;
        let threads = |at: &usize| teams[*at].as_ref().map_or(0, Team::len);
        let widest = (0..all.len()).filter(|at| threads(at) > 0).max_by_key(threads);
        let lines = widest.and_then(|at| places(all[at])).unwrap_or_default();
        Ok(Self { all, teams, widest, lines: SharedLines::of_places(&lines) })
    }

    /// Where each thread may run, as the kernel said after binding.
    pub fn details(&self) -> Vec<String> {
        let of = self.widest.and_then(|at| self.teams[at].as_ref());
        of.into_iter().flat_map(|team| team.observed()).map(ToString::to_string).collect()
    }

    /// The CPUs of the widest team, between which regimes are told.
    pub fn places(&self) -> Vec<Vec<u32>> {
        let config = self.widest.map(|at| self.all[at].config());
        config.and_then(|config| config.cpus).unwrap_or_default()
    }

    /// The team of cell `at`; none of ranks.
    pub(crate) fn team(&mut self, at: usize) -> Option<&mut Team> {
        self.teams[at].as_mut()
    }

    fn round_trip(&mut self) -> Result<f64, TeamError> {
        let team = self.widest.and_then(|at| self.teams[at].as_mut());
        team.map_or(Ok(f64::NAN), |team| round_trip(team, &self.lines))
    }

    /// Lets the workers of cell `at` do `job`, as a sample between two round trips, with what each of them
    /// made.
    ///
    /// # Errors
    /// When one of them fails, and of forked ranks when `interrupted` says so: then they are ended. Others go on.
    ///
    /// # Safety
    /// Of ranks, as [`ranks::timed`]: `job` must neither wait for a thread nor take a lock that one may hold.
    pub unsafe fn sample<T: Serialize + DeserializeOwned + Send>(
        &mut self,
        at: usize,
        interrupted: &mut dyn FnMut() -> bool,
        job: impl Fn(&Member<'_>, &mut Laps<'_>) -> T + Sync,
    ) -> Result<(Sample, Timed<T>), TeamError> {
        let before = self.round_trip()?;
        let timed = match (self.all[at], &mut self.teams[at]) {
            // SAFETY: the caller's promise.
            (Workers::Ranks(plan), _) => unsafe { ranks::timed(&plan.ranks, interrupted, job) },
            (Workers::Mpi(_, world), _) => {
                let all = mpi::timed(world, job)?;
                Ok(all.unwrap_or_else(|| unreachable!("rank 0 has the pool")))
            }
            (_, Some(team)) => team.timed(job),
            (_, None) => unreachable!("threads have a team"),
        }?;
        let sample = timed.sample((before, self.round_trip()?));
        Ok((sample, timed))
    }
}

/// The CPUs of each thread; none where it is not bound.
pub(crate) fn masks(placement: &Placement) -> Vec<Vec<CpuId>> {
    let bound = placement.bind != Bind::None;
    let cpus = |cpus: &[CpuId]| if bound { cpus.to_vec() } else { Vec::new() };
    placement.threads.iter().map(|thread| cpus(&thread.cpus)).collect()
}
