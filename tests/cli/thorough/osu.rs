//! Tests of `mpi` with the OSU micro-benchmarks: alternating runs of their programs and the probe, and their tables.

use crate::harness::{Harness, measurements, names, texts};
use crate::mpi::{FAST, OPEN_MPI, installed, mpi};
use std::process::Command;

/// Program that prints the output of osu_latency 5.7 for the sizes of `-m` if it is one of two ranks.
const STAND_IN: &str = r##"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifndef SECONDS
#define SECONDS 0
#endif
int main(int count, char **words) {
    int rank, ranks;
    long least = 8, most = 1024;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    sleep(SECONDS);
    if (count > 2) sscanf(words[2], "%ld:%ld", &least, &most);
    if (ranks != 2) { if (!rank) fprintf(stderr, "This test requires exactly two processes\n"); }
    else if (!rank) {
        printf("# OSU MPI Latency Test v5.7\n# Size          Latency (us)\n");
        for (; least <= most; least *= 2) printf("%-*ld%*.2f\n", 10, least, 18, 1000.0);
    }
    MPI_Finalize();
    return ranks != 2;
}
"##;

#[test]
fn osu_programs_and_the_probe_are_interleaved() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let source = harness.write("latency.c", STAND_IN);
    for which in installed(&harness) {
        let folder = harness.path(&format!("{}/libexec/pt2pt", which.mpicc));
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("osu_latency");
        let made = Command::new(which.mpicc).arg(&source).arg("-o").arg(&program).status().unwrap();
        assert!(made.success());
        let args = [
            "--osu",
            &harness.arg(which.mpicc),
            "-m",
            "8:32",
            "--size-limit",
            "0.02",
            "--samples",
            "2",
            "--patterns",
            "latency",
        ];
        let record = mpi(&harness, which, &[&args[..], &["--json", "-"]].concat()).exits(0).json();
        let categories: Vec<&str> =
            measurements(&record).iter().map(|m| m["category"].as_str().unwrap()).collect();
        assert_eq!(categories, ["variant", "reference"].repeat(3));
        let (own, osu) = (&measurements(&record)[0], &measurements(&record)[1]);
        assert_eq!(osu["value"], 1e-3);
        // If other load disturbs every round, all six rounds may count.
        let rounds = own["summary"]["n"].as_u64().unwrap();
        assert!((1..=6).contains(&rounds), "{rounds}");
        assert_eq!(own["summary"]["n"], osu["summary"]["n"]);
        assert_eq!(own["config"]["rounds"], rounds);
        let ratio = own["config"]["over_osu"].as_f64().unwrap();
        assert!((ratio / (own["value"].as_f64().unwrap() / 1e-3) - 1.0).abs() < 1e-9);
        mpi(&harness, which, &args)
            .exits(0)
            .prints_words("osu 5.7")
            .prints_words("interleaved rounds");
    }
    if installed(&harness).len() == 2 {
        // The programs in this folder were built with the other MPI.
        let args = ["--osu", &harness.arg("mpicc.mpich"), "-m", "8:32", "--patterns", "latency"];
        mpi(&harness, OPEN_MPI, &args).exits(2).warns("it was not built with Open MPI");
    }
    harness.run(&["mpi", "--osu", &harness.arg("nothing")]).exits(2).warns("hint:");
}

#[test]
fn budget_limits_the_rounds_of_osu_programs() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let source = harness.write("latency.c", STAND_IN);
    let Some(which) = installed(&harness).into_iter().next() else { return };
    let program = harness.path("osu_latency");
    let mut compiler = Command::new(which.mpicc);
    compiler.arg("-DSECONDS=2").arg(&source).arg("-o").arg(&program);
    assert!(compiler.status().unwrap().success());
    // Five rounds take longer than the budget of ten seconds. The results within the budget are kept.
    let osu = harness.path("");
    let args = ["--osu", osu.to_str().unwrap(), "-m", "8:32", "--patterns", "latency"];
    let short = [&args[..], &["--budget", "6", "--json", "-"]].concat();
    let record = mpi(&harness, which, &short).exits(0).json();
    let rounds = measurements(&record)[0]["config"]["rounds"].as_u64().unwrap();
    assert!((1..5).contains(&rounds), "{rounds}");
    let notices = texts(&record["notices"]);
    let is_named =
        notices.iter().any(|notice| notice.contains("another one would exceed --budget"));
    assert!(is_named, "{notices:?}");
}

#[test]
fn printed_osu_tables_can_be_imported() {
    let harness = Harness::new();
    for which in installed(&harness).into_iter().take(1) {
        let text = mpi(&harness, which, &[&FAST[..], &["--patterns", "bw", "--osu-text"]].concat())
            .exits(0)
            .prints("# Size      Bandwidth (MB/s)\n8 ")
            .stdout;
        let title = |line: &str| {
            if line.starts_with("# nodegauge: OSU MPI") {
                "# OSU MPI Bandwidth Test v5.7\n".to_owned()
            } else {
                format!("{line}\n")
            }
        };
        let whole: String = text.lines().map(title).collect();
        let file = harness.write("saved.txt", whole);
        let record = harness.imported(&file);
        assert_eq!(names(&record), ["bw"; 3]);
        assert_eq!(measurements(&record)[0]["category"], "reference");
    }
    let file = harness.write("other.txt", "# OSU MPI_Swap Latency Test v7.2\n1 0.2\n");
    harness.run(&["history", "import", &file]).exits(2).warns("its table has no header");
}
