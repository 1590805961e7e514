//! Tests of roofline charts in a browser.

use super::*;

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
    // Each roof is labelled with its fastest kernel, and no label is cut off. The axes are labelled as logarithmic,
    // with a short label on a phone.
    for (width, scales) in [(1400, "both axes log scale"), (390, "log-log")] {
        browser.width(width);
        browser.open(&page);
        let texts = browser.evaluate(TEXTS).to_string();
        assert!(texts.contains("memory triad") && texts.contains(scales), "at {width}: {texts}");
        assert!(!texts.contains('\u{2026}'), "at {width}: {texts}");
    }
}

/// The points of a device show the rates in the record. Suspect points are hollow.
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
    // Copy has no floating-point operations, so it is no point.
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

/// If several points are at the same place, their names are in a list.
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
