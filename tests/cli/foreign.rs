//! Text of other users on a terminal: it sets no title, hides nothing, and begins no line of a page.

use crate::harness::Harness;
use crate::report::golden;
use serde_json::{Value, json};

/// Text that colours, conceals, sets the title, rings the bell, begins a line and turns the direction of writing.
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

/// Returns what a command shows on a terminal, with colours.
fn shown(harness: &Harness, args: &[&str]) -> String {
    let outcome = harness.start_on_terminal(&["env", "-u", "NO_COLOR"], args).end();
    if !matches!(outcome.code, Some(0 | 1)) {
        outcome.fail("expected a page");
    }
    assert!(!outcome.stderr.is_empty(), "{args:?}");
    outcome.stderr
}

#[test]
fn text_of_records_and_names_of_files_command_no_terminal() {
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
    ];
    for exporter in nodegauge_report::export::EXPORTERS {
        let format = exporter.name();
        commands.push(vec!["report", "latest", "--output", "-", "--format", format]);
    }
    for args in commands {
        let text = shown(&harness, &args);
        let is_command = |c: char| c == '\u{7}' || c == '\u{9b}' || c == '\u{202e}';
        assert!(!text.contains(is_command), "{args:?}: {text:?}");
        // Only the sequences of nodegauge's own colours remain; none of them conceals text.
        for sequence in text.split('\u{1b}').skip(1) {
            let end = sequence.find(|c: char| !(c == '[' || c == ';' || c.is_ascii_digit()));
            assert!(sequence[..].as_bytes()[end.unwrap_or(0)] == b'm', "{args:?}: {sequence:?}");
            assert!(!sequence.starts_with("[8m"), "{args:?}: {text:?}");
        }
        // Documents for other programs contain line breaks as they are.
        let documents = ["--csv", "csv", "junit", "html", "md"];
        let is_page = !args.iter().any(|word| documents.contains(word));
        let begins = text.lines().any(|line| line.starts_with("fake"));
        assert!(!(is_page && begins), "{args:?}: {text}");
    }
}

#[test]
fn errors_about_records_have_no_line_of_the_record() {
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
