//! Functions that benchmarks share: environment variables, other programs, output.
#![allow(dead_code)]

use nodegauge_measure::record::Record;
use std::process::Command;
use std::str::FromStr;

/// Returns an environment variable that is set and can be parsed.
pub fn variable<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().filter(|value| !value.is_empty())?.parse().ok()
}

/// True if a program can be started.
pub fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Runs nodegauge without saving and returns the record.
pub fn nodegauge(args: &[&str]) -> Record {
    nodegauge_program(args, &[])
}

/// Runs nodegauge on a program without saving and returns the record.
pub fn nodegauge_program(args: &[&str], program: &[&str]) -> Record {
    let output = Command::new(env!("CARGO_BIN_EXE_nodegauge"))
        .args(args)
        .args(["--no-save", "--json", "-"])
        .args(program)
        .output()
        .expect("nodegauge runs");
    serde_json::from_slice(&output.stdout).expect("a record")
}

/// Runs likwid-bench for a kernel on a work group and returns the figure after `label`, in base units; `more` has
/// further arguments.
pub fn likwid_bench(kernel: &str, group: &str, label: &str, more: &[&str]) -> Option<f64> {
    let args = ["-t", kernel, "-w", group];
    let output = Command::new("likwid-bench").args(args).args(more).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.lines().find_map(|line| line.strip_prefix(label))?;
    // The first note of likwid-bench may follow on the same line.
    let digits: String =
        number.trim().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse::<f64>().ok().map(|millions| millions * 1e6)
}

/// Prints Markdown for the documentation to standard output.
#[allow(clippy::print_stdout)]
pub fn print(text: &str) {
    println!("{text}");
}

/// Prints progress and omissions to standard error.
#[allow(clippy::print_stderr)]
pub fn note(text: &str) {
    eprintln!("{text}");
}
