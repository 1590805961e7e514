//! Tests of the program: commands, exit codes, messages, records.
//!
//! Each test runs the real binary through a [`harness::Harness`]. No test asserts a speed; tests check the
//! presence of figures, their configuration and their relations.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod against;
mod apps;
mod apps_mpi;
mod browser;
mod compare;
mod compilers;
mod contract;
mod current_folder;
mod device;
mod device_drivers;
mod doctor;
mod documents;
mod emit;
mod errors;
mod examples;
mod explain;
mod fields;
mod formats;
mod fortran;
mod golden;
mod harness;
mod history;
mod hpl;
mod hpl_blas;
mod hpl_real;
mod io;
mod io_faults;
mod io_folders;
mod io_reference;
mod leftovers;
mod machine;
mod memory;
mod mpi;
mod mpi_faults;
mod mpi_hosts;
mod mpi_means;
mod osu;
mod outcome;
mod output;
mod outputs;
mod places;
mod ranks;
mod record;
mod report;
mod report_runs;
mod roofline;
mod run;
mod signals;
#[path = "../skip.rs"]
mod skip;
mod slurm;
mod standard;
mod stream;
mod stream_limits;
mod stream_table;
mod sweep;
mod terminal;
mod transport;
mod tune;
mod unsaved;
mod watch;
