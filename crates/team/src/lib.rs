//! Persistent team of threads: each is pinned to its place before it touches memory, and all are released together by
//! a spinning barrier, so that a timed loop starts on every CPU within a microsecond. Every gauge that loads CPUs
//! itself uses a team.
//!
//! Members sleep between jobs and spin within a job. No thread is started while time is measured. [`workers`] runs
//! the same jobs in ranks in other processes.

pub mod core_to_core;
mod interrupt;
pub mod launched;
pub mod mpi;
pub mod ranks;
pub mod timed;
pub mod workers;

pub use interrupt::Interrupt;
pub use timed::{Laps, Span, Timed};
pub use workers::{WorkerPool, Workers};

use nodegauge_machine::CpuId;
use nodegauge_measure::Failure;
use nodegauge_os::{Gate, ProcessBarrier};
use nodegauge_placement::display::ObservedAffinity;
use nodegauge_placement::pin;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Failure to start a team or to finish a job.
#[derive(Debug, thiserror::Error)]
pub enum TeamError {
    /// A thread could not be started or bound, or its affinity could not be read.
    #[error("{0}")]
    Start(String),
    /// A resource that a team requires is missing.
    #[error(transparent)]
    Missing(#[from] Failure),
    /// A member of the team panicked, which is a bug.
    #[error("thread {0} of the team failed inside a job; this is a bug in nodegauge")]
    Panicked(usize),
    /// A rank could not start, or reported a failure inside a job.
    #[error("rank {rank}: {why}")]
    Failed {
        /// Rank.
        rank: usize,
        /// Reason, in words.
        why: String,
    },
    /// The process of a rank ended before the end of its job.
    #[error("rank {rank} (process {process}) ended unexpectedly{}", how.as_deref().map_or_else(String::new, |how| format!(": {how}")))]
    Lost {
        /// Rank.
        rank: usize,
        /// Process identifier.
        process: u32,
        /// Exit status of the process; `None` if it is the child of another process.
        how: Option<String>,
    },
    /// The user interrupted the job.
    #[error("interrupted")]
    Interrupted,
}

impl From<TeamError> for Failure {
    fn from(error: TeamError) -> Self {
        match error {
            TeamError::Missing(failure) => failure,
            error => Self::missing(error),
        }
    }
}

/// Stack of a member, bytes: a job may call an external library that expects the usual size. Only the used part takes
/// memory.
const STACK: usize = 2 << 20;

/// Worker that runs a job, as passed to the job.
#[derive(Debug)]
pub struct Member<'a> {
    /// Index of this worker.
    pub index: usize,
    /// Number of workers.
    pub count: usize,
    barrier: MemberBarrier<'a>,
}

/// Barrier of the members of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MemberBarrier<'a> {
    /// Barrier in memory of this process.
    Gate(&'a Gate),
    /// Barrier in memory shared by processes.
    Processes(&'a ProcessBarrier),
    /// Barrier of MPI.
    World(&'a mpi::World),
}

impl Member<'_> {
    /// Waits, spinning, for every member. If another member has failed, ends the job by a panic without a message:
    /// the member that failed first reports the reason.
    #[inline]
    pub fn barrier(&self) {
        match self.barrier {
            MemberBarrier::Gate(gate) if gate.wait(self.count).is_err() => {
                resume_unwind(Box::new("another member of the team failed"));
            }
            MemberBarrier::Gate(_) => {}
            MemberBarrier::Processes(shared) => {
                if shared.wait(self.count).is_err() {
                    // Another rank is lost: this process cannot continue.
                    std::process::exit(launched::ABANDONED.into());
                }
            }
            MemberBarrier::World(world) => world.barrier(),
        }
    }

    /// Ends the job of members that wait for this one.
    pub(crate) fn poison(&self) {
        if let MemberBarrier::Gate(gate) = self.barrier {
            gate.poison();
        }
    }
}

/// Job, with its lifetime erased; see the safety note in [`Team::run_until`].
struct Job(*const (dyn Fn(&Member<'_>) + Sync));

// SAFETY: the pointer is dereferenced only while `Team::run` keeps the job alive, and the job is `Sync`, so the
// members may share it.
unsafe impl Send for Job {}

/// Report of a member: its index, and true if it has finished its job without a panic.
type Report = (usize, bool);

/// Team of pinned threads.
pub struct Team {
    /// Channel to each member; a member ends when its channel is closed.
    jobs: Vec<SyncSender<Job>>,
    reports: Receiver<Report>,
    members: Vec<JoinHandle<()>>,
    observed: Vec<ObservedAffinity>,
    /// First member that panicked.
    failed: Option<usize>,
}

impl Team {
    /// Starts one thread for each entry of `places` and binds it to those CPUs; an empty entry leaves the thread
    /// unbound.
    ///
    /// # Errors
    /// Fails if a thread cannot be started, or if its affinity, read back, differs from the requested one.
    pub fn start(places: &[Vec<CpuId>]) -> Result<Self, TeamError> {
        let count = places.len();
        let gate = Arc::new(Gate::default());
        let (report, reports) = sync_channel(count);
        let (jobs, members, observed) = (Vec::new(), Vec::new(), Vec::new());
        let mut team = Self { jobs, reports, members, observed, failed: None };
        for (index, place) in places.iter().enumerate() {
            let (tell, bound) = sync_channel(1);
            let (job, inbox) = sync_channel(1);
            let (gate, report, place) = (Arc::clone(&gate), report.clone(), place.clone());
            let member = std::thread::Builder::new()
                .name(format!("gauge-{index}"))
                .stack_size(STACK)
                .spawn(move || {
                    let affinity = bind(index as u32, &place);
                    let stays = affinity.is_ok();
                    if tell.send(affinity).is_ok() && stays {
                        let barrier = MemberBarrier::Gate(&gate);
                        work(&Member { index, count, barrier }, &inbox, &report);
                    }
                })
                .map_err(|cause| {
                    Failure::missing(format!("cannot start thread {index} of {count}"))
                        .cause(cause)
                        .hint("raise the limit of processes (ulimit -u), or use fewer threads")
                })?;
            team.members.push(member);
            team.jobs.push(job);
            team.observed.push(bound.recv().map_err(|_| TeamError::Panicked(index))??);
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
    pub fn observed(&self) -> &[ObservedAffinity] {
        &self.observed
    }

    /// Runs `job` on every member and returns when all have finished.
    ///
    /// # Errors
    /// Fails if a member panics; the team cannot be used afterwards.
    pub fn run(&mut self, job: impl Fn(&Member<'_>) + Sync) -> Result<(), TeamError> {
        self.run_until(Interrupt::never(), job)
    }

    /// Runs `job` on every member and checks `interrupt` in the meantime: the job itself must end early if the user
    /// interrupts it. Returns when all have finished.
    fn run_until(
        &mut self,
        mut interrupt: Interrupt<'_>,
        job: impl Fn(&Member<'_>) + Sync,
    ) -> Result<(), TeamError> {
        let job: &(dyn Fn(&Member<'_>) + Sync) = &job;
        // SAFETY: only the lifetime changes. This function neither returns nor unwinds before every member that was
        // sent the job has reported, or has ended, so the pointer never outlives the job: `receive` catches a panic
        // of `interrupt`.
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
    /// As [`Team::run`].
    pub fn map<T: Send>(
        &mut self,
        job: impl Fn(&Member<'_>) -> T + Sync,
    ) -> Result<Vec<T>, TeamError> {
        self.map_until(Interrupt::never(), job)
    }

    /// Runs `job` as [`Team::map`] and checks `interrupt` in the meantime: the job itself must end early if the user
    /// interrupts it.
    pub(crate) fn map_until<T: Send>(
        &mut self,
        interrupt: Interrupt<'_>,
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
            // `run` has reported a member's panic.
            let _ = member.join();
        }
    }
}

/// Binds the calling thread, unless its place is empty, and reads its affinity from the kernel.
fn bind(index: u32, place: &[CpuId]) -> Result<ObservedAffinity, TeamError> {
    if !place.is_empty() {
        pin::pin_current_thread(place)
            .map_err(|error| TeamError::Start(error.of_thread(index).to_string()))?;
    }
    ObservedAffinity::of_current(index).map_err(|error| TeamError::Start(error.to_string()))
}

/// Main function of a member: waits for a job, runs it, reports.
fn work(member: &Member<'_>, jobs: &Receiver<Job>, report: &SyncSender<Report>) {
    for Job(job) in jobs {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the leader waits in `Team::run_until`, with the job alive, until this member has
            // reported below.
            unsafe { (*job)(member) }
        }));
        // The channel has room for a report of each member.
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
    fn nobody_passes_the_barrier_before_all_have_arrived() {
        let mut team = unbound(3);
        let arrived = AtomicUsize::new(0);
        let seen = team
            .map(|member| {
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
    fn a_panic_in_one_member_is_an_error_and_not_a_hang() {
        let mut team = unbound(2);
        let outcome = team.run(|member| {
            assert!(member.index != 1, "on purpose");
            member.barrier();
        });
        assert!(matches!(outcome, Err(TeamError::Panicked(_))));
    }

    #[test]
    fn members_are_bound_where_they_were_told() {
        let allowed = pin::current_affinity().unwrap();
        let cpu = allowed[allowed.len() - 1];
        let team = Team::start(&[vec![cpu], allowed.clone()]).unwrap();
        let observed: Vec<_> = team.observed().iter().map(|o| o.cpus.clone()).collect();
        assert_eq!(observed, [vec![cpu], allowed]);
    }
}
