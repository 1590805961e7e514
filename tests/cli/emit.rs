//! `places --emit`: a real launcher starts a real program with the printed text, and the program reports the
//! CPUs of its threads and its memory policy.

use crate::harness::{Harness, Outcome, Part, T2K, skip};
use crate::thorough::slurm::Slurm;
use serde_json::Value;

/// Prints `rank thread cpus policy` for each of its OpenMP threads.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
    static const char *names[] = {
        "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"
    };
    static const char *policies[] = {
        "default", "preferred", "bind", "interleave", "local"
    };
    const char *rank = "-";
    for (int i = 0; i < 3; i++)
        if (getenv(names[i]))
            rank = getenv(names[i]);
    #pragma omp parallel
    {
        char line[4096];
        cpu_set_t set;
        int mode = -1, used;
        sched_getaffinity(0, sizeof set, &set);
        syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0);
        mode &= 0x1fff;
        used = snprintf(line, sizeof line, "%s %d", rank, omp_get_thread_num());
        for (int cpu = 0, first = 1; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &set)) {
                used += snprintf(line + used, sizeof line - used, "%c%d", first ? ' ' : ',', cpu);
                first = 0;
            }
        used += snprintf(line + used, sizeof line - used, " %s\n",
                         mode >= 0 && mode <= 4 ? policies[mode] : "unknown");
        if (write(1, line, used) != used)
            abort();
    }
    return 0;
}
"#;

/// Compiles the program and returns its path.
fn program(harness: &Harness) -> String {
    let source = harness.write("where.c", PROGRAM);
    let mut gcc = harness.command("gcc");
    gcc.args(["-O1", "-fopenmp", "-o", &harness.arg("where"), &source]);
    let built = gcc.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    harness.arg("where")
}

/// Returns the plan in the format of the program: rank, thread, CPUs; and the memory policy.
fn planned(harness: &Harness, args: &[&str], memory: bool) -> Vec<String> {
    let document = harness.run(&[&["places", "--json"], args].concat()).exits(0).json();
    let line = |thread: &Value| {
        let rank = thread["rank"].as_u64().map_or("-".to_owned(), |rank| rank.to_string());
        let cpus: Vec<String> =
            thread["cpus"].as_array().unwrap().iter().map(Value::to_string).collect();
        let policy = match thread["memory"]["policy"].as_str().unwrap() {
            _ if !memory => "*",
            "local" if !has_local_policy(harness) => "default",
            policy => policy,
        };
        format!("{rank} {} {} {policy}", thread["thread"], cpus.join(","))
    };
    let mut lines: Vec<String> = document["threads"].as_array().unwrap().iter().map(line).collect();
    lines.sort();
    lines
}

/// Runs the emitted script with the program.
fn started(
    harness: &Harness,
    emit: &str,
    args: &[&str],
    variables: &[(&str, &str)],
) -> (String, Outcome) {
    let emitted = harness.run(&[&["places", "--emit", emit], args].concat()).exits(0);
    let script = harness.write("run.sh", &emitted.stdout);
    let program = harness.arg("where");
    let words = ["timeout", "200", "sh", &script, &program];
    let mut outcome = harness.run_other(&words, variables);
    // On a busy machine, SIGPIPE may end MPICH's launcher before it has started a rank; then it is started again.
    for _ in 0..2 {
        if outcome.code.is_none() && outcome.stdout.is_empty() {
            outcome = harness.run_other(&words, variables);
        }
    }
    (emitted.stdout, outcome.exits(0))
}

/// Returns the lines that the program printed, sorted; `with` modifies the command first.
fn lines(outcome: &Outcome, with: impl Fn(&mut Vec<String>)) -> Vec<String> {
    let mut lines: Vec<String> = outcome
        .stdout
        .lines()
        .map(|line| {
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            with(&mut words);
            words.join(" ")
        })
        .collect();
    lines.sort();
    lines
}

/// Returns the first two CPUs in reverse order; `None` if there is only one.
fn two_cpus(harness: &Harness) -> Option<String> {
    let places = harness.run(&["places", "--places", "threads", "--json"]).exits(0).json();
    let cpus: Vec<String> = places["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["cpus"][0].to_string())
        .collect();
    match cpus.as_slice() {
        [first, second, ..] => Some(format!("{second},{first}")),
        _ => {
            skip(Part::Cpus, "there is one CPU");
            None
        }
    }
}

/// True if memory policies can be set here; containers may forbid it.
fn policies_work(harness: &Harness) -> bool {
    let works = harness
        .command("numactl")
        .args(["--localalloc", "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !works {
        skip(Part::Numa, "numactl cannot set a memory policy");
    }
    works
}

/// False if `numactl --localalloc` sets the default policy, which is local too, as before libnuma 2.0.13.
fn has_local_policy(harness: &Harness) -> bool {
    let shown = harness.command("numactl").args(["--localalloc", "numactl", "--show"]).output();
    !shown.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("policy: default"))
}

/// Placements of ranks that need different options of a launcher.
fn cases(cpus: &str, memory: bool) -> Vec<Vec<&str>> {
    let mut cases = vec![
        vec!["--ranks", "2"],
        vec!["--ranks", "2", "--cpus", cpus],
        vec!["--ranks", "1", "--threads", "2", "--cpus", cpus],
        vec!["--ranks", "2", "--policy", "0"],
    ];
    if memory {
        cases.extend([
            vec!["--ranks", "2", "--policy", "1"],
            vec!["--ranks", "2", "--policy", "2", "--rank-map", "core"],
            vec!["--ranks", "2", "--policy", "3"],
            vec!["--ranks", "2", "--policy", "4", "--rank-map", "core"],
            vec!["--ranks", "2", "--policy", "5"],
            vec!["--ranks", "2", "--numa", "preferred:0"],
        ]);
    }
    cases
}

/// Starts the program with a launcher in every case, and compares.
fn check(emit: &str, harness: &Harness, variables: &[(&str, &str)]) {
    let Some(cpus) = two_cpus(harness) else { return };
    program(harness);
    for args in cases(&cpus, policies_work(harness)) {
        let (script, outcome) = started(harness, emit, &args, variables);
        let got = lines(&outcome, |_| ());
        if got != planned(harness, &args, true) {
            outcome.fail(&format!(
                "{args:?} gave\n{got:#?}\nnot\n{:#?}\nwith\n{script}",
                planned(harness, &args, true)
            ));
        }
    }
}

/// Returns the launchers with these names that belong to one of these families.
fn mpiruns(harness: &Harness, families: &[&str], names: &[&str]) -> Vec<String> {
    let mut versions = Vec::new();
    let mut found = Vec::new();
    for name in names {
        let Ok(output) = harness.command(name).arg("--version").output() else { continue };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.lines().any(|line| line.trim() == "Topology libraries available:") {
            skip(Part::Mpi, &format!("{name} has no topology library and cannot bind"));
            continue;
        }
        let first = text.lines().take(2).collect::<Vec<_>>().join(" ");
        // A program with two names is tried once.
        let number = first.split_whitespace().last().unwrap_or_default().to_owned();
        if families.iter().any(|family| text.contains(family)) && !versions.contains(&number) {
            versions.push(number);
            found.push((*name).to_owned());
        }
    }
    if found.is_empty() {
        skip(Part::Mpi, &format!("there is no mpirun of {families:?}"));
    }
    found
}

#[test]
fn open_mpi_binds_as_planned() {
    let harness = Harness::new();
    for mpirun in mpiruns(&harness, &["OpenRTE", "Open MPI)"], &["mpirun.openmpi", "mpirun"]) {
        check("openmpi", &harness, &[("MPIRUN", &mpirun)]);
    }
}

#[test]
fn mpich_binds_as_planned() {
    let harness = Harness::new();
    for mpirun in mpiruns(&harness, &["HYDRA"], &["mpirun.mpich", "mpirun"]) {
        check("mpich", &harness, &[("MPIRUN", &mpirun)]);
    }
}

#[test]
fn a_job_script_of_pbs_binds_as_planned() {
    let harness = Harness::new();
    let Some(cpus) = two_cpus(&harness) else { return };
    let where_it_runs = program(&harness);
    let folder = harness.arg("");
    let run = |args: &[&str], mpirun: &str| {
        let variables =
            [("MPIRUN", mpirun), ("PROGRAM", &where_it_runs), ("PBS_O_WORKDIR", &folder)];
        let (_, outcome) = started(&harness, "pbs", args, &variables);
        lines(&outcome, |_| ())
    };
    let families = ["OpenRTE", "Open MPI)", "HYDRA"];
    for mpirun in mpiruns(&harness, &families, &["mpirun.openmpi", "mpirun.mpich", "mpirun"]) {
        let args = ["--ranks", "2", "--cpus", &cpus, "--policy", "0"];
        assert_eq!(run(&args, &mpirun), planned(&harness, &args, true), "{mpirun}");
    }
    let args = ["--threads", "2"];
    assert_eq!(run(&args, "mpirun"), planned(&harness, &args, true));
    // Without a program, the job fails.
    let emitted = harness.run(&["places", "--emit", "pbs"]).exits(0);
    let script = harness.write("job.pbs", &emitted.stdout);
    harness.run_other(&["sh", &script], &[]).complains("no program: qsub -v PROGRAM=");
}

#[test]
fn numactl_binds_as_planned() {
    let harness = Harness::new();
    let Some(cpus) = two_cpus(&harness) else { return };
    if !policies_work(&harness) {
        return;
    }
    program(&harness);
    for args in cases(&cpus, true) {
        let (_, outcome) = started(&harness, "numactl", &args, &[]);
        // No launcher numbers these processes.
        let mut expected: Vec<String> = planned(&harness, &args, true)
            .iter()
            .map(|line| line.split_once(' ').map_or(String::new(), |(_, rest)| format!("- {rest}")))
            .collect();
        expected.sort();
        assert_eq!(lines(&outcome, |_| ()), expected, "{args:?}");
    }
}

#[test]
fn openmp_binds_as_planned() {
    let harness = Harness::new();
    let Some(cpus) = two_cpus(&harness) else { return };
    program(&harness);
    let hide = |words: &mut Vec<String>| {
        words.pop();
        words.push("*".to_owned());
    };
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let emitted = harness.run(&[&["places", "--emit", "omp"], args].concat()).exits(0);
        let script = harness.write("omp.sh", &emitted.stdout);
        let program = harness.arg("where");
        let both = format!(". {script}; exec {program}");
        harness.run_other(&["sh", "-c", &both], variables).exits(0)
    };
    let reversed = cpus.split(',').map(|cpu| format!("{{{cpu}}}")).collect::<Vec<_>>().join(",");
    for args in [
        vec!["--threads", "2"],
        vec!["--threads", "2", "--places", &reversed],
        vec!["--threads", "2", "--bind", "primary"],
        vec!["--threads", "2", "--bind", "none"],
        vec!["--places", "sockets"],
    ] {
        let outcome = run(&args, &[]);
        assert_eq!(lines(&outcome, hide), planned(&harness, &args, false), "{args:?}");
    }
    // Ranks find their line by the environment variable of their launcher.
    let args = ["--ranks", "2", "--cpus", &cpus];
    let planned = planned(&harness, &args, false);
    for (rank, expected) in planned.iter().enumerate() {
        let outcome = run(&args, &[("PMI_RANK", &rank.to_string())]);
        assert_eq!(lines(&outcome, hide), std::slice::from_ref(expected));
    }
}

#[test]
fn scripts_say_what_they_are_of() {
    let emit = |emit: &str| {
        let args = ["places", "--ranks", "2", "--policy", "3", "--topology", T2K, "--emit", emit];
        Harness::new().run(&args).exits(0).quietly().stdout
    };
    insta::assert_snapshot!(emit("slurm"), @r#"
    #!/bin/sh
    # 2 ranks, 2 threads in all: policy 3 block
    # the job must have the node to itself (--exclusive)
    # run: sh FILE PROGRAM [ARGUMENT]...
    set -- env OMP_NUM_THREADS='1' OMP_PROC_BIND='false' "$@"
    exec srun --nodes=1 --ntasks=2 --cpus-per-task=1 --cpu-bind=mask_cpu:0xf,0xf --mem-bind=map_mem:0,0 "$@"
    "#);
    let job = emit("pbs");
    let directives: Vec<&str> = job.lines().filter(|line| line.starts_with("#PBS")).collect();
    let expected =
        ["#PBS -l select=1:ncpus=16:mpiprocs=2:ompthreads=1", "#PBS -l place=excl", "#PBS -j oe"];
    assert_eq!(directives, expected, "{job}");
    insta::assert_snapshot!(emit("mpich"), @r#"
    #!/bin/sh
    # 2 ranks, 2 threads in all: policy 3 block
    # run: sh FILE PROGRAM [ARGUMENT]...
    set -- env OMP_NUM_THREADS='1' OMP_PROC_BIND='false' numactl --membind=0 "$@"
    exec "${MPIRUN:-mpirun}" -np 2 -bind-to user:0+1+2+3,0+1+2+3 "$@"
    "#);
}

#[test]
fn one_document_goes_to_standard_output() {
    let harness = Harness::new();
    harness.run(&["places", "--emit", "omp", "--json"]).exits(2).complains("cannot be used with");
    harness.run(&["places", "--emit", "lsf"]).exits(2).complains("invalid value 'lsf'");
    harness
        .run(&["places", "--emit", "omp", "--threads", "1,2", "--topology", T2K])
        .exits(2)
        .only_error(
            "--emit requires a single placement\nhint: give one thread count, e.g. --threads 4",
        );
}

/// Four devices on four nodes of two CPUs; the first device is near the last node.
const FOUR_A100: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/tests/topologies/four-a100.xml");

#[test]
fn ranks_are_put_near_their_devices() {
    let places = ["places", "--topology", FOUR_A100, "--devices"];
    let table = Harness::new().run(&places).exits(0).quietly();
    table.tells("rank socket memory core device").tells("0 0 3 6 0 0000:03:00.0");
    let emit = |emit: &str, more: &[&str]| {
        let args = [&places[..], &["--emit", emit], more].concat();
        Harness::new().run(&args).exits(0).stdout
    };
    let srun = |more: &[&str]| {
        let script = emit("slurm", more);
        script.lines().last().unwrap().trim_start_matches("exec srun --nodes=1 ").to_owned()
    };
    assert_eq!(
        srun(&[]),
        "--ntasks=4 --cpus-per-task=1 --cpu-bind=map_cpu:6,4,2,0 --gpus-per-task=1 --gpu-bind=map_gpu:0,1,2,3 \"$@\""
    );
    // With a subset of the devices, the numbers are those of the node.
    assert_eq!(
        srun(&["--ranks", "2"]),
        "--ntasks=2 --cpus-per-task=1 --cpu-bind=map_cpu:6,2 --gpus-per-node=4 --gpu-bind=map_gpu:0,2 \"$@\""
    );
    assert!(emit("mpich", &[]).contains(
        "2) exec env OMP_NUM_THREADS=\"1\" OMP_PROC_BIND=\"false\" CUDA_DEVICE_ORDER=\"PCI_BUS_ID\" CUDA_VISIBLE_DEVICES=\"2\" \"$@\" ;;"
    ));
    let two = ["places", "--topology", FOUR_A100, "--devices", "2", "--emit", "slurm"];
    let script = Harness::new().run(&two).exits(0).stdout;
    assert!(script.contains("--gpus-per-task=2 --gpu-bind=mask_gpu:0x3,0xc"), "{script}");
}

#[test]
fn the_wrapper_finds_device_and_cpus_by_the_rank_on_its_node() {
    let harness = Harness::new();
    let Some(cpus) = two_cpus(&harness) else { return };
    if !policies_work(&harness) {
        return;
    }
    let args = ["places", "--topology", FOUR_A100, "--devices", "--ranks", "2", "--cpus", &cpus];
    // The devices are those of a described machine, the CPUs those of this one.
    let emitted = harness.run(&[&args[..], &["--emit", "wrapper"]].concat()).exits(0);
    let script = harness.write("wrapper.sh", &emitted.stdout);
    let program = "echo $CUDA_VISIBLE_DEVICES; grep Cpus_allowed_list /proc/self/status";
    let words = ["sh", &script, "sh", "-c", program];
    for variable in ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"] {
        let reported = [0, 1].map(|rank| {
            let outcome = harness.run_other(&words, &[(variable, &rank.to_string())]).exits(0);
            let printed = outcome.stdout.split_whitespace();
            printed.map(str::to_owned).collect::<Vec<_>>()
        });
        let cpus: Vec<&str> = cpus.split(',').collect();
        assert_eq!(reported.clone().map(|line| line[2].clone()).to_vec(), cpus, "{variable}");
        assert_ne!(reported[0][0], reported[1][0], "{variable}");
    }
}

#[test]
fn devices_that_are_not_there_are_refused() {
    let refused = |args: &[&str], code, text: &str| {
        Harness::new().run(&[&["places", "--devices"], args].concat()).exits(code).complains(text);
    };
    refused(&["--topology", T2K], 2, "cannot place ranks near devices");
    refused(&["9", "--topology", FOUR_A100], 2, "--devices 4 or fewer");
    refused(&["--topology", FOUR_A100, "--mpi-pairs"], 2, "cannot be used with");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn slurm_binds_as_planned() {
        let harness = Harness::new();
        let Some(slurm) = Slurm::start(&harness) else { return };
        check("slurm", &harness, &[("SLURM_CONF", &slurm.conf)]);
    }
}
