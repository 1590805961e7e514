//! A command with its options, as a user types it: words split as a shell splits them, with quotes, backslashes and
//! comments, but nothing is expanded and no shell ever runs.

use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::fmt;
use std::str::FromStr;

/// A program and its arguments; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    /// A program with these arguments.
    pub fn new<S: Into<String>>(program: S, arguments: impl IntoIterator<Item = S>) -> Self {
        Self { words: vec![program.into()] }.with(arguments)
    }

    /// The value of a macro that it defines (`-DNAME=VALUE`), empty where the macro has none.
    pub fn defined<'a>(&'a self, name: &str) -> Option<&'a str> {
        let words = self.arguments().iter().map(String::as_str);
        let before = std::iter::once(self.program()).chain(words.clone());
        let definition = |(before, word): (&str, &'a str)| match word.strip_prefix("-D") {
            Some(definition) => Some(definition),
            None => (before == "-D").then_some(word),
        };
        before.zip(words).filter_map(definition).find_map(|definition| {
            let (defined, value) = definition.split_once('=').unwrap_or((definition, ""));
            (defined == name).then_some(value)
        })
    }

    /// Reads what a user typed; `what` it is and an `example` are for the message on what is wrong.
    ///
    /// # Errors
    /// When it is empty, or a quote or a backslash is open at its end.
    pub fn read(
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

    /// All words, the program first.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The program.
    pub fn program(&self) -> &str {
        &self.words[0]
    }

    /// What follows it.
    pub fn arguments(&self) -> &[String] {
        &self.words[1..]
    }

    /// The same with more arguments at the end.
    pub fn with<S: Into<String>>(&self, more: impl IntoIterator<Item = S>) -> Self {
        let mut words = self.words.clone();
        words.extend(more.into_iter().map(Into::into));
        Self { words }
    }
}

impl FromStr for CommandLine {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        Self::read("compiler", "--compiler 'gcc -O3 -fopenmp'", text)
    }
}

impl fmt::Display for CommandLine {
    /// Ready to be typed into a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.words.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./,:@%".contains(c);
            if !word.is_empty() && word.chars().all(plain) {
                f.write_str(word)?;
            } else {
                write!(f, "'{}'", word.replace('\'', r"'\''"))?;
            }
        }
        Ok(())
    }
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
    fn words_split_as_in_a_shell_and_nothing_is_expanded() {
        assert_eq!(words("gcc -O3  -fopenmp"), ["gcc", "-O3", "-fopenmp"]);
        assert_eq!(
            words(r#"'my cc' "-DX=\"a b\"" a\ b '' $HOME `x`; rm"#),
            ["my cc", "-DX=\"a b\"", "a b", "", "$HOME", "`x`;", "rm"]
        );
        assert_eq!(words("gcc -DX=a#b # a comment"), ["gcc", "-DX=a#b"]);
    }

    #[test]
    fn what_is_not_a_command_is_pointed_at() {
        for (text, at) in
            [("", 0), ("  ", 0), ("gcc 'x", 6), ("gcc \"x\\\"", 8), ("cc \\", 4), ("''", 0)]
        {
            assert_eq!(text.parse::<CommandLine>().unwrap_err().at, at, "{text:?}");
        }
    }

    #[test]
    fn what_is_printed_parses_back() {
        for text in ["gcc -O3", "'a b' c", r"cc '-DX=it'\''s' ''"] {
            let command: CommandLine = text.parse().unwrap();
            assert_eq!(command.to_string().parse::<CommandLine>().unwrap(), command);
            assert_eq!(command.to_string(), text);
        }
    }
}
