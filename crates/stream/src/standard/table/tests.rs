//! Tests of STREAM's table in the formats that documents use.

use super::*;

/// Rates in MB/s of the table that all forms below show.
const RATES: [f64; 4] = [18334.1898, 18035.1690, 18649.4455, 19603.8455];

/// Table with columns separated by spaces.
const PLAIN: &str = "\
Function Rate (MB/s) Avg time Min time Max time
Copy: 18334.1898 0.0280 0.0279 0.0280
Scale: 18035.1690 0.0284 0.0284 0.0285
Add: 18649.4455 0.0412 0.0412 0.0413
Triad: 19603.8455 0.0394 0.0392 0.0398
";

/// Table in Markdown, with the name and the best figure emphasised.
const MARKDOWN: &str = "\
| Function | Rate (MB/s) | Avg time | Min time | Max time |
|----------|------------:|:--------:|----------|----------|
| Copy: | 18334.1898 | 0.0280 | 0.0279 | 0.0280 |
| `Scale:` | 18035.1690 | 0.0284 | 0.0284 | 0.0285 |
| Add | 18649.4455 | 0.0412 | 0.0412 | 0.0413 |
| **Triad:** | **19603.8455** | 0.0394 | 0.0392 | 0.0398 |
";

/// Table in reStructuredText with a grid.
const GRID: &str = "\
+----------+-------------+----------+----------+----------+
| Function | Rate (MB/s) | Avg time | Min time | Max time |
+==========+=============+==========+==========+==========+
| Copy     | 18334.1898  | 0.0280   | 0.0279   | 0.0280   |
+----------+-------------+----------+----------+----------+
| Scale    | 18035.1690  | 0.0284   | 0.0284   | 0.0285   |
+----------+-------------+----------+----------+----------+
| Add      | 18649.4455  | 0.0412   | 0.0412   | 0.0413   |
+----------+-------------+----------+----------+----------+
| Triad    | 19603.8455  | 0.0394   | 0.0392   | 0.0398   |
+----------+-------------+----------+----------+----------+
";

/// Table in simple reStructuredText.
const SIMPLE: &str = "\
========  ===========  ========  ========  ========
Function  Rate (MB/s)  Avg time  Min time  Max time
========  ===========  ========  ========  ========
Copy      18334.1898   0.0280    0.0279    0.0280
Scale     18035.1690   0.0284    0.0284    0.0285
Add       18649.4455   0.0412    0.0412    0.0413
Triad     19603.8455   0.0394    0.0392    0.0398
========  ===========  ========  ========  ========
";

fn rates(text: &str) -> [f64; 4] {
    read(text).unwrap_or_else(|error| panic!("{error}:\n{text}")).lines.map(|line| line.rate.0)
}

fn refused(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-12
}

#[test]
fn all_table_formats_give_equal_figures() {
    let quoted: String = PLAIN.lines().map(|line| format!("> {line}\n")).collect();
    let fenced = format!("$ ./stream | tee log\n```text\n{PLAIN}```\nTriad is the fastest.\n");
    let spaced = PLAIN.replace('\n', "\n\n").replace("Copy:", "   Copy :");
    for text in [PLAIN, MARKDOWN, GRID, SIMPLE, &quoted, &fenced, &spaced] {
        let table = read(text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
        assert_eq!(table.lines.map(|line| line.rate.0), RATES.map(|rate| rate * 1e6), "{text}");
        assert_eq!(table.lines[3].times, [0.0394, 0.0392, 0.0398].map(Seconds));
        assert!(near(table.lines[3].step.0, 1e-4) && near(table.lines[3].rate_step.0, 100.0));
        assert!(!table.has_best_rate);
        assert_eq!(header_lines(text).len(), 1);
    }
}

#[test]
fn decimal_commas_and_thousands_marks_are_inferred() {
    let comma = PLAIN.replace('.', ",");
    let german = comma.replace("18334,1898", "18.334,1898").replace("19603", "19.603");
    let english = PLAIN.replace("18334", "18,334").replace("19603", "19,603");
    let spaces = MARKDOWN.replace('.', ",").replace("18334", "18\u{202f}334");
    let swiss = PLAIN.replace("18334", "18'334");
    for text in [&comma, &german, &english, &spaces, &swiss] {
        assert_eq!(rates(text), RATES.map(|rate| rate * 1e6), "{text}");
    }
    // Of whole rates, only the times prove the mark.
    let whole = PLAIN.replace("18334.1898", "18.334").replace('.', ",");
    let whole = whole.replace("18,334", "18.334");
    assert_eq!(rates(&whole)[0], 18334e6);
}

#[test]
fn ambiguous_numbers_are_refused() {
    let three = "\
Function Rate (MB/s) Avg time Min time Max time
Copy: 183 1,028 1,027 1,028
Scale: 183 1,028 1,028 1,028
Add: 183 1,041 1,041 1,041
Triad: 183 1,039 1,039 1,039
";
    assert_eq!(
        refused(three),
        "\"1,028\" may be a decimal number or have a thousands separator (line 2)"
    );
    assert_eq!(rates(&three.replace(',', "."))[0], 183e6);
    let mixed = PLAIN.replace("0.0394", "0,0394");
    assert_eq!(
        refused(&mixed),
        "\"0,0394\" may be a decimal number or have a thousands separator (line 5)"
    );
    for wrong in ["18,33,4.1", "18,334,1", "-18334.2", "1e5", "18334.1 MB/s", ""] {
        let text = PLAIN.replace("18334.1898", wrong);
        assert!(matches!(read(&text), Err(StreamOutputError::BadLine { line: 2, .. })), "{wrong}");
    }
}

#[test]
fn unknown_units_in_a_header_are_refused() {
    let of = |unit: &str| PLAIN.replace("(MB/s)", unit);
    assert_eq!(rates(&of("GB/s"))[0], 18334.1898e9);
    assert_eq!(rates(&of("[MiB/s]"))[0], 18334.1898 * 1048576.0);
    assert!(near(rates(&of("(GiB/s)"))[3], 19603.8455 * 1073741824.0));
    for unit in ["MFLOP/s", "(Mbit/s)", "per second, in B/s"] {
        let error = refused(&of(unit));
        assert!(error.starts_with("the rates have no known unit: ") && error.ends_with("(line 1)"));
    }
    let times = PLAIN.replace("Avg time", "Avg time (ms)");
    assert!(refused(&times).starts_with("the times are not seconds: "));
    let order = PLAIN.replace("Avg time Min time", "Min time Avg time");
    assert!(refused(&order).starts_with("the table is not that of stream.c: "));
}

#[test]
fn incomplete_or_repeated_tables_are_refused_with_line_numbers() {
    let without = MARKDOWN.replace("| Add |", "| Odd |");
    assert_eq!(refused(&without), "the table has no line for Add (its header is line 1)");
    let short = PLAIN.replace(" 0.0398", "");
    assert_eq!(
        refused(&short),
        "the table has an invalid line: \"Triad: 19603.8455 0.0394 0.0392\" (line 5)"
    );
    let twice = format!("{PLAIN}\nTriad: 29603.8455 0.0394 0.0392 0.0398\n");
    assert!(refused(&twice).contains("several lines for Triad") && refused(&twice).contains("7"));
    assert_eq!(header_lines(&format!("{PLAIN}{MARKDOWN}")), [1, 6]);
    let bare = PLAIN.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert!(matches!(read(&bare), Err(StreamOutputError::NoTable(_))));
}

#[test]
fn truncated_last_number_is_refused() {
    for end in 1..4 {
        let cut = &PLAIN[..PLAIN.len() - 1 - end];
        assert!(matches!(read(cut), Err(StreamOutputError::BadLine { line: 5, .. })), "{cut}");
    }
    assert_eq!(rates(PLAIN.trim_end()), rates(PLAIN));
}
