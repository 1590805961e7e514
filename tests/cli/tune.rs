//! Tests of `nodegauge stream --tune`, and of the use of its choice in later runs.

use crate::harness::{Harness, measurements, names};
use serde_json::Value;

/// Options for a search that takes several seconds, with small arrays below any limit.
const SHORT: [&str; 10] = [
    "stream",
    "--tune",
    "--samples",
    "3",
    "--budget",
    "3",
    "--json",
    "--size",
    "1000000elements",
    "--dimms=1024x20000",
];

fn remembered(record: &Value) -> Option<String> {
    let notices = record["notices"].as_array().unwrap();
    let notice = notices.iter().find(|notice| notice["id"] == "remembered")?;
    Some(notice["text"].as_str().unwrap().to_owned())
}

/// Makes the choice in the record of a search valid, so that later runs use it.
fn with_valid_choice(mut record: Value) -> Value {
    for m in record["measurements"].as_array_mut().unwrap() {
        if m["name"] == "choice" {
            m["validity"] = serde_json::json!({"status": "valid", "reasons": []});
        }
    }
    record
}

/// Saves a record in the history of a harness.
fn save(harness: &Harness, record: &Value) {
    let record: nodegauge_measure::record::Record = serde_json::from_value(record.clone()).unwrap();
    let path = harness.path(".local/share/nodegauge/history.db");
    nodegauge_history::Store::open(&path, &Default::default()).unwrap().save(&record).unwrap();
}

#[test]
fn tuned_choice_is_used_until_the_machine_changes() {
    let harness = Harness::new();
    let tuned = harness.run(&SHORT).exits(0).json();
    let all = measurements(&tuned);
    let choice = all.iter().find(|m| m["name"] == "choice").unwrap();
    assert_eq!((&choice["test"], &choice["unit"]), (&"tune".into(), &"x".into()));
    let chosen = &choice["config"]["choice"];
    assert!(all.iter().any(|m| m["test"] == "stream" && m["name"] == "triad"), "{tuned:#}");
    let plain = all.iter().filter(|m| m["config"]["plain"] == true).count();
    assert!(plain >= 2, "the plain run takes part in both races: {tuned:#}");

    // A later run uses the choice for options that are not given, and compares no loops. Its arrays have the default
    // size, because the choice does not apply to other sizes.
    let quick = ["stream", "--samples", "3", "--budget", "1", "--json", "--dimms=1024x20000"];
    let next = harness.run(&quick).exits(0).json();
    let used = remembered(&next).unwrap_or_else(|| panic!("{next:#}"));
    if choice["validity"]["status"] != "valid" {
        // On a busy machine, the search is suspect, so later runs do not use its choice.
        assert!(used.contains("is ignored because it is suspect"), "{used}");
    } else {
        assert!(used.contains("as tuned on"), "{used}");
    }
    let undoubted = with_valid_choice(tuned.clone());
    let quiet = Harness::new();
    save(&quiet, &undoubted);
    let record = quiet.run(&quick).exits(0).json();
    for m in measurements(&record) {
        let name = m["name"].as_str().unwrap();
        assert_eq!(m["config"]["loops_tried"], 0, "nothing is left to choose");
        assert_eq!(m["config"]["unroll"], chosen["loops"][name]["unroll"]);
        assert_eq!(m["config"]["isa"], chosen["loops"][name]["isa"]);
        assert_eq!(m["config"]["pages"]["asked"], chosen["pages"]);
    }
    let untuned = quiet.run(&[&quick[..], &["--untuned"]].concat()).exits(0).json();
    assert_eq!(remembered(&untuned), None);
    let fixed = quiet.run(&[&quick[..], &["--pages", "4k", "--threads", "1"]].concat()).exits(0);
    let fixed = fixed.json();
    assert_eq!(measurements(&fixed)[0]["config"]["pages"]["asked"], "4k");
    assert_eq!(measurements(&fixed)[0]["config"]["threads"], 1);

    // The record is not used if the version of the kernel differs, and the reason is reported.
    let other = Harness::new();
    let mut old = undoubted.clone();
    old["machine"]["kernel"] = "Linux 2.6.32".into();
    save(&other, &old);
    let other_record = other.run(&quick).exits(0).json();
    let notice = remembered(&other_record).unwrap();
    assert!(notice.contains("kernel: Linux 2.6.32, now"), "{notice}");
    assert!(notice.contains("tune again"), "{notice}");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn interrupted_search_gives_no_choice() {
        let harness = Harness::new();
        let running = harness
            .start(&["stream", "--tune", "--budget", "20", "--size", "1000000elements"])
            .shows(" left");
        running.signal("INT");
        running.end().exits(130);
        let record = harness.latest();
        assert_eq!(record["complete"], false);
        assert!(!names(&record).contains(&"choice"), "{record:#}");
        let again_outcome =
            harness.run(&["stream", "--samples", "3", "--budget", "1", "--json"]).exits(0);
        assert_eq!(remembered(&again_outcome.json()), None);
    }
}
