//! Where threads and memory go: OpenMP places, binding, `KMP_AFFINITY`, threads per cache, NUMA
//! policy, and the calls that carry it out and read back what the kernel gave.
//!
//! Planning is pure: a [`Request`] and a [`Topology`](nodegauge_machine::Topology) give a
//! [`Placement`], for this machine or any other that can be described. Only [`pin`], [`numa`] and
//! [`display`] ask the kernel, through `nodegauge_os`. Measuring is left to others.

#![forbid(unsafe_code)]

mod bind;
mod cpu_list;
pub mod cpus;
mod devices;
pub mod display;
pub mod emit;
mod env;
mod error;
mod grammar;
pub mod json;
pub mod keys;
mod kmp;
pub mod launchers;
pub mod numa;
pub mod pairs;
mod per_cache;
pub mod pin;
pub mod places;
mod plan;
pub mod ranks;
#[cfg(test)]
mod tests;
mod threads;

pub use bind::Bind;
pub use cpu_list::CpuList;
pub use devices::RankDevice;
pub use env::Environment;
pub use error::PlacementError;
pub use kmp::KmpAffinity;
pub use launchers::Started;
pub use nodegauge_os::SysError;
pub use numa::{MemoryPolicy, NumaSpec};
pub use pairs::{CpuPair, Distance};
pub use pin::{PinError, pin_current_thread};
pub use places::{Place, PlacesSpec};
pub use plan::{Placement, Request, ThreadPlace, plan};
pub use ranks::{Policies, Policy, RankMap, RankPlace, RankPlan, RankRequest, plan_ranks};
pub use threads::ThreadList;
