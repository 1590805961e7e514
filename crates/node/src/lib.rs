//! Commands that start measurements of this program as child processes, wait for them and judge their records: `check`
//! with its vetting, `watch`, the turns of `compare --run`, and the jobs of `fleet run`.
//!
//! The command line fills the request of a command and implements [`Outputs`]; nothing here parses arguments, writes to a
//! terminal or knows an exit code of the program. What ends a command is an [`Ended`], or a value of the command itself.

#![forbid(unsafe_code)]

mod caller;
pub mod check;
pub mod fleet_run;
pub mod saving;
pub mod signals;
mod started;
pub mod turns;
pub mod watch;

pub use caller::{Caller, Ended, Outputs, as_json};
