//! Tests of `stream --compiler` and of the axis `compiler`: loops that real compilers build, and faults of compilers
//! and of their output files. Faulty compilers are small scripts around gcc.

use crate::harness::{
    Harness, Outcome, Part, has_keys, is_running, make_program, measurements, names, skip, texts,
    wait_for,
};
use crate::thorough::io_faults::faults;
use nodegauge_kernels::KERNELS;
use serde_json::Value;
use std::path::PathBuf;

/// Harness in whose folder files are compiled, so that files left behind are detected.
struct Place(Harness);

impl Place {
    fn new() -> Self {
        let harness = Harness::new();
        std::fs::create_dir(harness.path("tmp")).unwrap();
        Self(harness)
    }

    /// Runs a short `stream` with small arrays on one thread and with these variables.
    fn stream(&self, variables: &[(&str, &str)], more: &[&str]) -> Outcome {
        let temporary = self.0.arg("tmp");
        let variables = [&[("TMPDIR", temporary.as_str())], variables].concat();
        let fast = ["stream", "--samples", "3", "--size", "1000000elements", "--threads", "1"];
        let own = ["--dimms", "1024x20000", "--stores", "regular", "--prefetch", "off"];
        // Only plain loops are measured, unless pages side by side are requested.
        let asked = more.contains(&"--side-by-side");
        let plain: &[&str] = if asked { &[] } else { &["--side-by-side", "1"] };
        self.0.run_with(&variables, &[&fast[..], &own, plain, more].concat())
    }

    /// Returns the record of [`Self::stream`], whose exit code must be `code`.
    #[track_caller]
    fn record(&self, code: i32, variables: &[(&str, &str)], more: &[&str]) -> Value {
        let outcome = self.stream(variables, &[&["--no-save", "--json", "-"], more].concat());
        let record = outcome.exits(code).json();
        self.assert_nothing_left();
        record
    }

    /// Writes a shell script that is used as a compiler.
    fn script(&self, body: &str) -> String {
        let path = self.0.write("bad-cc", format!("#!/bin/sh\n{body}\n"));
        make_program(&path);
        path
    }

    /// Writes a compiler that replaces the statement of Triad by `statement`.
    fn with_triad(&self, statement: &str) -> String {
        self.script(&format!(
            r#"[ "$1" = --version ] && {{ echo 'bad cc 1.0'; exit 0; }}
            for word; do case $word in */kernels.c) source=$word ;; esac; done
            sed -i 's|^MAP(triad, .*|MAP(triad, {statement})|' "$source"
            exec gcc "$@""#
        ))
    }

    #[track_caller]
    fn assert_nothing_left(&self) {
        let left: Vec<_> = std::fs::read_dir(self.0.path("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        let cores = |path: &PathBuf| path.to_string_lossy().contains("core");
        let here = std::fs::read_dir(self.0.path("tmp").parent().unwrap()).unwrap();
        let dumped: Vec<PathBuf> = here.map(|entry| entry.unwrap().path()).filter(cores).collect();
        assert!(dumped.is_empty(), "{dumped:?}");
    }
}

/// Returns the measurements of compiled loops.
fn compiled(record: &Value) -> Vec<&Value> {
    measurements(record).iter().filter(|m| m["config"]["engine"] == "compiled").collect()
}

/// Returns the native measurements.
fn native(record: &Value) -> Vec<&Value> {
    measurements(record).iter().filter(|m| m["config"]["engine"] == "native").collect()
}

/// Returns the reason why a measurement is invalid.
fn reason(m: &Value) -> &str {
    assert_eq!((&m["value"], &m["validity"]["status"]), (&Value::Null, &"invalid".into()));
    m["validity"]["reasons"][0].as_str().unwrap()
}

/// True if the dynamic linker of glibc reports the length from which memcpy uses non-temporal stores.
fn lists_threshold(mut linker: std::process::Command) -> bool {
    let listed = linker.arg("--list-tunables").output();
    listed.is_ok_and(|listed| {
        String::from_utf8_lossy(&listed.stdout).contains("x86_non_temporal_threshold: 0x")
    })
}

#[test]
fn native_and_compiled_loops_are_in_one_record() {
    let place = Place::new();
    let compilers = ["--compiler", "gcc -O3", "--compiler", "gcc -O1 '-DWORD=\"a b\"'"];
    let record = place.record(0, &[], &compilers);
    assert_eq!((native(&record).len(), compiled(&record).len()), (4, 8));
    for m in compiled(&record) {
        assert_eq!((&m["category"], &m["gauge"]), (&"variant".into(), &"memory".into()));
        assert!(m["value"].is_number(), "{m:#}");
        assert!((1..=3).contains(&m["summary"]["n"].as_u64().unwrap()), "{m:#}");
        let config = &m["config"];
        assert!(config["compiler"]["version"].as_str().unwrap().contains("gcc"));
        // Native and compiled loops have the same arrays and threads.
        for key in ["array_elements", "threads", "places", "pages", "element", "layout"] {
            assert_eq!(config[key], native(&record)[0]["config"][key], "{key}");
        }
        assert!(config.get("isa").is_none(), "{config:#}");
    }
    let commands: Vec<&str> = [0, 4]
        .map(|i| compiled(&record)[i]["config"]["compiler"]["command"].as_str().unwrap())
        .to_vec();
    assert_eq!(commands, ["gcc -O3", "gcc -O1 '-DWORD=\"a b\"'"]);
    if cfg!(target_arch = "x86_64") {
        let code = |i: usize| &compiled(&record)[i]["config"]["code"];
        for i in 0..8 {
            has_keys(code(i), &["nontemporal", "fma", "calls"]);
        }
        // With -O3, the compiler replaces Copy by a call of memcpy, and vectorises Triad with SSE2. With -O1, both
        // loops are scalar.
        assert_eq!(
            (&code(0)["vector_bits"], texts(&code(0)["calls"])),
            (&Value::Null, vec!["memcpy"])
        );
        assert_eq!((&code(3)["vector_bits"], &code(3)["fma"]), (&128.into(), &false.into()));
        assert_eq!((&code(4)["vector_bits"], &code(7)["vector_bits"]), (&64.into(), &64.into()));
        let linker = std::process::Command::new("/lib64/ld-linux-x86-64.so.2");
        if lists_threshold(linker) {
            let about = |notice: &&str| {
                notice.starts_with("memcpy of this C library uses non-temporal stores")
            };
            assert_eq!(texts(&record["notices"]).into_iter().filter(about).count(), 1);
        }
        // The kind of stores in memcpy is unknown, so the traffic is unknown.
        let [copy, triad] = [compiled(&record)[0], compiled(&record)[3]];
        assert_eq!((&copy["config"]["stores"], &copy["traffic"]), (&Value::Null, &Value::Null));
        assert_eq!(triad["config"]["stores"], "regular");
        // The traffic of arrays in a cache is unknown.
        assert_eq!(triad["traffic"], Value::Null);
    } else {
        assert!(compiled(&record).iter().all(|m| m["config"]["code"].is_null()));
    }
}

#[test]
fn history_show_prints_the_compiler_table() {
    let place = Place::new();
    let outcome = place.stream(&[], &["--compiler", "gcc -O3", "--kernels", "copy,triad,read"]);
    let outcome = outcome.exits(0).warns_nothing().prints("\ncompiled   gcc -O3\n");
    let outcome = outcome.prints("of native  vectors").prints("based on a variant of the STREAM");
    if cfg!(target_arch = "x86_64") {
        let rows: Vec<&str> =
            outcome.stdout.split("\ncompiled ").nth(1).unwrap().lines().skip(3).take(3).collect();
        assert!(
            rows[0].starts_with("copy") && rows[0].ends_with("those of the library  -    memcpy"),
            "{rows:?}"
        );
        assert!(rows[1].contains("128 bit  regular"), "{rows:?}");
        assert!(rows[2].contains("scalar"), "{rows:?}");
        let outcome = outcome.clone().prints_words("why a loop compiled to a call of memcpy");
        let outcome = outcome.prints_words("a sum stays scalar unless");
        let text = outcome.stdout.split("\nsaved ").next().unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    let shown = place.0.run(&["history", "show", "latest"]).exits(0).stdout;
    let part = |text: &str| {
        let from = text.find("\ncompiled ").unwrap_or_else(|| panic!("no block in\n{text}"));
        text[from..].split("\nnote ").next().unwrap().to_owned()
    };
    assert_eq!(part(&shown), part(&outcome.stdout));
}

#[test]
fn missing_compiler_is_reported_before_measuring() {
    let place = Place::new();
    let outcome = place.stream(&[], &["--compiler", "gcc", "--compiler", "no-such-cc -O3"]);
    outcome.exits(3).only_error(
        "there is no compiler \"no-such-cc\" on this system\nhint: install it, or specify another compiler, e.g. --compiler 'gcc -O3 -march=native -fopenmp'",
    );
    place.assert_nothing_left();
    let nowhere = place.0.arg("tmp");
    let nowhere_outcome = place.stream(&[("PATH", &nowhere)], &["--compiler", "all"]).exits(3);
    // The compilers of vendors may be installed in their own folders.
    if !std::path::Path::new("/opt/AMD").exists() && !std::path::Path::new("/opt/intel").exists() {
        nowhere_outcome.warns("none of the supported compilers is installed: gcc, clang");
    }
}

#[test]
fn compiler_without_usable_output_is_reported() {
    let place = Place::new();
    let nothing = place.script("exit 0");
    let record = place.record(1, &[], &["--compiler", &nothing]);
    assert_eq!(reason(compiled(&record)[0]), "the compiler failed (no output file)");
    let junk = place.script(r#"while [ $# -gt 1 ]; do shift; done; echo junk > "$1""#);
    let junk_record = place.record(1, &[], &["--compiler", &junk]);
    for m in compiled(&junk_record) {
        let why = reason(m);
        assert!(why.contains("cannot be loaded") && why.contains("file too short"), "{why}");
    }
    assert!(native(&junk_record).iter().all(|m| m["value"].is_number()));
}

/// Returns the reason why Triad with this statement has no figure. All other figures must be unchanged.
fn triad_failure(statement: &str) -> String {
    let place = Place::new();
    let bad = place.with_triad(statement);
    let record = place.record(1, &[], &["--compiler", &bad, "--compiler", "gcc -O1"]);
    let made = compiled(&record);
    assert_eq!(made.len(), 8);
    for (i, m) in made.iter().enumerate().filter(|(i, _)| *i != 3) {
        assert!(m["value"].is_number(), "{i}: {m:#}");
    }
    assert!(native(&record).iter().all(|m| m["value"].is_number()));
    assert_eq!(made[3]["config"]["compiler"]["version"], "bad cc 1.0");
    reason(made[3]).to_owned()
}

#[test]
fn interrupt_during_compilation_ends_all_processes() {
    let place = Place::new();
    let pids = place.0.arg("pids");
    let hangs = place
        .script(&format!("[ \"$1\" = --version ] && exit 0\nsleep 987 & echo $! > '{pids}'; wait"));
    let running = place.0.start(&["stream", "--threads", "1", "--compiler", &hangs]);
    let pid: u32 = wait_for("the compiler", || {
        let written = std::fs::read_to_string(&pids).ok()?;
        written.strip_suffix('\n')?.parse().ok()
    });
    running.signal("INT");
    let outcome = running.end().exits(130);
    outcome.warns("interrupted: nothing was measured");
    assert!(!is_running(pid));
    let record = place.0.latest();
    assert_eq!((&record["complete"], measurements(&record).len()), (&false.into(), 0));
}

#[test]
fn all_installed_compilers_are_used_and_refused_flags_are_reported() {
    let place = Place::new();
    let record = place.record(0, &[], &["--compiler", "all", "--kernels", "triad"]);
    let commands: Vec<&str> = compiled(&record)
        .iter()
        .map(|m| m["config"]["compiler"]["command"].as_str().unwrap())
        .collect();
    assert!(commands.contains(&"gcc -O3 -march=native") || cfg!(target_arch = "aarch64"));
    assert!(commands.iter().filter(|command| command.starts_with("gcc ")).count() >= 4);
    let notices = texts(&record["notices"]);
    let refused = |notice: &&&str| notice.contains("-fnt-store: left out, the compiler failed");
    match std::process::Command::new("clang").arg("--version").output() {
        Ok(version) if !String::from_utf8_lossy(&version.stdout).contains("AOCC") => {
            assert_eq!(notices.iter().filter(refused).count(), 1, "{notices:?}");
        }
        _ => skip(Part::Compilers, "there is no clang of llvm.org"),
    }
}

#[test]
fn compilers_can_be_swept() {
    let place = Place::new();
    let axis = "compiler=native;gcc -O1 '-DX=a;b';gcc -O1 -fno-such-flag";
    let record = place.record(1, &[], &["--sweep", axis, "--kernels", "copy,triad"]);
    let places: Vec<(&str, &str)> = measurements(&record)
        .iter()
        .map(|m| (m["name"].as_str().unwrap(), m["config"]["sweep"]["compiler"].as_str().unwrap()))
        .collect();
    let second = "gcc -O1 '-DX=a;b'";
    let third = "gcc -O1 -fno-such-flag";
    let names = ["native", "native", second, second, third, third];
    assert_eq!(places.iter().map(|(_, compiler)| *compiler).collect::<Vec<_>>(), names);
    assert!(measurements(&record)[..4].iter().all(|m| m["value"].is_number()), "{record:#}");
    assert!(reason(&measurements(&record)[5]).contains("-fno-such-flag"));
    // A command that is too long for its column is printed below the table.
    let outcome = place.stream(&[], &["--sweep", "compiler=native;gcc -O1 -funroll-loops"]);
    let outcome = outcome.exits(0).prints("\n  native ").prints("\n      c1 ");
    outcome.prints("\nc1         gcc -O1 -funroll-loops");
}

#[test]
fn compilers_combine_with_another_axis() {
    let place = Place::new();
    let args = ["--sweep", "pages=4k,thp", "--compiler", "gcc -O1", "--kernels", "triad"];
    let record = place.record(0, &[], &args);
    let places: Vec<String> = measurements(&record)
        .iter()
        .map(|m| {
            let at = &m["config"]["sweep"];
            format!("{} {}", at["pages"].as_str().unwrap(), at["compiler"].as_str().unwrap())
        })
        .collect();
    assert_eq!(places, ["4k native", "4k gcc -O1", "thp native", "thp gcc -O1"]);
}

#[test]
fn wrong_compiler_options_are_refused() {
    let place = Place::new();
    let cases: [(&[&str], &str); 5] = [
        (&["--compiler", "gcc 'x"], "expected the end of a quote"),
        (&["--sweep", "compiler=gcc;"], "expected a program and its options"),
        (&["--sweep", "compiler=gcc", "--compiler", "gcc"], "the axis compiler is given twice"),
        (&["--stream-text", "--compiler", "gcc"], "--stream-text requires a single configuration"),
        (&["--sweep", "compiler"], "expected '=' and values"),
    ];
    for (more, message) in cases {
        place.stream(&[], more).exits(2).warns(message);
    }
    let outcome = place.0.run(&["explain", "--compiler", "gcc"]).exits(2);
    outcome.warns("unexpected argument '--compiler'");
    assert!(!place.0.path(".local").exists(), "a refusal opens no history");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn compiled_kernels_pass_their_check_in_both_precisions() {
        let place = Place::new();
        let passes = KERNELS.iter().filter(|spec| spec.has_pass_loops());
        let all: Vec<&str> = passes.map(|spec| spec.name).collect();
        let strict = "g++ -O2 -Wall -Wextra -Werror -pedantic -DPAGES=8";
        let compilers = ["gcc -O0", "gcc -O3 -ffast-math", strict];
        for element in ["f64", "f32"] {
            let kernels = all.join(",");
            let mut args = vec!["--kernels", &kernels, "--element", element];
            compilers.iter().for_each(|compiler| args.extend(["--compiler", compiler]));
            let record = place.record(0, &[], &args);
            assert_eq!(names(&record).len(), all.len() * (1 + compilers.len()));
            for m in measurements(&record) {
                assert!(m["value"].is_number() && m["validity"]["status"] != "invalid", "{m:#}");
            }
        }
    }

    #[test]
    fn pages_side_by_side_have_separate_figures() {
        let place = Place::new();
        let more = ["--compiler", "gcc -O2", "--kernels", "triad,read", "--side-by-side", "4"];
        let record = place.record(0, &[], &more);
        let rows: Vec<_> = compiled(&record)
            .into_iter()
            .map(|m| (m["config"]["compiler"]["command"].as_str(), &m["config"]["side_by_side"]))
            .collect();
        let (plain, four) =
            ((Some("gcc -O2"), &Value::Null), (Some("gcc -O2 -DPAGES=4"), &4.into()));
        assert_eq!(rows, [plain, plain, four, four]);
        assert!(compiled(&record).iter().all(|m| m["value"].is_number()), "{record:#}");
        // With plain loops, the presets differ only in flags.
        let all_record = place.record(0, &[], &["--compiler", "all", "--side-by-side", "4"]);
        assert!(compiled(&all_record).iter().all(|m| m["config"]["side_by_side"].is_null()));
    }

    #[test]
    fn wrong_kernel_is_reported_with_the_wrong_element() {
        let why = triad_failure("a[j] = b[j] - s * c[j]");
        assert!(why.starts_with("triad gives wrong results: "), "{why}");
        assert!(why.contains("a[1] is 1.5, expected 4.5 (2 elements, starting 0 elements after a cache line boundary"), "{why}");
        let shifted = triad_failure("a[j + 1] = b[j] + s * c[j]");
        assert!(shifted.starts_with("triad gives wrong results: "), "{shifted}");
        let removed = triad_failure("(void)0");
        assert!(removed.starts_with("triad gives wrong results: "), "{removed}");
        assert_eq!(triad_failure("__builtin_exit(0)"), "triad terminates the program");
    }

    #[test]
    fn hanging_kernel_is_killed_and_the_next_kernels_are_not_tested() {
        let place = Place::new();
        let bad = place.with_triad("while (n) __asm__ volatile(\"\")");
        let limit = [("NODEGAUGE_COMPILE_LIMIT", "4")];
        let kernels = ["--compiler", &bad, "--kernels", "copy,triad,write,update"];
        let record = place.record(1, &limit, &kernels);
        let made = compiled(&record);
        assert!(made[0]["value"].is_number());
        let whys: Vec<&str> = made[1..].iter().map(|m| reason(m)).collect();
        // On a busy node, the limit of the elapsed time may be reached first.
        assert!(whys[0].starts_with("triad hangs: it exceeded "), "{}", whys[0]);
        assert_eq!(whys[1..], ["not tested: triad hangs"; 2]);
    }

    #[test]
    fn crashing_kernel_is_reported() {
        let why = triad_failure("*(volatile int *)0 = 0");
        assert_eq!(why, "triad crashes: signal 11 (segmentation fault)");
        assert_eq!(
            triad_failure("__builtin_trap()"),
            "triad crashes: signal 4 (illegal instruction)"
        );
    }

    #[test]
    fn library_that_hangs_when_loaded_does_not_stop_the_native_loops() {
        let place = Place::new();
        let library = faults(&place.0);
        let source = place.0.write(
            "hang.c",
            "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { sleep(987); }",
        );
        let hangs =
            place.script(&format!("[ \"$1\" = --version ] && exit 0\nexec gcc \"$@\" '{source}'"));
        let temporary = place.0.arg("tmp");
        // With a budget, the limit of ten seconds is shortened to one second.
        let variables = [
            ("TMPDIR", temporary.as_str()),
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAULT", "fast=10"),
        ];
        let own = ["stream", "--size", "1MiB", "--threads", "1", "--budget", "20", "--no-save"];
        let few = ["--kernels", "triad", "--stores", "regular", "--prefetch", "off"];
        let more = ["--dimms", "1024x20000", "--compiler", &hangs, "--json", "-"];
        let record =
            place.0.run_with(&variables, &[&own[..], &few, &more].concat()).exits(1).json();
        assert!(native(&record).iter().all(|m| m["value"].is_number()), "{record:#}");
        let made = compiled(&record);
        assert!(!made.is_empty());
        // On a busy node, no time may be left after the compilation.
        let is_known = |why: &str| {
            why.contains(" s and was killed")
                || why.contains("no time is left")
                || why.starts_with("not tested: ")
        };
        assert!(made.iter().all(|m| is_known(reason(m))), "{record:#}");
        place.assert_nothing_left();
    }

    #[test]
    fn oversized_output_file_of_a_compiler_is_reported() {
        let place = Place::new();
        let long = place.script(
            r#"[ "$1" = --version ] && exit 0
            gcc "$@" || exit 1
            while [ "$1" != -o ]; do shift; done
            truncate -s 20G "$2""#,
        );
        let record = place.record(1, &[], &["--compiler", &long]);
        assert!(native(&record).iter().all(|m| m["value"].is_number()));
        assert_eq!(
            reason(compiled(&record)[0]),
            "the compiler failed (its output file of 20 GiB is too long)"
        );
    }

    #[test]
    fn hanging_compiler_is_killed_with_its_children() {
        let place = Place::new();
        let pids = place.0.arg("pids");
        let hangs = place.script(&format!(
            "[ \"$1\" = --version ] && exit 0\nsleep 987 & echo $! $$ > '{pids}'; wait"
        ));
        let limit = [("NODEGAUGE_COMPILE_LIMIT", "0.7")];
        let record = place.record(1, &limit, &["--compiler", &hangs, "--compiler", &hangs]);
        let why = reason(compiled(&record)[0]);
        assert_eq!(why, "the compiler exceeded 0.7 s and was killed");
        assert!(native(&record).iter().all(|m| m["value"].is_number()));
        let started = std::fs::read_to_string(&pids).unwrap();
        let started: Vec<u32> =
            started.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(started.len(), 2, "the script and its child");
        assert!(!started.iter().any(|process| is_running(*process)), "{started:?}");
        let silent = place.script("sleep 987");
        let silent_record = place.record(1, &limit, &["--compiler", &silent]);
        assert!(reason(compiled(&silent_record)[0]).contains("exceeded 0.7 s and was killed"));
        for wrong in ["0", "soon", "-1"] {
            let outcome =
                place.stream(&[("NODEGAUGE_COMPILE_LIMIT", wrong)], &["--compiler", "gcc"]);
            outcome.exits(2).warns("NODEGAUGE_COMPILE_LIMIT is");
        }
    }

    #[test]
    fn failing_compiler_does_not_affect_the_others() {
        let place = Place::new();
        let args = ["--compiler", "gcc -O1 -fno-such-flag", "--compiler", "gcc -O1"];
        let record = place.record(1, &[], &args);
        let (bad, good) = (&compiled(&record)[..4], &compiled(&record)[4..]);
        for m in bad {
            assert!(reason(m).starts_with("the compiler failed (exit status 1): "), "{m:#}");
            assert!(reason(m).contains("-fno-such-flag"), "{m:#}");
        }
        assert!(good.iter().chain(&native(&record)).all(|m| m["value"].is_number()), "{record:#}");
        // Messages must not contain the path of the private folder, because it no longer exists.
        assert!(!record.to_string().contains("nodegauge-"), "{record}");
        place
            .stream(&[], &args)
            .exits(1)
            .prints("\ninvalid    the compiler failed (exit status 1)");
    }

    #[test]
    fn error_beyond_the_trial_length_is_reported_with_its_compiler() {
        let place = Place::new();
        // The error is in an element that the shorter arrays of the first trial do not have.
        let bad = place.with_triad("a[j] = b[j] + s * c[j] + (j == 900000)");
        let record = place.record(1, &[], &["--compiler", "gcc -O1", "--compiler", &bad]);
        let (good, wrong) = (&compiled(&record)[..4], &compiled(&record)[4..]);
        assert!(good.iter().chain(&native(&record)).all(|m| m["value"].is_number()), "{record:#}");
        for m in wrong {
            let why = reason(m);
            assert!(why.contains("wrong values in the arrays: a[900000] is"), "{why}");
        }
    }

    #[test]
    fn results_before_an_interrupt_are_saved() {
        let place = Place::new();
        let args =
            ["stream", "--threads", "1", "--size", "1000000elements", "--samples", "1000000"];
        let fixed = ["--stores", "regular", "--prefetch", "off", "--side-by-side", "1"];
        let more = [&fixed[..], &["--dimms=1024x20000"]].concat();
        let running = place.0.start(&[&args[..], &more[..], &["--compiler", "gcc -O1"]].concat());
        let running = running.shows_times(10, "native and compiled kernels, interleaved: round");
        running.signal("INT");
        running.end().exits(130).warns("the results so far are saved and marked incomplete");
        let record = place.0.latest();
        assert_eq!((native(&record).len(), compiled(&record).len()), (4, 4));
        assert_eq!(record["complete"], false);
    }
}
