//! Page of `compare`: differences between the settings, one table per test, and the verdicts with their reasons.

use crate::conclusion::to_sentence;
use crate::head::{self, HostAndProcessor};
use nodegauge_analysis::compare::{ComparedSide, Comparison, Difference, Pair, Verdict};
use nodegauge_analysis::conclusion::{CANNOT_TELL, Obstacle, detectable_difference};
use nodegauge_analysis::ratio::SpreadBasis;
use nodegauge_analysis::ratio::closing::{interval_in_words, times_as_fast};
use nodegauge_gauge::view::{
    ColumnList, Note, Page, Section, TableCell, Tone, distinct, group_by_key, sentence,
};
use nodegauge_measure::Fraction;
use nodegauge_measure::legible::join_lines;
use nodegauge_measure::quantity::{change_in_words, changes_in_words, count_in_words};
use nodegauge_measure::stats::BetterDirection;

/// Maximum number of characters of a value in the table of differences; longer values are printed below the table.
const IN_TABLE: usize = 27;
/// Maximum number of characters of a printed value; the middle of longer values is left out.
const SHOWN: usize = 160;
/// Maximum number of runs that are listed per side.
const RUNS: usize = 3;
/// Maximum number of figures in the conclusion, per faster side.
const IN_CONCLUSION: usize = 3;
/// Maximum number of entries in a list of names.
const NAMES: usize = 6;
/// Difference between the change of the median and the change of the quoted value, as a share, above which the change
/// of the median is also printed.
const MEDIANS_DIFFER: f64 = 0.02;

/// Returns the page of a comparison.
pub fn page(comparison: &Comparison) -> Page {
    let mut sides = Section::new("sides");
    sides.note("A", side(&comparison.a)).note("B", side(&comparison.b));
    note_both(&mut sides, "node", [nodes(&comparison.a), nodes(&comparison.b)]);
    note_both(&mut sides, "command", [commands(&comparison.a), commands(&comparison.b)]);
    for notice in &comparison.notices {
        sides.note("note", notice.as_str());
    }
    let mut sections = vec![sides, differences(&comparison.differences, &["A", "B"])];
    let tests = group_by_key(&comparison.pairs, |pair| &pair.test);
    sections.extend(tests.iter().map(|(test, pairs)| figures(test, pairs)));
    let mut verdicts = verdicts(comparison);
    for (label, only) in [("only in A", &comparison.only_a), ("only in B", &comparison.only_b)] {
        let titles: Vec<String> = only.iter().map(|of| of.title.clone()).collect();
        verdicts.note_if(label, (!titles.is_empty()).then(|| limited_list(&titles)));
    }
    sections.push(verdicts);
    let conclusion = conclusion(comparison).map(|text| to_sentence(&text));
    Page { conclusion, sections, ..Page::default() }
}

/// Returns the first sentence of the page: the figures in which A is faster, and those in which B is faster, greatest
/// differences first. Returns `None` if nothing could be compared.
fn conclusion(comparison: &Comparison) -> Option<String> {
    let sides = [
        faster_in(comparison, Verdict::Faster, "B", "A"),
        faster_in(comparison, Verdict::Slower, "A", "B"),
    ];
    let sides: Vec<String> = sides.into_iter().flatten().collect();
    if !sides.is_empty() {
        return Some(sides.join("; "));
    }
    let [same, open] = [Verdict::WithinNoise, Verdict::CannotTell]
        .map(|verdict| comparison.pairs.iter().filter(|pair| pair.verdict == verdict).count());
    let found = detectable_change(&comparison.pairs);
    let found = found.map(|found| format!("; {found}")).unwrap_or_default();
    match (same, open) {
        (0, 0) => None,
        (0, _) => {
            let question = "which of A and B is faster";
            Some(match obstacle(&comparison.pairs) {
                Some(obstacle) => obstacle.cannot_tell(question),
                None => format!("{CANNOT_TELL} {question}"),
            })
        }
        (_, 0) => Some(format!("no difference between A and B is beyond noise{found}")),
        _ => {
            let text = "no difference between A and B is beyond noise in";
            let same = count_in_words(same, "figure");
            Some(format!("{text} {same}{found}; {CANNOT_TELL} in {open}"))
        }
    }
}

/// Returns the most frequent reason why pairs have no verdict; `None` if it is unknown.
fn obstacle(pairs: &[Pair]) -> Option<Obstacle> {
    let open = pairs.iter().filter(|pair| pair.verdict == Verdict::CannotTell);
    let obstacles = group_by_key(open.filter_map(pair_obstacle), |one| one.in_words());
    let max = obstacles.iter().map(|(_, same)| same.len()).max()?;
    let (_, same) = obstacles.into_iter().find(|(_, same)| same.len() == max)?;
    same.into_iter().next()
}

/// Returns the reason why a pair has no verdict: the doubt about a figure, otherwise the first reason, because later
/// reasons may be remarks.
pub(crate) fn pair_obstacle(pair: &Pair) -> Option<Obstacle> {
    if let Some(doubt) = &pair.suspect {
        return Some(Obstacle::new(doubt.as_str()));
    }
    let why = pair.reasons.first()?;
    let obstacle = Obstacle::new(why.text.as_str());
    Some(match &why.remedy {
        Some(remedy) => obstacle.with_remedy(remedy),
        None => obstacle,
    })
}

/// Returns a clause with the smallest change that each of these comparisons would have detected. Returns `None` if it
/// is unknown for one of them, e.g. if a run is compared with itself.
pub(crate) fn detectable_change(pairs: &[Pair]) -> Option<String> {
    let same = pairs.iter().filter(|pair| pair.verdict == Verdict::WithinNoise);
    let visible: Option<Vec<f64>> = same.map(|pair| pair.visible).collect();
    visible?.into_iter().reduce(f64::max).map(detectable_difference)
}

/// Figure for which A or B is faster.
struct Advantage {
    ratio: f64,
    ci95: [f64; 2],
    title: String,
}

/// Describes the figures with this verdict; `None` if there are none. `name` is the faster side, and `other` is the
/// slower side.
fn faster_in(comparison: &Comparison, verdict: Verdict, name: &str, other: &str) -> Option<String> {
    let mut advantages = Vec::new();
    for pair in comparison.pairs.iter().filter(|pair| pair.verdict == verdict) {
        if let Some((ratio, ci95)) = relative_speed(pair, verdict) {
            advantages.push(Advantage { ratio, ci95, title: pair.title() });
        }
    }
    if advantages.is_empty() {
        return None;
    }
    advantages.sort_by(|x, y| y.ratio.total_cmp(&x.ratio));
    let mut parts = Vec::new();
    for (i, advantage) in advantages.iter().take(IN_CONCLUSION).enumerate() {
        let times = times_as_fast(advantage.ratio, Some(advantage.ci95), other);
        let start = match i {
            0 => format!("{name} is {times}"),
            _ => times.split(' ').next().unwrap_or_default().to_owned(),
        };
        let interval = interval_in_words(advantage.ci95);
        parts.push(format!("{start} in {} ({interval})", advantage.title));
    }
    let text = parts.join(", ");
    match advantages.len().saturating_sub(IN_CONCLUSION) {
        0 => Some(text),
        n => Some(format!("{text}, and faster in {n} more")),
    }
}

/// Returns the speed of the faster side divided by that of the slower side, with the 95 % interval.
pub(crate) fn relative_speed(pair: &Pair, verdict: Verdict) -> Option<(f64, [f64; 2])> {
    let (ratio, [low, high]) = pair.ratio.zip(pair.ci95)?;
    // For times, lower is better, so the ratio is inverted. It is also inverted if B is slower.
    let inverse =
        (pair.unit.direction() == Some(BetterDirection::Lower)) != (verdict == Verdict::Slower);
    if inverse {
        return Some((ratio.recip(), [high.recip(), low.recip()]));
    }
    Some((ratio, [low, high]))
}

/// Describes A or B: the selector that the user typed, and the selected runs.
fn side(side: &ComparedSide) -> String {
    let each = side
        .runs
        .iter()
        .take(RUNS)
        .map(|run| format!("{} of {}", run.id, sentence::start_minute(&run.started)));
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

/// Adds one note for both sides if their texts are equal, otherwise one note per side.
fn note_both(section: &mut Section, label: &str, [a, b]: [String; 2]) {
    if a == b {
        section.note(label, a);
    } else {
        section.note(&format!("{label} A"), a).note(&format!("{label} B"), b);
    }
}

/// Lists the hosts of A or B with their processors.
fn nodes(side: &ComparedSide) -> String {
    head::node_names(
        side.runs.iter().map(|run| HostAndProcessor::new(run.host.as_deref(), &run.processor)),
    )
}

/// Describes the commands of A or B.
fn commands(side: &ComparedSide) -> String {
    let commands = side.runs.iter().map(|run| head::shell_command(&run.command));
    head::command_names(&distinct(commands))
}

/// Returns the section with the differences between the settings of runs. `names` are the names of the runs. Short
/// values are in a table; long values are below the table.
pub(crate) fn differences(differences: &[Difference], names: &[&str]) -> Section {
    let mut section = Section::new("differences");
    if differences.is_empty() {
        section.note("differs", "nothing in the records");
    }
    let (short, long): (Vec<&Difference>, Vec<&Difference>) =
        differences.iter().partition(|one| fits_table(one));
    if !short.is_empty() {
        let mut columns = ColumnList::<&Difference>::new().left("differs", |one| one.what.clone());
        for (at, name) in names.iter().enumerate() {
            columns = columns.left(*name, move |one| shorten_middle(&one.sides[at], SHOWN));
        }
        section.push(columns.table(short));
    }
    for Difference { what, sides } in long {
        let sides = names
            .iter()
            .zip(sides)
            .map(|(name, text)| format!("{name}: {}", shorten_middle(text, SHOWN)));
        section.push_lines("differs", join_lines([what.clone()].into_iter().chain(sides)));
    }
    section
}

/// True if the values of a difference are short enough for the table. Only the last column wraps.
fn fits_table(difference: &Difference) -> bool {
    let last = difference.sides.len().saturating_sub(1);
    let mut texts = difference.sides[..last].iter().chain([&difference.what]);
    texts.all(|text| text.chars().count() <= IN_TABLE)
}

/// Returns a text of at most `shown` characters; the middle of a longer text is left out.
pub(crate) fn shorten_middle(text: &str, shown: usize) -> String {
    const GAP: &str = " ... ";
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= shown {
        return text.to_owned();
    }
    let half = shown.saturating_sub(GAP.len()) / 2;
    let [start, end] = [&letters[..half], &letters[letters.len() - half..]]
        .map(|range| range.iter().collect::<String>());
    format!("{start}{GAP}{end}")
}

/// Returns the table of a test. If a single key distinguishes all pairs, e.g. the size, the headings are the names of
/// the figures, and the rows are the values of the key. Otherwise the headings are the values of the keys, and the rows
/// are the names.
fn figures(test: &str, pairs: &[&Pair]) -> Section {
    let by_name = pairs.iter().all(|pair| pair.at.len() == 1);
    let columns = ColumnList::<&Pair>::new()
        .left(test, |pair| heading_and_title(pair, by_name)[1].to_owned())
        .right_or_dash("A", |pair| Some(TableCell::in_words(pair.a.value?, pair.unit)))
        .right_or_dash("B", |pair| Some(TableCell::in_words(pair.b.value?, pair.unit)))
        .right_or_dash("B to A", |pair| pair.ratio.map(change_in_words))
        .right_or_dash("95 %", |pair| pair.ci95.map(changes_in_words))
        .left("verdict", |pair| TableCell::text(pair.verdict.name()).tone(tone(pair.verdict)));
    let groups =
        group_by_key(pairs.iter().copied(), |pair| heading_and_title(pair, by_name)[0].to_owned());
    Section { id: "figures", blocks: vec![columns.grouped_table(groups).into()] }
}

/// Returns the heading above the row of a pair, and the title of the row.
fn heading_and_title(pair: &Pair, by_name: bool) -> [&str; 2] {
    let [name, keys] = [pair.name_in_words.as_str(), pair.keys_in_words()];
    if by_name { [name, keys] } else { [keys, name] }
}

/// Returns the tone in which a verdict is printed.
fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Faster => Tone::Better,
        Verdict::Slower => Tone::Worse,
        Verdict::Higher | Verdict::Lower => Tone::Strong,
        _ => Tone::Plain,
    }
}

/// Returns the section with the number of figures per verdict, the reasons, and the statistic that is compared.
fn verdicts(comparison: &Comparison) -> Section {
    let mut section = Section::new("verdicts");
    let all = comparison.pairs.len();
    let tally: Vec<String> =
        comparison.verdict_counts().iter().map(|(name, n)| format!("{n} {name}")).collect();
    section.note(
        "verdict",
        format!("B compared with A, {}: {}", count_in_words(all, "figure"), tally.join(", ")),
    );
    let reasons =
        comparison.pairs.iter().flat_map(|pair| pair.reasons.iter().map(move |why| (why, pair)));
    for (reason, pairs) in group_by_key(reasons, |(why, _)| *why) {
        let names: Vec<String> = pairs.iter().map(|(_, pair)| pair.title()).collect();
        let of =
            if pairs.len() == all { String::new() } else { format!("{}: ", limited_list(&names)) };
        let first = pairs[0].1;
        let decides = first.reasons.first() == Some(reason);
        let tone = match first.verdict {
            Verdict::NotComparable | Verdict::CannotTell if decides => Tone::Warning,
            _ => Tone::Plain,
        };
        section.push(Note::new("why", format!("{of}{}", reason.text)).tone(tone));
        let remedy = reason.remedy.as_deref();
        section.blocks.extend(remedy.map(|text| Note::new("remedy", text).nested().into()));
    }
    section
        .note_if("medians", medians(comparison))
        .note_if("visible", detectable_changes(comparison));
    section.note("basis", basis(comparison));
    section
}

/// Describes the medians whose change differs from that of the quoted value; `None` if there are none.
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
    (!far.is_empty()).then(|| {
        format!("medians whose change differs from that of the value: {}", limited_list(&far))
    })
}

/// Describes the smallest changes that this comparison can detect, as a range over all figures.
fn detectable_changes(comparison: &Comparison) -> Option<String> {
    let known = comparison.pairs.iter().filter_map(|pair| Some((pair.visible?, pair)));
    let (min, of_least) = known.clone().min_by(|x, y| x.0.total_cmp(&y.0))?;
    let (max, of_most) = known.max_by(|x, y| x.0.total_cmp(&y.0))?;
    let mut range = format!("{} ({})", Fraction(min), of_least.title());
    if of_most != of_least {
        range.push_str(&format!(" to {} ({})", Fraction(max), of_most.title()));
    }
    Some(format!("nine of ten such comparisons would find a change of {range}"))
}

/// Describes the statistic that is compared, and the runs from which the run-to-run variation is estimated.
fn basis(comparison: &Comparison) -> String {
    let mut kinds: Vec<&str> = comparison.pairs.iter().map(|pair| pair.statistic).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kinds = kinds.into_iter().map(|kind| match kind {
        "best" => "the best sample of a run".to_owned(),
        "single" => "the quoted value of a run".to_owned(),
        other => format!("the {other} of a run"),
    });
    let mut text = format!("figures are {}", kinds.collect::<Vec<_>>().join(", or "));
    let bases: Vec<&str> = [
        (SpreadBasis::Runs, "the runs of A and B"),
        (SpreadBasis::History, "the runs of A and B and similar saved runs"),
        (SpreadBasis::Blocks, "blocks of alternating runs"),
    ]
    .into_iter()
    .filter(|(basis, _)| comparison.pairs.iter().any(|pair| pair.basis == Some(*basis)))
    .map(|(_, words)| words)
    .collect();
    if !bases.is_empty() {
        text.push_str(&format!("; run-to-run variation is estimated from {}", bases.join(", or ")));
    }
    text
}

/// Joins texts to a list with at most [`NAMES`] entries.
pub(crate) fn limited_list(texts: &[String]) -> String {
    let shown = &texts[..texts.len().min(NAMES)];
    // Titles that contain a comma are separated by semicolons.
    let shown = shown.join(if shown.iter().any(|text| text.contains(',')) { "; " } else { ", " });
    match texts.len().saturating_sub(NAMES) {
        0 => shown,
        n => format!("{shown} and {n} more"),
    }
}
