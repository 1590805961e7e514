//! Tests of users' programs that hang, start daemons or print without end. They are killed, and neither processes nor
//! files are left.

use crate::harness::{Harness, Part, is_running, make_program, wait_for};
use crate::hpl::SMALL;
use crate::pages::golden;
use std::path::Path;

/// Program whose ranks start a daemon and wait. Rank and daemon write their process identifiers, and the rank writes
/// the folders of its run.
const HANGS: &str = r#"#!/bin/sh
setsid sh -c 'trap "" TERM INT HUP; echo $$ >>"$HOME/processes"; exec sleep 300' &
echo "$TMPDIR $OMPI_MCA_btl_vader_backing_directory" >"$HOME/folders"
echo $$ >>"$HOME/processes"
wait
"#;

/// Returns `count` process identifiers as soon as they have been written.
#[track_caller]
fn processes(harness: &Harness, count: usize) -> Vec<u32> {
    wait_for("numbers of processes", || {
        let text = std::fs::read_to_string(harness.path("processes")).ok()?;
        let numbers: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (text.ends_with('\n') && numbers.len() == count).then_some(numbers)
    })
}

#[track_caller]
fn assert_ended(processes: &[u32]) {
    for process in processes {
        assert!(!is_running(*process), "process {process} is left");
    }
}

/// Returns the entries of a folder that the launcher or nodegauge created.
fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn interrupted_hpl_leaves_no_process_and_no_folder() {
    let harness = Harness::new();
    if !harness.has(Part::Mpi, "mpirun.openmpi") {
        return;
    }
    let program = harness.write("xhpl", HANGS);
    make_program(&program);
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let temporary = harness.path(signal);
        std::fs::create_dir(&temporary).unwrap();
        let variables = [("TMPDIR", temporary.to_str().unwrap())];
        let launcher = ["--launcher", "mpirun.openmpi", "--allow-run-as-root", "--ranks", "1"];
        let args = [&["hpl", "--xhpl", &program], &launcher[..], &SMALL].concat();
        let running = harness.start_with(&variables, &args);
        let processes = processes(&harness, 2);
        let folders = std::fs::read_to_string(harness.path("folders")).unwrap();
        assert_eq!(folders.split_whitespace().count(), 2, "{folders}");
        running.signal(signal);
        running.end().exits(code);
        assert_ended(&processes);
        for folder in folders.split_whitespace() {
            assert!(!Path::new(folder).exists(), "{folder} is left");
        }
        assert_eq!(entries(&temporary), [] as [String; 0]);
        std::fs::remove_file(harness.path("processes")).unwrap();
    }
}

#[test]
fn program_with_endless_output_is_killed_and_reported() {
    let harness = Harness::new();
    let endless = harness.write("endless", "#!/bin/sh\nexec yes 'more and more and more'\n");
    make_program(&endless);
    let run = ["compare", "--run", &endless, "stream --budget 1", "--blocks", "3"];
    harness.run(&run).exits(3).warns("printed more than 64 MiB and was killed\nhint: ");
    let numbers = harness.write("babelstream", "#!/bin/sh\nyes 1 | tr -d '\\n'\n");
    make_program(&numbers);
    let numbers_run = ["compare", "--run", &numbers, "stream --budget 1", "--blocks", "3"];
    harness.run(&numbers_run).exits(3).warns("printed more than 64 MiB and was killed\nhint: ");
}

#[test]
fn interrupted_query_of_a_program_leaves_no_process_or_file() {
    let harness = Harness::new();
    let hangs = harness.write("hangs", HANGS);
    make_program(&hangs);
    let temporary = harness.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let variables = [("TMPDIR", temporary.to_str().unwrap())];
    for args in [["mpi", "--mpicc", &hangs], ["mpi", "--launcher", &hangs], ["io", "--fio", &hangs]]
    {
        if args[0] == "mpi" && !harness.has_cpus(2) {
            continue;
        }
        let running = harness.start_with(&variables, &args);
        let processes = processes(&harness, 2);
        // Ctrl-C has the same effect, but a shell that starts the tests in the background ignores it.
        running.signal("TERM");
        let outcome = running.end();
        assert_eq!(outcome.code, None, "ended by the signal: {}", outcome.stderr);
        assert_ended(&processes);
        assert_eq!(entries(&temporary), [""; 0], "{args:?}");
        std::fs::remove_file(harness.path("processes")).unwrap();
    }
}

#[test]
fn write_beyond_the_file_size_limit_is_an_error_and_leaves_nothing() {
    let harness = Harness::new();
    std::fs::create_dir(harness.path("measured")).unwrap();
    // In sh's ulimit, a block has 512 B.
    let limited = ["sh", "-c", "ulimit -f 20 && exec \"$@\"", "sh"];
    let io = [
        "io",
        "-q",
        "--path",
        "measured",
        "--file-sizes",
        "64KiB",
        "--block-sizes",
        "4KiB",
        "--no-save",
    ];
    let Some(outcome) = harness.run_under(&limited, &io) else { return };
    outcome.exits(3).warns("File too large");
    assert_eq!(entries(&harness.path("measured")), [""; 0]);

    let record = golden("stream").to_str().unwrap().to_owned();
    std::fs::create_dir(harness.path("pages")).unwrap();
    let report = ["report", record.as_str(), "--output", "pages/page.html"];
    harness.run_under(&limited, &report).unwrap().exits(3).warns("File too large");
    assert_eq!(entries(&harness.path("pages")), [""; 0]);
}

#[test]
fn killed_compiler_leaves_no_file() {
    let harness = Harness::new();
    // Like gcc, this compiler writes a temporary file; it then takes a long time.
    let compiler = r#"#!/bin/sh
case "$*" in
    *--showme:version*) echo "mpicc: Open MPI 4.1.4 (Language: C)"; exit ;;
    *--version*) echo "slow 1.0"; exit ;;
esac
echo half >"$(mktemp "$TMPDIR/ccXXXXXX")"
echo $$ >>"$HOME/processes"
exec sleep 300
"#;
    let compiler = harness.write("slow-cc", compiler);
    make_program(&compiler);
    let temporary = harness.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let variables = [("TMPDIR", temporary.to_str().unwrap())];
    let launcher = harness.write("mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n");
    make_program(&launcher);
    let stream = ["stream", "--size", "1000000elements", "--compiler", &compiler];
    let mpi = ["mpi", "--launcher", &launcher, "--mpicc", &compiler];
    for (args, signal, code) in [(stream, "HUP", 129), (stream, "TERM", 143), (mpi, "HUP", 129)] {
        let running = harness.start_with(&variables, &args);
        let processes = processes(&harness, 1);
        running.signal(signal);
        running.end().exits(code);
        assert_ended(&processes);
        assert_eq!(entries(&temporary), [""; 0], "{args:?}");
        std::fs::remove_file(harness.path("processes")).unwrap();
    }
}
