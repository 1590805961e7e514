//! Properties of all parsers of outputs of other programs, on recorded outputs.

use super::*;
use nodegauge_measure::record::Measurement;
use std::collections::BTreeMap;

/// Folders of recorded outputs.
const RECORDED: [&str; 7] = [
    "stream/tests/data",
    "../tests/cli/texts/stream",
    "messages/tests/data",
    "compute/tests/outputs",
    "apps/tests/outputs",
    "files/tests/outputs",
    "devices/tests/outputs",
];
/// Returns the recorded outputs of all programs with their names.
fn recorded() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for folder in RECORDED {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            all.insert(name, thinned(&std::fs::read_to_string(path).unwrap()));
        }
    }
    assert!(all.len() > 30, "{all:?}");
    all
}

/// Returns a long table with only some of its rows, so that all of its parts can be read in little time.
fn thinned(text: &str) -> String {
    const LONG: usize = 8000;
    let is_row = |line: &str| line.trim().starts_with(|c: char| c.is_ascii_digit() || c == '"');
    let lines = text.lines().enumerate();
    let kept = lines.filter(|(at, line)| text.len() < LONG || at % 6 == 0 || !is_row(line));
    kept.map(|(_, line)| format!("{line}\n")).collect()
}

/// Returns the figures of a text; `None` if it is refused.
fn read(text: &str) -> Option<Vec<Measurement>> {
    let context = ReadContext { machine: &Machine::default(), known: &KnownRun::default() };
    readers::read(&readers::all(&GAUGES), text, &context).ok().map(|run| run.measurements)
}

/// Identifies a figure among those of an output.
fn identity(m: &Measurement) -> String {
    let keys = ["message_bytes", "file_bytes", "block_bytes", "nb", "device", "peer", "job"];
    let config = keys.map(|key| m.config.get(key).cloned());
    format!("{} {} {} {config:?}", m.test, m.name, m.unit)
}

/// Values of the figures of an output by identity.
type Identified = BTreeMap<String, Vec<Option<f64>>>;

/// Returns the values of figures by identity.
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

/// Checks that every valid figure of a part of a text is a figure of the whole.
fn assert_no_false_figure(name: &str, part: &str, whole: &Identified) {
    let valid = |m: &&Measurement| m.validity.status == Status::Valid;
    for m in read(part).unwrap_or_default().iter().filter(valid) {
        let is_known = whole.get(&identity(m)).is_some_and(|values| values.contains(&m.value));
        assert!(is_known, "{name}, cut behind {:?}: {} {:?}", end(part), identity(m), m.value);
    }
}

#[test]
fn prefixes_of_outputs_have_no_false_valid_figures() {
    for (name, text) in recorded() {
        let whole = identified(&read(&text).unwrap_or_default());
        for (at, _) in text.char_indices() {
            assert_no_false_figure(&name, &text[..at], &whole);
        }
    }
}
