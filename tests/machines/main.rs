//! Tests of the program on machines that are not at hand: virtual machines with several sockets, NUMA nodes, memory
//! without CPUs, reserved huge pages and older processors.
//!
//! qemu emulates the processors, so no KVM is needed. Times and bandwidths in such a machine mean nothing, and no test
//! asserts one. Placement, memory policies, pages, topology, messages and refusals are real: the guest's kernel
//! answers. The tests compare what the program reports with what `numactl`, `taskset` and `/proc/PID/numa_maps` report.
//!
//! Each shape of machine has a module and starts once for all its tests, whose names begin with the shape:
//! `cargo test -p nodegauge --test machines -- two t2k`. Plain `cargo test` does not run them.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod archive;
mod cxl;
mod disk;
#[path = "../cli/fields.rs"]
#[allow(dead_code)]
mod fields;
mod guest;
mod hmat;
mod look;
mod nfs;
mod old;
#[path = "../cli/outcome.rs"]
#[allow(dead_code)]
mod outcome;
#[path = "../program.rs"]
mod program;
#[path = "../skip.rs"]
mod skip;
mod smt;
mod t2k;
mod two;
