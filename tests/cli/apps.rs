//! Tests of `nodegauge apps`.

use serde_json::Value;

use crate::harness::{Harness, Running, is_running, measurements, signal, wait_for};

#[test]
fn trapezoid_sums_are_pi_and_placements_are_compared() {
    let harness = Harness::new();
    let run = ["apps", "trapezoid", "--n", "1e3,20000", "--threads", "1", "--policy", "0,5"];
    let sums = [&run[..], &["--samples", "3", "--json", "-"]].concat();
    let record = harness.run(&sums).exits(0).json();
    let all = measurements(&record);
    for points in [1000, 20_000] {
        let of = |name: &str| {
            let same = all.iter().filter(|m| m["name"] == name && m["config"]["n"] == points);
            same.collect::<Vec<_>>()
        };
        assert_eq!((of("rate").len(), of("efficiency").len(), of("relative").len()), (3, 2, 1));
        for m in of("rate") {
            let config = &m["config"];
            let (error, allowed) = (&config["error"], &config["error_allowed"]);
            assert!(error.as_f64().unwrap() <= allowed.as_f64().unwrap(), "{m:#}");
            assert_eq!(m["unit"], "FLOP/s");
        }
    }
    let page = harness.run(&["history", "show", "latest"]).exits(0);
    page.prints("10^3 intervals").prints("20000 intervals").prints("policy 5").prints("\nsummary ");
}

#[test]
fn long_sum_is_refused_for_a_short_budget_and_can_be_interrupted() {
    let harness = Harness::new();
    // On one core of any processor, this sum takes minutes.
    let long = ["apps", "trapezoid", "--n", "1e12", "--threads", "1"];
    let short = [&long[..], &["--budget", "1"]].concat();
    harness.run(&short).exits(2).warns("--budget 1 is too short: the run takes at least ");
    let running = harness.start(&long).shows("measuring sums");
    running.signal("INT");
    running.end().exits(130);
    assert_eq!(harness.latest()["complete"], false);
}

#[test]
fn hpcg_reports_a_rating_and_its_kernels_and_tests() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let run = ["apps", "hpcg", "--grid", "16,16,24", "--threads", "2", "--samples", "3"];
    let record = harness.run(&[&run[..], &["--json", "-"]].concat()).exits(0).json();
    let all = measurements(&record);
    let names: Vec<&str> = all.iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["rating", "ddot", "waxpby", "spmv", "mg"]);
    let config = &all[0]["config"];
    assert_eq!((&config["iterations"], &config["n"]), (&50.into(), &(2 * 16 * 16 * 24).into()));
    assert_eq!(all[0]["category"], "variant");
    let page = harness.run(&["history", "show", "latest"]).exits(0);
    page.prints("\ntests ").prints("16x16x24").prints("variant of HPCG");
}

#[test]
fn rules_option_does_not_change_the_matrix_of_hpcg() {
    let harness = Harness::new();
    let run = ["apps", "hpcg", "--grid", "16", "--threads", "1", "--samples", "1", "--json", "-"];
    let rating = |record: &Value| {
        let all = measurements(record);
        all.iter().find(|m| m["name"] == "rating").unwrap()["config"].clone()
    };
    let plain = harness.run(&run).exits(0);
    let rules = harness.run(&[&run[..], &["--rules"]].concat()).exits(0);
    let rules_notice = "--rules has no effect";
    assert!(!plain.json()["notices"].to_string().contains(rules_notice));
    assert!(rules.json()["notices"].to_string().contains(rules_notice));
    let [plain, rules] = [plain, rules].map(|outcome| rating(&outcome.json()));
    assert_eq!(
        (&plain["columns"], &rules["columns"]),
        (&"coefficient".into(), &"coefficient".into())
    );
    assert_eq!(plain["matrix_bytes"], rules["matrix_bytes"]);
    assert_eq!(plain["residual"], rules["residual"]);
}

#[test]
fn hpcg_with_ranks_and_with_threads_has_equal_results() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let run = ["apps", "hpcg", "--grid", "16", "--ranks", "2", "--sweep", "workers"];
    let record = harness.run(&[&run[..], &["--samples", "3", "--json", "-"]].concat());
    let record = record.exits(0).json();
    let all = measurements(&record);
    let of = |name: &str| all.iter().filter(|m| m["name"] == name).collect::<Vec<_>>();
    let ratings = of("rating");
    assert_eq!((ratings.len(), of("mg").len(), of("relative").len()), (2, 2, 1));
    let found =
        |m: &Value| ["residual", "spectral_iterations", "n"].map(|key| m["config"][key].clone());
    assert_eq!(found(ratings[0]), found(ratings[1]));
    assert_eq!(
        ratings.iter().map(|m| &m["config"]["processes"]).collect::<Vec<_>>(),
        [&Value::Null, &2.into()]
    );
    let page = harness.run(&["history", "show", "latest"]).exits(0);
    page.prints("2 threads").prints("2 ranks").prints("relative");
}

#[test]
fn xhpcg_output_is_imported() {
    let harness = Harness::new();
    let written = include_bytes!("../../crates/apps/tests/outputs/hpcg-3.1-two-ranks.txt");
    harness.write("hpcg.txt", written);
    harness.run(&["history", "import", "hpcg.txt"]).exits(0);
    harness.run(&["history", "show", "latest"]).exits(0).prints("xhpcg").prints("1.27e-16");
}

#[test]
fn iccg_converges_on_threads_and_ranks_and_reports_too_few_iterations() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    for workers in [&["--threads", "2"][..], &["--ranks", "2", "--policy", "0,5"]] {
        let run = ["apps", "iccg", "--elements", "6,5,7", "--samples", "2", "--json", "-"];
        let record = harness.run(&[&run[..], workers].concat()).exits(0).json();
        let all = measurements(&record);
        let of = |name: &str| all.iter().filter(|m| m["name"] == name).collect::<Vec<_>>();
        let ranks = workers[0] == "--ranks";
        let count = if ranks { 2 } else { 1 };
        assert_eq!((of("rate").len(), of("spmv").len(), of("read").len()), (count, count, count));
        assert_eq!((of("halo").len(), of("relative").len()), if ranks { (2, 1) } else { (0, 0) });
        for m in of("time_to_solution") {
            let config = &m["config"];
            let number = |key: &str| config[key].as_f64().unwrap();
            assert!(number("error") < 1e-6 && number("residual") < 1e-7, "{m:#}");
            assert!(number("natural_iterations") <= number("iterations") + 3.0, "{m:#}");
            assert_eq!((number("n"), m["unit"].as_str()), (1008.0, Some("s")));
            // The figure is suspect because the mesh fits in the caches.
            assert_eq!(m["validity"]["status"], "suspect");
        }
        let page = harness.run(&["history", "show", "latest"]).exits(0);
        page.prints("preconditioner").prints("6 x 5 x 7 hexahedra").prints("\nsummary ");
    }
    let few = [
        "apps",
        "iccg",
        "--elements",
        "6,6,6",
        "--iterations",
        "3",
        "--threads",
        "1",
        "--samples",
        "1",
    ];
    harness.run(&few).exits(1).prints("no convergence within 3 iterations");
}

#[test]
fn workers_are_swept_and_compared_with_a_baseline() {
    let harness = Harness::new();
    let small = ["apps", "iccg", "--elements", "5,5,5", "--samples", "2", "--json", "-"];
    for (sweep, held, gone) in [
        (&["--sweep", "policy=0..1,5", "--ranks", "2"][..], &["policy 0", "policy 0"][..], None),
        (&["--sweep", "ranks=1,2,60000"], &["1 rank, spread"], Some("ranks 60000 left out")),
        (&["--sweep", "workers", "--ranks", "2"], &["2 threads"], None),
        (&["--threads", "1,2"], &["1 thread"], None),
    ] {
        if !harness.has_cpus(2) {
            return;
        }
        let record = harness.run(&[&small[..], sweep].concat()).exits(0).json();
        let all = measurements(&record);
        let of = |name: &str| all.iter().filter(|m| m["name"] == name).collect::<Vec<_>>();
        let relative = of("relative");
        let against: Vec<&str> =
            relative.iter().map(|m| m["config"]["against"].as_str().unwrap()).collect();
        assert_eq!(against.len(), held.len(), "{against:?}");
        assert!(
            against.iter().zip(held).all(|(reported, held)| reported.contains(held)),
            "{against:?}"
        );
        assert_eq!(of("rate").len(), held.len() + 1);
        assert!(of("rate").iter().all(|m| m["config"]["sweep"].is_object()));
        let page = harness.run(&["history", "show", "latest"]).exits(0);
        let page = page.prints("relative").prints("time of").prints("\nsummary ");
        gone.map(|gone| page.prints(gone));
    }
}

/// Returns the child processes of a process.
pub fn children(of: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{of}/task"));
    let thread_children =
        |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children"));
    let all: String =
        threads.into_iter().flatten().flatten().filter_map(|t| thread_children(t).ok()).collect();
    all.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// Starts a command with two ranks that work for a long time. Returns the command and the process identifiers of the
/// ranks.
fn working(harness: &Harness, args: &[&str]) -> (Running, Vec<u32>) {
    let running = harness.start(&[&["apps"], args, &["--ranks", "2"]].concat());
    let process = running.process();
    let ranks = wait_for("two ranks", || {
        let all = children(process);
        (all.len() == 2).then_some(all)
    });
    (running, ranks)
}

#[test]
fn interrupt_ends_solver_ranks_and_dead_rank_is_reported() {
    const SOLVER: &[&str] = &["iccg", "--elements", "32,32,32", "--storage", "bcsr"];
    const LONG: &[&str] = &["--tolerance", "1e-300", "--preconditioner", "diagonal"];
    const SETS: &[&str] = &["hpcg", "--grid", "80", "--memory-fraction", "0.9"];
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let solver = &[SOLVER, LONG].concat()[..];
    for (args, name, code, reported) in [
        (solver, "INT", 130, "interrupted: nothing was measured"),
        (solver, "KILL", 3, "ended unexpectedly: signal 9"),
        (SETS, "INT", 130, "interrupted: nothing was measured"),
        (SETS, "KILL", 3, "ended unexpectedly: signal 9"),
    ] {
        let (running, ranks) = working(&harness, args);
        match name {
            "KILL" => signal(ranks[1], name),
            _ => running.signal(name),
        }
        running.end().exits(code).warns(reported);
        wait_for("the end of all ranks", || {
            ranks.iter().all(|rank| !is_running(*rank)).then_some(())
        });
    }
}
