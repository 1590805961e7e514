//! Several processes that measure at the same time, each with its own arrays, as in flat MPI.
//!
//! They are [`launched`] ranks with their own requests: each holds points, and waits for the others at a barrier in
//! shared memory before each kernel. The time of a kernel is that from the first start to the last end over all
//! ranks, as in stream_mpi.c. All ranks read the same clock of the machine, so no messages are required.
//!
//! A rank is a team of threads and detects interference with its own threads: this module joins the samples of ranks,
//! and not the laps of all threads as `nodegauge_team::Timed` does.

mod joined;
mod point;
mod protocol;
mod worker;

pub use joined::LaunchedRanks;
pub(crate) use point::RanksPoint;
pub use worker::serve;

use nodegauge_team::launched;

/// Hidden command of a process that measures as a rank, followed by the name of the socket, the rank and the number
/// of ranks; it calls [`serve`].
pub const COMMAND: &str = "measure-as-rank";

/// Coordinator of ranks that measure.
pub type StreamCoordinator = launched::Coordinator<protocol::MeasuringRanks>;
/// Coordinator shared by several points.
pub type SharedStreamCoordinator = launched::SharedCoordinator<protocol::MeasuringRanks>;
