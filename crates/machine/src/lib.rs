//! Description of a node: hardware threads and the resources that they share, processors, memory, peaks, and conditions
//! that would distort a measurement.
//!
//! The crate does not place threads, and it measures nothing except the clock. All files of the kernel are read below a
//! root directory, which tests replace by a recorded machine.

#![deny(unsafe_code)]

pub mod catalog;
pub mod cgroup;
pub mod clock;
pub mod counters;
mod cxl;
mod describe;
pub mod devices;
mod dimms;
mod disks;
mod doctor;
mod host;
mod ids;
pub mod ledger;
pub mod memory;
pub mod mounts;
pub mod pci;
pub mod power;
pub mod process_limits;
mod processor;
mod root;
mod software;
mod synthetic;
pub mod timekeeping;
pub mod topology;
mod unavailable;
mod usable_cpus;

pub use describe::peak::peak_in_use;
pub use describe::{DescribeOptions, describe};
pub use dimms::{DimmSpec, node_bandwidth};
pub use doctor::{OTHER_LOAD, examine};
pub use host::{inherited_settings, is_runtime_variable, name as host_name, uptime_in_words};
pub use ids::{CpuId, NumaNodeId};
pub use root::{SysRoot, list as number_list, number_ranges};
pub use topology::{Topology, TopologySource};
pub use unavailable::UnavailableReason;
pub use usable_cpus::usable as usable_cpus;
