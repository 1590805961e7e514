//! Tests of the program: commands, exit codes, messages, records.
//!
//! Each test runs the real binary through a [`harness::Harness`]. No test asserts a speed; tests check the
//! presence of figures, their configuration and their relations.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod against;
mod apps;
mod browser;
mod chapters;
mod check;
mod compare;
mod compilers;
mod contract;
mod device;
mod doctor;
mod documents;
mod documents_stream;
mod emit;
mod errors;
mod explain;
mod fields;
mod fleet;
mod foreign;
mod formats;
mod fortran;
mod golden;
mod harness;
mod help_examples;
mod history;
mod hpl;
mod hpl_blas;
mod imports;
mod io;
mod io_folders;
mod io_metadata;
mod jobs;
#[path = "../long_log.rs"]
mod long_log;
mod machine;
mod memory;
mod mpi;
mod noise;
mod outcome;
mod output;
mod outputs;
mod own_program;
mod pages;
mod places;
#[path = "../program.rs"]
mod program;
mod ranks;
mod record;
mod report;
mod report_runs;
mod roofline;
mod run;
mod sizes;
#[path = "../skip.rs"]
mod skip;
mod standard;
mod stream;
mod stream_limits;
mod stream_table;
mod sweep;
mod terminal;
mod thorough;
mod topologies;
mod transport;
mod tune;
mod watch;
