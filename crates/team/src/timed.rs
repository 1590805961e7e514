//! Timed samples: jobs of a team, with the time of each part and the interference that affects it.
//!
//! Every thread reads the clock at the start and the end of a part. The kernel's counters of the thread are read
//! outside the part, about a microsecond before and after it.

use crate::core_to_core::{SharedCacheLines, measure_round_trip};
use crate::{InterruptCheck, Member, Team, TeamError};
use nodegauge_measure::Seconds;
use nodegauge_measure::interference::{Cause, ThreadCounts, stolen_ticks};
use nodegauge_measure::samples::Sample;
use nodegauge_os::monotonic_nanos;
use serde::{Deserialize, Serialize};

/// Earliest start and latest end of a part, in nanoseconds of [`monotonic_nanos`].
pub type Span = (u64, u64);

/// Returns the length of a span, seconds.
pub fn span_seconds((start, end): Span) -> f64 {
    end.saturating_sub(start) as f64 * 1e-9
}

/// Results of a job of a team, with the time of each part.
#[derive(Debug, Clone)]
pub struct TimedResults<T> {
    /// Time span of each part, from the earliest start to the latest end of any thread.
    pub spans: Vec<Span>,
    /// Interference that affects each part; empty if there was none.
    pub part_causes: Vec<Vec<Cause>>,
    /// Interference that cannot be attributed to one part.
    pub causes: Vec<Cause>,
    /// Results of the job, one per member.
    pub results: Vec<T>,
}

impl<T> TimedResults<T> {
    /// Combines the results and the laps of all members. `stolen` is the count of stolen clock ticks before the job.
    pub(crate) fn from_members(members: Vec<(T, Vec<Option<Lap>>)>, stolen: Option<u64>) -> Self {
        let (made, laps): (Vec<T>, Vec<Vec<Option<Lap>>>) = members.into_iter().unzip();
        let stolen = stolen_ticks().zip(stolen).map_or(0, |(now, then)| now.saturating_sub(then));
        let parts = laps.iter().map(Vec::len).min().unwrap_or(0);
        let parts: Vec<Vec<Lap>> =
            (0..parts).map(|part| laps.iter().filter_map(|laps| laps[part]).collect()).collect();
        Self {
            spans: parts.iter().map(|of_part| span(of_part)).collect(),
            part_causes: parts.iter().map(|of_part| causes(of_part)).collect(),
            causes: unattributed(&parts, stolen).into_iter().collect(),
            results: made,
        }
    }

    /// Returns the times as a sample with `round_trips`, which were measured before and after the job, in seconds.
    pub fn to_sample(&self, round_trips: (f64, f64)) -> Sample {
        Sample {
            round_trips,
            causes: self.causes.clone(),
            part_causes: self.part_causes.clone(),
            ..Sample::from_times(self.spans.iter().copied().map(span_seconds).collect())
        }
    }
}

/// Times of one member for a job with several parts; all members must time the same number of parts.
pub struct Laps<'a> {
    member: &'a Member<'a>,
    laps: Vec<Option<Lap>>,
}

/// Lap: one part of a job in one thread.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Lap {
    span: Span,
    /// Changes of the kernel's counters of the thread during the part.
    counts: ThreadCounts,
    /// Time between the two readings of the counters, nanoseconds.
    wall_nanos: u64,
}

impl Lap {
    /// Returns the lap in the time of another clock, which is `nanos` ahead of the clock that timed it.
    pub(crate) fn shifted(self, nanos: i64) -> Self {
        let (start, end) = self.span;
        Self {
            span: (start.saturating_add_signed(nanos), end.saturating_add_signed(nanos)),
            ..self
        }
    }
}

impl<'a> Laps<'a> {
    /// Creates an empty list of laps.
    pub(crate) fn new(member: &'a Member<'a>) -> Self {
        Self { member, laps: Vec::new() }
    }

    /// Returns all laps; `None` for a part in which this member had no work.
    pub(crate) fn into_inner(self) -> Vec<Option<Lap>> {
        self.laps
    }

    /// Waits for all members, runs `work`, and times it as a part of the job.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begun = monotonic_nanos();
        let before = ThreadCounts::now();
        self.member.barrier();
        let start = monotonic_nanos();
        let made = std::hint::black_box(work());
        let end = monotonic_nanos();
        let counts = ThreadCounts::now() - before;
        // The counters are read after `begun` and after `end`, with the same delay, so that `end - begun` is the time
        // between the two readings.
        let wall_nanos = end - begun;
        self.laps.push(Some(Lap { span: (start, end), counts, wall_nanos }));
        made
    }

    /// Waits at the barrier of a part in which this member has no work.
    pub fn wait_at_barrier(&mut self) {
        self.member.barrier();
        self.laps.push(None);
    }
}

impl Team {
    /// Runs `job` on every member, and times the parts of the job.
    ///
    /// # Errors
    /// Fails if a member panics; the team cannot be used afterwards.
    pub fn run_timed<T: Send>(
        &mut self,
        job: impl Fn(&Member<'_>, &mut Laps<'_>) -> T + Sync,
    ) -> Result<TimedResults<T>, TeamError> {
        self.run_timed_until(InterruptCheck::never(), job)
    }

    /// Runs `job` like [`Team::run_timed`], and checks `interrupt` while it waits. The job itself must end early if the
    /// user interrupts the run.
    pub(crate) fn run_timed_until<T: Send>(
        &mut self,
        interrupt: InterruptCheck<'_>,
        job: impl Fn(&Member<'_>, &mut Laps<'_>) -> T + Sync,
    ) -> Result<TimedResults<T>, TeamError> {
        let stolen = stolen_ticks();
        let all = self.run_and_collect_until(interrupt, |member| {
            let mut laps = Laps::new(member);
            let made = job(member, &mut laps);
            (made, laps.laps)
        })?;
        Ok(TimedResults::from_members(all, stolen))
    }

    /// Runs a timed job, and measures the core-to-core round trip before and after it over `lines`. Returns the sample.
    ///
    /// # Errors
    /// Fails if a member panics; the team cannot be used afterwards.
    pub fn sample<T: Send>(
        &mut self,
        lines: &SharedCacheLines,
        job: impl Fn(&Member<'_>, &mut Laps<'_>) -> T + Sync,
    ) -> Result<(Sample, TimedResults<T>), TeamError> {
        let before = measure_round_trip(self, lines)?.0;
        let timed = self.run_timed(job)?;
        let sample = timed.to_sample((before, measure_round_trip(self, lines)?.0));
        Ok((sample, timed))
    }
}

/// Share of the duration of a part by which interference may delay its end before the part counts as disturbed. A
/// kernel thread of a few microseconds has no measurable effect.
const MAX_DELAY: f64 = 0.005;
/// Minimum delay that counts as interference. A shorter delay may be caused by the system calls that read the counters.
const MIN_DELAY_NANOS: f64 = 20_000.0;
/// Tolerated number of page faults of all threads, e.g. of stacks, counters and NUMA balancing.
const MAX_FAULTS: u64 = 16;
/// Length of a clock tick in which the kernel counts stolen time, nanoseconds.
const TICK_NANOS: f64 = 1e7;
/// Minimum share of the stolen time that must appear as off-CPU time of threads. Otherwise the kernel is assumed
/// not to attribute stolen time to threads (`CONFIG_PARAVIRT_TIME_ACCOUNTING`).
const MIN_STOLEN_SHOWN: f64 = 0.5;

fn span(laps: &[Lap]) -> Span {
    let start = laps.iter().map(|lap| lap.span.0).min().unwrap_or(0);
    let end = laps.iter().map(|lap| lap.span.1).max().unwrap_or(0);
    (start, end)
}

/// Returns the time during a lap for which the thread did not run or its CPU was stolen, nanoseconds.
fn off_cpu(lap: &Lap) -> u64 {
    lap.wall_nanos.saturating_sub(lap.counts.cpu_nanos)
}

/// Returns the reasons why a part is disturbed. A thread that lost time delays the end of the part only if no other
/// thread ended as late. With many threads, a small loss in one thread usually does not delay the end.
fn causes(laps: &[Lap]) -> Vec<Cause> {
    let (start, end) = span(laps);
    let undelayed = laps.iter().map(|lap| lap.span.1.saturating_sub(off_cpu(lap))).max();
    let lost = end.saturating_sub(undelayed.unwrap_or(end));
    let mut causes = Vec::new();
    if lost as f64 > (MAX_DELAY * (end - start) as f64).max(MIN_DELAY_NANOS) {
        let switches = laps.iter().map(|lap| lap.counts.involuntary_switches).sum();
        causes.push(Cause::Preempted { switches, lost: Seconds(lost as f64 * 1e-9) });
    }
    let faults: u64 = laps.iter().map(|lap| lap.counts.faults).sum();
    if faults > MAX_FAULTS.max(laps.len() as u64) {
        causes.push(Cause::Faults(faults));
    }
    causes
}

/// Returns the stolen time that does not appear in the times of the threads and therefore cannot be attributed to a
/// part. Stolen time is counted for the whole machine; it is compared with the time of all threads.
fn unattributed(parts: &[Vec<Lap>], ticks: u64) -> Option<Cause> {
    let time: f64 = parts.iter().flatten().map(|lap| lap.wall_nanos as f64).sum();
    let stolen = ticks as f64 * TICK_NANOS;
    let shown: f64 = parts.iter().flatten().map(|lap| off_cpu(lap) as f64).sum();
    (stolen > MAX_DELAY * time && shown < MIN_STOLEN_SHOWN * stolen)
        .then_some(Cause::Stolen { ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lap of a thread that ran from 0 to `end` microseconds and was off its CPU for `off` microseconds.
    fn lap(end: u64, off: u64) -> Lap {
        let (end, off) = (end * 1000, off * 1000);
        let counts = ThreadCounts { cpu_nanos: end - off, ..ThreadCounts::default() };
        Lap { span: (0, end), counts, wall_nanos: end }
    }

    #[test]
    fn lost_time_counts_only_if_it_delays_the_end() {
        let mut laps = vec![lap(10_000, 0); 127];
        laps.push(lap(9_000, 900));
        assert_eq!(causes(&laps), []);
        laps.push(lap(11_000, 900));
        let Cause::Preempted { switches: 0, lost } = causes(&laps)[0] else { panic!("{laps:?}") };
        assert!((lost.0 - 0.9e-3).abs() < 1e-9);
        // Time that all threads lose delays the end of the part.
        assert_eq!(causes(&[lap(10_000, 600), lap(10_000, 500)]).len(), 1);
        // A delay of half a percent and at most twenty microseconds is tolerated.
        assert_eq!(causes(&[lap(10_000, 49), lap(10_000, 49)]), []);
        assert_eq!(causes(&[lap(100, 19)]), []);
    }

    #[test]
    fn stolen_time_is_attributed_to_disturbed_parts() {
        let quiet = vec![lap(50_000, 0); 2];
        let robbed = vec![lap(50_000, 0), lap(59_000, 9_000)];
        let parts = [quiet.clone(), robbed];
        assert_eq!(unattributed(&parts, 1), None);
        let reported: Vec<usize> = parts.iter().map(|laps| causes(laps).len()).collect();
        assert_eq!(reported, [0, 1]);
        // If the kernel does not attribute stolen time to threads, any part may be disturbed.
        let quiet_parts = [quiet.clone(), quiet];
        assert_eq!(unattributed(&quiet_parts, 1), Some(Cause::Stolen { ticks: 1 }));
        assert_eq!(unattributed(&quiet_parts, 0), None);
    }

    #[test]
    fn parts_include_only_members_with_work() {
        let mut team = Team::start(&vec![Vec::new(); 3]).unwrap();
        let lines = SharedCacheLines::new(0);
        let (sample, timed) = team
            .sample(&lines, |member, laps| {
                for _ in 0..4 {
                    match member.index {
                        2 => laps.wait_at_barrier(),
                        _ => laps.time(|| std::thread::sleep(std::time::Duration::from_millis(1))),
                    }
                }
                member.index
            })
            .unwrap();
        assert_eq!((timed.results, sample.seconds.len()), (vec![0, 1, 2], 4));
        assert!(sample.seconds.iter().all(|seconds| *seconds >= 1e-3));
        assert!(timed.spans.windows(2).all(|two| two[0].1 <= two[1].0));
        // A sleeping thread is off its CPU.
        assert!(sample.part_causes.iter().all(|causes| !causes.is_empty()));
    }
}
