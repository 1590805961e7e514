//! Density of the code: the number of closures that are bound by `let`, and of tuples that bind several variables in
//! one line. A function is better than a closure, because its name can be searched for, and because it can be tested.

use crate::{crates, files};

/// Maximum number of closures bound by `let` per 100 functions of product code. The limit may only be lowered.
const MAX_PER_HUNDRED: f64 = 2.5;

/// Maximum number of functions with more than two closures bound by `let`. The limit may only be lowered.
const MAX_DENSE_FUNCTIONS: usize = 0;

/// Returns the product code of a source file; the tests at its end are left out.
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

/// True if a line binds several variables by a tuple of their values. Patterns that may not match, as in `let ...
/// else`, do not count.
fn binds_tuple(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("let (") else { return false };
    let Some((names, _)) = rest.split_once(") = (") else { return false };
    !names.contains('(')
}

/// Product code of a file, with its path.
struct ProductFile {
    path: String,
    code: String,
}

/// Reads the product code of all crates.
fn product_files() -> Vec<ProductFile> {
    let mut all = Vec::new();
    for folder in crates() {
        for file in files(&folder.join("src"), &["rs"]) {
            let path = file.display().to_string();
            if path.ends_with("tests.rs") || path.contains("/tests/") {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            all.push(ProductFile { path, code: product(&text).to_owned() });
        }
    }
    all
}

#[test]
fn number_of_functions_with_several_closures_does_not_increase() {
    let mut dense = Vec::new();
    for file in product_files() {
        let mut function = "";
        let mut closures = 0;
        for line in file.code.lines().chain(["fn end() {"]) {
            if begins_function(line) {
                if closures > 2 {
                    dense.push(format!("{}: {function} ({closures})", file.path));
                }
                function = line.trim();
                closures = 0;
            }
            closures += usize::from(binds_closure(line));
        }
    }
    assert!(
        dense.len() == MAX_DENSE_FUNCTIONS,
        "{} functions have more than two closures bound by let, the limit is {MAX_DENSE_FUNCTIONS} and may only fall:\n{}",
        dense.len(),
        dense.join("\n")
    );
}

#[test]
fn lines_do_not_bind_variables_by_tuple() {
    let mut found = Vec::new();
    for file in product_files() {
        for line in file.code.lines().filter(|line| binds_tuple(line)) {
            found.push(format!("{}: {}", file.path, line.trim()));
        }
    }
    assert!(found.is_empty(), "one `let` a line:\n{}", found.join("\n"));
}

#[test]
fn number_of_closures_per_function_does_not_increase() {
    let mut closures = 0;
    let mut functions = 0;
    for file in product_files() {
        closures += file.code.lines().filter(|line| binds_closure(line)).count();
        functions += file.code.lines().filter(|line| begins_function(line)).count();
    }
    assert!(functions > 3000, "only {functions} functions were found");
    let per_hundred = 100.0 * closures as f64 / functions as f64;
    assert!(
        per_hundred <= MAX_PER_HUNDRED,
        "{closures} closures are bound by let in {functions} functions: {per_hundred:.1} per 100, \
         at most {MAX_PER_HUNDRED}; write functions"
    );
    assert!(
        per_hundred > MAX_PER_HUNDRED - 1.0,
        "{per_hundred:.1} per 100: lower the limit of {MAX_PER_HUNDRED}"
    );
}

#[test]
fn closures_and_functions_are_distinguished_from_other_lines() {
    for line in ["let of = |x| x + 1;", "  let mut turn = |turn: Turn| {", "let f = move || 1;"] {
        assert!(binds_closure(line), "{line}");
    }
    for line in ["let x = a || b;", "let x = 5;", "x.map(|y| y)", "let y = z.map(|a| a);"] {
        assert!(!binds_closure(line), "{line}");
    }
    for line in ["let (a, b) = (1, 2);", "    let (mut n, to) = (f(), 2);"] {
        assert!(binds_tuple(line), "{line}");
    }
    for line in ["let (a, b) = f(1);", "let (Some(a), Some(b)) = (x, y) else {", "let a = (1, 2);"]
    {
        assert!(!binds_tuple(line), "{line}");
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
