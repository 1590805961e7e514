//! Reports in a real browser, and errors of `report`.

use crate::browser::{Browser, Graphics};
use crate::harness::{Harness, Part, skip};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Widths of the screens on which every page is looked at: a desk, a tablet, a phone.
pub const WIDTHS: [u32; 3] = [1400, 768, 390];
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

/// Returns the names of all golden records.
fn recorded() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().join("record.json").exists());
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn record(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(golden(name)).unwrap()).unwrap()
}

pub fn browser(graphics: Graphics) -> Option<Browser> {
    let browser = Browser::start(graphics);
    if browser.is_none() {
        skip(Part::Chromium, "no Chromium is installed");
    }
    browser
}

/// Writes the report of a record to a file.
#[track_caller]
fn report(harness: &Harness, record: &str) -> PathBuf {
    harness
        .run(&["report", record, "--output", "page.html"])
        .exits(0)
        .prints("report     page.html");
    harness.path("page.html")
}

/// Returns the pictures of a page: kind, data, and the number of shapes and texts, or of coloured dots, drawn.
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
        return {kind: chart.dataset.kind, drawn: svg ? svg.querySelectorAll('path, text').length : canvas ? dots() : 0};
    })";

/// Draws all surfaces by opening them; returns their number.
const SURFACES: &str = "
    (async () => {
        const places = [...document.querySelectorAll('details.surface')];
        for (const place of places) {
            place.open = true;
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

/// Returns what is wrong with the labels of the pictures: labels that overlap each other, and labels and other elements
/// that are cut off. Labels are compared by their outlines, which may be turned.
pub const ILLEGIBLE: &str = "
    (() => {
        const outline = (text) => {
            const [box, to] = [text.getBBox(), text.getScreenCTM()];
            const [left, right] = [box.x + 1, box.x + box.width - 1];
            const [top, bottom] = [box.y + box.height * 0.2, box.y + box.height * 0.8];
            return [[left, top], [right, top], [right, bottom], [left, bottom]]
                .map(([x, y]) => new DOMPoint(x, y).matrixTransform(to));
        };
        const axes = (points) => points.map((point, i) => {
            const next = points[(i + 1) % 4];
            return [next.y - point.y, point.x - next.x];
        });
        const range = (points, [x, y]) => {
            const along = points.map((point) => point.x * x + point.y * y);
            return [Math.min(...along), Math.max(...along)];
        };
        const meet = (a, b) => [...axes(a), ...axes(b)].every((axis) => {
            const [[low, high], [from, to]] = [range(a, axis), range(b, axis)];
            return low < to && from < high;
        });
        const found = [];
        for (const chart of document.querySelectorAll('.chart')) {
            const frame = chart.getBoundingClientRect();
            const texts = [...chart.querySelectorAll('svg text')].filter((text) => text.textContent.trim());
            const labels = texts.map((text) => [text.textContent, outline(text)]);
            labels.forEach(([text, points], i) => {
                const outside = points.some(({x, y}) => x < frame.left - 1 || x > frame.right + 1
                    || y < frame.top - 2 || y > frame.bottom + 2);
                if (outside) found.push(`cut off: ${text}`);
                const other = labels.slice(i + 1).find(([, others]) => meet(points, others));
                if (other) found.push(`overlap: ${text} / ${other[0]}`);
            });
        }
        for (const one of document.querySelectorAll('.row *, figcaption, h1, .conclusion, .facts, .trust p, .key li')) {
            if (one.closest('svg')) continue;
            const box = one.getBoundingClientRect();
            if (box.width > 0 && (box.right > innerWidth + 1 || one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline')) {
                found.push(`cut off: ${one.textContent.slice(0, 60)}`);
            }
        }
        return found;
    })()";

/// Returns the labels of pictures whose contrast with the page is below that of WCAG AA for text, and the symbols of keys
/// whose contrast is below that for graphics. Cells of heat maps have a test of their own.
pub const FAINT: &str = "
    (() => {
        const channel = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        const pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
        const luminance = (colour) => {
            pen.fillStyle = colour;
            pen.fillRect(0, 0, 1, 1);
            const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map((x) => channel(x / 255));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const panel = luminance(getComputedStyle(document.body).getPropertyValue('--panel').trim());
        const contrast = (colour) => {
            const own = luminance(colour);
            return (Math.max(own, panel) + 0.05) / (Math.min(own, panel) + 0.05);
        };
        const isCell = (text) => text.closest('[data-kind=heat_map]') && /^[0-9.]+$/.test(text.textContent);
        const labels = [...document.querySelectorAll('.chart svg text')].filter((text) => !isCell(text));
        // The squares of periods have a letter.
        const symbols = [...document.querySelectorAll('.key i')].filter((one) => one.textContent !== '\u{2588}');
        const colourOf = (symbol) => symbol.style.color || symbol.style.borderTopColor || getComputedStyle(symbol).color;
        return [
            ...labels.filter((text) => contrast(text.getAttribute('fill') || '#000') < 4.5).map((text) => text.textContent),
            ...symbols.filter((one) => contrast(colourOf(one)) < 3).map((one) => one.parentNode.textContent),
        ];
    })()";

/// Opens the tables of all pictures and returns their cells: title, then row by row.
pub const DATA: &str = "
    new Promise((done) => {
        document.querySelectorAll('details:not(.surface)').forEach((details) => details.open = true);
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

/// Returns the time of a part of an iteration from its figure, seconds.
fn part_seconds(m: &Value) -> f64 {
    m["config"]["moved_bytes"].as_f64().unwrap() / m["value"].as_f64().unwrap()
}

/// Checks that dots (x, y) of a picture are those that are expected, in any order.
#[track_caller]
fn are_dots(mut shown: Vec<[f64; 2]>, mut expected: Vec<[f64; 2]>) {
    let order = |a: &[f64; 2], b: &[f64; 2]| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1]));
    shown.sort_by(order);
    expected.sort_by(order);
    let is_same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
    let mut pairs = shown.iter().zip(&expected);
    let same = pairs.all(|(a, b)| is_same(a[0], b[0]) && is_same(a[1], b[1]));
    assert!(same && shown.len() == expected.len(), "{shown:?} instead of {expected:?}");
}

/// Parallel efficiencies are those of the record, or those of its rates.
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
    // The workers that the others are compared with.
    expected.push([1.0, 100.0]);
    are_dots(dots(&browser.evaluate(DATA)), expected);

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
    are_dots(dots(&browser.evaluate(DATA)), of_rates);
}

/// The parts of an iteration have the times and shares of the record, and add to its time.
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

#[test]
fn roofline_is_logarithmic_with_every_point() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    browser.width(1400);
    let page = report(&harness, golden("roofline").to_str().unwrap());
    browser.open(&page);
    let drawn = "(() => {
        const option = echarts.getInstanceByDom(document.querySelector('.chart')).getOption();
        return [option.xAxis[0].type, option.yAxis[0].type, ...new Set(option.series.map((one) => one.type))];
    })()";
    assert_eq!(browser.evaluate(drawn), json!(["log", "log", "scatter", "line"]));
    let data = browser.evaluate(DATA);
    let rows = rows(&data, "roofline: attainable rate over operations per byte");
    let shown: Vec<(f64, f64)> = rows.iter().map(|row| (number(row[1]), number(row[2]))).collect();
    let roofline = record("roofline");
    let points = roofline["measurements"].as_array().unwrap().iter();
    let points = points.filter(|m| m["test"] == "kernel" || m["test"] == "point");
    let dots = points.map(|m| (&m["config"]["flops_per_byte"], &m["value"]));
    let dots: Vec<(f64, f64)> =
        dots.map(|(x, y)| (x.as_f64().unwrap(), y.as_f64().unwrap())).collect();
    assert!(dots.len() > 5 && dots.iter().all(|dot| shown.contains(dot)), "{dots:?} in {shown:?}");
    // Every point has a label with its name and memory level, next to it or in a list.
    let unlabelled = "(() => {
        const chart = document.querySelector('.chart');
        const data = JSON.parse(chart.parentNode.querySelector('script').textContent);
        const texts = [...chart.querySelectorAll('svg text')].map((text) => text.textContent);
        const labels = data.of.series.flatMap((one) => one.labels);
        const list = chart.parentNode.querySelector('.unlabelled').textContent;
        const named = (label) => list.includes(label) || texts.some((text) => text === label || text.startsWith(`${label}: `));
        return [labels.length, labels.filter((label) => !named(label))];
    })()";
    for width in WIDTHS {
        browser.width(width);
        browser.open(&page);
        assert_eq!(browser.evaluate(unlabelled), json!([dots.len(), []]), "at {width}");
    }
    // The roof of a level has the name of its fastest kernel, no label is cut off, and the axes say that they
    // are logarithmic, in short on a
    // phone.
    for (width, scales) in [(1400, "both axes log scale"), (390, "log-log")] {
        browser.width(width);
        browser.open(&page);
        let texts = browser.evaluate(TEXTS).to_string();
        assert!(texts.contains("memory triad") && texts.contains(scales), "at {width}: {texts}");
        assert!(!texts.contains('\u{2026}'), "at {width}: {texts}");
    }
}

/// Points of a device have the rates of the record, and suspect ones are hollow, as those of processors are.
#[test]
fn suspect_points_of_a_device_roofline_are_hollow() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    browser.width(1400);
    browser.open(&report(&harness, golden("device-roofline").to_str().unwrap()));
    let drawn = "(() => {
        const chart = document.querySelector('.chart');
        const panel = getComputedStyle(document.body).getPropertyValue('--panel').trim();
        const dots = echarts.getInstanceByDom(chart).getOption().series.filter((one) => one.type === 'scatter').flatMap((one) => one.data);
        const hollow = dots.filter((dot) => dot.symbol === 'diamond' && dot.itemStyle.color === panel);
        return [dots.length, hollow.length, chart.parentNode.querySelector('.key').textContent];
    })()";
    let roofline = record("device-roofline");
    let figures = roofline["measurements"].as_array().unwrap().iter();
    // A copy computes nothing.
    let points = figures.filter(|m| m["test"] == "device_stream" && m["name"] != "copy");
    let points: Vec<&Value> = points.collect();
    let suspect = points.iter().filter(|m| m["validity"]["status"] == "suspect").count();
    assert!(suspect > 0);
    assert_eq!(browser.evaluate(drawn), json!([points.len(), suspect, "\u{25c7}hollow: suspect"]));
    let data = browser.evaluate(DATA);
    let shown = rows(&data, "roofline: attainable rate over operations per byte");
    for m in points {
        let name = m["name"].as_str().unwrap();
        let row = shown.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}"));
        let bandwidth = number(row[2]) / number(row[1]);
        let expected = m["value"].as_f64().unwrap();
        assert!((bandwidth / expected - 1.0).abs() < 1e-9, "{name}: {bandwidth} {expected}");
    }
}

/// Points at one place, of which the labels have no room next to them, are listed.
#[test]
fn crowded_roofline_points_are_all_named() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    let mut roofline = record("roofline");
    for m in roofline["measurements"].as_array_mut().unwrap() {
        if m["test"] == "kernel" {
            m["value"] = json!(20e9);
        }
    }
    let file = harness.write("crowded.json", roofline.to_string());
    browser.width(390);
    browser.open(&report(&harness, &file));
    let unnamed = "(() => {
        const chart = document.querySelector('.chart');
        const data = JSON.parse(chart.parentNode.querySelector('script').textContent);
        const texts = [...chart.querySelectorAll('svg text')].map((text) => text.textContent);
        const list = chart.parentNode.querySelector('.unlabelled').textContent;
        return data.of.series.flatMap((one) => one.labels).filter((label) => !texts.includes(label) && !list.includes(label));
    })()";
    assert_eq!(browser.evaluate(unnamed), json!([]));
}

/// Texts of all pictures.
const TEXTS: &str =
    "[...document.querySelectorAll('.chart svg text')].map((text) => text.textContent)";

/// A waterfall has bars that rise and bars that fall.
#[test]
fn waterfall_legend_has_every_colour() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    browser.width(1400);
    let mut explain = record("explain");
    for m in explain["measurements"].as_array_mut().unwrap() {
        m["validity"] = json!({"status": "valid", "reasons": []});
        if m["name"] == "pages" {
            m["config"]["step_options"] = json!(["4k", "thp"]);
        }
        // The steps have a known effect, of enough rounds.
        if m["config"]["rounds"].is_number() {
            m["config"]["rounds"] = json!(30);
        }
        m["quoted"] = json!("geometric mean");
        m["config"]["interval"] = m["value"].as_f64().map_or(json!(null), |x| json!([x, x]));
    }
    let file = harness.write("explain-valid.json", explain.to_string());
    browser.open(&report(&harness, &file));
    let unnamed = "(() => {
        const chart = document.querySelector('[data-kind=steps]');
        const colours = (all) => [...new Set(all)].map((colour) => {
            const pen = document.createElement('canvas').getContext('2d');
            pen.fillStyle = colour;
            return pen.fillStyle;
        });
        const named = colours([...chart.parentNode.querySelectorAll('.key i')].map((one) => one.style.color));
        const data = ['--c1', '--c2', '--c3', '--c4'].map((name) => getComputedStyle(document.body).getPropertyValue(name).trim());
        const used = colours([...chart.querySelectorAll('svg path')].map((one) => one.getAttribute('fill')).filter((fill) => data.includes(fill)));
        return [used.length, used.filter((colour) => !named.includes(colour))];
    })()";
    assert_eq!(browser.evaluate(unnamed), json!([2, []]));
    let texts = browser.evaluate(TEXTS).to_string();
    assert!(texts.contains("pages: 4k \u{2192} thp"), "{texts}");
}

/// Samples of six kernels, more than the colours of a page.
#[test]
fn series_of_samples_have_different_colours() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    browser.width(1400);
    browser.open(&report(&harness, golden("device-stream").to_str().unwrap()));
    let colours = "(() => {
        const key = [...document.querySelectorAll('[data-kind=samples]')].map((chart) => chart.parentNode.querySelector('.key'));
        return [...key[0].querySelectorAll('i')].slice(0, 8).map((one) => one.style.color);
    })()";
    let found = browser.evaluate(colours);
    let entries = found.as_array().unwrap();
    let distinct: std::collections::HashSet<String> =
        entries.iter().map(Value::to_string).collect();
    assert_eq!((entries.len(), distinct.len()), (8, 8), "{found}");
    let links = browser.evaluate("document.querySelector('nav').textContent");
    assert!(links.as_str().unwrap().contains("device stream"), "{links}");
    let said = browser.evaluate("document.querySelector('.conclusion').textContent");
    assert!(said.as_str().unwrap().contains("opencl:0, this node's processor itself,"), "{said}");
}

#[test]
fn heat_map_cells_are_legible() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    let page = report(&harness, golden("io").to_str().unwrap());
    // Returns the number of cells with a text, and the lowest contrast of a text with its cell, and with its outline or,
    // without an outline, its cell. Both limits are those of WCAG: of graphics, and of text.
    let contrast = "(() => {
        const channel = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        const luminance = (colour) => {
            const pen = document.createElement('canvas').getContext('2d');
            pen.fillStyle = colour;
            pen.fillRect(0, 0, 1, 1);
            const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map((x) => channel(x / 255));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const found = [];
        for (const chart of document.querySelectorAll('[data-kind=heat_map]')) {
            chart.scrollIntoView({block: 'center'});
            for (const text of chart.querySelectorAll('svg text')) {
                if (!/^[0-9.]+$/.test(text.textContent)) continue;
                const box = text.getBoundingClientRect();
                const under = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2);
                const cell = under.find((one) => one.tagName === 'path' && (one.getAttribute('fill') || 'none') !== 'none');
                if (!cell) continue;
                const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                const [own, under_it] = [text.getAttribute('fill'), cell.getAttribute('fill')].map(luminance);
                const outline = text.getAttribute('stroke');
                found.push([contrast(own, under_it), outline ? contrast(own, luminance(outline)) : contrast(own, under_it)]);
            }
        }
        return [found.length, Math.min(...found.map(([cell]) => cell)), Math.min(...found.map(([, outline]) => outline))];
    })()";
    for scheme in ["light", "dark"] {
        browser.media("screen", scheme);
        browser.width(1400);
        browser.open(&page);
        let found = browser.evaluate(contrast);
        assert!(
            found[0].as_u64() > Some(10)
                && found[1].as_f64() >= Some(3.0)
                && found[2].as_f64() >= Some(4.5),
            "{scheme}: {found}"
        );
    }
}

#[test]
fn series_has_one_colour_on_all_charts_of_a_page() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    browser.width(1400);
    // Returns the number of charts with curves, and the colours of the libraries that have several.
    let colours = "(() => {
        const colours = new Map();
        const charts = [...document.querySelectorAll('[data-kind=chart]')];
        for (const chart of charts) {
            for (const one of echarts.getInstanceByDom(chart).getOption().series.filter((one) => one.lineStyle)) {
                // The name of a curve begins with its pattern if there are several.
                const name = one.name.replace(/^[a-z_]+, /, '');
                colours.set(name, (colours.get(name) || new Set()).add(one.itemStyle.color));
            }
        }
        return [charts.length, [...colours].filter(([, of]) => of.size > 1).map(([name]) => name)];
    })()";
    for name in ["mpi", "mpi-floor", "mpi-two"] {
        browser.open(&report(&harness, golden(name).to_str().unwrap()));
        let found = browser.evaluate(colours);
        assert!(found[0].as_u64() > Some(1) && found[1] == json!([]), "{name}: {found}");
    }
}

/// Two MPI libraries and the transport without MPI have a colour each, three distances a dash each, and the transport is
/// thinner.
#[test]
fn nine_message_curves_are_legible() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    let mut messages = record("mpi-floor");
    let known = messages["measurements"].as_array().unwrap().clone();
    let mut figures = Vec::new();
    for (distance, factor) in [("same cache", 1.0), ("same socket", 1.6), ("other socket", 2.7)] {
        for (library, slower) in [("Open MPI", 1.0), ("MPICH", 1.2)] {
            for of in &known {
                let is_own = of["category"] == "transport";
                if is_own && library == "MPICH" {
                    continue;
                }
                let mut m = of.clone();
                m["config"]["distance"] = json!(distance);
                if !is_own {
                    m["config"]["mpi"]["library"] = json!(library);
                }
                let times = if m["unit"] == "s" { factor * slower } else { 1.0 / factor / slower };
                m["value"] = json!(m["value"].as_f64().map(|value| value * times));
                figures.push(m);
            }
        }
    }
    messages["measurements"] = json!(figures);
    let file = harness.write("nine.json", messages.to_string());
    let page = report(&harness, &file);
    for width in WIDTHS {
        browser.width(width);
        browser.open(&page);
        assert_eq!(browser.evaluate(ILLEGIBLE), json!([]), "at {width}");
        assert_eq!(browser.evaluate(TOO_WIDE), json!([]), "at {width}");
    }
    let looks = "[...document.querySelectorAll('[data-kind=chart]')].slice(0, 2).map((chart) => {
        const lines = echarts.getInstanceByDom(chart).getOption().series.map((one) => one.lineStyle);
        const count = (key) => new Set(lines.map((line) => line[key])).size;
        return [lines.length, count('color'), count('type'), lines.filter((line) => line.width === 1).length];
    })";
    assert_eq!(browser.evaluate(looks), json!([[9, 3, 3, 3], [9, 3, 3, 3]]));
}

#[test]
fn suspect_figures_are_marked_in_every_colour_scheme() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    let page = report(&harness, golden("memory-loaded").to_str().unwrap());
    let measurements = record("memory-loaded")["measurements"].as_array().unwrap().clone();
    let suspect = measurements.iter().filter(|m| {
        let is_dot = m["unit"] == "s" && m["config"]["load_share"].as_f64() > Some(0.0);
        is_dot && m["validity"]["status"] == "suspect"
    });
    let count = suspect.count();
    assert!(count > 0);
    // The mark of a suspect dot is a hollow shape of its own in the colour of its series.
    let marked = "(() => {
        const chart = document.querySelector('[data-kind=chart]');
        const dots = echarts.getInstanceByDom(chart).getOption().series[0].data;
        const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
        const marked = dots.filter((dot) => dot.symbol === 'diamond' && dot.itemStyle.color === colour('--panel')
            && dot.itemStyle.borderColor === colour('--c1'));
        return [marked.length, chart.parentNode.querySelector('.key').textContent];
    })()";
    for (media, scheme) in [("screen", "light"), ("screen", "dark"), ("print", "light")] {
        browser.media(media, scheme);
        browser.width(1400);
        browser.open(&page);
        let found = browser.evaluate(marked);
        assert_eq!(found[0], count, "{media} {scheme}");
        assert!(found[1].as_str().unwrap().ends_with("suspect"), "{found}");
    }
}

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
    // The name in the record must not determine the path of the file.
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
fn pages_state_missing_data_and_stay_small() {
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
    // What was not measured has no row.
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
fn invalid_records_are_refused_and_old_pages_are_kept() {
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

/// Tests of the second tier.
mod thorough {
    use super::*;

    /// Records that lack what pages usually show.
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
                for (i, m) in record["measurements"].as_array_mut().unwrap().iter_mut().enumerate()
                {
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
                    m["validity"] =
                        json!({"status": "invalid", "reasons": ["the residual is wrong"]});
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

    /// Each record is opened in one of all combinations of width and colours, and then resized and recoloured.
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

    /// Returns the number of values in the pictures of a page that must be figures of its record, and those that are not.
    fn values_of_pictures(data: &Value, record: &Value) -> (usize, Vec<String>) {
        let mut known = Vec::new();
        numbers(record, &mut known);
        let is_known = |value: f64| known.iter().any(|of| (of - value).abs() <= 1e-9 * value.abs());
        let mut values = 0;
        let mut unknown = Vec::new();
        for figure in data.as_array().unwrap() {
            let title = figure["title"].as_str().unwrap();
            let Some(head) = figure["rows"][0].as_array() else { continue };
            // The first column with numbers of the record, by the kind of picture.
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
        assert!(
            kinds.as_array().unwrap().iter().all(|one| one["drawn"].as_u64() > Some(3)),
            "{kinds}"
        );
        let told = without.evaluate("document.body.innerText.match(/no WebGL here/g).length");
        assert_eq!(told, 2);
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
}
