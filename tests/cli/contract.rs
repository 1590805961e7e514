//! Runs `contract.txt`, which has one case per line: `arguments | exit code | text`.

use crate::harness::Harness;

#[test]
fn commands_exit_and_print_as_the_contract_states() {
    let mut cases = 0;
    for line in include_str!("contract.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [args, code, text] = parts[..] else { panic!("not three parts: {line}") };
        let harness = Harness::new();
        let args = words(args);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        // On a machine with one CPU, `mpi` is refused before its options are checked.
        if (args.first(), code) == (Some(&"mpi"), "3") && !harness.has_cpus(2) {
            continue;
        }
        let outcome = harness.run(&args).exits(code.parse().unwrap());
        if !outcome.stdout.contains(text) && !outcome.stderr.contains(text) {
            outcome.fail(&format!("expected on standard output or standard error:\n{text}"));
        }
        // A refused command prints nothing to standard output.
        if ["2", "3"].contains(&code) && !outcome.stdout.is_empty() {
            outcome.fail("expected nothing on standard output");
        }
        cases += 1;
    }
    assert!(cases > 50, "{cases}");
}

/// Splits a line into words like a shell that supports only single quotes.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
