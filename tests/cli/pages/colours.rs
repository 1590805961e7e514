//! Tests of colours and marks in pictures.

use super::*;

/// The legend of a waterfall chart contains the colours of rising and of falling bars.
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
        // Steps with a known effect were measured in enough rounds.
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

/// There are samples of six kernels, i.e. more than a page has colours.
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
    let reported = browser.evaluate("document.querySelector('.conclusion').textContent");
    assert!(
        reported.as_str().unwrap().contains("opencl:0, this node's processor itself,"),
        "{reported}"
    );
}

#[test]
fn heat_map_cells_are_legible() {
    let Some(mut browser) = browser(Graphics::Flat) else { return };
    let harness = Harness::new();
    let page = report(&harness, golden("io").to_str().unwrap());
    // Returns the number of cells with a text, the lowest contrast of a text with its cell, and the lowest contrast
    // with its outline (without an outline, with its cell). The limits are those of WCAG for graphics and for text.
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
    // Returns the number of charts with curves, and the colours of libraries that have several colours.
    let colours = "(() => {
        const colours = new Map();
        const charts = [...document.querySelectorAll('[data-kind=chart]')];
        for (const chart of charts) {
            for (const one of echarts.getInstanceByDom(chart).getOption().series.filter((one) => one.lineStyle)) {
                // The names of curves begin with their patterns if there are several patterns.
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

/// The curves of two MPI libraries and of the transport without MPI have one colour each. The three distances have one
/// dash pattern each, and the curves of the transport are thinner.
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
    // The mark of a suspect dot is a hollow symbol in the colour of its series.
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
