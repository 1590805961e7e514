//! Removal of what surrounds the output of a program: indentation and colours.

use std::borrow::Cow;

/// Removes the white space that all lines begin with, e.g. of an output that was quoted in a report.
pub(super) fn without_indentation(text: &str) -> Cow<'_, str> {
    let first = text.lines().next().unwrap_or_default();
    let mut indentation = &first[..first.len() - first.trim_start().len()];
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        while !line.starts_with(indentation) {
            let shorter = indentation.char_indices().next_back().map_or(0, |(at, _)| at);
            indentation = &indentation[..shorter];
        }
        if indentation.is_empty() {
            return Cow::Borrowed(text);
        }
    }
    let mut plain = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        plain.push_str(line.strip_prefix(indentation).unwrap_or(line));
    }
    Cow::Owned(plain)
}

/// Removes the escape sequences that colour text in a terminal.
pub(super) fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.as_bytes().contains(&ESCAPE) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split(char::from(ESCAPE));
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let rest = part.strip_prefix('[').unwrap_or(part);
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).map_or(rest.len(), |at| at + 1);
        plain.push_str(&rest[end..]);
    }
    Cow::Owned(plain)
}

/// First character of an escape sequence.
const ESCAPE: u8 = 0x1b;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_removed() {
        assert_eq!(without_colours("a\u{1b}[1;37m52\u{1b}[0mb"), "a52b");
        assert_eq!(without_colours("a52b"), "a52b");
    }

    #[test]
    fn common_indentation_is_removed() {
        for (text, plain) in [
            ("  a\n\n    b\n  c", "a\n\n  b\nc"),
            ("\t a\n\tb\n", " a\nb\n"),
            ("  a\nb\n", "  a\nb\n"),
            ("a\n  b\n", "a\n  b\n"),
            ("", ""),
        ] {
            assert_eq!(without_indentation(text), plain);
        }
    }
}
