//! Result type of all gauges and modes.

use crate::failure::{Failure, FailureKind};
use crate::notice::{self, Notice};
use crate::progress::Observer;
use crate::record::{EventCount, Finding, Measurement, Status};
use crate::repeat::StopReason;
use crate::schedule::RunLimits;
use std::time::Duration;

/// Time limits of a run, and the time until its first measurement.
#[derive(Debug, Clone, Copy)]
pub struct RunTiming {
    /// Limits of the whole run.
    pub limits: RunLimits,
    /// Time from the start of the run to the first measurement; zero if setup and measurement are
    /// not separated.
    pub setup_time: Duration,
}

/// Result of one or several gauges, from which the command makes a record.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Figures that were measured.
    pub measurements: Vec<Measurement>,
    /// Findings about the machine during the measurement.
    pub findings: Vec<Finding>,
    /// Notices: values that were clamped, assumed or replaced, and observations.
    pub notices: Vec<Notice>,
    /// Lines that the text shows only with `-v`, e.g. the CPU of each thread.
    pub details: Vec<String>,
    /// Reason why repetition ended; `None` if nothing was repeated.
    pub stop: Option<StopReason>,
    /// Time limits of the run, from which [`Outcome::finish_run`] determines whether it was late;
    /// `None` if it has no limits.
    pub time: Option<RunTiming>,
    /// Failure that ended the measurement early; figures measured before the failure are kept.
    pub failure: Option<Failure>,
    /// Hardware events during parts of the run, which the figures of the parts already take into account.
    pub judged_events: Vec<EventCount>,
    /// True if the figures of each part already take throttling by CPU quotas into account.
    pub has_judged_parts: bool,
}

impl Outcome {
    /// Returns the outcome of a run that was interrupted before anything was measured.
    pub fn interrupted() -> Self {
        Self { stop: Some(StopReason::Interrupted), ..Self::default() }
    }

    /// Completes the result of a run. An error in an interrupted run, e.g. during the setup, is
    /// reported as an interruption, not as a failure. If the run exceeded its budget, a notice
    /// states by how much and why; only this function adds the notice.
    ///
    /// # Errors
    /// Fails if the run failed without an interruption.
    pub fn finish_run(
        ended: Result<Self, Failure>,
        observer: &dyn Observer,
    ) -> Result<Self, Failure> {
        match ended {
            Err(_) if observer.is_interrupted() => Ok(Self::interrupted()),
            Err(failure) => Err(failure),
            Ok(mut outcome) => {
                outcome.add_overrun();
                Ok(outcome)
            }
        }
    }

    /// Sets the limits of the run and the time of its setup, unless a part of the run has already
    /// set them.
    pub fn set_run_time(&mut self, limits: &RunLimits, setup_time: Duration) {
        self.time.get_or_insert(RunTiming { limits: *limits, setup_time });
    }

    /// Adds a notice if the run exceeded its budget. The notice names the gauge if all figures are
    /// from one gauge.
    fn add_overrun(&mut self) {
        let Some(RunTiming { limits, setup_time }) = self.time.take() else { return };
        if self.is_interrupted() {
            return;
        }
        let first = self.measurements.first().map_or("", |m| m.gauge.as_str());
        let is_alone = self.measurements.iter().all(|m| m.gauge == first);
        let gauge = if is_alone { first } else { "" };
        self.notices.extend(limits.overrun_notice(gauge, setup_time));
    }

    /// True if the user or the system ended the run before everything was measured.
    pub fn is_interrupted(&self) -> bool {
        self.stop == Some(StopReason::Interrupted)
    }

    /// True if everything was measured.
    pub fn is_complete(&self) -> bool {
        !self.is_interrupted() && self.failure.is_none()
    }

    /// Returns the failure that ended the run. If the run has a figure, the failure has the exit
    /// code of an invalid result; otherwise it keeps its own exit code.
    pub fn ending_failure(&self) -> Option<Failure> {
        let failure = self.failure.clone()?;
        let any = self.measurements.iter().any(|m| m.value.is_some() && !m.is_published());
        Some(if any { failure.kind(FailureKind::Unmet) } else { failure })
    }

    /// Marks all figures that this run measured itself as suspect, with one reason.
    pub fn doubt_own_figures(&mut self, reason: &str) {
        for figure in self.measurements.iter_mut().filter(|figure| !figure.is_published()) {
            figure.doubt(Status::Suspect, reason);
        }
    }

    /// Appends the result of another gauge, or of a part of the run. Its time is already included
    /// in the time of the run.
    pub fn extend(&mut self, more: Self) {
        self.measurements.extend(more.measurements);
        self.findings.extend(more.findings);
        notice::add_new(&mut self.notices, more.notices);
        self.details.extend(more.details);
        let interrupted = self.is_interrupted() || more.stop == Some(StopReason::Interrupted);
        self.stop =
            if interrupted { Some(StopReason::Interrupted) } else { self.stop.or(more.stop) };
        self.failure = self.failure.take().or(more.failure);
        self.judged_events.extend(more.judged_events);
        self.has_judged_parts |= more.has_judged_parts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::progress::SilentObserver;

    /// Observer of a run that the user has interrupted.
    struct Interrupted;

    impl Observer for Interrupted {
        fn begin_phase(&mut self, _: &str) {}
        fn report_progress(&mut self, _: f64, _: &str) {}
        fn is_interrupted(&self) -> bool {
            true
        }
    }

    #[test]
    fn error_after_interrupt_is_an_interruption() {
        let failed = || Err(Failure::missing("no memory"));
        assert!(Outcome::finish_run(failed(), &Interrupted).unwrap().is_interrupted());
        assert_eq!(
            Outcome::finish_run(failed(), &SilentObserver).unwrap_err().message,
            "no memory"
        );
        let complete = Outcome::finish_run(Ok(Outcome::default()), &Interrupted).unwrap();
        assert!(complete.is_complete());
    }

    #[test]
    fn late_run_gets_one_notice() {
        let limits = RunLimits::new(Duration::from_secs(2), None);
        let mut outcome = Outcome::default();
        outcome.set_run_time(&limits, Duration::from_secs(1));
        let mut part = Outcome::default();
        part.set_run_time(&RunLimits::new(Duration::ZERO, None), Duration::ZERO);
        outcome.extend(part);
        clock::advance_clock(Duration::from_secs(9));
        let once = Outcome::finish_run(Ok(outcome), &SilentObserver).unwrap();
        let twice = Outcome::finish_run(Ok(once), &SilentObserver).unwrap();
        assert_eq!(twice.notices.len(), 1);
        let text = &twice.notices[0].message;
        assert!(text.contains("instead of 2.0 s (1.0 s for setup, and"), "{text}");
        let mut ended = Outcome::interrupted();
        ended.set_run_time(&limits, Duration::ZERO);
        assert!(Outcome::finish_run(Ok(ended), &SilentObserver).unwrap().notices.is_empty());
    }

    #[test]
    fn failure_after_a_measured_value_is_of_the_kind_unmet() {
        let mut failed =
            Outcome { failure: Some(Failure::missing("no memory")), ..Outcome::default() };
        assert_eq!(failed.ending_failure().unwrap().kind, FailureKind::Missing);
        let figure = Measurement::new("g", "t", "n", crate::Unit::Seconds);
        failed.measurements.push(figure.clone());
        assert_eq!(failed.ending_failure().unwrap().kind, FailureKind::Missing);
        failed.measurements.push(figure.with_value(crate::record::QuotedStatistic::Single, 1.0));
        assert_eq!(failed.ending_failure().unwrap().kind, FailureKind::Unmet);
        assert_eq!(Outcome::default().ending_failure(), None);
    }

    #[test]
    fn extended_outcome_keeps_interruption_or_first_stop() {
        let ended = |stop| Outcome { stop, ..Outcome::default() };
        let joined = |first, second| {
            let mut outcome = ended(first);
            outcome.extend(ended(second));
            outcome.stop
        };
        let (interrupted, stable) = (Some(StopReason::Interrupted), Some(StopReason::Stable));
        assert_eq!(joined(interrupted, stable), interrupted);
        assert_eq!(joined(stable, interrupted), interrupted);
        assert_eq!(joined(stable, Some(StopReason::Budget)), stable);
        assert_eq!(joined(None, stable), stable);
    }
}
