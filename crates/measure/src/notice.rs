//! What a run clamped, replaced, assumed or found out on the way, for the user to know.
//!
//! Programs decide by [`NoticeId`], never by the text.

use crate::hint::HintLine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeId {
    /// A request was cut to what fits: a size, a count, a time.
    Clamped,
    /// Something that is not known was assumed.
    Assumed,
    /// An option was taken from an environment variable.
    Environment,
    /// What was chosen in an earlier run was used, or no longer could be.
    Remembered,
    /// Which variant of a kernel, library or grid was chosen by measuring.
    Chosen,
    /// Where more threads, ranks or load bring no more.
    Saturation,
    /// What the machine says of itself, and the figures do not show.
    Contradicted,
    /// A value that breaks the trend of its neighbours, measured again.
    Trend,
    /// Something that was not measured, with the reason.
    LeftOut,
    /// The time was spent before everything was measured.
    Budget,
    /// How the figures came about: the method, or what they must not be taken for.
    Method,
    /// What another program or library does, or how it was run.
    Reference,
    /// Where an imported record comes from, and what is taken on trust.
    Imported,
    /// Published figures: which were shown, or that there are none.
    Published,
    /// Something failed, and the rest was measured all the same.
    Failed,
    /// What holds a figure down, or does not.
    Bottleneck,
    /// Where the run was when it was ended early.
    Interrupted,
    /// Fewer threads than the custom of the test, for want of cores.
    FewerThreads,
    /// Of a kind that this version does not know.
    #[serde(other)]
    Other,
}

/// Something the user should know of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// What it is about.
    pub id: NoticeId,
    /// The gauge that says it; empty for the command itself.
    #[serde(default)]
    pub gauge: String,
    /// The notice in words.
    #[serde(rename = "text")]
    pub message: String,
    /// What to do about it, without the word `hint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Notice {
    /// A notice of a gauge.
    pub fn new(id: NoticeId, gauge: &str, message: impl Into<String>) -> Self {
        Self { id, gauge: gauge.to_owned(), message: message.into(), hint: None }
    }

    /// Sets what to do about it.
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

/// Adds those of `more` that are not in `notices` yet.
pub fn add_new(notices: &mut Vec<Notice>, more: impl IntoIterator<Item = Notice>) {
    for notice in more {
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
}
