//! Tests of `mpi` with failing ranks, launchers and compilers.

use crate::harness::{Harness, OPEN_MPI_AS_ROOT, Outcome, Part, make_program, skip, texts};
use crate::mpi::{FAST, MPICH, Mpi, OPEN_MPI, figure, installed, mpi, no_orphans};
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// Returns launcher options that preload a fault into the ranks.
fn preload(harness: &Harness, which: Mpi, fault: &str) -> String {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/thorough/mpi_faults.c");
    let library = harness.arg(&format!("faults-{fault}.so"));
    let made = Command::new(which.mpicc)
        .args(["-shared", "-fPIC", "-o", &library])
        .arg(source)
        .status()
        .unwrap();
    assert!(made.success());
    match which.variable {
        "-x" => format!("-x LD_PRELOAD={library} -x FAULT={fault}"),
        _ => format!("-genv LD_PRELOAD {library} -genv FAULT {fault}"),
    }
}

/// Runs `nodegauge mpi` with a fault.
fn with_fault(harness: &Harness, which: Mpi, fault: &str, args: &[&str]) -> Outcome {
    let launcher = format!("{} {}", which.mpirun, preload(harness, which, fault));
    mpi(harness, which, &[&["--launcher", &launcher], args].concat())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

#[test]
fn open_mpi_as_root_needs_permission_for_user_programs() {
    let harness = Harness::new();
    if !is_root() {
        return skip(Part::Root, "whoever is not root is not refused");
    }
    if !harness.has(Part::Mpi, OPEN_MPI.mpicc) || !harness.has_cpus(2) {
        return;
    }
    let args = [&["mpi", "--mpicc", "mpicc.openmpi", "--patterns", "latency"], &FAST[..]].concat();
    let option =
        "ranks run as root, so /usr/bin/mpirun.openmpi was started with --allow-run-as-root";
    harness.run(&args).exits(0).prints_words(option);
    let launcher = harness.latest()["measurements"][0]["config"]["mpi"]["launcher"].clone();
    assert!(launcher.as_str().unwrap().contains(" --allow-run-as-root "), "{launcher}");
    // If the environment permits root for Open MPI, no hint is printed.
    harness.run_with(&OPEN_MPI_AS_ROOT, &[&args[..], &["--json"]].concat()).exits(0);
    let notices = harness.latest()["notices"].to_string();
    assert!(!notices.contains("as root"), "{notices}");
    std::fs::write(harness.path("osu_latency"), "#!/bin/sh\n").unwrap();
    make_program(&harness.arg("osu_latency"));
    let folder = harness.arg("");
    let refused =
        "refuses to start programs as root\nhint: run as another user, or pass --allow-run-as-root";
    harness.run(&[&args[..], &["--osu", &folder]].concat()).exits(3).warns(refused);
    // If a program cannot be started, the run ends before anything is measured.
    let program = harness.arg("osu_latency");
    let by_open_mpi = ["--launcher", "mpirun.openmpi", "--budget", "60"];
    for real in [["apps", "hpcg", "--xhpcg", &program], ["hpl", "--ranks=2", "--xhpl", &program]] {
        let before = harness.latest();
        harness.run(&[&real[..], &by_open_mpi].concat()).exits(3).warns(refused);
        assert_eq!(harness.latest()["id"], before["id"], "{real:?}");
    }
}

#[test]
fn barriers_separate_batches_of_several_pairs_but_not_operations() {
    let harness = Harness::new();
    for which in installed(&harness) {
        // Returns the number of barriers, and the maximum number of batches, of which the last one may be incomplete.
        let barriers = |pattern: &str, bytes: u64| -> (u64, u64) {
            let size = bytes.to_string();
            let how = ["-i", "1000", "-x", "0", "--validate", "0", "--json", "-"];
            // The limit is sufficient for all batches, even on a busy machine.
            let args = ["--patterns", pattern, "-m", &size, "--size-limit", "20"];
            let args = [&args[..], &how].concat();
            let record = with_fault(&harness, which, "count", &args).exits(0).json();
            let config = &figure(&record, pattern, bytes)["config"];
            let count = std::fs::read_to_string(harness.path("faults-count.so.count")).unwrap();
            (count.parse().unwrap(), 1000 / config["batch_operations"].as_u64().unwrap() + 1)
        };
        // There is one barrier per batch. With a barrier per operation, there would be 1000 more.
        let (counted, batches) = barriers("barrier", 0);
        assert!((1000..1500 + batches).contains(&counted), "{} {counted} {batches}", which.name);
        // Each size begins and ends with a barrier; the other barriers belong to batches.
        let (together, _) = barriers("multi_lat", 8);
        assert!(together > 3, "{} {together}", which.name);
        assert_eq!(barriers("latency", 8).0, 2, "{}", which.name);
    }
}

#[test]
fn buffers_beyond_memory_are_refused_and_large_sizes_omitted() {
    let harness = Harness::new();
    for which in installed(&harness).into_iter().take(1) {
        let own = ["mpi", "--mpicc", which.mpicc, "--patterns"];
        harness
            .run(
                &[&own[..], &["bw", "-m", "1GiB", "-b", "multiple", "-W", "1024", "-M", "100TB"]]
                    .concat(),
            )
            .exits(3)
            .warns("the buffers of bw among 2 ranks need 4 TiB");
        let small =
            ["alltoall", "--ranks", "2", "-m", "8,1MiB", "-M", "1MiB", "--size-limit", "0.01"];
        let few = [&own[..], &small].concat();
        harness
            .run(&few)
            .exits(0)
            .prints_words("alltoall among 2 ranks is measured only up to 8 B");
        let with = |rest: &[&str]| harness.run(&[&own[..], &["alltoall"], rest].concat());
        with(&["--ranks", "2", "-m", "8,1GiB", "--size-limit", "0.01"])
            .exits(0)
            .prints_words("is measured only up to 8 B: buffers of larger sizes exceed 512 MiB");
        with(&["-m", "1GiB"]).exits(2).warns("is larger than 512 MiB for every size");
        with(&["-m", "0"]).exits(2).warns("no requested size is valid for alltoall");
    }
}

#[test]
fn hanging_probe_is_killed_and_results_are_kept() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let args = [&FAST[..], &["--patterns", "latency", "--json", "-"]].concat();
        let record = with_fault(&harness, which, "hang", &args).exits(1).json();
        assert!(figure(&record, "latency", 8)["value"].is_number());
        let hung = figure(&record, "latency", 1024);
        assert_eq!(
            (&hung["value"], &hung["validity"]["status"]),
            (&Value::Null, &"invalid".into())
        );
        assert!(texts(&hung["validity"]["reasons"])[0].contains("without output"));
        no_orphans(&harness);
        harness.run(&["history", "show", "latest"]).exits(0).prints_words("were killed");
    }
}

#[test]
fn dead_rank_is_reported_with_the_message_size() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let args = [&FAST[..], &["--patterns", "latency"]].concat();
        with_fault(&harness, which, "die", &args)
            .exits(1)
            .prints_words("a rank or the launcher ended")
            .prints_words("during latency of 1 KiB");
        no_orphans(&harness);
    }
}

#[test]
fn figure_with_corrupted_data_is_invalid() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let args = [&FAST[..], &["--patterns", "latency", "--json"]].concat();
        let record = with_fault(&harness, which, "corrupt", &args).exits(1).json();
        let wrong = figure(&record, "latency", 1024);
        assert_eq!((&wrong["value"], &wrong["config"]["validated"]), (&Value::Null, &false.into()));
        assert_eq!(
            texts(&wrong["validity"]["reasons"])[0],
            "corrupted data: 2 bytes received incorrectly"
        );
        assert!(figure(&record, "latency", 64)["value"].is_number());
        // Without validation, the fault is not detected.
        let args = [&args[..], &["--validate", "0"]].concat();
        with_fault(&harness, which, "corrupt", &args).exits(0);
        no_orphans(&harness);
    }
}

#[test]
fn pattern_of_threads_requires_thread_support_of_the_mpi() {
    let harness = Harness::new();
    for which in installed(&harness) {
        let named = [&FAST[..], &["--patterns", "latency_mt", "--threads", "1:1"]].concat();
        with_fault(&harness, which, "single", &named)
            .exits(1)
            .prints_words("does not provide MPI_THREAD_MULTIPLE");
        with_fault(&harness, which, "single", &FAST).exits(0).prints_words("latency_mt left out");
        no_orphans(&harness);
    }
}

#[test]
fn too_few_slots_are_reported_with_a_hint() {
    let harness = Harness::new();
    if !harness.has_cpus(2) || !harness.has(Part::Mpi, OPEN_MPI.mpicc) {
        return;
    }
    // This launcher behaves as on a host with one slot.
    let script = harness.write(
        "mpirun",
        "#!/bin/sh\n[ \"$1\" = --version ] && exec mpirun.openmpi --version\n\
         for program; do case $program in */messages-*|/proc/*/fd/*) break ;; esac; done\n\
         exec mpirun.openmpi --allow-run-as-root --host localhost:1 -np 2 \"$program\"\n",
    );
    make_program(&script);
    let args = [&FAST[..], &["--launcher", &script, "--patterns", "latency"]].concat();
    mpi(&harness, OPEN_MPI, &args)
        .exits(3)
        .warns("has too few slots for 2 ranks")
        .warns("hint: use fewer --ranks");
    no_orphans(&harness);
}

#[test]
fn launcher_of_another_mpi_is_detected() {
    let harness = Harness::new();
    if installed(&harness).len() < 2 {
        return;
    }
    let args = [&FAST[..], &["--launcher", "mpirun.mpich"]].concat();
    mpi(&harness, OPEN_MPI, &args)
        .exits(2)
        .warns("starts programs of MPICH")
        .warns("every rank would be rank 0 of 1");
    // This launcher reports the version of another MPI, so only the ranks can detect the mismatch.
    let script = harness.write(
        "mpirun",
        "#!/bin/sh\n[ \"$1\" = --version ] && exec mpirun.mpich --version\n\
         while :; do case $1 in */messages-*|/proc/*/fd/*) break ;; esac; shift; done\n\
         exec mpirun.openmpi --allow-run-as-root -np 2 \"$@\"\n",
    );
    make_program(&script);
    let script_args = [&FAST[..], &["--launcher", &script, "--patterns", "latency"]].concat();
    mpi(&harness, MPICH, &script_args)
        .exits(3)
        .warns("2 ranks were requested, and each rank reports a world size of 1");
    no_orphans(&harness);
}

#[test]
fn missing_or_broken_compiler_is_reported() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    harness
        .run(&["mpi", "--mpicc", "mpicc-of-nobody"])
        .exits(3)
        .warns("there is no mpicc-of-nobody on this node\nhint: install an MPI (on Debian: openmpi-bin libopenmpi-dev, or mpich libmpich-dev");
    harness.run(&["mpi", "--mpicc", "true"]).exits(3).warns("is not a known MPI compiler wrapper");
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
            .warns("error: no such header");
    }
}

#[test]
fn killed_ranks_leave_no_shared_memory() {
    let harness = Harness::new();
    for which in installed(&harness) {
        // This launcher does not clean up, and is killed together with its ranks.
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && exec {mpirun} \"$@\"\ntrap '' INT TERM HUP\n{mpirun} {} \"$@\"\n",
            preload(&harness, which, "hang"),
            mpirun = which.mpirun
        );
        let launcher = harness.write(&format!("stubborn-{}", which.mpirun), text);
        make_program(&launcher);
        let memory = harness.arg(&format!("memory-{}", which.mpirun));
        std::fs::create_dir(&memory).unwrap();
        let own = ["mpi", "--launcher", &launcher, "--mpicc", which.mpicc, "--patterns", "latency"];
        let shown = [(memory.as_str(), "/dev/shm")];
        let Some(run) = harness.run_where(&shown, &[&own[..], &FAST].concat()) else { return };
        run.exits(1).prints_words("no output for");
        no_orphans(&harness);
        let left: Vec<_> = std::fs::read_dir(&memory).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Creates a program that creates the file `run` when it is started.
fn trap(harness: &Harness, name: &str) -> String {
    let script = harness.write(name, format!("#!/bin/sh\ntouch {}\n", harness.arg("run")));
    make_program(&script);
    script
}

#[test]
fn planted_probe_is_not_executed() {
    let harness = Harness::without_probes();
    let Some(which) = installed(&harness).into_iter().next() else { return };
    let args = [&FAST[..], &["--patterns", "latency"]].concat();
    let first = mpi(&harness, which, &args).exits(0);
    assert!(!first.stdout.contains("not cached"), "{}", first.stdout);
    let cache = harness.path(".cache/nodegauge");
    let kept = || -> Vec<_> {
        let all = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.extension().is_none()).collect()
    };
    // The run executes a temporary copy and removes it, so only the cached probe is left.
    let [probe] = &kept()[..] else { panic!("{:?}", kept()) };
    let genuine = std::fs::read(probe).unwrap();
    let trap = trap(&harness, "trap");
    let runs_anew = |why: &str| {
        let reported = format!(
            "the cached probe is not used, and the probe was compiled again: {}",
            probe.display()
        );
        mpi(&harness, which, &args).exits(0).prints_words(&reported).prints_words(why);
        assert!(!harness.path("run").exists(), "{why}: the planted program was run");
        assert_eq!(std::fs::read(probe).unwrap(), genuine, "{why}");
    };
    let private = || std::fs::set_permissions(probe, Permissions::from_mode(0o700)).unwrap();
    std::fs::copy(&trap, probe).unwrap();
    private();
    runs_anew("has changed since it was compiled");
    std::fs::remove_file(probe).unwrap();
    std::os::unix::fs::symlink(&trap, probe).unwrap();
    runs_anew("is a symbolic link");
    std::fs::set_permissions(probe, Permissions::from_mode(0o775)).unwrap();
    runs_anew("can be changed by others");
    if is_root() {
        std::os::unix::fs::chown(probe, Some(65_534), None).unwrap();
        runs_anew("belongs to another user");
    }
    // If the cache is a symbolic link, it is neither read nor written.
    std::fs::rename(&cache, harness.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(harness.path("elsewhere"), &cache).unwrap();
    mpi(&harness, which, &args)
        .exits(0)
        .prints_words("nodegauge is a symbolic link or not a folder");
}

#[test]
fn relative_folders_in_the_search_path_are_skipped() {
    let harness = Harness::new();
    for name in ["mpicc", "gcc", "mpirun"] {
        trap(&harness, name);
    }
    // An empty element in the search path denotes the current folder.
    let path = format!(":.:{}", std::env::var("PATH").unwrap());
    let environment = [("PATH", path.as_str()), ("LD_LIBRARY_PATH", ".")];
    let run = harness.run_with(&environment, &["stream", "--compiler", "gcc", "--samples", "1"]);
    run.prints_words("PATH: \"\", \".\" skipped").prints_words("LD_LIBRARY_PATH: \".\" skipped");
    for which in installed(&harness).into_iter().take(1) {
        let args = [&["mpi", "--patterns", "latency"], &FAST[..]].concat();
        harness.run_with(&environment, &args).exits(0).prints_words(which.name);
    }
    assert!(!harness.path("run").exists(), "a program of the current folder was run");
}

#[test]
fn interrupted_run_leaves_only_its_record() {
    let harness = Harness::new();
    for (which, (signal, code)) in installed(&harness).iter().zip([("HUP", 129), ("INT", 130)]) {
        // This launcher is killed before it removes its folders.
        let temporary = harness.arg(which.mpirun);
        std::fs::create_dir(&temporary).unwrap();
        let launcher = harness.arg(&format!("stubborn-{}", which.mpirun));
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && exec {mpirun} \"$@\"\ntrap '' INT TERM HUP\n{mpirun} \"$@\"\n",
            mpirun = which.mpirun
        );
        std::fs::write(&launcher, text).unwrap();
        make_program(&launcher);
        let running = harness.start_with(
            &[("TMPDIR", &temporary)],
            &[
                "mpi",
                "--launcher",
                &launcher,
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
            ],
        );
        // The run measures one of its message sizes.
        let running = running.shows(": latency, ");
        running.signal(signal);
        running.end().exits(code).warns("interrupted");
        no_orphans(&harness);
        assert_eq!(harness.latest()["complete"], false);
        let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn node_without_mpi_is_measured() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let empty = harness.path("bin");
    std::fs::create_dir_all(&empty).unwrap();
    let path = empty.display().to_string();
    harness
        .run_with(&[("PATH", &path)], &["run", "--samples", "1", "--budget", "0.5"])
        .exits(0)
        .prints_words("no MPI, shm")
        .prints_words("messages use nodegauge's own transport");
}
