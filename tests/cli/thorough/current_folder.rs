//! Tests of names without `/`. Programs are searched in `PATH` and libraries in the folders of vendors, but never in
//! the current folder, which may contain files of other users.

use crate::harness::{Harness, Outcome, make_program};
use crate::io::SMALL;
use std::process::Command;

/// Writes a program that fails after it has created the file `marker` in the folder of the harness.
fn program(harness: &Harness, path: &str, marker: &str) {
    let marker = harness.arg(marker);
    make_program(&harness.write(path, format!("#!/bin/sh\necho > '{marker}'\nexit 9\n")));
}

fn ran(harness: &Harness, marker: &str) -> bool {
    harness.path(marker).exists()
}

/// Runs the program with a search path in which the harness's `bin` precedes the system's folders.
fn run(harness: &Harness, args: &[&str]) -> Outcome {
    let path = format!("{}:/usr/bin:/bin", harness.arg("bin"));
    harness.run_with(&[("PATH", &path)], args)
}

#[test]
fn program_in_the_current_folder_runs_only_by_its_path() {
    let harness = Harness::new();
    let io = [&["io", "--no-save"], &SMALL[..]].concat();
    let hpl = ["hpl", "--no-save", "--order", "200", "--samples", "1", "--budget", "8"];
    let hpcg = ["apps", "hpcg", "--no-save", "--budget", "1"];
    let stream = ["stream", "--no-save", "--samples", "1", "--size", "100000elements"];
    let mpi = ["mpi", "--no-save", "--budget", "1"];
    for (command, option, name) in [
        (&io[..], "--fio", "some-fio"),
        (&io, "--iozone", "some-iozone"),
        (&hpl, "--xhpl", "some-xhpl"),
        (&hpcg, "--xhpcg", "some-xhpcg"),
        (&stream, "--compiler", "some-cc"),
        (&mpi, "--mpicc", "some-mpicc"),
        (&mpi, "--launcher", "some-mpirun"),
    ] {
        program(&harness, name, &format!("{name}.here"));
        let refused = run(&harness, &[command, &[option, name]].concat());
        assert!(!ran(&harness, &format!("{name}.here")), "{option} {name} ran ./{name}");
        if !["--compiler", "--mpicc", "--launcher"].contains(&option) {
            let hint = format!("; ./{name} is the file in the current folder\n");
            refused.exits(3).warns(&hint).prints_nothing();
        }
    }
    // A program with this name in the search path is found, and a path is used as it is.
    for (option, name) in [("--fio", "some-fio"), ("--iozone", "some-iozone")] {
        program(&harness, &format!("bin/{name}"), &format!("{name}.path"));
        run(&harness, &[&io[..], &[option, name]].concat()).exits(3).warns("is not");
        assert!(ran(&harness, &format!("{name}.path")) && !ran(&harness, &format!("{name}.here")));
        let here = format!("./{name}");
        run(&harness, &[&io[..], &[option, &here]].concat()).exits(3).warns("is not");
        assert!(ran(&harness, &format!("{name}.here")));
    }
}

#[test]
fn library_in_the_current_folder_is_loaded_only_by_its_path() {
    let harness = Harness::new();
    let marker = harness.arg("loaded");
    let source = format!(
        "#include <stdio.h>\n__attribute__((constructor)) static void here(void) {{ fopen(\"{marker}\", \"w\"); }}\n"
    );
    let source = harness.write("planted.c", source);
    let names = ["openblas", "blis", "mkl", "libplanted.so", "planted@generic"];
    for name in names {
        let library = harness.arg(name);
        let args = ["-shared", "-fPIC", "-o", &library, &source];
        assert!(Command::new("gcc").args(args).status().unwrap().success());
    }
    let hpl = [
        "hpl",
        "--no-save",
        "--order",
        "200",
        "--nb",
        "32",
        "--samples",
        "1",
        "--budget",
        "5",
        "--blas",
    ];
    for name in names {
        harness.run(&[&hpl[..], &[name]].concat());
        assert!(!ran(&harness, "loaded"), "--blas {name} loaded ./{name}");
    }
    harness
        .run(&[&hpl[..], &["libplanted.so"]].concat())
        .exits(3)
        .warns("no BLAS library \"libplanted.so\" was found")
        .warns("; ./libplanted.so is the file in the current folder\n");
    // If its path is given, the library is loaded, and refused because it is not a BLAS library.
    harness.run(&[&hpl[..], &["./libplanted.so"]].concat()).exits(3);
    assert!(ran(&harness, "loaded"));
}
