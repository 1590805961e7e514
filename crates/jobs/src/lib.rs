//! Resources that running processes got from a node: the CPUs of each thread, the NUMA nodes and sizes of the pages,
//! memory policy, devices, limits and variables, read from the kernel's files without rights and without changing the
//! processes.
//!
//! [`JobReader`] takes readings of processes below a root directory. [`JobReader::host`] makes a [`JobHost`] of them,
//! plain data that ranks send to each other, and [`findings`] names what is wrong with it. Nothing here is a figure:
//! there are no samples, no limits and no record.

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
pub use reader::{JobReader, PagesLimit, merged};
