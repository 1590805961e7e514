//! Tests of `fleet run --slurm` on a real cluster with four slurmds, all of which run on this machine. No test asserts
//! speed; verdicts on simulated and recorded fleets are tested elsewhere.

use super::slurm::Slurm;
use crate::harness::{FAST, Harness, Outcome, make_program, signal, wait_for};
use std::time::{Duration, Instant};

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Runs `fleet run` with a short measurement on each node.
fn fleet(harness: &Harness, slurm: &Slurm, more: &[&str]) -> Outcome {
    let run = ["fleet", "run", "records", "--slurm", "--outstanding", "2", "--confirm", "1"];
    let measure = [&["--", "stream"], &FAST[..]].concat();
    harness.run_with(&[("SLURM_CONF", &slurm.conf)], &[&run[..], more, &measure].concat())
}

#[test]
fn every_node_gets_a_record_or_a_reason() {
    let harness = Harness::new();
    let Some(slurm) = Slurm::with_nodes(&harness, &NODES) else { return };
    let ended = fleet(&harness, &slurm, &["--nodes", "n[1-4]"]).exits(0);
    for node in NODES {
        assert!(
            harness.path(&format!("records/{node}.json")).is_file(),
            "{node}: {}",
            ended.stderr
        );
    }
    let ranked = harness.run(&["fleet", "rank", "records", "--format", "json"]).exits(0).json();
    assert_eq!(ranked["unknown"], "n[1-4]", "fewer than eight nodes are not judged: {ranked}");
    // All nodes have been measured, so no job is submitted again.
    fleet(&harness, &slurm, &[]).exits(0).warns("4 nodes measured");
    // A node without a record is measured again. A node that is down is missing, with the reason.
    for node in ["n2", "n3"] {
        std::fs::remove_file(harness.path(&format!("records/{node}.json"))).unwrap();
    }
    signal(slurm.nodes[2], "KILL");
    let control = |words: &[&str]| {
        let all = [&["scontrol"], words].concat();
        harness.run_other(&all, &[("SLURM_CONF", &slurm.conf)])
    };
    control(&["update", "NodeName=n3", "State=DOWN", "Reason=test"]).exits(0);
    wait_for("the state of n3", || {
        control(&["show", "node", "n3"]).stdout.contains("DOWN").then_some(())
    });
    fleet(&harness, &slurm, &[]).exits(0).prints("n3: the node is not available: down");
    assert!(harness.path("records/n2.json").is_file());
    harness
        .run(&["fleet", "rank", "records"])
        .exits(0)
        .prints("n3: the node is not available: down");
}

/// Runs `fleet run` with scripts in place of Slurm's programs.
fn with_scripts(harness: &Harness, scripts: &[(&str, &str)], more: &[&str]) -> Outcome {
    for (name, script) in scripts {
        make_program(&harness.write(&format!("bin/{name}"), format!("#!/bin/sh\n{script}\n")));
    }
    let path = format!("{}:{}", harness.arg("bin"), std::env::var("PATH").unwrap());
    harness.run_with(&[("PATH", &path)], &[&["fleet", "run", "records", "--slurm"], more].concat())
}

#[test]
fn node_state_determines_whether_a_job_is_submitted() {
    let harness = Harness::new();
    let nodes = "printf 'gpu_3|maint|all*\\nn1|drained|all*\\nn2|down*|all*\\n'";
    let scripts =
        [("squeue", ""), ("sinfo", nodes), ("sbatch", "echo 'sbatch: error: refused' >&2; exit 1")];
    with_scripts(&harness, &scripts, &[])
        .exits(0)
        .warns("gpu_3: sbatch: refused")
        .warns("n1: the node is not available: drained")
        .warns("n2: the node is not available: down, does not respond");
}

#[test]
fn fleet_run_ends_if_slurm_does_not_respond() {
    let harness = Harness::new();
    let sleeping = [("squeue", "exec sleep 300")];
    let more = ["--nodes", "n[1-2]", "--deadline", "2"];
    let started = Instant::now();
    with_scripts(&harness, &sleeping, &more).exits(3).warns("squeue");
    assert!(started.elapsed() < Duration::from_secs(50), "{:?}", started.elapsed());
}

#[test]
fn node_of_a_failed_or_refused_job_is_reported_with_the_reason() {
    let harness = Harness::new();
    let Some(slurm) = Slurm::with_nodes(&harness, &["n1", "n2"]) else { return };
    let run = ["fleet", "run", "records", "--slurm", "--nodes", "n[1-2]"];
    let variables = [("SLURM_CONF", slurm.conf.as_str())];
    let wrong = [&run[..], &["--", "stream", "--size", "900TiB"]].concat();
    harness.run_with(&variables, &wrong).exits(0).prints("FAILED: error: ");
    let refused = [&run[..], &["--sbatch=--mem=900T"]].concat();
    harness.run_with(&variables, &refused).exits(0).prints("sbatch: ");
    let none = ["fleet", "run", "others", "--slurm", "--nodes", "n9"];
    harness.run_with(&variables, &none).exits(0).prints("the node is unknown to Slurm");
    // Without Slurm's configuration, the command ends at once.
    let absent = [("SLURM_CONF", "/nonexistent/slurm.conf")];
    harness.run_with(&absent, &run).exits(3).warns("file /nonexistent");
}

/// Returns the processes of the jobs that this cluster runs on a node.
fn processes_on(node: &str, slurm: &Slurm) -> Vec<u32> {
    let has = |process: &u32| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let variables: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
        let is_set = |variable: String| variables.contains(&variable.as_bytes());
        is_set(format!("SLURM_CONF={}", slurm.conf)) && is_set(format!("SLURMD_NODENAME={node}"))
    };
    let names = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(has).collect()
}

/// Returns the parent of a process.
fn parent(process: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn node_that_dies_during_its_job_is_missing_with_the_job_state() {
    let harness = Harness::new();
    let short = "SlurmdTimeout=10\nTCPTimeout=2\nMessageTimeout=5\n";
    let Some(slurm) = Slurm::with(&harness, &["n1", "n2"], short) else { return };
    let variables = [("SLURM_CONF", slurm.conf.as_str())];
    let run = ["fleet", "run", "records", "--slurm", "--nodes", "n[1-2]", "--confirm", "1"];
    let measure =
        ["--", "stream", "--size", "1000000elements", "--budget", "15", "--dimms", "1024x20000"];
    let started = harness.start_with(&variables, &[&run[..], &measure].concat());
    let process = wait_for("the job of n2", || processes_on("n2", &slurm).first().copied());
    // The daemon is killed first, so that it cannot report the end of the other processes.
    let step = parent(process);
    signal(slurm.nodes[1], "KILL");
    signal(step, "KILL");
    signal(process, "KILL");
    started.end().exits(0).prints("NODE_FAIL");
    harness.run(&["fleet", "rank", "records"]).exits(0).prints("n2: job ").prints("NODE_FAIL");
    assert!(harness.path("records/n1.json").is_file() && !harness.path("records/n2.json").exists());
}

#[test]
fn node_of_job_at_its_time_limit_is_missing_with_the_reason() {
    let harness = Harness::new();
    let Some(slurm) = Slurm::with(&harness, &["n1"], "KillWait=1\n") else { return };
    let variables = [("SLURM_CONF", slurm.conf.as_str())];
    let run = ["fleet", "run", "records", "--slurm", "--nodes", "n1", "--minutes", "1"];
    let measure = ["--", "sweep", "threads=1", "--", "sleep", "600"];
    let ended = harness.start_with(&variables, &[&run[..], &measure].concat()).end().exits(0);
    ended.prints("n1: job ").prints("TIMEOUT");
    harness.run(&["fleet", "rank", "records"]).exits(0).prints("TIMEOUT");
    assert!(!harness.path("records/n1.json").exists(), "an interrupted run is no record");
}

#[test]
fn job_with_a_lost_identifier_is_found_and_not_submitted_twice() {
    let harness = Harness::new();
    let queue =
        "[ -e asked ] && state=FAILED || state=RUNNING; : >asked; echo \"7|$state|n1|None\"";
    let scripts = [("squeue", queue), ("sbatch", "echo submitted >twice; exit 1")];
    with_scripts(&harness, &scripts, &["--nodes", "n1"]).exits(0).prints("n1: job 7: FAILED");
    assert!(!harness.path("twice").exists());
}
