//! Tests of `nodegauge doctor`.

use crate::harness::Harness;
use serde_json::{Value, json};

fn findings(record: &Value) -> &Vec<Value> {
    record["findings"].as_array().unwrap()
}

#[test]
fn findings_are_sorted_by_severity_and_have_remedies() {
    let harness = Harness::new();
    let record = harness.run(&["doctor", "--json"]).exits(0).warns_nothing().json();
    assert_eq!(record["schema"], "nodegauge/1");
    assert_eq!(record["measurements"], json!([]));
    let mut worst = 0;
    for finding in findings(&record) {
        let severity = finding["severity"].as_str().unwrap();
        let rank = ["critical", "warning", "info"].iter().position(|name| *name == severity);
        assert!(rank.unwrap() >= worst, "worst first: {record:#}");
        worst = rank.unwrap();
        assert!(!finding["remedy"].as_str().unwrap().is_empty());
        let id = finding["id"].as_str().unwrap();
        assert!(
            id.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b.is_ascii_digit()),
            "{id}"
        );
    }
}

#[test]
fn printed_findings_have_remedies() {
    let reported = Harness::new().run(&["doctor"]).exits(0).warns_nothing();
    let count =
        |label: &str| reported.stdout.lines().filter(|l| l.trim_start().starts_with(label)).count();
    let found = ["critical  ", "warning   ", "info      "].iter().map(|l| count(l)).sum::<usize>();
    let clean = "no condition found that disturbs measurements\n";
    if found != count("remedy    ") || (found == 0) != (reported.stdout == clean) {
        reported.fail("expected a remedy for each finding");
    }
}

#[test]
fn disabled_transparent_huge_pages_are_found() {
    let harness = Harness::new();
    let off = harness.write("enabled", "always madvise [never]\n");
    let shown = [(off.as_str(), "/sys/kernel/mm/transparent_hugepage/enabled")];
    let Some(outcome) = harness.run_where(&shown, &["doctor", "--json"]) else { return };
    let record = outcome.exits(0).json();
    let finding = findings(&record).iter().find(|finding| finding["id"] == "thp-never").unwrap();
    assert_eq!(finding["severity"], "warning");
    assert!(finding["remedy"].as_str().unwrap().contains("transparent_hugepage/enabled"));
    assert!(finding["cost"].is_string());
}
