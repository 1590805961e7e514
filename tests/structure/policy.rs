//! Checks of the lint policy, of unsafe code, and of the vocabulary.

use crate::exceptions::WORDS_IN;
use crate::{crates, files, root};

/// Words that are unusual in this field, with their replacements.
const HOUSE_WORDS: &[(&str, &str)] = &[
    ("court", "shared line"),
    ("crew", "workers, panel group"),
    ("crews", "workers, panel groups"),
    ("farewell", "grace period"),
    ("fingerprint", "core-to-core latency"),
    ("ground", "region, scratch directory"),
    ("grounds", "regions, scratch directories"),
    ("heard", "output"),
    ("hello", "handshake"),
    ("manners", "timeouts"),
    ("patience", "timeout"),
    ("prover", "self-test"),
    ("rally", "ping-pong"),
    ("relatives", "latency and bandwidth curves"),
    ("somebody", "the thread, program or user that is meant"),
    ("subject", "target"),
    ("wish", "constraint"),
    ("wishes", "constraints"),
    ("workshop", "build directory"),
];

/// Returns the sources in the workspace, except these tests, with paths relative to the root of the repository.
fn sources() -> Vec<(String, String)> {
    let root = root();
    let folders = ["crates", "probes", "tests", "benches"].map(|folder| root.join(folder));
    folders
        .iter()
        .filter(|folder| folder.is_dir())
        .flat_map(|folder| files(folder, &["rs", "c", "h"]))
        .map(|file| {
            let name = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(&file).unwrap())
        })
        .filter(|(name, _)| !name.starts_with("tests/structure/"))
        .collect()
}

#[test]
fn crates_inherit_the_workspace_lints() {
    for folder in crates() {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let folder = folder.display();
        assert!(
            manifest.contains("\n[lints]\nworkspace = true\n"),
            "{folder}: no [lints] workspace"
        );
    }
}

#[test]
fn crates_without_unsafe_code_forbid_it() {
    for folder in crates() {
        let source = folder.join("src");
        let has_unsafe = files(&source, &["rs"]).iter().any(|file| {
            let text = std::fs::read_to_string(file).unwrap();
            crate::tokens::tokens(&text).iter().any(|word| word == "unsafe")
        });
        let top = ["lib.rs", "main.rs"].map(|name| source.join(name));
        let top = top.iter().find(|file| file.is_file()).unwrap();
        let forbids = std::fs::read_to_string(top).unwrap().contains("\n#![forbid(unsafe_code)]\n");
        assert!(has_unsafe || forbids, "{}: add #![forbid(unsafe_code)]", top.display());
    }
}

#[test]
fn sources_use_terms_of_the_field() {
    let mut found = Vec::new();
    let mut lines = String::new();
    for (name, text) in sources() {
        for (i, line) in text.lines().enumerate() {
            for word in words(line) {
                if let Some((_, instead)) = HOUSE_WORDS.iter().find(|(house, _)| *house == word) {
                    match WORDS_IN.iter().find(|folder| name.starts_with(**folder)) {
                        Some(folder) => found.push((*folder).to_owned()),
                        None => {
                            lines += &format!("{name}:{}: '{word}': use {instead}\n", i + 1);
                        }
                    }
                }
            }
        }
    }
    assert!(lines.is_empty(), "\n{lines}");
    compare(&found, WORDS_IN, "has unusual words");
}

/// Splits a line into words in lower case. Names in snake case and camel case are split, too.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in line.chars() {
        if !c.is_alphabetic() || (c.is_uppercase() && before.is_lowercase()) {
            words.push(String::new());
        }
        if c.is_alphabetic() {
            words.last_mut().unwrap().extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Checks that the violations found are exactly the exceptions.
fn compare(found: &[String], exceptions: &[&str], what: &str) {
    let mut wrong = String::new();
    for name in found.iter().filter(|name| !exceptions.contains(&name.as_str())) {
        wrong += &format!("{name} {what}\n");
    }
    for name in exceptions.iter().filter(|name| !found.iter().any(|found| found == *name)) {
        wrong += &format!("no longer needed in exceptions.rs: {name}\n");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn words_are_found_in_names_and_texts() {
    assert_eq!(
        words("let crewSize = CREW_size(\"a Crew's\")"),
        ["let", "crew", "size", "crew", "size", "a", "crew", "s"]
    );
}
