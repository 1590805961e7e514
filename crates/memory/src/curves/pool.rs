//! Who measures: a team of workers, and beside a single one a witness on another CPU, with whom it
//! measures the core-to-core latency and who otherwise sleeps.

use crate::core_to_core::{self, SharedLines};
use crate::point::{self, PointError, Sample, Stretch, have_cpus_of_their_own};
use crate::team::{Member, Team};
use nodegauge_machine::CpuId;
use nodegauge_measure::interference::{Cause, ThreadCounts, stolen_ticks};
use nodegauge_measure::schedule;
use nodegauge_os::monotonic_nanos;
use nodegauge_placement::display::ObservedAffinity;

/// Workers, and perhaps a witness.
pub(crate) struct WorkerPool {
    team: Team,
    workers: usize,
    shared_lines: SharedLines,
}

/// A job that all workers began together.
#[derive(Debug, Clone)]
pub(crate) struct Timed<T> {
    /// From the first start to the last end, seconds.
    pub seconds: f64,
    /// What each worker's part made.
    pub made: Vec<T>,
    /// Why it does not count; empty when it does.
    pub causes: Vec<Cause>,
}

/// Times that a disturbed job is done in all.
const TRIES: usize = 3;

impl WorkerPool {
    /// Starts a worker for each place; an empty place leaves a worker unbound. A single bound worker
    /// gets a witness on `spare`.
    ///
    /// # Errors
    /// When threads cannot be started or bound.
    pub(crate) fn start(places: &[Vec<CpuId>], spare: Option<CpuId>) -> Result<Self, PointError> {
        let mut all = places.to_vec();
        if let (1, false, Some(spare)) = (all.len(), all[0].is_empty(), spare) {
            all.push(vec![spare]);
        }
        let shared_lines = if have_cpus_of_their_own(&all) { all.len() } else { 0 };
        Ok(Self {
            workers: places.len(),
            shared_lines: SharedLines::new(shared_lines),
            team: Team::start(&all)?,
        })
    }

    /// How many work.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Where each worker may run, as the kernel said.
    pub(crate) fn observed(&self) -> &[ObservedAffinity] {
        &self.team.observed()[..self.workers]
    }

    /// A sample of what `measure` says, seconds and causes, between two round trips.
    ///
    /// # Errors
    /// When a member fails.
    pub(crate) fn sample(
        &mut self,
        measure: impl FnOnce(&mut Self) -> Result<(Vec<f64>, Vec<Cause>), PointError>,
    ) -> Result<Sample, PointError> {
        let before = core_to_core::round_trip(&mut self.team, &self.shared_lines)?;
        let (seconds, causes) = measure(self)?;
        let after = core_to_core::round_trip(&mut self.team, &self.shared_lines)?;
        Ok(Sample { seconds, round_trips: (before, after), causes, each: Vec::new() })
    }

    /// Lets every worker do `job`, which is given the worker's number, untimed.
    ///
    /// # Errors
    /// When a member fails.
    pub(crate) fn work<T: Send>(
        &mut self,
        job: impl Fn(usize) -> T + Sync,
    ) -> Result<Vec<T>, PointError> {
        let workers = self.workers;
        let made = self.team.map(|member| (member.index < workers).then(|| job(member.index)))?;
        Ok(made.into_iter().flatten().collect())
    }

    /// As [`Self::timed`], and again where something interfered.
    ///
    /// # Errors
    /// When a member fails.
    pub(crate) fn undisturbed<T: Send>(
        &mut self,
        job: impl Fn(usize) -> T + Sync,
    ) -> Result<Timed<T>, PointError> {
        schedule::undisturbed(
            TRIES,
            |timed: &Timed<T>| !timed.causes.is_empty(),
            || self.timed(&job),
        )
    }

    /// Lets every worker do `job` at once, and times it.
    ///
    /// # Errors
    /// When a member fails.
    pub(crate) fn timed<T: Send>(
        &mut self,
        job: impl Fn(usize) -> T + Sync,
    ) -> Result<Timed<T>, PointError> {
        let workers = self.workers;
        let stolen = stolen_ticks();
        let parts = self.team.map(|member| part(member, workers, &job))?;
        let stolen = stolen_ticks().zip(stolen).map_or(0, |(now, then)| now.saturating_sub(then));
        let mut timed = Timed { seconds: 0.0, made: Vec::new(), causes: Vec::new() };
        let (mut start, mut end, mut stretches) = (u64::MAX, 0, Vec::new());
        for (made, (from, to), stretch) in parts.into_iter().flatten() {
            (start, end) = (start.min(from), end.max(to));
            timed.made.push(made);
            stretches.push(stretch);
        }
        timed.seconds = point::seconds((start, end));
        timed.causes = point::causes(&stretches, stolen);
        Ok(timed)
    }
}

/// A member's part of a timed job: what it made, start and end in nanoseconds, and what interfered.
fn part<T>(
    member: &Member<'_>,
    workers: usize,
    job: &(impl Fn(usize) -> T + Sync),
) -> Option<(T, (u64, u64), Stretch)> {
    let works = member.index < workers;
    let before = works.then(ThreadCounts::now);
    // The witness passes the barrier too, which waits for all.
    member.barrier();
    let before = before?;
    let start = monotonic_nanos();
    let made = job(member.index);
    let end = monotonic_nanos();
    let counts = ThreadCounts::now() - before;
    Some((made, (start, end), Stretch { counts, wall_nanos: end - start }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_plays_but_does_not_work() {
        let allowed = nodegauge_placement::pin::current_affinity().unwrap();
        let spare = allowed.get(1).copied();
        let mut pool = WorkerPool::start(&[vec![allowed[0]]], spare).unwrap();
        assert_eq!(pool.workers(), 1);
        assert_eq!(pool.work(|worker| worker).unwrap(), [0]);
        let timed = pool.timed(|worker| worker + 7).unwrap();
        assert_eq!(timed.made, [7]);
        let sample = pool.sample(|_| Ok((vec![1.0], Vec::new()))).unwrap();
        assert_eq!(sample.round_trips.0.is_finite(), spare.is_some());
        assert_eq!(pool.observed().len(), 1);
    }
}
