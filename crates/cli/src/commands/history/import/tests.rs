//! Properties of all parsers of outputs of other programs, on recorded outputs.

use super::*;
use std::collections::BTreeMap;

/// Folders of recorded outputs.
const RECORDED: [&str; 6] = [
    "stream/tests/data",
    "messages/tests/data",
    "compute/tests/outputs",
    "apps/tests/outputs",
    "files/tests/outputs",
    "devices/tests/outputs",
];
/// Output of BabelStream 3.4 to 5.0, recreated.
const BABELSTREAM: &str = "\
BabelStream
Version: 4.0
Implementation: OpenMP
Running kernels 100 times
Precision: double
Array size: 268.4 MB (=0.3 GB)
Total size: 805.3 MB (=0.8 GB)
Function    MBytes/sec  Min (sec)   Max         Average     
Copy        172342.120  0.00312     0.00391     0.00318     
Mul         169803.471  0.00316     0.00372     0.00322     
Add         185321.955  0.00435     0.00522     0.00441     
Triad       184402.310  0.00437     0.00507     0.00443     
Dot         214015.886  0.00251     0.00301     0.00257     
";

/// Returns the recorded outputs of all programs with their names.
fn recorded() -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([("BabelStream 4.0".to_owned(), BABELSTREAM.to_owned())]);
    for folder in RECORDED {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            all.insert(name, std::fs::read_to_string(path).unwrap());
        }
    }
    assert!(all.len() > 30, "{all:?}");
    all
}

/// Returns the figures of a text; `None` if it is refused.
fn read(text: &str) -> Option<Vec<Measurement>> {
    let figures = figures_of(Path::new("x"), text, &Machine::default());
    figures.ok().map(|figures| figures.measurements)
}

/// Identifies a figure among those of an output.
fn identity(m: &Measurement) -> String {
    let keys = ["message_bytes", "file_bytes", "block_bytes", "nb", "device", "peer", "job"];
    let config = keys.map(|key| m.config.get(key).cloned());
    format!("{} {} {} {config:?}", m.test, m.name, m.unit)
}

/// Checks that every valid figure of a part of a text is a figure of the whole.
fn assert_no_false_figure(name: &str, part: &str, whole: &[Measurement]) {
    let valid = |m: &&Measurement| m.validity.status == Status::Valid;
    for m in read(part).unwrap_or_default().iter().filter(valid) {
        let is_known = whole.iter().any(|w| identity(w) == identity(m) && w.value == m.value);
        let end: String =
            part.chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect();
        assert!(is_known, "{name}, cut behind {end:?}: {} {:?}", identity(m), m.value);
    }
}

#[test]
fn no_prefix_of_an_output_has_a_false_valid_figure() {
    for (name, text) in recorded() {
        let whole = read(&text).unwrap_or_default();
        for (end, _) in text.char_indices() {
            assert_no_false_figure(&name, &text[..end], &whole);
        }
    }
}
