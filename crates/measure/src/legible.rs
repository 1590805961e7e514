//! Sanitising of external text (user input, output of other programs) for a terminal. Control characters are escaped,
//! and long texts are shortened.

use crate::failure::Failure;
use std::borrow::Cow;
use std::path::Path;

/// Maximum number of lines of a message.
const MAX_LINES: usize = 6;
/// Maximum number of characters of a line; a screen shows about as many.
const MAX_LINE: usize = 1000;
/// Maximum number of characters of a line that another program printed.
const MAX_QUOTED: usize = 500;
/// Maximum number of characters of a word; most paths are shorter.
const MAX_WORD: usize = 200;
/// Characters that are invisible or change the direction of writing, so that the display misrepresents the text.
const DECEIVING: [std::ops::RangeInclusive<char>; 9] = [
    '\u{ad}'..='\u{ad}',
    '\u{61c}'..='\u{61c}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{2069}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{e0000}'..='\u{e007f}',
];

/// True for a character that is invisible or changes the direction of writing.
pub fn is_deceiving(c: char) -> bool {
    DECEIVING.iter().any(|range| range.contains(&c))
}

fn is_plain(c: char) -> bool {
    !c.is_control() && (c.is_ascii() || !is_deceiving(c))
}

/// Returns the text with control and invisible characters escaped: `\u{1b}`, `\t`. Characters that
/// end a line are escaped as well, so that the result is one line.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
    }
    Cow::Owned(out)
}

/// Returns a path for a message or a page, with control characters escaped; another user may have
/// named the file.
pub fn path(path: impl AsRef<Path>) -> String {
    escape_controls(&path.as_ref().to_string_lossy()).into_owned()
}

/// Returns the text with the characters of [`escape_controls`] escaped in each line; line breaks stay.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| is_plain(c) || c == '\n') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split('\n').map(escape_controls).collect::<Vec<_>>().join("\n"))
}

/// Joins lines into a paragraph of several lines. Line breaks within a line are escaped, so that
/// text of a foreign record cannot begin a line.
pub fn join_lines(lines: impl IntoIterator<Item = String>) -> String {
    let plain = lines.into_iter().map(|line| escape_controls(&line).into_owned());
    plain.collect::<Vec<_>>().join("\n")
}

/// Shortens a text of more than `max` characters: a note with the number of omitted characters
/// replaces the middle.
fn elided(text: &str, max: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= max {
        return Cow::Borrowed(text);
    }
    let head = max / 2;
    let tail = max / 4;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    Cow::Owned(format!("{start}...({} characters)...{end}", count - head - tail))
}

/// Returns a line without the middle of each long word; a command, for example, may have long arguments.
pub fn shorten_words(line: &str) -> String {
    let words: Vec<_> = line.split(' ').map(|word| elided(word, MAX_WORD)).collect();
    words.join(" ")
}

/// Returns a line of another program for a quotation in messages and records. If the line is long,
/// only its first and last characters are kept.
pub fn quote_line(line: &str) -> String {
    elided(line, MAX_QUOTED).into_owned()
}

/// Returns a text without the middle of each long line.
pub fn shorten_lines(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_LINE {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split('\n').map(|line| elided(line, MAX_LINE)).collect::<Vec<_>>().join("\n"))
}

/// Returns a text as one line: control characters and line breaks are escaped. The middle of a long
/// line and of each long word is omitted.
pub fn line(line: &str) -> String {
    elided(&escape_controls(&shorten_words(line)), MAX_LINE).into_owned()
}

/// Returns at most `max` lines of a text. If the text has more lines, the last line gives the number of omitted lines.
fn lines(text: &str, max: usize) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.len() > max {
        lines.retain(|line| !line.trim().is_empty());
    }
    if lines.len() <= max {
        return lines.into_iter().map(line).collect::<Vec<_>>().join("\n");
    }
    let head = max - 1;
    let left_out = format!("... ({} more lines)", lines.len() - head);
    lines.truncate(head);
    lines.push(&left_out);
    lines.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns a message for display: control characters are escaped, and long words, long lines and long texts are
/// shortened.
pub fn message(text: &str) -> String {
    lines(text, MAX_LINES)
}

/// Returns the text of a failure for display, shortened like the text of [`message`]; the hint is always kept.
pub fn failure(failure: &Failure) -> String {
    let max = MAX_LINES - usize::from(failure.hint.is_some());
    let shown = lines(&failure.problem(), max);
    Failure::new(failure.kind, shown).hint_if(failure.hint.as_deref().map(line)).to_string()
}

/// True if a page shows the character as it is.
fn is_plain_on_page(c: char) -> bool {
    is_plain(c) || c == '\n' || c == '\t'
}

/// Returns a page of text for a terminal. The page is not shortened, and all control sequences except those that set
/// colours are escaped.
pub fn page(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain_on_page) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if is_plain_on_page(c) || (c == '\x1b' && begins_colour(&text[at + 1..])) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
    }
    Cow::Owned(out)
}

/// True if the text after an escape character completes a control sequence that sets colours, e.g.
/// `[1;32m`.
fn begins_colour(after: &str) -> bool {
    let Some(parameters) = after.strip_prefix('[') else { return false };
    parameters.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
}

/// Returns `...` for an omitted part, otherwise an empty text.
fn ellipsis(is_left_out: bool) -> &'static str {
    if is_left_out { "..." } else { "" }
}

/// Returns the part of a long text around the character at byte `at`, escaped, and the column of that character.
pub(crate) fn excerpt(text: &str, at: usize) -> (String, usize) {
    /// Maximum number of characters shown on each side of the character at `at`.
    const SIDE: usize = MAX_WORD / 4;
    let (head, tail) = text.split_at_checked(at).unwrap_or((text, ""));
    let before = head.chars().count();
    let whole = before + tail.chars().count() <= MAX_WORD;
    let (left, right) = if whole { (before, usize::MAX) } else { (SIDE, SIDE) };
    let shown_head: String = head.chars().skip(before - left.min(before)).collect();
    let start = format!("{}{}", ellipsis(before > left), escape_controls(&shown_head));
    let shown_tail: String = tail.chars().take(right).collect();
    let end = ellipsis(!whole && tail.chars().nth(right).is_some());
    let column = start.chars().count();
    (format!("{start}{}{end}", escape_controls(&shown_tail)), column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_message_has_six_lines_including_hint() {
        let short = Failure::usage("wrong").hint("right");
        assert_eq!(failure(&short), short.to_string());
        let long = format!("cc fails:\n\n{}", "an error\n".repeat(20));
        let shown = failure(&Failure::missing(long).hint("look"));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), MAX_LINES);
        assert_eq!((lines[4], lines[5]), ("... (17 more lines)", "hint: look"));
        assert_eq!(message("a\n\nb\n\nc\n\nd").lines().count(), 4);
    }

    #[test]
    fn terminal_control_sequences_are_escaped() {
        assert_eq!(message("a\x1b]0;title\x07b\u{202e}c\rd"), r"a\u{1b}]0;title\u{7}b\u{202e}c\rd");
        assert_eq!(
            page("\x1b[1;31mbad\x1b[0m\n\x1b[2J\u{9b}2J"),
            "\x1b[1;31mbad\x1b[0m\n\\u{1b}[2J\\u{9b}2J"
        );
        assert_eq!(escape_lines("a\nb"), "a\nb");
        let ends = "a\nb\rc\u{b}d\u{c}e\u{85}f\u{2028}g\u{2029}h";
        for shown in [escape_controls(ends).into_owned(), path(ends), line(ends)] {
            assert_eq!(shown, r"a\nb\rc\u{b}d\u{c}e\u{85}f\u{2028}g\u{2029}h");
        }
        assert_eq!(escape_controls("a\u{61c}\u{ad}b"), r"a\u{61c}\u{ad}b");
        assert_eq!(escape_lines("a\tb\n\n\x1b[1mc"), "a\\tb\n\n\\u{1b}[1mc");
    }

    #[test]
    fn middle_of_long_value_is_omitted() {
        let shown = message(&format!("invalid value '{}' for N", "9".repeat(10_000)));
        assert!(
            shown.len() < 2 * MAX_WORD && shown.contains("...(98") && shown.ends_with("' for N")
        );
        assert!(message(&"word ".repeat(10_000)).len() < 2 * MAX_LINE);
        let quote = quote_line(&"y".repeat(1 << 20));
        assert!(
            quote.len() < MAX_QUOTED && quote.contains("y...(1048201 characters)...y"),
            "{quote}"
        );
        assert_eq!(quote_line("a short line"), "a short line");
        let command = shorten_words(&format!("/proc/self/exe ranks '{}'", "{}".repeat(1000)));
        assert!(command.starts_with("/proc/self/exe ranks '{}") && command.len() < 2 * MAX_WORD);
        assert!(shorten_lines(&format!("{0}\n{0}", "y".repeat(5000))).len() < 2 * MAX_LINE);
        let text = format!("{}!{}", "a".repeat(1000), "b".repeat(1000));
        let (line, column) = excerpt(&text, 1000);
        assert!(
            line.len() < MAX_WORD && line.starts_with("...a") && line.ends_with("b..."),
            "{line}"
        );
        assert_eq!(line.find('!'), Some(column));
    }

    proptest! {
        #[test]
        fn any_text_is_shortened_and_has_no_control_characters(text in "(\\PC|[\u{0}-\u{20}\u{80}-\u{9f}\u{202e}]){0,3000}", at in 0usize..3000) {
            let shown = message(&text);
            prop_assert!(shown.lines().count() <= MAX_LINES);
            prop_assert!(shown.chars().all(|c| is_plain(c) || c == '\n'));
            let (line, column) = excerpt(&text, at);
            prop_assert!(column <= line.chars().count() && line.chars().all(is_plain));
        }
    }
}
