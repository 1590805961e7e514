//! Commands that start measurements of this program as child processes, wait for them and judge their records: `check`
//! (with vetting), `watch`, the interleaved runs of `compare --run`, and the jobs of `fleet run`.
//!
//! The program that uses this crate fills the request of a command and implements [`Outputs`]. This crate does not
//! parse arguments, write to a terminal, or know exit codes of the program. A command returns a [`CommandEnd`], or a
//! type of its own.

#![forbid(unsafe_code)]

mod caller;
pub mod check;
pub mod fleet_run;
pub mod saving;
pub mod signals;
mod started;
pub mod turns;
pub mod watch;

pub use caller::{Caller, CommandEnd, Outputs, to_json};
