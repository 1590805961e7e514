//! Check of the table of thresholds in docs/method.md: each value equals that of its constant in the sources, and
//! constants next to a listed constant are listed, too.

use crate::names::without_tests;
use crate::root;
use crate::tokens::tokens;
use std::collections::BTreeMap;

/// Shares and factors in these files that are not thresholds: factors of a formula, shares of the time, and widths of
/// charts.
const NO_THRESHOLDS: [&str; 8] = [
    "crates/analysis/src/slow.rs: QN_FACTOR",
    "crates/analysis/src/slow.rs: MIN_SPREAD",
    "crates/arena/src/location.rs: MIN_THREAD_HELD_SHARE",
    "crates/curves/src/levels.rs: MIN_SCATTER",
    "crates/measure/src/schedule/halving.rs: SIGMA_OVER_MAD",
    "crates/stream/src/ablation.rs: MEMORY_SHARE",
    "crates/team/src/timed.rs: TICK_NANOS",
    "crates/team/src/timed.rs: MIN_STOLEN_SHOWN",
];
/// Types of constants that are shares or factors.
const SHARES: [&str; 2] = ["f64", "Fraction"];
/// Units of the values in the table, with their factors.
const UNITS: [(&str, f64); 11] = [
    ("%", 0.01),
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("h", 3600.0),
    ("KiB", 1024.0),
    ("MiB", 1024.0 * 1024.0),
    ("GiB", 1024.0 * 1024.0 * 1024.0),
    ("GHz", 1e9),
    ("MHz", 1e6),
];
/// Constructors in the sources, with the factors of their arguments.
const CONSTRUCTORS: [(&str, f64); 13] = [
    ("Bytes::gib", 1024.0 * 1024.0 * 1024.0),
    ("Bytes::kib", 1024.0),
    ("Bytes::mib", 1024.0 * 1024.0),
    ("Duration::from_micros", 1e-6),
    ("Duration::from_millis", 1e-3),
    ("Duration::from_secs", 1.0),
    ("Fraction", 1.0),
    ("Hertz", 1.0),
    ("EliminationRule::KeepAll", 1.0),
    ("Seconds", 1.0),
    ("Some", 1.0),
    ("", 1.0),
    ("Bytes", 1.0),
];

/// Row of the table.
#[derive(Debug)]
struct Threshold {
    /// Numbers in the column `value`, in base units.
    values: Vec<f64>,
    /// Path of the source file.
    file: String,
    /// Name of the constant or function. For a field, it is followed by a full stop and the key of the field.
    name: String,
}

/// Returns the numbers in a table cell in base units: `25 %, at most 2.5 s` gives 0.25 and 2.5.
fn numbers(cell: &str) -> Vec<f64> {
    let words: Vec<&str> = cell.split_whitespace().collect();
    let mut found = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let digits = word.trim_end_matches([',', ';', ':']).replace(',', "");
        let Ok(number) = digits.parse::<f64>() else { continue };
        let unit = words.get(i + 1).map_or("", |next| next.trim_end_matches([',', ';', ':']));
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map_or(1.0, |(_, by)| *by);
        found.push(number * factor);
    }
    found
}

/// Returns the rows of the tables with the columns threshold, value, constant and source.
fn rows(text: &str) -> Vec<Threshold> {
    let mut found = Vec::new();
    let mut is_in_table = false;
    for line in text.lines() {
        if line == "| threshold | value | constant | source |" {
            is_in_table = true;
            continue;
        }
        is_in_table &= line.starts_with('|');
        if !is_in_table || line.starts_with("| --- ") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{line}");
        assert!(!cells[3].is_empty(), "no source: {line}");
        let constant = cells[2].trim_matches('`');
        let (file, name) = constant.split_once(": ").unwrap();
        let values = numbers(cells[1]);
        assert!(!values.is_empty(), "no value: {line}");
        found.push(Threshold { values, file: file.to_owned(), name: name.to_owned() });
    }
    found
}

/// Returns the tokens of a declaration, from `start` to the `;` or `}` at its end.
fn declaration(words: &[String], start: usize) -> &[String] {
    let mut depth = 0_i32;
    for (i, word) in words.iter().enumerate().skip(start) {
        match word.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        let ends = word == ";" || word == "}";
        if depth == 0 && ends {
            return &words[start..i];
        }
    }
    &words[start..]
}

/// Returns the tokens of the expression at `start`, up to the comma, semicolon or bracket that ends it.
fn expression(words: &[String], start: usize) -> &[String] {
    let mut depth = 0_i32;
    for (i, word) in words.iter().enumerate().skip(start) {
        match word.as_str() {
            "," | ";" if depth == 0 => return &words[start..i],
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" if depth == 0 => return &words[start..i],
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
    }
    &words[start..]
}

/// Finds the expression of a constant, of one of its fields (`STREAM.min`) or rows (`TESTS.mem`), or of an arm of a
/// function (`tolerance.F64`).
fn found_expression<'a>(words: &'a [String], name: &str) -> Option<&'a [String]> {
    let (item, key) = name.split_once('.').unwrap_or((name, ""));
    let at = words.windows(2).position(|pair| {
        let declares = pair[0] == "const" || pair[0] == "fn";
        declares && pair[1] == item
    })?;
    let body = declaration(words, at);
    if key.is_empty() {
        let equals = body.iter().position(|word| word == "=")?;
        return Some(&body[equals + 1..]);
    }
    let quoted = format!("\"{key}\"");
    let key_at = body.iter().position(|word| word == key || *word == quoted)?;
    let separator = body.get(key_at + 1)?;
    let is_arm = separator == "=" && body.get(key_at + 2)? == ">";
    let start = key_at + if is_arm { 3 } else { 2 };
    Some(expression(body, start))
}

/// Returns the numbers in an expression in base units; `None` if it contains more than constructors, literals, `*`, `/`
/// and `<<`.
fn evaluated(expression: &str) -> Option<Vec<f64>> {
    if let Ok(number) = expression.replace('_', "").parse() {
        return Some(vec![number]);
    }
    if let Some((constructor, arguments)) =
        expression.strip_suffix(')').and_then(|rest| rest.split_once('('))
    {
        let (_, factor) = CONSTRUCTORS.iter().find(|(name, _)| *name == constructor)?;
        let mut found = Vec::new();
        for argument in arguments.split(",") {
            found.extend(evaluated(argument)?);
        }
        return Some(found.into_iter().map(|number| number * factor).collect());
    }
    let (left, operator, right) = ["<<", "*", "/"].iter().find_map(|operator| {
        let (left, right) = expression.rsplit_once(operator)?;
        Some((left, *operator, right))
    })?;
    let [left, right] = [evaluated(left)?[0], evaluated(right)?[0]];
    let result = match operator {
        "<<" => left * right.exp2(),
        "*" => left * right,
        _ => left / right,
    };
    Some(vec![result])
}

/// Returns the factor of the unit with which the name of a constant ends; 1 without a unit.
fn factor_of_name(name: &str) -> f64 {
    match name.rsplit('_').next() {
        Some("NANOS") => 1e-9,
        Some("MS") => 1e-3,
        _ => 1.0,
    }
}

/// Returns the values of a constant in the sources.
fn constant_values(words: &[String], name: &str) -> Option<Vec<f64>> {
    let text = found_expression(words, name)?.concat();
    let factor = factor_of_name(name);
    Some(evaluated(&text)?.into_iter().map(|number| number * factor).collect())
}

/// True if two values are equal except for rounding.
fn are_equal(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// Reads the table, and the sources that it names.
fn chapter_and_sources() -> (Vec<Threshold>, BTreeMap<String, Vec<String>>) {
    let text = std::fs::read_to_string(root().join("docs/method.md")).unwrap();
    let rows = rows(&text);
    let mut sources = BTreeMap::new();
    for row in &rows {
        let path = root().join(&row.file);
        let source = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("docs/method.md: {}: {error}", row.file));
        sources.insert(row.file.clone(), without_tests(&tokens(&source)));
    }
    (rows, sources)
}

#[test]
fn thresholds_in_the_method_chapter_match_the_sources() {
    let (rows, sources) = chapter_and_sources();
    let mut wrong = String::new();
    for row in &rows {
        let values = constant_values(&sources[&row.file], &row.name);
        let is_equal = values.as_ref().is_some_and(|values| {
            let equal = values.iter().zip(&row.values).all(|(a, b)| are_equal(*a, *b));
            equal && values.len() == row.values.len()
        });
        if !is_equal {
            let Threshold { file, name, values: printed } = row;
            wrong +=
                &format!("{file}: {name}: docs/method.md has {printed:?}, the source {values:?}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(rows.len() > 60, "{} thresholds", rows.len());
}

#[test]
fn share_constants_of_files_with_thresholds_are_listed() {
    let (rows, sources) = chapter_and_sources();
    let mut missing = String::new();
    for (file, words) in &sources {
        for declared in words.windows(4) {
            let [keyword, name, colon, kind] = declared else { continue };
            let is_share = keyword == "const" && colon == ":" && SHARES.contains(&kind.as_str());
            let is_listed = rows.iter().any(|row| row.file == *file && row.name == *name);
            let entry = format!("{file}: {name}");
            if is_share && !is_listed && !NO_THRESHOLDS.contains(&entry.as_str()) {
                missing += &format!("{entry}\n");
            }
        }
    }
    assert!(missing.is_empty(), "add them to the table of docs/method.md:\n{missing}");
}

#[test]
fn values_of_constants_are_read() {
    let source = r#"const A: f64 = 10e-6; const DELAY_NANOS: f64 = 20_000.0; fn f() -> u8 { 0 }
        pub const STREAM: Policy = Policy { least: 20, time: (0.25, Duration::from_millis(2500)),
            tolerance: Some(Fraction(0.005)), ..OTHER };
        const TESTS: [(&str, &str, f64); 2] = [(stream::TEST, "mem", 0.04), ("io", "file", 0.20)];
        const DAY: Duration = Duration::from_secs(24 * 3600); const SIZE: u64 = 512 << 20;
        fn tolerance(element: Element) -> f64 { match element { Element::F64 => 1e-13, _ => 1.0 } }"#;
    let words = tokens(source);
    let values = |name: &str| constant_values(&words, name).unwrap();
    assert!(are_equal(values("A")[0], 1e-5));
    assert!(are_equal(values("DELAY_NANOS")[0], 2e-5));
    assert_eq!(values("STREAM.least"), [20.0]);
    assert_eq!(values("STREAM.time"), [0.25, 2.5]);
    assert_eq!(values("STREAM.tolerance"), [0.005]);
    assert_eq!(values("TESTS.file"), [0.2]);
    assert_eq!(values("DAY"), [86400.0]);
    assert_eq!(values("SIZE"), [512.0 * 1024.0 * 1024.0]);
    assert_eq!(values("tolerance.F64"), [1e-13]);
    assert_eq!(constant_values(&words, "MISSING"), None);
}

#[test]
fn numbers_in_table_cells_are_read_with_units() {
    assert_eq!(numbers("25 %, at most 2.5 s"), [0.25, 2.5]);
    assert_eq!(numbers("at least 1,000,000"), [1e6]);
    assert_eq!(numbers("1 GiB"), [1024.0 * 1024.0 * 1024.0]);
    assert_eq!(numbers("4 x"), [4.0]);
}
