//! Throttling of a measurement by the CPU quota of a control group, and judgement of the figures.

use nodegauge_machine::cgroup::Throttling;
use nodegauge_measure::Outcome;
use nodegauge_measure::interference;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, Status, Validity, doubt};
use nodegauge_measure::samples::MAX_DISTURBED_SHARE;
use std::time::Duration;

/// Share of throttled periods above which figures are suspect; the time for which threads were stopped must exceed the
/// same share. The rating of `hpl` has the same limit for disturbances.
const MIN_THROTTLED_SHARE: f64 = 0.02;

/// Adds the throttling to the reasons for doubt of the figures measured during `elapsed`. If most periods were
/// throttled, the kernel's counter proves the cause of the lost time, so reasons that attribute it to other programs
/// are removed. On a node whose CPUs are used by other programs, the quota may stop threads only briefly; then it is
/// not the cause.
pub(crate) fn judge(found: &mut Outcome, during: Option<Throttling>, elapsed: Duration) {
    let Some(during) = during.filter(|during| is_noticed(during, elapsed)) else { return };
    let is_main_cause = during.throttled_share().0 > MAX_DISTURBED_SHARE;
    let reason = in_words(&during);
    found.measurements.iter_mut().for_each(|figure| mark(figure, &reason, is_main_cause));
}

/// True if the quota stopped threads in enough periods and for long enough. Old kernels do not count the time.
fn is_noticed(during: &Throttling, elapsed: Duration) -> bool {
    let stopped_time = during.stopped_time.0;
    let is_long = stopped_time <= 0.0 || stopped_time > MIN_THROTTLED_SHARE * elapsed.as_secs_f64();
    is_long && during.throttled_share().0 > MIN_THROTTLED_SHARE
}

/// Returns the reason with the remedy.
fn in_words(during: &Throttling) -> String {
    format!(
        "{} {} of {}, for {} of CPU time: raise the quota (cpu.max, `docker run --cpus`, Kubernetes' cpu limit), or use fewer threads",
        doubt::THROTTLING_REASON_PREFIX,
        during.throttled_periods,
        count_in_words(during.periods as usize, "period"),
        during.stopped_time
    )
}

fn mark(figure: &mut Measurement, reason: &str, is_main_cause: bool) {
    if figure.is_published() {
        return;
    }
    if !is_main_cause {
        figure.doubt(Status::Suspect, reason);
        return;
    }
    for one in &mut figure.disturbed {
        one.reason = interference::reword_for_quota(&one.reason);
    }
    let before = std::mem::replace(&mut figure.validity, Validity::valid());
    // The decisive reason of an invalid figure remains the first.
    if before.status != Status::Invalid {
        figure.validity.mark_suspect(reason);
    }
    let kept = before.reasons.into_iter().filter(|known| !doubt::blames_other_programs(known));
    figure.validity.reasons.extend(kept);
    if before.status == Status::Invalid {
        figure.validity.status = Status::Invalid;
        figure.validity.reasons.push(reason.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::{DisturbedSample, QuotedStatistic};
    use nodegauge_measure::{Seconds, Unit};

    fn figure(reasons: &[&str]) -> Measurement {
        let m = Measurement::new("compute", "hpl", "rating", Unit::FlopsPerSecond);
        let mut m = m.with_value(QuotedStatistic::Best, 36e9);
        reasons.iter().for_each(|reason| m.validity.mark_suspect(*reason));
        m
    }

    fn judged(figures: Vec<Measurement>, throttled_periods: u64) -> Vec<Measurement> {
        let mut found = Outcome { measurements: figures, ..Outcome::default() };
        let stopped_time = Seconds(10.5 * throttled_periods as f64 / 144.0);
        let during = Throttling { periods: 147, throttled_periods, stopped_time };
        judge(&mut found, Some(during), Duration::from_secs(15));
        found.measurements
    }

    #[test]
    fn short_throttling_on_a_busy_node_is_not_named_as_a_cause() {
        let other = "other load took 36 % of the time of a thread during the solution";
        let of = |stopped_time: f64| {
            let mut found = Outcome { measurements: vec![figure(&[other])], ..Outcome::default() };
            let during = Throttling {
                periods: 187,
                throttled_periods: 45,
                stopped_time: Seconds(stopped_time),
            };
            judge(&mut found, Some(during), Duration::from_secs(18));
            found.measurements.remove(0).validity.reasons
        };
        assert_eq!(of(0.113), [other]);
        // A longer stop is a second cause; most of the lost time may still be that of other programs.
        let both = of(4.0);
        assert!(both.len() == 2 && both[0] == other, "{both:?}");
    }

    #[test]
    fn quota_replaces_other_load_as_the_reason() {
        let other = "other load took 36 % of the time of a thread during the solution; repeat the run on an idle node";
        let small = "N = 4000 is too small: panels limit the rating, not matrix products";
        let m = judged(vec![figure(&[small, other])], 144).remove(0);
        assert_eq!(m.validity.status, Status::Suspect);
        let [first, second] = &m.validity.reasons[..] else { panic!("{:?}", m.validity) };
        assert!(first.starts_with("the CPU quota of the control group throttled 144 of 147 periods, for 10.50 s of CPU time: raise the quota"), "{first}");
        assert_eq!(second, small);
        assert_eq!(doubt::CauseEvidence::from_reason(first), doubt::CauseEvidence::Counted);
    }

    #[test]
    fn valid_figure_of_a_throttled_run_becomes_suspect() {
        assert_eq!(judged(vec![figure(&[])], 144)[0].validity.status, Status::Suspect);
        assert_eq!(judged(vec![figure(&[])], 1)[0].validity.status, Status::Valid);
    }

    #[test]
    fn invalid_figure_of_a_throttled_run_keeps_its_first_reason() {
        let invalid = figure(&[]).without_value("the residual is too large");
        let m = judged(vec![invalid], 144).remove(0);
        assert_eq!((m.validity.status, m.validity.reasons.len()), (Status::Invalid, 2));
        assert_eq!(m.validity.reasons[0], "the residual is too large");
    }

    #[test]
    fn reason_for_lost_time_of_throttled_samples_names_the_cpu_quota() {
        let mut disturbed = figure(&[]);
        let reason = "another program used a core for 40 % of the time".to_owned();
        disturbed.disturbed = vec![DisturbedSample { reason, ..DisturbedSample::default() }];
        let m = judged(vec![disturbed], 144).remove(0);
        assert!(m.disturbed[0].reason.starts_with("the CPU quota or another"), "{m:?}");
    }
}
