//! `nodegauge apps`.

use crate::harness::{Harness, measurements};

#[test]
fn sums_by_threads_and_ranks_are_pi_and_say_what_placement_costs() {
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
    page.says("10^3 intervals").says("20000 intervals").says("policy 5").says("\nsummary ");
}
