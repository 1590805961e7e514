//! Tests of `nodegauge where`, which reads running processes.

use crate::harness::{Harness, OPEN_MPI_AS_ROOT, Part, has_keys};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};

/// Shell program with two busy processes that end after three seconds on every machine, however fast or loaded. The
/// processes are read several times within that time.
const TWO_LOOPS: &str = "timeout 3 sh -c 'while :; do :; done' & \
                         timeout 3 sh -c 'while :; do :; done'; wait; echo done";

/// Process that is killed when this value is dropped.
struct Running(Child);

impl Running {
    fn start(program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).stdout(Stdio::null()).stdin(Stdio::null());
        Self(command.env("OMP_NUM_THREADS", "3").env("TOKEN", "secret").spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the number of a CPU that this process may use.
fn some_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split([',', '-']).next().unwrap().to_owned()
}

fn findings(document: &Value) -> Vec<&str> {
    let all = document["findings"].as_array().unwrap();
    all.iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

#[test]
fn where_reports_the_binding_of_a_running_process() {
    let cpu = some_cpu();
    let running = Running::start("sh", &["-c", "while :; do :; done"]);
    let bound = Command::new("taskset").args(["-pc", &cpu, &running.pid()]).output();
    if !bound.is_ok_and(|output| output.status.success()) {
        return;
    }
    let harness = Harness::new();
    let document =
        harness.run(&["where", &running.pid(), "--for", "0.3", "--json"]).exits(0).json();
    has_keys(&document, &["schema", "version", "hosts", "missing", "findings"]);
    assert_eq!(document["schema"], "nodegauge-where/1");
    let process = &document["hosts"][0]["processes"][0];
    assert_eq!(process["pid"].to_string(), running.pid());
    assert_eq!(process["environment"]["OMP_NUM_THREADS"], "3");
    assert_eq!(process["environment"].get("TOKEN"), None);
    let thread = &process["threads"][0];
    assert_eq!((&thread["allowed"], &thread["busy"]), (&json!(cpu), &json!(true)));
    assert_eq!(thread["cpu"].to_string(), cpu);
    let schema = harness.run(&["where", "--schema"]).exits(0).json();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&document), "{:?}", validator.validate(&document));
    harness.run(&["where", &running.pid()]).exits(0).prints("allowed").prints("1 process");
}

#[test]
fn two_busy_processes_on_one_cpu_are_reported() {
    let harness = Harness::new();
    if !Command::new("taskset").arg("--version").output().is_ok_and(|it| it.status.success()) {
        return;
    }
    let cpu = some_cpu();
    let words = ["where", "--json=where.json", "--", "taskset", "-c", &cpu, "sh", "-c", TWO_LOOPS];
    harness.run(&words).exits(0).prints("done");
    let text = std::fs::read_to_string(harness.path("where.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    // On a machine with one CPU, sharing it is no mistake, but the finding is the same.
    assert!(findings(&document).contains(&"shared-cpu"), "{document:#}");
    let failing = ["where", "--", "sh", "-c", "sleep 1; exit 3"];
    harness.run(&failing).exits(1).warns("exit status 3");
}

#[test]
fn conditions_of_the_where_command_determine_its_exit_code() {
    let running = Running::start("sh", &["-c", "while :; do :; done"]);
    let pid = running.pid();
    let harness = Harness::new();
    harness.run(&["where", &pid, "--expect", "waiting<=100%"]).exits(0);
    harness.run(&["where", &pid, "--expect", "waiting<0%"]).exits(1).warns("not met");
    harness
        .run(&["where", &pid, "--pages", "0", "--expect", "local>=1%"])
        .exits(1)
        .warns("unknown");
    harness
        .run(&["where", &pid, "--expect", "triad>=1GB/s"])
        .exits(2)
        .warns("local, huge or waiting");
    harness.run(&["where", "--expect", "local>=1GB/s", &pid]).exits(2).warns("in %");
}

#[test]
fn missing_processes_programs_and_jobs_are_reported() {
    let harness = Harness::new();
    harness.run(&["where", "4194305"]).exits(3).warns("process 4194305 does not exist");
    harness.run(&["where", "--", "./missing"]).exits(3).warns("no program");
    harness.run(&["where", "--job", "999999999"]).exits(3).warns("--overlap");
}

#[test]
fn ranks_are_gathered_into_one_document() {
    let harness = Harness::new();
    for mpirun in ["mpirun.openmpi", "mpirun.mpich"] {
        if !harness.has(Part::Mpi, mpirun) {
            continue;
        }
        let mut command = harness.command(mpirun);
        command.envs(OPEN_MPI_AS_ROOT).env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        let output =
            command.args(["-np", "2", crate::program::path(), "where", "--json"]).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let ranks: Vec<&Value> = document["hosts"][0]["processes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|process| &process["rank"])
            .collect();
        assert_eq!(ranks, [0, 1], "{mpirun}");
        assert_eq!(document["missing"], json!([]));
    }
}
