//! Resources of running processes on a node: the CPUs of each thread, the NUMA nodes and sizes of the pages, memory
//! policy, devices, limits and variables. They are read from the files of the kernel, without privileges and without
//! changing the processes.
//!
//! [`JobReader`] reads processes below a root directory repeatedly. [`JobReader::describe_host`] summarises the
//! readings as a [`JobHost`], i.e. plain data that ranks can send. [`findings`] adds the conditions that make the job
//! slower. This crate has no figures: there are no samples, limits or records.

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
    IdleProcess, JobDevice, JobHost, JobProcess, JobThread, NumaNodeCores, PictureCore,
    PrivateMemory, SCHEMA, WhereDocument, schema,
};
pub use process::{ScheduleTimes, TaskStat};
pub use reader::{JobReader, PagesTimeLimit, merge_hosts};
