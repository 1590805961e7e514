//! `mpi`: ranks, launchers and compilers that fail.

use crate::harness::{Harness, Outcome, Part, make_program, skip, texts};
use crate::mpi::{FAST, MPICH, Mpi, OPEN_MPI, installed, mpi, no_orphans, of};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The same with a misfortune preloaded into its ranks.
fn with_fault(harness: &Harness, which: Mpi, fault: &str, args: &[&str]) -> Outcome {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/mpi_faults.c");
    let library = harness.arg(&format!("faults-{fault}.so"));
    let made = Command::new(which.mpicc)
        .args(["-shared", "-fPIC", "-o", &library])
        .arg(source)
        .status()
        .unwrap();
    assert!(made.success());
    let preload = match which.variable {
        "-x" => format!("-x LD_PRELOAD={library} -x FAULT={fault}"),
        _ => format!("-genv LD_PRELOAD {library} -genv FAULT {fault}"),
    };
    let launcher = format!("{} {preload}", which.mpirun);
    mpi(harness, which, &[&["--launcher", &launcher], args].concat())
}

#[test]
fn root_is_refused_by_open_mpi_with_the_option_that_helps() {
    let harness = Harness::new();
    let root = std::fs::metadata("/proc/self")
        .is_ok_and(|data| std::os::unix::fs::MetadataExt::uid(&data) == 0);
    if !root {
        return skip(Part::Root, "whoever is not root is not refused");
    }
    if !harness.has(Part::Mpi, OPEN_MPI.mpicc) {
        return;
    }
    let args = [&["mpi", "--mpicc", "mpicc.openmpi"], &FAST[..]].concat();
    harness
        .run(&args)
        .exits(3)
        .complains("refuses to start programs of root\nhint: give --allow-run-as-root");
}

#[test]
fn a_hang_is_killed_and_what_was_measured_is_kept() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let args = [&FAST[..], &["--patterns", "latency", "--json", "-"]].concat();
        let record = with_fault(&harness, which, "hang", &args).exits(1).json();
        assert!(of(&record, "latency", 8)["value"].is_number());
        let hung = of(&record, "latency", 1024);
        assert_eq!(
            (&hung["value"], &hung["validity"]["status"]),
            (&Value::Null, &"invalid".into())
        );
        assert!(texts(&hung["validity"]["reasons"])[0].contains("no answer within"));
        no_orphans(&harness);
        harness.run(&["history", "show", "latest"]).exits(0).tells("were killed");
    }
}

#[test]
fn a_rank_that_dies_is_told_with_the_size() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let args = [&FAST[..], &["--patterns", "latency"]].concat();
        with_fault(&harness, which, "die", &args)
            .exits(1)
            .tells("a rank or the launcher ended")
            .tells("in latency of 1024 B");
        no_orphans(&harness);
    }
}

#[test]
fn corrupted_data_is_no_result() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let args = [&FAST[..], &["--patterns", "latency", "--json"]].concat();
        let record = with_fault(&harness, which, "corrupt", &args).exits(1).json();
        let wrong = of(&record, "latency", 1024);
        assert_eq!((&wrong["value"], &wrong["config"]["validated"]), (&Value::Null, &false.into()));
        assert_eq!(
            texts(&wrong["validity"]["reasons"])[0],
            "the data arrived corrupted: 2 bytes are not what was sent"
        );
        assert!(of(&record, "latency", 64)["value"].is_number());
        // Not looked at, it is not found.
        let args = [&args[..], &["--validate", "0"]].concat();
        with_fault(&harness, which, "corrupt", &args).exits(0);
        no_orphans(&harness);
    }
}

#[test]
fn an_mpi_without_threads_leaves_their_pattern_out() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let named = [&FAST[..], &["--patterns", "latency_mt", "-t", "1:1"]].concat();
        with_fault(&harness, which, "single", &named)
            .exits(1)
            .tells("does not give MPI_THREAD_MULTIPLE");
        with_fault(&harness, which, "single", &FAST).exits(0).tells("latency_mt left out");
        no_orphans(&harness);
    }
}

#[test]
fn too_few_slots_are_told_with_the_launchers_words() {
    let harness = Harness::new();
    if !harness.has_cpus(2) || !harness.has(Part::Mpi, OPEN_MPI.mpicc) {
        return;
    }
    // A launcher whose host has one slot.
    let script = harness.write(
        "mpirun",
        "#!/bin/sh\n[ \"$1\" = --version ] && exec mpirun.openmpi --version\n\
         for program; do case $program in */messages-*) break ;; esac; done\n\
         exec mpirun.openmpi --allow-run-as-root --host localhost:1 -np 2 \"$program\"\n",
    );
    make_program(&script);
    let args = [&FAST[..], &["--launcher", &script, "--patterns", "latency"]].concat();
    mpi(&harness, OPEN_MPI, &args)
        .exits(3)
        .complains("has too few slots for 2 ranks")
        .complains("hint: ask for fewer with --ranks");
    no_orphans(&harness);
}

#[test]
fn a_launcher_of_another_mpi_is_found_out() {
    let harness = Harness::new();
    if installed(&harness).len() < 2 {
        return;
    }
    let args = [&FAST[..], &["--launcher", "mpirun.mpich"]].concat();
    mpi(&harness, OPEN_MPI, &args)
        .exits(2)
        .complains("starts programs of MPICH")
        .complains("every rank would be rank 0 of 1");
    // One that says it is of the right kind and is not: only the ranks find out.
    let script = harness.write(
        "mpirun",
        "#!/bin/sh\n[ \"$1\" = --version ] && exec mpirun.mpich --version\n\
         while :; do case $1 in */messages-*) break ;; esac; shift; done\n\
         exec mpirun.openmpi --allow-run-as-root -np 2 \"$@\"\n",
    );
    make_program(&script);
    let args = [&FAST[..], &["--launcher", &script, "--patterns", "latency"]].concat();
    mpi(&harness, MPICH, &args)
        .exits(3)
        .complains("asked for 2 ranks, and each believes that there is 1");
    no_orphans(&harness);
}

#[test]
fn a_missing_or_broken_compiler_is_told() {
    let harness = Harness::new();
    harness
        .run(&["mpi", "--mpicc", "mpicc-of-nobody"])
        .exits(3)
        .complains("there is no mpicc-of-nobody on this node\nhint: install an MPI (on Debian: openmpi-bin libopenmpi-dev, or mpich libmpich-dev");
    harness
        .run(&["mpi", "--mpicc", "true"])
        .exits(3)
        .complains("does not say that it is a compiler of MPI");
    for which in installed(&harness) {
        let broken = harness.write(
            "mpicc.broken",
            format!(
                "#!/bin/sh\ncase $1 in -v|--version|--showme*) exec {} \"$@\" ;; esac\n\
                 echo 'messages.c:1: error: no such header' >&2; exit 1\n",
                which.mpicc
            ),
        );
        make_program(&broken);
        harness
            .run(&["mpi", "--mpicc", &broken, "--launcher", which.mpirun])
            .exits(3)
            .complains("error: no such header");
    }
}

#[test]
fn an_interrupted_run_leaves_nothing_behind_but_its_record() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let running = harness.start(&[
            "mpi",
            "--allow-run-as-root",
            "--mpicc",
            which.mpicc,
            "-m",
            "8,64",
            "--size-limit",
            "30",
            "--samples",
            "1000000",
            "--patterns",
            "latency",
        ]);
        // A size of messages under way.
        let running = running.shows(": latency, ");
        running.signal("INT");
        running.end().exits(130).complains("interrupted");
        no_orphans(&harness);
        assert_eq!(harness.latest()["complete"], false);
    }
}

#[test]
fn a_node_without_mpi_is_gauged_all_the_same() {
    let harness = Harness::new();
    let empty = harness.path("bin");
    std::fs::create_dir_all(&empty).unwrap();
    let path = empty.display().to_string();
    harness
        .run_with(&[("PATH", &path)], &["run", "--samples", "1", "--budget", "0.5"])
        .exits(0)
        .tells("messages not measured: there is no mpicc on this node")
        .tells("openmpi-bin libopenmpi-dev, or mpich libmpich-dev");
}
