//! Tests of `stream --ranks`: ranks started by nodegauge or by real launchers, sweeps, and faults.

use crate::harness::{
    FAST, Harness, OPEN_MPI_AS_ROOT, Outcome, Part, Running, T2K, has_keys, is_running,
    measurements, signal, skip, texts, wait_for,
};
use crate::thorough::slurm::Slurm;
use serde_json::{Value, json};

/// Returns the arguments of a short run with ranks that prints its record to standard output.
fn short(args: &[&str]) -> Vec<String> {
    let fast = [&["stream", "--json", "-", "--no-save"], &FAST[..], args].concat();
    fast.into_iter().map(str::to_owned).collect()
}

/// Runs the program under a launcher.
fn with_launcher(
    harness: &Harness,
    launcher: &[&str],
    variables: &[(&str, &str)],
    args: &[&str],
) -> Outcome {
    let args = short(args);
    let program = crate::program::path();
    let words: Vec<&str> = ["timeout", "200"]
        .iter()
        .chain(launcher)
        .copied()
        .chain([program])
        .chain(args.iter().map(String::as_str))
        .collect();
    harness.run_other(&words, variables)
}

/// Checks the properties that all records of ranks have.
#[track_caller]
fn check_rank_record(record: &Value, ranks: usize, threads: usize) {
    assert_eq!(measurements(record).len(), 4);
    for m in measurements(record) {
        let config = &m["config"];
        assert_eq!(config["processes"], ranks, "{config:#}");
        assert_eq!(config["threads_per_rank"], threads);
        assert_eq!(config["threads"], ranks * threads);
        let each = config["ranks"].as_array().unwrap();
        assert_eq!(each.len(), ranks);
        for (number, rank) in each.iter().enumerate() {
            assert_eq!(rank["rank"], number);
            has_keys(rank, &["cpus", "memory", "best", "median"]);
        }
        // The total time is from the first start to the last end, so the total rate is at most the sum of the ranks'
        // rates.
        let sum: f64 = each.iter().map(|rank| rank["best"].as_f64().unwrap()).sum();
        assert!(m["summary"]["best"].as_f64().unwrap() <= sum * 1.0001);
    }
}

#[test]
fn ranks_have_their_own_arrays_cpus_and_bound_memory() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let record = harness.stream_record(&["--ranks", "2", "--rank-map", "core"]);
    check_rank_record(&record, 2, 1);
    let config = &measurements(&record)[0]["config"];
    assert_ne!(config["ranks"][0]["cpus"], config["ranks"][1]["cpus"]);
    // A given size is the size of the arrays of each rank.
    assert_eq!(config["array_elements"], 1_000_000);
    let policy_record = harness.stream_record(&["--ranks", "1", "--threads", "2", "--policy", "3"]);
    check_rank_record(&policy_record, 1, 2);
    let rank = &measurements(&policy_record)[0]["config"]["ranks"][0];
    assert_eq!(rank["memory"]["policy"], "bind");
    if let Some(got) = rank["memory_got"].as_object() {
        let on = rank["memory"]["nodes"].as_array().unwrap();
        let there: f64 = on.iter().filter_map(|node| got.get(&node.to_string())?.as_f64()).sum();
        assert!(there > 0.98, "{got:?}");
    } else {
        skip(Part::Numa, "the kernel does not tell on which nodes pages lie");
    }
}

#[test]
fn verbose_page_describes_the_placement_of_ranks() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let reported = harness.stream(&["--ranks", "2", "--policy", "4", "-v"]).exits(0);
    reported
        .prints_words("how 2 ranks of 1 thread (policy 4 block) bound to cpus")
        .prints_words("triad per rank: slowest rank")
        .prints("rank 1: cpus ");
}

#[test]
fn summing_kernels_are_checked_in_runs_with_ranks() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let args = ["--ranks", "2", "--kernels", "dot,triad,read", "--element", "f32"];
    let record = harness.stream_record(&args);
    assert_eq!(measurements(&record).len(), 3);
    assert!(measurements(&record).iter().all(|m| m["config"]["checks"].as_u64() >= Some(1)));
}

#[test]
fn open_mpi_and_mpich_start_ranks() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    for (mpirun, launcher) in
        [("mpirun.openmpi", "Open MPI"), ("mpirun.mpich", "MPICH or Intel MPI")]
    {
        if !harness.has(Part::Mpi, mpirun) {
            continue;
        }
        // Only one document is printed, although two processes run.
        let record =
            with_launcher(&harness, &[mpirun, "-np", "2"], &OPEN_MPI_AS_ROOT, &[]).exits(0).json();
        check_rank_record(&record, 2, 1);
        let reported = format!("{launcher} has started 2 ranks");
        assert!(texts(&record["notices"]).contains(&reported.as_str()));
        let placed = &measurements(&record)[0]["config"]["places_asked"];
        assert_eq!(placed, &json!(format!("as placed by {launcher}")));
        // An error is printed once, and all ranks end with its exit code.
        let refused =
            with_launcher(&harness, &[mpirun, "-np", "2"], &OPEN_MPI_AS_ROOT, &["--ranks", "3"]);
        let message = format!("error: --ranks 3 is given, but {launcher} has started 2 ranks\n");
        assert_eq!(refused.stderr.matches(&message).count(), 1, "{}", refused.stderr);
        refused.exits(2);
    }
}

#[test]
fn sweep_compares_policies_with_one_rank_of_policy_5() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let args = ["--sweep", "ranks=1,2", "--sweep", "policy=3,5"];
    let record = harness.stream_record(&args);
    assert_eq!(measurements(&record).len(), 4 * 4);
    for m in measurements(&record) {
        let relative = &m["config"]["relative"];
        assert_eq!(relative["to"], json!({"ranks": "1", "policy": "5"}));
        let ratio = relative["median"].as_f64().unwrap();
        if m["config"]["sweep"] == relative["to"] {
            assert!((ratio - 1.0).abs() < 1e-9);
        }
        assert!(ratio > 0.0);
    }
    // The combination that is the baseline is measured even if it is not requested.
    let reported = harness.stream(&["--sweep", "policy=1,3", "--ranks", "2"]).exits(0);
    reported
        .prints_words("x: median of triad divided by that of 1 rank of policy 5")
        .prints_words("one rank of policy 5 is added as the reference");
}

/// Returns the child processes of a running program.
fn children(of: u32) -> Vec<u32> {
    let path = format!("/proc/{of}/task/{of}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Starts `stream` with two ranks, and waits until the ranks compare loops. Returns the program and the ranks.
fn trying(harness: &Harness) -> (Running, Vec<u32>) {
    let args = ["stream", "--ranks", "2", "--budget", "30", "--no-save"];
    let running = harness.start(&args).shows("loops for each kernel");
    let ranks = children(running.process());
    assert_eq!(ranks.len(), 2);
    (running, ranks)
}

fn assert_all_end(ranks: &[u32]) {
    wait_for("the end of all ranks", || {
        (!ranks.iter().any(|rank| is_running(*rank))).then_some(())
    });
}

#[test]
fn impossible_rank_options_are_refused_with_the_reason() {
    let harness = Harness::new();
    let refuses = |args: &[&str], message: &str| {
        harness.run(&[&["stream", "--no-save"], args].concat()).exits(2).warns(message);
    };
    refuses(&["--ranks", "60000"], "cannot place 60000 ranks of 1 thread: this process may use");
    refuses(&["--ranks", "0"], "expected 1 to 65536");
    refuses(&["--ranks", "1", "--policy", "6"], "policy 6 is out of range: expected 0 to 5");
    refuses(&["--policy", "3"], "--policy requires --ranks");
    refuses(&["--ranks", "1", "--rank-map", "round"], "unknown map 'round'");
    refuses(&["--ranks", "1", "--policy", "3", "--numa", "local"], "both decide where memory goes");
    refuses(
        &["--ranks", "1", "--compiler", "gcc"],
        "--ranks cannot be used with --compiler, except for STREAM's MPI source",
    );
    refuses(&["--ranks", "1", "--tune"], "--ranks cannot be used with --tune");
    refuses(&["--ranks", "1", "--sweep", "ranks=1,2"], "--ranks is both fixed and swept");
    refuses(&["--sweep", "policy=0-6"], "policy 6 is out of range");
    refuses(&["--sweep", "policy=0-5"], "--policy requires --ranks");
    harness.run(&["explain", "--ranks", "2"]).exits(2).warns("unexpected argument '--ranks'");
}

#[test]
fn rank_tables_match_the_expected_tables() {
    let harness = Harness::new();
    let cases: Vec<&str> = include_str!("ranks.txt").split("$ ").skip(1).collect();
    assert_eq!(cases.len(), 14);
    for case in cases {
        let (options, table) = case.split_once('\n').unwrap();
        let args: Vec<&str> =
            ["places", "--topology", T2K].into_iter().chain(options.split(' ')).collect();
        assert_eq!(harness.run(&args).exits(0).warns_nothing().stdout, table, "{options}");
    }
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn single_launched_rank_has_an_ordinary_record_and_no_colour() {
        let harness = Harness::new();
        for mpirun in ["mpirun.openmpi", "mpirun.mpich"] {
            if !harness.has(Part::Mpi, mpirun) {
                continue;
            }
            let alone = with_launcher(&harness, &[mpirun, "-np", "1"], &OPEN_MPI_AS_ROOT, &[])
                .exits(0)
                .json();
            assert!(measurements(&alone)[0]["config"].get("processes").is_none());
            // Open MPI gives each rank a terminal, and copies its output.
            let coloured = [&OPEN_MPI_AS_ROOT[..], &[("NO_COLOR", ""), ("TERM", "xterm")]].concat();
            for ranks in ["1", "2"] {
                let machine = [mpirun, "-np", ranks, crate::program::path(), "doctor"];
                let coloured_outcome = harness.run_other(&machine, &coloured);
                assert!(!coloured_outcome.stdout.contains('\x1b'), "{}", coloured_outcome.stdout);
            }
        }
    }

    #[test]
    fn srun_starts_ranks() {
        let harness = Harness::new();
        if !harness.has_cpus(2) {
            return;
        }
        let Some(slurm) = Slurm::start(&harness) else { return };
        let variables = [("SLURM_CONF", slurm.conf.as_str())];
        let record = with_launcher(&harness, &["srun", "-n2"], &variables, &["--policy", "5"]);
        let record = record.exits(0).json();
        check_rank_record(&record, 2, 1);
        assert!(texts(&record["notices"]).contains(&"Slurm has started 2 ranks"));
        let alone = with_launcher(&harness, &["srun", "-n1"], &variables, &[]).exits(0).json();
        assert!(measurements(&alone)[0]["config"].get("processes").is_none());
    }

    #[test]
    fn killed_rank_is_reported_and_other_ranks_end() {
        let harness = Harness::new();
        if !harness.has_cpus(2) {
            return;
        }
        let (running, ranks) = trying(&harness);
        signal(ranks[1], "KILL");
        let outcome = running.end().exits(3);
        let message = format!("error: rank 1 (process {}) ended unexpectedly", ranks[1]);
        outcome.warns(&message).warns("signal 9 (killed").prints_nothing();
        assert_all_end(&ranks);
    }

    #[test]
    fn sweep_keeps_its_results_if_a_rank_is_killed() {
        let harness = Harness::new();
        if !harness.has_cpus(2) {
            return;
        }
        // A million rounds last longer than any test; the choice of loops takes a second.
        let args = ["--sweep", "ranks=1,2", "--size", "100000elements", "--samples", "1000000"];
        let sink = ["--budget", "4", "--json", "killed.json"];
        let running = harness.start(&[&["stream"], &args[..], &sink].concat());
        let running = running.shows_times(10, "configurations, interleaved: round");
        signal(children(running.process())[0], "KILL");
        running.end().exits(1).warns("error: rank 0 (process ").prints("incomplete");
        let record: Value =
            serde_json::from_slice(&std::fs::read(harness.path("killed.json")).unwrap()).unwrap();
        assert_eq!(record["complete"], false);
        assert_eq!(measurements(&record).len(), 2 * 4);
    }

    #[test]
    fn ranks_end_with_their_coordinator() {
        let harness = Harness::new();
        if !harness.has_cpus(2) {
            return;
        }
        let (running, ranks) = trying(&harness);
        running.signal("KILL");
        running.end();
        assert_all_end(&ranks);
        // After an interrupt, the ranks end, too.
        let (second_running, second_ranks) = trying(&harness);
        second_running.signal("INT");
        second_running.end().exits(130);
        assert!(!second_ranks.iter().any(|rank| is_running(*rank)));
    }

    #[test]
    fn ranks_that_never_connect_are_reported() {
        let harness = Harness::new();
        let one = |rank: &str| {
            let variables =
                [("PMI_RANK", rank), ("PMI_SIZE", "4"), ("NODEGAUGE_JOIN_SECONDS", "0.5")];
            harness.run_with(&variables, &["stream", "--no-save"]).exits(3)
        };
        one("0").only_error(
            "no response from ranks 1-3 within 0.5 s\nhint: start all ranks with the same command on one host",
        );
        one("2").only_error(
            "rank 2 of 4: no response from rank 0 within 0.5 s\nhint: start all ranks with the same command on one host",
        );
    }
}
