//! What every gauge shares: quantities with units, the grammar of what users type, statistics of
//! samples, signs of interference, and the record that other programs read.
//!
//! Nothing here knows a machine, a place or a kernel. Statistics are pure functions of slices;
//! only [`clock`] and [`interference`] ask the kernel anything.

pub mod clock;
pub mod compare;
pub mod csv;
pub mod expect;
pub mod grammar;
pub mod interference;
pub mod quantity;
pub mod ratio;
pub mod record;
pub mod regime;
pub mod repeat;
pub mod stats;
pub mod watch;

pub use grammar::SyntaxError;
pub use quantity::{Bytes, BytesPerSec, FlopsPerSec, Hertz, Seconds};
pub use watch::Watch;
