//! What a node is: its hardware threads and what they share, its processors, memory and peaks, and
//! what on it would spoil a measurement.
//!
//! Describes only; places nothing and measures nothing but the clock. All files of the kernel are
//! read below a root that tests replace by a recorded machine.

mod synthetic;
pub mod sys;
pub mod topology;

pub use topology::{CpuId, NodeId, Source, Topology, TopologyError};
