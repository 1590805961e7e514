//! Tests of `report --format`: every format of every recorded run is read by a program that supports the format, or by
//! a strict parser if none is installed.

use crate::harness::{Harness, Part, skip};
use crate::pages::{golden, record};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Text that must not become markup, a link, a mention, a cell or a label.
const HOSTILE: &str = "</td>|x|\n\n# <script>alert(1)</script> ![i](http://e.vil/x) https://e.vil www.e.vil \
                       @all a@e.vil #1 `c` \"q\" \\ \u{1b}[2J\u{0} ]]>&amp; $x$ <!-- \u{fffe}";

/// Returns the names of all recorded runs.
fn all() -> Vec<String> {
    let folder = golden("stream").parent().unwrap().parent().unwrap().to_owned();
    let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir());
    let mut names: Vec<String> =
        folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert!(names.len() > 60, "{names:?}");
    names
}

/// Returns a recorded run in a format.
#[track_caller]
fn made(harness: &Harness, name: &str, format: &str) -> String {
    let file = golden(name);
    let file = file.to_str().unwrap();
    let made = harness.run(&["report", file, "--format", format]);
    // For JUnit, invalid figures fail, so the exit code may be 1.
    if made.code != Some(0) && !(format == "junit" && made.code == Some(1)) {
        made.fail("expected a report");
    }
    made.stdout
}

/// Returns a recorded run with hostile text in every text field.
fn hostile(name: &str) -> Value {
    let mut record = record(name);
    record["machine"]["host"] = json!(HOSTILE);
    record["machine"]["processor"]["model"] = json!(HOSTILE);
    record["labels"] = json!({"nps": HOSTILE, HOSTILE: "4", "a-b": "1", "a.b": "2"});
    record["command"] = json!(["stream", HOSTILE, "```\n`````"]);
    for m in record["measurements"].as_array_mut().unwrap() {
        m["validity"] = json!({"status": "suspect", "reasons": [HOSTILE]});
        m["limit"] = json!({"value": 1e11, "basis": HOSTILE, "fraction": 0.5});
    }
    record
}

/// Returns the figures that the run measured itself.
fn own(record: &Value) -> Vec<&Value> {
    let all = record["measurements"].as_array().unwrap().iter();
    all.filter(|m| m["config"]["engine"] != "published").collect()
}

/// Sample in the text format: name, labels, value.
type Sample = (String, Vec<(String, String)>, f64);

/// Parses a line of the text format; `None` if it is invalid or has a time stamp.
fn sample(line: &str) -> Option<Sample> {
    let name: String =
        line.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let mut rest = &line[name.len()..];
    let mut labels = Vec::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (label, after) = inside.split_once("=\"")?;
            let plain = label.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next()? {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next()?.1 {
                        'n' => value.push('\n'),
                        c @ ('\\' | '"') => value.push(c),
                        _ => return None,
                    },
                    (_, c) => value.push(c),
                }
            };
            labels.push((plain.then(|| label.to_owned())?, value));
            inside = &after[end + 1..];
            match inside.strip_prefix(',') {
                Some(more) => inside = more,
                None => break rest = inside.strip_prefix('}')?,
            }
        }
    }
    Some((name, labels, rest.strip_prefix(' ')?.parse().ok()?))
}

/// Returns the samples of a document. Each must follow the type of its metric, and names and labels must be unique.
#[track_caller]
fn samples(text: &str) -> Vec<Sample> {
    let body = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {text}"));
    let (mut metric, mut listed, mut seen) = (String::new(), BTreeSet::new(), BTreeSet::new());
    let mut found = Vec::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            match words[0] {
                "HELP" => {
                    metric = words[1].to_owned();
                    assert!(listed.insert(metric.clone()), "{line}: listed twice");
                    assert!(!words[2].contains(['"', '\\']), "{line}: formats differ in escapes");
                }
                "TYPE" => assert_eq!(words[1..], [metric.as_str(), "gauge"]),
                "UNIT" => {
                    assert!(words[1] == metric && metric.ends_with(&format!("_{}", words[2])))
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let sample = sample(line).unwrap_or_else(|| panic!("{line:?} is no sample"));
        let mut labels = sample.1.clone();
        labels.sort();
        let names: BTreeSet<&String> = labels.iter().map(|(name, _)| name).collect();
        assert!(
            names.len() == labels.len() && sample.0 == metric && sample.2.is_finite(),
            "{line}"
        );
        assert!(seen.insert((metric.clone(), labels)), "{line}: twice");
        found.push(sample);
    }
    found
}

/// Runs a program of `Part::Parsers` and returns its output; `None` if it is not installed.
#[track_caller]
fn parsed(harness: &Harness, words: &[&str]) -> Option<String> {
    let shown = harness.has(Part::Parsers, words[0]).then(|| harness.run_other(words, &[]))?;
    Some(shown.exits(0).stdout)
}

#[test]
fn openmetrics_contain_every_figure_of_the_record_and_can_be_parsed() {
    let harness = Harness::new();
    for name in all() {
        let text = made(&harness, &name, "openmetrics");
        harness.write(&format!("{name}.prom"), &text);
        let samples = samples(&text);
        let record = record(&name);
        let values: Vec<f64> = own(&record).iter().filter_map(|m| m["value"].as_f64()).collect();
        let is_value = |(metric, labels, _): &&Sample| {
            !metric.contains("run")
                && !metric.ends_with("validity")
                && !labels.iter().any(|(key, _)| key == "unit")
        };
        let shown: Vec<f64> = samples.iter().filter(is_value).map(|one| one.2).collect();
        let sorted = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all
        };
        assert_eq!(sorted(shown), sorted(values), "{name}");
        let judged = samples.iter().filter(|one| one.0 == "nodegauge_validity").count();
        assert_eq!(judged, own(&record).len(), "{name}");
    }
    const READ: &str = "
import glob, sys
from prometheus_client.parser import text_string_to_metric_families as text
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
for name in glob.glob('*.prom'):
    with open(name, newline='') as file:
        content = file.read()
    lines = sum(not line.startswith('#') for line in content.splitlines())
    for parse in text, openmetrics:
        read = sum(len(family.samples) for family in parse(content))
        assert read == lines, (name, parse, read, lines)
print(len(glob.glob('*.prom')))
";
    let pythons = ["/usr/bin/python3", "python3"];
    let imports = |python: &&&str| {
        let import = harness.command(python).args(["-c", "import prometheus_client"]).output();
        import.is_ok_and(|import| import.status.success())
    };
    match pythons.iter().find(imports) {
        Some(python) => {
            let read = harness.run_other(&[python, "-c", READ], &[]).exits(0);
            assert_eq!(read.stdout.trim(), all().len().to_string());
        }
        None => skip(Part::Parsers, "Python has no prometheus_client"),
    }
}

#[test]
fn metrics_come_from_the_newest_run_of_each_label_value() {
    let harness = Harness::new();
    let run = |file: &str, started: &str, nps: &str, value: f64| {
        let mut record = record("stream");
        record["started"] = json!(started);
        record["labels"] = json!({"nps": nps});
        record["measurements"][3]["value"] = json!(value);
        harness.write(file, record.to_string())
    };
    let files = [
        run("old.json", "2026-11-20T05:00:00Z", "1", 1e9),
        run("new.json", "2026-11-21T05:00:00Z", "1", 2e9),
        run("other.json", "2026-11-20T05:00:00Z", "4", 3e9),
    ];
    let words =
        [&["report"], &files.each_ref().map(String::as_str)[..], &["-f", "openmetrics"]].concat();
    let all = samples(&harness.run(&words).exits(0).stdout);
    let has =
        |one: &&Sample, key: &str, value: &str| one.1.contains(&(key.to_owned(), value.to_owned()));
    let of = |nps: &str, metric: &str| -> Vec<f64> {
        let shown = all.iter().filter(|one| one.0 == metric && has(one, "label_nps", nps));
        shown
            .filter(|one| !metric.contains("bytes") || has(one, "name", "triad"))
            .map(|one| one.2)
            .collect()
    };
    assert_eq!(of("1", "nodegauge_bytes_per_second"), [2e9]);
    assert_eq!(of("4", "nodegauge_bytes_per_second"), [3e9]);
    assert_eq!(of("1", "nodegauge_run_timestamp_seconds"), [1_795_237_200.0]);
}

#[test]
fn metrics_file_is_replaced_atomically() {
    let harness = Harness::new();
    let file = golden("stream");
    let file = file.to_str().unwrap();
    let old = harness.write("node.prom", "old\n");
    let before = std::fs::File::open(&old).unwrap();
    harness.run(&["report", file, "-f", "openmetrics", "--output", "node.prom"]).exits(0);
    // A reader that has opened the old file can still read it completely.
    assert_eq!(std::io::read_to_string(before).unwrap(), "old\n");
    assert!(!samples(&std::fs::read_to_string(old).unwrap()).is_empty());
    let rest = std::fs::read_dir(harness.path("")).unwrap().count();
    assert_eq!(rest, 1, "a temporary file is left");
}

#[test]
fn junit_has_a_test_case_per_figure_and_a_failure_per_invalid_figure() {
    let harness = Harness::new();
    let attribute = |text: &str, name: &str| -> usize {
        let (_, rest) = text.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    for name in all() {
        let text = made(&harness, &name, "junit");
        let record = record(&name);
        let invalid = own(&record).iter().filter(|m| m["validity"]["status"] == "invalid").count();
        assert_eq!(attribute(&text, "tests"), own(&record).len() + 1, "{name}");
        assert_eq!(attribute(&text, "failures"), invalid, "{name}");
        assert_eq!(attribute(&text, "errors"), usize::from(record["complete"] == false), "{name}");
        let cases: Vec<&str> =
            text.split("<testcase ").skip(1).map(|case| case.split('>').next().unwrap()).collect();
        assert_eq!(
            cases.iter().collect::<BTreeSet<_>>().len(),
            cases.len(),
            "{name}: a name twice"
        );
        harness.write(&format!("{name}.xml"), &text);
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/junit");
    let schema = format!("{folder}/junit-10.xsd");
    let check = ["sh", "-c", "cd \"$0\" && sha256sum --quiet --check SHA256SUMS", folder];
    harness.run_other(&check, &[]).exits(0);
    let names: Vec<String> = all().iter().map(|name| format!("{name}.xml")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    parsed(&harness, &[&["xmllint", "--noout", "--schema", &schema], names.as_slice()].concat());
}

#[test]
fn conditions_and_validity_determine_the_exit_code_of_report() {
    let harness = Harness::new();
    let mut record = record("stream");
    for m in record["measurements"].as_array_mut().unwrap() {
        m["validity"] = json!({"status": "valid", "reasons": []});
    }
    record["measurements"][3]["value"] = json!(8e9);
    let valid = harness.write("valid.json", record.to_string());
    record["measurements"][3]["validity"] = json!({"status": "suspect", "reasons": ["steal"]});
    let suspect = harness.write("suspect.json", record.to_string());
    record["measurements"][3]["validity"] = json!({"status": "invalid", "reasons": ["a[0] is 1"]});
    record["measurements"][3]["value"] = json!(null);
    let invalid = harness.write("invalid.json", record.to_string());
    record["complete"] = json!(false);
    record["measurements"] = json!([]);
    let cut = harness.write("cut.json", record.to_string());
    let met = ["--expect", "triad>=1GB/s"];
    let unmet = ["--expect", "triad>=9GB/s"];
    for (file, options, code, failures) in [
        (&valid, &[][..], 0, 0),
        (&valid, &met, 0, 0),
        (&valid, &unmet, 1, 1),
        (&suspect, &[], 0, 0),
        (&suspect, &["--strict"], 1, 1),
        (&suspect, &met, 1, 1),
        (&suspect, &[met[0], met[1], "--accept-suspect"], 0, 0),
        (&invalid, &[], 1, 1),
        (&cut, &[], 1, 0),
        (&cut, &met, 1, 1),
    ] {
        let report =
            |format: &str| harness.run(&[&["report", file, "-f", format], options].concat());
        let tests = report("junit").exits(code);
        let found = tests.stdout.matches("<failure ").count();
        assert_eq!(found, failures, "{file} {options:?}: {}", tests.stdout);
        // For other formats, only conditions determine the exit code.
        let asked = !options.is_empty();
        report("openmetrics").exits(if asked { code } else { 0 });
        let ticket = report("md").exits(if asked { code } else { 0 }).stdout;
        assert_eq!(
            ticket.contains("**not met**"),
            options.contains(&"--expect") && code == 1,
            "{ticket}"
        );
    }
    let both =
        harness.run(&["report", &valid, &invalid, "-f", "junit", unmet[0], unmet[1]]).exits(1);
    assert_eq!(both.stdout.matches("<testsuite ").count(), 2);
    both.warns("expected triad >= 9 GB/s");
}

#[test]
fn hostile_texts_are_escaped_in_metrics_and_text_and_junit_and_markdown() {
    let harness = Harness::new();
    let file = harness.write("hostile.json", hostile("run").to_string());
    let report = |format: &str| {
        let path = format!("hostile.{format}");
        harness.run(&["report", &file, "-f", format, "--output", &path]).exits(0);
        std::fs::read_to_string(harness.path(&path)).unwrap()
    };
    let shown = samples(&report("openmetrics"));
    let labels: BTreeSet<&str> = shown[0].1.iter().map(|(name, _)| name.as_str()).collect();
    assert!(
        ["label_a_b", "label_a_b_2", "label_nps"].iter().all(|name| labels.contains(name)),
        "{labels:?}"
    );
    let text = report("text");
    assert!(!text.contains(['\u{1b}', '\u{0}']), "{text}");
    let junit = report("junit");
    assert!(!junit.contains("<script") && !junit.contains(['\u{1b}', '\u{fffe}']), "{junit}");
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/junit/junit-10.xsd");
    parsed(&harness, &["xmllint", "--noout", "--schema", schema, "hostile.junit"]);
    let markdown = report("md");
    let (body, _) = markdown.split_once("### again").unwrap();
    assert!(!body.contains(['<', '>']) && !markdown.contains(['\u{1b}', '\u{0}']), "{markdown}");
    let dialect = ["table", "autolink", "strikethrough"].map(|name| ["-e", name]).concat();
    let words = [&["cmark-gfm", "--unsafe"], dialect.as_slice(), &["hostile.md"]].concat();
    if let Some(html) = parsed(&harness, &words) {
        let (again, command) = html.split_once("<pre").unwrap();
        for element in ["<a ", "<img", "<script", "<code", "<!--", "<h1", "<td>x"] {
            assert!(!again.contains(element), "{element} in {html}");
        }
        assert!(command.ends_with("</code></pre>\n") && !command.contains("<pre"), "{html}");
    }
}

#[test]
fn markdown_tables_are_well_formed() {
    let harness = Harness::new();
    for name in all() {
        let text = made(&harness, &name, "md");
        // In this format, columns that contain only bars are left out.
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        let lines: Vec<&str> = text.lines().collect();
        let rows = |at: usize| lines[at..].iter().take_while(|line| line.starts_with('|'));
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("| ---")) {
            assert!(
                rows(at).all(|row| cells(row) == cells(lines[at - 1])),
                "{name}: {}",
                lines[at - 1]
            );
        }
        let host = record(&name)["machine"]["host"].as_str().map(|host| format!(" on {host}"));
        assert!(
            text.contains(&host.unwrap_or_default()) && text.contains("\n### again\n"),
            "{name}: {text}"
        );
    }
    let text = made(&harness, "run", "md");
    let row = "| memory: Triad, best | **6.384 GB/s** | ? | no limit is known | suspect: nearly every pass";
    for part in [row, "\n### findings\n", "\n- **processor**: ", "\nnodegauge run --samples 3"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    harness.write("run.md", &text);
    if let Some(html) = parsed(&harness, &["cmark-gfm", "-e", "table", "run.md"]) {
        let rules = text.lines().filter(|line| line.starts_with("| ---")).count();
        assert_eq!(html.matches("<table>").count(), rules, "{html}");
    }
}

#[test]
fn jsonl_records_can_be_imported() {
    let harness = Harness::new();
    let files = ["stream", "mpi", "io"].map(|name| golden(name).to_str().unwrap().to_owned());
    let words = [
        &["report"],
        &files.each_ref().map(String::as_str)[..],
        &["-f", "jsonl", "--output", "all.jsonl"],
    ];
    harness.run(&words.concat()).exits(0);
    let text = std::fs::read_to_string(harness.path("all.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, ["stream", "mpi", "io"].map(record));
    harness.run(&["history", "import", "all.jsonl"]).exits(0);
    // A label selects the newest run with this label.
    harness.run(&["history", "label", lines[0]["id"].as_str().unwrap(), "nps=4"]).exits(0);
    let labelled = harness.run(&["report", "nps=4", "-f", "jsonl"]).exits(0).json();
    assert_eq!((&labelled["id"], &labelled["labels"]["nps"]), (&lines[0]["id"], &json!("4")));
}

#[test]
fn csv_equals_the_recorded_file_and_text_equals_history_show() {
    let harness = Harness::new();
    for name in all() {
        let recorded = std::fs::read_to_string(golden(&name).with_file_name("record.csv"));
        assert_eq!(made(&harness, &name, "csv"), recorded.unwrap(), "{name}");
    }
    for name in ["run", "mpi"] {
        let shown = harness.run(&["history", "show", golden(name).to_str().unwrap(), "-v"]);
        assert_eq!(made(&harness, name, "text"), shown.exits(0).stdout, "{name}");
    }
    let files = ["stream", "run"].map(|name| golden(name).to_str().unwrap().to_owned());
    let both = harness.run(&["report", &files[0], &files[1], "-f", "text"]).exits(0);
    both.prints("2 runs side by side").prints("triad");
    harness
        .run(&["report", &files[0], &files[0], "-f", "text"])
        .exits(2)
        .warns("name the same run");
}

#[test]
fn bigger_is_better_and_smaller_is_better_figures_have_separate_lists() {
    let harness = Harness::new();
    for name in all() {
        let file = golden(&name);
        let words = ["report", file.to_str().unwrap(), "-f", "github-action-benchmark", "--output"];
        let record = record(&name);
        let has_value = |m: &&&Value| m["value"].is_number() && m["unit"] != "x";
        let values = own(&record).iter().filter(has_value).count();
        let out = format!("{name}.json");
        let made = harness.run(&[&words[..], &[&out]].concat());
        if values == 0 {
            made.exits(2).warns("no figure has a unit for which higher or lower is better");
            continue;
        }
        made.exits(0);
        let list = |direction: &str| -> Vec<Value> {
            let text = std::fs::read_to_string(harness.path(&format!("{name}-{direction}.json")));
            text.map_or(Vec::new(), |text| serde_json::from_str(&text).unwrap())
        };
        let (bigger, smaller) = (list("bigger"), list("smaller"));
        assert_eq!(bigger.len() + smaller.len(), values, "{name}");
        assert!(bigger.iter().all(|one| one["unit"] != "us"), "{name}");
        assert!(smaller.iter().all(|one| one["unit"] == "us"), "{name}");
        let both = || bigger.iter().chain(&smaller);
        let names: BTreeSet<&str> = both().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), values, "{name}: a name twice");
        for one in both() {
            let range =
                one["range"].as_str().map(|range| range.strip_prefix("± ").unwrap().parse::<f64>());
            assert!(
                one["value"].is_f64() && range.is_none_or(|range| range.is_ok()),
                "{name}: {one}"
            );
        }
    }
    let file = golden("mpi");
    let file = file.to_str().unwrap();
    harness
        .run(&["report", file, "-f", "github-action-benchmark"])
        .exits(2)
        .warns("--output NAME.json writes NAME-bigger.json and NAME-smaller.json");
    let record_file = golden("stream");
    let shown = harness
        .run(&["report", record_file.to_str().unwrap(), "-f", "github-action-benchmark"])
        .exits(0)
        .json();
    assert_eq!(shown[3]["name"], "stream triad");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn golden_and_hostile_records_are_exported_in_all_formats() {
        let harness = Harness::new();
        let hostile_file = harness.write("hostile.json", hostile("run").to_string());
        let mut files: Vec<String> =
            all().iter().map(|name| golden(name).to_str().unwrap().to_owned()).collect();
        files.push(hostile_file);
        for exporter in nodegauge_report::export::EXPORTERS {
            let format = exporter.name();
            for file in &files {
                let path = format!("written.{format}");
                let outcome = harness.run(&["report", file, "--format", format, "--output", &path]);
                let is_expected = match outcome.code {
                    Some(0) => true,
                    Some(1) => exporter.reports_failures(),
                    // Lists of benchmarks cannot contain a record in which no figure has a better direction.
                    Some(2) => outcome.stderr.starts_with(
                        "error: no figure has a unit for which higher or lower is better",
                    ),
                    _ => false,
                };
                if !is_expected {
                    outcome.fail(&format!("expected a report in the format {format}"));
                }
            }
        }
    }
}
