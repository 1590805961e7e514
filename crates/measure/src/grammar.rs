//! How a grammar of the command line fails: the text as it was typed, the character that is
//! wrong, what was expected there, and an example that is right.
//!
//! Every parser of user text (sizes, thread lists, places, expectations, topology strings)
//! reads through a [`Cursor`] and fails with a [`SyntaxError`], so that all errors read alike.

use crate::failure::Failure;
use crate::legible;
use std::fmt;

/// A text that does not follow its grammar.
///
/// Displays as three or four lines: the complaint, the text, a caret under the wrong character,
/// and a hint with a right example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// What the text was meant to be, e.g. `"places"`.
    pub what: &'static str,
    /// The text as it was typed.
    pub input: String,
    /// Byte offset of the character that is wrong; `input.len()` when the text ended too early.
    pub at: usize,
    /// What is wrong there, lower-case and without a final period, e.g. `"expected a count after ':'"`.
    pub problem: String,
    /// A right example, ready to be typed, e.g. `"--places '{0:4}:4:8'"`.
    pub example: &'static str,
}

impl SyntaxError {
    /// What stands at the wrong place, in words: `found 'x'` or `the text ends here`.
    fn found(&self) -> String {
        match self.input.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => format!("found '{}'", legible::escaped(c.encode_utf8(&mut [0; 4]))),
            None => "but the text ends here".to_owned(),
        }
    }
}

impl From<&SyntaxError> for Failure {
    fn from(error: &SyntaxError) -> Self {
        let (input, column) = legible::around(&error.input, error.at);
        let SyntaxError { what, problem, example, .. } = error;
        let found = error.found();
        let pointed =
            format!("{what} \"{input}\": {problem}, {found}\n  {input}\n  {:column$}^", "");
        Self::usage(pointed).hint(format!("e.g. {example}"))
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

/// Reads a text from left to right and remembers where it stands, for [`SyntaxError`].
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    what: &'static str,
    example: &'static str,
    input: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first character of `input`; `what` and `example` go into errors.
    pub fn new(what: &'static str, example: &'static str, input: &'a str) -> Self {
        Self { what, example, input, at: 0 }
    }

    /// What is left to read.
    pub fn rest(&self) -> &'a str {
        &self.input[self.at..]
    }

    /// The byte offset that is read next.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether everything has been read.
    pub fn at_end(&self) -> bool {
        self.at == self.input.len()
    }

    /// The next character, not taken.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes `c` if it is next; says whether it was.
    pub fn eat(&mut self, c: char) -> bool {
        let hit = self.peek() == Some(c);
        if hit {
            self.at += c.len_utf8();
        }
        hit
    }

    /// Takes spaces and tabs.
    pub fn skip_blanks(&mut self) {
        self.take_while(|c| c == ' ' || c == '\t');
    }

    /// Takes the longest run of characters that satisfy `keep`; may be empty.
    pub fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Takes `c` or fails with `problem`.
    ///
    /// # Errors
    /// When another character, or the end, is next.
    pub fn expect(&mut self, c: char, problem: &str) -> Result<(), SyntaxError> {
        if self.eat(c) { Ok(()) } else { Err(self.error(problem)) }
    }

    /// Takes a decimal number.
    ///
    /// # Errors
    /// When no digit is next (with `problem`), or the number does not fit 64 bits.
    pub fn number(&mut self, problem: &str) -> Result<u64, SyntaxError> {
        let start = self.at;
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(self.error(problem));
        }
        digits.parse().map_err(|_| self.error_at(start, "this number is too large"))
    }

    /// An error at the character that is read next.
    pub fn error(&self, problem: impl Into<String>) -> SyntaxError {
        self.error_at(self.at, problem)
    }

    /// An error at byte offset `at`.
    pub fn error_at(&self, at: usize, problem: impl Into<String>) -> SyntaxError {
        SyntaxError {
            what: self.what,
            input: self.input.to_owned(),
            at,
            problem: problem.into(),
            example: self.example,
        }
    }

    /// Fails unless everything has been read.
    ///
    /// # Errors
    /// When characters are left.
    pub fn finish(&self, problem: &str) -> Result<(), SyntaxError> {
        if self.at_end() { Ok(()) } else { Err(self.error(problem)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_points_at_the_wrong_character() {
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
    fn an_error_at_the_end_says_so() {
        let mut cursor = Cursor::new("size", "--size 2GiB", "");
        let error = cursor.number("expected a number").unwrap_err();
        assert!(error.to_string().contains("expected a number, but the text ends here"));
    }
}
