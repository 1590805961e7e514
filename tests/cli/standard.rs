//! Tests of `stream --standard` with programs that print the output of stream.c, and with faulty programs; tests of
//! `history import`.

use crate::harness::{Harness, Outcome, Part, is_running, wait_for};
use serde_json::Value;

/// Program that prints STREAM's table for the array size in its flags.
const STAND_IN: &str = include_str!("../standin/stream.c");
pub const PASSED: &str = "Solution Validates: avg error less than 1.000000e-13 on all three arrays";

/// Returns a program that executes `before`, prints the output of stream.c and ends with the line `check`.
pub fn program(before: &str, check: &str) -> String {
    STAND_IN.replace("/* BEFORE */", before).replace(&format!("{PASSED:?}"), &format!("{check:?}"))
}

/// Harness whose folder contains a source file. Programs are compiled below this folder, so that files left behind are
/// detected.
struct Place(Harness);

impl Place {
    fn new(before: &str, check: &str) -> Self {
        let place = Self(Harness::new());
        place.0.write("stream.c", program(before, check));
        std::fs::create_dir(place.0.path("tmp")).unwrap();
        place
    }

    /// Runs a short `stream --standard` with small arrays on one thread.
    fn stream(&self, more: &[&str]) -> Outcome {
        let (source, temporary) = (self.0.arg("stream.c"), self.0.arg("tmp"));
        let common = ["stream", "--threads", "1", "--size", "1000000elements", "--samples", "6"];
        let own = [
            "--dimms=1024x20000",
            "--stores",
            "regular",
            "--prefetch",
            "off",
            "--standard",
            &source,
        ];
        self.0.run_with(&[("TMPDIR", &temporary)], &[&common[..], &own, more].concat())
    }

    /// Returns the record of such a run that exits with `code`.
    #[track_caller]
    fn record(&self, code: i32, more: &[&str]) -> Value {
        let outcome = self.stream(&[more, &["--no-save", "--json", "-"]].concat());
        let record = outcome.exits(code).json();
        self.assert_nothing_left();
        record
    }

    #[track_caller]
    fn assert_nothing_left(&self) {
        let left: Vec<_> = std::fs::read_dir(self.0.path("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn figures<'a>(record: &'a Value, category: &str) -> Vec<&'a Value> {
    let all = record["measurements"].as_array().unwrap();
    all.iter().filter(|m| m["category"] == category).collect()
}

#[test]
fn standard_result_is_reported_with_the_variant() {
    let place = Place::new("", PASSED);
    let compilers = ["--compiler", "gcc", "--compiler", "gcc -O1 '-DWORD=\"a b\"'"];
    let record = place.record(0, &compilers);
    let (native, standard) = (figures(&record, "variant"), figures(&record, "standard"));
    assert_eq!((native.len(), standard.len()), (4, 8), "{record:#}");
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
    let commands = [standard[0], standard[4]].map(|m| &m["config"]["compiler"]["command"]);
    assert_eq!(commands, ["gcc -O3 -march=native -fopenmp", "gcc -O1 '-DWORD=\"a b\"'"]);
    assert!((1..=6).contains(&native[0]["summary"]["n"].as_u64().unwrap()));
}

#[test]
fn option_compiler_all_gives_gcc_commands_with_openmp() {
    let place = Place::new("", PASSED);
    let record = place.record(0, &["--compiler", "all"]);
    let commands: Vec<&str> = figures(&record, "standard")
        .iter()
        .step_by(4)
        .map(|m| m["config"]["compiler"]["command"].as_str().unwrap())
        .collect();
    assert!(commands.iter().all(|command| !command.contains("nodegauge")), "{commands:?}");
    let gcc: Vec<&&str> = commands.iter().filter(|command| command.starts_with("gcc ")).collect();
    assert!(gcc.len() >= 4, "{commands:?}");
    assert!(gcc.iter().all(|command| command.ends_with(" -fopenmp")), "{commands:?}");
}

#[test]
fn table_distinguishes_the_standard_result_from_the_variant() {
    let place = Place::new("", PASSED);
    place
        .stream(&["--compiler", "gcc", "--element", "f32", "--offset", "8"])
        .exits(0)
        .prints("standard")
        .prints("variant")
        .prints("ratio")
        .prints_words("stream.c 5.10, unmodified source, compiled by gcc")
        .prints("based on a variant of the STREAM benchmark code");
    let shown = place.0.run(&["history", "show", "latest"]).exits(0);
    shown.prints_words("unmodified source, compiled by gcc");
}

#[test]
fn figures_of_a_failed_validation_are_invalid() {
    let place = Place::new("", "Failed Validation on array b[], AvgRelAbsErr > epsilon");
    let record = place.record(1, &["--compiler", "gcc"]);
    assert_eq!((figures(&record, "standard").len(), figures(&record, "variant").len()), (4, 4));
    for m in figures(&record, "standard") {
        assert_eq!((&m["value"], &m["validity"]["status"]), (&Value::Null, &"invalid".into()));
        let reason = m["validity"]["reasons"][0].as_str().unwrap();
        assert!(reason.contains("stream.c reports wrong values: Failed Validation on array b[]"));
    }
    assert!(figures(&record, "variant").iter().all(|m| m["value"].is_f64()));
}

/// Returns the reason why the program that executes `before` has no figure. The native figures must be unchanged.
fn reason(before: &str) -> String {
    let record = Place::new(before, PASSED).record(1, &["--compiler", "gcc"]);
    assert!(figures(&record, "variant").iter().all(|m| m["value"].is_f64()));
    let standard = figures(&record, "standard");
    assert_eq!((standard.len(), &standard[3]["value"]), (4, &Value::Null));
    standard[3]["validity"]["reasons"][0].as_str().unwrap().to_owned()
}

#[test]
fn program_without_stream_output_is_reported() {
    assert_eq!(
        reason("puts(\"Words\"); return 0;"),
        "the output is not that of STREAM: the program printed \"Words\" instead of a STREAM table"
    );
    assert_eq!(
        reason("return 0;"),
        "the output is not that of STREAM: the program printed nothing"
    );
}

#[test]
fn text_of_stream_c_is_printed_unchanged() {
    let place = Place::new("", PASSED);
    let reported = place.stream(&["--compiler", "gcc", "--stream-text"]).exits(0);
    let lines: Vec<&str> = reported.stdout.lines().collect();
    assert_eq!(
        (lines.len(), lines[0]),
        (12, "STREAM version $Revision: 5.10 $"),
        "{}",
        reported.stdout
    );
    assert_eq!(lines[7], "Copy:           10000.0     0.001600     0.001600     0.001600");
    assert_eq!(lines[11], PASSED);
    let record = place.0.latest();
    let kept: Vec<bool> =
        figures(&record, "standard").iter().map(|m| m["config"].get("printed").is_some()).collect();
    assert_eq!(kept, [false, false, false, true]);
    let failed = Place::new("", "Failed Validation on array a[]");
    let failed_output =
        failed.stream(&["--compiler", "gcc", "--stream-text"]).exits(1).prints_nothing();
    failed_output.warns("error: no valid result: stream.c reports wrong values");
}

#[test]
fn missing_or_failing_compiler_gives_exit_code_3() {
    let place = Place::new("", PASSED);
    let missing = place.stream(&["--compiler", "no-such-cc -O2"]).exits(3).prints_nothing();
    missing.warns("there is no compiler \"no-such-cc\" on this system");
    let failing_place = Place::new("return nothing;", PASSED);
    failing_place
        .stream(&["--compiler", "gcc"])
        .exits(3)
        .prints_nothing()
        .warns("-DSTREAM_ARRAY_SIZE=1000000 -DNTIMES=20 -DOFFSET=0")
        .warns("'nothing' undeclared")
        .warns("exit status 1");
    failing_place.assert_nothing_left();
}

#[test]
fn flags_of_other_compilers_are_refused_with_the_equivalent() {
    let place = Place::new("", PASSED);
    place
        .stream(&["--compiler", "gcc -O3 -fnt-store"])
        .exits(3)
        .warns("hint: -fnt-store is a flag of AMD's AOCC; elsewhere: ");
    // gcc would read both flags as names of its output file, and compile without OpenMP.
    place
        .stream(&["--compiler", "gcc -mmic -O3 -openmp -opt-prefetch-distance=64,8"])
        .exits(2)
        .warns("gcc reads a flag that begins with -o as the name of its output file")
        .warns("-openmp is a flag of Intel's icc; elsewhere: -fopenmp")
        .warns("elsewhere: --prefetch with distances in bytes (64,8 lines are 4096,512)");
    place.assert_nothing_left();
}

#[test]
fn macros_of_a_compile_line_determine_size_element_and_passes() {
    let place = Place::new("", PASSED);
    let harness = &place.0;
    let line =
        "gcc -DSTREAM_TYPE=float -DSTREAM_ARRAY_SIZE=1200000 -DNTIMES=7 -O1 stream.c -o stream";
    let args = [
        "stream",
        "--threads",
        "1",
        "--samples",
        "6",
        "--dimms=1024x20000",
        "--stores",
        "regular",
        "--prefetch",
        "off",
        "--standard",
        &harness.arg("stream.c"),
        "--compiler",
        line,
        "--json",
    ];
    let record = harness.run(&args).exits(0).json();
    for m in record["measurements"].as_array().unwrap() {
        let config = &m["config"];
        assert_eq!(
            (&config["array_elements"], &config["element"]),
            (&1_200_000.into(), &"f32".into())
        );
    }
    let standard = figures(&record, "standard");
    assert_eq!(standard.len(), 4);
    let config = &standard[0]["config"];
    assert_eq!(config["ntimes"], 7);
    let command = "gcc -DSTREAM_TYPE=float -DSTREAM_ARRAY_SIZE=1200000 -DNTIMES=7 -O1";
    assert_eq!(config["compiler"]["command"], command);
    place.stream(&["--compiler", "gcc -DSTREAM_ARRAY_SIZE=1200000"]).exits(2).warns(
        "-DSTREAM_ARRAY_SIZE=1200000 contradicts --size 1000000elements\nhint: leave out --size",
    );
    for mode in [&["stream"][..], &["stream", "--sweep", "threads=1"]] {
        harness
            .run(&[mode, &["--compiler", "gcc -DNTIMES=5"]].concat())
            .exits(2)
            .warns("the kernels of nodegauge ignore the macro NTIMES\nhint: use --samples");
    }
}

/// Program with the output of STREAM's MPI version. Each rank writes its CPUs to the folder `FOLDER`.
const MPI_STAND_IN: &str = r##"
#define _GNU_SOURCE
# include "mpi.h"
#include <sched.h>
#include <stdio.h>
static void line(const char *name, double words) {
    double rate = 10000.0, time = words * 8 * STREAM_ARRAY_SIZE / rate / 1e6;
    printf("%-12s%11.1f  %11.6f  %11.6f  %11.6f\n", name, rate, time, time, time);
}
int main(int argc, char **argv) {
    int rank, ranks, cpu;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char path[4096];
    snprintf(path, sizeof path, "FOLDER/cpus-%d", rank);
    FILE *file = fopen(path, "w");
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set)) fprintf(file, "%d ", cpu);
    fclose(file);
    if (rank == 0) {
        printf("STREAM version $Revision: 1.8 $\n");
        printf("This system uses 8 bytes per array element.\n");
        printf("Total Aggregate Array size = %llu (elements)\n", (unsigned long long)STREAM_ARRAY_SIZE);
        printf("Data is distributed across %d MPI ranks\n", ranks);
        printf("Each kernel will be executed %d times.\n", NTIMES);
        printf("Function    Best Rate MB/s  Avg time     Min time     Max time\n");
        line("Copy:", 2); line("Scale:", 2); line("Add:", 3); line("Triad:", 3);
        printf("Solution Validates: avg error less than 1.000000e-13 on all three arrays\n");
    }
    MPI_Finalize();
    return 0;
}
"##;

/// Compares the CPUs that two ranks wrote with those that `places` plans.
#[track_caller]
fn assert_cpus_as_planned(harness: &Harness, placement: &[&str]) {
    let places = [&["places", "--ranks", "2", "--json"][..], placement].concat();
    let places = harness.run(&places).exits(0).json();
    for (rank, thread) in places["threads"].as_array().unwrap().iter().enumerate() {
        let cpus = std::fs::read_to_string(harness.path(&format!("cpus-{rank}"))).unwrap();
        let cpus: Vec<u64> = cpus.split_whitespace().map(|cpu| cpu.parse().unwrap()).collect();
        let planned: Vec<u64> =
            thread["cpus"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        assert_eq!(cpus, planned, "rank {rank}, {placement:?}");
    }
}

#[test]
fn stream_mpi_ranks_run_in_the_planned_places() {
    let harness = Harness::new();
    if !harness.has(Part::Mpi, "mpicc") || !harness.has_cpus(2) {
        return;
    }
    let folder = harness.path("");
    let text = MPI_STAND_IN.replace("FOLDER", folder.to_str().unwrap().trim_end_matches('/'));
    let source = harness.write("stream_mpi.c", text);
    let common = ["stream", "--standard", &source, "--size", "1000000elements", "--samples", "2"];
    let with = |more: &[&str]| harness.run(&[&common[..], &["--dimms=1024x20000"], more].concat());
    let record = with(&["--ranks", "2", "--json"]).exits(0).json();
    let figures = record["measurements"].as_array().unwrap();
    assert_eq!(figures.len(), 4);
    for m in figures {
        let config = &m["config"];
        assert_eq!((&m["category"], m["summary"]["n"].as_u64()), (&"standard".into(), Some(2)));
        assert_eq!(config["engine"], "stream_mpi.c");
        assert_eq!(
            (&config["processes"], &config["array_elements"]),
            (&2.into(), &2_000_000.into())
        );
        assert_eq!(m["value"], 10e9);
    }
    assert_cpus_as_planned(&harness, &[]);
    let maps = ["block", "cyclic", "core", "spread"];
    for policy in 0..=5 {
        let policy_word = policy.to_string();
        let placement = ["--policy", &policy_word, "--rank-map", maps[policy % maps.len()]];
        let placed = with(&[&["--ranks", "2", "--json"][..], &placement].concat()).exits(0).json();
        assert_eq!(placed["measurements"].as_array().unwrap().len(), 4);
        assert_cpus_as_planned(&harness, &placement);
    }
    let printed = with(&["--ranks", "2", "--stream-text"]).exits(0).stdout;
    assert!(printed.contains("Data is distributed across 2 MPI ranks"), "{printed}");
    with(&[]).exits(2).warns("stream_mpi.c requires --ranks");
    let serial = Place::new("", PASSED);
    serial.stream(&["--ranks", "2"]).exits(2).warns("--ranks does not apply to stream.c");
}

#[test]
fn standard_option_refuses_invalid_options_and_a_missing_source() {
    let place = Place::new("", PASSED);
    let cases: [(&[&str], &str); 3] = [
        (&["--sweep", "stores"], "cannot be used with"),
        (&["--numa", "interleave"], "--numa does not apply to stream.c"),
        (&["--compiler", "gcc 'x"], "expected the end of a quote"),
    ];
    for (more, message) in cases {
        place.stream(more).exits(2).warns(message);
    }
    let missing = place.0.run(&["stream", "--standard", "/no/such/stream.c"]).exits(2);
    missing.warns("cannot read \"/no/such/stream.c\"");
}

#[test]
fn budget_shorter_than_the_passes_is_refused_with_the_needed_time() {
    let place = Place::new("", PASSED);
    let (source, temporary) = (place.0.arg("stream.c"), place.0.arg("tmp"));
    // 8 PB cannot be moved in ten seconds.
    let endless = "gcc -DSTREAM_ARRAY_SIZE=10000000 -DNTIMES=10000000";
    let run = ["stream", "--threads", "1", "--standard", &source, "--compiler", endless];
    let asked = [&run[..], &["--budget", "10"]].concat();
    let refused = place.0.run_with(&[("TMPDIR", &temporary)], &asked).exits(2);
    refused
        .warns("--budget 10 is too short: the run takes at least ")
        .warns("hint: use --budget ")
        .warns("fewer passes (-DNTIMES), or smaller arrays (--size)");
    place.assert_nothing_left();
}

fn recorded(name: &str) -> String {
    format!("{}/../stream/tests/outputs/stream-{name}.txt", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn saved_stream_outputs_become_records() {
    let harness = Harness::new();
    let files = ["gcc-2t", "mpi-2r", "f-67M-2t"].map(recorded);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let import = ["history", "import", "--label", "nps=4", "--host", "n01"];
    let imported = harness.run(&[&import[..], &files].concat()).exits(0).stdout;
    assert_eq!(imported.lines().count(), 3, "{imported}");
    let id = imported.split_whitespace().next().unwrap();
    let record = harness.run(&["history", "show", id, "--json", "-"]).exits(0).json();
    assert_eq!(
        (&record["labels"]["nps"], &record["machine"]["host"]),
        (&"4".into(), &"n01".into())
    );
    let standard = figures(&record, "standard");
    assert_eq!((standard.len(), &standard[3]["value"]), (4, &22_189.7e6.into()));
    harness.run(&["history", "list"]).exits(0).prints("22.19").prints("nps=4");
}

#[test]
fn saved_output_without_a_result_is_kept_and_foreign_files_are_refused() {
    let harness = Harness::new();
    harness
        .run(&["history", "import", &recorded("gcc-ntimes300-2t")])
        .exits(1)
        .warns("saved without a result: stream.c cannot detect errors");
    let other = harness.write("stream.c", STAND_IN);
    harness
        .run(&["history", "import", &recorded("gcc-2t"), &other])
        .exits(2)
        .prints_nothing()
        .warns("is not the output of STREAM");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn memory_fault_message_contains_the_stack_limit() {
        let place = Place::new("int *none = NULL; *(volatile int *)none = 1;", PASSED);
        let source = place.0.arg("stream.c");
        let run = [
            "stream",
            "--threads",
            "1",
            "--size",
            "1000000elements",
            "--samples",
            "3",
            "--no-save",
        ];
        let words = [&run[..], &["--standard", &source, "--compiler", "gcc"]].concat();
        let limited = ["sh", "-c", "ulimit -S -s 4096 && exec \"$@\"", "sh"];
        let Some(outcome) = place.0.run_under(&limited, &words) else { return };
        outcome
            .exits(1)
            .prints_words(
                "the program ended with signal 11 (segmentation fault); if its local arrays need",
            )
            .prints_words("more than 4 MiB of stack, ");
    }

    #[test]
    fn crashing_or_hanging_program_does_not_affect_native_figures() {
        assert_eq!(
            reason("fprintf(stderr, \"oh\\n\"); abort();"),
            "the program ended with signal 6 (abort):\noh"
        );
        let hangs = reason("for (;;) pause();");
        assert!(hangs.starts_with("the program took longer than"), "{hangs}");
        assert!(hangs.ends_with("s and was killed"), "{hangs}");
    }

    #[test]
    fn interrupt_kills_the_program_and_keeps_results() {
        let harness = Harness::new();
        let pid = harness.arg("pid");
        let before = format!(
            "FILE *f = fopen({pid:?}, \"w\"); fprintf(f, \"%d\\n\", getpid()); fclose(f); for (;;) pause();"
        );
        let source = program(&before, "");
        let source = harness.write("stream.c", source);
        let args = ["stream", "--threads", "1", "--size", "1000000elements", "--compiler", "gcc"];
        let running = harness.start(&[&args[..], &["--standard", &source]].concat());
        let program: u32 = wait_for("the program", || {
            let written = std::fs::read_to_string(&pid).ok()?;
            written.strip_suffix('\n')?.parse().ok()
        });
        running.signal("INT");
        running.end().exits(130);
        assert!(!is_running(program));
        let record = harness.latest();
        assert_eq!((&record["complete"], figures(&record, "variant").len()), (&false.into(), 4));
    }
}
