//! Tests of `places --emit`: a real launcher starts a real program with the emitted text, and the program prints the
//! CPUs of its threads and its memory policy.

use crate::harness::{Harness, Outcome, Part, T2K, make_program, skip};
use crate::thorough::slurm::Slurm;
use serde_json::Value;

/// Program that prints `rank thread cpus policy` for each of its OpenMP threads.
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

/// Returns the lines that the program should print according to the plan: rank, thread, CPUs, and the memory policy if
/// `memory` is true.
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

/// Runs the emitted script with the program; returns the script and the result.
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
    // On a busy machine, SIGPIPE may end the launcher of MPICH before it has started a rank. It is then started again.
    for _ in 0..2 {
        if outcome.code.is_none() && outcome.stdout.is_empty() {
            outcome = harness.run_other(&words, variables);
        }
    }
    (emitted.stdout, outcome.exits(0))
}

/// Returns the sorted lines that the program printed. `with` modifies the words of each line before.
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

/// Returns the first two CPUs in reverse order; `None` if there is only one CPU.
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

/// True if memory policies can be set here. Containers may forbid it.
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

/// True if `numactl --localalloc` sets the policy `local`. Before libnuma 2.0.13, it sets the default policy, which has
/// the same effect.
fn has_local_policy(harness: &Harness) -> bool {
    let shown = harness.command("numactl").args(["--localalloc", "numactl", "--show"]).output();
    !shown.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("policy: default"))
}

/// Returns the arguments of placements for which launchers need different options.
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

/// Starts the program with a launcher for every placement, and compares its output with the plan.
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

/// Returns the launchers with these names that belong to one of these MPI families.
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
        // Two names may denote the same program, which is tried only once.
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
fn pbs_job_script_binds_as_planned() {
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
    // The emitted job needs a program and fails without it.
    let emitted = harness.run(&["places", "--emit", "pbs"]).exits(0);
    let script = harness.write("job.pbs", &emitted.stdout);
    harness.run_other(&["sh", &script], &[]).warns("no program: qsub -v PROGRAM=");
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
        // The processes are started one by one, so no launcher gives them numbers.
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
    // Each rank finds its line of the script by an environment variable of the launcher.
    let args = ["--ranks", "2", "--cpus", &cpus];
    let planned = planned(&harness, &args, false);
    for (rank, expected) in planned.iter().enumerate() {
        let outcome = run(&args, &[("PMI_RANK", &rank.to_string())]);
        assert_eq!(lines(&outcome, hide), std::slice::from_ref(expected));
    }
}

#[test]
fn scripts_contain_the_launch_command_and_comments_on_the_placement() {
    let emit = |emit: &str| {
        let args = ["places", "--ranks", "2", "--policy", "3", "--topology", T2K, "--emit", emit];
        Harness::new().run(&args).exits(0).warns_nothing().stdout
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
fn emit_option_refuses_json_and_unknown_launchers_and_several_placements() {
    let harness = Harness::new();
    harness.run(&["places", "--emit", "omp", "--json"]).exits(2).warns("cannot be used with");
    harness.run(&["places", "--emit", "lsf"]).exits(2).warns("unknown value 'lsf'");
    harness
        .run(&["places", "--emit", "omp", "--threads", "1,2", "--topology", T2K])
        .exits(2)
        .only_error(
            "--emit requires a single placement\nhint: give one thread count, e.g. --threads 4",
        );
}

/// Machine with four devices and four NUMA nodes with two CPUs each. The first device is near the last NUMA node.
const FOUR_A100: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/tests/topologies/four-a100.xml");

#[test]
fn ranks_are_placed_near_their_devices() {
    let places = ["places", "--topology", FOUR_A100, "--devices"];
    let table = Harness::new().run(&places).exits(0).warns_nothing();
    table.prints_words("rank socket memory core device").prints_words("0 0 3 6 0 0000:03:00.0");
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
    // A subset of the devices keeps the device numbers of the node.
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
fn wrapper_finds_device_and_cpus_by_local_rank() {
    let harness = Harness::new();
    let Some(cpus) = two_cpus(&harness) else { return };
    if !policies_work(&harness) {
        return;
    }
    let args = ["places", "--topology", FOUR_A100, "--devices", "--ranks", "2", "--cpus", &cpus];
    // The devices are those of the described machine, and the CPUs are those of this machine.
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

/// Returns the commands of the installed shells in which the scripts are run.
fn shells(harness: &Harness) -> Vec<Vec<&'static str>> {
    let all: [&[&str]; 4] = [&["sh"], &["dash"], &["bash"], &["busybox", "sh"]];
    let is_there = |words: &[&str]| harness.command(words[0]).arg("-c").arg(":").output().is_ok();
    all.into_iter().filter(|words| is_there(words)).map(<[&str]>::to_vec).collect()
}

/// Script of `places --emit` for the node in the lecture, and a search path with a numactl that prints its arguments.
struct EmittedScript {
    harness: Harness,
    path: String,
    script: String,
}

impl EmittedScript {
    fn new(args: &[&str]) -> Self {
        let harness = Harness::new();
        let numactl = harness.write("bin/numactl", "#!/bin/sh\necho numactl \"$@\"\n");
        make_program(&numactl);
        let path = format!("{}:{}", harness.arg("bin"), std::env::var("PATH").unwrap());
        let all = [&["places", "--topology", T2K, "--emit"], args].concat();
        let emitted = harness.run(&all).exits(0).warns_nothing();
        let script = harness.write("wrapper.sh", &emitted.stdout);
        Self { harness, path, script }
    }

    /// Runs the script in a shell with these variables.
    fn run_in(&self, shell: &[&str], variables: &[(&str, &str)]) -> Outcome {
        let words = [shell, &[&self.script, "./a.out", "b  c"]].concat();
        let with_path = [&[("PATH", self.path.as_str())], variables].concat();
        self.harness.run_other(&words, &with_path)
    }

    /// Checks in every shell that the command of a rank starts on the socket `socket`.
    fn starts_on(&self, socket: usize, variables: &[(&str, &str)]) {
        for shell in shells(&self.harness) {
            let outcome = self.run_in(&shell, variables).exits(0);
            let cpus = format!("{}-{}", 4 * socket, 4 * socket + 3);
            let expected = format!("numactl --physcpubind={cpus} --localalloc ./a.out b  c\n");
            if outcome.stdout != expected {
                outcome.fail(&format!("{shell:?} {variables:?}: not {expected}"));
            }
        }
    }

    /// Checks that the script fails with one line in every shell.
    fn fails(&self, variables: &[(&str, &str)], why: &str) {
        for shell in shells(&self.harness) {
            let outcome = self.run_in(&shell, variables).exits(1).prints_nothing();
            let outcome = outcome.warns(&format!("wrapper.sh: {why}"));
            if outcome.stderr.lines().count() != 1 {
                outcome.fail(&format!("{shell:?} {variables:?}: more than one line"));
            }
        }
    }
}

#[test]
fn wrapper_reads_the_rank_variable_of_every_launcher() {
    let script = EmittedScript::new(&["wrapper", "--ranks", "16", "--policy", "4"]);
    for name in [
        "MXMPI_ID",
        "PMI_RANK",
        "PMIX_RANK",
        "OMPI_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_RANK",
        "PALS_RANKID",
        "SLURM_PROCID",
        "FLUX_TASK_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MPI_LOCALRANKID",
        "PALS_LOCAL_RANKID",
        "PMI_LOCAL_RANK",
        "PLE_RANK_ON_NODE",
        "FLUX_TASK_LOCAL_ID",
        "SLURM_LOCALID",
    ] {
        script.starts_on(3, &[(name, "13")]);
        script.starts_on(0, &[(name, "0")]);
    }
    // The local rank takes precedence over the rank within the job.
    script.starts_on(1, &[("PMI_RANK", "13"), ("PMI_SIZE", "16"), ("MPI_LOCALRANKID", "5")]);
    let several_nodes = [("OMPI_COMM_WORLD_RANK", "29"), ("OMPI_COMM_WORLD_SIZE", "32")];
    let local = [("OMPI_COMM_WORLD_LOCAL_RANK", "13")];
    script.starts_on(3, &[&several_nodes[..], &local].concat());
    // srun also sets variables of PMI.
    let srun = [("PMI_RANK", "5"), ("SLURM_PROCID", "5"), ("SLURM_LOCALID", "1")];
    script.starts_on(
        0,
        &[&srun[..], &[("SLURM_JOB_ID", "7"), ("SLURM_STEP_NUM_TASKS", "16")]].concat(),
    );
    // A launcher runs within a task of another launcher; only the variables of the inner launcher count.
    script.starts_on(1, &[("MXMPI_ID", "5"), ("SLURM_PROCID", "0"), ("SLURM_LOCALID", "0")]);
    script
        .starts_on(1, &[("PMIX_RANK", "5"), ("FLUX_TASK_RANK", "0"), ("FLUX_TASK_LOCAL_ID", "0")]);
}

#[test]
fn wrapper_places_ranks_of_several_nodes_and_refuses_more_than_planned() {
    let args = ["wrapper", "--nodes", "24", "--ranks", "384", "--policy", "4"];
    let script = EmittedScript::new(&args);
    script.starts_on(0, &[("MXMPI_ID", "16"), ("MXMPI_NP", "384")]);
    script.starts_on(3, &[("MXMPI_ID", "383"), ("MXMPI_NP", "384")]);
    script.starts_on(2, &[("PMI_RANK", "25")]);
    script
        .fails(&[("MXMPI_ID", "384")], "more ranks than planned (384 on 24 nodes): MXMPI_ID=384\n");
    // The plan contains the local rank, but the job has too many nodes.
    let local = ("OMPI_COMM_WORLD_LOCAL_RANK", "1");
    let in_job = [("OMPI_COMM_WORLD_RANK", "17"), ("OMPI_COMM_WORLD_SIZE", "400")];
    script.fails(
        &[&in_job[..], &[local]].concat(),
        "more ranks than planned (384 on 24 nodes): OMPI_COMM_WORLD_RANK=17 of 400\n",
    );
}

#[test]
fn wrapper_without_a_planned_rank_fails_with_one_line() {
    let script = EmittedScript::new(&["wrapper", "--ranks", "16", "--policy", "4"]);
    let unknown = "no rank: no variable of a known launcher is set; set RANK_VARIABLE to the name of the variable of this launcher\n";
    script.fails(&[], unknown);
    script.fails(&[("MYRANK", "13"), ("PMI_RANK", "")], unknown);
    // The batch script of a job is no rank. The variables of its task are ignored.
    let batch = [("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "0"), ("SLURM_LOCALID", "0")];
    script.fails(&batch, unknown);
    script.fails(
        &[("OMPI_COMM_WORLD_LOCAL_RANK", "16")],
        "more ranks than planned (16 per node): OMPI_COMM_WORLD_LOCAL_RANK=16\n",
    );
    let one_node = "more ranks than planned (16 on one node, see places --nodes): ";
    let sizes = [("PMI_RANK", "3"), ("PMI_SIZE", "32")];
    script.fails(&sizes, &format!("{one_node}PMI_RANK=3 of 32\n"));
    script.fails(&[("MXMPI_ID", "16")], &format!("{one_node}MXMPI_ID=16\n"));
    for wrong in ["x", "-1", "1.5", "0x1", "99999999999999999999", "1\n2"] {
        script.fails(&[("PMI_RANK", wrong)], "PMI_RANK is not the number of a rank\n");
    }
    // A number with leading zeros is not octal.
    script.starts_on(2, &[("PMI_RANK", "008")]);
}

#[test]
fn rank_variable_is_read_but_never_executed() {
    let script = EmittedScript::new(&["wrapper", "--ranks", "16", "--policy", "4"]);
    script.starts_on(3, &[("RANK_VARIABLE", "MY_RANK"), ("MY_RANK", "13"), ("PMI_RANK", "0")]);
    script.fails(&[("RANK_VARIABLE", "MY_RANK")], "no rank: MY_RANK is not set (RANK_VARIABLE)\n");
    let beyond = "more ranks than planned (16 on one node, see places --nodes): MY_RANK=16\n";
    script.fails(&[("RANK_VARIABLE", "MY_RANK"), ("MY_RANK", "16")], beyond);
    for name in [
        "A;touch pwned",
        "A}$(touch pwned)",
        "$(touch pwned)",
        "A/B",
        "1A",
        "A B",
        "A-1",
        "A[$(touch pwned)]",
        "\u{e9}",
        "A\ntouch pwned",
    ] {
        let variables = [("RANK_VARIABLE", name), ("A", "1")];
        script.fails(&variables, "RANK_VARIABLE is not the name of a variable\n");
    }
    for value in ["$(touch pwned)", "a[$(touch pwned)]", "1;touch pwned", "`touch pwned`"] {
        script.fails(&[("RANK_VARIABLE", "A"), ("A", value)], "A is not the number of a rank\n");
        script.fails(&[("PMI_RANK", value)], "PMI_RANK is not the number of a rank\n");
    }
    assert!(!script.harness.path("pwned").exists());
}

/// Launcher that starts as many ranks as the variable RANKS requests, one after another, and numbers them like MPICH on
/// Myrinet. It writes the arguments that precede the program to the file `launched`.
const LAUNCHER: &str = r#"#!/bin/sh
[ "$1" != --version ] || { echo "$VERSION"; exit; }
echo "$1 $2 $3 $4 $5 $6" >launched
while :; do
    case $1 in
    -np | -n | -ppn | --map-by | --bind-to | -bind-to) shift 2 ;;
    --allow-run-as-root) shift ;;
    *) break ;;
    esac
done
rank=0
while [ $rank -lt "$RANKS" ]; do MXMPI_ID=$rank "$@" || exit; rank=$((rank + 1)); done
"#;

#[test]
fn scripts_for_several_nodes_place_every_rank() {
    let options = ["--nodes", "2", "--ranks", "8", "--policy", "4", "--rank-map", "cyclic"];
    for (emit, version, launched) in [
        ("openmpi", "", "-np 8 --map-by ppr:4:node --bind-to none"),
        ("mpich", "", "-np 8 -ppn 4 -bind-to none"),
        ("pbs", "HYDRA build details:", "-np 8 -ppn 4 -bind-to none"),
        ("pbs", "mpirun (Open MPI) 4.1.4", "-np 8 --map-by ppr:4:node --bind-to none"),
        ("nqs", "", "sh -c"),
        ("pjm", "", "-n 8 sh -c"),
    ] {
        let script = EmittedScript::new(&[&[emit], &options[..]].concat());
        let launcher = script.harness.write("launcher", LAUNCHER);
        make_program(&launcher);
        let text = std::fs::read_to_string(&script.script).unwrap();
        script.harness.write("wrapper.sh", text.replace("./PROGRAM", "./a.out 'b  c'"));
        let variables = [
            ("MPIRUN", launcher.as_str()),
            ("VERSION", version),
            ("RANKS", "8"),
            ("PROGRAM", "./a.out b c"),
        ];
        for shell in shells(&script.harness) {
            let outcome = script.run_in(&shell, &variables).exits(0);
            let cpus: Vec<&str> =
                outcome.stdout.lines().filter_map(|line| line.split(' ').nth(1)).collect();
            let expected: Vec<String> = (0..8)
                .map(|rank| format!("--physcpubind={}-{}", rank % 4 * 4, rank % 4 * 4 + 3))
                .collect();
            if cpus != expected {
                outcome.fail(&format!("{emit}: not {expected:?}"));
            }
            let passed = std::fs::read_to_string(script.harness.path("launched")).unwrap();
            let passed = passed.replace("--allow-run-as-root ", "");
            assert!(passed.starts_with(launched), "{emit}: {passed}");
            // The launcher starts more ranks than planned.
            let more = [&variables[..], &[("RANKS", "9")]].concat();
            let refused = script.run_in(&shell, &more).exits(1);
            refused.warns("more ranks than planned (8 on 2 nodes): MXMPI_ID=8\n");
        }
    }
}

#[test]
fn job_script_headers_request_the_planned_nodes_and_ranks() {
    let emit = |emit: &str, more: &[&str]| {
        let args = ["places", "--topology", T2K, "--policy", "3", "--emit", emit];
        Harness::new().run(&[&args[..], more].concat()).exits(0).warns_nothing().stdout
    };
    let lines = |text: &str, start: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
    };
    let several = ["--nodes", "24", "--ranks", "384"];
    assert_eq!(
        lines(&emit("pbs", &several), "#PBS"),
        [
            "#PBS -l select=24:ncpus=16:mpiprocs=16:ompthreads=1",
            "#PBS -l place=scatter:excl",
            "#PBS -j oe"
        ]
    );
    let nqs = emit("nqs", &several);
    assert_eq!(
        lines(&nqs, "#@$"),
        [
            "#@$-r NAME",
            "#@$-q QUEUE",
            "#@$-N 24",
            "#@$-J T16",
            "#@$-e NAME.err",
            "#@$-o NAME.out",
            "#@$-lM MEMORY",
            "#@$-lE HH:MM:SS",
            "#@$-s /bin/sh",
            "#@$"
        ]
    );
    assert!(
        nqs.contains(
            "\n# replace NAME, QUEUE, MEMORY (per node, e.g. 28GB), HH:MM:SS and ./PROGRAM"
        )
    );
    assert_eq!(lines(&emit("nqs", &["--ranks", "8"]), "#@$-")[2..4], ["#@$-N 1", "#@$-J T8"]);
    assert_eq!(
        lines(&emit("pjm", &several), "#PJM"),
        [
            "#PJM -N NAME",
            "#PJM -L \"rscgrp=GROUP\"",
            "#PJM -L \"node=24\"",
            "#PJM --mpi \"proc=384\"",
            "#PJM --mpi \"max-proc-per-node=16\"",
            "#PJM -L \"elapse=HH:MM:SS\"",
            "#PJM -e NAME.err",
            "#PJM -o NAME.out"
        ]
    );
    let slurm = emit("slurm", &several);
    assert!(slurm.contains("--nodes=24 --ntasks=384 --ntasks-per-node=16 "), "{slurm}");
}

#[test]
fn ranks_are_divided_among_nodes() {
    let run = |args: &[&str]| {
        Harness::new().run(&[&["places", "--topology", T2K, "--nodes"], args].concat())
    };
    run(&["24", "--ranks", "384"])
        .exits(0)
        .prints("384 ranks on 24 nodes; the table applies to each node\n")
        .prints_words("15 3 3 15");
    assert_eq!(run(&["24", "--ranks", "384", "--json"]).exits(0).json()["nodes"], 24);
    run(&["25", "--ranks", "384"]).exits(2).only_error(
        "384 ranks cannot be divided evenly among 25 nodes\nhint: use a multiple of 25, e.g. --ranks 400",
    );
    run(&["24"]).exits(2).warns("error: --nodes requires --ranks\n");
    run(&["2", "--ranks", "34"]).warns("cannot place 17 ranks of 1 thread");
    run(&["2", "--ranks", "4", "--emit", "numactl"])
        .exits(2)
        .warns("error: --emit numactl starts the ranks of one node\n");
}

#[test]
fn missing_devices_are_refused() {
    let refused = |args: &[&str], code, text: &str| {
        Harness::new().run(&[&["places", "--devices"], args].concat()).exits(code).warns(text);
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
