//! Tests with the user's programs, with and without a launcher. After a run, no process and no file may remain.
#![allow(clippy::unwrap_used)]

use nodegauge_machine::{Topology, TopologySource};
use nodegauge_measure::Failure;
use nodegauge_os::StackLimit;
use nodegauge_placement::{PlacementRequest, RankPlan, RankRequest, plan_ranks};
use nodegauge_toolchain::mpi::{LauncherKind, MpiLaunch, MpiLauncher, RankPlaces};
use nodegauge_toolchain::program::{
    InputFile, ProgramJob, ProgramOutput, WorkingFolder, run, run_with_listener,
};
use nodegauge_toolchain::{ChildEnd, CommandLine, KillReason, ToolchainError};
use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);

/// Script of a launcher with Open MPI's options. It starts the program once, in a new session as Open MPI does for
/// ranks, and leaves files in its session folder and in its folder for shared memory.
const LAUNCHER: &str = r#"
    mkdir "$TMPDIR/ompi.host.0"; echo x >"$TMPDIR/ompi.host.0/contact"
    echo segment >"$OMPI_MCA_btl_vader_backing_directory/vader_segment.0"
    echo "folders $TMPDIR $OMPI_MCA_btl_vader_backing_directory"
    while [ "$1" != /bin/sh ]; do [ "$1" = --rankfile ] && echo "rankfile $(cat $2)"; shift; done
    setsid "$@" & wait $!"#;

fn script(text: &str) -> CommandLine {
    CommandLine::new("/bin/sh", ["-c", text, "sh"])
}

fn launcher() -> MpiLauncher {
    let version = Some("4.1.4".to_owned());
    let kind = LauncherKind::OpenMpi;
    MpiLauncher { command: script(LAUNCHER), kind, title: "Open MPI", version, binds: true }
}

fn topology() -> Topology {
    Topology::load(&TopologySource::Synthetic("Package:1 Core:2 PU:1".to_owned())).unwrap()
}

fn plan(topology: &Topology) -> RankPlan {
    let all_threads = PlacementRequest::default();
    plan_ranks(topology, &RankRequest { ranks: 1, all_threads, ..RankRequest::default() }).unwrap()
}

/// Returns a job in which the launcher runs a script in a private folder.
fn with_launcher<'a>(
    text: &str,
    launcher: &'a MpiLauncher,
    topology: &'a Topology,
    plan: &'a RankPlan,
) -> ProgramJob<'a> {
    let ranks = RankPlaces::Planned { plan: Cow::Borrowed(plan), topology };
    let options = vec!["--quiet".to_owned()];
    let launch = MpiLaunch { launcher, needs_root_option: true, options, ranks };
    let input = InputFile { name: "input", text: "17\n".to_owned() };
    ProgramJob::new(script(text), LONG)
        .with_launcher(launch)
        .with_folder(WorkingFolder::Private(vec![input]))
}

/// Returns the session folder and the folder for shared memory, which the launcher printed.
fn folders(stdout: &str) -> Vec<String> {
    let line = stdout.lines().find_map(|line| line.strip_prefix("folders ")).unwrap();
    line.split(' ').map(str::to_owned).collect()
}

fn assert_gone(folders: &[String]) {
    assert_eq!(folders.len(), 2);
    for folder in folders {
        assert!(folder.contains("nodegauge-"), "{folder} is one of the run");
        assert!(!Path::new(folder).exists(), "{folder} is left");
    }
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn launched_program_reads_input_and_returns_output() {
    let launcher = launcher();
    let topology = topology();
    let plan = plan(&topology);
    let text = "cat input; echo written >output; echo more >>input; head -c 8 /dev/zero >image; \
                printf '\\377' >broken; echo last >&2";
    let output = run(&with_launcher(text, &launcher, &topology, &plan), &|| false).unwrap();
    assert!(output.status().unwrap().success());
    assert_gone(&folders(&output.stdout));
    assert!(output.stdout.contains("rankfile rank 0=localhost slot="), "{}", output.stdout);
    assert!(output.stdout.ends_with("\n17\n"), "{}", output.stdout);
    assert_eq!((output.file("output"), output.file("input")), (Some("written\n"), None));
    assert_eq!((output.file("broken"), output.file("ranks")), (None, None));
    let words = output.launcher.as_ref().unwrap().words().join(" ");
    assert!(words.contains(" sh --allow-run-as-root --quiet -np 1 "), "{words}");
    let error = Failure::from(output.missing_result_error(None, "try again")).to_string();
    assert!(
        error.ends_with("returned no result (exit status 0):\nlast\nhint: try again"),
        "{error}"
    );
}

/// Script of a rank that starts a daemon and then waits.
const HANGS: &str = "setsid sh -c 'trap \"\" TERM INT; echo daemon $$; exec sleep 60' & \
                     echo rank $$; wait";

/// Returns the process IDs of the rank and the daemon, as far as they have been printed.
fn processes(stdout: &str) -> Vec<&str> {
    let number = |line: &'_ str| {
        let printed = line.strip_prefix("rank ").or_else(|| line.strip_prefix("daemon "));
        printed.filter(|number| !number.is_empty()).is_some()
    };
    let lines = stdout.lines().filter(|line| number(line));
    lines.filter_map(|line| line.split(' ').nth(1)).collect()
}

fn assert_ended(stdout: &str) {
    let processes = processes(stdout);
    assert_eq!(processes.len(), 2, "{stdout}");
    for pid in processes {
        assert!(!is_alive(pid), "process {pid} is left");
    }
}

#[test]
fn interrupted_program_leaves_nothing_behind() {
    let launcher = launcher();
    let topology = topology();
    let plan = plan(&topology);
    let mut stdout = String::new();
    let mut interrupt = |lines: &str| {
        stdout.push_str(lines);
        (processes(&stdout).len() == 2).then_some(KillReason::Interrupted)
    };
    let output =
        run_with_listener(&with_launcher(HANGS, &launcher, &topology, &plan), &mut interrupt)
            .unwrap();
    assert!(matches!(output.status(), Err(ToolchainError::Interrupted)));
    assert_ended(&stdout);
    assert_gone(&folders(&stdout));
}

#[test]
fn hanging_program_leaves_nothing_behind() {
    let launcher = launcher();
    let topology = topology();
    let plan = plan(&topology);
    let hanging = ProgramJob {
        limit: Duration::from_secs(1),
        ..with_launcher(HANGS, &launcher, &topology, &plan)
    };
    let output = run(&hanging, &|| false).unwrap();
    assert_eq!(output.end, ChildEnd::Killed(KillReason::TimedOut));
    assert_ended(&output.stdout);
    assert_gone(&folders(&output.stdout));
}

#[test]
fn program_with_endless_output_ends_with_a_hint() {
    let endless = ProgramJob { output_limit: 1 << 20, ..ProgramJob::new(script("exec yes"), LONG) };
    let output = run(&endless, &|| false).unwrap();
    assert_eq!(output.stdout.len(), 1 << 20);
    let error = Failure::from(output.require_success("").unwrap_err()).to_string();
    assert_eq!(
        error,
        "/bin/sh -c 'exec yes' sh printed more than 1 MiB and was killed\n\
         hint: run the program manually to see its output"
    );
}

#[test]
fn memory_fault_has_hint_about_stack_limit() {
    let remedy = |soft: Option<u64>, hard: Option<u64>| {
        let job = ProgramJob::new(script("kill -SEGV $$"), LONG);
        let job = job.with_stack(Some(StackLimit { soft, hard }));
        let output = run(&job, &|| false).unwrap();
        Failure::from(output.require_success("").unwrap_err()).hint
    };
    let needs = "if its local arrays need more than 4 MiB of stack, ";
    let below = format!("{needs}run 'ulimit -s 6144' first");
    assert_eq!(remedy(Some(4 << 20), Some(6 << 20)), Some(below));
    let at_most =
        format!("{needs}raise the hard limit (ulimit -Hs, limits.conf, the job scheduler)");
    assert_eq!(remedy(Some(4 << 20), Some(4 << 20)), Some(at_most));
    // A program that ended for another reason gets no hint about the stack.
    let job = ProgramJob::new(script("kill -ABRT $$"), LONG);
    let aborted = run(&job, &|| false).unwrap().require_success("").unwrap_err();
    assert_eq!(Failure::from(aborted).hint, None);
}

#[test]
fn failures_are_reported_with_last_output_and_hint() {
    let fails = |text: &str| -> ProgramOutput {
        run(&ProgramJob::new(script(text), LONG), &|| false).unwrap()
    };
    let error = Failure::from(fails("echo why >&2; exit 3").require_success("ask").unwrap_err());
    let error = error.to_string();
    assert!(error.ends_with(" ended with exit status 3:\nwhy\nhint: ask"), "{error}");
    let exit_error = fails("exit 3").require_success("").unwrap_err().to_string();
    assert!(exit_error.ends_with(" ended with exit status 3"), "{exit_error}");
    let output = fails("echo no licence >&2; echo ---- >&2");
    let silent_error = Failure::from(output.missing_result_error(None, "ask")).to_string();
    assert!(
        silent_error.ends_with("returned no result (exit status 0):\nno licence\nhint: ask"),
        "{silent_error}"
    );
    let words_error =
        Failure::from(output.missing_result_error(Some("its own words"), "ask")).to_string();
    assert!(words_error.contains(":\nits own words\n"), "{words_error}");
}
