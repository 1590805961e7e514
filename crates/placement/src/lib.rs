//! Placement of threads and memory: OpenMP places, binding, `KMP_AFFINITY`, threads per cache, NUMA policy, and the
//! system calls that apply a placement and verify that the kernel applied it.
//!
//! Planning performs no system calls: it converts a [`PlacementRequest`] and a
//! [`Topology`](nodegauge_machine::Topology) into a [`Placement`], for this machine or for a described machine.
//! Only [`pin`], [`numa`], [`display`] and the inherited memory policy of [`PlacementOptions`] use the kernel,
//! through `nodegauge_os`.

#![forbid(unsafe_code)]

mod bind;
mod cores;
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
pub mod numactl;
mod options;
pub mod pairs;
mod per_cache;
pub mod pin;
pub mod places;
mod plan;
pub mod ranks;
mod setting;
#[cfg(test)]
mod tests;
mod threads;

pub use bind::Binding;
pub use cores::CoreChoice;
pub use cpu_list::CpuList;
pub use devices::RankDevice;
pub use env::PlacementEnvironment;
pub use error::PlacementError;
pub use kmp::KmpAffinity;
pub use launchers::{LauncherJob, rank_variables};
pub use nodegauge_os::SysError;
pub use numa::{MemoryPolicy, NumaSpec};
pub use options::{
    PlacedTeams, PlacementOptions, RankPlacementOptions, RankResources, TeamRequest,
};
pub use pairs::{CpuPair, Distance};
pub use pin::{PinError, pin_current_thread};
pub use places::{Place, PlacesSpec};
pub use plan::{Placement, PlacementRequest, ThreadPlace, plan};
pub use ranks::{
    MappedPolicy, Policies, RankMap, RankPlace, RankPlan, RankPolicy, RankRequest, check_counts,
    plan_ranks,
};
pub use setting::{JobPlacementOptions, PlacementSetting};
pub use threads::ThreadCountList;
