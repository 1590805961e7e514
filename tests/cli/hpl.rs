//! `nodegauge hpl`: the native run, libraries that are no good, the real HPL.

use crate::harness::{Harness, Outcome, measurements, skip};
use crate::machine::control_group;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A solution in some hundredths of a second.
const SMALL: [&str; 8] = ["--order", "600", "--nb", "64", "--blas", "builtin", "--budget", "1"];

fn record(harness: &Harness, args: &[&str]) -> Value {
    harness.run(&[&["hpl", "--json", "-"], args].concat()).exits(0).json()
}

#[track_caller]
fn named<'a>(record: &'a Value, name: &str) -> Vec<&'a Value> {
    measurements(record).iter().filter(|m| m["name"] == name).collect()
}

/// A library that is installed, by the beginning of its file's name.
fn library(name: &str) -> Option<PathBuf> {
    let folder = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let found = ["openblas-pthread/libopenblas.so.0", "blis-pthread/libblis.so.4"]
        .iter()
        .filter(|file| file.contains(name))
        .map(|file| Path::new(&folder).join(file))
        .find(|path| path.exists());
    if found.is_none() {
        skip(&format!("there is no {name}"));
    }
    found
}

/// A shared library made of C; `None` where there is no compiler.
fn made(harness: &Harness, name: &str, source: &str) -> Option<String> {
    let file = harness.write(&format!("{name}.c"), source);
    let library = harness.arg(&format!("{name}.so"));
    let status =
        Command::new("gcc").args(["-shared", "-fPIC", "-O1", "-o", &library, &file]).status();
    match status {
        Ok(status) => assert!(status.success()),
        Err(_) => {
            skip("there is no gcc");
            return None;
        }
    }
    Some(library)
}

/// Plain routines of a BLAS whose integers have this type.
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
fn a_rating_has_its_residual_its_peaks_and_its_formulas() {
    let harness = Harness::new();
    let record = record(&harness, &SMALL);
    let rating = named(&record, "rating")[0];
    assert_eq!(
        (&rating["gauge"], &rating["test"], &rating["unit"]),
        (&"compute".into(), &"hpl".into(), &"FLOP/s".into())
    );
    assert!(rating["value"].as_f64().unwrap() > 0.0);
    assert_eq!((&rating["config"]["n"], &rating["config"]["nb"]), (&600.into(), &64.into()));
    assert_eq!(rating["config"]["formula"], "(2/3 N^3 + 3/2 N^2) / t");
    let residual = rating["config"]["residual"]["value"].as_f64().unwrap();
    assert!(residual > 0.0 && residual < 16.0);
    let seconds = rating["config"]["seconds"].as_f64().unwrap();
    let flops = 2.0 / 3.0 * 600f64.powi(3) + 1.5 * 600f64.powi(2);
    let value = rating["value"].as_f64().unwrap();
    assert!((value * seconds / flops - 1.0).abs() < 1e-9);
    for name in ["dgemm", "fma_peak", "fma_peak_f32"] {
        assert!(named(&record, name)[0]["value"].as_f64().unwrap() > 0.0, "{name}");
    }
    // So small that it says little, and that is said.
    assert_eq!(rating["validity"]["status"], "suspect");
    let shown = harness.run(&["history", "show", "latest"]).exits(0);
    shown.says("residual").says("PASSED").tells("power");
}

#[test]
fn the_same_seed_gives_the_same_residual_and_another_does_not() {
    let harness = Harness::new();
    let residual = |seed: &str| {
        let record = record(&harness, &[&SMALL[..], &["--threads", "1", "--seed", seed]].concat());
        named(&record, "rating")[0]["config"]["residual"]["norm_x"].as_f64().unwrap()
    };
    assert_eq!(residual("7"), residual("7"));
    assert!((residual("7") - residual("8")).abs() > 0.0);
}

#[test]
fn libraries_are_set_side_by_side_with_version_and_kernels() {
    let harness = Harness::new();
    let (Some(openblas), Some(blis)) = (library("openblas"), library("blis")) else { return };
    let (openblas, blis) = (openblas.display().to_string(), blis.display().to_string());
    let args =
        ["--order", "500", "--nb", "48", "--budget", "1", "--blas", &openblas, "--blas", &blis];
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
fn kernels_are_taken_as_asked_or_refused() {
    let harness = Harness::new();
    if library("blis").is_none() {
        return;
    }
    let with = |blas: &str| {
        harness.run(&[
            "hpl", "--order", "300", "--nb", "32", "--budget", "1", "--json", "-", "--blas", blas,
        ])
    };
    let record = with("blis@generic").exits(0).json();
    let config = &named(&record, "rating")[0]["config"];
    assert!(config["blas"].as_str().unwrap().ends_with("(generic kernels)"), "{config}");
    assert!(config["blas_setting"].as_str().unwrap().starts_with("BLIS_ARCH_TYPE="));
    with("blis@nonesuch").exits(3);
}

#[test]
fn a_library_that_is_no_good_is_refused_with_the_reason() {
    let harness = Harness::new();
    let with = |blas: &str| harness.run(&["hpl", "--order", "300", "--blas", blas]).exits(3);
    with("essl").complains("no BLAS library \"essl\" was found");
    with("./nothing.so").complains("no BLAS library \"./nothing.so\" was found");
    let text = harness.write("text.so", "not a library");
    with(&text).complains("cannot load ");
    let Some(empty) = made(&harness, "empty", "int nothing;") else { return };
    with(&empty).complains("has no dgemm_: it is no BLAS library");
    let crash = "#include <stdlib.h>\n__attribute__((constructor)) void f(void) { abort(); }";
    let crash = made(&harness, "crash", crash).unwrap();
    with(&crash).complains("cannot be used: the process that tried it ended with signal 6 (abort)");
    let wrong = plain_blas("int").replace("*al * s", "*al * s + 1");
    let wrong = made(&harness, "wrong", &wrong).unwrap();
    with(&wrong).complains("computes dgemm wrongly");
    // Nothing of all that is saved.
    harness.run(&["history", "list"]).exits(0).says("no saved runs");
}

#[test]
fn libraries_of_either_integer_give_a_rating() {
    let harness = Harness::new();
    for (integer, bits) in [("int", 32), ("long long", 64)] {
        let name = format!("blas{bits}");
        let Some(blas) = made(&harness, &name, &plain_blas(integer)) else { return };
        let record =
            record(&harness, &["--order", "200", "--nb", "64", "--budget", "1", "--blas", &blas]);
        let config = &named(&record, "rating")[0]["config"];
        assert_eq!(config["blas_integer_bits"], bits);
    }
}

#[test]
fn a_plan_shows_its_formulas_and_measures_nothing() {
    let harness = Harness::new();
    let plan = harness.run(&["hpl", "--plan", "--full"]).exits(0);
    plan.tells("N = sqrt(0.8 x ").tells("P x Q").tells("predicted").tells("that can be had");
    harness.run(&["history", "list"]).exits(0).says("no saved runs");
}

#[test]
fn a_size_that_does_not_fit_is_refused_with_one_that_does() {
    let harness = Harness::new();
    for more in [&[][..], &["--plan"]] {
        let outcome = harness.run(&[&["hpl", "--order", "4000000"], more].concat()).exits(3);
        outcome.complains("N = 4000000 needs 116.4 TiB and ").complains("hint: use --order ");
    }
    harness.run(&["hpl", "--memory-fraction", "1.5"]).exits(2);
}

#[test]
fn a_given_matrix_is_solved_and_a_singular_one_refused() {
    let harness = Harness::new();
    let head = "%%MatrixMarket matrix array real general\n";
    let good = harness.write("good.mtx", format!("{head}3 3\n2 1 0\n1 3 1\n0 1 4\n"));
    let args = |file: &str| {
        vec![
            "hpl".to_owned(),
            "--matrix".into(),
            file.into(),
            "--blas".into(),
            "builtin".into(),
            "--budget".into(),
            "0.5".into(),
            "--nb".into(),
            "2".into(),
        ]
    };
    let run = |file: &str, more: &[&str]| {
        let all = args(file);
        let all: Vec<&str> = all.iter().map(String::as_str).chain(more.iter().copied()).collect();
        harness.run(&all)
    };
    let record = run(&good, &["--json", "-"]).exits(0).json();
    // b is the sums of rows, so x is ones.
    assert_eq!(named(&record, "rating")[0]["config"]["residual"]["norm_x"], 1.0);
    let singular = harness.write("singular.mtx", format!("{head}2 2\n1 2\n2 4\n"));
    run(&singular, &[]).exits(2).complains("the matrix is singular: column 1 has no pivot");
    let ragged = harness.write("ragged.mtx", format!("{head}2 2\n1 2 3\n"));
    run(&ragged, &[]).exits(2).complains("it has 3 elements, not 2 x 2");
}

#[test]
fn the_result_in_hpls_form_is_read_back_by_import() {
    let harness = Harness::new();
    let text = harness.run(&[&["hpl", "--hpl-text"], &SMALL[..]].concat()).exits(0).stdout;
    assert!(text.contains("WR20R2R4         600    64     1     1"), "{text}");
    assert!(text.contains("...... PASSED"));
    let file = harness.write("HPL.out", &text);
    harness.run(&["history", "import", &file]).exits(0);
    let record = harness.run(&["history", "show", "latest", "--json"]).exits(0).json();
    let rating = named(&record, "rating")[0];
    assert_eq!((&rating["category"], &rating["config"]["n"]), (&"reference".into(), &600.into()));
    assert!(rating["value"].as_f64().unwrap() > 0.0);
}

#[test]
fn saved_outputs_of_hpl_are_imported_failed_ones_too() {
    let harness = Harness::new();
    let outputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compute/tests/outputs");
    let import = |name: &str| {
        let file = outputs.join(name).display().to_string();
        harness.run(&["history", "import", &file])
    };
    import("three-nb.txt").exits(0);
    let record = harness.run(&["history", "show", "latest", "--json"]).exits(0).json();
    assert_eq!(named(&record, "rating").len(), 3);
    assert_eq!(named(&record, "rating")[0]["value"], 89.775e9);
    import("failed.txt");
    let record = harness.run(&["history", "show", "latest", "--json"]).exits(0).json();
    let rating = named(&record, "rating")[0];
    assert_eq!(
        (&rating["value"], &rating["validity"]["status"]),
        (&Value::Null, &"invalid".into())
    );
}

#[test]
fn other_commands_know_its_figures() {
    let harness = Harness::new();
    harness
        .run(&[&["hpl", "--expect", "rating>=1FLOP/s", "--csv", "a.csv"], &SMALL[..]].concat())
        .exits(0);
    let csv = std::fs::read_to_string(harness.path("a.csv")).unwrap();
    assert!(csv.contains("rating") && csv.contains("fma_peak"), "{csv}");
    harness.run(&[&["hpl", "--expect", "rating>=1000000TFLOP/s"], &SMALL[..]].concat()).exits(1);
    harness.run(&["compare", "latest~1", "latest"]).exits(0).says("rating");
}

#[test]
fn input_for_the_real_hpl_is_written_whole() {
    let harness = Harness::new();
    let args = ["hpl", "--hpl-dat-only", "--order", "8000", "--nb", "128,192", "--ranks", "32"];
    let text = harness.run(&args).exits(0).stdout;
    assert_eq!(text.lines().count(), 31);
    assert!(
        text.contains("\n128 192      NBs\n")
            && text.contains("\n4            Ps\n8            Qs\n"),
        "{text}"
    );
}

#[test]
fn ctrl_c_ends_at_once_without_a_rating() {
    let harness = Harness::new();
    let args = [
        "hpl",
        "--order",
        "12000",
        "--nb",
        "64",
        "--blas",
        "builtin",
        "--budget",
        "1",
        "--threads",
        "1",
    ];
    let running = harness.start(&args);
    std::thread::sleep(Duration::from_secs_f64(3.0));
    running.signal("INT");
    let asked = std::time::Instant::now();
    running.end().exits(130);
    assert!(asked.elapsed() < Duration::from_secs(10));
    let record = harness.run(&["history", "show", "latest", "--json"]).exits(0).json();
    assert_eq!(record["complete"], false);
    assert!(named(&record, "rating").is_empty());
    assert!(record["notices"].to_string().contains("interrupted"), "{record:#}");
}

/// Runs `hpl --xhpl` with a script in the program's place.
fn scripted(harness: &Harness, script: &str, more: &[&str]) -> Option<Outcome> {
    use std::os::unix::fs::PermissionsExt;
    if Command::new("mpirun.openmpi").arg("--version").output().is_err() {
        skip("there is no mpirun.openmpi");
        return None;
    }
    let program = harness.write("xhpl", format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let args = [
        &[
            "hpl",
            "--xhpl",
            &program,
            "--launcher",
            "mpirun.openmpi",
            "--allow-run-as-root",
            "--ranks",
            "1",
        ][..],
        &SMALL,
        more,
    ];
    Some(harness.run(&args.concat()))
}

#[test]
fn a_real_hpl_that_fails_keeps_the_native_figures() {
    let harness = Harness::new();
    let Some(outcome) = scripted(&harness, "exit 0", &[]) else { return };
    outcome.exits(3).complains("gave no result (exit status 0)");
    let record = harness.run(&["history", "show", "latest", "--json"]).exits(0).json();
    assert_eq!(named(&record, "rating").len(), 1);
    scripted(&harness, "kill -9 $$", &[]).unwrap().exits(3).complains("gave no result (");
    let too_few = "echo '>>> Need at least 2 processes for these tests <<<'; exit 1";
    scripted(&harness, too_few, &[])
        .unwrap()
        .exits(3)
        .complains("Need at least 2 processes")
        .complains("by the launcher of another MPI");
}

#[test]
fn passed_and_failed_of_a_real_hpl_are_told_apart() {
    let harness = Harness::new();
    let outputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compute/tests/outputs");
    let prints = |name: &str| format!("test -s HPL.dat && cat '{}'", outputs.join(name).display());
    let Some(outcome) = scripted(&harness, &prints("three-nb.txt"), &["--json", "-"]) else {
        return;
    };
    let record = outcome.exits(0).json();
    let real: Vec<&Value> =
        named(&record, "rating").into_iter().filter(|m| m["category"] == "reference").collect();
    assert_eq!((real.len(), &real[0]["config"]["engine"]), (3, &"xhpl".into()));
    scripted(&harness, &prints("failed.txt"), &[]).unwrap().exits(1).says("FAILED");
}

#[test]
fn what_the_real_hpl_lacks_is_said_before_anything_is_measured() {
    let harness = Harness::new();
    let args = |program: &str, more: &[&str]| {
        let all =
            [&["hpl", "--xhpl", program, "--order", "300", "--blas", "builtin"], more].concat();
        harness.run(&all)
    };
    args("./no-xhpl", &[]).exits(3).complains("there is no program \"./no-xhpl\"");
    let hpcc = "/usr/bin/hpcc";
    if !Path::new(hpcc).exists() || Command::new("mpirun.mpich").arg("--version").output().is_err()
    {
        return skip("there is no hpcc, or no mpirun.mpich");
    }
    args(hpcc, &["--launcher", "mpirun.mpich"]).exits(3).complains("MPICH");
    args(hpcc, &["--ranks", "100000"]).exits(2);
    harness.run(&["history", "list"]).exits(0).says("no saved runs");
}

#[test]
fn hpcc_is_run_and_read() {
    let harness = Harness::new();
    if !Path::new("/usr/bin/hpcc").exists() {
        return skip("there is no hpcc");
    }
    let args = [
        "hpl",
        "--xhpl",
        "/usr/bin/hpcc",
        "--allow-run-as-root",
        "--ranks",
        "1",
        "--order",
        "400",
        "--nb",
        "64",
        "--blas",
        "builtin",
        "--budget",
        "1",
        "--json",
        "-",
    ];
    let record = harness.run(&args).exits(0).json();
    let real: Vec<&Value> =
        named(&record, "rating").into_iter().filter(|m| m["category"] == "reference").collect();
    assert_eq!(real.len(), 1);
    assert_eq!(real[0]["config"]["engine"], "hpcc");
    assert_eq!((&real[0]["config"]["n"], &real[0]["config"]["nb"]), (&400.into(), &64.into()));
    assert!(real[0]["value"].as_f64().unwrap() > 0.0);
}

#[test]
fn without_any_library_the_compiled_in_kernels_serve() {
    let harness = Harness::new();
    let lib = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    if !Path::new(&lib).exists() {
        return skip("libraries lie elsewhere here");
    }
    // What links to a library in a folder that shows empty points to nothing.
    let folders: Vec<String> = ["openblas-pthread", "openblas-openmp", "openblas-serial"]
        .into_iter()
        .chain(["blis-pthread", "blis-openmp", "blis-serial", "blas", "atlas"])
        .map(|name| format!("{lib}/{name}"))
        .filter(|folder| Path::new(folder).exists())
        .collect();
    let shown: Vec<(&str, &str)> =
        folders.iter().map(|folder| ("tmpfs:ro", folder.as_str())).collect();
    let args = ["hpl", "--order", "300", "--nb", "32", "--budget", "1", "--json", "-"];
    let Some(outcome) = harness.run_where(&shown, &args) else { return };
    let record = outcome.exits(0).json();
    assert_eq!(named(&record, "rating")[0]["config"]["blas"], "built-in (gemm crate)");
    let asked = [&args[..], &["--blas", "openblas"]].concat();
    let refused = harness.run_where(&shown, &asked).unwrap().exits(3);
    refused.complains("no BLAS library \"openblas\" was found");
}

#[test]
fn a_control_group_limits_n() {
    let harness = Harness::new();
    let shown = control_group(&harness, 1 << 30, 0);
    let shown: Vec<(&str, &str)> = shown.iter().map(|(what, at)| (what.as_str(), *at)).collect();
    let args = ["hpl", "--order", "20000", "--blas", "builtin"];
    let Some(outcome) = harness.run_where(&shown, &args) else { return };
    outcome.exits(3).complains("(the cgroup's limit is 1 GiB): it would swap or be killed");
    let full = harness.run_where(&shown, &["hpl", "--plan", "--full"]).unwrap().exits(0);
    full.tells("N = sqrt(0.8 x 1 GiB / 8 B)");
}

#[test]
fn memory_that_the_kernel_refuses_ends_with_a_message() {
    let harness = Harness::new();
    // Address space for the program and its threads, and not for a matrix of 2 GB.
    let limited = ["sh", "-c", "ulimit -v 2000000 && exec \"$@\"", "sh"];
    let args = ["hpl", "--order", "16000", "--nb", "64", "--blas", "builtin", "--threads", "1"];
    if harness.run(&["hpl", "--plan", "--order", "16000"]).code != Some(0) {
        return skip("there is no memory for that here");
    }
    let Some(outcome) = harness.run_under(&limited, &args) else { return };
    outcome.exits(3).complains("of memory for the matrix");
}

/// A launcher that says what it is, notes its words, and prints a saved output.
fn launcher(harness: &Harness, name: &str, version: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let outputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compute/tests/outputs");
    let (words, printed) = (harness.arg("words"), outputs.join("three-nb.txt"));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '{version}'; exit; fi\n\
         echo \"$@\" >> '{words}'\ncp HPL.dat '{words}.dat'\ncat '{}'\n",
        printed.display()
    );
    let launcher = harness.write(name, script);
    std::fs::set_permissions(&launcher, PermissionsExt::from_mode(0o755)).unwrap();
    launcher
}

#[test]
fn ranks_are_spread_over_the_hosts_that_are_named() {
    let harness = Harness::new();
    let program = launcher(&harness, "xhpl", "");
    for (name, version, expected) in [
        ("mpirun", "mpirun (Open MPI) 4.1.4", "-np 2 --host one:1,two:1 --map-by ppr:1:node:PE=1"),
        ("mpiexec", "HYDRA build details:\n    Version: 4.0.2", "-np 2 -ppn 1 -hosts one,two"),
        (
            "srun",
            "slurm-wlm 22.05.8",
            "--nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --nodelist=one,two",
        ),
    ] {
        let launcher = launcher(&harness, name, version);
        let real = ["hpl", "--xhpl", &program, "--launcher", &launcher, "--hosts", "one,two"];
        let one = ["--ranks", "1", "--threads", "1"];
        harness.run(&[&real, &one[..], &SMALL].concat()).exits(0).tells("2 ranks by");
        let words = std::fs::read_to_string(harness.path("words")).unwrap();
        let last = words.lines().last().unwrap();
        assert!(last.starts_with(expected), "{last}");
        let input = std::fs::read_to_string(harness.path("words.dat")).unwrap();
        assert!(input.contains("\n1            Ps\n2            Qs\n"), "{input}");
    }
}

#[test]
fn widths_and_grids_are_searched_with_the_real_hpl() {
    let harness = Harness::new();
    let program = launcher(&harness, "xhpl", "");
    let launcher = launcher(&harness, "mpirun", "mpirun (Open MPI) 4.1.4");
    let names: Vec<String> = (0..8).map(|i| format!("host{i}")).collect();
    let args = ["hpl", "--xhpl", &program, "--launcher", &launcher, "--hosts", &names.join(",")];
    let more = ["--ranks", "1", "--order", "600", "--blas", "builtin", "--budget", "1"];
    harness.run(&[&args[..], &more].concat()).exits(0);
    let words = std::fs::read_to_string(harness.path("words")).unwrap();
    assert_eq!(words.lines().count(), 2, "a search and the run itself: {words}");
    // The saved output's best width.
    let input = std::fs::read_to_string(harness.path("words.dat")).unwrap();
    assert!(input.contains("\n192          NBs\n"), "{input}");
}

#[test]
fn a_job_of_several_nodes_gives_its_hosts() {
    let harness = Harness::new();
    let scontrol = launcher(&harness, "scontrol", "");
    std::fs::write(&scontrol, "#!/bin/sh\nprintf 'n1\\nn2\\nn3\\nn4\\n'\n").unwrap();
    let path = format!("{}:{}", harness.arg(""), std::env::var("PATH").unwrap_or_default());
    let job =
        [("SLURM_JOB_NUM_NODES", "4"), ("SLURM_JOB_NODELIST", "n[1-4]"), ("PATH", path.as_str())];
    let args = ["hpl", "--hpl-dat-only", "--order", "8000", "--ranks", "2"];
    let text = harness.run_with(&job, &args).exits(0).stdout;
    assert!(text.contains("\n2            Ps\n4            Qs\n"), "{text}");
}

#[test]
fn n_is_a_multiple_of_what_was_asked() {
    let harness = Harness::new();
    let args = ["hpl", "--plan", "--full", "--nb", "96", "--ranks", "6", "--grid-multiple"];
    let outcome = harness.run(&args).exits(0);
    // 2 x 3, or 1 x 6 of one power of two: the least common multiple is 6.
    outcome.tells("down to a multiple of 576");
}

#[test]
fn other_work_on_the_cpus_is_in_the_record() {
    let harness = Harness::new();
    let record = record(&harness, &SMALL);
    let time = &named(&record, "rating")[0]["config"]["time"];
    assert!(time["lost"].as_f64().unwrap() >= 0.0 && time["switches"].is_u64(), "{time}");
    let config = &named(&record, "rating")[0]["config"];
    let peak = named(&record, "fma_peak")[0]["value"].as_f64().unwrap();
    let rating = named(&record, "rating")[0]["value"].as_f64().unwrap();
    assert!((config["of_fma_peak"].as_f64().unwrap() * peak / rating - 1.0).abs() < 1e-9);
}
