//! Command with its options, as typed by a user. The text is split into words as in a shell, with quotes,
//! backslashes and comments. Nothing is expanded, and no shell is started.

use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::fmt;
use std::str::FromStr;

/// Words of a command: a program and its arguments. There is at least one word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    /// Creates a command from a program and its arguments.
    pub fn new<S: Into<String>>(program: S, arguments: impl IntoIterator<Item = S>) -> Self {
        Self { words: vec![program.into()] }.with_arguments(arguments)
    }

    /// Returns the value of the macro `name` if an argument defines it (`-DNAME=VALUE`); an empty text for a macro
    /// without a value.
    pub fn macro_value<'a>(&'a self, name: &str) -> Option<&'a str> {
        let mut previous = self.program();
        for word in self.arguments() {
            let definition = match word.strip_prefix("-D") {
                Some(definition) => Some(definition),
                None => (previous == "-D").then_some(word.as_str()),
            };
            previous = word;
            let Some(definition) = definition else { continue };
            let (defined, value) = definition.split_once('=').unwrap_or((definition, ""));
            if defined == name {
                return Some(value);
            }
        }
        None
    }

    /// Removes the arguments that select input and output: `-o FILE`, and files named `source`. Command lines that
    /// users copy often contain both.
    pub fn without_files(&self, source: &str) -> Self {
        let mut words = vec![self.program().to_owned()];
        let mut arguments = self.arguments().iter();
        while let Some(word) = arguments.next() {
            let is_source = word.rsplit('/').next() == Some(source);
            if word == "-o" {
                arguments.next();
            } else if !is_source {
                words.push(word.clone());
            }
        }
        Self { words }
    }

    /// Parses a command that a user typed. `what` is the name of the text in error messages, which also show `example`.
    ///
    /// # Errors
    /// Fails when the text is empty, or ends within a quote or after a backslash.
    pub fn parse(
        what: &'static str,
        example: &'static str,
        text: &str,
    ) -> Result<Self, SyntaxError> {
        let cursor = Cursor::new(what, example, text);
        let Some(words) = shlex::split(text) else {
            let problem = "expected the end of a quote, or a character after \\";
            return Err(cursor.error_at(text.len(), problem));
        };
        match words.first() {
            Some(program) if !program.is_empty() => Ok(Self { words }),
            _ => Err(cursor.error_at(0, "expected a program and its options")),
        }
    }

    /// Returns all words; the first word is the program.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the program.
    pub fn program(&self) -> &str {
        &self.words[0]
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> &[String] {
        &self.words[1..]
    }

    /// Returns the command with `more` arguments at its end.
    pub fn with_arguments<S: Into<String>>(&self, more: impl IntoIterator<Item = S>) -> Self {
        let mut words = self.words.clone();
        words.extend(more.into_iter().map(Into::into));
        Self { words }
    }
}

impl FromStr for CommandLine {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        Self::parse("compiler", "--compiler 'gcc -O3 -fopenmp'", text)
    }
}

impl fmt::Display for CommandLine {
    /// Formats the command with the quotes that a shell requires.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.words.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            if !word.is_empty() && word.chars().all(needs_no_quotes) {
                f.write_str(word)?;
            } else {
                write!(f, "'{}'", word.replace('\'', r"'\''"))?;
            }
        }
        Ok(())
    }
}

/// True if the character needs no quotes in a shell.
fn needs_no_quotes(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_=+./,:@%".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let command: CommandLine = text.parse().unwrap();
        std::iter::once(command.program())
            .chain(command.arguments().iter().map(String::as_str))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn input_and_output_files_are_left_out_of_the_command() {
        let of = |line: &str| {
            let command: CommandLine = line.parse().unwrap();
            command.without_files("stream.c").to_string()
        };
        assert_eq!(of("gcc -O3 -o stream stream.c -lm"), "gcc -O3 -lm");
        assert_eq!(of("gcc ./src/stream.c -DN=5 -o"), "gcc -DN=5");
        assert_eq!(of("gcc -O3 other.c"), "gcc -O3 other.c");
    }

    #[test]
    fn words_are_split_without_expansion() {
        assert_eq!(words("gcc -O3  -fopenmp"), ["gcc", "-O3", "-fopenmp"]);
        assert_eq!(
            words(r#"'my cc' "-DX=\"a b\"" a\ b '' $HOME `x`; rm"#),
            ["my cc", "-DX=\"a b\"", "a b", "", "$HOME", "`x`;", "rm"]
        );
        assert_eq!(words("gcc -DX=a#b # a comment"), ["gcc", "-DX=a#b"]);
    }

    #[test]
    fn invalid_command_is_reported_with_column() {
        for (text, at) in
            [("", 0), ("  ", 0), ("gcc 'x", 6), ("gcc \"x\\\"", 8), ("cc \\", 4), ("''", 0)]
        {
            assert_eq!(text.parse::<CommandLine>().unwrap_err().at, at, "{text:?}");
        }
    }

    #[test]
    fn command_line_round_trips() {
        for text in ["gcc -O3", "'a b' c", r"cc '-DX=it'\''s' ''"] {
            let command: CommandLine = text.parse().unwrap();
            assert_eq!(command.to_string().parse::<CommandLine>().unwrap(), command);
            assert_eq!(command.to_string(), text);
        }
    }
}
