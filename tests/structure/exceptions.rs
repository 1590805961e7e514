//! Known violations. No entries may be added, and an entry that is no longer needed fails the tests.

/// Modules that depend on each other, by crate and parent.
pub const CYCLES: &[(&str, &[&str])] = &[];

/// Folders that still contain words of the list in `policy`.
pub const WORDS_IN: &[&str] = &[];
