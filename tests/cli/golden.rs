//! Tests with golden records, one per gauge and mode, and with all documents made from them. The output for a saved
//! record must be the same on every machine.
//!
//! `UPDATE_GOLDEN=1 cargo test --test cli golden` updates the files; `git diff` then shows the changes. See
//! `tests/golden/README.md`.

use crate::fields::faults;
use crate::harness::Harness;
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Documents that are made from each record.
const DOCUMENTS: [&str; 3] = ["page.txt", "record.csv", "compare.txt"];
const RECORD: &str = "record.json";
/// Minimum number of records: one per gauge and mode.
const MIN_RECORDS: usize = 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// Returns the folders of all records, sorted by name.
fn recorded() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

fn name(folder: &Path) -> &str {
    folder.file_name().unwrap().to_str().unwrap()
}

/// Returns the documents of a record in the order of [`DOCUMENTS`], and the record as the program exports it.
fn made(record: &[u8]) -> ([String; 3], Value) {
    let harness = Harness::new();
    harness.write(RECORD, record);
    let show = ["history", "show", RECORD, "--csv", "now.csv", "--json", "now.json"];
    let page = harness.run(&show).exits(0).warns_nothing().stdout;
    let csv = std::fs::read_to_string(harness.path("now.csv")).unwrap();
    let given = std::fs::read_to_string(harness.path("now.json")).unwrap();
    let compared = harness.run(&["compare", RECORD, RECORD]);
    let compared = match compared.code {
        Some(0) => compared.warns_nothing().stdout,
        // A run without figures cannot be compared.
        _ => compared.exits(2).stderr,
    };
    ([page, csv, compared], serde_json::from_str(&given).unwrap())
}

/// Returns the different lines of two texts with context: `-` marks lines of the recorded text, `+` lines of the new
/// text.
fn difference(recorded: &str, now: &str) -> String {
    const AROUND: usize = 2;
    let (old, new): (Vec<&str>, Vec<&str>) =
        (recorded.split('\n').collect(), now.split('\n').collect());
    let shorter = old.len().min(new.len());
    let before = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let backwards = old.iter().rev().zip(new.iter().rev());
    let after = backwards
        .take_while(|(before_change, after_change)| before_change == after_change)
        .count()
        .min(shorter - before);
    let (old_end, new_end) = (old.len() - after, new.len() - after);
    let lines = |mark: &str, lines: &[&str]| -> String {
        lines.iter().map(|line| format!("{mark}{line}\n")).collect()
    };
    format!(
        "@@ line {} @@\n{}{}{}{}",
        before + 1,
        lines(" ", &old[before.saturating_sub(AROUND)..before]),
        lines("-", &old[before..old_end]),
        lines("+", &new[before..new_end]),
        lines(" ", &old[old_end..old.len().min(old_end + AROUND)]),
    )
}

/// Compares the documents of a record with its files, or updates the files. Returns the differences.
fn differences(folder: &Path, update: bool) -> Vec<String> {
    let record = std::fs::read(folder.join(RECORD)).unwrap();
    let (made, given) = made(&record);
    let mut found = Vec::new();
    let mut differs = |file: &str, before: &str, now: &str| {
        let (name, what) = (name(folder), difference(before, now));
        found.push(format!("--- tests/golden/{name}/{file}\n{what}"));
    };
    for (file, now) in DOCUMENTS.into_iter().zip(made) {
        let path = folder.join(file);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        match before == now {
            true => {}
            false if update => std::fs::write(&path, now).unwrap(),
            false => differs(file, &before, &now),
        }
    }
    let written: Value = serde_json::from_slice(&record).unwrap();
    if written != given {
        let [before, now] = [written, given].map(|document| format!("{document:#}"));
        differs(RECORD, &before, &now);
    }
    found
}

#[test]
fn output_for_each_golden_record_equals_the_golden_files() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let all = recorded();
    let found: Vec<String> = std::thread::scope(|scope| {
        let part = |part| {
            move || -> Vec<String> {
                let part: &[PathBuf] = part;
                part.iter().flat_map(|folder| differences(folder, update)).collect()
            }
        };
        let threads: Vec<_> =
            all.chunks(all.len().div_ceil(4)).map(|chunk| scope.spawn(part(chunk))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(
        found.is_empty(),
        "{} files differ (UPDATE_GOLDEN=1 writes them anew):\n{}",
        found.len(),
        found.join("\n")
    );
}

/// Returns the words of a page without charts, bars and titles of omitted columns. In a line of a chart, the ninth
/// character belongs to the axes.
fn words(page: &str) -> impl Iterator<Item = &str> {
    let is_shown_whole = |line: &&str| {
        !line.starts_with("not shown at this width")
            && !matches!(line.chars().nth(8), Some('|' | '+'))
    };
    let lines = page.lines().filter(is_shown_whole);
    lines.flat_map(str::split_whitespace).filter(|word| !word.trim_matches('#').is_empty())
}

/// Returns a text without colour sequences.
fn plain(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Returns the lines after which a page separates a number from its unit, or an option from its value.
fn torn(page: &str, columns: usize) -> Vec<&str> {
    let lines: Vec<&str> = page.lines().collect();
    let torn = lines.windows(2).filter(|pair| {
        let last = pair[0].rsplit(' ').next().unwrap_or_default();
        let next = pair[1].split_whitespace().next().unwrap_or_default();
        let unit = next.trim_end_matches([',', ';', '.', ':', ')']);
        let is_number = last.parse::<f64>().is_ok();
        let is_option =
            last.starts_with("--") && last.chars().all(|c| c == '-' || c.is_ascii_lowercase());
        // The continuation of a paragraph is indented. Otherwise the next line is a new row of a table.
        let goes_on = pair[1].starts_with("  ");
        let is_unit =
            ["GB/s", "ns", "us", "ms", "s", "KiB", "MiB", "GiB", "B", "%", "x"].contains(&unit);
        // A pair may be separated if it is longer than a line.
        let indent = pair[1].len() - pair[1].trim_start().len();
        let has_room = indent + last.len() + 1 + next.len() <= columns;
        goes_on && has_room && ((is_number && is_unit) || (is_option && !next.starts_with('-')))
    });
    torn.map(|pair| pair[0]).collect()
}

/// Records without a result, from which nothing can be concluded.
const WITHOUT_RESULT: [&str; 4] =
    ["import-hpl-failed", "import-stream-c-invalid", "stream-invalid", "stream-nothing"];

#[test]
fn pages_with_a_result_state_it_before_the_figures() {
    for folder in recorded() {
        let page = std::fs::read_to_string(folder.join(DOCUMENTS[0])).unwrap();
        // The conclusion is below the description of the node and above the figures.
        let mut parts = page.split("\n\n").skip(1);
        let result = parts.next().is_some_and(|node| !node.starts_with("result "))
            && parts.next().is_some_and(|figures| figures.starts_with("result "));
        assert_eq!(result, !WITHOUT_RESULT.contains(&name(&folder)), "{}", name(&folder));
    }
}

#[test]
fn pages_fit_narrow_and_wide_terminals_without_broken_words() {
    for folder in recorded() {
        let harness = Harness::new();
        harness.write(RECORD, std::fs::read(folder.join(RECORD)).unwrap());
        let [_, narrow, _, wide] = [60, 80, 100, 200].map(|columns: usize| {
            let width = columns.to_string();
            let show = |more: &[(&str, &str)], colour: &str| {
                let variables = [&[("COLUMNS", width.as_str())], more].concat();
                let arguments = ["history", "show", RECORD, "-v", "--color", colour];
                harness.run_with(&variables, &arguments).exits(0).stdout
            };
            let page = show(&[], "auto");
            // No colours are printed to a pipe, and colours do not change the text.
            assert!(!page.contains('\x1b'), "{}", name(&folder));
            assert_eq!(show(&[("NO_COLOR", "1")], "auto"), page, "{}", name(&folder));
            assert_eq!(plain(&show(&[], "always")), page, "{}", name(&folder));
            // A single word that is longer than a line, such as a path, is not broken.
            let too_long = page
                .lines()
                .find(|line| line.chars().count() > columns && line.trim().contains(' '));
            assert_eq!(too_long, None, "{} at {columns}", name(&folder));
            let torn = torn(&page, columns);
            assert!(torn.is_empty(), "{} at {columns}: {torn:?}", name(&folder));
            page
        });
        let whole: HashSet<&str> = words(&wide).collect();
        let broken: Vec<&str> = words(&narrow).filter(|word| !whole.contains(word)).collect();
        assert!(broken.is_empty(), "{}: {broken:?}", name(&folder));
    }
}

#[test]
fn golden_records_are_complete_and_anonymous() {
    let all = recorded();
    assert!(all.len() >= MIN_RECORDS, "{} records", all.len());
    for folder in &all {
        let name = name(folder);
        let read = |file: &str| {
            std::fs::read_to_string(folder.join(file))
                .unwrap_or_else(|error| panic!("tests/golden/{name}/{file}: {error}"))
        };
        let record: Value = serde_json::from_str(&read(RECORD)).unwrap();
        let imported = record["machine"]["source"] == "import";
        let mut expected = vec![RECORD];
        expected.extend(DOCUMENTS);
        expected.sort_unstable();
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort_unstable();
        assert_eq!(there, expected, "tests/golden/{name}");
        let host = &record["machine"]["host"];
        assert!(host == "n01" || imported && host.is_null(), "{name} was recorded on {host}");
        for file in expected {
            let foreign = ["/root", "/tmp/"].into_iter().find(|path| read(file).contains(path));
            assert_eq!(foreign, None, "tests/golden/{name}/{file}");
        }
    }
}

#[test]
fn golden_records_follow_the_schema() {
    let mut wrong = String::new();
    for folder in recorded() {
        let text = std::fs::read(folder.join(RECORD)).unwrap();
        let record: Value = serde_json::from_slice(&text).unwrap();
        for fault in faults(&record) {
            wrong.push_str(&format!("{}: {fault}\n", name(&folder)));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
