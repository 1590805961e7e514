//! Check of type names: public types have distinct names, and a name that every gauge could use occurs only once.

use crate::tokens::tokens;
use crate::{crates, files, root};
use std::collections::BTreeMap;

/// Keywords that declare a type.
const DECLARATIONS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Names that every gauge could give to a type. At most one type in the workspace may have each of them, including
/// private types.
const IDEAS: [&str; 8] =
    ["Run", "Cell", "Figure", "Memory", "Place", "Order", "Candidate", "Evidence"];

/// Names that several types may have, with the reasons.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// Declaration of a type.
#[derive(Debug, PartialEq)]
struct Declaration {
    name: String,
    is_public: bool,
}

/// Returns the declarations of types in a source file, without associated types, tests and aliases within functions.
fn declarations(source: &str) -> Vec<Declaration> {
    let words = without_tests(&tokens(source));
    let mut found = Vec::new();
    let mut depth = 0_usize;
    // Depths at which modules were opened. The items of these modules count as items of the file.
    let mut modules = vec![0_usize];
    for (i, word) in words.iter().enumerate() {
        match word.as_str() {
            "{" => {
                depth += 1;
                let opens_module = i >= 2 && words[i - 2] == "mod";
                if opens_module {
                    modules.push(depth);
                }
            }
            "}" => {
                if modules.last() == Some(&depth) && depth > 0 {
                    modules.pop();
                }
                depth = depth.saturating_sub(1);
            }
            keyword if DECLARATIONS.contains(&keyword) && modules.last() == Some(&depth) => {
                let Some(name) = words.get(i + 1) else { continue };
                if !name.starts_with(char::is_uppercase) {
                    continue;
                }
                let before = if i > 0 && words[i - 1] == "unsafe" { i - 1 } else { i };
                let is_public = before > 0 && words[before - 1] == "pub";
                found.push(Declaration { name: name.clone(), is_public });
            }
            _ => {}
        }
    }
    found
}

/// Returns the tokens without those of test modules.
pub fn without_tests(words: &[String]) -> Vec<String> {
    const TESTS: [&str; 8] = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let mut left = Vec::new();
    let mut i = 0;
    while i < words.len() {
        let is_tests = words[i..].iter().zip(TESTS).filter(|(word, test)| word == test).count();
        if is_tests < TESTS.len() {
            left.push(words[i].clone());
            i += 1;
            continue;
        }
        i += TESTS.len() + 1;
        if words.get(i).is_some_and(|word| word == "{") {
            i = end_of_block(words, i);
        }
    }
    left
}

/// Returns the position after the block that opens at `start`.
fn end_of_block(words: &[String], start: usize) -> usize {
    let mut depth = 0;
    for (i, word) in words.iter().enumerate().skip(start) {
        match word.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    words.len()
}

/// Returns the names that occur in several declarations although they must be unique, with their files.
fn homonyms(sources: &[(String, String)]) -> Vec<(String, Vec<String>)> {
    let mut public: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut ideas: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, source) in sources {
        for declaration in declarations(source) {
            if IDEAS.contains(&declaration.name.as_str()) {
                ideas.entry(declaration.name).or_default().push(file.clone());
            } else if declaration.is_public {
                public.entry(declaration.name).or_default().push(file.clone());
            }
        }
    }
    public.into_iter().chain(ideas).filter(|(_, files)| files.len() > 1).collect()
}

#[test]
fn public_types_have_distinct_names() {
    let root = root();
    let mut sources = Vec::new();
    for folder in crates() {
        for file in files(&folder.join("src"), &["rs"]) {
            let is_tests = file.file_name().is_some_and(|name| name == "tests.rs");
            if !is_tests {
                let name = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                sources.push((name, std::fs::read_to_string(&file).unwrap()));
            }
        }
    }
    assert!(sources.len() > 100, "the sources are not where they are looked for");
    let found = homonyms(&sources);
    let mut wrong = String::new();
    for (name, files) in &found {
        if !EXCEPTIONS.iter().any(|(exception, _)| exception == name) {
            wrong += &format!("{name}: {}\n", files.join(", "));
        }
    }
    for (exception, _) in EXCEPTIONS {
        if !found.iter().any(|(name, _)| name == exception) {
            wrong += &format!("no longer needed: {exception}\n");
        }
    }
    assert!(wrong.is_empty(), "several types have one name:\n{wrong}");
}

#[test]
fn homonyms_are_found() {
    let source = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let sources = [
        source(
            "a.rs",
            "pub struct Shape; struct Own; struct Order; impl T for U { type Output = u8; }",
        ),
        source(
            "b.rs",
            "pub(crate) enum Shape { A } mod inner { pub type Size = u8; } trait Own {}",
        ),
        source("c.rs", "pub unsafe trait Size {} enum Order {} fn f() { struct Shape; }"),
        source("d.rs", "#[cfg(test)] mod tests { pub struct Size; } type Order = u8;"),
    ];
    let found = homonyms(&sources);
    let names: Vec<(&str, usize)> =
        found.iter().map(|(name, files)| (name.as_str(), files.len())).collect();
    assert_eq!(names, [("Size", 2), ("Order", 3)]);
}
