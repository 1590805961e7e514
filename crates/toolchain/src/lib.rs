//! The user's compilers and programs, run as child processes that end.
//!
//! A command is a vector of words, never a shell's string; what it makes lies in a private folder
//! that goes with its owner; it runs in a process group of its own, which is killed at a time limit
//! and when the user ends the run; what it prints is kept up to a bound. [`code`] reads what a
//! compiler made. [`blas`] finds and loads libraries of linear algebra. Knows no benchmark.
#![deny(unsafe_code)]

pub mod blas;
mod cache;
pub mod code;
mod command;
mod compiler;
mod error;
mod job;
mod libc;
pub mod mpi;
pub mod presets;
mod scratch;
mod search;

pub use cache::ProgramCache;
pub use command::CommandLine;
pub use compiler::{CompileLimits, Compiler, Program};
pub use error::ToolchainError;
pub use job::{Job, run, run_with_descendants};
pub use libc::memcpy_streams_from;
pub use nodegauge_os::{ChildEnd, ChildOutput, KillReason};
pub use scratch::Scratch;
pub use search::{find_program, is_path, links, skipped as skipped_folders, which, with_path_hint};
