//! Notices to the user: values that a run clamped, replaced or assumed, and observations during the run.
//!
//! Programs distinguish notices by [`NoticeId`], never by the text.

use crate::hint::HintLine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Topic of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeId {
    /// A requested size, count or time was reduced to the maximum.
    Clamped,
    /// An unknown value was assumed.
    Assumed,
    /// An option was taken from an environment variable.
    Environment,
    /// The choice of an earlier run was used, or could no longer be used.
    Remembered,
    /// Variant of a kernel, library or grid that was chosen by measurement.
    Chosen,
    /// Point from which more threads, ranks or load do not increase the rate.
    Saturation,
    /// Property that the machine reports but the figures do not confirm.
    Contradicted,
    /// Value that breaks the trend of its neighbours and was measured again.
    Trend,
    /// Part that was not measured, with the reason.
    LeftOut,
    /// The time budget was used up before everything was measured.
    Budget,
    /// Method behind the figures, or a limit of their interpretation.
    Method,
    /// Behaviour of another program or library, or how it was run.
    Reference,
    /// Source of an imported record, and values that could not be checked.
    Imported,
    /// Published figures that were shown, or that none exist.
    Published,
    /// One part failed; the rest was measured.
    Failed,
    /// Resource that limits a figure, or that was ruled out.
    Bottleneck,
    /// Position of the run when it was interrupted.
    Interrupted,
    /// Fewer threads than the test normally uses, because there are too few cores.
    FewerThreads,
    /// Kind of notice that this version does not know.
    #[serde(other)]
    Other,
}

/// A message to the user about a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// Topic.
    pub id: NoticeId,
    /// Gauge that reports it; empty for the command itself.
    #[serde(default)]
    pub gauge: String,
    /// Text of the notice.
    #[serde(rename = "text")]
    pub message: String,
    /// Remedy, without the word `hint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Notice {
    /// Returns a notice of a gauge, without a hint.
    pub fn new(id: NoticeId, gauge: &str, message: impl Into<String>) -> Self {
        Self { id, gauge: gauge.to_owned(), message: message.into(), hint: None }
    }

    /// Sets the remedy.
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

/// Adds the notices in `more` that are not in `notices` yet.
pub fn add_new(notices: &mut Vec<Notice>, more: impl IntoIterator<Item = Notice>) {
    for notice in more {
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
}
