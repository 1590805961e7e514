//! Density of the code: closures that are bound by `let`. A function says more than such a closure, has a name that a
//! search finds, and can be tested.

use crate::{crates, files};

/// Maximum number of closures bound by `let` per 100 functions of product code. The limit may only fall.
const MOST_PER_HUNDRED: f64 = 6.5;

/// Returns the product code of a source: without its tests at the end.
fn product(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

/// True if a line begins a closure that is bound by `let`.
fn binds_closure(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("let ") else { return false };
    let rest = rest.trim_start_matches("mut ");
    let Some((name, value)) = rest.split_once('=') else { return false };
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ' ';
    let value = value.trim_start().trim_start_matches("move ");
    name.chars().all(is_name) && value.starts_with('|')
}

/// True if a line begins a function.
fn begins_function(line: &str) -> bool {
    let line = line.trim_start();
    let line = line.replace("pub(crate) ", "pub ").replace("pub(super) ", "pub ");
    let mut words = line.split_whitespace();
    let is_qualifier =
        |word: &str| ["pub", "const", "unsafe", "async", "extern", "\"C\""].contains(&word);
    words.find(|word| !is_qualifier(word)) == Some("fn")
}

#[test]
fn closures_bound_by_let_become_fewer() {
    let mut closures = 0;
    let mut functions = 0;
    for folder in crates() {
        for file in files(&folder.join("src"), &["rs"]) {
            let path = file.display().to_string();
            if path.ends_with("tests.rs") || path.contains("/tests/") {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            let code = product(&text);
            closures += code.lines().filter(|line| binds_closure(line)).count();
            functions += code.lines().filter(|line| begins_function(line)).count();
        }
    }
    assert!(functions > 3000, "only {functions} functions were found");
    let per_hundred = 100.0 * closures as f64 / functions as f64;
    assert!(
        per_hundred <= MOST_PER_HUNDRED,
        "{closures} closures are bound by let in {functions} functions: {per_hundred:.1} per 100, \
         at most {MOST_PER_HUNDRED}; write functions"
    );
    assert!(
        per_hundred > MOST_PER_HUNDRED - 1.0,
        "{per_hundred:.1} per 100: lower the limit of {MOST_PER_HUNDRED}"
    );
}

#[test]
fn closures_and_functions_are_told_from_other_lines() {
    for line in ["let of = |x| x + 1;", "  let mut turn = |turn: Turn| {", "let f = move || 1;"] {
        assert!(binds_closure(line), "{line}");
    }
    for line in ["let x = a || b;", "let x = 5;", "x.map(|y| y)", "let y = z.map(|a| a);"] {
        assert!(!binds_closure(line), "{line}");
    }
    for line in
        ["fn of(x: u8) {", "    pub(crate) const fn of() {", "unsafe fn raw(", "pub fn a<T>("]
    {
        assert!(begins_function(line), "{line}");
    }
    for line in ["let fn_ = 1;", "// fn of(", "called(fn_of)"] {
        assert!(!begins_function(line), "{line}");
    }
}
