//! Reason why a node does not provide counters or sensors.

/// Reason, as text for the user, why counters or sensors of this node cannot be read. Gauges put the reason into
/// the record or into a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnavailableReason(pub String);
