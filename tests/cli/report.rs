//! Reports in a real browser, and errors of `report`.

use crate::browser::Browser;
use crate::harness::{Harness, Part, skip};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Golden records, one per kind of page.
const RECORDS: [&str; 23] = [
    "explain",
    "hpl",
    "hpl-xhpl",
    "import-iozone",
    "import-osu-latency",
    "import-stream-c",
    "io",
    "io-all-operations",
    "memory-ladder",
    "memory-latency",
    "memory-loaded",
    "memory-matrix",
    "memory-mix",
    "mpi",
    "mpi-osu",
    "mpi-pairs",
    "roofline",
    "run",
    "stream",
    "stream-compiler",
    "stream-nothing",
    "stream-regimes",
    "stream-sweep-threads",
];
/// Unmodified axe-core; `SHA256SUMS` in its folder has the digest.
pub const AXE: &str = include_str!("../axe/axe.min.js");
/// Text that must not become markup, script or formula.
pub const HOSTILE: &str =
    "</script><script>window.hit=1</script>\"><img src=x onerror=window.hit=1>{{7*7}}\u{2028}'";
pub const FORMULA: &str = "=cmd|' /C calc'!A0";

pub fn golden(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
    PathBuf::from(folder).join(name).join("record.json")
}

pub fn record(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(golden(name)).unwrap()).unwrap()
}

pub fn browser(more: &[&str]) -> Option<Browser> {
    let browser = Browser::start(more);
    if browser.is_none() {
        skip(Part::Chromium, "no Chromium is installed");
    }
    browser
}

/// Writes the report of a record to a file.
#[track_caller]
fn report(harness: &Harness, record: &str) -> PathBuf {
    harness.run(&["report", record, "--output", "page.html"]).exits(0).says("report     page.html");
    harness.path("page.html")
}

/// Returns the pictures of a page: kind, data, and the number of shapes or coloured dots drawn.
pub const PICTURES: &str = "
    [...document.querySelectorAll('.chart')].map((chart) => {
        const svg = chart.querySelector('svg');
        const canvas = chart.querySelector('canvas');
        const dots = () => {
            const all = document.createElement('canvas');
            [all.width, all.height] = [200, 120];
            const context = all.getContext('2d');
            const image = echarts.getInstanceByDom(chart).getRenderedCanvas();
            context.drawImage(image, 0, 0, 200, 120);
            return context.getImageData(0, 0, 200, 120).data.filter((x) => x > 0).length;
        };
        return {kind: chart.dataset.kind, drawn: svg ? svg.querySelectorAll('path').length : canvas ? dots() : 0};
    })";

/// Draws all surfaces by scrolling to them; returns their number.
const SURFACES: &str = "
    (async () => {
        const places = [...document.querySelectorAll('figure > div:last-child')];
        for (const place of places) {
            place.scrollIntoView();
            while (!place.querySelector('canvas, svg')) await new Promise((done) => setTimeout(done, 20));
        }
        return places.length;
    })()";

/// Returns the elements that make the page wider than the window.
pub const TOO_WIDE: &str = "
    new Promise((done) => setTimeout(() => done([...document.querySelectorAll('main *')]
        .filter((one) => document.documentElement.scrollWidth > innerWidth
            && one.getBoundingClientRect().right > innerWidth && !one.closest('.scroll'))
        .map((one) => one.outerHTML.slice(0, 120))), 50))";

/// Opens the tables of all pictures and returns their cells: title, then row by row.
pub const DATA: &str = "
    new Promise((done) => {
        document.querySelectorAll('details').forEach((details) => details.open = true);
        setTimeout(() => done([...document.querySelectorAll('figure')].map((figure) => ({
            title: figure.querySelector('figcaption').textContent,
            rows: [...figure.querySelectorAll('table tr')].map((row) =>
                [...row.cells].map((cell) => cell.textContent)),
        }))), 50);
    })";

/// Returns the serious violations that axe-core reports.
pub const SERIOUS: &str = "
    axe.run().then((found) => found.violations
        .filter((one) => ['serious', 'critical'].includes(one.impact))
        .map((one) => `${one.id}: ${one.nodes[0].html}`))";

/// Returns the rows of the table of the picture with this title.
#[track_caller]
pub fn rows<'a>(data: &'a Value, title: &str) -> Vec<Vec<&'a str>> {
    let of_title = |figure: &&Value| figure["title"] == title;
    let figure = data.as_array().unwrap().iter().find(of_title);
    let rows = figure.unwrap_or_else(|| panic!("{title} in {data}"))["rows"].as_array().unwrap();
    let cells = |row: &'a Value| row.as_array().unwrap().iter().map(|x| x.as_str().unwrap());
    rows.iter().skip(1).map(|row| cells(row).collect()).collect()
}

/// Parses a cell as a number.
pub fn number(cell: &str) -> f64 {
    cell.parse().unwrap_or_else(|_| panic!("{cell:?} is a number"))
}

#[test]
fn tables_of_pictures_hold_the_records_figures() {
    let Some(mut browser) = browser(&[]) else { return };
    let harness = Harness::new();
    browser.width(1400);

    browser.open(&report(&harness, golden("stream-regimes").to_str().unwrap()));
    let data = browser.evaluate(DATA);
    let shown: Vec<(String, f64, String)> = rows(&data, "samples over time")
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

#[test]
fn a_roofline_is_drawn_on_logarithmic_axes_with_every_point() {
    let Some(mut browser) = browser(&[]) else { return };
    let harness = Harness::new();
    browser.width(1400);
    browser.open(&report(&harness, golden("roofline").to_str().unwrap()));
    let drawn = "(() => {
        const option = echarts.getInstanceByDom(document.querySelector('.chart')).getOption();
        return [option.xAxis[0].type, option.yAxis[0].type, ...new Set(option.series.map((one) => one.type))];
    })()";
    assert_eq!(browser.evaluate(drawn), json!(["log", "log", "scatter", "line"]));
    let data = browser.evaluate(DATA);
    let rows = rows(&data, "roofline: attainable rate over FLOP/B");
    let shown: Vec<(f64, f64)> = rows.iter().map(|row| (number(row[1]), number(row[2]))).collect();
    let roofline = record("roofline");
    let points = roofline["measurements"].as_array().unwrap().iter();
    let points = points.filter(|m| m["test"] == "kernel" || m["test"] == "point");
    let dots = points.map(|m| (&m["config"]["flops_per_byte"], &m["value"]));
    let dots: Vec<(f64, f64)> =
        dots.map(|(x, y)| (x.as_f64().unwrap(), y.as_f64().unwrap())).collect();
    assert!(dots.len() > 5 && dots.iter().all(|dot| shown.contains(dot)), "{dots:?} in {shown:?}");
}

#[test]
fn hostile_text_stays_text() {
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
    // The name in the record must not determine the path of the file.
    harness.run(&["report", &file]).exits(0).says("report     nodegauge-tmpevil.html");
    let Some(mut browser) = browser(&[]) else { return };
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
fn pages_say_what_they_lack_and_stay_small() {
    let harness = Harness::new();
    let page = |name: &str| {
        let page = report(&harness, golden(name).to_str().unwrap());
        std::fs::read_to_string(page).unwrap()
    };
    let imported = page("import-stream-c");
    assert!(imported.contains("none in the record: each figure was measured once"));
    assert!(imported.contains("unknown: no limit is known"), "{imported}");
    assert!(imported.len() < 1_500_000 && page("run").len() < 1_500_000);
    assert!(page("stream-nothing").contains("none in the record"));
    let run = page("run");
    for title in ["memory", "latency", "floating point", "messages", "files"] {
        assert!(run.contains(&format!("<th scope=\"row\">{title}<small>")), "{title}");
    }
    assert!(run.contains("unknown: not measured"));
    assert!(!run.contains("ecStat") && !run.contains("claygl"), "what only surfaces need");
}

#[test]
fn figures_of_other_nodes_stand_beside() {
    let harness = Harness::new();
    let host = harness.stream_record(&[])["machine"]["host"].as_str().unwrap().to_owned();
    let run_page = report(&harness, golden("stream").to_str().unwrap());
    let run_page = std::fs::read_to_string(run_page).unwrap();
    assert!(run_page.contains(&format!("<small>{host} on 2")), "{host}");
    // Published figures of the same processor are listed first, with name and source.
    let against_page = report(&harness, golden("stream-against").to_str().unwrap());
    let page = std::fs::read_to_string(against_page).unwrap();
    let published = record("stream-against")["measurements"].as_array().unwrap().clone();
    let first = published.iter().find(|m| m["config"]["engine"] == "published").unwrap();
    let name = first["config"]["machine"].as_str().unwrap();
    assert!(page.contains(&format!("<small>{name}; ")), "{name}");
}

#[test]
fn what_cannot_be_reported_is_refused_and_nothing_is_lost() {
    let harness = Harness::new();
    harness.run(&["report"]).exits(2).complains("no saved run");
    harness.run(&["report", "01KNONE"]).exits(2).complains("01KNONE");
    let mut newer = record("stream");
    newer["schema"] = json!("nodegauge/2");
    let file = harness.write("newer.json", newer.to_string());
    harness
        .run(&["report", &file])
        .exits(2)
        .complains("found schema nodegauge/2, required is nodegauge/1");
    let half = std::fs::read_to_string(golden("stream")).unwrap();
    let half_file = harness.write("half.json", &half[..half.len() / 2]);
    harness.run(&["report", &half_file]).exits(2).complains("is not a nodegauge record");
    let record = golden("stream");
    let record = record.to_str().unwrap();
    harness
        .run(&["report", record, "--output", "none/page.html"])
        .exits(3)
        .complains("cannot write none/page.html");
    harness.write("page.html", "old");
    harness.run(&["report", record, "--output", "/dev/null"]).exits(0);
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    let printed = harness.run(&["report", record, "--output", "-"]).exits(0).quietly().stdout;
    assert!(printed.starts_with("<!doctype html>") && printed.ends_with("</html>\n"));
    assert_eq!(std::fs::read_to_string(harness.path("page.html")).unwrap(), "old");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn reports_are_drawn_without_complaints_on_every_screen() {
        let Some(mut browser) = browser(&[]) else { return };
        let harness = Harness::new();
        for name in RECORDS {
            let page = report(&harness, golden(name).to_str().unwrap());
            browser.media("screen", "light");
            browser.width(1400);
            browser.open(&page);
            browser.evaluate(SURFACES);
            let pictures = browser.evaluate(PICTURES);
            for picture in pictures.as_array().unwrap() {
                assert!(picture["drawn"].as_u64() > Some(3), "{name}: {picture}");
            }
            let seen = record(name)["measurements"].as_array().unwrap().len();
            let tables = browser.evaluate("document.querySelectorAll('table').length");
            assert!(seen == 0 || tables.as_u64() > Some(1), "{name}: {tables} tables");
            for (width, media, scheme) in
                [(1400, "screen", "light"), (360, "screen", "dark"), (794, "print", "light")]
            {
                browser.width(width);
                browser.media(media, scheme);
                let wide = browser.evaluate(TOO_WIDE);
                assert_eq!(wide, json!([]), "{name} at {width} on {media}");
            }
            assert_eq!(browser.complaints, [""; 0], "{name}");
        }
    }

    #[test]
    fn reports_are_accessible() {
        let Some(mut browser) = browser(&[]) else { return };
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
    fn surfaces_turn_and_fall_back_to_heat_maps() {
        let Some(mut browser) = browser(&[]) else { return };
        let harness = Harness::new();
        let page = report(&harness, golden("io").to_str().unwrap());
        browser.width(1400);
        browser.open(&page);
        assert_eq!(browser.evaluate(SURFACES), 4);
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

        let Some(mut without) = self::browser(&["--disable-3d-apis"]) else { return };
        without.open(&page);
        assert_eq!(without.evaluate(SURFACES), 4);
        let kinds = without.evaluate(PICTURES);
        assert!(
            kinds.as_array().unwrap().iter().all(|one| one["drawn"].as_u64() > Some(3)),
            "{kinds}"
        );
        let told = without.evaluate("document.body.innerText.match(/no WebGL here/g).length");
        assert_eq!(told, 4);
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
        let Some(mut browser) = browser(&[]) else { return };
        browser.open(&page);
        let pictures = browser.evaluate(PICTURES);
        assert!(pictures[0]["drawn"].as_u64() > Some(100), "{pictures}");
        let data = browser.evaluate(DATA);
        assert_eq!(rows(&data, "samples over time").len(), 10_004);
    }
}
