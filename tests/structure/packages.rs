//! Checks that every crate can be published: it contains all files that its sources include, its manifest is complete,
//! and version and address occur in only one place.

use crate::{crates, files, root};
use std::path::{Component, Path, PathBuf};

/// Macros that include a file by its path relative to the source.
const INCLUDING: [&str; 3] = ["include_str!(", "include_bytes!(", "include!("];
/// Address in the manifest before a release has set another one.
const NO_ADDRESS: &str = "https://example.org/";

/// Returns a path in which `..` is resolved.
fn normal(path: &Path) -> PathBuf {
    let mut made = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            made.pop();
        } else {
            made.push(part);
        }
    }
    made
}

/// Returns the literal paths that a source includes. For a path made by `concat!`, returns its first literal.
fn included(text: &str) -> Vec<&str> {
    let starts =
        INCLUDING.iter().flat_map(|name| text.match_indices(name).map(|(at, it)| at + it.len()));
    let rest = starts.map(|at| text[at..].trim_start());
    let literals = rest.map(|rest| rest.strip_prefix("concat!(").unwrap_or(rest).trim_start());
    literals.filter_map(|literal| literal.strip_prefix('"')?.split('"').next()).collect()
}

/// Returns a table of the workspace manifest.
fn table(name: &str) -> String {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once(&format!("\n[{name}]\n")).unwrap();
    rest.split("\n[").next().unwrap().to_owned()
}

/// Returns the value of a key in a part of a manifest.
fn value<'t>(part: &'t str, key: &str) -> Option<&'t str> {
    let rest = part.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
    rest.split('"').next()
}

#[test]
fn crates_include_only_their_own_files() {
    let mut wrong = String::new();
    for folder in crates() {
        for file in files(&folder, &["rs"]) {
            let text = std::fs::read_to_string(&file).unwrap();
            for path in included(&text) {
                if !normal(&file.parent().unwrap().join(path)).starts_with(&folder) {
                    wrong += &format!("{} includes {path}\n", file.display());
                }
            }
        }
        let script = folder.join("build.rs");
        let text = std::fs::read_to_string(script).unwrap_or_default();
        if text.contains("#[path = \"..") {
            wrong +=
                &format!("{}: the build script has a source of another crate\n", folder.display());
        }
    }
    assert!(wrong.is_empty(), "a crate that leaves its folder cannot be published:\n{wrong}");
}

#[test]
fn includes_are_found_with_their_paths() {
    let text = "include_str!(\"a\"); include_bytes!(concat!(\"b\", x)); include!(\n \"c\") include_str!(concat!(env!(\"X\")))";
    assert_eq!(included(text), ["a", "b", "c"]);
    assert_eq!(normal(Path::new("/x/crates/a/src/../../b/c")), Path::new("/x/crates/b/c"));
}

#[test]
fn manifests_of_crates_are_complete() {
    for folder in crates() {
        let name = folder.display();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(value(&manifest, "description").is_some_and(|text| !text.is_empty()), "{name}");
        for key in ["version", "edition", "rust-version", "license", "repository"] {
            assert!(manifest.contains(&format!("\n{key}.workspace = true\n")), "{name}: {key}");
        }
        let readme = if name.to_string().ends_with("/cli") {
            "\nreadme = \"../../README.md\"\n"
        } else {
            "\nreadme.workspace = true\n"
        };
        assert!(manifest.contains(readme), "{name}: readme");
    }
    assert!(root().join("crates/README.md").is_file());
}

#[test]
fn crates_require_exactly_this_version_of_each_other() {
    let version = table("workspace.package");
    let version = value(&version, "version").unwrap();
    let dependencies = table("workspace.dependencies");
    let own: Vec<&str> =
        dependencies.lines().filter(|line| line.contains("path = \"crates/")).collect();
    assert!(own.len() > 20);
    for line in own {
        assert!(line.ends_with(&format!("version = \"={version}\" }}")), "{line}");
    }
}

#[test]
fn repository_address_is_only_in_the_workspace_manifest() {
    let package = table("workspace.package");
    let address = value(&package, "repository").unwrap();
    let folders = ["crates", "docs", "packaging", "scripts", ".github"].map(|it| root().join(it));
    let sources = folders.iter().filter(|folder| folder.is_dir()).flat_map(|folder| {
        files(folder, &["cff", "eb", "in", "json", "md", "py", "rb", "rs", "toml", "yaml", "yml"])
    });
    let wrong: Vec<PathBuf> = sources
        .filter(|file| std::fs::read_to_string(file).is_ok_and(|text| text.contains(address)))
        .collect();
    assert!(wrong.is_empty(), "the address of releases is also in {wrong:?}");
    assert!(address.starts_with("https://"), "{address}, or {NO_ADDRESS}… until there is one");
}
