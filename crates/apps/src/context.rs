//! Context of a thread in a parallel program: its number among the threads of its rank, and among all ranks.
//!
//! Code that threads run together is written once, for the threads of a single process as for ranks of one thread
//! each.

use nodegauge_measure::Failure;
use nodegauge_team::{Member, Team};

/// The place of a thread.
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

/// The threads of a rank, as whoever leads them has them.
///
/// # Safety
/// [`Threads::map`] runs the job once on each thread, with a context whose number is below [`Threads::count`] and no
/// other thread's.
pub(crate) unsafe trait Threads {
    /// Returns the number of threads.
    fn count(&self) -> usize;

    /// Runs `job` on each and returns what each made, in order.
    ///
    /// # Errors
    /// When a thread fails.
    fn map<T: Send>(
        &mut self,
        job: impl Fn(&ThreadContext<'_>) -> T + Sync,
    ) -> Result<Vec<T>, Failure>;
}

// SAFETY: a member of a team has its own index.
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

/// A rank of one thread: the one that leads.
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
