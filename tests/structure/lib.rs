//! Tests of the source files themselves. They have no dependencies, so they run in seconds: `cargo test -p
//! nodegauge-structure`.
//!
//! `graph` finds the uses between the modules of a crate, and `tokens` splits Rust sources into tokens for it. Known
//! violations are listed in `exceptions`. The tests fail if an entry is no longer needed, so the list can only shrink.

#![forbid(unsafe_code)]
#![cfg(test)]

mod benchmarks;
mod cycles;
mod density;
mod dependencies;
mod exceptions;
mod graph;
mod names;
mod outputs;
mod packages;
mod policy;
mod security;
mod thresholds;
mod tokens;
mod units;
mod waits;
mod words;

use std::path::{Path, PathBuf};

/// Returns the root of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap().to_owned()
}

/// Returns the folders of the crates, sorted.
fn crates() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .collect();
    folders.sort();
    assert!(folders.len() > 5, "the crates are not in the expected folder");
    folders
}

/// Returns the files below a folder that have one of `extensions`, sorted.
fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extensions));
        } else if path.extension().is_some_and(|end| extensions.iter().any(|e| end == *e)) {
            found.push(path);
        }
    }
    found.sort();
    found
}
