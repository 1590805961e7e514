//! Resources that running processes have on a node: the CPUs of each thread, the NUMA nodes and sizes of the pages,
//! memory policy, devices, limits and variables. They are read from the files of the kernel without privileges, and the
//! processes are not changed.
//!
//! [`JobReader`] reads processes below a root directory repeatedly. [`JobReader::host`] makes a [`JobHost`] from the
//! readings, plain data that ranks can send, and [`findings`] adds what is wrong with the placement. Nothing here is a
//! figure: there are no samples, limits or records.

#![forbid(unsafe_code)]

mod cpus;
mod devices;
mod document;
mod environment;
pub mod expect;
pub mod findings;
mod pages;
mod picture;
mod process;
mod reader;
pub mod selection;
#[cfg(test)]
mod tests;
pub mod view;

pub use document::{
    IdleProcess, JobDevice, JobHost, JobProcess, JobThread, NodeCores, PictureCore, PrivateMemory,
    SCHEMA, WhereDocument, schema,
};
pub use process::{ScheduleTimes, TaskStat};
pub use reader::{JobReader, PagesLimit, merge_hosts};
