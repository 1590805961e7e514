//! Help, completions, man page and version, generated from one definition.

use crate::harness::Harness;

/// Every command with its subcommands.
pub const COMMANDS: [&[&str]; 46] = [
    &[],
    &["run"],
    &["machine"],
    &["doctor"],
    &["places"],
    &["stream"],
    &["explain"],
    &["memory"],
    &["memory", "ladder"],
    &["memory", "latency"],
    &["memory", "matrix"],
    &["memory", "loaded"],
    &["memory", "mix"],
    &["mpi"],
    &["hpl"],
    &["io"],
    &["device"],
    &["device", "links"],
    &["device", "peaks"],
    &["device", "stream"],
    &["apps"],
    &["apps", "hpcg"],
    &["apps", "iccg"],
    &["apps", "trapezoid"],
    &["compare"],
    &["report"],
    &["roofline"],
    &["watch"],
    &["check"],
    &["sweep"],
    &["fleet"],
    &["fleet", "rank"],
    &["fleet", "baseline"],
    &["fleet", "diff"],
    &["fleet", "script"],
    &["fleet", "run"],
    &["schema"],
    &["history"],
    &["history", "list"],
    &["history", "show"],
    &["history", "export"],
    &["history", "import"],
    &["history", "label"],
    &["history", "remove"],
    &["completions"],
    &["man"],
];

#[test]
fn every_command_has_help() {
    let harness = Harness::new();
    for command in COMMANDS {
        let short = harness.run(&[command, &["-h"]].concat()).exits(0).quietly().says("Usage: ");
        let long = harness.run(&[command, &["--help"]].concat()).exits(0).quietly().says("Usage: ");
        let words = |text: &str| text.split_whitespace().count();
        if words(&long.stdout) < words(&short.stdout) {
            long.fail("expected more than with -h");
        }
    }
}

#[test]
fn help_fits_eighty_columns_where_the_terminal_has_eighty() {
    let harness = Harness::new();
    for command in COMMANDS {
        for help in ["-h", "--help"] {
            let args = [command, &[help]].concat();
            let outcome = harness.run_with(&[("COLUMNS", "80")], &args).exits(0);
            // Hand-written lines are not wrapped.
            let wide = |line: &&str| line.chars().count() > 80 && !line.starts_with("Exit codes:");
            if let Some(line) = outcome.stdout.lines().find(wide) {
                outcome.fail(&format!("wider than 80 columns: {line}"));
            }
        }
    }
}

#[test]
fn no_help_names_a_command_that_is_not_there() {
    let harness = Harness::new();
    let help = harness.run(&["-h"]).exits(0).stdout;
    let listed: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(listed.contains(&"stream") && listed.contains(&"run"), "{help}");
    for command in listed {
        harness.run(&[command, "--help"]).exits(0);
    }
}

#[test]
fn completions_know_commands_and_options() {
    let harness = Harness::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = harness.run(&["completions", shell]).exits(0).quietly();
        script
            .says("nodegauge")
            .says("stream")
            .says("history")
            .says("stream-text")
            .says("memory-fraction");
    }
}

#[test]
fn the_man_page_has_every_command_and_option() {
    let harness = Harness::new();
    let page = harness.run(&["man"]).exits(0).quietly();
    for command in &COMMANDS[1..] {
        let heading = format!(".SH \"NODEGAUGE {}\"\n", command.join(" ").to_uppercase());
        if !page.stdout.contains(&heading) {
            page.fail(&format!("no section {heading}"));
        }
    }
    page.says(r"\-\-per\-cache").says(r"\-\-stream\-text").says("Exit codes");
}

#[test]
fn every_command_has_a_man_page_without_faults() {
    let harness = Harness::new();
    harness.run(&["man", "--output", "share/man1"]).exits(0).quietly();
    let folder = harness.path("share/man1");
    let mut pages: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let mut expected: Vec<String> = COMMANDS
        .iter()
        .map(|command| format!("{}.1", [&["nodegauge"], *command].concat().join("-")))
        .collect();
    expected.sort();
    assert_eq!(pages, expected);
    for page in pages {
        let read = std::process::Command::new("man")
            .args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"])
            .arg(folder.join(&page))
            .env("MANWIDTH", "80")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let faults = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success() && faults.is_empty(), "{page}: {faults}");
        assert!(!read.stdout.is_empty(), "{page}");
    }
}

#[test]
fn a_command_below_another_is_offered_where_it_was_typed_alone() {
    let harness = Harness::new();
    for (typed, meant) in [
        ("latency", "nodegauge memory latency"),
        ("bandwidth", "nodegauge stream"),
        ("label", "nodegauge history label"),
        ("steam", "nodegauge stream"),
    ] {
        let refused = harness.run(&[typed]).exits(2);
        assert!(refused.stderr.contains(&format!("'{meant}'")), "{typed}: {}", refused.stderr);
    }
    let refused = harness.run(&["memory", "stream"]).exits(2);
    assert!(refused.stderr.contains("'nodegauge stream'"), "{}", refused.stderr);
}

#[test]
fn the_version_is_short_or_long() {
    let harness = Harness::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(harness.run(&["-V"]).exits(0).stdout, format!("nodegauge {version}\n"));
    let long = harness.run(&["--version"]).exits(0).says(&format!("nodegauge {version}"));
    long.says("\nkernels for this processor: ")
        .says("\nkernel variants compiled in: ")
        .says("\nhwloc: ");
}
