//! Tests of `mpi` with the real Open MPI and MPICH. If an MPI is not installed, its part is skipped.

use crate::harness::{
    GENOA, Harness, Outcome, Part, ROME, T2K, has_keys, measurements, names, texts, wait_for,
};
use nodegauge_messages::Pattern;
use serde_json::Value;
use std::path::PathBuf;

/// Installed MPI, with its compiler and its launcher.
#[derive(Clone, Copy)]
pub struct Mpi {
    pub mpicc: &'static str,
    pub mpirun: &'static str,
    /// Launcher option that passes an environment variable to the ranks.
    pub variable: &'static str,
    pub name: &'static str,
}

pub const OPEN_MPI: Mpi =
    Mpi { mpicc: "mpicc.openmpi", mpirun: "mpirun.openmpi", variable: "-x", name: "Open MPI" };

pub const MPICH: Mpi =
    Mpi { mpicc: "mpicc.mpich", mpirun: "mpirun.mpich", variable: "-genv", name: "MPICH" };

/// Options for a run that takes a second.
pub const FAST: [&str; 6] = ["-m", "8,64,1024", "--size-limit", "0.02", "--samples", "5"];

/// Returns the installed MPIs; empty if fewer than two CPUs can be used.
pub fn installed(harness: &Harness) -> Vec<Mpi> {
    let there = |mpi: &Mpi| harness.has(Part::Mpi, mpi.mpicc);
    let all = if harness.has_cpus(2) { &[OPEN_MPI, MPICH][..] } else { &[] };
    all.iter().copied().filter(there).collect()
}

/// Runs `nodegauge mpi` with this MPI only, with the option that permits root to start OSU's programs.
pub fn mpi(harness: &Harness, mpi: Mpi, args: &[&str]) -> Outcome {
    let own = ["mpi", "--allow-run-as-root", "--no-floor", "--mpicc", mpi.mpicc];
    harness.run(&[&own[..], args].concat())
}

/// Checks that no process of the harness is running.
pub fn no_orphans(harness: &Harness) {
    wait_for("the end of all processes", || harness.processes().is_empty().then_some(()));
}

pub fn figure<'a>(record: &'a Value, name: &str, bytes: u64) -> &'a Value {
    measurements(record)
        .iter()
        .find(|m| m["name"] == name && m["config"]["message_bytes"] == bytes)
        .unwrap_or_else(|| panic!("no {name} of {bytes} B in {record:#}"))
}

fn programs(harness: &Harness) -> Vec<(PathBuf, std::time::SystemTime)> {
    let folder = harness.path(".cache/nodegauge");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().extension().is_none())
        .map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap()))
        .collect();
    found.sort();
    found
}

#[test]
fn all_patterns_are_measured_and_the_probe_is_cached() {
    let harness = Harness::without_probes();
    for which in installed(&harness) {
        let args = [&FAST[..], &["--patterns", "all", "--threads", "1:1", "--json"]].concat();
        let record = mpi(&harness, which, &args).exits(0).json();
        // The patterns are in the order in which they run; patterns of threads follow those of ranks.
        let mut names = names(&record);
        names.dedup();
        let all = Pattern::ALL.iter().map(|pattern| pattern.name());
        let (threads, ranks): (Vec<&str>, Vec<&str>) = all.partition(|name| *name == "latency_mt");
        assert_eq!(names, [ranks, threads].concat());
        let latency = figure(&record, "latency", 8);
        assert_eq!((&latency["gauge"], &latency["test"]), (&"messages".into(), &"mpi".into()));
        assert_eq!((&latency["unit"], &latency["category"]), (&"s".into(), &"variant".into()));
        // On a busy machine, some batches do not count.
        let count = latency["summary"]["n"].as_u64().unwrap();
        assert!((1..=5).contains(&count), "{count}");
        let library = &latency["config"]["mpi"];
        has_keys(
            library,
            &["library", "version", "standard", "launcher", "launcher_version", "compiler"],
        );
        // MPICH before version 4 (ch3) does not report a transport.
        if library["device"].as_str().is_none_or(|device| !device.starts_with("ch3")) {
            has_keys(library, &["transport"]);
        }
        assert_eq!(latency["config"]["mpi"]["library"], which.name);
        has_keys(
            &latency["config"],
            &[
                "distance",
                "places",
                "buffers",
                "min",
                "p99",
                "max",
                "operations",
                "stop",
                "validated",
                "curve",
            ],
        );
        assert_eq!(latency["config"]["validated"], true);
        // Both units of the message rate describe the same messages.
        let rates: Vec<&Value> = measurements(&record)
            .iter()
            .filter(|m| m["name"] == "mbw_mr" && m["config"]["message_bytes"] == 1024)
            .collect();
        assert_eq!(texts(&rates.iter().map(|m| m["unit"].clone()).collect()), ["B/s", "msg/s"]);
        let ratio = rates[0]["value"].as_f64().unwrap() / rates[1]["value"].as_f64().unwrap();
        assert!((ratio / 1024.0 - 1.0).abs() < 1e-3, "{ratio}");
        // The probe is not compiled again if the MPI is unchanged.
        let before = programs(&harness);
        mpi(&harness, which, &[&FAST[..], &["--patterns", "latency"]].concat())
            .exits(0)
            .prints_words(which.name);
        assert_eq!(programs(&harness), before);
        no_orphans(&harness);
    }
}

#[test]
fn two_mpis_are_compared_side_by_side() {
    let harness = Harness::new();
    if installed(&harness).len() < 2 {
        return;
    }
    let both = ["mpi", "--allow-run-as-root", "--mpicc", "mpicc.openmpi", "--mpicc", "mpicc.mpich"];
    let args = [&both[..], &FAST, &["--patterns", "latency"]].concat();
    let printed = harness.run(&args).exits(0).prints_words("Open MPI").prints_words("MPICH");
    crate::history::shown_as_printed(&harness, &printed);
}

#[test]
fn figures_of_core_pairs_contain_ranks_and_places() {
    let harness = Harness::new();
    for which in installed(&harness).into_iter().take(1) {
        let args = [&FAST[..], &["--pairs", "all", "--patterns", "latency", "--json"]].concat();
        let record = mpi(&harness, which, &args).exits(0).json();
        let first = &measurements(&record)[0]["config"];
        let ranks = &first["ranks"];
        assert_eq!((&ranks[0]["rank"], &ranks[1]["rank"]), (&0.into(), &1.into()));
        assert_eq!(ranks[1]["cpus"], first["places"][1]);
        assert!(first["distance"].is_string() && first["places"][1][0].is_u64());
    }
}

#[test]
fn described_machines_have_one_mpi_pair_per_distance() {
    let harness = Harness::new();
    let pairs = |machine: &str| {
        let args = ["places", "--mpi-pairs", "--topology", machine, "--json"];
        let document = harness.run(&args).exits(0).json();
        let rows = document["pairs"].as_array().unwrap().clone();
        let row = |row: &Value| {
            (
                row["distance"].as_str().unwrap().to_owned(),
                row["cpus"][0].as_u64(),
                row["cpus"][1].as_u64(),
            )
        };
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let to = |distance: &str, cpu: u64| (distance.to_owned(), Some(0), Some(cpu));
    assert_eq!(pairs(T2K), [to("same node", 1), to("other socket", 4)]);
    assert_eq!(
        pairs(ROME),
        [to("same cache", 1), to("same node", 4), to("same socket", 16), to("other socket", 64)]
    );
    assert_eq!(pairs(GENOA), [to("same cache", 1), to("same node", 8), to("other socket", 96)]);
    harness
        .run(&["places", "--mpi-pairs", "--topology", ROME])
        .exits(0)
        .prints_words("other socket 0 - 64");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn eager_limit_is_read_from_the_library() {
        let harness = Harness::new();
        let curve = |which: Mpi, launcher: &str| {
            let args =
                [&FAST[..], &["--patterns", "latency", "--launcher", launcher, "--json"]].concat();
            figure(&mpi(&harness, which, &args).exits(0).json(), "latency", 8)["config"].clone()
        };
        for which in installed(&harness) {
            // MPICH with UCX does not report the size.
            let config = curve(which, which.mpirun);
            let device = config["mpi"]["device"].as_str().unwrap_or_default();
            let transport = config["mpi"]["transport"].as_str().unwrap_or_default();
            if device.ends_with("ucx") {
                assert_eq!(config["curve"]["rendezvous_bytes"], Value::Null);
            }
            let Some(way) = transport.strip_prefix("pml ob1, btl ") else { continue };
            let variable = format!("btl_{way}_eager_limit");
            assert_eq!(config["curve"]["rendezvous_source"], variable);
            // The size is read from the MPI, because the user may have set it.
            let set = curve(which, &format!("{} --mca {variable} 512", which.mpirun));
            assert_eq!(set["curve"]["rendezvous_bytes"], 512, "{transport}");
        }
    }
}
