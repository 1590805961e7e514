//! Context of a thread in a parallel program: the number of the thread, the barrier of the rank and the barrier of all
//! ranks.
//!
//! Code with this context runs on the threads of a single process and also on ranks with one thread each.

use nodegauge_measure::Failure;
use nodegauge_team::{Member, Team};

/// Context of a thread.
#[derive(Clone, Copy)]
pub(crate) struct ThreadContext<'a> {
    /// Number of the thread within the rank, from 0.
    pub thread: usize,
    /// True if the rank has a single thread.
    single: bool,
    member: &'a Member<'a>,
}

impl<'a> ThreadContext<'a> {
    /// Returns the context of a team member, for a program with a single rank.
    pub fn from_thread(member: &'a Member<'a>) -> Self {
        Self { thread: member.index, single: false, member }
    }

    /// Returns the context of the only thread of a rank.
    pub fn from_rank(member: &'a Member<'a>) -> Self {
        Self { thread: 0, single: true, member }
    }

    /// Waits for all threads of the rank.
    #[inline]
    pub fn barrier(&self) {
        if !self.single {
            self.member.barrier();
        }
    }

    /// Waits for all threads of all ranks.
    #[inline]
    pub fn wait_for_all(&self) {
        self.member.barrier();
    }
}

/// Interface for running jobs on the threads of a rank.
///
/// # Safety
/// [`Threads::run_and_collect`] runs the job exactly once on each thread, with a context whose number is below
/// [`Threads::count`] and unique.
pub(crate) unsafe trait Threads {
    /// Returns the number of threads.
    fn count(&self) -> usize;

    /// Runs `job` on each thread and returns the results in thread order.
    ///
    /// # Errors
    /// Fails if a thread fails.
    fn run_and_collect<T: Send>(
        &mut self,
        job: impl Fn(&ThreadContext<'_>) -> T + Sync,
    ) -> Result<Vec<T>, Failure>;
}

// SAFETY: each member of a team has a unique index.
unsafe impl Threads for Team {
    fn count(&self) -> usize {
        self.len()
    }

    fn run_and_collect<T: Send>(
        &mut self,
        job: impl Fn(&ThreadContext<'_>) -> T + Sync,
    ) -> Result<Vec<T>, Failure> {
        Ok(Team::run_and_collect(self, |member| job(&ThreadContext::from_thread(member)))?)
    }
}

/// Rank with a single thread, which is the calling thread.
// SAFETY: the job runs once, on the only thread.
unsafe impl Threads for ThreadContext<'_> {
    fn count(&self) -> usize {
        1
    }

    fn run_and_collect<T: Send>(
        &mut self,
        job: impl Fn(&ThreadContext<'_>) -> T + Sync,
    ) -> Result<Vec<T>, Failure> {
        Ok(vec![job(self)])
    }
}
