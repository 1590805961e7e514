//! Tests of native runs of `nodegauge hpl`.

use crate::harness::{GENOA, Harness, Part, T2K, measurements, skip};
use crate::machine::control_group;
use serde_json::Value;

/// Options for a solve that takes several hundredths of a second. The number of samples is set, because a busy machine
/// refuses short budgets.
pub const SMALL: [&str; 10] =
    ["--order", "600", "--nb", "64", "--blas", "builtin", "--budget", "3", "--samples", "1"];

pub fn record(harness: &Harness, args: &[&str]) -> Value {
    harness.run(&[&["hpl", "--json", "-"], args].concat()).exits(0).json()
}

#[track_caller]
pub fn named<'a>(record: &'a Value, name: &str) -> Vec<&'a Value> {
    measurements(record).iter().filter(|m| m["name"] == name).collect()
}

#[test]
fn hpl_record_contains_residual_peaks_and_formulas() {
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
    let shown = harness.run(&["history", "show", "latest"]).exits(0);
    shown.prints("residual").prints("PASSED").prints_words("power");
}

#[test]
fn plan_shows_its_formulas_without_measuring() {
    let harness = Harness::new();
    let plan = harness.run(&["hpl", "--plan", "--full"]).exits(0);
    let plan = plan.prints_words("N = sqrt(0.8 x ").prints_words("P x Q").prints_words("predicted");
    plan.prints_words(" available").prints_words("DGEMM, estimated as 0.9 x ");
    harness.run(&["history", "list"]).exits(0).prints("no saved runs");
    // With the same number of threads, the saved figures are used.
    harness.run(&[&["hpl", "--threads", "1"], &SMALL[..]].concat()).exits(0);
    harness.run(&["hpl", "--plan", "--threads", "1"]).exits(0).prints_words("DGEMM (saved 20");
}

#[test]
fn hpl_plan_is_made_for_a_described_machine() {
    let harness = Harness::new();
    let plan = |machine: &str, more: &[&str]| {
        harness.run(&[&["hpl", "--plan", "--topology", machine], more].concat())
    };
    // For two EPYC 9654 with 768 GiB: sqrt(0.8 x 768 GiB / 8 B) = 287,161, rounded down to 1495 x 192.
    let genoa = ["--processor", "EPYC 9654", "--memory", "768GiB", "--rate", "5TFLOP/s"];
    plan(GENOA, &genoa)
        .exits(0)
        .prints_words("N 287040: N = sqrt(0.8 x 768 GiB / 8 B), rounded down to a multiple of 192")
        .prints_words("P x Q 4 x 6 for 24 ranks of 8 threads")
        .prints_words("= 613.9 GiB, 25.6 GiB per rank")
        .prints_words("; 768 GiB available")
        .prints_words(
            "Rpeak 7.373 TFLOP/s = 192 cores x 2.400 GHz (catalog: base clock) x 16 FLOP/cycle",
        )
        .prints_words("the given rate is 67.8 % of it")
        // 2/3 N^3 / 5e12
        .prints_words("time 3153 s predicted")
        .prints_words("5.000 TFLOP/s as given");
    // Published run on two EPYC 7F52: NB 180, 4 x 8 processes.
    let rome = "synthetic:Package:2 NUMANode:1 L3Cache:16(size=16777216) L2Cache:1 Core:1 PU:1";
    let published = ["--memory", "377.81GB", "--nb", "180", "--ranks", "32"];
    plan(rome, &[&published[..], &["--processor", "EPYC 7F52"]].concat())
        .exits(0)
        .prints_words("P x Q 4 x 8 for 32 ranks of 1 thread")
        .prints_words("Rpeak 1.792 TFLOP/s = 32 cores x 3.500 GHz")
        .prints_words("DGEMM, estimated as 0.9 x 1.792 TFLOP/s");
    // The ten fastest of the twenty cores are used in both cases.
    let kinds = concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/tests/topologies/five-kinds.xml");
    plan(kinds, &["--memory", "128GiB"])
        .exits(0)
        .prints_words("P x Q 1 x 2 for 2 ranks of 5 threads")
        .prints_words("native 10 threads")
        .prints_words(
            "threads use the 10 fastest (5-9,15-19) of 20 cores, not the slower ones (0-4,10-14)",
        );
    // Unknown values are reported.
    plan(T2K, &["--memory", "32GiB"])
        .exits(0)
        .prints_words("Rpeak unknown: this processor is not in the table; give --processor")
        .prints_words("time unknown for (2/3 N^3 + 3/2 N^2)");
    plan(T2K, &["--order", "50000"])
        .exits(0)
        .prints_words("available memory unknown")
        .prints_words("N 50000: as requested");
    plan(T2K, &[]).exits(2).warns("the memory of the described machine is unknown");
    let timed = plan(T2K, &["--memory", "32GiB", "--budget", "60"]).exits(2);
    timed.warns("the rate of the described machine is unknown");
    plan(T2K, &["--memory", "32GiB", "--budget", "60", "--rate", "100GFLOP/s"])
        .exits(0)
        .prints_words("/ (100.0 GFLOP/s) <= 30.0 s");
    // The first command prints HPL.dat for that machine, the second one plans for this node with another memory size.
    let dat = ["hpl", "--hpl-dat-only", "--topology", T2K, "--memory", "32GiB", "--nb", "128"];
    harness
        .run(&dat)
        .exits(0)
        .prints("58496 ")
        .prints("rounded down to a multiple of 128")
        .prints("2            Ps")
        .prints("2            Qs");
    let here = harness.run(&["hpl", "--plan", "--full", "--memory", "1GiB", "--nb", "64"]).exits(0);
    here.prints_words("N = sqrt(0.8 x 1 GiB / 8 B), rounded down to a multiple of 64");
    // Options that describe another node are refused if the command measures.
    for option in [["--memory", "1GiB"], ["--rate", "1TFLOP/s"], ["--topology", T2K]] {
        let refused = harness.run(&[&["hpl", "--order", "100"], &option[..]].concat()).exits(2);
        refused.warns(&format!("{} requires --plan or --hpl-dat-only", option[0]));
    }
    harness.run(&["hpl", "--plan", "--rate", "5"]).exits(2).warns("expected a unit of FLOP/s");
    harness.run(&["history", "list"]).exits(0).prints("no saved runs");
}

#[test]
fn each_nb_candidate_is_planned_with_its_own_n() {
    let harness = Harness::new();
    let machine = "synthetic:Package:2 NUMANode:1 L3Cache:16(size=16777216) L2Cache:1 Core:1 PU:1";
    let for_machine = ["--topology", machine, "--processor", "EPYC 7F52", "--memory", "377.81GB"];
    let plan = |option: &str, nb: &str, more: &[&str]| {
        let nb = ["hpl", option, "--nb", nb, "--rate", "1.3TFLOP/s"];
        harness.run(&[&nb[..], &for_machine, more].concat()).exits(0)
    };
    let all = "32,64,128,180,192,256";
    plan("--plan", all, &[])
        .prints_words("NB N matrix of memory time")
        .prints_words("32 194368 281.5 GiB 80 % 3766 s")
        .prints_words("64 194368 ")
        .prints_words("128 194304 ")
        .prints_words("180 194220 281.1 GiB 79.9 % 3757 s")
        .prints_words("192 194304 ")
        .prints_words("256 194304 ")
        .prints_words("a run tries all 6 NB at N = ")
        .prints_words("the best 3 again at N = ")
        .prints_words("(about 3 x 3766 s)");
    plan("--plan", "180", &[])
        .prints_words("N 194220: N = sqrt(0.8 x ")
        .prints_words("NB 180 (as requested)");
    // HPL.dat has one N for all NB.
    plan("--hpl-dat-only", all, &[])
        .prints("194368       Ns")
        .prints("32 64 128 180 192 256 NBs")
        .prints("rounded down to a multiple of 32 (the first NB)");
    let document = plan("--plan", all, &["--json"]).json();
    let candidates = document["plan"]["candidates"].as_array().unwrap();
    let n: Vec<u64> = candidates.iter().map(|one| one["n"].as_u64().unwrap()).collect();
    assert_eq!(n, [194368, 194368, 194304, 194220, 194304, 194304]);
    assert_eq!((&document["plan"]["p"], &document["plan"]["q"]), (&4.into(), &8.into()));
    assert_eq!(document["plan"]["search"]["kept"], 3);
    assert_eq!(document["threads"].as_array().unwrap().len(), 32);
    // A search among more candidates is described in the same way.
    harness
        .run(&["hpl", "--plan", "--full"])
        .exits(0)
        .prints_words("default; a run chooses from [32, 64,");
    let contradicts = harness.run(&["hpl", "--plan", "--csv", "-"]).exits(2);
    contradicts.warns("--plan cannot be used with --csv").warns("hint: leave out --csv");
    harness.run(&["history", "list"]).exits(0).prints("no saved runs");
}

#[test]
fn too_large_order_is_refused_with_a_hint() {
    let harness = Harness::new();
    for more in [&[][..], &["--plan"]] {
        let outcome = harness.run(&[&["hpl", "--order", "4000000"], more].concat()).exits(3);
        outcome.warns("N = 4000000 needs 116.4 TiB, but only ").warns("hint: use --order ");
    }
    harness.run(&["hpl", "--memory-fraction", "1.5"]).exits(2).warns("1.5");
}

#[test]
fn memory_limit_of_a_control_group_restricts_n() {
    let harness = Harness::new();
    let shown = control_group(&harness, 1 << 30, 0);
    let shown: Vec<(&str, &str)> = shown.iter().map(|(what, at)| (what.as_str(), *at)).collect();
    let args = ["hpl", "--order", "20000", "--blas", "builtin"];
    let Some(outcome) = harness.run_where(&shown, &args) else { return };
    outcome.exits(3).warns("(the cgroup's limit is 1 GiB): the run would swap or be killed");
    let full = harness.run_where(&shown, &["hpl", "--plan", "--full"]).unwrap().exits(0);
    full.prints_words("N = sqrt(0.8 x 1 GiB / 8 B)");
}

#[test]
fn orders_and_imports_beyond_the_process_memory_limit_are_refused() {
    let harness = Harness::new();
    let limited = ["sh", "-c", "ulimit -d 100000 && exec \"$@\"", "sh"];
    let args = ["hpl", "--order", "4000", "--nb", "64", "--blas", "builtin", "--threads", "1"];
    let Some(outcome) = harness.run_under(&limited, &args) else { return };
    outcome.exits(3).warns("(the limit of a process is 97.7 MiB): the run would swap");
    // A file of records is read as a whole, so this one of 256 MiB does not fit either.
    let large = harness.write("large.json", "{\"schema\":\"nodegauge/1\",");
    let file = std::fs::OpenOptions::new().append(true).open(large).unwrap();
    file.set_len(256 << 20).unwrap();
    let imported = harness.run_under(&limited, &["history", "import", "large.json"]).unwrap();
    imported.exits(3).warns(" B of memory\nhint: raise the memory limit (ulimit -v");
}

#[test]
fn budget_too_short_for_a_solve_is_refused() {
    let harness = Harness::new();
    // A solve of this order takes minutes on one core of any processor.
    let args = ["hpl", "--order", "30000", "--blas", "builtin", "--threads", "1", "--budget", "2"];
    if harness.run(&["hpl", "--plan", "--order", "30000"]).code != Some(0) {
        return skip(Part::Memory, "there is no memory for that here");
    }
    harness.run(&args).exits(2).warns("--budget 2 is too short: the run takes at least ");
    harness.run(&["history", "list"]).exits(0);
}

#[test]
fn n_is_a_multiple_of_nb_and_grid() {
    let harness = Harness::new();
    let six_cores = "synthetic:Package:1 L3Cache:1(size=16777216) Core:6 PU:1";
    let of_machine = ["--topology", six_cores, "--memory", "16GiB"];
    let args = ["hpl", "--plan", "--full", "--nb", "96", "--ranks", "6", "--grid-multiple"];
    let outcome = harness.run(&[&args[..], &of_machine].concat()).exits(0);
    // The least common multiple is 6 for the grid 2 x 3, and also for the grid 1 x 6.
    outcome.prints_words("rounded down to a multiple of 576");
}

#[test]
fn record_contains_lost_time_and_the_share_of_the_fma_peak() {
    let harness = Harness::new();
    let record = record(&harness, &SMALL);
    let time = &named(&record, "rating")[0]["config"]["time"];
    assert!(time["lost"].as_f64().unwrap() >= 0.0 && time["switches"].is_u64(), "{time}");
    let config = &named(&record, "rating")[0]["config"];
    let peak = named(&record, "fma_peak")[0]["value"].as_f64().unwrap();
    let rating = named(&record, "rating")[0]["value"].as_f64().unwrap();
    assert!((config["of_fma_peak"].as_f64().unwrap() * peak / rating - 1.0).abs() < 1e-9);
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn solution_is_reproducible_for_a_seed() {
        let harness = Harness::new();
        let residual = |seed: &str| {
            let record =
                record(&harness, &[&SMALL[..], &["--threads", "1", "--seed", seed]].concat());
            named(&record, "rating")[0]["config"]["residual"]["norm_x"].as_f64().unwrap()
        };
        assert_eq!(residual("7"), residual("7"));
        assert!((residual("7") - residual("8")).abs() > 0.0);
    }

    #[test]
    fn hpl_figures_are_accepted_by_expect_csv_and_compare() {
        let harness = Harness::new();
        harness
            .run(
                &[
                    &["hpl", "--accept-suspect", "--expect", "rating>=1FLOP/s", "--csv", "a.csv"],
                    &SMALL[..],
                ]
                .concat(),
            )
            .exits(0);
        let csv = std::fs::read_to_string(harness.path("a.csv")).unwrap();
        assert!(csv.contains("rating") && csv.contains("fma_peak"), "{csv}");
        harness
            .run(&[&["hpl", "--expect", "rating>=1000000TFLOP/s"], &SMALL[..]].concat())
            .exits(1);
        harness.run(&["compare", "latest~1", "latest"]).exits(0).prints("rating");
    }

    #[test]
    fn interrupted_solve_is_saved_as_incomplete_without_a_rating() {
        let harness = Harness::new();
        let args = ["hpl", "--order", "12000", "--nb", "64", "--blas", "builtin", "--threads", "1"];
        let running = harness.start(&args).shows(" so far, ");
        running.signal("INT");
        running.end().exits(130);
        let record = harness.latest();
        assert_eq!(record["complete"], false);
        assert!(named(&record, "rating").is_empty());
        assert!(record["notices"].to_string().contains("interrupted"), "{record:#}");
    }
}
