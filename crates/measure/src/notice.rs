//! Notices to the user: values that a run clamped, replaced or assumed, and observations during the run.
//!
//! Programs distinguish notices by [`NoticeId`], never by the text.

use crate::hint::HintLine;
use crate::legible;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Topic of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeId {
    /// A requested size, count or time was limited to the maximum.
    Clamped,
    /// An unknown value was assumed.
    Assumed,
    /// An option was taken from an environment variable.
    Environment,
    /// A choice of an earlier run was used, or could not be used again.
    Remembered,
    /// A variant of a kernel, library or grid was chosen by measurement.
    Chosen,
    /// The rate does not increase with more threads, ranks or load than stated.
    Saturation,
    /// The figures contradict a property that the machine reports.
    Contradicted,
    /// A value deviated from the trend of the neighbouring values and was measured again.
    Trend,
    /// Something was not measured, for the reason in the text.
    LeftOut,
    /// The time budget was used up before everything was measured.
    Budget,
    /// Description of the measurement method, or a caveat for the interpretation of figures.
    Method,
    /// Behaviour of another program or library, or the way in which it was run.
    Reference,
    /// Source of an imported record, or a value that could not be checked.
    Imported,
    /// Published figures are shown, or none exist.
    Published,
    /// One part of the run failed; the rest was measured.
    Failed,
    /// A resource limits a figure, or was excluded as its limit.
    Bottleneck,
    /// The run was interrupted; the text states where.
    Interrupted,
    /// The test used fewer threads than normally, because there are too few cores.
    FewerThreads,
    /// Topic that this version does not know.
    #[serde(other)]
    Other,
}

/// A message to the user about a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// Topic of the notice.
    pub id: NoticeId,
    /// Gauge that reports the notice; empty if the command itself reports it.
    #[serde(default)]
    pub gauge: String,
    /// Text of the notice.
    #[serde(rename = "text")]
    pub message: String,
    /// Remedy; the display adds the word `hint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Notice {
    /// Returns a notice of a gauge, without a hint.
    pub fn new(id: NoticeId, gauge: &str, message: impl Into<String>) -> Self {
        // A notice may quote another program.
        let message = legible::shorten_lines(&message.into()).into_owned();
        Self { id, gauge: gauge.to_owned(), message, hint: None }
    }

    /// Returns the message and the remedy on one line, for pages.
    pub fn single_line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// Returns a notice that `what` was not measured, because the time of the run was used up.
    pub fn no_time_left(gauge: &str, what: &str) -> Self {
        Self::new(NoticeId::Budget, gauge, format!("no time is left for {what}"))
    }

    /// Returns a notice about parts of a plan that were omitted because their predicted time
    /// exceeds the budget; `None` if no part was omitted. `noun` follows the names.
    pub fn no_time_for(gauge: &str, names: &[String], noun: &str) -> Option<Self> {
        if names.is_empty() {
            return None;
        }
        let text = format!("no time for {}{noun}: use a longer --budget", names.join(", "));
        Some(Self::new(NoticeId::Budget, gauge, text))
    }

    /// Sets the remedy, which is shown as a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.message, HintLine(self.hint.as_deref()))
    }
}

/// Adds the notices of `more` that `notices` does not contain yet.
pub fn add_new(notices: &mut Vec<Notice>, more: impl IntoIterator<Item = Notice>) {
    for notice in more {
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_line_of_notice_includes_hint() {
        let notice =
            Notice::new(NoticeId::Budget, "stream", "no time for add").hint("use --budget 9");
        assert_eq!(notice.single_line(), "no time for add; use --budget 9");
        assert_eq!(notice.to_string(), "no time for add\nhint: use --budget 9");
    }
}
