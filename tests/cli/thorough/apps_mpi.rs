//! Tests of `nodegauge apps iccg` in ranks that an MPI launcher or srun started.

use crate::apps::children;
use crate::harness::{
    Harness, OPEN_MPI_AS_ROOT, is_running, measurements, signal, texts, wait_for,
};
use crate::mpi::{MPICH, installed};
use crate::thorough::slurm::Slurm;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::Duration;

#[test]
fn unsupported_request_to_launched_ranks_is_reported_once() {
    let harness = Harness::new();
    let run = |rank: &str, app: &str, code| {
        let variables = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"];
        let started = [(variables[0], rank), (variables[1], "2")];
        harness.run_with(&started, &["apps", app]).exits(code).prints_nothing()
    };
    run("0", "hpcg", 2).warns("has started 2 ranks").warns("start one process with --ranks 2");
    assert_eq!(run("1", "hpcg", 2).stderr, "");
    // According to the variables, there are two ranks, but the process is no rank of an MPI job.
    if !installed(&harness).is_empty() {
        run("0", "iccg", 3).warns("Open MPI has started 2 ranks, but Open MPI v");
        assert_eq!(run("1", "iccg", 3).stderr, "");
    }
}

/// Returns the command that runs a solver with two ranks under a launcher.
fn solver<'a>(launcher: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    let program = crate::program::path();
    let solver = [program, "apps", "iccg", "--elements", "6,5,7"];
    [&["timeout", "100"], launcher, &solver, rest].concat()
}

#[test]
fn launched_ranks_compute_the_same_solution_as_forked_ranks() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let asked = ["--samples", "2", "--json", "-"];
    let forked = ["apps", "iccg", "--elements", "6,5,7", "--ranks", "2"];
    let forked = harness.run(&[&forked[..], &asked].concat()).exits(0).json();
    let solution = |record: &Value| {
        let of = measurements(record).iter().find(|m| m["name"] == "time_to_solution");
        of.unwrap()["config"].clone()
    };
    for which in installed(&harness) {
        let words = solver(&[which.mpirun, "-np", "2"], &asked);
        // Only one document is printed, although two processes run.
        let record = harness.run_other(&words, &OPEN_MPI_AS_ROOT).exits(0).json();
        let (own, other) = (solution(&record), solution(&forked));
        for key in ["iterations", "natural_iterations", "processes", "n", "colours"] {
            assert_eq!(own[key], other[key], "{key}");
        }
        let [own_residual, residual] = [&own, &other].map(|of| of["residual"].as_f64().unwrap());
        assert!((own_residual / residual - 1.0).abs() < 1e-3, "{own_residual} {residual}");
        assert!(own["halo_by"].as_str().unwrap().starts_with(which.name), "{own:#}");
        assert_eq!(other.get("halo_by"), None);
        let reported = texts(&record["notices"]);
        assert!(
            reported.iter().any(|reported| reported.ends_with("has started 2 ranks")),
            "{reported:?}"
        );
        harness.run(&["history", "show", "latest"]).exits(0).prints("exchange and sums by ");
        // Placement options contradict the placement by the launcher.
        let refused = harness
            .run_other(&solver(&[which.mpirun, "-np", "2"], &["--ranks", "2"]), &OPEN_MPI_AS_ROOT);
        assert_eq!(
            refused.stderr.matches("error: --ranks cannot be used: ").count(),
            1,
            "{}",
            refused.stderr
        );
        refused.exits(2);
    }
}

#[test]
fn ranks_under_srun_are_accepted_only_with_pmi2() {
    let harness = Harness::new();
    if !installed(&harness).iter().any(|mpi| mpi.name == MPICH.name) {
        return;
    }
    let Some(slurm) = Slurm::start(&harness) else { return };
    let variables = [("SLURM_CONF", slurm.conf.as_str())];
    let args = ["--samples", "1", "--json", "-"];
    let record = harness.run_other(&solver(&["srun", "-n2", "--mpi=pmi2"], &args), &variables);
    let record = record.exits(0).json();
    assert!(texts(&record["notices"]).contains(&"Slurm has started 2 ranks"));
    assert_eq!(measurements(&record)[0]["config"]["processes"], 2);
    let alone = harness.run_other(&solver(&["srun", "-n2", "--mpi=none"], &args), &variables);
    alone.exits(3).warns("Slurm has started 2 ranks, but ").warns("--mpi=pmi2 for MPICH");
}

#[test]
fn interrupted_ranks_save_a_record_and_a_killed_rank_ends_the_others() {
    for which in installed(&Harness::new()) {
        let harness = Harness::new();
        for (sent, to) in [("INT", 0), ("KILL", 1)] {
            let (mut launcher, ranks) = start(&harness, which.mpirun, "6,5,7");
            // Launchers forward the signal to the ranks after a delay.
            signal(ranks[to], sent);
            assert!(!launcher.wait().unwrap().success());
            wait_for("their end", || (!ranks.iter().any(|rank| is_running(*rank))).then_some(()));
            // The record contains the results before the interrupt, but no result of a solve that lost a rank.
            let runs = harness.run(&["history", "list", "-q"]).exits(0).stdout;
            let errors = std::fs::read_to_string(harness.path("errors")).unwrap();
            assert_eq!(runs.lines().count(), 1, "{} after SIG{sent}: {runs}, {errors}", which.name);
            assert_eq!(harness.latest()["complete"], false);
        }
    }
}

/// Starts a long run with two ranks, whose standard error goes to the file `errors`. Waits until both ranks handle
/// signals, and returns the launcher and the ranks.
fn start(harness: &Harness, mpirun: &str, elements: &str) -> (Child, [u32; 2]) {
    let mut command = harness.command(mpirun);
    command.args(["-np", "2", crate::program::path(), "apps", "iccg", "--elements", elements]);
    let errors = std::fs::File::create(harness.path("errors")).unwrap();
    command.args(["--budget", "600"]).envs(OPEN_MPI_AS_ROOT).stdout(Stdio::null()).stderr(errors);
    let launcher = command.spawn().unwrap();
    let process = launcher.id();
    // The MPI library catches signals during its initialisation. The history is opened after that.
    let history = harness.path(".local/share/nodegauge/history.db");
    let ranks = wait_for("two ranks", || if history.exists() { ranks(process) } else { None });
    (launcher, ranks)
}

/// A run is interrupted at several moments: during the set-up, the comparison of loops, and the solve.
#[test]
fn interrupt_of_ranks_at_any_moment_leaves_a_record() {
    let Some(which) = installed(&Harness::new()).into_iter().next() else { return };
    for milliseconds in [0, 30, 100, 300, 600, 1000, 1500, 2500] {
        let harness = Harness::new();
        let (mut launcher, ranks) = start(&harness, which.mpirun, "40,40,40");
        std::thread::sleep(Duration::from_millis(milliseconds));
        signal(ranks[0], "INT");
        launcher.wait().unwrap();
        let runs = harness.run(&["history", "list", "-q"]).exits(0).stdout;
        let errors = std::fs::read_to_string(harness.path("errors")).unwrap();
        assert_eq!(runs.lines().count(), 1, "after {milliseconds} ms: {runs}, {errors}");
        assert_eq!(harness.latest()["complete"], false, "after {milliseconds} ms: {errors}");
    }
}

/// Returns both ranks if rank 0 handles SIGINT and rank 1 ignores it; otherwise `None`.
fn ranks(launcher: u32) -> Option<[u32; 2]> {
    let status = |process: u32, key: &str| {
        let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_default().trim().to_owned()
    };
    let all = descendants(launcher);
    let one = |key: &str| {
        let has = |process: &&u32| {
            let mask = u64::from_str_radix(&status(**process, key), 16).unwrap_or(0);
            status(**process, "Name:") == "nodegauge" && mask & 2 != 0
        };
        all.iter().find(has).copied()
    };
    Some([one("SigCgt:")?, one("SigIgn:")?])
}

/// Returns all descendants of a process.
fn descendants(of: u32) -> Vec<u32> {
    let mut all = vec![of];
    let mut at = 0;
    while at < all.len() {
        all.extend(children(all[at]));
        at += 1;
    }
    all.split_off(1)
}
