//! Reason why this node does not provide counters or sensors.

/// Reason in words why counters or sensors of this node cannot be read. Gauges put it into the record or into a
/// message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);
