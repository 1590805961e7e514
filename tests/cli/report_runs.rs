//! Tests of reports of several runs: side by side, and over time.

use crate::browser::{Browser, Graphics};
use crate::harness::Harness;
use crate::pages::{
    AXE, DATA, FAINT, FORMULA, HOSTILE, ILLEGIBLE, PICTURES, SERIOUS, TOO_WIDE, WIDTHS, browser,
    golden, number, record, rows,
};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Writes the record `name` as runs of several nodes; the rates of each are multiplied by another factor. Returns the
/// files.
fn nodes(harness: &Harness, name: &str, factors: &[f64]) -> Vec<String> {
    let node = |(i, factor): (usize, &f64)| {
        let mut record = record(name);
        record["id"] = json!(format!("01M80{i:02}E6PEPPF69HBVJF5Z1FX"));
        record["machine"]["host"] = json!(format!("n{i:02}"));
        for m in record["measurements"].as_array_mut().unwrap() {
            m["value"] = json!(m["value"].as_f64().map(|value| value * factor));
        }
        harness.write(&format!("{i}.json"), record.to_string())
    };
    factors.iter().enumerate().map(node).collect()
}

/// Runs `report` with these arguments and returns the path of the page.
#[track_caller]
fn page_of(harness: &Harness, arguments: &[&str]) -> PathBuf {
    harness.run(&[&["report", "--output", "page.html"], arguments].concat()).exits(0);
    harness.path("page.html")
}

/// Opens a page in every width and colour scheme. It must have no serious violations and must not be too wide.
#[track_caller]
fn assert_valid_page(browser: &mut Browser, page: &Path) {
    browser.media("screen", "light");
    for width in WIDTHS {
        browser.width(width);
        browser.open(page);
        for picture in browser.evaluate(PICTURES).as_array().unwrap() {
            assert!(picture["drawn"].as_u64() > Some(3), "{width}: {picture}");
        }
        assert_eq!(browser.evaluate(ILLEGIBLE), json!([]), "at {width}");
        assert_eq!(browser.evaluate(TOO_WIDE), json!([]), "at {width}");
    }
    browser.width(1400);
    browser.open(page);
    browser.evaluate(DATA);
    browser.evaluate(&format!("{AXE}; 0"));
    for (width, media, scheme) in [
        (1400, "screen", "dark"),
        (360, "screen", "light"),
        (360, "screen", "dark"),
        (794, "print", "light"),
    ] {
        browser.width(width);
        browser.media(media, scheme);
        assert_eq!(browser.evaluate(TOO_WIDE), json!([]), "at {width} on {media}");
        assert_eq!(browser.evaluate(FAINT), json!([]), "at {width} on {media}, {scheme}");
        if media == "screen" {
            assert_eq!(browser.evaluate(SERIOUS), json!([]), "{width} {scheme}");
        }
    }
    assert_eq!(browser.complaints, [""; 0]);
}

/// Returns the cells of the first table row that begins with this word.
fn cells(browser: &mut Browser, word: &str) -> Vec<String> {
    let find = format!(
        "[...document.querySelectorAll('.block tr')].map((row) => [...row.cells].map((cell) => cell.textContent))
            .find((cells) => cells[0] === '{word}')"
    );
    serde_json::from_value(browser.evaluate(&find)).unwrap()
}

#[test]
fn trend_and_fleet_pages_state_conclusions_and_the_slow_node_is_drawn() {
    let harness = Harness::new();
    day(&harness, "night");
    let trend = page_of(&harness, &["--trend", "watch=night"]);
    let text = std::fs::read_to_string(&trend).unwrap();
    assert!(text.contains("<p class=\"conclusion\">Triad, best: "), "{}", &text[..4000]);
    let files = nodes(&harness, "stream", &[1.0, 1.01, 0.99, 1.0, 0.5, 1.0, 1.02, 0.98, 1.0]);
    let arguments = ["fleet", "rank", "--format", "html", "--output", "fleet.html"];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    harness.run(&[&arguments[..], &files].concat());
    let fleet = harness.path("fleet.html");
    let ranked = std::fs::read_to_string(&fleet).unwrap();
    assert!(ranked.contains("<p class=\"conclusion\">"), "{}", &ranked[..4000]);
    for reported in [
        "<h1>9 nodes: Intel Xeon Processor, kvm guest, 2 cores</h1>",
        "<p class=\"facts\">nodegauge fleet rank --format html --output fleet.html ",
        " \u{b7} 2026-11-21 20:02 UTC</p>",
    ] {
        assert!(ranked.contains(reported), "{reported} in {}", &ranked[..4000]);
    }
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    assert_valid_page(&mut browser, &trend);
    assert_valid_page(&mut browser, &fleet);
    // The rates in the table are those in the records, and the share of the slow node is that in its reason. Empty bins
    // have no bar.
    browser.open(&fleet);
    let slow = cells(&mut browser, "n04");
    let measured = record("stream")["measurements"].as_array().unwrap().clone();
    let triad = measured.iter().find(|m| m["name"] == "triad").unwrap()["value"].as_f64().unwrap();
    let shown = "Number([...document.querySelectorAll('td')].find((cell) => cell.textContent === 'n04').closest('tr').querySelector('[data-value]').dataset.value)";
    let rate = browser.evaluate(shown).as_f64().unwrap();
    assert!((rate / (triad * 0.5) - 1.0).abs() < 1e-9, "{rate}");
    assert!(slow.iter().any(|cell| cell == "50.0 %"), "{slow:?}");
    // The picture has one dot per node. The dot of the slow node is large, has a name, and is to the left of the limit.
    let drawn = "(() => {
        const row = [...document.querySelectorAll('.row')].find((row) => row.querySelector('b').textContent.toLowerCase() === 'triad');
        const at = (name) => parseFloat(row.querySelector(name).getAttribute(name === 'line.limit' ? 'x1' : 'cx'));
        return [row.querySelectorAll('circle').length, row.querySelectorAll('circle.beyond').length, at('circle.beyond') < at('line.limit'), row.querySelector('text.named').textContent];
    })()";
    assert_eq!(browser.evaluate(drawn), json!([9, 1, true, "n04"]));
    let bars = "[...document.querySelectorAll('.bars tbody tr')].map((row) => [Number(row.cells[1].textContent), row.querySelectorAll('.bar').length])";
    let bins = browser.evaluate(bars);
    for bin in bins.as_array().unwrap() {
        assert_eq!(bin[1], json!(i32::from(bin[0] != json!(0))), "{bins}");
    }
}

/// The ratios in the forest plot are those of the records. The title contains the name of each processor once.
#[test]
fn forest_plot_shows_the_ratios_of_the_recorded_rates() {
    let harness = Harness::new();
    let factors = [1.0, 1.25, 0.5, 1.1, 0.9];
    let files = nodes(&harness, "stream", &factors);
    let page = page_of(&harness, &files.iter().map(String::as_str).collect::<Vec<_>>());
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("<h1>5 hosts, Intel Xeon Processor, 1 socket x 2 cores</h1>"));
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    assert_valid_page(&mut browser, &page);
    browser.open(&page);
    let data = browser.evaluate(DATA);
    let shown = rows(&data, "speed relative to n00");
    for (i, factor) in factors.iter().enumerate().skip(1) {
        let name = format!("triad, n{i:02}");
        let row = shown.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{shown:?}"));
        assert!((number(row[1]) / factor - 1.0).abs() < 1e-9, "{row:?}");
    }
}

#[test]
fn report_explains_why_runs_are_not_compared() {
    let harness = Harness::new();
    let stream = golden("stream");
    let stream = stream.to_str().unwrap();
    harness.run(&["report", stream, stream]).exits(2).warns("name the same run");
    let files = nodes(&harness, "hpl", &[1.0; 17]);
    let all: Vec<&str> = ["report"].into_iter().chain(files.iter().map(String::as_str)).collect();
    harness.run(&all).exits(2).warns("at most 16");
    let standard = golden("import-stream-c");
    let page = page_of(&harness, &[stream, standard.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("not comparable: category: variant against standard"));
    assert!(!page.contains(", best") && !page.contains("times as fast"));
}

/// The second of two runs has a suspect Triad.
#[test]
fn suspect_figures_of_compared_runs_are_marked() {
    let harness = Harness::new();
    let mut files = Vec::new();
    for (i, status) in ["valid", "suspect"].into_iter().enumerate() {
        let mut run = record("stream");
        run["id"] = json!(format!("01M80{i:02}E6PEPPF69HBVJF5Z1FX"));
        run["machine"]["host"] = json!(format!("n{i:02}"));
        for m in run["measurements"].as_array_mut().unwrap() {
            let is_suspect = m["name"] == "triad" && status == "suspect";
            let reasons =
                if is_suspect { json!(["7 of 9 passes were disturbed"]) } else { json!([]) };
            let verdict = if is_suspect { "suspect" } else { "valid" };
            m["validity"] = json!({"status": verdict, "reasons": reasons});
            m["value"] = json!(m["value"].as_f64().unwrap() * f64::from(1 + i as u32));
        }
        files.push(harness.write(&format!("{i}.json"), run.to_string()));
    }
    let page = page_of(&harness, &[&files[0], &files[1]]);
    let text = std::fs::read_to_string(&page).unwrap();
    let start = "<p class=\"conclusion\">Cannot tell which run is faster in triad: ";
    let ending =
        "n01 is suspect: 7 of 9 passes were disturbed; repeat the run on an idle node.</p>";
    assert!(text.contains(start) && text.contains(ending), "{}", &text[..4000]);
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    assert_valid_page(&mut browser, &page);
    browser.media("screen", "light");
    browser.open(&page);
    // Only the mark of the suspect ratio is hollow. Its row and the legend contain the reason.
    let marked = "(() => {
        const chart = document.querySelector('[data-kind=forest]');
        const panel = getComputedStyle(document.body).getPropertyValue('--panel').trim();
        const hollow = [...chart.querySelectorAll('svg path')].filter((one) => one.getAttribute('fill') === panel && one.getAttribute('stroke') && one.getAttribute('stroke') !== 'none');
        const texts = [...chart.querySelectorAll('svg text')].map((one) => one.textContent);
        return [hollow.length, texts.filter((text) => text.endsWith(', suspect')).length, chart.parentNode.querySelector('.key').textContent.includes('hollow: suspect'),
            texts.some((text) => text.endsWith(', log scale'))];
    })()";
    assert_eq!(browser.evaluate(marked), json!([1, 1, true, true]));
}

/// Saves six runs per configuration. The configurations alternate, and all runs share a label. The second half of the
/// runs is in another regime.
fn mixed(harness: &Harness, configurations: &[&str]) {
    let mut lines = String::new();
    for i in 0..6 * configurations.len() {
        let mut run = record("stream");
        let at = i % configurations.len();
        let (pages, value) = (configurations[at], 20e9 + at as f64 * 10e9);
        run["id"] = json!(format!("01M80{i:02}E6PEPPF69HBVJF5Z1FX"));
        run["started"] = json!(format!("2026-11-21T10:{i:02}:00Z"));
        run["command"] = json!(["stream", "--pages", pages, "--label", "kind=mixed"]);
        run["labels"] = json!({"kind": "mixed"});
        for m in run["measurements"].as_array_mut().unwrap() {
            m["value"] = json!(value + i as f64 * 1e7);
            m["config"]["pages"]["asked"] = json!(pages);
            m["config"]["round_trip_s"] =
                json!(if i < 3 * configurations.len() { 115e-9 } else { 390e-9 });
        }
        lines.push_str(&format!("{run}\n"));
    }
    let file = harness.write("mixed.jsonl", lines);
    harness.run(&["history", "import", &file]).exits(0);
}

/// If a label selects two configurations, the picture has one series per configuration, each with its median.
#[test]
fn trend_separates_configurations() {
    let harness = Harness::new();
    mixed(&harness, &["4k", "thp"]);
    let page = page_of(&harness, &["--trend", "kind=mixed"]);
    let text = std::fs::read_to_string(&page).unwrap();
    assert_eq!(text.matches("<figcaption>Triad, best</figcaption>").count(), 1);
    for (pages, median) in [("4k", "20.05"), ("thp", "30.06")] {
        assert!(text.contains(&format!(">Triad, best, pages {pages}</th>")), "{pages}");
        let all_suspect = format!(", median {median} GB/s (suspect), in 6 runs (6 suspect)");
        assert!(text.contains(&all_suspect), "{pages}");
    }
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    assert_valid_page(&mut browser, &page);
    browser.open(&page);
    // Each series has a line and dots in its own colour and symbol, and its name is in the table of the picture.
    let drawn = "(() => {
        const chart = echarts.getInstanceByDom(document.querySelector('[data-kind=trend]'));
        const dots = chart.getOption().series.filter((one) => one.type === 'scatter');
        const lines = chart.getOption().series.filter((one) => one.type === 'line');
        return [lines.length, new Set(dots.map((one) => one.name.split(',')[0])).size, new Set(dots.map((one) => one.symbol)).size];
    })()";
    assert_eq!(browser.evaluate(drawn), json!([2, 2, 2]));
    // Periods are also marked by letters, not only by shades of grey.
    let key = browser.evaluate("document.querySelector('.key').textContent").to_string();
    assert!(key.contains("A: period with"), "{key}");
    let data = browser.evaluate(DATA);
    let shown = rows(&data, "Triad, best");
    assert_eq!(shown.iter().filter(|row| row[5] == "pages thp").count(), 6, "{shown:?}");
}

/// If a picture cannot show all configurations, each has its own picture.
#[test]
fn trend_of_many_configurations_has_a_picture_per_configuration() {
    let harness = Harness::new();
    mixed(&harness, &["4k", "thp", "2m", "1g", "auto"]);
    let page = page_of(&harness, &["--trend", "kind=mixed"]);
    let text = std::fs::read_to_string(&page).unwrap();
    assert_eq!(text.matches("<figcaption>Triad, best, pages ").count(), 5);
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    assert_valid_page(&mut browser, &page);
}

/// Saves the runs of a day, one every ten minutes, with two regimes and a gap of one hour.
fn day(harness: &Harness, label: &str) -> Vec<f64> {
    let mut lines = String::new();
    let mut values = Vec::new();
    for i in (0..40).filter(|i| !(20..26).contains(i)) {
        let mut run = record("stream");
        let far = (10..16).contains(&i) || i > 30;
        run["id"] = json!(format!("01M80{i:02}E6PEPPF69HBVJF5Z1FX"));
        run["started"] = json!(format!("2026-11-21T{:02}:{:02}:00Z", 10 + i / 6, i % 6 * 10));
        run["labels"] = json!({"watch": label});
        for m in run["measurements"].as_array_mut().unwrap() {
            let value = if far { 2e10 } else { 3e10 } + f64::from(i) * 1e7;
            m["value"] = json!(value);
            m["config"]["round_trip_s"] = json!(if far { 390e-9 } else { 115e-9 });
            if m["name"] == "triad" {
                values.push(value);
            }
        }
        lines.push_str(&format!("{run}\n"));
    }
    let file = harness.write("day.jsonl", lines);
    harness.run(&["history", "import", &file]).exits(0);
    values
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn runs_are_shown_side_by_side() {
        let harness = Harness::new();
        let mut files = nodes(&harness, "hpl", &[1.0, 1.5, 0.5]);
        files.push(golden("stream").to_str().unwrap().to_owned());
        let page = page_of(&harness, &files.iter().map(String::as_str).collect::<Vec<_>>());
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.len() < 1_500_000 && text.contains("nodegauge: 4 runs side by side"));
        let differences = text.find("<h2>differences").unwrap();
        assert!(differences < text.find("<h2>HPL").unwrap() && text.contains("<td>host</td>"));
        assert!(text.contains("only in some of the runs"));
        let Some(mut browser) = browser(Graphics::Flat) else { return };
        assert_valid_page(&mut browser, &page);
        // The text names the best and the worst of three runs, and the table of the picture has the values in the
        // records.
        browser.open(&page_of(&harness, &["0.json", "1.json", "2.json"]));
        let data = browser.evaluate(DATA);
        let shown = rows(&data, "hpl, FLOP/s");
        let figures = record("hpl")["measurements"].as_array().unwrap().clone();
        for m in &figures {
            for (run, factor) in ["1.0", "1.5", "0.5"].iter().enumerate() {
                let value = m["value"].as_f64().unwrap() * number(factor);
                let is_it = |row: &&Vec<&str>| {
                    row[0] == m["name"] && row[1].ends_with(&format!("n{run:02}"))
                };
                let row = shown
                    .iter()
                    .find(is_it)
                    .unwrap_or_else(|| panic!("{} in {shown:?}", m["name"]));
                assert_eq!(number(row[2]), value);
            }
        }
        let dgemm = cells(&mut browser, "dgemm");
        assert!(dgemm[2].ends_with(", best") && dgemm[3].ends_with(", worst"), "{dgemm:?}");
        assert!(!dgemm[1].contains(','), "{dgemm:?}");
    }

    #[test]
    fn page_of_the_maximum_number_of_runs_is_valid() {
        let harness = Harness::new();
        let Some(mut browser) = browser(Graphics::Flat) else { return };
        let files = nodes(&harness, "mpi", &[1.0; 16].map(|x: f64| x + 0.01));
        let page = page_of(&harness, &files.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(std::fs::metadata(&page).unwrap().len() < 1_500_000);
        assert_valid_page(&mut browser, &page);
    }

    #[test]
    fn trend_is_drawn_over_time() {
        let harness = Harness::new();
        let values = day(&harness, "night");
        let page = page_of(&harness, &["--trend", "watch=night"]);
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(
            text.len() < 1_500_000
                && text.contains("trend of 34 runs with label watch=night on n01")
        );
        assert!(
            text.contains(
                "1 gap without runs, the longest from 2026-11-21 13:10 to 2026-11-21 14:20"
            )
        );
        let only = harness.run(&[
            "report",
            "--trend",
            "night",
            "--since",
            "2026-11-21T16:00:00Z",
            "--output",
            "-",
        ]);
        assert!(only.exits(0).stdout.contains("trend of 4 runs with label "));
        let Some(mut browser) = browser(Graphics::Flat) else { return };
        assert_valid_page(&mut browser, &page);
        browser.open(&page);
        let data = browser.evaluate(DATA);
        let shown = rows(&data, "Triad, best");
        let drawn: Vec<f64> = shown.iter().map(|row| number(row[1])).collect();
        assert_eq!(drawn, values);
        assert_eq!(shown[0][0], "2026-11-21T10:00:00Z");
        let near = shown.iter().filter(|row| row[2].contains("115")).count();
        assert_eq!(near, 10 + 4 + 5, "{shown:?}");
        // There are five bands and an interrupted line, because a gap ends a band.
        let option = "echarts.getInstanceByDom(document.querySelector('[data-kind=trend]')).getOption().series[0]";
        assert_eq!(browser.evaluate(&format!("{option}.markArea.data.length")), 5);
        assert_eq!(
            browser.evaluate(&format!("{option}.data.filter((dot) => dot[1] === null).length")),
            1
        );
    }

    #[test]
    fn hostile_texts_of_compared_runs_are_escaped() {
        let harness = Harness::new();
        let hostile = |i: usize| {
            let mut record = record("hpl");
            record["id"] = json!(format!("{i}/../{HOSTILE}"));
            record["machine"]["host"] = json!(format!("{FORMULA}{HOSTILE}"));
            record["machine"]["kernel"] = json!(format!("{HOSTILE}{i}"));
            record["labels"] = json!({HOSTILE: i.to_string()});
            record["measurements"][0]["name"] = json!(HOSTILE);
            record["measurements"][1]["validity"] =
                json!({"status": "suspect", "reasons": [HOSTILE]});
            harness.write(&format!("{i}.json"), record.to_string())
        };
        let page = page_of(&harness, &[&hostile(0), &hostile(1)]);
        let Some(mut browser) = browser(Graphics::Flat) else { return };
        assert_valid_page(&mut browser, &page);
        assert_eq!(
            browser.evaluate("window.hit === undefined && document.images.length === 0"),
            true
        );
        let text = browser.evaluate("document.body.textContent");
        assert!(text.as_str().unwrap().contains("<img src=x onerror=window.hit=1>"));
    }

    #[test]
    fn hostile_label_of_a_trend_is_escaped() {
        let harness = Harness::new();
        day(&harness, HOSTILE);
        let page = page_of(&harness, &["--trend", &format!("watch={HOSTILE}")]);
        let Some(mut browser) = browser(Graphics::Flat) else { return };
        assert_valid_page(&mut browser, &page);
        assert_eq!(
            browser.evaluate("window.hit === undefined && document.images.length === 0"),
            true
        );
        let text = browser.evaluate("document.querySelector('header').textContent");
        assert!(text.as_str().unwrap().contains(HOSTILE), "{text}");
    }
}
