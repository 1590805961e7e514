//! Tests of faults in `docs/adversarial.md` that no other test provokes. A condition that would make a figure wrong is
//! prevented or reported with the figure.

use crate::device::has_opencl;
use crate::harness::{
    Harness, Outcome, Part, make_program, measurements, names, skip, texts, wait_for,
};
use crate::machine::control_group;
use crate::mpi::{FAST, installed};
use crate::thorough::control_group::ControlGroup;
use crate::thorough::io_faults::faults;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// Returns the texts of the findings of `doctor`.
fn findings(record: &Value) -> String {
    record["findings"].to_string()
}

#[test]
fn run_on_one_cpu_uses_one_thread_and_refuses_two() {
    let harness = Harness::new();
    let first = harness.first_cpu();
    let under = ["taskset", "-c", &first];
    let stream =
        ["stream", "--samples", "2", "--size", "1000000elements", "--budget", "1", "--no-save"];
    let of_one = [&stream[..], &["--json", "-"]].concat();
    let Some(outcome) = harness.run_under(&under, &of_one) else { return };
    let record = outcome.exits(0).json();
    assert_eq!(measurements(&record)[0]["config"]["threads"], 1);
    let two = harness.run_under(&under, &[&stream[..], &["--threads", "2"]].concat()).unwrap();
    two.exits(2).prints_nothing().warns(&format!(
        "cannot place 2 threads: this process may use 1 hardware thread ({first})"
    ));
}

#[test]
fn throttled_control_group_is_reported() {
    let harness = Harness::new();
    let shown = control_group(&harness, 100_000_000, 40_000_000);
    harness.write("groups/job/cpu.max", "20000 100000\n");
    harness.write("groups/job/cpu.stat", "nr_periods 100\nnr_throttled 86\nthrottled_usec 1\n");
    let shown: Vec<(&str, &str)> = shown.iter().map(|(what, at)| (what.as_str(), *at)).collect();
    let Some(outcome) = harness.run_where(&shown, &["doctor", "--json"]) else { return };
    let found = findings(&outcome.exits(0).json());
    assert!(found.contains("a quota of 0.20 CPUs"), "{found}");
    assert!(found.contains("stopped in 86 % of the scheduling periods"), "{found}");
}

#[test]
fn real_cpu_quota_is_found_and_disturbs_passes() {
    let harness = Harness::new();
    let Some(group) = ControlGroup::with_quota("quota", 20) else { return };
    let starter = group.starter();
    let under: Vec<&str> = starter.iter().map(String::as_str).collect();
    let args = ["stream", "--size", "1000000elements", "--dimms", "1024x20000", "--samples", "200"];
    let args = [&args[..], &["--no-save", "--json", "-"]].concat();
    let record = harness.run_under(&under, &args).unwrap().json();
    let disturbed = measurements(&record).iter().map(|m| m["disturbed"].as_array().unwrap().len());
    // One of these passes is the warm-up.
    assert!(disturbed.sum::<usize>() > measurements(&record).len(), "{record:#}");
    let is_throttled = group.is_throttled();
    let doctor = harness.run_under(&under, &["doctor", "--json"]).unwrap().exits(0).json();
    for of in [&record, &doctor] {
        assert!(findings(of).contains("a quota of 0.20 CPUs"), "{}", findings(of));
    }
    // On a busy machine, other programs may prevent the threads from using up their quota.
    let has_stopped = findings(&doctor).contains("% of the scheduling periods");
    assert!(has_stopped || !is_throttled, "{}", findings(&doctor));
}

/// Time lost to a quota must not be attributed to other programs.
#[test]
fn throttled_rating_has_the_quota_as_reason() {
    let harness = Harness::new();
    let Some(group) = ControlGroup::with_quota("throttled", 20) else { return };
    let starter = group.starter();
    let under: Vec<&str> = starter.iter().map(String::as_str).collect();
    let args =
        ["hpl", "-N", "2000", "--blas", "builtin", "--threads", "1", "--no-save", "--json", "-"];
    let record = harness.run_under(&under, &args).unwrap().json();
    // On a busy machine, other programs may prevent the threads from using up their quota.
    if group.throttled_share() < 0.6 {
        return;
    }
    for m in measurements(&record) {
        let reasons = texts(&m["validity"]["reasons"]).join("\n");
        assert!(reasons.contains("the CPU quota of the control group throttled"), "{m:#}");
        assert!(!reasons.contains("other load"), "{m:#}");
        assert!(!m["disturbed"].to_string().contains("another program used a core"), "{m:#}");
    }
}

#[test]
fn real_memory_limit_reduces_default_arrays_and_refuses_larger_arrays() {
    let harness = Harness::new();
    let limit = 200_000_000;
    let Some(group) = ControlGroup::with_memory("memory", limit) else { return };
    let starter = group.starter();
    let under: Vec<&str> = starter.iter().map(String::as_str).collect();
    let args = ["stream", "--samples", "1", "--dimms", "1024x20000", "--size", "1GiB"];
    let refused = harness.run_under(&under, &args).unwrap().exits(3).prints_nothing();
    refused.warns("3 arrays of 1 GiB need 3 GiB, but only ");
    let args = [&args[..5], &["--no-save", "--json", "-"]].concat();
    let record = harness.run_under(&under, &args).unwrap().exits(0).json();
    let bytes = measurements(&record)[0]["config"]["array_bytes"].as_u64().unwrap();
    assert!(3 * bytes <= limit, "{bytes}");
    // The kernel rounds the limit to whole pages.
    let known = record["machine"]["memory"]["cgroup_limit"].as_u64().unwrap();
    assert!(known <= limit && known > limit - (1 << 16), "{known}");
}

#[test]
fn opencl_device_is_refused_if_its_driver_exceeds_the_memory_limit() {
    let harness = Harness::new();
    if !has_opencl(&harness) {
        return;
    }
    let Some(group) = ControlGroup::with_memory("device", 64 << 20) else { return };
    let starter = group.starter();
    let under: Vec<&str> = starter.iter().map(String::as_str).collect();
    for part in ["stream", "peaks"] {
        let args = ["device", part, "--device", "opencl:0", "--samples", "1", "--no-save"];
        let refused = harness.run_under(&under, &args).unwrap().exits(3).prints_nothing();
        refused.warns("the driver of opencl:0 needs up to 256 MiB of host memory");
    }
}

/// Programs that load all CPUs. They end when this value is dropped.
struct Load(Vec<Child>);

impl Load {
    fn start(count: usize) -> Self {
        let spin = || {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            shell.spawn().unwrap()
        };
        Self((0..count).map(|_| spin()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn other_load_is_found_and_disturbs_passes() {
    let harness = Harness::new();
    let _load = Load::start(2 * harness.cpus());
    let doctor = harness.run(&["doctor", "--json"]).exits(0).json();
    assert!(findings(&doctor).contains("other-load"), "{}", findings(&doctor));
    let args = ["stream", "--size", "1000000elements", "--dimms", "1024x20000", "--budget", "3"];
    let record = harness.run(&[&args[..], &["--no-save", "--json", "-"]].concat()).exits(0).json();
    let disturbed = measurements(&record).iter().map(|m| m["disturbed"].as_array().unwrap().len());
    // One of these passes is the warm-up.
    assert!(disturbed.sum::<usize>() > measurements(&record).len(), "{record:#}");
}

#[test]
fn stop_signal_disturbs_a_pass_but_does_not_end_the_run() {
    let harness = Harness::new();
    let args = ["stream", "--size", "1000000elements", "--dimms", "1024x20000", "--budget", "6"];
    let args = [&args[..], &["--no-save", "--json", "run.json"]].concat();
    let running = harness.start(&args).shows("measuring");
    for _ in 0..8 {
        running.signal("STOP");
        let stat = format!("/proc/{}/stat", running.process());
        wait_for("the stop", || {
            let text = std::fs::read_to_string(&stat).unwrap();
            let state = text.rsplit_once(") ").unwrap().1.chars().next();
            (state == Some('T')).then_some(())
        });
        std::thread::sleep(std::time::Duration::from_millis(60));
        running.signal("CONT");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    running.end().exits(0);
    let record: Value =
        serde_json::from_slice(&std::fs::read(harness.path("run.json")).unwrap()).unwrap();
    assert_eq!(record["complete"], true);
    let reasons: Vec<&Value> = measurements(&record)
        .iter()
        .flat_map(|m| m["disturbed"].as_array().unwrap())
        .map(|sample| &sample["reason"])
        .collect();
    assert!(reasons.iter().any(|reason| **reason != json!("warm-up")), "{reasons:?}");
}

#[test]
fn wall_clock_set_back_during_the_run_changes_no_figure() {
    let harness = Harness::new();
    let library = faults(&harness);
    let stepped = [("LD_PRELOAD", library.to_str().unwrap()), ("FAULT", "stepped=3600")];
    let args = ["stream", "--size", "1000000elements", "--samples", "20", "--dimms", "1024x20000"];
    let args = [&args[..], &["--no-save", "--json", "-"]].concat();
    let record = harness.run_with(&stepped, &args).exits(0).json();
    let seconds = record["seconds"].as_f64().unwrap();
    assert!(seconds > 0.0 && seconds < 600.0, "{seconds}");
    for m in measurements(&record) {
        let samples = m["samples"].as_array().unwrap();
        // If too few passes are undisturbed, disturbed passes count and are in both lists. If a guest moved to other
        // CPUs of the host, the samples of its regimes are in lists of their own.
        let disturbed = m["disturbed"].as_array().unwrap();
        let mut of_regimes = 0;
        for regime in m["regimes"].as_array().unwrap() {
            of_regimes += regime["samples"].as_array().unwrap().len();
        }
        let all = samples.len().max(of_regimes) + disturbed.len();
        assert!(samples.len() <= 21 && all >= 21, "{m:#}");
        // A pass of an hour would have a rate of less than a megabyte per second.
        assert!(samples.iter().all(|rate| rate.as_f64().unwrap() > 1e6), "{m:#}");
    }
}

/// Runs `stream` with a fault, and returns the reasons of its figures.
fn reasons_with(fault: &str, more: &[&str]) -> Vec<String> {
    let harness = Harness::new();
    let library = faults(&harness);
    let variables = [("LD_PRELOAD", library.to_str().unwrap()), ("FAULT", fault)];
    let args = ["stream", "--size", "1000000elements", "--samples", "3", "--dimms", "1024x20000"];
    let args = [&args[..], more, &["--no-save", "--json", "-"]].concat();
    let record = harness.run_with(&variables, &args).json();
    assert_eq!(names(&record), ["copy", "scale", "add", "triad"]);
    let validity = |m: &Value| format!("{}: {}", m["validity"]["status"], m["validity"]["reasons"]);
    measurements(&record).iter().map(validity).collect()
}

/// With clock steps of 10 ms, a pass over small arrays takes one step or no time.
#[test]
fn coarse_clock_makes_short_loops_suspect() {
    for reasons in reasons_with("coarse=10000000", &["--threads", "1"]) {
        assert!(!reasons.starts_with("\"valid"), "{reasons}");
        let found = ["clock ticks; the minimum is 20", "a pass ended within one step of the clock"];
        assert!(found.iter().any(|found| reasons.contains(found)), "{reasons}");
    }
}

#[test]
fn figure_without_the_requested_huge_pages_is_suspect() {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if !enabled.is_ok_and(|enabled| enabled.contains("[madvise]") || enabled.contains("[always]")) {
        return;
    }
    for reasons in reasons_with("nothp", &["--pages", "thp"]) {
        assert!(reasons.starts_with("\"suspect"), "{reasons}");
        assert!(reasons.contains("but huge pages contain only 0 % of the arrays"), "{reasons}");
    }
}

/// An MPI that uses TCP although its ranks share memory is many times slower than nodegauge's own transport. Its figure
/// is suspect if the interval of the ratio excludes half the speed, and if neither figure is suspect for another
/// reason. On a busy machine, they may be suspect, or too few starts may be comparable.
#[test]
fn latency_of_an_mpi_that_uses_tcp_is_suspect_with_the_transport_as_reason() {
    let harness = Harness::new();
    if !harness.has_cpus(2) || !harness.has(Part::Mpi, "mpicc.openmpi") {
        return;
    }
    let args = ["mpi", "--mpicc", "mpicc.openmpi", "--patterns", "latency", "--sizes", "8"];
    let doubt = "check that the MPI uses shared memory; its transport is pml ob1, btl tcp";
    for budget in ["10", "20", "40"] {
        let args = [&args[..], &["--no-save", "--budget", budget, "--json", "run.json"]].concat();
        let outcome = harness.run_with(&[("OMPI_MCA_btl", "tcp,self")], &args);
        if outcome.code == Some(1) {
            return skip(Part::Mpi, "Open MPI cannot use TCP here");
        }
        outcome.exits(0).prints_words("Open MPI").prints_words("pml ob1, btl tcp");
        let record = std::fs::read(harness.path("run.json")).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        let [of_mpi, own] = &measurements(&record)[..] else { panic!("{record:#}") };
        let reasons = of_mpi["validity"]["reasons"].to_string();
        if reasons.contains(doubt) {
            return;
        }
        let floor = &of_mpi["config"]["floor"];
        assert!(floor["share"].as_f64().unwrap() < 0.5, "{floor}");
        let is_slow = floor["ci95"][1].as_f64().is_some_and(|high| high < 0.5);
        let are_valid = [of_mpi, own].iter().all(|m| m["validity"]["status"] == "valid");
        assert!(!(is_slow && are_valid), "{of_mpi:#}");
    }
}

/// Node on which no folder for temporary files permits execution. The folder of the harness, with the folders for
/// `TMPDIR` and the cache, and /dev/shm do not permit it; the program itself may be in `/tmp`.
struct NoExecution {
    harness: Harness,
    folder: String,
}

impl NoExecution {
    fn new() -> Self {
        let harness = Harness::without_probes();
        let folder = harness.arg("");
        Self { harness, folder }
    }

    /// Runs the program on this node; `more` replaces further files and folders.
    fn run(&self, more: &[(&str, &str)], args: &[&str]) -> Option<Outcome> {
        let own = [("noexec", self.folder.as_str()), ("noexec", "/dev/shm")];
        let variables = [("TMPDIR", self.folder.as_str())];
        self.harness.run_where_with(&variables, &[&own, more].concat(), args)
    }

    /// True if a record contains the notice that programs are executed in memory.
    fn is_named(&self, record: &Value) -> bool {
        let text = format!(
            "{:?} and /dev/shm do not permit execution (noexec, or a security module); compiled programs are executed in memory",
            self.folder
        );
        texts(&record["notices"]).contains(&text.as_str())
    }
}

/// Options for a short run of STREAM that prints its record.
const SHORT: [&str; 10] = [
    "stream",
    "--samples",
    "1",
    "--size",
    "1000000elements",
    "--dimms",
    "1024x20000",
    "--no-save",
    "--json",
    "-",
];

/// True if a record contains figures of an engine.
fn has_engine(record: &Value, engine: &str) -> bool {
    measurements(record).iter().any(|m| m["config"]["engine"] == engine && m["value"].is_number())
}

#[test]
fn compiled_programs_are_stored_where_execution_is_permitted() {
    let node = NoExecution::new();
    if !node.harness.has(Part::Compilers, "gcc") {
        return;
    }
    let compiled = [&SHORT[..], &["--compiler", "gcc"]].concat();
    let elsewhere = [("noexec", node.folder.as_str()), ("tmpfs:exec,mode=1777", "/dev/shm")];
    let variables = [("TMPDIR", node.folder.as_str())];
    let outcome = node.harness.run_where_with(&variables, &elsewhere, &compiled);
    let Some(outcome) = outcome else { return };
    let record = outcome.exits(0).json();
    assert!(has_engine(&record, "native") && has_engine(&record, "compiled"), "{record:#}");
    assert!(!record.to_string().contains("executed in memory"), "{record:#}");
    // /proc does not permit execution either, so programs in memory cannot be executed.
    let refused = node.run(&[("tmpfs:ro", "/proc")], &compiled).unwrap().exits(3).prints_nothing();
    refused
        .warns("no folder for compiled programs permits execution: ")
        .warns("\" and /dev/shm do not permit execution (noexec, or a security module), and programs in memory cannot be executed")
        .warns("hint: set TMPDIR to a folder that permits execution");
}

#[test]
fn compiled_programs_run_from_memory_without_an_executable_folder() {
    let node = NoExecution::new();
    if !node.harness.has(Part::Compilers, "gcc") {
        return;
    }
    let compiled = [&SHORT[..], &["--compiler", "gcc"]].concat();
    let Some(outcome) = node.run(&[], &compiled) else { return };
    let record = outcome.exits(0).json();
    assert!(has_engine(&record, "compiled") && node.is_named(&record), "{record:#}");

    // This source is a complete program.
    node.harness.write("stream.c", crate::standard::program("", crate::standard::PASSED));
    let standard = [&SHORT[..], &["--threads", "1", "--standard", "stream.c"]].concat();
    let of_standard = node.run(&[], &standard).unwrap().exits(0).json();
    let is_there = has_engine(&of_standard, "stream.c") && node.is_named(&of_standard);
    assert!(is_there, "{of_standard:#}");
}

#[test]
fn message_probe_runs_from_memory_without_an_executable_folder() {
    let node = NoExecution::new();
    for which in installed(&node.harness) {
        let args = ["mpi", "--no-floor", "--patterns", "latency", "--mpicc", which.mpicc];
        let args = [&args[..], &FAST[..], &["--no-save", "--json", "-"]].concat();
        let Some(outcome) = node.run(&[], &args) else { return };
        let record = outcome.exits(0).json();
        let figures = measurements(&record);
        assert!(
            !figures.is_empty() && figures.iter().all(|m| m["value"].is_number()),
            "{record:#}"
        );
        assert!(node.is_named(&record), "{record:#}");
        // Ranks on other hosts cannot execute a program in the memory of this process.
        let hosts = [&args[..], &["--hosts", "a,b"]].concat();
        let refused = node.run(&[], &hosts).unwrap().exits(3);
        refused
            .warns("no folder for programs that other hosts execute: ")
            .warns("hint: set NODEGAUGE_CACHE_DIR to a folder that all hosts share");
    }
}

/// Returns the notices of a record about folders that other users can exchange.
fn exposed_folder_notices(record: &Value) -> Vec<&str> {
    let exposed = |text: &&str| text.starts_with("other users can replace files in ");
    texts(&record["notices"]).into_iter().filter(exposed).collect()
}

#[test]
fn programs_are_not_compiled_in_folders_writable_by_other_users() {
    let harness = Harness::without_probes();
    if !harness.has(Part::Compilers, "gcc") {
        return;
    }
    let folder = harness.arg("open");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    let variables = [("TMPDIR", folder.as_str())];
    // The compiler lists the folder and then runs gcc.
    let listing = harness.arg("listing");
    let compiler = harness
        .write("listing-cc", format!("#!/bin/sh\nls '{folder}' >> '{listing}'\nexec gcc \"$@\"\n"));
    make_program(&compiler);
    let compiled = [&SHORT[..], &["--compiler", &compiler]].concat();
    let record = harness.run_with(&variables, &compiled).exits(0).json();
    assert!(has_engine(&record, "compiled"), "{record:#}");
    assert_eq!(std::fs::read_to_string(&listing).unwrap(), "");
    let notices = exposed_folder_notices(&record);
    assert!(notices[0].contains(&format!("{folder} (owner ")), "{notices:?}");
    assert!(notices[0].ends_with("; private folders are in /dev/shm"), "{notices:?}");

    // If other users can exchange all folders, the private folder is used by its descriptor.
    let everywhere = [("tmpfs:exec,mode=777", "/dev/shm")];
    let Some(outcome) = harness.run_where_with(&variables, &everywhere, &compiled) else { return };
    let of_descriptor = outcome.exits(0).json();
    assert!(has_engine(&of_descriptor, "compiled"), "{of_descriptor:#}");
    let exposed = exposed_folder_notices(&of_descriptor);
    assert_eq!(exposed.len(), 2, "{exposed:?}");
    let by_descriptor = "; private folders are accessed by file descriptors";
    assert!(exposed.iter().all(|text| text.ends_with(by_descriptor)), "{exposed:?}");
    assert!(std::fs::read_dir(&folder).unwrap().next().is_none());
}

#[test]
fn node_without_sys_or_proc_is_measured() {
    let harness = Harness::new();
    let machine = harness.run(&["machine", "--json"]).exits(0).json()["machine"].clone();
    for absent in [&["/sys"][..], &["/proc"], &["/sys", "/proc"]] {
        let shown: Vec<(&str, &str)> = absent.iter().map(|folder| ("tmpfs:ro", *folder)).collect();
        let stream =
            ["stream", "--samples", "2", "--size", "1000000elements", "--no-save", "--json", "-"];
        let Some(outcome) = harness.run_where(&shown, &stream) else { return };
        let record = outcome.exits(0).json();
        assert_eq!(measurements(&record).len(), 4, "without {absent:?}");
        let described = harness.run_where(&shown, &["machine"]).unwrap().exits(0);
        let described = described.prints("processor ").stdout;
        let examined = harness.run_where(&shown, &["doctor"]).unwrap().exits(0).stdout;
        for text in [&described, &examined] {
            assert!(!text.contains(" 0 B"), "without {absent:?}: {text}");
            assert!(!text.contains("no transparent huge pages"), "without {absent:?}: {text}");
        }
        // The name, and whether it is virtual, are read from the processor itself.
        if cfg!(target_arch = "x86_64") && !machine["virtual"].is_null() {
            assert!(!described.contains("no virtualisation"), "without {absent:?}: {described}");
            assert!(!described.contains("unknown processor"), "without {absent:?}: {described}");
        }
    }
}

#[test]
fn full_or_read_only_home_is_refused_before_measuring() {
    let harness = Harness::new();
    harness.write(".local/share/keep", "");
    let home = harness.arg(".local/share");
    let stream = ["stream", "--samples", "1", "--size", "1000000elements"];
    for (options, hint) in
        [("tmpfs:ro", "use --no-save, or --db FILE"), ("tmpfs:size=4k", "--db FILE")]
    {
        let shown = [(options, home.as_str())];
        let Some(outcome) = harness.run_where(&shown, &stream) else { return };
        outcome.exits(3).prints_nothing().warns("cannot write history database").warns(hint);
    }
}
