//! Tests that text of other users on a terminal cannot set the title, hide anything, or begin a line of a page.

use crate::harness::Harness;
use crate::pages::golden;
use serde_json::{Value, json};

/// Text that changes the colour, hides text, sets the title, rings the bell, begins a line and reverses the direction
/// of writing.
const HOSTILE: &str = "\u{1b}[31mred\u{1b}[8mhidden\u{1b}]0;title\u{7}\r\nfake\u{202e}\u{9b}2J";

/// Returns a recorded run with [`HOSTILE`] as host, label, command, reason, notice and finding.
fn hostile() -> Value {
    let text = std::fs::read_to_string(golden("stream")).unwrap();
    let mut record: Value = serde_json::from_str(&text).unwrap();
    record["machine"]["host"] = HOSTILE.into();
    record["command"] = json!(["stream", HOSTILE]);
    record["labels"] = json!({HOSTILE: HOSTILE, "series": HOSTILE});
    for measurement in record["measurements"].as_array_mut().unwrap() {
        measurement["validity"] = json!({"status": "suspect", "reasons": [HOSTILE]});
    }
    for list in ["notices", "findings"] {
        for entry in record[list].as_array_mut().unwrap() {
            let fields = entry.as_object_mut().unwrap();
            for field in ["text", "hint", "what", "effect", "remedy"] {
                if fields.get(field).is_some_and(Value::is_string) {
                    fields[field] = HOSTILE.into();
                }
            }
        }
    }
    record
}

/// Returns the output of a command on a terminal, with colours.
fn shown(harness: &Harness, args: &[&str]) -> String {
    let outcome = harness.start_on_terminal(&["env", "-u", "NO_COLOR"], args).end();
    if !matches!(outcome.code, Some(0 | 1)) {
        outcome.fail("expected a page");
    }
    assert!(!outcome.stderr.is_empty(), "{args:?}");
    outcome.stderr
}

#[test]
fn foreign_texts_and_file_names_are_escaped() {
    let harness = Harness::new();
    let name = "x\u{1b}[8mhid\u{7}.json";
    harness.write(name, hostile().to_string());
    let mut commands = vec![
        vec!["history", "import", name],
        vec!["history", "list"],
        vec!["history", "show", "latest", "-v"],
        vec!["compare", "latest", name],
        vec!["history", "list", "--csv"],
        vec!["history", "show", "latest", "--csv"],
        vec!["history", "show", "latest", "--json"],
        vec!["history", "export"],
        vec!["history", "label", "latest", "x=\u{1b}[8mz"],
        vec!["fleet", "rank", name],
        vec!["fleet", "rank", name, "--format", "csv"],
        vec!["fleet", "rank", name, "--format", "json"],
        vec!["fleet", "rank", name, "--format", "md"],
        vec!["fleet", "rank", name, "--format", "html"],
        vec!["fleet", "baseline", name],
        vec!["fleet", "diff", name],
    ];
    for exporter in nodegauge_report::export::EXPORTERS {
        let format = exporter.name();
        commands.push(vec!["report", "latest", "--output", "-", "--format", format]);
    }
    for args in commands {
        let text = shown(&harness, &args);
        let is_command = |c: char| c == '\u{7}' || c == '\u{9b}' || c == '\u{202e}';
        assert!(!text.contains(is_command), "{args:?}: {text:?}");
        // Only nodegauge's own colour sequences remain, and none of them hides text.
        for sequence in text.split('\u{1b}').skip(1) {
            let end = sequence.find(|c: char| !(c == '[' || c == ';' || c.is_ascii_digit()));
            assert!(sequence[..].as_bytes()[end.unwrap_or(0)] == b'm', "{args:?}: {sequence:?}");
            assert!(!sequence.starts_with("[8m"), "{args:?}: {text:?}");
        }
        // Documents for other programs contain line breaks unchanged.
        let documents = ["--csv", "csv", "junit", "html", "md"];
        let is_page = !args.iter().any(|word| documents.contains(word));
        let begins = text.lines().any(|line| line.starts_with("fake"));
        assert!(!(is_page && begins), "{args:?}: {text}");
    }
}

#[test]
fn error_about_a_record_escapes_its_text() {
    let harness = Harness::new();
    for field in ["schema", "unit"] {
        let mut record = hostile();
        match field {
            "schema" => record["schema"] = HOSTILE.into(),
            _ => record["measurements"][0]["unit"] = HOSTILE.into(),
        }
        harness.write("bad.json", record.to_string());
        for args in [&["history", "show", "bad.json"][..], &["compare", "bad.json", "bad.json"]] {
            let reported = harness.run(args).exits(2).prints_nothing().stderr;
            assert!(reported.contains("fake") && !reported.contains("\nfake"), "{reported}");
            assert!(!reported.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{reported:?}");
        }
    }
}

/// Splits a CSV document into cells (RFC 4180).
fn cells(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut is_quoted = false;
    for c in text.chars() {
        match c {
            // Within a quoted cell, a doubled quote toggles this state twice, so it remains.
            '"' => is_quoted = !is_quoted,
            ',' | '\n' if !is_quoted => found.push(String::new()),
            c => found.last_mut().unwrap().push(c),
        }
    }
    found
}

#[test]
fn csv_cells_of_all_commands_are_never_formulas() {
    let harness = Harness::new();
    let formulas =
        ["=1+1", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\u{ff1d}1+1", "\u{ff0b}1+1"];
    for (i, formula) in formulas.into_iter().enumerate() {
        let mut record = hostile();
        record["id"] = json!(format!("01KAAAAAAAAAAAAAAAAAAAAA{i:02}"));
        record["machine"]["host"] = json!(formula);
        record["command"] = json!([formula, formula]);
        record["labels"] = json!({"a": formula, formula: formula});
        for measurement in record["measurements"].as_array_mut().unwrap() {
            measurement["validity"]["reasons"] = json!([formula]);
        }
        harness.write("x.json", record.to_string());
        harness.run(&["history", "import", "x.json"]).exits(0);
        for args in [
            &["history", "list", "--csv", "-"][..],
            &["history", "show", "x.json", "--csv", "-"],
            &["report", "x.json", "-f", "csv"],
            &["compare", "x.json", "x.json", "--csv", "-"],
            &["fleet", "rank", "x.json", "--nodes", "n1", "--format", "csv"],
        ] {
            let made = harness.run(args).exits(0).stdout;
            let is_formula = |cell: &String| {
                cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\u{ff1d}', '\u{ff0b}'])
                    && cell.len() > 1
                    && cell.parse::<f64>().is_err()
            };
            let found = cells(&made).into_iter().find(is_formula);
            assert_eq!(found, None, "{args:?}: {formula:?}: {made}");
        }
    }
}
