//! `stream --standard` with programs of our own that print what stream.c prints, and with every
//! kind that does not; `history import`.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Prints STREAM's table for the arrays that the flags ask for, after `BEFORE` and with `CHECK`.
/// A 4 MB array at 10 GB/s: the times follow from the rates.
const STAND_IN: &str = r##"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifndef STREAM_TYPE
#define STREAM_TYPE double
#endif
static void line(const char *name, double words) {
    double bytes = words * sizeof(STREAM_TYPE) * STREAM_ARRAY_SIZE, rate = 10000.0;
    double time = bytes / rate / 1e6;
    printf("%-12s%11.1f  %11.6f  %11.6f  %11.6f\n", name, rate, time, time, time);
}
int main(void) {
    BEFORE
    printf("STREAM version $Revision: 5.10 $\n");
    printf("This system uses %d bytes per array element.\n", (int)sizeof(STREAM_TYPE));
    printf("Array size = %llu (elements), Offset = %d (elements)\n",
           (unsigned long long)STREAM_ARRAY_SIZE, OFFSET);
    printf("Each kernel will be executed %d times.\n", NTIMES);
    printf("Number of Threads requested = %s\n", getenv("OMP_NUM_THREADS"));
    printf("Number of Threads counted = %s\n", getenv("OMP_NUM_THREADS"));
    printf("Function    Best Rate MB/s  Avg time     Min time     Max time\n");
    line("Copy:", 2); line("Scale:", 2); line("Add:", 3); line("Triad:", 3);
    printf("%s\n", CHECK);
    return 0;
}
"##;
const PASSED: &str = "Solution Validates: avg error less than 1.000000e-13 on all three arrays";

/// A folder with a source in it; compiled programs go below it, so that none can stay unseen.
struct Place(TempDir);

impl Place {
    fn new(before: &str, check: &str) -> Self {
        let source = STAND_IN.replace("BEFORE", before).replace("CHECK", &format!("{check:?}"));
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.source(), source).unwrap();
        fs::create_dir(place.temporary()).unwrap();
        place
    }

    fn source(&self) -> PathBuf {
        self.0.path().join("stream.c")
    }

    fn temporary(&self) -> PathBuf {
        self.0.path().join("tmp")
    }

    fn command(&self) -> Command {
        let mut command = Command::cargo_bin("nodegauge").unwrap();
        for name in ["OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "KMP_AFFINITY"] {
            command.env_remove(name);
        }
        command
            .env("TMPDIR", self.temporary())
            .env("NODEGAUGE_DB", self.0.path().join("history.db"));
        command
    }

    /// `stream --standard`, quick and small, on one thread.
    fn stream(&self, more: &[&str]) -> Command {
        let mut command = self.command();
        command.args(["stream", "--threads", "1", "--size", "1000000", "--samples", "6"]);
        command.args(["--stores", "regular", "--prefetch", "off", "--standard"]);
        command.arg(self.source()).args(more);
        command
    }

    fn leaves_nothing(&self) {
        let left: Vec<_> = fs::read_dir(self.temporary()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn run(mut command: Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn record(place: &Place, more: &[&str]) -> (i32, Value, String) {
    let mut command = place.stream(more);
    command.args(["--no-save", "--json", "-"]);
    let (code, out, err) = run(command);
    (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}\n{err}")), err)
}

fn of<'a>(record: &'a Value, category: &str) -> Vec<&'a Value> {
    let all = record["measurements"].as_array().unwrap();
    all.iter().filter(|m| m["category"] == category).collect()
}

/// Wrapped text on one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_standard_result_stands_beside_the_variant() {
    let place = Place::new("", PASSED);
    let compilers = ["--compiler", "gcc", "--compiler", "gcc -O1 '-DWORD=\"a b\"'"];
    let (code, record, err) = record(&place, &compilers);
    assert_eq!(code, 0, "{err}");
    let (native, standard) = (of(&record, "variant"), of(&record, "standard"));
    assert_eq!((native.len(), standard.len()), (4, 8), "{err}");
    assert_eq!(native[0]["config"]["array_elements"], 1_000_000);
    for m in &standard {
        assert_eq!(m["value"], 10e9);
        assert_eq!(m["config"]["engine"], "stream.c");
        assert_eq!(m["config"]["array_bytes"], 8_000_000);
        assert_eq!(m["config"]["threads"], 1);
        assert_eq!(m["config"]["runs"], 3);
        assert_eq!(m["config"]["environment"]["OMP_PROC_BIND"], "close");
        assert!(m["config"]["compiler"]["version"].as_str().unwrap().contains("gcc"));
    }
    let commands: Vec<&str> = [standard[0], standard[4]]
        .map(|m| m["config"]["compiler"]["command"].as_str().unwrap())
        .to_vec();
    assert_eq!(commands, ["gcc -O3 -march=native -fopenmp", "gcc -O1 '-DWORD=\"a b\"'"]);
    assert!((1..=6).contains(&native[0]["summary"]["n"].as_u64().unwrap()));
    place.leaves_nothing();
}

#[test]
fn all_compilers_build_the_standard_program_with_openmp() {
    let place = Place::new("", PASSED);
    let (code, record, err) = record(&place, &["--compiler", "all"]);
    assert_eq!(code, 0, "{err}");
    let standard = of(&record, "standard");
    let commands: Vec<&str> = standard
        .iter()
        .step_by(4)
        .map(|m| m["config"]["compiler"]["command"].as_str().unwrap())
        .collect();
    assert!(commands.iter().filter(|command| command.starts_with("gcc ")).count() >= 4);
    assert!(commands.iter().all(|command| !command.contains("nodegauge")), "{commands:?}");
    assert!(commands.iter().filter(|c| c.starts_with("gcc ")).all(|c| c.ends_with(" -fopenmp")));
    place.leaves_nothing();
}

#[test]
fn the_table_says_which_is_which() {
    let place = Place::new("", PASSED);
    let mut command = place.stream(&["--compiler", "gcc", "--element", "f32"]);
    command.args(["--offset", "8"]);
    let (_, out, err) = run(command);
    assert!(
        out.contains("standard") && out.contains("variant") && out.contains("ratio"),
        "{out}{err}"
    );
    assert!(
        flat(&out).contains("stream.c 5.10, the given source as it is, compiled by gcc"),
        "{out}"
    );
    assert!(out.contains("based on a variant of the STREAM benchmark code"), "{out}");
    let mut show = place.command();
    show.args(["history", "show", "latest"]);
    assert!(flat(&run(show).1).contains("the given source as it is, compiled by gcc"));
}

#[test]
fn a_failed_validation_is_no_result() {
    let place = Place::new("", "Failed Validation on array b[], AvgRelAbsErr > epsilon");
    let (code, record, _) = record(&place, &["--compiler", "gcc"]);
    assert_eq!(code, 1);
    for m in of(&record, "standard") {
        assert_eq!((&m["value"], &m["validity"]["status"]), (&Value::Null, &"invalid".into()));
        let reason = m["validity"]["reasons"][0].as_str().unwrap();
        assert!(reason.contains("stream.c finds wrong values: Failed Validation on array b[]"));
    }
    assert!(of(&record, "variant").iter().all(|m| m["value"].is_f64()));
}

/// The reason that a program gives no figure; the native figures stay.
fn reason(before: &str) -> String {
    let place = Place::new(before, PASSED);
    let (code, record, _) = record(&place, &["--compiler", "gcc"]);
    assert_eq!(code, 1);
    assert!(of(&record, "variant").iter().all(|m| m["value"].is_f64()));
    let standard = of(&record, "standard");
    assert_eq!(standard.len(), 4);
    place.leaves_nothing();
    assert_eq!(standard[3]["value"], Value::Null);
    standard[3]["validity"]["reasons"][0].as_str().unwrap().to_owned()
}

#[test]
fn a_program_that_prints_something_else_is_told() {
    assert_eq!(
        reason("puts(\"Hello\"); return 0;"),
        "the program is not STREAM as it is known: it prints no table of STREAM, but \"Hello\""
    );
    assert_eq!(reason("return 0;"), "the program is not STREAM as it is known: it prints nothing");
}

#[test]
fn a_program_that_crashes_or_hangs_leaves_the_rest_as_it_is() {
    assert_eq!(
        reason("fprintf(stderr, \"oh\\n\"); abort();"),
        "the program ended with signal 6 (abort):\noh"
    );
    let hangs = reason("for (;;) pause();");
    assert!(hangs.starts_with("the program took longer than"), "{hangs}");
    assert!(hangs.ends_with("s and was killed"), "{hangs}");
}

#[test]
fn an_interrupt_kills_the_program_and_keeps_what_was_measured() {
    let place = Place::new("", PASSED);
    let told = place.0.path().join("pid");
    let before = format!(
        "FILE *f = fopen({:?}, \"w\"); fprintf(f, \"%d\\n\", getpid()); fclose(f); for (;;) pause();",
        told.display().to_string()
    );
    let source = STAND_IN.replace("BEFORE", &before).replace("CHECK", "\"\"");
    fs::write(place.source(), source).unwrap();
    let json = place.0.path().join("record.json");
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("nodegauge"));
    let mut nodegauge = command
        .args(["stream", "--threads", "1", "--size", "1000000", "--compiler", "gcc", "--json"])
        .arg(&json)
        .arg("--standard")
        .arg(place.source())
        .args(["--no-save", "--quiet"])
        .env("TMPDIR", place.temporary())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let program = loop {
        match fs::read_to_string(&told) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => assert!(Instant::now() < until, "the program does not start"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let interrupt = std::process::Command::new("kill")
        .args(["-INT", &nodegauge.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupt.success());
    assert_eq!(nodegauge.wait().unwrap().code(), Some(130));
    assert!(!Path::new("/proc").join(program).exists());
    let record: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(record["complete"], false);
    assert_eq!(of(&record, "variant").len(), 4);
    place.leaves_nothing();
}

#[test]
fn a_compiler_that_is_missing_or_refuses_ends_the_command_with_3() {
    let place = Place::new("", PASSED);
    let (code, out, err) = run(place.stream(&["--compiler", "no-such-cc -O2"]));
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("there is no compiler \"no-such-cc\" on this system"), "{err}");
    let place = Place::new("return nothing;", PASSED);
    let (code, out, err) = run(place.stream(&["--compiler", "gcc"]));
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("-DSTREAM_ARRAY_SIZE=1000000 -DNTIMES=20 -DOFFSET=0"), "{err}");
    assert!(err.contains("'nothing' undeclared") && err.contains("exit status 1"), "{err}");
    place.leaves_nothing();
}

#[test]
fn wrong_usage_is_refused_before_anything_runs() {
    let place = Place::new("", PASSED);
    let cases: [(&[&str], &str); 4] = [
        (&["--sweep", "stores"], "--standard shows one configuration, no --sweep"),
        (&["--stream-text"], "--stream-text is nodegauge's own table"),
        (&["--numa", "interleave"], "--numa cannot be given to stream.c"),
        (&["--compiler", "gcc 'x"], "the quote is not closed"),
    ];
    for (more, message) in cases {
        let (code, _, err) = run(place.stream(more));
        assert_eq!(code, 2, "{more:?}: {err}");
        assert!(err.contains(message), "{err}");
    }
    let mut command = place.command();
    command.args(["stream", "--standard", "/no/such/stream.c"]);
    let (code, _, err) = run(command);
    assert_eq!(code, 2);
    assert!(err.contains("cannot read \"/no/such/stream.c\""), "{err}");
}

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../memory/tests/data")
        .join(format!("stream-{name}.txt"))
}

#[test]
fn saved_outputs_become_records() {
    let place = Place::new("", PASSED);
    let mut command = place.command();
    command.args(["history", "import", "--label", "nps=4", "--host", "n01"]);
    command.args([recorded("gcc-2t"), recorded("mpi-2r"), recorded("f-67M-2t")]);
    let (code, out, err) = run(command);
    assert_eq!((code, out.lines().count()), (0, 3), "{err}");
    let id = out.split_whitespace().next().unwrap();
    let mut show = place.command();
    show.args(["history", "show", id, "--json", "-"]);
    let record: Value = serde_json::from_str(&run(show).1).unwrap();
    assert_eq!(
        (&record["labels"]["nps"], &record["machine"]["host"]),
        (&"4".into(), &"n01".into())
    );
    let standard = of(&record, "standard");
    assert_eq!((standard.len(), &standard[3]["value"]), (4, &22_189.7e6.into()));
    let mut list = place.command();
    list.args(["history", "list"]);
    let listed = run(list).1;
    assert!(listed.contains("22.19") && listed.contains("nps=4"), "{listed}");
}

#[test]
fn a_saved_output_without_a_result_is_kept_as_such_and_another_file_is_refused() {
    let place = Place::new("", PASSED);
    let mut command = place.command();
    command.args(["history", "import"]).arg(recorded("gcc-ntimes300-2t"));
    let (code, _, err) = run(command);
    assert_eq!(code, 1);
    assert!(err.contains("saved without a result: the check of stream.c is void"), "{err}");
    let mut command = place.command();
    command.args(["history", "import"]).arg(recorded("gcc-2t")).arg(place.source());
    let (code, out, err) = run(command);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("is not the output of stream.c"), "{err}");
}
