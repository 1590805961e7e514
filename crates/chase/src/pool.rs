//! Thread pool for measurements: a team of workers. If there is only one worker, the pool has an additional thread on
//! another CPU, the witness. Between samples, the worker and the witness measure the core-to-core latency; the rest of
//! the time the witness sleeps.

use nodegauge_arena::ArenaError;
use nodegauge_machine::CpuId;
use nodegauge_measure::Failure;
use nodegauge_measure::interference::Cause;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule;
use nodegauge_placement::display::ObservedAffinity;
use nodegauge_team::core_to_core::{self, SharedCacheLines};
use nodegauge_team::{Team, timed};

/// Pool of workers, with a witness thread if there is only one worker.
pub struct WitnessedPool {
    team: Team,
    workers: usize,
    shared_lines: SharedCacheLines,
}

/// Result of a job that all workers ran at the same time.
#[derive(Debug, Clone)]
pub(crate) struct TimedJob<T> {
    /// Time from the earliest start to the latest end, seconds.
    pub seconds: f64,
    /// Results of the workers, in order.
    pub results: Vec<T>,
    /// Disturbances because of which the result does not count; empty if there were none.
    pub causes: Vec<Cause>,
}

/// Maximum number of attempts to run a job without a disturbance.
const TRIES: usize = 3;

/// Returns an error if the user requested the end of the run. This is checked before each job, because under load the
/// jobs of a sample or of a set-up may take many seconds.
fn check_end_request() -> Result<(), Failure> {
    if nodegauge_os::is_end_requested() { Err(Failure::missing("interrupted")) } else { Ok(()) }
}

impl WitnessedPool {
    /// Starts a worker for each place; a worker with an empty place is not bound. If there is only one worker and it is
    /// bound, also starts a witness thread on the CPU `spare`.
    ///
    /// # Errors
    /// Fails if threads cannot be started or bound.
    pub fn start(places: &[Vec<CpuId>], spare: Option<CpuId>) -> Result<Self, ArenaError> {
        let mut all = places.to_vec();
        if let (1, false, Some(spare)) = (all.len(), all[0].is_empty(), spare) {
            all.push(vec![spare]);
        }
        Ok(Self {
            workers: places.len(),
            shared_lines: SharedCacheLines::for_places(&all),
            team: Team::start(&all)?,
        })
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the CPUs on which each worker may run, as reported by the kernel.
    pub fn observed_affinities(&self) -> &[ObservedAffinity] {
        &self.team.observed_affinities()[..self.workers]
    }

    /// Takes a sample, with core-to-core round trips measured before and after it. `measure` returns the seconds of
    /// each part and the causes of disturbances.
    ///
    /// # Errors
    /// Fails if a thread of the pool fails.
    pub(crate) fn take_sample(
        &mut self,
        measure: impl FnOnce(&mut Self) -> Result<(Vec<f64>, Vec<Vec<Cause>>), ArenaError>,
    ) -> Result<Sample, ArenaError> {
        let before = core_to_core::measure_round_trip(&mut self.team, &self.shared_lines)?;
        let (seconds, part_causes) = measure(self)?;
        let after = core_to_core::measure_round_trip(&mut self.team, &self.shared_lines)?;
        let round_trips = (before.0, after.0);
        Ok(Sample { round_trips, part_causes, ..Sample::from_times(seconds) })
    }

    /// Runs `job` on every worker without timing. The argument of the job is the number of the worker.
    ///
    /// # Errors
    /// Fails if a thread of the pool fails, or if the user ends the run.
    pub(crate) fn run<T: Send>(
        &mut self,
        job: impl Fn(usize) -> T + Sync,
    ) -> Result<Vec<T>, ArenaError> {
        check_end_request()?;
        let workers = self.workers;
        let made = self
            .team
            .run_and_collect(|member| (member.index < workers).then(|| job(member.index)))?;
        Ok(made.into_iter().flatten().collect())
    }

    /// Runs `job` like [`Self::run_timed`], and repeats it if it was disturbed.
    ///
    /// # Errors
    /// Fails if a thread of the pool fails.
    pub(crate) fn run_timed_undisturbed<T: Send>(
        &mut self,
        job: impl Fn(usize) -> T + Sync,
    ) -> Result<TimedJob<T>, ArenaError> {
        schedule::repeat_until_undisturbed(
            TRIES,
            |timed: &TimedJob<T>| !timed.causes.is_empty(),
            || self.run_timed(&job),
        )
    }

    /// Runs `job` on all workers simultaneously, and times it.
    ///
    /// # Errors
    /// Fails if a thread of the pool fails, or if the user ends the run.
    pub(crate) fn run_timed<T: Send>(
        &mut self,
        job: impl Fn(usize) -> T + Sync,
    ) -> Result<TimedJob<T>, ArenaError> {
        check_end_request()?;
        let workers = self.workers;
        // The witness must also reach the barrier, which waits for all threads of the team.
        let together = self.team.run_timed(|member, laps| {
            if member.index < workers {
                return Some(laps.time(|| job(member.index)));
            }
            laps.wait_at_barrier();
            None
        })?;
        Ok(TimedJob {
            seconds: together.spans.iter().copied().map(timed::span_seconds).sum(),
            results: together.results.into_iter().flatten().collect(),
            causes: [together.causes, together.part_causes.concat()].concat(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_worker_has_a_round_trip_if_a_cpu_is_spare() {
        let allowed = nodegauge_placement::pin::current_affinity().unwrap();
        let spare = allowed.get(1).copied();
        let mut pool = WitnessedPool::start(&[vec![allowed[0]]], spare).unwrap();
        assert_eq!(pool.workers(), 1);
        assert_eq!(pool.run(|worker| worker).unwrap(), [0]);
        let timed = pool.run_timed(|worker| worker + 7).unwrap();
        assert_eq!(timed.results, [7]);
        let sample = pool.take_sample(|_| Ok((vec![1.0], Vec::new()))).unwrap();
        assert_eq!(sample.round_trips.0.is_finite(), spare.is_some());
        assert_eq!(pool.observed_affinities().len(), 1);
    }
}
