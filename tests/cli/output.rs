//! Tests of the destinations of output: standard output, standard error, files, pipes, `--quiet`, and colour.

use crate::harness::{FAST, Harness, names};
use crate::thorough::io_faults::faults;
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

const ESCAPE: char = '\x1b';

#[test]
fn json_and_csv_files_leave_the_table_on_standard_output() {
    let harness = Harness::new();
    harness
        .stream(&["--json", "run.json", "--csv", "run.csv"])
        .exits(0)
        .warns_nothing()
        .prints("\ntriad ");
    let text = std::fs::read_to_string(harness.path("run.json")).unwrap();
    assert!(text.ends_with("}\n"));
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(names(&record).len(), 4);
    let csv = std::fs::read_to_string(harness.path("run.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5);
    let left: Vec<String> = std::fs::read_dir(harness.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("run.") && name != "run.json" && name != "run.csv")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn json_option_without_a_file_writes_to_standard_output() {
    let harness = Harness::new();
    let record = harness.stream(&["--no-save", "--json"]).exits(0).warns_nothing().json();
    assert_eq!(record["complete"], true);
}

#[test]
fn csv_has_a_header_and_one_line_per_measurement() {
    let outcome =
        Harness::new().stream(&["--csv", "-", "--label", "nps=4"]).exits(0).warns_nothing();
    let lines: Vec<Vec<&str>> =
        outcome.stdout.lines().map(|line| line.split(',').collect()).collect();
    let first = "id,started,host,gauge,test,name,unit,value,n,best,median,p05,p95,ci95_low,ci95_high,status,category,limit,limit_fraction,traffic,complete,labels,reasons,threads,bind";
    let header: Vec<&str> = first.split(',').collect();
    assert_eq!(lines[0][..header.len()], header[..]);
    assert_eq!(lines.len(), 5);
    let column = |name: &str| lines[0].iter().position(|cell| *cell == name).unwrap();
    let cells = |name: &str| lines[1..].iter().map(|line| line[column(name)]).collect::<Vec<_>>();
    assert_eq!(cells("name"), ["copy", "scale", "add", "triad"]);
    assert_eq!(cells("unit"), ["B/s"; 4]);
    assert_eq!(cells("category"), ["variant"; 4]);
    // Disturbed passes count only for the best, so the number of samples varies.
    assert!(cells("n").iter().all(|n| (1..=3).contains(&n.parse::<u32>().unwrap())));
    assert!(cells("value").iter().all(|value| value.parse::<f64>().unwrap() > 0.0));
    assert_eq!(cells("value"), cells("best"));
    assert_eq!(cells("labels"), ["nps=4"; 4]);
}

/// A launcher and other ranks may write to the same standard error; their lines must not split an error.
#[test]
fn error_is_written_in_one_call() {
    let harness = Harness::new();
    // Each write to a datagram socket is one message.
    let (reader, writer) = UnixDatagram::pair().unwrap();
    let mut command = harness.command(crate::program::path());
    let refused = command.args(["stream", "--csv", "-", "--json", "-"]);
    let status = refused.stderr(OwnedFd::from(writer)).status().unwrap();
    assert_eq!(status.code(), Some(2));
    let mut message = [0; 1000];
    let length = reader.recv(&mut message).unwrap();
    let message = std::str::from_utf8(&message[..length]).unwrap();
    assert!(message.starts_with("error: --json and --csv cannot both go"), "{message}");
    assert!(message.ends_with("e.g. --csv FILE\n"), "{message}");
}

#[test]
fn json_and_csv_cannot_share_standard_output() {
    Harness::new().stream(&["--json", "-", "--csv", "-"]).exits(2).only_error(
        "--json and --csv cannot both go to standard output\nhint: write one of them to a file, e.g. --csv FILE",
    );
}

#[test]
fn missing_folder_is_refused_before_measuring() {
    let harness = Harness::new();
    for option in ["--json", "--csv"] {
        // Without `--samples`, the run would measure for ten seconds before it fails.
        harness.run(&["stream", option, "no/such/folder/x"]).exits(3).only_error(
            "cannot write no/such/folder/x: No such file or directory (os error 2)\n\
             hint: give a file in an existing folder that you can write to",
        );
    }
    assert!(!harness.path(".local").exists());
}

#[test]
fn quiet_option_prints_only_requested_output() {
    let harness = Harness::new();
    harness.stream(&["--quiet"]).exits(0).warns_nothing().prints_nothing();
    harness.run(&["history", "list"]).exits(0).prints("triad");
    let text = harness.stream(&["--quiet", "--no-save", "--stream-text"]).exits(0).warns_nothing();
    text.prints("STREAM variant: ").never_prints("saved");
    harness.stream(&["--quiet", "--verbose"]).exits(2).warns("cannot be used with --verbose");
}

#[test]
fn pipes_get_no_colour_unless_requested() {
    let harness = Harness::new();
    let plain = [("NO_COLOR", ""), ("CLICOLOR_FORCE", "")];
    for args in [&["machine"][..], &["doctor"], &["places"]] {
        let with = |variables: &[(&str, &str)], more: &[&str]| {
            harness.run_with(variables, &[args, more].concat()).exits(0).stdout
        };
        assert!(!with(&plain, &[]).contains(ESCAPE), "{args:?}");
        assert!(!with(&plain, &["--color", "auto"]).contains(ESCAPE), "{args:?}");
        assert!(!with(&plain, &["--color", "never"]).contains(ESCAPE), "{args:?}");
        assert!(!with(&[("NO_COLOR", "1")], &[]).contains(ESCAPE), "{args:?}");
        if args != ["places"] {
            assert!(with(&plain, &["--color", "always"]).contains(ESCAPE), "{args:?}");
        }
    }
    let args = [&["stream", "--no-save", "--color", "always"], &FAST[..]].concat();
    let outcome = harness.run_with(&plain, &args).exits(0);
    assert!(outcome.stdout.contains(ESCAPE));
    let json = harness.run_with(&plain, &[&args[..], &["--json", "-"]].concat()).exits(0);
    assert!(!json.stdout.contains(ESCAPE));
    let error = harness.run_with(&plain, &["places", "--topology", "none.xml"]).exits(2).stderr;
    assert!(!error.contains(ESCAPE));
}

#[test]
fn colour_is_reset_at_the_end_of_a_line() {
    let reported = Harness::new().run(&["machine", "--color", "always"]).exits(0).stdout;
    for line in reported.lines().filter(|line| line.contains(ESCAPE)) {
        let last = line.rfind(ESCAPE).unwrap();
        assert!(line[last..].starts_with("\x1b[0m"), "{line:?}");
    }
}

#[test]
fn columns_variable_limits_the_width_of_lines() {
    let harness = Harness::new();
    for (columns, most) in [("60", 60), ("80", 80), ("120", 120), ("1000", 120), ("1", 60)] {
        let outcome = harness.run_with(&[("COLUMNS", columns)], &["doctor"]).exits(0);
        // Paths and commands are not wrapped.
        let long = |line: &&str| line.chars().count() > most && !line.contains('/');
        if let Some(line) = outcome.stdout.lines().find(long) {
            outcome.fail(&format!("wider than {most}: {line}"));
        }
    }
}

#[test]
fn closed_output_pipe_is_not_an_error() {
    let harness = Harness::new();
    let args = [&["stream"], &FAST[..]].concat();
    let mut running = harness.command(crate::program::path());
    let mut child =
        running.args(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    harness.run(&["history", "list"]).exits(0).prints("triad");
}

#[test]
fn full_disk_is_an_error() {
    let harness = Harness::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = harness.command(crate::program::path());
    let output = command.arg("machine").stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: cannot write to standard output: No space left on device (os error 28)\n"
    );
}

/// Every option that names an output, with options for a short run.
const OUTPUTS: [&[&str]; 7] = [
    &["places", "--json"],
    &["machine", "--json"],
    &["hpl", "--order", "1000", "--hpl-dat-only"],
    &["stream", "--size", "1MiB", "--samples", "2", "--no-save", "--json"],
    &["stream", "--size", "1MiB", "--samples", "2", "--no-save", "--csv"],
    &["io", "--file-sizes", "256KiB", "--block-sizes", "16KiB", "--no-save", "--json"],
    &["io", "--file-sizes", "256KiB", "--block-sizes", "16KiB", "--no-save", "--surface"],
];

#[test]
fn outputs_are_written_through_links() {
    let harness = Harness::new();
    let link = |name: &str, to: &str| std::os::unix::fs::symlink(to, harness.path(name)).unwrap();
    let still_links = |name: &str, to: &str| {
        assert_eq!(std::fs::read_link(harness.path(name)).unwrap().to_str(), Some(to));
    };
    link("new-link", "folder/new");
    link("old-link", "old");
    link("stdout-link", "/proc/self/fd/1");
    std::fs::create_dir(harness.path("folder")).unwrap();
    for output in OUTPUTS {
        harness.write("old", "OLD CONTENT");
        for (name, to) in [("new-link", "folder/new"), ("old-link", "old")] {
            harness.run(&[output, &[name]].concat()).exits(0);
            still_links(name, to);
            let text = std::fs::read_to_string(harness.path(to)).unwrap();
            assert!(text.len() > 40 && !text.contains("OLD CONTENT"), "{output:?}: {text}");
        }
        let outcome = harness.run(&[output, &["stdout-link"]].concat()).exits(0);
        still_links("stdout-link", "/proc/self/fd/1");
        let dashed = harness.run(&[output, &["-"]].concat()).exits(0);
        let first = |text: &str| text.lines().next().map(str::to_owned);
        assert_eq!(first(&outcome.stdout), first(&dashed.stdout), "{output:?}");
        std::fs::remove_file(harness.path("folder/new")).unwrap();
    }
}

#[test]
fn impossible_budget_is_refused() {
    let harness = Harness::new();
    let clock = faults(&harness);
    // Setting up takes longer than the few milliseconds of the budget.
    let hasty = [("LD_PRELOAD", clock.to_str().unwrap()), ("FAULT", "fast=10000")];
    let sweep = ["stream", "--sweep", "pages=4k,thp"];
    for command in [&["explain"][..], &sweep, &["stream", "--compiler", "gcc"]] {
        let short =
            [command, &["--size", "8MiB", "--budget", "2", "--dimms", "1024x20000"]].concat();
        let refused = harness.run_with(&hasty, &short).exits(2);
        refused.warns("--budget 2 is too short: the run takes").warns("hint: use --budget");
    }
    harness.run(&["history", "list"]).exits(0).prints("no saved runs");
}

#[test]
fn log_of_a_job_states_times_and_begins_after_half_a_minute() {
    let harness = Harness::new();
    let clock = faults(&harness);
    // The clock runs a thousand times faster, so a second takes a millisecond.
    let hasty = [("LD_PRELOAD", clock.to_str().unwrap()), ("FAULT", "fast=1000")];
    let long = ["stream", "--size", "1MiB", "--samples", "500"];
    let log = harness.run_with(&hasty, &long).exits(0).stderr;
    let mut halves = Vec::new();
    for line in log.lines() {
        let rest = line.strip_prefix("stream: ").unwrap_or_else(|| panic!("{line}"));
        let (seconds, what) = rest.split_once(" s").unwrap();
        halves.push((seconds.parse::<f64>().unwrap() + 0.5) as u64 / 30);
        assert!(what.contains(", ") && !what.ends_with(", "), "{line}");
    }
    assert!(!halves.is_empty() && halves[0] > 0 && halves.is_sorted(), "{log}");
    assert!(!log.contains(ESCAPE), "{log}");
    let quiet = harness.run_with(&hasty, &[&long[..], &["--quiet"]].concat()).exits(0);
    assert_eq!((quiet.stderr.as_str(), quiet.stdout.as_str()), ("", ""));
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn pipes_are_written_in_place_and_failed_writes_are_reported() {
        use std::os::unix::fs::FileTypeExt;
        let harness = Harness::new();
        let pipe = harness.arg("pipe");
        assert!(harness.run_other(&["mkfifo", &pipe], &[]).code == Some(0));
        for output in OUTPUTS {
            let reader = std::thread::spawn({
                let pipe = pipe.clone();
                move || std::fs::read_to_string(pipe).unwrap()
            });
            harness.run(&[output, &[pipe.as_str()]].concat()).exits(0);
            assert!(reader.join().unwrap().len() > 40, "{output:?}");
            assert!(std::fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        }
        let alone = harness.run(&["places", "--json", pipe.as_str()]).exits(3);
        alone.warns(&format!("cannot write {pipe}: no program has read this pipe within 10 s"));
        harness
            .run(&["places", "--json", "/dev/full"])
            .exits(3)
            .warns("cannot write /dev/full: No space left on device");
    }

    #[test]
    fn short_runs_write_nothing_to_a_piped_standard_error() {
        let harness = Harness::new();
        for args in [&["stream"][..], &["run"], &["explain"]] {
            let fast = if args == ["run"] { &FAST[4..] } else { &FAST[..] };
            harness.run(&[args, fast, &["--no-save"]].concat()).exits(0).warns_nothing();
        }
    }
}
