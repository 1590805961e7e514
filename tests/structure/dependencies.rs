//! Check that every dependency of a crate is used by its sources.

use crate::{crates, files, root};
use std::path::Path;

/// Packages whose library has another name.
const LIBRARIES: [(&str, &str); 1] = [("smbios-lib", "smbioslib")];

/// Returns the names of the dependencies in all tables of a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_table = false;
    for line in manifest.lines() {
        if let Some(table) = line.strip_prefix('[') {
            is_table = table.trim_end_matches(']').ends_with("dependencies");
        } else if is_table && let Some((name, _)) = line.split_once(['=', '.']) {
            names.push(name.trim().to_owned());
        }
    }
    names.retain(|name| !name.is_empty() && !name.starts_with('#'));
    names
}

/// Returns the sources of a crate, including those of the tests and benches in its manifest.
fn sources(folder: &Path, manifest: &str) -> String {
    let mut text = String::new();
    let mut folders = vec![folder.to_owned()];
    let paths = manifest.lines().filter_map(|line| line.strip_prefix("path = \""));
    for path in paths.filter_map(|path| path.split('"').next()) {
        let named = folder.join(path);
        folders.extend(named.parent().map(Path::to_owned));
    }
    for source in folders.iter().flat_map(|place| files(place, &["rs"])) {
        text += &std::fs::read_to_string(source).unwrap();
    }
    text
}

/// True if the text contains the name as a whole word.
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !is_part(before) && !is_part(after)
    })
}

#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    for folder in crates() {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let text = sources(&folder, &manifest);
        for name in dependencies(&manifest) {
            let library = LIBRARIES.iter().find(|(package, _)| *package == name);
            let library =
                library.map_or_else(|| name.replace('-', "_"), |(_, it)| (*it).to_owned());
            if !has_word(&text, &library) {
                unused.push(format!("{}: {name}", folder.display()));
            }
        }
    }
    assert!(unused.is_empty(), "no source uses\n{}", unused.join("\n"));
}

#[test]
fn workspace_dependencies_are_used_by_a_crate() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, table) = manifest.split_once("[workspace.dependencies]").unwrap();
    let table = table.split("\n[").next().unwrap();
    let wanted = dependencies(&format!("[dependencies]\n{table}"));
    assert!(wanted.len() > 20, "{wanted:?}");
    let mut taken: Vec<String> = Vec::new();
    for folder in crates() {
        taken.extend(dependencies(&std::fs::read_to_string(folder.join("Cargo.toml")).unwrap()));
    }
    let unused: Vec<&String> = wanted.iter().filter(|name| !taken.contains(name)).collect();
    assert!(unused.is_empty(), "no crate takes {unused:?}");
}

#[test]
fn dependency_names_are_read_from_every_table() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb-c = \"1\"\n\n\
                    [target.'cfg(unix)'.dev-dependencies]\nd = { version = \"1\" }\n[lints]\nworkspace = true\n";
    assert_eq!(dependencies(manifest), ["a", "b-c", "d"]);
    assert!(has_word("use b_c::d;", "b_c") && !has_word("use ab_c::d;", "b_c"));
}
