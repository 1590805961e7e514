//! Tests of `mpi` on nodes without an MPI compiler, or without a compiler for one of several MPIs.

use crate::harness::{Harness, has_keys, make_program, measurements, names};
use crate::mpi::{FAST, MPICH, Mpi, installed, mpi, no_orphans};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// Creates a search path with only the launcher of an MPI, like on a compute node without compilers.
fn launchers_only(harness: &Harness, which: Mpi) -> String {
    let bin = harness.path(&format!("bin-{}", which.mpirun));
    std::fs::create_dir(&bin).unwrap();
    let at = |name: &str| PathBuf::from("/usr/bin").join(name);
    symlink(at(which.mpirun), bin.join("mpirun")).unwrap();
    // Hydra searches its proxy in its own folder. Open MPI requires a program with which it starts ranks on other
    // hosts.
    symlink(at("hydra_pmi_proxy"), bin.join("hydra_pmi_proxy")).unwrap();
    symlink(at("true"), bin.join("ssh")).unwrap();
    bin.display().to_string()
}

#[test]
fn precompiled_probe_measures_all_patterns_without_a_compiler() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let path = launchers_only(&harness, which);
        let all =
            [&["mpi", "--no-floor", "--patterns", "all", "--threads", "1:1"], &FAST[..]].concat();
        let page = harness.run_with(&[("PATH", &path)], &all).exits(0).stdout;
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let why = "with nodegauge's precompiled probe: there is no mpicc on this node";
        assert!(page.contains(why), "{page}");
        let record = harness.latest();
        let mut own = names(&record);
        own.dedup();
        assert_eq!(own.len(), 11, "{own:?}");
        let abi = if which.name == "MPICH" { "MPICH's" } else { "Open MPI's" };
        for figure in measurements(&record) {
            let config = &figure["config"];
            assert_eq!(config["mpi"]["probe"], format!("precompiled for {abi} ABI"));
            assert_eq!(
                (&config["mpi"]["library"], &config["validated"]),
                (&which.name.into(), &true.into())
            );
            assert!(figure["value"].as_f64().is_some_and(|value| value > 0.0), "{figure:#}");
        }
        has_keys(
            &record["measurements"][0]["config"]["mpi"],
            &["version", "standard", "launcher", "chosen"],
        );
        no_orphans(&harness);
    }
}

#[test]
fn mpicc_that_cannot_compile_is_replaced_by_the_precompiled_probe() {
    let harness = Harness::new();
    for which in installed(&harness).into_iter().take(1) {
        let path = launchers_only(&harness, which);
        let text = format!(
            "#!/bin/sh\necho 'mpicc: {} 9.9 (Language: C)'\n[ $# -lt 2 ] || exit 1\n",
            which.name
        );
        let script = harness.write(&format!("bin-{}/mpicc", which.mpirun), text);
        make_program(&script);
        let args = [&["mpi", "--patterns", "latency"], &FAST[..]].concat();
        let run = harness.run_with(&[("PATH", &path)], &args).exits(0);
        run.prints_words(
            "with nodegauge's precompiled probe: mpicc cannot compile the probe (exit status 1)",
        );
        // Debian's mpich contains the wrapper, but not its header.
        let second_line = format!(
            "#!/bin/sh\necho 'mpicc: {} 9.9 (Language: C)'\n[ $# -lt 2 ] || {{ echo '/tmp/of/messages.c:38:10: \
             fatal error: mpi.h: No such file' >&2; exit 1; }}\n",
            which.name
        );
        make_program(&harness.write(&format!("bin-{}/mpicc", which.mpirun), second_line));
        let second_run = harness.run_with(&[("PATH", &path)], &args).exits(0);
        second_run.prints_words(
            "mpicc cannot compile the probe (messages.c:38:10: fatal error: mpi.h: No such file)",
        );
    }
}

#[test]
fn every_given_mpi_is_tried() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    for which in installed(&harness).into_iter().take(1) {
        let args = [&["--mpicc", "mpicc-of-nobody", "--patterns", "latency"], &FAST[..]].concat();
        mpi(&harness, which, &args)
            .exits(1)
            .prints_words("latency: there is no mpicc-of-nobody on this node")
            .prints_words(&format!("by {} (--mpicc)", which.mpicc));
        let record = harness.latest();
        let mpicc =
            |of: &serde_json::Value| of["config"]["mpi"]["mpicc"].as_str().unwrap().to_owned();
        let (good, bad): (Vec<_>, Vec<_>) =
            measurements(&record).iter().partition(|figure| figure["value"].is_number());
        assert!(good.iter().all(|figure| mpicc(figure) == which.mpicc) && good.len() == 3);
        assert!(bad.iter().all(|figure| mpicc(figure) == "mpicc-of-nobody") && bad.len() == 1);
    }
    harness
        .run(&["mpi", "--mpicc", "mpicc-of-nobody", "--mpicc", "true"])
        .exits(3)
        .warns("mpicc-of-nobody: there is no mpicc-of-nobody on this node")
        .warns("true: true is not a known MPI compiler wrapper");
}

#[test]
fn mpi_chosen_among_several_is_reported() {
    let harness = Harness::new();
    if installed(&harness).len() < 2 {
        return;
    }
    let args = [&["mpi", "--patterns", "latency"], &FAST[..]].concat();
    let chosen = |path: &str| {
        let run = harness.run_with(&[("PATH", path)], &args).exits(0);
        let chosen = harness.latest()["measurements"][0]["config"]["mpi"]["chosen"].clone();
        run.prints_words(chosen.as_str().unwrap());
        chosen.as_str().unwrap().to_owned()
    };
    let usual = std::env::var("PATH").unwrap();
    assert!(chosen(&usual).ends_with("mpicc, the default of 2 MPIs found"), "{}", chosen(&usual));
    // One folder contains a single wrapper. In the other folder, the default wrapper is broken.
    let bin = harness.path("one");
    std::fs::create_dir(&bin).unwrap();
    symlink(format!("/usr/bin/{}", MPICH.mpicc), bin.join(MPICH.mpicc)).unwrap();
    for tool in ["sh", "gcc", "as", "ld", "mpirun.mpich", "hydra_pmi_proxy", "expr", "sed"] {
        symlink(format!("/usr/bin/{tool}"), bin.join(tool)).unwrap();
    }
    let one = bin.display().to_string();
    assert!(chosen(&one).ends_with("one/mpicc.mpich, the only MPI found"), "{}", chosen(&one));
    make_program(&harness.write("one/mpicc", "#!/bin/sh\n"));
    let of = chosen(&one);
    assert!(
        of.contains("the first usable one of 2 MPIs found; unusable: mpicc: mpicc is not a known"),
        "{of}"
    );
}
