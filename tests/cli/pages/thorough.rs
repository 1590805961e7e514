//! Tests of the second tier: every page on every screen.

use super::*;

/// These records lack values that pages usually show.
#[test]
fn sparse_records_have_pages_without_empty_frames() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    type Change = fn(&mut Value);
    let cases: [(&str, &str, Change); 6] = [
        ("no samples", "stream", |record| {
            for m in record["measurements"].as_array_mut().unwrap() {
                m["samples"] = json!([]);
                m["disturbed"] = json!([]);
                m["summary"] = Value::Null;
            }
        }),
        ("one point", "memory-latency", |record| {
            record["measurements"].as_array_mut().unwrap().truncate(1);
        }),
        ("all suspect", "run", |record| {
            for m in record["measurements"].as_array_mut().unwrap() {
                m["validity"] = json!({"status": "suspect", "reasons": ["the node was busy"]});
            }
        }),
        ("nine decades", "memory-ladder", |record| {
            for (i, m) in record["measurements"].as_array_mut().unwrap().iter_mut().enumerate() {
                m["value"] = json!(10f64.powi(3 + (i % 10) as i32));
            }
        }),
        ("no machine", "mpi", |of_mpi| {
            of_mpi["machine"] = record("import-osu-latency")["machine"].clone();
            of_mpi["machine"]["host"] = Value::Null;
        }),
        ("no values", "hpl", |record| {
            for m in record["measurements"].as_array_mut().unwrap() {
                m["value"] = Value::Null;
                m["validity"] = json!({"status": "invalid", "reasons": ["the residual is wrong"]});
            }
        }),
    ];
    for (name, of, change) in cases {
        let mut record = record(of);
        change(&mut record);
        let file = harness.write("poor.json", record.to_string());
        let page = report(&harness, &file);
        for width in WIDTHS {
            browser.width(width);
            browser.open(&page);
            let pictures = browser.evaluate(PICTURES);
            for picture in pictures.as_array().unwrap() {
                assert!(picture["drawn"].as_u64() > Some(3), "{name}: {picture}");
            }
            assert_eq!(browser.evaluate(ILLEGIBLE), json!([]), "{name} at {width}");
            assert_eq!(browser.complaints, [""; 0], "{name}");
        }
    }
}

/// Returns all numbers in a value.
fn numbers(value: &Value, found: &mut Vec<f64>) {
    match value {
        Value::Number(number) => found.extend(number.as_f64()),
        Value::Array(items) => items.iter().for_each(|item| numbers(item, found)),
        Value::Object(map) => map.values().for_each(|item| numbers(item, found)),
        _ => {}
    }
}

/// Each record is opened with one combination of width and colour scheme, which are then changed.
#[test]
fn every_record_is_legible_on_every_screen() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    let mut wrong = Vec::new();
    let mut shown = 0;
    for (i, name) in recorded().iter().enumerate() {
        let mut widths = WIDTHS;
        widths.rotate_left(i % WIDTHS.len());
        let schemes = if i % 2 == 0 { ["light", "dark"] } else { ["dark", "light"] };
        browser.media("screen", schemes[0]);
        browser.width(widths[0]);
        browser.open(&report(&harness, golden(name).to_str().unwrap()));
        for width in widths {
            browser.width(width);
            for found in [TOO_WIDE, ILLEGIBLE].map(|check| browser.evaluate(check)) {
                if found != json!([]) {
                    wrong.push(format!("{name} at {width}: {found}"));
                }
            }
            let pictures = browser.evaluate(PICTURES);
            for picture in pictures.as_array().unwrap() {
                if picture["drawn"].as_u64() <= Some(3) {
                    wrong.push(format!("{name} at {width}: empty: {picture}"));
                }
            }
        }
        for scheme in schemes {
            browser.media("screen", scheme);
            let faint = browser.evaluate(FAINT);
            if faint != json!([]) {
                wrong.push(format!("{name} on a {scheme} screen: {faint}"));
            }
        }
        let (values, unknown) = values_of_pictures(&browser.evaluate(DATA), &record(name));
        shown += values;
        wrong.extend(unknown.iter().map(|text| format!("{name}, not in the record: {text}")));
        browser.media("print", "light");
        browser.width(794);
        let wide = browser.evaluate(TOO_WIDE);
        if wide != json!([]) || !browser.complaints.is_empty() {
            wrong.push(format!("{name} on paper: {wide}, {:?}", browser.complaints));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(shown > 1000, "{shown}");
}

/// Returns the number of values in the pictures of a page that must be figures of its record, and the values that are
/// not.
fn values_of_pictures(data: &Value, record: &Value) -> (usize, Vec<String>) {
    let mut known = Vec::new();
    numbers(record, &mut known);
    let is_known = |value: f64| known.iter().any(|of| (of - value).abs() <= 1e-9 * value.abs());
    let mut values = 0;
    let mut unknown = Vec::new();
    for figure in data.as_array().unwrap() {
        let title = figure["title"].as_str().unwrap();
        let Some(head) = figure["rows"][0].as_array() else { continue };
        // The first column that contains numbers of the record depends on the kind of picture.
        let column = match head[0].as_str().unwrap() {
            "curve" | "figure" if title.starts_with("roofline") => continue,
            "curve" if title.starts_with("parallel efficiency") => continue,
            "" if title.ends_with("by part and workers") => continue,
            "curve" | "figure" => 2,
            "" if head[1] == "run" => 2,
            "" if !title.contains("time of an iteration") => 2,
            _ => continue,
        };
        for row in rows(data, title) {
            let cell = row[column];
            if !cell.is_empty() {
                values += 1;
                if !is_known(number(cell)) {
                    unknown.push(format!("{title}: {row:?}"));
                }
            }
        }
    }
    (values, unknown)
}

#[test]
fn file_surfaces_are_drawn() {
    let Some(mut browser) = browser(Graphics::WebGl) else { return };
    let harness = Harness::new();
    browser.width(1400);
    browser.open(&report(&harness, golden("io-quick").to_str().unwrap()));
    assert_eq!(browser.evaluate(SURFACES), 2);
    let pictures = browser.evaluate(PICTURES);
    for picture in pictures.as_array().unwrap() {
        assert!(picture["drawn"].as_u64() > Some(3), "{picture}");
    }
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn reports_are_accessible() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    for name in ["run", "io", "mpi", "stream-regimes", "explain", "import-stream-c"] {
        let page = report(&harness, golden(name).to_str().unwrap());
        for scheme in ["light", "dark"] {
            browser.media("screen", scheme);
            browser.width(1400);
            browser.open(&page);
            browser.evaluate(DATA);
            browser.evaluate(&format!("{AXE}; 0"));
            let found = browser.evaluate(SERIOUS);
            assert_eq!(found, json!([]), "{name}, {scheme}");
        }
    }
}

#[test]
fn surfaces_rotate_and_fall_back_to_heat_maps() {
    let Some(mut browser) = browser(Graphics::WebGl) else { return };
    let harness = Harness::new();
    let page = report(&harness, golden("io-quick").to_str().unwrap());
    browser.width(1400);
    browser.open(&page);
    assert_eq!(browser.evaluate(SURFACES), 2);
    let picture =
        "echarts.getInstanceByDom(document.querySelector('[data-kind=surface]')).getDataURL()";
    let before = browser.evaluate(picture);
    browser.evaluate(
        "new Promise((done) => {
            document.querySelector('button[aria-label^=\"turn right\"]').click();
            setTimeout(done, 300);
        })",
    );
    let after = browser.evaluate(picture);
    assert!(before.as_str().unwrap().len() > 5000, "{before}");
    assert_ne!(before, after);
    drop(browser);

    let Some(mut without) = self::browser(Graphics::Flat) else { return };
    without.open(&page);
    assert_eq!(without.evaluate(SURFACES), 2);
    let kinds = without.evaluate(PICTURES);
    assert!(kinds.as_array().unwrap().iter().all(|one| one["drawn"].as_u64() > Some(3)), "{kinds}");
    let count = without.evaluate("document.body.innerText.match(/no WebGL here/g).length");
    assert_eq!(count, 2);
}

#[test]
fn ten_thousand_samples_are_drawn() {
    let harness = Harness::new();
    let mut record = record("stream");
    for m in record["measurements"].as_array_mut().unwrap() {
        let sample = |i: u32| json!(1e10 + f64::from(i % 97) * 1e7);
        m["samples"] = (0..2500).map(sample).collect();
        m["samples_at_s"] = (0..2500).map(|i| json!(f64::from(i) * 0.01)).collect();
        m["samples_round_trip_s"] = json!([]);
        m["disturbed"] = json!([{"value": 5e9, "reason": "steal", "at_s": 1.0}]);
    }
    let file = harness.write("many.json", record.to_string());
    let page = report(&harness, &file);
    assert!(std::fs::metadata(&page).unwrap().len() < 6 << 20);
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    browser.open(&page);
    let pictures = browser.evaluate(PICTURES);
    assert!(pictures[0]["drawn"].as_u64() > Some(100), "{pictures}");
    let data = browser.evaluate(DATA);
    assert_eq!(rows(&data, "samples over time").len(), 10_004);
}
