//! Rows of figures, each with its value, its samples on a bar, and the limit of its cores.

use crate::markup::{Markup, element, text};
use nodegauge_gauge::view::{Bar, BarValues, Card};
use nodegauge_measure::Fraction;
use nodegauge_measure::quantity::counted;
use nodegauge_measure::stats::Better;

/// Maximum number of samples that are drawn in a row; of more samples, every n-th is drawn.
const MOST: usize = 200;
/// Height of the drawing, and of the bar in it, pixels.
const HEIGHT: f64 = 32.0;
const THICK: f64 = 14.0;
/// Number of different heights of the samples, which would otherwise cover each other.
const LANES: usize = 5;

/// Words for the values on the bars.
struct Words {
    quoted: &'static str,
    limit: &'static str,
    value: &'static str,
    disturbed: &'static str,
    /// Description of the disturbed values: `3 of them disturbed`.
    which: &'static str,
}

impl Words {
    fn of(values: BarValues) -> Self {
        match values {
            BarValues::Samples => Self {
                quoted: "value",
                limit: "best known for these cores",
                value: "sample",
                disturbed: "disturbed sample",
                which: "disturbed",
            },
            BarValues::Nodes => Self {
                quoted: "median",
                limit: "limit beyond which a node is slow",
                value: "node",
                disturbed: "node beyond the limit",
                which: "beyond the limit",
            },
        }
    }
}

/// Returns the rows of a card.
pub(super) fn rows(card: &Card) -> Markup {
    let rows = card.bars.iter().enumerate().map(|(i, bar)| {
        let above = i.checked_sub(1).and_then(|i| card.bars[i].doubt.as_ref());
        let is_best = card.bars.iter().filter_map(|other| other.limit.as_ref());
        let is_best = is_best.clone().any(|limit| limit.value == bar.value);
        row(bar, card.values, above.is_some() && above == bar.doubt.as_ref(), is_best)
    });
    element("div", &[("class", "rows")], rows.chain([key(card)]))
}

/// Returns the explanation of the marks in the rows.
fn key(card: &Card) -> Markup {
    let any = |is_such: fn(&Bar) -> bool| card.bars.iter().any(is_such);
    let words = Words::of(card.values);
    let marks = [
        (true, "quoted", "|", words.quoted),
        (any(|bar| bar.limit.is_some()), "limit", "|", words.limit),
        (any(|bar| !bar.samples.is_empty()), "sample", "\u{25cf}", words.value),
        (any(|bar| !bar.disturbed.is_empty()), "disturbed", "\u{25cb}", words.disturbed),
        (any(|bar| bar.doubt.is_some()), "disturbed", "\u{25ad}", "suspect"),
    ];
    let entries =
        marks.into_iter().filter(|(is_shown, ..)| *is_shown).map(|(_, class, mark, of)| {
            let mark = element("i", &[("class", &format!("dot {class}"))], [text(mark)]);
            element("li", &[], [mark, text(of)])
        });
    element("ul", &[("class", "key"), ("aria-hidden", "true")], entries)
}

/// Returns a row. A doubt that the row above has too is not repeated. `is_best` is true if the figure is the limit of
/// other rows.
fn row(bar: &Bar, values: BarValues, same_doubt: bool, is_best: bool) -> Markup {
    let small = |class: &str, words: &str| element("small", &[("class", class)], [text(words)]);
    let (number, unit) = bar.words.split_once(' ').unwrap_or((&bar.words, ""));
    let value = [text(number), element("span", &[("class", "unit")], [text(unit)])];
    let mut side = Vec::new();
    if let Some(share) = bar.share().filter(|_| values == BarValues::Samples) {
        side.push(element("b", &[], [text(&share.in_whole_percent())]));
        side.push(small("", "of the best known for these cores"));
    }
    side.push(small("", &values_in_words(bar, values)));
    if let Some(doubt) = &bar.doubt {
        side.push(small("doubt", if same_doubt { "in doubt, as above" } else { doubt }));
    }
    if let Some(earlier) = &bar.beside {
        let words = format!("{:.2} x {}, {}", earlier.ratio, earlier.value, earlier.name);
        side.push(small("", &words));
    }
    let cells = [
        element(
            "div",
            &[("class", "name")],
            [element("b", &[], [text(&bar.title)]), small("", &bar.what)],
        ),
        element("div", &[("class", "value")], value),
        element("div", &[("class", "strip")], strip(bar, values, is_best)),
        element("div", &[("class", "side")], side),
    ];
    element("div", &[("class", "row")], cells)
}

fn values_in_words(bar: &Bar, values: BarValues) -> String {
    let Words { value, which, .. } = Words::of(values);
    let all = counted(bar.samples.len() + bar.disturbed.len(), value);
    let disturbed = match bar.disturbed.len() {
        0 => String::new(),
        n => format!(", {n} of them {which}"),
    };
    let others = match bar.other_regimes {
        0 => String::new(),
        n => format!("; {n} more in other regimes"),
    };
    format!("{all}{disturbed}{others}")
}

/// Returns the drawing and the words below it.
fn strip(bar: &Bar, values: BarValues, is_best: bool) -> Vec<Markup> {
    let end_of_bar = bar.limit.as_ref().map(|limit| limit.value);
    // Disturbed samples beyond the end of the bar are drawn at the end.
    let known = bar.samples.iter().copied().chain([bar.value]).chain(end_of_bar);
    let most = known.fold(0.0, f64::max);
    let end = most * 1.01;
    let at = |value: f64| format!("{:.2}%", (value / end).clamp(0.0, 1.0) * 100.0);
    let middle = HEIGHT / 2.0;
    let [top, thick] = [middle - THICK / 2.0, THICK].map(|size| size.to_string());
    let rect = |class: &str, width: &str| {
        let place =
            [("class", class), ("x", "0"), ("y", &top), ("width", width), ("height", &thick)];
        element("rect", &[&place[..], &[("rx", "3")]].concat(), [])
    };
    let line = |class: &str, value: f64| {
        let place = at(value);
        let ends = [("class", class), ("x1", &*place), ("x2", &*place)];
        let height = HEIGHT.to_string();
        element("line", &[&ends[..], &[("y1", "0"), ("y2", &height)]].concat(), [])
    };
    let mut inside = vec![rect("track", "100%")];
    // Of a time without a limit there are only the samples and the value.
    let is_time = bar.unit.direction() == Some(Better::Lower);
    let has_bar = bar.limit.is_some() || !is_time;
    let reached = if bar.doubt.is_some() { "reached doubted" } else { "reached" };
    inside.extend(has_bar.then(|| rect(reached, &at(bar.value))));
    for (class, samples) in [("", &bar.samples), ("disturbed", &bar.disturbed)] {
        let step = samples.len().div_ceil(MOST).max(1);
        for (i, sample) in samples.iter().enumerate().step_by(step) {
            let lane = (i / step * 2 % LANES) as f64 - (LANES / 2) as f64;
            let y = (middle + lane * 2.2).to_string();
            let place = [("class", class), ("cx", &*at(*sample)), ("cy", &*y), ("r", "2.2")];
            inside.push(element("circle", &place, []));
        }
    }
    inside.push(line("quoted", bar.value));
    inside.extend(end_of_bar.map(|value| line("limit", value)));
    let label = format!("{}: {}, {}", bar.title, bar.words, values_in_words(bar, values));
    let height = HEIGHT.to_string();
    let attributes =
        [("role", "img"), ("aria-label", &*label), ("width", "100%"), ("height", &*height)];
    let mut parts = vec![element("svg", &attributes, inside)];
    if let Some(limit) = &bar.limit {
        let words = format!("{}, {}", bar.unit.in_words(limit.value), limit.basis);
        let is_right = Fraction(limit.value / end).0 > 0.5;
        let class = if is_right { "limit right" } else { "limit" };
        parts.push(element("small", &[("class", class)], [text(&words)]));
    }
    if bar.limit.is_none() {
        let words = match (is_best, is_time) {
            (true, _) => "the best known for these cores",
            (_, true) => "lower is better; no limit is known",
            _ => "no limit is known",
        };
        parts.push(element("small", &[], [text(words)]));
    }
    if !bar.remark.is_empty() {
        parts.push(element("small", &[], [text(&bar.remark)]));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;

    #[test]
    fn the_count_of_samples_contains_the_disturbed_ones_as_the_reason_for_doubt_does() {
        let bar = Bar {
            title: "files".to_owned(),
            what: "write".to_owned(),
            words: "1.313 GB/s".to_owned(),
            value: 1.313e9,
            unit: Unit::BytesPerSecond,
            samples: vec![1e9; 33],
            disturbed: vec![5e8; 39],
            other_regimes: 0,
            limit: None,
            remark: String::new(),
            doubt: Some("39 of 72 samples were disturbed".to_owned()),
            beside: None,
        };
        let samples_in_words = |of: &Bar| values_in_words(of, BarValues::Samples);
        assert_eq!(samples_in_words(&bar), "72 samples, 39 of them disturbed");
        let drawn = row(&bar, BarValues::Samples, false, false).to_string();
        assert!(drawn.contains("no limit is known") && !drawn.contains("cores"), "{drawn}");
        let bar = Bar { disturbed: Vec::new(), ..bar };
        assert_eq!(samples_in_words(&bar), "33 samples");
        let bar = Bar { other_regimes: 7, ..bar };
        assert_eq!(samples_in_words(&bar), "33 samples; 7 more in other regimes");
    }
}
