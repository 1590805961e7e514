//! Compiles the message probe for each MPI ABI, for nodes that have an MPI without a compiler. The probe loads the
//! functions of MPI from a library at run time, so that no MPI is required here. The values of handles and constants
//! come from the table in `nodegauge-os`, as a generated header.

use mpi_abi::{MPI_CONSTANTS, MPI_HANDLES, MPI_STATUS_IGNORE, MpiAbi, MpiHandleValue};
use std::fmt::Write;
use std::path::Path;

/// This script uses only a part of the table of MPI ABIs.
#[allow(dead_code)]
#[path = "../os/src/mpi_abi.rs"]
mod mpi_abi;

/// Compiler flags of the probe, used by this script and for compilation with an MPI's wrapper.
const FLAGS: &str = "-std=c99 -O2 -pthread";

fn main() {
    println!("cargo::rustc-env=PROBE_FLAGS={FLAGS}");
    println!("cargo::rerun-if-changed=../../probes");
    println!("cargo::rerun-if-changed=../os/src/mpi_abi.rs");
    let out = std::env::var("OUT_DIR").expect("cargo says where output goes");
    let probes = Path::new("../../probes");
    let compiler = cc::Build::new().opt_level(2).debug(false).cargo_metadata(false).get_compiler();
    for abi in MpiAbi::ALL {
        let name = match abi {
            MpiAbi::Mpich => "MPICH",
            MpiAbi::OpenMpi => "OPEN_MPI",
            MpiAbi::Standard => "STANDARD",
        };
        let folder = Path::new(&out).join(name);
        std::fs::create_dir_all(&folder).expect("the output folder can be written");
        std::fs::write(folder.join("mpi_abi.h"), header(abi))
            .expect("the output folder can be written");
        let mut command = compiler.to_command();
        command.args(FLAGS.split(' ')).arg(format!("-DMPI_ABI_{name}")).arg("-I").arg(&folder);
        command.arg("-I").arg(probes.join("abi")).arg(probes.join("messages.c"));
        command.arg("-o").arg(format!("{out}/messages-{name}")).args(["-ldl", "-s"]);
        let status = command.status();
        let good = status.as_ref().is_ok_and(std::process::ExitStatus::success);
        assert!(
            good,
            "{command:?} fails ({status:?}): a C compiler is needed to build this program"
        );
    }
}

/// Returns the handles, constants and addresses of an MPI ABI as lists of C macros.
fn header(abi: MpiAbi) -> String {
    let mut text = "#define MPI_HANDLES(_)".to_owned();
    for handle in MPI_HANDLES {
        let value = match handle.value(abi) {
            MpiHandleValue::Number(number) => format!("{number:#x}"),
            MpiHandleValue::Symbol(symbol) => symbol.to_owned(),
        };
        let _ = write!(text, " \\\n    _({}, {}, {value})", handle.kind, handle.name);
    }
    text.push_str("\n\n#define MPI_CONSTANTS(_)");
    for constant in MPI_CONSTANTS {
        let _ = write!(text, " \\\n    _({}, {})", constant.name, constant.value(abi));
    }
    let address = MPI_STATUS_IGNORE.value(abi);
    let _ = write!(text, "\n\n#define MPI_STATUS_IGNORE_ADDRESS {address}\n");
    text
}
