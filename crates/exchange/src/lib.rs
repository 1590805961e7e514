//! Timed messages between two ranks of a node, for the built-in transport: through a ring buffer in shared memory,
//! by reads of the other rank's memory, or over TCP.
//!
//! Each call contains a whole timed loop and its clock readings; no timed loop spans several crates, so that speed
//! does not depend on inlining between crates (`docs/benchmarks.md`, "Release file and local build"). The crate
//! neither plans nor judges measurements, and does not print.
#![forbid(unsafe_code)]

mod link;
mod participant;
mod segment;

pub use link::{ConnectedLink, RankLink, Route, SharedLink};
pub use participant::{MessageBuffer, MessageOperation, Participant};
pub use segment::{Segment, SharedWord};
