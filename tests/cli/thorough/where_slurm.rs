//! Tests of `nodegauge where` as ranks of `srun`, and for a running job of Slurm.

use super::slurm::Slurm;
use crate::harness::Harness;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// Returns the process identifiers of a job's loops, from the kernel's list of processes.
fn loops(marker: &str) -> Vec<u64> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&words).contains(marker) {
            found.push(pid);
        }
    }
    found.sort_unstable();
    found
}

/// Loops of a job. They are killed when this value is dropped, because the daemons of the cluster end before they end a
/// job.
struct JobLoops(String);

impl Drop for JobLoops {
    fn drop(&mut self) {
        for pid in loops(&self.0) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    }
}

#[test]
fn where_reports_every_rank_of_srun() {
    let harness = Harness::new();
    let Some(slurm) = Slurm::start(&harness) else { return };
    let mut command = harness.command("srun");
    command.env("SLURM_CONF", &slurm.conf).args(["-n2", "--overcommit"]);
    let output = command.args([crate::program::path(), "where", "--json"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let documents: Vec<Value> =
        serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect();
    let mut ranks = Vec::new();
    for document in &documents {
        for process in document["hosts"][0]["processes"].as_array().unwrap() {
            assert_eq!(process["ranks"], 2, "{document:#}");
            ranks.push(process["rank"].as_u64().unwrap());
        }
    }
    ranks.sort_unstable();
    assert_eq!(ranks, [0, 1], "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn where_finds_the_processes_of_a_running_job() {
    let harness = Harness::new();
    let Some(slurm) = Slurm::start(&harness) else { return };
    let marker = format!("where-job-{}", std::process::id());
    let program = format!("exec 3>&1; while :; do :; done # {marker}");
    let _killed = JobLoops(marker.clone());
    let script = harness.write("job.sh", format!("#!/bin/sh\nexec sh -c '{program}'\n"));
    let mut command = harness.command("sbatch");
    command.env("SLURM_CONF", &slurm.conf).args(["--parsable", "-o", "/dev/null", &script]);
    let output = command.output().unwrap();
    let job = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(!job.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let deadline = Instant::now() + crate::harness::timeout();
    while loops(&marker).is_empty() {
        assert!(Instant::now() < deadline, "the job {job} does not start");
        std::thread::sleep(Duration::from_millis(100));
    }
    let document = harness.run(&["where", "--job", &job, "--for", "0.3", "--json"]).exits(0).json();
    let expected = loops(&marker);
    let mut cancel = harness.command("scancel");
    assert!(cancel.env("SLURM_CONF", &slurm.conf).arg(&job).status().unwrap().success());
    let processes = document["hosts"][0]["processes"].as_array().unwrap();
    let found: Vec<u64> =
        processes.iter().map(|process| process["pid"].as_u64().unwrap()).collect();
    for pid in &expected {
        assert!(found.contains(pid), "{found:?} of {expected:?}: {document:#}");
    }
}
