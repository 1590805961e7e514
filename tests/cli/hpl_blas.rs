//! Tests of `nodegauge hpl` with installed and with faulty BLAS libraries.

use crate::harness::{Harness, Part, skip};
use crate::hpl::{named, record};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns an installed library whose file name has this prefix.
fn library(name: &str) -> Option<PathBuf> {
    let folder = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let found = ["openblas-pthread/libopenblas.so.0", "blis-pthread/libblis.so.4"]
        .iter()
        .filter(|file| file.contains(name))
        .map(|file| Path::new(&folder).join(file))
        .find(|path| path.exists());
    if found.is_none() {
        skip(Part::Blas, &format!("there is no {name}"));
    }
    found
}

/// Compiles a shared library from a C source.
fn made(harness: &Harness, name: &str, source: &str) -> String {
    let file = harness.write(&format!("{name}.c"), source);
    let library = harness.arg(&format!("{name}.so"));
    let args = ["-shared", "-fPIC", "-O1", "-o", &library, &file];
    assert!(Command::new("gcc").args(args).status().unwrap().success());
    library
}

/// Returns the source of simple BLAS routines with this integer type.
fn plain_blas(integer: &str) -> String {
    const ROUTINES: &str = r#"
        double ddot_(INT *n, double *x, INT *ix, double *y, INT *iy) {
            double s = 0;
            for (INT i = 0; i < *n; i++) s += x[i * *ix] * y[i * *iy];
            return s;
        }
        void dgemm_(char *ta, char *tb, INT *m, INT *n, INT *k, double *al, double *a, INT *lda,
                    double *b, INT *ldb, double *be, double *c, INT *ldc) {
            for (INT j = 0; j < *n; j++)
                for (INT i = 0; i < *m; i++) {
                    double s = 0;
                    for (INT p = 0; p < *k; p++) s += a[i + p * *lda] * b[p + j * *ldb];
                    c[i + j * *ldc] = *al * s + (*be == 0 ? 0 : *be * c[i + j * *ldc]);
                }
        }
        void dtrsm_(char *s, char *u, char *t, char *d, INT *m, INT *n, double *al, double *a,
                    INT *lda, double *b, INT *ldb) {
            for (INT j = 0; j < *n; j++)
                for (INT i = 0; i < *m; i++)
                    for (INT r = i + 1; r < *m; r++)
                        b[r + j * *ldb] -= a[r + i * *lda] * b[i + j * *ldb];
        }"#;
    format!("typedef {integer} INT;\n{ROUTINES}")
}

#[test]
fn record_contains_the_version_and_kernels_of_each_library() {
    let harness = Harness::new();
    let (Some(openblas), Some(blis)) = (library("openblas"), library("blis")) else { return };
    let (openblas, blis) = (openblas.display().to_string(), blis.display().to_string());
    let args = [
        "--order",
        "500",
        "--nb",
        "48",
        "--budget",
        "1",
        "--samples",
        "1",
        "--blas",
        &openblas,
        "--blas",
        &blis,
    ];
    let record = record(&harness, &args);
    let ratings = named(&record, "rating");
    assert_eq!(ratings.len(), 2);
    let name = |m: &Value| m["config"]["blas"].as_str().unwrap().to_owned();
    assert!(name(ratings[0]).starts_with("OpenBLAS 0."), "{}", name(ratings[0]));
    assert!(name(ratings[1]).starts_with("BLIS "), "{}", name(ratings[1]));
    assert!(name(ratings[1]).contains(" kernels)"));
    assert!(ratings.iter().all(|m| m["config"]["blas_integer_bits"] == 32));
}

#[test]
fn requested_kernels_are_used_or_refused() {
    let harness = Harness::new();
    if library("blis").is_none() {
        return;
    }
    let with = |blas: &str| {
        harness.run(&[
            "hpl",
            "--order",
            "300",
            "--nb",
            "32",
            "--budget",
            "1",
            "--samples",
            "1",
            "--json",
            "-",
            "--blas",
            blas,
        ])
    };
    let record = with("blis@generic").exits(0).json();
    let config = &named(&record, "rating")[0]["config"];
    assert!(config["blas"].as_str().unwrap().ends_with("(generic kernels)"), "{config}");
    assert!(config["blas_setting"].as_str().unwrap().starts_with("BLIS_ARCH_TYPE="));
    with("blis@nonesuch").exits(3).warns("unknown kernel 'nonesuch'; known: ");
    let kernel = cannot_run();
    let refused = with(&format!("blis@{}", kernel.name)).exits(3);
    refused.warns(&kernel.message());
}

/// Kernel of BLIS that this processor does not support.
struct CannotRun {
    name: &'static str,
    lacks: &'static str,
}

impl CannotRun {
    fn message(&self) -> String {
        let Self { name, lacks } = self;
        format!("this processor cannot run kernel '{name}' of BLIS: it lacks {lacks}")
    }
}

/// Returns a kernel that this processor does not support: that for AVX-512, or on a processor with AVX-512, that for
/// Xeon Phi or Bulldozer. No processor supports all three.
fn cannot_run() -> CannotRun {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let has = |isa: &str| cpuinfo.split_whitespace().any(|word| word == isa);
    let kernels = [("skx", "avx512dq"), ("knl", "avx512pf"), ("bulldozer", "fma4")];
    let lacking = kernels.into_iter().find(|(_, needs)| !has(needs));
    lacking.map(|(name, lacks)| CannotRun { name, lacks }).unwrap()
}

#[test]
fn unusable_library_is_refused_with_the_reason() {
    let harness = Harness::new();
    let with = |blas: &str| harness.run(&["hpl", "--order", "300", "--blas", blas]).exits(3);
    with("essl").warns("no BLAS library \"essl\" was found");
    with("./nothing.so").warns("no BLAS library \"./nothing.so\" was found");
    let text = harness.write("text.so", "not a library");
    with(&text).warns("cannot load ");
    let empty = made(&harness, "empty", "int nothing;");
    with(&empty).warns("has no dgemm_: it is not a BLAS library");
    let crash = "#include <stdlib.h>\n__attribute__((constructor)) void f(void) { abort(); }";
    let crash = made(&harness, "crash", crash);
    with(&crash).warns("cannot be used: the process that tested it ended with signal 6 (abort)");
    let wrong = plain_blas("int").replace("*al * s", "*al * s + 1");
    let wrong = made(&harness, "wrong", &wrong);
    with(&wrong).warns("computes dgemm wrongly");
    // None of these runs is saved.
    harness.run(&["history", "list"]).exits(0).prints("no saved runs");
}

#[test]
fn built_in_kernels_are_used_without_a_library() {
    let harness = Harness::new();
    let lib = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    if !Path::new(&lib).exists() {
        return skip(Part::Blas, "libraries lie elsewhere here");
    }
    // If the folder of libraries is hidden, the links to it are broken.
    let folders: Vec<String> = ["openblas-pthread", "openblas-openmp", "openblas-serial"]
        .into_iter()
        .chain(["blis-pthread", "blis-openmp", "blis-serial", "blas", "atlas"])
        .map(|name| format!("{lib}/{name}"))
        .filter(|folder| Path::new(folder).exists())
        .collect();
    let shown: Vec<(&str, &str)> =
        folders.iter().map(|folder| ("tmpfs:ro", folder.as_str())).collect();
    let args =
        ["hpl", "--order", "300", "--nb", "32", "--budget", "1", "--samples", "1", "--json", "-"];
    let Some(outcome) = harness.run_where(&shown, &args) else { return };
    let record = outcome.exits(0).json();
    assert_eq!(named(&record, "rating")[0]["config"]["blas"], "built-in (gemm crate)");
    let asked = [&args[..], &["--blas", "openblas"]].concat();
    let refused = harness.run_where(&shown, &asked).unwrap().exits(3);
    refused.warns("no BLAS library \"openblas\" was found");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn libraries_of_both_integer_widths_give_a_rating() {
        let harness = Harness::new();
        for (integer, bits) in [("int", 32), ("long long", 64)] {
            let name = format!("blas{bits}");
            let blas = made(&harness, &name, &plain_blas(integer));
            let record = record(
                &harness,
                &[
                    "--order",
                    "200",
                    "--nb",
                    "64",
                    "--budget",
                    "1",
                    "--samples",
                    "1",
                    "--blas",
                    &blas,
                ],
            );
            let config = &named(&record, "rating")[0]["config"];
            assert_eq!(config["blas_integer_bits"], bits);
        }
    }

    #[test]
    fn unsupported_kernels_are_refused_before_running() {
        // As in BLIS, an invalid number selects kernel 0, and selecting unsupported kernels causes a crash.
        const BLIS: &str = r#"
            #include <stdlib.h>
            static const char *names[] = {"skx", "knl", "bulldozer", "generic"};
            const char *bli_arch_string(int id) { return names[id]; }
            int bli_arch_query_id(void) {
                const char *asked = getenv("BLIS_ARCH_TYPE");
                int id = asked ? atoi(asked) : 3;
                if (id != 3) abort();
                return id;
            }
            const char *bli_info_get_version_str(void) { return "0.0-test"; }
            void bli_thread_set_num_threads(long n) { (void)n; }"#;
        let harness = Harness::new();
        let blis = made(&harness, "libblis", &format!("{BLIS}\n{}", plain_blas("int")));
        let with = |kernel: &str| {
            let blas = format!("{blis}@{kernel}");
            let args =
                ["--order", "200", "--nb", "64", "--budget", "1", "--samples", "1", "--json", "-"];
            harness.run(&[&["hpl", "--blas", &blas][..], &args].concat())
        };
        let record = with("generic").exits(0).json();
        let config = &named(&record, "rating")[0]["config"];
        assert_eq!(config["blas"], "BLIS 0.0-test (generic kernels)");
        assert_eq!(config["blas_setting"], "BLIS_ARCH_TYPE=3");
        with("nonesuch")
            .exits(3)
            .warns("unknown kernel 'nonesuch'; known: skx, knl, bulldozer, generic");
        let kernel = cannot_run();
        with(kernel.name).exits(3).warns(&kernel.message());
    }
}
