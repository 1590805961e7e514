//! Tests of the tables of `nodegauge stream`: its own table, and the table of stream.c.

use crate::harness::{ELEMENTS, Harness};

#[test]
fn verbose_page_shows_the_rates_and_how_they_were_measured() {
    let outcome = Harness::new().stream(&["-v"]).exits(0).warns_nothing();
    let header = outcome.stdout.lines().find(|line| line.starts_with("GB/s")).unwrap();
    let words: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(
        words,
        ["GB/s", "best", "median", "5", "%", "95", "%", "of", "limit", "loop"],
        "traffic of arrays in a cache is unknown, and its column absent"
    );
    outcome
        .prints_words(" of Triad")
        .prints("\nhow ")
        .prints_words("3 arrays of 7.6 MiB")
        .prints("\nsamples ")
        .prints_words("limit 163.8 TB/s theoretical (option)")
        .prints_words("counters traffic ")
        .prints_words("name based on a variant of the STREAM benchmark code")
        .prints("\nOMP: pid ")
        .prints("\nsaved ");
}

/// Lines of stream.c's output after its heading; `#` represents a number.
const STREAM_C: &[&str] = &[
    "This system uses # bytes per array element.",
    "-------------------------------------------------------------",
    "Array size = # (elements), Offset = # (elements)",
    "Memory per array = # MiB (= # GiB).",
    "Total memory required = # MiB (= # GiB).",
    "Each kernel will be executed # times.",
    " The *best* time for each kernel (excluding the first iteration)",
    " will be used to compute the reported bandwidth.",
    "-------------------------------------------------------------",
    "Number of Threads requested = #",
    "Number of Threads counted = #",
    "-------------------------------------------------------------",
    "Your clock granularity",
    "Each test below will take on the order of # microseconds.",
    "   (= # clock ticks)",
    "Increase the size of the arrays if this shows that",
    "you are not getting at least # clock ticks per test.",
    "-------------------------------------------------------------",
    "WARNING -- The above is only a rough guideline.",
    "For best results, please be sure you know the",
    "precision of your system timer.",
    "-------------------------------------------------------------",
    "Function    Best Rate MB/s  Avg time     Min time     Max time",
    "Copy: # # # #",
    "Scale: # # # #",
    "Add: # # # #",
    "Triad: # # # #",
    "-------------------------------------------------------------",
    "Solution Validates: avg error less than #e-# on all three arrays",
    "-------------------------------------------------------------",
];

/// Returns a line with each number replaced by `#`. The columns of the table are checked separately.
fn without_figures(line: &str) -> String {
    let mut out = String::new();
    for c in line.chars() {
        if !(c.is_ascii_digit() || c == '.' && out.ends_with('#')) {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    // A full stop after the last number ends a sentence and is no decimal point.
    if line.ends_with('.') && out.ends_with('#') {
        out.push('.');
    }
    match out.split_once(": ") {
        Some((name, rest)) if rest.trim_start().starts_with('#') => {
            format!("{name}: {}", rest.split_whitespace().collect::<Vec<_>>().join(" "))
        }
        _ => out,
    }
}

#[test]
fn stream_text_has_the_lines_and_columns_of_stream_c() {
    let harness = Harness::new();
    let outcome = harness.stream(&["--stream-text"]).exits(0).warns_nothing();
    let outcome = outcome.never_prints("STREAM version").never_prints("$Revision");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let rule = "-".repeat(61);
    assert_eq!((lines[0], lines[2]), (rule.as_str(), rule.as_str()));
    assert!(lines[1].contains("based on a variant of the STREAM benchmark code"), "{}", lines[1]);
    let shapes: Vec<String> = lines[3..].iter().map(|line| without_figures(line)).collect();
    for (shape, expected) in shapes.iter().zip(STREAM_C) {
        if !(shape == expected || *expected == STREAM_C[12] && shape.starts_with(expected)) {
            outcome.fail(&format!("expected the line \"{expected}\", found \"{shape}\""));
        }
    }
    assert_eq!(shapes.len(), STREAM_C.len());
    for (name, arrays) in [("Copy:", 2), ("Scale:", 2), ("Add:", 3), ("Triad:", 3)] {
        let line = lines.iter().find(|line| line.starts_with(name)).unwrap();
        // After a name of eleven characters, stream.c prints the columns with "%s%12.1f  %11.6f  %11.6f  %11.6f".
        let column = |at: std::ops::Range<usize>| line[at].trim().parse::<f64>().unwrap();
        assert_eq!(line.len(), 62, "{line}");
        let (rate, average, least, most) =
            (column(11..23), column(25..36), column(38..49), column(51..62));
        assert!(least <= average && average <= most, "{line}");
        let bytes = (arrays * 8 * ELEMENTS) as f64;
        // Times are printed with a resolution of a microsecond.
        assert!((rate * 1e6 * least - bytes).abs() <= rate * 1e6 * 0.6e-6, "{line}");
    }
    let saved = harness.latest();
    assert_eq!(saved["measurements"].as_array().unwrap().len(), 4);
}

#[test]
fn stream_text_supports_single_precision() {
    let outcome = Harness::new().stream(&["--stream-text", "--no-save", "--element", "f32"]);
    outcome
        .exits(0)
        .prints("\nThis system uses 4 bytes per array element.\n")
        .prints("\nMemory per array = 3.8 MiB (= 0.0 GiB).\n")
        .prints("avg error less than 1.000000e-06 on all three arrays\n");
}

#[test]
fn stream_text_contains_only_requested_kernels_of_stream_c() {
    let outcome =
        Harness::new().stream(&["--stream-text", "--no-save", "--kernels", "triad,dot"]).exits(0);
    outcome.prints("\nTriad: ").never_prints("dot").never_prints("Dot").never_prints("Copy:");
}
