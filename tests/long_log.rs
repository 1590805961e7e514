//! Log of jobs with many outputs of other programs, and the memory of the program that reads the log.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Folder with the outputs of other programs.
pub const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus");
/// Length of a long log, bytes.
pub const LONG: usize = 100_000_000;
/// Programs whose outputs the log contains.
const PROGRAMS: [&str; 8] =
    ["stream", "osu", "hpl", "fio", "ior", "imb", "likwid-bench", "nccl-tests"];

/// Returns the texts of these programs that are read without an error, sorted by path.
fn texts() -> Vec<String> {
    let mut found = Vec::new();
    for program in PROGRAMS {
        for text in std::fs::read_dir(format!("{CORPUS}/{program}")).expect("the corpus") {
            let text = text.expect("a file of the corpus").path();
            let figures = std::fs::read_to_string(text.with_extension("expected"));
            let is_read = figures.is_ok_and(|figures| {
                !["refused", "unread", "cut"].iter().any(|word| figures.contains(word))
            });
            if text.extension().is_some_and(|ending| ending == "txt") && is_read {
                found.push(text);
            }
        }
    }
    found.sort();
    let read = |path| std::fs::read_to_string(path).expect("a text");
    found.iter().map(read).collect()
}

/// Writes a log of about `length` bytes. Each line begins with `prefix`.
pub fn write_log(path: &Path, prefix: &str, length: usize) {
    let mut log = BufWriter::new(File::create(path).expect("a new file"));
    let mut all = texts();
    for text in &mut all {
        *text = text.lines().map(|line| format!("{prefix}{line}\n")).collect();
    }
    let mut written = 0;
    for (job, text) in all.iter().cycle().enumerate() {
        if written >= length {
            break;
        }
        let title = format!("{prefix}slurm: job {job} on n{:03}\n", job % 512);
        for part in [&title, text] {
            log.write_all(part.as_bytes()).expect("space for the log");
            written += part.len();
        }
    }
    log.flush().expect("space for the log");
}

/// Returns the peak memory of a running process, bytes; `None` if it has ended.
pub fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    most.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|most| most * 1024)
}
