//! Tests of `mpi` without an MPI, over nodegauge's own transport, and with this transport as the lower bound for an
//! MPI.

use crate::harness::{Harness, Outcome, is_running, measurements, signal, texts, wait_for};
use crate::mpi::{FAST, installed};
use crate::thorough::io_faults::faults;
use serde_json::Value;

/// Runs the command with an empty search path.
fn without_mpi(harness: &Harness, args: &[&str]) -> Outcome {
    let empty = harness.path("no-programs");
    std::fs::create_dir_all(&empty).unwrap();
    harness.run_with(&[("PATH", empty.to_str().unwrap())], args)
}

fn figure<'a>(record: &'a Value, engine: &str, name: &str, bytes: u64) -> &'a Value {
    let config =
        |m: &Value| m["config"]["engine"] == engine && m["config"]["message_bytes"] == bytes;
    let found = measurements(record).iter().find(|m| m["name"] == name && config(m));
    found.unwrap_or_else(|| panic!("no {name} of {bytes} B over {engine} in {record:#}"))
}

/// Returns the rank processes of a program, and the process that started them.
fn ranks(program: u32) -> Vec<u32> {
    let children = |process: u32| -> Vec<u32> {
        let path = format!("/proc/{process}/task/{process}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    let starters = children(program);
    starters.iter().flat_map(|starter| children(*starter)).chain(starters.iter().copied()).collect()
}

#[test]
fn run_that_exceeds_its_budget_keeps_its_results() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    // Starting the ranks takes longer than the whole budget.
    without_mpi(&harness, &["mpi", "--budget", "0.1"]).exits(0);
    let record = harness.latest();
    assert!(measurements(&record).iter().any(|m| m["value"].is_number()), "{record:#}");
}

#[test]
fn node_without_mpi_measures_messages_over_its_own_transport() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let args =
        ["mpi", "-m", "0,8,100,5000,1MiB", "-W", "4", "--size-limit", "0.02", "--samples", "5"];
    let run = without_mpi(&harness, &args).exits(0);
    let run = run.prints_words("no MPI, shm").prints_words("no MPI, tcp");
    let printed = run.prints_words("patterns that require an MPI are left out: latency_mt");
    let record = harness.latest();
    let notices = record["notices"].to_string();
    assert!(notices.contains("there is no mpicc on this node: messages use"), "{notices}");
    for m in measurements(&record) {
        assert_eq!((&m["test"], &m["category"]), (&"transport".into(), &"transport".into()), "{m}");
        assert_eq!((&m["config"]["validated"], &m["config"]["mpi"]), (&true.into(), &Value::Null));
        assert!(m["value"].as_f64().unwrap() > 0.0 && m["config"]["distance"].is_string(), "{m}");
        // Five batches are too few for a mean.
        let reasons = texts(&m["validity"]["reasons"]).join("\n");
        assert!(reasons.contains("too few, the mean needs at least 6"), "{m:#}");
    }
    for name in ["latency", "bw", "bibw", "multi_lat", "mbw_mr"] {
        assert_eq!(figure(&record, "shm", name, 8)["config"]["route"], "ring");
        assert_eq!(figure(&record, "tcp", name, 5000)["config"]["route"], "tcp");
        let large = figure(&record, "shm", name, 1 << 20)["config"]["route"].clone();
        assert!(["ring", "process_vm_readv"].contains(&large.as_str().unwrap()), "{large}");
    }
    crate::history::shown_as_printed(&harness, &printed);
    // A comparison of a run with itself is possible.
    harness
        .run(&["compare", "latest", "latest"])
        .exits(0)
        .prints_words("A and B are the same runs");
}

#[test]
fn requested_transport_accepts_the_options_of_the_mpi_probe() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let args = ["mpi", "--transport=shm", "-m", "8,64KiB", "-i", "50", "--json"];
    let each = ["--timing", "each", "--buffers", "multiple", "-W", "7", "--validate", "3"];
    let record = harness.run(&[&args[..], &each].concat()).exits(0).json();
    for m in measurements(&record) {
        let operations = m["config"]["operations"].as_u64().unwrap();
        // On a busy machine, some operations do not count.
        assert!((1..=50).contains(&operations), "{m}");
        assert_eq!(m["config"]["validated"], true);
        assert_eq!(m["config"]["engine"], "shm");
    }
    assert_eq!(figure(&record, "shm", "bw", 8)["config"]["window"], 7);
    let matrix =
        ["mpi", "--transport=shm", "--pairs", "all", "--patterns", "latency", "--samples", "5"];
    harness.run(&matrix).exits(0).prints_words("no MPI, shm, latency of 8 B");
    harness
        .run(&["mpi", "--transport=tcp", "-m", "8", "--samples", "5", "--osu-text"])
        .exits(0)
        .prints("# nodegauge: Latency Test without MPI, over tcp (");
}

#[test]
fn patterns_that_need_an_mpi_are_refused_if_there_is_none() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let named = ["mpi", "--patterns", "allreduce"];
    without_mpi(&harness, &named)
        .exits(3)
        .warns("allreduce: an MPI is required, and there is no mpicc");
    let hosts = ["mpi", "--hosts", "a,b"];
    without_mpi(&harness, &hosts).exits(3).warns("messages between hosts: an MPI is required");
    let asked = ["mpi", "--transport", "--patterns", "latency_mt"];
    harness.run(&asked).exits(2).warns("hint: leave out --transport");
    harness.run(&["mpi", "--transport=ib"]).exits(2).warns("shm, tcp");
    harness.run(&["mpi", "--transport", "--mpicc", "mpicc"]).exits(2).warns("--mpicc");
    assert_eq!(harness.run(&["history", "list"]).exits(0).stdout.matches("mpi").count(), 0);
}

#[test]
fn expectations_and_comparisons_distinguish_transport_from_mpi() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let args =
        ["mpi", "--transport=shm", "--patterns", "latency,bw", "-m", "8,1024", "--samples", "5"];
    let run = |expect: &str| {
        harness.run(&[&args[..], &["--accept-suspect", "--expect", expect]].concat())
    };
    run("latency<1s@8B").exits(2).warns("hint: did you mean transport.latency?");
    run("transport.latency<1s@3B")
        .exits(2)
        .warns("at 3 B, but this size is not measured; available: @8B, @1KiB");
    assert!(!harness.run(&["history", "list"]).stdout.contains("mpi"));
    run("messages.latency<1s@8B").exits(2);
    run("transport.latency<1s@8B").exits(0);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/mpi/record.json");
    let why =
        "messages of A and B are not compared: B used nodegauge's own transport, A an MPI library";
    harness.run(&["compare", golden, "latest"]).exits(2).warns(why);
}

#[test]
fn transport_falls_back_to_the_ring_and_detects_corrupted_data() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let library = faults(&harness);
    let run = |fault: &str| {
        let variables = [("LD_PRELOAD", library.to_str().unwrap()), ("FAULT", fault)];
        let args = [
            "mpi",
            "--transport=shm",
            "--patterns",
            "bw",
            "-m",
            "1MiB",
            "-W",
            "4",
            "--samples",
            "5",
        ];
        harness.run_with(&variables, &args)
    };
    run("unreadable").exits(0).prints_words(
        "process_vm_readv: Operation not permitted (os error 1); large messages are therefore copied twice",
    );
    let large = harness.latest();
    assert_eq!(figure(&large, "shm", "bw", 1 << 20)["config"]["route"], "ring");
    // Corrupted data makes a result invalid, even if the transport was faster than the MPI.
    let garbled = run("garbled");
    let record = harness.latest();
    let figure = figure(&record, "shm", "bw", 1 << 20);
    if figure["config"]["route"] == "process_vm_readv" {
        garbled.exits(1);
        assert_eq!(figure["validity"]["status"], "invalid");
        assert!(figure["validity"]["reasons"][0].as_str().unwrap().contains("corrupted"));
    }
}

#[test]
fn transport_needs_no_space_in_dev_shm() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let args =
        ["mpi", "--transport=shm", "--patterns", "latency", "-m", "8,1MiB", "--samples", "5"];
    let Some(run) = harness.run_where(&[("tmpfs:size=4k", "/dev/shm")], &args) else { return };
    run.exits(0).prints_words("no MPI, shm");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn transport_is_the_lower_bound_for_an_mpi() {
        let harness = Harness::new();
        for which in installed(&harness) {
            let args =
                ["mpi", "--mpicc", which.mpicc, "--patterns", "latency,bw,bibw", "-m", "8,1024"];
            let limit = [
                "--size-limit",
                "0.06",
                "--json",
                "record.json",
                "--accept-suspect",
                "--expect",
                "latency<1s@8B",
            ];
            let outcome =
                harness.run(&[&args[..], &limit].concat()).exits(0).prints_words("no MPI, shm");
            let record = harness.latest();
            // On a busy machine, no figure may be suitable as a lower bound.
            let is_bound = |m: &&Value| m["config"]["floor"]["share"].as_f64() <= Some(1.0);
            let floors = measurements(&record).iter().filter(|m| m["config"]["floor"].is_object());
            let (bounds, beaten): (Vec<_>, Vec<_>) = floors.partition(is_bound);
            let outcome =
                if bounds.is_empty() { outcome } else { outcome.prints_words("floor of floor") };
            if !beaten.is_empty() {
                outcome.prints_words("no floor");
            }
            for name in ["latency", "bw"] {
                let (own, floor) =
                    (figure(&record, "probe", name, 8), figure(&record, "shm", name, 8));
                assert_eq!(
                    (&own["category"], &floor["category"]),
                    (&"variant".into(), &"transport".into())
                );
                let of_floor = &own["config"]["floor"];
                assert_eq!(of_floor["value"], floor["value"]);
                let (value, allowed) =
                    (own["value"].as_f64().unwrap(), floor["value"].as_f64().unwrap());
                let share = if name == "bw" { value / allowed } else { allowed / value };
                assert!(
                    (of_floor["share"].as_f64().unwrap() / share - 1.0).abs() < 1e-9,
                    "{of_floor}"
                );
                // Starts in different regimes are not compared.
                let ci95 = of_floor["ci95"].as_array();
                assert!(ci95.is_none_or(|ends| ends[0].as_f64() <= ends[1].as_f64()), "{of_floor}");
            }
            // Only `latency` and `bw` have a lower bound; `--no-floor` leaves it out.
            let engines = |document: &Value, name: &str| -> Vec<Value> {
                let own = measurements(document).iter().filter(|m| m["name"] == name);
                own.map(|m| m["config"]["engine"].clone()).collect()
            };
            assert_eq!(engines(&record, "bibw"), ["probe"; 2]);
            let none = [&args[..], &FAST[2..], &["--no-floor"]].concat();
            harness.run(&none).exits(0);
            assert_eq!(engines(&harness.latest(), "latency"), ["probe"; 2]);
        }
    }

    #[test]
    fn killed_rank_or_interrupt_leaves_no_processes() {
        let harness = Harness::new();
        if !harness.has_cpus(2) {
            return;
        }
        let args = ["mpi", "--transport=shm", "--patterns", "latency", "-m", "8,16,32"];
        let long = ["--size-limit", "2", "--samples", "1000000"];
        for (name, code) in [("KILL", 1), ("INT", 130)] {
            // The first size has been measured.
            let running = harness.start(&[&args[..], &long].concat()).shows("latency, 16 B");
            let processes = wait_for("two ranks", || {
                Some(ranks(running.process())).filter(|processes| processes.len() == 3)
            });
            match name {
                "KILL" => signal(processes[1], name),
                _ => running.signal(name),
            }
            let ended = running.end().exits(code);
            if name == "KILL" {
                ended.prints_words("rank 1 (process").prints_words("signal 9");
            }
            wait_for("the end of all ranks", || {
                processes.iter().all(|process| !is_running(*process)).then_some(())
            });
        }
    }
}
