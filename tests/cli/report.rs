//! Tests of `report`: hostile texts, missing data, earlier runs, and errors.

use crate::browser::Graphics;
use crate::harness::Harness;
use crate::pages::{DATA, FORMULA, HOSTILE, browser, golden, record, report};
use serde_json::{Value, json};

#[test]
fn hostile_text_is_escaped() {
    let harness = Harness::new();
    let mut record = record("stream-regimes");
    record["machine"]["host"] = json!(format!("{HOSTILE}{FORMULA}"));
    record["id"] = json!("../../../tmp/evil");
    record["command"] = json!(["stream", HOSTILE, "$(reboot)"]);
    record["labels"] = json!({HOSTILE: FORMULA, "=1+1": "x"});
    record["findings"][0]["text"] = json!(HOSTILE);
    for m in record["measurements"].as_array_mut().unwrap() {
        m["disturbed"][0]["reason"] = json!(FORMULA);
        m["disturbed"][1]["reason"] = json!(HOSTILE);
        m["validity"] = json!({"status": "suspect", "reasons": [HOSTILE]});
    }
    record["measurements"][0]["name"] = json!(HOSTILE);
    let file = harness.write("hostile.json", record.to_string());
    let csv = harness.run(&["history", "show", &file, "--csv"]).exits(0).stdout;
    for cell in csv.split([',', '\n']) {
        assert!(!cell.trim_start_matches('"').starts_with(['=', '@', '+']), "{cell}");
    }
    // The identifier in the record must not determine the path of the file.
    harness.run(&["report", &file]).exits(0).prints("report     nodegauge-tmpevil.html");
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    browser.width(1400);
    browser.open(&harness.path("nodegauge-tmpevil.html"));
    let data = browser.evaluate(DATA);
    assert_eq!(browser.complaints, [""; 0]);
    assert_eq!(browser.evaluate("window.hit === undefined && document.images.length === 0"), true);
    let text = browser.evaluate("document.body.textContent");
    assert!(text.as_str().unwrap().contains(HOSTILE), "{text}");
    assert!(data.to_string().contains("onerror=window.hit=1"), "{data}");
    let saved = browser.evaluate(
        "new Promise((done) => {
            const make = URL.createObjectURL;
            URL.createObjectURL = (blob) => { blob.text().then(done); return make.call(URL, blob); };
            document.querySelector('figure button[aria-label^=CSV]').click();
        })",
    );
    let saved = saved.as_str().unwrap();
    assert!(
        saved.contains(&format!("'{FORMULA}")) && !saved.contains(&format!(",{FORMULA}")),
        "{saved}"
    );
}

#[test]
fn report_names_missing_data_and_stays_small() {
    let harness = Harness::new();
    let page = |name: &str| {
        let page = report(&harness, golden(name).to_str().unwrap());
        std::fs::read_to_string(page).unwrap()
    };
    let imported = page("import-stream-c");
    assert!(imported.contains("none in the record: each figure was measured once"));
    assert!(imported.contains("As printed by another program"), "{imported}");
    assert!(imported.contains("unknown processor"), "{imported}");
    assert!(imported.len() < 1_500_000 && page("run").len() < 2_000_000);
    assert!(page("stream-nothing").contains("The record has no figures."));
    let run = page("run");
    for title in ["memory", "floating point", "messages", "files"] {
        assert!(run.contains(&format!("<div class=\"name\"><b>{title}</b>")), "{title}");
    }
    // Parts that were not measured have no row.
    assert!(!run.contains("not measured") && !run.contains("<b>latency</b>"));
    assert!(!run.contains("ecStat") && !run.contains("claygl"), "what only surfaces need");
    for of_head in
        ["n01, Intel", "1 socket x 2 cores", "Use with care: ", "findings about the node"]
    {
        assert!(run.contains(of_head), "{of_head}");
    }
}

#[test]
fn only_the_same_figure_of_an_earlier_run_is_compared() {
    let page = |change: &dyn Fn(&mut Value)| {
        let harness = Harness::new();
        let mut other = record("run");
        other["id"] = json!("01KEARLIER");
        other["started"] = json!("2026-11-20T10:00:00Z");
        change(&mut other);
        let path = harness.path(".local/share/nodegauge/history.db");
        let saved: nodegauge_measure::record::Record = serde_json::from_value(other).unwrap();
        nodegauge_history::Store::open(&path, &Default::default()).unwrap().save(&saved).unwrap();
        let page = report(&harness, golden("run").to_str().unwrap());
        let page = std::fs::read_to_string(page).unwrap();
        page.matches("this node on 2026-11-20 10:00").count()
    };
    let same = page(&|_| {});
    assert!(same >= 4, "{same}");
    assert_eq!(page(&|other| other["started"] = json!("2027-01-01T10:00:00Z")), 0, "later");
    assert_eq!(page(&|other| other["machine"]["host"] = json!("n02")), 0, "another node");
    let other_size = page(&|other| {
        for m in other["measurements"].as_array_mut().unwrap() {
            if m["test"] == "stream" {
                m["config"]["array_bytes"] = json!(80);
            }
        }
    });
    assert_eq!(other_size, same - 1, "another size");
    let other_cache = page(&|other| {
        for m in other["measurements"].as_array_mut().unwrap() {
            if m["test"] == "io" {
                m["config"]["cache"] = json!("beyond");
            }
        }
    });
    assert_eq!(other_cache, same - 1, "another cache mode");
}

#[test]
fn report_refuses_invalid_records_and_missing_folders() {
    let harness = Harness::new();
    harness.run(&["report"]).exits(2).warns("no saved run");
    harness.run(&["report", "01KNONE"]).exits(2).warns("01KNONE");
    let mut newer = record("stream");
    newer["schema"] = json!("nodegauge/2");
    let file = harness.write("newer.json", newer.to_string());
    harness
        .run(&["report", &file])
        .exits(2)
        .warns("found schema nodegauge/2, required is nodegauge/1");
    let half = std::fs::read_to_string(golden("stream")).unwrap();
    let half_file = harness.write("half.json", &half[..half.len() / 2]);
    harness.run(&["report", &half_file]).exits(2).warns("is not a nodegauge record");
    let record = golden("stream");
    let record = record.to_str().unwrap();
    harness
        .run(&["report", record, "--output", "none/page.html"])
        .exits(3)
        .warns("cannot write none/page.html");
    harness.write("page.html", "old");
    harness.run(&["report", record, "--output", "/dev/null"]).exits(0);
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    let printed = harness.run(&["report", record, "--output", "-"]).exits(0).warns_nothing().stdout;
    assert!(printed.starts_with("<!doctype html>") && printed.ends_with("</html>\n"));
    assert_eq!(std::fs::read_to_string(harness.path("page.html")).unwrap(), "old");
}
