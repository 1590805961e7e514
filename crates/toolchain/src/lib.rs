//! The user's compilers and programs, run under guard.
//!
//! A command is a vector of words, never a shell's string; what it makes lies in a private folder
//! that goes with its owner; it runs in a process group of its own, which is killed at a time limit
//! and when the user ends the run; what it prints is kept up to a bound. [`code`] reads what a
//! compiler made. Knows no benchmark.
#![forbid(unsafe_code)]

pub mod code;
mod command;
mod compiler;
mod error;
mod guard;
pub mod presets;
mod scratch;

pub use command::CommandLine;
pub use compiler::{Compiler, Limits, Program};
pub use error::ToolchainError;
pub use guard::{Ended, Finished, Job, run};
pub use scratch::Scratch;
