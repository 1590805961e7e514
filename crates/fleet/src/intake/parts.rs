//! Parts of large files. Several threads read them, so that a file with ten thousand records is never completely in
//! memory.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Maximum size of an input in bytes, as for `history import`.
const LONGEST: u64 = 1 << 30;
/// Approximate size of a part in bytes.
const PART: u64 = 4 << 20;
/// Size in bytes of the window in which a search for the start of a document takes place.
const WINDOW: u64 = 64 << 10;

/// File, or part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InputPart {
    pub(super) path: PathBuf,
    /// True if the user named the file.
    pub(super) is_named: bool,
    /// Range of the part in bytes; `None` for the whole file.
    range: Option<Range<u64>>,
}

impl InputPart {
    /// Reads the content.
    pub(super) fn content(&self) -> io::Result<Vec<u8>> {
        match &self.range {
            Some(range) => nodegauge_os::read_range(&self.path, range.clone()),
            None if self.is_named => nodegauge_os::read_input(&self.path, LONGEST),
            // A folder may contain a pipe or a device, which must not block the reading.
            None => nodegauge_os::read_file(&self.path, LONGEST),
        }
    }
}

/// Returns the parts of a file. Only a large regular file that begins with a JSON object is split.
pub(super) fn list_inputs(path: &Path, is_named: bool) -> Vec<InputPart> {
    let whole = InputPart { path: path.to_owned(), is_named, range: None };
    let length = match std::fs::metadata(path) {
        Ok(about) if about.is_file() && path != Path::new("-") => about.len(),
        _ => 0,
    };
    if !(2 * PART..=LONGEST).contains(&length) {
        return vec![whole];
    }
    match boundaries(path, length) {
        Ok(at) => {
            let ranges = at.windows(2).map(|pair| Some(pair[0]..pair[1]));
            ranges.map(|range| InputPart { range, ..whole.clone() }).collect()
        }
        // The error is reported when the file is read.
        Err(_) => vec![whole],
    }
}

/// Returns the start positions of the parts of a file, and its end.
fn boundaries(path: &Path, length: u64) -> io::Result<Vec<u64>> {
    let mut found = vec![0];
    let start = nodegauge_os::read_range(path, 0..WINDOW.min(length))?;
    if start.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        let mut from = PART;
        while from < length {
            let window = nodegauge_os::read_range(path, from..(from + WINDOW).min(length))?;
            match next_document(&window) {
                Some(at) => {
                    found.push(from + at as u64);
                    from += PART;
                }
                // Windows overlap, so that one of them contains the end of a document together with the start of the
                // next one.
                None => from += WINDOW / 2,
            }
        }
    }
    found.push(length);
    Ok(found)
}

/// Returns the position of the first brace that begins a line and also a document.
fn next_document(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(line) = text[from..].windows(2).position(|pair| pair == b"\n{") {
        let brace = from + line + 1;
        if is_start(&text[..brace]) {
            return Some(brace);
        }
        from = brace;
    }
    None
}

/// True if a `{` at the start of the next line begins a new document. Inside a document, the text before it ends with
/// `,`, `:` or `[`.
fn is_start(before: &[u8]) -> bool {
    let last = before.iter().rev().find(|byte| !byte.is_ascii_whitespace());
    last.is_some_and(|byte| !b",:[".contains(byte))
}

/// Splits a text into JSON documents. Text after a document belongs to this document.
pub(super) fn split_documents(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut from = 0;
    while let Some(line) = text[from..].find('\n') {
        let next = from + line + 1;
        if text[next..].starts_with('{') && is_start(&text.as_bytes()[..next]) {
            found.push(&text[start..next]);
            start = next;
        }
        from = next;
    }
    found.push(&text[start..]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_begin_at_outermost_braces() {
        let list = "{\"a\": [\n{\"b\": 1},\n{\"b\":\n{}}\n]}";
        let half = "{\"a\": 1, \"b";
        let text = format!("{list}\n{half}\n{list}\r\n{{}}\nbye\n");
        let parts = split_documents(&text);
        let trimmed: Vec<&str> = parts.iter().map(|part| part.trim_end()).collect();
        assert_eq!(trimmed, [list, half, list, "{}\nbye"]);
        assert_eq!(parts.concat(), text);
    }

    #[test]
    fn large_file_is_split_at_documents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.jsonl");
        let line = format!("{{\"text\": \"{}\"}}\n", "x".repeat(100_000));
        let count = 4 * PART as usize / line.len();
        std::fs::write(&path, line.repeat(count)).unwrap();
        let parts = list_inputs(&path, true);
        assert!(parts.len() >= 3, "{parts:?}");
        let read: Vec<String> =
            parts.iter().map(|part| String::from_utf8(part.content().unwrap()).unwrap()).collect();
        assert!(read.iter().all(|part| part.starts_with('{') && part.ends_with("}\n")));
        assert_eq!(read.concat(), line.repeat(count));
        // Small files and files in other formats are read as a whole.
        std::fs::write(&path, format!("n1: {}", line.repeat(count))).unwrap();
        assert_eq!(list_inputs(&path, true).len(), 1);
        std::fs::write(&path, &line).unwrap();
        assert_eq!(
            list_inputs(&path, true),
            [InputPart { path: path.clone(), is_named: true, range: None }]
        );
    }
}
