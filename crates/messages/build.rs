//! Compiles the message probe for each binary interface of MPI, with functions that it finds in a library when it
//! runs: for nodes that have an MPI and no compiler for it. Nothing of an MPI is needed here.

use std::path::Path;

/// How the probe is compiled, here and by wrappers of an MPI.
const FLAGS: &str = "-std=c99 -O2 -pthread";

fn main() {
    println!("cargo::rustc-env=PROBE_FLAGS={FLAGS}");
    println!("cargo::rerun-if-changed=../../probes");
    let out = std::env::var("OUT_DIR").expect("cargo says where output goes");
    let probes = Path::new("../../probes");
    let compiler = cc::Build::new().opt_level(2).debug(false).cargo_metadata(false).get_compiler();
    for abi in ["MPICH", "OPEN_MPI", "STANDARD"] {
        let mut command = compiler.to_command();
        command.args(FLAGS.split(' ')).arg(format!("-DMPI_ABI_{abi}"));
        command.arg("-I").arg(probes.join("abi")).arg(probes.join("messages.c"));
        command.arg("-o").arg(format!("{out}/messages-{abi}")).args(["-ldl", "-s"]);
        let status = command.status();
        let good = status.as_ref().is_ok_and(std::process::ExitStatus::success);
        assert!(
            good,
            "{command:?} fails ({status:?}): a C compiler is needed to build this program"
        );
    }
}
