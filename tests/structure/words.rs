//! Check of the words in names: no name contains a word that the glossary replaces.

use crate::names::without_tests;
use crate::tokens::tokens;
use crate::{crates, files, root};
use std::collections::{BTreeMap, BTreeSet};

/// Keywords that declare a function, a type, a module or a constant.
const DECLARATIONS: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "union", "mod", "const", "static"];

/// Heading of the glossary's table of words.
const HEADING: &str = "## Names in the code";

/// Number of names per crate that may still contain a replaced word. The numbers may only be lowered.
const REMAINING: &[(&str, usize)] = &[];

/// Returns the words that names must not contain, according to the glossary.
fn replaced_words(glossary: &str) -> BTreeSet<String> {
    let (_, section) = glossary.split_once(HEADING).expect("the glossary has no table of words");
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    cells.flat_map(|cell| cell.split(',')).map(|word| word.trim().to_owned()).collect()
}

/// Splits a name into its words in lower case: `LauncherJob` and `launcher_job` have two each.
fn words(name: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut after_lower = false;
    for character in name.chars() {
        let begins_word = character == '_' || (character.is_uppercase() && after_lower);
        if begins_word {
            found.push(String::new());
        }
        after_lower = character.is_lowercase();
        if character != '_' {
            found.last_mut().unwrap().extend(character.to_lowercase());
        }
    }
    found
}

/// Returns the names that a source file declares outside its tests and that contain one of the words.
fn names_with(source: &str, replaced: &BTreeSet<String>) -> Vec<String> {
    let tokens = without_tests(&tokens(source));
    let mut found = Vec::new();
    for (i, pair) in tokens.windows(2).enumerate() {
        let is_test = tokens[..i].ends_with(&["test".to_owned(), "]".to_owned()]);
        if is_test || !DECLARATIONS.contains(&pair[0].as_str()) {
            continue;
        }
        if words(&pair[1]).iter().any(|word| replaced.contains(word)) {
            found.push(pair[1].clone());
        }
    }
    found
}

#[test]
fn names_contain_no_word_that_the_glossary_replaces() {
    let glossary = std::fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let replaced = replaced_words(&glossary);
    assert!(replaced.contains("least") && replaced.len() > 5, "{replaced:?}");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in crates() {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        for file in files(&folder.join("src"), &["rs"]) {
            let is_test = file.iter().any(|part| part == "tests" || part == "tests.rs");
            if !is_test {
                let source = std::fs::read_to_string(&file).unwrap();
                found.entry(name.clone()).or_default().extend(names_with(&source, &replaced));
            }
        }
    }
    let mut wrong = String::new();
    for (name, names) in &found {
        let remaining = REMAINING.iter().find(|(crate_name, _)| crate_name == name);
        let limit = remaining.map_or(0, |(_, limit)| *limit);
        if names.len() > limit {
            wrong +=
                &format!("{name}: {} names, at most {limit}: {}\n", names.len(), names.join(" "));
        }
    }
    assert!(wrong.is_empty(), "names with words that docs/glossary.md replaces:\n{wrong}");
}

#[test]
fn replaced_words_are_found_in_names() {
    let table = format!(
        "| a | b |\n{HEADING}\n\nText.\n\n| word | instead | reason |\n| --- | --- | --- |\n\
         | of | `from` | r |\n| again, alone | a verb | r |\n"
    );
    let replaced = replaced_words(&table);
    assert_eq!(replaced.iter().collect::<Vec<_>>(), ["again", "alone", "of"]);
    let source = "fn size_of() {} struct OfRank; const OFFSET: u8 = 1; mod alone {}\n\
                  #[cfg(test)] mod tests { fn again() {} } fn prefix_offset() {}";
    assert_eq!(names_with(source, &replaced), ["size_of", "OfRank", "alone"]);
}
