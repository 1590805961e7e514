//! Measurements of several hosts: started by mpirun with an agent that gives each host a name of its own, and in a Slurm
//! job of four nodes.

use crate::harness::{ELEMENTS, Harness, Outcome, Part, make_program, measurements, skip, texts};
use crate::mpi::{MPICH, installed, no_orphans};
use crate::thorough::slurm::Slurm;
use serde_json::Value;

/// Variables that allow Open MPI to run as root in containers.
const ROOT: [(&str, &str); 2] =
    [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
/// A short run of `stream` whose record goes to standard output.
const STREAM: [&str; 12] = [
    "stream",
    "--json",
    "-",
    "--samples",
    "2",
    "--size",
    "1000000",
    "--budget",
    "0.5",
    "--dimms",
    "1024x20000",
    "--no-save",
];

/// Writes a replacement of ssh: every host is this one, in a UTS namespace with the name of the host. The user's script
/// `before` runs first; its `$1` is the host. Returns `None` if this user cannot create namespaces.
fn agent(harness: &Harness, before: &str) -> Option<String> {
    let can = harness.command("unshare").args(["-u", "hostname", "box"]).status();
    if !can.is_ok_and(|status| status.success()) {
        skip(Part::Mpi, "unshare cannot create a UTS namespace here");
        return None;
    }
    let folder = harness.path("").display().to_string();
    let agent = harness.write(
        "agent",
        format!(
            "#!/bin/sh\nTMPDIR=$(mktemp -d {folder}/XXXXXX) && export TMPDIR PMIX_MCA_gds=hash\n\
             while :; do case $1 in -*) shift ;; *) break ;; esac; done\n{before}\n\
             host=$1; shift\n\
             exec unshare -u sh -c 'hostname \"$1\" && shift && exec sh -c \"$*\"' sh \"$host\" \"$@\"\n"
        ),
    );
    make_program(&agent);
    Some(agent)
}

/// Returns the words of a launcher for `ranks` ranks on each of these hosts.
fn launcher(name: &str, agent: &str, hosts: &[&str], ranks: usize) -> Vec<String> {
    let count = (hosts.len() * ranks).to_string();
    let of = |host: &&str| format!("{host}:{ranks}");
    let list = hosts.iter().map(of).collect::<Vec<_>>().join(",");
    let words = match name {
        "Open MPI" => vec![
            "mpirun.openmpi",
            "--mca",
            "plm_rsh_agent",
            agent,
            "--bind-to",
            "none",
            "--host",
            &list,
            "-np",
            &count,
        ],
        _ => vec![
            "mpirun.mpich",
            "-launcher",
            "ssh",
            "-launcher-exec",
            agent,
            "-hosts",
            &list,
            "-np",
            &count,
        ],
    };
    words.into_iter().map(str::to_owned).collect()
}

/// Runs nodegauge under a launcher.
fn run(
    harness: &Harness,
    launcher: &[String],
    variables: &[(&str, &str)],
    args: &[&str],
) -> Outcome {
    let launcher: Vec<&str> = launcher.iter().map(String::as_str).collect();
    let program = env!("CARGO_BIN_EXE_nodegauge");
    let words = [&["timeout", "150"], &launcher[..], &[program], args].concat();
    harness.run_other(&words, &[&ROOT[..], variables].concat())
}

/// Returns the figures of this name.
fn named<'a>(record: &'a Value, name: &str) -> Vec<&'a Value> {
    measurements(record).iter().filter(|m| m["name"] == name).collect()
}

/// Returns the hosts of the figures of this name.
fn hosts<'a>(record: &'a Value, name: &str) -> Vec<&'a str> {
    named(record, name).into_iter().filter_map(|m| m["config"]["host"].as_str()).collect()
}

/// Checks the record of `stream` on these hosts.
#[track_caller]
fn is_of_hosts(record: &Value, names: &[&str]) {
    for kernel in ["copy", "scale", "add", "triad"] {
        assert_eq!(hosts(record, kernel), names, "{kernel}");
    }
    let value = |m: &&Value| m["value"].as_f64().unwrap();
    let triads = named(record, "triad");
    let sum: f64 = triads.iter().map(value).sum();
    let recorded = named(record, "triad_sum")[0];
    assert!((value(&recorded) / sum - 1.0).abs() < 1e-9);
    assert_eq!(texts(&recorded["config"]["hosts"]), names);
    assert!(triads.iter().all(|m| m["config"]["array_elements"] == ELEMENTS));
}

#[test]
fn mpirun_measures_each_host_with_its_own_ranks() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let Some(agent) = agent(&harness, "") else { return };
    for which in installed(&harness) {
        let words = launcher(which.name, &agent, &["n1", "n2"], 2);
        let record = run(&harness, &words, &[], &STREAM).exits(0).json();
        is_of_hosts(&record, &["n1", "n2"]);
        assert!(measurements(&record).iter().take(4).all(|m| m["config"]["processes"] == 2));
        no_orphans(&harness);
    }
}

#[test]
fn a_host_that_is_silent_or_has_no_memory_is_named_and_the_others_are_measured() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    // The second host cannot map the arrays.
    let Some(agent) = agent(&harness, "[ $1 = n2 ] && ulimit -v 700000") else { return };
    let Some(which) = installed(&harness).into_iter().find(|which| which.name == "Open MPI") else {
        return;
    };
    let words = launcher(which.name, &agent, &["n1", "n2", "n3"], 1);
    let big = ["--size", "64MiB", "--samples", "1", "--threads", "1", "--exclude-file", "slow.txt"];
    let args = [&["stream", "--json", "-", "--no-save"], &big[..]].concat();
    let record = run(&harness, &words, &[], &args).exits(1).json();
    assert_eq!(hosts(&record, "triad"), ["n1", "n2", "n3"]);
    let of_second = measurements(&record).iter().find(|m| m["config"]["host"] == "n2").unwrap();
    assert_eq!(of_second["validity"]["status"], "invalid");
    assert!(texts(&record["notices"]).iter().any(|said| said.starts_with("n2: ")));
    let slow = std::fs::read_to_string(harness.path("slow.txt")).unwrap();
    assert!(slow.lines().any(|line| line == "n2"), "{slow}");
}

#[test]
fn a_launcher_and_a_library_that_do_not_belong_together_are_refused_once() {
    let harness = Harness::new();
    if installed(&harness).is_empty() {
        return;
    }
    let one = |rank: &str| {
        let variables = [
            ("OMPI_COMM_WORLD_RANK", rank),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        harness.run_with(&variables, &["stream", "--no-save"]).exits(3).prints_nothing()
    };
    one("0").complains("Open MPI has started 4 ranks, but Open MPI v");
    one("1").quietly();
    harness
        .run(&["stream", "--no-save", "--exclude-file", "slow.txt"])
        .exits(2)
        .complains("--exclude-file requires several hosts");
}

#[test]
fn slurm_measures_four_nodes_over_mpi_and_without_it() {
    let harness = Harness::new();
    let names = ["node1", "node2", "node3", "node4"];
    let Some(slurm) = Slurm::of(&harness, &names) else { return };
    let variables = [("SLURM_CONF", slurm.conf.as_str())];
    let mut kinds = vec!["--mpi=none"];
    if installed(&harness).iter().any(|which| which.mpicc == MPICH.mpicc) {
        kinds.push("--mpi=pmi2");
    }
    for kind in kinds {
        let srun = ["srun", "-N4", "--ntasks-per-node=1", kind].map(str::to_owned);
        let record = run(&harness, &srun, &variables, &STREAM).exits(0).json();
        is_of_hosts(&record, &names);
        // The page has one row per host, the best first.
        let args = ["hpl", "-N", "300", "--samples", "1", "--no-save"];
        let page = run(&harness, &srun, &variables, &args).exits(0);
        page.tells("host").tells("slowest").tells("of 4 hosts");
    }
    drop(slurm);
    no_orphans(&harness);
}
