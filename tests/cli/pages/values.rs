//! Tests that the numbers in pictures and in their tables equal those in the record.

use super::*;

#[test]
fn picture_tables_equal_the_record() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    browser.width(1400);

    browser.open(&report(&harness, golden("stream-regimes").to_str().unwrap()));
    let data = browser.evaluate(DATA);
    let shown: Vec<(String, f64, String)> = rows(&data, "samples in order")
        .iter()
        .map(|row| (row[0].to_owned(), number(row[2]), row[3].to_owned()))
        .collect();
    let mut expected = 0;
    for m in record("stream-regimes")["measurements"].as_array().unwrap() {
        let name = m["name"].as_str().unwrap().to_owned();
        for one in m["disturbed"].as_array().unwrap() {
            let reason = one["reason"].as_str().unwrap().to_owned();
            assert!(shown.contains(&(name.clone(), one["value"].as_f64().unwrap(), reason)));
            expected += 1;
        }
        let again = |value: &&Value| {
            let all = m["disturbed"].as_array().unwrap().iter();
            all.clone().any(|one| &one["value"] == *value && one["counts"] == "all")
        };
        let clean = m["samples"].as_array().unwrap().iter().filter(|value| !again(value));
        for value in clean {
            let row = (name.clone(), value.as_f64().unwrap(), String::new());
            assert!(shown.contains(&row), "{row:?} in {shown:?}");
            expected += 1;
        }
    }
    assert_eq!(shown.len(), expected);

    browser.open(&report(&harness, golden("memory-latency").to_str().unwrap()));
    let second_data = browser.evaluate(DATA);
    let mut second_shown = Vec::new();
    for figure in second_data.as_array().unwrap() {
        let title = figure["title"].as_str().unwrap();
        if figure["rows"][0][0] != "curve" {
            continue;
        }
        second_shown
            .extend(rows(&second_data, title).iter().map(|row| (number(row[1]), number(row[2]))));
    }
    let figures = record("memory-latency")["measurements"].as_array().unwrap().clone();
    assert!(
        figures.len() > 20 && second_shown.len() >= figures.len(),
        "{} {}",
        figures.len(),
        second_shown.len()
    );
    for m in figures {
        let dot = (m["config"]["set_bytes"].as_f64().unwrap(), m["value"].as_f64().unwrap());
        assert!(second_shown.contains(&dot), "{dot:?} in {second_shown:?}");
    }
}

/// Returns the time of a part of an iteration in seconds.
fn part_seconds(m: &Value) -> f64 {
    m["config"]["moved_bytes"].as_f64().unwrap() / m["value"].as_f64().unwrap()
}

/// Checks that the dots (x, y) of a picture equal the expected dots, in any order.
#[track_caller]
fn assert_dots(mut shown: Vec<[f64; 2]>, mut expected: Vec<[f64; 2]>) {
    let order = |a: &[f64; 2], b: &[f64; 2]| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1]));
    shown.sort_by(order);
    expected.sort_by(order);
    let is_same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
    let mut pairs = shown.iter().zip(&expected);
    let same = pairs.all(|(a, b)| is_same(a[0], b[0]) && is_same(a[1], b[1]));
    assert!(same && shown.len() == expected.len(), "{shown:?} instead of {expected:?}");
}

/// The parallel efficiencies in the picture are those in the record, or are computed from its rates.
#[test]
fn efficiencies_equal_the_record() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    browser.width(1400);
    let title = "parallel efficiency over workers";
    let dots = |data: &Value| -> Vec<[f64; 2]> {
        rows(data, title).iter().map(|row| [number(row[1]), number(row[2])]).collect()
    };

    browser.open(&report(&harness, golden("apps-trapezoid").to_str().unwrap()));
    let trapezoid = record("apps-trapezoid");
    let figures = trapezoid["measurements"].as_array().unwrap().iter();
    let longest = figures.filter(|m| m["config"]["n"] == 100_000_000);
    let measured = longest.filter(|m| m["name"] == "efficiency");
    let percent = |m: &Value| {
        [m["config"]["threads"].as_f64().unwrap(), 100.0 * m["value"].as_f64().unwrap()]
    };
    let mut expected: Vec<[f64; 2]> = measured.map(percent).collect();
    assert!(expected.len() > 5);
    // These are the workers with which the others are compared.
    expected.push([1.0, 100.0]);
    assert_dots(dots(&browser.evaluate(DATA)), expected);

    let mut solver = record("apps-iccg-ranks");
    for m in solver["measurements"].as_array_mut().unwrap() {
        if m["config"]["policy"] == 3 {
            m["config"]["threads"] = json!(4);
        }
    }
    let file = harness.write("workers.json", solver.to_string());
    browser.open(&report(&harness, &file));
    let rates = solver["measurements"].as_array().unwrap().iter().filter(|m| m["name"] == "rate");
    let rates: Vec<f64> = rates.map(|m| m["value"].as_f64().unwrap()).collect();
    let of_rates = vec![[2.0, 100.0], [4.0, 100.0 * (rates[1] / 4.0) / (rates[0] / 2.0)]];
    assert_dots(dots(&browser.evaluate(DATA)), of_rates);
}

/// The parts of an iteration have the times and shares in the record. Their sum is the time of the iteration.
#[test]
fn parts_of_an_iteration_equal_the_record() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    browser.width(1400);
    let is_part = |m: &&Value| m["config"]["share"].is_number();
    let is_close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;

    browser.open(&report(&harness, golden("apps-iccg").to_str().unwrap()));
    let texts = browser.evaluate(TEXTS);
    let texts: Vec<&str> = texts.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let texts = texts.join(" ").replace('\u{a0}', " ");
    let data = browser.evaluate(DATA);
    let bars = rows(&data, "time of an iteration by part");
    let length = |name: &str| {
        let row = bars.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}"));
        number(row[2]) - number(row[1])
    };
    let solver = record("apps-iccg");
    let figures = solver["measurements"].as_array().unwrap();
    let mut sum = length("rest");
    for m in figures.iter().filter(is_part) {
        let name = m["name"].as_str().unwrap();
        assert!(is_close(length(name), part_seconds(m)), "{name}: {bars:?}");
        let share = format!(": {:.0} %", 100.0 * m["config"]["share"].as_f64().unwrap());
        assert!(texts.contains(&share), "{name}, {share}: {texts}");
        sum += length(name);
    }
    let rate = figures.iter().find(|m| m["name"] == "rate").unwrap();
    let flops = rate["config"]["flops"].as_f64().unwrap();
    let iteration = flops / rate["value"].as_f64().unwrap();
    assert!(is_close(length("iteration"), iteration) && is_close(sum, iteration), "{bars:?}");

    browser.open(&report(&harness, golden("apps-iccg-ranks").to_str().unwrap()));
    let by_workers = browser.evaluate(DATA);
    let groups = rows(&by_workers, "time of an iteration by part and workers");
    let ranks = record("apps-iccg-ranks");
    let mut count = 0;
    for m in ranks["measurements"].as_array().unwrap().iter().filter(is_part) {
        let part = m["name"].as_str().unwrap();
        let workers = format!("policy {}", m["config"]["policy"]);
        let row = groups.iter().find(|row| row[0] == workers && row[1] == part);
        let row = row.unwrap_or_else(|| panic!("{workers}, {part}: {groups:?}"));
        assert!(is_close(number(row[2]), part_seconds(m)), "{row:?}");
        count += 1;
    }
    assert_eq!(count, 10);
}
