//! Files in the sense of IOzone: operations on files of many sizes in blocks of many sizes, with the
//! page cache told apart from the device, and a latency for every operation.
//!
//! The operations are written from their definitions (IOzone's documentation of what each does, and
//! the calls' manual pages), not from IOzone's source, whose licence keeps derivative works.
//!
//! From the bottom up: `pattern` says which block comes when, `data` what it holds, `engine` how it
//! is moved; `pass` is the timed loop over them. `volume`, `counters` and `cache` know the file system
//! and tell cache from device; `ground` is the folder in which all happens. `grid` chooses sizes,
//! `cell` runs operations over one file, `team` the same on many files at once; `gauge` puts it
//! together, and `peers` are the original programs beside.

pub mod cache;
pub mod cell;
pub mod clock;
pub mod counters;
pub mod data;
mod engine;
mod error;
pub mod gauge;
pub mod grid;
pub mod ground;
pub mod latency;
pub mod operation;
mod pass;
pub mod pattern;
pub mod peers;
pub mod plan;
mod result;
pub mod team;
pub mod volume;

pub use engine::{Access, Engine, Msync, SyncWrites};
pub use error::FilesError;
pub use pass::{Ended, Setup};
