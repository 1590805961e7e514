//! `mpi` with the real Open MPI and MPICH: what it measures, and every misfortune. Where one of them
//! is not installed, its part is skipped by name.

use crate::harness::{
    GENOA, Harness, Outcome, ROME, T2K, has_fields, measurements, names, skip, texts,
};
use crate::slurm::Slurm;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI of the system: its compiler and the launcher that belongs to it.
#[derive(Clone, Copy)]
struct Mpi {
    mpicc: &'static str,
    mpirun: &'static str,
    /// How a variable is given to ranks.
    variable: &'static str,
    name: &'static str,
}

const OPEN_MPI: Mpi =
    Mpi { mpicc: "mpicc.openmpi", mpirun: "mpirun.openmpi", variable: "-x", name: "Open MPI" };
const MPICH: Mpi =
    Mpi { mpicc: "mpicc.mpich", mpirun: "mpirun.mpich", variable: "-genv", name: "MPICH" };

/// Sizes and limits for a run of a second.
const FAST: [&str; 6] = ["-m", "8,64,1024", "--size-limit", "0.02", "--samples", "5"];

/// Those that are installed, and have two CPUs to run on.
fn installed(harness: &Harness) -> Vec<Mpi> {
    if harness.cpus() < 2 {
        skip("one CPU");
        return Vec::new();
    }
    let there = |mpi: &Mpi| {
        let found = Command::new(mpi.mpicc).arg("--version").output().is_ok();
        if !found {
            skip(&format!("there is no {}", mpi.mpicc));
        }
        found
    };
    [OPEN_MPI, MPICH].into_iter().filter(there).collect()
}

/// `nodegauge mpi` with this MPI; root may start ranks.
fn mpi(harness: &Harness, mpi: Mpi, args: &[&str]) -> Outcome {
    let own = ["mpi", "--allow-run-as-root", "--mpicc", mpi.mpicc];
    harness.run(&[&own[..], args].concat())
}

/// The same with a misfortune preloaded into its ranks.
fn with_fault(harness: &Harness, which: Mpi, fault: &str, args: &[&str]) -> Outcome {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/mpi_faults.c");
    let library = harness.arg(&format!("faults-{fault}.so"));
    let made = Command::new(which.mpicc)
        .args(["-shared", "-fPIC", "-o", &library])
        .arg(source)
        .status()
        .unwrap();
    assert!(made.success());
    let preload = match which.variable {
        "-x" => format!("-x LD_PRELOAD={library} -x FAULT={fault}"),
        _ => format!("-genv LD_PRELOAD {library} -genv FAULT {fault}"),
    };
    let launcher = format!("{} {preload}", which.mpirun);
    mpi(harness, which, &[&["--launcher", &launcher], args].concat())
}

/// Nothing that was started lives on: every rank's program lies in the harness' folder.
fn no_orphans(harness: &Harness) {
    let folder = harness.path("").display().to_string();
    for _ in 0..100 {
        let alive = |entry: std::fs::DirEntry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            (line.contains(&folder) && line.contains("messages-")).then_some(line)
        };
        let left: Vec<String> =
            std::fs::read_dir("/proc").unwrap().flatten().filter_map(alive).collect();
        if left.is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("ranks live on");
}

fn of<'a>(record: &'a Value, name: &str, bytes: u64) -> &'a Value {
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
fn all_patterns_are_measured_with_their_evidence_and_the_probe_is_kept() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let args = [&FAST[..], &["--patterns", "all", "-t", "1:1", "--json"]].concat();
        let record = mpi(&harness, which, &args).exits(0).json();
        let mut names = names(&record);
        names.dedup();
        assert_eq!(
            names,
            [
                "latency",
                "bw",
                "bibw",
                "multi_lat",
                "mbw_mr",
                "barrier",
                "bcast",
                "allreduce",
                "allgather",
                "alltoall",
                "latency_mt"
            ]
        );
        let latency = of(&record, "latency", 8);
        assert_eq!((&latency["gauge"], &latency["test"]), (&"messages".into(), &"mpi".into()));
        assert_eq!((&latency["unit"], &latency["category"]), (&"s".into(), &"variant".into()));
        // On a busy machine some batches do not count.
        let count = latency["summary"]["n"].as_u64().unwrap();
        assert!((1..=5).contains(&count), "{count}");
        let mpi_fields = [
            ("library", "string"),
            ("version", "string"),
            ("standard", "string"),
            ("transport", "string"),
            ("launcher", "string"),
            ("launcher_version", "string"),
            ("compiler", "string"),
        ];
        has_fields(&latency["config"]["mpi"], &mpi_fields);
        assert_eq!(latency["config"]["mpi"]["library"], which.name);
        let config = [
            ("distance", "string"),
            ("places", "array"),
            ("buffers", "string"),
            ("min", "number"),
            ("p99", "number"),
            ("max", "number"),
            ("operations", "integer"),
            ("stop", "string"),
            ("validated", "bool"),
            ("curve", "object"),
        ];
        has_fields(&latency["config"], &config);
        assert_eq!(latency["config"]["validated"], true);
        // Both units of the message rate tell of the same messages.
        let rates: Vec<&Value> = measurements(&record)
            .iter()
            .filter(|m| m["name"] == "mbw_mr" && m["config"]["message_bytes"] == 1024)
            .collect();
        assert_eq!(texts(&rates.iter().map(|m| m["unit"].clone()).collect()), ["B/s", "msg/s"]);
        let ratio = rates[0]["value"].as_f64().unwrap() / rates[1]["value"].as_f64().unwrap();
        assert!((ratio / 1024.0 - 1.0).abs() < 1e-3, "{ratio}");
        // Nothing is compiled anew while the MPI is the same.
        let before = programs(&harness);
        mpi(&harness, which, &[&FAST[..], &["--patterns", "latency"]].concat())
            .exits(0)
            .tells(which.name);
        assert_eq!(programs(&harness), before);
        no_orphans(&harness);
    }
}

#[test]
fn two_mpis_are_set_side_by_side() {
    let harness = Harness::new();
    if installed(&harness).len() < 2 {
        return;
    }
    let both = ["mpi", "--allow-run-as-root", "--mpicc", "mpicc.openmpi", "--mpicc", "mpicc.mpich"];
    let args = [&both[..], &FAST, &["--patterns", "latency"]].concat();
    harness.run(&args).exits(0).tells("Open MPI").tells("MPICH");
    harness.run(&["history", "show", "latest"]).exits(0).tells("Open MPI").tells("MPICH");
}

#[test]
fn root_is_refused_by_open_mpi_with_the_option_that_helps() {
    let harness = Harness::new();
    let root = std::fs::metadata("/proc/self")
        .is_ok_and(|data| std::os::unix::fs::MetadataExt::uid(&data) == 0);
    if !root || installed(&harness).iter().all(|mpi| mpi.mpicc != OPEN_MPI.mpicc) {
        skip("not root, or no Open MPI");
        return;
    }
    let args = [&["mpi", "--mpicc", "mpicc.openmpi"], &FAST[..]].concat();
    harness
        .run(&args)
        .exits(3)
        .complains("refuses to start programs of root\nhint: give --allow-run-as-root");
}

#[test]
fn a_hang_is_killed_and_what_was_measured_is_kept() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let args = [&FAST[..], &["--patterns", "latency", "--json", "-"]].concat();
        let record = with_fault(&harness, which, "hang", &args).exits(1).json();
        assert!(of(&record, "latency", 8)["value"].is_number());
        let hung = of(&record, "latency", 1024);
        assert_eq!(
            (&hung["value"], &hung["validity"]["status"]),
            (&Value::Null, &"invalid".into())
        );
        assert!(texts(&hung["validity"]["reasons"])[0].contains("no answer within"));
        no_orphans(&harness);
        harness.run(&["history", "show", "latest"]).exits(0).tells("were killed");
    }
}

#[test]
fn a_rank_that_dies_is_told_with_the_size() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let args = [&FAST[..], &["--patterns", "latency"]].concat();
        with_fault(&harness, which, "die", &args)
            .exits(1)
            .tells("a rank or the launcher ended")
            .tells("in latency of 1024 B");
        no_orphans(&harness);
    }
}

#[test]
fn corrupted_data_is_no_result() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let args = [&FAST[..], &["--patterns", "latency", "--json"]].concat();
        let record = with_fault(&harness, which, "corrupt", &args).exits(1).json();
        let wrong = of(&record, "latency", 1024);
        assert_eq!((&wrong["value"], &wrong["config"]["validated"]), (&Value::Null, &false.into()));
        assert_eq!(
            texts(&wrong["validity"]["reasons"])[0],
            "the data arrived corrupted: 2 bytes are not what was sent"
        );
        assert!(of(&record, "latency", 64)["value"].is_number());
        // Not looked at, it is not found.
        let args = [&args[..], &["--validate", "0"]].concat();
        with_fault(&harness, which, "corrupt", &args).exits(0);
        no_orphans(&harness);
    }
}

#[test]
fn an_mpi_without_threads_leaves_their_pattern_out() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let named = [&FAST[..], &["--patterns", "latency_mt", "-t", "1:1"]].concat();
        with_fault(&harness, which, "single", &named)
            .exits(1)
            .tells("does not give MPI_THREAD_MULTIPLE");
        with_fault(&harness, which, "single", &FAST).exits(0).tells("latency_mt left out");
        no_orphans(&harness);
    }
}

#[test]
fn too_few_slots_are_told_with_the_launchers_words() {
    let harness = Harness::new();
    for which in installed(&harness) {
        if which.mpicc != OPEN_MPI.mpicc {
            continue;
        }
        // A launcher whose host has one slot.
        let script = harness.write(
            "mpirun",
            "#!/bin/sh\n[ \"$1\" = --version ] && exec mpirun.openmpi --version\n\
             for program; do case $program in */messages-*) break ;; esac; done\n\
             exec mpirun.openmpi --allow-run-as-root --host localhost:1 -np 2 \"$program\"\n",
        );
        make_program(&script);
        let args = [&FAST[..], &["--launcher", &script, "--patterns", "latency"]].concat();
        mpi(&harness, which, &args)
            .exits(3)
            .complains("has too few slots for 2 ranks")
            .complains("hint: ask for fewer with --ranks");
        no_orphans(&harness);
    }
}

fn make_program(path: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_launcher_of_another_mpi_is_found_out() {
    let harness = Harness::new();
    if installed(&harness).len() < 2 {
        return;
    }
    let args = [&FAST[..], &["--launcher", "mpirun.mpich"]].concat();
    mpi(&harness, OPEN_MPI, &args)
        .exits(2)
        .complains("starts programs of MPICH")
        .complains("every rank would be rank 0 of 1");
    // One that says it is of the right kind and is not: only the ranks find out.
    let script = harness.write(
        "mpirun",
        "#!/bin/sh\n[ \"$1\" = --version ] && exec mpirun.mpich --version\n\
         while :; do case $1 in */messages-*) break ;; esac; shift; done\n\
         exec mpirun.openmpi --allow-run-as-root -np 2 \"$@\"\n",
    );
    make_program(&script);
    let args = [&FAST[..], &["--launcher", &script, "--patterns", "latency"]].concat();
    mpi(&harness, MPICH, &args)
        .exits(3)
        .complains("asked for 2 ranks, and each believes that there is 1");
    no_orphans(&harness);
}

#[test]
fn a_missing_or_broken_compiler_is_told() {
    let harness = Harness::new();
    harness
        .run(&["mpi", "--mpicc", "mpicc-of-nobody"])
        .exits(3)
        .complains("there is no mpicc-of-nobody on this node\nhint: install an MPI (on Debian: openmpi-bin libopenmpi-dev, or mpich libmpich-dev");
    harness
        .run(&["mpi", "--mpicc", "true"])
        .exits(3)
        .complains("does not say that it is a compiler of MPI");
    for which in installed(&harness) {
        let broken = harness.write(
            "mpicc.broken",
            format!(
                "#!/bin/sh\ncase $1 in -v|--version|--showme*) exec {} \"$@\" ;; esac\n\
                 echo 'messages.c:1: error: no such header' >&2; exit 1\n",
                which.mpicc
            ),
        );
        make_program(&broken);
        harness
            .run(&["mpi", "--mpicc", &broken, "--launcher", which.mpirun])
            .exits(3)
            .complains("error: no such header");
    }
}

#[test]
fn an_interrupted_run_leaves_nothing_behind_but_its_record() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let running = harness.start(&[
            "mpi",
            "--allow-run-as-root",
            "--mpicc",
            which.mpicc,
            "-m",
            "8,64",
            "--size-limit",
            "30",
            "--samples",
            "1000000",
            "--patterns",
            "latency",
        ]);
        std::thread::sleep(std::time::Duration::from_secs(4));
        running.signal("INT");
        running.end().exits(130).complains("interrupted");
        no_orphans(&harness);
    }
}

#[test]
fn every_core_meets_every_other() {
    let harness = Harness::new();
    for which in installed(&harness).into_iter().take(1) {
        let args = [&FAST[..], &["--pairs", "all", "--patterns", "latency", "--json"]].concat();
        let record = mpi(&harness, which, &args).exits(0).json();
        let first = &measurements(&record)[0]["config"];
        assert_eq!(first["ranks"], serde_json::json!([0, 1]));
        assert!(first["distance"].is_string() && first["places"][1][0].is_u64());
    }
}

#[test]
fn hosts_that_do_not_answer_are_named() {
    let harness = Harness::new();
    // In the place of ssh: every host is this one, but for one that is dead.
    // Each has a folder for temporary files, as hosts have: daemons of one run would share it.
    let folder = harness.path("").display().to_string();
    let agent = harness.write(
        "agent",
        format!(
            "#!/bin/sh\nTMPDIR=$(mktemp -d {folder}/XXXXXX) && export TMPDIR PMIX_MCA_gds=hash\n\
             while :; do case $1 in -*) shift ;; *) break ;; esac; done\n\
             [ \"$1\" = deadnode ] && exec sleep 600\nshift\nexec sh -c \"$*\"\n"
        ),
    );
    make_program(&agent);
    for which in installed(&harness) {
        let launcher = match which.variable {
            "-x" => format!("mpirun.openmpi --mca plm_rsh_agent {agent}"),
            _ => format!("mpirun.mpich -launcher ssh -launcher-exec {agent}"),
        };
        let hosts = ["--hosts", "node1,deadnode,node2", "--launcher", &launcher];
        let args = [&hosts[..], &FAST, &["--patterns", "latency", "--json"]].concat();
        let record = mpi(&harness, which, &args).exits(1).json();
        assert!(
            texts(&record["notices"]).iter().any(|n| n.starts_with("deadnode does not answer"))
        );
        let hosts = &of(&record, "latency", 8)["config"]["hosts"];
        assert_eq!(texts(hosts), ["node1", "node2"]);
        assert_eq!(of(&record, "latency", 8)["config"]["distance"], "other host");
        no_orphans(&harness);
    }
}

#[test]
fn nodes_of_a_slurm_job_meet_in_a_ring_and_one_that_is_dead_is_named() {
    let harness = Harness::new();
    let mpis = installed(&harness);
    if mpis.is_empty() {
        return;
    }
    let names = ["node1", "node2", "node3", "node4"];
    let Some(slurm) = Slurm::of(&harness, &names) else { return };
    let variables = [("SLURM_CONF", slurm.conf.as_str())];
    let job = |first: &str, mpi: &[&str]| {
        let own = ["mpi", "--allow-run-as-root", "--hosts", "slurm", "--patterns", "latency"];
        let words = [&own[..], mpi, &FAST, &["--json", "-"]].concat();
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let script =
            format!("{first} exec {} {}", env!("CARGO_BIN_EXE_nodegauge"), words.join(" "));
        harness.run_other(&["salloc", "-Q", "-N4", "sh", "-c", &script], &variables)
    };
    let met = |record: &Value| {
        let of_8 = measurements(record).iter().filter(|m| m["config"]["message_bytes"] == 8);
        let mut met: Vec<String> = of_8.map(|m| texts(&m["config"]["hosts"]).join(" ")).collect();
        met.sort_unstable();
        met
    };
    for which in &mpis {
        let record = job("", &["--mpicc", which.mpicc]).exits(0).json();
        let met = met(&record);
        // The ring, and then two pairs by chance.
        assert_eq!(met.len(), 4 + 2, "{met:?}");
        for pair in ["node1 node2", "node2 node3", "node3 node4", "node4 node1"] {
            assert!(met.iter().any(|known| known == pair), "{pair} in {met:?}");
        }
    }
    if let Some(mpich) = mpis.iter().find(|which| which.mpicc == MPICH.mpicc) {
        let started = ["--mpicc", mpich.mpicc, "--launcher", "srun --mpi=pmi2"];
        let record = job("", &started).exits(0).json();
        assert_eq!(met(&record).len(), 6);
        let kill = format!("kill -9 {}; sleep 0.3;", slurm.nodes[3]);
        let record = job(&kill, &started).exits(1).json();
        let named =
            texts(&record["notices"]).iter().any(|n| n.starts_with("node4 does not answer"));
        assert!(named, "{}", record["notices"]);
        assert!(!met(&record).iter().any(|pair| pair.contains("node4")));
    }
    no_orphans(&harness);
}

/// Prints what osu_latency 5.7 prints, for the sizes of `-m`, if it is one of two ranks.
const STAND_IN: &str = r##"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    int rank, ranks;
    long least = 8, most = 1024;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count > 2) sscanf(words[2], "%ld:%ld", &least, &most);
    if (ranks != 2) { if (!rank) fprintf(stderr, "This test requires exactly two processes\n"); }
    else if (!rank) {
        printf("# OSU MPI Latency Test v5.7\n# Size          Latency (us)\n");
        for (; least <= most; least *= 2) printf("%-*ld%*.2f\n", 10, least, 18, 1000.0);
    }
    MPI_Finalize();
    return ranks != 2;
}
"##;

#[test]
fn osu_programs_run_by_turns_with_the_probe() {
    let harness = Harness::new();
    let source = harness.write("latency.c", STAND_IN);
    for which in installed(&harness) {
        let folder = harness.path(&format!("{}/libexec/pt2pt", which.mpicc));
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("osu_latency");
        let made = Command::new(which.mpicc).arg(&source).arg("-o").arg(&program).status().unwrap();
        assert!(made.success());
        let args = [
            "--osu",
            &harness.arg(which.mpicc),
            "-m",
            "8:32",
            "--size-limit",
            "0.02",
            "--samples",
            "2",
            "--patterns",
            "latency",
        ];
        let record = mpi(&harness, which, &[&args[..], &["--json", "-"]].concat()).exits(0).json();
        let categories: Vec<&str> =
            measurements(&record).iter().map(|m| m["category"].as_str().unwrap()).collect();
        assert_eq!(categories, ["variant", "reference"].repeat(3));
        let (own, osu) = (&measurements(&record)[0], &measurements(&record)[1]);
        assert_eq!(osu["value"], 1e-3);
        // Where others disturb every round, all of the six at most stand.
        let rounds = own["summary"]["n"].as_u64().unwrap();
        assert!((1..=6).contains(&rounds), "{rounds}");
        assert_eq!(own["summary"]["n"], osu["summary"]["n"]);
        assert_eq!(own["config"]["rounds"], rounds);
        let ratio = own["config"]["over_osu"].as_f64().unwrap();
        assert!((ratio / (own["value"].as_f64().unwrap() / 1e-3) - 1.0).abs() < 1e-9);
        mpi(&harness, which, &args).exits(0).tells("osu 5.7").tells("by turns");
    }
    if installed(&harness).len() == 2 {
        // A build with the other MPI.
        let args = ["--osu", &harness.arg("mpicc.mpich"), "-m", "8:32", "--patterns", "latency"];
        mpi(&harness, OPEN_MPI, &args).exits(2).complains("it was not built with Open MPI");
    }
    harness.run(&["mpi", "--osu", &harness.arg("nothing")]).complains("hint:");
}

#[test]
fn tables_in_the_columns_of_osu_can_be_imported_again() {
    let harness = Harness::new();
    for which in installed(&harness).into_iter().take(1) {
        let text = mpi(&harness, which, &[&FAST[..], &["--patterns", "bw", "--osu-text"]].concat())
            .exits(0)
            .says("# Size      Bandwidth (MB/s)\n8 ")
            .stdout;
        let title = |line: &str| match line.starts_with("# nodegauge: OSU MPI") {
            true => "# OSU MPI Bandwidth Test v5.7\n".to_owned(),
            false => format!("{line}\n"),
        };
        let whole: String = text.lines().map(title).collect();
        let file = harness.write("saved.txt", whole);
        harness.run(&["history", "import", &file]).exits(0);
        let record = harness.run(&["history", "show", "latest", "--json"]).exits(0).json();
        assert_eq!(names(&record), ["bw"; 3]);
        assert_eq!(measurements(&record)[0]["category"], "reference");
    }
    let file = harness.write("other.txt", "# OSU MPI_Put Latency Test v7.2\n1 0.2\n");
    harness.run(&["history", "import", &file]).exits(2).complains("a test that is not known here");
}

#[test]
fn pairs_of_described_machines_are_shown() {
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
        .tells("other socket 0 - 64");
}

#[test]
fn a_node_without_mpi_is_gauged_all_the_same() {
    let harness = Harness::new();
    let empty = harness.path("bin");
    std::fs::create_dir_all(&empty).unwrap();
    let path = empty.display().to_string();
    harness
        .run_with(&[("PATH", &path)], &["run", "--samples", "1", "--budget", "0.5"])
        .tells("messages not measured: there is no mpicc on this node")
        .tells("openmpi-bin libopenmpi-dev, or mpich libmpich-dev");
}
