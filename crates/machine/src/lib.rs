//! What a node is: its hardware threads and what they share, its processors, memory and peaks, and
//! what on it would spoil a measurement.
//!
//! Describes only; places nothing and measures nothing but the clock. All files of the kernel are
//! read below a root that tests replace by a recorded machine.

pub mod catalog;
pub mod cgroup;
pub mod clock;
pub mod counters;
pub mod describe;
pub mod dimms;
pub mod doctor;
pub mod host;
pub mod identity;
pub mod memory;
pub mod power;
pub mod processor;
pub mod published;
pub mod root;
mod synthetic;
pub mod topology;

pub use describe::{Options, describe};
pub use dimms::DimmSpec;
pub use doctor::examine;
pub use root::SysRoot;
pub use topology::{CpuId, NodeId, Source, Topology, TopologyError};
