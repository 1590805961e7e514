//! Properties that all parsers of other programs' outputs must have, tested with recorded outputs.

use crate::gauges::{GAUGES, chapters};
use nodegauge_gauge::readers::{self, GivenRunProperties, ReadContext};
use nodegauge_measure::record::{Machine, Measurement, Status};
use std::collections::{BTreeMap, BTreeSet};

#[path = "../../../../../../tests/recorded.rs"]
mod recorded;

/// Returns the recorded outputs of all programs, by name.
fn recorded() -> BTreeMap<String, String> {
    let all = recorded::outputs().into_iter();
    let all: BTreeMap<String, String> =
        all.map(|(name, text)| (name, String::from_utf8(text).unwrap())).collect();
    assert!(all.len() > 30, "{all:?}");
    all
}

/// Returns a long table with only some of its rows, so that all its prefixes can be read quickly.
fn thinned(text: &str) -> String {
    const LONG: usize = 8000;
    let is_row = |line: &str| line.trim().starts_with(|c: char| c.is_ascii_digit() || c == '"');
    let lines = text.lines().enumerate();
    let kept = lines.filter(|(at, line)| text.len() < LONG || at % 6 == 0 || !is_row(line));
    kept.map(|(_, line)| format!("{line}\n")).collect()
}

/// Returns the figures in a text; `None` if the text is refused.
fn read(text: &str) -> Option<Vec<Measurement>> {
    let context =
        ReadContext { machine: &Machine::default(), known: &GivenRunProperties::default() };
    let runs = readers::read(&readers::all(&GAUGES), text, &context).ok()?;
    let read = runs.into_iter().filter_map(|run| run.printed.ok());
    let figures: Vec<Measurement> = read.flat_map(|run| run.measurements).collect();
    (!figures.is_empty()).then_some(figures)
}

/// Returns a text that identifies a figure within an output.
fn identity(m: &Measurement) -> String {
    let keys = ["message_bytes", "file_bytes", "block_bytes", "nb", "device", "peer", "job"];
    let config = keys.map(|key| m.config.get(key).cloned());
    format!("{} {} {} {config:?}", m.test, m.name, m.unit)
}

/// Values of the figures of an output, by identity.
type Identified = BTreeMap<String, Vec<Option<f64>>>;

/// Returns the values of figures, by identity.
fn identified(figures: &[Measurement]) -> Identified {
    let mut values = Identified::new();
    for m in figures {
        values.entry(identity(m)).or_default().push(m.value);
    }
    values
}

/// Returns the last characters of a text.
fn end(text: &str) -> String {
    text.chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect()
}

/// Returns a line with each number replaced by `0`, and each gap by one space.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for c in line.chars() {
        let each = match c {
            '0'..='9' => '0',
            ' ' | '\t' => ' ',
            other => other,
        };
        if !(matches!(each, '0' | ' ') && shape.ends_with(each)) {
            shape.push(each);
        }
    }
    shape
}

/// Returns the positions at which a text is cut: all positions in the first line of each shape, and the last digits and
/// the end of other lines, e.g. rows of a table.
fn cuts(text: &str) -> Vec<usize> {
    /// Number of cuts in a line whose shape has occurred before.
    const CUTS: usize = 3;
    let mut shapes = BTreeSet::new();
    let mut cuts = Vec::new();
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let places: Vec<usize> = line.char_indices().map(|(at, _)| begin + at).collect();
        let skipped =
            if shapes.insert(shape(line)) { 0 } else { places.len().saturating_sub(CUTS) };
        cuts.extend(&places[skipped..]);
        begin += line.len();
    }
    cuts
}

/// Checks that every valid figure in a part of a text is also a figure of the whole text.
fn assert_no_false_figure(name: &str, part: &str, whole: &Identified) {
    let valid = |m: &&Measurement| m.validity.status == Status::Valid;
    for m in read(part).unwrap_or_default().iter().filter(valid) {
        let is_known = whole.get(&identity(m)).is_some_and(|values| values.contains(&m.value));
        assert!(is_known, "{name}, cut behind {:?}: {} {:?}", end(part), identity(m), m.value);
    }
}

#[test]
fn truncated_output_gives_no_false_valid_figure() {
    for (name, text) in recorded() {
        let text = thinned(&text);
        let whole = identified(&read(&text).unwrap_or_default());
        for at in cuts(&text) {
            assert_no_false_figure(&name, &text[..at], &whole);
        }
    }
}

#[test]
fn every_reader_has_a_corpus() {
    const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus");
    let mut missing: BTreeSet<&str> =
        readers::all(&GAUGES).iter().map(|reader| reader.program()).collect();
    for program in std::fs::read_dir(CORPUS).unwrap().map(|entry| entry.unwrap().path()) {
        for text in std::fs::read_dir(program).into_iter().flatten() {
            let text = std::fs::read(text.unwrap().path()).unwrap();
            let text = String::from_utf8_lossy(&text);
            missing.remove(readers::recognise(&readers::all(&GAUGES), &text).unwrap_or_default());
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn history_chapter_lists_every_program() {
    const HEADER: &str = "| program | case: result |\n| --- | --- |";
    let readers = readers::all(&GAUGES);
    let rows = readers.iter().map(|one| format!("\n| {} | {} |", one.program(), one.doubts()));
    let table = format!("{HEADER}{}", rows.collect::<String>());
    chapters::assert_has("history.md", HEADER, &table, Some("\n\n"));
}
