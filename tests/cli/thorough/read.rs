//! Tests of `read` with very long texts, and with very many files.

use crate::harness::Harness;
use crate::long_log::{CORPUS, LONG, peak_memory, write_log};
use crate::program;
use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

/// Maximum memory of the program, bytes.
const MAX_MEMORY: u64 = 100_000_000;

/// Runs `read` on a file; returns the exit code, the peak memory in bytes, the number of records, and the errors.
fn read(harness: &Harness, file: &str) -> (Option<i32>, u64, usize, String) {
    let records = File::create(harness.path("records.jsonl")).unwrap();
    let errors = File::create(harness.path("errors.txt")).unwrap();
    let mut command = harness.command(program::path());
    let mut child = command
        .args(["read", file])
        .stdout(records)
        .stderr(errors)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut most = 0;
    let code = loop {
        most = most.max(peak_memory(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let printed = std::fs::read_to_string(harness.path("records.jsonl")).unwrap();
    let warned = std::fs::read_to_string(harness.path("errors.txt")).unwrap();
    (code, most, printed.lines().count(), warned)
}

#[test]
fn long_texts_are_read_in_little_memory() {
    let harness = Harness::new();
    for (name, prefix) in [("log.txt", ""), ("tagged.txt", "[1,0]<stdout>:")] {
        write_log(&harness.path(name), prefix, LONG);
        let (code, memory, records, errors) = read(&harness, name);
        let begin: String = errors.chars().take(500).collect();
        assert_eq!(code, Some(0), "{name}: {begin}");
        assert!(records > 10_000, "{name}: {records} records");
        assert!(memory < MAX_MEMORY, "{name}: {memory} bytes");
    }
}

#[test]
fn line_of_a_gigabyte_is_refused_in_little_memory() {
    let harness = Harness::new();
    for (name, begin) in [("line.txt", "STREAM version"), ("line.json", "{ \"fio version\" : ")] {
        let mut file = File::create(harness.path(name)).unwrap();
        file.write_all(begin.as_bytes()).unwrap();
        // The rest of the file is a hole.
        file.set_len(1 << 30).unwrap();
        let (code, memory, records, errors) = read(&harness, name);
        assert_eq!((code, records), (Some(2), 0), "{errors}");
        assert!(errors.contains(&format!("{name} has a line of 1073741824 bytes")), "{errors}");
        assert!(memory < MAX_MEMORY, "{name}: {memory} bytes");
    }
    let (code, _, _, errors) = {
        File::create(harness.path("longer.txt")).unwrap().set_len((1 << 30) + 1).unwrap();
        read(&harness, "longer.txt")
    };
    assert_eq!(code, Some(2));
    assert!(errors.contains("it is longer than 1024 MiB"), "{errors}");
}

#[test]
fn long_log_after_a_run_is_not_kept_in_memory() {
    let harness = Harness::new();
    // STREAM prints a last line, with which its run ends; BabelStream does not.
    let stream = std::fs::read_to_string(format!("{CORPUS}/babelstream/5.0-omp.txt")).unwrap();
    let log = "step 7: residual 1.0e-7\n".repeat(LONG / 24);
    harness.write("log.txt", format!("{stream}{log}{stream}"));
    let (code, memory, records, errors) = read(&harness, "log.txt");
    assert_eq!((code, records), (Some(0), 2), "{errors}");
    assert!(memory < MAX_MEMORY, "{memory} bytes");
    let printed = std::fs::read_to_string(harness.path("records.jsonl")).unwrap();
    assert!(
        printed.lines().next().unwrap().contains("only the first 8 MiB of the output were read")
    );
}

#[test]
fn ten_thousand_files_are_read_by_one_process() {
    const FILES: usize = 10_000;
    let harness = Harness::new();
    let stream = std::fs::read_to_string(format!("{CORPUS}/stream/5.10-gcc-serial.txt")).unwrap();
    let names: Vec<String> = (0..FILES).map(|at| format!("{at}.txt")).collect();
    for name in &names {
        harness.write(name, &stream);
    }
    let mut words = vec!["read"];
    words.extend(names.iter().map(String::as_str));
    let read = harness.run(&words).exits(0).warns_nothing();
    assert_eq!(read.stdout.lines().count(), FILES);
    words.splice(0..1, ["history", "import"]);
    let imported = harness.run(&words).exits(0).warns_nothing();
    assert_eq!(imported.stdout.lines().count(), FILES);
}
