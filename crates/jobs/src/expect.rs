//! Conditions of `where --expect`: `local>=95%`, `huge>=90%`, `waiting<=1%`. The worst process or thread is decisive.

use crate::document::{JobHost, JobProcess};
use nodegauge_analysis::expect::{Expectation, Operator};
use nodegauge_measure::{Failure, Fraction};

/// Quantities that a condition can name.
const NAMES: [&str; 3] = ["local", "huge", "waiting"];

/// Checks that `where` can evaluate these conditions.
///
/// # Errors
/// Fails if the name is unknown, if the unit is not %, or if the condition names a size.
pub fn check_supported(conditions: &[Expectation]) -> Result<(), Failure> {
    for condition in conditions {
        let is_known = condition.scope.is_none() && NAMES.contains(&condition.name.as_str());
        if !is_known {
            return Err(Failure::usage(format!(
                "--expect {condition}: nodegauge where has no figure of this name"
            ))
            .hint("use local, huge or waiting, e.g. --expect 'local>=95%'"));
        }
        if condition.unit != "%" || condition.size.is_some() {
            return Err(Failure::usage(format!("--expect {condition}: expected a share in %"))
                .hint("e.g. --expect 'local>=95%'"));
        }
    }
    Ok(())
}

/// Result of a condition.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedCondition {
    /// True if all processes meet the condition.
    pub is_met: bool,
    /// Sentence on the decisive process.
    pub text: String,
}

/// Checks a condition on all busy processes, or on all processes if none is busy. A process whose value is unknown does
/// not meet the condition.
pub fn check_condition(condition: &Expectation, hosts: &[JobHost]) -> CheckedCondition {
    let mut worst: Option<(f64, String)> = None;
    let any_busy = hosts.iter().flat_map(|host| &host.processes).any(JobProcess::is_busy);
    for host in hosts {
        for process in host.processes.iter().filter(|process| process.is_busy() || !any_busy) {
            let title = format!("{} on {}", process.title(), host.host);
            let Some(share) = figure(&condition.name, process) else {
                let text = format!("{condition}: unknown for {title}");
                return CheckedCondition { is_met: false, text };
            };
            let percent = 100.0 * share.0;
            let is_worse = worst.as_ref().is_none_or(|(known, _)| match condition.comparison {
                Operator::AtLeast | Operator::Above => percent < *known,
                Operator::AtMost | Operator::Below => percent > *known,
            });
            if is_worse {
                worst = Some((percent, title));
            }
        }
    }
    let Some((percent, title)) = worst else {
        return CheckedCondition { is_met: false, text: format!("{condition}: no process") };
    };
    let is_met = condition.comparison.holds(percent, condition.bound);
    let word = if is_met { "met" } else { "not met" };
    CheckedCondition { is_met, text: format!("{condition}: {word}, {percent:.1} % for {title}") }
}

/// Returns the value of a process for this name. For waiting, it is the largest value of its threads.
fn figure(name: &str, process: &JobProcess) -> Option<Fraction> {
    match name {
        "local" => process.memory.as_ref()?.local,
        "huge" => process.memory.as_ref()?.huge_page_share(),
        _ => {
            let shares = process.working_threads().filter_map(|thread| thread.waiting);
            shares.map(|share| share.0).reduce(f64::max).map(Fraction)
        }
    }
}
