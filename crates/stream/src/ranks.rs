//! Several processes that measure at the same time, each with its own arrays, as in flat MPI.
//!
//! The processes are [`rank_service`] ranks, which handle requests to set up and measure points. Before each kernel, a
//! rank waits for the other ranks at a barrier in shared memory. The time of a kernel is the time from the earliest
//! start to the latest end over all ranks, as in stream_mpi.c. All ranks read the same clock of the machine, so times
//! are compared without messages.
//!
//! Each rank has its own team of threads, which detects interference. This module combines the samples of ranks;
//! `nodegauge_team::TimedResults` combines the times of threads in one process.

mod joined;
mod point;
mod protocol;
mod worker;

pub use joined::LaunchedRanks;
pub(crate) use point::RanksTarget;
pub use worker::serve;

use nodegauge_team::rank_service;

/// Hidden command that starts a process as a rank. Its arguments are the name of the socket, the rank and the number of
/// ranks; it calls [`serve`].
pub const COMMAND: &str = "measure-as-rank";

/// Coordinator of ranks that measure.
pub type StreamCoordinator = rank_service::Coordinator<protocol::MeasuringRanks>;
/// Coordinator of ranks, shared by several points.
pub type SharedStreamCoordinator = rank_service::SharedCoordinator<protocol::MeasuringRanks>;
