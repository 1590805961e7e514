//! Examples at the end of every `--help`. Each command declares its own, most useful first: `#[command(after_long_help
//! = examples::section(&["nodegauge doctor"]))]`. The first one is also the hint for wrong usage. A test runs all of
//! them.

use clap::Command;

/// First line of the examples.
const TITLE: &str = "Examples:";

/// Returns the last section of a command's help with these examples, which are complete command lines.
pub(super) fn section(lines: &[&str]) -> String {
    format!("{TITLE}\n  {}", lines.join("\n  "))
}

/// Returns the examples of a command.
pub(crate) fn declared_examples(command: &Command) -> Vec<String> {
    let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let lines = text.lines().skip_while(|line| *line != TITLE).skip(1);
    lines.map(|line| line.trim_start().to_owned()).collect()
}

/// Returns the first example of the command with this path below `root`, e.g. `memory ladder`.
pub(super) fn first_example(root: &Command, path: &str) -> Option<String> {
    let mut command = root;
    for name in path.split_whitespace() {
        command = command.find_subcommand(name)?;
    }
    declared_examples(command).into_iter().next()
}

/// Inserts the closing lines of `-h` in front of the examples of `--help`, for a command and its subcommands.
pub(super) fn with_short_help_end(mut command: Command) -> Command {
    if let (Some(short), Some(long)) = (command.get_after_help(), command.get_after_long_help()) {
        let text = format!("{short}\n\n{long}");
        command = command.after_long_help(text);
    }
    command.mut_subcommands(with_short_help_end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_toolchain::CommandLine;

    /// Maximum length of an example, which the help indents by two columns.
    const MAX_WIDTH: usize = 78;

    /// Checks the examples of a visible command and of its subcommands.
    fn check(command: &Command, path: &str) {
        let lines = declared_examples(command);
        assert!(!lines.is_empty(), "{path:?} has no example");
        for line in &lines {
            assert!(line.starts_with(format!("nodegauge {path}").trim_end()), "{line}");
            assert!(line.len() <= MAX_WIDTH, "{line}: wrapped at 80 columns");
            let words = CommandLine::parse("command", "", line).unwrap();
            let matches = crate::args::command().try_get_matches_from(words.words());
            assert!(matches.is_ok(), "{line}: {matches:?}");
        }
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            check(sub, format!("{path} {}", sub.get_name()).trim_start());
        }
    }

    #[test]
    fn every_command_has_valid_examples() {
        check(&crate::args::definition(), "");
    }
}
