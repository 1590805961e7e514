//! The text of `compare`: what differs between the settings, then a table a test, then every reason
//! for doubt.

use crate::table::{LABEL, Loudness, Style, loud_paragraph, paragraph, table};
use nodegauge_measure::compare::threshold::change_in_words;
use nodegauge_measure::compare::{Comparison, Difference, Pair, Runners, Verdict};
use nodegauge_measure::ratio::{LEAST_RUNS, RUN_TO_RUN};
use nodegauge_measure::{BytesPerSec, FlopsPerSec, Seconds, quantity};

/// Longest value of a difference that stays in the table; longer ones get lines of their own.
const IN_TABLE: usize = 27;
/// Longest value of a difference that is shown.
const SHOWN: usize = 160;
/// Most runs of a side that are listed.
const RUNS: usize = 3;
/// Most names in a list.
const NAMES: usize = 6;
/// From this difference on the medians are worth a line of their own.
const MEDIANS_DIFFER: f64 = 0.02;

/// The whole text.
pub fn render(comparison: &Comparison, style: Style) -> String {
    let mut out = side(style, "A", &comparison.a);
    out.push_str(&side(style, "B", &comparison.b));
    for notice in &comparison.notices {
        out.push_str(&paragraph(style, "note", notice));
    }
    out.push('\n');
    out.push_str(&differences(&comparison.differences, style));
    for test in tests(&comparison.pairs) {
        out.push('\n');
        out.push_str(&pairs(&test, style));
    }
    out.push('\n');
    out.push_str(&verdicts(comparison, style));
    for (name, only) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        if !only.is_empty() {
            out.push_str(&paragraph(style, &format!("only in {name}"), &listed(only)));
        }
    }
    out
}

/// A side: what it was called, and its runs.
fn side(style: Style, name: &str, side: &Runners) -> String {
    let each: Vec<String> = side
        .runs
        .iter()
        .take(RUNS)
        .map(|run| {
            let host = run.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
            let started = run.started.get(..16).unwrap_or(&run.started).replace('T', " ");
            format!("{} of {started}{host}", run.id)
        })
        .collect();
    let more = match side.runs.len().saturating_sub(RUNS) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    let pooled = match side.runs.len() {
        1 => String::new(),
        n => format!("{n} runs pooled: "),
    };
    paragraph(style, name, &format!("{}: {pooled}{}{more}", side.asked, each.join("; ")))
}

fn differences(differences: &[Difference], style: Style) -> String {
    if differences.is_empty() {
        return paragraph(style, "differs", "nothing that the records know of");
    }
    let fits = |difference: &&Difference| {
        [&difference.what, &difference.a].iter().all(|text| text.chars().count() <= IN_TABLE)
    };
    let rows: Vec<Vec<String>> = differences
        .iter()
        .filter(fits)
        .map(|d| vec![d.what.clone(), d.a.clone(), cut(&d.b)])
        .collect();
    let mut out = match rows.is_empty() {
        true => String::new(),
        false => table(style, &["differs", "A", "B"], &rows, &[]),
    };
    for difference in differences.iter().filter(|difference| !fits(difference)) {
        let text =
            format!("{}\nA: {}\nB: {}", difference.what, cut(&difference.a), cut(&difference.b));
        out.push_str(&paragraph(style, "differs", &text));
    }
    out
}

/// A text with its middle left out where it is too long.
fn cut(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= SHOWN {
        return text.to_owned();
    }
    let half = SHOWN / 2 - 2;
    let end = |range: &[char]| range.iter().collect::<String>();
    format!("{} ... {}", end(&letters[..half]), end(&letters[letters.len() - half..]))
}

/// The pairs of each test, in order.
fn tests(pairs: &[Pair]) -> Vec<Vec<&Pair>> {
    let mut tests: Vec<Vec<&Pair>> = Vec::new();
    for pair in pairs {
        match tests.iter_mut().find(|test| test[0].test == pair.test) {
            Some(test) => test.push(pair),
            None => tests.push(vec![pair]),
        }
    }
    tests
}

/// The table of a test. Names are rows; where several pairs have a name, what tells them apart heads the
/// rows, or, when that is one thing such as a size, the other way round.
fn pairs(pairs: &[&Pair], style: Style) -> String {
    let by_name = pairs.iter().all(|pair| pair.at.len() == 1);
    let heads = |pair: &Pair| if by_name { pair.name.clone() } else { pair.place().to_owned() };
    let mut groups: Vec<(String, Vec<&Pair>)> = Vec::new();
    for pair in pairs {
        let head = heads(pair);
        match groups.iter_mut().find(|(known, _)| *known == head) {
            Some((_, group)) => group.push(pair),
            None => groups.push((head, vec![pair])),
        }
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (head, group) in &groups {
        let headed = !head.is_empty();
        if headed {
            rows.push(vec![HEAD.to_string() + head]);
        }
        for pair in group {
            let title = if by_name { pair.place().to_owned() } else { pair.name.clone() };
            rows.push(row(pair, format!("{}{title}", if headed { "  " } else { "" })));
        }
    }
    let test = pairs[0].test.as_str();
    let shown: Vec<Vec<String>> =
        rows.iter().filter(|row| !row[0].starts_with(HEAD)).cloned().collect();
    let text = table(style, &[test, "A", "B", "B to A", "95 %", "verdict"], &shown, &[1, 2, 3, 4]);
    // Headings are lines of their own, so that they widen no column.
    let mut lines = text.lines();
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(&if style.colour { coloured(text, style) } else { text.to_owned() });
        out.push('\n');
    };
    line(lines.next().unwrap_or_default());
    for row in &rows {
        match row[0].strip_prefix(HEAD) {
            Some(head) => line(head),
            None => line(lines.next().unwrap_or_default()),
        }
    }
    out
}

/// Marks a heading among rows; in no name.
const HEAD: char = '\u{1}';

fn row(pair: &Pair, title: String) -> Vec<String> {
    vec![
        title,
        figure(pair.a.value, pair.unit.symbol()),
        figure(pair.b.value, pair.unit.symbol()),
        pair.ratio.map_or_else(|| "-".to_owned(), change_in_words),
        pair.ci95.map_or_else(|| "-".to_owned(), interval),
        pair.verdict.name().to_owned(),
    ]
}

/// A line of the table; a verdict that matters stands out.
fn coloured(line: &str, style: Style) -> String {
    let matters = [Verdict::Faster, Verdict::Slower].map(Verdict::name);
    match matters.iter().find(|name| line.ends_with(**name)) {
        Some(name) => format!("{}{}", &line[..line.len() - name.len()], style.strong(name)),
        None => line.to_owned(),
    }
}

/// `+4.1 to +6.5 %`.
fn interval([low, high]: [f64; 2]) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    format!("{:+.1} to {:+.1} %", percent(low), percent(high))
}

fn figure(value: Option<f64>, unit: &str) -> String {
    match (value, unit) {
        (None, _) => "-".to_owned(),
        (Some(value), "B/s") => BytesPerSec(value).to_string(),
        (Some(value), "FLOP/s") => FlopsPerSec(value).to_string(),
        (Some(value), "s") => Seconds(value).to_string(),
        (Some(value), unit) => format!("{} {unit}", quantity::significant(value)),
    }
}

/// How many of each verdict, what the figures are, and the reasons.
fn verdicts(comparison: &Comparison, style: Style) -> String {
    let all = comparison.pairs.len();
    let tally: Vec<String> =
        comparison.tally().iter().map(|(name, n)| format!("{n} {name}")).collect();
    let mut out =
        paragraph(style, "verdict", &format!("B to A, {all} compared: {}", tally.join(", ")));
    let mut reasons: Vec<(&str, Vec<&Pair>)> = Vec::new();
    for pair in &comparison.pairs {
        for reason in &pair.reasons {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, pairs)) => pairs.push(pair),
                None => reasons.push((reason, vec![pair])),
            }
        }
    }
    for (reason, pairs) in reasons {
        let names: Vec<String> = pairs.iter().map(|pair| pair.title()).collect();
        let of = if pairs.len() == all { String::new() } else { format!("{}: ", listed(&names)) };
        let decides = pairs[0].reasons.first().is_some_and(|first| first == reason);
        let loudness = match pairs[0].verdict {
            Verdict::NotComparable | Verdict::NoConfidence if decides => Loudness::Warning,
            _ => Loudness::Plain,
        };
        out.push_str(&loud_paragraph(style, loudness, "why", &format!("{of}{reason}")));
    }
    out.push_str(&medians(comparison, style));
    out.push_str(&basis(comparison, style));
    out
}

/// Medians that say something else than what is quoted.
fn medians(comparison: &Comparison, style: Style) -> String {
    let mut far: Vec<(f64, String)> = comparison
        .pairs
        .iter()
        .filter_map(|pair| {
            let (ratio, median) = pair.ratio.zip(pair.median_ratio)?;
            let far = (median / ratio).ln().abs();
            let text = format!("{} {}", pair.title(), change_in_words(median));
            (far > MEDIANS_DIFFER).then_some((far, text))
        })
        .collect();
    far.sort_by(|x, y| y.0.total_cmp(&x.0));
    let far: Vec<String> = far.into_iter().map(|(_, text)| text).collect();
    match far.is_empty() {
        true => String::new(),
        false => paragraph(style, "medians", &format!("say otherwise: {}", listed(&far))),
    }
}

/// What the figures and the intervals are.
fn basis(comparison: &Comparison, style: Style) -> String {
    let mut kinds: Vec<&str> = comparison.pairs.iter().map(|pair| pair.statistic).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kinds: Vec<&str> = kinds
        .into_iter()
        .map(|kind| match kind {
            "best" => "the best sample of a run",
            "median" => "the median of a run",
            "mean" => "the mean of a run",
            _ => "what a run quotes",
        })
        .collect();
    let mut text = format!("figures are {}", kinds.join(", or "));
    let sampled: Vec<&Pair> = comparison.pairs.iter().filter(|pair| pair.ci95.is_some()).collect();
    if !sampled.is_empty() {
        text.push_str("; intervals are bootstrapped");
    }
    if sampled.iter().any(|pair| pair.a.runs.min(pair.b.runs) < LEAST_RUNS) {
        text.push_str(&format!(
            " and allow {:.1} % for what differs from run to run, since a side has less than \
             {LEAST_RUNS} runs; give runs the same --label and compare by it",
            RUN_TO_RUN * 100.0
        ));
    }
    paragraph(style, "basis", &text)
}

/// A list that stays short.
fn listed(texts: &[String]) -> String {
    let shown = texts.iter().take(NAMES).cloned().collect::<Vec<_>>();
    // Titles may have commas in them.
    let shown = shown.join(if shown.iter().any(|text| text.contains(',')) { "; " } else { ", " });
    match texts.len().saturating_sub(NAMES) {
        0 => shown,
        n => format!("{shown} and {n} more"),
    }
}

// Labels and their texts share one layout with all other pages.
const _: () = assert!(LABEL > "only in A".len());
