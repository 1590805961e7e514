//! Known violations of the checks. No entry may be added, and the tests fail if an entry is no longer needed.

/// Cyclic dependencies that are permitted: crate and parent, with the modules.
pub const CYCLES: &[(&str, &[&str])] = &[];

/// Folders that may contain words of the list in `policy`.
pub const WORDS_IN: &[&str] = &[];
