//! Rows of figures: value, samples on a bar, and limit.

use crate::markup::{Markup, element, text};
use nodegauge_gauge::view::{AttainableValue, BarValues, FigureBar, FigureBars};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::stats::BetterDirection;

/// Maximum number of samples that are drawn in a row; of more samples, every n-th is drawn.
const MAX_SAMPLES: usize = 200;
/// Height of the drawing, in pixels.
const HEIGHT: f64 = 32.0;
/// Height of the bar, in pixels.
const BAR_HEIGHT: f64 = 14.0;
/// Number of heights at which samples are drawn, to reduce overlap.
const LANES: usize = 5;
/// Height of the names above the drawing, in pixels.
const NAMES: f64 = 14.0;
/// Maximum number of characters of a name above the drawing.
const NAME: usize = 12;
/// Share of the width of a narrow drawing that a name takes.
const NAME_SHARE: f64 = 0.28;
/// Maximum number of names below the drawing.
const MAX_NAMES: usize = 8;
/// Margin on both sides of the values of nodes, as a share of their range.
const ROOM: f64 = 0.04;

/// Words and CSS class for the values on a bar: samples, or values of nodes.
struct Words {
    quoted: &'static str,
    limit: &'static str,
    value: &'static str,
    disturbed: &'static str,
    /// CSS class and mark of disturbed values.
    class: &'static str,
    mark: &'static str,
    /// Description of disturbed values after their number: `3 of them disturbed`.
    which: &'static str,
}

impl Words {
    fn from_values(values: BarValues) -> Self {
        match values {
            BarValues::Samples => Self {
                quoted: "value",
                limit: "limit",
                value: "sample",
                disturbed: "disturbed sample",
                class: "disturbed",
                mark: "\u{25cb}",
                which: "disturbed",
            },
            BarValues::Nodes => Self {
                quoted: "median",
                limit: "limit beyond which a node is slow",
                value: "node",
                disturbed: "node beyond the limit",
                class: "beyond",
                mark: "\u{25cf}",
                which: "beyond the limit",
            },
        }
    }
}

/// Returns the rows of a card.
pub(super) fn card_rows(card: &FigureBars) -> Markup {
    let rows = card.bars.iter().enumerate().map(|(i, bar)| {
        let above = i.checked_sub(1).and_then(|i| card.bars[i].doubt.as_ref());
        let is_best = card.bars.iter().filter_map(|other| other.limit.as_ref());
        let is_best = is_best.clone().any(|limit| limit.value == bar.value);
        row(bar, card.values, above.is_some() && above == bar.doubt.as_ref(), is_best)
    });
    element("div", &[("class", "rows")], rows.chain([key(card)]))
}

/// Returns the legend for the marks in the rows.
fn key(card: &FigureBars) -> Markup {
    let FigureBars { bars, values } = card;
    let words = Words::from_values(*values);
    let has_disturbed = bars.iter().any(|bar| !bar.disturbed.is_empty());
    let marks = [
        (true, "quoted", "|", words.quoted),
        (bars.iter().any(|bar| bar.limit.is_some()), "limit", "|", words.limit),
        (bars.iter().any(|bar| !bar.samples.is_empty()), "sample", "\u{25cf}", words.value),
        (has_disturbed, words.class, words.mark, words.disturbed),
        (bars.iter().any(|bar| bar.doubt.is_some()), "disturbed", "\u{25ad}", "suspect"),
    ];
    let entries =
        marks.into_iter().filter(|(is_shown, ..)| *is_shown).map(|(_, class, mark, of)| {
            let mark = element("i", &[("class", &format!("dot {class}"))], [text(mark)]);
            element("li", &[], [mark, text(of)])
        });
    element("ul", &[("class", "key"), ("aria-hidden", "true")], entries)
}

/// Returns an element with a small remark.
fn small(class: &str, words: &str) -> Markup {
    element("small", &[("class", class)], [text(words)])
}

/// Returns the row of a figure. `same_doubt` is true if the previous row has the same doubt, which is then not
/// repeated. `is_best` is true if the figure is the limit of other rows.
fn row(bar: &FigureBar, values: BarValues, same_doubt: bool, is_best: bool) -> Markup {
    let (number, unit) = bar.words.split_once(' ').unwrap_or((&bar.words, ""));
    let value = [text(number), element("span", &[("class", "unit")], [text(unit)])];
    let mut side = Vec::new();
    if let Some(share) = bar.share().filter(|_| values == BarValues::Samples) {
        side.push(element("b", &[], [text(&share.in_whole_percent())]));
        side.push(small("", "of the limit"));
    }
    side.push(small("", &values_in_words(bar, values)));
    if let Some(doubt) = &bar.doubt {
        side.push(small("doubt", if same_doubt { "suspect, for the reason above" } else { doubt }));
    }
    if let Some(earlier) = &bar.earlier {
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

fn values_in_words(bar: &FigureBar, values: BarValues) -> String {
    let Words { value, which, .. } = Words::from_values(values);
    let all = count_in_words(bar.samples.len() + bar.disturbed.len(), value);
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

/// Horizontal axis of a drawing.
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    /// Creates the axis of a bar. For samples, it begins at 0; disturbed samples beyond its end are drawn at the end.
    /// Values of nodes differ only by several percent, so their axis begins near the lowest value.
    fn new(bar: &FigureBar, values: BarValues) -> Self {
        let marks = [&bar.limit, &bar.second].into_iter().flatten().map(|mark| mark.value);
        let mut all: Vec<f64> =
            bar.samples.iter().copied().chain([bar.value]).chain(marks).collect();
        if values == BarValues::Samples {
            return Self { from: 0.0, to: all.into_iter().fold(0.0, f64::max) * 1.01 };
        }
        all.extend(&bar.disturbed);
        let min = all.iter().copied().fold(f64::INFINITY, f64::min);
        let max = all.into_iter().fold(0.0, f64::max);
        let range = if max > min { max - min } else { max };
        Self { from: (min - ROOM * range).max(0.0), to: max + ROOM * range }
    }

    /// Returns the position of a value on the axis, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Returns the position of a value as an attribute of SVG.
    fn at(&self, value: f64) -> String {
        format!("{:.2}%", self.share(value) * 100.0)
    }
}

/// Returns the names above the drawing. Values that are close together share the name of the first one.
fn names(bar: &FigureBar, axis: &Axis) -> Vec<Markup> {
    let mut named: Vec<(f64, &str)> = bar
        .disturbed
        .iter()
        .map(|value| axis.share(*value))
        .zip(bar.names.iter().map(|n| &**n))
        .collect();
    named.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut groups: Vec<(f64, Vec<&str>)> = Vec::new();
    for (at, name) in named {
        match groups.last_mut() {
            Some((first, names)) if at - *first < NAME_SHARE => names.push(name),
            _ => groups.push((at, vec![name])),
        }
    }
    let mut labels = Vec::new();
    for (at, names) in groups {
        let more = if names.len() > 1 { format!(" +{}", names.len() - 1) } else { String::new() };
        let room = NAME - more.len().min(NAME - 1);
        let first = names.first().copied().unwrap_or_default();
        let is_long = first.chars().count() > room;
        let shown: String = first.chars().take(if is_long { room - 1 } else { room }).collect();
        let cut = if is_long { "\u{2026}" } else { "" };
        // A name at the right end is right-aligned, so that it stays inside the drawing.
        let anchor = if at > 1.0 - NAME_SHARE { "end" } else { "start" };
        let place = format!("{:.2}%", at * 100.0);
        let attributes = [("class", "named"), ("x", &*place), ("y", "10"), ("text-anchor", anchor)];
        labels.push(element("text", &attributes, [text(&format!("{shown}{cut}{more}"))]));
    }
    labels
}

/// Lists the values beyond the limit: `n07 266.0 GB/s, n12 270.1 GB/s, 3 more`.
fn named_in_words(bar: &FigureBar) -> Option<String> {
    let is_time = bar.unit.direction() == Some(BetterDirection::Lower);
    let mut named: Vec<(f64, &String)> = bar.disturbed.iter().copied().zip(&bar.names).collect();
    named.sort_by(|a, b| a.0.total_cmp(&b.0));
    if is_time {
        named.reverse();
    }
    let more = named.len().saturating_sub(MAX_NAMES);
    let shown = named.iter().take(MAX_NAMES);
    let mut words: Vec<String> =
        shown.map(|(value, name)| format!("{name} {}", bar.unit.in_words(*value))).collect();
    words.extend((more > 0).then(|| format!("{more} more")));
    (!words.is_empty()).then(|| words.join(", "))
}

/// Returns a rectangle that begins at the left edge and is centred vertically on `middle`.
fn rect(class: &str, width: &str, middle: f64) -> Markup {
    let [top, thick] = [middle - BAR_HEIGHT / 2.0, BAR_HEIGHT].map(|size| size.to_string());
    let place = [("class", class), ("x", "0"), ("y", &top), ("width", width), ("height", &thick)];
    element("rect", &[&place[..], &[("rx", "3")]].concat(), [])
}

/// Returns a vertical line at a position.
fn line(class: &str, place: &str, height: [f64; 2]) -> Markup {
    let ends = [("class", class), ("x1", place), ("x2", place)];
    let [upper, lower] = height.map(|y| y.to_string());
    element("line", &[&ends[..], &[("y1", &*upper), ("y2", &*lower)]].concat(), [])
}

/// Returns the drawing and the text below it.
fn strip(bar: &FigureBar, values: BarValues, is_best: bool) -> Vec<Markup> {
    let marks: Vec<&AttainableValue> = [&bar.limit, &bar.second].into_iter().flatten().collect();
    let axis = Axis::new(bar, values);
    let are_nodes = values == BarValues::Nodes;
    let above = if bar.names.is_empty() { 0.0 } else { NAMES };
    let whole_height = above + HEIGHT;
    let middle = above + HEIGHT / 2.0;
    let span = [above, whole_height];
    let mut inside = vec![rect("track", "100%", middle)];
    // For a time without a limit, only the samples and the value are drawn.
    let is_time = bar.unit.direction() == Some(BetterDirection::Lower);
    let has_bar = !are_nodes && (bar.limit.is_some() || !is_time);
    let reached = if bar.doubt.is_some() { "reached doubted" } else { "reached" };
    inside.extend(has_bar.then(|| rect(reached, &axis.at(bar.value), middle)));
    let class_of_disturbed = Words::from_values(values).class;
    for (class, samples) in [("", &bar.samples), (class_of_disturbed, &bar.disturbed)] {
        let radius = if class == "beyond" { "4.5" } else { "2.2" };
        let step = samples.len().div_ceil(MAX_SAMPLES).max(1);
        for (i, sample) in samples.iter().enumerate().step_by(step) {
            let lane = (i / step * 2 % LANES) as f64 - (LANES / 2) as f64;
            let y = (middle + lane * 2.2).to_string();
            let place = [("class", class), ("cx", &*axis.at(*sample)), ("cy", &*y), ("r", radius)];
            let name = bar.names.get(i).filter(|_| !class.is_empty());
            let title = name.map(|name| element("title", &[], [text(name)]));
            inside.push(element("circle", &place, title));
        }
    }
    inside.push(line("quoted", &axis.at(bar.value), span));
    inside.extend(marks.iter().map(|mark| line("limit", &axis.at(mark.value), span)));
    inside.extend(names(bar, &axis));
    let label = format!("{}: {}, {}", bar.title, bar.words, values_in_words(bar, values));
    let height = whole_height.to_string();
    let attributes =
        [("role", "img"), ("aria-label", &*label), ("width", "100%"), ("height", &*height)];
    let mut parts = vec![element("svg", &attributes, inside)];
    for mark in marks {
        let words = format!("{}, {}", bar.unit.in_words(mark.value), mark.basis);
        let is_right = axis.share(mark.value) > 0.5;
        let class = if is_right { "limit right" } else { "limit" };
        parts.push(element("small", &[("class", class)], [text(&words)]));
    }
    if bar.limit.is_none() {
        let words = match (is_best, is_time) {
            (true, _) => "best known value for these cores",
            (_, true) => "lower is better; no limit is known",
            _ => "no limit is known",
        };
        parts.push(element("small", &[], [text(words)]));
    }
    if are_nodes {
        let ends = [axis.from, axis.to].map(|value| bar.unit.in_words(value));
        parts.push(element("small", &[], [text(&format!("axis from {}", ends.join(" to ")))]));
    }
    if let Some(words) = named_in_words(bar) {
        parts.push(element("small", &[("class", "beyond")], [text(&words)]));
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
    fn sample_count_includes_disturbed_samples() {
        let bar = FigureBar {
            title: "files".to_owned(),
            what: "write".to_owned(),
            words: "1.313 GB/s".to_owned(),
            value: 1.313e9,
            unit: Unit::BytesPerSecond,
            samples: vec![1e9; 33],
            disturbed: vec![5e8; 39],
            names: Vec::new(),
            other_regimes: 0,
            limit: None,
            second: None,
            remark: String::new(),
            doubt: Some("39 of 72 samples were disturbed".to_owned()),
            earlier: None,
        };
        let samples_in_words = |of: &FigureBar| values_in_words(of, BarValues::Samples);
        assert_eq!(samples_in_words(&bar), "72 samples, 39 of them disturbed");
        let drawn = row(&bar, BarValues::Samples, false, false).to_string();
        assert!(drawn.contains("no limit is known") && !drawn.contains("cores"), "{drawn}");
        let bar = FigureBar { disturbed: Vec::new(), ..bar };
        assert_eq!(samples_in_words(&bar), "33 samples");
        let bar = FigureBar { other_regimes: 7, ..bar };
        assert_eq!(samples_in_words(&bar), "33 samples; 7 more in other regimes");
    }

    #[test]
    fn second_limit_is_drawn_next_to_the_first() {
        let reach =
            |value: f64, basis: &str| Some(AttainableValue { value, basis: basis.to_owned() });
        let bar = FigureBar {
            limit: reach(921.6e9, "option"),
            second: reach(721.8e9, "fastest loop of this run: add"),
            disturbed: Vec::new(),
            value: 715.65e9,
            ..node_names(&[])
        };
        let drawn = row(&bar, BarValues::Samples, false, false).to_string();
        assert_eq!(drawn.matches("class=\"limit\" x1").count(), 2, "{drawn}");
        assert!(drawn.contains("<b>78 %</b>"), "{drawn}");
        for words in ["921.6 GB/s, option", "721.8 GB/s, fastest loop of this run: add"] {
            assert!(drawn.contains(words), "{drawn}");
        }
    }

    /// Returns the bar of a figure of many nodes with similar values; `slow` contains the names and values of slow
    /// nodes.
    fn node_names(slow: &[(&str, f64)]) -> FigureBar {
        FigureBar {
            title: "triad".to_owned(),
            what: String::new(),
            words: "380.0 GB/s".to_owned(),
            value: 380e9,
            unit: Unit::BytesPerSecond,
            samples: (0..20).map(|i| 378e9 + 2e8 * f64::from(i)).collect(),
            disturbed: slow.iter().map(|(_, value)| *value).collect(),
            names: slow.iter().map(|(name, _)| (*name).to_owned()).collect(),
            other_regimes: 0,
            limit: None,
            second: None,
            remark: String::new(),
            doubt: None,
            earlier: None,
        }
    }

    #[test]
    fn axis_begins_at_zero_for_samples_and_near_the_minimum_for_nodes() {
        let nodes = node_names(&[]);
        let axis = Axis::new(&nodes, BarValues::Nodes);
        assert!(axis.from > 377e9 && axis.to < 383e9, "{} to {}", axis.from, axis.to);
        assert!(axis.share(378e9) < 0.05 && axis.share(381.8e9) > 0.95);
        assert_eq!(Axis::new(&nodes, BarValues::Samples).from, 0.0);
        let with_slow = Axis::new(&node_names(&[("n07", 266e9)]), BarValues::Nodes);
        assert!(with_slow.from > 250e9 && with_slow.from < 266e9, "{}", with_slow.from);
        let of_one = Axis::new(&FigureBar { samples: vec![380e9], ..nodes }, BarValues::Nodes);
        assert!(of_one.from < 380e9 && of_one.to > 380e9);
    }

    #[test]
    fn names_of_slow_nodes_are_in_and_below_the_picture() {
        let slow = [("n07", 266e9), ("n12", 270e9), ("n<b>", 310e9)];
        let drawn = row(&node_names(&slow), BarValues::Nodes, false, false).to_string();
        assert_eq!(drawn.matches("class=\"beyond\"").count(), 4, "{drawn}");
        assert!(
            drawn.contains(">n07 +1</text>") && drawn.contains(">n&lt;b&gt;</text>"),
            "{drawn}"
        );
        assert!(drawn.contains("n07 266.0 GB/s, n12 270.0 GB/s, n&lt;b&gt; 310.0 GB/s"), "{drawn}");
        assert!(drawn.contains("<title>n12</title>") && drawn.contains("axis from "), "{drawn}");
        let many: Vec<(String, f64)> =
            (0..20).map(|i| (format!("n{i}.cluster.example.org"), 266e9)).collect();
        let shown: Vec<(&str, f64)> = many.iter().map(|(name, value)| (&**name, *value)).collect();
        let crowded = row(&node_names(&shown), BarValues::Nodes, false, false).to_string();
        assert!(crowded.contains("n0.clus\u{2026} +19</text>"), "{crowded}");
        assert!(crowded.contains(", 12 more<"), "{crowded}");
    }
}
