//! Messages between two ranks of a node, which are timed for the built-in transport: through a ring buffer in shared
//! memory, by reads of the other rank's memory, or over TCP.
//!
//! A call enclosed_programs a whole timed loop and its clock: nothing is inlined into another crate, and no loop calls one
//! (`docs/benchmarks.md`, "Release file and local build"). The crate plans nothing, judges nothing and does not print.
#![forbid(unsafe_code)]

mod link;
mod participant;
mod segment;

pub use link::{ConnectedLink, Link, Route, SharedLink};
pub use participant::{Message, MessageOperation, Participant};
pub use segment::{Segment, Word};
