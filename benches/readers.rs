//! Measures the time and the peak memory of `read` for a long log with the outputs of many programs, with and without
//! the prefixes of a rank.
//!
//! `BYTES` is the length of the log (default 100 MB), `ROUNDS` the number of executions (default 5). Prints Markdown
//! for docs/benchmarks.md.

mod common;
#[path = "../tests/long_log.rs"]
mod long_log;

use common::{print, variable};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn main() {
    let bytes: usize = variable("BYTES").unwrap_or(long_log::LONG);
    let rounds: usize = variable("ROUNDS").unwrap_or(5);
    let folder = tempfile::tempdir().expect("a temporary folder");
    print(
        "| text | bytes | seconds, best run | MB/s | peak memory |\n| --- | ---: | ---: | ---: | ---: |",
    );
    for (name, prefix) in [("log", ""), ("lines of a rank", "[1,0]<stdout>:")] {
        let file = folder.path().join("log.txt");
        long_log::write_log(&file, prefix, bytes);
        let length = std::fs::metadata(&file).expect("the log").len() as f64;
        let mut best = Run { seconds: f64::INFINITY, memory: 0 };
        for _ in 0..rounds {
            let run = read(&file);
            best.seconds = best.seconds.min(run.seconds);
            best.memory = best.memory.max(run.memory);
        }
        print(&format!(
            "| {name} | {length:.0} | {:.2} | {:.0} | {:.0} MB |",
            best.seconds,
            length / 1e6 / best.seconds,
            best.memory as f64 / 1e6
        ));
    }
}

/// Run of `read`.
struct Run {
    seconds: f64,
    /// Peak memory, bytes.
    memory: u64,
}

/// Reads a file twice: once to measure the time, and once to measure the peak memory.
fn read(file: &Path) -> Run {
    let began = Instant::now();
    let status = start(file).wait().expect("nodegauge ends");
    let seconds = began.elapsed().as_secs_f64();
    assert!(status.success(), "{status}");
    let mut child = start(file);
    let mut memory = 0;
    while child.try_wait().expect("nodegauge runs").is_none() {
        memory = memory.max(long_log::peak_memory(child.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    Run { seconds, memory }
}

fn start(file: &Path) -> Child {
    let nothing = File::options().write(true).open("/dev/null").expect("/dev/null");
    Command::new(env!("CARGO_BIN_EXE_nodegauge"))
        .arg("read")
        .arg(file)
        .stdin(Stdio::null())
        .stdout(nothing)
        .spawn()
        .expect("nodegauge runs")
}
