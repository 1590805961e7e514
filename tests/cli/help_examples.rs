//! Tests of the examples at the end of every `--help`. Each is run with options that make it short.

use crate::contract::words;
use crate::documents::{commands, with};
use crate::fleet::write_records;
use crate::harness::{FAST, Harness};

/// Options that make an example short, and its possible exit codes. The first row is used whose words match the
/// beginning of the example and another word in it.
struct Short {
    begins: &'static str,
    contains: &'static str,
    options: &'static str,
    codes: &'static [i32],
}

const fn short(
    begins: &'static str,
    contains: &'static str,
    options: &'static str,
    codes: &'static [i32],
) -> Short {
    Short { begins, contains, options, codes }
}

const SHORT: &[Short] = &[
    short("stream", "--plan", "", &[0]),
    short("stream", "", "--samples=2 --size=8MB --budget=0.5 --dimms=1024x20000", &[0, 1]),
    short("explain", "", "--samples=2 --size=8MB --budget=2", &[0]),
    short("memory", "", "--samples=2 --size=1MiB --budget=0.5 --dimms=1024x20000", &[0]),
    // Most virtual machines have no counters.
    short("roofline", "--perf", "--samples=2 --size=8MiB --budget=1", &[0, 3]),
    short("roofline", "", "--samples=2 --size=8MiB --budget=1", &[0]),
    short("mpi", "--ranks", "--sizes=8 --time-limit=0.02 --patterns=barrier", &[0, 3]),
    short("mpi", "", "--sizes=8 --time-limit=0.02 --samples=2 --patterns=latency", &[0, 3]),
    short("hpl", "--plan", "", &[0]),
    short("hpl", "", "--order=400 --nb=64 --blas=builtin --budget=3 --samples=1", &[0, 3]),
    short("io", "--bs", "--samples=2 --budget=1 --file-sizes=256KiB", &[0, 3]),
    short("io", "--metadata", "--samples=2", &[0]),
    short("io", "--quick", "--samples=2 --budget=2", &[0]),
    short(
        "io",
        "",
        "--samples=2 --budget=1 --file-sizes=256KiB --block-sizes=64KiB --operations=write,read",
        &[0],
    ),
    // Most nodes have no supported device.
    short("device", "", "--samples=2 --budget=3", &[0, 3]),
    short("apps trapezoid", "", "--n=1e4 --samples=2 --budget=2 --policy=none", &[0]),
    short("apps iccg", "", "--elements=8,8,8 --samples=2 --budget=2 --policy=none", &[0]),
    short("apps hpcg", "", "--grid=16 --samples=2 --budget=2 --policy=none", &[0]),
    short("noise", "", "--samples=2 --budget=2 --threads=1", &[0, 1]),
    short("sweep", "policy", "policy=0,5 --samples=2 --budget=2", &[0]),
    short("sweep", "", "--samples=2 --budget=2", &[0]),
    // This process and this job do not exist, and the program ends at once.
    short("where", "4711", "", &[0, 3]),
    short("where", "--", "", &[0, 1, 3]),
    short("check", "--nagios", "", &[0, 2, 3]),
    short("check", "", "", &[0, 1]),
    short("compare", "--fail-on", "", &[0, 1]),
    short("compare latest", "", "", &[0]),
    // One of the twelve nodes is slow.
    short("fleet rank", "", "", &[1]),
    short("fleet diff", "", "", &[0, 1]),
    // There is no Slurm in the test.
    short("fleet run", "", "", &[3]),
];

/// Examples that take longer than a second.
const LONG: &[&str] =
    &["nodegauge run", "nodegauge compare --run", "nodegauge watch", "nodegauge check --level"];

/// Returns the different examples of all commands.
fn examples(harness: &Harness) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for command in commands(harness) {
        let help = harness.run(&with(&command, &["--help"])).exits(0);
        let Some((_, lines)) = help.stdout.split_once("\nExamples:\n") else {
            help.fail("expected examples")
        };
        for line in lines.lines().map(str::trim) {
            if !line.starts_with("nodegauge") {
                help.fail("expected examples at the end");
            }
            if !all.iter().any(|known| known == line) {
                all.push(line.to_owned());
            }
        }
    }
    all
}

/// True if an example takes longer than a second.
fn is_long(line: &str) -> bool {
    line == "nodegauge"
        || LONG.iter().any(|long| line == *long || line.starts_with(&format!("{long} ")))
}

/// Sets an option in a command line, before the words after `--`.
fn set(words: &mut Vec<String>, option: &str) {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let Some((name, value)) = option.split_once('=') else { panic!("{option}") };
    if !name.starts_with("--") {
        if let Some(word) = words.iter_mut().find(|word| word.starts_with(&format!("{name}="))) {
            option.clone_into(word);
        }
    } else if let Some(at) = words[..end].iter().position(|word| word == name) {
        value.clone_into(&mut words[at + 1]);
    } else {
        words.insert(end, option.to_owned());
    }
}

/// Runs an example with these options, which make it short.
fn run(harness: &Harness, line: &str, options: &str, codes: &[i32]) {
    let mut all = words(line);
    all.remove(0);
    options.split_whitespace().for_each(|option| set(&mut all, option));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let outcome = harness.run(&all);
    if !outcome.code.is_some_and(|code| codes.contains(&code)) {
        outcome.fail(&format!("example {line:?}: expected an exit code of {codes:?}"));
    }
}

/// Writes the files and saves the runs that the examples need.
fn prepared() -> Harness {
    let harness = Harness::new();
    harness.write("solver", "#!/bin/sh\nexit 0\n");
    let chmod = harness.command("chmod").args(["+x", "solver"]).status().unwrap();
    assert!(chmod.success());
    write_records(&harness, "fleet");
    write_records(&harness, "older");
    harness.run(&["fleet", "baseline", "fleet", "--output", "site.json"]).exits(0);
    for label in ["nps=1", "nps=4", "nps=4"] {
        harness.run(&[&["stream", "--label", label], &FAST[..]].concat());
    }
    harness.run(&["history", "export", "--output", "runs.jsonl"]).exits(0);
    harness.write("stream.out", include_str!("texts/stream/oci-nps1.txt"));
    harness
}

#[test]
fn every_short_example_runs() {
    // The runs that measurements save could be selected by the examples of `compare` and `history`, so they use another
    // harness.
    let measuring = prepared();
    let reading = prepared();
    let all = examples(&reading);
    assert!(all.len() > 70, "{all:#?}");
    for line in all.iter().filter(|line| !is_long(line)) {
        let measures = row_of(line).is_some_and(|row| row.options.contains("--samples"));
        run_short(if measures { &measuring } else { &reading }, line);
    }
}

/// Returns the row of the table that applies to a command line.
fn row_of(line: &str) -> Option<&'static Short> {
    let command = line.strip_prefix("nodegauge ").unwrap_or_default();
    SHORT.iter().find(|row| command.starts_with(row.begins) && command.contains(row.contains))
}

/// Runs a command line, shortened by the row of the table for its command.
fn run_short(harness: &Harness, line: &str) {
    let row = row_of(line);
    let (options, codes) = row.map_or(("", &[0][..]), |row| (row.options, row.codes));
    run(harness, line, options, codes);
}

#[test]
fn hints_of_usage_errors_contain_commands_that_work() {
    let harness = prepared();
    for wrong in [
        "compare latest",
        "io .",
        "stream 1",
        "explain 1",
        "hpl 400",
        "apps hpcg 16",
        "mpi --np 2",
        "mpi --transport shm",
        "roofline --perf ./solver",
        "history list -n 3",
        "stream -t1",
        "stream -n 1",
        "io -o read",
        "report latest -o x.html",
        "places -v",
        "fleet run",
        "fleet script --nodes n1",
        "history label",
        "stream --samples many",
    ] {
        let all: Vec<&str> = wrong.split(' ').collect();
        let outcome = harness.run(&all).exits(2).prints_nothing();
        let hint = outcome.stderr.lines().find_map(|line| line.strip_prefix("hint: "));
        let line = hint.and_then(|hint| hint.strip_prefix("try ").or(hint.strip_prefix("e.g. ")));
        let Some(line) = line else { outcome.fail("expected a hint with a command") };
        run_short(&harness, line);
    }
}

/// Runs the examples that take longer than a second.
pub fn run_long() {
    let harness = prepared();
    for line in examples(&harness).iter().filter(|line| is_long(line)) {
        if line.starts_with("nodegauge watch") {
            let options = "--every=5s --for=5s --budget=0.5 --when-busy=measure";
            run(&harness, line, options, &[0]);
        } else if line.starts_with("nodegauge check") {
            run(&harness, line, "--deadline=60", &[0, 1]);
        } else if line.starts_with("nodegauge compare --run") {
            let quick = format!("stream {}", FAST.join(" "));
            let line = line.replace("'stream ", &format!("'{quick} "));
            run(&harness, &line, "--blocks=3", &[0]);
        } else {
            run(&harness, line, "--samples=2 --budget=3 --dimms=1024x20000", &[0, 1]);
        }
    }
}
