//! Persistent team of threads. Each thread is bound to its place before it touches memory. A spinning barrier releases
//! all threads simultaneously, so that a timed loop starts on every CPU within a microsecond. Every gauge that runs
//! loops on CPUs uses a team.
//!
//! The threads of a team (members) sleep between jobs and spin within a job. No thread is started while time is
//! measured. [`workers`] runs the same jobs in ranks, i.e. in other processes.

pub mod collect;
pub mod core_to_core;
pub mod host_ranks;
pub mod hosts;
mod interrupt;
pub mod mpi;
pub mod rank_service;
pub mod ranks;
pub mod timed;
pub mod workers;

pub use interrupt::{InterruptCheck, stopping_check};
pub use timed::{Laps, Span, TimedResults};
pub use workers::{WorkerPool, Workers};

use nodegauge_machine::CpuId;
use nodegauge_measure::Failure;
use nodegauge_measure::schedule::TurnFailure;
use nodegauge_os::{ProcessBarrier, SpinBarrier};
use nodegauge_placement::display::ObservedAffinity;
use nodegauge_placement::pin;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Error while a team is started or a job is run.
#[derive(Debug, thiserror::Error)]
pub enum TeamError {
    /// A thread could not be started or bound, or its affinity could not be read.
    #[error("{0}")]
    Start(String),
    /// A resource that a team requires is missing.
    #[error(transparent)]
    Missing(#[from] Failure),
    /// A thread of the team panicked, which is a bug.
    #[error("thread {0} of the team failed inside a job; this is a bug in nodegauge")]
    Panicked(usize),
    /// A rank could not start, or reported a failure inside a job.
    #[error("rank {rank}: {why}")]
    Failed {
        /// Number of the rank.
        rank: usize,
        /// Reason of the failure, as text.
        why: String,
    },
    /// The process of a rank ended before the end of its job.
    #[error("rank {rank} (process {process}) ended unexpectedly{}", how.as_deref().map_or_else(String::new, |how| format!(": {how}")))]
    Lost {
        /// Number of the rank.
        rank: usize,
        /// Identifier of the process of the rank.
        process: u32,
        /// Exit status of the process; `None` if the process is not a child of this process.
        how: Option<String>,
    },
    /// The user interrupted the job.
    #[error("interrupted")]
    Interrupted,
}

/// Converts an error of a team to the failure of a turn. All cells share the threads and ranks of the team, so the loss
/// of one of these is the loss of the target.
impl From<TeamError> for TurnFailure {
    fn from(error: TeamError) -> Self {
        match error {
            TeamError::Panicked(_) | TeamError::Failed { .. } | TeamError::Lost { .. } => {
                Self::Target(error.into())
            }
            TeamError::Start(_) | TeamError::Missing(_) | TeamError::Interrupted => {
                Self::Cell(error.into())
            }
        }
    }
}

impl From<TeamError> for Failure {
    fn from(error: TeamError) -> Self {
        match error {
            TeamError::Missing(failure) => failure,
            error => Self::missing(error),
        }
    }
}

/// Stack size of a thread, bytes. A job may call a library that expects the usual size. Only the used part of the
/// stack occupies memory.
const STACK: usize = 2 << 20;

/// One of the workers that run a job; it is passed to the job as an argument.
#[derive(Debug)]
pub struct Member<'a> {
    /// Index of this worker.
    pub index: usize,
    /// Number of workers.
    pub count: usize,
    barrier: MemberBarrier<'a>,
}

/// Barrier at which the members of a job wait for each other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MemberBarrier<'a> {
    /// Barrier in memory of this process.
    SpinBarrier(&'a SpinBarrier),
    /// Barrier in memory shared by processes.
    Processes(&'a ProcessBarrier),
    /// Barrier of the MPI library.
    World(&'a mpi::World),
}

impl Member<'_> {
    /// Spins until every member has reached the barrier. If another member has failed, this function ends the job with
    /// a panic without a message; the member that failed first reports the reason.
    #[inline]
    pub fn barrier(&self) {
        match self.barrier {
            MemberBarrier::SpinBarrier(gate) if gate.wait(self.count).is_err() => {
                resume_unwind(Box::new("another member of the team failed"));
            }
            MemberBarrier::SpinBarrier(_) => {}
            MemberBarrier::Processes(shared) => {
                if shared.wait(self.count).is_err() {
                    // Another rank is lost, so that this process cannot continue.
                    std::process::exit(rank_service::ABANDONED_EXIT_CODE.into());
                }
            }
            MemberBarrier::World(world) => world.barrier(),
        }
    }

    /// Ends the job of the members that wait at the barrier for this member.
    pub(crate) fn poison(&self) {
        if let MemberBarrier::SpinBarrier(gate) = self.barrier {
            gate.poison();
        }
    }
}

/// Job of a team, without its lifetime; see the safety comment in [`Team::run_until`].
struct Job(*const (dyn Fn(&Member<'_>) + Sync));

// SAFETY: the pointer is dereferenced only while `Team::run` keeps the job alive. The job is `Sync`, so that several
// threads may use it.
unsafe impl Send for Job {}

/// Report of a member: its index, and true if the job ended without a panic.
type Report = (usize, bool);

/// Team of bound threads.
pub struct Team {
    /// Channel to each member; a member ends when the channel is closed.
    jobs: Vec<SyncSender<Job>>,
    reports: Receiver<Report>,
    members: Vec<JoinHandle<()>>,
    observed_affinities: Vec<ObservedAffinity>,
    /// Index of the first member that panicked; `None` if none has.
    failed: Option<usize>,
}

impl Team {
    /// Starts one thread for each entry of `places`, and binds the thread to the CPUs of the entry. A thread with an
    /// empty entry is not bound.
    ///
    /// # Errors
    /// Fails if a thread cannot be started, or if the affinity that the kernel reports differs from the requested
    /// affinity.
    pub fn start(places: &[Vec<CpuId>]) -> Result<Self, TeamError> {
        let count = places.len();
        let gate = Arc::new(SpinBarrier::default());
        let (report, reports) = sync_channel(count);
        let mut team = Self {
            jobs: Vec::new(),
            reports,
            members: Vec::new(),
            observed_affinities: Vec::new(),
            failed: None,
        };
        for (index, place) in places.iter().enumerate() {
            let (tell, bound) = sync_channel(1);
            let (job, inbox) = sync_channel(1);
            let gate = Arc::clone(&gate);
            let report = report.clone();
            let place = place.clone();
            let member = std::thread::Builder::new()
                .name(format!("gauge-{index}"))
                .stack_size(STACK)
                .spawn(move || {
                    let affinity = bind(index as u32, &place);
                    let stays = affinity.is_ok();
                    if tell.send(affinity).is_ok() && stays {
                        let barrier = MemberBarrier::SpinBarrier(&gate);
                        work(&Member { index, count, barrier }, &inbox, &report);
                    }
                })
                .map_err(|cause| {
                    Failure::missing(format!("cannot start thread {index} of {count}"))
                        .cause(cause)
                        .hint("raise the limit of processes (ulimit -u) or of memory (ulimit -v), or use fewer threads")
                })?;
            team.members.push(member);
            team.jobs.push(job);
            team.observed_affinities.push(bound.recv().map_err(|_| TeamError::Panicked(index))??);
        }
        Ok(team)
    }

    /// Returns the number of threads.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if the team has no threads.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the CPUs of each thread, as the kernel reported them after binding.
    pub fn observed_affinities(&self) -> &[ObservedAffinity] {
        &self.observed_affinities
    }

    /// Runs `job` on every member; returns when all members have finished.
    ///
    /// # Errors
    /// Fails if a member panics; the team cannot be used afterwards.
    pub fn run(&mut self, job: impl Fn(&Member<'_>) + Sync) -> Result<(), TeamError> {
        self.run_until(InterruptCheck::never(), job)
    }

    /// Runs `job` on every member, and checks `interrupt` while it waits. The job itself must end early if the user
    /// interrupts the run. Returns when all members have finished.
    fn run_until(
        &mut self,
        mut interrupt: InterruptCheck<'_>,
        job: impl Fn(&Member<'_>) + Sync,
    ) -> Result<(), TeamError> {
        let job: &(dyn Fn(&Member<'_>) + Sync) = &job;
        // SAFETY: only the lifetime changes. This function neither returns nor unwinds before every member that
        // received the job has reported or ended, because `receive` catches a panic in `interrupt`. The pointer
        // therefore never outlives the job.
        let job = unsafe {
            std::mem::transmute::<
                *const (dyn Fn(&Member<'_>) + Sync + '_),
                *const (dyn Fn(&Member<'_>) + Sync + 'static),
            >(job)
        };
        let sent = self.jobs.iter().filter(|member| member.send(Job(job)).is_ok()).count();
        for _ in 0..sent {
            if let Some((index, false)) = interrupt.receive(&self.reports) {
                self.failed.get_or_insert(index);
            }
        }
        interrupt.end();
        self.failed.map_or(Ok(()), |index| Err(TeamError::Panicked(index)))
    }

    /// Runs `job` on every member and returns the results in order.
    ///
    /// # Errors
    /// Fails if a member panics; the team cannot be used afterwards.
    pub fn run_and_collect<T: Send>(
        &mut self,
        job: impl Fn(&Member<'_>) -> T + Sync,
    ) -> Result<Vec<T>, TeamError> {
        self.run_and_collect_until(InterruptCheck::never(), job)
    }

    /// Runs `job` like [`Team::run_and_collect`], and checks `interrupt` while it waits. The job itself must end early
    /// if the user interrupts the run.
    pub(crate) fn run_and_collect_until<T: Send>(
        &mut self,
        interrupt: InterruptCheck<'_>,
        job: impl Fn(&Member<'_>) -> T + Sync,
    ) -> Result<Vec<T>, TeamError> {
        let results: Vec<Mutex<Option<T>>> = (0..self.len()).map(|_| Mutex::new(None)).collect();
        self.run_until(interrupt, |member| {
            let made = job(member);
            *results[member.index].lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        })?;
        let made = results.into_iter().enumerate().map(|(index, slot)| {
            let made = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
            made.ok_or(TeamError::Panicked(index))
        });
        made.collect()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.jobs.clear();
        for member in self.members.drain(..) {
            // The result is ignored, because `run` has already reported a panic of a member.
            let _ = member.join();
        }
    }
}

/// Binds the calling thread, unless its place is empty. Returns the affinity that the kernel reports.
fn bind(index: u32, place: &[CpuId]) -> Result<ObservedAffinity, TeamError> {
    if !place.is_empty() {
        pin::pin_current_thread(place)
            .map_err(|error| TeamError::Start(error.with_thread(index).to_string()))?;
    }
    ObservedAffinity::current_thread(index).map_err(|error| TeamError::Start(error.to_string()))
}

/// Main function of a member: waits for a job, runs the job, and reports the end.
fn work(member: &Member<'_>, jobs: &Receiver<Job>, report: &SyncSender<Report>) {
    for Job(job) in jobs {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the thread that called `Team::run_until` keeps the job alive until this member has reported
            // below.
            unsafe { (*job)(member) }
        }));
        // Sending does not block, because the channel has a slot for the report of each member.
        let _ = report.send((member.index, outcome.is_ok()));
        if outcome.is_err() {
            member.poison();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn unbound(count: usize) -> Team {
        Team::start(&vec![Vec::new(); count]).unwrap()
    }

    #[test]
    fn every_member_runs_every_job_once() {
        let mut team = unbound(4);
        let total = AtomicUsize::new(0);
        for _ in 0..100 {
            team.run(|member| {
                total.fetch_add(member.index + 1, Ordering::Relaxed);
            })
            .unwrap();
        }
        assert_eq!(total.into_inner(), 100 * (1 + 2 + 3 + 4));
    }

    #[test]
    fn barrier_waits_for_all_members() {
        let mut team = unbound(3);
        let arrived = AtomicUsize::new(0);
        let seen = team
            .run_and_collect(|member| {
                (1..=50).all(|round| {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    member.barrier();
                    let seen = arrived.load(Ordering::SeqCst);
                    member.barrier();
                    seen == 3 * round
                })
            })
            .unwrap();
        assert_eq!(seen, [true; 3]);
    }

    #[test]
    fn panic_in_one_member_ends_job() {
        let mut team = unbound(2);
        let outcome = team.run(|member| {
            assert!(member.index != 1, "on purpose");
            member.barrier();
        });
        assert!(matches!(outcome, Err(TeamError::Panicked(_))));
    }

    #[test]
    fn members_run_on_their_cpus() {
        let allowed = pin::current_affinity().unwrap();
        let cpu = allowed[allowed.len() - 1];
        let team = Team::start(&[vec![cpu], allowed.clone()]).unwrap();
        let observed_affinities: Vec<_> =
            team.observed_affinities().iter().map(|o| o.cpus.clone()).collect();
        assert_eq!(observed_affinities, [vec![cpu], allowed]);
    }
}
