//! Comparison of the table of MPI ABIs with the headers of the installed libraries.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/skip.rs"]
mod skip;

use nodegauge_toolchain::mpi::abi::{
    MPI_ABIS, MPI_CONSTANTS, MPI_HANDLES, MPI_STATUS_IGNORE, MpiAbi, MpiHandleValue,
};
use nodegauge_toolchain::{ScratchFolder, which};
use skip::{Part, skip};
use std::process::Command;

/// Returns the source of a program that compares each value of the table with that in the header. The program
/// prints 1 if the values are equal, otherwise 0 and the name.
fn comparison(abi: &MpiAbi) -> String {
    let mut source = "#include <mpi.h>\n#include <stdio.h>\nstatic void same(const char *name, \
                      int is_same) { printf(\"%d %s\\n\", is_same, name); }\nint main(void) {\n"
        .to_owned();
    let mut compare = |name: &str, value: String| {
        source += &format!("    same(\"{name}\", {name} == {value});\n");
    };
    for handle in MPI_HANDLES {
        let value = match abi.handle(handle).unwrap() {
            MpiHandleValue::Number(number) => format!("({})(size_t){number:#x}u", handle.kind),
            MpiHandleValue::Symbol(symbol) => format!("({})(void *)&{symbol}", handle.kind),
        };
        compare(handle.name, value);
    }
    for name in MPI_CONSTANTS {
        compare(name, abi.constant(name).unwrap().to_string());
    }
    let ignored = abi.constant(MPI_STATUS_IGNORE).unwrap();
    compare(MPI_STATUS_IGNORE, format!("(MPI_Status *){ignored}"));
    compare("sizeof(MPI_Request)", abi.request_bytes().to_string());
    source + "    return 0;\n}\n"
}

#[test]
fn mpi_abi_table_matches_installed_libraries() {
    for abi in &MPI_ABIS {
        let Some(own) = &abi.implementation else { continue };
        let wrapper = format!("mpicc.{}", own.suffix);
        if which(&wrapper).is_none() {
            skip(Part::Mpi, &format!("there is no {wrapper}"));
            continue;
        }
        let scratch = ScratchFolder::new().unwrap();
        let source = scratch.path().join("compare.c");
        let program = scratch.path().join("compare");
        std::fs::write(&source, comparison(abi)).unwrap();
        let compile = Command::new(&wrapper).arg(&source).arg("-o").arg(&program).output().unwrap();
        let errors = String::from_utf8_lossy(&compile.stderr);
        assert!(compile.status.success(), "{wrapper}: {errors}");
        let printed = Command::new(&program).output().unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        assert_eq!(printed.lines().count(), MPI_HANDLES.len() + MPI_CONSTANTS.len() + 2);
        for line in printed.lines() {
            assert!(line.starts_with("1 "), "{wrapper} has another value of {line}");
        }
    }
}
