//! What every gauge shares: quantities with units, the grammar of what users type, statistics of
//! samples, signs of interference, and the record that other programs read.
//!
//! Nothing here knows a machine, a place or a kernel. Statistics are pure functions of slices;
//! only [`clock`] and [`interference`] ask the kernel anything.

pub mod clock;
mod failure;
pub mod figure_names;
pub mod grammar;
mod hint;
pub mod interference;
pub mod keys;
pub mod legible;
mod names;
pub mod notice;
mod outcome;
pub mod progress;
pub mod quantity;
pub mod record;
pub mod regime;
pub mod repeat;
pub mod samples;
pub mod schedule;
pub mod schema;
pub mod stats;
pub mod sweep;
mod unit;

pub use failure::{Failure, FailureKind};
pub use grammar::SyntaxError;
pub use names::UnknownName;
pub use notice::{Notice, NoticeId};
pub use outcome::Outcome;
pub use progress::Observer;
pub use quantity::{Bytes, BytesPerSec, FlopsPerSec, Hertz, Seconds};
pub use unit::Unit;

// What the macro `config!` needs in the crates that use it.
#[doc(hidden)]
pub use {schemars, serde, serde_json};
