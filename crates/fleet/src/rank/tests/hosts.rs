//! Test that hosts of one run and nodes with the same figures get the same verdicts.

use super::*;
use nodegauge_analysis::slow::GroupVerdict;
use nodegauge_gauge::hosts::HostRanking;
use nodegauge_measure::keys::{Registry, SharedKey, shared};
use nodegauge_measure::record::{Machine, QuotedStatistic, Record};

/// Returns the record of a run on hosts with these rates.
fn record(rates: &[f64]) -> Record {
    let figures = rates.iter().enumerate().map(|(at, rate)| {
        let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        let mut m = m.with_value(QuotedStatistic::Best, *rate);
        m.config.insert(shared::host::KEY.name.to_owned(), format!("n{at:02}").into());
        m
    });
    let measurements: Vec<Measurement> = figures.collect();
    serde_json::from_value(serde_json::json!({
        "schema": "nodegauge/1", "id": "1", "started": "", "seconds": 1.0, "complete": true,
        "tool": {"version": "1", "commit": null}, "command": [], "machine": Machine::default(),
        "notices": [], "measurements": measurements,
    }))
    .unwrap()
}

#[test]
fn hosts_of_one_run_get_the_same_verdicts_as_nodes() {
    let mut random = fastrand::Rng::with_seed(5);
    for (hosts, loss, spread) in [
        (2, 0.3, 0.01),
        (3, 0.1, 0.01),
        (7, 0.1, 0.01),
        (8, 0.3, 0.01),
        (8, 0.1, 0.2),
        (12, 0.06, 0.02),
        (40, 0.08, 0.02),
        (40, 0.0, 0.005),
    ] {
        let mut rates: Vec<f64> =
            (0..hosts).map(|_| 380e9 * (1.0 + spread * normal(&mut random))).collect();
        rates[0] *= 1.0 - loss;
        let record = record(&rates);
        let of_hosts = HostRanking::from_record(&record, "memory", &Registry::default()).unwrap();
        let runs: Vec<NodeRun> =
            rates.iter().enumerate().map(|(at, rate)| run(&format!("n{at:02}"), *rate)).collect();
        let of_nodes = rank(runs, &RankingOptions::default());
        for node in &of_nodes.groups[0].nodes {
            let host = of_hosts.hosts.iter().find(|host| host.name == node.host).unwrap();
            let verdict = match host.verdict.unwrap() {
                GroupVerdict::Slow => RankVerdict::Slow,
                GroupVerdict::Undecided => RankVerdict::Suspect,
                GroupVerdict::Below | GroupVerdict::Unknown => RankVerdict::Unknown,
                GroupVerdict::Good => RankVerdict::Good,
            };
            assert_eq!(node.verdict, verdict, "{hosts} hosts, {loss}, {spread}: {}", node.host);
        }
    }
}
