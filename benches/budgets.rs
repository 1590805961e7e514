//! Runs every measuring command with several budgets, on this node as it is and with a thread that keeps a CPU busy. A
//! budget is kept if the figures are printed within 1.15 times the budget plus one second. It is also kept if it is
//! refused within two seconds, and the budget in the hint then works.
//!
//! `PROGRAM=PATH` is the program (default: the built one). `COMMANDS=explain,roofline` selects commands by words in
//! them. `BUDGETS=3,10` sets the budgets (default 3, 10 and 40 s), `LOADS=idle,busy` the loads, and `STREAM_C=PATH`
//! adds `--standard`. Prints one line per run and the share of budgets that were kept; fails if it is below 95 %. All
//! runs take about an hour. `make bench` compares rates and does not include this one.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for a terminal")]

use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Measuring commands.
const COMMANDS: [&str; 19] = [
    "stream",
    "explain",
    "stream --sweep threads=1,2",
    "stream --compiler gcc",
    "stream --tune",
    "memory ladder",
    "memory latency",
    "memory matrix",
    "memory loaded",
    "memory mix",
    "memory curves",
    "roofline",
    "mpi",
    "hpl",
    "io --path .",
    "apps trapezoid",
    "apps iccg",
    "apps hpcg",
    "run",
];
/// Minimum share of budgets that must be kept.
const MIN_KEPT_SHARE: f64 = 0.95;
/// Maximum time until a budget is refused.
const REFUSAL: Duration = Duration::from_secs(2);
/// Exit code of a refused budget.
const REFUSED: i32 = 2;
/// Exit code if a figure is invalid.
const UNMET: i32 = 1;

/// Returns the value of an environment variable, or `usual` if it is not set.
fn variable(name: &str, usual: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| usual.to_owned())
}

/// Result of running a command.
struct Run {
    elapsed: Duration,
    code: Option<i32>,
    /// Standard error.
    text: String,
}

impl Run {
    /// Runs a command with a budget in a folder, in which its history is saved.
    fn new(program: &str, command: &str, budget: f64, folder: &Path) -> Self {
        let begun = Instant::now();
        let output = Command::new(program)
            .args(command.split_whitespace())
            .args(["--budget", &budget.to_string(), "--quiet"])
            .current_dir(folder)
            .env("NODEGAUGE_DB", folder.join("history.db"))
            .stdin(Stdio::null())
            .output();
        let elapsed = begun.elapsed();
        let Output { status, stderr, .. } = output.expect("the program can be started");
        Self { elapsed, code: status.code(), text: String::from_utf8_lossy(&stderr).into_owned() }
    }

    /// True if the run has figures within the time that its budget permits.
    fn is_in_budget(&self, budget: f64) -> bool {
        let delivers = self.code == Some(0) || self.code == Some(UNMET);
        delivers && self.elapsed.as_secs_f64() <= 1.15 * budget + 1.0
    }

    /// Returns the budget that the hint of a refusal recommends.
    fn recommended_budget(&self) -> Option<f64> {
        let (_, after) = self.text.split_once("use --budget ")?;
        let number = after.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        number.parse().ok()
    }
}

/// Thread that keeps a CPU busy until this value is dropped.
struct Load(Option<(Arc<AtomicBool>, JoinHandle<()>)>);

impl Load {
    /// Starts the load with this name.
    fn start(name: &str) -> Self {
        if name == "idle" {
            return Self(None);
        }
        let end = Arc::new(AtomicBool::new(false));
        let seen = end.clone();
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self(Some((end, thread)))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            end.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
    }
}

/// Runs a command with a budget and prints a line with the result. Returns true if the budget was kept.
fn keeps_budget(program: &str, command: &str, budget: f64, load: &str, folder: &Path) -> bool {
    let run = Run::new(program, command, budget, folder);
    let (is_kept, words) = match (run.code, run.recommended_budget()) {
        (Some(REFUSED), Some(hint)) => {
            let again = Run::new(program, command, hint, folder);
            let words = format!(
                "refused; with {hint} s: {:.1} s, {}",
                again.elapsed.as_secs_f64(),
                exit_in_words(again.code)
            );
            (run.elapsed <= REFUSAL && again.is_in_budget(hint), words)
        }
        (code, _) => (run.is_in_budget(budget), exit_in_words(code)),
    };
    let verdict = if is_kept { "kept" } else { "NOT KEPT" };
    let elapsed = run.elapsed.as_secs_f64();
    println!("| {command} | {budget} | {load} | {elapsed:.1} | {words} | {verdict} |");
    is_kept
}

/// Describes how a command ended; `code` is `None` if a signal ended it.
fn exit_in_words(code: Option<i32>) -> String {
    match code {
        Some(code) => format!("exit code {code}"),
        None => "ended by a signal".to_owned(),
    }
}

fn main() -> ExitCode {
    let program = variable("PROGRAM", env!("CARGO_BIN_EXE_nodegauge"));
    let wanted = variable("COMMANDS", "");
    let wanted: Vec<&str> = wanted.split(',').filter(|word| !word.is_empty()).collect();
    let mut commands = COMMANDS.map(str::to_owned).to_vec();
    commands.extend(std::env::var("STREAM_C").map(|path| format!("stream --standard {path}")));
    commands
        .retain(|command| wanted.is_empty() || wanted.iter().any(|word| command.contains(word)));
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let budgets = variable("BUDGETS", "3,10,40");
    let loads = variable("LOADS", "idle,busy");
    let mut kept = Vec::new();
    println!("| command | budget, s | load | elapsed, s | end | verdict |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for name in loads.split(',') {
        let _load = Load::start(name);
        for budget in budgets.split(',') {
            let budget: f64 = budget.parse().expect("BUDGETS has numbers");
            for command in &commands {
                kept.push(keeps_budget(&program, command, budget, name, folder.path()));
            }
        }
    }
    let held = kept.iter().filter(|kept| **kept).count();
    let share = held as f64 / kept.len().max(1) as f64;
    println!("\n{held} of {} budgets were kept ({:.0} %)", kept.len(), 100.0 * share);
    if share >= MIN_KEPT_SHARE { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
