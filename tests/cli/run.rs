//! Tests of `nodegauge` and `nodegauge run`, which print one page.

use crate::harness::{Harness, Outcome, measurements};
use serde_json::Value;

/// Runs `run` with a small time budget, and with a theoretical bandwidth that no memory reaches.
fn page(harness: &Harness, args: &[&str]) -> Outcome {
    let common = ["--samples", "3", "--budget", "3", "--dimms", "1024x20000"];
    harness.run(&[args, &common[..]].concat()).exits(0).warns_nothing()
}

#[test]
fn run_prints_one_page_and_saves_the_record() {
    let harness = Harness::new();
    let outcome = page(&harness, &["run"]);
    // On a busy machine, there are further findings and reasons for doubt; in a virtual machine, there are regimes.
    let of_node = ["trust ", "suspect ", "critical ", "warning ", "regime"];
    let is_of_node = |paragraph: &[&str]| of_node.iter().any(|word| paragraph[0].starts_with(word));
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    // The second line of the explanation of a term is not indented.
    let is_legend = |line: &str| line.starts_with("regime: ");
    let paragraphs =
        lines.chunk_by(|line, next| next.starts_with("           ") || is_legend(line));
    let count: usize =
        paragraphs.filter(|paragraph| !is_of_node(paragraph)).map(<[&str]>::len).sum();
    if count > 54 {
        outcome.fail("expected 54 lines at most, four of them for the result");
    }
    // The line with a path is not wrapped.
    for line in outcome.stdout.lines().filter(|line| !line.starts_with("saved ")) {
        if line.chars().count() > 80 {
            outcome.fail(&format!("wider than 80 columns: {line}"));
        }
    }
    let outcome = outcome.prints("nodegauge 0").prints("\nmachine ").prints("\nhow ");
    let outcome = outcome.prints_words("name based on a variant of the STREAM benchmark code");
    let outcome = outcome.prints("\nfiles ");
    for kernel in ["copy", "scale", "add", "triad"] {
        let row = outcome.stdout.lines().find(|line| line.starts_with(&format!("{kernel} ")));
        assert!(row.is_some_and(|row| row.contains(" % ")), "{kernel}");
    }
    let record = harness.latest();
    two_findings_are_shown_and_the_others_counted(&outcome, &record);
    let memory: Vec<&str> = measurements(&record)
        .iter()
        .filter(|m| m["gauge"] == "memory")
        .map(|m| m["name"].as_str().unwrap())
        .collect();
    assert_eq!(memory, ["copy", "scale", "add", "triad"]);
    let has_files = measurements(&record).iter().any(|m| m["gauge"] == "files");
    assert!(has_files, "files have their part: {:#}", record["notices"]);
    let (id, database) =
        (record["id"].as_str().unwrap(), harness.arg(".local/share/nodegauge/history.db"));
    let outcome = outcome.prints_words(&format!("saved {id} in {database}"));
    crate::history::shown_as_printed(&harness, &outcome);
    let all = harness.run(&["history", "show", "latest", "-v"]).exits(0).stdout;
    assert!(all.lines().count() > outcome.stdout.lines().count() + 10, "{all}");
}

#[track_caller]
fn two_findings_are_shown_and_the_others_counted(outcome: &Outcome, record: &Value) {
    let found = record["findings"].as_array().unwrap();
    let grave = found.iter().filter(|finding| finding["severity"] != "info").count();
    let begins = |line: &&str| line.starts_with("critical  ") || line.starts_with("warning   ");
    let shown = outcome.stdout.lines().filter(begins).count();
    assert_eq!(shown, grave.min(2), "{found:#?}");
    let more = match found.len() - shown {
        1 => "1 more with its remedy: nodegauge doctor".to_owned(),
        n => format!("{n} more with their remedies: nodegauge doctor"),
    };
    let outcome = outcome.clone();
    if found.len() > shown {
        outcome.prints_words(&more)
    } else {
        outcome.never_prints("more with their remedies")
    };
}

#[test]
fn quick_and_full_options_exclude_each_other() {
    Harness::new().run(&["run", "--quick", "--full"]).exits(2).warns("cannot be used with");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn program_without_a_command_prints_a_page_and_saves_a_record() {
        let harness = Harness::new();
        page(&harness, &[]).prints("\nmachine ").prints("\nsaved ");
        let record = harness.latest();
        assert_eq!(record["complete"], true);
    }

    #[test]
    fn environment_variables_are_honoured_and_recorded() {
        let harness = Harness::new();
        let args = ["run", "--samples", "2", "--budget", "0.5", "--dimms", "1024x20000"];
        let variables = [("OMP_NUM_THREADS", "1"), ("XDG_DATA_HOME", &harness.arg("data"))];
        // If the program runs as root, the folder must exist.
        std::fs::create_dir(harness.path("data")).unwrap();
        harness.run_with(&variables, &args).exits(0).prints("1 thread bound");
        assert!(harness.path("data/nodegauge/history.db").exists());
        let record = harness
            .run_with(&variables[1..], &["history", "show", "latest", "--json"])
            .exits(0)
            .json();
        assert!(record["notices"].to_string().contains("OMP_NUM_THREADS=1 honoured"));
    }
}
