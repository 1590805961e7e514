//! Graph of the uses between the modules of a crate. It is derived from paths: in `use` declarations, in code, in macro
//! arguments, and in attributes (`value_parser = crate::a::parse`, `with = "crate::a"`). Paths are resolved through
//! `crate::`, `super::`, `self::`, imported names, and re-exports (a re-exported item belongs to the module that
//! defines it).
//!
//! Method calls on values, and expansions of macros from other crates, are not detected. Code under `#[cfg(test)]` is
//! ignored. Modules are named by their full paths (`lu::panel`; the root is empty).

use crate::files;
use crate::tokens::tokens;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Modules of a crate.
#[derive(Debug, Default)]
pub struct Graph {
    modules: BTreeMap<String, Module>,
}

#[derive(Debug, Default)]
struct Module {
    /// Imported names with their paths.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths of `use a::b::*`.
    globs: Vec<Vec<String>>,
    /// Names of the items that the module defines.
    items: BTreeSet<String>,
    /// All complete paths in the module.
    paths: Vec<Vec<String>>,
}

/// Maximum number of re-exports that are followed. A larger number means a cycle.
const MAX_HOPS: u32 = 16;

impl Graph {
    /// Reads the sources of the crate in this folder.
    pub fn of_crate(folder: &Path) -> Self {
        let source = folder.join("src");
        let mut graph = Self::default();
        for file in files(&source, &["rs"]) {
            let inside = file.strip_prefix(&source).unwrap().with_extension("");
            let mut names: Vec<&str> = inside.iter().map(|name| name.to_str().unwrap()).collect();
            if names.contains(&"tests") {
                continue;
            }
            if matches!(names.last(), Some(&("lib" | "main" | "mod"))) {
                names.pop();
            }
            graph.read(&names.join("::"), &std::fs::read_to_string(&file).unwrap());
        }
        graph
    }

    /// Adds the source of a module.
    pub fn read(&mut self, module: &str, source: &str) {
        let words = tokens(source);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.read_block(module, &words);
    }

    fn read_block(&mut self, name: &str, words: &[&str]) {
        let mut module = self.modules.remove(name).unwrap_or_default();
        let mut inner: Vec<(String, &[&str])> = Vec::new();
        let mut i = 0;
        while i < words.len() {
            let after = |n: usize| words.get(i + n).copied().unwrap_or("");
            match words[i] {
                "#" => {
                    let open = if after(1) == "!" { i + 2 } else { i + 1 };
                    let end = closing(words, open);
                    let attribute = &words[open..end];
                    if attribute.starts_with(&["[", "cfg", "(", "test"]) {
                        i = end_of_item(words, end);
                    } else {
                        // Paths in attributes count as paths in code.
                        module.paths.extend(attribute.iter().filter_map(|word| path_in_text(word)));
                        i = open + 1;
                    }
                }
                "use" => {
                    let end = i + words[i..].iter().take_while(|word| **word != ";").count();
                    module.read_use(&words[i + 1..end]);
                    i = end;
                }
                "mod" if after(2) == "{" => {
                    let end = closing(words, i + 2);
                    inner.push((join(name, after(1)), &words[i + 3..end - 1]));
                    i = end;
                }
                "fn" | "struct" | "enum" | "union" | "trait" | "const" | "static" | "type" => {
                    module.items.insert(after(1).to_owned());
                    i += 2;
                }
                word if is_name(word)
                    && after(1) == "::"
                    && (i == 0 || !matches!(words[i - 1], "::" | ".")) =>
                {
                    let mut path = vec![word.to_owned()];
                    while words.get(i + 1) == Some(&"::")
                        && words.get(i + 2).is_some_and(|next| is_name(next))
                    {
                        path.push(words[i + 2].to_owned());
                        i += 2;
                    }
                    module.paths.push(path);
                    i += 1;
                }
                _ => i += 1,
            }
        }
        self.modules.insert(name.to_owned(), module);
        for (child, block) in inner {
            self.read_block(&child, block);
        }
    }

    /// Returns the names of the modules.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.modules.keys().map(String::as_str)
    }

    /// Returns the uses between modules, except between ancestors and descendants.
    pub fn edges(&self) -> BTreeSet<(String, String)> {
        let mut edges = BTreeSet::new();
        for (name, module) in &self.modules {
            let paths = module.paths.iter().chain(module.imports.values()).chain(&module.globs);
            for path in paths {
                if let Some((target, _)) = self.resolve(name, path, MAX_HOPS)
                    && !is_within(&target, name)
                    && !is_within(name, &target)
                {
                    edges.insert((name.clone(), target));
                }
            }
        }
        edges
    }

    /// Resolves a path in `module`. Returns the module to which it leads, and the rest of the path, i.e. an item and
    /// its members. Returns `None` for paths of other crates and for local names.
    fn resolve(&self, module: &str, path: &[String], hops: u32) -> Option<(String, Vec<String>)> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => (String::new(), Vec::new()),
            "self" => (module.to_owned(), Vec::new()),
            "super" => (parent(module).to_owned(), Vec::new()),
            name => self.look_up(module, name, hops)?,
        };
        self.walk(start, rest, hops)
    }

    fn walk(
        &self,
        (mut at, mut left): (String, Vec<String>),
        rest: &[String],
        hops: u32,
    ) -> Option<(String, Vec<String>)> {
        for (i, name) in rest.iter().enumerate() {
            if !left.is_empty() {
                left.extend_from_slice(&rest[i..]);
                return Some((at, left));
            }
            if name == "super" {
                at = parent(&at).to_owned();
            } else if let Some(found) = self.look_up(&at, name, hops) {
                (at, left) = found;
            } else {
                left.push(name.clone());
            }
        }
        Some((at, left))
    }

    /// Resolves a name in a module: a child, an item, an import, or an item from a glob import.
    fn look_up(&self, module: &str, name: &str, hops: u32) -> Option<(String, Vec<String>)> {
        let hops = hops.checked_sub(1)?;
        let known = self.modules.get(module)?;
        let child = join(module, name);
        if self.modules.contains_key(&child) {
            return Some((child, Vec::new()));
        }
        if known.items.contains(name) {
            return Some((module.to_owned(), vec![name.to_owned()]));
        }
        if let Some(path) = known.imports.get(name) {
            // In a module named csv, `use csv::Reader` refers to the crate of this name.
            return if path.first().is_some_and(|first| first == name) && path.len() == 1 {
                None
            } else {
                self.resolve(module, path, hops)
            };
        }
        known.globs.iter().find_map(|glob| {
            let (from, left) = self.resolve(module, glob, hops)?;
            (left.is_empty() && from != module).then(|| self.look_up(&from, name, hops))?
        })
    }
}

impl Module {
    fn read_use(&mut self, tree: &[&str]) {
        let mut found = Vec::new();
        read_tree(tree, &mut Vec::new(), &mut found);
        for (path, name) in found {
            match name.as_str() {
                "*" => self.globs.push(path),
                _ => {
                    self.paths.push(path.clone());
                    self.imports.insert(name, path);
                }
            }
        }
    }
}

/// Adds the paths of a `use` tree, each with the imported name; the name of a glob is `*`.
fn read_tree(tree: &[&str], prefix: &mut Vec<String>, found: &mut Vec<(Vec<String>, String)>) {
    let depth = prefix.len();
    let mut i = 0;
    while i < tree.len() {
        match tree[i] {
            "{" => {
                let end = closing(tree, i);
                let mut start = i + 1;
                let mut at = start;
                while at < end {
                    match tree[at] {
                        "{" => at = closing(tree, at),
                        "," => {
                            read_tree(&tree[start..at], &mut prefix.clone(), found);
                            at += 1;
                            start = at;
                        }
                        _ => at += 1,
                    }
                }
                read_tree(&tree[start..end - 1], &mut prefix.clone(), found);
                prefix.truncate(depth);
                return;
            }
            "*" => {
                found.push((prefix.clone(), "*".to_owned()));
                return;
            }
            "as" => {
                found.push((prefix.clone(), tree[i + 1].to_owned()));
                return;
            }
            "self" if !prefix.is_empty() => i += 1,
            "::" => i += 1,
            name => {
                prefix.push(name.to_owned());
                i += 1;
            }
        }
    }
    if let Some(last) = prefix.last().cloned() {
        found.push((prefix.clone(), last));
    }
}

/// Returns the position after the bracket that closes the bracket at `open`.
fn closing(words: &[&str], open: usize) -> usize {
    let mut depth = 0usize;
    for (i, word) in words.iter().enumerate().skip(open) {
        match *word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    words.len()
}

/// Returns the position after the item that begins at `start`, i.e. after its body or its semicolon.
fn end_of_item(words: &[&str], start: usize) -> usize {
    let mut i = start;
    let ends_with_semicolon =
        words[start..].iter().take(4).any(|word| matches!(*word, "use" | "static"));
    while i < words.len() {
        match words[i] {
            ";" => return i + 1,
            "{" if !ends_with_semicolon => return closing(words, i),
            "(" | "[" | "{" => i = closing(words, i),
            _ => i += 1,
        }
    }
    i
}

/// Parses a string literal as a path, e.g. `"crate::a::b"` in attributes of serde; `None` for other texts.
fn path_in_text(word: &str) -> Option<Vec<String>> {
    let names = word.strip_prefix('"')?.strip_suffix('"')?.split("::");
    let names: Vec<String> = names.map(str::to_owned).collect();
    let is_path =
        |name: &String| is_name(name) && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (names.len() > 1 && names.iter().all(is_path)).then_some(names)
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// True if `module` is `ancestor` or one of its descendants.
fn is_within(module: &str, ancestor: &str) -> bool {
    ancestor.is_empty()
        || module
            .strip_prefix(ancestor)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn paths_are_found_in_attributes_and_arguments_of_macros() {
    let mut graph = Graph::default();
    graph.read("", "mod a; mod b; mod c; mod d; mod e;");
    graph.read(
        "a",
        "#![allow(clippy::x)] #[derive(Debug)] struct S { #[arg(long, value_parser = crate::b::parse)] x: u8 }",
    );
    graph.read(
        "b",
        "use super::c; #[arg(value_parser = c::read::<u8>, help = \"see crate::a\")] fn parse() {}",
    );
    graph.read("c", "#[serde(with = \"crate::d\", rename = \"crate: a\")] pub fn read() {}");
    graph.read("d", "fn f() { println!(\"crate::a {}\", crate::e::VALUE); } #[cfg(test)] #[x(crate::a::y)] mod tests {}");
    graph.read(
        "e",
        "pub const VALUE: u8 = 1; #[cfg(test)] mod tests { #[arg(x = crate::a::z)] fn g() {} }",
    );
    let edges: Vec<String> = graph.edges().iter().map(|(a, b)| format!("{a}->{b}")).collect();
    assert_eq!(edges, ["a->b", "b->c", "c->d", "d->e"]);
}

#[test]
fn paths_are_followed_through_imports_and_re_exports() {
    let mut graph = Graph::default();
    graph.read(
        "",
        "mod a; mod b; mod c; mod d; mod e; pub use b::{Bee, inner::Deep as Sunk}; pub use c::*;",
    );
    graph
        .read("a", "use crate::{Bee, other::x}; use super::d::{self, f}; fn g() { d::down::h(); }");
    graph.read("b", "pub struct Bee; pub mod inner { pub struct Deep; }");
    graph.read("c", "pub fn sea() { crate::Sunk::new() } #[cfg(test)] mod tests { use crate::a; }");
    graph.read("d", "pub mod down; pub fn f() { std::fs::read(\"crate::a\") }");
    graph.read("d::down", "use super::f; pub fn h() { crate::sea() }");
    graph.read(
        "e",
        "impl crate::a::Trait for X {} #[cfg(test)] use crate::c::{x}; fn f() { crate::b::f() }",
    );
    let edges: Vec<String> = graph.edges().iter().map(|(a, b)| format!("{a}->{b}")).collect();
    assert_eq!(edges, ["a->b", "a->d", "a->d::down", "c->b::inner", "d::down->c", "e->a", "e->b"]);
}
