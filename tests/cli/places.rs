//! Tests of `nodegauge places`, and of the placement options of other commands.

use crate::harness::{GENOA, Harness, Outcome, Part, ROME, T2K, has_keys, skip};
use crate::machine::XML;
use serde_json::{Value, json};

fn places(args: &[&str]) -> Value {
    Harness::new().run(&[&["places", "--json"], args].concat()).exits(0).warns_nothing().json()
}

/// Returns the CPU of each thread; each thread must have only one.
fn cpus(document: &Value) -> Vec<u64> {
    let threads = document["threads"].as_array().unwrap();
    let single = |thread: &Value| match &thread["cpus"].as_array().unwrap()[..] {
        [cpu] => cpu.as_u64().unwrap(),
        _ => panic!("not one CPU: {thread}"),
    };
    threads.iter().map(single).collect()
}

/// Returns 0, `step`, 2 x `step`, ... for `n` threads.
fn every(step: u64, n: u64) -> Vec<u64> {
    (0..n).map(|k| k * step).collect()
}

#[test]
fn options_and_variables_place_threads_on_every_other_core() {
    let options = ["--threads", "96", "--places", "0:96:2", "--bind", "spread"];
    assert_eq!(cpus(&places(&[&["--topology", GENOA], &options[..]].concat())), every(2, 96));
    let harness = Harness::new();
    let variables =
        [("OMP_NUM_THREADS", "96"), ("OMP_PLACES", "0:96:2"), ("OMP_PROC_BIND", "spread")];
    let by_variables = harness.run_with(&variables, &["places", "--json", "--topology", GENOA]);
    assert_eq!(cpus(&by_variables.exits(0).json()), every(2, 96));
}

#[test]
fn per_cache_option_places_one_or_two_threads_on_each_cache() {
    for (per_cache, threads, step) in [("2", 64, 2), ("1", 32, 4)] {
        let document = places(&["--topology", ROME, "--per-cache", per_cache]);
        assert_eq!(cpus(&document), every(step, threads));
        let caches: Vec<&Value> =
            document["threads"].as_array().unwrap().iter().map(|t| &t["llcs"][0]).collect();
        let expected: Vec<u64> = (0..threads).map(|k| k / (threads / 32)).collect();
        assert_eq!(json!(caches), json!(expected));
    }
}

#[test]
fn four_threads_are_placed_on_the_four_sockets_of_a_t2k_node() {
    let document = places(&["--topology", T2K, "--threads", "4"]);
    assert_eq!(
        document["topology"],
        json!({"source": "synthetic", "sockets": 4, "cores": 16, "llcs": 0, "numa_nodes": 4})
    );
    assert_eq!(cpus(&document), [0, 4, 8, 12]);
    assert_eq!(
        document["threads"][1],
        json!({
            "rank": null, "thread": 1, "cpus": [4], "cores": [4], "llcs": [], "sockets": [1],
            "numa_nodes": [1], "memory": {"policy": "default", "nodes": null}
        })
    );
}

#[test]
fn table_shows_socket_memory_core_and_cpu_of_each_thread() {
    let reported = Harness::new()
        .run(&["places", "--topology", T2K, "--threads", "4"])
        .exits(0)
        .warns_nothing();
    insta::assert_snapshot!(reported.stdout, @r"
    thread  socket  memory  core  cpu
         0       0       0     0    0
         1       1       1     4    4
         2       2       2     8    8
         3       3       3    12   12
    ");
}

#[test]
fn places_json_has_every_field() {
    let document = places(&[]);
    assert_eq!(document["schema"], "nodegauge/1");
    has_keys(&document["topology"], &["source", "sockets", "cores", "llcs", "numa_nodes"]);
    assert_eq!(document["topology"]["source"], "live");
    for (number, thread) in document["threads"].as_array().unwrap().iter().enumerate() {
        has_keys(thread, &["cpus", "cores", "llcs", "sockets", "numa_nodes", "memory"]);
        assert_eq!(thread["thread"], number);
        assert_eq!(thread["memory"], json!({"policy": "default", "nodes": null}));
    }
}

#[test]
fn openmp_place_names_are_resolved() {
    for (name, threads, first) in [
        ("threads", 128, json!([0])),
        ("cores", 128, json!([0])),
        ("ll_caches", 32, json!([0, 1, 2, 3])),
        ("numa_domains", 8, json!((0..16).collect::<Vec<_>>())),
        ("sockets", 2, json!((0..64).collect::<Vec<_>>())),
    ] {
        let document = places(&["--topology", ROME, "--places", name]);
        assert_eq!(document["threads"].as_array().unwrap().len(), threads, "{name}");
        assert_eq!(document["threads"][0]["cpus"], first, "{name}");
    }
    let document = places(&["--topology", ROME, "--places", "ll_caches(8)", "--bind", "close"]);
    assert_eq!(document["threads"].as_array().unwrap().len(), 8);
}

#[test]
fn bind_option_determines_the_cpus_of_threads() {
    let on = |bind: &str| {
        let args = ["--topology", T2K, "--places", "cores", "--threads", "4", "--bind", bind];
        places(&args)
    };
    assert_eq!(cpus(&on("close")), [0, 1, 2, 3]);
    assert_eq!(cpus(&on("spread")), [0, 4, 8, 12]);
    assert_eq!(cpus(&on("primary")), [0, 0, 0, 0]);
    let free = on("none");
    assert_eq!(free["threads"][3]["cpus"].as_array().unwrap().len(), 16);
}

#[test]
fn explicit_places_accept_strides_and_exclusions() {
    let on = |spec: &str| {
        let document = places(&["--topology", T2K, "--places", spec]);
        let threads = document["threads"].as_array().unwrap().clone();
        json!(threads.iter().map(|thread| &thread["cpus"]).collect::<Vec<_>>())
    };
    assert_eq!(on("{0:4}:4:4"), on("sockets"));
    assert_eq!(on("{0,2}:2:8"), json!([[0, 2], [8, 10]]));
    assert_eq!(on("{0:4,!1}"), json!([[0, 2, 3]]));
    assert_eq!(on("0:4,!2"), json!([[0], [1], [3]]));
    assert_eq!(on("3:4:-1"), json!([[3], [2], [1], [0]]));
}

#[test]
fn memory_policies_are_shown_with_their_numa_nodes() {
    for (numa, policy, nodes) in [
        ("local", "local", Value::Null),
        ("interleave", "interleave", json!([0, 1, 2, 3])),
        ("interleave:1,3", "interleave", json!([1, 3])),
        ("bind:0-1", "bind", json!([0, 1])),
        ("preferred:2", "preferred", json!([2])),
    ] {
        let document = places(&["--topology", T2K, "--numa", numa]);
        let memory = &document["threads"][0]["memory"];
        assert_eq!(memory, &json!({"policy": policy, "nodes": nodes}), "{numa}");
    }
}

#[test]
fn openmp_variables_are_honoured_and_reported() {
    let harness = Harness::new();
    let on_t2k = |variables: &[(&str, &str)], args: &[&str]| {
        harness.run_with(variables, &[&["places", "--topology", T2K], args].concat()).exits(0)
    };
    let close = [("OMP_NUM_THREADS", "2"), ("OMP_PLACES", "cores"), ("OMP_PROC_BIND", "close")];
    let outcome = on_t2k(&close, &[]);
    for (name, value) in close {
        if !outcome.stdout.contains(&format!("note: {name}={value} honoured\n")) {
            outcome.fail(&format!("{name} is not reported as honoured"));
        }
    }
    assert_eq!(cpus(&on_t2k(&close, &["--json"]).json()), [0, 1]);
    let scatter = [("KMP_AFFINITY", "granularity=fine,scatter"), ("OMP_NUM_THREADS", "4")];
    assert_eq!(cpus(&on_t2k(&scatter, &["--json"]).json()), [0, 4, 8, 12]);
    let compact = [("KMP_AFFINITY", "compact"), ("OMP_NUM_THREADS", "4")];
    assert_eq!(cpus(&on_t2k(&compact, &["--json"]).json()), [0, 1, 2, 3]);
    on_t2k(&compact, &[]).prints("note: KMP_AFFINITY=compact honoured\n");
}

#[test]
fn options_take_precedence_over_variables_with_a_note() {
    let harness = Harness::new();
    let variables =
        [("OMP_NUM_THREADS", "3"), ("OMP_PLACES", "nonsense"), ("OMP_PROC_BIND", "close")];
    let options = ["--threads", "4", "--places", "cores", "--bind", "spread"];
    let args = [&["places", "--topology", T2K], &options[..]].concat();
    harness
        .run_with(&variables, &args)
        .exits(0)
        .prints("note: OMP_NUM_THREADS=3 ignored: --threads is given\n")
        .prints("note: OMP_PLACES=nonsense ignored: --places is given\n")
        .prints("note: OMP_PROC_BIND=close ignored: --bind is given\n");
    let document = harness.run_with(&variables, &[&args[..], &["--json"]].concat()).exits(0).json();
    assert_eq!(cpus(&document), [0, 4, 8, 12]);
}

#[test]
fn several_thread_counts_give_several_tables() {
    let outcome =
        Harness::new().run(&["places", "--topology", T2K, "--threads", "1,2-4:2"]).exits(0);
    assert_eq!(outcome.stdout.matches("thread  socket").count(), 3);
}

#[test]
fn json_file_leaves_the_table_on_standard_output() {
    let harness = Harness::new();
    let args = ["places", "--topology", T2K, "--threads", "2", "--json", "places.json"];
    harness.run(&args).exits(0).prints("thread  socket").warns_nothing();
    let text = std::fs::read_to_string(harness.path("places.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["topology"]["source"], "synthetic");
}

#[test]
fn places_are_planned_on_a_machine_in_an_xml_file() {
    let harness = Harness::new();
    let file = harness.write("node.xml", XML);
    let document = harness.run(&["places", "--json", "--topology", &file]).exits(0).json();
    assert_eq!(
        document["topology"],
        json!({"source": "xml", "sockets": 2, "cores": 2, "llcs": 2, "numa_nodes": 2})
    );
    assert_eq!(document["threads"][1]["numa_nodes"], json!([1]));
}

/// Returns the CPUs of the threads, from the lines with the affinity that the kernel reports.
fn bound(outcome: &Outcome) -> Vec<String> {
    outcome
        .stdout
        .lines()
        .filter(|line| line.starts_with("OMP: pid "))
        .filter_map(|line| Some(line.split_once(" bound to OS proc set {")?.1.to_owned()))
        .collect()
}

#[test]
fn kernel_reports_the_planned_affinity_of_each_thread() {
    let harness = Harness::new();
    let document = harness.run(&["places", "--json"]).exits(0).json();
    let outcome = harness.run(&["places", "--verify"]).exits(0).warns_nothing();
    let planned: Vec<String> = cpus(&document).iter().map(|cpu| format!("{cpu}}}")).collect();
    if bound(&outcome) != planned {
        outcome.fail("expected one line a thread, bound as planned");
    }
    let numbers =
        (0..planned.len()).all(|n| outcome.stdout.contains(&format!(" thread {n} bound")));
    assert!(numbers, "{}", outcome.stdout);
}

#[test]
fn verify_option_refuses_a_described_machine() {
    Harness::new().run(&["places", "--verify", "--topology", T2K]).exits(2).warns(
        "error: --verify binds threads on this machine and cannot be used with --topology\n\
         hint: leave out --verify or --topology\n",
    );
}

#[test]
fn affinity_mask_restricts_places_and_is_reported() {
    let harness = Harness::new();
    let first = cpus(&harness.run(&["places", "--json"]).exits(0).json());
    let [first, .., other] = first[..] else { return skip(Part::Cpus, "there is one CPU only") };
    let mask = first.to_string();
    let taskset = ["taskset", "-c", &mask];
    let under = |args: &[&str]| harness.run_under(&taskset, args);
    let Some(outcome) = under(&["places", "--json"]) else { return };
    assert_eq!(cpus(&outcome.exits(0).json()), [first]);
    for command in ["places", "stream"] {
        under(&[command, "--places", &other.to_string()]).unwrap().exits(2).only_error(&format!(
            "cpu {other} is not among the CPUs that this process may use ({first})"
        ));
        under(&[command, "--threads", "2"]).unwrap().exits(2).only_error(&format!(
            "cannot place 2 threads: this process may use 1 hardware thread ({first})\n\
             hint: use 1 or fewer, e.g. --threads 1"
        ));
    }
    let none_outcome = under(&["places", "--verify", "--bind", "none"]).unwrap().exits(0);
    assert_eq!(bound(&none_outcome), [format!("{first}}}")]);
}

#[test]
fn offline_cpu_is_refused_and_gets_no_thread() {
    let harness = Harness::new();
    if harness.cpus() != 2 {
        return skip(Part::Cpus, "made for a machine with two CPUs");
    }
    let online = harness.write("online", "0\n");
    let shown = [
        (online.as_str(), "/sys/devices/system/cpu/online"),
        ("tmpfs:ro", "/sys/devices/system/cpu/cpu1"),
    ];
    let Some(outcome) = harness.run_where(&shown, &["places", "--places", "1"]) else { return };
    outcome
        .exits(2)
        .only_error("cpu 1 is not on this machine, whose CPUs are 0; this process may use 0");
    let document = harness.run_where(&shown, &["places", "--json"]).unwrap().exits(0).json();
    assert_eq!(cpus(&document), [0]);
}

#[test]
fn affinity_mask_does_not_affect_a_described_machine() {
    let harness = Harness::new();
    let args = ["places", "--json", "--topology", T2K, "--threads", "16"];
    let Some(outcome) = harness.run_under(&["taskset", "-c", "0"], &args) else { return };
    assert_eq!(cpus(&outcome.exits(0).json()), every(1, 16));
}

#[test]
fn memory_policy_combines_with_given_cpus() {
    let harness = Harness::new();
    let named = ["places", "--topology", T2K, "--ranks", "2", "--cpus", "12,4"];
    let with = |more: &[&str]| harness.run(&[&named[..], more].concat()).exits(0);
    let reported = with(&["--policy", "3"]);
    insta::assert_snapshot!(reported.stdout, @r"
    rank  socket  memory  core
       0       3       3    12
       1       1       1     4
    memory: bound to these NUMA nodes
    note: --cpus determines the CPUs of threads, and policy 3 the placement of memory
    ");
    let document = with(&["--policy", "1", "--json"]).json();
    assert_eq!(cpus(&document), [12, 4]);
    let all = json!({"policy": "interleave", "nodes": [0, 1, 2, 3]});
    assert_eq!(document["threads"][1]["memory"], all);
    let script = with(&["--policy", "3", "--emit", "numactl"]);
    script
        .prints("numactl --physcpubind=12 --membind=3 \"$@\"")
        .prints("numactl --physcpubind=4 --membind=1 \"$@\"");
    let bound_document = with(&["--numa", "bind:0", "--json"]).json();
    assert_eq!(bound_document["threads"][0]["memory"], json!({"policy": "bind", "nodes": [0]}));
}

#[test]
fn numactl_policy_is_shown_and_honoured() {
    let harness = Harness::new();
    if !harness.has(Part::Numa, "numactl") {
        return;
    }
    let shown = harness.run(&["places", "--json"]).exits(0).json();
    assert_eq!(shown["inherited"]["nodes"], json!([]));
    let (cpu, node) =
        (shown["inherited"]["cpus"][0].to_string(), &shown["inherited"]["memory_nodes"][0]);
    for policy in ["interleave", "bind", "preferred"] {
        let option = format!("--{}={node}", if policy == "bind" { "membind" } else { policy });
        let numactl = ["numactl", "--physcpubind", &cpu, &option];
        let allowed = harness.command("numactl").args([&option, "true"]).status();
        if !allowed.is_ok_and(|status| status.success()) {
            return skip(Part::Numa, "numactl cannot set a memory policy");
        }
        let under = |args: &[&str]| harness.run_under(&numactl, args).unwrap().exits(0);
        let document = under(&["places", "--json"]).json();
        let inherited = &document["inherited"];
        assert_eq!((&inherited["policy"], &inherited["nodes"]), (&json!(policy), &json!([node])));
        assert_eq!(json!(cpus(&document)), inherited["cpus"]);
        assert_eq!(document["threads"][0]["memory"], json!({"policy": policy, "nodes": [node]}));
        let words =
            format!("memory policy {policy} (NUMA node {node}), cpus {cpu}, memory of NUMA node");
        under(&["places"]).prints_words(&format!("inherited: {words}")).prints(&format!(
            "note: memory policy {policy}:{node} honoured: inherited by this process"
        ));
        under(&["places", "--ranks", "1"]).prints_words(&format!("inherited: {words}"));
        under(&["places", "--emit", "numactl"]).prints(&option);
        under(&["machine"]).prints_words(&format!("inherited {words}"));
        let record = under(&["machine", "--json"]).json();
        assert_eq!(record["machine"]["circumstances"]["inherited"], *inherited);
        // Options take precedence over the inherited policy.
        let asked = under(&["places", "--json", "--numa", "local"]).json();
        assert_eq!(asked["threads"][0]["memory"]["policy"], "local");
        let described = under(&["places", "--json", "--topology", T2K]).json();
        assert_eq!(described.get("inherited"), None);
        assert_eq!(described["threads"][0]["memory"]["policy"], "default");
    }
}

#[test]
fn places_command_writes_no_files() {
    let harness = Harness::new();
    harness.run(&["places"]).exits(0);
    let left: Vec<_> = std::fs::read_dir(harness.path("")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
