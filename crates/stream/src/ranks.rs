//! Several processes that measure at once, each with arrays of its own, as flat MPI does.
//!
//! They are [`launched`] ranks with requests of their own: each holds points, and waits for the
//! others at a barrier in shared memory before each kernel. A kernel's time is that from the first start to the last
//! end over all ranks, as in stream_mpi.c; the clock is the machine's, so that it needs no message.
//!
//! A rank is a team of threads, and judges what interfered with them by itself: samples of ranks are put together here,
//! not from the laps of all threads as `nodegauge_team::Timed` does.

mod joined;
mod point;
mod protocol;
mod worker;

pub use joined::LaunchedRanks;
pub(crate) use point::RanksPoint;
pub use worker::serve;

use nodegauge_team::launched;

/// The hidden command of a process that measures as a rank, followed by the socket's name, the rank
/// and the number of ranks; it ends up in [`serve`].
pub const COMMAND: &str = "measure-as-rank";

/// Coordinator of ranks that measure.
pub type StreamCoordinator = launched::Coordinator<protocol::MeasuringRanks>;
/// Coordinator that several points share.
pub type SharedStreamCoordinator = launched::SharedCoordinator<protocol::MeasuringRanks>;
