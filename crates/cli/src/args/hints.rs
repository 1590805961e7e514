//! Errors of the command line in the format of all other errors: the problem, and a hint.
//!
//! For an unexpected word, the hint is a corrected command line, if the corrected line can be parsed.

use super::{Args, command, examples, tree};
use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, Error};
use nodegauge_measure::{SyntaxError, UnknownName};
use nodegauge_published::UnknownNode;
use nodegauge_toolchain::CommandLine;
use std::num::{ParseFloatError, ParseIntError};

/// Options of other programs, each with the equivalent option of nodegauge.
const OTHER_NAMES: &[OtherName] = &[
    OtherName { typed: "--np", option: "--ranks" },
    OtherName { typed: "--nprocs", option: "--ranks" },
    OtherName { typed: "--ntasks", option: "--ranks" },
    OtherName { typed: "-np", option: "--ranks" },
    OtherName { typed: "-n", option: "--ranks" },
    OtherName { typed: "--nthreads", option: "--threads" },
    OtherName { typed: "--directory", option: "--path" },
    OtherName { typed: "--dir", option: "--path" },
    OtherName { typed: "--rw", option: "--operations" },
    OtherName { typed: "--time", option: "--budget" },
    OtherName { typed: "--runs", option: "--samples" },
    OtherName { typed: "--repetitions", option: "--samples" },
    OtherName { typed: "--hostfile", option: "--hosts" },
    OtherName { typed: "-v", option: "--verify" },
    OtherName { typed: "--verbose", option: "--verify" },
];

/// Name of an option in other programs.
struct OtherName {
    typed: &'static str,
    option: &'static str,
}

/// Options whose value an unexpected word may be, in the order in which they are tried.
const GUESSED_OPTIONS: [&str; 6] =
    ["--path", "--order", "--grid", "--threads", "--ranks", "--standard"];

/// Returns the failure for an option before a command, which would have no effect; `None` if there is no such option.
/// Options that all commands share may precede a command.
pub(crate) fn misplaced_option(matches: &ArgMatches, definition: &Command) -> Option<Failure> {
    let mut matches = matches;
    let mut command = definition;
    let mut path = command.get_name().to_owned();
    while let Some((name, of_sub)) = matches.subcommand() {
        let sub = command.find_subcommand(name)?;
        path = format!("{path} {name}");
        let mut own = command.get_arguments().filter(|arg| !arg.is_global_set());
        let before = own.find(|arg| is_given(arg, matches));
        if let Some(option) = before {
            let shown = option_text(option);
            let is_supported = sub.get_arguments().any(|arg| option_text(arg) == shown);
            let hint = if is_supported {
                format!("give it after the command: {path} {shown}")
            } else {
                format!("leave out {shown}, which {path} does not have")
            };
            let text = format!("{shown} has no effect before the command {name}");
            return Some(Failure::usage(text).hint(hint));
        }
        matches = of_sub;
        command = sub;
    }
    None
}

/// True if the user gave an argument, i.e. if its value is not a default.
fn is_given(arg: &Arg, matches: &ArgMatches) -> bool {
    let id = arg.get_id().as_str();
    let is_known = matches.try_contains_id(id).unwrap_or(false);
    is_known && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Returns an option as the user types it: `--expect`; for a positional argument, its name.
fn option_text(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => arg.get_id().to_string(),
    }
}

/// Returns the failure for an error of clap; `None` if the user requested help or version. `words` is the command line.
pub(crate) fn failure(error: &Error, words: &[String]) -> Option<Failure> {
    use ErrorKind::*;
    let line = TypedLine::new(words);
    let typed = context_text(error, ContextKind::InvalidArg);
    match error.kind() {
        DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion => None,
        InvalidValue | ValueValidation => Some(line.wrong_value(error, option_name(&typed))),
        UnknownArgument => Some(line.unexpected(&typed, error)),
        InvalidSubcommand => {
            let name = context_text(error, ContextKind::InvalidSubcommand);
            let meant = tree::suggested_commands(&name, &super::definition());
            let hint = if meant.is_empty() {
                line.example()
            } else {
                format!("did you mean '{}'?", meant.join("' or '"))
            };
            Some(Failure::usage(format!("unrecognized subcommand '{name}'")).hint(hint))
        }
        MissingRequiredArgument => {
            let hint = line.with_latest_run().unwrap_or_else(|| line.example());
            Some(Failure::usage(format!("missing: {typed}")).hint(hint))
        }
        ArgumentConflict => {
            let option = option_name(&typed);
            let other = context_text(error, ContextKind::PriorArg);
            let other = other.split(", ").map(option_name).collect::<Vec<_>>().join(", ");
            Some(if option == other || other.is_empty() {
                Failure::usage(format!("{option} is given twice")).hint("give it once")
            } else {
                Failure::usage(format!("{option} cannot be used with {other}"))
                    .hint(format!("leave out {option} or {other}"))
            })
        }
        _ => {
            let rendered = error.render().to_string();
            let problem = rendered.lines().next().unwrap_or_default();
            let problem = problem.trim_start_matches("error: ").trim_end_matches(':');
            Some(Failure::usage(problem).hint(line.example()))
        }
    }
}

/// Returns a text from the context of a clap error; several texts are joined by commas.
fn context_text(error: &Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    }
}

/// Returns the name of an option without its value name: `--budget <SECONDS>` gives `--budget`.
fn option_name(shown: &str) -> &str {
    match shown.split_once([' ', '[', '=']) {
        Some((option, _)) if option.starts_with('-') => option,
        _ => shown,
    }
}

/// Command line as typed, with the path of its command.
struct TypedLine<'a> {
    words: &'a [String],
    /// Name of the command after `nodegauge`; empty for the program.
    path: String,
}

impl<'a> TypedLine<'a> {
    fn new(words: &'a [String]) -> Self {
        let root = super::definition();
        let mut command = &root;
        let mut path = String::new();
        for word in words.iter().skip(1).take_while(|word| *word != "--") {
            if let Some(sub) = command.find_subcommand(word) {
                command = sub;
                path = format!("{path} {}", sub.get_name()).trim_start().to_owned();
            }
        }
        Self { words, path }
    }

    /// Returns an example of the command, as a hint.
    fn example(&self) -> String {
        let example = examples::first_example(&super::definition(), &self.path);
        format!("e.g. {}", example.unwrap_or_else(|| "nodegauge --help".to_owned()))
    }

    /// Returns these words as a hint; `None` if they cannot be parsed.
    fn corrected(&self, words: Vec<String>) -> Option<String> {
        let parsed = command().try_get_matches_from(&words).is_ok();
        let (_, arguments) = words.split_first()?;
        let name = env!("CARGO_PKG_NAME").to_owned();
        parsed.then(|| format!("try {}", CommandLine::new(name, arguments.to_vec())))
    }

    /// Returns the words of the line, with `by` in place of the `count` words from index `at`.
    fn replaced(&self, at: usize, count: usize, by: &[String]) -> Vec<String> {
        [&self.words[..at], by, &self.words[at + count..]].concat()
    }

    /// Returns the failure for an unexpected option or word.
    fn unexpected(&self, typed: &str, error: &Error) -> Failure {
        let failure = Failure::usage(format!("unexpected argument '{typed}'"));
        let position = self.words.iter().position(|word| word.starts_with(typed));
        let Some(at) = position.filter(|at| *at > 0) else {
            return failure.hint(self.example());
        };
        if typed.starts_with('-') {
            let hint = self.meant_option(typed, at, error);
            return failure.hint(hint.unwrap_or_else(|| self.example()));
        }
        let candidates = self.guessed_lines(at);
        if let Some(hint) = candidates.iter().find_map(|words| self.corrected(words.clone())) {
            return failure.hint(hint);
        }
        let wrong_value = candidates.iter().find_map(|words| self.wrong_value_in(words, at));
        wrong_value.unwrap_or_else(|| failure.hint(self.example()))
    }

    /// Returns the failure for a corrected command line that still has a wrong value. Returns `None` if the wrong value
    /// is the word at `at`, because the option in front of this word is only a guess.
    fn wrong_value_in(&self, words: &[String], at: usize) -> Option<Failure> {
        let error = command().try_get_matches_from(words).err()?;
        let is_value = matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation);
        let is_guess = words.len() > self.words.len()
            && context_text(&error, ContextKind::InvalidValue) == self.words[at];
        (is_value && !is_guess).then(|| failure(&error, words)).flatten()
    }

    /// Returns the hint for an unknown option: the equivalent option of nodegauge.
    fn meant_option(&self, typed: &str, at: usize, error: &Error) -> Option<String> {
        let rest = &self.words[at][typed.len()..];
        let suggested = context_text(error, ContextKind::SuggestedArg);
        let others =
            OTHER_NAMES.iter().filter(|name| name.typed == typed || name.typed == self.words[at]);
        let options = self.long_option_instead(typed).into_iter();
        let options = options.chain(others.map(|name| name.option.to_owned()));
        for option in
            options.chain((!suggested.is_empty()).then(|| option_name(&suggested).to_owned()))
        {
            let is_whole = OTHER_NAMES.iter().any(|name| name.typed == self.words[at]);
            let rest = if is_whole { "" } else { rest.trim_start_matches('=') };
            let by = [option.clone(), rest.to_owned()];
            let by = if rest.is_empty() { &by[..1] } else { &by[..] };
            if let Some(hint) = self.corrected(self.replaced(at, 1, by)) {
                return Some(hint);
            }
            if !suggested.is_empty() && option_name(&suggested) == option {
                return Some(format!("did you mean {option}?"));
            }
        }
        None
    }

    /// Returns the long option for a short one that is no longer supported because it had several meanings.
    fn long_option_instead(&self, typed: &str) -> Option<String> {
        let short = typed
            .strip_prefix('-')?
            .chars()
            .next()
            .filter(|short| tree::REMOVED_SHORT_OPTIONS.contains(short))?;
        let root = Args::command();
        let mut command: &Command = &root;
        for name in self.path.split(' ').filter(|name| !name.is_empty()) {
            command = command.find_subcommand(name)?;
        }
        let arg = command.get_arguments().find(|arg| arg.get_short() == Some(short))?;
        arg.get_long().map(|long| format!("--{long}"))
    }

    /// Returns the command lines in which the unexpected word at `at` may be valid, most likely first: as the value of
    /// the option before it, after `--`, or as the value of an option in [`GUESSED_OPTIONS`].
    fn guessed_lines(&self, at: usize) -> Vec<Vec<String>> {
        let before = &self.words[at - 1];
        let mut lines = Vec::new();
        if before.starts_with("--") {
            lines.push(self.replaced(at - 1, 2, &[format!("{before}={}", self.words[at])]));
        }
        lines.push(self.replaced(at, 0, &["--".to_owned()]));
        for option in GUESSED_OPTIONS {
            // In `mpi`, `--threads` belongs to a single pattern.
            if self.path != "mpi" || option != "--threads" {
                lines.push(self.replaced(at, 0, &[option.to_owned()]));
            }
        }
        lines
    }

    /// Returns the hint for a missing run: the command line with `latest` added, or `latest~1` if `latest` is given.
    fn with_latest_run(&self) -> Option<String> {
        if !["compare", "history show", "history remove"].contains(&self.path.as_str()) {
            return None;
        }
        let at = self.words.iter().position(|word| word == "latest");
        let words = match at {
            Some(at) => self.replaced(at, 0, &["latest~1".to_owned()]),
            None => [self.words, &["latest".to_owned()]].concat(),
        };
        self.corrected(words)
    }

    /// Returns the failure for an invalid value of an option. Errors of our own parsers are complete already.
    fn wrong_value(&self, error: &Error, option: &str) -> Failure {
        let value = context_text(error, ContextKind::InvalidValue);
        let source = std::error::Error::source(error);
        if let Some(wrong) = source.and_then(|source| source.downcast_ref::<SyntaxError>()) {
            return Failure::from(wrong);
        }
        if let Some(unknown) = source.and_then(|source| source.downcast_ref::<UnknownNode>()) {
            return Failure::from(unknown);
        }
        if let Some(failure) = source.and_then(|source| source.downcast_ref::<Failure>()) {
            return failure.clone();
        }
        if let Some(unknown) = source.and_then(|source| source.downcast_ref::<UnknownName>()) {
            let hint = match unknown.nearest() {
                Some(meant) => format!("did you mean {option} {meant}?"),
                None => format!("e.g. {option} {}", unknown.known[0]),
            };
            return Failure::usage(format!("{option}: {unknown}")).hint(hint);
        }
        let known = context_text(error, ContextKind::ValidValue);
        if !known.is_empty() {
            let first = known.split(", ").next().unwrap_or_default();
            let suggested = context_text(error, ContextKind::SuggestedValue);
            let hint = if suggested.is_empty() {
                format!("e.g. {option} {first}")
            } else {
                format!("did you mean {option} {suggested}?")
            };
            let problem = format!("{option}: unknown value '{value}': expected {known}");
            return Failure::usage(problem).hint(hint);
        }
        let problem = match source {
            None => {
                return Failure::usage(format!("{option} requires a value")).hint(self.example());
            }
            Some(source) if source.is::<ParseIntError>() => "expected a whole number".to_owned(),
            Some(source) if source.is::<ParseFloatError>() => "expected a number".to_owned(),
            Some(source) => in_words(&source.to_string()),
        };
        Failure::usage(format!("{option} \"{value}\": {problem}")).hint(self.example())
    }
}

/// Returns clap's text for a number out of range in our words: `0 is not in 1..=64` becomes `expected 1 to 64`.
fn in_words(problem: &str) -> String {
    let Some((_, range)) = problem.split_once(" is not in ") else { return problem.to_owned() };
    match range.split_once("..") {
        Some((least, "")) => format!("expected at least {least}"),
        Some((least, most)) => {
            let most = most.trim_start_matches('=');
            // Without an upper bound, clap prints the maximum of the type.
            if most.len() >= u32::MAX.to_string().len() {
                format!("expected at least {least}")
            } else {
                format!("expected {least} to {most}")
            }
        }
        None => problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_before_a_command_are_refused_with_their_place() {
        let of = |words: &str| {
            let words: Vec<&str> = ["nodegauge"].into_iter().chain(words.split(' ')).collect();
            let definition = command();
            let matches = definition.clone().try_get_matches_from(words).unwrap();
            misplaced_option(&matches, &definition).map(|failure| failure.single_line())
        };
        let refused = of("--expect triad>=1GB/s stream").unwrap();
        assert_eq!(
            refused,
            "--expect has no effect before the command stream; give it after the command: nodegauge \
             stream --expect"
        );
        let of_device = of("device --no-save stream").unwrap();
        assert!(of_device.ends_with("nodegauge device stream --no-save"), "{of_device}");
        let unsupported = of("--budget 3 machine").unwrap();
        assert!(unsupported.contains("leave out --budget"), "{unsupported}");
        assert!(of("-q history list").is_some());
        for words in
            ["stream --no-save", "--color never stream", "--no-save", "--color never device stream"]
        {
            assert_eq!(of(words), None, "{words}");
        }
    }

    /// Returns the message and the hint of the failure for a command line.
    fn refused(line: &str) -> (String, String) {
        let words = CommandLine::parse("command", "", line).unwrap();
        let error = command().try_get_matches_from(words.words()).unwrap_err();
        let failure = failure(&error, words.words()).unwrap();
        (failure.message.clone(), failure.hint.unwrap_or_default())
    }

    #[test]
    fn wrong_usage_gets_a_corrected_command_line() {
        for (line, hint) in [
            ("nodegauge io FOLDER", "try nodegauge io --path FOLDER"),
            ("nodegauge stream 4", "try nodegauge stream --threads 4"),
            ("nodegauge explain 4", "try nodegauge explain --threads 4"),
            ("nodegauge mpi --np 2", "try nodegauge mpi --ranks 2"),
            ("nodegauge mpi --transport shm", "try nodegauge mpi --transport=shm"),
            ("nodegauge compare latest", "try nodegauge compare 'latest~1' latest"),
            ("nodegauge compare nps=1", "try nodegauge compare nps=1 latest"),
            ("nodegauge roofline --perf ./prog x", "try nodegauge roofline --perf -- ./prog x"),
            ("nodegauge history list -n 3", "try nodegauge history list --limit 3"),
            ("nodegauge stream -t4", "try nodegauge stream --threads 4"),
            ("nodegauge stream -n 2", "try nodegauge stream --ranks 2"),
            ("nodegauge io -o read", "try nodegauge io --operations read"),
            ("nodegauge report -o x.html", "try nodegauge report --output x.html"),
            ("nodegauge stream --thread 2", "try nodegauge stream --threads 2"),
            ("nodegauge fleet run", "e.g. nodegauge fleet run fleet"),
            ("nodegauge compute", "did you mean 'nodegauge compare'?"),
        ] {
            assert_eq!(refused(line).1, hint, "{line}");
        }
    }

    #[test]
    fn wrong_value_next_to_an_unexpected_word_is_reported() {
        for (line, message) in [
            ("mpi --transport rdma", "--transport: unknown transport 'rdma': expected shm, tcp"),
            ("io --bs 4k FOLDER", "sizes \"4k\": expected kB (powers of 1000) or KiB"),
            ("mpi rdma", "unexpected argument 'rdma'"),
            ("stream four", "unexpected argument 'four'"),
        ] {
            let refusal = refused(&format!("nodegauge {line}")).0;
            assert!(refusal.starts_with(message), "{line}: {refusal}");
        }
    }

    #[test]
    fn wrong_value_is_refused_with_its_option_and_the_expected_values() {
        for (line, message, hint) in [
            (
                "stream --samples 0",
                "--samples \"0\": expected 1 to 1000000",
                "e.g. nodegauge stream",
            ),
            ("hpl --order abc", "--order \"abc\": expected a whole number", "e.g. nodegauge hpl"),
            (
                "stream --pages 3k",
                "--pages: unknown kind of page '3k': expected auto, 4k, thp, 2m, 1g",
                "e.g. --pages auto",
            ),
            (
                "report --format htm",
                "--format: unknown value 'htm': expected html, md, text, csv, jsonl, junit, openmetrics, \
                 github-action-benchmark",
                "did you mean --format html?",
            ),
            (
                "stream --quiet --verbose",
                "--quiet cannot be used with --verbose",
                "leave out --quiet or --verbose",
            ),
        ] {
            let expected = (message.to_owned(), hint.to_owned());
            assert_eq!(refused(&format!("nodegauge {line}")), expected, "{line}");
        }
        assert_eq!(refused("nodegauge stream --kernels triadd").1, "did you mean --kernels triad?");
        assert_eq!(refused("nodegauge mpi --patterns latencyy").1, "did you mean latency?");
        assert_eq!(refused("nodegauge stream --sweep thread=1").1, "did you mean threads?");
    }
}
