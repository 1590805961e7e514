//! `stream --standard` with a test program in Fortran that has the output of stream.f, built by the real
//! gfortran together with a clock in C in the same folder.

use crate::harness::{Harness, measurements};
use serde_json::Value;

/// Two million elements, 20 passes and 10 GB/s; the times follow from these. The clock is a C function, as in
/// stream.f; the program calls it, so it must be linked.
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

/// Returns the record of the program whose output ends with `check`.
#[track_caller]
fn record(harness: &Harness, code: i32, compiler: &[&str], check: &str) -> Value {
    harness.write("mysecond.c", CLOCK);
    let source = harness.write("stream.f", PROGRAM.replace("CHECK", &format!("'{check}'")));
    std::fs::create_dir_all(harness.path("tmp")).unwrap();
    let temporary = harness.arg("tmp");
    let run = ["stream", "--standard", &source, "--threads", "1", "--samples", "3"];
    let quick = ["--size", "2000000", "--stores", "regular", "--prefetch", "off"];
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
fn a_fortran_program_stands_beside_the_variant() {
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
fn a_fortran_program_that_fails_its_check_is_no_result() {
    let harness = Harness::new();
    let record = record(&harness, 1, &[], "Failed Validation on array a()");
    for m in standard(&record) {
        assert_eq!((&m["value"], &m["validity"]["status"]), (&Value::Null, &"invalid".into()));
    }
}

#[test]
fn all_compilers_are_c_compilers() {
    let harness = Harness::new();
    let source = harness.write("stream.f", PROGRAM);
    let outcome = harness.run(&["stream", "--standard", &source, "--compiler", "all"]).exits(2);
    outcome.complains("--compiler all means C compilers, but the source is Fortran");
}
