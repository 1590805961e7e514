//! Rule of doubt: decides from the samples of a figure, and from its limit, if the figure is suspect. The table is in
//! the chapter on the method.
//!
//! This is the only home of the minimum numbers of samples and of the widest intervals. A gauge adds reasons of its own
//! and may be stricter. The functions are pure.

use super::{Counts, Measurement, Quoted, Status};
use crate::Fraction;
use crate::samples::Plural;
use crate::stats::Better;
use std::cmp::Ordering;

/// Row of the table of doubt: the rule for the figures that quote one of several statistics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DoubtRule {
    /// Statistics to which the rule applies.
    pub quoted: &'static [Quoted],
    /// Minimum number of samples that count.
    pub least: usize,
    /// Maximum distance from the value, as a share of the value: of both ends of the 95 % interval, or of the second best
    /// sample.
    pub beyond: Fraction,
}

/// Rule for statistics of all samples. With six samples, a 95 % interval of the median exists.
pub const TYPICAL: DoubtRule = DoubtRule {
    quoted: &[Quoted::Median, Quoted::Mean, Quoted::HarmonicMean],
    least: 6,
    beyond: Fraction(0.1),
};

/// Rule for the best of the samples. The best of few samples depends on chance, and a best that no other sample
/// approaches is not a property of the node.
const BEST: DoubtRule = DoubtRule { quoted: &[Quoted::Best], least: 5, beyond: Fraction(0.1) };

/// Table of doubt. Statistics without a row are exempt: single values, and factors, whose verdict has an interval of its
/// own.
pub const DOUBT_RULES: [DoubtRule; 2] = [TYPICAL, BEST];

/// Share by which a rate may exceed a limit that was measured, too, because of the noise of the two measurements.
const ABOVE: f64 = 0.03;

/// Returns the rule for figures that quote this statistic; `None` if they are exempt.
pub fn rule_of(quoted: Quoted) -> Option<DoubtRule> {
    DOUBT_RULES.into_iter().find(|rule| rule.quoted.contains(&quoted))
}

/// Returns the reasons why the samples make a measured figure suspect; empty if they do not. `what` names its samples.
/// The texts have no values, except at the beginning, so that a page prints equal reasons once.
pub fn of_samples(m: &Measurement, what: Plural) -> Vec<String> {
    let Some(rule) = rule_of(m.quoted).filter(|_| m.value.is_some()) else { return Vec::new() };
    let DoubtRule { least, beyond, .. } = rule;
    let statistic = m.quoted.name();
    let is_best = m.quoted == Quoted::Best;
    let ranked = ranked(m);
    let counted = if is_best { ranked.len() } else { m.samples.len() };
    if counted < least {
        let count = if counted == 1 { "counts" } else { "count" };
        return vec![format!(
            "{} {count}: {TOO_FEW}, the {statistic} needs at least {least}; use a larger --budget or --samples",
            what.counted(counted)
        )];
    }
    let share = beyond.in_whole_percent();
    let far = |value: f64| {
        let of = m.value.unwrap_or(f64::NAN);
        // An unknown distance is far, too.
        !matches!(
            (value - of).abs().partial_cmp(&(beyond.0 * of.abs())),
            Some(Ordering::Less | Ordering::Equal)
        )
    };
    if is_best {
        let second = ranked.get(1).copied().unwrap_or(f64::NAN);
        let reason =
            || format!("the {SECOND_BEST} of the {} is more than {share} away", what.several);
        return far(second).then(reason).into_iter().collect();
    }
    let ends = m.summary.as_ref().and_then(|summary| summary.ci95);
    let is_wide = ends.is_none_or(|ends| ends.into_iter().any(far));
    let reason = || {
        let several = what.several;
        format!("the {INTERVAL} of the {several} reaches more than {share} from the {statistic}")
    };
    is_wide.then(reason).into_iter().collect()
}

/// Returns the samples among which the best is chosen, best first: those that count, and those that only count for the
/// best.
fn ranked(m: &Measurement) -> Vec<f64> {
    let disturbed = m.disturbed.iter().filter(|one| one.counts == Counts::Best);
    let mut all: Vec<f64> = m.samples.clone();
    all.extend(disturbed.map(|one| one.value));
    all.sort_by(f64::total_cmp);
    if m.unit.better() == Better::Higher {
        all.reverse();
    }
    all
}

/// Returns the reason why a rate above its limit makes the figure or the limit suspect; `None` if it is not above. A limit
/// that a figure may exceed, because it is only the highest known value, is not set in this case
/// ([`Measurement::within`]).
pub fn of_limit(m: &Measurement) -> Option<String> {
    let limit = m.limit.as_ref().filter(|_| m.unit.direction() == Some(Better::Higher))?;
    let above = limit.fraction.0 - 1.0;
    (above > ABOVE).then(|| {
        format!(
            "{} {ABOVE_LIMIT} of {} ({}): the figure or the limit is wrong",
            Fraction(above).in_whole_percent(),
            m.unit.in_words(limit.value),
            limit.basis
        )
    })
}

impl Measurement {
    /// Marks a valid figure above its limit as suspect. The gauge may already have judged the figure more strictly.
    pub fn doubt_limit(&mut self) {
        if self.validity.status != Status::Valid || self.is_published() {
            return;
        }
        if let Some(reason) = of_limit(self) {
            self.doubt(Status::Suspect, reason);
        }
    }
}

/// Words of the reasons of this module.
const TOO_FEW: &str = "too few";
const SECOND_BEST: &str = "second best";
const INTERVAL: &str = "95 % interval";
const ABOVE_LIMIT: &str = "above the limit";

/// Kind of evidence for a reason of doubt. A page names the cause that explains most figures; of several, the one with
/// the strongest evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CauseEvidence {
    /// A counter of the kernel or of the hardware proves the cause.
    Counted,
    /// The cause is a known property of the measurement, e.g. arrays that are too small.
    Stated,
    /// The cause is inferred from the times of the samples, e.g. other load.
    Inferred,
    /// The reason is a consequence of another cause, e.g. too few samples in the time.
    Symptom,
}

/// Words by which reasons with counted causes are recognised: [`THROTTLED`], stolen time, hardware events, a clock that
/// other clocks refute.
const COUNTED: [&str; 5] = [
    THROTTLED,
    "the hypervisor gave",
    "stolen by the hypervisor",
    "during the run",
    "the clock of this process",
];
/// Words by which reasons are recognised that attribute lost time to other programs.
const OTHERS: [&str; 4] = ["other load", "other program", "another program", "other processes"];
/// Words by which other reasons with inferred causes are recognised.
const INFERRED: [&str; 2] = [" disturbed", "preempted"];
/// Words by which consequences of another cause are recognised.
const SYMPTOMS: [&str; 9] = [
    TOO_FEW,
    SECOND_BEST,
    INTERVAL,
    "in the budget",
    "use a larger --budget",
    "the spread of a single",
    "no two core-to-core round trips are similar",
    "is uncertain by",
    "depends on chance",
];

/// Words of the reason for figures of a run during which the CPU quota of a control group stopped threads.
pub const THROTTLED: &str = "the CPU quota of the control group throttled";

/// True if a reason of doubt attributes lost time to other programs. It does so by inference: a CPU quota that stops
/// threads looks alike.
pub fn blames_others(reason: &str) -> bool {
    OTHERS.iter().any(|word| reason.contains(word))
}

impl CauseEvidence {
    /// Returns the kind of evidence for a reason of doubt.
    pub fn of(reason: &str) -> Self {
        let has = |words: &[&str]| words.iter().any(|word| reason.contains(word));
        if has(&COUNTED) {
            Self::Counted
        } else if has(&INFERRED) || blames_others(reason) {
            Self::Inferred
        } else if has(&SYMPTOMS) {
            Self::Symptom
        } else {
            Self::Stated
        }
    }
}

#[cfg(test)]
mod tests;
