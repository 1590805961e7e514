//! The view of `compare`: what differs between the settings, then a table a test, then every reason
//! for doubt.

use nodegauge_analysis::compare::threshold::change_in_words;
use nodegauge_analysis::compare::{Comparison, Difference, Figure, Pair, Runners, Verdict};
use nodegauge_analysis::ratio::Basis;
use nodegauge_analysis::ratio::closing::{interval_in_words, times_as_fast};
use nodegauge_gauge::view::{self, Cell, Note, Page, Section, Table, Tone};
use nodegauge_measure::quantity::counted;
use nodegauge_measure::stats::Better;

/// Longest value of a difference that stays in the table; longer ones get lines of their own.
const IN_TABLE: usize = 27;
/// Longest value of a difference that is shown.
const SHOWN: usize = 160;
/// Most runs of a side that are listed.
const RUNS: usize = 3;
/// Most figures in the closing sentence, of each side.
const TOLD: usize = 3;
/// Most names in a list.
const NAMES: usize = 6;
/// From this difference on the medians are worth a line of their own.
const MEDIANS_DIFFER: f64 = 0.02;

/// The whole page.
pub fn page(comparison: &Comparison) -> Page {
    let mut sides = Section::new("sides");
    sides.note("A", side(&comparison.a)).note("B", side(&comparison.b));
    for notice in &comparison.notices {
        sides.note("note", notice.as_str());
    }
    let mut sections = vec![sides, differences(&comparison.differences, &["A", "B"])];
    let tests = grouped(&comparison.pairs, |pair| &pair.test);
    sections.extend(tests.iter().map(|(test, pairs)| figures(test, pairs)));
    let mut verdicts = verdicts(comparison);
    for (label, only) in [("only in A", &comparison.only_a), ("only in B", &comparison.only_b)] {
        let titles: Vec<String> = only.iter().map(|of| of.title.clone()).collect();
        verdicts.note_if(label, (!titles.is_empty()).then(|| listed(&titles)));
    }
    sections.push(verdicts);
    sections.extend(closing(comparison).map(view::summary));
    Page { heading: String::new(), sections }
}

/// What it comes to: the side that is faster, in what and how much, the greatest differences first; `None`
/// where nothing could be compared.
fn closing(comparison: &Comparison) -> Option<String> {
    let decided = |verdict: Verdict| {
        let mut pairs: Vec<(f64, [f64; 2], String)> = comparison
            .pairs
            .iter()
            .filter(|pair| pair.verdict == verdict)
            .filter_map(|pair| Some((speed(pair, verdict)?, pair.title())))
            .map(|((ratio, ci95), title)| (ratio, ci95, title))
            .collect();
        pairs.sort_by(|x, y| y.0.total_cmp(&x.0));
        pairs
    };
    let side = |(verdict, name, other): (Verdict, &str, &str)| {
        let pairs = decided(verdict);
        let told = pairs.iter().take(TOLD).enumerate().map(|(i, (ratio, ci95, title))| {
            let times = times_as_fast(*ratio, Some(*ci95), other);
            let times = match i {
                0 => format!("{name} is {times}"),
                _ => times.split(' ').next().unwrap_or_default().to_owned(),
            };
            format!("{times} in {title} ({})", interval_in_words(*ci95))
        });
        let told = told.collect::<Vec<_>>().join(", ");
        let more = pairs.len().saturating_sub(TOLD);
        (!pairs.is_empty()).then(|| match more {
            0 => told,
            n => format!("{told}, and faster in {n} more"),
        })
    };
    let sides = [(Verdict::Faster, "B", "A"), (Verdict::Slower, "A", "B")];
    let sides: Vec<String> = sides.into_iter().filter_map(side).collect();
    let count = |verdict| comparison.pairs.iter().filter(|pair| pair.verdict == verdict).count();
    let (same, open) = (count(Verdict::WithinNoise), count(Verdict::CannotTell));
    match (sides.is_empty(), same, open) {
        (false, ..) => Some(sides.join("; ")),
        (true, 0, 0) => None,
        (true, 0, _) => Some("cannot tell which of A and B is faster".to_owned()),
        (true, _, 0) => Some("no difference between A and B is beyond noise".to_owned()),
        (true, ..) => {
            let text = "no difference between A and B is beyond noise in";
            Some(format!("{text} {}; cannot tell in {open}", counted(same, "figure")))
        }
    }
}

/// How many times as fast the faster side is.
pub(crate) fn speed(pair: &Pair, verdict: Verdict) -> Option<(f64, [f64; 2])> {
    let (ratio, [low, high]) = pair.ratio.zip(pair.ci95)?;
    // Of times less is faster, and of a slower B the other way round.
    let inverse = (pair.unit.direction() == Some(Better::Lower)) != (verdict == Verdict::Slower);
    Some(match inverse {
        true => (ratio.recip(), [high.recip(), low.recip()]),
        false => (ratio, [low, high]),
    })
}

/// Items that have something in common, in the order of its first appearance.
pub(crate) fn grouped<T, K: PartialEq>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let key = key(&item);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// A side: what it was called, and its runs.
fn side(side: &Runners) -> String {
    let each = side.runs.iter().take(RUNS).map(|run| {
        let host = run.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
        let started = run.started.get(..16).unwrap_or(&run.started).replace('T', " ");
        format!("{} of {started}{host}", run.id)
    });
    let each = each.collect::<Vec<_>>().join("; ");
    let more = match side.runs.len().saturating_sub(RUNS) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    let pooled = match side.runs.len() {
        1 => String::new(),
        n => format!("{n} runs pooled: "),
    };
    format!("{}: {pooled}{each}{more}", side.asked)
}

/// What differs between sides of these names: in a table, and below it what is too long for one.
pub(crate) fn differences(differences: &[Difference], names: &[&str]) -> Section {
    let mut section = Section::new("differences");
    if differences.is_empty() {
        section.note("differs", "nothing that the records know of");
    }
    let fits = |difference: &&Difference| {
        let last = difference.sides.len().saturating_sub(1);
        let mut texts = difference.sides[..last].iter().chain([&difference.what]);
        texts.all(|text| text.chars().count() <= IN_TABLE)
    };
    let (short, long): (Vec<_>, Vec<_>) = differences.iter().partition(fits);
    if !short.is_empty() {
        let titles: Vec<&str> = ["differs"].iter().chain(names).copied().collect();
        let mut table = Table::new(&titles);
        for Difference { what, sides } in short {
            table.row(
                [what.as_str().into()]
                    .into_iter()
                    .chain(sides.iter().map(|x| cut(x, SHOWN).into())),
            );
        }
        section.push(table);
    }
    for Difference { what, sides } in long {
        let sides =
            names.iter().zip(sides).map(|(name, text)| format!("\n{name}: {}", cut(text, SHOWN)));
        section.note("differs", format!("{what}{}", sides.collect::<String>()));
    }
    section
}

/// A text with its middle left out where it is too long.
pub(crate) fn cut(text: &str, shown: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= shown {
        return text.to_owned();
    }
    let half = shown / 2 - 2;
    let end = |range: &[char]| range.iter().collect::<String>();
    format!("{} ... {}", end(&letters[..half]), end(&letters[letters.len() - half..]))
}

/// The table of a test. Names are rows; where several pairs have a name, what tells them apart heads the
/// rows, or, when that is one thing such as a size, the other way round.
fn figures(test: &str, pairs: &[&Pair]) -> Section {
    let by_name = pairs.iter().all(|pair| pair.at.len() == 1);
    let words = |pair: &&Pair| match by_name {
        true => (pair.name_in_words.clone(), pair.place().to_owned()),
        false => (pair.place().to_owned(), pair.name_in_words.clone()),
    };
    let mut table = Table::new(&[test, ">A", ">B", ">B to A", ">95 %", "verdict"]);
    for (head, group) in grouped(pairs.iter().copied(), |pair| words(pair).0) {
        table.heading(head);
        for pair in group {
            let figure = |side: &Figure| match side.value {
                Some(value) => Cell::figure(value, pair.unit, pair.unit.in_words(value)),
                None => "-".into(),
            };
            let tone = match pair.verdict {
                Verdict::Faster => Tone::Better,
                Verdict::Slower => Tone::Worse,
                Verdict::Higher | Verdict::Lower => Tone::Strong,
                _ => Tone::Plain,
            };
            table.row([
                words(&pair).1.into(),
                figure(&pair.a),
                figure(&pair.b),
                pair.ratio.map_or_else(|| "-".to_owned(), change_in_words).into(),
                pair.ci95.map_or_else(|| "-".to_owned(), interval).into(),
                Cell::text(pair.verdict.name()).tone(tone),
            ]);
        }
    }
    Section { id: "figures", blocks: vec![table.into()] }
}

/// `+4.1 to +6.5 %`.
fn interval([low, high]: [f64; 2]) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    format!("{:+.1} to {:+.1} %", percent(low), percent(high))
}

/// How many of each verdict, what the figures are, and the reasons.
fn verdicts(comparison: &Comparison) -> Section {
    let mut section = Section::new("verdicts");
    let all = comparison.pairs.len();
    let tally: Vec<String> =
        comparison.tally().iter().map(|(name, n)| format!("{n} {name}")).collect();
    section.note("verdict", format!("B to A, {all} compared: {}", tally.join(", ")));
    let reasons =
        comparison.pairs.iter().flat_map(|pair| pair.reasons.iter().map(move |why| (why, pair)));
    for (reason, pairs) in grouped(reasons, |(why, _)| *why) {
        let names: Vec<String> = pairs.iter().map(|(_, pair)| pair.title()).collect();
        let of = if pairs.len() == all { String::new() } else { format!("{}: ", listed(&names)) };
        let first = pairs[0].1;
        let decides = first.reasons.first() == Some(reason);
        let tone = match first.verdict {
            Verdict::NotComparable | Verdict::CannotTell if decides => Tone::Warning,
            _ => Tone::Plain,
        };
        section.push(Note::new("why", format!("{of}{reason}")).tone(tone));
    }
    section.note_if("medians", medians(comparison)).note_if("visible", visible(comparison));
    section.note("basis", basis(comparison));
    section
}

/// Medians that say something else than what is quoted.
fn medians(comparison: &Comparison) -> Option<String> {
    let far = comparison.pairs.iter().filter_map(|pair| {
        let (ratio, median) = pair.ratio.zip(pair.median_ratio)?;
        let far = (median / ratio).ln().abs();
        let text = format!("{} {}", pair.title(), change_in_words(median));
        (far > MEDIANS_DIFFER).then_some((far, text))
    });
    let mut far: Vec<(f64, String)> = far.collect();
    far.sort_by(|x, y| y.0.total_cmp(&x.0));
    let far: Vec<String> = far.into_iter().map(|(_, text)| text).collect();
    (!far.is_empty()).then(|| format!("say otherwise: {}", listed(&far)))
}

/// The changes that would have been found, of as many figures as there are.
fn visible(comparison: &Comparison) -> Option<String> {
    let visible = |pair: &&Pair| pair.visible.unwrap_or(f64::NAN);
    let known = || comparison.pairs.iter().filter(|pair| pair.visible.is_some());
    let least = known().min_by(|x, y| visible(x).total_cmp(&visible(y)))?;
    let most = known().max_by(|x, y| visible(x).total_cmp(&visible(y)))?;
    let of = |pair: &Pair| format!("{:.1} % ({})", visible(&pair) * 100.0, pair.title());
    let to = if most == least { String::new() } else { format!(" to {}", of(most)) };
    Some(format!(
        "a change of {}{to} or more is found in nine of ten comparisons like this",
        of(least)
    ))
}

/// What the figures and the intervals are.
fn basis(comparison: &Comparison) -> String {
    let mut kinds: Vec<&str> = comparison.pairs.iter().map(|pair| pair.statistic).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kinds = kinds.into_iter().map(|kind| match kind {
        "best" => "the best sample of a run".to_owned(),
        "single" => "what a run quotes".to_owned(),
        other => format!("the {other} of a run"),
    });
    let mut text = format!("figures are {}", kinds.collect::<Vec<_>>().join(", or "));
    let from = |basis: Basis| comparison.pairs.iter().any(|pair| pair.basis == Some(basis));
    let bases: Vec<&str> = [
        (Basis::Runs, "the runs of the sides"),
        (Basis::History, "these and saved runs like them"),
        (Basis::Blocks, "blocks of runs by turns"),
    ]
    .into_iter()
    .filter_map(|(basis, words)| from(basis).then_some(words))
    .collect();
    if !bases.is_empty() {
        text.push_str(&format!("; how runs differ is taken from {}", bases.join(", or ")));
    }
    text
}

/// A list that stays short.
pub(crate) fn listed(texts: &[String]) -> String {
    let shown = &texts[..texts.len().min(NAMES)];
    // Titles may have commas in them.
    let shown = shown.join(if shown.iter().any(|text| text.contains(',')) { "; " } else { ", " });
    match texts.len().saturating_sub(NAMES) {
        0 => shown,
        n => format!("{shown} and {n} more"),
    }
}
