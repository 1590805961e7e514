//! Tests of `stream --standard` with a Fortran program that prints the output of stream.f. The real gfortran builds it
//! together with a clock in C in the same folder.

use crate::harness::{Harness, Part, measurements, skip};
use crate::mpi::installed;
use serde_json::Value;

/// Program with the output of stream.f for two million elements, 20 passes and 10 GB/s; the times follow from these. As
/// in stream.f, the clock is a C function that must be linked.
const PROGRAM: &str = r#"
      PROGRAM standin
      DOUBLE PRECISION mysecond, then, rate, t
      INTEGER n, k, threads
!$    INTEGER omp_get_max_threads
!$    EXTERNAL omp_get_max_threads
      EXTERNAL mysecond
      PARAMETER (n = 2000000)
      CHARACTER*11 label(4)
      INTEGER words(4)
      DATA label /'Copy:', 'Scale:', 'Add:', 'Triad:'/
      DATA words /2, 2, 3, 3/
      then = mysecond()
      IF (then .LT. 0) STOP 3
      threads = 1
!$    threads = omp_get_max_threads()
      PRINT *, 'Assuming 8 bytes per DOUBLE PRECISION word'
      PRINT *, 'STREAM Version $Revision: 5.6 $'
      PRINT *, 'Array size = ', n
      PRINT *, 'Offset     = ', 0
      PRINT *, 'You are running each test ', 20, ' times'
      PRINT *, 'Number of Threads = ', threads
      WRITE (*, '(A)')
     $  'Function     Rate (MB/s)  Avg time   Min time  Max time'
      rate = 10000D0
      DO k = 1, 4
        t = words(k) * 8D0 * n / rate / 1D6
        WRITE (*, '(A, F10.1, 3F12.6)') label(k), rate, t, t, t
      END DO
      PRINT *, CHECK
      END
"#;
const CLOCK: &str = "double mysecond_(void) { return 1.5; }\n";

/// Program with the output of STREAM's MPI version in Fortran: two million elements per rank, and 10 GB/s over all
/// ranks.
const MPI_PROGRAM: &str = r#"
      PROGRAM standin
      include 'mpif.h'
      DOUBLE PRECISION mysecond, then, rate, t
      INTEGER n, k, rank, ranks, rc
      EXTERNAL mysecond
      PARAMETER (n = 2000000)
      CHARACTER*11 label(4)
      INTEGER words(4)
      DATA label /'Copy:', 'Scale:', 'Add:', 'Triad:'/
      DATA words /2, 2, 3, 3/
      CALL MPI_INIT(rc)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, rank, rc)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, rc)
      then = mysecond()
      IF (then .LT. 0) STOP 3
      IF (rank .EQ. 0) THEN
      PRINT *, 'Assuming 8 bytes per DOUBLE PRECISION word'
      PRINT *, 'Number of processors = ', ranks
      PRINT *, 'Array size = ', n
      PRINT *, 'Offset     = ', 0
      PRINT *, 'You are running each test ', 10, ' times'
      WRITE (*, '(A)')
     $  'Function     Rate (MB/s)  Avg time   Min time  Max time'
      rate = 10000D0
      DO k = 1, 4
        t = words(k) * 8D0 * n * ranks / rate / 1D6
        WRITE (*, '(A, F12.1, 3F12.6)') label(k), rate, t, t, t
      END DO
      PRINT *, 'Solution Validates!'
      END IF
      CALL MPI_FINALIZE(rc)
      END
"#;

/// Returns the record of `stream --standard` with the program, whose output ends with `check`.
#[track_caller]
fn record(harness: &Harness, code: i32, compiler: &[&str], check: &str) -> Value {
    harness.write("mysecond.c", CLOCK);
    let source = harness.write("stream.f", PROGRAM.replace("CHECK", &format!("'{check}'")));
    std::fs::create_dir_all(harness.path("tmp")).unwrap();
    let temporary = harness.arg("tmp");
    let run = ["stream", "--standard", &source, "--threads", "1", "--samples", "3"];
    let quick = ["--size", "2000000elements", "--stores", "regular", "--prefetch", "off"];
    let out = ["--dimms", "1024x20000", "--no-save", "--json", "-"];
    let args = [&run[..], &quick, &out, compiler].concat();
    let record = harness.run_with(&[("TMPDIR", &temporary)], &args).exits(code).json();
    assert_eq!(std::fs::read_dir(harness.path("tmp")).unwrap().count(), 0);
    record
}

fn standard(record: &Value) -> Vec<&Value> {
    measurements(record).iter().filter(|m| m["category"] == "standard").collect()
}

#[test]
fn record_contains_the_fortran_result_and_the_variant() {
    let harness = Harness::new();
    for compiler in [&[][..], &["--compiler", "gfortran -O1"]] {
        let record = record(&harness, 0, compiler, "Solution Validates!");
        let lines = standard(&record);
        assert_eq!(lines.len(), 4);
        assert_eq!(measurements(&record).len(), 8);
        for m in &lines {
            assert_eq!((&m["value"], &m["config"]["engine"]), (&10e9.into(), &"stream.f".into()));
            assert_eq!(m["config"]["array_bytes"], 16_000_000);
            assert_eq!(m["config"]["threads"], 1);
            let version = m["config"]["compiler"]["version"].as_str().unwrap();
            assert!(version.contains("GNU Fortran"), "{version}");
        }
        let command = lines[0]["config"]["compiler"]["command"].as_str().unwrap();
        let usual = "gfortran -O3 -march=native -fopenmp";
        assert_eq!(command, if compiler.is_empty() { usual } else { "gfortran -O1" });
    }
}

#[test]
fn failed_check_of_a_fortran_program_makes_its_figures_invalid() {
    let harness = Harness::new();
    let record = record(&harness, 1, &[], "Failed Validation on array a()");
    for m in standard(&record) {
        assert_eq!((&m["value"], &m["validity"]["status"]), (&Value::Null, &"invalid".into()));
    }
}

#[test]
fn program_with_arrays_on_the_stack_runs_under_the_usual_limit() {
    let harness = Harness::new();
    let hard = harness.run_other(&["sh", "-c", "ulimit -Hs"], &[]);
    if hard.stdout.trim().parse().is_ok_and(|kib: u64| kib < 65536) {
        return skip(Part::Memory, "the hard limit of the stack is too low");
    }
    harness.write("mysecond.c", CLOCK);
    // With OpenMP, the compiler puts this array of 16 MB on the stack.
    let declared = "      PARAMETER (n = 2000000)\n      DOUBLE PRECISION large(n)\n";
    let filled = "      threads = 1\n      DO k = 1, n\n        large(k) = k\n      END DO\n      \
                  IF (large(threads + 1) .LT. 0) STOP 4\n";
    let text = PROGRAM
        .replace("      PARAMETER (n = 2000000)\n", declared)
        .replacen("      threads = 1\n", filled, 1)
        .replace("CHECK", "'Solution Validates!'");
    let source = harness.write("stream.f", text);
    let run = ["stream", "--standard", &source, "--threads", "1", "--samples", "3"];
    let quick = ["--size", "2000000elements", "--stores", "regular", "--prefetch", "off"];
    let out = ["--dimms", "1024x20000", "--no-save", "--json", "-"];
    let compiler = ["--compiler", "gfortran -O1 -fopenmp"];
    let words = [&run[..], &quick, &out, &compiler].concat();
    let limited = ["sh", "-c", "ulimit -S -s 8192 && exec \"$@\"", "sh"];
    let Some(outcome) = harness.run_under(&limited, &words) else { return };
    let record = outcome.exits(0).json();
    for m in standard(&record) {
        assert_eq!(m["value"], 10e9, "{m:#}");
        let config = &m["config"];
        assert!(config["stack_limit"].is_string(), "{config:#}");
        // The stacks of threads keep their size.
        assert_eq!(config["environment"]["OMP_STACKSIZE"], "8388608B", "{config:#}");
    }
}

#[test]
fn option_compiler_all_is_refused_for_fortran() {
    let harness = Harness::new();
    let source = harness.write("stream.f", PROGRAM);
    let outcome = harness.run(&["stream", "--standard", &source, "--compiler", "all"]).exits(2);
    outcome.warns("--compiler all selects C compilers, but the source is Fortran");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn mpi_source_in_fortran_is_linked_with_its_clock() {
        let harness = Harness::new();
        harness.write("mysecond.c", CLOCK);
        let source = harness.write("stream_mpi.f", MPI_PROGRAM);
        for which in installed(&harness) {
            let compiler = which.mpicc.replace("mpicc", "mpif90");
            if !harness.has(Part::Mpi, &compiler) {
                continue;
            }
            let line = format!("{compiler} -O1");
            let run = ["stream", "--standard", &source, "--compiler", &line, "--ranks", "2"];
            let placement = ["--policy", "3", "--rank-map", "cyclic", "--samples", "2"];
            let out = ["--dimms", "1024x20000", "--no-save", "--json", "-"];
            let record = harness.run(&[&run[..], &placement, &out].concat()).exits(0).json();
            assert_eq!(measurements(&record).len(), 4, "{}", which.name);
            for m in measurements(&record) {
                assert_eq!((&m["category"], m["value"].as_f64()), (&"standard".into(), Some(10e9)));
                assert_eq!(m["config"]["engine"], "stream_mpi.f");
                assert_eq!(m["config"]["array_elements"], 4_000_000);
            }
        }
    }
}
