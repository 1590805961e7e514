//! Rule for conclusions from figures: this is the only code that decides whether a sentence, a picture title, a
//! recommendation or a verdict states a conclusion, or states that none can be drawn, with the reason and the remedy.
//! The functions are pure.
//!
//! A conclusion requires that all its figures are valid; a conclusion about a difference also requires an interval
//! ([`crate::ratio::speed`]).

use nodegauge_measure::record::doubt::{self, main_cause};
use nodegauge_measure::record::{Measurement, Status};

/// First words of a sentence that states that no conclusion can be drawn.
pub const CANNOT_TELL: &str = "cannot tell";

/// Reason why no conclusion can be drawn, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// Reason, without a full stop.
    pub reason: String,
    /// Remedy that removes the reason; `None` if no remedy is known, or if it is part of the reason.
    pub remedy: Option<String>,
}

impl Obstacle {
    /// Creates an obstacle with the usual remedy of its reason.
    pub fn new(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        let remedy = doubt::remedy(&reason).map(str::to_owned);
        Self { reason, remedy }
    }

    /// Sets the instruction that removes the reason.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Returns the obstacle to a conclusion from all of these figures; `None` if all are valid. The obstacle is the
    /// reason of an invalid figure, otherwise the cause of most of the suspect figures. A figure above its limit is an
    /// obstacle even if its record, from an old version, marks it as valid.
    pub fn from_figures<'a>(figures: impl IntoIterator<Item = &'a Measurement>) -> Option<Self> {
        let figures: Vec<&Measurement> = figures.into_iter().collect();
        let invalid = figures.iter().find(|m| m.validity.status == Status::Invalid);
        if let Some(m) = invalid {
            return Some(Self::new(m.validity.reasons.first().map_or("?", String::as_str)));
        }
        if let Some(cause) = main_cause(figures.iter().copied()) {
            return Some(Self::new(cause));
        }
        figures.into_iter().find_map(doubt::limit_reason).map(Self::new)
    }

    /// Returns the reason with the remedy: `disturbed; repeat the run on an idle node`.
    pub fn in_words(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.reason),
            None => self.reason.clone(),
        }
    }

    /// Returns a sentence that `what` is unknown: `cannot tell which mix is the fastest: disturbed`.
    pub fn cannot_tell(&self, what: &str) -> String {
        format!("{CANNOT_TELL} {what}: {}", self.in_words())
    }
}

/// Returns a conclusion from all of these figures, or a sentence that `what`, e.g. `which mix is the fastest`, is
/// unknown.
pub fn sentence_or_obstacle<'a>(
    what: &str,
    figures: impl IntoIterator<Item = &'a Measurement>,
    sentence: impl FnOnce() -> String,
) -> String {
    Obstacle::from_figures(figures).map_or_else(sentence, |obstacle| obstacle.cannot_tell(what))
}

/// Returns the clause that the run would have shown any difference larger than `share`.
pub fn detectable_difference(share: f64) -> String {
    let percent = 100.0 * share;
    let digits = if percent < 9.95 { 1 } else { 0 };
    let text = format!("{percent:.digits$}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    format!("a difference of more than {text} % would have been found")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::QuotedStatistic;

    const LOAD: &str = "other load took 36 % of the time of a thread";

    fn figure(reasons: &[&str]) -> Measurement {
        let m = Measurement::new("memory", "mix", "1:1", Unit::BytesPerSecond);
        let mut m = m.with_value(QuotedStatistic::Single, 40e9);
        reasons.iter().for_each(|reason| m.validity.mark_suspect(*reason));
        m
    }

    #[test]
    fn conclusion_needs_valid_figures() {
        let (valid, suspect) = (figure(&[]), figure(&[LOAD]));
        let what = "which mix is the fastest";
        let drawn = |figures: &[&Measurement]| {
            sentence_or_obstacle(what, figures.iter().copied(), || {
                "the fastest mix is 1:1".to_owned()
            })
        };
        assert_eq!(drawn(&[&valid]), "the fastest mix is 1:1");
        let expected = format!("cannot tell {what}: {LOAD}; repeat the run on an idle node");
        assert_eq!(drawn(&[&valid, &suspect]), expected);
        let invalid = figure(&[]).without_value("wrong result");
        assert_eq!(drawn(&[&suspect, &invalid]), format!("cannot tell {what}: wrong result"));
    }

    #[test]
    fn figure_above_its_limit_prevents_a_conclusion() {
        let above = figure(&[]).with_limit(30e9, "read, interleaved");
        let text = Obstacle::from_figures([&above]).unwrap().in_words();
        assert!(text.ends_with("the figure or the limit is wrong"), "{text}");
        assert_eq!(
            Obstacle::from_figures([&figure(&[]).with_limit(50e9, "read, interleaved")]),
            None
        );
    }

    #[test]
    fn detectable_difference_is_printed_in_percent() {
        assert_eq!(
            detectable_difference(0.05),
            "a difference of more than 5 % would have been found"
        );
        assert!(detectable_difference(0.0123).contains("1.2 %"));
        assert!(detectable_difference(0.31).contains("31 %"));
    }
}
