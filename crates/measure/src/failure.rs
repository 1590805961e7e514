//! Failure of a gauge or a command: message, cause, hint, and the exit code that follows.

use crate::hint::HintLine;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Kind of a failure, which determines the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// A result is invalid, or an expectation is not met; exit code 1.
    Unmet,
    /// Wrong usage or unreadable input; exit code 2.
    Usage,
    /// More threads, nodes or other resources were requested than this machine has; exit code 2.
    Insufficient,
    /// A compiler, a permission, memory or another requirement is missing; exit code 3.
    Missing,
}

/// Failure of a run or command: message, cause and hint.
///
/// Displays as `message: cause`, then the hint on its own line. The fields do not repeat each other's text. In JSON,
/// which passes a failure to another process, the cause is a string.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Description of the problem, with the value that caused it. A colon and the cause follow when the failure is
    /// displayed.
    pub message: String,
    /// Error that caused the failure.
    #[serde(with = "cause_in_words")]
    pub cause: Option<Arc<dyn Error + Send + Sync>>,
    /// Remedy; the display adds the word `hint`.
    pub hint: Option<String>,
}

impl Failure {
    /// Returns a failure of a kind, without cause and hint.
    pub fn new(kind: FailureKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string(), cause: None, hint: None }
    }

    /// Returns a failure of the kind [`FailureKind::Unmet`]: a result is invalid, or an expectation is not met.
    pub fn unmet(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::Unmet, message)
    }

    /// Returns a failure of the kind [`FailureKind::Usage`]: wrong usage or unreadable input.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    /// Returns a failure of the kind [`FailureKind::Insufficient`]: more was requested than this machine has.
    pub fn insufficient(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::Insufficient, message)
    }

    /// Returns a failure of the kind [`FailureKind::Missing`]: a permission, memory, disk space or another requirement
    /// is missing.
    pub fn missing(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::Missing, message)
    }

    /// Sets the error that caused the failure.
    #[must_use]
    pub fn cause(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: Some(Arc::from(cause.into())), ..self }
    }

    /// Sets the remedy of the failure.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.hint_if(Some(hint.into()))
    }

    /// Sets the remedy of the failure; `None` if no remedy is known.
    #[must_use]
    pub fn hint_if(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// Prefixes the message with the item that failed, e.g. `rank 3`.
    #[must_use]
    pub fn with_context(self, what: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// Sets the kind of the failure.
    #[must_use]
    pub fn kind(self, kind: FailureKind) -> Self {
        Self { kind, ..self }
    }

    /// True if the machine lacks something that the request needs; another request may then succeed.
    pub fn is_machine_failure(&self) -> bool {
        matches!(self.kind, FailureKind::Insufficient | FailureKind::Missing)
    }

    /// Returns the message with its cause, without the hint.
    pub fn problem(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{}: {cause}", self.message),
            None => self.message.clone(),
        }
    }

    /// Returns message and cause in one line, without the hint.
    pub fn reason(&self) -> String {
        self.problem().replace('\n', " ")
    }

    /// Returns message, cause and hint in one line.
    pub fn single_line(&self) -> String {
        let problem = self.problem();
        let line = match &self.hint {
            Some(hint) => format!("{problem}; {hint}"),
            None => problem,
        };
        line.replace('\n', " ")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.problem(), HintLine(self.hint.as_deref()))
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

/// Failures are equal if their kinds and texts are equal.
impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.problem() == other.problem() && self.hint == other.hint
    }
}

impl Eq for Failure {}

/// Serialisation of the cause of a failure as text.
mod cause_in_words {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::error::Error;
    use std::sync::Arc;

    type Cause = Option<Arc<dyn Error + Send + Sync>>;

    pub(super) fn serialize<S: Serializer>(cause: &Cause, to: S) -> Result<S::Ok, S::Error> {
        cause.as_ref().map(ToString::to_string).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Cause, D::Error> {
        let words = Option::<String>::deserialize(from)?;
        Ok(words.map(|words| Arc::from(Box::<dyn Error + Send + Sync>::from(words))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_displays_message_then_cause_then_hint() {
        let plain = Failure::usage("cannot read x");
        assert_eq!(plain.to_string(), "cannot read x");
        assert_eq!(plain.single_line(), "cannot read x");
        let whole = plain.cause(std::io::Error::other("no\nway")).hint("give y");
        assert_eq!(whole.to_string(), "cannot read x: no\nway\nhint: give y");
        assert_eq!(whole.single_line(), "cannot read x: no way; give y");
        let reported = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<Failure>(&reported).unwrap(), whole);
        assert_eq!(whole.source().map(ToString::to_string).as_deref(), Some("no\nway"));
    }
}
