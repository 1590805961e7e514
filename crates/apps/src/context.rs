//! Context of a thread in a parallel program: its number, and the barriers of its rank and of all ranks.
//!
//! Code that threads run together is written once, both for the threads of a single process and for ranks of one thread
//! each.

use nodegauge_measure::Failure;
use nodegauge_team::{Member, Team};

/// Identity of a thread.
#[derive(Clone, Copy)]
pub(crate) struct ThreadContext<'a> {
    /// Number among the threads of its rank.
    pub thread: usize,
    /// True if its rank has no other thread.
    single: bool,
    member: &'a Member<'a>,
}

impl<'a> ThreadContext<'a> {
    /// Returns the context of a member whose team is the only rank.
    pub fn of_thread(member: &'a Member<'a>) -> Self {
        Self { thread: member.index, single: false, member }
    }

    /// Returns the context of the only thread of a rank.
    pub fn of_rank(member: &'a Member<'a>) -> Self {
        Self { thread: 0, single: true, member }
    }

    /// Waits for the threads of the rank.
    #[inline]
    pub fn barrier(&self) {
        if !self.single {
            self.member.barrier();
        }
    }

    /// Waits for all threads of all ranks.
    #[inline]
    pub fn barrier_of_all(&self) {
        self.member.barrier();
    }
}

/// The threads of a rank, as seen by the code that starts jobs on them.
///
/// # Safety
/// [`Threads::map`] runs the job exactly once on each thread, with a context whose number is below [`Threads::count`]
/// and unique.
pub(crate) unsafe trait Threads {
    /// Returns the number of threads.
    fn count(&self) -> usize;

    /// Runs `job` on each thread and returns the results in thread order.
    ///
    /// # Errors
    /// Fails if a thread fails.
    fn map<T: Send>(
        &mut self,
        job: impl Fn(&ThreadContext<'_>) -> T + Sync,
    ) -> Result<Vec<T>, Failure>;
}

// SAFETY: each member of a team has a unique index.
unsafe impl Threads for Team {
    fn count(&self) -> usize {
        self.len()
    }

    fn map<T: Send>(
        &mut self,
        job: impl Fn(&ThreadContext<'_>) -> T + Sync,
    ) -> Result<Vec<T>, Failure> {
        Ok(Team::map(self, |member| job(&ThreadContext::of_thread(member)))?)
    }
}

/// A rank with one thread, the calling one.
// SAFETY: there is one thread.
unsafe impl Threads for ThreadContext<'_> {
    fn count(&self) -> usize {
        1
    }

    fn map<T: Send>(
        &mut self,
        job: impl Fn(&ThreadContext<'_>) -> T + Sync,
    ) -> Result<Vec<T>, Failure> {
        Ok(vec![job(self)])
    }
}
