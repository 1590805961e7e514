//! Foundation of all gauges: quantities with units, the grammar of option values, statistics of
//! samples, detection of interference, the schedule, and the record that other programs read.
//!
//! This crate does not depend on the crates of machines, thread placement or kernels. Statistics are pure functions of
//! slices; only [`clock`] and [`interference`] make system calls.

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
pub mod printed;
pub mod progress;
pub mod quantity;
pub mod record;
pub mod regime;
pub mod repeat;
pub mod samples;
pub mod schedule;
pub mod schema;
pub mod stats;
pub mod stream_rule;
pub mod sweep;
mod unit;

pub use failure::{Failure, FailureKind};
pub use grammar::SyntaxError;
pub use names::{UnknownName, is_alike};
pub use notice::{Notice, NoticeId};
pub use outcome::Outcome;
pub use progress::Observer;
pub use quantity::{
    Bytes, BytesPerSec, FlopsPerSec, Fraction, Hertz, Joules, Seconds, TransfersPerSec, Watts,
};
pub use unit::{ScaledUnit, Unit, UnitPrefix};

// Crates that the expansion of `config!` refers to.
#[doc(hidden)]
pub use {schemars, serde, serde_json};
