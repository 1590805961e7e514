//! Rule of doubt: decides from a figure's samples and limit whether the figure is suspect. The table is in
//! docs/method.md.
//!
//! Only this module defines the minimum numbers of samples and the widest intervals. Every measured figure passes
//! [`Measurement::with_validity`], which applies the rule. A gauge adds reasons of its own and may be stricter. The
//! functions are pure.

use super::{Category, Measurement, QuotedStatistic, SampleUse, Status, Validity};
use crate::Fraction;
use crate::keys::{SharedKey, shared};
use crate::quantity::number_form;
use crate::samples::SAMPLE_NOUN;
use crate::stats::BetterDirection;
use std::cmp::Ordering;

/// Row of the table of doubt: rule for all figures that quote one of these statistics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DoubtRule {
    /// Statistics to which the rule applies.
    pub quoted: &'static [QuotedStatistic],
    /// Minimum number of samples that count.
    pub min: usize,
    /// Maximum distance from the value, as a share of the value. For the best of the samples, it is
    /// the distance of the second best; otherwise, the distance of each end of the 95 % interval.
    pub max_distance: Fraction,
}

/// Rule for statistics of all samples. A 95 % interval of the median requires at least six samples.
pub const TYPICAL_RULE: DoubtRule = DoubtRule {
    quoted: &[QuotedStatistic::Median, QuotedStatistic::Mean, QuotedStatistic::HarmonicMean],
    min: 6,
    max_distance: Fraction(0.1),
};

/// Rule for the best of the samples. With few samples, the best depends on chance; a best sample
/// that is far from all others is not a property of the node.
pub const BEST_RULE: DoubtRule =
    DoubtRule { quoted: &[QuotedStatistic::Best], min: 5, max_distance: Fraction(0.1) };

/// Table of doubt. Statistics without a row are exempt: single values, and factors, which are
/// judged by their own interval.
pub const DOUBT_RULES: [DoubtRule; 2] = [TYPICAL_RULE, BEST_RULE];

/// Maximum share by which a rate may exceed a measured limit, because both measurements have noise.
const MAX_EXCESS: f64 = 0.03;

/// Returns the rule for figures that quote this statistic; `None` if they are exempt.
pub fn doubt_rule(quoted: QuotedStatistic) -> Option<DoubtRule> {
    DOUBT_RULES.into_iter().find(|rule| rule.quoted.contains(&quoted))
}

/// Returns the reason why the samples make a measured figure suspect; `None` if they do not. A
/// figure without samples, and a figure that another program reports, are exempt. Values occur only
/// at the beginning of the text, so that a page can combine equal reasons.
pub fn samples_reason(m: &Measurement) -> Option<String> {
    let rule = doubt_rule(m.quoted).filter(|_| m.value.is_some() && !m.is_reported())?;
    let DoubtRule { min, max_distance, .. } = rule;
    let statistic = m.quoted.name();
    let is_best = m.quoted == QuotedStatistic::Best;
    let ranked = ranked(m);
    let counted = if is_best { ranked.len() } else { m.samples.len() };
    if counted == 0 {
        return None;
    }
    if counted < min {
        let count = number_form(counted, "counts", "count");
        return Some(format!(
            "{} {count}: {TOO_FEW}, the {statistic} needs at least {min}; use a larger --budget or --samples",
            SAMPLE_NOUN.with_count(counted)
        ));
    }
    let share = max_distance.in_whole_percent();
    let value = m.value.unwrap_or(f64::NAN);
    if is_best {
        let second = ranked.get(1).copied().unwrap_or(f64::NAN);
        return is_far(second, value, max_distance).then(|| {
            format!("the {SECOND_BEST} of the samples is more than {share} away from the best")
        });
    }
    let ends = m.summary.as_ref().and_then(|summary| summary.ci95);
    let is_wide =
        ends.is_none_or(|ends| ends.into_iter().any(|end| is_far(end, value, max_distance)));
    is_wide.then(|| {
        format!("the {INTERVAL} of the samples reaches more than {share} from the {statistic}")
    })
}

/// True if the distance of a statistic from the value of its figure exceeds this share of the
/// value, or is unknown.
fn is_far(statistic: f64, value: f64, max_distance: Fraction) -> bool {
    let distance = (statistic - value).abs();
    !matches!(
        distance.partial_cmp(&(max_distance.0 * value.abs())),
        Some(Ordering::Less | Ordering::Equal)
    )
}

/// Returns the samples from which the best is chosen, best first. These include samples that count
/// only for the best.
fn ranked(m: &Measurement) -> Vec<f64> {
    let disturbed = m.disturbed.iter().filter(|one| one.counts == SampleUse::Best);
    let mut all: Vec<f64> = m.samples.clone();
    all.extend(disturbed.map(|one| one.value));
    all.sort_by(f64::total_cmp);
    if m.unit.better() == BetterDirection::Higher {
        all.reverse();
    }
    all
}

/// Returns the reason why a rate above its limit is suspect; `None` if the rate is not above its limit. A figure above
/// the highest known value of its kind has no limit ([`Measurement::with_theoretical_limit`]) and is not suspect.
pub fn limit_reason(m: &Measurement) -> Option<String> {
    let limit = m.limit.as_ref().filter(|_| m.unit.direction() == Some(BetterDirection::Higher))?;
    let above = limit.fraction.0 - 1.0;
    (above > MAX_EXCESS).then(|| {
        format!(
            "{} {ABOVE_LIMIT} of {} ({}): the figure or the limit is wrong",
            Fraction(above).in_whole_percent(),
            m.unit.in_words(limit.value),
            limit.basis
        )
    })
}

impl Measurement {
    /// True if another program reported the figure: a published figure, a standard result, or a
    /// figure of a reference program. The rule of doubt does not apply to these, because the other
    /// program judges them. Times and figures of a user's program are not included: this program
    /// repeats its runs and measures them.
    pub fn is_reported(&self) -> bool {
        match self.category {
            Category::Standard => true,
            Category::Reference => self.config.contains_key(shared::engine::KEY.name),
            Category::Variant | Category::Transport => false,
        }
    }

    /// Applies the rule of doubt to a figure with samples, configuration and limit. A reason that
    /// the figure already has is not added again. A stricter status that the gauge has set is kept.
    pub(crate) fn apply_doubt_rule(&mut self) {
        if let Some(reason) =
            samples_reason(self).filter(|_| self.validity.status != Status::Invalid)
            && !self.validity.reasons.contains(&reason)
        {
            self.doubt(Status::Suspect, reason);
        }
        self.doubt_if_above_limit();
    }

    /// Marks a valid figure as suspect if it is above its limit.
    pub fn doubt_if_above_limit(&mut self) {
        if self.validity.status != Status::Valid || self.is_published() {
            return;
        }
        if let Some(reason) = limit_reason(self) {
            self.doubt(Status::Suspect, reason);
        }
    }

    /// Adds the doubts about the figure `of`, from which this figure is derived. A derived figure
    /// is at most as valid as its source.
    pub fn inherit_doubts(&mut self, source: &Validity, of: &str) {
        for reason in &source.reasons {
            if self.validity.reasons.iter().any(|known| known.ends_with(reason.as_str())) {
                continue;
            }
            self.doubt(source.status, format!("{of}: {reason}"));
        }
    }
}

/// Words of the reason that too few samples count.
const TOO_FEW: &str = "too few";
const SECOND_BEST: &str = "second best";
const INTERVAL: &str = "95 % interval";
const ABOVE_LIMIT: &str = "above the limit";

/// Kind of evidence for a cause of doubt. A page names the cause that explains most figures; if
/// several do, the cause with the strongest evidence.
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

/// Words that identify reasons with counted causes: [`THROTTLING_REASON_PREFIX`], stolen time, hardware events,
/// and a clock that other clocks contradict.
const COUNTED: [&str; 5] = [
    THROTTLING_REASON_PREFIX,
    "the hypervisor gave",
    "stolen by the hypervisor",
    "during the run",
    "the clock of this process",
];
/// Words that identify reasons which attribute lost time to other programs.
const OTHERS: [&str; 4] = ["other load", "other program", "another program", "other processes"];
/// Words that identify other reasons with inferred causes.
const INFERRED: [&str; 2] = [" disturbed", "preempted"];
/// Words that identify reasons which are consequences of another cause.
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

/// Beginning of the reason for figures of a run during which a CPU quota of a control group stopped
/// threads.
pub const THROTTLING_REASON_PREFIX: &str = "the CPU quota of the control group throttled";

/// True if a reason attributes lost time to other programs. The attribution is inferred; a CPU
/// quota that stops threads has the same effect.
pub fn blames_other_programs(reason: &str) -> bool {
    contains_word(reason, &OTHERS)
}

/// True if a reason contains one of these words.
fn contains_word(reason: &str, words: &[&str]) -> bool {
    words.iter().any(|word| reason.contains(word))
}

impl CauseEvidence {
    /// All kinds of evidence, strongest first.
    const STRONGEST_FIRST: [Self; 4] = [Self::Counted, Self::Stated, Self::Inferred, Self::Symptom];

    /// Returns the kind of evidence for a reason of doubt.
    pub fn from_reason(reason: &str) -> Self {
        if contains_word(reason, &COUNTED) {
            Self::Counted
        } else if contains_word(reason, &INFERRED) || blames_other_programs(reason) {
            Self::Inferred
        } else if contains_word(reason, &SYMPTOMS) {
            Self::Symptom
        } else {
            Self::Stated
        }
    }
}

/// Returns the cause that explains most of the suspect figures. Among causes that explain at least
/// half of them, the cause with the strongest evidence is returned; `None` if no figure is suspect.
pub fn main_cause<'a>(figures: impl IntoIterator<Item = &'a Measurement>) -> Option<&'a str> {
    let suspect: Vec<&[String]> = figures
        .into_iter()
        .filter(|m| m.validity.status == Status::Suspect)
        .map(|m| m.validity.reasons.as_slice())
        .collect();
    if suspect.is_empty() {
        return None;
    }
    let mut by_kind: Vec<Vec<&str>> = Vec::new();
    for kind in CauseEvidence::STRONGEST_FIRST {
        let first = |reasons: &&'a [String]| {
            reasons.iter().find(|one| CauseEvidence::from_reason(one) == kind)
        };
        by_kind.push(suspect.iter().filter_map(first).map(String::as_str).collect());
    }
    let mut kinds = by_kind.iter();
    let half = kinds.find(|reasons| 2 * reasons.len() >= suspect.len());
    // If no kind of reason explains half of the figures, the kind that explains most of them counts.
    let max = by_kind.iter().map(Vec::len).max();
    let found = half.or_else(|| by_kind.iter().find(|reasons| Some(reasons.len()) == max))?;
    Some(commonest_reason(found).unwrap_or(UNKNOWN))
}

/// Returns the most frequent reason. Reasons that differ only in numbers are equal; of equally
/// frequent reasons, the first is returned.
fn commonest_reason<'a>(reasons: &[&'a str]) -> Option<&'a str> {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for reason in reasons {
        let kind = reason.replace(|c: char| c.is_ascii_digit(), "");
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    let max = kinds.iter().map(|(_, count)| *count).max()?;
    let (kind, _) = kinds.iter().find(|(_, count)| *count == max)?;
    let mut reasons = reasons.iter().copied();
    reasons.find(|reason| reason.replace(|c: char| c.is_ascii_digit(), "") == *kind)
}

/// Placeholder for the reason of a suspect figure that has none, e.g. in a record of another program.
const UNKNOWN: &str = "?";

/// Words of reasons that already contain a remedy.
const REMEDIES: [&str; 7] =
    ["; use ", ": use ", "; repeat ", ": raise ", ": increase ", "; run ", "tune again"];

/// Returns the remedy for a reason of doubt; `None` if it is unknown, or if the reason contains it.
pub fn remedy(reason: &str) -> Option<&'static str> {
    if REMEDIES.iter().any(|words| reason.contains(words)) {
        return None;
    }
    match CauseEvidence::from_reason(reason) {
        CauseEvidence::Symptom => Some("use a larger --budget or --samples"),
        CauseEvidence::Inferred => Some("repeat the run on an idle node"),
        CauseEvidence::Counted | CauseEvidence::Stated => None,
    }
}

#[cfg(test)]
mod tests;
