//! Syntax errors of the command line: the text as typed, the wrong character, the expected input at that
//! position, and a valid example.
//!
//! Every parser of user text (sizes, thread lists, places, expectations, topology strings)
//! reads through a [`Cursor`] and fails with a [`SyntaxError`], so that all errors have the same form.

use crate::failure::Failure;
use crate::legible;
use crate::names::UnknownName;
use std::fmt;

/// Error in a text that does not follow its grammar.
///
/// Displays as three or four lines: the problem, the text, a caret under the wrong character,
/// and a hint with a valid example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Name of the syntax that the text must follow, e.g. `"places"`.
    pub what: &'static str,
    /// Complete text as the user typed it.
    pub input: String,
    /// Byte offset of the wrong character; `input.len()` if the text ended too early.
    pub at: usize,
    /// Problem at that offset, lower-case and without a final period, e.g. `"expected a count after ':'"`.
    pub problem: String,
    /// Valid example, ready to be typed, e.g. `"--places '{0:4}:4:8'"`.
    pub example: &'static str,
    /// Name that was probably meant.
    pub suggestion: Option<&'static str>,
}

impl SyntaxError {
    /// Returns the character at the wrong position as text: `found 'x'` or `but the text ends here`.
    fn found(&self) -> String {
        match self.input.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => format!("found '{}'", legible::escape_controls(c.encode_utf8(&mut [0; 4]))),
            None => "but the text ends here".to_owned(),
        }
    }
}

impl From<&SyntaxError> for Failure {
    fn from(error: &SyntaxError) -> Self {
        let (input, column) = legible::excerpt(&error.input, error.at);
        let SyntaxError { what, problem, example, suggestion, .. } = error;
        let found = error.found();
        let pointed =
            format!("{what} \"{input}\": {problem}, {found}\n  {input}\n  {:column$}^", "");
        let hint = match suggestion {
            Some(suggestion) => format!("did you mean {suggestion}?"),
            None => format!("e.g. {example}"),
        };
        Self::usage(pointed).hint(hint)
    }
}

impl From<SyntaxError> for Failure {
    fn from(error: SyntaxError) -> Self {
        Self::from(&error)
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Failure::from(self).fmt(f)
    }
}

impl std::error::Error for SyntaxError {}

/// Reads a text from left to right and keeps the position for a [`SyntaxError`].
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    what: &'static str,
    example: &'static str,
    input: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the first character of `input`; errors contain `what` and `example`.
    pub fn new(what: &'static str, example: &'static str, input: &'a str) -> Self {
        Self { what, example, input, at: 0 }
    }

    /// Returns the part of the text that has not been read yet.
    pub fn rest(&self) -> &'a str {
        &self.input[self.at..]
    }

    /// Returns the byte offset of the next character.
    pub fn position(&self) -> usize {
        self.at
    }

    /// True if the whole text has been read.
    pub fn at_end(&self) -> bool {
        self.at == self.input.len()
    }

    /// Returns the next character without consuming it.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Consumes the next character if it is `c`; returns true if it was consumed.
    pub fn eat(&mut self, c: char) -> bool {
        let hit = self.peek() == Some(c);
        if hit {
            self.at += c.len_utf8();
        }
        hit
    }

    /// Consumes spaces and tabs.
    pub fn skip_blanks(&mut self) {
        self.take_while(|c| c == ' ' || c == '\t');
    }

    /// Consumes and returns the longest run of characters that satisfy `keep`; the run may be empty.
    pub fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Consumes `c`, or fails with `problem`.
    ///
    /// # Errors
    /// Fails if the next character is not `c`, or if the text ends.
    pub fn expect(&mut self, c: char, problem: &str) -> Result<(), SyntaxError> {
        if self.eat(c) { Ok(()) } else { Err(self.error(problem)) }
    }

    /// Consumes a decimal number.
    ///
    /// # Errors
    /// Fails with `problem` if the next character is not a digit. Fails also if the number does not fit in 64 bits.
    pub fn number(&mut self, problem: &str) -> Result<u64, SyntaxError> {
        let start = self.at;
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(self.error(problem));
        }
        digits.parse().map_err(|_| self.error_at(start, "this number is too large"))
    }

    /// Consumes a number from 1 to `max`.
    ///
    /// # Errors
    /// Fails with `problem` if the next character is not a digit. Fails also if the number is out of range.
    pub fn count(&mut self, max: u32, problem: &str) -> Result<u32, SyntaxError> {
        let start = self.at;
        let number = self.number(problem)?;
        let fits = u32::try_from(number).ok().filter(|number| (1..=max).contains(number));
        fits.ok_or_else(|| self.error_at(start, format!("expected 1 to {max}")))
    }

    /// Returns an error at the next character.
    pub fn error(&self, problem: impl Into<String>) -> SyntaxError {
        self.error_at(self.at, problem)
    }

    /// Returns an error at byte offset `at`.
    pub fn error_at(&self, at: usize, problem: impl Into<String>) -> SyntaxError {
        SyntaxError {
            what: self.what,
            input: self.input.to_owned(),
            at,
            problem: problem.into(),
            example: self.example,
            suggestion: None,
        }
    }

    /// Returns the error for an unknown name at byte offset `at`, with the name that was probably meant.
    pub fn unknown_at(&self, at: usize, unknown: &UnknownName) -> SyntaxError {
        SyntaxError { suggestion: unknown.nearest(), ..self.error_at(at, unknown.to_string()) }
    }

    /// Checks that the whole text has been read.
    ///
    /// # Errors
    /// Fails with `problem` if characters are left.
    pub fn finish(&self, problem: &str) -> Result<(), SyntaxError> {
        if self.at_end() { Ok(()) } else { Err(self.error(problem)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_points_at_wrong_character() {
        let mut cursor = Cursor::new("places", "--places '{0:4}:4:8'", "{0:4}:x:8");
        cursor.take_while(|c| c != '}');
        assert!(cursor.eat('}') && cursor.eat(':'));
        let error = cursor.number("expected a count after ':'").unwrap_err();
        assert_eq!(
            error.to_string(),
            "places \"{0:4}:x:8\": expected a count after ':', found 'x'\n  {0:4}:x:8\n        ^\nhint: e.g. --places '{0:4}:4:8'"
        );
    }

    #[test]
    fn error_at_end_of_text_is_reported() {
        let mut cursor = Cursor::new("size", "--size 2GiB", "");
        let error = cursor.number("expected a number").unwrap_err();
        assert!(error.to_string().contains("expected a number, but the text ends here"));
    }

    #[test]
    fn spaces_and_tabs_are_blanks() {
        let mut cursor = Cursor::new("size", "--size 2GiB", " \t 2 GiB");
        cursor.skip_blanks();
        assert_eq!((cursor.position(), cursor.rest()), (3, "2 GiB"));
        cursor.skip_blanks();
        assert_eq!(cursor.position(), 3);
    }
}
