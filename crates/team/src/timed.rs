//! Timed samples: jobs of a team, timed part by part, with the interference with each part.
//!
//! The clock is read on every thread at the start and the end of a part. The kernel's counters of the thread are read
//! outside of the part, about a microsecond before and after it.

use crate::core_to_core::{SharedLines, round_trip};
use crate::{Interrupt, Member, Team, TeamError};
use nodegauge_measure::Seconds;
use nodegauge_measure::interference::{Cause, ThreadCounts, stolen_ticks};
use nodegauge_measure::samples::Sample;
use nodegauge_os::monotonic_nanos;
use serde::{Deserialize, Serialize};

/// First start and last end of a part, nanoseconds of [`monotonic_nanos`].
pub type Span = (u64, u64);

/// Returns the length of a span, seconds.
pub fn seconds((start, end): Span) -> f64 {
    end.saturating_sub(start) as f64 * 1e-9
}

/// Result of a job of a team, with the time of each part.
#[derive(Debug, Clone)]
pub struct Timed<T> {
    /// Time of each part, from the first start to the last end.
    pub spans: Vec<Span>,
    /// Interference with each part; empty if there was none.
    pub part_causes: Vec<Vec<Cause>>,
    /// Interference that cannot be attributed to one part.
    pub causes: Vec<Cause>,
    /// Results of the members' jobs.
    pub made: Vec<T>,
}

impl<T> Timed<T> {
    /// Joins the results of the members and their laps; `stolen` is the count of stolen clock ticks before the job.
    pub(crate) fn of(members: Vec<(T, Vec<Option<Lap>>)>, stolen: Option<u64>) -> Self {
        let (made, laps): (Vec<T>, Vec<Vec<Option<Lap>>>) = members.into_iter().unzip();
        let stolen = stolen_ticks().zip(stolen).map_or(0, |(now, then)| now.saturating_sub(then));
        let parts = laps.iter().map(Vec::len).min().unwrap_or(0);
        let part = |i: usize| laps.iter().filter_map(|laps| laps[i]).collect::<Vec<Lap>>();
        let parts: Vec<Vec<Lap>> = (0..parts).map(part).collect();
        Self {
            spans: parts.iter().map(|of_part| span(of_part)).collect(),
            part_causes: parts.iter().map(|of_part| causes(of_part)).collect(),
            causes: unplaced(&parts, stolen).into_iter().collect(),
            made,
        }
    }

    /// Returns a sample between two round trips, seconds.
    pub fn sample(&self, round_trips: (f64, f64)) -> Sample {
        Sample {
            round_trips,
            causes: self.causes.clone(),
            part_causes: self.part_causes.clone(),
            ..Sample::of_times(self.spans.iter().copied().map(seconds).collect())
        }
    }
}

/// Clock of a member for a job with several parts; all members must time the same number of parts.
pub struct Laps<'a> {
    member: &'a Member<'a>,
    laps: Vec<Option<Lap>>,
}

/// Part of one thread.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Lap {
    span: Span,
    /// Counters of the kernel for the thread.
    counts: ThreadCounts,
    /// Time between these counters, nanoseconds.
    wall_nanos: u64,
}

impl<'a> Laps<'a> {
    /// Creates a clock without parts.
    pub(crate) fn new(member: &'a Member<'a>) -> Self {
        Self { member, laps: Vec::new() }
    }

    /// Returns all laps.
    pub(crate) fn into_inner(self) -> Vec<Option<Lap>> {
        self.laps
    }

    /// Starts `work` with all members together, and times it.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (begun, before) = (monotonic_nanos(), ThreadCounts::now());
        self.member.barrier();
        let start = monotonic_nanos();
        let made = std::hint::black_box(work());
        let end = monotonic_nanos();
        let counts = ThreadCounts::now() - before;
        // The second counters are read as long after the end as the first ones were read after `begun`.
        let wall_nanos = end - begun;
        self.laps.push(Some(Lap { span: (start, end), counts, wall_nanos }));
        made
    }

    /// Takes part in the barrier of a part in which this member has no work.
    pub fn attend(&mut self) {
        self.member.barrier();
        self.laps.push(None);
    }
}

impl Team {
    /// Runs `job` on every member, with its parts timed.
    ///
    /// # Errors
    /// As [`Team::run`].
    pub fn timed<T: Send>(
        &mut self,
        job: impl Fn(&Member<'_>, &mut Laps<'_>) -> T + Sync,
    ) -> Result<Timed<T>, TeamError> {
        self.timed_until(Interrupt::never(), job)
    }

    /// Runs `job` as [`Team::timed`] and checks `interrupt` in the meantime: the job itself must end early if the
    /// user interrupts it.
    pub(crate) fn timed_until<T: Send>(
        &mut self,
        interrupt: Interrupt<'_>,
        job: impl Fn(&Member<'_>, &mut Laps<'_>) -> T + Sync,
    ) -> Result<Timed<T>, TeamError> {
        let stolen = stolen_ticks();
        let all = self.map_until(interrupt, |member| {
            let mut laps = Laps::new(member);
            let made = job(member, &mut laps);
            (made, laps.laps)
        })?;
        Ok(Timed::of(all, stolen))
    }

    /// Runs a timed job as a sample between two round trips over `lines`.
    ///
    /// # Errors
    /// As [`Team::run`].
    pub fn sample<T: Send>(
        &mut self,
        lines: &SharedLines,
        job: impl Fn(&Member<'_>, &mut Laps<'_>) -> T + Sync,
    ) -> Result<(Sample, Timed<T>), TeamError> {
        let before = round_trip(self, lines)?.0;
        let timed = self.timed(job)?;
        let sample = timed.sample((before, round_trip(self, lines)?.0));
        Ok((sample, timed))
    }
}

/// Share of a part by which interference may delay its end before the part counts as disturbed: a kernel thread that
/// runs for some microseconds has no measurable effect.
const DELAY_ALLOWED: f64 = 0.005;
/// Minimum delay that counts; below it, the system calls that read the counters matter.
const DELAY_FLOOR_NANOS: f64 = 20_000.0;
/// Number of page faults of all threads that is tolerated: stacks, counters, hints of NUMA balancing.
const FAULTS_ALLOWED: u64 = 16;
/// Length of a clock tick in which the kernel counts stolen time, nanoseconds.
const TICK_NANOS: f64 = 1e7;
/// If at least this share of the stolen time appears as time that threads were off their CPUs, the kernel attributes
/// it to threads (`CONFIG_PARAVIRT_TIME_ACCOUNTING`).
const STOLEN_SHOWN: f64 = 0.5;

fn span(laps: &[Lap]) -> Span {
    let start = laps.iter().map(|lap| lap.span.0).min().unwrap_or(0);
    let end = laps.iter().map(|lap| lap.span.1).max().unwrap_or(0);
    (start, end)
}

/// Returns the time for which a thread did not run, or was stolen, nanoseconds.
fn off_cpu(lap: &Lap) -> u64 {
    lap.wall_nanos.saturating_sub(lap.counts.cpu_nanos)
}

/// Returns the reasons why a part does not count. A thread that lost time delays the end only if no other thread
/// ended as late: with many threads, most threads that lose a little time delay nothing.
fn causes(laps: &[Lap]) -> Vec<Cause> {
    let (start, end) = span(laps);
    let undelayed = laps.iter().map(|lap| lap.span.1.saturating_sub(off_cpu(lap))).max();
    let lost = end.saturating_sub(undelayed.unwrap_or(end));
    let mut causes = Vec::new();
    if lost as f64 > (DELAY_ALLOWED * (end - start) as f64).max(DELAY_FLOOR_NANOS) {
        let switches = laps.iter().map(|lap| lap.counts.involuntary_switches).sum();
        causes.push(Cause::Preempted { switches, lost: Seconds(lost as f64 * 1e-9) });
    }
    let faults: u64 = laps.iter().map(|lap| lap.counts.faults).sum();
    if faults > FAULTS_ALLOWED.max(laps.len() as u64) {
        causes.push(Cause::Faults(faults));
    }
    causes
}

/// Returns stolen time that no thread's own time shows, so that it cannot be attributed to a part. It is counted for
/// the whole machine and is therefore compared with the time of all threads.
fn unplaced(parts: &[Vec<Lap>], ticks: u64) -> Option<Cause> {
    let laps = || parts.iter().flatten();
    let time: f64 = laps().map(|lap| lap.wall_nanos as f64).sum();
    let stolen = ticks as f64 * TICK_NANOS;
    let shown: f64 = laps().map(|lap| off_cpu(lap) as f64).sum();
    (stolen > DELAY_ALLOWED * time && shown < STOLEN_SHOWN * stolen)
        .then_some(Cause::Stolen { ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thread that ran from 0 to `end` microseconds and was off its CPU for `off` of them.
    fn lap(end: u64, off: u64) -> Lap {
        let (end, off) = (end * 1000, off * 1000);
        let counts = ThreadCounts { cpu_nanos: end - off, ..ThreadCounts::default() };
        Lap { span: (0, end), counts, wall_nanos: end }
    }

    #[test]
    fn a_thread_that_lost_time_and_still_ended_first_disturbs_nothing() {
        let mut laps = vec![lap(10_000, 0); 127];
        laps.push(lap(9_000, 900));
        assert_eq!(causes(&laps), []);
        laps.push(lap(11_000, 900));
        let Cause::Preempted { switches: 0, lost } = causes(&laps)[0] else { panic!("{laps:?}") };
        assert!((lost.0 - 0.9e-3).abs() < 1e-9);
        // Time that all threads lose delays the part.
        assert_eq!(causes(&[lap(10_000, 600), lap(10_000, 500)]).len(), 1);
        // Half a per cent and twenty microseconds are tolerated.
        assert_eq!(causes(&[lap(10_000, 49), lap(10_000, 49)]), []);
        assert_eq!(causes(&[lap(100, 19)]), []);
    }

    #[test]
    fn stolen_time_that_threads_show_is_of_their_parts_alone() {
        let quiet = vec![lap(50_000, 0); 2];
        let robbed = vec![lap(50_000, 0), lap(59_000, 9_000)];
        let parts = [quiet.clone(), robbed];
        assert_eq!(unplaced(&parts, 1), None);
        let told: Vec<usize> = parts.iter().map(|laps| causes(laps).len()).collect();
        assert_eq!(told, [0, 1]);
        // If the kernel does not attribute stolen time to threads, all parts are in doubt.
        let quiet_parts = [quiet.clone(), quiet];
        assert_eq!(unplaced(&quiet_parts, 1), Some(Cause::Stolen { ticks: 1 }));
        assert_eq!(unplaced(&quiet_parts, 0), None);
    }

    #[test]
    fn parts_are_timed_together_and_whoever_attends_has_none() {
        let mut team = Team::start(&vec![Vec::new(); 3]).unwrap();
        let lines = SharedLines::new(0);
        let (sample, timed) = team
            .sample(&lines, |member, laps| {
                for _ in 0..4 {
                    match member.index {
                        2 => laps.attend(),
                        _ => laps.time(|| std::thread::sleep(std::time::Duration::from_millis(1))),
                    }
                }
                member.index
            })
            .unwrap();
        assert_eq!((timed.made, sample.seconds.len()), (vec![0, 1, 2], 4));
        assert!(sample.seconds.iter().all(|seconds| *seconds >= 1e-3));
        assert!(timed.spans.windows(2).all(|two| two[0].1 <= two[1].0));
        // A sleeping thread is off its CPU.
        assert!(sample.part_causes.iter().all(|causes| !causes.is_empty()));
    }
}
