//! What benches share: variables, other programs, output.
#![allow(dead_code)]

use nodegauge_measure::record::Record;
use std::process::Command;
use std::str::FromStr;

/// A variable of the environment that is set and can be read.
pub fn variable<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().filter(|value| !value.is_empty())?.parse().ok()
}

/// Whether a program can be started.
pub fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// The record of a run of nodegauge, which is not saved.
pub fn nodegauge(args: &[&str]) -> Record {
    let output = Command::new(env!("CARGO_BIN_EXE_nodegauge"))
        .args(args)
        .args(["--no-save", "--json", "-"])
        .output()
        .expect("nodegauge runs");
    serde_json::from_slice(&output.stdout).expect("a record")
}

/// The figure that likwid-bench prints after `label` for a kernel on a work group, in units; `more` are
/// further arguments.
pub fn likwid_bench(kernel: &str, group: &str, label: &str, more: &[&str]) -> Option<f64> {
    let args = ["-t", kernel, "-w", group];
    let output = Command::new("likwid-bench").args(args).args(more).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.lines().find_map(|line| line.strip_prefix(label))?;
    // Its first note may follow on the same line.
    let digits: String =
        number.trim().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse::<f64>().ok().map(|millions| millions * 1e6)
}

/// Markdown for the documentation.
#[allow(clippy::print_stdout)]
pub fn print(text: &str) {
    println!("{text}");
}

/// What is left out, and how far it is.
#[allow(clippy::print_stderr)]
pub fn note(text: &str) {
    eprintln!("{text}");
}
