//! Workers of a job: threads of this process, or ranks in separate processes. A gauge describes its workers with
//! [`Workers`], starts them with [`WorkerPool::start`], and runs jobs with [`WorkerPool::sample`] or
//! [`WorkerPool::run`]. The code of the gauge does not depend on the kind of workers.
//!
//! # Process models
//!
//! There are two process models:
//!
//! * **Threads of this process**: a persistent [`Team`], whose threads sleep between jobs.
//! * **Ranks in other processes**. [`ranks`] are forked for one job, so that they see all memory that existed before
//!   the fork, and return their results through a pipe. [`rank_service`](crate::rank_service) ranks were started by a
//!   launcher, or as processes of this program; they are persistent, have their own state and handle requests that
//!   they receive over a socket. [`mpi`] ranks were also started by a launcher, and exchange data with the MPI
//!   library of the launcher.
//!
//! `rank_service` ranks are not a variant of [`Workers`]. Their job cannot be a closure, because they do not share
//! the memory of their coordinator. Each of these ranks is a team of threads that detects interference itself, as
//! samples of STREAM require.
//!
//! Common to all workers:
//!
//! * [`Member`]: index of the worker, number of workers, and the barrier at which workers wait for each other;
//! * [`TeamError`]: a worker that fails, dies or cannot start is reported with the same message. If a rank is lost, the
//!   other ranks are ended, so that no rank waits forever.
//!
//! Common to all variants of [`Workers`]:
//!
//! * [`Laps`] and [`TimedResults`]: parts of a job, timed from the earliest start to the latest end, with interference;
//! * [`InterruptCheck`]: ends a job early. Forked ranks are killed; threads must end by themselves.
//!
//! A team binds its threads. [`ranks::apply_place`] binds a forked rank and sets its memory policy. Ranks of a
//! launcher are bound by the launcher.
//!
//! No thread or process is started, no memory is allocated and nothing is sent while a part is timed.

use crate::core_to_core::{SharedCacheLines, measure_round_trip};
use crate::mpi::{self, World, WorldHosts};
use crate::{InterruptCheck, Laps, Member, Team, TeamError, TimedResults, ranks};
use nodegauge_machine::CpuId;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::samples::Sample;
use nodegauge_placement::{Binding, Placement, RankPlace, RankPlan};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Description of the workers of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workers {
    /// The workers are threads of this process.
    Threads(Placement),
    /// The workers are single-threaded processes, forked for each job.
    Ranks(RankPlan),
    /// The workers are single-threaded processes that an MPI launcher has started; this process is one of them.
    Mpi(RankPlan, &'static World),
}

impl Workers {
    /// Describes `count` threads that are not bound.
    pub fn unbound_threads(count: usize) -> Self {
        Self::Threads(Placement::new(Binding::None, "unbound", vec![Vec::new(); count]))
    }

    /// Describes `count` forked ranks that are not bound.
    pub fn unbound_ranks(count: usize) -> Self {
        let ranks = 0..count as u32;
        Self::Ranks(RankPlan {
            ranks: ranks.map(|rank| RankPlace::single_thread(rank, Vec::new())).collect(),
            policy: None,
            canonical_text: "unbound".to_owned(),
            devices: Vec::new(),
            device_count: 0,
            notices: Vec::new(),
        })
    }

    /// Returns the number of workers.
    pub fn count(&self) -> usize {
        match self {
            Self::Threads(placement) => placement.threads.len(),
            Self::Ranks(plan) | Self::Mpi(plan, _) => plan.threads(),
        }
    }

    /// True if the workers are processes.
    pub fn are_processes(&self) -> bool {
        !matches!(self, Self::Threads(_))
    }

    /// Returns the number of the policy that places the ranks; `None` without a policy.
    pub fn policy_number(&self) -> Option<u8> {
        match self {
            Self::Threads(_) | Self::Mpi(..) => None,
            Self::Ranks(plan) => plan.policy.map(|policy| policy.number()),
        }
    }

    /// Describes the workers: `2 threads`, `2 ranks, policy 3 block`.
    pub fn in_words(&self) -> String {
        match self {
            Self::Threads(_) => count_in_words(self.count(), "thread"),
            Self::Ranks(plan) | Self::Mpi(plan, _) => {
                format!("{}, {}", count_in_words(self.count(), "rank"), plan.canonical_text)
            }
        }
    }

    /// Returns the name of the MPI library that transports the data; `None` if the workers share memory.
    pub fn transport(&self) -> Option<String> {
        match self {
            Self::Mpi(_, world) => Some(world.name.clone()),
            Self::Threads(_) | Self::Ranks(_) => None,
        }
    }

    /// Returns the hosts of the workers; `None` if all are on one host.
    pub fn hosts(&self) -> Option<&WorldHosts> {
        match self {
            Self::Mpi(_, world) => world.hosts(),
            Self::Threads(_) | Self::Ranks(_) => None,
        }
    }

    /// Returns the CPUs that the workers may use.
    pub fn cpus(&self) -> Vec<CpuId> {
        self.all_threads().cpus()
    }

    /// Returns the placement of all workers as if they were threads of one process.
    pub fn all_threads(&self) -> Placement {
        match self {
            Self::Threads(placement) => placement.clone(),
            Self::Ranks(plan) | Self::Mpi(plan, _) => plan.all_threads(),
        }
    }

    /// Returns the CPU numbers of each worker; `None` if they are not bound.
    pub fn bound_cpus(&self) -> Option<Vec<Vec<u32>>> {
        let together = self.all_threads();
        if together.bind == Binding::None {
            return None;
        }
        let threads = together.threads.iter();
        Some(threads.map(|thread| thread.cpus.iter().map(|cpu| cpu.0).collect()).collect())
    }

    /// Returns the CPUs of each thread, as [`Team::start`] expects them; `None` for ranks.
    fn thread_places(&self) -> Option<Vec<Vec<CpuId>>> {
        let Self::Threads(placement) = self else { return None };
        Some(placement.thread_cpus())
    }
}

/// Pool of workers for several descriptions, ready to run jobs. It contains a team for each description of threads.
pub struct WorkerPool<'a> {
    all: Vec<&'a Workers>,
    /// Team of each description; `None` for ranks.
    teams: Vec<Option<Team>>,
    /// Index of the team with the most threads; its round trips identify regimes.
    widest: Option<usize>,
    lines: SharedCacheLines,
}

impl<'a> WorkerPool<'a> {
    /// Starts the teams of threads for all descriptions.
    ///
    /// # Errors
    /// Fails if a thread cannot be started or bound.
    pub fn start(all: impl IntoIterator<Item = &'a Workers>) -> Result<Self, TeamError> {
        let all: Vec<&Workers> = all.into_iter().collect();
        let mut teams: Vec<Option<Team>> = Vec::new();
        for workers in &all {
            let places = workers.thread_places();
            teams.push(places.map(|places| Team::start(&places)).transpose()?);
        }
        let threads: Vec<usize> =
            teams.iter().map(|team| team.as_ref().map_or(0, Team::len)).collect();
        let widest = (0..all.len()).filter(|at| threads[*at] > 0).max_by_key(|at| threads[*at]);
        let places = widest.and_then(|at| all[at].thread_places()).unwrap_or_default();
        Ok(Self { all, teams, widest, lines: SharedCacheLines::for_places(&places) })
    }

    /// Returns the affinity of each thread of the team with the most threads, as the kernel reported it after binding.
    pub fn widest_team_affinities(&self) -> Vec<String> {
        let of = self.widest.and_then(|at| self.teams[at].as_ref());
        of.into_iter()
            .flat_map(|team| team.observed_affinities())
            .map(ToString::to_string)
            .collect()
    }

    /// Returns the CPUs of the team with the most threads; its round trips identify regimes.
    pub fn widest_team_cpus(&self) -> Vec<Vec<u32>> {
        self.widest.and_then(|at| self.all[at].bound_cpus()).unwrap_or_default()
    }

    /// Returns the team for description number `at`; `None` for ranks.
    pub fn team(&mut self, at: usize) -> Option<&mut Team> {
        self.teams[at].as_mut()
    }

    fn round_trip(&mut self) -> Result<f64, TeamError> {
        let team = self.widest.and_then(|at| self.teams[at].as_mut());
        team.map_or(Ok(f64::NAN), |team| Ok(measure_round_trip(team, &self.lines)?.0))
    }

    /// Runs `job` on the workers of description number `at`. Returns a sample with the core-to-core round trips before
    /// and after it, and the results of the workers.
    ///
    /// # Errors
    /// Fails if a worker fails. An interrupt ends forked ranks; threads and MPI ranks run to the end of the job.
    ///
    /// # Safety
    /// For ranks, the conditions of [`ranks::run`] apply to `job`.
    pub unsafe fn sample<T: Serialize + DeserializeOwned + Send>(
        &mut self,
        at: usize,
        interrupt: InterruptCheck<'_>,
        job: impl Fn(&Member<'_>, &mut Laps<'_>) -> T + Sync,
    ) -> Result<(Sample, TimedResults<T>), TeamError> {
        let before = self.round_trip()?;
        let timed = match (self.all[at], &mut self.teams[at]) {
            // SAFETY: the caller guarantees the conditions for `job`.
            (Workers::Ranks(plan), _) => unsafe { ranks::run_timed(&plan.ranks, interrupt, job) },
            (Workers::Mpi(_, world), _) => {
                let all =
                    mpi::run_timed(world, job).map_err(|why| TeamError::Start(why.to_string()))?;
                Ok(all.unwrap_or_else(|| unreachable!("only rank 0 owns the pool")))
            }
            (_, Some(team)) => team.run_timed_until(interrupt, job),
            (_, None) => unreachable!("every description of threads has a team"),
        }?;
        let sample = timed.to_sample((before, self.round_trip()?));
        Ok((sample, timed))
    }

    /// Runs `job` on the workers of description number `at`, without timing. Returns the results of the workers in
    /// order.
    ///
    /// # Errors
    /// The conditions are the same as for [`WorkerPool::sample`].
    ///
    /// # Safety
    /// The conditions are the same as for [`WorkerPool::sample`].
    pub unsafe fn run<T: Serialize + DeserializeOwned + Send>(
        &mut self,
        at: usize,
        interrupt: InterruptCheck<'_>,
        job: impl Fn(&Member<'_>) -> T + Sync,
    ) -> Result<Vec<T>, TeamError> {
        match (self.all[at], &mut self.teams[at]) {
            // SAFETY: the caller guarantees the conditions for `job`.
            (Workers::Ranks(plan), _) => unsafe {
                ranks::run(&plan.ranks, interrupt, |member| Ok(job(member)))
            },
            (Workers::Mpi(_, world), _) => {
                let all = mpi::run_timed(world, |member, _| job(member));
                let all = all.map_err(|why| TeamError::Start(why.to_string()))?;
                Ok(all.unwrap_or_else(|| unreachable!("only rank 0 owns the pool")).results)
            }
            (_, Some(team)) => team.run_and_collect_until(interrupt, job),
            (_, None) => unreachable!("every description of threads has a team"),
        }
    }
}
