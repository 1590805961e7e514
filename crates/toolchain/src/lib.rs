//! Compilers and programs of the user, which are run as child processes with limits.
//!
//! A command is a vector of words, never a shell string. Output files are in a private folder, which is removed when
//! its owner is dropped. A command is killed with all its descendants when it reaches a limit of time or output, or
//! when the user interrupts the run. [`program`] runs the user's programs, with ranks and input files. [`code`]
//! analyses compiled machine code. [`blas`] finds and loads BLAS libraries. This crate does not depend on any gauge.
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
pub mod program;
mod quote;
mod scratch;
mod search;
mod vendor_flags;
pub mod watchdog;

pub use cache::{ProgramCache, cache_file_name, cache_folder};
pub use command::CommandLine;
pub use compiler::{CompileLimits, CompiledProgram, Compiler};
pub use error::ToolchainError;
pub use job::{Job, JobOutput, run};
pub use libc::nontemporal_memcpy_min_bytes;
pub use nodegauge_os::{ChildEnd, KillReason};
pub use quote::{
    last_line, last_lines, limit_exceeded_clause, no_response_reason, quoted_lines,
    time_limit_message,
};
pub use scratch::{ProgramReach, ScratchFolder, unused_folder_reasons};
pub use search::{
    find_program, is_path, link_chain, required_program, skipped_folder_notices, which,
    with_path_hint,
};
