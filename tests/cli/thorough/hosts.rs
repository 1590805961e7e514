//! Tests of measurements on several hosts: started by mpirun with a replacement of ssh that gives each host its own
//! name, and in a Slurm job of four nodes.

use crate::harness::{
    ELEMENTS, Harness, HarnessProcess, OPEN_MPI_AS_ROOT, Outcome, Part, make_program, measurements,
    signal, skip, texts, wait_for,
};
use crate::mpi::{installed, no_orphans};
use crate::thorough::slurm::Slurm;
use serde_json::Value;
use std::collections::BTreeSet;

/// Options for a short run of `stream` whose record goes to standard output.
const STREAM: [&str; 12] = [
    "stream",
    "--json",
    "-",
    "--samples",
    "2",
    "--size",
    "1000000elements",
    "--budget",
    "0.5",
    "--dimms",
    "1024x20000",
    "--no-save",
];

/// Properties of the hosts in a test. Each host is this machine in separate namespaces.
#[derive(Default)]
struct Stage<'a> {
    /// Shell script that runs before the namespaces are created. `$1` is the host.
    before: &'a str,
    /// Shell script that runs in the namespaces. `$host` is the host.
    inside: &'a str,
    /// True if the host uses the network namespace that [`network`] created for it.
    has_network: bool,
}

/// Writes a replacement of ssh. Every host is this machine, in UTS and mount namespaces with the name of the host.
/// Returns `None` if this user cannot create namespaces.
fn agent(harness: &Harness, stage: &Stage<'_>) -> Option<String> {
    let can = harness.command("unshare").args(["-um", "hostname", "box"]).status();
    if !can.is_ok_and(|status| status.success()) {
        skip(Part::Namespaces, "unshare cannot create UTS and mount namespaces here");
        return None;
    }
    let folder = harness.path("").display().to_string();
    let Stage { before, inside, has_network } = stage;
    let host = harness.write(
        "host",
        format!("#!/bin/sh\nhost=$1; shift\nhostname $host\n{inside}\nexec sh -c \"$*\"\n"),
    );
    make_program(&host);
    let enter = if *has_network { "nsenter --net=/run/netns/$1" } else { "" };
    let agent = harness.write(
        "agent",
        format!(
            "#!/bin/sh\nTMPDIR=$(mktemp -d {folder}/XXXXXX) && export TMPDIR PMIX_MCA_gds=hash\n\
             while :; do case $1 in -*) shift ;; *) break ;; esac; done\n{before}\n\
             exec {enter} unshare -um {host} \"$@\"\n"
        ),
    );
    make_program(&agent);
    Some(agent)
}

/// Returns the words that run a command in a network of two hosts, `n1` and `n2`. Each host has a network namespace,
/// which is connected to the bridge `br0` in the namespace of the command. The file `sent` contains the number of bytes
/// that `n1` has sent. Returns `None` if this user cannot create networks.
fn network(harness: &Harness) -> Option<Vec<String>> {
    if !harness.has(Part::Namespaces, "ip") || !harness.has(Part::Namespaces, "nsenter") {
        return None;
    }
    let script = format!(
        "mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up &&
         ip link add br0 type bridge && ip addr add 10.77.0.254/24 dev br0 &&
         ip link set br0 up || exit 77
         for n in 1 2; do
             ip netns add n$n && ip link add v$n type veth peer name eth0 netns n$n &&
             ip link set v$n master br0 up && ip -n n$n addr add 10.77.0.$n/24 dev eth0 &&
             ip -n n$n link set lo up && ip -n n$n link set eth0 up || exit 77
         done
         \"$@\"; code=$?
         ip -s -j link show v1 > {}
         exit $code",
        harness.arg("sent"),
    );
    let words = ["unshare", "-nm", "sh", "-c", &script, "network"].map(str::to_owned).to_vec();
    let tried: Vec<&str> = words.iter().map(String::as_str).chain(["true"]).collect();
    if harness.run_other(&tried, &[]).code != Some(0) {
        skip(Part::Namespaces, "no network namespaces with a bridge here");
        return None;
    }
    Some(words)
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
    let program = crate::program::path();
    let words = [&["timeout", "150"], &launcher[..], &[program], args].concat();
    let variables = [&OPEN_MPI_AS_ROOT[..], variables].concat();
    let outcome = harness.run_other(&words, &variables);
    // If nodes connect to each other simultaneously, Open MPI may fail (its issue 11508). It prints a message, and the
    // job hangs.
    if outcome.stderr.contains("Open MPI failed to TCP connect to a peer") {
        return harness.run_other(&words, &variables);
    }
    outcome
}

/// Waits for the process that rank 0 starts on this node, and returns it.
fn leader(harness: &Harness, node: &str) -> u32 {
    let is_leader = |process: &HarnessProcess| {
        process.variable("SLURMD_NODENAME") == Some(node)
            && process.variable("NODEGAUGE_OF_RANK_0") == Some("1")
    };
    wait_for("the leader of the node", || {
        harness.processes().into_iter().find(is_leader).map(|process| process.number)
    })
}

/// Returns the figures with this name.
fn named<'a>(record: &'a Value, name: &str) -> Vec<&'a Value> {
    measurements(record).iter().filter(|m| m["name"] == name).collect()
}

/// Returns the hosts of the figures with this name.
fn hosts<'a>(record: &'a Value, name: &str) -> Vec<&'a str> {
    named(record, name).into_iter().filter_map(|m| m["config"]["host"].as_str()).collect()
}

/// Checks the record of `stream` on these hosts.
#[track_caller]
fn check_host_record(record: &Value, names: &[&str]) {
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
    let Some(agent) = agent(&harness, &Stage::default()) else { return };
    for which in installed(&harness) {
        let words = launcher(which.name, &agent, &["n1", "n2"], 2);
        let record = run(&harness, &words, &[], &STREAM).exits(0).json();
        check_host_record(&record, &["n1", "n2"]);
        assert!(measurements(&record).iter().take(4).all(|m| m["config"]["processes"] == 2));
        no_orphans(&harness);
    }
}

#[test]
fn failing_host_is_reported_and_others_are_measured() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    // The second host has fewer hardware threads than this number.
    let before = "[ $1 = n2 ] && export OMP_NUM_THREADS=999999";
    let Some(agent) = agent(&harness, &Stage { before, ..Stage::default() }) else { return };
    let Some(which) = installed(&harness).into_iter().find(|which| which.name == "Open MPI") else {
        return;
    };
    let words = launcher(which.name, &agent, &["n1", "n2", "n3"], 1);
    let args = [&STREAM[..], &["--exclude-file", "slow.txt"]].concat();
    let record = run(&harness, &words, &[], &args).exits(1).json();
    assert_eq!(hosts(&record, "triad"), ["n1", "n2", "n3"]);
    let triads = named(&record, "triad");
    let status = |m: &&Value| m["validity"]["status"].as_str().unwrap().to_owned();
    assert_eq!(triads.iter().filter(|m| status(m) == "invalid").count(), 1);
    assert!(texts(&triads[1]["validity"]["reasons"])[0].contains("999999"), "{:#}", triads[1]);
    assert!(texts(&record["notices"]).iter().any(|reported| reported.starts_with("n2: ")));
    assert_eq!(texts(&named(&record, "triad_sum")[0]["config"]["hosts"]), ["n1", "n3"]);
    let slow = std::fs::read_to_string(harness.path("slow.txt")).unwrap();
    assert!(slow.lines().any(|line| line == "n2"), "{slow}");
    no_orphans(&harness);
}

#[test]
fn solver_has_the_same_result_on_two_hosts_as_on_one() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let Some(agent) = agent(&harness, &Stage::default()) else { return };
    let solver =
        ["apps", "iccg", "--elements", "6,5,7", "--samples", "2", "--no-save", "--json", "-"];
    let alone = harness.run(&[&solver[..], &["--ranks", "2"]].concat()).exits(0).json();
    let alone = named(&alone, "time_to_solution")[0]["config"].clone();
    for which in installed(&harness) {
        let words = launcher(which.name, &agent, &["n1", "n2"], 1);
        let record = run(&harness, &words, &[], &solver).exits(0).json();
        let config = &named(&record, "time_to_solution")[0]["config"];
        assert_eq!(texts(&config["hosts"]), ["n1", "n2"]);
        for key in ["iterations", "natural_iterations", "processes", "n", "colours"] {
            assert_eq!(config[key], alone[key], "{key}");
        }
        let [residual, expected] = [config, &alone].map(|of| of["residual"].as_f64().unwrap());
        assert!((residual / expected - 1.0).abs() < 1e-3, "{residual} {expected}");
        let sums = ["apps", "trapezoid", "--n", "1e6", "--samples", "2", "--no-save"];
        run(&harness, &words, &[], &sums).exits(0).prints("2 ranks on 2 hosts");
        no_orphans(&harness);
    }
}

#[test]
fn hosts_with_separate_networks_are_connected_by_tcp() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let Some(network) = network(&harness) else { return };
    let Some(agent) = agent(&harness, &Stage { has_network: true, ..Stage::default() }) else {
        return;
    };
    let solver =
        ["apps", "iccg", "--elements", "6,5,7", "--samples", "2", "--no-save", "--json", "-"];
    for which in installed(&harness) {
        let mut words = launcher(which.name, &agent, &["n1", "n2"], 1);
        if which.name != "Open MPI" {
            // The launcher of MPICH must send its address on the bridge to the hosts.
            words.splice(1..1, ["-iface", "br0"].map(str::to_owned));
        }
        let words = [&network[..], &words].concat();
        check_host_record(&run(&harness, &words, &[], &STREAM).exits(0).json(), &["n1", "n2"]);
        let record = run(&harness, &words, &[], &solver).exits(0).json();
        let config = &named(&record, "time_to_solution")[0]["config"];
        assert_eq!(texts(&config["hosts"]), ["n1", "n2"]);
        // In each iteration, halos of more than a hundred numbers are exchanged.
        let iterations = config["iterations"].as_u64().unwrap();
        let links = std::fs::read_to_string(harness.path("sent")).unwrap();
        let links: Value = serde_json::from_str(&links).unwrap();
        let sent = links[0]["stats64"]["rx"]["bytes"].as_u64().unwrap();
        assert!(sent > 2 * iterations * 100 * 8, "{sent} bytes in {iterations} iterations");
        no_orphans(&harness);
    }
}

#[test]
fn page_shows_the_latency_of_each_host_and_a_different_processor() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let model = |line: &str| match line.split_once(':') {
        Some((key, _)) if key.trim() == "model name" => format!("{key}: Another Processor 1"),
        _ => line.to_owned(),
    };
    let other: Vec<String> = cpuinfo.lines().map(model).collect();
    let other = harness.write("cpuinfo", other.join("\n"));
    let inside = format!("[ $host != n3 ] || mount --bind {other} /proc/cpuinfo || exit 77");
    let Some(agent) = agent(&harness, &Stage { inside: &inside, ..Stage::default() }) else {
        return;
    };
    let Some(which) = installed(&harness).into_iter().find(|which| which.name == "Open MPI") else {
        return;
    };
    let words = launcher(which.name, &agent, &["n1", "n2", "n3"], 1);
    let latency = ["memory", "latency", "--size", "1MiB", "--samples", "2"];
    let outputs = ["--json", "record.json", "--no-save", "--exclude-file", "slow.txt"];
    let page = run(&harness, &words, &[], &[&latency[..], &outputs].concat()).exits(0);
    page.prints("of 3 hosts").prints("slowest").prints("different processor on n3: ");
    let record = std::fs::read_to_string(harness.path("record.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let notices = texts(&record["notices"]);
    let notice = notices.iter().find(|text| text.starts_with("different processor on n3: "));
    assert!(notice.unwrap().contains("Another Processor 1"), "{notices:?}");
    assert_eq!(hosts(&record, "1048576")[..3], ["n1", "n1", "n2"], "on two kinds of pages");
    no_orphans(&harness);
}

#[test]
fn mismatch_of_launcher_and_library_is_reported_by_one_rank() {
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
    one("0").warns("Open MPI has started 4 ranks, but Open MPI v");
    one("1").warns_nothing();
    harness
        .run(&["stream", "--no-save", "--exclude-file", "slow.txt"])
        .exits(2)
        .warns("--exclude-file requires several hosts");
}

/// CPU time in ticks of 10 ms after which a process is assumed to have chosen its loops and to measure. On a busy
/// machine, waiting for other processes also uses CPU time.
const MEASURES: u64 = 600;

/// Returns the nodes on which a process of this harness has used at least this CPU time.
fn working_nodes(harness: &Harness) -> BTreeSet<String> {
    let node_of = |process: HarnessProcess| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.number)).ok()?;
        let (_, after_name) = stat.rsplit_once(") ")?;
        // The fields are the times in user mode and in the kernel.
        let ticks = after_name.split(' ').skip(11).take(2);
        let used: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
        let node = process.variable("SLURMD_NODENAME")?.to_owned();
        (used >= MEASURES).then_some(node)
    };
    harness.processes().into_iter().filter_map(node_of).collect()
}

/// Interrupts a step on two nodes, and checks the record of rank 0. A process uses CPU time while it waits, so the
/// interrupt may come before the first result of a node. If it comes before the first results of both nodes, the step
/// is repeated.
fn assert_saved_after_interrupt(harness: &Harness, slurm: &Slurm, kind: &str) {
    const ATTEMPTS: usize = 5;
    let has_result = (0..ATTEMPTS).any(|_| interrupted_step_has_result(harness, slurm, kind));
    assert!(has_result, "{kind}: {ATTEMPTS} interrupts came before the first result");
}

/// Interrupts a step on two nodes; returns true if one of the nodes had a result.
fn interrupted_step_has_result(harness: &Harness, slurm: &Slurm, kind: &str) -> bool {
    let variables = [("SLURM_CONF", slurm.conf.as_str())];
    // The step is found by the name of its job.
    let two = ["srun", "-J", kind, "-N2", "--ntasks-per-node=1", kind].map(str::to_owned);
    let endless =
        ["stream", "--size", "1000000elements", "--samples", "1000000", "--dimms=1024x20000"];
    let args = [&endless[..], &["--no-save", "--json", "interrupted.json"]].concat();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let step = wait_for("the step", || {
                let listed =
                    harness.run_other(&["squeue", "-h", "-o", "%i %T", "-n", kind], &variables);
                let job = listed.stdout.lines().find_map(|line| line.strip_suffix(" RUNNING"))?;
                Some(format!("{job}.0"))
            });
            wait_for("measurements on both nodes", || {
                (working_nodes(harness).len() == 2).then_some(())
            });
            // Without an MPI, the tasks on the other node have already ended. scancel reports this as an error.
            harness.run_other(&["scancel", "--signal=INT", &step], &variables);
        });
        run(harness, &two, &variables, &args).exits(130);
    });
    let record = std::fs::read_to_string(harness.path("interrupted.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["complete"], false, "{kind}");
    let triads = named(&record, "triad");
    assert_eq!(triads.len(), 2, "{kind}");
    let (measured, missing): (Vec<&Value>, Vec<&Value>) =
        triads.into_iter().partition(|m| m["value"].is_number());
    for figure in missing {
        let reasons = texts(&figure["validity"]["reasons"]);
        assert_eq!(reasons, ["no response before the interrupt"], "{kind}");
    }
    !measured.is_empty()
}

#[test]
fn slurm_measures_four_nodes_with_and_without_mpi() {
    let harness = Harness::new();
    let names = ["node1", "node2", "node3", "node4"];
    let Some(slurm) = Slurm::with_nodes(&harness, &names) else { return };
    let variables = [("SLURM_CONF", slurm.conf.as_str())];
    let mut kinds = vec!["--mpi=none"];
    for which in installed(&harness) {
        kinds.push(if which.name == "Open MPI" { "--mpi=pmix" } else { "--mpi=pmi2" });
    }
    for kind in &kinds {
        let srun = ["srun", "-N4", "--ntasks-per-node=1", kind].map(str::to_owned);
        let record = run(&harness, &srun, &variables, &STREAM).exits(0).json();
        check_host_record(&record, &names);
        let second = |text: &&str| text.starts_with("a second srun connects the hosts");
        let is_second = texts(&record["notices"]).iter().any(second);
        assert_eq!(is_second, *kind == "--mpi=none", "{kind}");
    }
    for kind in &kinds {
        assert_saved_after_interrupt(&harness, &slurm, kind);
    }
    // The page has one row per host, best first.
    let four = ["srun", "-N4", "--ntasks-per-node=1"].map(str::to_owned);
    let args = ["hpl", "-N", "300", "--samples", "1", "--no-save"];
    let page = run(&harness, &four, &variables, &args).exits(0);
    page.prints("host").prints("slowest").prints("of 4 hosts");
    // A node that does not respond delays the run by its time limit.
    let three = ["srun", "--nodelist=node1,node2,node3", "--ntasks-per-node=1", "--mpi=none"]
        .map(str::to_owned);
    let limited = [variables[0], ("NODEGAUGE_JOIN_SECONDS", "2")];
    let longer = [&STREAM[..7], &["--budget", "2", "--no-save"]].concat();
    let record = std::thread::scope(|scope| {
        scope.spawn(|| signal(leader(&harness, "node2"), "STOP"));
        run(&harness, &three, &limited, &longer).exits(1).json()
    });
    assert_eq!(hosts(&record, "triad"), names[..3]);
    let silent = texts(&named(&record, "triad")[1]["validity"]["reasons"])[0].to_owned();
    assert!(silent.starts_with("no response within "), "{silent}");
    drop(slurm);
    no_orphans(&harness);
}
