//! Tests of the program in virtual machines: several sockets, NUMA nodes, memory without CPUs, reserved huge pages, and
//! older processors.
//!
//! qemu emulates the processors, so no KVM is needed. Times and bandwidths in such a machine are meaningless, and no
//! test asserts them. Placement, memory policies, pages, topology, messages and refusals are real, because they come
//! from the guest's kernel. The tests compare the reports of the program with those of `numactl`, `taskset` and
//! `/proc/PID/numa_maps`.
//!
//! Each shape of machine has a module, and starts once for all its tests. Their names begin with the shape: `cargo test
//! -p nodegauge --test machines -- two t2k`. Plain `cargo test` does not run them.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod archive;
mod cxl;
mod disk;
#[path = "../cli/fields.rs"]
#[allow(dead_code)]
mod fields;
mod guest;
mod hmat;
mod jobs;
mod look;
mod memattrs;
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
