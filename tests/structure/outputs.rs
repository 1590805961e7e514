//! Check of the chapters in docs: each command that prints figures or verdicts has a code block with real output.

use crate::root;

/// Chapters with the commands whose output they show.
const SHOWN: [(&str, &str); 37] = [
    ("apps", "apps hpcg"),
    ("apps", "apps iccg"),
    ("apps", "apps trapezoid"),
    ("check", "check"),
    ("compare", "compare"),
    ("compilers", "stream --compiler"),
    ("device", "device"),
    ("device", "device curves"),
    ("explain", "explain"),
    ("fleet", "fleet baseline"),
    ("fleet", "fleet diff"),
    ("fleet", "fleet rank"),
    ("fleet", "fleet script"),
    ("history", "history import"),
    ("history", "history list"),
    ("history", "history show"),
    ("hpl", "hpl"),
    ("io", "io"),
    ("machine", "doctor"),
    ("machine", "machine"),
    ("memory", "memory curves"),
    ("memory", "memory ladder"),
    ("memory", "memory latency"),
    ("memory", "memory loaded"),
    ("memory", "memory matrix"),
    ("memory", "memory mix"),
    ("memory", "memory scaling"),
    ("mpi", "mpi"),
    ("noise", "noise"),
    ("published", "stream --against"),
    ("ranks", "places"),
    ("readers", "read"),
    ("report", "report"),
    ("roofline", "roofline"),
    ("run", "run"),
    ("stream", "stream"),
    ("stream", "stream --sweep"),
];

/// True if a text has a block in which the command is followed by output.
fn shows_output(text: &str, command: &str) -> bool {
    let prompt = format!("$ nodegauge {command}");
    let mut is_fenced = false;
    let mut follows_command = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
            follows_command = false;
            continue;
        }
        let is_output = is_fenced && !line.is_empty() && !line.starts_with("$ ");
        if follows_command && is_output {
            return true;
        }
        let rest = line.strip_prefix(&prompt);
        follows_command =
            is_fenced && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    }
    false
}

#[test]
fn chapters_show_the_output_of_their_commands() {
    let mut missing = String::new();
    for (chapter, command) in SHOWN {
        let text = std::fs::read_to_string(root().join(format!("docs/{chapter}.md"))).unwrap();
        if !shows_output(&text, command) {
            missing += &format!("docs/{chapter}.md: no output of nodegauge {command}\n");
        }
    }
    assert!(missing.is_empty(), "\n{missing}");
}

#[test]
fn output_after_a_command_is_found_in_a_block() {
    let text =
        "```\n$ nodegauge mpi\n$ nodegauge io --quick\nGB/s  median\n```\n$ nodegauge hpl\ntext\n";
    assert!(shows_output(text, "io"));
    assert!(!shows_output(text, "mpi"));
    assert!(!shows_output(text, "hpl"));
    assert!(!shows_output(text, "io --q"));
}
