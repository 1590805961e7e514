//! Parts of tests that not every machine can run. A part is skipped if its requirement is missing; the skip is reported
//! on standard error and is not captured by libtest. For the parts in the comma-separated list `NODEGAUGE_REQUIRE`, a
//! skip is a failure. Continuous integration sets it for all parts that its packages install.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requirement of a test. `NODEGAUGE_REQUIRE` uses the same names in lower case.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// Ansible.
    Ansible,
    /// OpenBLAS and BLIS.
    Blas,
    /// Chromium.
    Chromium,
    /// ClusterShell and pdsh.
    Clush,
    /// gcc, g++, gfortran, clang.
    Compilers,
    /// At least two CPUs.
    Cpus,
    /// A file system on a known block device, with a quota or direct I/O.
    Device,
    /// fio.
    Fio,
    /// hpcc.
    Hpcc,
    /// lstopo.
    Hwloc,
    /// jq.
    Jq,
    /// Virtual machines: qemu, busybox, numactl, and a kernel that apt-get downloads.
    Machines,
    /// Enough memory, with a known memory limit.
    Memory,
    /// Open MPI and MPICH.
    Mpi,
    /// Mount namespaces (unshare).
    Namespaces,
    /// numactl, and the permission to set memory policies.
    Numa,
    /// An OpenCL device, e.g. that of PoCL.
    Opencl,
    /// Transparent huge pages, and no reserved huge pages.
    Pages,
    /// Python's pandas.
    Pandas,
    /// Parsers of reports: cmark-gfm, xmllint, Python's prometheus_client.
    Parsers,
    /// Non-temporal stores.
    Processor,
    /// Python 3.
    Python,
    /// ReFrame from PyPI: Python's venv and the network.
    Reframe,
    /// Permission to run as root.
    Root,
    /// munged, slurmctld, slurmd, srun, and the permission to start them.
    Slurm,
    /// taskset and other wrappers of util-linux.
    Taskset,
    /// io_uring.
    Uring,
}

impl Part {
    const ALL: [Self; 27] = [
        Self::Ansible,
        Self::Blas,
        Self::Chromium,
        Self::Clush,
        Self::Compilers,
        Self::Cpus,
        Self::Device,
        Self::Fio,
        Self::Hpcc,
        Self::Hwloc,
        Self::Jq,
        Self::Machines,
        Self::Memory,
        Self::Mpi,
        Self::Namespaces,
        Self::Numa,
        Self::Opencl,
        Self::Pages,
        Self::Pandas,
        Self::Parsers,
        Self::Processor,
        Self::Python,
        Self::Reframe,
        Self::Root,
        Self::Slurm,
        Self::Taskset,
        Self::Uring,
    ];

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Parses the list of parts that must not be skipped.
fn required(list: &str) -> Vec<Part> {
    let part = |name: &str| {
        let found = Part::ALL.into_iter().find(|part| part.name() == name);
        found.unwrap_or_else(|| panic!("NODEGAUGE_REQUIRE: unknown part {name:?}"))
    };
    list.split(',').filter(|name| !name.is_empty()).map(part).collect()
}

/// Reports that a test, or a part of a test, is skipped, with the reason. Panics if `part` must not be skipped.
#[track_caller]
pub fn skip(part: Part, why: &str) {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let list = std::env::var("NODEGAUGE_REQUIRE").unwrap_or_default();
    assert!(!required(&list).contains(&part), "{} is required: {why}", part.name());
    let number = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let test = std::thread::current().name().unwrap_or("test").to_owned();
    let line = format!("\nskipped {number}: {test}: {}: {why}\n", part.name());
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[test]
fn required_parts_are_parsed_and_unknown_parts_are_refused() {
    assert_eq!(required("mpi,slurm"), [Part::Mpi, Part::Slurm]);
    assert_eq!(required(""), []);
    required(&std::env::var("NODEGAUGE_REQUIRE").unwrap_or_default());
    assert!(std::panic::catch_unwind(|| required("mpi,slrum")).is_err());
}
