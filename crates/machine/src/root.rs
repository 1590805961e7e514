//! Root directory of `/proc` and `/sys`: `/` on a live machine, a recorded tree in tests. All reads of the kernel's
//! files use this root.
//!
//! Functions return `None` for a file that is missing, unreadable or malformed. The value is then unknown; callers
//! must not conclude that a setting is good.

use std::borrow::Borrow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Root directory of the kernel's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysRoot(PathBuf);

impl SysRoot {
    /// Returns the root of this machine.
    pub fn live() -> Self {
        Self(PathBuf::from("/"))
    }

    /// Returns the root of a recorded machine.
    pub fn recorded(tree: impl Into<PathBuf>) -> Self {
        Self(tree.into())
    }

    /// True for the machine on which the program runs; only then system calls and measurements are possible.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Returns the path of `file`, which is relative to the root, with or without a leading slash.
    pub fn path(&self, file: &str) -> PathBuf {
        self.0.join(file.trim_start_matches('/'))
    }

    /// True if `file` exists.
    pub fn exists(&self, file: &str) -> bool {
        self.path(file).exists()
    }

    /// Returns the text of `file` without leading and trailing white space.
    pub fn text(&self, file: &str) -> Option<String> {
        let bytes = self.bytes(file)?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Returns the text of `file`; `None` if the file is empty.
    pub(crate) fn non_empty_text(&self, file: &str) -> Option<String> {
        self.text(file).filter(|text| !text.is_empty())
    }

    /// Returns the numbers in `file`, which contains a kernel list such as `0-3,8`.
    pub fn numbers(&self, file: &str) -> Option<Vec<u32>> {
        list(&self.text(file)?)
    }

    /// Returns the bytes of `file`.
    pub fn bytes(&self, file: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path(file)).ok()
    }

    /// Returns the value in `file`; `None` if the content has another form.
    pub fn value<T: FromStr>(&self, file: &str) -> Option<T> {
        self.text(file)?.parse().ok()
    }

    /// Returns the sorted names in `folder`; empty if the folder cannot be read.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(folder)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}

/// Returns the number that follows `key` in lines of the form `KEY VALUE` or `KEY: VALUE kB`; a value in kB is
/// converted to bytes.
pub(crate) fn number_after_key(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        let mut words = rest.strip_prefix(':').unwrap_or(rest).split_whitespace();
        // A line with a longer key that begins with `key` is skipped.
        if !rest.starts_with([':', ' ', '\t']) {
            return None;
        }
        let number: u64 = words.next()?.parse().ok()?;
        Some(if words.next() == Some("kB") { number << 10 } else { number })
    })
}

/// Parses a kernel list such as `0-3,8,10-11`; `None` if it is invalid.
pub fn list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.parse().ok()?;
        let last: u32 = last.parse().ok()?;
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// Formats numbers in the kernel's range notation, sorted and without duplicates, e.g. `0-3,8`. The result is empty if
/// there are no numbers.
pub fn number_ranges<N: Borrow<u32>>(numbers: impl IntoIterator<Item = N>) -> String {
    let mut sorted: Vec<u32> = numbers.into_iter().map(|number| *number.borrow()).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|a, b| b - a == 1);
    let parts = runs.filter_map(|run| match (run.first()?, run.last()?) {
        (first, last) if first == last => Some(first.to_string()),
        (first, last) => Some(format!("{first}-{last}")),
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keyed_numbers_in_kb_are_converted_to_bytes() {
        let text =
            "MemTotal:       24684084 kB\nMemFree: 1 kB\nHugePages_Total:       3\nnr_periods 7";
        assert_eq!(number_after_key(text, "MemTotal"), Some(24_684_084 << 10));
        assert_eq!(number_after_key(text, "HugePages_Total"), Some(3));
        assert_eq!(number_after_key(text, "nr_periods"), Some(7));
        assert_eq!(number_after_key(text, "Mem"), None);
        assert_eq!(number_after_key(text, "SwapTotal"), None);
    }

    #[test]
    fn kernel_lists_are_parsed() {
        assert_eq!(list("0-2,8,10-11\n"), Some(vec![0, 1, 2, 8, 10, 11]));
        assert_eq!(list(""), Some(vec![]));
        assert_eq!(list("0-x"), None);
        assert_eq!(number_ranges([11, 0, 1, 2, 8, 10, 1]), "0-2,8,10-11");
    }

    #[test]
    fn values_of_missing_files_are_unknown() {
        let root = SysRoot::recorded("/nonexistent");
        assert!(!root.is_live());
        assert_eq!(root.text("proc/meminfo"), None);
        assert_eq!(root.value::<u64>("/proc/sys/vm/swappiness"), None);
        assert!(root.names("sys").is_empty());
    }

    proptest! {
        #[test]
        fn kernel_lists_round_trip(mut numbers in proptest::collection::vec(0u32..5000, 0..40)) {
            let printed = number_ranges(numbers.iter().copied());
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(list(&printed), Some(numbers));
        }
    }
}
