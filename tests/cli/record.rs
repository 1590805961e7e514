//! Tests of the examples in `docs/record.md`, which are run.

use crate::harness::{Harness, Part, skip};

/// Returns the examples in a language, in their order.
fn examples(language: &str) -> Vec<&'static str> {
    let page = include_str!("../../docs/record.md");
    let blocks = page.split("\n```").skip(1).step_by(2);
    let found: Vec<&str> =
        blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect();
    assert_eq!(found.len(), 2, "{language}");
    found
}

/// Creates a harness with a history of one run, for the examples.
fn place() -> Harness {
    let harness = Harness::new();
    harness.stream(&["--label", "nps=4"]).exits(0);
    harness
}

/// Runs an example and returns its output.
fn printed(harness: &Harness, words: &[&str]) -> String {
    let program = std::path::Path::new(crate::program::path());
    let folder = program.parent().unwrap().to_str().unwrap();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    harness.run_other(words, &[("PATH", &path)]).exits(0).warns_nothing().stdout
}

#[test]
fn documented_jq_examples_print_the_figures_of_a_run() {
    let harness = place();
    if !harness.has(Part::Jq, "jq") {
        return;
    }
    let [figures, triads] = examples("sh")[..] else { unreachable!() };
    let figures = printed(&harness, &["sh", "-c", figures]);
    let names: Vec<&str> = figures.lines().map(|line| line.split('\t').nth(1).unwrap()).collect();
    assert_eq!(names, ["copy", "scale", "add", "triad"], "{figures}");
    let triads = printed(&harness, &["sh", "-c", triads]);
    assert_eq!(triads.lines().count(), 1, "{triads}");
    assert!(triads.contains(",\"4\","), "{triads}");
}

#[test]
fn documented_python_examples_print_the_figures_of_a_run() {
    let harness = place();
    if !harness.has(Part::Python, "python3") {
        return;
    }
    let [plain, pandas] = examples("python")[..] else { unreachable!() };
    let plain = printed(&harness, &["python3", "-c", plain]);
    assert!(plain.starts_with("{'copy': ") && plain.contains("'nps': '4'"), "{plain}");
    let there = harness.command("python3").args(["-c", "import pandas"]).output().unwrap();
    if !there.status.success() {
        return skip(Part::Pandas, "there is no pandas");
    }
    let pandas = printed(&harness, &["python3", "-c", pandas]);
    assert!(pandas.contains("triad") && pandas.contains("best"), "{pandas}");
}
