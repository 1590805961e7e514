//! Compiles the message probe for each MPI ABI, for nodes that have an MPI without a compiler. The probe loads the
//! functions of MPI from a library at run time, so that no MPI is needed for compiling. The values of handles and
//! constants come from the table in `nodegauge-abi`, as a generated header.

use nodegauge_abi::{
    MPI_ABIS, MPI_CONSTANTS, MPI_HANDLES, MPI_STATUS_IGNORE, MpiAbi, MpiHandleValue,
    MpiHandleValues,
};
use std::fmt::Write;
use std::path::Path;

/// Compiler flags of the probe, used by this script and for compilation with an MPI's wrapper.
const FLAGS: &str = "-std=c99 -O2 -pthread";

fn main() {
    println!("cargo::rustc-env=PROBE_FLAGS={FLAGS}");
    println!("cargo::rerun-if-changed=probes");
    let out = std::env::var("OUT_DIR").expect("cargo says where output goes");
    let probes = Path::new("probes");
    let compiler = cc::Build::new().opt_level(2).debug(false).cargo_metadata(false).get_compiler();
    let mut carried = String::new();
    for abi in &MPI_ABIS {
        let name = abi.files[0];
        let folder = Path::new(&out).join(name);
        std::fs::create_dir_all(&folder).expect("the output folder can be written");
        std::fs::write(folder.join("mpi_abi.h"), header(abi))
            .expect("the output folder can be written");
        let mut command = compiler.to_command();
        command.args(FLAGS.split(' ')).arg("-I").arg(&folder);
        command.arg("-I").arg(probes.join("abi")).arg(probes.join("messages.c"));
        command.arg("-o").arg(format!("{out}/messages-{name}")).args(["-ldl", "-s"]);
        let status = command.status();
        let good = status.as_ref().is_ok_and(std::process::ExitStatus::success);
        assert!(
            good,
            "{command:?} fails ({status:?}): a C compiler is needed to build this program"
        );
        let path = format!("concat!(env!(\"OUT_DIR\"), \"/messages-{name}\")");
        let _ = writeln!(carried, "    ({name:?}, include_bytes!({path}) as &[u8]),");
    }
    let count = MPI_ABIS.len();
    let list = format!("const CARRIED: [(&str, &[u8]); {count}] = [\n{carried}];\n");
    std::fs::write(Path::new(&out).join("carried.rs"), list)
        .expect("the output folder can be written");
}

/// Returns the C types, handles, constants and addresses of an MPI ABI as C macros.
fn header(abi: &MpiAbi) -> String {
    let mut text = match abi.handles {
        MpiHandleValues::Integers(_) => "#define MPI_HANDLE_TYPE(tag) int\n",
        MpiHandleValues::Pointers(_) => "#define MPI_HANDLE_TYPE(tag) struct tag *\n",
        MpiHandleValues::Symbols(_) => {
            "#define MPI_HANDLE_TYPE(tag) struct tag *\n#define MPI_HANDLES_ARE_SYMBOLS\n"
        }
    }
    .to_owned();
    let _ = writeln!(text, "#define MPI_STATUS_MEMBERS {}", abi.status);
    text.push_str("\n#define MPI_HANDLES(_)");
    for handle in MPI_HANDLES {
        let value = match abi.handle(handle).expect("each ABI has each handle") {
            MpiHandleValue::Number(number) => format!("{number:#x}"),
            MpiHandleValue::Symbol(symbol) => symbol.to_owned(),
        };
        let _ = write!(text, " \\\n    _({}, {}, {value})", handle.kind, handle.name);
    }
    text.push_str("\n\n#define MPI_CONSTANTS(_)");
    for name in MPI_CONSTANTS {
        let value = abi.constant(name).expect("each ABI has each constant");
        let _ = write!(text, " \\\n    _({name}, {value})");
    }
    let address = abi.constant(MPI_STATUS_IGNORE).expect("each ABI has the address");
    let _ = write!(text, "\n\n#define MPI_STATUS_IGNORE_ADDRESS {address}\n");
    text
}
